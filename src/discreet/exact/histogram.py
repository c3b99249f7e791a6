"""Categories that enough rows share: a histogram over texts that nobody listed beforehand.

Each text's count gets noise, and the texts whose noisy count reaches a threshold are released. A
text that one row alone holds gets there with probability δ at most. With δ = 0 texts from an
unknown set cannot be released, because a text that nobody holds never is.

Proofs: docs/proofs/histogram.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

from discreet.accounting.budget import PrivacyLoss, Relation
from discreet.accounting.conversions import SLACK, probability_from_log
from discreet.core.mechanisms import Gaussian, Laplace
from discreet.core.noise import Noise, from_grid, grid_exponent
from discreet.errors import NotSupported, PrivacyError
from discreet.validate import check_fields, number

_MOST_ROWS = 2**32
"""Public bound on every count."""

_LOG_ERROR = 2.0**-40
"""Relative error of log Φ and of its argument: far more than SciPy's, which is a few roundings."""


class ThresholdedHistogram:
    """Base of releases of texts whose noisy count reaches a threshold, with that noisy count.

    Noise is exact on a public grid on which whole numbers lie. The threshold follows from δ, the
    scale of the noise and that grid.
    """

    delta: float
    relation: Relation

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", Relation(self.relation))
        if self.delta == 0:
            raise NotSupported(
                "Categories that nobody listed cannot be released with delta=0: a text that a "
                "single row holds would have to be as likely as one that no row holds. Give a "
                "delta > 0, for example 1e-9, or list the categories yourself."
            )
        check_fields(self, number, "delta", above=0.0, most=0.01)  # the proof needs δ <= 1/2

    @property
    def scale(self) -> float:
        """Scale of the noise."""
        raise NotImplementedError

    @property
    def reach(self) -> float:
        """Number that noise of scale 1 passes with about the probability δ."""
        raise NotImplementedError

    def log_tail(self, above: float) -> float:
        """Bound the logarithm of the probability that noise of scale 1 passes a number."""
        raise NotImplementedError

    def draw(self, noise: Noise, size: int) -> NDArray[np.int64]:
        """Draw noise, in grid steps."""
        raise NotImplementedError

    @property
    def grid(self) -> int:
        """Exponent of the grid: at most 0, so that whole numbers lie on it."""
        return min(grid_exponent(self.scale, float(_MOST_ROWS)), 0)

    @cached_property
    def threshold_steps(self) -> int:
        """Threshold in grid steps: about the least at which `delta_at` is at most δ.

        With grid step g it is 1 + g/2 + `scale`·`reach`, rounded up to the grid.
        """
        reach = self.scale * self.reach * (1 + SLACK)
        steps = math.ceil(math.ldexp(1 + reach, -self.grid) + 0.5)
        while self.delta_at(steps) > self.delta:
            steps += max(1, int(math.ldexp(reach, -self.grid) * SLACK))
        return steps

    @property
    def threshold(self) -> float:
        """Noisy count from which a text is released."""
        return math.ldexp(self.threshold_steps, self.grid)

    def delta_at(self, steps: int) -> float:
        """Bound the probability that a text of one row reaches a threshold in grid steps.

        Rounded noise reaches s = steps − 1/g grid steps if the noise itself passes s − 1/2.
        """
        above = math.ldexp(steps - math.ldexp(1, -self.grid) - 0.5, self.grid) / self.scale
        if above < 0:
            return 1.0  # not in the tail: no bound is claimed there
        return probability_from_log(self.log_tail(above))

    def release(
        self,
        texts: Sequence[str],
        counts: NDArray[np.int64],
        noise: Noise,
        sensitivity: float | None = None,
    ) -> dict[str, float]:
        """Release the texts that reach the threshold and their noisy counts, sorted.

        ``texts`` are the distinct texts of a column that at least one row holds, ``counts`` the
        number of rows that hold each. ``sensitivity`` bounds the number of counts that one row
        changes, each by 1; by default it is that of the relation.

        Privacy
        -------
        Charge `loss` before the texts are collected. Noise is drawn for texts that some row holds;
        how many there are is not released.
        """
        if sensitivity is not None and not sensitivity <= self.relation.rows_changed:
            raise PrivacyError(
                f"The noise is for {self.relation.rows_changed} changed counts; got {sensitivity}."
            )
        numbers = np.asarray(counts, dtype=np.int64)
        if numbers.shape != (len(texts),) or len(set(texts)) != len(texts):
            raise ValueError("texts must be distinct, with one count each.")
        if numbers.size == 0:
            return {}
        if numbers.min() < 1 or numbers.max() >= _MOST_ROWS:
            raise ValueError("counts must be at least 1 and below 2^32.")
        noisy = (numbers << -self.grid) + self.draw(noise, numbers.size)
        values = from_grid(noisy, self.grid)
        kept = np.flatnonzero(noisy >= self.threshold_steps).tolist()
        return dict(sorted((texts[index], float(values[index])) for index in kept))


