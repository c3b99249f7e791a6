"""Bounds on membership inference: the largest success of any attack on one privacy unit.

An attacker sees everything that was released, knows all other units (rows, or people with all of
their rows) and suspects that a certain one was used. Its *false-positive rate* is the share of
wrong suspicions that it confirms; its *true-positive rate* is the share of right ones. A guarantee
bounds the second by the first, for every attack. These bounds are computed here and rounded up.

Proof: docs/proofs/risk.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from discreet.accounting.conversions import mu_from_epsilon
from discreet.core import Guarantee, Relation
from discreet.validate import FloatArray, integer

STATED_RATE = 0.05  # false-positive rate of the sentence that says what an ε means, everywhere
RATES = (0.001, 0.01, STATED_RATE)  # false-positive rates that a card reports
GROUPS = (1, 5, 40)  # rows of one person that show group privacy, at the stated rate
_SLACK = 2.0**-50  # relative; covers a term built from a few operations and one library call
_NORMAL = 2.0**-40  # slack for SciPy's normal distribution, hundreds of times its error
# Rényi orders of the first search.
_ORDERS: FloatArray = 1 + np.exp(np.linspace(math.log(1e-4), math.log(1e6), 160))
_NEARBY: FloatArray = np.exp(np.linspace(-0.16, 0.16, 64))  # factors around the best of these
_FIRST_HALVINGS = 24  # of the first search, which only has to find the best order
_LAST_HALVINGS = 46  # of the second search, which finds the rate to the precision of a double


def attack_success(
    guarantee: Guarantee, fpr: float, *, before: Iterable[tuple[float, float]] = (), units: int = 1
) -> float:
    """Bound the true-positive rate of every attacker at a false-positive rate in [0, 1].

    For a guarantee that does not hold (a baseline, or a fixed seed) the result is 1. ``before`` has
    (ε, δ) of each other release about the same rows, under the same relation. ``units`` is the
    number of privacy units that differ (group privacy): k for k rows and a promise about one.

    Notes
    -----
    *Privacy.* The bound is for an attacker who knows everything except whether a row was used
    (under ``replace_one``: which of two versions of it). For totals in Gaussian DP and zCDP it is
    the best possible bound for that total, rounded up, and never above that of (ε, δ).
    """
    rate = float(fpr)
    if not 0 <= rate <= 1:
        raise ValueError(f"fpr must be a rate in [0, 1]; got {fpr!r}.")
    others = [(float(epsilon), float(delta)) for epsilon, delta in before]
    for epsilon, delta in others:
        if not (epsilon >= 0 and 0 <= delta <= 1):
            raise ValueError(f"before must list (epsilon, delta) pairs; got {(epsilon, delta)!r}.")
    if not (guarantee.private and guarantee.secure):
        return 1.0
    for _ in range(integer("units", units)):
        rate = _one_unit(guarantee, rate, others)
    return rate


def _one_unit(guarantee: Guarantee, rate: float, others: list[tuple[float, float]]) -> float:
    """Bound the true-positive rate if one unit differs."""
    own_delta = 0.0 if guarantee.measure == "pure" else guarantee.delta
    bound = approximate_bound(guarantee.epsilon, own_delta, rate)
    if guarantee.measure == "gdp" and guarantee.mu is not None:
        bound = min(bound, gaussian_bound(guarantee.mu, rate))
    if guarantee.measure == "zcdp" and guarantee.rho is not None:
        bound = min(bound, concentrated_bound(guarantee.rho, rate))
    for epsilon, delta in others:
        bound = approximate_bound(epsilon, delta, bound)
    if others:
        epsilon = sum((epsilon for epsilon, _ in others), guarantee.epsilon) * (1 + _SLACK)
        delta = sum((delta for _, delta in others), own_delta) * (1 + _SLACK)
        bound = min(bound, approximate_bound(epsilon, delta, rate))
    return bound


def budget_success(epsilon: float, delta: float, fpr: float = STATED_RATE) -> float:
    """Bound the true-positive rate of every attacker on a default fit with this budget.

    The total of a default fit is in Gaussian DP, so the bound is that of the largest μ within
    (ε, δ), δ > 0. It says what an ε means where there is no guarantee yet: in the documentation and
    in plans. `attack_success` is the bound of a guarantee, which is larger for other solvers.
    """
    alone = approximate_bound(epsilon, delta, fpr)
    return min(alone, gaussian_bound(mu_from_epsilon(epsilon, delta), fpr))


def attack_curve(
    guarantee: Guarantee, *, before: Iterable[tuple[float, float]] = ()
) -> tuple[FloatArray, FloatArray]:
    """Return rates from 1e-4 to 1, evenly on a log scale, and `attack_success` at each."""
    others = list(before)
    rates = np.geomspace(1e-4, 1.0, 81)
    caught = [attack_success(guarantee, min(1.0, float(rate)), before=others) for rate in rates]
    return rates, np.array(caught)


def approximate_bound(epsilon: float, delta: float, fpr: float) -> float:
    """Return the largest true-positive rate under (ε, δ)-DP, in both directions."""
    if epsilon >= 700:  # exp would overflow, and nothing is promised
        return 1.0
    gained = (delta + math.exp(epsilon) * fpr) * (1 + _SLACK)
    missed = math.exp(-epsilon) * (1 - delta - fpr - _SLACK) * (1 - _SLACK)
    return max(fpr, min(1.0, gained, 1 - missed + _SLACK))


def gaussian_bound(mu: float, fpr: float) -> float:
    """Return the largest true-positive rate under μ-GDP: Φ(Φ⁻¹(fpr) + μ)."""
    if fpr in (0.0, 1.0):
        return fpr
    quantile = float(ndtri(fpr))
    shifted = quantile + mu + _NORMAL * (1 + abs(quantile) + mu)
    return min(1.0, float(ndtr(shifted)) * (1 + _NORMAL))


@lru_cache(maxsize=1024)  # a card asks for the same rates several times
def concentrated_bound(rho: float, fpr: float) -> float:
    """Return the largest true-positive rate under ρ-zCDP.

    A yes-or-no answer with rates p and q is a post-processing, so D_α(p‖q) and D_α(q‖p) are at most
    ρα for every α > 1. A p that violates one of them for some α, by more than rounding, is ruled
    out, and so is every larger one. The returned rate is ruled out.
    """
    if fpr in (0.0, 1.0):
        return fpr
    rho *= 1 + _SLACK
    bound, order = _ruled_out(rho, fpr, _ORDERS, 1.0, _FIRST_HALVINGS)
    if order is not None:
        nearby = 1 + (order - 1) * _NEARBY
        bound, _ = _ruled_out(rho, fpr, nearby, bound, _LAST_HALVINGS)
    return bound


def _ruled_out(
    rho: float, fpr: float, orders: FloatArray, bound: float, halvings: int
) -> tuple[float, float | None]:
    """Return the smallest rate up to ``bound`` that these orders rule out, and the order."""
    low = math.log(fpr)
    high = math.log(bound)
    best = None
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        rate = math.exp(middle)
        excess = _excess(rho, rate, fpr, orders) if rate < bound else np.zeros(1)
        if excess.max() > 0:
            high = middle
            bound = rate
            best = float(orders[int(excess.argmax()) % len(orders)])
        else:
            low = middle
    return bound, best


def _excess(rho: float, tpr: float, fpr: float, orders: FloatArray) -> FloatArray:
    """Return the excess of (α−1)·D_α over (α−1)·ρα in both directions, less the rounding."""
    less = orders - 1  # exact: see docs/proofs/risk.md
    allowed = orders * less * rho
    log_p = math.log(tpr)
    log_q = math.log(fpr)
    log_not_p = math.log1p(-tpr)
    log_not_q = math.log1p(-fpr)
    forward = np.logaddexp(orders * log_p - less * log_q, orders * log_not_p - less * log_not_q)
    backward = np.logaddexp(orders * log_q - less * log_p, orders * log_not_q - less * log_not_p)
    sizes = abs(log_p) + abs(log_q) + abs(log_not_p) + abs(log_not_q)
    error = _SLACK * (1 + orders * sizes + allowed)
    return np.concatenate([forward - allowed - error, backward - allowed - error])


def percent(rate: float, digits: int = 2) -> str:
    """Format a rate as per cent, rounded up to a few digits: 0.002718 is ``"0.28 %"``."""
    exact = Decimal(rate) * 100
    rounded = Context(prec=digits, rounding=ROUND_CEILING).plus(exact)
    return f"{rounded.normalize():f} %" if rounded else "0 %"


def rate_in_words(fpr: float) -> str:
    """Format a small rate as ``"1 in 1,000"``, another one as per cent."""
    times = 1 / fpr if fpr > 0 else math.inf
    if math.isfinite(times) and abs(times - round(times)) < 1e-9 * times and times > 1:
        return f"1 in {round(times):,}"
    return f"{fpr * 100:.6g} %"


def risk_text(
    guarantee: Guarantee, fpr: float, *, before: Iterable[tuple[float, float]] = ()
) -> str:
    """State in a sentence the bound on an attacker with this false-positive rate."""
    bound = attack_success(guarantee, fpr, before=before)
    row, was = ("row", "was") if guarantee.unit == "row" else ("rows", "were")
    wrong, right = {
        Relation.ADD_REMOVE: (f"whose {row} {was} not used", f"whose {row} {was}"),
        Relation.REPLACE_ONE: (
            f"whose {row} had other values than suspected",
            f"whose {row} had the suspected ones",
        ),
    }[guarantee.relation]
    accuses = f"An attacker who wrongly accuses {rate_in_words(fpr)} of those {wrong}"
    if percent(bound) == "100 %":
        return f"{accuses} may catch all of those {right}: nothing is promised there."
    return (
        f"{accuses} catches at most {percent(bound)} of those {right} "
        f"(guessing catches {fpr * 100:.6g} %)."
    )


def group_text(guarantee: Guarantee, *, before: Iterable[tuple[float, float]] = ()) -> str:
    """State what the promise means for somebody with several rows."""
    if guarantee.unit != "row":
        return "It holds for a person with any number of rows: all of them together are one unit."
    others = list(before)
    bounds = [attack_success(guarantee, STATED_RATE, before=others, units=k) for k in GROUPS]
    found = [percent(bound) if bound < 0.9995 else "all" for bound in bounds]
    return (
        "One row is protected, not one person with several. An attacker who wrongly accuses "
        f"{rate_in_words(STATED_RATE)} of people catches at most {found[0]} of those with one row, "
        + " and ".join(
            f"{text} of those with {k}" for k, text in zip(GROUPS[1:], found[1:], strict=True)
        )
        + ". If the table has several rows per person, fit with groups (--unit on the command)."
    )
