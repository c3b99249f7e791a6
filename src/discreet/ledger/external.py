"""Cost of releases that other tools made: a mechanism with its noise, or a dp-accounting event."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from discreet.ledger.losses import Loss
from discreet.validate import integer, number, positive


def loss_of(
    *,
    gaussian: float | None = None,
    laplace: float | None = None,
    sensitivity: float = 1.0,
    rho: float | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    event: Any = None,
    times: int = 1,
) -> Loss:
    """Return the loss of ``times`` releases; exactly one of their descriptions is given.

    That is the standard deviation of Gaussian noise or the scale of Laplace noise (``sensitivity``
    is the largest change of the value by one unit, in L2 or L1 norm), ρ of zCDP, (ε, δ), or an
    event of dp-accounting with noise relative to the sensitivity, which is evaluated at δ if it
    must be.
    """
    descriptions = {
        "gaussian": gaussian, "laplace": laplace, "rho": rho, "epsilon": epsilon, "event": event,
    }  # fmt: skip
    given = [name for name, value in descriptions.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            f"give exactly one of {', '.join(descriptions)}; got {', '.join(given) or 'none'}."
        )
    times = integer("times", times)
    change = Fraction(positive("sensitivity", sensitivity))
    delta = number("delta", delta, least=0.0, below=1.0)
    if gaussian is not None:
        return Loss("gdp", times * (change / Fraction(positive("gaussian", gaussian))) ** 2)
    if laplace is not None:
        return Loss("pure", times * change / Fraction(positive("laplace", laplace)))
    if rho is not None:
        return Loss("zcdp", times * Fraction(positive("rho", rho)))
    if epsilon is not None:
        measure: Any = "approximate" if delta else "pure"
        return Loss(
            measure, times * Fraction(positive("epsilon", epsilon)), times * Fraction(delta)
        )
    return _of_event(event, times, delta)


def _of_event(event: Any, times: int, delta: float) -> Loss:
    """Return the loss of an event: by its μ² or ρ if all parts have one, else (ε, δ)."""
    parts = _flat(event, times)
    if parts is not None and all(mu is not None for mu, _ in parts):
        return Loss("gdp", sum((mu for mu, _ in parts if mu is not None), Fraction(0)))
    if parts is not None:
        return Loss("zcdp", sum((rho for _, rho in parts), Fraction(0)))
    if delta <= 0:
        raise ValueError(
            "this event is known by (ε, δ) only: give the delta at which to evaluate it, for "
            "example 1e-9."
        )
    from dp_accounting.pld import PLDAccountant

    found = PLDAccountant().compose(event, times).get_epsilon(delta)
    if not math.isfinite(found) or found <= 0:
        raise ValueError(f"dp-accounting gives ε = {found} for this event at δ = {delta:g}.")
    return Loss("approximate", Fraction(found), Fraction(delta))


def _flat(event: Any, times: int) -> list[tuple[Fraction | None, Fraction]] | None:
    """Return (μ², ρ) of each part of an event, or None if a part has neither."""
    kind = type(event).__name__
    if kind == "GaussianDpEvent":
        squared = times / Fraction(positive("noise_multiplier", event.noise_multiplier)) ** 2
        return [(squared, squared / 2)]
    if kind == "LaplaceDpEvent":
        pure = Loss("pure", 1 / Fraction(positive("noise_multiplier", event.noise_multiplier)))
        mu = pure.squared_mu
        return [(None if mu is None else times * mu, times * pure.rho)]
    if kind == "ZCDpEvent" and not getattr(event, "xi", 0):
        return [(None, times * Fraction(positive("rho", event.rho)))]
    if kind == "SelfComposedDpEvent":
        return _flat(event.event, times * event.count)
    if kind == "ComposedDpEvent":
        found = [_flat(part, times) for part in event.events]
        return None if None in found else [one for part in found for one in part or ()]
    return None