@dataclass(frozen=True)
class StabilityHistogram(ThresholdedHistogram):
    """Release of the texts whose count with Laplace noise reaches a threshold, and that count.

    Parameters
    ----------
    epsilon, delta : float
        Cost of one release. ``delta`` in (0, 0.01]: with 0 there is no such mechanism.
    relation : Relation
        One row added or removed changes one count by 1; one row replaced changes two.

    Privacy
    -------
    (ε, δ)-DP if each row adds at most 1 to at most one count. Laplace noise of scale k/ε, where k
    counts change at most. Proof: docs/proofs/histogram.md.
    """

    epsilon: float
    delta: float
    relation: Relation
    name: ClassVar[str] = "stability_histogram"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", Laplace(self.epsilon).epsilon)
        super().__post_init__()

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Cost of one release; it has a cost in (ε, δ) only."""
        return PrivacyLoss(self.epsilon, rho=math.inf, mu=math.inf, delta=self.delta)

    @property
    def scale(self) -> float:
        """Noise scale b = k/ε."""
        return Laplace(self.epsilon).scale(float(self.relation.rows_changed))

    @property
    def reach(self) -> float:
        """Number that noise of scale 1 passes with the probability δ: ln(1/(2δ))."""
        return -math.log(2 * self.delta)

    def log_tail(self, above: float) -> float:
        """Bound ln(½·exp(−x))."""
        return -above * (1 - SLACK) - math.log(2) * (1 - SLACK)

    def draw(self, noise: Noise, size: int) -> NDArray[np.int64]:
        """Draw Laplace noise, in grid steps."""
        return noise.laplace(size, self.scale, self.grid)


@dataclass(frozen=True)
class GaussianHistogram(ThresholdedHistogram):
    """Release of the texts whose count with Gaussian noise reaches a threshold, and that count.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the L2 norm by which one row changes the counts.
    delta : float
        Bound on the probability that a text of one row alone is released, in (0, 0.01].
    relation : Relation
        One row added or removed changes one count by 1; one row replaced changes two.

    Privacy
    -------
    But for an event of probability δ at most, μ-GDP with μ = 1/noise_multiplier, if each row adds
    at most 1 to at most one count. So it composes with other Gaussian DP: μ² adds up, and δ is
    added to the δ of the sum. Noise has the standard deviation √k/μ, where k counts change at most.
    Proof: docs/proofs/histogram.md.
    """

    noise_multiplier: float
    delta: float
    relation: Relation
    name: ClassVar[str] = "gaussian_histogram"

    def __post_init__(self) -> None:
        multiplier = Gaussian(self.noise_multiplier).noise_multiplier
        object.__setattr__(self, "noise_multiplier", multiplier)
        super().__post_init__()

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Cost of one release; its μ holds but for events of probability δ."""
        mu = Gaussian(self.noise_multiplier).loss.mu
        return PrivacyLoss(math.inf, rho=math.inf, mu=mu, delta=self.delta)

    @property
    def scale(self) -> float:
        """Standard deviation of the noise, σ = √k/μ."""
        norm = math.nextafter(math.sqrt(self.relation.rows_changed), math.inf)
        return Gaussian(self.noise_multiplier).scale(norm)

    @property
    def reach(self) -> float:
        """Number that noise of scale 1 passes with the probability δ: Φ⁻¹(1 − δ)."""
        return -float(ndtri(self.delta))

    def log_tail(self, above: float) -> float:
        """Bound ln Φ(−x).

        It changes by at most x + 1 for each unit of x; SciPy's value has a few roundings.
        """
        return float(log_ndtr(-above)) + _LOG_ERROR * (1 + above * (above + 1))

    def draw(self, noise: Noise, size: int) -> NDArray[np.int64]:
        """Draw Gaussian noise, in grid steps."""
        return noise.gaussian(size, self.scale, self.grid)


@dataclass(frozen=True)
class LimitedHistogram:
    """A stability histogram of a column that is given up if it holds too many distinct texts.

    Parameters
    ----------
    histogram : StabilityHistogram
        Releases the texts, unless the column is given up.
    limit : Laplace
        Noise of the limit on the number of distinct texts (`noisy_limit`).

    Privacy
    -------
    Both costs add up: the column is given up or not at the cost of ``limit``, then texts are
    released at the cost of ``histogram``. Proof: docs/proofs/histogram.md.
    """

    histogram: StabilityHistogram
    limit: Laplace
    name: ClassVar[str] = "limited_histogram"

    @property
    def relation(self) -> Relation:
        """Relation that the noise is for; that of the limit suffices for either."""
        return self.histogram.relation

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Cost of one release; it has a cost in (ε, δ) only."""
        epsilon = math.nextafter(self.histogram.epsilon + self.limit.epsilon, math.inf)
        return PrivacyLoss(epsilon, rho=math.inf, mu=math.inf, delta=self.histogram.delta)


def noisy_limit(limit: int, mechanism: Laplace, noise: Noise) -> int:
    """Draw the most distinct texts that a column may hold before it is given up.

    Noise is added to the public ``limit``. Give the column up, and release nothing else of it, once
    it holds more texts than the result, which must stay secret. The mechanism is used once; the
    curator charges for it before the texts are read.

    Privacy
    -------
    The number of distinct texts plus Laplace noise decides if the column is given up. One row
    added, removed or replaced changes that number by at most 1. The noise is drawn first,
    so that memory is bounded. Proof: docs/proofs/histogram.md.
    """
    drawn, grid, _ = mechanism.draw_block(noise, 1, 1, sensitivity=1.0, magnitude=float(_MOST_ROWS))
    if grid > 0:
        raise ValueError("The budget is too small: noise would be coarser than whole numbers.")
    # texts + noise > limit, in whole grid steps: exact
    return int((limit << -grid) - int(drawn[0, 0])) >> -grid
