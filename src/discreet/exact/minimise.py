"""Optimisers on exact rows: the search for a perturbed minimum, and the baselines' minima.

Untrusted: nothing here is part of a privacy proof. A perturbed minimum is released only if
`discreet.exact.certificate.certify` accepts the point, whoever proposed it. So any optimiser may
search for it: by default SciPy's L-BFGS and then Newton steps, because a quasi-Newton method alone
does not reach gradients near rounding error; or the caller's own (`Optimizer`). If these fail,
losses with wider quadratic parts, and accelerated gradient descent, which converges for every
table. A caller's optimiser that fails is replaced in the same way and silently: an error or a
warning that depends on the rows would be a release about them.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.core.questions import Gradient
from discreet.exact.certificate import PerturbedObjective, Point
from discreet.objectives import Huber, HuberHinge, Loss, Problem, Squared
from discreet.rows import UNIT_ROUNDOFF, Rows, one_thread
from discreet.validate import FloatArray, display

SCIPY_METHODS = (
    *("L-BFGS-B", "BFGS", "CG", "Newton-CG", "TNC", "SLSQP", "trust-ncg", "trust-krylov"),
    *("trust-exact", "dogleg", "trust-constr", "Nelder-Mead", "Powell", "COBYLA"),
)
"""Methods of ``scipy.optimize.minimize`` that can be named."""

LARGEST_MATRIX = 2000
"""Up to this many weights the Hessian is formed and factored; beyond, conjugate gradients."""

FIRST_STEPS = 50  # of L-BFGS, which searches for a point from which Newton's method converges
NEWTON_STEPS = 100  # most steps of Newton's method
CONJUGATE_STEPS = 500  # most steps of conjugate gradients within a Newton step
HALVINGS = 40  # of a Newton step at most, until it reduces the objective

WIDEST = 30
"""Quadratic parts of losses are widened by up to 2 to this power, to find a way to narrow ones."""

DESCENT_ROUNDS = 40
"""Rounds of accelerated descent, of √(condition number) steps each; every one shrinks the gap."""

NO_CLIP = 1e100
"""A clip that no gradient reaches."""


@dataclass(frozen=True)
class MeanObjective:
    """The perturbed objective divided by the number of rows, as an optimiser sees it.

    Its values are exact and private: an optimiser must not print, store or send them. Arrays that
    go in and out are copies, so changing them changes nothing else.
    """

    _objective: PerturbedObjective

    @property
    def n_parameters(self) -> int:
        """Number of weights."""
        return self._objective.linear.size

    def value(self, weights: ArrayLike) -> float:
        """Return the objective; infinity where weights are not finite."""
        at = np.array(weights, dtype=np.float64)
        return self._scale * _value(self._objective, at) if np.isfinite(at).all() else math.inf

    def gradient(self, weights: ArrayLike) -> FloatArray:
        """Return the gradient; NaN where weights are not finite."""
        at = np.array(weights, dtype=np.float64)
        if not np.isfinite(at).all():
            return np.full(at.size, np.nan)
        return np.asarray(self._scale * _plain_gradient(self._objective, at))

    def hessian_product(self, weights: ArrayLike, vector: ArrayLike) -> FloatArray:
        """Return the Hessian times a vector; NaN where one of them is not finite."""
        objective = self._objective
        at = np.array(weights, dtype=np.float64)
        along = np.array(vector, dtype=np.float64)
        if not (np.isfinite(at).all() and np.isfinite(along).all()):
            return np.full(at.size, np.nan)
        product = objective.rows.hessian_product(at, objective.loss, along)
        return np.asarray(self._scale * (product + objective.ridge * along))

    def hessian(self, weights: ArrayLike) -> FloatArray:
        """Return the Hessian; for a sparse table or many weights this is slow."""
        columns = [self.hessian_product(weights, unit) for unit in np.eye(self.n_parameters)]
        return np.stack(columns, axis=1)

    @property
    def _scale(self) -> float:
        return 1.0 / max(self._objective.rows.n_rows, 1)


Optimizer = str | Callable[[MeanObjective, FloatArray], ArrayLike]
"""A method of SciPy by name, or ``optimizer(objective, start)`` that returns a point."""


def check_optimizer(name: str, value: Any) -> Optimizer:
    """Return an optimiser; a SciPy method as SciPy spells it."""
    known = {method.lower(): method for method in SCIPY_METHODS}
    if isinstance(value, str) and value.lower() in known:
        return known[value.lower()]
    if callable(value):
        return value  # type: ignore[no-any-return]
    raise ValueError(
        f"{name} must be a method of scipy.optimize.minimize ({', '.join(SCIPY_METHODS)}) or a "
        f"function of an objective and a start that returns a point; got {display(value)}."
    )


def minimise(
    objective: PerturbedObjective, bound: float, optimizer: Optimizer | None = None
) -> Point | None:
    """Search for a point at which the exact gradient's norm is at most ``bound``, fixed in advance.

    If the certificate does not hold at the optimiser's point, Newton steps start from it, and if it
    is of no use or the optimiser raises an error, from zero. Returns None if no point was found,
    which takes a ``bound`` below `certifiable_norm`.
    """
    zero: FloatArray = np.zeros(objective.linear.size)
    with np.errstate(all="ignore"), one_thread():
        near = _proposal(objective, zero.copy(), bound, optimizer)
        found = None if near is None else _polish(objective, near, bound)
        for method in (_polish, _narrow, _descend):
            if found is None:
                found = method(objective, zero, bound)
    return found


def _proposal(
    objective: PerturbedObjective, start: FloatArray, bound: float, optimizer: Optimizer | None
) -> FloatArray | None:
    """Return the optimiser's point, or ``None`` if it is no point or an error was raised."""
    from scipy import optimize

    minimize: Any = optimize.minimize  # whose stubs want the method as a literal
    mean = MeanObjective(objective)
    enough = mean._scale * bound / 10

    def both(weights: FloatArray) -> tuple[float, FloatArray]:
        return mean.value(weights), mean.gradient(weights)

    point = None
    # an error or warning may depend on the rows: it must not end a fit, nor may its text be seen
    with contextlib.suppress(Exception):
        if optimizer is None:  # Newton steps take over from here: it need not be close
            options = {"maxiter": FIRST_STEPS, "gtol": max(1e-5, enough), "ftol": 1e-9}
            found = minimize(both, start, jac=True, method="L-BFGS-B", options=options).x
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if isinstance(optimizer, str):
                    more: dict[str, Any] = {"hessp": mean.hessian_product}
                    if optimizer in ("dogleg", "trust-exact"):
                        more = {"hess": mean.hessian}
                    found = minimize(both, start, jac=True, method=optimizer, tol=enough, **more).x
                else:
                    found = np.array(optimizer(mean, start), dtype=np.float64)
        point = np.array(found, dtype=np.float64)
    if point is None or point.shape != objective.linear.shape or not np.isfinite(point).all():
        return None
    return point


