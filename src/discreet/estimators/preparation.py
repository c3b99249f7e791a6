"""Private preparation of the rows, on the budget of the model.

Steps are settings: each names its share of the budget. A fit divides its budget before it looks,
asks the curator for what each step needs (noisy bounds, a median length, noisy moments) and hands
the model rows that were moved by it. What was released is kept in ``preparation_``, and prediction
moves new rows the same way.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.errors import NotSupported
from discreet.estimators.lengths import Lengths
from discreet.estimators.moved import FittedStep
from discreet.estimators.steps import WIDEST, Bounds, Centre, Radius, Scale, Step, Whiten
from discreet.privacy import Account, Curator
from discreet.privacy.noise import Noise
from discreet.rows import as_rows
from discreet.solvers.settings import number

__all__ = [
    "WIDEST",
    "Bounds",
    "Centre",
    "Radius",
    "Scale",
    "Step",
    "Whiten",
    "check_steps",
    "check_table",
    "conditions",
    "model_norm",
    "moved_blocks",
    "prepare",
    "shares",
]

LARGEST_DENSE = 2**32
"""Bytes of the dense table that centring or whitening may make of a sparse one (4 GiB)."""

BLOCK_ENTRIES = 2**22
"""Entries of new rows (32 MB) that are prepared at a time."""

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
    if len(set(kinds)) < len(kinds):
        # Each step stretches what the one before left: many could make a single row overflow.
        raise ValueError("preparation must have each kind of step once at most.")
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
    one and no step made it dense).
    """
    fitted: list[FittedStep] = []
    table, own = X, False
    lengths = None if data_norm is None else Lengths(*3 * (float(data_norm),), raw=True)
    for part, (step, noise) in enumerate(zip(steps, noises, strict=True)):
        bound = lengths.clip if lengths and step.bounded else None
        rows = as_rows(table, np.zeros(table.shape[0]), fit_intercept=False, row_norm=bound)
        curator = Curator(rows, account, noise)
        measure, total = curator.open_aside(part)
        done = step.ask(curator, measure, total, lengths)
        lengths = step.leaves(done, lengths)
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
