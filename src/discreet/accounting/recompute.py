"""What a run really spent, by somebody else's arithmetic.

Solvers calibrate with this library's own accountants. Here the mechanisms that a guarantee lists
are handed to dp-accounting, or, where it knows no such mechanism or cannot resolve it (objective
perturbation, millions of steps on single rows), put into a formula once more, written
independently.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri

from discreet.accounting.objective_perturbation import ObjectivePerturbation
from discreet.errors import NotSupported, PrivacyError

if TYPE_CHECKING:
    from discreet.core import Guarantee

__all__ = ["TOLERANCE", "check", "insist", "recomputed_epsilon"]

Uses = tuple[tuple[Any, int], ...]
"""Mechanisms and how often each was used."""

MANY_STEPS = 20_000
"""Beyond so many steps on single rows, losses of one are too small for a grid."""

TOLERANCE = 0.01
"""By how much the recomputed ε may exceed what is allowed: the other accountant rounds upwards on a
grid that is coarser than ours."""


def recomputed_epsilon(guarantee: Guarantee) -> float:
    """Return the ε of the mechanisms that were run, at the guarantee's δ.

    Parameters
    ----------
    guarantee : Guarantee
        Of a private fit.

    Returns
    -------
    float
        An upper bound on ε; infinity if the mechanisms promise nothing.
    """
    uses = tuple((use.mechanism, use.count) for use in guarantee.mechanisms)
    return _recomputed(
        uses, str(guarantee.measure), str(guarantee.relation), guarantee.delta, guarantee.epsilon
    )


def check(guarantee: Guarantee, epsilon: float, delta: float) -> float:
    """Recompute a guarantee and insist that it keeps within a budget; returns the recomputed ε.

    Raises
    ------
    PrivacyError
        If the guarantee states more than (epsilon, delta), or if recomputing it gives more.
    """
    recomputed = recomputed_epsilon(guarantee)
    insist((guarantee.epsilon, guarantee.delta), recomputed, epsilon, delta)
    return recomputed


def insist(stated: tuple[float, float], recomputed: float, epsilon: float, delta: float) -> None:
    """Refuse a run that states, or by another accountant has, more than (epsilon, delta)."""
    if stated[0] > epsilon * (1 + 1e-9) or stated[1] > delta * (1 + 1e-9):
        raise PrivacyError(
            f"the run spent (ε = {stated[0]:g}, δ = {stated[1]:g}); the objective allows "
            f"(ε = {epsilon:g}, δ = {delta:g})."
        )
    if not recomputed <= epsilon * (1 + TOLERANCE):
        raise PrivacyError(
            f"the run states ε = {stated[0]:g}, but recomputing it gives {recomputed:g}; the "
            f"objective allows {epsilon:g}."
        )


@lru_cache(maxsize=1024)
def _recomputed(uses: Uses, measure: str, relation: str, delta: float, stated: float) -> float:
    if not uses:
        return math.inf
    if all(isinstance(mechanism, ObjectivePerturbation) for mechanism, _ in uses):
        return _tilted(uses, delta)
    if measure == "pure":
        return sum(count * mechanism.loss.epsilon for mechanism, count in uses)
    if measure == "gdp":
        return _gaussian(uses, delta, 1e-4 * min(1.0, stated))
    if measure == "zcdp":
        return _renyi(uses, delta)
    return _sampled(uses, relation, delta, stated)


def _gaussian(uses: Uses, delta: float, grid: float) -> float:
    """Squares of μ add up; dp-accounting turns the sum into (ε, δ)."""
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    square = sum(count * _mu(mechanism) ** 2 for mechanism, count in uses)
    accountant = PLDAccountant(value_discretization_interval=grid)
    accountant.compose(GaussianDpEvent(1 / math.sqrt(square)))
    return float(accountant.get_epsilon(delta))


def _mu(mechanism: Any) -> float:
    if mechanism.name == "exponential":
        # A choice of range ε is as hard to tell as two normals whose odds are e^(ε/2) each way.
        return 2 * float(ndtri(1 / (1 + math.exp(-mechanism.epsilon / 2))))
    return 1 / float(mechanism.noise_multiplier)


def _renyi(uses: Uses, delta: float) -> float:
    from dp_accounting import ComposedDpEvent, SelfComposedDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=np.geomspace(1.02, 50_000, 2000))
    events = [SelfComposedDpEvent(mechanism.event(), count) for mechanism, count in uses]
    accountant.compose(ComposedDpEvent(events))
    return float(accountant.get_epsilon(delta))


def _sampled(uses: Uses, relation: str, delta: float, stated: float) -> float:
    """Gaussian noise on random samples of rows: privacy loss distributions."""
    from dp_accounting import ComposedDpEvent, NeighboringRelation, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.pld import privacy_loss_distribution as pld

    if any(mechanism.sampling == "one_row" for mechanism, _ in uses):
        if len(uses) > 1:
            raise NotSupported("one kind of step on single rows can be recomputed, not several.")
        ((step, count),) = uses
        apart = 2 / step.noise_multiplier  # replaced rows are two clips apart
        if count > MANY_STEPS:
            return _single_rows(apart, step.rate, count, delta, stated)
        one = pld.from_gaussian_mechanism(
            1 / apart,
            sampling_prob=step.rate,
            value_discretization_interval=1e-4 * min(1.0, stated),
        )
        return float(one.self_compose(count).get_epsilon_for_delta(delta))
    neighbours = {
        "add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace_one": NeighboringRelation.REPLACE_ONE,
    }[relation]
    accountant = PLDAccountant(neighbours, value_discretization_interval=1e-4 * min(1.0, stated))
    events = [SelfComposedDpEvent(mechanism.event(), count) for mechanism, count in uses]
    accountant.compose(ComposedDpEvent(events))
    return float(accountant.get_epsilon(delta))


def _single_rows(mu: float, rate: float, count: int, delta: float, stated: float) -> float:
    """Very many noisy steps on one random row each, which no grid of losses can resolve.

    δ(ε) = E[(1 − e^(ε − L))₊] for the sum L of the steps' losses is an integral of its moment
    generating function e^(TK(s)) along a vertical line: of e^(TK(s) − sε)/(s(s + 1)). A step's loss
    is that of N(0, 1) with a share ``rate`` of it moved by μ, against N(0, 1), or the other way
    round; both are tried. The line is near enough to the origin for the losses' heavy tails to
    have no say, and far enough for sums of doubles: δ comes out to about 1e-14.
    """
    x, step = np.linspace(-13.0, 13.0 + mu, 1200, retstep=True)
    weights = np.exp(-(x**2) / 2) * step / math.sqrt(2 * math.pi)
    ratio = np.log1p(rate * np.expm1(mu * x - mu**2 / 2))  # of the densities
    deviation = math.sqrt(count * math.expm1(mu**2)) * rate  # of L, but for its tails
    scale = min(stated, 8 * deviation)
    line = min(3 / scale, -math.log(rate) / mu**2)

    def power(s: Any, way: int) -> Any:
        """TK(s), for the moved distribution against the other (1) or the other way round (-1)."""
        exponent = 1 + s if way == 1 else -s
        return count * np.log1p(np.expm1(np.multiply.outer(exponent, ratio)) @ weights)

    def contour(way: int) -> tuple[Any, Any]:
        far = 1 / deviation
        while power(line + 1j * far, way).real > power(line + 0j, way).real - 34:
            far *= 1.3
        u = np.linspace(0.0, far, 8001)
        s = line + 1j * u
        parts = [power(piece, way) for piece in np.array_split(s, max(1, len(s) // 500))]
        return s, np.concatenate(parts) - np.log(s * (s + 1))

    sides = [contour(1), contour(-1)]

    def excess(epsilon: float) -> float:
        found = []
        for s, logs in sides:
            values = np.real(np.exp(logs - s * epsilon))
            found.append(np.trapezoid(values, s.imag) / math.pi)
        return float(max(found)) - delta

    return _least(excess, most=scale)


def _least(excess: Callable[[float], float], start: float = 0.0, most: float = 1.0) -> float:
    """The ε from which on δ is small enough, looked for between ``start`` and ``most`` first."""
    if excess(start) <= 0:
        return start
    while excess(start + most) > 0:
        most *= 2
        if most > 1e6:
            return math.inf
    return float(brentq(excess, start, start + most, xtol=1e-12))


def _tilted(uses: Uses, delta: float) -> float:
    """Objective perturbation: the profile of docs/proofs/objective_perturbation.md, once more.

    Each release is one of a few pairs of normals: none apart (half a choice), one row's gradient
    apart, or two rows' (when a row is replaced); several releases are all combinations of them.
    """
    cost = sum(count * mechanism.curvature_cost for mechanism, count in uses)
    output = sum(count * mechanism.output_mu**2 for mechanism, count in uses)
    squares, weights = np.array([0.0]), np.array([1.0])
    for mechanism, count in uses:
        m, s = mechanism.corners, mechanism.noise_ratio
        apart, choices = [0.0, s * s], [0.5, m]
        if str(mechanism.relation) == "replace_one":
            apart, choices = [0.0, s * s, 4 * s * s], [0.5, 2 * m, m * m]
        for _ in range(count):
            squares = np.add.outer(squares, apart).ravel().round(15)
            weights = np.multiply.outer(weights, choices).ravel()
            squares, places = np.unique(squares, return_inverse=True)
            weights = np.bincount(places, weights)
    mus = np.sqrt(squares + output)

    def excess(epsilon: float) -> float:
        return float(weights @ _hockey_stick(mus, epsilon - cost)) - delta

    return _least(excess, cost)


def _hockey_stick(mus: np.ndarray, epsilon: float) -> np.ndarray:
    """The δ of μ-GDP at ε ≥ 0: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ); nothing for μ = 0."""
    found = np.zeros_like(mus)
    mu = mus[mus > 0]
    left, right = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    first = log_ndtr(left)
    found[mus > 0] = -np.exp(first) * np.expm1(epsilon + log_ndtr(right) - first)
    return found
