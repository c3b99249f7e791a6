"""Penalties on the weights. They do not look at the data, so they cost no privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["L2"]


@dataclass(frozen=True)
class L2:
    """Ridge penalty, alpha/2·‖w‖².

    The intercept, the last weight, is penalised like every other: proofs that rest on strong
    convexity need it in every coordinate.

    Parameters
    ----------
    alpha : float
        Strength, at least 0. The objective is a mean over rows plus this penalty, so alpha does
        not grow with n.
    """

    alpha: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha >= 0):
            raise ValueError(
                f"L2: alpha must be finite and at least 0, not {self.alpha!r}. "
                "Use 0 for no penalty."
            )

    def value(self, weights: ArrayLike) -> float:
        """Return alpha/2·‖w‖²."""
        w = np.asarray(weights, dtype=np.float64)
        return 0.5 * self.alpha * float(w @ w)

    def gradient(self, weights: ArrayLike) -> NDArray[np.float64]:
        """Return alpha·w."""
        return self.alpha * np.asarray(weights, dtype=np.float64)

    def line(
        self, weights: ArrayLike, direction: ArrayLike, steps: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the penalty at ``weights - step * direction`` for each step."""
        w = np.asarray(weights, dtype=np.float64)
        g = np.asarray(direction, dtype=np.float64)
        a = np.asarray(steps, dtype=np.float64)
        return 0.5 * self.alpha * (w @ w - 2 * a * (w @ g) + a**2 * (g @ g))
