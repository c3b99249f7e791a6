"""The problem a solver is asked to solve, and the constants its proof may use.

The objective is F(w) = (1/n) Σ φ(x_i·w, y_i) + alpha/2·‖w‖², over n rows. With an intercept,
every row has a last feature that is always 1. Every constant here is a function of public
settings, never of the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.objectives.losses import Loss
from discreet.objectives.penalty import L2

__all__ = ["Problem"]


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
        Whether rows carry a constant last feature 1.
    row_norm : float or None
        Public bound on ‖x‖ (without the constant) that longer rows are scaled down to. ``None``:
        rows are not scaled, and constants that need a bound on ‖x‖ are infinite.
    """

    loss: Loss
    penalty: L2
    n_rows: int
    n_features: int
    fit_intercept: bool = True
    row_norm: float | None = None

    def __post_init__(self) -> None:
        for name, count in (("n_rows", self.n_rows), ("n_features", self.n_features)):
            if count < 1:
                raise ValueError(
                    f"Problem: {name} must be at least 1, not {count!r}. Pass a non-empty table."
                )
        if self.row_norm is not None and not (math.isfinite(self.row_norm) and self.row_norm > 0):
            raise ValueError(
                f"Problem: row_norm must be positive and finite, not {self.row_norm!r}. "
                "Pass a public bound on the norm of a row, or None to leave rows as they are."
            )

    @property
    def n_parameters(self) -> int:
        """Number of weights: features, plus one with an intercept, for each output of the loss."""
        return self.loss.n_outputs * (self.n_features + int(self.fit_intercept))

    @property
    def row_norm_bound(self) -> float:
        """Bound on the norm of a row with its constant: √(row_norm² + 1) with an intercept."""
        if self.row_norm is None:
            return math.inf
        return math.hypot(self.row_norm, 1.0) if self.fit_intercept else self.row_norm

    @property
    def lipschitz(self) -> float:
        """Bound on the norm of a row's gradient, without the penalty."""
        return self.loss.slope_bound * self.row_norm_bound

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