def _value(objective: PerturbedObjective, weights: FloatArray) -> float:
    """Return the objective."""
    extra = 0.5 * objective.ridge * float(weights @ weights) + float(objective.linear @ weights)
    return objective.rows.objective_sum(weights, objective.loss) + extra


def _plain_gradient(objective: PerturbedObjective, weights: FloatArray) -> FloatArray:
    """Return the gradient as computed, faster than with a bound."""
    question = Gradient(objective.loss, weights, objective.clip)
    values = objective.rows.answer([question])[0].values
    return np.asarray(values + objective.ridge * weights + objective.linear)


def _gradient_near(
    objective: PerturbedObjective, point: Point, bound: float
) -> tuple[FloatArray, float]:
    """Return the gradient, with a certificate (else infinity) where it might be ``bound``."""
    gradient = _plain_gradient(objective, point.weights)
    roundings = objective.rows.n_features / 4 + 24  # of margins in a plain gradient
    rounding = UNIT_ROUNDOFF * roundings * _smoothness(objective)
    rounding *= float(np.linalg.norm(point.weights))
    if float(np.linalg.norm(gradient)) > max(1e4 * bound, 10 * rounding):
        return gradient, math.inf
    return objective.gradient(point.weights, point.rest)


def _smoothness(objective: PerturbedObjective) -> float:
    """Bound the largest eigenvalue of the Hessian."""
    longest = objective.clip / objective.loss.slope_bound
    curvature = objective.loss.curvature_bound or 0.0
    return objective.rows.n_rows * curvature * longest**2 + objective.ridge


def _newton_step(
    objective: PerturbedObjective, weights: FloatArray, gradient: FloatArray, enough: float
) -> FloatArray:
    """Return −H⁻¹·gradient, up to a residual of about ``enough``."""
    rows = objective.rows
    if weights.size <= LARGEST_MATRIX and rows.dense:
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        matrix = rows.hessian_sum(weights, objective.loss)
        matrix[np.diag_indices_from(matrix)] += objective.ridge
        # LinAlgError: a ridge far below the rounding of the sum leaves it singular
        with contextlib.suppress(LinAlgError, ValueError):
            return np.asarray(-cho_solve(cho_factor(matrix, overwrite_a=True), gradient))
    return _conjugate_gradients(objective, weights, gradient, enough)


def _conjugate_gradients(
    objective: PerturbedObjective, weights: FloatArray, gradient: FloatArray, enough: float
) -> FloatArray:
    rows = objective.rows
    loss = objective.loss
    ridge = objective.ridge
    diagonal = rows.hessian_diagonal(weights, loss) + ridge
    solution = np.zeros_like(gradient)
    residual = -gradient
    direction = scaled = residual / diagonal
    square = float(residual @ scaled)
    for _ in range(CONJUGATE_STEPS):
        if float(np.linalg.norm(residual)) <= enough:
            break
        image = rows.hessian_product(weights, loss, direction)
        image += ridge * direction
        length = square / float(direction @ image)
        solution += length * direction
        residual -= length * image
        scaled = residual / diagonal
        before = square
        square = float(residual @ scaled)
        direction = scaled + (square / before) * direction
    return solution


