"""AMP as in the code of its benchmark. NOT PRIVATE: there are 256 noises, and more is wrong.

Iyengar et al., IEEE S&P 2019, Algorithm 1, with what their code does otherwise:

- the noise is seeded with one byte, so whoever tries all 256 seeds finds the one that was used;
- β is L² for every loss: right as a bound for logistic loss (four times too large), five times too
  small for the Huber SVM with h = 0.1;
- the gradient bound γ, which the proof fixes in advance, doubles until the optimiser reaches it, so
  it depends on the data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from discreet.validate import FloatArray
from discreet_bench.released.common import Released, gaussian_factor, loss_named, rows_of

__all__ = ["LOSSES", "RELATION", "SEEDS", "fit"]

RELATION = "replace_one"
LOSSES = ("logistic", "huber-hinge")

SEEDS = 256
"""Number of different noise vectors."""


def fit(
    X: Any,
    y: NDArray[Any],
    *,
    epsilon: float,
    delta: float,
    loss: str,
    alpha: float,
    seed: int,
    clip: float = 1.0,
    output_fraction: float = 0.01,
    objective_fraction: float = 0.9,
) -> Released:
    """Perturb the objective, minimise it approximately, and add more noise.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and targets ±1. Rows longer than ``clip``, the one for the intercept
        included, are shortened.
    epsilon, delta
        What is claimed.
    loss, alpha
        Objective: mean loss + alpha/2·‖w‖². Λ is n·alpha, and at least 2β/(ε₁ − ε₃).
    seed
        One of 256 noises is drawn with it.
    clip, output_fraction, objective_fraction
        L, f and f₁ of the paper, which tuned them on the data; f₁ is raised where ε₁ − ε₃ would
        not be below 1.
    """
    rows, chosen_loss = rows_of(X, longest=clip), loss_named(loss, LOSSES)
    targets = np.asarray(y, dtype=np.float64)
    n = rows.count
    byte = int(np.random.default_rng(seed).integers(SEEDS))
    rng = np.random.default_rng(byte)

    epsilon1, epsilon2 = (1 - output_fraction) * epsilon, output_fraction * epsilon
    delta1, delta2 = (1 - output_fraction) * delta, output_fraction * delta
    epsilon3 = max(objective_fraction, 1 - 0.99 / epsilon1) * epsilon1
    ridge = max(2 * clip**2 / (epsilon1 - epsilon3), n * alpha)
    perturbation = rng.normal(0.0, 2 * clip / n * gaussian_factor(delta1) / epsilon3, rows.size)

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
