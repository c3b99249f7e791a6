"""Federated rivals of a fit over sites: FedAvg with DP-SGD at each site, and a filter of NVFlare.

Both are logistic regressions whose sites train on their own rows and send weights, which a server
averages. DP-SGD is a few lines of NumPy rather than Opacus, with Poisson samples, and is charged by
this library's accountant of sampled Gaussians, whose bounds Opacus' accountants approximate.
NVFlare's "SVTPrivacy" is that of version 2.9.0: the same draws, and the ε that it states itself.

Columns are scaled by the smallest and largest value of all rows, without privacy, and the best of a
few settings is taken by the test scores: both favour the rivals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Relation

Floats = NDArray[np.float64]
Part = tuple[Floats, Floats]
Train = Callable[[Floats, Part], Floats]

CLIP = 1.0
"""Clip of a row's gradient: rates of learning are tried, so that one clip is enough."""

RATES = (0.5, 2.0, 8.0, 32.0)
"""Rates of learning."""


@dataclass(frozen=True)
class Plan:
    """Steps of DP-SGD at each site: ``rounds`` of ``local`` steps on samples of a rate."""

    sampling: float
    rounds: int
    local: int


PLANS = (Plan(1.0, 20, 1), Plan(0.25, 20, 4), Plan(0.05, 20, 20))
"""All rows in each step and an average after each; and samples, with averages after an epoch."""

FILTER_ROUNDS = (1, 10)
"""Rounds of FedAvg behind a filter that has to keep to a budget."""

DEFAULT_ROUNDS = 100
"""Rounds of FedAvg behind a filter with its defaults, whose noise needs many to average out."""

FILTER_STEPS = 10
"""Steps on all rows of a site in a round, before a filter."""

FILTER_CLIPS = (1e-3, 1e-2, 1e-1)
"""Clips γ of a filter that are tried where it is given a budget."""


def scaled(X: Any, test: Any) -> tuple[Floats, Floats]:
    """Return both tables with columns in [0, 1] and a column of ones."""
    low = np.minimum(X.min(axis=0), test.min(axis=0))
    span = np.maximum(np.maximum(X.max(axis=0), test.max(axis=0)) - low, 1e-12)
    made = [(np.asarray(each, dtype=float) - low) / span for each in (X, test)]
    first, second = (np.column_stack([each, np.ones(len(each))]) for each in made)
    return first, second


def averaged(parts: Sequence[Part], rounds: int, train: Train) -> Floats:
    """Return the weights of FedAvg: in each round every site starts from the same ones."""
    weights = np.zeros(parts[0][0].shape[1])
    for _ in range(rounds):
        weights = np.mean([train(weights, part) for part in parts], axis=0)
    return weights


# ---- DP-SGD


@cache
def multiplier(epsilon: float, delta: float, plan: Plan) -> float:
    """Return the least noise multiplier, to a thousandth, with which a plan costs at most ε."""

    def cost(sigma: float) -> float:
        step = SampledGaussian(sigma, plan.sampling, Relation.ADD_REMOVE)
        return step.epsilon(plan.rounds * plan.local, delta)

    low, high = 0.1, 0.2
    while cost(high) > epsilon:
        low, high = high, 2 * high
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if cost(middle) <= epsilon else (middle, high)
    return high


def noisy_steps(sigma: float, plan: Plan, rate: float, rng: np.random.Generator) -> Train:
    """Return the training of a site in one round: steps of DP-SGD."""

    def train(weights: Floats, part: Part) -> Floats:
        X, y = part
        expected = plan.sampling * len(y)
        for _ in range(plan.local):
            drawn = np.flatnonzero(rng.random(len(y)) < plan.sampling)
            rows = X[drawn]
            slopes = expit(rows @ weights) - y[drawn]
            norms = np.abs(slopes) * np.sqrt(np.einsum("ij,ij->i", rows, rows))
            slopes = slopes * np.minimum(1.0, CLIP / np.maximum(norms, 1e-12))
            noisy = slopes @ rows + sigma * CLIP * rng.normal(size=weights.size)
            weights = weights - rate * noisy / expected
        return weights

    return train


