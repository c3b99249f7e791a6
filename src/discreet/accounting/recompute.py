"""Recompute the (ε, δ) of a fit with an independent accountant.

Solvers calibrate with this library's own accounting. Here the mechanisms that a guarantee lists are
handed to dp-accounting, or, where it knows no such mechanism or cannot resolve it (objective
perturbation, millions of steps on single rows), put into a formula that is written independently.

Nothing here imports the classes it judges: mechanisms are recognised by their names, and used by
their public settings. How a reader does the same: docs/proofs/recompute.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri

from discreet.errors import NotSupported
from discreet.validate import FloatArray

Uses = tuple[tuple[Any, int], ...]  # mechanisms and the number of uses of each
MANY_STEPS = 20_000  # steps on single rows beyond which losses of one are too small for a grid

SAMPLED = "sampled_gaussian"  # name of steps on samples of rows
TILTED = "objective_perturbation"  # name of releases of perturbed minima
LEVELS = "gaussian_histogram"  # name of releases of levels: Gaussian DP but for a δ of their own
# Names of mechanisms with an ε of pure privacy.
PURE = ("exponential", "laplace", "laplace_noisy_max", "l2_norm", "permute_and_flip")


def event(guarantee: Any) -> Any:
    """Return the mechanisms of a guarantee as a `dp_accounting` event.

    Noise multipliers are relative to the sensitivity under the guarantee's relation, so compose
    with `NeighboringRelation.ADD_OR_REMOVE_ONE`, which takes them as they are. If steps on samples
    are among them and the relation is replace-one, all are relative to the clip of one row:
    compose with `NeighboringRelation.REPLACE_ONE`.

    Where a fit was composed in Gaussian DP, selections are stated as the Gaussian mechanism that
    dominates them, so that `PLDAccountant` takes the event; elsewhere as `ZCDpEvent`.
    """
    from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent

    sampled = any(use.mechanism.name == SAMPLED for use in guarantee.mechanisms)
    rows = guarantee.relation.rows_changed if sampled else 1
    events = []
    for use in guarantee.mechanisms:
        mechanism = use.mechanism
        mu = use.mechanism.loss.mu
        found = mechanism_event(mechanism)
        if mechanism.name == "gaussian":
            found = GaussianDpEvent(rows * mechanism.noise_multiplier)
        elif mechanism.name in PURE and (sampled or guarantee.measure == "gdp"):
            found = GaussianDpEvent(rows / mu)
        events.append(SelfComposedDpEvent(found, use.count))
    return ComposedDpEvent(events)


def mechanism_event(mechanism: Any) -> Any:
    """Return one use of a mechanism as a `dp_accounting` event.

    A mechanism with a method ``event`` states its own. Others have their zCDP cost, and an event
    that `dp_accounting` refuses if that is not finite.
    """
    from dp_accounting import GaussianDpEvent, LaplaceDpEvent, UnsupportedDpEvent, ZCDpEvent

    if hasattr(mechanism, "event"):
        return mechanism.event()
    if mechanism.name == "gaussian":
        return GaussianDpEvent(mechanism.noise_multiplier)
    if mechanism.name == "laplace":
        return LaplaceDpEvent(1 / mechanism.epsilon)
    rho = mechanism.loss.rho
    return ZCDpEvent(rho) if math.isfinite(rho) else UnsupportedDpEvent()


def recomputed_epsilon(guarantee: Any) -> float:
    """Bound the ε of the mechanisms that were run, at the guarantee's δ; infinity if none were."""
    uses = tuple((use.mechanism, use.count) for use in guarantee.mechanisms)
    return _recomputed(
        uses, str(guarantee.measure), str(guarantee.relation), guarantee.delta, guarantee.epsilon
    )


