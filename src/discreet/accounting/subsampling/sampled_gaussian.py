"""The Gaussian mechanism on a random sample of rows.

Proof: docs/proofs/subsampling.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

from discreet.accounting import conversions
from discreet.accounting.budget import PrivacyLoss, Relation
from discreet.accounting.subsampling.dominating_pairs import (
    DominatingPair,
    Sampling,
    moments_epsilon,
    own_sigma,
    pairs_of,
)
from discreet.accounting.subsampling.fourier import compose
from discreet.errors import NotSupported
from discreet.validate import check_fields, integer, number

Method = Literal["tight", "rdp"]

SMALLEST_MULTIPLIER = 1e-6  # least accepted noise multiplier σ
LARGEST_MULTIPLIER = 1e9  # largest accepted noise multiplier
SMALLEST_COMPOSED = 0.04  # a smaller σ is accounted without sampling, which hardly matters there
SMALLEST_RATE = 1e-12  # least accepted probability that a row is in a sample
DELTA_BOUNDS: dict[str, Any] = {"least": 1e-100, "below": 1.0}  # bounds on an accepted δ


@dataclass(frozen=True)
class SampledGaussian:
    """Gaussian noise on the sum of clipped vectors over a random sample of the rows.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the clip of one row, whatever the relation.
    rate : float
        Probability that a row is in the sample.
    relation : Relation
        Which tables are neighbours.
    sampling : {"poisson", "one_row"}
        ``"poisson"``: every row independently with probability ``rate``. ``"one_row"``: exactly
        one row, uniformly at random, with ``rate`` = 1/n; for replace-one only.

    Privacy
    -------
    `epsilon` bounds any number of adaptive uses, each on a fresh sample that nobody can predict.
    `loss` is the cost of one use without the gain of sampling: rows_changed /
    noise_multiplier is the μ of Gaussian DP. Proof: docs/proofs/subsampling.md.
    """

    noise_multiplier: float
    rate: float
    relation: Relation
    sampling: Sampling = "poisson"

    name: ClassVar[str] = "sampled_gaussian"

    def __post_init__(self) -> None:
        least = SMALLEST_MULTIPLIER
        most = LARGEST_MULTIPLIER
        check_fields(self, number, "noise_multiplier", least=least, most=most)
        check_fields(self, number, "rate", least=SMALLEST_RATE, most=1.0)
        object.__setattr__(self, "relation", Relation(self.relation))
        _check_sampling(self.sampling, self.relation)

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Cost of one use if the sample is known."""
        mu = math.nextafter(self.relation.rows_changed / self.noise_multiplier, math.inf)
        rho = math.nextafter(conversions.rho_from_mu(mu), math.inf)
        return PrivacyLoss(epsilon=math.inf, rho=rho, mu=mu)

    def event(self) -> Any:
        """Return one use as a `dp_accounting` event (noise in units of one row's clip)."""
        import dp_accounting as dp

        noise = dp.GaussianDpEvent(self.noise_multiplier)
        if self.sampling == "one_row":
            return dp.SampledWithoutReplacementDpEvent(round(1 / self.rate), 1, noise)
        return noise if self.rate == 1 else dp.PoissonSampledDpEvent(self.rate, noise)

    def epsilon(self, count: int, delta: float, method: Method = "tight") -> float:
        """Bound the ε of ``count`` uses at ``delta``."""
        count = integer("count", count)
        delta = number("delta", delta, **DELTA_BOUNDS)
        return _epsilon(self, count, delta, method)


@lru_cache(maxsize=4096)
def _epsilon(step: SampledGaussian, count: int, delta: float, method: Method) -> float:
    sigma = step.noise_multiplier
    relation = step.relation
    sampling = step.sampling
    if method == "rdp" and sampling != "poisson":
        raise NotSupported("method='rdp' is for sampling='poisson' only. Use method='tight'.")
    mu = relation.rows_changed / sigma * math.sqrt(count) * (1 + 2.0**-48)  # if samples are known
    if method == "rdp" and step.rate == 1:
        return conversions.epsilon_from_rho(conversions.rho_from_mu(mu), delta)
    plain = conversions.epsilon_from_mu(mu, delta)
    if step.rate == 1 or own_sigma(sigma, sampling) < SMALLEST_COMPOSED:
        return plain
    pairs = pairs_of(sigma, step.rate, relation, sampling)
    if method == "rdp":
        return min(plain, moments_epsilon(pairs, count, delta))
    return min(plain, max(_pair_epsilon(pair, count, delta) for pair in pairs))


def _pair_epsilon(pair: DominatingPair, count: int, delta: float) -> float:
    """Bound the ε of one of the dominating pairs: by composition, or else by moments."""
    if count == 1:
        return _first_fit(pair.delta, delta, conversions.epsilon_from_mu(2 / pair.sigma, delta))
    profile = compose(pair, count, delta)
    epsilon = math.inf if profile is None else profile.epsilon(delta)
    if math.isinf(epsilon) and not pair.mirrored:
        return moments_epsilon([pair], count, delta)
    return epsilon


def _check_sampling(sampling: str, relation: Relation) -> None:
    if sampling not in ("poisson", "one_row"):
        raise ValueError(f"sampling must be 'poisson' or 'one_row'; got {sampling!r}.")
    if sampling == "one_row" and relation is not Relation.REPLACE_ONE:
        raise NotSupported(
            "A sample of exactly one row is accounted for relation='replace_one' only; got "
            f"{str(relation)!r}. Use sampling='poisson'."
        )


def _first_fit(value: Callable[[float], float], goal: float, high: float) -> float:
    """Find the smallest x ≥ 0 with value(x) ≤ goal of a decreasing function, to 1e-9."""
    if value(0.0) <= goal:
        return 0.0
    low = 0.0
    while value(high) > goal:
        low = high
        high = 2 * high + 1e-9
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if value(middle) <= goal else (middle, high)
    return high
