"""Objective perturbation as in the code of the DP-AGD study. NO PROOF OF PRIVACY.

Kifer, Smith & Thakurta, COLT 2012, after the code that the authors of DP-AGD published: features
are brought to norm 1 before a column of ones is added, and the penalty Δ of the proof is on all
weights but the intercept's, which has the penalty of the objective alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from discreet.validate import FloatArray
from discreet_bench.released.common import Mistake, Released, Rows, loss_named, rows_of

__all__ = ["LOSSES", "RELATION", "fit", "penalties", "perturbation_of", "prepared"]

RELATION = "add_remove"
LOSSES = ("logistic", "huber-hinge")
INTERCEPT = True
SOURCE = "github.com/ppmlguy/DP-AGD, algo/objperturb.py and run_objpert_logistic.py"
MISTAKES = (
    Mistake(
        "the intercept is left out of Δ, on which the proof rests",
        "no proof for its ε: the intercept has the objective's penalty λ alone",
    ),
    Mistake(
        "rows have norm √2 with their one, and the noise is for norm 1",
        "the noise is √2 times smaller than the published one for such rows",
    ),
    Mistake(
        "β = 1 for every loss",
        "none for the logistic loss; the Huber hinge with h = 0.1 needs 10 on such rows",
    ),
    Mistake("a further penalty of ‖w‖²/n", "none"),
)
LEFT_OUT = ("columns are scaled by public bounds, not by the extremes of the data",)

PENALTY = 1e-3
"""λ of the released experiments, on all weights."""

SMOOTHNESS = 1.0
"""β of the released experiments, whatever the loss."""

FURTHER = 2.0
"""Further penalty on the sum over rows, as for Δ."""

WHY = (
    "The penalty that the proof of objective perturbation rests on leaves out the intercept, and "
    "the noise is for rows of norm 1 although rows have norm √2 with their column of ones."
)


def prepared(X: Any, *, intercept: bool = True) -> Rows:
    """Return rows whose features have norm 1, with a column of ones."""
    return rows_of(X, intercept=intercept, features=1.0)


def fit(
    X: Any,
    y: NDArray[Any],
    *,
    epsilon: float,
    delta: float,
    loss: str,
    intercept: bool = True,
    seed: int,
) -> Released:
    """Minimise the mean loss + λ/2·‖w‖² + (Δ + 2)/(2n)·‖v‖² + b·w/n, v without the intercept.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and targets ±1. The features of each row are brought to norm 1.
    epsilon, delta
        What is claimed; with delta = 0 the noise is that for pure privacy.
    loss, intercept
        The loss, and a column of ones. λ is `PENALTY`, Δ = 2β/ε with β = `SMOOTHNESS`.
    seed
        Of the noise.
    """
    rng = np.random.default_rng(seed)
    rows = prepared(X, intercept=intercept)
    chosen_loss = loss_named(loss, LOSSES)
    targets = np.asarray(y, dtype=np.float64)
    n = rows.count
    ridge = penalties(n, rows.size, epsilon)
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
    return Released(found.x, None, WHY, "NO PROOF OF PRIVACY")


def penalties(n: int, size: int, epsilon: float) -> FloatArray:
    """Return the penalty of each weight on the sum over rows; the intercept, last, has λ alone."""
    found: FloatArray = np.full(size, n * PENALTY + 2 * SMOOTHNESS / epsilon + FURTHER)
    found[-1] = n * PENALTY
    return found


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
