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
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.core.session import Session, Stream
from discreet.engines import BlockTable
from discreet.errors import NotSupported
from discreet.objectives import Problem
from discreet.preparation.bounds import Bounds, FittedBounds
from discreet.preparation.features import Expansion, FeatureMap
from discreet.preparation.magnitude import Largest, Magnitude
from discreet.preparation.steps import (
    MARGIN,
    RADII,
    FittedRadius,
    FittedStep,
    Mechanism,
    Radius,
    RowNorms,
    Scale,
    Spread,
    Step,
)
from discreet.preparation.windows import Windows
from discreet.rows import AffineMap, Rows, as_rows
from discreet.validate import FloatArray, number

LARGEST_DENSE = 2**32
"""Bytes of the dense table that centring or whitening may make of a sparse one (4 GiB)."""

BLOCK_ENTRIES = 2**22
"""Entries of new rows (32 MB) that are transformed at a time."""

MOST = {"magnitude": 3, "largest": 3, "spread": 2, "centre": 2, "scale": 2}
"""Largest number of steps of one kind, where it is not 1."""

INFERENCE_FACTOR = 256.0
"""Rows that inference reads are scaled down to this many times the radius, not to the radius."""

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
        # Each step scales up what the one before left: many could make a single row overflow.
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
    if data_norm is not None and not all(step.of_columns for step in steps):
        number("data_norm", data_norm, least=NORMS[0], most=NORMS[1])
    _check_order(steps, data_norm)
    return steps


def _check_order(steps: Sequence[Step], data_norm: float | None) -> None:
    """Refuse steps in an order in which one lacks what it needs from those before."""
    kinds = [step.name for step in steps]
    if any(step.of_columns for step in steps[1:]):
        raise ValueError(
            "Bounds or Windows must be the first step of a preparation: the columns that it makes "
            "are those that the model is linear in."
        )
    start = kinds.index("radius") if "radius" in kinds else len(kinds)
    units = {"magnitude", "largest"} & set(kinds[:start])
    if units and (start == len(kinds) or set(kinds[:start]) - units - {"bounds", "windows"}):
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
        known = known or step.sets_norm


@dataclass(frozen=True)
class Recipe:
    """All that a preparation does, by public numbers: fixed before a row is read.

    Attributes
    ----------
    steps, mechanisms
        The steps, and the mechanism of each.
    expansion
        Makes features of columns, after `Bounds` and before the other steps.
    data_norm
        Public bound on the norm of a row before the preparation.
    rate
        Steps after `Bounds` see a Poisson sample of the rows at this rate, if it is below 1, if
        rows have no weights and if the model takes mapped rows. The first of them must then be one
        that takes rows of any norm, such as `Radius`.
    writes
        True if the model needs a table: the prepared rows are written, once.
    overwrites
        True if the table was made for this fit alone, so that `Bounds` may replace its numbers.
    """

    steps: tuple[Step, ...] = ()
    mechanisms: tuple[Mechanism, ...] = ()
    expansion: Expansion | None = None
    data_norm: float | None = None
    rate: float = 1.0
    writes: bool = False
    overwrites: bool = False

    def check_table(self, X: Any, width: int) -> None:
        """Refuse a table by its shape, before a row is read.

        ``width`` is the number of features that are made of X, before the steps after `Bounds`.
        """
        for step in self.steps:
            named = max(step.columns) if isinstance(step, Bounds | Windows) else 0
            if named >= X.shape[1]:
                raise ValueError(
                    f"{type(step).__name__} names column {named}, but X has {X.shape[1]} columns, "
                    "counted from 0."
                )
            if step.widest is not None and width > step.widest:
                raise NotSupported(
                    f"{type(step).__name__} takes tables of at most {step.widest} columns; X has "
                    f"{width}. Use fewer columns, or Centre and Scale, which take any number."
                )
        sparse: bool = sp.issparse(X)
        if not sparse or not any(step.dense for step in self.steps):
            return
        size = X.shape[0] * width * X.dtype.itemsize
        if size > LARGEST_DENSE and self.copies:
            raise NotSupported(
                f"Centre and Whiten make a dense table of a sparse one; with {width:,} columns it "
                f"would take more than {LARGEST_DENSE / 2**30:g} GiB. Leave these steps out, or "
                "use fewer columns or float32."
            )

    @property
    def copies(self) -> bool:
        """True if the prepared rows are written to a table of their own.

        They are if the model needs a table, or if `Radius` comes after a step that maps rows: it
        clips mapped rows.
        """
        kinds = [type(step) for step in self.steps]
        before = set(kinds[: kinds.index(Radius)]) if Radius in kinds else set()
        return self.writes or bool(before - {Bounds, Windows, Magnitude, Largest, Spread})


