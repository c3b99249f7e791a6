"""Minimising a perturbed objective on exact rows until a certified bound on its gradient holds.

Runs inside the curator. Only the certificate matters for privacy (`Rows.perturbed_gradient`): how a
point was found does not, so any optimiser may look for it. SciPy's L-BFGS by default, then Newton
steps, because a quasi-Newton method alone does not reach gradients near rounding error. If both
fail, losses with wider quadratic parts, and accelerated gradient descent, which converges for
every table.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from discreet.blas import one_thread
from discreet.errors import PrivacyError
from discreet.objectives import Huber, HuberHinge, Loss
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

WIDEST = 30
"""Quadratic parts of losses are widened by up to 2 to this power, to find a way to narrow ones."""

DESCENT_ROUNDS = 40
"""Rounds of accelerated descent, of √(condition number) steps each; every one shrinks the gap."""


class Point(NamedTuple):
    """Weights of twice the working precision: ``weights + rest``."""

    weights: FloatArray
    rest: FloatArray

    def moved(self, step: FloatArray) -> Point:
        """Add a step, by Knuth's exact addition."""
        total = self.weights + step
        part = total - self.weights
        rest = self.rest + ((self.weights - (total - part)) + (step - part))
        weights = total + rest
        return Point(weights, rest - (weights - total))


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

    def plain_gradient(self, weights: FloatArray) -> FloatArray:
        """The gradient as computed, faster than with a bound."""
        terms = (self.loss, self.clip, self.ridge, self.linear)
        return np.asarray(self.rows.plain_gradient(weights, *terms))

    def gradient_near(self, point: Point, bound: float) -> tuple[FloatArray, float]:
        """The gradient, with a certificate (else infinity) where its norm might be ``bound``."""
        gradient = self.plain_gradient(point.weights)
        norm = float(np.linalg.norm(gradient))
        if norm > max(1e4 * bound, 10 * self._plain_rounding(point.weights)):
            return gradient, math.inf
        return self.gradient(point.weights, point.rest)

    def gradient(
        self, weights: FloatArray, rest: FloatArray | None = None
    ) -> tuple[FloatArray, float]:
        """The gradient as computed, and a bound on the norm of the exact one."""
        gradient, bound = self.rows.perturbed_gradient(
            weights, self.loss, self.clip, self.ridge, self.linear, rest
        )
        return gradient, bound

    @property
    def smoothness(self) -> float:
        """Bound on the largest eigenvalue of the Hessian."""
        longest = self.clip / self.loss.slope_bound
        curvature = self.loss.curvature_bound or 0.0
        return float(self.rows.n_rows * curvature * longest**2 + self.ridge)

    def _plain_rounding(self, weights: FloatArray) -> float:
        """About the rounding that margins bring into a plain gradient."""
        roundings = self.rows.n_features / 4 + 24
        return 2.0**-53 * roundings * self.smoothness * float(np.linalg.norm(weights))

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
    """Find a point at which the exact gradient's norm is at most ``bound``, and round it.

    The point has more digits than a double: what is returned is within a rounding of it.

    Parameters
    ----------
    objective : PerturbedObjective
        What to minimise.
    bound : float
        Bound on the gradient's norm, fixed in advance.
    minimizer : callable, optional
        Finds the neighbourhood; ``scipy.optimize.minimize`` if ``None``. Called as
        ``minimizer(fun, x0, jac=True, method="L-BFGS-B", options=...)`` with a mean over rows; if
        it raises an error or its point is of no use, Newton steps start from zero.

    Raises
    ------
    PrivacyError
        If no such point was found, which takes a ``bound`` below what `Rows.certifiable_norm`
        gives. The text does not depend on the rows.
    """
    zero: FloatArray = np.zeros(objective.linear.size)
    with np.errstate(all="ignore"), one_thread():
        near = _neighbourhood(objective, zero.copy(), bound, minimizer)
        found = None if near is None else _polish(objective, near, bound)
        if found is None:
            found = _polish(objective, zero, bound)
        if found is None:
            found = _narrow(objective, zero, bound)
        if found is None:
            found = _descend(objective, zero, bound)
    if found is None:
        raise PrivacyError(
            "The optimiser did not reach the gradient norm that the privacy proof needs; nothing "
            "was released. Use a larger gradient_bound or alpha."
        )
    return found


