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
    "CELL_SECONDS",
    "SAME",
    "SMALL_ADULT",
    "SMALL_H",
    "SMALL_L",
    "Claim",
    "Experiment",
    "Grid",
    "Item",
    "Panels",
    "Pick",
    "Plan",
    "Rate",
    "each",
    "objective",
    "repeats_item",
    "sgd_family",
]

CELL_SECONDS = 20.0
"""Processor seconds that the repeats of one cell (a method, data set and ε) may take in the paper
form, unless an experiment states another number: 20 repeats of a fit that takes a second."""

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
    difference
        Name of the difference from the paper's protocol, such as ``"with intercept"``; its runs
        are further lines of the same table. Empty for the protocol itself.
    """

    data: Mapping[str, Grid]
    objective: Grid
    solvers: Mapping[str, Grid]
    repeats: int
    tuning: Literal["default", "grid"] = "default"
    difference: str = ""

    @property
    def open(self) -> bool:
        """True if solvers and data sets of others join it: no grid, and the paper's protocol."""
        return self.tuning == "default" and not self.difference


SAME = "the same"
"""Value of `Item.here` where the experiment follows the paper."""


@dataclass(frozen=True)
class Item:
    """One item of a protocol: what the paper does, what is done here, and why it differs.

    Attributes
    ----------
    name
        Such as ``"intercept"`` or ``"rows"``.
    paper
        What the paper has.
    here
        What is run, `SAME` if that is the same.
    why
        The reason for a difference: soundness, missing data, or processor time.
    also
        What further lines of the same table have.
    """

    name: str
    paper: str
    here: str = SAME
    why: str = ""
    also: str = ""

    @property
    def differs(self) -> bool:
        """True if the experiment departs from the paper here."""
        return self.here != SAME


@dataclass(frozen=True)
class Pick:
    """Lines of an experiment that a claim is about.

    Attributes
    ----------
    method
        As in `discreet_bench.lines.METHODS`.
    calibration
        ``"published"``, ``"tight"``, or empty where a method has none.
    setting
        Parameters of the solver that must have these values.
    epsilon
        The budget, where a claim compares different ones.
    tuning
        ``"grid"`` for the best setting of a grid.
    """

    method: str
    calibration: str = ""
    setting: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float | None = None
    tuning: str = "default"


@dataclass(frozen=True)
class Claim:
    """A statement of the paper that runs can decide: one line is better than others.

    Attributes
    ----------
    text
        The statement, in a sentence.
    better, than
        The line that is said to be better, and the lines that it is compared with.
    measure
        A column of the runs.
    data
        Data sets that it is about, without their cut; all of the experiment if there are none.
    epsilons
        Budgets that it is about; all if there are none.
    """

    text: str
    better: Pick
    than: tuple[Pick, ...]
    measure: str = "accuracy"
    data: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = ()


@dataclass(frozen=True)
class Rate:
    """A rate of a theorem: a measure goes with a power of the number of rows or of columns.

    Attributes
    ----------
    text
        The statement, in a sentence.
    pick
        The line that it is about.
    x
        ``"n"`` or ``"d"``.
    power
        The power of the theorem.
    alpha
        Penalty of the objective.
    measure
        A column of the runs.
    """

    text: str
    pick: Pick
    x: Literal["n", "d"]
    power: float
    alpha: float
    measure: str = "excess_objective"


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
    paper
        The form that is kept in the repository: the paper's rows, budgets and repeats without its
        grid of hyper-parameters, unless the paper's table is about that. Repeats are what
        `discreet_bench.effort.affordable` leaves of them.
    cell_seconds
        Processor seconds that the repeats of one cell may take in the paper form.
    protocol
        The paper's protocol item by item, and where this experiment departs from it.
    claims
        Statements of the paper that the runs decide.
    rates
        Rates of its theorems.
    notes
        What else a reader has to know.
    """

    name: str
    title: str
    source: str
    question: str
    plans: tuple[Plan, ...]
    quick: tuple[Plan, ...]
    panels: Panels = field(default_factory=Panels)
    notes: tuple[str, ...] = ()
    paper: tuple[Plan, ...] = ()
    protocol: tuple[Item, ...] = ()
    claims: tuple[Claim, ...] = ()
    rates: tuple[Rate, ...] = ()
    cell_seconds: float = CELL_SECONDS

    def form(self, name: str) -> tuple[Plan, ...]:
        """Return the plans of a form: ``"quick"``, ``"paper"`` or ``"full"``."""
        return {"quick": self.quick, "paper": self.paper}.get(name, self.plans)


BOTH = ("tight", "published")
"""Calibrations: the least noise that a sound accountant allows, and the paper's own constants."""

SMALL_L: Mapping[str, Grid] = {"synthetic-l": {"rows": [3000], "features": [20]}}
SMALL_H: Mapping[str, Grid] = {"synthetic-h": {"rows": [400], "features": [400]}}
SMALL_ADULT: Mapping[str, Grid] = {"adult": {"rows": [4000]}}
"""Data sets of the quick forms. Adult is skipped where its files are missing."""


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


def repeats_item(
    paper: str, most: int, cell_seconds: float = CELL_SECONDS, why: str = "processor time"
) -> Item:
    """Return the difference in repeats of the paper form."""
    seconds = "second" if cell_seconds == 1 else "seconds"
    here = f"{most}, or what {cell_seconds:g} processor {seconds} per cell allow, at least 3"
    return Item("repeats", paper, here, why)


def each(solvers: Iterable[str], **parameters: Sequence[Any]) -> dict[str, Grid]:
    """Give several solvers the same parameters."""
    return {name: dict(parameters) for name in solvers}


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
