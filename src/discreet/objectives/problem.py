"""The problem that a solver solves, its penalty, and the constants that a proof may use.

The objective is F(w) = (1/n) Σ φ(x_i·w, y_i) + alpha/2·‖w‖², over n rows. With an intercept,
every row has a last feature that is always 1. Every constant here is a function of public
settings, never of the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from discreet.objectives.losses import Loss
from discreet.validate import FloatArray, check_fields, integer, number, positive


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
        check_fields(self, number, "alpha", least=0.0, remedy="Use 0 for no penalty.")

    def value(self, weights: ArrayLike) -> float:
        """Return alpha/2·‖w‖²."""
        w = np.asarray(weights, dtype=np.float64)
        return 0.5 * self.alpha * float(w @ w)

    def gradient(self, weights: ArrayLike) -> FloatArray:
        """Return alpha·w."""
        return self.alpha * np.asarray(weights, dtype=np.float64)

    def line(self, weights: ArrayLike, direction: ArrayLike, steps: ArrayLike) -> FloatArray:
        """Return the penalty at ``weights - step * direction`` for each step."""
        w = np.asarray(weights, dtype=np.float64)
        g = np.asarray(direction, dtype=np.float64)
        a = np.asarray(steps, dtype=np.float64)
        return 0.5 * self.alpha * (w @ w - 2 * a * (w @ g) + a**2 * (g @ g))


@dataclass(frozen=True)
class Problem:
    """Mean loss over rows plus a penalty.

    Parameters
    ----------
    loss : Loss
        A row's loss.
    penalty : L2
        Penalty on all weights, the intercept's included.
    n_rows, n_features : int
        Size of the table (public).
    fit_intercept : bool
        True if rows have a constant last feature 1.
    row_norm : float or None
        Public bound on ‖x‖ (without the constant) that longer rows are scaled down to. ``None``:
        rows are not scaled, and constants that need a bound on ‖x‖ are infinite.

    Attributes
    ----------
    n_parameters : int
        Number of weights: features, plus one with an intercept, for each output of the loss.
    row_norm_bound : float
        Bound on the norm of a row with its constant: √(row_norm² + 1) with an intercept.
    lipschitz : float
        Bound on the norm of a row's gradient, without the penalty.
    """

    loss: Loss
    penalty: L2
    n_rows: int
    n_features: int
    fit_intercept: bool = True
    row_norm: float | None = None
    n_parameters: int = field(init=False, repr=False, compare=False)
    row_norm_bound: float = field(init=False, repr=False, compare=False)
    lipschitz: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        remedy = "Pass a non-empty table."
        check_fields(self, integer, "n_rows", "n_features", most=10**15, remedy=remedy)
        remedy = "Pass a public bound on the norm of a row, or None to leave rows as they are."
        check_fields(self, positive, "row_norm", optional=True, remedy=remedy)
        longest = math.inf if self.row_norm is None else self.row_norm
        longest = math.hypot(longest, 1.0) if self.fit_intercept else longest
        width = self.n_features + int(self.fit_intercept)
        object.__setattr__(self, "n_parameters", self.loss.n_outputs * width)
        object.__setattr__(self, "row_norm_bound", longest)
        object.__setattr__(self, "lipschitz", self.loss.slope_bound * longest)

    @property
    def smoothness(self) -> float | None:
        """Lipschitz constant of the objective's gradient; ``None`` if the loss is not smooth."""
        curvature = self.loss.curvature_bound
        if curvature is None:
            return None
        return curvature * self.row_norm_bound**2 + self.penalty.alpha

    @property
    def strong_convexity(self) -> float:
        """Strong convexity of the objective that holds for every table: the penalty's alpha."""
        return self.penalty.alpha
