"""Runs of the real solvers, many of them, on either table of a pair.

Three ways, all of which run the solver, the curator and the exact noise as they are:

- *one by one* (`Single`): any solver, with as many processes as wanted.
- *side by side* (`Blocks`): one fit of a table in which the pair stands many times, each copy with
  columns of its own. A solver whose weights in some columns depend only on rows that have
  something there, and on noise drawn for them, fits all copies independently, so one fit is many
  trials. Clipping does not couple them: a row lies in one copy.
- *one result, many noises* (`Repeats`): a solver that adds noise to a computation without any
  randomness computes it once.

``tests/audit/test_trials.py`` shows that they agree in distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.audit.pairs import Pair
from discreet.core import Account, Budget, Curator, Gaussian, Relation
from discreet.core.bits import Bits, SystemBits
from discreet.core.mechanisms import AdditiveMechanism
from discreet.core.noise import Noise
from discreet.objectives import L2, Loss, Problem
from discreet.rows import as_rows
from discreet.solvers import ObjPert, Solution, Solver, TraceEntry

__all__ = [
    "Blocks",
    "Repeats",
    "Setting",
    "Single",
    "numbers_of",
    "scaled_bound",
    "scaled_steps",
    "trace_numbers",
]

FloatArray = NDArray[np.float64]

SIDE_BY_SIDE = 2000
"""Copies of the pair in one fit: enough to forget what a fit costs, and it stays in the cache."""


@dataclass(frozen=True)
class Setting:
    """What is attacked: a solver on a problem, and the tables.

    Attributes
    ----------
    solver, loss, alpha, row_norm, budget
        As an estimator has them.
    pair
        The two tables.
    bits
        Where noise comes from.
    """

    solver: Solver
    loss: Loss
    alpha: float
    row_norm: float | None
    budget: Budget
    pair: Pair
    bits: Bits = field(default_factory=SystemBits)

    def problem(self, copies: int = 1) -> Problem:
        """The problem on so many copies of the pair.

        The penalty on the sum over rows, n·alpha, stays what it is for one.
        """
        return Problem(
            loss=self.loss,
            penalty=L2(self.alpha / copies),
            n_rows=copies * self.pair.n_rows,
            n_features=copies * self.pair.n_features,
            fit_intercept=self.pair.fit_intercept,
            row_norm=self.row_norm,
        )


@dataclass(frozen=True)
class Single:
    """Fits one by one; outputs are weights and, with ``traces``, numbers of the trace."""

    setting: Setting
    traces: bool = True

    def draw(self, world: int, count: int) -> FloatArray:
        """Outputs of ``count`` fits on the table of a world."""
        setting, problem = self.setting, self.setting.problem()
        spends = setting.solver.plan(problem, setting.budget)
        X, y = setting.pair.tables[world]
        rows = as_rows(X, y, fit_intercept=problem.fit_intercept, row_norm=setting.row_norm)
        outputs = []
        for stream in setting.bits.spawn(count):
            curator = _Told(rows, Account(spends), Noise(stream), problem.n_rows)
            solution = setting.solver.solve(problem, curator, setting.budget)
            outputs.append(numbers_of(solution) if self.traces else solution.weights)
        return np.array(outputs)


@dataclass(frozen=True)
class Blocks:
    """Fits of many copies of the pair side by side; outputs are weights.

    ``widen(solver, copies, problem)`` is the solver with settings under which each copy is fitted
    as ``problem`` would be alone: mean gradients are so many times smaller, steps as much longer.
    """

    setting: Setting
    widen: Callable[[Any, int, Problem], Solver]
    copies: int = SIDE_BY_SIDE

    def draw(self, world: int, count: int) -> FloatArray:
        """Outputs of ``count`` trials on the table of a world."""
        pair = self.setting.pair
        if pair.fit_intercept:
            raise ValueError("Copies side by side would share an intercept.")
        if self.setting.budget.pure:
            raise ValueError("Copies side by side would share the length of pure noise.")
        copies = min(self.copies, count)
        problem = self.setting.problem(copies)
        solver = self.widen(self.setting.solver, copies, self.setting.problem())
        spends = solver.plan(problem, self.setting.budget)
        X, y = pair.tables[world]
        wide = sp.kron(sp.eye_array(copies, format="csr"), sp.csr_array(X), format="csr")
        rows = as_rows(
            wide, np.tile(y, copies), fit_intercept=False, row_norm=self.setting.row_norm
        )
        outputs = []
        for stream in self.setting.bits.spawn(-(-count // copies)):
            curator = _Told(rows, Account(spends), Noise(stream), problem.n_rows)
            weights = solver.solve(problem, curator, self.setting.budget).weights
            outputs.append(weights.reshape(copies, pair.n_features))
        return np.concatenate(outputs)[:count]


@dataclass(frozen=True)
class Repeats:
    """One computation without randomness, released many times; outputs are weights."""

    setting: Setting

    def draw(self, world: int, count: int) -> FloatArray:
        """Outputs of ``count`` releases on the table of a world."""
        setting, problem = self.setting, self.setting.problem()
        spends = setting.solver.plan(problem, setting.budget)
        X, y = setting.pair.tables[world]
        rows = as_rows(X, y, fit_intercept=problem.fit_intercept, row_norm=setting.row_norm)
        curator = _Repeating(rows, Account(spends), Noise(setting.bits), problem.n_rows)
        curator.count = count
        return setting.solver.solve(problem, curator, setting.budget).weights


class _Told(Curator):
    """A curator that is told the public number of rows, where one of them may be missing."""

    def __init__(self, rows: Any, account: Account, noise: Noise, n_rows: int) -> None:
        super().__init__(rows, account, noise)
        self._n_rows = n_rows


class _Repeating(_Told):
    """A curator whose releases are answered ``count`` times over: one row an answer."""

    count = 1

    def release(
        self,
        compute: Callable[[Any], FloatArray],
        *,
        size: int,
        sensitivity: float,
        proven_for: Relation,
        magnitude: float,
        mechanism: AdditiveMechanism,
    ) -> FloatArray:
        """As `Curator.release`, but the noise is drawn ``count`` times for one computation."""
        answers: list[FloatArray] = []

        def kept(rows: Any) -> FloatArray:
            answers.append(compute(rows))
            return answers[0]

        super().release(
            kept,
            size=size,
            sensitivity=sensitivity,
            proven_for=proven_for,
            magnitude=magnitude,
            mechanism=mechanism,
        )
        if isinstance(mechanism, Gaussian):  # noise on each number alone: one long vector
            values = np.tile(answers[0], self.count)
            noisy, _ = mechanism.release(
                values, sensitivity=sensitivity, magnitude=magnitude, noise=self._noise
            )
            return noisy.reshape(self.count, size)
        return np.array(
            [
                mechanism.release(
                    answers[0], sensitivity=sensitivity, magnitude=magnitude, noise=self._noise
                )[0]
                for _ in range(self.count)
            ]
        )


def numbers_of(solution: Solution) -> FloatArray:
    """All that a fit puts out, as numbers: weights, and the trace."""
    return np.concatenate([solution.weights, trace_numbers(solution.trace)])


def trace_numbers(trace: Sequence[TraceEntry]) -> FloatArray:
    """A trace as numbers: its length, and of each number in it the first, the last and the sum.

    To 12 digits: noise has room for rounding errors, which grow with the rows there are, so that
    its scale tells in the last digits how many that is. That number is public, but a table that
    lacks a row is told the other's.
    """
    entries = np.array(
        [
            [float(value) for value in vars(entry).values() if isinstance(value, (int, float))]
            for entry in trace
        ]
    )
    length = np.array([len(trace)], dtype=np.float64)
    if not entries.size:
        return length
    numbers = np.concatenate([length, entries[0], entries[-1], entries.sum(axis=0)])
    return np.array([float(f"{number:.12g}") for number in numbers])


def scaled_steps(solver: Any, copies: int, problem: Problem) -> Solver:
    """A solver of mean gradients, for so many times as many rows: steps are as much longer."""
    changes: dict[str, Any] = {"step_size": solver.step_size * copies}
    if getattr(solver, "batch_size", None) is not None:
        changes["batch_size"] = solver.batch_size * copies
    return replace(solver, **changes)


def scaled_bound(solver: Any, copies: int, problem: Problem) -> Solver:
    """A solver of perturbed objectives, which speaks of sums but for its bound on the mean.

    The rule of `ObjPert` for its penalty also looks at the length of all noise, which grows with
    the root of the number of weights.
    """
    if isinstance(solver, ObjPert):
        if solver.calibration == "published":
            return solver
        given = solver.gradient_bound
        return replace(
            solver,
            noise_reach=solver.noise_reach * math.sqrt(copies),
            gradient_bound=None if given is None else given / copies,
        )
    return replace(solver, gradient_bound=solver._gradient_bound(problem) / copies)
