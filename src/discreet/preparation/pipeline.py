"""Private preparation of the rows, on the budget of the model.

Steps are settings: each names its share of the budget. A fit divides its budget before it looks,
asks the curator for what each step needs (noisy bounds, a median length, noisy moments) and hands
the model rows that were moved by it. What was released is kept in ``preparation_``, and prediction
moves new rows the same way.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.core import Account, Curator
from discreet.core.noise import Noise
from discreet.errors import NotSupported
from discreet.preparation.bounded import FittedBounds
from discreet.preparation.fitted import affine_map_of
from discreet.preparation.fitted_step import FittedStep
from discreet.preparation.norms import Lengths
from discreet.preparation.steps import WIDEST, Bounds, Centre, Radius, Scale, Spread, Step, Whiten
from discreet.rows import AffineMap, Checked, Rows, as_rows
from discreet.solvers.settings import number

__all__ = [
    "WIDEST",
    "Bounds",
    "Centre",
    "Prepared",
    "Radius",
    "Scale",
    "Spread",
    "Step",
    "Whiten",
    "check_steps",
    "check_table",
    "conditions",
    "model_norm",
    "movable",
    "moved_blocks",
    "products",
    "shares",
    "transform",
    "usual_norm",
]

LARGEST_DENSE = 2**32
"""Bytes of the dense table that centring or whitening may make of a sparse one (4 GiB)."""

BLOCK_ENTRIES = 2**22
"""Entries of new rows (32 MB) that are prepared at a time."""

MOST = {"spread": 2, "centre": 2, "scale": 2}
"""How often a kind of step may occur, where it is not once."""

NORMS = (1e-12, 1e12)
"""Bounds on a row's norm with which moved rows stay finite, in single precision as well."""


def check_steps(preparation: Any, data_norm: float | None) -> tuple[Step, ...]:
    """Check a preparation; nothing has been read yet. None is no steps."""
    if preparation is None:
        return ()
    steps = tuple(preparation) if np.iterable(preparation) else (preparation,)
    if not all(isinstance(step, Step) for step in steps):
        raise ValueError(
            "preparation must be a sequence of steps such as [Bounds(columns=[3]), Radius(), "
            f"Centre(), Whiten()], or None; got {preparation!r}."
        )
    kinds = [step.name for step in steps]
    if any(kinds.count(kind) > MOST.get(kind, 1) for kind in kinds):
        # Each step stretches what the one before left: many could make a single row overflow.
        raise ValueError(
            "preparation must have each kind of step once at most, Spread, Centre and Scale twice."
        )
    total = sum((Fraction(step.share) for step in steps), Fraction(0))
    if total >= 1:
        raise ValueError(
            f"the shares of the preparation add up to {float(total):g}; they must leave a part of "
            "the budget to the model. Leave most of it, for example 0.8."
        )
    if data_norm is not None and not all(isinstance(step, Bounds) for step in steps):
        number("data_norm", data_norm, least=NORMS[0], most=NORMS[1])
    known = data_norm is not None
    for step in steps:
        if step.bounded and not known:
            raise ValueError(
                "Centre, Scale and Whiten need a public bound on the norm of a row. Put Radius() "
                "before them, or pass data_norm, for example data_norm=1.0: longer rows are scaled "
                "down to it."
            )
        known = known or isinstance(step, Radius)
    return steps


def model_norm(steps: Sequence[Step], data_norm: float | None) -> float | None:
    """The bound on a row's norm that a model after these steps should use; public.

    It is ``data_norm`` unless a step sets the length of rows: 1 after `Radius`, 1.2 times the norm
    after `Scale`. Some rows are longer; a model that needs the bound scales them down to it.
    """
    for step in steps:
        data_norm = step.model_norm(data_norm)
    return data_norm


def usual_norm(steps: Sequence[Step]) -> float | None:
    """What the root of the mean squared norm of rows is about after these steps, if known."""
    norms = [step.norm for step in steps if isinstance(step, Scale)]
    return norms[-1] if norms else None


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


def check_table(steps: Sequence[Step], X: Any, *, copy: bool) -> None:
    """Refuse a table by its shape, before a row is read."""
    for step in steps:
        step.check(X.shape[1])
    if not copy and movable(steps):
        return
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    if sp.issparse(X) and any(step.dense for step in steps) and size > LARGEST_DENSE:
        raise NotSupported(
            f"Centre and Whiten make a dense table of a sparse one; of {X.shape[0]:,} × "
            f"{X.shape[1]:,} it would take {size / 2**30:.1f} GiB, more than "
            f"{LARGEST_DENSE / 2**30:g}. Leave these steps out, or use fewer columns or float32."
        )


