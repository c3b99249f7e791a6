"""Generated data sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["synthetic_low"]


def synthetic_low(
    n_rows: int = 10_000, n_features: int = 20, *, flip: float = 0.05, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Synthetic-L: a low-dimensional two-class problem that a linear model can almost solve.

    The size is that of the set of this name in Iyengar et al. 2019 (10,000 × 20), who do not
    print their recipe; this is ours. A hidden direction u is drawn uniformly on the unit sphere;
    each feature is uniform in [-1, 1]; a row's label is whether x·u > 0, and is flipped with
    probability ``flip``, so that no model can be right more often than 1 - ``flip`` on average.

    Parameters
    ----------
    n_rows, n_features : int
        Size.
    flip : float
        Share of labels that are wrong.
    seed : int
        Seed of the generator; the data are the same for the same seed.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,), of 0 and 1
    """
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(n_features)
    X = rng.uniform(-1.0, 1.0, size=(n_rows, n_features))
    labels = X @ direction > 0
    labels ^= rng.random(n_rows) < flip
    return X, labels.astype(np.int64)
