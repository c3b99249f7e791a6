"""Output perturbation as in the code of the DP-AGD study. NOT PRIVATE: steps and rows are too long.

Zhang, Zheng, Mou & Wang, IJCAI 2017, Algorithm 1: full-batch descent, then noise. Its sensitivity
3·L·T·η/n holds for steps η ≤ 1/β and rows whose gradients are at most L long. The code takes steps
above 2/β, where descent drives neighbouring tables apart instead of keeping them together, and
L = 1 for rows up to 3.6 long.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting import conversions
from discreet.objectives import Loss
from discreet_bench.released.common import Released, loss_named, rows_of

__all__ = ["LOSSES", "RELATION", "distance", "fit", "noise_scale"]

RELATION = "add_remove"
LOSSES = ("logistic", "huber-hinge")

SHARES = tuple(k / 100 for k in range(2, 51))
"""Shares of rows with the target −1 in the tables that `distance` tries."""


def fit(
    X: Any,
    y: NDArray[Any],
    *,
    epsilon: float,
    delta: float,
    loss: str,
    alpha: float,
    seed: int,
    iterations: int = 20,
    step_factor: float = 2.0,
) -> Released:
    """Descend on rows as they are, then add noise for rows of norm 1 and short steps.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and targets ±1. Rows are not clipped.
    epsilon, delta
        What is claimed.
    loss, alpha
        Objective: mean loss + alpha/2·‖w‖².
    seed
        Of the noise.
    iterations, step_factor
        T, and the step in units of 2/β, where β belongs to the longest row. The study tuned both on
        each data set without privacy; that the step is above 2/β is known, these defaults are our
        choice.

    Returns
    -------
    Released
        Its ``true_epsilon`` is a lower bound: that of a pair of neighbouring tables of this size
        and with rows as long as the longest here (`distance`).
    """
    rng = np.random.default_rng(seed)
    rows, chosen_loss = rows_of(X), loss_named(loss, LOSSES)
    targets = np.asarray(y, dtype=np.float64)
    n = rows.count
    longest = float(rows.norms().max())
    smoothness = (chosen_loss.curvature_bound or 0.0) * longest**2
    step = step_factor * 2 / smoothness

    weights = np.zeros(rows.size)
    for _ in range(iterations):
        slopes = chosen_loss.derivative(rows.margins(weights), targets)
        weights = weights - step * (rows.combine(slopes) / n + alpha * weights)
    sigma = noise_scale(n, iterations, step, epsilon, delta)
    weights = weights + rng.normal(0.0, sigma, rows.size)

    apart = distance(chosen_loss, n, longest, iterations, step, alpha)
    true = conversions.epsilon_from_mu(apart / sigma, delta)
    why = (
        f"Descent takes steps of {step:.3g} where 2/β = {2 / smoothness:.3g}, and the noise is for "
        f"gradients of norm 1 although rows are up to {longest:.2g} long. Adding one row can move "
        f"the end by {apart:.2g}; the noise hides {3 * iterations * step / n:.2g}."
    )
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
