"""The experiments of Hardwarsing 2018: batches, steps and passes of Laplace SGD.

Hardwarsing, "Stochastic Gradient Descent With Differentially Private Updates", 2018, after Song,
Chaudhuri & Sarwate 2013.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discreet_bench.experiment import (
    Claim,
    Experiment,
    Grid,
    Item,
    Panels,
    Pick,
    Plan,
    objective,
)

__all__ = ["ALPHA", "BATCHES", "EPSILON", "EXPERIMENTS", "PASSES", "REPEATS", "STEPS", "marks"]

PAPER = "Hardwarsing 2018"
EPSILON = 1.0
ALPHA = 1e-4
REPEATS = 20
BATCHES = (1, 2, 5, 10, 20, 50)
STEPS = (1.0, 10.0)
PASSES = (1, 2, 3, 5, 7, 10)
QUICK_REPEATS = 3
OTHER_EPSILONS = (0.3, 3.0, 10.0)
"""Budgets beside the paper's own, for the question that it leaves to future work."""

MNIST_ROWS = 60_000
KDD_ROWS = 50_000
BANKNOTE_ROWS = 1372
OCCUPANCY_ROWS = 8143
SPHERE_ROWS = 10_000
SMALL_ROWS = 2000
MNIST: Mapping[str, Grid] = {"mnist-zero": {"unit": [True], "columns": [15]}}
_KDD: Grid = {"unit": [True], "rows": [KDD_ROWS]}
KDD: Mapping[str, Grid] = {"kddcup99-continuous": {**_KDD, "columns": [9]}}
KDD_ALL: Mapping[str, Grid] = {"kddcup99-continuous": _KDD}
BANKNOTE: Mapping[str, Grid] = {"banknote": {"unit": [True]}}
OCCUPANCY: Mapping[str, Grid] = {"occupancy": {"unit": [True], "rows": [OCCUPANCY_ROWS]}}
SPHERE: Mapping[str, Grid] = {"sphere": {}}
SMALL: Mapping[str, Grid] = {"sphere": {"rows": [SMALL_ROWS]}}

CUT = "steps cut at 1/β"
"""Name of the lines whose steps are never longer than 1/β, as is the library's default."""

PROTOCOL = (
    Item("intercept", "none"),
    Item("row scaling", "each row divided by its norm, then columns drawn"),
    Item("penalty", "λ = 0.0001"),
    Item("ε", "1", also="0.3, 3 and 10, which the paper leaves to future work"),
    Item("repeats", "20 orders of the rows"),
    Item(
        "noise",
        "direction from the unit ball",
        "from the unit sphere",
        "from the ball the noise would not have the density that the proof needs",
    ),
    Item(
        "steps",
        "c/√t and 1/(λt) as they are",
        also="steps cut at 1/β, the library's default (figures 4, 5 and 6)",
    ),
)
_COLUMNS = Item("columns", "drawn at random once", "drawn anew for each order", "one draw is luck")

NOTES = (
    "A point of a curve is a run of its own on the first rows of a new order. Steps depend on the "
    "number of the update alone, so it has the distribution of a checkpoint of a longer run.",
)


def marks(most: int, count: int = 9) -> list[int]:
    """Numbers of updates to measure at: evenly spaced on a logarithmic axis, ``most`` last."""
    return [int(k) for k in np.unique(np.geomspace(min(10, most), most, count).round())]


def _objective(epsilons: Sequence[float] = (EPSILON,)) -> Grid:
    return objective(
        epsilons, 0.0, relation=("replace_one",), alpha=(ALPHA,), test="train", intercept=False
    )


def _plan(
    data: Mapping[str, Grid],
    repeats: int,
    epsilons: Sequence[float] = (EPSILON,),
    *,
    cut: bool = False,
    **setting: Any,
) -> Plan:
    """With and without noise, the same setting; single values are made lists."""
    grid = {
        "step_size": [1.0],
        "cut_steps": [cut],
        **{name: value if isinstance(value, list) else [value] for name, value in setting.items()},
    }
    solvers = {"laplace-sgd": grid, "plain-sgd": grid}
    difference = CUT if cut else ""
    return Plan(data, _objective(epsilons), solvers, repeats, difference=difference)


