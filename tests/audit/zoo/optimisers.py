"""Bugs in computations on exact rows: noise for a condition that does not hold."""

from contextlib import contextmanager, nullcontext
from functools import cache

import numpy as np
import pytest

from discreet.core import Account, Budget, Curator
from discreet.objectives import L2, Huber, HuberHinge, Problem
from discreet.rows import as_rows
from discreet.solvers import OutPert

from .planting import Promise, column, plant, seeded
from .vector_noise import release

REPLACE = Promise(1.0, relation="replace_one")


@contextmanager
def unchecked_steps():
    """Let output perturbation take steps of any length."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("exact.output_perturbation", "papers.smooth_objectives"):
            patch.setattr(f"discreet.{module}.check_step", lambda step, longest: None)
        yield


class Recording(Curator):
    """A curator that remembers what it released, and of which sensitivity."""

    def release(self, compute, *, sensitivity, mechanism, **rest):
        self.recorded = compute(self._rows), sensitivity, mechanism
        return super().release(compute, sensitivity=sensitivity, mechanism=mechanism, **rest)


@cache
def end_of_descent(world, sound):
    """Where five steps end, and the noise that the solver has for it: a run of the solver."""
    n = 100
    problem = Problem(Huber(1.0), L2(0.0), n, 1, fit_intercept=False, row_norm=1.0)
    y = np.zeros(n)
    y[0] = 1.0 if world else -1.0
    budget = Budget(REPLACE.epsilon, REPLACE.delta, REPLACE.relation)
    rows = as_rows(np.ones((n, 1)), y, fit_intercept=False, row_norm=1.0)
    curator = Recording(rows, Account(budget), seeded(np.random.default_rng(0)))
    solver = OutPert(iterations=5, step_size=1.0 if sound else 4.0)
    with nullcontext() if sound else unchecked_steps():
        solver.solve(problem, curator, solver.plan(problem, budget))
    return curator.recorded


@plant(
    "steps above 2/β in output perturbation",
    REPLACE,
    "a target of -1 or 1 among zeros, in one column",
    trials=100_000,
)
def long_steps(rng, world, count, sound):
    """η = 4/β: steps take two descents apart, and noise is for ones that do not: DP-AGD's OutPert.

    The library's own solver with its check removed. Its descent has no randomness, so it is run
    once and released many times.
    """
    end, sensitivity, mechanism = end_of_descent(world, sound)
    return release(mechanism, end, count, sensitivity, seeded(rng))


def slopes(weights, kinks):
    """Slopes of Huber SVM losses, for points of one feature ±1 with a kink there."""
    return HuberHinge(0.1).derivative(weights[:, None], np.asarray(kinks, float)).sum(axis=1)


def minimise(kinks, ridge, tilt):
    """Least points of Σ loss + ridge·w²/2 + tilt·w in [-10, 10], by bisection of the slope."""
    low, high = np.full(tilt.size, -10.0), np.full(tilt.size, 10.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        rising = slopes(middle, kinks) + ridge * middle + tilt > 0
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    return low


def in_kink(outputs):
    """Whether the weight is where a row with label 1 has its curvature."""
    return (np.abs(outputs[:, 0] - 1.0) < 0.1).astype(float)


WEIGHT = {"whether it is in the kink": in_kink, "the weight": lambda outputs: outputs[:, 0]}

TILT = 0.2
"""ε that the tilt costs; ln(1 + β/λ) is what curvature does."""


@plant(
    "smoothness too small for the Huber SVM",
    Promise(TILT + np.log(3.0)),
    "one row, or one that does nothing",
    trials=20_000,
    statistics=WEIGHT,
)
def small_smoothness(rng, world, count, sound):
    """β = L² for a loss of curvature L²/(2h), five times that at h = 0.1: the AMP benchmark's code.

    Objective perturbation with λ = β/2.
    """
    ridge = (5.0 if sound else 1.0) / 2
    tilt = rng.laplace(0.0, 1 / TILT, count)
    return column(minimise([1.0][:world], ridge, tilt))


@plant(
    "the bias left out of the penalty",
    Promise(2 * TILT + 2 * np.log(3.0), relation="replace_one"),
    "a row with label 1 or -1 among four with -1, no features",
    trials=20_000,
    statistics=WEIGHT,
)
def free_bias(rng, world, count, sound):
    """Objective perturbation needs a penalty on all weights; DP-AGD's code leaves out the bias.

    λ = β/2 for all weights but the intercept, which is all there is here.
    """
    labels = [1.0 if world else -1.0, -1.0, -1.0, -1.0, -1.0]
    tilt = rng.laplace(0.0, 1 / TILT, count)
    return column(minimise(labels, 2.5 if sound else 0.0, tilt))


@plant(
    "a warm start that is never left",
    Promise(1.0),
    "a target of 1, or a row that does nothing",
    trials=20_000,
)
def warm_start(rng, world, count, sound):
    """Minimisation starts at the exact least point and stops after one short step.

    A tilt hides a row at the tilted minimum only; here the loss is −y·w, so that is (y − tilt)/λ.
    """
    ridge, step = 1.0, 0.1
    exact = world / ridge
    tilt = rng.laplace(0.0, 1.0, count)
    if sound:
        return column(exact - tilt / ridge)
    return column(exact - step * (ridge * exact - world + tilt))


@plant(
    "an intercept without noise",
    Promise(1.0, relation="replace_one"),
    "a target of 0 or 1 among ten",
    trials=20_000,
    statistics={"the weight": lambda o: o[:, 0], "the intercept": lambda o: o[:, 1]},
)
def exact_intercept(rng, world, count, sound):
    """Targets are centred by their exact mean, which becomes the intercept: the usual shortcut."""
    n, targets = 10, np.zeros(10)
    targets[0] = world
    weight = rng.laplace(0.0, 2 / n, count)  # features are all zero
    noise = rng.laplace(0.0, 2 / n, count) if sound else 0.0
    return np.stack([weight, np.broadcast_to(targets.mean() + noise, count)], axis=1)