def _neighbourhood(
    objective: PerturbedObjective, start: FloatArray, bound: float, minimizer: Minimizer | None
) -> FloatArray | None:
    """Where ``minimizer`` ends, or ``None`` if that is no point or it raised an error."""
    scale = 1.0 / objective.rows.n_rows if objective.rows.n_rows else 1.0

    def fun(weights: FloatArray) -> tuple[float, FloatArray]:
        weights = np.asarray(weights, dtype=np.float64)
        return scale * objective.value(weights), scale * objective.plain_gradient(weights)

    if minimizer is None:
        from scipy.optimize import minimize as minimizer
    # Newton steps take over from here: it need not be close
    options = {"maxiter": LOOKING_STEPS, "gtol": max(1e-5, scale * bound / 10), "ftol": 1e-9}
    point = None
    with contextlib.suppress(Exception):
        result = minimizer(fun, start, jac=True, method="L-BFGS-B", options=options)
        point = np.asarray(result.x, dtype=np.float64)
    # an error may depend on the rows: it must not end a fit, nor must its text be seen
    good = point is not None and point.shape == objective.linear.shape
    return point.copy() if point is not None and good and np.isfinite(point).all() else None


def _polish(objective: PerturbedObjective, start: FloatArray, bound: float) -> FloatArray | None:
    """Newton steps, damped where needed, until the certificate holds."""
    point = Point(start, np.zeros_like(start))
    gradient, certified = objective.gradient_near(point, bound)
    for _ in range(NEWTON_STEPS):
        if certified <= bound:
            break
        norm = float(np.linalg.norm(gradient))
        enough = max(min(1e-3 * norm, bound), 0.01 * bound)
        step = objective.newton_step(point.weights, gradient, enough)
        moved = _damped(objective, point, gradient, step, bound)
        if moved is None:
            return None
        point, gradient, certified = moved
    return point.weights if certified <= bound else None


def _damped(
    objective: PerturbedObjective,
    start: Point,
    gradient: FloatArray,
    step: FloatArray,
    bound: float,
) -> tuple[Point, FloatArray, float] | None:
    """The longest of the halved steps that shortens the gradient or lowers the objective.

    The point, its gradient and its certificate.
    """
    norm = float(np.linalg.norm(gradient))
    slope = float(gradient @ step)
    before: float | None = None
    length = 1.0
    for _ in range(HALVINGS):
        point = start.moved(length * step)
        if not (np.isfinite(point.weights).all() and np.isfinite(point.rest).all()):
            return None
        there, certified = objective.gradient_near(point, bound)
        if certified <= bound or float(np.linalg.norm(there)) <= (1 - 0.1 * length) * norm:
            return point, there, certified
        if before is None:
            before = objective.value(start.weights)
        if objective.value(point.weights) <= before + 1e-4 * length * slope:
            return point, there, certified
        length /= 2
    return None


def _narrow(objective: PerturbedObjective, weights: FloatArray, bound: float) -> FloatArray | None:
    """Minimise with wider quadratic parts first: Newton steps get lost among narrow ones."""
    for power in range(WIDEST, 0, -1):
        eased = _eased(objective, 2.0**power)
        if eased is not None:
            found = _polish(eased, weights, max(bound, 1e-3 * eased.clip))
            weights = weights if found is None else found
    return _polish(objective, weights, bound)


def _eased(objective: PerturbedObjective, factor: float) -> PerturbedObjective | None:
    """The objective with kinks that are rounded off ``factor`` times as wide, up to a scale."""
    loss = objective.loss
    if type(loss) is HuberHinge:
        if loss.smoothing * factor > 4:
            return None
        return replace(objective, loss=HuberHinge(loss.smoothing * factor))
    if type(loss) is Huber:
        return replace(
            objective,
            loss=Huber(loss.threshold * factor),
            clip=objective.clip * factor,
            ridge=objective.ridge * factor,
            linear=objective.linear * factor,
        )
    return None


def _descend(objective: PerturbedObjective, weights: FloatArray, bound: float) -> FloatArray | None:
    """Nesterov's method for strongly convex functions, with Newton steps after every round.

    Its rate holds for every table, unlike that of Newton steps between many kinks.
    """
    smoothness = objective.smoothness
    root = math.sqrt(smoothness / objective.ridge)
    momentum = (root - 1) / (root + 1)
    for _ in range(DESCENT_ROUNDS):
        ahead = weights
        for _ in range(math.ceil(root)):
            moved = ahead - objective.plain_gradient(ahead) / smoothness
            ahead = moved + momentum * (moved - weights)
            weights = moved
        found = _polish(objective, weights, bound)
        if found is not None:
            return found
    return None