@lru_cache(maxsize=1024)
def _recomputed(uses: Uses, measure: str, relation: str, delta: float, stated: float) -> float:
    if not uses:
        return math.inf
    names = {mechanism.name for mechanism, _ in uses}
    if unknown := names - {"gaussian", SAMPLED, TILTED, LEVELS, *PURE}:
        raise NotSupported(f"no independent accountant here for {', '.join(sorted(unknown))}.")
    if delta == 0 or measure == "pure":
        return sum(float(count * mechanism.epsilon) for mechanism, count in uses)
    if measure == "zcdp":
        return _renyi(uses, delta)
    # But for events of these probabilities, levels are released by Gaussian noise.
    delta -= sum(float(count * _setting(m, "delta")) for m, count in uses if m.name == LEVELS)
    if delta <= 0:
        return math.inf
    # What comes before models with an own accounting is Gaussian DP: squares of μ add up.
    before = sum(count * _mu(m) ** 2 for m, count in uses if m.name not in (SAMPLED, TILTED))
    grid = 1e-4 * min(1.0, stated)
    if TILTED in names:
        return _tilted([use for use in uses if use[0].name == TILTED], before, delta)
    if SAMPLED not in names:
        return _gaussian(before, delta, grid) if measure == "gdp" else _selected(uses, delta, grid)
    steps = [use for use in uses if use[0].name == SAMPLED]
    return _sampled(steps, before, relation, delta, stated)


def _gaussian(square: float, delta: float, grid: float) -> float:
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(value_discretization_interval=grid)
    accountant.compose(GaussianDpEvent(1 / math.sqrt(square)))
    return float(accountant.get_epsilon(delta))


def _selected(uses: Uses, delta: float, grid: float) -> float:
    """Compose Gaussians and ε-DP mechanisms, all of the latter in the better of two ways."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    square = sum(count * _mu(mechanism) ** 2 for mechanism, count in uses)
    gaussian = _gaussian(square, delta, grid)
    whole = pld.identity(value_discretization_interval=grid)
    for mechanism, count in uses:
        if mechanism.name in ("gaussian", LEVELS):
            deviation = _setting(mechanism, "noise_multiplier") / math.sqrt(count)
            part = pld.from_gaussian_mechanism(deviation, value_discretization_interval=grid)
        else:
            one = common.DifferentialPrivacyParameters(mechanism.epsilon, 0.0)
            part = pld.from_privacy_parameters(one, value_discretization_interval=grid)
            part = part.self_compose(count)
        whole = whole.compose(part)
    return min(gaussian, float(whole.get_epsilon_for_delta(delta)))


def _setting(mechanism: Any, name: str) -> float:
    """Return a setting of a mechanism, which a guarantee on file may know by name only."""
    stated = dict(getattr(mechanism, "fields", ()))
    return float(stated[name] if stated else getattr(mechanism, name))


def _mu(mechanism: Any) -> float:
    """Return the μ of a mechanism: of Gaussian noise, of bounded range, or of any ε-DP one."""
    if mechanism.name in ("gaussian", LEVELS):
        return 1 / _setting(mechanism, "noise_multiplier")
    # Two normals whose odds are e^ε each way; a choice of range ε has odds of e^(ε/2).
    odds = mechanism.epsilon / (2 if mechanism.name == "exponential" else 1)
    return 2 * float(ndtri(1 / (1 + math.exp(-odds))))


def _renyi(uses: Uses, delta: float) -> float:
    from dp_accounting import ComposedDpEvent, SelfComposedDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=np.geomspace(1.02, 50_000, 2000))
    events = [SelfComposedDpEvent(mechanism_event(mechanism), count) for mechanism, count in uses]
    accountant.compose(ComposedDpEvent(events))
    return float(accountant.get_epsilon(delta))


def _sampled(
    steps: list[tuple[Any, int]], before: float, relation: str, delta: float, stated: float
) -> float:
    """Compose Gaussian noise on random samples of rows by privacy loss distributions."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    grid = 1e-4 * min(1.0, stated)
    gaussian = partial(pld.from_gaussian_mechanism, value_discretization_interval=grid)
    parts = [gaussian(1 / math.sqrt(before))] if before else []
    neighbours = {
        "add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace_one": NeighboringRelation.REPLACE_ONE,
    }[relation]
    for step, count in steps:
        deviation = step.noise_multiplier
        if step.sampling == "one_row":
            deviation /= 2  # replaced rows are two clips apart
            neighbours = NeighboringRelation.ADD_OR_REMOVE_ONE
            if count > MANY_STEPS:
                if len(steps) > 1:
                    raise NotSupported("one kind of step on single rows can be recomputed.")
                return _single_rows(1 / deviation, step.rate, count, delta, stated, before)
        one = gaussian(deviation, sampling_prob=step.rate, neighboring_relation=neighbours)
        parts.append(one.self_compose(count))
    whole = reduce(lambda one, other: one.compose(other), parts)
    return float(whole.get_epsilon_for_delta(delta))