@dataclass(frozen=True)
class Prepared:
    """A table after a preparation: the rows that were stored, and what still moves them.

    Attributes
    ----------
    table
        X itself, or the new table that steps made of it.
    targets
        The targets of the (first) model; steps do not look at them.
    move
        What moves its rows without a copy, if anything does.
    steps
        The fitted steps.
    stored
        The rows of ``table`` that ``move`` moves; made once, as norms are computed there.
    """

    table: Any
    targets: Checked
    move: AffineMap | None = None
    steps: tuple[FittedStep, ...] = ()
    stored: Rows | None = None

    def rows(self, *, fit_intercept: bool, row_norm: float | None) -> Any:
        """The rows that a step or a model learns from."""
        if self.move is None or self.stored is None:
            table, targets = self.table, self.targets
            return as_rows(table, targets, fit_intercept=fit_intercept, row_norm=row_norm)
        return self.stored.transformed(self.move, fit_intercept=fit_intercept, row_norm=row_norm)

    def moved(self, step: FittedStep, move: AffineMap) -> Prepared:
        """What one more step made of it, without a copy."""
        stored = self.stored
        if stored is None:
            stored = as_rows(self.table, self.targets, row_norm=move.row_norm)
        return replace(self, move=move, steps=(*self.steps, step), stored=stored)

    def copied(self, step: FittedStep, table: Any) -> Prepared:
        """What one more step made of it, as a table of its own."""
        return replace(self, table=table, steps=(*self.steps, step))


def movable(steps: Sequence[Step]) -> bool:
    """Whether steps after `Bounds`, are one `AffineMap`: a `Radius` can only come first."""
    kinds = [type(step) for step in steps]
    later = kinds[1:] if kinds[:1] == [Bounds] else kinds
    return bool(later) and Bounds not in later and Radius not in later[1:]


def transform(
    steps: Sequence[Step],
    X: Any,
    targets: Checked,
    data_norm: float | None,
    account: Account,
    noises: Sequence[Noise],
    *,
    copy: bool,
) -> Prepared:
    """Run the steps, each on what the one before made of X.

    X itself is never written to. With ``copy``, the new table is one array of its type (or a CSR
    matrix, if X is one and no step made it dense). Without, only `Bounds` make a new table; what
    the other steps do is left to `Rows.transformed`, if they are `movable`.
    """
    copy = copy or not movable(steps)
    done = Prepared(X, targets)
    own = False
    lengths = None if data_norm is None else Lengths(*3 * (float(data_norm),), raw=True)
    for part, (step, noise) in enumerate(zip(steps, noises, strict=True)):
        bound = lengths.clip if lengths and step.bounded else None
        rows = done.rows(fit_intercept=False, row_norm=bound)
        curator = Curator(rows, account, noise)
        measure, total = curator.open_reserved(part)
        fitted = step.ask(curator, measure, total, lengths)
        lengths = step.leaves(fitted, lengths)
        move = None if copy else fitted.move(done.move, X.shape[1])
        if move is not None:
            done = done.moved(fitted, move)
            continue
        done = done.copied(fitted, fitted.apply(done.table, in_place=own))
        own = done.table is not X and not sp.issparse(done.table)
    return done


def products(steps: Sequence[FittedStep], X: Any, weights: NDArray[np.float64]) -> Any:
    """Products of new rows with weights (one row of them a model), as the fit would move them."""
    stays = [step for step in steps if isinstance(step, FittedBounds)]
    move = (
        affine_map_of(steps[len(stays) :], X.shape[1])
        if list(steps[: len(stays)]) == stays
        else None
    )
    if move is None:
        return np.concatenate([block @ weights.T for block in moved_blocks(steps, X)])
    carried = move.adjoint(np.column_stack([weights, np.zeros(len(weights))]))
    parts = []
    for block in moved_blocks(stays, X):
        norms = as_rows(block, np.zeros(block.shape[0]), fit_intercept=False).norms()
        scales = move.row_norm / np.maximum(norms, move.row_norm)
        parts.append((block @ carried[:, :-1].T) * scales[:, None] + carried[:, -1])
    return np.concatenate(parts)


def moved_blocks(steps: Sequence[FittedStep], X: Any) -> Iterator[Any]:
    """New rows, prepared block by block: no copy of the whole table."""
    height = max(1, BLOCK_ENTRIES // X.shape[1])
    for start in range(0, X.shape[0], height):
        block, own = X[start : start + height], False
        for step in steps:
            block = step.apply(block, in_place=own)
            own = not sp.issparse(block)
        yield block