def dp_sgd(
    parts: Sequence[Part], epsilon: float, delta: float, seed: int
) -> Iterator[tuple[str, Floats]]:
    """Yield the weights of FedAvg with DP-SGD, by settings."""
    for plan in PLANS:
        sigma = multiplier(epsilon, delta, plan)
        for rate in RATES:
            rng = np.random.default_rng([seed, 1])
            train = noisy_steps(sigma, plan, rate, rng)
            yield f"{plan} rate={rate}", averaged(parts, plan.rounds, train)


# ---- NVFlare's filter


@dataclass(frozen=True)
class SparseVector:
    """NVFlare's filter "SVTPrivacy" with its defaults, for one update of a site.

    ``epsilon`` is for the choice of coordinates, ``release`` for each of their values, as its
    accountant sums them up; ``clip`` is γ.
    """

    epsilon: float = 0.1
    release: float = 0.1
    clip: float = 1e-5
    threshold: float = 1e-6
    fraction: float = 0.1

    def kept(self, size: int) -> int:
        """Return how many of so many coordinates it sends."""
        return min(math.ceil(self.fraction * size), size)

    def cost(self, size: int) -> float:
        """Return the ε of one round by its own account: one Laplace release per coordinate."""
        return self.epsilon + self.kept(size) * self.release

    def filtered(self, update: Floats, steps: int, rng: np.random.Generator) -> Floats:
        """Return what it sends of an update of so many steps."""
        kept = self.kept(update.size)
        ratio = (2 * kept) ** (2 / 3)
        for_threshold = self.epsilon / (1 + ratio)
        for_query = self.epsilon - for_threshold
        limit = self.threshold + rng.laplace(scale=self.clip / for_threshold)
        cut = np.clip(update / steps, -self.clip, self.clip)
        accepted = np.zeros(update.size, dtype=bool)
        while accepted.sum() < kept:
            noise = rng.laplace(scale=2 * self.clip * kept / for_query, size=update.size)
            accepted |= np.abs(cut) + noise >= limit
        chosen = rng.choice(np.flatnonzero(accepted), size=kept, replace=True)
        sent = np.zeros(update.size)
        scale = 2 * self.clip / self.release
        sent[chosen] = (cut[chosen] + rng.laplace(scale=scale, size=kept)) * steps
        return sent


def behind_filter(filter: SparseVector, rate: float, rng: np.random.Generator) -> Train:
    """Return the training of a site in one round: steps on all its rows, then the filter."""

    def train(weights: Floats, part: Part) -> Floats:
        X, y = part
        own = weights
        for _ in range(FILTER_STEPS):
            own = own - rate * ((expit(X @ own) - y) @ X) / len(y)
        return weights + filter.filtered(own - weights, FILTER_STEPS, rng)

    return train


def filtered(
    parts: Sequence[Part], epsilon: float | None, seed: int
) -> Iterator[tuple[str, Floats]]:
    """Yield the weights of FedAvg behind the filter, by settings; without ε, at its defaults."""
    rng = np.random.default_rng([seed, 2])
    size = parts[0][0].shape[1]
    if epsilon is None:
        train = behind_filter(SparseVector(), RATES[1], rng)
        yield f"rounds={DEFAULT_ROUNDS}", averaged(parts, DEFAULT_ROUNDS, train)
        return
    for rounds in FILTER_ROUNDS:
        for clip in FILTER_CLIPS:
            half = epsilon / rounds / 2
            own = SparseVector(half, half / SparseVector().kept(size), clip)
            train = behind_filter(own, RATES[1], rng)
            yield f"rounds={rounds} clip={clip}", averaged(parts, rounds, train)
