"""Two simple methods that papers show next to their own: SGD without noise, and noisy descent.

Neither is a solver of the library. The first protects nobody. The second is the library's ``gd``
without what makes it good (momentum, averaging, steps that follow from the budget), so that a
table can show what noise alone does to gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.objectives import L2, Loss, Problem
from discreet.rows import as_rows
from discreet.solvers import GD, Progress, Solver

__all__ = ["Walk", "fixed_steps", "looked_at", "sgd_without_noise"]

FloatArray = NDArray[np.float64]

NO_CLIP = 1e100
"""Gradients are never as long as this, the largest clip that rows take."""


class Walk(NamedTuple):
    """Where SGD ended: the weights (the intercept is the last), and the updates it took."""

    weights: FloatArray
    updates: int


def sgd_without_noise(
    X: Any,
    y: FloatArray,
    loss: Loss,
    *,
    alpha: float,
    batch_size: int = 1,
    schedule: Literal["sqrt", "strong"] = "sqrt",
    step_size: float = 1.0,
    passes: int = 1,
    updates: int | None = None,
    intercept: bool = True,
    norm: float | None = None,
    rng: np.random.Generator,
) -> Walk:
    """SGD over the rows in a new random order each pass, with no noise and no privacy.

    Steps and batches are those of the private solver ``laplace-sgd``: steps ``step_size``/√t or
    1/(alpha·t), none longer than 1/β for a β-smooth objective (nor than 1/alpha where β is not
    known), and rows that are left over after the last whole batch of a pass are not used in it.

    Parameters
    ----------
    X : ndarray or CSR matrix of float32 or float64
        Rows.
    y : array
        Targets: -1 and 1, or real numbers.
    loss : Loss
        A loss of one margin a row.
    alpha : float
        Weight of the penalty alpha/2·‖w‖².
    batch_size, passes : int
        Rows of an update, and passes over the rows.
    schedule : {"sqrt", "strong"}
        ``"strong"`` needs alpha > 0.
    step_size : float
        c of the schedule ``"sqrt"``.
    updates : int, optional
        Stop after so many updates; by default at the end of the last pass.
    intercept : bool
        Whether rows have a constant last feature 1.
    norm : float, optional
        Rows longer than this are scaled down to it.
    rng : numpy.random.Generator
        Draws the orders.
    """
    n_rows = X.shape[0]
    if not 1 <= batch_size <= n_rows:
        raise ValueError(f"batch_size must be from 1 to the number of rows, {n_rows}.")
    if schedule == "strong" and alpha <= 0:
        raise ValueError("schedule='strong' has steps 1/(alpha·t) and needs a penalty alpha > 0.")
    a_pass = n_rows // batch_size
    total = passes * a_pass if updates is None else updates
    if not 1 <= total <= passes * a_pass:
        raise ValueError(
            f"updates must be from 1 to {passes * a_pass}, which is {passes} pass(es) of {a_pass} "
            f"batches; got {updates}."
        )
    problem = Problem(loss, L2(alpha), n_rows, X.shape[1], intercept, norm)
    t = np.arange(1, total + 1, dtype=np.float64)
    steps = 1 / (alpha * t) if schedule == "strong" else step_size / np.sqrt(t)
    steps = np.minimum(steps, _longest(problem))
    rows = as_rows(X, y, fit_intercept=intercept, row_norm=norm)
    weights: FloatArray = np.zeros(problem.n_parameters)
    for begin in range(0, total, a_pass):
        piece = steps[begin : begin + a_pass]
        order = rng.permutation(n_rows)[: piece.size * batch_size].reshape(-1, batch_size)
        weights = rows.descend(
            weights, loss, order=order, steps=piece, clip=NO_CLIP, alpha=alpha
        ).weights
    return Walk(weights, total)


def _longest(problem: Problem) -> float:
    """1/β; where β is not known, 1/alpha, beyond which the penalty alone makes weights grow."""
    smoothness, alpha = problem.smoothness, problem.penalty.alpha
    if smoothness is None or not math.isfinite(smoothness):
        smoothness = alpha
    return 1 / smoothness if smoothness > 0 else math.inf


def fixed_steps(iterations: int, step_size: float, gradient_clip: float) -> Solver:
    """Noisy descent on all rows with steps of one size, as a private solver.

    Every gradient is measured at the same cost, and the weights move along it as it is.
    """
    return GD(
        iterations,
        step_size=step_size,
        momentum=0.0,
        averaging=0.0,
        gradient_clip=gradient_clip,
    )


def looked_at(seen: Iterable[Progress]) -> list[dict[str, Any]]:
    """The weights at which each gradient was measured, and the length of what was measured.

    ``seen`` is what `fixed_steps` told the estimator's ``progress``. The first gradient is
    measured at zero weights, after no update (``at`` is 0); what the last one leads to is the
    model, and not among these.
    """
    weights: FloatArray | None = None
    found: list[dict[str, Any]] = []
    for at, told in enumerate(seen):
        here = np.zeros_like(told.weights) if weights is None else weights
        length = float(told.entry.gradient_norm)  # type: ignore[attr-defined]
        found.append({"at": at, "weights": here, "noisy_gradient_norm": length})
        weights = told.weights
    return found
