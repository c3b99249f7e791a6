"""What several experiments share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from discreet_bench.experiment import Grid

__all__ = ["BOTH", "SMALL_ADULT", "SMALL_H", "SMALL_L", "each", "objective"]

BOTH = ("tight", "published")
"""Calibrations: the least noise that a sound accountant allows, and the paper's own constants."""

SMALL_L: Mapping[str, Grid] = {"synthetic-l": {"rows": [3000], "features": [20]}}
SMALL_H: Mapping[str, Grid] = {"synthetic-h": {"rows": [400], "features": [400]}}
SMALL_ADULT: Mapping[str, Grid] = {"adult": {"rows": [4000]}}
"""What quick forms run on. Generated data are always among it; Adult is skipped where it is not
on the machine."""


def objective(
    epsilon: Sequence[float],
    delta: float | str,
    *,
    relation: Sequence[str],
    loss: str = "logistic",
    alpha: Sequence[float] = (1e-4,),
    test: str = "80/20",
    rows: str = "encoded",
    intercept: bool = True,
) -> Grid:
    """Parameters of the objective, all of them spelt out."""
    return {
        "epsilon": list(epsilon),
        "delta": [delta],
        "relation": list(relation),
        "loss": [loss],
        "alpha": list(alpha),
        "test": [test],
        "rows": [rows],
        "intercept": [intercept],
    }


def each(solvers: Iterable[str], **parameters: Sequence[Any]) -> dict[str, Grid]:
    """The same parameters for several solvers."""
    return {name: dict(parameters) for name in solvers}
