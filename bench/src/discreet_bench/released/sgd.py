"""Private SGD as in the code of the DP-AGD study. NOT PRIVATE AS CLAIMED: a wrong sampler.

Abadi et al. 2016 (SGD-MA), after the code that the authors of DP-AGD published: a fixed noise of
σ = 4, and a number of steps from a list, each with the ε that a moments accountant of 32 orders
gives. Here the longest of them that stays within the budget is run.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Relation
from discreet_bench.released.common import Mistake, Released, Rows, loss_named, rows_of

__all__ = ["LOSSES", "RELATION", "claimed", "draw", "fit", "pair_epsilon", "prepared"]

RELATION = "add_remove"
LOSSES = ("logistic", "huber-hinge", "hinge")
INTERCEPT = True
SOURCE = "github.com/ppmlguy/DP-AGD, algo/sgd.py and run_sgdma_logistic.py"
MISTAKES = (
    Mistake(
        "batches have a fixed number of rows, the accountant is for Poisson samples",
        "one row more displaces another, which moves the sum by twice the clip instead of once",
    ),
)
LEFT_OUT = ("columns are scaled by public bounds, not by the extremes of the data",)

SIGMA = 4.0
"""Noise multiplier."""

CLIP = 4.0
"""Bound on the norm of a row's gradient."""

STEPS = (1, 100, 1000, 10_000, 20_000)
"""Numbers of steps of the released experiments."""

ORDERS = 32
"""Orders of the moments accountant."""


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
    step_size: float = 0.05,
) -> Released:
    """Descend along noisy gradients of batches of √n + 10 rows.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and targets ±1.
    epsilon, delta
        What is claimed.
    loss, intercept
        Objective: the mean loss, with a column of ones or without.
    seed
        Of batches and noise.
    step_size
        Step for mean gradients.

    Returns
    -------
    Released
        Its ``true_epsilon`` is that of a pair of tables whose gradients are at the clip
        (`pair_epsilon`), None if that does not exceed the claim.

    Raises
    ------
    ValueError
        If not even one step stays within the budget.
    """
    rng = np.random.default_rng(seed)
    rows = prepared(X, intercept=intercept)
    chosen_loss = loss_named(loss, LOSSES)
    targets = np.asarray(y, dtype=np.float64)
    n = rows.count
    batch = min(n, math.isqrt(n) + 10)
    within = [steps for steps in STEPS if claimed(batch / n, steps, delta) <= epsilon]
    if not within:
        least = claimed(batch / n, STEPS[0], delta)
        raise ValueError(f"one step of the released SGD-MA is said to cost ε = {least:.4g}.")
    iterations = within[-1]

    weights = np.zeros(rows.size)
    for _ in range(iterations):
        which = draw(rng, n, batch)
        some = rows.take(which)
        slopes = chosen_loss.derivative(some.margins(weights), targets[which])
        slopes *= np.minimum(1.0, CLIP / np.maximum(np.abs(slopes) * some.norms(), 1e-300))
        total = some.combine(slopes) + rng.normal(0.0, SIGMA * CLIP, rows.size)
        weights = weights - step_size * total / batch
    why = (
        f"Batches have exactly {batch} rows, but the noise is that of an accountant for Poisson "
        "samples: a row more displaces another one, which moves the sum by twice the clip."
    )
    true = pair_epsilon(SIGMA, n, batch, iterations, delta)
    if true <= epsilon:  # the accountant of 32 orders is so loose that the claim still holds here
        return Released(weights, None, why, "NO PROOF OF PRIVACY")
    return Released(weights, true, why)


def claimed(rate: float, iterations: int, delta: float) -> float:
    """Return the ε of the released accountant: the best of 32 moments of Poisson samples.

    The moment of order λ is ln Σ_k C(λ+1, k)·(1−q)^(λ+1−k)·q^k·exp(k(k−1)/(2σ²)).
    """
    found = math.inf
    for order in range(2, ORDERS + 2):
        k = np.arange(order + 1)
        chances = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        chances = chances + (order - k) * math.log1p(-rate) + k * math.log(rate)
        moment = float(logsumexp(chances + k * (k - 1) / (2 * SIGMA**2)))
        found = min(found, (iterations * moment + math.log(1 / delta)) / (order - 1))
    return found


def draw(rng: np.random.Generator, n: int, batch: int) -> NDArray[np.intp]:
    """Draw a batch of exactly ``batch`` rows; the accountant is for Poisson samples."""
    return rng.choice(n, batch, replace=False, shuffle=False)


def pair_epsilon(multiplier: float, n: int, batch: int, iterations: int, delta: float) -> float:
    """Return the ε of all steps for the worst known pair of tables under fixed batch sizes.

    All n rows have the same gradient, at the clip, and the row that is added has the opposite one.
    Without it the sum of a batch is always the same; with it, the sum is off by twice the clip with
    probability batch/(n + 1). That is a Poisson-sampled Gaussian with half the noise; its ε is
    computed to about 0.1 %.
    """
    pair = SampledGaussian(multiplier / 2, batch / (n + 1), Relation.ADD_REMOVE)
    return pair.epsilon(iterations, delta)
