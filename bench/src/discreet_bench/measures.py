"""What is measured of a model: on test rows, and of its objective on training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.metrics import balanced_accuracy_score, log_loss, r2_score, roc_auc_score

from discreet.objectives import LOSSES, Huber, Loss

__all__ = ["THRESHOLD", "classification", "gradient", "loss_of", "objective", "regression"]

THRESHOLD = 0.5
"""Beyond this residual the Huber loss is linear, on a target brought to [-1, 1]."""


def loss_of(name: str) -> Loss:
    """The loss of an objective by its name."""
    return Huber(THRESHOLD) if name == "huber" else LOSSES[name]()


def classification(
    scores: NDArray[Any], y: NDArray[Any], probabilities: NDArray[Any] | None = None
) -> dict[str, float]:
    """Accuracy, balanced accuracy, area under the curve, log loss.

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
    """The share of the variance that is explained."""
    return {"r2": float(r2_score(y, predicted))}


def objective(
    loss: str, margins: NDArray[Any], target: NDArray[Any], weights: NDArray[Any], alpha: float
) -> float:
    """Mean loss + alpha/2 |w|^2."""
    value = loss_of(loss).value(np.asarray(margins, dtype=np.float64), target).mean()
    return float(value + alpha / 2 * weights @ weights)


def gradient(
    loss: Loss, X: Any, target: NDArray[Any], weights: NDArray[Any], alpha: float, intercept: bool
) -> NDArray[np.float64]:
    """The gradient of the objective at weights (intercept last)."""
    columns = weights[:-1] if intercept else weights
    margins = np.asarray(X @ columns, dtype=np.float64) + (weights[-1] if intercept else 0.0)
    slopes = loss.derivative(margins, target) / len(target)
    rows = X.T if sp.issparse(X) else np.asarray(X).T
    found = np.asarray(rows @ slopes, dtype=np.float64)
    if intercept:
        found = np.append(found, slopes.sum())
    return found + alpha * weights
