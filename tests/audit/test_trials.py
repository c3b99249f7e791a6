"""Fast trials are the same trials: many copies in a fit, and many noises on one result.

What a fast way puts out is held against fits one by one, by two-sample Kolmogorov-Smirnov tests of
six numbers: two weights, two more projections, and two that see dependence. Each test has a false
alarm with probability 1e-7, so a comparison has one with at most 6e-7; seeds are fixed on top.
The same tests must see trials that are widened wrongly or have half of the noise.
"""

import functools
import math
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp, spearmanr

from discreet.audit import cases
from discreet.audit.pairs import Pair, worst_cases
from discreet.audit.trials import (
    SIDE_BY_SIDE,
    Blocks,
    Repeats,
    Setting,
    Single,
    numbers_of,
    trace_numbers,
)
from discreet.core import Account, Budget, Curator, Relation
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.exact import perturbed
from discreet.objectives import Logistic
from discreet.rows import as_rows
from discreet.solvers import AMP, AMPHF, GD, SGD, ObjPert, OutPert, Solution, TraceEntry

RELATIONS = (Relation.ADD_REMOVE, Relation.REPLACE_ONE)
FALSE_ALARM = 1e-7  # of one test; six make a comparison
ALONE, FAST, COPIES = 300, 3000, 200

# weights pull at each other: no row is at right angles to another, and one is beyond the bound
X = np.array([[0.9, 0.4], [0.5, 0.8], [-0.3, 0.9], [2.0, 2.0], [-0.6, -0.2]])
Y = np.array([1.0, 1.0, -1.0, 1.0, -1.0])
OTHER = np.vstack([[-0.5, 0.8], X[1:]])
PAIRS = {
    Relation.ADD_REMOVE: ((X[1:], Y[1:]), (X, Y)),
    Relation.REPLACE_ONE: ((OTHER, Y), (X, Y)),
}
TOLD_WORLD = {Relation.ADD_REMOVE: 0, Relation.REPLACE_ONE: 1}  # where the row is missing, if any

BATCHES: dict[str, Any] = {"step_size": 2.0, "iterations": 3, "batch_size": 2}
SIDE = (
    GD(3, step_size=2.0, averaging=0.7),
    SGD(**BATCHES),
    SGD("published", **BATCHES),
    SGD(published="bassily", **BATCHES),
    SGD("published", published="bassily", **BATCHES),
    SGD(published="abadi", **BATCHES),
    SGD("published", published="abadi", **BATCHES),
    ObjPert(),
    ObjPert("published"),
    AMP(),
    AMP("published"),
    AMPHF(),
    AMPHF("published"),
)
REPEATED = (OutPert(iterations=5), OutPert("published", iterations=5))


@dataclass(frozen=True)
class Case:
    """A solver, a relation and a budget: hashable, so that fits one by one are run once."""

    solver: Any
    relation: Relation
    epsilon: float = 4.0
    delta: float = 1e-3

    @property
    def world(self):
        return TOLD_WORLD[self.relation]

    def setting(self, seed, **changes):
        pair = Pair("a pair", self.relation, PAIRS[self.relation], np.array([1.0, 0.0]))
        budget = Budget(self.epsilon, self.delta, self.relation)
        own = np.random.SeedSequence([seed, zlib.crc32(str(self).encode())])  # no shared luck
        setting = Setting(self.solver, Logistic(), 0.1, 1.0, budget, pair, SeededBits(own))
        return replace(setting, **changes)

    def __str__(self):
        calibration = getattr(self.solver, "calibration", "tight")
        name = "-".join([self.solver.name, getattr(self.solver, "published", "")]).strip("-")
        return f"{name}-{calibration}-{self.relation}-{self.delta:g}"


SIDE_CASES = [Case(solver, relation) for solver in SIDE for relation in RELATIONS]
REPEATED_CASES = [
    Case(solver, relation, delta=delta)
    for solver in REPEATED
    for relation in RELATIONS
    for delta in (1e-3, 0.0)
]


