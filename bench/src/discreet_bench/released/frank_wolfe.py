"""Private Frank–Wolfe as in the code of the AMP benchmark. NOT PRIVATE: there are 256 noises.

Iyengar et al., IEEE S&P 2019, Algorithm 5, after the code that the paper names. `MISTAKES` lists
what that code does otherwise than the paper.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreet_bench.released.common import Mistake, Released, Rows, loss_named, one_byte, rows_of

__all__ = ["BATCH", "LOSSES", "RELATION", "fit", "noise_scale", "prepared"]

RELATION = "replace_one"
LOSSES = ("logistic", "huber-hinge", "hinge")
INTERCEPT = False
SOURCE = "github.com/sunblaze-ucb/dpml-benchmark, algorithms/frank_wolfe.py"
MISTAKES = (
    Mistake(
        "the noise and the batches are seeded with one byte",
        "no finite ε is true: whoever tries all 256 seeds finds the one that was used",
    ),
    Mistake("the Laplace scale has √8 where the paper has √32", "half of the noise: twice the ε"),
    Mistake(
        "gradients are of batches of 1,000 rows drawn with replacement, the noise is scaled for "
        "all n rows",
        "n/1,000 times too little noise for a batch that is known",
    ),
    Mistake("T steps are made and T − 1 are accounted for", "one step more"),
)
LEFT_OUT: tuple[str, ...] = ()

BATCH = 1000
"""Rows in a batch."""

CLIP = 1.0
"""L: entries of rows beyond ±L are cut."""


def prepared(X: Any, *, intercept: bool = False) -> Rows:
    """Return rows whose entries are cut at ±L."""
    if not sparse.issparse(X):
        return rows_of(np.clip(X, -CLIP, CLIP), intercept=intercept)
    X = X.tocsr(copy=True)
    np.clip(X.data, -CLIP, CLIP, out=X.data)
    return rows_of(X, intercept=intercept)


def fit(
    X: Any,
    y: NDArray[Any],
    *,
    epsilon: float,
    delta: float,
    loss: str,
    intercept: bool = False,
    seed: int,
    radius: float = 10.0,
    iterations: int = 100,
) -> Released:
    """Move towards the corners of the L1 ball that noisy gradients of batches point at.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and targets ±1.
    epsilon, delta
        What is claimed.
    loss, intercept
        Objective: the mean loss; the release has no intercept.
    seed
        One of 256 streams of batches and noise is drawn with it.
    radius, iterations
        C and T, of the release's grid. It tunes them on the test rows.
    """
    rng = one_byte(seed)
    chosen_loss = loss_named(loss, LOSSES)
    rows = prepared(X, intercept=intercept)
    targets = np.asarray(y, dtype=np.float64)
    n = rows.count
    scale = noise_scale(n, epsilon, delta, radius, iterations)

    weights = np.zeros(rows.size)
    for t in range(iterations):
        which = rng.choice(n, BATCH, replace=True)
        some = rows.take(which)
        slopes = chosen_loss.derivative(some.margins(weights), targets[which])
        gradient = some.combine(slopes) / BATCH
        scores = radius * np.concatenate([gradient, -gradient])
        corner = int(np.argmin(scores + rng.laplace(0.0, scale, len(scores))))
        share = 1 / (t + 1)
        weights = (1 - share) * weights
        weights[corner % rows.size] += (1 if corner < rows.size else -1) * radius * share

    why = (
        "Noise and batches are seeded with one byte: trying all 256 seeds tells which were used. "
        f"Gradients are of {BATCH:,} rows, but the noise is scaled for all {n:,}, and is half of "
        "the published one."
    )
    return Released(weights, math.inf, why)


def noise_scale(n: int, epsilon: float, delta: float, radius: float, iterations: int) -> float:
    """Return the released Laplace scale: √8 for √32, as if a gradient were that of all n rows."""
    return CLIP * radius * math.sqrt(8 * iterations * math.log(1 / delta)) / (n * epsilon)
