"""Private SGD as in the code of the DP-AGD study. NOT PRIVATE AS CLAIMED: a wrong sampler.

Abadi et al. 2016 (SGD-MA): noise by the moments accountant, which is for Poisson samples, each row
in a batch independently of the others. The code draws batches of a fixed size. One row more then
displaces another from the batch, so the sum moves by twice the clip, and the account is for once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.calibration import noise_multiplier_for
from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Budget, Relation
from discreet_bench.released.common import Released, loss_named, rows_of

__all__ = ["LOSSES", "RELATION", "draw", "fit", "pair_epsilon"]

RELATION = "add_remove"
LOSSES = ("logistic", "huber-hinge", "hinge")


def fit(
    X: Any,
    y: NDArray[Any],
    *,
    epsilon: float,
    delta: float,
    loss: str,
    alpha: float,
    seed: int,
    epochs: int = 20,
    clip: float = 1.0,
    step_size: float = 0.5,
) -> Released:
    """Descend along noisy gradients of batches of √n rows.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and targets ±1.
    epsilon, delta
        What is claimed.
    loss, alpha
        Objective: mean loss + alpha/2·‖w‖².
    seed
        Of batches and noise.
    epochs, clip, step_size
        Passes over the rows, bound on a row's gradient, and step for mean gradients. The size of
        batches is the study's; these defaults are our choice.

    Returns
    -------
    Released
        Its ``true_epsilon`` is that of a pair of tables whose gradients are at the clip
        (`pair_epsilon`).
    """
    rng = np.random.default_rng(seed)
    rows, chosen_loss = rows_of(X), loss_named(loss, LOSSES)
    targets = np.asarray(y, dtype=np.float64)
    n = rows.count
    batch = math.isqrt(n)
    iterations = max(1, epochs * n // batch)
    budget = Budget(epsilon, delta, RELATION)
    multiplier = noise_multiplier_for(budget, batch / n, iterations, method="rdp")

    weights = np.zeros(rows.size)
    for _ in range(iterations):
        which = draw(rng, n, batch)
        some = rows.take(which)
        slopes = chosen_loss.derivative(some.margins(weights), targets[which])
        slopes *= np.minimum(1.0, clip / np.maximum(np.abs(slopes) * some.norms(), 1e-300))
        total = some.combine(slopes) + rng.normal(0.0, multiplier * clip, rows.size)
        weights = weights - step_size * (total / batch + alpha * weights)
    why = (
        f"Batches have exactly {batch} rows, but the noise is that of an accountant for Poisson "
        "samples: a row more displaces another one, which moves the sum by twice the clip."
    )
    return Released(weights, pair_epsilon(multiplier, n, batch, iterations, delta), why)


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
