"""Trials: independent runs of a solver or an estimator on either table of a pair.

Each way of running trials uses the solver, the curator and the exact noise without changes. The
fast ways (`side_by_side`, `one_result`) verify themselves: one trial is replayed as a single fit
that gets the same answers from the curator, and must ask the same questions and end with the same
weights. ``tests/audit/test_trials.py`` compares the distributions of all ways.
"""

from __future__ import annotations

import itertools
import math
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from discreet.audit.pairs import Pair
from discreet.core import Account, Budget, Curator, Gaussian
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.core.curator import Asked
from discreet.core.noise import Noise
from discreet.core.questions import Gradient
from discreet.errors import NotSupported
from discreet.estimators.base import PrivateLinearModel
from discreet.objectives import L2, Loss, Problem
from discreet.rows import Rows, Units, as_rows
from discreet.solvers import AMP, AMPHF, ObjPert, Plan, Solver, TraceEntry
from discreet.validate import FloatArray

Way = Literal["one by one", "side by side", "one result"]

COPIES = 2000  # of the pair per fit: its overhead is negligible and the table fits the cache
PROBED = 8  # copies in the first fits that `fastest_way` tries


class NotSeparable(NotSupported):
    """Raised if a solver's trials cannot be run together."""


@dataclass(frozen=True)
class Setting:
    """A solver on a problem, the two neighbouring tables, and the source of random bits."""

    solver: Solver
    loss: Loss
    alpha: float
    row_norm: float | None
    budget: Budget
    pair: Pair
    bits: Bits = field(default_factory=SystemBits)

    def problem(self) -> Problem:
        """Return the problem of one trial."""
        return Problem(
            loss=self.loss,
            penalty=L2(self.alpha),
            n_rows=self.pair.n_rows,
            n_features=self.pair.n_features,
            fit_intercept=self.pair.fit_intercept,
            row_norm=self.row_norm,
        )

    def rows(self, world: int, copies: int = 1) -> Any:
        """Return the rows of a world's table, ``copies`` times along a block diagonal."""
        one, y = self.pair.tables[world]
        X: Any = one
        if copies > 1:
            X = sp.kron(sp.eye_array(copies, format="csr"), sp.csr_array(one), format="csr")
        labels = np.tile(y, copies)
        intercept = self.pair.fit_intercept
        rows = as_rows(X, labels, fit_intercept=intercept, row_norm=self.row_norm)
        if self.pair.groups is None:
            return rows
        ids = self.pair.groups[world]  # each copy has people of its own
        people = ids + self.pair.n_rows * np.arange(copies)[:, None]
        own = Units.of(people.reshape(-1), ids.size * copies).weights()
        return rows.with_weights(replace(own, size=copies * self.pair.n_rows))

    def plan(self) -> Plan:
        """Return the solver's plan of one trial; all trials of a setting follow it."""
        made: Plan = self.solver.plan(self.problem(), self.budget)
        return made

    def curator(self, kind: Any, rows: Rows, bits: Bits, plan: Plan) -> Any:
        """Return a curator with the public number of rows of one trial, of which one may lack."""
        account = Account(plan.spends, unit=rows.unit)
        return kind(rows, account, Noise(bits), n_rows=self.pair.n_rows)


def one_by_one(setting: Setting, world: int, count: int) -> FloatArray:
    """Return weights and traces, as numbers, of ``count`` fits on the table of a world."""
    problem = setting.problem()
    plan = setting.plan()
    rows = setting.rows(world)
    outputs = []
    for stream in setting.bits.spawn(count):
        curator = setting.curator(Curator, rows, stream, plan)
        solution = setting.solver.solve(problem, curator, plan)
        outputs.append(np.concatenate([solution.weights, trace_numbers(solution.trace)]))
    return np.array(outputs)


