"""Two simple methods that papers show next to their own: SGD without noise, and noisy descent.

Neither is a solver of the library. The first is not private. The second is the library's ``gd``
without momentum, averaging and step sizes that follow from the budget, so that a table can show
the effect of noise on gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from benchopt import BaseSolver

from discreet.objectives import L2, Loss
from discreet.objectives import Problem as Objective
from discreet.solvers import GD, Progress, Solver
from discreet.validate import FloatArray
from discreet_bench.estimator import EstimatorSolver, in_a_cell
from discreet_bench.measures import loss_of, peak_memory
from discreet_bench.problem import Problem, Result

__all__ = ["NoisyDescent", "PlainSGD", "checkpoints", "fixed_steps", "sgd_without_noise"]


def sgd_without_noise(
    X: Any,
    y: FloatArray,
    loss: Loss,
    *,
    alpha: float,
    batch_size: int = 1,
    schedule: Literal["sqrt", "strong"] = "sqrt",
    step_size: float = 1.0,
    cut_steps: bool = True,
    passes: int = 1,
    updates: int | None = None,
    intercept: bool = True,
    norm: float | None = None,
    rng: np.random.Generator,
) -> FloatArray:
    """Run SGD over the rows in a new random order per pass, without noise and without privacy.

    Steps and batches are those of the private solver ``laplace-sgd``: steps ``step_size``/√t or
    1/(alpha·t), and rows left over after the last whole batch of a pass are not used in it.

    Parameters
    ----------
    X : ndarray or CSR matrix
        Rows.
    y : array
        Targets: -1 and 1, or real numbers.
    loss : Loss
        A loss of one margin per row.
    alpha : float
        Weight of the penalty alpha/2·‖w‖².
    batch_size, passes : int
        Rows per update, and passes over the rows.
    schedule : {"sqrt", "strong"}
        ``"strong"`` needs alpha > 0.
    step_size : float
        c of the schedule ``"sqrt"``.
    cut_steps : bool
        Whether no step is longer than 1/β for a β-smooth objective (nor than 1/alpha where β is
        not known).
    updates : int, optional
        Number of updates; by default those of all passes.
    intercept : bool
        Whether rows have a constant last feature 1.
    norm : float, optional
        Rows of larger norm are scaled down to it.
    rng : numpy.random.Generator
        Draws the orders.

    Returns
    -------
    ndarray
        The weights, the intercept last.
    """
    n_rows = X.shape[0]
    if not 1 <= batch_size <= n_rows:
        raise ValueError(f"batch_size must be from 1 to the number of rows, {n_rows}.")
    if schedule == "strong" and alpha <= 0:
        raise ValueError("schedule='strong' has steps 1/(alpha·t) and needs a penalty alpha > 0.")
    per_pass = n_rows // batch_size
    total = passes * per_pass if updates is None else updates
    if not 1 <= total <= passes * per_pass:
        raise ValueError(
            f"updates must be from 1 to {passes * per_pass}, which is {passes} pass(es) of "
            f"{per_pass} batches; got {updates}."
        )
    objective = Objective(loss, L2(alpha), n_rows, X.shape[1], intercept, norm)
    t = np.arange(1, total + 1, dtype=np.float64)
    steps = 1 / (alpha * t) if schedule == "strong" else step_size / np.sqrt(t)
    if cut_steps:
        steps = np.minimum(steps, _longest_step(objective))
    rows = _rows(X, intercept, norm)
    weights: FloatArray = np.zeros(rows.shape[1])
    for start in range(0, total, per_pass):
        count = min(per_pass, total - start)
        order = rng.permutation(n_rows)[: count * batch_size].reshape(count, batch_size)
        for step, chosen in zip(steps[start:], order, strict=False):
            slopes = loss.derivative(rows[chosen] @ weights, y[chosen]) / batch_size
            weights -= step * (rows[chosen].T @ slopes + alpha * weights)
    return weights


def _rows(X: Any, intercept: bool, norm: float | None) -> Any:
    """Return rows scaled down to a norm, with a last column of ones if there is an intercept."""
    sparse = sp.issparse(X)
    rows = X.astype(np.float64)
    if norm is not None:
        squares = rows.multiply(rows) if sparse else rows * rows
        norms = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        scale = norm / np.maximum(norms, norm)
        rows = sp.diags_array(scale) @ rows if sparse else rows * scale[:, None]
    if intercept:
        ones = np.ones((X.shape[0], 1))
        rows = sp.hstack([rows, ones]) if sparse else np.hstack([rows, ones])
    return sp.csr_array(rows) if sparse else rows


def _longest_step(objective: Objective) -> float:
    """Return 1/β; where β is not known, 1/alpha, beyond which the penalty makes weights grow."""
    smoothness, alpha = objective.smoothness, objective.penalty.alpha
    if smoothness is None or not math.isfinite(smoothness):
        smoothness = alpha
    return 1 / smoothness if smoothness > 0 else math.inf


class PlainSGD(BaseSolver):
    """SGD without noise over the rows in random order, with the steps of laplace-sgd."""

    name = "plain-sgd"
    sampling_strategy = "run_once"
    requirements: ClassVar[list[str]] = []
    parameters: ClassVar[dict[str, list[Any]]] = {
        "batch_size": [1],
        "schedule": ["sqrt"],
        "step_size": [1.0],
        "cut_steps": [True],
        "passes": [1],
        "updates": [None],
        "alpha": [None],
        "norm": [1.0],
    }

    def skip(self, **objective: Any) -> tuple[bool, str | None]:
        """Skip all but two classes."""
        return (True, "for two classes only") if objective["n_classes"] != 2 else (False, None)

    def set_objective(self, **objective: Any) -> None:
        """Keep the problem."""
        self.problem = Problem(**objective)

    def run(self, _: Any) -> None:
        """Fit; an error becomes the run's result, so that a table can show it."""
        problem = self.problem
        settings = {name: getattr(self, name) for name in self.parameters}
        settings["alpha"] = problem.alpha if self.alpha is None else self.alpha
        self.weights: FloatArray | None = None
        self.error = ""
        with peak_memory() as peak:
            try:
                self.weights = sgd_without_noise(
                    problem.X,
                    np.where(problem.y == 1, 1.0, -1.0),
                    loss_of(problem.loss),
                    intercept=problem.intercept,
                    rng=np.random.default_rng(problem.repeat),
                    **settings,
                )
            except ValueError as error:
                self.error = in_a_cell(error)
        self.peak = peak.mebibytes

    def get_result(self) -> dict[str, Any]:
        """Return what the objective evaluates."""
        if self.weights is None:
            return Result(variant="not private", problem=self.error).as_dict()
        return Result(
            scores=self._scores(self.problem.X_test),
            train_scores=self._scores(self.problem.X),
            weights=self.weights,
            variant="not private",
            claim="not private: SGD without noise",
            at=math.nan if self.updates is None else float(self.updates),
            peak_mb=self.peak,
        ).as_dict()

    def _scores(self, X: Any) -> FloatArray:
        weights = self.weights
        assert weights is not None
        return X @ weights[:-1] + weights[-1] if self.problem.intercept else X @ weights


