"""A statistic that the attacker learns: which numbers of an output tell the worlds apart."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["learn"]

FloatArray = NDArray[np.float64]

MOST_NUMBERS = 40
"""Outputs with more numbers get no products: there would be too many."""


def learn(first: FloatArray, second: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """A score that is larger where an output looks like ``second``.

    A logistic regression on each number of the output, its square and its size, after each number
    was brought to a common scale by its median and quartiles (which nobody's extreme output moves).

    Parameters
    ----------
    first, second : arrays of shape (runs, numbers)
        Outputs in world 0 and in world 1.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    both = np.concatenate([first, second])
    middle = np.median(both, axis=0)
    low, high = np.quantile(both, [0.25, 0.75], axis=0)
    spread = high - low
    with np.errstate(over="ignore"):
        deviation = np.clip(np.std(both, axis=0), 1e-300, 1e300)
    spread = np.where(spread > 0, spread, deviation)

    def features(outputs: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            scaled = np.clip((outputs - middle) / spread, -20.0, 20.0)
        if scaled.shape[1] > MOST_NUMBERS:
            return scaled
        upper = np.triu_indices(scaled.shape[1])
        products = (scaled[:, :, None] * scaled[:, None, :])[:, upper[0], upper[1]]
        return np.hstack([scaled, np.abs(scaled), products])

    labels = np.repeat([0, 1], [len(first), len(second)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any score will do, a rough one, too
        model = LogisticRegression(C=1.0, max_iter=200).fit(features(both), labels)
    return lambda outputs: np.asarray(model.decision_function(features(outputs)))
