"""Sums over rows, dense or CSR, that the released methods have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreet.objectives import LOSSES, Loss

__all__ = ["Rows", "loss_named", "rows_of", "spread"]

FloatArray = NDArray[np.float64]


def loss_named(name: str, allowed: tuple[str, ...]) -> Loss:
    """The loss, if the method takes it."""
    if name not in allowed:
        raise ValueError(
            f"loss={name!r} is not one this method takes. Use one of {', '.join(allowed)}."
        )
    return LOSSES[name]()


@dataclass(frozen=True)
class Rows:
    """Rows with a last column of ones for the intercept, each scaled by a number of its own.

    Scaling a row together with its one leaves the sign of its margin as it is, so weights learnt
    from scaled rows classify rows as they came.
    """

    X: Any
    scale: FloatArray

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def size(self) -> int:
        """Number of weights."""
        return int(self.X.shape[1]) + 1

    def norms(self) -> FloatArray:
        """Length of each row, its one included."""
        return self.scale * _lengths(self.X)

    def margins(self, weights: FloatArray) -> FloatArray:
        """Products of rows and weights."""
        return self.scale * (self.X @ weights[:-1] + weights[-1])

    def combine(self, factors: FloatArray) -> FloatArray:
        """Sum of rows times factors."""
        factors = self.scale * factors
        return np.append(self.X.T @ factors, factors.sum())

    def take(self, which: NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        return Rows(self.X[which], self.scale[which])


def rows_of(X: Any, *, longest: float | None = None, length: float | None = None) -> Rows:
    """The rows as they are, shortened to ``longest``, or all brought to ``length``."""
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    scale = np.ones(X.shape[0])
    if length is not None:
        scale = length / _lengths(X)
    elif longest is not None:
        scale = np.minimum(1.0, longest / _lengths(X))
    return Rows(X, scale)


def spread(delta: float) -> float:
    """The Gaussian constant of Iyengar et al., lemma III.1: σ = (Δ/ε)·(1 + √(2 ln(1/δ)))."""
    return float(1 + np.sqrt(2 * np.log(1 / delta)))


def _lengths(X: Any) -> FloatArray:
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    else:
        squares = np.einsum("ij,ij->i", X, X)
    return np.sqrt(squares + 1.0)
