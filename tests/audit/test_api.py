"""One function audits estimators, solvers and functions."""

import functools

import numpy as np
import pytest

from discreet.audit import Attack, Verdict, audit, cases, run
from discreet.errors import NotSupported
from discreet.estimators import LinearSVC
from discreet.solvers import GD

SURE = 1 - 1e-7
"""Confidence of audits of real fits: whatever the seed, a false alarm is rarer than 1e-6."""

TABLES = (np.zeros(4), np.array([1.0, 0.0, 0.0, 0.0]))


def laplace(scale, seed=0):
    generator = np.random.default_rng(seed)

    def noisy_sum(table, count):
        return table.sum() + generator.laplace(scale=scale, size=(count, 1))

    return noisy_sum


@pytest.fixture(autouse=True)
def repeatable(monkeypatch):
    """Fits with seeds, so that what an audit of them finds is always the same."""
    for name in ("attacks", "attacks_on_estimator"):
        seeded = functools.partial(getattr(cases, name), seed=0)
        monkeypatch.setattr(cases, name, seeded)


# --- functions --------------------------------------------------------------------------------


def test_a_function_that_keeps_its_promise_is_consistent():
    found = audit(laplace(1.0), TABLES, epsilon=1.0, delta=0.0, trials=20_000)
    assert found.verdict is Verdict.CONSISTENT
    assert 0.8 < found.epsilon_bound <= 1
    assert (found.subject, found.relation) == ("noisy_sum", "as given")
    assert (found.pair, found.trials, found.confidence) == ("the caller's tables", 20_000, 0.999)


def test_a_function_that_breaks_its_promise_is_refuted():
    found = audit(
        laplace(0.5), TABLES, epsilon=1.0, delta=0.0, relation="add_remove", trials=10_000
    )
    assert found.verdict is Verdict.REFUTED
    assert 1 < found.epsilon_bound <= 2
    assert found.relation == "add_remove"


def test_few_trials_of_a_function_are_too_weak():
    found = audit(laplace(1.0), TABLES, epsilon=1.0, delta=1e-5, trials=200)
    assert found.verdict is Verdict.TOO_WEAK


def test_a_callable_object_is_named_by_its_class():
    class Mechanism:
        def __call__(self, table, count):
            return laplace(1.0)(table, count)

    found = audit(Mechanism(), TABLES, epsilon=1.0, delta=0.0, trials=200)
    assert found.subject == "Mechanism"


def test_progress_and_confidence_are_passed_on():
    seen = []
    found = audit(
        laplace(1.0),
        TABLES,
        epsilon=1.0,
        delta=0.0,
        trials=1000,
        confidence=0.9,
        progress=lambda done, of: seen.append((done, of)),
    )
    assert seen[-1] == (1000, 1000)
    assert seen == sorted(seen)
    assert found.confidence == 0.9


# --- solvers and estimators -------------------------------------------------------------------


def test_a_solver_by_name():
    found = audit("outpert", epsilon=2.0, delta=1e-3, trials=20_000, confidence=SURE)
    assert found.subject.startswith("outpert")
    assert (found.epsilon, found.delta) == (2.0, 1e-3)
    assert found.relation in ("add_remove", "replace_one")
    assert found.verdict is not Verdict.REFUTED
    assert found.epsilon_bound > 0.5
    assert found.trials == pytest.approx(20_000, rel=0.01)


def test_a_solver_object_and_the_usual_promise():
    found = audit(GD(2), relation="add_remove", trials=300, confidence=SURE)
    assert (found.subject, found.relation) == ("gd", "add_remove")
    assert (found.epsilon, found.delta) == (1.0, 1e-5)
    assert found.verdict is Verdict.TOO_WEAK


def estimator(**settings):
    settings = {"fit_intercept": False, "data_norm": 1.0, "alpha": 0.0, **settings}
    return LinearSVC(20.0, 0.05, solver=GD(1), **settings)


def test_an_estimator_on_the_built_in_pairs():
    found = audit(estimator(), trials=400, confidence=SURE)
    assert (found.subject, found.relation) == ("LinearSVC", "add_remove")
    assert (found.epsilon, found.delta) == (20.0, 0.05)
    assert found.verdict is not Verdict.REFUTED
    assert found.epsilon_bound > 0.5
    assert found.mu_bound > 0.5


def test_an_estimator_on_the_callers_tables():
    X = np.vstack([np.eye(2), -np.eye(2), np.eye(2)])
    y = np.array(["b", "a"] * 3) == "b"
    other = X.copy()
    other[2] = [1.0, 0.0]
    found = audit(
        estimator(relation="replace_one"),
        ((X, 2.0 * y - 1), (other, 2.0 * y - 1)),
        trials=400,
        confidence=SURE,
    )
    assert (found.pair, found.relation) == ("the caller's tables", "replace_one")
    assert found.trials == 400
    assert found.epsilon_bound > 0.5
    assert found.verdict is not Verdict.REFUTED


class Leaky(LinearSVC):
    """Spends twenty times the ε that it states."""

    def fit(self, X, y):
        stated, self.epsilon = self.epsilon, 20 * self.epsilon
        try:
            return super().fit(X, y)
        finally:
            self.epsilon = stated


