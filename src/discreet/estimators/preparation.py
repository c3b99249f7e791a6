"""Private preparation of the rows, on the budget of the model: bounds, centring, whitening.

Steps are settings: each names its share of the budget. A fit divides its budget before it looks,
asks the curator for what each step needs (noisy bounds, a noisy mean, a noisy second moment) and
hands the model rows that were moved by it. What was released is kept in ``preparation_``, and
prediction moves new rows the same way.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from discreet.errors import NotSupported
from discreet.estimators.moved import (
    FittedBounds,
    FittedCentre,
    FittedStep,
    FittedWhiten,
    whitening,
)
from discreet.privacy import Account, Curator, ExponentialMechanism, Gaussian, L2Norm, conversions
from discreet.privacy.filters import Measure
from discreet.privacy.noise import Noise
from discreet.rows import as_rows
from discreet.solvers.settings import number, numbers

__all__ = [
    "Bounds",
    "Centre",
    "Step",
    "Whiten",
    "check_steps",
    "check_table",
    "conditions",
    "moved_blocks",
    "prepare",
    "shares",
]

WIDEST = 2048
"""Columns that can be whitened at most: the second moment has about half their square."""

LARGEST_DENSE = 2**32
"""Bytes of the dense table that centring or whitening may make of a sparse one (4 GiB)."""

BLOCK_ENTRIES = 2**22
"""Entries of new rows (32 MB) that are prepared at a time."""

NORMS = (1e-12, 1e12)
"""Bounds on a row's norm with which moved rows stay finite, in single precision as well."""


class Step:
    """Base class of steps: frozen dataclasses with a share of the budget.

    Attributes
    ----------
    share
        The share of the fit's budget that it costs.
    name
        How it is called in a guarantee.
    """

    share: float
    name: ClassVar[str]
    dense: ClassVar[bool] = True
    """Whether it makes a dense table of a sparse one; such steps need ``data_norm``."""

    def check(self, n_features: int) -> None:
        """Refuse a table of this width, before a row is read."""

    def ask(
        self, curator: Curator, measure: Measure, total: Fraction, row_norm: float | None
    ) -> FittedStep:
        """Ask for what the step needs, with the budget that was opened for it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Bounds(Step):
    """Brings columns without public bounds to [0, 1], by bounds that are chosen privately.

    Each of the columns becomes clip((x − low)/(high − low), 0, 1), where low and high are round
    numbers between which about ``coverage`` of its values lie.

    Parameters
    ----------
    columns : sequence of int
        Which columns of X, counted from 0.
    share : float
        Share of the budget, for all of the columns together.
    coverage : float
        Share of a column's values that should lie within its bounds.

    Privacy
    -------
    Two private selections a column among public candidates. The chosen bounds are released.
    """

    columns: Sequence[int]
    share: float = 0.1
    coverage: float = 0.98
    name: ClassVar[str] = "bounds"
    dense: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        _check_share(self)
        columns = tuple(self.columns) if np.iterable(self.columns) else ()
        whole = all(isinstance(j, Integral) and not isinstance(j, bool) and j >= 0 for j in columns)
        if not columns or not whole or len(set(columns)) < len(columns):
            raise ValueError(
                "columns must name at least one column of X by its number, counted from 0, each "
                f"once; got {self.columns!r}."
            )
        object.__setattr__(self, "columns", tuple(int(j) for j in columns))
        numbers(self, "coverage", least=0.5, most=0.9999)

    def check(self, n_features: int) -> None:
        """Refuse columns that are not there."""
        if max(self.columns) >= n_features:
            raise ValueError(
                f"Bounds names column {max(self.columns)}, but X has {n_features} columns, counted "
                "from 0."
            )

    def ask(
        self, curator: Curator, measure: Measure, total: Fraction, row_norm: float | None
    ) -> FittedBounds:
        """Ask for both bounds of each column."""
        mechanism = _selection(measure, total, 2 * len(self.columns))
        pairs = [
            curator.column_bounds(j, coverage=self.coverage, mechanism=mechanism)
            for j in self.columns
        ]
        low, high = np.array(pairs, dtype=np.float64).T
        return FittedBounds(tuple(self.columns), low, high)


@dataclass(frozen=True)
class Centre(Step):
    """Subtracts the noisy mean of the rows, each scaled down to ``data_norm`` first.

    Parameters
    ----------
    share : float
        Share of the budget.

    Privacy
    -------
    One noisy sum of rows of norm at most ``data_norm``. The noisy mean is released.
    """

    share: float = 0.05
    name: ClassVar[str] = "centre"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        _check_share(self)

    def ask(
        self, curator: Curator, measure: Measure, total: Fraction, row_norm: float | None
    ) -> FittedCentre:
        """Ask for the mean."""
        noisy = curator.row_sum(mechanism=_additive(measure, total))
        rows = curator.n_rows
        return FittedCentre(noisy.values / rows, noisy.deviation / rows, _given(row_norm))


@dataclass(frozen=True)
class Whiten(Step):
    """Turns and stretches the rows until their second moment is about that of a ball.

    A row x, scaled down to ``data_norm``, becomes s·(Σ + λI)^(−1/2)·x. Σ is the noisy second moment
    without its negative part, λ the size of the noise (a public number), and s makes the mean
    squared norm, as far as Σ tells, ``data_norm``². Longer rows are then scaled down to it again.

    Parameters
    ----------
    share : float
        Share of the budget.

    Privacy
    -------
    One noisy sum of outer products. The noisy second moment is released.
    """

    share: float = 0.1
    name: ClassVar[str] = "whiten"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        _check_share(self)

    def check(self, n_features: int) -> None:
        """Refuse tables that are too wide."""
        if n_features > WIDEST:
            raise NotSupported(
                f"Whiten takes tables of at most {WIDEST} columns; X has {n_features}. Use fewer "
                "columns, or Centre, which takes any number."
            )

    def ask(
        self, curator: Curator, measure: Measure, total: Fraction, row_norm: float | None
    ) -> FittedWhiten:
        """Ask for the second moment."""
        noisy = curator.outer_sum(mechanism=_additive(measure, total))
        rows = curator.n_rows
        return whitening(noisy.values / rows, noisy.deviation / rows, _given(row_norm))


def _given(row_norm: float | None) -> float:
    if row_norm is None:
        raise ValueError("Centre and Whiten need a public bound on the norm of a row.")
    return float(row_norm)


def _check_share(step: Any) -> None:
    numbers(step, "share", least=1e-6, most=1 - 1e-6)


def check_steps(preparation: Any, data_norm: float | None) -> tuple[Step, ...]:
    """Check a preparation; nothing has been read yet. None is no steps."""
    if preparation is None:
        return ()
    steps = tuple(preparation) if np.iterable(preparation) else (preparation,)
    if not all(isinstance(step, Step) for step in steps):
        raise ValueError(
            "preparation must be a sequence of steps such as [Bounds(columns=[3]), Centre(), "
            f"Whiten()], or None; got {preparation!r}."
        )
    total = sum((Fraction(step.share) for step in steps), Fraction(0))
    if total >= 1:
        raise ValueError(
            f"the shares of the preparation add up to {float(total):g}; they must leave a part of "
            "the budget to the model. Leave most of it, for example 0.8."
        )
    if any(step.dense for step in steps):
        if data_norm is None:
            raise ValueError(
                "Centre and Whiten need a public bound on the norm of a row. Pass data_norm, for "
                "example data_norm=1.0: longer rows are scaled down to it."
            )
        number("data_norm", data_norm, least=NORMS[0], most=NORMS[1])
    return steps


def shares(steps: Sequence[Step]) -> list[tuple[str, float]]:
    """Each step's name and its share of the budget."""
    return [(step.name, step.share) for step in steps]


