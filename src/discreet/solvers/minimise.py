"""Minimising a perturbed objective on exact rows until a certified bound on its gradient holds.

Runs inside the curator. Only the certificate matters for privacy (`Rows.perturbed_gradient`): how a
point was found does not, so any optimiser may look for it. SciPy's L-BFGS by default, then Newton
steps, because a quasi-Newton method alone does not reach gradients near rounding error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import PrivacyError
from discreet.objectives import Loss
from discreet.solvers.base import FloatArray

__all__ = ["Minimizer", "PerturbedObjective", "minimise"]

Minimizer = Callable[..., Any]
"""Anything with the signature of ``scipy.optimize.minimize``; its result has the point as ``x``."""

LARGEST_MATRIX = 2000
"""Up to so many weights the Hessian is formed and factored; beyond, conjugate gradients."""

LOOKING_STEPS = 50
NEWTON_STEPS = 100
CONJUGATE_STEPS = 500
HALVINGS = 40


@dataclass(frozen=True)
class PerturbedObjective:
    """Σℓ(w) + ridge/2·‖w‖² + linear·w over exact rows.

    Attributes
    ----------
    rows
        The rows, as the curator hands them to a computation; those within reach take part.
    loss
        A smooth convex loss of bounded slope.
    clip
        Bound on the norm of every row's gradient, with some room.
    ridge, linear
        The quadratic and the linear term.
    """

    rows: Any
    loss: Loss
    clip: float
    ridge: float
    linear: FloatArray

    def __post_init__(self) -> None:
        """Leave out rows that are far too long, in the objective and its derivatives alike."""
        object.__setattr__(self, "rows", self.rows.within_reach())

    def value(self, weights: FloatArray) -> float:
        """The objective."""
        extra = 0.5 * self.ridge * float(weights @ weights) + float(self.linear @ weights)
        return float(self.rows.objective_sum(weights, self.loss)) + extra

    def gradient(self, weights: FloatArray) -> tuple[FloatArray, float]:
        """The gradient as computed, and a bound on the norm of the exact one."""
        gradient, bound = self.rows.perturbed_gradient(
            weights, self.loss, self.clip, self.ridge, self.linear
        )
        return gradient, bound

    def newton_step(self, weights: FloatArray, gradient: FloatArray, enough: float) -> FloatArray:
        """Minus the inverse Hessian times the gradient, up to a residual of about ``enough``."""
        if weights.size <= LARGEST_MATRIX and self.rows.dense:
            from scipy.linalg import LinAlgError, cho_factor, cho_solve

            matrix = self.rows.hessian_sum(weights, self.loss)
            matrix[np.diag_indices_from(matrix)] += self.ridge
            # LinAlgError: a ridge far below the rounding of the sum leaves it singular
            with contextlib.suppress(LinAlgError, ValueError):
                return np.asarray(-cho_solve(cho_factor(matrix, overwrite_a=True), gradient))
        return self._conjugate_gradients(weights, gradient, enough)

    def _conjugate_gradients(
        self, weights: FloatArray, gradient: FloatArray, enough: float
    ) -> FloatArray:
        diagonal = self.rows.hessian_diagonal(weights, self.loss) + self.ridge
        solution = np.zeros_like(gradient)
        residual = -gradient
        scaled = residual / diagonal
        direction = scaled.copy()
        square = float(residual @ scaled)
        for _ in range(CONJUGATE_STEPS):
            if float(np.linalg.norm(residual)) <= enough:
                break
            image = self.rows.hessian_product(weights, self.loss, direction)
            image += self.ridge * direction
            length = square / float(direction @ image)
            solution += length * direction
            residual -= length * image
            scaled = residual / diagonal
            before, square = square, float(residual @ scaled)
            direction = scaled + (square / before) * direction
        return solution


def minimise(
    objective: PerturbedObjective,
    bound: float,
    *,
    minimizer: Minimizer | None = None,
) -> FloatArray:
    """Find a point at which the exact gradient's norm is at most ``bound``.

    Parameters
    ----------
    objective : PerturbedObjective
        What to minimise.
    bound : float
        Bound on the gradient's norm, fixed in advance.
    minimizer : callable, optional
        Finds the neighbourhood; ``scipy.optimize.minimize`` if ``None``. Called as
        ``minimizer(fun, x0, jac=True, method="L-BFGS-B", options=...)`` with a mean over rows; if
        its point is of no use, Newton steps start from zero.

    Raises
    ------
    PrivacyError
        If no such point was found, or ``minimizer`` raised an error. The text does not depend on
        the rows.
    """
    weights: FloatArray = np.zeros(objective.linear.size)
    with np.errstate(all="ignore"), _one_thread():
        weights = _neighbourhood(objective, weights, bound, minimizer)
        found = _polish(objective, weights, bound)
    if found is None:
        raise PrivacyError(
            "The optimiser did not reach the gradient norm that the privacy proof needs; nothing "
            "was released. Use a larger gradient_bound or alpha."
        )
    return found


def _one_thread() -> Any:
    """Keep BLAS to one thread, where that can be asked for: vectors are too short for more."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    return threadpool_limits(limits=1, user_api="blas")


