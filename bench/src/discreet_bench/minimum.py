"""The least value of an objective, without privacy: what excess is counted from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from discreet_bench.measures import gradient, loss_of

__all__ = ["minimum"]

KINK = 1e-3
"""A hinge is rounded off over this width to be minimised; the value returned is that of the hinge
itself, so it lies above the true minimum by less than this."""
NEWTON_COLUMNS, NEWTON_STEPS = 1000, 50
"""With no more columns, Newton's method follows after a few steps of L-BFGS."""


def minimum(loss: str, X: Any, target: NDArray[Any], alpha: float, intercept: bool) -> float:
    """Minimise the mean loss + alpha/2 |w|^2 to within about 1e-9 of its least value.

    Parameters
    ----------
    loss : str
        As an objective names it.
    X, target : array, ndarray
        Training rows, and labels -1 and +1 or targets in [-1, 1].
    alpha, intercept : float, bool
        Penalty (intercept included), and whether there is a constant term.
    """
    exact = loss_of(loss)
    smooth = exact.smoothed(KINK)
    X = X.astype(np.float64)  # once, instead of in every product

    def value(weights: NDArray[Any], of: Any) -> float:
        return float(
            of.value(_margins(X, weights, intercept), target).mean() + alpha / 2 * weights @ weights
        )

    def both(weights: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        return value(weights, smooth), gradient(smooth, X, target, weights, alpha, intercept)

    start = np.zeros(X.shape[1] + intercept)
    polish = X.shape[1] <= NEWTON_COLUMNS and exact is smooth
    steps = 50 if polish else 1000
    options = {"maxiter": steps, "maxfun": 2 * steps, "gtol": 1e-9, "ftol": 0.0, "maxcor": 30}
    weights = minimize(both, start, jac=True, method="L-BFGS-B", options=options).x
    if polish:
        weights = _polished(X, target, alpha, intercept, smooth, both, weights)
    return min(value(weights, exact), value(start, exact))


def _margins(X: Any, weights: NDArray[Any], intercept: bool) -> NDArray[np.float64]:
    if intercept:
        return np.asarray(X @ weights[:-1], dtype=np.float64) + weights[-1]
    return np.asarray(X @ weights, dtype=np.float64)


def _polished(
    X: Any,
    target: NDArray[Any],
    alpha: float,
    intercept: bool,
    loss: Any,
    both: Any,
    weights: NDArray[Any],
) -> NDArray[Any]:
    """Newton steps, halved until they descend, while they gain anything."""
    least, slope = both(weights)
    for _ in range(NEWTON_STEPS):
        curvature = loss.second_derivative(_margins(X, weights, intercept), target) / len(target)
        scaled = (
            X.multiply(curvature[:, None]) if hasattr(X, "multiply") else X * curvature[:, None]
        )
        hessian = np.asarray((X.T @ scaled).todense() if hasattr(X, "multiply") else X.T @ scaled)
        if intercept:
            border = np.asarray(X.T @ curvature).ravel()
            hessian = np.block([[hessian, border[:, None]], [border, curvature.sum()]])
        # One-hot columns add up to 1: without a penalty the Hessian is singular.
        hessian = hessian + (alpha + 1e-10) * np.eye(len(weights))
        move = np.linalg.solve(hessian, slope)
        tried = (weights - move / 2**halved for halved in range(20))
        better = next((w for w in tried if both(w)[0] < least), None)
        if better is None:
            break
        weights, before = better, least
        least, slope = both(weights)
        if before - least < 1e-11:
            break
    return weights
