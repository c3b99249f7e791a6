"""Measures of a model: on test rows, of its objective on training rows, and memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.metrics import balanced_accuracy_score, log_loss, r2_score, roc_auc_score

from discreet.objectives import LOSSES, Huber, Loss

__all__ = [
    "THRESHOLD",
    "Peak",
    "classification",
    "gradient",
    "loss_of",
    "minimum",
    "objective",
    "peak_memory",
    "regression",
]

THRESHOLD = 0.5
"""Beyond this residual the Huber loss is linear, on a target brought to [-1, 1]."""


def loss_of(name: str) -> Loss:
    """Return the loss of an objective by its name."""
    return Huber(THRESHOLD) if name == "huber" else LOSSES[name]()


def classification(
    scores: NDArray[Any], y: NDArray[Any], probabilities: NDArray[Any] | None = None
) -> dict[str, float]:
    """Return accuracy, balanced accuracy, area under the curve and log loss.

    Parameters
    ----------
    scores : ndarray of shape (n,) or (n, K)
        Positive for the second of two classes; the largest is predicted.
    y : ndarray of shape (n,)
        Codes 0, …, K - 1.
    probabilities : ndarray of shape (n, K), optional
        For the log loss.
    """
    n_classes = 2 if scores.ndim == 1 else scores.shape[1]
    predicted = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
    found = {
        "accuracy": float(np.mean(predicted == y)),
        "balanced_accuracy": float(balanced_accuracy_score(y, predicted)),
        "auc": np.nan,
        "log_loss": np.nan,
    }
    if len(np.unique(y)) == n_classes:
        if n_classes == 2:
            margin = scores if scores.ndim == 1 else scores[:, 1] - scores[:, 0]
            found["auc"] = float(roc_auc_score(y, margin))
        else:
            chances = softmax(scores, axis=1) if probabilities is None else probabilities
            found["auc"] = float(roc_auc_score(y, chances, multi_class="ovr"))
    if probabilities is not None:
        found["log_loss"] = float(log_loss(y, probabilities, labels=np.arange(n_classes)))
    return found


def regression(predicted: NDArray[Any], y: NDArray[Any]) -> dict[str, float]:
    """Return R², the explained share of the variance."""
    return {"r2": float(r2_score(y, predicted))}


def objective(
    loss: str, margins: NDArray[Any], target: NDArray[Any], weights: NDArray[Any], alpha: float
) -> float:
    """Return the mean loss + alpha/2 |w|^2."""
    value = loss_of(loss).value(np.asarray(margins, dtype=np.float64), target).mean()
    return float(value + alpha / 2 * weights @ weights)


def gradient(
    loss: Loss, X: Any, target: NDArray[Any], weights: NDArray[Any], alpha: float, intercept: bool
) -> NDArray[np.float64]:
    """Return the gradient of the objective at weights (intercept last)."""
    columns = weights[:-1] if intercept else weights
    margins = np.asarray(X @ columns, dtype=np.float64) + (weights[-1] if intercept else 0.0)
    slopes = loss.derivative(margins, target) / len(target)
    rows = X.T if sp.issparse(X) else np.asarray(X).T
    found = np.asarray(rows @ slopes, dtype=np.float64)
    if intercept:
        found = np.append(found, slopes.sum())
    return found + alpha * weights


KINK = 1e-3
"""A hinge is rounded off over this width to be minimised; the value returned is that of the hinge
itself, so it lies above the true minimum by less than this."""
NEWTON_COLUMNS, NEWTON_STEPS = 1000, 50
"""Up to this many columns, Newton steps follow a few of L-BFGS."""


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
    loss: Loss,
    both: Callable[[NDArray[Any]], tuple[float, NDArray[Any]]],
    weights: NDArray[Any],
) -> NDArray[Any]:
    """Take Newton steps, halved until they descend, while they gain anything."""
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


_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """Growth of the process at its peak in MiB, filled in when the work is done."""

    mebibytes: float = float("nan")


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the largest growth of this process's memory; NaN on systems other than Linux."""
    peak = Peak()
    try:
        _RESET.write_text("5")  # resets the high-water mark
        before = _kibibytes("VmRSS")
    except OSError:
        yield peak
        return
    yield peak
    peak.mebibytes = max(0.0, _kibibytes("VmHWM") - before) / 1024


def _kibibytes(name: str) -> float:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return float(found[1]) if found else float("nan")
