"""Private Frank–Wolfe as in the code of the AMP benchmark: batches with the noise of all rows.

Iyengar et al., IEEE S&P 2019, Algorithm 5, with gradients of batches of 1,000 rows. A row has n /
1,000 times as much say in such a gradient, but the noise stays as it was. NO PROOF OF PRIVACY: the
paper's does not cover that. If batches are drawn at random and kept secret, sampling gives it back
for small ε, and does not for large ones (`most_epsilon`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreet.accounting import conversions
from discreet_bench.released.common import Released, loss_named, rows_of

__all__ = ["BATCH", "LOSSES", "RELATION", "fit", "most_epsilon", "noise_scale"]

RELATION = "replace_one"
LOSSES = ("logistic", "huber-hinge", "hinge")

BATCH = 1000
"""Rows in a batch."""


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
    radius: float = 10.0,
    iterations: int = 100,
) -> Released:
    """Move towards the corners of the L1 ball that noisy gradients of batches point at.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and targets ±1. Entries beyond ±``clip`` are cut.
    epsilon, delta
        What is claimed.
    loss, alpha
        Objective: mean loss + alpha/2·‖w‖².
    seed
        Of batches and noise.
    clip, radius, iterations
        L, C and T, of the paper's grid. It tuned them on the data.

    Returns
    -------
    Released
        Without a ``true_epsilon``: all that is known is the upper bound of `most_epsilon`, in its
        ``why``.
    """
    rng = np.random.default_rng(seed)
    chosen_loss = loss_named(loss, LOSSES)
    rows = rows_of(_cut(X, clip))
    targets = np.asarray(y, dtype=np.float64)
    n = rows.count
    batch = min(BATCH, n)
    scale = noise_scale(n, epsilon, delta, clip, radius, iterations)

    weights = np.zeros(rows.size)
    for t in range(1, iterations):
        which = rng.choice(n, batch, replace=False, shuffle=False)
        some = rows.take(which)
        slopes = chosen_loss.derivative(some.margins(weights), targets[which])
        gradient = some.combine(slopes) / batch + alpha * weights
        scores = radius * np.concatenate([gradient, -gradient])
        corner = int(np.argmin(scores + rng.laplace(0.0, scale, len(scores))))
        weights = (1 - 1 / (t + 1)) * weights
        weights[corner % rows.size] += (1 if corner < rows.size else -1) * radius / (t + 1)

    most = most_epsilon(n, batch, scale, delta, clip, radius, iterations)
    why = (
        f"Gradients are of {batch:,} rows, but the noise is scaled for all {n:,}: {n / batch:.3g} "
        "times too little for a batch that is known, and the published proof knows no sampling. If "
        f"batches are random and secret, ε is at most {most:.3g}."
    )
    return Released(weights, None, why, "NO PROOF OF PRIVACY")


def noise_scale(
    n: int, epsilon: float, delta: float, clip: float, radius: float, iterations: int
) -> float:
    """Return the published Laplace scale, as if a gradient were that of all n rows."""
    return clip * radius * math.sqrt(32 * iterations * math.log(1 / delta)) / (n * epsilon)


def most_epsilon(
    n: int, batch: int, scale: float, delta: float, clip: float, radius: float, iterations: int
) -> float:
    """Bound from above the ε of all steps, if batches are drawn at random and kept secret.

    A row in the batch moves each score by up to 2LC/b, so a choice is ε₀ = 4LC/(b·scale)-DP for
    those in it, and ln(1 + b/n·(e^ε₀ − 1)) for all (sampling without replacement, Balle et al.
    2018). T − 1 choices are added up, or composed by zCDP, whichever is less.
    """
    inside = 4 * clip * radius / (batch * scale)
    rate = batch / n
    # ln(1 − q + q·e^ε₀), without overflow
    step = float(
        np.logaddexp(math.log1p(-rate) if rate < 1 else -math.inf, math.log(rate) + inside)
    )
    steps = iterations - 1
    return min(steps * step, conversions.epsilon_from_rho(steps * step**2 / 2, delta))


def _cut(X: Any, clip: float) -> Any:
    if not sparse.issparse(X):
        return np.clip(X, -clip, clip)
    X = X.tocsr(copy=True)
    np.clip(X.data, -clip, clip, out=X.data)
    return X