def side_by_side(setting: Setting, world: int, count: int, copies: int = COPIES) -> FloatArray:
    """Return the weights of ``count`` copies of a world's table, many of which are fitted at once.

    Each copy has columns of its own. The curator and the problem state the number of rows of one
    copy, so that means over rows, and with them step sizes and batch sizes, are those of a fit of
    one copy. `NotSeparable` is raised if the solver asks for anything but noisy gradients, or if a
    replayed copy differs.
    """
    pair = setting.pair
    if pair.fit_intercept:
        raise NotSeparable("Copies side by side would share an intercept.")
    copies = min(copies, count)
    solver, problem = _widened(setting, copies)
    plan = solver.plan(problem, setting.budget)
    rows = setting.rows(world, copies)
    perturbed = isinstance(solver, PERTURBED)
    kind = Curator if perturbed else _Recorder
    outputs: list[FloatArray] = []
    for stream in setting.bits.spawn(-(-count // copies)):
        account = Account(plan.spends, unit=rows.unit)
        curator = kind(rows, account, Noise(stream), n_rows=problem.n_rows)
        solution = solver.solve(problem, curator, plan)
        weights = solution.weights.reshape(copies, pair.n_features)
        if not (perturbed or outputs):  # in each call, one copy of the first fit
            _verify(setting, world, weights, curator)
        outputs.append(weights)
    return np.concatenate(outputs)[:count]


def _verify(setting: Setting, world: int, weights: FloatArray, recorder: Any) -> None:
    """Replay one copy as a single fit; raise `NotSeparable` if it takes another course."""
    size = setting.pair.n_features
    at = int(np.random.default_rng().integers(len(weights)))
    plan = setting.plan()
    curator = setting.curator(_Replay, setting.rows(world), SeededBits(0), plan)
    curator.recorded = iter(recorder.recorded)
    curator.part = slice(at * size, (at + 1) * size)
    alone = setting.solver.solve(setting.problem(), curator, plan)
    if next(curator.recorded, None) is not None:
        raise NotSeparable("A fit of one copy asks fewer questions than a fit of many.")
    _same("the weights", alone.weights, weights[at])


def one_result(setting: Setting, world: int, count: int) -> FloatArray:
    """Return one deterministic result of a world's table, released with noise ``count`` times."""
    problem = setting.problem()
    plan = setting.plan()
    rows = setting.rows(world)
    curator = setting.curator(_Repeating, rows, setting.bits, plan)
    curator.count = count
    weights = setting.solver.solve(problem, curator, plan).weights
    if curator.exact is None or np.shape(weights) != (count, problem.n_parameters):
        raise NotSeparable("The solver does not hand out one release as it is.")
    replayed = setting.curator(_Released, rows, SeededBits(0), plan)
    replayed.exact = curator.exact
    replayed.noisy = curator.noisy[-1]
    alone = setting.solver.solve(problem, replayed, plan)
    _same("the weights", alone.weights, weights[-1])
    return np.asarray(weights, dtype=np.float64)


def fits(
    estimator: Any, pair: Pair, seeds: itertools.count[int] | None, world: int, count: int
) -> FloatArray:
    """Return all numbers that ``count`` fits of an estimator on the table of a world release.

    ``seeds`` makes trials repeatable; None for the noise of an ordinary fit.
    """
    X, y = pair.tables[world]
    groups = {} if pair.groups is None else {"groups": pair.groups[world]}
    outputs = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny tables, worker processes and seeds are intended
        for _ in range(count):
            model = clone(estimator)
            if seeds is not None:
                model.set_params(random_state=next(seeds))
            outputs.append(released_numbers(model.fit(X, y, **groups)))
    return np.array(outputs)


WAYS: dict[Way, Callable[[Setting, int, int], FloatArray]] = {
    "one by one": one_by_one,
    "side by side": side_by_side,
    "one result": one_result,
}


def fastest_way(setting: Setting) -> Way:
    """Choose how to run a solver's trials, by its behaviour on small fits.

    The solver is run on both tables with a few copies, and then with many. If it asks for anything
    but noisy gradients, or one release, or raises an error, its trials are run one by one.
    """
    if isinstance(setting.solver, PERTURBED) and not setting.pair.fit_intercept:
        return "one by one" if setting.budget.pure else "side by side"
    setting = replace(setting, bits=SeededBits(0))
    fast: tuple[Way, ...] = ("side by side", "one result")
    for way in fast:
        try:
            for world, count in ((0, PROBED), (1, PROBED), (1, COPIES)):
                WAYS[way](setting, world, count)
        except Exception:  # a solver may be anybody's code, and need not cope with such a table
            continue
        return way
    return "one by one"


# Solvers that minimise a perturbed objective. They ask no gradients, but their objective is a sum
# of one objective per copy, with independent noise.
PERTURBED = (ObjPert, AMP, AMPHF)


def _widened(setting: Setting, copies: int) -> tuple[Solver, Problem]:
    """Return a solver and a problem that fit each of several copies as one would be alone."""
    one = setting.problem()
    solver = setting.solver
    wide = replace(one, n_features=copies * one.n_features)
    if not isinstance(solver, PERTURBED):
        return solver, wide
    if setting.budget.pure:
        raise NotSeparable("Copies side by side would share the norm of pure noise.")
    # Their bounds on the norm of all weights need the true number of rows. The penalty on the sum
    # over rows, n·alpha, and the bound on the sum's gradient stay those of one copy.
    wide = replace(wide, penalty=L2(setting.alpha / copies), n_rows=copies * one.n_rows)
    if not isinstance(solver, ObjPert):
        bound = solver._gradient_bound(one) / copies
        return replace(solver, gradient_bound=bound), wide
    if solver.calibration == "published":
        return solver, wide
    # The rule for the penalty uses the norm of all noise, which grows with √(number of weights).
    reach = solver.noise_reach * math.sqrt(copies)
    asked = solver.gradient_bound
    return replace(solver, noise_reach=reach, gradient_bound=asked and asked / copies), wide


_Kind = TypeVar("_Kind", bound=type[Curator])


def _answers_only(*allowed: str) -> Callable[[_Kind], _Kind]:
    """Return a decorator of curators that raise `NotSeparable` for all other questions."""

    def refused(self: Any, *_: Any, **__: Any) -> Any:
        raise NotSeparable(f"The solver asks for more than {' or '.join(allowed)}.")

    def restrict(kind: _Kind) -> _Kind:
        for name in dir(Curator):
            if name[0] != "_" and name not in allowed and callable(getattr(Curator, name)):
                setattr(kind, name, refused)
        return kind

    return restrict


@_answers_only("open", "open_plan", "ask", "ask_all", "sampled_gradient")
class _GradientsOnly(Curator):
    """A curator that answers questions about gradients only."""


@_answers_only("open", "open_plan", "release")
class _ReleaseOnly(Curator):
    """A curator that answers one kind of question: releases with a proven sensitivity."""


class _Recorder(_GradientsOnly):
    """A curator that records the gradients it was asked for, with its answers."""

    def __init__(self, *arguments: Any, **sizes: Any) -> None:
        super().__init__(*arguments, **sizes)
        self.recorded: list[tuple[tuple[Any, ...], FloatArray, FloatArray]] = []

    def ask_all(self, asked: Sequence[Asked]) -> list[Any]:
        """Answer questions about gradients, one after the other, and record them."""
        if not all(isinstance(question, Gradient) for question, _ in asked):
            raise NotSeparable("The solver asks for more than gradients.")
        return [self._record("ask_all", question, mechanism) for question, mechanism in asked]

    def sampled_gradient(self, question: Gradient, mechanism: Any) -> Any:
        """Answer a question about a sample, and record it."""
        return self._record("sampled_gradient", question, mechanism)

    def _record(self, door: str, question: Any, mechanism: Any) -> Any:
        answer = self._answer(door, question, mechanism)
        public = (door, question.clip, mechanism)
        self.recorded.append((public, question.weights.copy(), answer.values.copy()))
        return answer

    def _answer(self, door: str, question: Any, mechanism: Any) -> Any:
        """Answer as a `Curator` does."""
        if door == "ask_all":
            return Curator.ask_all(self, [(question, mechanism)])[0]
        return Curator.sampled_gradient(self, question, mechanism)


class _Replay(_Recorder):
    """A curator of one copy that repeats the answers which that copy got in a wide fit."""

    recorded: Any
    part: slice

    def _record(self, door: str, question: Any, mechanism: Any) -> Any:
        first = next(self.recorded, None)
        if first is None or (door, question.clip, mechanism) != first[0]:
            raise NotSeparable("A fit of one copy asks other questions than a fit of many.")
        _same("the weights of a question", question.weights, first[1][self.part])
        answer = self._answer(door, question, mechanism)  # it charges and checks
        return replace(answer, values=first[2][self.part].copy())


class _Repeating(_ReleaseOnly):
    """A curator that answers one release ``count`` times, one row per answer."""

    count = 1
    exact: FloatArray | None = None
    noisy: FloatArray

    def release(self, compute: Any, **details: Any) -> FloatArray:
        """Compute as `Curator.release` does, and draw the noise ``count`` times."""
        if self.exact is not None:
            raise NotSeparable("The solver asks for more than one release.")

        results: list[FloatArray] = []

        def kept(rows: Rows) -> FloatArray:
            results.append(np.array(compute(rows)))
            return results[-1]

        Curator.release(self, kept, **details)
        exact = results[-1]
        mechanism = details["mechanism"]
        drawn = {name: details[name] for name in ("sensitivity", "magnitude")}
        drawn["noise"] = self._noise
        if isinstance(mechanism, Gaussian):  # independent noise per number: one long vector
            values = np.tile(exact, self.count)
            self.noisy = mechanism.release(values, **drawn)[0].reshape(self.count, -1)
        else:
            releases = [mechanism.release(exact, **drawn)[0] for _ in range(self.count)]
            self.noisy = np.array(releases)
        self.exact = exact
        return self.noisy


class _Released(_ReleaseOnly):
    """A curator that repeats a noisy release, after checking that the result has no randomness."""

    exact: FloatArray
    noisy: FloatArray

    def release(self, compute: Any, **details: Any) -> FloatArray:
        """Return the given noisy release if the computation gives the given result once more."""

        def checked(rows: Rows) -> FloatArray:
            found: FloatArray = compute(rows)
            _same("the result", found, self.exact)
            return found

        Curator.release(self, checked, **details)
        return self.noisy


def _same(what: str, one: FloatArray, other: FloatArray) -> None:
    size = max(float(np.max(np.abs(other), initial=0.0)), 1e-300)
    if one.shape != other.shape or not np.allclose(one, other, rtol=1e-9, atol=1e-9 * size):
        raise NotSeparable(
            f"In a replayed fit {what} differ, so trials that are run together are not "
            "independent. Audit an estimator with this solver: it is run one fit at a time."
        )


def trace_numbers(trace: Sequence[TraceEntry]) -> FloatArray:
    """Return a trace's length, and the first, last and summed value of each of its numbers.

    Values are rounded to 12 digits: noise scales include a bound on rounding errors, which depends
    on the number of rows, and the table that lacks a row has one row fewer than it states.
    """
    entries = np.array(
        [[float(v) for v in vars(entry).values() if isinstance(v, (int, float))] for entry in trace]
    )
    length = np.array([len(trace)], dtype=np.float64)
    if not entries.size:
        return length
    numbers = np.concatenate([length, entries[0], entries[-1], entries.sum(axis=0)])
    return np.array([float(f"{number:.12g}") for number in numbers])


def released_numbers(model: Any) -> FloatArray:
    """Return what a fitted model holds: weights, solver (as a hash), trace and preparation."""
    chosen = zlib.crc32(str(getattr(model, "solver_", "")).encode())
    parts = [np.ravel(model.coef_), np.ravel(model.intercept_)]
    parts += [np.array([chosen]), trace_numbers(getattr(model, "trace_", ()))]
    for step in getattr(model, "preparation_", ()):
        if is_dataclass(step):
            values = (getattr(step, item.name) for item in fields(step))
            parts += [
                np.ravel(value)
                for value in values
                if isinstance(value, (int, float, np.ndarray))
                and np.asarray(value).dtype.kind in "iuf"
            ]
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])


SUMMING = frozenset(  # solvers that only add up gradients or losses: rows of zeros add nothing
    {"gd", "sgd", "sgd-adv", "sgd-ma", "agd", "objpert", "amp", "amp-hf", "outpert"}
    | {"frank-wolfe", "privgene"}
)


def compares_rows(estimator: Any) -> bool:
    """Return True if a row of zeros may differ from no row: where rows are counted or ranked."""
    if not isinstance(estimator, PrivateLinearModel):
        return False  # assume that it adds up gradients
    name = getattr(estimator.solver, "name", estimator.solver)
    return name not in SUMMING or estimator.preparation is not None
