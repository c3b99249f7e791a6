"""Output perturbation as in the code of the DP-AGD study. NOT PRIVATE: steps and rows are too long.

Zhang, Zheng, Mou & Wang, IJCAI 2017, Algorithm 1, after the code that the authors of DP-AGD
published. Its sensitivity 3·L·T·η/n holds for steps η ≤ 1/β and rows whose gradients have norm at
most L. The code takes steps above 2/β, where descent drives neighbouring tables apart instead of
keeping them together, and L = 1 for rows of norm up to 3.6.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting import conversions
from discreet.objectives import Loss
from discreet_bench.released.common import Mistake, Released, Rows, loss_named, rows_of

__all__ = ["LOSSES", "RELATION", "distance", "fit", "noise_scale", "prepared"]

RELATION = "add_remove"
LOSSES = ("logistic", "huber-hinge")
INTERCEPT = True
SOURCE = "github.com/ppmlguy/DP-AGD, algo/outpert.py and run_outpert_logistic.py"
MISTAKES = (
    Mistake(
        "steps of 1 where 2/β is below that for rows of norm above 2.8",
        "descent on neighbouring tables moves apart; the noise hides less than that",
    ),
    Mistake("L = 1 for rows of norm up to 3.6", "the noise is up to 3.6 times too small"),
    Mistake(
        "the script fits all rows, those that it tests on among them",
        "none; accuracies are those of training rows (not followed here)",
    ),
)
LEFT_OUT = (
    "training rows alone are fitted",
    "columns are scaled by public bounds, not by the extremes of the data",
)

PENALTY = 1e-4
"""λ of the released experiments."""

SHARES = tuple(k / 100 for k in range(2, 51))
"""Shares of rows with the target −1 in the tables that `distance` tries."""


def prepared(X: Any, *, intercept: bool = True) -> Rows:
    """Return rows as they are, with a column of ones."""
    return rows_of(X, intercept=intercept)


def fit(
    X: Any,
    y: NDArray[Any],
    *,
    epsilon: float,
    delta: float,
    loss: str,
    intercept: bool = True,
    seed: int,
    iterations: int = 50,
    step_size: float = 1.0,
) -> Released:
    """Descend on rows as they are, then add noise for rows of norm 1 and short steps.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and targets ±1. Rows are not clipped.
    epsilon, delta
        What is claimed.
    loss, intercept
        Objective: mean loss + λ/2·‖w‖² with λ = `PENALTY`, with a column of ones or without.
    seed
        Of the noise.
    iterations, step_size
        T and η.

    Returns
    -------
    Released
        Its ``true_epsilon`` is a lower bound: that of a pair of neighbouring tables of this size
        and with rows as long as the longest here (`distance`); None if that refutes nothing.
    """
    rng = np.random.default_rng(seed)
    rows = prepared(X, intercept=intercept)
    chosen_loss = loss_named(loss, LOSSES)
    targets = np.asarray(y, dtype=np.float64)
    n = rows.count
    longest = float(rows.norms().max())
    smoothness = (chosen_loss.curvature_bound or 0.0) * longest**2
    step = step_size

    weights = np.zeros(rows.size)
    for _ in range(iterations):
        slopes = chosen_loss.derivative(rows.margins(weights), targets)
        weights = weights - step * (rows.combine(slopes) / n + PENALTY * weights)
    sigma = noise_scale(n, iterations, step, epsilon, delta)
    weights = weights + rng.normal(0.0, sigma, rows.size)

    apart = distance(chosen_loss, n, longest, iterations, step, PENALTY)
    true = conversions.epsilon_from_mu(apart / sigma, delta)
    why = (
        f"Descent takes steps of {step:.3g} where 2/β = {2 / smoothness:.3g}, and the noise is for "
        f"gradients of norm 1 although rows are up to {longest:.2g} long. Adding one row can move "
        f"the end by {apart:.2g}; the noise hides {3 * iterations * step / n:.2g}."
    )
    if true <= epsilon:  # this pair of tables does not refute the claim
        return Released(weights, None, why, "NO PROOF OF PRIVACY")
    return Released(weights, true, why)


def noise_scale(n: int, iterations: int, step: float, epsilon: float, delta: float) -> float:
    """Return the published σ for the sensitivity 3·L·T·η/n, with L = 1 whatever the rows are."""
    return 3 * iterations * step / n * math.sqrt(2 * math.log(2 / delta)) / epsilon


def distance(
    loss: Loss, n: int, longest: float, iterations: int, step: float, alpha: float
) -> float:
    """Return the distance between the results of descent on tables that differ by one row.

    All rows are the same vector of length ``longest``, a share of them with the target −1; one
    table has one row more. Everything happens along that vector, so a table is two counts. The
    largest distance over `SHARES`, and over the target of the row that is added. Noise is the same
    for both tables, as if n were public.
    """
    minus = np.round(np.array(SHARES) * n)
    counts = np.array([[n - minus, minus], [n - minus, minus + 1], [n - minus + 1, minus]])
    position = np.zeros((3, len(SHARES)))
    for _ in range(iterations):
        slopes = counts[:, 0] * loss.derivative(longest * position, 1.0)
        slopes = slopes + counts[:, 1] * loss.derivative(longest * position, -1.0)
        position = position - step * (longest * slopes / counts.sum(axis=1) + alpha * position)
    return float(np.abs(position[1:] - position[0]).max())
