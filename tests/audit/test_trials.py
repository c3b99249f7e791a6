"""Fast trials are the same trials: many copies in a fit, and many noises on one result.

The outputs of a fast way are compared with those of single fits by two-sample Kolmogorov-Smirnov
tests of six numbers: two weights, two more projections, and two that depend on both weights. Each
test has a false alarm with probability 1e-7, a comparison with at most 6e-7; seeds are fixed.
The same tests must detect half of the noise and a wrong penalty.
"""

import functools
import itertools
import math
import sys
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp, spearmanr

from discreet.audit import Verdict, attacks, run, trials
from discreet.audit.pairs import Pair, worst_cases
from discreet.audit.recipes import LONG, RECIPES
from discreet.audit.trials import (
    COPIES as MANY,
)
from discreet.audit.trials import (
    NotSeparable,
    Setting,
    fastest_way,
    fits,
    one_by_one,
    one_result,
    released_numbers,
    side_by_side,
    trace_numbers,
)
from discreet.core import Account, Budget, Curator, Gaussian, Relation
from discreet.core.questions import Gradient, RowSum
from discreet.estimators import LogisticRegression
from discreet.objectives import Logistic
from discreet.preparation import Centre, Radius, Scale
from discreet.rows import as_rows
from discreet.rows.moments import row_sum
from discreet.rows.sums import gradient_sum
from discreet.solvers import (
    AMP,
    AMPHF,
    GD,
    ObjPert,
    OutPert,
    Solution,
    Solver,
    TraceEntry,
    resolve,
)

from .internals import Noise, SeededBits, cached_calibration

RELATIONS = (Relation.ADD_REMOVE, Relation.REPLACE_ONE)
FALSE_ALARM = 1e-7  # of one test; six make a comparison
ALONE, FAST, COPIES = 200, 2000, 200

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


def batches(name, calibration="tight"):
    return replace(resolve(name), calibration=calibration, **BATCHES)