def _polish(objective: PerturbedObjective, start: FloatArray, bound: float) -> Point | None:
    """Take Newton steps, damped where needed, until the certificate holds."""
    point = Point(start, np.zeros_like(start))
    gradient, certified = _gradient_near(objective, point, bound)
    for _ in range(NEWTON_STEPS):
        if certified <= bound:
            break
        norm = float(np.linalg.norm(gradient))
        enough = max(min(1e-3 * norm, bound), 0.01 * bound)
        step = _newton_step(objective, point.weights, gradient, enough)
        moved = _damped(objective, point, gradient, step, bound)
        if moved is None:
            return None
        point, gradient, certified = moved
    return point if certified <= bound else None


def _damped(
    objective: PerturbedObjective,
    start: Point,
    gradient: FloatArray,
    step: FloatArray,
    bound: float,
) -> tuple[Point, FloatArray, float] | None:
    """Take the longest halved step that shortens the gradient or lowers the objective."""
    norm = float(np.linalg.norm(gradient))
    slope = float(gradient @ step)
    before = None
    length = 1.0
    for _ in range(HALVINGS):
        point = start.moved(length * step)
        if not (np.isfinite(point.weights).all() and np.isfinite(point.rest).all()):
            return None
        there, certified = _gradient_near(objective, point, bound)
        if certified <= bound or float(np.linalg.norm(there)) <= (1 - 0.1 * length) * norm:
            return point, there, certified
        if before is None:
            before = _value(objective, start.weights)
        if _value(objective, point.weights) <= before + 1e-4 * length * slope:
            return point, there, certified
        length /= 2
    return None


def _narrow(objective: PerturbedObjective, weights: FloatArray, bound: float) -> Point | None:
    """Minimise with wider quadratic parts first: Newton steps get lost among narrow ones."""
    loss = objective.loss
    for factor in (2.0**power for power in range(WIDEST, 0, -1)):
        if type(loss) is HuberHinge and loss.smoothing * factor <= 4:
            eased = replace(objective, loss=HuberHinge(loss.smoothing * factor))
        elif type(loss) is Huber:  # up to a scale
            eased = replace(
                objective,
                loss=Huber(loss.threshold * factor),
                clip=objective.clip * factor,
                ridge=objective.ridge * factor,
                linear=objective.linear * factor,
            )
        else:
            continue
        found = _polish(eased, weights, max(bound, 1e-3 * eased.clip))
        weights = weights if found is None else found.weights
    return _polish(objective, weights, bound)


def _descend(objective: PerturbedObjective, weights: FloatArray, bound: float) -> Point | None:
    """Run Nesterov's method for strongly convex functions, with Newton steps after every round.

    Its rate holds for every table, unlike that of Newton steps between many kinks.
    """
    smoothness = _smoothness(objective)
    root = math.sqrt(smoothness / objective.ridge)
    momentum = (root - 1) / (root + 1)
    for _ in range(DESCENT_ROUNDS):
        ahead = weights
        for _ in range(math.ceil(root)):
            moved = ahead - _plain_gradient(objective, ahead) / smoothness
            ahead = moved + momentum * (moved - weights)
            weights = moved
        found = _polish(objective, weights, bound)
        if found is not None:
            return found
    return None


def nonprivate_minimum(
    rows: Rows, problem: Problem, loss: Loss, *, tolerance: float, max_iterations: int
) -> FloatArray:
    """Minimise mean loss and penalty on exact rows by L-BFGS, for a smooth loss: not private."""
    from scipy.optimize import minimize

    rows = rows.within_reach()  # rows that overflow would make the objective NaN

    def objective(weights: FloatArray) -> tuple[float, FloatArray]:
        gradient = rows.answer([Gradient(loss, weights, NO_CLIP)])[0].values / problem.n_rows
        value = rows.objective_sum(weights, loss) / problem.n_rows
        penalty = problem.penalty
        return value + penalty.value(weights), gradient + penalty.gradient(weights)

    options: Any = {"gtol": tolerance, "ftol": 0.0, "maxcor": 30}
    options |= {"maxiter": max_iterations, "maxfun": 10 * max_iterations}
    start = np.zeros(problem.n_parameters)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64)


def mean_target(rows: Rows, problem: Problem) -> FloatArray:
    """Return weights that predict the mean target, from −Σ y·x: not private."""
    weights = np.zeros(problem.n_parameters)
    gradient = rows.answer([Gradient(Squared(), weights, NO_CLIP)])[0].values
    weights[-1] = -gradient[-1] / problem.n_rows
    return weights
