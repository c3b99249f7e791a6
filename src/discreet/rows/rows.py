"""`Rows`: what a curator, and methods that run inside it, can ask of a table with targets.

Its methods are functions of `RowData`, documented with their contracts where they are defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from discreet.rows import certified, curvature, descents
from discreet.rows.affine import AffineMap
from discreet.rows.bounds import (
    LARGEST_ENTRY,
    ROW_NORM_RANGE,
    SMALLEST_SCALE,
    UNIT_ROUNDOFF,
    gradient_error,
)
from discreet.rows.data import RowData, add_constant
from discreet.rows.sparse import SparseTable
from discreet.rows.table import DenseTable
from discreet.rows.units import RowWeights, Unit
from discreet.validate import FloatArray, integer, number


class Summed(Protocol):
    """A question about rows: data that can be pickled, with a kernel."""

    def on(self, rows: Rows) -> Any:
        """Return the exact answer for the rows of one table, or of one block of it."""


class AskedRows(Protocol):
    """Rows that answer questions: their public facts, and exact answers for the curator alone."""

    @property
    def unit(self) -> Unit:
        """Privacy unit that the rows were made with."""

    @property
    def public_size(self) -> int:
        """Public number of units."""

    @property
    def n_features(self) -> int:
        """Number of columns, without the constant of an intercept."""

    @property
    def n_parameters(self) -> int:
        """Number of weights of a model with one output."""

    @property
    def row_norm(self) -> float | None:
        """Public norm that longer rows are scaled down to, if there is one."""

    def answer(self, questions: Sequence[Summed]) -> list[Any]:
        """Return the exact answers, from one reading of the rows."""


class Checked(NamedTuple):
    """Targets that were checked and that nobody else writes to: rows share them."""

    values: FloatArray


Targets = ArrayLike | Checked


def check_targets(y: Targets, n_rows: int) -> FloatArray:
    """Return targets as float64, or those that were checked before as they are; not copied."""
    if isinstance(y, Checked):
        return y.values
    array = np.asarray(y)
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf":
        raise ValueError(
            "y must be an array of numbers, one or several for each row; encode labels as -1 and 1."
        )
    if len(array) != n_rows:
        raise ValueError(f"y must have one target for each of {n_rows} rows, not {len(array)}.")
    targets = array.astype(np.float64, copy=False)
    if not np.isfinite(targets).all():
        raise ValueError(
            "y must be finite; it has NaN or infinite entries. Remove those rows first."
        )
    return targets


def check_weights(
    weights: ArrayLike | RowWeights | None, n_rows: int, public_size: int | None
) -> RowWeights:
    """Return weights on their grid, with their public size."""
    if isinstance(weights, RowWeights):
        if weights.values.size not in (0, n_rows) or weights.codes.size not in (0, n_rows):
            raise ValueError("weights must have one number for each row.")
        return weights
    if public_size is not None:
        public_size = integer("public_size", public_size, least=0)
    if weights is None:
        size = n_rows if public_size is None else public_size
        if size < n_rows:
            raise ValueError(f"public_size must be at least the number of rows, {n_rows}.")
        return RowWeights(np.empty(0), size)
    if public_size is None:
        raise ValueError("rows with weights need a public bound on their sum; pass public_size.")
    own = np.array(weights, dtype=np.float64)
    if own.shape != (n_rows,):
        raise ValueError("weights must have one number for each row.")
    return RowWeights.of(own, public_size)


class Rows(RowData):
    """A table with targets; made by :func:`discreet.rows.as_rows`.

    The table must not be changed while the rows are in use: norms are computed once, and privacy
    rests on them. Everything that is computed from the rows is private.
    """

    def answer(self, questions: Sequence[Summed]) -> list[Any]:
        """Return the exact answer to each question, in order: what its ``on`` computes."""
        return [question.on(self) for question in questions]

    # Descents and objectives on exact rows

    descend = descents.descend
    objective_sum = curvature.objective_sum
    hessian_sum = curvature.hessian_sum
    hessian_product = curvature.hessian_product
    hessian_diagonal = curvature.hessian_diagonal
    certified_sum = certified.certified_sum
    perturbed_gradient = certified.perturbed_gradient

    @staticmethod
    def batch_error(batch_size: int, clip: float) -> float:
        """Bound the rounding error of the sum of a batch's gradients (docs/proofs/descents.md)."""
        return gradient_error(batch_size, batch_size, clip)

    # Other rows

    def with_targets(self, y: Targets | Callable[[FloatArray], Targets]) -> Self:
        """Return the same rows with other targets, or with a function of their own ones."""
        targets = y(self.targets) if callable(y) else y
        return self._with(targets=check_targets(targets, self.n_rows))

    def with_weights(self, weights: RowWeights) -> Self:
        """Return the same rows with other weights."""
        own = check_weights(weights, self.n_rows, None)
        return self._with(
            weights=own.values,
            units=own.codes,
            grouped=own.grouped,
            unit=own.unit,
            public_size=own.size,
        )

    def _with(self, **changes: Any) -> Self:
        other = replace(self, **changes)
        other.memory = replace(self.memory)
        return other

    def sample(self, rate: float, generator: np.random.Generator) -> Self:
        """Draw a Poisson sample: every row independently, with a probability of at most ``rate``.

        Of rows whose units are known, units are drawn, with all of their rows. The probability is
        ``rate`` rounded down to a multiple of 2⁻⁵³.

        *Privacy.* Which and how many rows were drawn is private; the sample's ``error`` is
        computed from the size of the whole table. Amplification holds as far as ``generator`` is
        unpredictable.
        """
        rate = number("rate", rate, least=0.0, most=1.0, remedy="It is a probability.")
        known = self.grouped and self.units.size > 0
        drawn = generator.random(self.n_units if known else self.n_rows) + UNIT_ROUNDOFF <= rate
        index = np.flatnonzero(drawn)
        return self.take_units(index) if known else self.take(index)

    def within_reach(self) -> Self:
        """Return the rows without those that are scaled down by more than 2^-500.

        Such a row counts as a constant: its products with weights could overflow before they are
        scaled. There are none in sensible units.

        *Privacy.* Whether a row counts depends on that row and public arguments alone, and a
        constant is a convex function within every bound on gradients and curvature. The number of
        rows that are left is private; the public size stays that of the whole table.
        """
        far = self.scales < SMALLEST_SCALE
        return self.take(np.flatnonzero(~far)) if far.any() else self

    def columns(
        self, index: NDArray[np.intp], factor: float, matrix: FloatArray | None = None
    ) -> Rows:
        """Return the rows with the named columns only, multiplied by ``factor``, as rows.

        Those under a map may be multiplied by a ``matrix`` after that.

        Rows that are scaled down to ``row_norm`` keep the scale of the whole row; the new rows have
        no ``row_norm``. Entries beyond 1e150 are cut to it: no row can make it fail. What becomes
        of a row is a function of that row and of public arguments (docs/proofs/shrunk_gd.md).
        """
        index = np.asarray(index, dtype=np.intp)
        width = self.table.n_features
        if index.ndim != 1 or not index.size or index.min() < 0 or index.max() >= width:
            raise ValueError(f"columns must be a list of indices from 0 to {width - 1}.")
        if not self.map.is_identity:
            # Each column of rows under a matrix is made of all stored ones.
            narrow = self.map.columns(index, factor)
            narrow = narrow if matrix is None else narrow.then(matrix)
            narrower = self.map.is_diagonal and not np.array_equal(index, np.arange(width))
            table = self.table.columns(index) if narrower else self.table
            stored = replace(self, table=table, map=narrow.start)
            return stored.transformed(narrow, fit_intercept=self.fit_intercept)
        if matrix is not None:
            raise ValueError("rows that are stored are not multiplied by a matrix; map them.")
        factors = np.full(self.n_rows, float(factor))
        with np.errstate(all="ignore"):  # a warning about one row would be about that row
            if self.scales.size:
                factors *= self.scales
            values = self.table.columns(index).scaled(factors, largest=LARGEST_ENTRY)
        settings: Any = {"fit_intercept": self.fit_intercept, "weights": self.row_weights}
        return as_rows(values, Checked(self.targets), **settings)

    # Numbers of single rows (private)

    def margins(self, weights: ArrayLike) -> FloatArray:
        """Return the n margins x·w plus intercept (private), each from its row alone."""
        return self.margins_at(weights).copy()

    # Tables made of the rows (private, like the rows)

    def scaled(self, factor: float, out: NDArray[Any] | None = None) -> Any:
        """Return the rows, scaled down to ``row_norm``, times ``factor``; a sparse table stays so.

        ``out``, for a dense table, is as in `written`.
        """
        self.need_stored("a table")
        if not self.scales.size:
            raise ValueError("rows are scaled down to a public norm; pass row_norm.")
        return self.table.scaled(self.scales * float(factor), out=out)

    def written(self, map: AffineMap, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return L·x − b of rows x, scaled down to ``row_norm`` if there is one: a dense array.

        L and b are those of a map that has as many columns as the table; its own norm is not used.
        ``out``, if given, is written to; it may be the table itself, which then is lost. A row of
        the result is a function of that row, the arguments and the type of the table alone.
        """
        self.need_stored("a table")
        width = self.n_features
        finite = np.isfinite(map.linear).all() and np.isfinite(map.offset).all()
        if map.offset.shape != (width,) or not finite:
            raise ValueError(f"a map of these rows must be finite numbers for {width} columns.")
        rows, shape = replace(self, map=map), (self.n_rows, width)
        target = np.empty(shape, dtype=self.table.dtype) if out is None else out

        def write(at: slice) -> None:
            for some, tile in rows.tiles(at):
                target[some] = tile

        self.table.each(write)
        return target

    def materialised(self) -> Any:
        """Return mapped rows as a table: CSR if the table is and no entry of 0 changes, else dense.

        A row of the result is a function of that row, the map and the type of the table alone.
        """
        if not self.table.dense and self.map.is_diagonal and not self.map.offset.any():
            scaled: Any = self.table.scaled(self.scales)
            scaled.data *= self.map.linear.astype(self.table.dtype)[scaled.indices]
            return scaled
        target = np.empty((self.n_rows, self.n_features), dtype=self.table.dtype)

        def write(at: slice) -> None:
            for some, tile in self.tiles(at):
                target[some] = tile

        self.table.each(write)
        return target


def as_rows(
    X: Any,
    y: Targets,
    *,
    fit_intercept: bool = True,
    row_norm: float | None = None,
    weights: ArrayLike | RowWeights | None = None,
    public_size: int | None = None,
    gaps: bool = False,
) -> Rows:
    """Wrap a table and its targets, without copying; raise ValueError if they are not finite.

    Parameters
    ----------
    X : ndarray, memmap, csr_array or csr_matrix of float32 or float64
        The table. It is never written, and must not change while the rows are in use.
    y : array of numbers
        Targets, one for each row: -1 and 1 for classification. They must not change, either.
    fit_intercept : bool
        Whether rows have a constant last feature 1 (which is never stored).
    row_norm : float or None
        Public bound on the norm of a row, without the constant; longer rows act as if scaled down
        to it. ``None``: rows are left as they are.
    weights : array of numbers from 0 to 1, optional
        What each row's part in every sum is multiplied by, rounded down to a multiple of 2^-30.
        Where the weights of a unit's rows add up to at most 1, all sums have the sensitivity for
        units that they have for single rows. `RowWeights` know their units and public size.
    public_size : int, optional
        Public bound on the sum of the weights; the number of rows by default. Rows with weights
        need it, and a partition of a table takes that of the whole table.
    gaps : bool
        Accept entries that are missing (NaN) or infinite. A curator answers counts of the columns
        of such rows and nothing else.
    """
    if gaps and (row_norm is not None or fit_intercept):
        raise ValueError("rows with gaps have neither a norm nor an intercept.")
    if row_norm is not None:
        low, high = ROW_NORM_RANGE
        remedy = "Pass a public bound on the norm of a row, or None to leave rows as they are."
        row_norm = number("row_norm", row_norm, least=low, most=high, remedy=remedy)
    sparse = sp.issparse(X)
    if sparse and X.format != "csr":
        raise ValueError(f"X must be a CSR matrix, not {X.format}. Convert it with X.tocsr().")
    if not sparse and (not isinstance(X, np.ndarray) or isinstance(X, np.ma.MaskedArray)):
        raise ValueError(
            f"X must be a numpy array or a scipy CSR matrix, not {type(X).__name__}. "
            "Convert it with numpy.asarray(X, dtype=float)."
        )
    if X.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(
            f"X must have dtype float32 or float64 (native byte order), not {X.dtype}. "
            "Convert it with X.astype(numpy.float64)."
        )
    if X.ndim != 2 or X.shape[1] < 1:
        raise ValueError(
            f"X must have two dimensions and at least one column; its shape is {X.shape}."
        )
    targets = check_targets(y, X.shape[0])
    table = SparseTable(X) if sparse else DenseTable(np.asarray(X))
    own = check_weights(weights, X.shape[0], public_size)
    rows = Rows(
        table=table,
        targets=targets,
        fit_intercept=False,
        row_norm=None,
        map=AffineMap.to_norm(np.inf),
        public_size=own.size,
        scales=np.empty(0),
        norm_bounds=np.full(table.n_rows, np.inf) if gaps else table.norms(),
        weights=own.values,
        units=own.codes,
        grouped=own.grouped,
        unit=own.unit,
        gaps=gaps,
    )
    rows = rows if row_norm is None else rows.with_row_norm(row_norm)
    if fit_intercept:  # norms are those of scaled rows with their constant (summation.md, part 2)
        rows, norms = replace(rows, fit_intercept=True), rows.norm_bounds
        short = norms < 2.0**30  # for others the constant changes nothing
        add_constant(norms, True if short.all() else short)
    return rows