def fixed_steps(iterations: int, step_size: float, gradient_clip: float) -> Solver:
    """Return noisy descent on all rows with steps of one size, as a private solver.

    Every gradient has the same cost, and the weights move along it without momentum.
    """
    return GD(
        iterations, step_size=step_size, momentum=0.0, averaging=0.0, gradient_clip=gradient_clip
    )


def checkpoints(seen: Iterable[Progress]) -> list[dict[str, Any]]:
    """Return the weights at which each gradient was measured, and the norm of the measurement.

    ``seen`` is what `fixed_steps` reported to the estimator's ``progress``. The first gradient is
    measured at zero weights (``at`` is 0); the point after the last one is the model, and not among
    these.
    """
    weights: FloatArray | None = None
    found: list[dict[str, Any]] = []
    for at, report in enumerate(seen):
        here = np.zeros_like(report.weights) if weights is None else weights
        norm = float(report.entry.gradient_norm)  # type: ignore[attr-defined]
        found.append({"at": at, "weights": here, "noisy_gradient_norm": norm})
        weights = report.weights
    return found


class NoisyDescent(EstimatorSolver):
    """Noisy descent with steps of one size: one line per gradient that was measured.

    Rows are left as they are unless ``norm`` is given; gradients are clipped row by row.
    """

    name = "noisy-gd"
    solver = "gd"
    parameters: ClassVar[dict[str, list[Any]]] = {
        "iterations": [11],
        "step_size": [1.0],
        "gradient_clip": [3.0],
        "alpha": [None],
        "norm": [None],
    }

    def skip(self, **objective: Any) -> tuple[bool, str | None]:
        """Skip several classes, whose models would be shown in turns, and real targets."""
        if objective["n_classes"] != 2:
            return True, "for two classes only"
        return super().skip(**objective)

    def get_result(self) -> dict[str, Any]:
        """Return the fit with its checkpoints."""
        result = super().get_result()
        if not result["problem"]:
            result["iterates"] = checkpoints(self.seen)
        return result

    def _solver(self, n_rows: int) -> Solver:
        return fixed_steps(self.iterations, self.step_size, self.gradient_clip)

    def _estimator(self, problem: Problem, shared: dict[str, Any]) -> Any:
        self.seen: list[Progress] = []
        return super()._estimator(problem, {**shared, "progress": self.seen.append})