@dataclass(frozen=True, eq=False)
class Stage:
    """Rows between two steps of a preparation: a table, and one affine map of its rows.

    Attributes
    ----------
    table, make
        The table, and a function that makes rows of it.
    affine
        The map from rows of the table to those of the next step; None before a step mapped any.
    plain, start, base
        Rows of the table as the first step of the map saw them, in the units of the map, and scaled
        down to its norm.
    before
        The stage whose mapped rows the table was written from, if it was.
    is_expanded
        True if an expansion has made features of the columns.
    is_own
        True if the table may be overwritten.
    """

    table: Any
    make: Callable[..., Rows]
    affine: AffineMap | None = None
    plain: Rows | None = None
    start: Rows | None = None
    base: Rows | None = None
    before: Stage | None = None
    is_expanded: bool = False
    is_own: bool = False

    def rows(self, *, fit_intercept: bool = False, row_norm: float | None = None) -> Rows:
        """Return the mapped rows; those of a norm above ``row_norm`` are clipped to it in moments.

        Units alone are no map yet: `check_steps` sees to it that `Radius` follows, which takes rows
        of any norm.
        """
        if self.affine is None or self.start is None or self.base is None:
            return self.make(self.table, fit_intercept=fit_intercept, row_norm=row_norm)
        if math.isinf(self.affine.row_norm):
            return self.start
        return self.base.transformed(self.affine, fit_intercept=fit_intercept, row_norm=row_norm)

    def expanded(self, expansion: Expansion, width: int) -> Stage:
        """Return the rows of features that an expansion makes of columns; itself if it did."""
        if self.is_expanded:
            return self
        table = self.table
        if isinstance(table, BlockTable):
            return replace(self, table=table.expanded(expansion, width), is_expanded=True)
        return replace(self, table=expansion.transform(table), is_expanded=True)

    def then(self, step: FittedStep, seen: Rows) -> Stage:
        """Return the rows after a step that was fitted to the rows ``seen``."""
        if isinstance(step, FittedBounds):
            return replace(self, table=_applied(step, self.table, overwrite=self.is_own))
        affine = step.affine_map(self.affine, self.table.shape[1])
        if affine is None or affine is self.affine:  # the step leaves rows as they are
            return self
        same = self.affine is not None and np.array_equal(self.affine.units, affine.units)
        if same and self.affine is not None and self.affine.row_norm == affine.row_norm:
            return replace(self, affine=affine)
        return replace(self, affine=affine).over(seen if self.plain is None else self.plain)

    def over(self, plain: Rows) -> Stage:
        """Return the same map over other rows of the table."""
        assert self.affine is not None
        norm = self.affine.row_norm
        start = plain.with_units(self.affine.units) if self.affine.units.ndim else plain
        base = start if math.isinf(norm) else start.with_row_norm(norm)
        return replace(self, plain=plain, start=start, base=base)

    def written(self) -> Stage:
        """Return the mapped rows as a table of their own; itself if no step mapped any."""
        if self.affine is None:
            return self
        table = _applied(Written(self.affine), self.table)
        return Stage(table, self.make, before=self, is_expanded=self.is_expanded)

    def from_features(self) -> tuple[Rows | None, AffineMap | None]:
        """Return rows of the features and the map to rows here, with the clip of its start alone.

        There is one stage before at most: a preparation has one `Radius`, which needs a new table.
        """
        if self.before is None or self.before.affine is None:
            return self.start, self.affine
        affine = self.before.affine
        if self.affine is not None:
            affine = affine.then(self.affine.linear, self.affine.offset)
        return self.before.start, affine


