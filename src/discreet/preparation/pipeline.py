"""Run the steps of a preparation in a fit, on the budget of the model, and score new rows.

A fit divides its budget before it reads a row, asks the curator for what each step needs (noisy
bounds, a median norm, noisy moments) and hands the model rows that were transformed by it. What was
released is kept in ``preparation_``. Prediction clips nothing: the weights of prepared rows are
carried over to features of X, once, after the fit.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.core import Account, Curator
from discreet.core.noise import Noise
from discreet.engines import BlockTable
from discreet.errors import NotSupported
from discreet.objectives import Problem
from discreet.preparation.features import Expansion, FeatureMap
from discreet.preparation.magnitude import Largest, Magnitude
from discreet.preparation.steps import (
    RADII,
    Bounds,
    FittedBounds,
    FittedRadius,
    FittedStep,
    Mechanism,
    Radius,
    RowNorms,
    Step,
)
from discreet.preparation.whitening import MARGIN, Scale
from discreet.rows import AffineMap, Rows, RowWeights, as_rows
from discreet.validate import FloatArray, number

LARGEST_DENSE = 2**32
"""Bytes of the dense table that centring or whitening may make of a sparse one (4 GiB)."""

BLOCK_ENTRIES = 2**22
"""Entries of new rows (32 MB) that are transformed at a time."""

MOST = {"magnitude": 3, "largest": 3, "spread": 2, "centre": 2, "scale": 2}
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
            "twice, Magnitude and Largest three times."
        )
    total = sum((Fraction(step.share) for step in steps), Fraction(0))
    if total >= 1:
        raise ValueError(
            f"the shares of the preparation add up to {float(total):g}; they must leave a part of "
            "the budget to the model. Leave most of it, for example 0.8."
        )
    if data_norm is not None and not all(isinstance(step, Bounds) for step in steps):
        number("data_norm", data_norm, least=NORMS[0], most=NORMS[1])
    if "bounds" in kinds[1:]:
        raise ValueError(
            "Bounds must be the first step of a preparation: the columns that it makes are those "
            "that the model is linear in."
        )
    start = kinds.index("radius") if "radius" in kinds else len(kinds)
    units = {"magnitude", "largest"} & set(kinds[:start])
    if units and (start == len(kinds) or set(kinds[:start]) - units - {"bounds"}):
        raise ValueError("Magnitude or Largest before any Radius change norms: put Radius() next.")
    if "largest" in kinds[start:]:
        raise ValueError("Largest changes the norms of rows: put it before Radius().")
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


def check_table(steps: Sequence[Step], X: Any, width: int, *, copy: bool) -> bool:
    """Refuse a table by its shape, before a row is read; return whether steps make new tables.

    ``width`` is the number of features that are made of X, before the steps after `Bounds`. Steps
    make new tables with ``copy``, and if those after `Bounds` are not one `AffineMap`: `Radius` can
    only come first, or after `Magnitude` and `Largest`.
    """
    for step in steps:
        if isinstance(step, Bounds) and max(step.columns) >= X.shape[1]:
            raise ValueError(
                f"Bounds names column {max(step.columns)}, but X has {X.shape[1]} columns, counted "
                "from 0."
            )
        if step.widest is not None and width > step.widest:
            raise NotSupported(
                f"{type(step).__name__} takes tables of at most {step.widest} columns; X has "
                f"{width}. Use fewer columns, or Centre and Scale, which take any number."
            )
    later = [type(step) for step in steps if not isinstance(step, Bounds)]
    while later[:1] in ([Magnitude], [Largest]):
        later = later[1:]
    if not copy and later and Radius not in later[1:]:
        return False
    n_rows = X.shape[0]
    size = n_rows * width * X.dtype.itemsize
    if sp.issparse(X) and any(step.dense for step in steps) and size > LARGEST_DENSE:
        raise NotSupported(
            f"Centre and Whiten make a dense table of a sparse one; with {width:,} columns it "
            f"would take more than {LARGEST_DENSE / 2**30:g} GiB. Leave these steps out, or use "
            "fewer columns or float32."
        )
    return True


@dataclass(frozen=True)
class Prepared:
    """Rows for the model, what was released of them, and where they come from.

    ``start`` are the rows of the table in the units of the map, before they are scaled down and
    mapped; None if steps wrote tables. ``sample`` are those of them that steps saw, ``size`` of
    them expected; None if that were all. ``norms`` is what the steps found out about the norm of
    the rows, if anything.
    """

    rows: Rows
    fitted: tuple[FittedStep, ...]
    affine: AffineMap | None = None
    start: Rows | None = None
    sample: Rows | None = None
    size: int = 0
    norms: RowNorms | None = None

    def sampled_rows(self, problem: Problem) -> tuple[Rows, Problem]:
        """Return the rows that steps saw, for a model of the problem on them."""
        if self.sample is None or self.affine is None:
            return self.rows, problem
        rows = self.sample.with_row_norm(self.affine.row_norm)
        public: Any = {"fit_intercept": problem.fit_intercept, "row_norm": problem.row_norm}
        return rows.transformed(self.affine, **public), replace(problem, n_rows=self.size)


def transform(
    steps: Sequence[Step],
    mechanisms: Sequence[Mechanism],
    X: Any,
    targets: FloatArray | None,
    account: Account,
    noises: Sequence[Noise],
    *,
    copy: bool,
    data_norm: float | None,
    problem: Problem,
    weights: RowWeights | None = None,
    expansion: Expansion | None = None,
    rate: float = 1.0,
) -> Prepared:
    """Run the steps, each on what the one before made of X; return rows and what was released.

    X itself is never written to. With ``copy``, the new table is one array of its type (or a CSR
    matrix, if X is one and no step made it dense). Without, only `Bounds` makes a new table; what
    the other steps do is one affine map and left to `Rows.transformed` (`check_table` decides).

    No step uses the targets, which are those of the first model, or None where X holds its own.
    ``account`` has each step's share reserved. ``data_norm`` is a public bound on the norm of a row
    before the preparation; the problem may have one after it. Every step sees the rows with their
    ``weights``. ``expansion`` makes features of the columns, after `Bounds` and before the other
    steps. With a ``rate`` below 1, steps after `Bounds` see a Poisson sample of rows without
    weights, drawn once, if there is no ``copy``. The first of them must be one that takes rows of
    any norm, such as `Radius`.

    *Privacy.* Nothing is claimed for the sample: a row is in it at most once, so every answer has
    the sensitivity that it has on all rows. Proof: docs/proofs/preparation.md.
    """
    table: Any = X
    plain: Rows | None = None  # rows that the first of these steps sees
    base: Rows | None = None  # the same, in these units
    units: FloatArray = np.ones(())
    affine: AffineMap | None = None
    rows_of = partial(_rows_of, weights=weights)
    rows_now: Callable[..., Rows] = partial(rows_of, X, targets)  # for the next step or the model
    norms = None if data_norm is None else RowNorms(*3 * (float(data_norm),), raw=True)
    fitted: list[FittedStep] = []
    made = expansion is None
    start: Rows | None = None  # all rows of the table, before they are scaled and mapped
    whole: Rows | None = None  # the same, where steps see a sample of them
    sample: Rows | None = None
    size: int | None = None
    sampled = rate < 1 and not copy and weights is None
    for part, step in enumerate(steps):
        if expansion is not None and not made and not isinstance(step, Bounds):
            table, made = _expanded(expansion, table, problem.n_features), True
            rows_now = partial(rows_of, table, targets)
        bound = norms.clip if norms and step.bounded else None
        rows = rows_now(fit_intercept=False, row_norm=bound)
        if sampled and whole is None and not isinstance(step, Bounds):
            whole, generator = rows, Curator(rows, account, noises[part]).generator()
            rows, size = rows.sample(rate, generator), round(rate * rows.public_size)
        curator = Curator(rows, account, noises[part], n_rows=size)
        curator.open_reserved(part)
        released, norms = step.fit(curator, mechanisms[part], norms)
        fitted.append(released)
        affine = None if copy else released.affine_map(affine, table.shape[1])
        if affine is None:
            table = _applied(released, table, own=table is not X)
            rows_now = partial(rows_of, table, targets)
        else:
            plain = rows if plain is None else plain  # with the norms that this step's rows have
            if base is None or not np.array_equal(units, affine.units):
                units = affine.units
                base = start = plain.with_units(units) if units.ndim else plain
            if math.isinf(affine.row_norm):
                # `check_steps` sees to it that the next step is `Radius`, which takes any rows
                rows_now = lambda rows=base, **_: rows  # noqa: E731
                continue
            if base.row_norm != affine.row_norm:
                base = base.with_row_norm(affine.row_norm)
            rows_now = partial(base.transformed, affine)
    if expansion is not None and not made:
        rows_now = partial(rows_of, _expanded(expansion, table, problem.n_features), targets)
    if whole is not None and affine is not None:
        sample, start = start, whole.with_units(affine.units) if affine.units.ndim else whole
        rows_now = partial(start.with_row_norm(affine.row_norm).transformed, affine)
    rows = rows_now(fit_intercept=problem.fit_intercept, row_norm=problem.row_norm)
    return Prepared(rows, tuple(fitted), affine, start, sample, size or problem.n_rows, norms)


def _rows_of(
    table: Any,
    targets: FloatArray | None,
    *,
    fit_intercept: bool = True,
    row_norm: float | None = None,
    weights: RowWeights | None = None,
) -> Rows:
    """Return the rows of a table, wherever it is; blocks on workers have their own weights."""
    settings: Any = {"fit_intercept": fit_intercept, "row_norm": row_norm}
    if targets is None:
        rows: Rows = table.rows(**settings)
        return rows
    return as_rows(table, targets, weights=weights, **settings)


def _expanded(expansion: Expansion, table: Any, width: int) -> Any:
    """Return the table of features that an expansion makes."""
    if isinstance(table, BlockTable):
        return table.expanded(expansion, width)
    return expansion.transform(table)


def _applied(step: FittedStep, table: Any, *, own: bool) -> Any:
    """Return the transformed table; ``own`` allows one in memory to be overwritten."""
    if isinstance(table, BlockTable):
        return table.applied(step)
    return step.apply(table, in_place=own and not sp.issparse(table))


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


def unclipped_map(steps: Sequence[FittedStep], width: int) -> AffineMap:
    """Return the map from features to prepared rows, but for the clips of a fit.

    `Bounds` comes before the features. A `Radius` without its clip divides by the radius.
    """
    affine = AffineMap.to_norm(math.inf, width)
    for step in steps:
        if isinstance(step, FittedRadius):
            affine = affine.scaled(1.0 / step.radius)
        elif not isinstance(step, FittedBounds):
            after = step.affine_map(affine, width)
            assert after is not None  # no other step depends on the norm of a row
            affine = after
    return affine


FAR = 256.0
"""Rows that inference reads are scaled down to this many times the radius, not to the radius."""


def distant_rows(
    prepared: Prepared,
    X: Any,
    targets: FloatArray | None,
    *,
    fit_intercept: bool,
    data_norm: float | None = None,
    weights: RowWeights | None = None,
) -> tuple[Rows, Rows | None]:
    """Return rows under the map of a preparation, but scaled down far beyond its `Radius` only.

    The second are those that the preparation saw, if it did not see all.

    Answers about such rows must bound each row's part themselves, as `Curator.score_sum` does.

    Privacy
    -------
    A row of the result is a function of that row and of released numbers.
    """
    table: Any = X
    affine: AffineMap | None = None
    for step in prepared.fitted:
        if isinstance(step, FittedRadius):
            far = FittedRadius(min(FAR * step.radius, RADII[1]))
            start = far.affine_map(affine, table.shape[1])
            if start is None and affine is not None:  # rows are scaled down to a norm already
                affine = affine.scaled(1.0 / step.radius)
            elif start is not None:
                affine = start.scaled(far.radius / step.radius)
            continue
        affine = step.affine_map(affine, table.shape[1])
        if affine is None and prepared.start is None:
            table = _applied(step, table, own=False)
    if affine is None:
        settings: Any = {"fit_intercept": fit_intercept, "row_norm": data_norm}
        return _rows_of(table, targets, weights=weights, **settings), None
    base, sample = prepared.start, prepared.sample
    if base is None:
        base = _rows_of(table, targets, fit_intercept=False, weights=weights)
        base = base.with_units(affine.units) if affine.units.ndim else base
    elif targets is not None:
        base = base.with_targets(targets)
    if prepared.start is not None and weights is not None:
        base = base.with_weights(weights)
    rows = base.with_row_norm(affine.row_norm)
    rows = rows.transformed(affine, fit_intercept=fit_intercept)
    if sample is not None:
        sample = sample.with_row_norm(affine.row_norm)
        sample = sample.transformed(affine, fit_intercept=fit_intercept)
    return rows, sample


def linear_scores(
    features: FeatureMap,
    X: Any,
    weights: FloatArray,
    constants: FloatArray,
    *,
    by_row: bool = False,
) -> FloatArray:
    """Return the linear scores of new rows, of shape (n_rows, n_models).

    With ``by_row`` each row's scores are computed from that row and public numbers alone, to the
    last bit; else by matrix products, which are faster and round a row by its position.
    """
    carried = np.column_stack([weights, constants])
    parts = []
    for block in _blocks(features, X):
        if by_row:
            # C-contiguous: which kernel is used must not depend on the number of rows
            own = block if sp.issparse(block) else np.ascontiguousarray(block)
            rows = as_rows(own, np.zeros(block.shape[0]))
            parts.append(np.column_stack([rows.margins(vector) for vector in carried]))
        else:
            parts.append(np.asarray(block @ weights.T, dtype=np.float64) + constants)
    return np.concatenate(parts)


def _blocks(features: FeatureMap, X: Any) -> Iterator[Any]:
    """Yield the features of new rows, block by block: no copy of the whole table."""
    height = max(1, BLOCK_ENTRIES // features.width(X.shape[1]))
    for start in range(0, X.shape[0], height):
        yield features.transform(X[start : start + height])