def _neighbourhood(
    objective: PerturbedObjective, start: FloatArray, bound: float, minimizer: Minimizer | None
) -> FloatArray:
    scale = 1.0 / objective.rows.n_rows if objective.rows.n_rows else 1.0

    def fun(weights: FloatArray) -> tuple[float, FloatArray]:
        weights = np.asarray(weights, dtype=np.float64)
        gradient, _ = objective.gradient(weights)
        return scale * objective.value(weights), scale * gradient

    if minimizer is None:
        from scipy.optimize import minimize as minimizer
    # Newton steps take over from here: it need not be close
    options = {"maxiter": LOOKING_STEPS, "gtol": max(1e-5, scale * bound / 10), "ftol": 1e-9}
    point = None
    with contextlib.suppress(Exception):  # its text may quote rows
        result = minimizer(fun, start, jac=True, method="L-BFGS-B", options=options)
        point = np.asarray(result.x, dtype=np.float64)
    if point is None:  # raised out here, where it has no context either
        raise PrivacyError(
            "The minimizer raised an error, or its result has no point x; nothing was released. "
            "What it said is withheld, as it may quote rows: try it on made-up data."
        )
    good = point.shape == start.shape and bool(np.isfinite(point).all())
    return point.copy() if good else start


def _polish(objective: PerturbedObjective, weights: FloatArray, bound: float) -> FloatArray | None:
    """Newton steps, damped where needed, until the certificate holds."""
    gradient, certified = objective.gradient(weights)
    for _ in range(NEWTON_STEPS):
        if certified <= bound:
            return weights
        norm = float(np.linalg.norm(gradient))
        step = objective.newton_step(weights, gradient, max(min(1e-3 * norm, bound), 0.1 * bound))
        moved = _damped(objective, weights, gradient, step)
        if moved is None:
            return None
        weights = moved
        gradient, certified = objective.gradient(weights)
    return weights if certified <= bound else None


def _damped(
    objective: PerturbedObjective, weights: FloatArray, gradient: FloatArray, step: FloatArray
) -> FloatArray | None:
    """The longest of the halved steps that shortens the gradient or lowers the objective."""
    norm = float(np.linalg.norm(gradient))
    slope = float(gradient @ step)
    before: float | None = None
    length = 1.0
    for _ in range(HALVINGS):
        point = weights + length * step
        if float(np.linalg.norm(objective.gradient(point)[0])) <= 0.9 * norm:
            return point
        if before is None:
            before = objective.value(weights)
        if objective.value(point) <= before + 1e-4 * length * slope:
            return point
        length /= 2
    return None
