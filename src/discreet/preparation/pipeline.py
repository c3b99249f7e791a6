"""Run the steps of a preparation: in a fit, on the budget of the model, and in prediction.

A fit divides its budget before it reads a row, asks the curator for what each step needs (noisy
bounds, a median norm, noisy moments) and hands the model rows that were transformed by it. What was
released is kept in ``preparation_``, and prediction transforms new rows in the same way.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.accounting.budget import Budget, Measure
from discreet.accounting.composition import divide
from discreet.core import Account, Curator
from discreet.core.noise import Noise
from discreet.errors import NotSupported
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

__all__ = [
    "check_steps",
    "check_table",
    "conditions",
    "divide_budget",
    "margins",
    "model_norm",
    "transform",
    "typical_norm",
]

LARGEST_DENSE = 2**32
"""Bytes of the dense table that centring or whitening may make of a sparse one (4 GiB)."""

BLOCK_ENTRIES = 2**22
"""Entries of new rows (32 MB) that are transformed at a time."""

MOST = {"spread": 2, "centre": 2, "scale": 2}
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
                "Spread, Centre, Scale and Whiten need a public bound on the norm of a row. Put "
                "Radius() before them, or pass data_norm, for example data_norm=1.0: rows are "
                "clipped to it."
            )
        known = known or isinstance(step, Radius)
    return steps


def check_table(steps: Sequence[Step], X: Any, *, copy: bool) -> None:
    """Refuse a table by its shape, before a row is read."""
    for step in steps:
        step.check(X.shape[1])
    if not copy and _is_affine(steps):
        return
    n_rows, n_features = X.shape
    size = n_rows * n_features * X.dtype.itemsize
    if sp.issparse(X) and any(step.dense for step in steps) and size > LARGEST_DENSE:
        raise NotSupported(
            f"Centre and Whiten make a dense table of a sparse one; of {n_rows:,} × "
            f"{n_features:,} it would take {size / 2**30:.1f} GiB, more than "
            f"{LARGEST_DENSE / 2**30:g}. Leave these steps out, or use fewer columns or float32."
        )


def divide_budget(
    steps: Sequence[Step], budget: Budget, measures: Sequence[Measure]
) -> tuple[Budget, tuple[Mechanism, ...]]:
    """Divide a budget between steps and models that may compose in ``measures``.

    Returns the budget of the models and one mechanism per step, before anything is opened or read.
    A budget too extreme for a step is a ``ValueError``.

    Notes
    -----
    *Privacy.* `Account.reserve` divides the same budget in the same way, and its filters hold each
    step to its part.
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
    fit_intercept: bool,
    row_norm: float | None,
) -> tuple[Rows, tuple[FittedStep, ...]]:
    """Run the steps, each on what the one before made of X; return rows and what was released.

    X itself is never written to. With ``copy``, the new table is one array of its type (or a CSR
    matrix, if X is one and no step made it dense). Without, only `Bounds` makes a new table; what
    the other steps do is left to `Rows.transformed`, if they are one affine map.

    Parameters
    ----------
    steps, mechanisms
        The steps, and what `divide_budget` returned for them.
    X, targets
        The table and the targets of the first model, which no step uses.
    account, noises
        The account in which each step's share is reserved, and the noise of each step.
    copy : bool
        Whether the model needs a table of its own.
    data_norm, row_norm
        Public bounds on the norm of a row, before and after the preparation.
    fit_intercept : bool
        Whether the model's rows have a constant feature.
    """
    copy = copy or not _is_affine(steps)
    table, base, affine = X, None, None
    norms = None if data_norm is None else RowNorms(*3 * (float(data_norm),), raw=True)
    fitted: list[FittedStep] = []
    for part, step in enumerate(steps):
        bound = norms.clip if norms and step.bounded else None
        rows = _rows(table, targets, base, affine, fit_intercept=False, row_norm=bound)
        curator = Curator(rows, account, noises[part])
        curator.open_reserved(part)
        released, norms = step.fit(curator, mechanisms[part], norms)
        fitted.append(released)
        affine = None if copy else released.affine_map(affine, X.shape[1])
        if affine is None:
            own = table is not X and not sp.issparse(table)
            table = released.apply(table, in_place=own)
        elif base is None:  # made once: norms are computed there
            base = as_rows(table, targets, row_norm=affine.row_norm)
    rows = _rows(table, targets, base, affine, fit_intercept=fit_intercept, row_norm=row_norm)
    return rows, tuple(fitted)