@dataclass(frozen=True, eq=False)
class Written:
    """The rows of a table under an affine map, as a new table.

    *Privacy.* A row of the result is a function of that row, the map and the type of the table.
    """

    affine: AffineMap

    def apply(self, X: Any) -> Any:
        """Return the mapped rows: CSR if X is sparse and no entry of 0 changes, else dense."""
        rows = as_rows(X, np.zeros(X.shape[0]), fit_intercept=False)
        rows = rows.with_units(self.affine.units) if self.affine.units.ndim else rows
        rows = rows.with_row_norm(self.affine.row_norm)
        return rows.transformed(self.affine, fit_intercept=False).materialised()


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows for the model, what was released of them, and the map that made them.

    Attributes
    ----------
    rows, fitted, known
        Rows for the model, the fitted steps, and what they found out about the rows.
    start, affine
        Rows of the features before they are scaled down and mapped, and the map to prepared rows,
        with its first clip alone; None if no step mapped any.
    mapped
        True if the model sees rows under the map, not a table that was written.
    sample, size
        Those rows of ``start`` that steps saw, if they did not see all, and their expected number.
    """

    rows: Rows
    fitted: tuple[FittedStep, ...]
    known: RowNorms | None = None
    start: Rows | None = None
    affine: AffineMap | None = None
    mapped: bool = False
    sample: Rows | None = None
    size: int = 0

    def sampled_rows(self, problem: Problem) -> tuple[Rows, Problem]:
        """Return the rows that steps saw, for a model of the problem on them."""
        if self.sample is None or self.affine is None:
            return self.rows, problem
        rows = self.sample.with_row_norm(self.affine.row_norm)
        rows = rows.transformed(
            self.affine, fit_intercept=problem.fit_intercept, row_norm=problem.row_norm
        )
        return rows, replace(problem, n_rows=self.size)

    def inference_rows(self, change: Callable[[Rows], Rows]) -> tuple[Rows, Rows | None]:
        """Return rows under the map for inference, clipped to a much larger norm than the radius.

        ``change`` gives rows other targets and weights. The second are those that the preparation
        saw, if it did not see all. Answers about such rows must bound each row's part themselves.

        *Privacy.* A row of the result is a function of that row and of released numbers.
        """
        if self.start is None or self.affine is None:
            return change(self.rows), None
        norm = self.affine.row_norm
        radii = [step.radius for step in self.fitted if isinstance(step, FittedRadius)]
        if norm in radii:
            norm = min(INFERENCE_FACTOR * norm, RADII[1])
        affine = replace(self.affine, row_norm=norm)
        public: Any = {"fit_intercept": self.rows.fit_intercept}
        rows = change(self.start).with_row_norm(norm).transformed(affine, **public)
        if self.sample is None:
            return rows, None
        return rows, self.sample.with_row_norm(norm).transformed(affine, **public)


def transform(
    recipe: Recipe,
    X: Any,
    make: Callable[..., Rows],
    session: Session,
    streams: Sequence[Stream],
    problem: Problem,
) -> Prepared:
    """Run the steps, each on what the one before made of X; return rows and what was released.

    ``make`` makes rows of a table: it knows the targets, and gives rows weights by which every unit
    has a total weight of at most 1. X is not written to unless the recipe overwrites it. What the
    steps do is one affine map of the rows. Only `Bounds` and an expansion make a new table, a
    `Radius` after other steps, which depends on the norms of mapped rows, and the end of the
    preparation, if the model needs a table.

    The session has each step's share of the budget reserved; no step uses a target. The problem
    may have a bound on the norm of rows after the preparation.

    *Privacy.* Nothing is claimed for a sample: a row is in it at most once, so every answer has
    the sensitivity that it has on all rows. Proof: docs/proofs/preparation.md.
    """
    stage = Stage(X, make, is_own=recipe.overwrites)
    known = None if recipe.data_norm is None else RowNorms.raw_up_to(recipe.data_norm)
    copies = recipe.copies
    sampling = Sampling(1.0 if copies else recipe.rate)
    fitted: list[FittedStep] = []
    for part, step in enumerate(recipe.steps):
        if recipe.expansion is not None and not step.of_columns:
            stage = stage.expanded(recipe.expansion, problem.n_features)
        if isinstance(step, Radius) and stage.affine and math.isfinite(stage.affine.row_norm):
            stage = stage.written()
        if step.takes_gaps:
            rows = make(stage.table, gaps=True)
        else:
            rows = stage.rows(row_norm=known.clip if known and step.bounded else None)
        if sampling.rate < 1 and not step.of_columns:
            rows = sampling.of(rows, session, streams[part])
        curator = session.curator(rows, streams[part], n_rows=sampling.size)
        curator.open_reserved(part)
        released, known = step.fit(curator, recipe.mechanisms[part], known)
        fitted.append(released)
        stage = stage.then(released, rows)
    if recipe.expansion is not None:
        stage = stage.expanded(recipe.expansion, problem.n_features)
    sample = None if sampling.every is None else stage.start
    if sampling.every is not None and stage.affine is not None:
        stage = stage.over(sampling.every)
    last = stage.written() if copies else stage
    start, affine = stage.from_features()
    return Prepared(
        rows=last.rows(fit_intercept=problem.fit_intercept, row_norm=problem.row_norm),
        fitted=tuple(fitted),
        known=known,
        start=start,
        affine=affine,
        mapped=last.affine is not None,
        sample=sample,
        size=sampling.size or problem.n_rows,
    )


@dataclass
class Sampling:
    """Draws the sample that steps see, once: before the first step after `Bounds`.

    ``every`` are all rows and ``size`` is the expected number in the sample, once it is drawn; a
    sample at rate 1 is never drawn.
    """

    rate: float
    every: Rows | None = None
    size: int | None = None

    def of(self, rows: Rows, session: Session, stream: Stream) -> Rows:
        """Return a sample of the rows, if there is to be one; rows of later steps are of it.

        Rows that are not units themselves are never sampled.
        """
        if self.every is not None or rows.grouped or rows.n_rows != rows.public_size:
            return rows
        self.every = rows
        self.size = round(self.rate * rows.public_size)
        return rows.sample(self.rate, session.curator(rows, stream).generator())


def _applied(step: FittedBounds | Written, table: Any, **given: Any) -> Any:
    """Return the transformed table, wherever it is."""
    return table.applied(step) if isinstance(table, BlockTable) else step.apply(table, **given)


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
            affine = affine.then(1.0 / step.radius)
        elif not isinstance(step, FittedBounds):
            after = step.affine_map(affine, width)
            assert after is not None  # no other step depends on the norm of a row
            affine = after
    return affine


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