def _curves(
    data: Mapping[str, Grid],
    rows: int,
    batches: Sequence[int],
    repeats: int,
    count: int = 9,
    epsilons: Sequence[float] = (EPSILON,),
) -> tuple[Plan, ...]:
    """Return plans of checkpoints, one per batch size."""
    return tuple(
        _plan(data, repeats, epsilons, batch_size=size, updates=marks(rows // size, count))
        for size in batches
    )


def _ends(
    data: Mapping[str, Grid], rows: int, batches: Sequence[int], repeats: int
) -> tuple[Plan, ...]:
    """Return plans of the last checkpoint at the other budgets."""
    return tuple(
        _plan(data, repeats, OTHER_EPSILONS, batch_size=size, updates=[rows // size])
        for size in batches
    )


def _private(epsilon: float | None = None, **setting: Any) -> Pick:
    return Pick("laplace-sgd", "tight", setting, epsilon)


def _mini_batching(
    number: int, name: str, data: Mapping[str, Grid], rows: int, batches: Sequence[int], *more: Item
) -> Experiment:
    """Figures 1, 2, 3 and 9."""
    sizes = " and ".join(str(size) for size in batches)
    plans = _curves(data, rows, batches, REPEATS)
    large = batches[-1]
    claim = Claim(
        f"At ε = 1, noise once per batch of {large} rows ends at a lower objective than noise for "
        "every row.",
        _private(batch_size=large),
        (_private(batch_size=1),),
        "objective",
        epsilons=(EPSILON,),
    )
    return Experiment(
        name=f"sgd-fig{number}",
        title=f"Laplace SGD on {name}: batches of {sizes} rows, update by update",
        source=f"{PAPER}, figure {number}",
        question="Does noise once per batch, not once per row, close the gap to SGD without it?",
        plans=plans,
        quick=_curves(SMALL, SMALL_ROWS, batches, QUICK_REPEATS, count=5),
        paper=(*plans, *_ends(data, rows, batches, REPEATS)),
        panels=Panels(x="at", measures=("objective",), lines=("batch_size",)),
        protocol=(*PROTOCOL, *more),
        claims=(claim,),
        notes=NOTES,
    )


def _batch_sizes(number: int, name: str, data: Mapping[str, Grid], *more: Item) -> Experiment:
    """Figures 4 and 5."""
    grid: Any = {"batch_size": list(BATCHES), "step_size": list(STEPS)}
    plan = _plan(data, REPEATS, **grid)
    claims = (
        Claim(
            "With steps 1/√t, batches of 50 end at a higher objective than batches of 5.",
            _private(batch_size=5, step_size=1.0),
            (_private(batch_size=50, step_size=1.0),),
            "objective",
            epsilons=(EPSILON,),
        ),
        Claim(
            "Batches of 50 do better with steps 10/√t than with 1/√t.",
            _private(batch_size=50, step_size=10.0),
            (_private(batch_size=50, step_size=1.0),),
            "objective",
            epsilons=(EPSILON,),
        ),
    )
    return Experiment(
        name=f"sgd-fig{number}",
        title=f"Laplace SGD on {name}: which batch, and which steps",
        source=f"{PAPER}, figure {number}",
        question="After one pass, which batch size has the least objective, with steps c/√t?",
        plans=(plan,),
        quick=(_plan(SMALL, QUICK_REPEATS, batch_size=[1, 5, 50], step_size=list(STEPS)),),
        paper=(
            plan,
            _plan(data, REPEATS, OTHER_EPSILONS, **grid),
            _plan(data, REPEATS, cut=True, **grid),
        ),
        panels=Panels(x="batch_size", measures=("objective",), lines=("step_size",)),
        protocol=(*PROTOCOL, *more),
        claims=claims,
        notes=(
            "Without the cut, the first six steps of 10/√t are longer than 1/β, which is about 4.",
        ),
    )


def _several_passes(number: int, name: str, data: Mapping[str, Grid], *more: Item) -> Experiment:
    """Figures 7 and 8: each pass costs ε = 1, so ε counts the passes."""
    plans = tuple(
        _plan(data, REPEATS, (EPSILON * passes,), batch_size=1, passes=passes) for passes in PASSES
    )
    return Experiment(
        name=f"sgd-fig{number}",
        title=f"Laplace SGD on {name}: several passes, each at ε = 1",
        source=f"{PAPER}, figure {number}",
        question="How much do more passes help single-row SGD, if each is paid for anew?",
        plans=plans,
        quick=tuple(
            _plan(SMALL, QUICK_REPEATS, (EPSILON * passes,), batch_size=1, passes=passes)
            for passes in (1, 2, 10)
        ),
        paper=plans,
        panels=Panels(x="epsilon", measures=("objective",), log_x=False),
        protocol=(*PROTOCOL, *more),
        claims=(
            Claim(
                "Ten passes at ε = 1 each end at a lower objective than one pass.",
                _private(10.0, passes=10),
                (_private(1.0),),
                "objective",
            ),
        ),
        notes=(
            "p passes have ε = p, so the axis counts passes. The paper draws 1, 2 and 10 passes "
            "over updates; steps go on shrinking from pass to pass, so these are one curve, of "
            "which the ends of passes are shown.",
        ),
    )


def _schedules() -> Experiment:
    """Figure 6."""
    grid: Any = {"batch_size": 5, "schedule": ["sqrt", "strong"]}
    plan = _plan(SPHERE, REPEATS, **grid, updates=marks(SPHERE_ROWS // 5))
    last = [SPHERE_ROWS // 5]
    return Experiment(
        name="sgd-fig6",
        title="Laplace SGD on a sphere: steps 1/√t against 1/(λt)",
        source=f"{PAPER}, figure 6",
        question=(
            "Are the steps that suit strong convexity any good when λ is tiny and there is noise?"
        ),
        plans=(plan,),
        quick=(_plan(SMALL, QUICK_REPEATS, **grid, updates=marks(SMALL_ROWS // 5, 5)),),
        paper=(
            plan,
            _plan(SPHERE, REPEATS, OTHER_EPSILONS, **grid, updates=last),
            _plan(SPHERE, REPEATS, cut=True, **grid, updates=marks(SPHERE_ROWS // 5)),
        ),
        panels=Panels(x="at", measures=("objective",), lines=("schedule",)),
        protocol=PROTOCOL,
        claims=(
            Claim(
                "At ε = 1, steps 1/√t end at a lower objective than steps 1/(λt).",
                _private(),
                (_private(schedule="strong"),),
                "objective",
                epsilons=(EPSILON,),
            ),
        ),
        notes=(
            "With λ = 1e-4 and 2,000 updates, 1/(λt) is 10,000 at first and longer than 1/β, about "
            "4, all the way: the lines with cut steps have constant steps of 1/β.",
            *NOTES,
        ),
    )


_BANKNOTE = Item("rows", "1,327 × 5", "1,372 × 4", "the file's own; the paper counts the class")

EXPERIMENTS: tuple[Experiment, ...] = (
    _mini_batching(1, "MNIST", MNIST, MNIST_ROWS, (1, 10), _COLUMNS),
    _mini_batching(2, "KDD Cup 99", KDD, KDD_ROWS, (1, 5), _COLUMNS),
    _mini_batching(3, "banknotes", BANKNOTE, BANKNOTE_ROWS, (1, 10), _BANKNOTE),
    _batch_sizes(4, "MNIST", MNIST, _COLUMNS),
    _batch_sizes(5, "occupancy", OCCUPANCY),
    _schedules(),
    _several_passes(7, "MNIST", MNIST, _COLUMNS),
    _several_passes(8, "occupancy", OCCUPANCY),
    _mini_batching(9, "KDD Cup 99 with all columns", KDD_ALL, KDD_ROWS, (1, 10)),
)
"""In the order of the paper."""
