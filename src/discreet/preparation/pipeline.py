"""Run the steps of a preparation: in a fit, on the budget of the model, and in prediction.

A fit divides its budget before it reads a row, asks the curator for what each step needs (noisy
bounds, a median norm, noisy moments) and hands the model rows that were transformed by it. What was
released is kept in ``preparation_``, and prediction transforms new rows in the same way.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.accounting.budget import Budget, Measure
from discreet.accounting.composition import divide
from discreet.core import Account, Curator
from discreet.core.noise import Noise
from discreet.errors import NotSupported
from discreet.objectives import Problem
from discreet.preparation.magnitude import FittedMagnitude, Magnitude
from discreet.preparation.steps import (
    Bounds,
    FittedBounds,
    FittedStep,
    Mechanism,
    Radius,
    RowNorms,
    Step,
)
from discreet.preparation.whitening import MARGIN, Scale
from discreet.rows import AffineMap, Rows, as_rows
from discreet.validate import FloatArray, number

LARGEST_DENSE = 2**32
"""Bytes of the dense table that centring or whitening may make of a sparse one (4 GiB)."""

BLOCK_ENTRIES = 2**22
"""Entries of new rows (32 MB) that are transformed at a time."""

MOST = {"magnitude": 3, "spread": 2, "centre": 2, "scale": 2}
"""Largest number of steps of one kind, where it is not 1."""

NORMS = (1e-12, 1e12)
"""Range of ``data_norm`` in which transformed rows stay finite, in single precision as well."""


def check_steps(preparation: Any, data_norm: float | None) -> tuple[Step, ...]:
    """Check a preparation before any data is read, and return its steps; None has no steps."""
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
            "preparation must have each kind of step once at most, Spread, Centre and Scale "
            "twice, Magnitude three times."
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
                "Spread, Centre, Scale and Whiten need a public bound on the norm of a row. Put "
                "Radius() before them, or pass data_norm, for example data_norm=1.0: rows are "
                "clipped to it."
            )
        known = known or isinstance(step, Radius)
    return steps


def check_table(steps: Sequence[Step], X: Any, *, copy: bool) -> bool:
    """Refuse a table by its shape, before a row is read; return whether steps make new tables.

    They do with ``copy``, and if the steps after `Bounds` and the first `Magnitude` are not one
    `AffineMap`: `Radius` can only come first.
    """
    for step in steps:
        step.check(X.shape[1])
    kinds = [type(step) for step in steps]
    while kinds and kinds[0] in (Bounds, Magnitude):
        kinds.pop(0)
    if not copy and kinds and Bounds not in kinds and Radius not in kinds[1:]:
        return False
    n_rows, n_features = X.shape
    size = n_rows * n_features * X.dtype.itemsize
    if sp.issparse(X) and any(step.dense for step in steps) and size > LARGEST_DENSE:
        raise NotSupported(
            f"Centre and Whiten make a dense table of a sparse one; of {n_rows:,} × "
            f"{n_features:,} it would take {size / 2**30:.1f} GiB, more than "
            f"{LARGEST_DENSE / 2**30:g}. Leave these steps out, or use fewer columns or float32."
        )
    return True


def divide_budget(
    steps: Sequence[Step], budget: Budget, measures: Sequence[Measure]
) -> tuple[Budget, tuple[Mechanism, ...]]:
    """Divide a budget between steps and models that may compose in ``measures``.

    Returns the budget of the models and one mechanism per step, before anything is opened or read.
    `Account.reserve` divides the same budget in the same way, and its filters hold each step to its
    part. A budget too extreme for a step is a ``ValueError``.
    """
    if not steps:
        return budget, ()
    shares = [Fraction(step.share) for step in steps]
    division = divide(budget, sum(shares, Fraction(0)), measures)
    mechanisms = tuple(
        step.mechanism(division.measure, division.total * share / division.share)
        for step, share in zip(steps, shares, strict=True)
    )
    return division.models, mechanisms


def transform(
    steps: Sequence[Step],
    mechanisms: Sequence[Mechanism],
    X: Any,
    targets: FloatArray,
    account: Account,
    noises: Sequence[Noise],
    *,
    copy: bool,
    data_norm: float | None,
    problem: Problem,
) -> tuple[Rows, tuple[FittedStep, ...]]:
    """Run the steps, each on what the one before made of X; return rows and what was released.

    X itself is never written to. With ``copy``, the new table is one array of its type (or a CSR
    matrix, if X is one and no step made it dense). Without, only `Bounds` and a first
    `Magnitude` make a new table; what
    the other steps do is one affine map and left to `Rows.transformed` (`check_table` decides).

    No step uses the targets, which are those of the first model. ``account`` has each step's share
    reserved. ``data_norm`` is a public bound on the norm of a row before the preparation; the
    problem may have one after it.
    """
    table: Any = X
    base: Rows | None = None
    affine: AffineMap | None = None
    rows_now: Callable[..., Rows] = partial(as_rows, X, targets)  # for the next step or the model
    norms = None if data_norm is None else RowNorms(*3 * (float(data_norm),), raw=True)
    fitted: list[FittedStep] = []
    for part, step in enumerate(steps):
        bound = norms.clip if norms and step.bounded else None
        rows = rows_now(fit_intercept=False, row_norm=bound)
        curator = Curator(rows, account, noises[part])
        curator.open_reserved(part)
        released, norms = step.fit(curator, mechanisms[part], norms)
        fitted.append(released)
        affine = None if copy else released.affine_map(affine, X.shape[1])
        if affine is None:
            own = table is not X and not sp.issparse(table)
            table = released.apply(table, in_place=own)
            rows_now = partial(as_rows, table, targets)
        else:
            if base is None:  # made once: norms are computed there
                base = as_rows(table, targets, row_norm=affine.row_norm)
            rows_now = partial(base.transformed, affine)
    rows = rows_now(fit_intercept=problem.fit_intercept, row_norm=problem.row_norm)
    return rows, tuple(fitted)


def model_norm(
    steps: Sequence[Step], data_norm: float | None, *, needed: bool = True
) -> float | None:
    """Return the bound on a row's norm that a model after these steps should use; public.

    It is ``data_norm`` unless a step sets the norm of rows: 1 after `Radius`, 1.2 times the norm
    after `Scale`. Some rows exceed it; a model that needs the bound clips them to it, and one that
    clips gradients instead has none.
    """
    norm = data_norm
    for step in steps:
        if isinstance(step, Radius):
            norm = 1.0 if needed else None
        elif isinstance(step, Scale):
            norm = MARGIN * step.norm if needed else None
    return norm


def margins(
    steps: Sequence[FittedStep],
    X: Any,
    weights: FloatArray,
    row_norm: float | None,
    *,
    by_row: bool = False,
) -> FloatArray:
    """Return products of new rows with weights, as the fit would have transformed the rows.

    The weights, of shape (n_models, n_features), are those of transformed rows, which are clipped
    to ``row_norm``. With ``by_row`` each row's products are computed from that row and public
    numbers alone, to the last bit; else by matrix products, which are faster and round a row by
    its position. The result has the shape (n_rows, n_models).
    """
    carried = np.column_stack([weights, np.zeros(len(weights))])
    first = 0
    while first < len(steps) and isinstance(steps[first], FittedBounds | FittedMagnitude):
        first += 1
    if row_norm is None:
        affine: AffineMap | None = None
        for step in steps[first:]:
            affine = step.affine_map(affine, X.shape[1])
            if affine is None:
                break
        if affine is not None:
            steps, carried, row_norm = steps[:first], affine.adjoint(carried), affine.row_norm
    parts = []
    for block in _blocks(steps, X):
        if by_row:
            # C-contiguous: which kernel is used must not depend on the number of rows
            own = block if sp.issparse(block) else np.ascontiguousarray(block)
            rows = as_rows(own, np.zeros(block.shape[0]), row_norm=row_norm)
            parts.append(np.column_stack([rows.margins(vector) for vector in carried]))
            continue
        products = np.asarray(block @ carried[:, :-1].T, dtype=np.float64)
        if row_norm is not None:
            norms = as_rows(block, np.zeros(block.shape[0]), fit_intercept=False).norms()
            products *= (row_norm / np.maximum(norms, row_norm))[:, None]
        parts.append(products + carried[:, -1])
    return np.concatenate(parts)


def _blocks(steps: Sequence[FittedStep], X: Any) -> Iterator[Any]:
    """Yield new rows, transformed block by block: no copy of the whole table."""
    height = max(1, BLOCK_ENTRIES // X.shape[1])
    for start in range(0, X.shape[0], height):
        given = block = X[start : start + height]
        for step in steps:
            own = block is not given and not sp.issparse(block)
            block = step.apply(block, in_place=own)
        yield block