BOTH = (GD(3, step_size=2.0, averaging=0.7), batches("sgd"), ObjPert(), AMP())
OTHERS = (
    batches("sgd", "published"),
    batches("sgd-adv", "published"),
    batches("sgd-ma", "published"),
    ObjPert("published"),
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


SIDE_CASES = [
    *(Case(solver, relation) for solver in BOTH for relation in RELATIONS),
    *(Case(solver, RELATIONS[k % 2]) for k, solver in enumerate(OTHERS)),
]
GRADIENT_CASES = SIDE_CASES[:4]
REPEATED_CASES = [
    *(Case(REPEATED[0], relation) for relation in RELATIONS),
    Case(REPEATED[0], Relation.ADD_REMOVE, delta=0.0),
    Case(REPEATED[1], Relation.REPLACE_ONE),
]


@pytest.fixture(autouse=True, scope="module")
def _calibrated_once():
    with cached_calibration():
        yield


@functools.cache
def alone(case):
    return weights_alone(case.setting(1), case.world, ALONE)


def weights_alone(setting, world, count):
    outputs = one_by_one(setting, world, count)
    return outputs[:, : setting.problem().n_parameters]


def statistics(outputs, centre):
    first, second = (outputs - centre).T
    return (first, second, first + second, first - second, first * second, first**2 + second**2)


@functools.cache
def centre(case):
    """Some point amid the outputs, from runs that are not used again."""
    return weights_alone(case.setting(3), case.world, 30).mean(axis=0)


def smallest_p(case, outputs):
    """The smallest p-value of the six comparisons with fits one by one."""
    assert outputs.shape == (FAST, 2)
    ours, theirs = (statistics(sample, centre(case)) for sample in (alone(case), outputs))
    return min(ks_2samp(a, b, method="asymp").pvalue for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("case", SIDE_CASES, ids=str)
def test_copies_side_by_side_agree_with_fits_one_by_one(case):
    outputs = side_by_side(case.setting(2), case.world, FAST)
    assert smallest_p(case, outputs) > FALSE_ALARM
    assert len(np.unique(outputs, axis=0)) == FAST  # no run is repeated


@pytest.mark.parametrize("case", REPEATED_CASES, ids=str)
def test_one_result_with_many_noises_agrees_with_fits_one_by_one(case):
    outputs = one_result(case.setting(2), case.world, FAST)
    assert smallest_p(case, outputs) > FALSE_ALARM
    assert len(np.unique(outputs, axis=0)) == FAST


@pytest.mark.parametrize("case", [*SIDE_CASES[::2], *REPEATED_CASES[1:]], ids=str)
def test_the_comparison_sees_half_of_the_noise(case, monkeypatch):
    for runs_with_all_of_it in (alone, centre):
        runs_with_all_of_it(case)
    for name in ("gaussian", "l2_norm"):
        monkeypatch.setattr(Noise, name, halved(getattr(Noise, name)))
    setting = case.setting(2)
    way = one_result if case in REPEATED_CASES else side_by_side
    assert smallest_p(case, way(setting, case.world, FAST)) < FALSE_ALARM


def halved(draw):
    return lambda self, size, scale, *rest: draw(self, size, scale / 2, *rest)


@pytest.mark.parametrize("case", GRADIENT_CASES, ids=str)
def test_means_over_all_copies_are_refused(case, monkeypatch):
    """A problem with the rows of all copies would have smaller mean gradients: not the same fit."""

    def all_rows(setting, copies):
        one = setting.problem()
        wide = replace(one, n_rows=copies * one.n_rows, n_features=copies * one.n_features)
        return setting.solver, wide

    monkeypatch.setattr(trials, "_widened", all_rows)
    with pytest.raises(NotSeparable):
        side_by_side(case.setting(2), case.world, FAST)


@pytest.mark.parametrize(
    "case", [case for case in SIDE_CASES if case.solver in (ObjPert(), AMP())], ids=str
)
def test_the_comparison_sees_a_penalty_that_is_not_scaled(case):
    setting = case.setting(2, alpha=0.1 * COPIES)
    assert smallest_p(case, side_by_side(setting, case.world, FAST)) < FALSE_ALARM


def test_the_comparison_sees_dependence_between_weights():
    case = REPEATED_CASES[0]
    outputs = one_result(case.setting(2), case.world, FAST)
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


@pytest.mark.parametrize("case", SIDE_CASES, ids=str)
def test_without_noise_every_copy_ends_where_a_fit_alone_does(case, asked):
    solver = case.solver
    if getattr(solver, "batch_size", None):
        solver = replace(solver, batch_size=len(Y))  # every row is in every batch: no luck
    if hasattr(solver, "unsafe"):
        solver = replace(solver, unsafe=True)
    epsilon = 1.0 if case.relation is Relation.ADD_REMOVE else 8.0
    budget = Budget(epsilon, case.delta, case.relation)
    setting = case.setting(1, solver=solver, budget=budget)
    single = weights_alone(setting, case.world, 1)
    wanted = list(asked)
    asked.clear()
    outputs = side_by_side(setting, case.world, MANY, copies=MANY)
    # noise that hides rounding is tiny and may grow with the table
    np.testing.assert_allclose(asked[: len(wanted)], wanted, rtol=1e-6, atol=1e-3 * max(wanted))
    rough = isinstance(solver, (AMP, AMPHF)) and solver.calibration == "published"
    np.testing.assert_allclose(outputs, np.tile(single, (MANY, 1)), atol=0.05 if rough else 1e-5)


@pytest.mark.parametrize("case", REPEATED_CASES, ids=str)
def test_without_noise_every_repeat_is_the_fit(case, asked):
    single = weights_alone(case.setting(1), case.world, 1)
    outputs = one_result(case.setting(1), case.world, 5)
    np.testing.assert_allclose(outputs, np.tile(single, (5, 1)), rtol=1e-6)
    np.testing.assert_allclose(asked, asked[0], rtol=1e-6)


@pytest.mark.parametrize("solver", [GD(3, step_size=2.0), ObjPert(), OutPert(iterations=5)])
def test_a_table_that_lacks_a_row_is_told_the_public_number(solver, asked):
    case = Case(solver, Relation.ADD_REMOVE)
    nothing = (np.vstack([np.zeros(2), X[1:]]), Y)
    zeros = Pair("zeros", Relation.ADD_REMOVE, (nothing, (X, Y)), np.array([1.0, 0.0]))
    lacking = weights_alone(case.setting(1), 0, 1)
    scales = list(asked)
    standing = weights_alone(case.setting(1, pair=zeros), 0, 1)
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


@pytest.mark.parametrize("solver", [GD(3, step_size=2.0), batches("sgd"), ObjPert(), AMP()])
def test_neighbouring_copies_are_independent(solver):
    setting = Case(solver, Relation.REPLACE_ONE).setting(5)
    outputs = side_by_side(setting, 1, 4000, copies=20)
    assert np.abs(dependence(outputs, 20)).max() < FAR


def test_copies_that_would_share_the_norm_of_noise_are_refused():
    setting = Case(ObjPert(ridge=20.0), Relation.ADD_REMOVE, 0.5, 0.0).setting(5)
    with pytest.raises(NotSeparable, match="norm of pure noise"):
        side_by_side(setting, 1, 10, copies=2)


def fit_of(setting, tables):
    """One fit of a table with these tables side by side, as `side_by_side` does."""
    copies = len(tables)
    solver, problem = trials._widened(setting, copies)
    wide = sp.block_diag([sp.csr_array(table) for table, _ in tables], format="csr")
    rows = as_rows(wide, np.concatenate([y for _, y in tables]), fit_intercept=False, row_norm=1.0)
    (stream,) = setting.bits.spawn(1)
    curator = Curator(rows, Account(setting.budget), Noise(stream), n_rows=problem.n_rows)
    plan = solver.plan(problem, setting.budget)
    return solver.solve(problem, curator, plan).weights.reshape(copies, -1)


@pytest.mark.parametrize("solver", [GD(3, step_size=2.0), batches("sgd")])
def test_a_copy_does_not_move_when_another_one_changes(solver):
    case = Case(solver, Relation.REPLACE_ONE)
    without, with_row = PAIRS[Relation.REPLACE_ONE]
    same = fit_of(case.setting(6), [with_row] * 10)
    np.testing.assert_array_equal(same, side_by_side(case.setting(6), 1, 10, copies=10))
    mixed = fit_of(case.setting(6), [with_row, without] * 5)
    np.testing.assert_array_equal(mixed[0::2], same[0::2])
    assert not np.array_equal(mixed[1::2], same[1::2])


# --- shapes, seeds and numbers ----------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 7, 450])
def test_as_many_trials_as_were_asked_for(count):
    setting = Case(BOTH[0], Relation.ADD_REMOVE).setting(0)
    for world in (0, 1):
        outputs = side_by_side(setting, world, count)
        assert outputs.shape == (count, 2)
        assert len(np.unique(outputs)) == outputs.size


@pytest.mark.parametrize(
    ("solver", "way"), [(BOTH[0], side_by_side), (REPEATED[0], one_result), (BOTH[0], one_by_one)]
)
def test_seeds_repeat_and_calls_do_not(solver, way):
    case = Case(solver, Relation.REPLACE_ONE)
    one, again = case.setting(4), case.setting(4)
    first, second = way(one, 0, 20), way(one, 0, 20)
    np.testing.assert_array_equal(first, way(again, 0, 20))
    assert not np.isin(first[:, :2], second[:, :2]).any()


def test_copies_would_share_an_intercept():
    pair = next(pair for pair in worst_cases(Relation.REPLACE_ONE, norm=1.0) if pair.fit_intercept)
    setting = Case(BOTH[0], Relation.REPLACE_ONE).setting(0, pair=pair)
    with pytest.raises(NotSeparable, match="share an intercept"):
        side_by_side(setting, 0, 10)


def test_fits_one_by_one_put_out_weights_and_trace():
    setting = Case(GD(3, step_size=2.0), Relation.ADD_REMOVE).setting(7)
    everything = one_by_one(setting, 1, 4)
    again = Case(GD(3, step_size=2.0), Relation.ADD_REMOVE).setting(7)
    plan = again.plan()
    for row, stream in zip(everything, again.bits.spawn(4), strict=True):
        curator = again.curator(Curator, again.rows(1), stream, plan)
        solution = again.solver.solve(again.problem(), curator, plan)
        np.testing.assert_array_equal(row, [*solution.weights, *trace_numbers(solution.trace)])
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


def test_the_penalty_on_the_sum_stays_that_of_one_copy():
    for solver, rows in ((GD(), 5), (ObjPert(), 40)):  # means are over one copy, sums over all
        setting = Case(solver, Relation.ADD_REMOVE).setting(0)
        one, (_, many) = setting.problem(), trials._widened(setting, 8)
        assert (many.n_rows, many.n_features) == (rows, 16)
        assert many.n_rows * many.penalty.alpha == one.n_rows * one.penalty.alpha == 5 * 0.1


# --- ways are found by behaviour --------------------------------------------------------------


@dataclass(frozen=True)
class Plug(Solver):
    """A third-party solver, noisy descent or one noisy mean, with a peculiarity ``kind``."""

    kind: str = "descent"

    name: ClassVar[str] = "plug"
    needs_delta: ClassVar[bool] = True
    composes: ClassVar = ("gdp",)

    def solve(self, problem, curator, plan, progress=None):
        total = curator.open("gdp")
        if "release" in self.kind:
            return Solution(self.release(problem, curator, total), (), ())
        widths = {"longer": 2, "longer on wide tables": 100}
        count = 6 if problem.n_parameters > widths.get(self.kind, math.inf) else 4
        mechanism = Gaussian(math.sqrt(count / total) * (1 + 1e-9))
        weights = np.zeros(problem.n_parameters)
        if self.kind == "own randomness":
            weights = np.random.default_rng().normal(size=weights.size)
        if self.kind == "other question":
            means = curator.ask(RowSum(curator.row_norm), mechanism).values / problem.n_rows
            weights = weights + means
            count -= 1
        if "together" in self.kind:
            first = Gradient(problem.loss, weights, clip=1.0)
            second = RowSum(curator.row_norm) if self.kind.startswith("other") else first
            answers = curator.ask_all([(first, mechanism), (second, mechanism)])
            weights = weights - sum(answer.values for answer in answers) / problem.n_rows
            count -= 2
        for _ in range(count):
            noisy = curator.ask(Gradient(problem.loss, weights, clip=1.0), mechanism)
            step = noisy.values / problem.n_rows
            if self.kind == "norm":
                step = step / np.linalg.norm(step)
            if self.kind == "step by width":
                step = step / problem.n_parameters
            weights = weights - step
        if self.kind == "leak":
            exact = gradient_sum(curator._rows, 0 * weights, problem.loss, 1.0).values
            weights = weights - exact
        if self.kind == "sorted":
            weights = np.sort(weights)
        return Solution(weights, (), ())

    def release(self, problem, curator, total):
        def mean(rows):
            values = row_sum(rows).values / problem.n_rows
            if self.kind == "random release":
                values = values + np.random.default_rng().normal(size=values.size)
            return values

        noisy = curator.release(
            mean,
            size=problem.n_parameters,
            sensitivity=3 / problem.n_rows,
            proven_for=curator.relation,
            magnitude=10.0,
            mechanism=Gaussian(math.sqrt(1 / total) * (1 + 1e-9)),
        )
        return noisy / np.linalg.norm(noisy) if self.kind == "scaled release" else noisy


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("descent", "side by side"),
        ("leak", "side by side"),
        ("gradients together", "side by side"),
        ("release", "one result"),
        ("norm", "one by one"),
        ("step by width", "one by one"),
        ("longer", "one by one"),
        ("longer on wide tables", "one by one"),
        ("sorted", "one by one"),
        ("own randomness", "one by one"),
        ("other question", "one by one"),
        ("other question together", "one by one"),
        ("scaled release", "one by one"),
        ("random release", "one by one"),
    ],
)
@pytest.mark.parametrize("relation", RELATIONS)
def test_ways_follow_from_behaviour(kind, way, relation):
    assert fastest_way(Case(Plug(kind), relation).setting(1)) == way


