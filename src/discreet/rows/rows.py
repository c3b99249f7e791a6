"""`Rows`: what a curator, and methods that run inside it, can ask of a table with targets.

The methods delegate to free functions on a `RowData`: sums in ``sums.py`` and ``moments.py``,
descents in ``descents.py``, objectives and certificates in ``curvature.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.objectives import Loss
from discreet.rows import curvature, moments, sums
from discreet.rows.affine import AffineMap
from discreet.rows.bounds import LARGEST_ENTRY, SMALLEST_SCALE, gradient_error
from discreet.rows.data import Margins, RowData, written
from discreet.rows.dense import DenseTable
from discreet.rows.descents import GridNoise, Path, descend
from discreet.rows.sparse import SparseTable
from discreet.rows.sums import Sum
from discreet.validate import FloatArray, number, vector

__all__ = ["Checked", "Rows", "check_targets"]


class Checked(NamedTuple):
    """Targets that were checked and that nobody else writes to: rows share them."""

    values: FloatArray


def check_targets(y: ArrayLike | Checked, n_rows: int) -> FloatArray:
    """Return targets as a new float64 array, or those that were checked before as they are."""
    if isinstance(y, Checked):
        return y.values
    array = np.asarray(y)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(
            "y must be a one-dimensional array of numbers; encode labels as -1 and 1 first."
        )
    if array.size != n_rows:
        raise ValueError(f"y must have one target for each of {n_rows} rows, not {array.size}.")
    targets = array.astype(np.float64)
    if not np.isfinite(targets).all():
        raise ValueError(
            "y must be finite; it has NaN or infinite entries. Remove those rows first."
        )
    return targets


class Rows:
    """A table with targets; made by :func:`discreet.rows.as_rows`.

    The table is not copied, so it must not be changed while the rows are in use: norms are computed
    once, and privacy rests on them. With an intercept, the last weight belongs to a constant
    feature 1 that is never stored. With ``row_norm``, rows longer than it act as if scaled down
    to it.

    Parameters
    ----------
    data : RowData
        The table, its targets, and what makes rows of it.
    margins : Margins, optional
        Margins that are known already.

    Attributes
    ----------
    n_rows, n_features, n_parameters : int
        Size; parameters count the intercept. ``n_rows`` of a `sample` is private.
    fit_intercept, row_norm
        As in `as_rows`; of mapped rows, ``row_norm`` is for moments only.
    dense : bool
        True if `hessian_sum` can form a matrix.
    data : RowData
        As given. Private, like all that is computed from it.
    """

    def __init__(self, data: RowData, margins: Margins | None = None) -> None:
        self.data = data
        self.n_rows, self.n_features = data.n_rows, data.n_features
        self.n_parameters = data.n_parameters
        self.fit_intercept, self.row_norm = data.fit_intercept, data.row_norm
        self.dense = data.table.dense
        self._margins = Margins() if margins is None else margins
        self._largest: FloatArray | None = None

    # Other rows

    def transformed(
        self, map: AffineMap, *, fit_intercept: bool, row_norm: float | None = None
    ) -> Self:
        """Return the rows under an affine map, without a copy of the table.

        These rows must be scaled down to the map's ``row_norm`` already. Mapped rows answer
        questions about margins, gradients, losses and moments. ``row_norm`` is the norm that longer
        mapped rows are scaled down to in moments; gradients do not need it, as they are clipped.
        """
        return type(self)(
            self.data.transformed(map, fit_intercept=fit_intercept, row_norm=row_norm)
        )

    def with_targets(self, y: ArrayLike | Checked) -> Self:
        """Return the same rows with other targets. Nothing is computed again or copied."""
        targets = check_targets(y, self.n_rows)
        other = type(self)(replace(self.data, targets=targets), self._margins.copy())
        other._largest = self._largest
        return other

    def take(self, index: NDArray[np.intp]) -> Self:
        """Return the named rows, as rows; the public size stays that of the whole table."""
        return type(self)(self.data.take(index))

    def sample(self, rate: float, generator: np.random.Generator) -> Self:
        """Draw a Poisson sample: every row independently, with a probability of at most ``rate``.

        The probability is ``rate`` rounded down to a multiple of 2⁻⁵³. Only sampled rows are
        copied.

        Notes
        -----
        *Privacy.* Which and how many rows were drawn is private; the sample's ``error`` is
        computed from the size of the whole table. Amplification holds as far as ``generator`` is
        unpredictable.
        """
        rate = number("rate", rate, least=0.0, most=1.0, remedy="It is a probability.")
        return self.take(np.flatnonzero(generator.random(self.n_rows) + 2.0**-53 <= rate))

    def within_reach(self) -> Self:
        """Return the rows without those that are scaled down by more than 2^-500.

        Such a row counts as a constant: no loss, no gradient, no curvature. Its products with
        weights could overflow before they are scaled. There are none in sensible units; then these
        are the rows themselves.

        Notes
        -----
        *Privacy.* Whether a row counts depends on that row and public arguments alone, and a
        constant is a convex function within every bound on gradients and curvature. The number of
        rows that are left is private; the public size stays that of the whole table.
        """
        far = self.data.scales < SMALLEST_SCALE
        return self.take(np.flatnonzero(~far)) if far.any() else self

    def columns(self, index: NDArray[np.intp], factor: float) -> Self:
        """Return the rows with the named columns only, multiplied by ``factor``, as rows.

        Rows that are scaled down to ``row_norm`` keep the scale of the whole row; the new rows have
        no ``row_norm``. A constant feature stays as it is. Entries beyond 1e150 are cut to it: no
        row can make it fail. What becomes of a row is a function of that row and of public
        arguments, so a narrower table keeps every contract. Proof: docs/proofs/shrunk_gd.md.
        """
        data = self.data
        index = np.asarray(index, dtype=np.intp)
        if not data.map.is_identity:
            # Each column of rows under a matrix is made of all stored ones.
            table = data.table.columns(index) if data.map.is_diagonal else data.table
            stored = replace(data, table=table, map=AffineMap.identity(data.map.row_norm))
            narrow = data.map.columns(index, factor)
            intercept = data.fit_intercept
            return type(self)(stored.transformed(narrow, fit_intercept=intercept, row_norm=None))
        factors = np.full(data.n_rows, float(factor))
        with np.errstate(all="ignore"):  # a warning about one row would be about that row
            if data.scales.size:
                factors *= data.scales
            values = data.table.columns(index).scaled(factors, largest=LARGEST_ENTRY)
        table = DenseTable(values) if data.table.dense else SparseTable(values)
        new = RowData.of(table, data.targets, fit_intercept=data.fit_intercept, row_norm=None)
        return type(self)(replace(new, public_rows=data.public_rows))

    # Sums with the contract of `Sum`

    def gradient_sum(self, weights: ArrayLike, loss: Loss, clip: float) -> Sum:
        """Sum the rows' loss gradients, each clipped to L2 norm ``clip``.

        A row's gradient is φ'(margin, target)·x, so clipping limits φ' to ±clip/‖x‖. A slope that
        is not a number (after overflow) counts as 0. The penalty is not included. A row under an
        affine map that has no constant feature and is shorter than 1 is clipped as if its norm
        were 1.

        Parameters
        ----------
        weights : array of n_parameters numbers per output of the loss
            Where to evaluate. If it equals ``weights - steps[k] * direction``, computed so, for the
            arguments of the last :meth:`line_losses`, or the weights of the last call, no product
            with X is needed for the margins.
        loss : Loss
            The loss. The library's own have compiled loops; others are called block by block.
        clip : float
            Between 1e-100 and 1e100, here and in all sums.

        Notes
        -----
        *Privacy.* L2 sensitivity of ``values``: clip + 2·error under add/remove, 2·clip + 2·error
        under replace, by the contract in :class:`Sum` with ‖c_i‖₂ ≤ clip. ``values`` must not be
        released without noise. A third-party loss must be elementwise. Proofs:
        docs/proofs/summation.md, docs/proofs/affine.md.
        """
        return sums.gradient(self.data, self._margins, weights, loss, clip)

    def line_losses(
        self, weights: ArrayLike, direction: ArrayLike, steps: ArrayLike, loss: Loss, clip: float
    ) -> Sum:
        """Sum the rows' losses, each clipped at ``clip``, at ``weights - step * direction``.

        One product with X serves all steps. The logistic loss is fastest with steps that start at
        0 and are equally spaced. ``values[k]`` belongs to ``steps[k]``; ``error`` holds for each.

        Notes
        -----
        *Privacy.* By the contract in :class:`Sum` with 0 ≤ c_i ≤ clip, adding a row changes every
        value by a number in [0, clip], up to 2·error: sensitivity clip + 2·error, and monotone up
        to 2·error, under add/remove. A loss that is not a number counts as clip. Proof:
        docs/proofs/summation.md.
        """
        return sums.line_losses(self.data, self._margins, weights, direction, steps, loss, clip)

    def corner_gradient(self, weights: ArrayLike, loss: Loss, clip: float) -> Sum:
        """Sum the rows' loss gradients, each scaled down until no entry of it exceeds ``clip``.

        A row's gradient is φ'(margin, target)·x, so this limits φ' to ±clip/max_j|x_j|: the
        direction of a row's gradient stays as it is. The constant of the intercept counts as an
        entry of the row. A slope that is not a number counts as 0. The penalty is not included.
        ``error`` holds for each entry.

        Notes
        -----
        *Privacy.* Each entry of ``values`` moves by at most clip + 2·error under add/remove,
        2·clip + 2·error under replace: the contract in `Sum` with ‖c_i‖_∞ ≤ clip. ``values`` must
        not be released without noise. Proof: docs/proofs/frank_wolfe.md.
        """
        if self._largest is None:
            self._largest = sums.largest_entries(self.data)
        return sums.corner_gradient(self.data, self._margins, self._largest, weights, loss, clip)

    def candidate_losses(
        self, candidates: ArrayLike, parent: ArrayLike, loss: Loss, clip: float
    ) -> Sum:
        """Sum, for each candidate, the rows' changes of loss from ``parent``, clipped to ±clip.

        ``candidates`` has shape (m, n_parameters); ``values[k]`` belongs to ``candidates[k]``, and
        ``error`` holds for each.

        Notes
        -----
        *Privacy.* By the contract in `Sum` with |c_ik| ≤ clip, adding a row moves each value by at
        most clip + 2·error, either way; replacing one, by 2·clip + 2·error. A change that is not
        a number counts as clip. A third-party loss must be elementwise. Proof:
        docs/proofs/privgene.md.
        """
        return sums.candidate_losses(self.data, candidates, parent, loss, clip)

    def row_sum(self) -> Sum:
        """Sum the rows, each scaled down to ``row_norm`` where it is longer; no constant feature.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with ‖c_i‖₂ ≤ row_norm. Proofs:
        docs/proofs/preparation.md, docs/proofs/affine.md.
        """
        return moments.row_sum(self.data)

    def square_sum(self) -> Sum:
        """Sum the squares of the rows' entries, each row scaled down to ``row_norm`` if longer.

        ``values`` has n_features entries: the diagonal of what `outer_sum` computes.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with c_i = y∘y, ‖y‖ ≤ row_norm: entries of c_i are not
        negative and ‖c_i‖₂ ≤ row_norm². Proofs: docs/proofs/preparation.md, docs/proofs/affine.md.
        """
        return moments.square_sum(self.data)

    def outer_sum(self) -> Sum:
        """Sum the outer products of the rows, each scaled down to ``row_norm`` if it is longer.

        ``values`` is the upper triangle, row by row, with off-diagonal numbers times √2 (see
        `discreet.rows.moments.triangle`): its L2 norm is the matrix's Frobenius norm.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with c_i the weighted triangle of yyᵀ, ‖y‖ ≤ row_norm:
        ‖c_i‖₂ ≤ row_norm². Proofs: docs/proofs/preparation.md, docs/proofs/affine.md.
        """
        return moments.outer_sum(self.data)

    def xy_moment_sum(
        self,
        clip: float,
        target_weight: float = 1.0,
        target_centre: float = 0.0,
        *,
        features: bool = True,
    ) -> Sum:
        """Sum vvᵀ over rows, v = (x, 1, t·(y − c)), scaled down to norm ``clip`` if it is longer.

        Without a constant feature v has no 1; without ``features`` it is (1, t·(y − c)), constant
        or not. With ``row_norm``, x is scaled down to it first. ``target_weight`` and
        ``target_centre`` are t and c; ``values`` is a weighted triangle as in `outer_sum`.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with c_i the weighted triangle of vvᵀ: ‖c_i‖₂ ≤ clip².
        Proof: docs/proofs/newton.md.
        """
        return moments.xy_moment_sum(
            self.data, clip, target_weight, target_centre, features=features
        )

    def target_sum(self, bound: float) -> Sum:
        """Sum the targets, each cut to [-bound, bound]; ``values`` has one entry.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with |c_i| ≤ bound: the cut target itself, summed in
        blocks like an entry of a gradient. Proof: docs/proofs/gd.md.
        """
        return moments.target_sum(self.data, bound)

    # Numbers of single rows (private)

    def margins(self, weights: ArrayLike) -> FloatArray:
        """Return the n margins x·w plus intercept (private), each from its row alone."""
        at = vector("weights", weights, self.n_parameters)
        return self._margins.at(self.data, at).margins.copy()

    def norms(self) -> FloatArray:
        """Return upper bounds on the norms of rows, without a constant feature (private).

        They are above the true norms by a few roundings, and computed from each row alone. A
        constant feature is taken out of them again, which rounds short ones.
        """
        if self.fit_intercept:
            with np.errstate(all="ignore"):  # a warning about one row would be about that row
                return np.sqrt(np.maximum(np.square(self.data.norms) - 1.0, 0.0))
        return self.data.norms.copy()

    def column(self, index: int) -> FloatArray:
        """Return one column as stored, without any scaling, as a new array (private)."""
        self.data.need_stored("a column")
        if not 0 <= index < self.n_features:
            raise ValueError(f"column must be from 0 to {self.n_features - 1}, not {index!r}.")
        return self.data.table.column(index)

    # Tables made of the rows (private, like the rows)

    def scaled(self, factor: float, out: NDArray[Any] | None = None) -> Any:
        """Return the rows, scaled down to ``row_norm``, times ``factor``; a sparse table stays so.

        ``out``, for a dense table, and privacy are as in `shifted`.
        """
        self.data.need_stored("a table")
        if not self.data.scales.size:
            raise ValueError("rows are scaled down to a public norm; pass row_norm.")
        return self.data.table.scaled(self.data.scales * float(factor), out=out)

    def shifted(self, shift: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the rows, scaled down to ``row_norm``, minus ``shift``, as a dense array.

        Rows without a ``row_norm`` are taken as they are.
        ``out``, if given, is written to; it may be the table itself, which then is lost.

        Notes
        -----
        *Privacy.* Private, like the rows. A row of the result is a function of that row, the
        arguments and the type of the table alone.
        """
        self.data.need_stored("a table")
        offset = vector("shift", shift, self.n_features)
        return written(self.data, AffineMap(np.inf, np.ones(self.n_features), offset), out)

    def rotated(self, matrix: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return ``matrix`` times each row, scaled down to ``row_norm``, as a dense array.

        ``out`` and privacy are as in `shifted`.
        """
        self.data.need_stored("a table")
        size = self.n_features
        square = np.array(matrix, dtype=np.float64, order="C")
        if square.shape != (size, size) or not np.isfinite(square).all():
            raise ValueError(f"matrix must be {size} × {size} finite numbers.")
        return written(self.data, AffineMap(np.inf, square, np.zeros(size)), out)

    # Descents and objectives on exact rows

    @staticmethod
    def batch_error(batch_size: int, clip: float) -> float:
        """Bound the rounding error of the sum of a batch's gradients (docs/proofs/descents.md)."""
        return gradient_error(batch_size, batch_size, clip)

    def descend(
        self,
        weights: ArrayLike,
        loss: Loss,
        *,
        order: ArrayLike,
        steps: ArrayLike,
        clip: float,
        alpha: float = 0.0,
        radius: float | None = None,
        noise: GridNoise | None = None,
    ) -> Path:
        """Take one step of gradient descent for each batch of rows.

        w ← w − step·(sum/b + alpha·w), where sum adds up the b rows' gradients at w, each clipped
        to norm ``clip``, and noise on a grid if there is any; then the projection to a ball.

        Parameters
        ----------
        order : integer array of shape (updates, b)
            The rows of each batch.
        steps : array of ``updates`` numbers
            Step sizes.
        radius : float or None
            Project to the ball of this radius after each step.
        noise : GridNoise or None
            Noise for each sum. Without it the result depends on exact rows, and rows that are
            scaled down by more than 2^-500 take no part (their margins could overflow).

        Notes
        -----
        *Privacy.* With noise, the result is a function of the noisy sums and of public arguments.
        Given the weights before it, a batch's sum has L2 sensitivity 2·clip + 2·`batch_error` when
        one of its rows is replaced, by the contract of :class:`discreet.rows.Sum`. Without noise
        the result is private. Proof: docs/proofs/descents.md.
        """
        return descend(
            self.data,
            weights,
            loss,
            order=order,
            steps=steps,
            clip=clip,
            alpha=alpha,
            radius=radius,
            noise=noise,
        )

    def objective_sum(self, weights: ArrayLike, loss: Loss) -> float:
        """Return the sum of the rows' losses at ``weights``; not clipped, without the penalty."""
        return curvature.objective_sum(self.data, self._margins, weights, loss)

    def hessian_sum(self, weights: ArrayLike, loss: Loss) -> FloatArray:
        """Return the sum of the rows' Hessians, a square matrix; dense tables only."""
        return curvature.hessian_sum(self.data, self._margins, weights, loss)

    def hessian_product(self, weights: ArrayLike, loss: Loss, vector: ArrayLike) -> FloatArray:
        """Return the sum of the rows' Hessians times ``vector``, without forming a matrix."""
        return curvature.hessian_product(self.data, self._margins, weights, loss, vector)

    def hessian_diagonal(self, weights: ArrayLike, loss: Loss) -> FloatArray:
        """Return the diagonal of the sum of the rows' Hessians."""
        return curvature.hessian_diagonal(self.data, self._margins, weights, loss)

    def plain_gradient(
        self, weights: ArrayLike, loss: Loss, clip: float, ridge: float, linear: FloatArray
    ) -> FloatArray:
        """Return the gradient of `perturbed_gradient` faster, without a bound: to steer only."""
        values = self.gradient_sum(weights, loss, clip).values
        return np.asarray(values + ridge * np.asarray(weights) + linear)

    def perturbed_gradient(
        self,
        weights: ArrayLike,
        loss: Loss,
        clip: float,
        ridge: float,
        linear: FloatArray,
        rest: FloatArray | None = None,
    ) -> tuple[FloatArray, float]:
        """Return the gradient of Σℓ(w) + ridge/2·‖w‖² + linear·w, and a bound on its true norm.

        Parameters
        ----------
        loss : Loss
            A loss of bounded slope and curvature.
        clip : float
            Bound on the norm of every row's gradient, with some room: gradients are not clipped.
        rest : ndarray, optional
            Where, more precisely: at ``weights + rest``, each at most a rounding of ``weights``.
            Large weights need it, as a rounding of theirs would change a gradient too much.

        Returns
        -------
        gradient : ndarray
            The gradient as computed.
        bound : float
            At least the norm of the exact gradient: of real arithmetic on the doubles that are
            given, for rows that are the stored rows times their stored scales. It exceeds the
            computed norm by an allowance that depends on public numbers and the norms of the
            three terms and of ``weights``. Infinite if weights are too large to certify anything.

        Notes
        -----
        *Privacy.* Proof in docs/proofs/objective_perturbation.md. The bound is private. For rows
        `within_reach` only: of others an exact gradient is not certified.
        """
        return curvature.perturbed_gradient(self.data, weights, loss, clip, ridge, linear, rest)

    def certifiable_norm(
        self, loss: Loss, clip: float, ridge: float, weights: float, linear: float
    ) -> float:
        """Return a gradient norm that can be certified whatever the rows are, from public numbers.

        ``weights`` and ``linear`` bound the norm of the minimum and that of the linear term.
        """
        return curvature.certifiable_norm(self.data, loss, clip, ridge, weights, linear)
