"""The experiments of Hardwarsing 2018: batches, steps and passes of Laplace SGD.

Hardwarsing, "Stochastic Gradient Descent With Differentially Private Updates", 2018, after Song,
Chaudhuri & Sarwate 2013.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discreet_bench.experiment import (
    MEDIUM_REPEATS,
    Experiment,
    Grid,
    Panels,
    Plan,
    objective,
)

__all__ = ["ALPHA", "BATCHES", "EPSILON", "EXPERIMENTS", "PASSES", "REPEATS", "STEPS", "marks"]

PAPER = "Hardwarsing 2018"
EPSILON, ALPHA, REPEATS = 1.0, 1e-4, 20
BATCHES = (1, 2, 5, 10, 20, 50)
STEPS = (1.0, 10.0)
PASSES = (1, 2, 3, 5, 7, 10)
QUICK_REPEATS = 3
MEDIUM_EPSILONS = (0.3, 1.0, 3.0, 10.0)
"""The paper has ε = 1 only."""
MEDIUM_PASSES = (1, 2, 5, 10)

MNIST_ROWS, KDD_ROWS, BANKNOTE_ROWS, OCCUPANCY_ROWS = 60_000, 50_000, 1372, 8143
MNIST: Mapping[str, Grid] = {"mnist-zero": {"unit": [True], "columns": [15]}}
_KDD: Grid = {"unit": [True], "rows": [KDD_ROWS]}
KDD: Mapping[str, Grid] = {"kddcup99-continuous": {**_KDD, "columns": [9]}}
KDD_ALL: Mapping[str, Grid] = {"kddcup99-continuous": _KDD}
BANKNOTE: Mapping[str, Grid] = {"banknote": {"unit": [True]}}
OCCUPANCY: Mapping[str, Grid] = {"occupancy": {"unit": [True], "rows": [OCCUPANCY_ROWS]}}
MEDIUM_ROWS = 20_000
"""Rows of MNIST and KDD Cup 99 in the medium form."""
SPHERE: Mapping[str, Grid] = {"sphere": {}}
SPHERE_ROWS, SMALL_ROWS = 10_000, 2000
SMALL: Mapping[str, Grid] = {"sphere": {"rows": [SMALL_ROWS]}}

NOTES = (
    "Steps are never longer than 1/β, which is about 4 on rows of norm 1: longer ones can make "
    "weights grow without bound. 10/√t is cut in its first six steps, 1/(λt) in its first 2,500.",
    "The length of the noise is drawn as in the paper, its direction from the sphere: from the "
    "ball, as the paper's Algorithm 1 has it, the noise would not have the density that its proof "
    "needs.",
    "A point of a curve is a run of its own on the first rows of a new order. Steps depend on the "
    "number of the update alone, so it has the distribution of a look at a longer run.",
    "The medium form has ε = 0.3, 3 and 10 besides the paper's 1, five repeats, fewer points "
    "and 20,000 rows of MNIST and KDD Cup 99. The method has a proof for replace-one only.",
)


def marks(most: int, count: int = 9) -> list[int]:
    """Numbers of updates to look at: about evenly spaced on a logarithmic axis, ``most`` last."""
    return [int(k) for k in np.unique(np.geomspace(min(10, most), most, count).round())]


def _objective(epsilons: Sequence[float] = (EPSILON,)) -> Grid:
    return objective(
        epsilons, 0.0, relation=("replace_one",), alpha=(ALPHA,), test="train", intercept=False
    )


def _plan(
    data: Mapping[str, Grid],
    repeats: int,
    epsilons: Sequence[float] = (EPSILON,),
    **setting: Any,
) -> Plan:
    """With and without noise, the same setting; single values are made lists."""
    grid = {
        "step_size": [1.0],
        **{name: value if isinstance(value, list) else [value] for name, value in setting.items()},
    }
    solvers = {"laplace-sgd": grid, "plain-sgd": grid}
    return Plan(data, _objective(epsilons), solvers, repeats)


def _cut(data: Mapping[str, Grid]) -> dict[str, Grid]:
    """Cut data sets to the rows of the medium form, unless they are smaller."""
    large = ("mnist-zero", "kddcup99-continuous")
    return {
        name: {**grid, "rows": [MEDIUM_ROWS]} if name in large else grid
        for name, grid in data.items()
    }


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


def _mini_batching(
    number: int, name: str, data: Mapping[str, Grid], rows: int, batches: Sequence[int], *notes: str
) -> Experiment:
    """Figures 1, 2, 3 and 9."""
    sizes = " and ".join(str(size) for size in batches)
    return Experiment(
        name=f"sgd-fig{number}",
        title=f"Laplace SGD on {name}: batches of {sizes} rows, update by update",
        source=f"{PAPER}, figure {number}",
        question="Does noise once per batch, not once per row, close the gap to SGD without it?",
        plans=_curves(data, rows, batches, REPEATS),
        quick=_curves(SMALL, SMALL_ROWS, batches, QUICK_REPEATS, count=5),
        medium=_curves(
            _cut(data), min(rows, MEDIUM_ROWS), batches, MEDIUM_REPEATS, 4, MEDIUM_EPSILONS
        ),
        panels=Panels(x="at", measures=("objective",), lines=("batch_size",)),
        notes=(*notes, *NOTES),
    )


def _batch_sizes(number: int, name: str, data: Mapping[str, Grid]) -> Experiment:
    """Figures 4 and 5."""
    return Experiment(
        name=f"sgd-fig{number}",
        title=f"Laplace SGD on {name}: which batch, and which steps",
        source=f"{PAPER}, figure {number}",
        question="After one pass, which batch size has the least objective, with steps c/√t?",
        plans=(_plan(data, REPEATS, batch_size=list(BATCHES), step_size=list(STEPS)),),
        quick=(_plan(SMALL, QUICK_REPEATS, batch_size=[1, 5, 50], step_size=list(STEPS)),),
        medium=(
            _plan(
                _cut(data),
                MEDIUM_REPEATS,
                MEDIUM_EPSILONS,
                batch_size=[1, 5, 10, 50],
                step_size=list(STEPS),
            ),
        ),
        panels=Panels(x="batch_size", measures=("objective",), lines=("step_size",)),
        notes=(*NOTES[:2], NOTES[3]),
    )


def _several_passes(number: int, name: str, data: Mapping[str, Grid]) -> Experiment:
    """Figures 7 and 8: each pass costs ε = 1, so ε counts the passes."""
    return Experiment(
        name=f"sgd-fig{number}",
        title=f"Laplace SGD on {name}: several passes, each at ε = 1",
        source=f"{PAPER}, figure {number}",
        question="How much do more passes help single-row SGD, if each is paid for anew?",
        plans=tuple(
            _plan(data, REPEATS, (EPSILON * passes,), batch_size=1, passes=passes)
            for passes in PASSES
        ),
        quick=tuple(
            _plan(SMALL, QUICK_REPEATS, (EPSILON * passes,), batch_size=1, passes=passes)
            for passes in (1, 2, 10)
        ),
        medium=tuple(
            _plan(_cut(data), MEDIUM_REPEATS, (EPSILON * passes,), batch_size=1, passes=passes)
            for passes in MEDIUM_PASSES
        ),
        panels=Panels(x="epsilon", measures=("objective",), log_x=False),
        notes=(
            "p passes have ε = p, so the axis counts passes. The paper draws 1, 2 and 10 passes "
            "over updates; steps go on shrinking from pass to pass, so these are one curve, of "
            "which the ends of passes are shown.",
            *NOTES[:2],
            "The medium form has 1, 2, 5 and 10 passes and five repeats, on 20,000 rows of MNIST.",
        ),
    )


_SCHEDULES = Experiment(
    name="sgd-fig6",
    title="Laplace SGD on a sphere: steps 1/√t against 1/(λt)",
    source=f"{PAPER}, figure 6",
    question="Are the steps that suit strong convexity any good when λ is tiny and there is noise?",
    plans=(
        _plan(
            SPHERE,
            REPEATS,
            batch_size=5,
            schedule=["sqrt", "strong"],
            updates=marks(SPHERE_ROWS // 5),
        ),
    ),
    quick=(
        _plan(
            SMALL,
            QUICK_REPEATS,
            batch_size=5,
            schedule=["sqrt", "strong"],
            updates=marks(SMALL_ROWS // 5, 5),
        ),
    ),
    medium=(
        _plan(
            SPHERE,
            MEDIUM_REPEATS,
            MEDIUM_EPSILONS,
            batch_size=5,
            schedule=["sqrt", "strong"],
            updates=marks(SPHERE_ROWS // 5, 4),
        ),
    ),
    panels=Panels(x="at", measures=("objective",), lines=("schedule",)),
    notes=(
        "With λ = 1e-4 and 2,000 updates, 1/(λt) is longer than 1/β all the way: what is shown of "
        "it is steps of 1/β. The paper's own steps begin at 10,000.",
        *NOTES,
    ),
)

_COLUMNS = (
    "The paper's random projection keeps columns picked at random. Columns that are picked badly "
    "say little about the class: this moves the level of all lines."
)

EXPERIMENTS: tuple[Experiment, ...] = (
    _mini_batching(1, "MNIST", MNIST, MNIST_ROWS, (1, 10), _COLUMNS),
    _mini_batching(2, "KDD Cup 99", KDD, KDD_ROWS, (1, 5), _COLUMNS),
    _mini_batching(
        3,
        "banknotes",
        BANKNOTE,
        BANKNOTE_ROWS,
        (1, 10),
        "1,372 rows of 4 columns; the paper says 1,327 and counts the class as a column.",
    ),
    _batch_sizes(4, "MNIST", MNIST),
    _batch_sizes(5, "occupancy", OCCUPANCY),
    _SCHEDULES,
    _several_passes(7, "MNIST", MNIST),
    _several_passes(8, "occupancy", OCCUPANCY),
    _mini_batching(9, "KDD Cup 99 with all columns", KDD_ALL, KDD_ROWS, (1, 10)),
)
"""In the order of the paper."""