def _rows(
    table: Any,
    targets: FloatArray,
    base: Rows | None,
    affine: AffineMap | None,
    *,
    fit_intercept: bool,
    row_norm: float | None,
) -> Rows:
    """Return the rows that a step or a model learns from."""
    if base is None or affine is None:
        return as_rows(table, targets, fit_intercept=fit_intercept, row_norm=row_norm)
    return base.transformed(affine, fit_intercept=fit_intercept, row_norm=row_norm)


def _is_affine(steps: Sequence[Step]) -> bool:
    """Return whether the steps after `Bounds` are one `AffineMap`: `Radius` can only come first."""
    kinds = [type(step) for step in steps]
    later = kinds[1:] if kinds[:1] == [Bounds] else kinds
    return bool(later) and Bounds not in later and Radius not in later[1:]


def model_norm(steps: Sequence[Step], data_norm: float | None) -> float | None:
    """Return the bound on a row's norm that a model after these steps should use; public.

    It is ``data_norm`` unless a step sets the norm of rows: 1 after `Radius`, 1.2 times the norm
    after `Scale`. Some rows exceed it; a model that needs the bound clips them to it.
    """
    norm = data_norm
    for step in steps:
        if isinstance(step, Radius):
            norm = 1.0
        elif isinstance(step, Scale):
            norm = MARGIN * step.norm
    return norm


def typical_norm(steps: Sequence[Step]) -> float | None:
    """Return about the root of the mean squared norm of rows after these steps, if known."""
    norms = [step.norm for step in steps if isinstance(step, Scale)]
    return norms[-1] if norms else None


def conditions(fitted: Sequence[FittedStep]) -> tuple[str, ...]:
    """Return statements of what the privacy of a preparation rests on."""
    if not fitted:
        return ()
    return (
        *(step.condition for step in fitted),
        "the budget was divided between preparation and model before a row was read",
    )


def margins(
    steps: Sequence[FittedStep],
    X: Any,
    weights: FloatArray,
    row_norm: float | None,
    *,
    by_row: bool = False,
) -> FloatArray:
    """Return products of new rows with weights, as the fit would have transformed the rows.

    Parameters
    ----------
    steps : sequence of FittedStep
        The fitted preparation.
    X : array or CSR matrix
        New rows.
    weights : ndarray of shape (n_models, n_features)
        Weights of transformed rows, without intercepts.
    row_norm : float or None
        Norm that transformed rows are clipped to.
    by_row : bool
        Compute each row's products from that row and public numbers alone, to the last bit. By
        default matrix products are used, which are faster and round a row by its position.

    Returns
    -------
    ndarray of shape (n_rows, n_models)
    """
    carried = np.column_stack([weights, np.zeros(len(weights))])
    bounds = [step for step in steps if isinstance(step, FittedBounds)]
    if row_norm is None and list(steps[: len(bounds)]) == bounds:
        affine: AffineMap | None = None
        for step in steps[len(bounds) :]:
            affine = step.affine_map(affine, X.shape[1])
            if affine is None:
                break
        if affine is not None:
            steps, carried, row_norm = bounds, affine.adjoint(carried), affine.row_norm
    parts = []
    for block in _blocks(steps, X):
        if by_row:
            parts.append(_margins_by_row(block, carried, row_norm))
            continue
        products = np.asarray(block @ carried[:, :-1].T, dtype=np.float64)
        if row_norm is not None:
            norms = as_rows(block, np.zeros(block.shape[0]), fit_intercept=False).norms()
            products *= (row_norm / np.maximum(norms, row_norm))[:, None]
        parts.append(products + carried[:, -1])
    return np.concatenate(parts)


def _margins_by_row(block: Any, weights: FloatArray, row_norm: float | None) -> FloatArray:
    """Return products with rows, each computed from its row alone.

    Blocks are made C-contiguous: which kernel is used must not depend on the number of rows.
    """
    if not sp.issparse(block):
        block = np.ascontiguousarray(block)
    rows = as_rows(block, np.zeros(block.shape[0]), row_norm=row_norm)
    return np.column_stack([rows.margins(vector) for vector in weights])


def _blocks(steps: Sequence[FittedStep], X: Any) -> Iterator[Any]:
    """Yield new rows, transformed block by block: no copy of the whole table."""
    height = max(1, BLOCK_ENTRIES // X.shape[1])
    for start in range(0, X.shape[0], height):
        given = block = X[start : start + height]
        for step in steps:
            own = block is not given and not sp.issparse(block)
            block = step.apply(block, in_place=own)
        yield block
