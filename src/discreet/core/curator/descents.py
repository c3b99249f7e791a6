"""Whole passes of noisy descent over single rows or small batches, in one question.

Proof: docs/proofs/descents.md.
"""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.budget import Relation
from discreet.accounting.subsampling import SampledGaussian
from discreet.core.bits import Bits
from discreet.core.curator.base import CuratorBase
from discreet.core.curator.checks import check_clip, finite, positive
from discreet.core.curator.protocols import FloatArray, GridNoise
from discreet.core.filters import Mechanism
from discreet.core.mechanisms import AdditiveMechanism, Gaussian, L2Norm
from discreet.core.sampling import uniform_index
from discreet.errors import NotSupported, PrivacyError

__all__ = ["Descents", "Order"]

Order = Literal["one_row", "pass"]

NOISE_VALUES = 2**18
"""How many noise values are drawn ahead (2 MB): the noise of a whole pass may not fit."""


class Descents(CuratorBase):
    """Noisy steps that are too many to be asked for one by one."""

    def descend(
        self,
        loss: Any,
        start: FloatArray,
        *,
        clip: float,
        step_sizes: FloatArray,
        mechanism: Mechanism,
        order: Order,
        batch_size: int = 1,
        alpha: float = 0.0,
        radius: float | None = None,
        average: bool = False,
    ) -> FloatArray:
        """Take noisy steps of gradient descent from ``start``; returns the last weights.

        w ← w − step·((Σ clipped gradients of a batch + noise)/b + alpha·w), projected to the ball
        of ``radius`` if there is one.

        Parameters
        ----------
        loss : Loss
            The row loss.
        start : array of n_parameters numbers
            Where to start; it may depend on all earlier answers.
        clip : float
            Bound on the norm of a row's gradient.
        step_sizes : array
            A step size for each update.
        mechanism : Mechanism
            ``"pass"``: a `Gaussian` or `L2Norm`, charged once for the whole pass. ``"one_row"``: a
            `SampledGaussian` that samples one row, charged once an update.
        order : {"pass", "one_row"}
            ``"pass"``: a fresh random permutation of the rows is cut into n // b batches of
            exactly b rows; the n mod b rows that are left sit out. ``"one_row"``: each update
            takes one row, drawn uniformly and independently.
        batch_size : int
            b.
        alpha, radius : float
            The penalty alpha/2·‖w‖², and the ball to stay in.
        average : bool
            Return the mean of the weights after each update instead of the last.

        Privacy
        -------
        Under replace only. *pass*: a replaced row is in one batch at most, whose sum then moves by
        2·clip plus twice its rounding error; the other sums are computed from the same rows at
        weights that are functions of earlier noisy sums. So the whole pass costs ``mechanism``
        once. Under add/remove this does not follow: one row more shifts the batches of all.
        *one_row*: every update is a use of ``mechanism``; its amplification rests on the secrecy
        and uniformity of the draws, which come from the noise's own bits.
        """
        weights = self._vector("start", start)
        clip = check_clip(clip)
        steps = finite("step_sizes", step_sizes)
        if steps.ndim != 1 or steps.size < 1:
            raise ValueError("step_sizes must be a vector of at least one number.")
        if not (math.isfinite(alpha) and alpha >= 0):
            raise ValueError(f"alpha must be >= 0 and finite; got {alpha!r}.")
        radius = None if radius is None else positive("radius", radius)
        if getattr(loss, "n_outputs", 1) > 1:
            raise NotSupported("descent by batches needs a loss with one output a row.")
        self._check_descent(order, batch_size, steps.size, mechanism)
        error = self._rows.batch_error(batch_size, clip)
        if order == "pass":
            additive = cast(AdditiveMechanism, mechanism)
            sensitivity = self.relation.rows_changed * clip + 2 * error
            self._open_filter.charge(mechanism)
            index = permutation(self.n_rows, self._noise.bits)
            index = index[: steps.size * batch_size].reshape(steps.size, batch_size)
        else:
            additive = Gaussian(cast(SampledGaussian, mechanism).noise_multiplier)
            sensitivity = clip + error
            self._open_filter.charge(mechanism, steps.size)
            index = uniform_index(steps.size, self.n_rows, self._noise.bits)[:, None]
        magnitude = batch_size * clip + error
        size = self.n_parameters
        total = np.zeros(size)
        height = max(1, NOISE_VALUES // size)
        for first in range(0, steps.size, height):
            part = slice(first, min(first + height, steps.size))
            integers, grid, _ = additive.draw_block(
                self._noise, part.stop - first, size, sensitivity=sensitivity, magnitude=magnitude
            )
            path = self._rows.descend(
                weights,
                loss,
                order=index[part],
                steps=steps[part],
                clip=clip,
                alpha=float(alpha),
                radius=radius,
                noise=GridNoise(integers, grid, magnitude),
            )
            weights, total = _still_finite(path.weights), total + path.total
        return total / steps.size if average else weights

    def permutation(self) -> NDArray[np.int64]:
        """A uniformly random order of the rows, independent of what is in them."""
        return permutation(self.n_rows, self._noise.bits)

    def draw_index(self, chances: FloatArray) -> int:
        """A random index with probability proportional to ``chances``; no row is involved."""
        edges = np.cumsum(finite("chances", chances))
        if edges.ndim != 1 or edges.size < 1 or not edges[-1] > 0 or np.min(chances) < 0:
            raise ValueError("chances must be a vector of numbers >= 0 that are not all 0.")
        share = int(self._noise.bits.words(1)[0] >> np.uint64(11)) * 2.0**-53
        return int(np.searchsorted(edges, share * edges[-1], side="right"))

    def _check_descent(
        self, order: Order, batch_size: int, updates: int, mechanism: Mechanism
    ) -> None:
        """Refuse what the proof does not cover, before anything is charged."""
        if self.relation is not Relation.REPLACE_ONE:
            raise PrivacyError(
                "Descent by batches has a proof for relation='replace_one' only: with one row "
                "more or fewer, all batches would be others."
            )
        if self._rows.n_rows != self.n_rows:
            raise PrivacyError("Descent by batches needs all rows, not a sample of them.")
        if isinstance(batch_size, bool) or not isinstance(batch_size, int):
            raise ValueError(f"batch_size must be a whole number; got {batch_size!r}.")
        if order == "pass":
            if not isinstance(mechanism, (Gaussian, L2Norm)):
                raise TypeError(
                    f"order='pass' needs a Gaussian or L2Norm mechanism; got "
                    f"{type(mechanism).__name__}."
                )
            if not 1 <= batch_size <= self.n_rows or updates != self.n_rows // batch_size:
                raise ValueError(
                    f"a pass over {self.n_rows} rows in batches of {batch_size} needs one step "
                    f"size for each whole batch; got {updates}."
                )
        elif order == "one_row":
            self._check_sampled(mechanism)
            if batch_size != 1:
                raise ValueError(f"order='one_row' has batch_size=1; got {batch_size!r}.")
        else:
            raise ValueError(f"order must be 'pass' or 'one_row'; got {order!r}.")

    def _check_sampled(self, mechanism: Mechanism) -> None:
        if not isinstance(mechanism, SampledGaussian) or mechanism.sampling != "one_row":
            raise TypeError(
                "order='one_row' needs a SampledGaussian mechanism with sampling='one_row'; got "
                f"{mechanism!r}."
            )
        if mechanism.relation is not self.relation or mechanism.rate < 1 / self.n_rows:
            raise PrivacyError(
                f"The mechanism is accounted for rate={mechanism.rate:g} under "
                f"{str(mechanism.relation)!r}; one of {self.n_rows} rows is drawn, under "
                f"{str(self.relation)!r}."
            )


def _still_finite(weights: FloatArray) -> FloatArray:
    """Refuse weights that diverged: they are functions of noisy sums, so saying so is no leak."""
    if not np.isfinite(weights).all():
        raise ValueError(
            "The noisy descent left the range of numbers; what was charged is spent. Use smaller "
            "steps, or a radius to stay within."
        )
    return weights


def permutation(n: int, bits: Bits) -> NDArray[np.int64]:
    """Draw a uniformly random permutation of 0, …, n − 1, exactly.

    The order of n different uniform words; words that are not all different are drawn again.
    """
    while True:
        words = bits.words(n)
        order = np.argsort(words).astype(np.int64)
        ranked = words[order]
        if not np.any(ranked[1:] == ranked[:-1]):
            return order
