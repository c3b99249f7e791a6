"""Solvers: optimisers that ask a curator and never see a row; all of them by name.

A solver holds settings, a plan and a loop. Computations on exact rows, and their proofs, are in
`discreet.exact`. A package adds a solver with an entry point in the group ``discreet.solvers`` that
names a subclass of `Solver`::

    [project.entry-points."discreet.solvers"]
    my-method = "my_package:MyMethod"
"""

from __future__ import annotations

import dataclasses
import difflib
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar

from discreet.accounting.budget import Measure
from discreet.core import Budget
from discreet.errors import NotSupported
from discreet.objectives import Problem
from discreet.papers.agd import AGD
from discreet.papers.amp import AMP, AMPHF
from discreet.papers.frank_wolfe import FrankWolfe
from discreet.papers.laplace_sgd import LaplaceSGD
from discreet.papers.objpert import ObjPert
from discreet.papers.permutation_sgd import PermutationSGD
from discreet.papers.privgene import PrivGene
from discreet.papers.sgd import SGD
from discreet.papers.smooth_objectives import RRPSGD, OutPert
from discreet.solvers.base import (
    Plan,
    Progress,
    Recorder,
    Solution,
    Solver,
    TraceEntry,
    part_of,
    true_budget,
)
from discreet.solvers.baselines import Majority, NonPrivate
from discreet.solvers.gd import GD
from discreet.solvers.newton import Newton
from discreet.solvers.shrunk_gd import ShrunkGD

__all__ = [
    "AGD", "AMP", "AMPHF", "AUTO", "GD", "RRPSGD", "SGD", "Auto", "Description", "FrankWolfe",
    "LaplaceSGD", "Majority", "Newton", "NonPrivate", "ObjPert", "OutPert", "PermutationSGD",
    "Plan", "PrivGene", "Progress", "Recorder", "ShrunkGD", "Solution", "Solver", "TraceEntry",
    "describe", "names", "part_of", "resolve", "true_budget",
]  # fmt: skip

GROUP = "discreet.solvers"  # the entry point group that third parties register in
AUTO = "auto"  # name of the rule that estimators apply once they know the size of the table

_SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        *(AGD, AMP, AMPHF, FrankWolfe, GD, LaplaceSGD, Majority, Newton, NonPrivate, ObjPert),
        *(OutPert, PermutationSGD, PrivGene, RRPSGD, SGD, ShrunkGD),
    )
}

# Names of the literature for settings of a solver.
_ALIASES = {"sgd-adv": SGD(published="bassily"), "sgd-ma": SGD(published="abadi")}


@dataclasses.dataclass(frozen=True)
class Auto(Solver):
    """Chooses a preparation and one of gd, shrunk-gd and newton from public numbers alone.

    A placeholder without a method of its own: estimators replace it once they know the size of the
    table. What it declares holds for every choice.
    """

    name: ClassVar[str] = AUTO
    paper: ClassVar[str] = "this library: docs/auto.md"
    demands: ClassVar[tuple[str, ...]] = (
        "the choice depends on the size of the table, the loss, the budget and other settings",
    )
    needs_delta: ClassVar[bool] = True
    takes_outputs: ClassVar[bool] = True
    takes_transformed_rows: ClassVar[bool] = True
    takes_units: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    composes: ClassVar[tuple[Measure, ...]] = ("gdp",)

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> Plan:
        raise NotSupported(
            "solver='auto' is a rule of estimators, not a solver. Pass it to an estimator, or "
            "resolve a solver such as 'gd'."
        )


@dataclasses.dataclass(frozen=True)
class Description:
    """Description of a solver, as text and numbers; ``print`` it to read it."""

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
        settings = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        relations = ", ".join(self.relations)
        if len(self.relations) > 1 and self.private:
            relations += f" (the paper's own is {self.relations[0]})"
        lines = [
            f"{self.name}: {self.summary}",
            f"  paper: {self.paper}",
            f"  private: {'yes' if self.private else 'NO (a baseline)'}",
            f"  relations: {relations}",
            f"  budgets: {self.budgets}",
            f"  losses: {self.losses}",
            *(f"  condition: {condition}" for condition in self.conditions),
            f"  parameters: {settings or 'none'}",
        ]
        if self.package != "discreet":
            lines.append(f"  from the package {self.package}")
        return "\n".join(lines)


def names() -> list[str]:
    """Return all names of solvers, ``"auto"`` first; those of installed packages included."""
    return [AUTO, *sorted({*_SOLVERS, *_ALIASES, *_third_party()})]


def resolve(solver: str | Solver) -> Solver:
    """Return the solver of a name (`Auto`, for estimators, if ``"auto"``), or the object itself."""
    if isinstance(solver, Solver):
        return solver
    if solver == AUTO:
        return Auto()
    if isinstance(solver, str):
        if solver in _ALIASES:
            return _ALIASES[solver]
        if solver in _SOLVERS:
            return _SOLVERS[solver]()
        if solver in (found := _third_party()):
            return _load(found[solver])()
    near = difflib.get_close_matches(str(solver), names(), n=len(names()), cutoff=0.0)
    raise ValueError(
        f"unknown solver {solver!r}. Known (nearest first): {', '.join(near)}; "
        "or pass a solver object such as AGD(gamma=0.2)."
    )


def describe(name: str) -> Description:
    """Describe the solver of that name: paper, relations, losses, conditions, parameters."""
    solver = resolve(name)
    summary = (solver.__doc__ or "").strip().split("\n", 1)[0]
    if name in _ALIASES:
        summary = f"Alias of {solver.name} with published={_ALIASES[name].published!r}."
    needs = (
        (solver.needs_smooth_loss, "smooth"),
        (solver.needs_convex_loss, "convex"),
        (solver.needs_row_bound, "of bounded slope, on rows of bounded norm (data_norm)"),
    )
    entry = _third_party().get(name)
    package = "discreet"
    if entry is not None:
        package = entry.dist.name if entry.dist is not None else entry.value
    return Description(
        name=name,
        summary=summary,
        paper=solver.paper,
        private=solver.private,
        relations=tuple(str(relation) for relation in solver.relations),
        budgets="delta > 0" if solver.needs_delta else "any; delta=0 is pure",
        losses=", ".join(text for needed, text in needs if needed) or "any",
        conditions=solver.demands,
        parameters=dict(vars(solver)),
        package=package,
    )


def _third_party() -> dict[str, EntryPoint]:
    """Return entry points of installed packages; names of the library's own cannot be taken."""
    own = {AUTO, *_SOLVERS, *_ALIASES}
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in own}


def _load(entry: EntryPoint) -> type[Solver]:
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"the solver {entry.name!r} is registered as {entry.value}, which cannot be imported: "
            f"{error}"
        ) from error
    if not (
        isinstance(loaded, type)
        and issubclass(loaded, Solver)
        and dataclasses.is_dataclass(loaded)
        and getattr(loaded, "name", None) == entry.name
    ):
        raise TypeError(
            f"the entry point {entry.name!r} ({entry.value}) must name a dataclass that is a "
            f"subclass of discreet.solvers.Solver and has the name {entry.name!r}; got {loaded!r}."
        )
    return loaded
