"""Questions about gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from discreet.accounting.subsampling import SampledGaussian
from discreet.core.curator.base import CuratorBase
from discreet.core.curator.checks import check_clip, check_kind
from discreet.core.curator.protocols import FloatArray, Sum
from discreet.core.mechanisms import Gaussian
from discreet.core.sampling import poisson_index
from discreet.errors import PrivacyError

__all__ = ["Gradients", "NoisyGradient"]


@dataclass(frozen=True, eq=False)
class NoisyGradient:
    """A noisy sum of clipped gradients.

    Attributes
    ----------
    values
        The noisy sum over rows (not the mean).
    noise_scale
        Standard deviation of the noise in each coordinate.
    mechanism
        The Gaussian mechanism that all measurements of it amount to together.
    """

    values: FloatArray
    noise_scale: float
    mechanism: Gaussian


class Gradients(CuratorBase):
    """Noisy sums of clipped gradients."""

    _measured: tuple[NoisyGradient, Sum, float] | None = None

    def gradient(
        self, loss: Any, weights: FloatArray, *, clip: float, mechanism: Gaussian
    ) -> NoisyGradient:
        """The sum over rows of the gradient of ``loss`` at ``weights``, clipped row by row, noisy.

        A loss with K margins a row takes K rows of weights, one after the other; the clip bounds
        a row's gradient of all of them together.

        Privacy
        -------
        L2 sensitivity: clip under add/remove, twice that under replace, plus twice the rounding
        error of the sum, for any loss that is computed row by row. Cost: that of ``mechanism``.
        """
        weights = self._vector("weights", weights, getattr(loss, "n_outputs", 1))
        clip = check_clip(clip)
        check_kind(mechanism, Gaussian)
        self._open_filter.charge(mechanism)
        exact = self._rows.gradient_sum(weights, loss, clip)
        noisy = self._measure(exact, clip, mechanism)
        self._measured = (noisy, exact, clip)
        return noisy

    def sampled_gradient(
        self, loss: Any, weights: FloatArray, *, clip: float, mechanism: SampledGaussian
    ) -> NoisyGradient:
        """The same sum over a fresh Poisson sample of the rows, drawn here with the rate charged.

        Privacy
        -------
        Given who else is sampled, a row that is sampled too moves the sum, rounding errors and
        grid included, by at most the number that ``mechanism.noise_multiplier`` is multiplied
        with; so each step is what ``mechanism`` accounts for. The sample and its size stay inside.
        Proof: docs/proofs/subsampling.md.
        """
        weights = self._vector("weights", weights)
        clip = check_clip(clip)
        check_kind(mechanism, SampledGaussian)
        if mechanism.relation is not self.relation or mechanism.sampling != "poisson":
            raise PrivacyError(
                f"This question needs Poisson sampling accounted under {str(self.relation)!r}; got "
                f"{mechanism!r}. Nothing was spent."
            )
        noise = Gaussian(mechanism.noise_multiplier)
        self._open_filter.charge(mechanism)
        rows = self._rows
        if mechanism.rate < 1:
            rows = rows.take(poisson_index(rows.n_rows, mechanism.rate, self._noise.bits))
        exact = rows.gradient_sum(weights, loss, clip)
        values, scale = noise.release(
            exact.values,
            sensitivity=clip + 2 * exact.error,
            magnitude=(self.n_rows + 1) * clip + exact.error,
            noise=self._noise,
        )
        return NoisyGradient(values, scale, noise)

    def refine(self, gradient: NoisyGradient, *, mechanism: Gaussian) -> NoisyGradient:
        """Measure the same gradient again and average, weighted by precision.

        Only the newest gradient can be refined (its exact sum is kept inside, so this costs no
        pass over the rows).

        Privacy
        -------
        An independent release of the same sum: cost that of ``mechanism``, on top of what was
        spent. The average is post-processing; it carries the precision of both.
        """
        if self._measured is None or self._measured[0] is not gradient:
            raise ValueError("Only the newest gradient of this curator can be refined.")
        _, exact, clip = self._measured
        check_kind(mechanism, Gaussian)
        self._open_filter.charge(mechanism)
        again = self._measure(exact, clip, mechanism)
        old = 1 / gradient.noise_scale**2
        new = 1 / again.noise_scale**2
        merged = NoisyGradient(
            values=(old * gradient.values + new * again.values) / (old + new),
            noise_scale=1 / math.sqrt(old + new),
            mechanism=Gaussian(
                1
                / math.hypot(
                    1 / gradient.mechanism.noise_multiplier, 1 / mechanism.noise_multiplier
                )
            ),
        )
        self._measured = (merged, exact, clip)
        return merged

    def _measure(self, exact: Sum, clip: float, mechanism: Gaussian) -> NoisyGradient:
        values, scale = mechanism.release(
            exact.values,
            sensitivity=self.relation.rows_changed * clip + 2 * exact.error,
            magnitude=(self.n_rows + 1) * clip + exact.error,
            noise=self._noise,
        )
        return NoisyGradient(values, scale, mechanism)
