"""Solvers by name."""

from __future__ import annotations

import difflib

from discreet.solvers.agd import AGD
from discreet.solvers.base import Solver

__all__ = ["names", "resolve"]

_SOLVERS: dict[str, type[Solver]] = {AGD.name: AGD}
_AUTO = AGD.name


def names() -> list[str]:
    """Every solver's name, ``"auto"`` first."""
    return ["auto", *sorted(_SOLVERS)]


def resolve(solver: str | Solver) -> Solver:
    """The solver object for a name (``"auto"`` is the library's choice) or for itself."""
    if isinstance(solver, Solver):
        return solver
    if isinstance(solver, str):
        name = _AUTO if solver == "auto" else solver
        if name in _SOLVERS:
            return _SOLVERS[name]()
    near = difflib.get_close_matches(str(solver), names(), n=len(names()), cutoff=0.0)
    raise ValueError(
        f"unknown solver {solver!r}. Known (nearest first): {', '.join(near)}; "
        "or pass a solver object such as AGD(gamma=0.2)."
    )
