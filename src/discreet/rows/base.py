"""Rows: a table with targets, and the two clipped sums that private methods are built on.

The contract of both sums is stated in :class:`Sum` and proved in docs/proofs/summation.md. It asks
that the part of a row in a sum is computed from that row and public arguments only. Hence:

* norms and margins come from loops that treat every row alike (``discreet.rows.kernels``), not from
  BLAS, whose rounding depends on where a row stands;
* margins are remembered between calls, under keys that are public: the weights, directions and
  steps that callers passed. A remembered margin is a function of its row and of that history.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.objectives import Hinge, Huber, HuberHinge, Logistic, Loss, Sigmoid, Squared
from discreet.rows.bounds import BLOCK_ROWS, gradient_error, line_error
from discreet.rows.checks import Vector, check_clip, check_steps, check_targets, check_vector
from discreet.rows.choices import Choices
from discreet.rows.columns import Columns
from discreet.rows.curvature import Curvature
from discreet.rows.descents import Descents
from discreet.rows.margins import Line, Point
from discreet.rows.moments import Moments
from discreet.rows.outputs import refuse_outputs
from discreet.rows.parts import in_parts
from discreet.rows.xy_moments import XYMomentSums

__all__ = ["Rows", "Sum"]

SMALLEST_PRODUCT_CLIP = 1e-3
"""Below this clip, factors 1 + exp(·) are too close to 1 to be clipped accurately."""

_CODES = {Logistic: 1, Hinge: 2, HuberHinge: 3, Huber: 4, Squared: 5, Sigmoid: 6}
_NOTHING = np.empty(0)


class Sum(NamedTuple):
    """A sum over rows, and a public bound on its rounding error.

    Attributes
    ----------
    values : ndarray of float64
        The sum as computed. It depends on the rows: it is private.
    error : float
        There are c_i, each a function of row i and of public arguments only and each within the
        clip, such that values differs from Σ c_i by at most error, for this table and for every
        table with one row more, fewer or replaced. error is computed from public numbers only. So
        the sensitivity of ``values`` is at most that of Σ c_i plus 2·error.
    """

    values: Vector
    error: float


class Rows(Descents, Curvature, Choices, Moments, XYMomentSums, Columns, ABC):
    """A table with targets; made by :func:`discreet.rows.as_rows`.

    The table is not copied, so it must not be changed while the rows are in use: norms are computed
    once, and privacy rests on them. With an intercept, the last weight belongs to a constant
    feature 1 that is never stored. With ``row_norm``, rows longer than it act as if scaled down
    to it.

    Attributes
    ----------
    n_rows, n_features, n_parameters : int
        Size of the table; parameters count the intercept. ``n_rows`` of a :meth:`sample` is
        private.
    """

    n_rows: int
    n_features: int
    block_rows = BLOCK_ROWS

    def __init__(
        self,
        n_rows: int,
        n_features: int,
        targets: Vector,
        fit_intercept: bool,
        row_norm: float | None,
    ) -> None:
        self.n_rows = n_rows
        self.n_features = n_features
        self.fit_intercept = fit_intercept
        self.row_norm = row_norm
        self._public_rows = n_rows
        self._targets = targets
        self._norms = np.empty(n_rows)
        self._scales = _NOTHING if row_norm is None else np.empty(n_rows)
        self._point: Point | None = None
        self._line: Line | None = None

    def _scale_norms(self) -> None:
        """Turn norms of rows into norms with scaling and intercept (once)."""
        from discreet.rows import kernels

        row_norm = math.inf if self.row_norm is None else float(self.row_norm)
        kernels.scale_norms(self._norms, row_norm, self.fit_intercept, self._scales)

    @property
    def n_parameters(self) -> int:
        """Number of weights."""
        return self.n_features + int(self.fit_intercept)

    @property
    @abstractmethod
    def _n_entries(self) -> int:
        """How many entries of X a pass touches (only to decide how many threads to use)."""

    @abstractmethod
    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int, Any]]:
        """Yield (first row, last row + 1, that piece of X) for rows start to stop, in order."""

    @abstractmethod
    def _piece_products(self, piece: Any, vector: Vector, out: Vector) -> None:
        """Write piece @ vector to out, each entry computed from its row alone."""

    @abstractmethod
    def _piece_add(self, piece: Any, coefficients: Vector, total: Vector) -> None:
        """Add coefficients @ piece to total."""

    def _products(self, start: int, stop: int, vector: Vector, out: Vector) -> None:
        """Write X[start:stop] @ vector to out, each entry computed from its row alone."""
        for first, last, piece in self._pieces(start, stop):
            self._piece_products(piece, vector, out[first - start : last - start])

    def _weighted_sum(self, start: int, coefficients: Vector) -> Vector:
        """Return coefficients @ X[start : start + coefficients.size]."""
        total = np.zeros(self.n_features)
        for first, last, piece in self._pieces(start, start + coefficients.size):
            self._piece_add(piece, coefficients[first - start : last - start], total)
        return total

    @abstractmethod
    def _take(self, index: NDArray[np.intp]) -> Self:
        """Return a shallow copy that holds the named rows of X (and everything else as it was)."""

    def gradient_sum(self, weights: ArrayLike, loss: Loss, clip: float) -> Sum:
        """Sum the rows' loss gradients, each clipped to L2 norm ``clip``.

        A row's gradient is φ'(margin, target)·x, so clipping limits φ' to ±clip/‖x‖. A slope that
        is not a number (after overflow) counts as 0. The penalty is not included.

        Parameters
        ----------
        weights : array of n_parameters numbers
            Where to evaluate. If it equals ``weights - steps[k] * direction``, computed so, for the
            arguments of the last :meth:`line_losses`, or the weights of the last call, no product
            with X is needed for the margins.
        loss : Loss
            The loss. The library's own have compiled loops; others are called block by block.
        clip : float
            Bound on the norm of a row's gradient, between 1e-100 and 1e100.

        Returns
        -------
        Sum
            ``values`` has n_parameters entries.

        Notes
        -----
        *Privacy.* L2 sensitivity of ``values``: clip + 2·error under add/remove, 2·clip + 2·error
        under replace, by the contract in :class:`Sum` with ‖c_i‖₂ ≤ clip. ``values`` must not be
        released without noise. A third-party loss must be elementwise. Proof:
        docs/proofs/summation.md.
        """
        clip = check_clip(clip)
        if loss.n_outputs > 1:
            return Sum(*self._output_gradients(weights, loss, clip))
        vector = check_vector("weights", weights, self.n_parameters)
        margins = self._known(vector)
        if margins is not None:
            return self._clipped_sum(margins, loss, clip, self._norms)
        margins = np.empty(self.n_rows)
        total = self._clipped_sum(margins, loss, clip, self._norms, missing=vector)
        self._point = Point(vector, margins)
        return total

    def _clipped_sum(
        self,
        margins: Vector,
        loss: Loss,
        clip: float,
        sizes: Vector,
        missing: Vector | None = None,
    ) -> Sum:
        """Sum φ'·x over rows, each φ' limited to ±clip/size of its row.

        With ``missing`` weights, margins are computed first, piece by piece of X, and written down.
        """
        from discreet.rows import loss_kernels as kernels

        code, parameter = _compiled(loss)

        def part(first: int, last: int) -> Vector:
            values = np.zeros(self.n_parameters)
            buffer = np.empty(min(self.block_rows, last - first))
            for start in range(first, last, self.block_rows):
                subtotals, constant = np.zeros(self.n_features), 0.0
                for row, end, piece in self._pieces(start, min(start + self.block_rows, last)):
                    at = slice(row, end)
                    slopes, coefficients = margins[at], buffer[: end - row]
                    with np.errstate(all="ignore"):
                        if missing is not None:
                            self._piece_products(piece, missing[: self.n_features], slopes)
                            self._finish_margins(slopes, self._scales[at], missing)
                        if code == kernels.GIVEN:
                            given = loss.derivative(slopes, self._targets[at])
                            slopes = _plain(given, slopes.size)
                    constant += kernels.clipped_slopes(
                        code,
                        parameter,
                        slopes,
                        self._targets[at],
                        sizes[at],
                        self._scales[at],
                        clip,
                        coefficients,
                    )
                    self._piece_add(piece, coefficients, subtotals)
                values[: self.n_features] += subtotals
                if self.fit_intercept:
                    values[-1] += constant
            return values

        parts = in_parts(part, self.n_rows, self._n_entries, self.block_rows)
        return Sum(_sum_of(parts), gradient_error(self._public_rows, self.block_rows, clip))

    def line_losses(
        self, weights: ArrayLike, direction: ArrayLike, steps: ArrayLike, loss: Loss, clip: float
    ) -> Sum:
        """Sum the rows' losses, each clipped at ``clip``, at ``weights - step * direction``.

        One product with X serves all steps. The logistic loss is fastest with steps that start at
        0 and are equally spaced, as ``np.linspace(0, largest, count)`` makes them.

        Parameters
        ----------
        weights, direction : arrays of n_parameters numbers
            Where the line starts, and its direction.
        steps : array
            Step sizes.
        loss : Loss
            The loss.
        clip : float
            Bound on a row's loss, between 1e-100 and 1e100.

        Returns
        -------
        Sum
            ``values[k]`` belongs to ``steps[k]``; ``error`` holds for each of them.

        Notes
        -----
        *Privacy.* By the contract in :class:`Sum` with 0 ≤ c_i ≤ clip, adding a row changes every
        value by a number in [0, clip], up to 2·error: sensitivity clip + 2·error, and monotone up
        to 2·error, under add/remove. A loss that is not a number counts as clip. Proof:
        docs/proofs/summation.md.
        """
        from discreet.rows import loss_kernels as kernels

        clip = check_clip(clip)
        refuse_outputs(loss)
        weights = check_vector("weights", weights, self.n_parameters)
        direction = check_vector("direction", direction, self.n_parameters)
        steps = check_steps(steps)
        line = self._draw_line(self._locate(weights), direction, steps)
        margins, changes = line.start.margins, line.changes
        code, parameter = _compiled(loss)
        products = (
            code == _CODES[Logistic] and clip >= SMALLEST_PRODUCT_CLIP and _equally_spaced(steps)
        )
        cap = math.exp(min(clip, 700.0)) * (1.0 - 2.0**-50)  # so that log(cap) <= clip
        group = int(min(64, max(1, 600 / clip)))  # factors whose product cannot overflow

        def part(first: int, last: int) -> Vector:
            values = np.zeros(steps.size)
            block_values = np.zeros(steps.size)
            for start in range(first, last if steps.size else first, BLOCK_ROWS):
                block = slice(start, min(start + BLOCK_ROWS, last))
                m, v, y = margins[block], changes[block], self._targets[block]
                if products:
                    kernels.logistic_line_sums(m, v, y, steps, clip, cap, group, block_values)
                elif code == kernels.GIVEN:
                    block_values = _given_line_sums(loss, m, v, y, steps, clip)
                else:
                    kernels.line_sums(code, parameter, m, v, y, steps, clip, block_values)
                values += block_values
            return values

        values = _sum_of(in_parts(part, self.n_rows, self.n_rows * steps.size, BLOCK_ROWS))
        return Sum(values, line_error(self._public_rows, BLOCK_ROWS, clip, products=products))

    def margins(self, weights: ArrayLike) -> Vector:
        """Return the n margins x·w plus intercept (private: for baselines and diagnostics)."""
        return self._margins(check_vector("weights", weights, self.n_parameters)).copy()

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
        if not 0 <= rate <= 1:
            raise ValueError(f"rate must be a probability, between 0 and 1, not {rate!r}.")
        return self.take(np.flatnonzero(generator.random(self.n_rows) + 2.0**-53 <= rate))

    def take(self, index: NDArray[np.intp]) -> Self:
        """Return the named rows, as rows; the public size stays that of the whole table."""
        drawn = self._take(index)
        drawn.n_rows = index.size
        drawn._targets = self._targets[index]
        drawn._norms = self._norms[index]
        drawn._scales = self._scales[index] if self._scales.size else self._scales
        drawn._point = drawn._line = None
        return drawn

    def with_targets(self, y: ArrayLike) -> Self:
        """Return the same rows with other targets. Nothing is computed again or copied."""
        other = copy.copy(self)
        other._targets = check_targets(y, self.n_rows)
        return other

    # Margins. _point holds those of the last weights, _line the changes along the last direction.
    # Both are replaced, never modified, so copies may share them.

    def _evaluate(self, vector: Vector) -> Vector:
        """Return the margins of the (scaled) rows at a vector of weights."""
        with np.errstate(all="ignore"):
            values = np.empty(self.n_rows)
            coefficients = vector[: self.n_features]
            in_parts(
                lambda start, stop: self._products(start, stop, coefficients, values[start:stop]),
                self.n_rows,
                self._n_entries,
                BLOCK_ROWS,
            )
            self._finish_margins(values, self._scales, vector)
        return values

    def _finish_margins(self, products: Vector, scales: Vector, weights: Vector) -> None:
        """Turn products with stored rows into margins, in place."""
        if scales.size:
            products *= scales
        if self.fit_intercept:
            products += weights[-1]

    def _margins(self, weights: Vector) -> Vector:
        return self._locate(weights).margins

    def _locate(self, weights: Vector) -> Point:
        """Return the margins at ``weights``: remembered, moved along the last line, or computed."""
        margins = self._known(weights)
        if margins is None:
            margins = self._evaluate(weights)
        self._point = point = Point(weights, margins)
        return point

    def _known(self, weights: Vector) -> Vector | None:
        """The margins at ``weights``, if they are remembered or lie on the last line."""
        point, line = self._point, self._line
        if point is not None and np.array_equal(weights, point.weights):
            return point.margins
        if line is None:
            return None
        with np.errstate(all="ignore"):
            k = line.find(weights)
            if k is None:
                return None
            margins = line.changes * -line.steps[k]
            margins += line.start.margins
        self._point = Point(weights, margins)
        return margins

    def _draw_line(self, start: Point, direction: Vector, steps: Vector) -> Line:
        """Return a line; its changes are remembered if the direction is that of the last one."""
        line = self._line
        if line is not None and np.array_equal(direction, line.direction):
            changes = line.changes
        else:
            self._line = line = None  # two vectors less while the new one is computed
            changes = self._evaluate(direction)
        self._line = line = Line(start, steps, direction, changes)
        return line


def _compiled(loss: Loss) -> tuple[int, float]:
    """Return the loss's code and parameter for the kernels; code 0 for a loss they do not know."""
    code = _CODES.get(type(loss), 0)  # exact type: a subclass may compute something else
    parameter = getattr(loss, "smoothing", getattr(loss, "threshold", 0.0)) if code else 0.0
    return code, float(parameter)


def _equally_spaced(steps: Vector) -> bool:
    """Whether steps are 0, s, 2s, … with s > 0, up to rounding."""
    if steps.size < 2:
        return False
    spaced = steps[1] * np.arange(steps.size)
    return bool(steps[0] == 0 and steps[1] > 0 and (abs(steps - spaced) <= 1e-13 * spaced).all())


def _sum_of(parts: list[Vector]) -> Vector:
    """Add up the sums of parts; this rounds no more than adding up their blocks one by one."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _plain(values: ArrayLike, size: int) -> Vector:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(values, dtype=np.float64), (size,)))


def _given_line_sums(
    loss: Loss, margins: Vector, changes: Vector, targets: Vector, steps: Vector, clip: float
) -> Vector:
    """Sum the clipped losses of one block through the loss's own ``value``."""
    with np.errstate(all="ignore"):
        moved = margins - steps[:, None] * changes
        losses = np.asarray(loss.value(moved, targets[None, :]), dtype=np.float64)
        losses = np.where(losses < clip, np.maximum(losses, 0.0), clip)
    return np.broadcast_to(losses, moved.shape).sum(axis=1)