def _single_rows(
    mu: float, rate: float, count: int, delta: float, stated: float, before: float = 0.0
) -> float:
    """Compose very many noisy steps on one random row each, which no grid of losses can resolve.

    δ(ε) = E[(1 − e^(ε − L))₊] for the sum L of the steps' losses is an integral of its moment
    generating function e^(TK(s)) along a vertical line: of e^(TK(s) − sε)/(s(s + 1)). A step's loss
    is that of N(0, 1) with a share ``rate`` of it moved by μ, against N(0, 1), or the other way
    round; both are tried. The line is near enough to the origin for the losses' heavy tails to
    have no effect, and far enough for sums of doubles: δ comes out to about 1e-14. Gaussians before
    the steps add (s + s²)·μ²/2 to TK(s), μ² being ``before``.
    """
    x, step = np.linspace(-13.0, 13.0 + mu, 1200, retstep=True)
    weights = np.exp(-(x**2) / 2) * step / math.sqrt(2 * math.pi)
    ratio = np.log1p(rate * np.expm1(mu * x - mu**2 / 2))  # of the densities
    deviation = math.hypot(math.sqrt(count * math.expm1(mu**2)) * rate, math.sqrt(before))  # of L
    scale = min(stated, 8 * deviation)
    line = min(3 / scale, -math.log(rate) / mu**2)

    def power(s: Any, way: int) -> Any:
        """Compute TK(s): the moved distribution against the other (1), or the reverse (-1)."""
        exponent = 1 + s if way == 1 else -s
        own = count * np.log1p(np.expm1(np.multiply.outer(exponent, ratio)) @ weights)
        return own + (s + s**2) * before / 2

    def contour(way: int) -> tuple[Any, Any]:
        height = 1 / deviation
        while power(line + 1j * height, way).real > power(line + 0j, way).real - 34:
            height *= 1.3
        u = np.linspace(0.0, height, 8001)
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
    """Find the ε from which on δ is small enough, first between ``start`` and ``most``."""
    if excess(start) <= 0:
        return start
    while excess(start + most) > 0:
        most *= 2
        if most > 1e6:
            return math.inf
    return float(brentq(excess, start, start + most, xtol=1e-12))


def _tilted(uses: list[tuple[Any, int]], before: float, delta: float) -> float:
    """Compose objective perturbation by the profile of docs/proofs/objective_perturbation.md.

    Each release is one of a few pairs of normals: none apart (half a choice), one row's gradient
    apart, or two rows' (when a row is replaced); several releases are all combinations of them.
    """
    if any(mechanism.noise_ratio is None for mechanism, _ in uses):
        raise NotSupported("only the (ε, δ) of this release is known, not how it composes.")
    cost = sum(count * mechanism.curvature_cost for mechanism, count in uses)
    output = before + sum(count * mechanism.output_mu**2 for mechanism, count in uses)
    squares = np.array([0.0])
    weights = np.array([1.0])
    for mechanism, count in uses:
        m = mechanism.corners
        s = mechanism.noise_ratio
        apart = [0.0, s * s]
        choices = [0.5, m]
        if str(mechanism.relation) == "replace_one":
            apart = [0.0, s * s, 4 * s * s]
            choices = [0.5, 2 * m, m * m]
        for _ in range(count):
            squares = np.add.outer(squares, apart).ravel().round(15)
            weights = np.multiply.outer(weights, choices).ravel()
            squares, places = np.unique(squares, return_inverse=True)
            weights = np.bincount(places, weights)
    mus = np.sqrt(squares + output)

    def excess(epsilon: float) -> float:
        return float(weights @ _hockey_stick(mus, epsilon - cost)) - delta

    return _least(excess, cost)


def _hockey_stick(mus: FloatArray, epsilon: float) -> FloatArray:
    """Compute the δ of μ-GDP at ε ≥ 0: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ); nothing for μ = 0."""
    found = np.zeros_like(mus)
    mu = mus[mus > 0]
    left = mu / 2 - epsilon / mu
    right = -mu / 2 - epsilon / mu
    first = log_ndtr(left)
    found[mus > 0] = -np.exp(first) * np.expm1(epsilon + log_ndtr(right) - first)
    return found