@pytest.fixture(autouse=True, scope="module")
def remembered_calibration():
    """Noise scales are functions of public numbers: compute each of them once."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (perturbed, "noise_ratio"),
            (perturbed, "true_epsilon"),
            (perturbed.ObjectivePerturbation, "gaussian"),
            (ObjPert, "_calibrate"),
            (AMP, "_calibrate"),
            (AMPHF, "_calibrate"),
            (SGD, "_plan"),
        ):
            patch.setattr(owner, name, functools.cache(getattr(owner, name)))
        yield


@functools.cache
def alone(case):
    return Single(case.setting(1), traces=False).draw(case.world, ALONE)


def side_by_side(setting, copies=COPIES):
    return Blocks(setting, cases._widening(setting.solver), copies=copies)


def statistics(outputs, centre):
    first, second = (outputs - centre).T
    return (first, second, first + second, first - second, first * second, first**2 + second**2)


@functools.cache
def centre(case):
    """Some point amid the outputs, from runs that are not used again."""
    return Single(case.setting(3), traces=False).draw(case.world, 30).mean(axis=0)


def smallest_p(case, outputs):
    """The smallest p-value of the six comparisons with fits one by one."""
    assert outputs.shape == (FAST, 2)
    ours, theirs = (statistics(sample, centre(case)) for sample in (alone(case), outputs))
    return min(ks_2samp(a, b, method="asymp").pvalue for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("case", SIDE_CASES, ids=str)
def test_copies_side_by_side_agree_with_fits_one_by_one(case):
    outputs = side_by_side(case.setting(2)).draw(case.world, FAST)
    assert smallest_p(case, outputs) > FALSE_ALARM
    assert len(np.unique(outputs, axis=0)) == FAST  # no run is repeated


@pytest.mark.parametrize("case", REPEATED_CASES, ids=str)
def test_one_result_with_many_noises_agrees_with_fits_one_by_one(case):
    outputs = Repeats(case.setting(2)).draw(case.world, FAST)
    assert smallest_p(case, outputs) > FALSE_ALARM
    assert len(np.unique(outputs, axis=0)) == FAST


@pytest.mark.parametrize("case", [*SIDE_CASES, *REPEATED_CASES], ids=str)
def test_the_comparison_sees_half_of_the_noise(case, monkeypatch):
    for runs_with_all_of_it in (alone, centre):
        runs_with_all_of_it(case)
    for name in ("gaussian", "l2_norm"):
        monkeypatch.setattr(Noise, name, halved(getattr(Noise, name)))
    setting = case.setting(2)
    way = Repeats(setting) if case in REPEATED_CASES else side_by_side(setting)
    assert smallest_p(case, way.draw(case.world, FAST)) < FALSE_ALARM


def halved(draw):
    return lambda self, size, scale, *rest: draw(self, size, scale / 2, *rest)


@pytest.mark.parametrize("case", SIDE_CASES[:14], ids=str)
def test_the_comparison_sees_steps_that_are_not_scaled(case):
    def widen(solver, *_):
        batch = getattr(solver, "batch_size", None)
        return solver if batch is None else replace(solver, batch_size=batch * COPIES)

    outputs = Blocks(case.setting(2), widen, copies=COPIES).draw(case.world, FAST)
    assert smallest_p(case, outputs) < FALSE_ALARM


@pytest.mark.parametrize(
    "case", [case for case in SIDE_CASES if case.solver in (ObjPert(), AMP())], ids=str
)
def test_the_comparison_sees_a_penalty_that_is_not_scaled(case):
    setting = case.setting(2, alpha=0.1 * COPIES)
    assert smallest_p(case, side_by_side(setting).draw(case.world, FAST)) < FALSE_ALARM


def test_the_comparison_sees_dependence_between_weights():
    case = REPEATED_CASES[0]
    outputs = Repeats(case.setting(2)).draw(case.world, FAST)
    middle, rng = centre(case), np.random.default_rng(0)
    away = np.abs(outputs - middle) * rng.choice([-1.0, 1.0], (FAST, 1))  # one sign for both
    ours = statistics(alone(case), middle)
    theirs = statistics(middle + away, middle)
    assert ks_2samp(ours[4], theirs[4], method="asymp").pvalue < FALSE_ALARM


# --- the same, without luck -------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch):
    """No noise at all; the scales of what was asked for are noted."""
    scales = []

    def silent(self, size, scale, grid, count=None):
        scales.append(scale)
        return np.zeros(size if count is None else (count, size), dtype=np.int64)

    monkeypatch.setattr(Noise, "gaussian", silent)
    monkeypatch.setattr(Noise, "l2_norm", silent)
    return scales


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("case", SIDE_CASES, ids=str)
def test_without_noise_every_copy_ends_where_a_fit_alone_does(case, epsilon, asked):
    solver = case.solver
    if getattr(solver, "batch_size", None):
        solver = replace(solver, batch_size=len(Y))  # every row is in every batch: no luck
    if hasattr(solver, "unsafe"):
        solver = replace(solver, unsafe=True)
    budget = Budget(epsilon, case.delta, case.relation)
    setting = case.setting(1, solver=solver, budget=budget)
    single = Single(setting, traces=False).draw(case.world, 1)
    wanted = list(asked)
    asked.clear()
    outputs = side_by_side(setting, SIDE_BY_SIDE).draw(case.world, SIDE_BY_SIDE)
    # noise that hides rounding is tiny and may grow with the table
    np.testing.assert_allclose(asked, wanted, rtol=1e-6, atol=1e-3 * max(wanted))
    rough = isinstance(solver, (AMP, AMPHF)) and solver.calibration == "published"
    np.testing.assert_allclose(
        outputs, np.tile(single, (SIDE_BY_SIDE, 1)), atol=0.05 if rough else 1e-5
    )


@pytest.mark.parametrize("case", REPEATED_CASES, ids=str)
def test_without_noise_every_repeat_is_the_fit(case, asked):
    single = Single(case.setting(1), traces=False).draw(case.world, 1)
    outputs = Repeats(case.setting(1)).draw(case.world, 5)
    np.testing.assert_allclose(outputs, np.tile(single, (5, 1)), rtol=1e-6)
    np.testing.assert_allclose(asked, asked[0], rtol=1e-6)


@pytest.mark.parametrize("solver", [GD(3, step_size=2.0), ObjPert(), OutPert(iterations=5)])
def test_a_table_that_lacks_a_row_is_told_the_public_number(solver, asked):
    case = Case(solver, Relation.ADD_REMOVE)
    nothing = (np.vstack([np.zeros(2), X[1:]]), Y)
    zeros = Pair("zeros", Relation.ADD_REMOVE, (nothing, (X, Y)), np.array([1.0, 0.0]))
    lacking = Single(case.setting(1), traces=False).draw(0, 1)
    scales = list(asked)
    standing = Single(case.setting(1, pair=zeros), traces=False).draw(0, 1)
    np.testing.assert_allclose(lacking, standing, atol=1e-5)
    np.testing.assert_allclose(asked[len(scales) :], scales, rtol=1e-6)


# --- copies do not touch each other -----------------------------------------------------------


def dependence(outputs, copies):
    """Standard normals, if neighbouring copies are independent: rank correlations of all kinds."""
    away = outputs - outputs.mean(axis=0)
    seen = np.column_stack([away, np.abs(away), np.hypot(*away.T)])
    fits = seen.reshape(-1, copies, 5)
    left, right = fits[:, 0::2].reshape(-1, 5), fits[:, 1::2].reshape(-1, 5)
    ranks = spearmanr(left, right).statistic[:5, 5:]
    return ranks * math.sqrt(len(left) - 1)


FAR = 5.8  # one of 25 normals is farther away with probability 2e-7


@pytest.mark.parametrize("solver", [GD(3, step_size=2.0), SGD(**BATCHES), ObjPert(), AMP()])
def test_neighbouring_copies_are_independent(solver):
    setting = Case(solver, Relation.REPLACE_ONE).setting(5)
    outputs = side_by_side(setting, copies=20).draw(1, 4000)
    assert np.abs(dependence(outputs, 20)).max() < FAR


def test_copies_that_would_share_the_length_of_their_noise_are_refused():
    setting = Case(ObjPert(ridge=20.0), Relation.ADD_REMOVE, 0.5, 0.0).setting(5)
    with pytest.raises(ValueError, match="length of pure noise"):
        side_by_side(setting, copies=2).draw(1, 10)


def fit_of(setting, tables):
    """One fit of a table with these tables side by side, in the way of `Blocks`."""
    copies = len(tables)
    problem = setting.problem(copies)
    solver = side_by_side(setting).widen(setting.solver, copies, setting.problem())
    wide = sp.block_diag([sp.csr_array(table) for table, _ in tables], format="csr")
    rows = as_rows(wide, np.concatenate([y for _, y in tables]), fit_intercept=False, row_norm=1.0)
    (stream,) = setting.bits.spawn(1)
    curator = Curator(rows, Account(setting.budget), Noise(stream))
    return solver.solve(problem, curator, setting.budget).weights.reshape(copies, -1)


@pytest.mark.parametrize("solver", [GD(3, step_size=2.0), SGD(**BATCHES)])
def test_a_copy_does_not_move_when_another_one_changes(solver):
    case = Case(solver, Relation.REPLACE_ONE)
    without, with_row = PAIRS[Relation.REPLACE_ONE]
    same = fit_of(case.setting(6), [with_row] * 10)
    np.testing.assert_array_equal(same, side_by_side(case.setting(6), 10).draw(1, 10))
    mixed = fit_of(case.setting(6), [with_row, without] * 5)
    np.testing.assert_array_equal(mixed[0::2], same[0::2])
    assert not np.array_equal(mixed[1::2], same[1::2])


# --- shapes, seeds and numbers ----------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 7, 450])
def test_as_many_trials_as_were_asked_for(count):
    setting = Case(SIDE[0], Relation.ADD_REMOVE).setting(0)
    for world in (0, 1):
        outputs = side_by_side(setting).draw(world, count)
        assert outputs.shape == (count, 2)
        assert len(np.unique(outputs)) == outputs.size


@pytest.mark.parametrize(
    ("solver", "way"), [(SIDE[0], side_by_side), (REPEATED[0], Repeats), (SIDE[0], Single)]
)
def test_seeds_repeat_and_calls_do_not(solver, way):
    case = Case(solver, Relation.REPLACE_ONE)
    trials, again = way(case.setting(4)), way(case.setting(4))
    first, second = trials.draw(0, 20), trials.draw(0, 20)
    np.testing.assert_array_equal(first, again.draw(0, 20))
    assert not np.isin(first[:, :2], second[:, :2]).any()


def test_copies_would_share_an_intercept():
    pair = next(pair for pair in worst_cases(Relation.REPLACE_ONE, norm=1.0) if pair.fit_intercept)
    setting = Case(SIDE[0], Relation.REPLACE_ONE).setting(0, pair=pair)
    with pytest.raises(ValueError, match="share an intercept"):
        side_by_side(setting).draw(0, 10)


def test_fits_one_by_one_put_out_weights_and_trace():
    setting = Case(GD(3, step_size=2.0), Relation.ADD_REMOVE).setting(7)
    everything = Single(setting).draw(1, 4)
    weights = Single(Case(GD(3, step_size=2.0), Relation.ADD_REMOVE).setting(7), traces=False)
    np.testing.assert_array_equal(everything[:, :2], weights.draw(1, 4))
    assert everything.shape == (4, 2 + 1 + 3 * 3)
    np.testing.assert_array_equal(everything[:, 2], 3)  # three steps


@dataclass(frozen=True)
class Entry(TraceEntry):
    value: float
    chosen: bool
    word: str = "not a number"


def test_a_trace_as_numbers():
    trace = (Entry(1 / 3, True), Entry(2.0, False), Entry(5.0, True))
    third = 0.333333333333
    wanted = [3, 0, third, 1, 0, 5, 1, 0, 7.33333333333, 2]
    assert trace_numbers(trace).tolist() == wanted
    assert trace_numbers(()).tolist() == [0]
    solution = Solution(np.array([8.0, 9.0]), trace, ())
    assert numbers_of(solution).tolist() == [8, 9, *wanted]


def test_the_penalty_on_the_sum_stays_that_of_one_copy():
    setting = Case(GD(), Relation.ADD_REMOVE).setting(0)
    one, many = setting.problem(), setting.problem(8)
    assert (many.n_rows, many.n_features) == (40, 16)
    assert many.n_rows * many.penalty.alpha == one.n_rows * one.penalty.alpha == 5 * 0.1
