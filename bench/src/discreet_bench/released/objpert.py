"""Objective perturbation as in the code of the DP-AGD study. NOT PRIVATE: a bias goes unpenalised.

Kifer, Smith & Thakurta, COLT 2012, with rows brought to norm 1, and with the penalty on all
weights but the intercept's. The proof bounds how densely minima lie by the penalty; along the
intercept there is none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

from discreet.validate import FloatArray
from discreet_bench.released.common import Released, loss_named, rows_of

__all__ = ["LOSSES", "RELATION", "fit", "least_epsilon", "perturbation_of"]

RELATION = "add_remove"
LOSSES = ("logistic", "huber-hinge")

WHY = (
    "The intercept is left out of the penalty, on which the proof of objective perturbation rests: "
    "a row more can put intercepts within reach that were out of reach without it."
)


def fit(
    X: Any,
    y: NDArray[Any],
    *,
    epsilon: float,
    delta: float,
    loss: str,
    alpha: float,
    seed: int,
) -> Released:
    """Minimise the mean loss + Δ/(2n)·‖w‖² + b·w/n, where the norm leaves out the intercept.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and targets ±1. Each row, its one for the intercept included, is
        brought to norm 1.
    epsilon, delta
        What is claimed; with delta = 0 the noise is that for pure privacy.
    loss, alpha
        Objective: mean loss + alpha/2·‖w‖². Δ is n·alpha, and at least 2β/ε.
    seed
        Of the noise.

    Returns
    -------
    Released
        Its ``true_epsilon`` is a lower bound, by the pair of tables of `least_epsilon`.
    """
    rng = np.random.default_rng(seed)
    rows, chosen_loss = rows_of(X, length=1.0), loss_named(loss, LOSSES)
    targets = np.asarray(y, dtype=np.float64)
    n = rows.count
    smoothness = chosen_loss.curvature_bound or 0.0  # rows have norm 1
    ridge = np.full(rows.size, max(2 * smoothness / epsilon, n * alpha))
    ridge[-1] = 0.0
    perturbation = perturbation_of(rng, epsilon, delta, rows.size)

    def objective(weights: FloatArray) -> tuple[float, FloatArray]:
        margins = rows.margins(weights)
        value = chosen_loss.value(margins, targets).sum()
        value += ridge @ weights**2 / 2 + perturbation @ weights
        gradient = rows.combine(chosen_loss.derivative(margins, targets))
        return value / n, (gradient + ridge * weights + perturbation) / n

    found = minimize(
        objective,
        np.zeros(rows.size),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "maxfun": 4000, "gtol": 1e-9, "ftol": 1e-15},
    )
    return Released(found.x, least_epsilon(loss, n, epsilon, delta), WHY)


def least_epsilon(loss: str, n: int, epsilon: float, delta: float) -> float | None:
    """Bound from below the ε of exact minima; None if this pair of tables shows nothing.

    One table has n rows without features, all with the target +1; the other has a row (x, 1) more,
    whose one is c after it was brought to norm 1. With t the noise on the intercept, a minimum
    exists for t > 0. In the first table the intercept b solves n·|φ'(b)| = t:

    - Huber hinge: b ≤ 1 + h. In the second, with c = 1/2, t < 1/4 and noise along x of at least 1
      put it at b ≥ 1/c > 1 + h, which cannot happen in the first: no ε is true if that is likelier
      than δ.
    - Logistic: b > B only if t < n·e^(−B). In the second, t between c·φ'(6) and c·φ'(2) and noise
      along x of at least 1 give b > B = 2/c; c is as small as keeps that likelier than δ.
    """
    if delta == 0:
        return math.inf  # as c goes to 0
    scale = _scale(epsilon, delta)
    sideways = norm.cdf(-1 / scale)
    if loss == "huber-hinge":
        seen = (norm.cdf(0.25 / scale) - 0.5) * sideways
        return math.inf if seen > delta else None
    density = 1 / (scale * math.sqrt(2 * math.pi))
    c = min(0.01, 100 * delta / density)
    low, high = (c * float(expit(-margin)) / scale for margin in (6.0, 2.0))
    seen = (norm.cdf(high) - norm.cdf(low)) * sideways
    if seen <= delta:
        return None
    return max(0.0, math.log((seen - delta) / (n * density)) + 2 / c)


def perturbation_of(
    rng: np.random.Generator, epsilon: float, delta: float, size: int
) -> FloatArray:
    """Draw the noise b for rows of norm 1: Gaussian, or with a gamma norm for pure privacy."""
    if delta > 0:
        return rng.normal(0.0, _scale(epsilon, delta), size)
    direction = rng.normal(size=size)
    return direction / np.linalg.norm(direction) * rng.gamma(size, 2 / epsilon)


def _scale(epsilon: float, delta: float) -> float:
    """Return the published standard deviation of the noise, for rows of norm 1."""
    return math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon
