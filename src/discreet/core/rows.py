"""The interface between the curator and the place where rows live."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from discreet.validate import FloatArray


class Sum(Protocol):
    """A sum over rows as computed, and a public bound on its rounding error."""

    @property
    def values(self) -> FloatArray:
        """The computed sum."""

    @property
    def error(self) -> float:
        """Bound on its distance from the exact sum; see docs/proofs/summation.md."""


class Counts(NamedTuple):
    """Exact counts of rows; where rows have weights w, exact sums of the integers w·unit."""

    values: NDArray[np.int64]
    unit: int


class GridNoise(NamedTuple):
    """Noise for each update of a descent: multiples of 2^grid, for sums cut to ``magnitude``."""

    integers: NDArray[np.int64]
    grid: int
    magnitude: float


class Path(Protocol):
    """The result of a descent."""

    @property
    def weights(self) -> FloatArray:
        """The last weights."""

    @property
    def total(self) -> FloatArray:
        """The sum of the weights after each update."""


class Rows(Protocol):
    """Everything that a curator asks of rows.

    The sums are exact up to their `Sum.error`, a function of public numbers; a row's contribution
    to them depends on that row and public numbers only (docs/proofs/summation.md).
    """

    @property
    def n_rows(self) -> int:
        """Number of rows; that of a sample, or of rows with weights, is private."""

    @property
    def public_size(self) -> int:
        """Public bound on the total weight of the rows: without weights, their number."""

    @property
    def n_units(self) -> int:
        """Number of privacy units that a sample is drawn from: rows, unless they share units."""

    @property
    def grouped(self) -> bool:
        """True if rows may share a unit (public)."""

    @property
    def n_features(self) -> int:
        """Number of columns without that of an intercept (public)."""

    @property
    def n_parameters(self) -> int:
        """Number of weights (public)."""

    @property
    def row_norm(self) -> float | None:
        """Public norm that longer rows are scaled down to, if there is one."""

    def row_sum(self) -> Sum:
        """Sum the rows, each scaled down to ``row_norm``."""

    def square_sum(self, share: float = 1.0) -> Sum:
        """Sum the squares of such rows' entries; those of a row have norm share·row_norm²."""

    def outer_sum(self) -> Sum:
        """Sum xxᵀ over such rows: the upper triangle, off-diagonal numbers times √2."""

    def xy_moment_sum(
        self, clip: float, target_weight: float, target_centre: float, *, features: bool
    ) -> Sum:
        """Sum vvᵀ, v a row with its constant and shifted target, scaled down to ``clip``."""

    def target_sum(self, bound: float) -> Sum:
        """Sum the targets, each cut to [-bound, bound]."""

    def class_counts(self, n_classes: int) -> Sum:
        """Sum the rows' weights by class; targets are codes of classes."""

    def exponent_counts(self, among: NDArray[np.bool_] | None = None) -> Sum:
        """Count entries, all or rows' largest ones among some columns, by column and exponent."""

    def score_sum(self, weights: FloatArray, loss: Any, clip: float) -> Sum:
        """Sum slopes times rows with their constant, long rows weighted down to norm ``clip``."""

    def curvature_sum(self, weights: FloatArray, loss: Any, clip: float) -> Sum:
        """Sum curvatures, over their bound, times vvᵀ of such rows v: a triangle as above."""

    def score_square_sum(self, weights: FloatArray, loss: Any, clip: float) -> Sum:
        """Sum the squared norms of units' parts in `score_sum`, over their bound."""

    def slope_counts(self, weights: FloatArray, loss: Any, candidates: FloatArray) -> Counts:
        """Count the sizes of slopes between candidates, as `norm_counts` does norms."""

    def norm_counts(self, candidates: FloatArray) -> Counts:
        """Count the rows' norms between candidates; see `discreet.core.ranges.cell_counts`."""

    def column_counts(self, index: int, edges: FloatArray) -> Counts:
        """Count the numbers of a column between edges, in the same way."""

    def gradient_sum(self, weights: FloatArray, loss: Any, clip: float) -> Sum:
        """Sum the rows' loss gradients, each clipped to L2 norm ``clip``."""

    def line_losses(
        self, weights: FloatArray, direction: FloatArray, steps: FloatArray, loss: Any, clip: float
    ) -> Sum:
        """For each step, sum the rows' losses at ``weights - step·direction``, clipped."""

    def corner_gradient(self, weights: FloatArray, loss: Any, clip: float) -> Sum:
        """Sum the rows' loss gradients, entries of each within ``clip``."""

    def candidate_losses(
        self, candidates: FloatArray, parent: FloatArray, loss: Any, clip: float
    ) -> Sum:
        """For each candidate, sum the rows' changes of loss from ``parent``, within ``clip``."""

    def check_sampling(self) -> None:
        """Raise NotSupported if units cannot be drawn: they are not known, or elsewhere."""

    def check_batches(self) -> None:
        """Raise NotSupported if single rows cannot be drawn: they have weights or are elsewhere."""

    def batch_error(self, batch_size: int, clip: float) -> float:
        """Bound the rounding error of the sum over one batch of a descent."""

    def descend(
        self,
        weights: FloatArray,
        loss: Any,
        *,
        order: NDArray[np.int64],
        steps: FloatArray,
        clip: float,
        alpha: float,
        radius: float | None,
        noise: GridNoise | None,
    ) -> Path:
        """Take steps of descent over the batches of ``order``, with noise on each batch's sum."""

    def take(self, index: NDArray[np.intp]) -> Self:
        """Return the named rows, as rows; the public size stays that of the whole table."""

    def take_units(self, index: NDArray[np.intp]) -> Self:
        """Return all rows of the named units; the public size stays that of the whole table."""

    def sample(self, rate: float, generator: np.random.Generator) -> Self:
        """Return a Poisson sample of the units, with their rows."""

    def columns(
        self, index: NDArray[np.intp], factor: float, matrix: FloatArray | None = None
    ) -> Rows:
        """Return the same rows and targets with the named columns only, times ``factor``.

        Mapped rows may be multiplied by a ``matrix`` after that.
        """
