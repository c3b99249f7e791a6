"""Experiments as data: which runs to make, and how to show them.

An experiment is a few plans. A plan is a product that benchopt runs: data sets × objectives ×
solvers × repeats. Parameters are given as lists of values to try.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "BOTH",
    "MEDIUM_REPEATS",
    "SMALL_ADULT",
    "SMALL_H",
    "SMALL_L",
    "Experiment",
    "Grid",
    "Panels",
    "Plan",
    "coarse",
    "each",
    "objective",
    "sgd_family",
]

Grid = Mapping[str, Sequence[Any]]
"""Parameters, each with the values to try."""


@dataclass(frozen=True)
class Plan:
    """A product of data sets, objectives, solvers and repeats.

    Attributes
    ----------
    data
        Data sets, each with parameters: ``{"kddcup99": {"rows": [70_000]}, "adult": {}}``.
    objective
        Parameters of the objective: epsilon, delta, relation, loss, alpha, rows, intercept, and
        test (which rows are tested on: "80/20", "5-fold" or "train").
    solvers
        Solvers, each with parameters: ``{"agd": {"splits": [20, 60]}, "amp-hf": {}}``. One solver
        twice needs two plans.
    repeats
        Number of splits, each with fresh noise.
    tuning
        ``"grid"`` if the settings are a grid of which the best is shown, marked as tuned with
        hindsight, which is not private.
    """

    data: Mapping[str, Grid]
    objective: Grid
    solvers: Mapping[str, Grid]
    repeats: int
    tuning: Literal["default", "grid"] = "default"


@dataclass(frozen=True)
class Panels:
    """Layout of an experiment's figure: one panel per data set and measure.

    Attributes
    ----------
    x
        A column of the runs, or a solver's parameter: ``"epsilon"``, ``"at"``, ``"splits"``.
    measures
        Columns of the runs, one row of panels each.
    log_x, log_y
        Scales.
    lines
        Parameters or columns that make a line besides the method.
    """

    x: str = "epsilon"
    measures: tuple[str, ...] = ("accuracy",)
    log_x: bool = True
    log_y: bool = False
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper, or of this library.

    Attributes
    ----------
    name
        Such as ``"dpagd-fig2"``.
    title
        Its content in a line.
    source
        Paper and figure or table.
    question
        The question it answers.
    plans
        The paper's own settings.
    quick
        A small form: at most two minutes on two cores, with generated data among its data sets.
    panels
        Layout of its figure.
    notes
        Differences from the paper, with reasons.
    medium
        A form that can be run: all methods and all data sets, at least five repeats, four ε where
        ε is not fixed, and coarse grids (`coarse`). All of them take an hour or two on one core.
    """

    name: str
    title: str
    source: str
    question: str
    plans: tuple[Plan, ...]
    quick: tuple[Plan, ...]
    panels: Panels = field(default_factory=Panels)
    notes: tuple[str, ...] = ()
    medium: tuple[Plan, ...] = ()


BOTH = ("tight", "published")
"""Calibrations: the least noise that a sound accountant allows, and the paper's own constants."""

SMALL_L: Mapping[str, Grid] = {"synthetic-l": {"rows": [3000], "features": [20]}}
SMALL_H: Mapping[str, Grid] = {"synthetic-h": {"rows": [400], "features": [400]}}
SMALL_ADULT: Mapping[str, Grid] = {"adult": {"rows": [4000]}}
"""Data sets of the quick forms. Adult is skipped where its files are missing."""

MEDIUM_REPEATS = 5
"""Splits of the medium forms, except where a paper's own number is as cheap."""


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
    """Return the parameters of the objective, all of them spelt out."""
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
    """Give several solvers the same parameters."""
    return {name: dict(parameters) for name in solvers}


def coarse(grid: Mapping[str, Mapping[str, Sequence[Any]]], axes: int = 2) -> list[dict[str, Grid]]:
    """Choose a few settings from grids: the middle, and the ends of the first axes, one at a time.

    Parameters
    ----------
    grid : mapping
        For each solver its parameters with all values of the grid, in order; the most important
        parameters first. Of an even number of values the lower of the two in the middle counts.
    axes : int
        Parameters with several values that are varied; the others stay in the middle.

    Returns
    -------
    list of dict
        Solvers of as many plans as there are axes: in the first plan the first axis has its ends
        and its middle, in the others an axis has its ends.
    """
    found: list[dict[str, Grid]] = [{} for _ in range(axes)]
    for solver, parameters in grid.items():
        middle = {name: [values[(len(values) - 1) // 2]] for name, values in parameters.items()}
        varied = [name for name, values in parameters.items() if len(values) > 1][:axes]
        for place, name in enumerate(varied):
            values = parameters[name]
            tried = {values[0]: None, middle[name][0]: None, values[-1]: None}
            if place:
                del tried[middle[name][0]]
            found[place][solver] = {**middle, name: list(tried)}
    return [solvers for solvers in found if solvers]


def sgd_family(
    published: Sequence[str], calibrations: Sequence[str] = BOTH, **parameters: Sequence[Any]
) -> dict[str, Grid]:
    """Return SGD once with the tight calibration, and once per paper with published constants.

    The three papers' methods differ in nothing but their published noise.
    """
    found: dict[str, Grid] = {}
    if "published" in calibrations:
        found |= {name: {"calibration": ["published"], **parameters} for name in published}
    if "tight" in calibrations:
        both = ["tight", "published"] if "sgd" in found else ["tight"]
        found["sgd"] = {"calibration": both, **parameters}
    return found
