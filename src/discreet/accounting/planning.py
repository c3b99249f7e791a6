"""Plans of what parts of a fit may spend: a division of a budget, and the ε of selections.

Nothing here is trusted. The account of a fit verifies a division before it reserves anything, and
its filters charge every selection what its own ε costs: a wrong plan is refused, or wastes budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from discreet.accounting import conversions
from discreet.accounting.budget import Budget, Measure
from discreet.accounting.composition import Division, Remainder
from discreet.errors import PrivacyError

DELTA_SHARES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Shares of δ that are tried for models with a δ of their own; the best is taken."""


def divide(
    budget: Budget, parts: Sequence[tuple[str, float | Fraction]], measures: Sequence[Measure]
) -> Division:
    """Divide a budget between the ``parts`` of a preparation, pairs (name, share), and models.

    The shares add up to a number between 0 and 1: a share of ρ if models compose in zCDP alone, of
    μ² if they compose in Gaussian DP alone or by a profile, and else of ε (a preparation that is
    μ-GDP with the μ that (share·ε, δ) allows, and models that keep a little less than
    (1 − share)·ε). ``measures`` are those the models may compose in; for δ = 0 that is pure
    privacy, whatever is listed. ``"profile"`` stands alone, and gives the models a `Remainder`.

    Privacy
    -------
    Whatever the models then open in one of ``measures``, both parts together are (ε, δ)-DP under
    the budget's relation; with ``"profile"``, whatever plan passes `Division.check`, if which plan
    it is does not depend on what the preparation released. Proof: docs/proofs/preparation.md.
    """
    named = tuple((name, Fraction(share)) for name, share in parts)
    share = sum((share for _, share in named), Fraction(0))
    if not 0 < share < 1:
        raise ValueError(
            f"the shares of a preparation must add up to more than 0 and less than 1; got "
            f"{float(share):g}. Leave most of the budget to the model, for example 0.8 of it."
        )
    if any(not share > 0 for _, share in named):
        raise ValueError("each share of a preparation must be greater than 0.")
    if not measures:
        raise PrivacyError("A budget cannot be divided for models that compose in no measure.")
    if budget.pure:
        total = share * Fraction(budget.epsilon)
        rest = float(Fraction(budget.epsilon) - total)
        while Fraction(rest) + total > Fraction(budget.epsilon):
            rest = math.nextafter(rest, 0.0)
        models = replace(budget, epsilon=rest)
        return Division(budget, named, share, ("pure",), "pure", total, models)
    return replace(_divide(budget, share, tuple(dict.fromkeys(measures))), parts=named)


@lru_cache(maxsize=256)
def _divide(budget: Budget, share: Fraction, measures: tuple[Measure, ...]) -> Division:
    if "profile" in measures and len(measures) > 1:
        raise PrivacyError("Models that compose by a profile cannot compose otherwise as well.")
    measure: Measure = "zcdp" if measures == ("zcdp",) else "gdp"
    if measures == ("zcdp",):
        total = share * Fraction(budget.to_zcdp().rho)
    elif measures in (("gdp",), ("profile",)):
        total = share * Fraction(budget.to_gdp().mu) ** 2
    else:
        epsilon = float(share) * budget.epsilon
        total = Fraction(conversions.mu_from_epsilon(epsilon, budget.delta)) ** 2
    parts = (("preparation", share),)
    deltas = [budget.delta]
    if "approximate" in measures:
        deltas = [part * budget.delta for part in DELTA_SHARES]
    best: Division | None = None
    most = 0.0
    for delta in deltas:
        models = replace(budget, delta=delta)
        trial = Division(budget, parts, share, measures, measure, total, models)
        epsilon = _largest_epsilon(trial)
        if epsilon > 0:
            models = replace(trial.models, epsilon=epsilon)
            reach = models.to_gdp().mu  # what makes an ε at one δ comparable with one at another
            if reach > most:
                best = replace(trial, models=models)
                most = reach
    if best is None:
        raise PrivacyError(
            f"After a preparation with {float(share):g} of the budget nothing is left for the "
            "model. Give the preparation a smaller share, or leave it out."
        )
    if measures == ("profile",):
        left = best.models
        rest = Remainder(left.epsilon, left.delta, left.relation, whole=budget, before=total)
        best = replace(best, models=rest)
    return best


def _largest_epsilon(trial: Division) -> float:
    """Find, by bisection, the largest ε' at the trial's δ' that all measures allow; else 0."""

    def fits(epsilon: float) -> bool:
        if epsilon <= 0:
            return False
        division = replace(trial, models=replace(trial.models, epsilon=epsilon))
        allowed = division.models.total
        return all(division.keeps(measure, allowed(measure)) for measure in division.measures)

    low = 0.0
    high = trial.whole.epsilon
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def affordable_selection(budget: Budget, count: int) -> tuple[Measure, float]:
    """Return the measure and the largest ε that each of ``count`` exponential mechanisms can have.

    Compared are pure composition (best for a handful of selections), zCDP with ε²/8 each (best for
    many), and Gaussian DP by bounded range (best for many if δ is large against ε).
    """
    measure: Measure = "pure"
    epsilon = budget.epsilon / count
    if not budget.pure:
        by_rho = math.sqrt(8 * budget.to_zcdp().rho / count)
        by_mu = conversions.bounded_range_from_mu(budget.to_gdp().mu / math.sqrt(count))
        if by_rho > epsilon:
            measure = "zcdp"
            epsilon = by_rho
        if by_mu > epsilon:
            measure = "gdp"
            epsilon = by_mu
    return measure, epsilon * (1 - 2.0**-36)  # costs are rounded up