def conditions(fitted: Sequence[FittedStep]) -> tuple[str, ...]:
    """What the privacy of a preparation rests on, in words."""
    if not fitted:
        return ()
    return (
        *(step.condition for step in fitted),
        "the budget was divided between preparation and model before a row was read",
    )


def check_table(steps: Sequence[Step], X: Any) -> None:
    """Refuse a table by its shape, before a row is read."""
    for step in steps:
        step.check(X.shape[1])
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    if sp.issparse(X) and any(step.dense for step in steps) and size > LARGEST_DENSE:
        raise NotSupported(
            f"Centre and Whiten make a dense table of a sparse one; of {X.shape[0]:,} × "
            f"{X.shape[1]:,} it would take {size / 2**30:.1f} GiB, more than "
            f"{LARGEST_DENSE / 2**30:g}. Leave these steps out, or use fewer columns or float32."
        )


def prepare(
    steps: Sequence[Step],
    X: Any,
    data_norm: float | None,
    account: Account,
    noises: Sequence[Noise],
) -> tuple[Any, tuple[FittedStep, ...]]:
    """Run the steps, each on what the one before made of X; returns the new table and them.

    X itself is never written to; the new table is one array of its type (or a CSR matrix, if X is
    one and only columns were bounded).
    """
    fitted: list[FittedStep] = []
    table, own = X, False
    for part, (step, noise) in enumerate(zip(steps, noises, strict=True)):
        bound = data_norm if step.dense else None  # columns are bounded as they are stored
        rows = as_rows(table, np.zeros(table.shape[0]), fit_intercept=False, row_norm=bound)
        curator = Curator(rows, account, noise)
        measure, total = curator.open_aside(part)
        done = step.ask(curator, measure, total, data_norm)
        table = done.apply(table, in_place=own)
        own = not sp.issparse(table)
        fitted.append(done)
    return table, tuple(fitted)


def moved_blocks(steps: Sequence[FittedStep], X: Any) -> Iterator[Any]:
    """New rows, prepared block by block: no copy of the whole table."""
    height = max(1, BLOCK_ENTRIES // X.shape[1])
    for start in range(0, X.shape[0], height):
        block, own = X[start : start + height], False
        for step in steps:
            block = step.apply(block, in_place=own)
            own = not sp.issparse(block)
        yield block


def _additive(measure: Measure, total: Fraction) -> Gaussian | L2Norm:
    """The mechanism whose one use costs all of a total, or a hair less: costs are rounded up."""
    amount = float(total) * (1 - 2.0**-40)
    if measure == "zcdp":
        return Gaussian.from_rho(amount)
    return Gaussian(1 / math.sqrt(amount)) if measure == "gdp" else L2Norm(amount)


def _selection(measure: Measure, total: Fraction, uses: int) -> ExponentialMechanism:
    """The exponential mechanism of which ``uses`` cost all of a total, or a hair less."""
    each = float(total / uses) * (1 - 2.0**-36)
    if measure == "pure":
        return ExponentialMechanism(each, monotone=False)
    if measure == "zcdp":
        return ExponentialMechanism(math.sqrt(8 * each), monotone=False)
    low, high = 0.0, 2.0 + 8 * each  # μ of ε-bounded range grows with ε, and is below ε/2
    while conversions.mu_from_bounded_range(high) ** 2 < each:
        high *= 2
    for _ in range(80):
        middle = 0.5 * (low + high)
        fits = conversions.mu_from_bounded_range(middle) ** 2 <= each
        low, high = (middle, high) if fits else (low, middle)
    return ExponentialMechanism(low * (1 - 2.0**-40), monotone=False)
