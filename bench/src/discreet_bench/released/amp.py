"""AMP as in the code of its benchmark. NOT PRIVATE: there are 256 noises, and more is wrong.

Iyengar et al., IEEE S&P 2019, Algorithm 1, after the code that the paper names. `MISTAKES` lists
what that code does otherwise than the paper.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from discreet.validate import FloatArray
from discreet_bench.released.common import (
    SEEDS,
    Mistake,
    Released,
    Rows,
    gaussian_factor,
    loss_named,
    one_byte,
    rows_of,
)

__all__ = ["LOSSES", "RELATION", "SEEDS", "fit", "prepared"]

RELATION = "replace_one"
LOSSES = ("logistic", "huber-hinge")
INTERCEPT = False
SOURCE = "github.com/sunblaze-ucb/dpml-benchmark, algorithms/approximate_minima_perturbation.py"
MISTAKES = (
    Mistake(
        "the noise is seeded with one byte",
        "no finite ε is true: whoever tries all 256 seeds finds the one that was used",
    ),
    Mistake(
        "β is L² for every loss",
        "none for the logistic loss (four times too large); five times too small for the Huber SVM "
        "with h = 0.1, whose penalty is then too weak for the claim",
    ),
    Mistake(
        "the gradient bound γ doubles until the optimiser reaches it",
        "γ depends on the data, which the proof does not cover",
    ),
)
LEFT_OUT = (
    "the optimiser is L-BFGS, not BFGS",
    "where ε₁ − ε₃ would not be below 1 the release returns zeros; here f₁ is raised",
)

CLIP = 1.0
"""L: rows of larger norm are scaled down to it."""


def prepared(X: Any, *, intercept: bool = False) -> Rows:
    """Return rows of norm at most L."""
    return rows_of(X, intercept=intercept, longest=CLIP)


def fit(
    X: Any,
    y: NDArray[Any],
    *,
    epsilon: float,
    delta: float,
    loss: str,
    intercept: bool = False,
    seed: int,
    output_fraction: float = 0.01,
    objective_fraction: float = 0.9,
) -> Released:
    """Perturb the objective, minimise it approximately, and add more noise.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and targets ±1. Rows of norm above L are scaled down to it.
    epsilon, delta
        What is claimed.
    loss, intercept
        Objective: the mean loss + Λ/(2n)·‖w‖² with Λ = 2β/(ε₁ − ε₃); the release has no intercept.
    seed
        One of 256 noises is drawn with it.
    output_fraction, objective_fraction
        f and f₁ of the paper, which tunes them on the test rows.
    """
    rows = prepared(X, intercept=intercept)
    chosen_loss = loss_named(loss, LOSSES)
    targets = np.asarray(y, dtype=np.float64)
    n = rows.count
    rng = one_byte(seed)

    epsilon1 = (1 - output_fraction) * epsilon
    epsilon2 = output_fraction * epsilon
    delta1 = (1 - output_fraction) * delta
    delta2 = output_fraction * delta
    epsilon3 = max(objective_fraction, 1 - 0.99 / epsilon1) * epsilon1
    ridge = 2 * CLIP**2 / (epsilon1 - epsilon3)
    perturbation = rng.normal(0.0, 2 * CLIP / n * gaussian_factor(delta1) / epsilon3, rows.size)

    def objective(weights: FloatArray) -> tuple[float, FloatArray]:
        margins = rows.margins(weights)
        value = chosen_loss.value(margins, targets).mean() + perturbation @ weights
        gradient = rows.combine(chosen_loss.derivative(margins, targets)) / n + perturbation
        return value + ridge / (2 * n) * (weights @ weights), gradient + ridge / n * weights

    weights, gamma = _descend(objective, np.zeros(rows.size), 1 / n**2)
    weights = weights + rng.normal(
        0.0, n * gamma / ridge * gaussian_factor(delta2) / epsilon2, rows.size
    )

    why = "The noise is seeded with one byte: trying all 256 seeds tells which noise was added."
    if loss == "huber-hinge":
        why += " Its β = L² is five times too small for this loss as well."
    doublings = round(math.log2(gamma * n**2))
    if doublings:
        why += f" γ was doubled {doublings} times after a look at the data."
    return Released(weights, math.inf, why)


def _descend(objective: Any, start: FloatArray, gamma: float) -> tuple[FloatArray, float]:
    """Return a point with a gradient of norm at most γ, and that γ."""
    while True:
        found = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 2000, "gtol": gamma / math.sqrt(len(start)), "ftol": 0.0},
        )
        if np.linalg.norm(objective(found.x)[1]) <= gamma:
            return found.x, gamma
        start, gamma = found.x, 2 * gamma
        if gamma > 1:
            raise RuntimeError("The optimiser came nowhere near a minimum. Are the rows finite?")
