"""Solvers by name: the library's own, and those of installed packages.

A package adds a solver with an entry point in the group ``discreet.solvers`` that names a subclass
of `Solver`::

    [project.entry-points."discreet.solvers"]
    my-method = "my_package:MyMethod"
"""

from __future__ import annotations

import dataclasses
import difflib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from discreet.solvers.agd import AGD
from discreet.solvers.amp import AMP, AMPHF
from discreet.solvers.base import Solver
from discreet.solvers.frank_wolfe import FrankWolfe
from discreet.solvers.gd import GD
from discreet.solvers.laplace_sgd import LaplaceSGD
from discreet.solvers.majority import Majority
from discreet.solvers.newton import Newton
from discreet.solvers.nonprivate import NonPrivate
from discreet.solvers.objpert import ObjPert
from discreet.solvers.outpert import OutPert
from discreet.solvers.permutation_sgd import PermutationSGD
from discreet.solvers.privgene import PrivGene
from discreet.solvers.rrpsgd import RRPSGD
from discreet.solvers.sgd import SGD
from discreet.solvers.sgd_adv import SGDAdv
from discreet.solvers.sgd_ma import SGDMA
from discreet.solvers.shrunk_gd import ShrunkGD

__all__ = ["Description", "describe", "names", "resolve"]

GROUP = "discreet.solvers"
"""The entry point group that third parties register in."""

_SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        AGD,
        AMP,
        AMPHF,
        FrankWolfe,
        GD,
        LaplaceSGD,
        Majority,
        Newton,
        NonPrivate,
        ObjPert,
        OutPert,
        PermutationSGD,
        PrivGene,
        RRPSGD,
        SGD,
        SGDAdv,
        SGDMA,
        ShrunkGD,
    )
}
_AUTO = GD.name


@dataclasses.dataclass(frozen=True)
class Description:
    """What a solver is and needs; ``print`` it for a readable text.

    Attributes
    ----------
    name, summary, paper
        What it is called, what it does in a sentence, and where it comes from.
    private
        Whether it gives any privacy at all.
    relations
        The relations it can be accounted under; the first is that of the paper's proof.
    budgets
        Which budgets it takes, in words.
    losses
        What it needs of a loss, in words.
    conditions
        What its proof needs beyond that.
    parameters
        Its settings and their defaults.
    package
        The distribution that provides it.
    """

    name: str
    summary: str
    paper: str
    private: bool
    relations: tuple[str, ...]
    budgets: str
    losses: str
    conditions: tuple[str, ...]
    parameters: dict[str, Any]
    package: str = "discreet"

    def __str__(self) -> str:
        """A paragraph for a person."""
        settings = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        lines = [
            f"{self.name}: {self.summary}",
            f"  paper: {self.paper}",
            f"  private: {'yes' if self.private else 'NO (a baseline)'}",
            f"  relations: {self._relations()}",
            f"  budgets: {self.budgets}",
            f"  losses: {self.losses}",
            *(f"  condition: {condition}" for condition in self.conditions),
            f"  parameters: {settings or 'none'}",
        ]
        if self.package != "discreet":
            lines.append(f"  from the package {self.package}")
        return "\n".join(lines)

    def _relations(self) -> str:
        if len(self.relations) == 1 or not self.private:
            return ", ".join(self.relations)
        return f"{', '.join(self.relations)} (the paper's own is {self.relations[0]})"


def names() -> list[str]:
    """Every solver's name, ``"auto"`` first; installed packages' solvers included."""
    return ["auto", *sorted({*_SOLVERS, *_third_party()})]


def resolve(solver: str | Solver) -> Solver:
    """The solver object for a name (``"auto"`` is the library's choice) or for itself."""
    if isinstance(solver, Solver):
        return solver
    if isinstance(solver, str) and (solver == "auto" or solver in _SOLVERS or solver in names()):
        return _class_of(solver)()
    near = difflib.get_close_matches(str(solver), names(), n=len(names()), cutoff=0.0)
    raise ValueError(
        f"unknown solver {solver!r}. Known (nearest first): {', '.join(near)}; "
        "or pass a solver object such as AGD(gamma=0.2)."
    )


def describe(name: str) -> Description:
    """Say what the solver of that name is: paper, relations, losses, conditions, parameters."""
    solver = type(resolve(name))
    entry = _third_party().get(name)
    package = "discreet"
    if entry is not None:
        package = entry.dist.name if entry.dist is not None else entry.value
    return Description(
        name=solver.name,
        summary=(solver.__doc__ or "").strip().split("\n", 1)[0],
        paper=solver.paper,
        private=solver.private,
        relations=tuple(str(relation) for relation in solver.relations),
        budgets="delta > 0" if solver.needs_delta else "any; delta=0 is pure",
        losses=_losses(solver),
        conditions=solver.demands,
        parameters={field.name: field.default for field in dataclasses.fields(solver)},  # type: ignore[arg-type]
        package=package,
    )


def _losses(solver: type[Solver]) -> str:
    needs = [
        word
        for word, needed in (
            ("smooth", solver.needs_smooth_loss),
            ("convex", solver.needs_convex_loss),
            ("of bounded slope, on rows of bounded norm (data_norm)", solver.needs_row_bound),
        )
        if needed
    ]
    return ", ".join(needs) if needs else "any"


def _third_party() -> dict[str, EntryPoint]:
    """Entry points of installed packages; a name of the library's own cannot be taken."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    return {name: entry for name, entry in found.items() if name not in _SOLVERS | {"auto": AGD}}


def _class_of(name: str) -> type[Solver]:
    name = _AUTO if name == "auto" else name
    if name in _SOLVERS:
        return _SOLVERS[name]
    entry = _third_party()[name]
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"the solver {name!r} is registered as {entry.value}, which cannot be imported: {error}"
        ) from error
    if not (
        isinstance(loaded, type)
        and issubclass(loaded, Solver)
        and dataclasses.is_dataclass(loaded)
        and getattr(loaded, "name", None) == name
    ):
        raise TypeError(
            f"the entry point {name!r} ({entry.value}) must name a dataclass that is a subclass "
            f"of discreet.solvers.Solver and has the name {name!r}; got {loaded!r}."
        )
    return loaded
