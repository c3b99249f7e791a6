"""Questions about the rows: their median length, their moments, bounds of a column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, cast

import numpy as np

from discreet.accounting.budget import Measure, Relation
from discreet.core.curator.base import CuratorBase
from discreet.core.curator.checks import check_clip, check_kind
from discreet.core.curator.protocols import FloatArray, Sum
from discreet.core.mechanisms import ExponentialMechanism, Gaussian, L2Norm
from discreet.core.ranges import select_bounds, select_median_length

__all__ = ["Moments", "NoisyMoment"]


class _Measured(Protocol):
    """What these questions need of rows, beyond what every question does."""

    def norms(self) -> FloatArray:
        """The rows' norms."""
        ...

    def square_sum(self) -> Sum:
        """Sum of the squares of the rows' entries, each row scaled down to its bound."""
        ...


@dataclass(frozen=True, eq=False)
class NoisyMoment:
    """A noisy sum over rows.

    Attributes
    ----------
    values
        The noisy sum (not the mean).
    deviation
        Standard deviation of the noise in each coordinate.
    """

    values: FloatArray
    deviation: float

    def matrix(self) -> FloatArray:
        """The symmetric matrix whose upper triangle it is, off-diagonals times √2."""
        size = (math.isqrt(8 * self.values.size + 1) - 1) // 2
        first, second = np.triu_indices(size)
        matrix: FloatArray = np.empty((size, size))
        matrix[first, second] = self.values / np.where(first == second, 1.0, math.sqrt(2.0))
        matrix[second, first] = matrix[first, second]
        return matrix


class Moments(CuratorBase):
    """Noisy sums of clipped rows and of their outer products, and noisy bounds of columns."""

    def open_reserved(self, part: int) -> tuple[Measure, Fraction]:
        """Open a part of a preparation that the account set aside: its measure and its total."""
        self._refuse_open()
        self._filter = self._account.open_reserved(part)
        return self._filter.measure, self._filter.total

    def row_sum(self, *, mechanism: Gaussian | L2Norm) -> NoisyMoment:
        """The sum of the rows, each scaled down to the rows' own bound C where it is longer.

        Privacy
        -------
        L2 sensitivity: C under add/remove, 2C under replace, plus twice the rounding error of the
        sum. Cost: that of ``mechanism``.
        """
        clip = self._row_norm(mechanism)
        self._open_filter.charge(mechanism)
        exact = self._rows.row_sum()
        return self._moment(exact, self.relation.rows_changed * clip, clip, mechanism)

    def outer_sum(self, *, mechanism: Gaussian | L2Norm) -> NoisyMoment:
        """The sum of xxᵀ over rows, scaled down to C: its upper triangle, off-diagonals times √2.

        Privacy
        -------
        L2 sensitivity, which is that of the matrix in Frobenius norm: C² under add/remove, √2·C²
        under replace, plus twice the rounding error. Cost: that of ``mechanism``. Proof:
        docs/proofs/preparation.md.
        """
        clip = self._row_norm(mechanism)
        self._open_filter.charge(mechanism)
        exact = self._rows.outer_sum()
        return self._second_moment(exact, clip, mechanism)

    def square_sum(self, *, mechanism: Gaussian | L2Norm) -> NoisyMoment:
        """The sum of the squares of the rows' entries, column by column, of rows scaled down to C.

        Privacy
        -------
        L2 sensitivity: C² under add/remove, √2·C² under replace, plus twice the rounding error.
        Cost: that of ``mechanism``. Proof: docs/proofs/preparation.md.
        """
        clip = self._row_norm(mechanism)
        self._open_filter.charge(mechanism)
        return self._second_moment(cast(_Measured, self._rows).square_sum(), clip, mechanism)

    def median_norm(
        self, *, mechanism: ExponentialMechanism, largest: float | None = None
    ) -> float:
        """A public candidate near the median of the rows' L2 norms; none above ``largest``.

        Privacy
        -------
        One choice among public candidates by counts of norms above them, of sensitivity 1/2 under
        add/remove and 1 under replace. Cost: that of ``mechanism``. Proof:
        docs/proofs/preparation.md.
        """
        check_kind(mechanism, ExponentialMechanism)
        if mechanism.monotone:
            raise ValueError("distances of counts are not monotone; use monotone=False.")
        if largest is not None:
            largest = check_clip(largest)
        self._open_filter.charge(mechanism)
        norms = cast(_Measured, self._rows).norms()
        replaced = self.relation is not Relation.ADD_REMOVE
        return select_median_length(norms, largest, mechanism, self._noise, replaced=replaced)

    def column_bounds(
        self, column: int, *, coverage: float, mechanism: ExponentialMechanism
    ) -> tuple[float, float]:
        """Public candidates between which about ``coverage`` of a column's values lie, noisily.

        Privacy
        -------
        Two choices among public candidates by counts of values below them, each of sensitivity 1
        under both relations. Cost: twice that of ``mechanism``.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1; got {coverage!r}.")
        check_kind(mechanism, ExponentialMechanism)
        if mechanism.monotone:
            raise ValueError("distances of counts are not monotone; use monotone=False.")
        self._open_filter.charge(mechanism, 2)
        return select_bounds(
            self._rows.column(column), self.n_rows, coverage, mechanism, self._noise
        )

    def _row_norm(self, mechanism: object) -> float:
        if not isinstance(mechanism, (Gaussian, L2Norm)):
            raise TypeError(
                "sums of rows are bounded in L2 norm and need a Gaussian or L2Norm mechanism; got "
                f"{type(mechanism).__name__}."
            )
        if self._rows.row_norm is None:
            raise ValueError("sums of rows need rows with a public bound on their norm.")
        return check_clip(self._rows.row_norm)

    def _second_moment(self, exact: Sum, clip: float, mechanism: Gaussian | L2Norm) -> NoisyMoment:
        """Release a sum whose terms are at most clip² long and √2·clip² apart."""
        largest = clip * clip
        apart = 1.0 if self.relation is Relation.ADD_REMOVE else math.sqrt(2.0)
        return self._moment(exact, apart * largest * (1 + 2.0**-50), largest, mechanism)

    def _moment(
        self, exact: Sum, sensitivity: float, largest: float, mechanism: Gaussian | L2Norm
    ) -> NoisyMoment:
        """Release a sum whose terms have coordinates of at most ``largest``."""
        values, scale = mechanism.release(
            exact.values,
            sensitivity=sensitivity + 2 * exact.error,
            magnitude=(self.n_rows + 1) * largest + exact.error,
            noise=self._noise,
        )
        if isinstance(mechanism, L2Norm):  # a length of Gamma(d), in a uniform direction
            scale *= math.sqrt(values.size + 1)
        return NoisyMoment(values, scale)
