"""An experiment: what to run, and how to show it.

An experiment is a few plans. A plan is a product, which benchopt runs: data sets × objectives ×
solvers × repeats. Names of data sets and solvers are those of the files in
``benchmarks/private_erm``; their parameters are given as lists of values to try.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Experiment", "Panels", "Plan"]

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
        ``"grid"`` if the settings are a grid of which a reader is meant to take the best: what is
        shown of it is marked as tuned with hindsight, which is not private.
    """

    data: Mapping[str, Grid]
    objective: Grid
    solvers: Mapping[str, Grid]
    repeats: int
    tuning: Literal["default", "grid"] = "default"


@dataclass(frozen=True)
class Panels:
    """How an experiment is drawn: one panel a data set and measure.

    Attributes
    ----------
    x
        A column of the runs, or a solver's parameter: ``"epsilon"``, ``"at"``, ``"splits"``.
    measures
        Columns of the runs, a row of panels each.
    log_x, log_y
        Scales.
    lines
        What makes a line besides the method: parameters or columns.
    """

    x: str = "epsilon"
    measures: tuple[str, ...] = ("accuracy",)
    log_x: bool = True
    log_y: bool = False
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper, or of ours.

    Attributes
    ----------
    name
        Such as ``"dpagd-fig2"``.
    title
        What it shows, in a line.
    source
        Paper and figure or table.
    question
        What it asks, in plain words.
    plans
        The paper's own settings.
    quick
        The same in small: at most two minutes on two cores, with generated data among it.
    panels
        How it is drawn.
    notes
        What differs from the paper, and why.
    """

    name: str
    title: str
    source: str
    question: str
    plans: tuple[Plan, ...]
    quick: tuple[Plan, ...]
    panels: Panels = field(default_factory=Panels)
    notes: tuple[str, ...] = ()
