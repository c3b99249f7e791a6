"""Sums over rows that private selections score candidates with.

Both follow the contract of :class:`discreet.rows.base.Sum`: what a row adds to a sum is computed
from that row and public arguments alone. Proofs: docs/proofs/frank_wolfe.md and
docs/proofs/privgene.md, on top of docs/proofs/summation.md.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import NotSupported
from discreet.objectives import Loss
from discreet.rows.bounds import gradient_error
from discreet.rows.checks import Vector, check_clip, check_vector
from discreet.rows.parts import in_parts

if TYPE_CHECKING:
    from discreet.rows.base import Sum

__all__ = ["Choices"]

CANDIDATE_ROWS = 4096
"""Rows whose margins under one candidate are held at a time."""

FEW = 8
"""Columns are looked up one entry at a time if at most one in so many has a weight."""


class _Largest(NamedTuple):
    norms: Vector  # whose rows they belong to: a sample of the rows has norms of its own
    entries: Vector


class Choices:
    """Scores of candidates: corners of a ball, or other weights."""

    n_rows: int
    n_features: int
    n_parameters: int
    block_rows: int
    fit_intercept: bool
    _public_rows: int
    _n_entries: int
    _targets: Vector
    _norms: Vector
    _scales: Vector
    _largest: _Largest | None = None

    if TYPE_CHECKING:

        @abstractmethod
        def _products(self, start: int, stop: int, vector: Vector, out: Vector) -> None: ...

        def _margins(self, weights: Vector) -> Vector: ...

        def _clipped_sum(self, margins: Vector, loss: Loss, clip: float, sizes: Vector) -> Sum: ...

    def corner_gradient(self, weights: ArrayLike, loss: Loss, clip: float) -> Sum:
        """Sum the rows' loss gradients, each scaled down until no entry of it exceeds ``clip``.

        A row's gradient is φ'(margin, target)·x, so this limits φ' to ±clip/max_j|x_j|: the
        direction of a row's gradient stays as it is. The constant of the intercept counts as an
        entry of the row. A slope that is not a number counts as 0. The penalty is not included.

        Parameters
        ----------
        weights : array of n_parameters numbers
            Where to evaluate.
        loss : Loss
            The loss.
        clip : float
            Bound on an entry of a row's gradient, between 1e-100 and 1e100.

        Returns
        -------
        Sum
            ``values`` has n_parameters entries; ``error`` holds for each of them.

        Notes
        -----
        *Privacy.* Each entry of ``values`` moves by at most clip + 2·error under add/remove,
        2·clip + 2·error under replace: the contract in `Sum` with ‖c_i‖_∞ ≤ clip. ``values`` must
        not be released without noise. Proof: docs/proofs/frank_wolfe.md.
        """
        _refuse_outputs(loss)
        clip = check_clip(clip)
        margins = self._corner_margins(check_vector("weights", weights, self.n_parameters))
        return self._clipped_sum(margins, loss, clip, self._largest_entries())

    def candidate_losses(
        self, candidates: ArrayLike, parent: ArrayLike, loss: Loss, clip: float
    ) -> Sum:
        """Sum, for each candidate, the rows' changes of loss from ``parent``, clipped to ±clip.

        Margins are held for a block of rows and one candidate at a time.

        Parameters
        ----------
        candidates : array of shape (m, n_parameters)
            The weights to compare.
        parent : array of n_parameters numbers
            The weights they are compared with.
        loss : Loss
            The loss.
        clip : float
            Bound on the change of a row's loss, between 1e-100 and 1e100.

        Returns
        -------
        Sum
            ``values[k]`` belongs to ``candidates[k]``; ``error`` holds for each of them.

        Notes
        -----
        *Privacy.* By the contract in `Sum` with |c_ik| ≤ clip, adding a row moves each value by at
        most clip + 2·error, either way; replacing one, by 2·clip + 2·error. A change that is not
        a number counts as clip. A third-party loss must be elementwise. Proof:
        docs/proofs/privgene.md.
        """
        from discreet.rows.base import Sum, _sum_of
        from discreet.rows.choice_kernels import difference_sum

        _refuse_outputs(loss)
        clip = check_clip(clip)
        parent = check_vector("parent", parent, self.n_parameters)
        points = np.ascontiguousarray(candidates, dtype=np.float64)
        if (
            points.ndim != 2
            or points.shape[1] != self.n_parameters
            or not np.isfinite(points).all()
        ):
            raise ValueError(
                f"candidates must be finite and have shape (m, {self.n_parameters}); got shape "
                f"{points.shape}."
            )

        def part(first: int, last: int) -> Vector:
            values = np.zeros(len(points))
            buffers = np.empty((3, min(CANDIDATE_ROWS, last - first)))
            for start in range(first, last, CANDIDATE_ROWS):
                block = slice(start, min(start + CANDIDATE_ROWS, last))
                at, before, margins = buffers[:, : block.stop - start]
                with np.errstate(all="ignore"):
                    self._losses(block, parent, loss, margins, before)
                    for k in range(len(points)):
                        self._losses(block, points[k], loss, margins, at)
                        values[k] += difference_sum(at, before, clip)
            return values

        entries = self._n_entries * len(points)
        values = _sum_of(in_parts(part, self.n_rows, entries, CANDIDATE_ROWS))
        error = gradient_error(self._public_rows, CANDIDATE_ROWS, clip)
        return Sum(values, error)

    def _losses(
        self, block: slice, weights: Vector, loss: Loss, margins: Vector, out: Vector
    ) -> None:
        """Write the losses of a block of rows at ``weights`` to out, and their margins."""
        from discreet.rows.base import _compiled
        from discreet.rows.choice_kernels import losses

        code, parameter = _compiled(loss)
        targets = self._targets[block]
        self._products(block.start, block.stop, weights[: self.n_features], margins)
        if self._scales.size:
            margins *= self._scales[block]
        if self.fit_intercept:
            margins += weights[-1]
        if code == 0:
            out[:] = loss.value(margins, targets)
        else:
            losses(code, parameter, margins, targets, out)

    def _corner_margins(self, weights: Vector) -> Vector:
        """Margins at weights most of which may be zero; how they are computed is public."""
        from discreet.rows.choice_kernels import few_products

        used = weights[: self.n_features] != 0
        if self._sparse is None or FEW * np.count_nonzero(used) > self.n_features:
            return self._margins(weights)
        indptr, indices, data = self._sparse
        margins = np.empty(self.n_rows)
        with np.errstate(all="ignore"):
            in_parts(
                lambda start, stop: few_products(
                    indptr[start : stop + 1], indices, data, weights, used, margins[start:stop]
                ),
                self.n_rows,
                self._n_entries,
                self.block_rows,
            )
            if self._scales.size:
                margins *= self._scales
            if self.fit_intercept:
                margins += weights[-1]
        return margins

    @property
    def _sparse(self) -> tuple[Any, Any, Any] | None:
        """The arrays of a CSR table; ``None`` if the table is dense."""
        if not hasattr(self, "_indptr"):
            return None
        return self._indptr, self._indices, self._data  # type: ignore[attr-defined]

    def _largest_entries(self) -> Vector:
        """Bounds on the largest absolute entry of each (scaled) row, its constant included."""
        from discreet.rows import choice_kernels as kernels

        if self._largest is None or self._largest.norms is not self._norms:
            entries = np.empty(self.n_rows)
            if self._sparse is not None:
                indptr, _, data = self._sparse
                kernels.sparse_largest(indptr, data, entries)
            else:
                for start, tile in self._tiles(0, self.n_rows):  # type: ignore[attr-defined]
                    kernels.dense_largest(tile, entries[start : start + len(tile)])
            kernels.bound_entries(entries, self.fit_intercept, self._scales)
            self._largest = _Largest(self._norms, entries)
        return self._largest.entries


def _refuse_outputs(loss: Loss) -> None:
    if getattr(loss, "n_outputs", 1) > 1:
        raise NotSupported(f"{loss.name!r} has several outputs a row; choices take one margin.")