def test_ways_of_recipes_are_those_of_their_solvers():
    for name, recipes in RECIPES.items():
        for recipe, relation in itertools.product(recipes, type(recipes[0].solver).relations):
            pair = worst_cases(
                relation,
                norm=recipe.row_norm or LONG,
                n_features=recipe.n_features,
                regression=recipe.loss.task == "regression",
            )[0]
            budget = Budget(0.9, 1e-3, relation)
            setting = Setting(
                recipe.solver, recipe.loss, recipe.alpha, recipe.row_norm, budget, pair
            )
            assert fastest_way(setting) == recipe.way, name


def test_a_solver_of_another_package_is_as_fast_as_ours(monkeypatch):
    """The example package's descent: all pairs without an intercept are run many at once."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "example_package" / "src"))
    from discreet_example import NoisyDescent

    found = attacks(NoisyDescent(iterations=3), epsilon=1.0, delta=1e-3, seed=0)
    batched = {attack.pair for attack in found if attack.batched}
    assert batched == {attack.pair for attack in found if "intercept" not in attack.pair}
    assert run(found[0], trials=40_000).verdict is Verdict.CONSISTENT
    case = Case(NoisyDescent(iterations=3, step_size=2.0), Relation.ADD_REMOVE)
    assert smallest_p(case, side_by_side(case.setting(2), 0, FAST)) > FALSE_ALARM
    monkeypatch.delitem(sys.modules, "discreet_example")


def test_fast_trials_still_show_a_leak():
    (attack, *_) = attacks(Plug("leak"), epsilon=1.0, delta=1e-3, seed=0)
    assert attack.batched
    assert run(attack, trials=10_000).verdict is Verdict.REFUTED


def test_dependence_that_shows_only_later_is_refused():
    class Later(Plug):
        depends: ClassVar[bool] = False

        def solve(self, problem, curator, plan, progress=None):
            solution = super().solve(problem, curator, plan)
            factor = 2.0 if Later.depends and problem.n_parameters > 2 else 1.0
            return replace(solution, weights=factor * solution.weights)

    setting = Case(Later(), Relation.REPLACE_ONE).setting(1)
    assert fastest_way(setting) == "side by side"
    Later.depends = True
    with pytest.raises(NotSeparable, match="replayed"):
        side_by_side(setting, 0, 20)


# --- whole estimators -------------------------------------------------------------------------

PAIR = worst_cases("replace_one", norm=1.0, n_units=30, same_height=True)[0]


def model(**settings):
    settings = {"solver": "gd", "fit_intercept": False, "random_state": 0, **settings}
    return LogisticRegression(2.0, 1e-3, **settings)


@pytest.mark.filterwarnings("ignore")
def test_weights_come_first_then_the_trace():
    fitted = model(fit_intercept=True).fit(*PAIR.tables[1])
    numbers = released_numbers(fitted)
    np.testing.assert_array_equal(numbers[:2], fitted.coef_.ravel())
    assert numbers[2] == fitted.intercept_.item()
    np.testing.assert_array_equal(numbers[4:], trace_numbers(fitted.trace_))
    assert numbers[4] == len(fitted.trace_) > 0


@pytest.mark.filterwarnings("ignore")
def test_which_solver_was_chosen_is_in_it():
    chosen = [
        released_numbers(model(solver=name).fit(*PAIR.tables[1]))[3] for name in ("gd", "sgd")
    ]
    assert chosen[0] != chosen[1]


@pytest.mark.filterwarnings("ignore")
def test_what_a_preparation_learned_is_in_it():
    steps = (Radius(), Centre(), Scale())
    fitted = model(preparation=steps, solver="gd").fit(*PAIR.tables[1])
    numbers = released_numbers(fitted)
    radius, centre, scale = fitted.preparation_
    before = 4 + len(trace_numbers(fitted.trace_))
    learned = numbers[before:]
    assert learned[0] == radius.radius
    np.testing.assert_array_equal(learned[1:3], centre.mean)
    for value in (*scale.weights, centre.deviation, centre.row_norm, scale.row_norm):
        assert value in learned
    assert np.isfinite(numbers).all()


def test_texts_and_flags_of_a_preparation_are_left_out():
    @dataclass
    class Step:
        number: float
        vector: np.ndarray
        count: int
        flag: bool
        word: str
        columns: tuple

    step = Step(4.0, np.array([5.0, 6.0]), 7, True, "eight", (9,))
    fake = SimpleNamespace(
        coef_=np.array([[1.0, 2.0]]), intercept_=3.0, preparation_=(step, "no step")
    )
    assert released_numbers(fake).tolist() == [1, 2, 3, 0, 0, 4, 5, 6, 7]


def test_models_without_a_trace_or_preparation_have_weights():
    fake = SimpleNamespace(coef_=np.array([[1.0], [2.0]]), intercept_=np.array([3.0, 4.0]))
    assert released_numbers(fake).tolist() == [1, 2, 3, 4, 0, 0]


def test_draws_are_fits_of_copies_with_seeds_in_turn():
    estimator = model()
    outputs = fits(estimator, PAIR, itertools.count(7), 1, 3)
    assert not hasattr(estimator, "coef_")
    assert estimator.random_state == 0
    for seed, row in zip((7, 8, 9), outputs, strict=True):
        with pytest.warns():  # seeds are for tests
            alone = model(random_state=seed).fit(*PAIR.tables[1])
        np.testing.assert_array_equal(row, released_numbers(alone))
    assert len(np.unique(outputs[:, 0])) == 3


def test_worlds_are_the_two_tables_and_calls_go_on_with_new_seeds():
    seeds = itertools.count(0)
    first, second = (fits(model(), PAIR, seeds, 0, 2) for _ in range(2))
    assert not np.isin(first[:, :2], second[:, :2]).any()
    other = fits(model(), PAIR, itertools.count(0), 1, 2)
    # the same noise, another table: the projection on the changed row moves, and up
    assert ((other - first)[:, :2] @ PAIR.direction > 0).all()


def test_without_seeds_an_estimator_is_as_it_is_in_use(recwarn):
    fresh = fits(model(random_state=None), PAIR, None, 1, 4)
    assert len(np.unique(fresh[:, 0])) == 4
    fixed = fits(model(random_state=3), PAIR, None, 1, 2)
    np.testing.assert_array_equal(fixed[0], fixed[1])  # its own setting is kept
    assert not recwarn.list  # tiny tables are meant
