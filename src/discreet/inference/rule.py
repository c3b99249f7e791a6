"""Rules of ``inference=True`` by public numbers alone: what it needs, takes and adds to a fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from discreet.core import Budget
from discreet.errors import NotSupported
from discreet.inference.measure import HOPELESS_ERROR, SHARE, SURE_ERROR, Inference, expected_error
from discreet.objectives import Loss
from discreet.preparation import Centre, Scale, Step, Whiten
from discreet.solvers import GD, Newton, Solver

__all__ = [
    "EVEN_SHARE",
    "check_inference",
    "comes_along",
    "lighter",
    "pilot",
    "reserved",
    "sample_rate",
    "whitened",
]

EVEN_SHARE = 0.5
"""Share of what preparation and balance leave that inference has where it comes along: the other
half pays for the predictions, which are left if the rows do not determine the coefficients."""

SMALL_ERROR = 0.2
"""Intervals come along where a Hessian of this relative error is expected, or of a smaller one."""

WHITEN_SHARE = 0.08
"""Share of a `Whiten` that is added."""

WHITEN_NOISE = 2.0
"""It is added while its noise is below this many mean eigenvalues."""

PILOT_ITERATIONS = 16
"""Steps of descent to the first weights. A smaller number would need longer steps: weights beyond
the minimum, where the curvature is small, are a bad start."""

PILOT_MOMENTUM = 0.375
"""Momentum of these steps."""

PILOT_NEWTON = 5
"""Newton's steps to the first weights."""

PILOT_LINEAR = 1
"""The same for losses of one curvature, where second moments are known well."""

STEP_NOISES = (0.01, 0.03, 0.06)
"""Noise that is small enough in means, in second moments of columns and in that of rows."""

LEAST_STEP = 0.004
"""Least share of such a step."""

LARGEST_RATE = 0.5
"""Preparation and first weights are of a sample if this share of the rows is enough for all of the
following conditions."""

SAMPLE_SHARE = 0.25
"""Share of the rows in a sample."""

SAMPLE_ROWS = (5_000, 20_000)
"""Limits of the number of rows that this share stands for."""

SAMPLE_OF_WEIGHT = 1_000
"""Rows of a sample for each weight, so that sampling errors of scores are below 0.07."""

SAMPLE_SIGNAL = 400.0
"""n·μ/k of a sample for each weight, so that noise is less than the sampling error."""

SAMPLE_NOISE = 0.12
"""Largest noise of the whitening by a sample, over the mean eigenvalue."""


def check_inference(solver: Solver, expansion: Any) -> None:
    """Refuse models whose coefficients have no intervals, with what to use instead."""
    if expansion is not None:
        raise NotSupported(
            "inference=True is for models that are linear in the columns of X: with "
            "features='additive' or 'kernel' a column has no single coefficient. Pass "
            "features='linear', or leave inference=False and use plot_effects()."
        )
    if not solver.private or tuple(solver.composes) != ("gdp",):
        raise NotSupported(
            f"inference=True shares a budget with solvers that compose in Gaussian DP; "
            f"solver={solver.name!r} does not. Use solver='auto', 'gd' or 'newton'."
        )


def comes_along(n_rows: int, n_parameters: int, budget: Budget, loss: Loss) -> bool:
    """Return whether intervals come with a fit that nobody asked to have them.

    They do where public numbers expect a Hessian of a small error: noise hardly matters then, and
    a share of the budget more or less changes predictions little. Losses of counts and amounts have
    a curvature that public numbers do not tell.
    """
    if loss.task == "regression" and not loss.of_residuals:
        return False
    even = loss.scored(1.0).even
    return expected_error(n_rows, n_parameters, budget, EVEN_SHARE, even=even) < SMALL_ERROR


def reserved(
    n_rows: int,
    n_parameters: int,
    budget: Budget,
    n_models: int,
    left: float,
    loss: Loss,
    share: float = SHARE,
) -> tuple[Inference, ...]:
    """Return one share per model; none if public numbers say that it would buy nothing.

    ``left`` is the share of the budget that preparation and balance leave, of which inference has
    ``share``.
    """
    share = share * left / n_models
    even = loss.scored(1.0).even
    if expected_error(n_rows, n_parameters, budget, share, even=even) > HOPELESS_ERROR:
        return ()
    return (Inference(share),) * n_models


def pilot(solver: Solver, loss: Loss, error: float) -> Solver:
    """Return a solver chosen by rule with few iterations: Newton's steps of inference go on.

    ``error`` is what is expected of a Hessian (`expected_error`).
    """
    if isinstance(solver, GD) and solver.iterations > PILOT_ITERATIONS:
        return replace(solver, iterations=PILOT_ITERATIONS, momentum=PILOT_MOMENTUM)
    if isinstance(solver, Newton) and solver.iterations is None:
        even = error < SURE_ERROR and not loss.curves_unevenly
        return replace(solver, iterations=PILOT_LINEAR if even else PILOT_NEWTON)
    return solver


def lighter(steps: Sequence[Step], signal: float, width: int, changed: int) -> tuple[Step, ...]:
    """Return the steps with shares of moments that are no larger than noise calls for.

    ``signal`` is n·μ of the rows that the steps see. Whatever a preparation does, it biases nothing
    here, so it needs no more precision than that.
    """
    root = math.sqrt(changed)
    wanted = {
        Centre: changed * math.sqrt(width) / (STEP_NOISES[0] * signal),
        Scale: root * width / (STEP_NOISES[1] * signal),
        Whiten: root * math.sqrt(2.0) * width**1.5 / (STEP_NOISES[2] * signal),
    }
    shares = {kind: max(noise**2, LEAST_STEP) for kind, noise in wanted.items()}
    lowered: list[Any] = list(steps)
    for k, step in enumerate(lowered):
        if type(step) in shares:
            lowered[k] = replace(step, share=min(step.share, shares[type(step)]))
    return tuple(lowered)


def sample_rate(steps: Sequence[Step], n_rows: int, size: int, budget: Budget) -> float:
    """Return the rate of the sample that is enough for the preparation and the first weights.

    It is 1 if more than half of the rows are needed. ``size`` is the number of weights.
    """
    signal = n_rows * budget.to_gdp().mu
    white = max((step.share for step in steps if isinstance(step, Whiten)), default=1.0)
    changed = budget.relation.rows_changed
    needed = max(
        min(max(SAMPLE_SHARE * n_rows, SAMPLE_ROWS[0]), SAMPLE_ROWS[1]) / n_rows,
        SAMPLE_OF_WEIGHT * size / n_rows,
        changed * SAMPLE_SIGNAL * size / signal,
        math.sqrt(2.0 * changed / white) * size**1.5 / (SAMPLE_NOISE * signal),
    )
    return needed if steps and needed <= LARGEST_RATE else 1.0


def whitened(steps: Sequence[Step], n_rows: int, width: int, budget: Budget) -> tuple[Step, ...]:
    """Add a `Whiten` to prepared rows, if there is none and noise allows it.

    In whitened rows the noise of a score is alike in all directions, as sampling errors are.
    """
    if not steps or width < 2 or any(isinstance(step, Whiten) for step in steps):
        return tuple(steps)
    signal = n_rows * budget.to_gdp().mu * math.sqrt(WHITEN_SHARE)
    noise = math.sqrt(2.0 * budget.relation.rows_changed) * width**1.5 / signal
    if noise > WHITEN_NOISE or width > (Whiten.widest or width):
        return tuple(steps)
    return (*steps, Whiten(share=WHITEN_SHARE))