def test_an_estimator_that_spends_more_than_it_says_is_refuted():
    model = Leaky(1.0, 0.01, solver=GD(1), fit_intercept=False, data_norm=1.0, alpha=0.0)
    found = audit(model, trials=600)
    assert found.verdict is Verdict.REFUTED
    assert found.subject == "Leaky"


# --- what cannot be audited -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"target": 3}, TypeError, "Cannot audit a int"),
        ({"target": laplace(1.0)}, ValueError, "needs neighbours"),
        ({"target": laplace(1.0), "neighbours": TABLES}, ValueError, "epsilon and delta"),
        ({"target": laplace(1.0), "epsilon": 1.0, "delta": 0.0}, ValueError, "neighbours="),
        (
            {"target": laplace(1.0), "neighbours": TABLES, "epsilon": 0.0, "delta": 0.0},
            ValueError,
            "epsilon must be",
        ),
        (
            {"target": laplace(1.0), "neighbours": TABLES, "epsilon": 1.0, "delta": 1.0},
            ValueError,
            "delta must be",
        ),
        ({"target": estimator(), "epsilon": 1.0}, ValueError, "its own guarantee"),
        ({"target": estimator(), "delta": 0.1}, ValueError, "its own guarantee"),
        ({"target": estimator(), "relation": "add_remove"}, ValueError, "its own guarantee"),
        ({"target": "gd", "neighbours": TABLES}, ValueError, r"LogisticRegression\(solver"),
        ({"target": GD(), "neighbours": TABLES}, ValueError, r"LogisticRegression\(solver"),
        ({"target": "gradient descent"}, NotSupported, "Known subjects: gd"),
        ({"target": "gd", "delta": 0.0}, NotSupported, "Its relations and conditions"),
        (
            {"target": estimator(), "neighbours": ((np.eye(2), [1, -1]), (np.eye(3), [1, -1, 1]))},
            ValueError,
            "number of rows is public",
        ),
    ],
)
def test_what_cannot_be_audited_is_refused_with_a_remedy(arguments, error, match):
    with pytest.raises(error, match=match):
        audit(**arguments)


@pytest.mark.parametrize("wrong", [{"trials": 99}, {"confidence": 1.0}, {"confidence": 0.4}])
def test_trials_and_confidence_have_a_range(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        audit(laplace(1.0), TABLES, epsilon=1.0, delta=0.0, **wrong)


# --- several pairs of tables ------------------------------------------------------------------


class Normal:
    """An attack on noise of deviation 1 whose worlds are ``apart``; counts runs."""

    def __init__(self, apart, seed):
        self.apart, self.runs, self.generator = apart, 0, np.random.default_rng(seed)

    def draw(self, world, count):
        self.runs += count
        return self.apart * world + self.generator.standard_normal((count, 1))

    def attack(self, pair):
        return Attack("noise", pair, 1.0, 0.01, "add_remove", self.draw)


def scouted(monkeypatch, gaps, **settings):
    sources = [Normal(gap, seed) for seed, gap in enumerate(gaps)]
    attacks = [source.attack(f"pair {k}") for k, source in enumerate(sources)]
    monkeypatch.setattr(cases, "attacks", lambda *_, **__: attacks)
    return audit("noise", **settings), [source.runs for source in sources]


@pytest.mark.parametrize("telling", [0, 1, 3])
def test_scouting_picks_the_telling_pair(telling, monkeypatch):
    gaps = [0.0, 0.3, 0.0, 0.3]
    gaps[telling] = 1.5
    found, runs = scouted(monkeypatch, gaps, trials=20_000)
    assert found.pair == f"pair {telling}"
    assert runs[telling] == max(runs) > 18_000
    assert found.verdict is Verdict.REFUTED


def test_scouting_runs_count_but_are_not_used_again(monkeypatch):
    found, runs = scouted(monkeypatch, [0.5, 1.5, 0.5], trials=9000)
    assert runs == [300, 300 + 8100, 300]
    assert found.trials == sum(runs) == 9000
    # the bound is that of the main part alone: of the same runs without scouting
    alone = Normal(1.5, 1)
    for world, count in ((0, 30), (1, 30), (0, 120), (1, 120)):
        alone.draw(world, count)
    again = run(alone.attack("pair 1"), trials=8100)
    assert found.epsilon_bound == again.epsilon_bound
    assert found.mu_bound == again.mu_bound


def test_pairs_that_show_nothing_certain_are_told_apart_by_rates(monkeypatch):
    # 200 runs certify nothing, but show which pair is more telling
    found, _ = scouted(monkeypatch, [0.0, 0.9, 0.0], trials=1200)
    assert found.pair == "pair 1"


def test_one_pair_needs_no_scouting(monkeypatch):
    found, runs = scouted(monkeypatch, [1.0], trials=1000)
    assert runs == [1000]
    assert found.trials == 1000


def test_few_trials_are_not_all_spent_on_scouting(monkeypatch):
    found, runs = scouted(monkeypatch, [0.0] * 5, trials=1200)
    assert runs[3:] == [0, 0]  # the first are the most telling
    assert found.trials == sum(runs) == 1200
