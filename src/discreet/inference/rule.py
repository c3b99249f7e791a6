"""Rules of ``inference=True`` by public numbers alone: what it needs, takes and adds to a fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from discreet.core import Budget
from discreet.errors import NotSupported
from discreet.inference.hessian import MOST_NOISE, expected_error
from discreet.inference.measure import Inference
from discreet.inference.shares import PRECISION, SHARE, SHARES, share_for
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

WHITEN_NOISE = 2.0
"""It is added while its noise is below this many mean eigenvalues."""

PILOT_ITERATIONS = 16
"""Steps of descent to the first weights. A smaller number would need longer steps: weights beyond
the minimum, where the curvature is small, are a bad start."""

PILOT_MOMENTUM = 0.375
"""Momentum of these steps."""

PILOT_NEWTON = 5
"""Newton's steps to the first weights."""

LARGEST_RATE = 0.5
"""Preparation and first weights are of a sample if this share of the rows is enough for them."""

SAMPLE_OF_WEIGHT = 2_000
"""Rows of a sample for each weight, so that sampling errors of scores are below 0.05."""

SAMPLE_SIGNAL = 400.0
"""n·μ/k of a sample for each weight, so that noise is less than the sampling error."""


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
    error = expected_error(n_rows, n_parameters, budget, EVEN_SHARE, even=even)
    return error < 2 * PRECISION  # beyond, another Hessian is measured


def reserved(
    n_rows: int,
    n_parameters: int,
    budget: Budget,
    n_models: int,
    left: float,
    share: float = SHARE,
) -> tuple[Inference, ...]:
    """Return one share per model; none if public numbers say that it would buy nothing.

    ``left`` is the share of the budget that preparation and balance leave, of which inference has
    ``share``.
    """
    share = share * left / n_models
    if expected_error(n_rows, n_parameters, budget, share, even=True) > MOST_NOISE:
        return ()
    return (Inference(share),) * n_models


def pilot(solver: Solver, loss: Loss, error: float) -> Solver:
    """Return a solver chosen by rule with few iterations: Newton's steps of inference go on.

    ``error`` is what is expected of a Hessian (`expected_error`).
    """
    if isinstance(solver, GD) and solver.iterations > PILOT_ITERATIONS:
        return replace(solver, iterations=PILOT_ITERATIONS, momentum=PILOT_MOMENTUM)
    if isinstance(solver, Newton) and solver.iterations is None:
        even = error < PRECISION and not loss.curves_unevenly
        return replace(solver, iterations=1 if even else PILOT_NEWTON)
    return solver


def lighter(steps: Sequence[Step], signal: float, width: int, changed: int) -> tuple[Step, ...]:
    """Return the steps with shares of moments that are no larger than noise calls for.

    ``signal`` is n·μ of the rows that the steps see. Whatever a preparation does, it biases nothing
    here, so it needs no more precision than that; whitening needs twice
    as much, as it divides by small eigenvalues.
    """
    root = math.sqrt(changed)
    noises = {
        Centre: changed * math.sqrt(width) / signal,
        Scale: root * width / signal,
        Whiten: 2 * root * math.sqrt(2.0) * width**1.5 / signal,
    }
    lowered: list[Any] = list(steps)
    for k, step in enumerate(lowered):
        if type(step) in noises:
            wanted = share_for(noises[type(step)])
            lowered[k] = replace(step, share=min(step.share, wanted))
    return tuple(lowered)


def sample_rate(steps: Sequence[Step], n_rows: int, size: int, budget: Budget) -> float:
    """Return the rate of the sample that is enough for the preparation and the first weights.

    It is 1 if more than half of the rows are needed. ``size`` is the number of weights.
    """
    signal = n_rows * budget.to_gdp().mu
    white = max((step.share for step in steps if isinstance(step, Whiten)), default=1.0)
    changed = budget.relation.rows_changed
    needed = max(
        SAMPLE_OF_WEIGHT * size / n_rows,
        changed * SAMPLE_SIGNAL * size / signal,
        math.sqrt(2.0 * changed / white) * size**1.5 / (PRECISION * signal),
    )
    return needed if steps and needed <= LARGEST_RATE else 1.0


def whitened(steps: Sequence[Step], n_rows: int, width: int, budget: Budget) -> tuple[Step, ...]:
    """Add a `Whiten` to prepared rows, if there is none and noise allows it.

    In whitened rows the noise of a score has the same variance in all directions, as sampling
    errors have.
    """
    if not steps or width < 2 or any(isinstance(step, Whiten) for step in steps):
        return tuple(steps)
    signal = n_rows * budget.to_gdp().mu * math.sqrt(SHARES[1])
    noise = math.sqrt(2.0 * budget.relation.rows_changed) * width**1.5 / signal
    if noise > WHITEN_NOISE or width > (Whiten.widest or width):
        return tuple(steps)
    return (*steps, Whiten(share=SHARES[1]))
