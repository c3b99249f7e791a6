"""Private tuning as a whole: what it returns and refuses, and an attack that does not refute it."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from discreet import LinearSVC, LogisticRegression
from discreet.audit.statistics import epsilon_bound
from discreet.core import Accountant, Budget, Gaussian, Guarantee
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.errors import NotSupported, PrivacyError, PrivacyLeakWarning
from discreet.rows import as_rows
from discreet.solvers import GD, describe, names, resolve
from discreet.tuning import (
    GRIDS,
    Plan,
    check_tunable,
    search,
    solver_with,
    tune,
)

DELTA = 1e-6
ALPHA = 1e-6  # false-alarm probability of each statistical test below


# -- tuning


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 4))
    y = (X[:, 0] + 0.3 * rng.normal(size=3000) > 0).astype(int)
    return X, y


def logistic(solver, **more):
    def make(setting, budget):
        return LogisticRegression(
            budget.epsilon,
            budget.delta,
            relation=str(budget.relation),
            solver=solver_with(solver, setting),
            classes=[0, 1],
            data_norm=1.0,
            **more,
        )

    return make


ASKED = {"epsilon": 2.0, "delta": DELTA, "relation": "add_remove"}
STEPS = ({"iterations": 10, "step_size": 1e-5}, {"iterations": 10, "step_size": 20.0})


def test_the_better_setting_wins_and_the_guarantee_is_that_of_the_whole(table):
    won = 0
    for _ in range(6):
        before = logistic("gd")(STEPS[1], Budget(**ASKED)).fit(*table).guarantee_.earlier_fits
        tuned = tune(
            *table, grid=STEPS, make=logistic("gd"), law="geometric", expected_runs=20, **ASKED
        )
        assert tuned.model.guarantee_ is tuned.guarantee
        assert tuned.runs is None
        # what was counted before the first run, whichever of them won
        assert tuned.guarantee.earlier_fits == before + 1
        won += tuned.setting == STEPS[1]
    # never drawn, hence lost, with probability below 0.05 each: all six lost in 2e-8 of cases
    assert won >= 1
    guarantee = tuned.guarantee
    assert (guarantee.epsilon, guarantee.delta) == (2.0, DELTA)
    assert guarantee.secure
    assert guarantee.recompute() == pytest.approx(2.0, rel=1e-4)
    assert "the best of a secret, random number of runs" in guarantee.explain()
    assert tuned.model.score(*table) > 0.6
    again = Guarantee.from_dict(guarantee.to_dict())
    assert again.to_dict() == guarantee.to_dict()


def test_a_seed_repeats_everything_and_says_so(table):
    with pytest.warns(PrivacyLeakWarning, match="test mode"):
        one = tune(*table, grid=STEPS, make=logistic("gd"), random_state=7, **ASKED)
    with pytest.warns(PrivacyLeakWarning):
        two = tune(*table, grid=STEPS, make=logistic("gd"), random_state=7, **ASKED)
    assert one.runs == two.runs >= 1
    assert one.setting == two.setting
    np.testing.assert_array_equal(one.model.coef_, two.model.coef_)
    assert not one.guarantee.secure


@pytest.mark.parametrize("base", GRIDS)
def test_every_grid_makes_solvers_that_keep_their_part(base, table):
    X, y = table[0][:300], table[1][:300]
    relation = "replace_one" if base == "permutation-sgd" else "add_remove"
    asked = ASKED | {"relation": relation}
    small = [
        setting | ({"generations": 20} if base == "privgene" else {}) for setting in GRIDS[base]
    ]
    tuned = tune(X, y, grid=small, make=logistic(base), expected_runs=1.5, **asked)
    assert tuned.setting in small
    assert 6 <= len(GRIDS[base]) <= 12


def test_several_classes_are_scored_by_their_largest_score():
    rng = np.random.default_rng(2)
    X = np.repeat(np.eye(3), 700, axis=0) + 0.1 * rng.normal(size=(2100, 3))
    y = np.repeat(["a", "b", "c"], 700)

    def make(setting, budget):
        return LinearSVC(
            budget.epsilon,
            budget.delta,
            relation=str(budget.relation),
            solver=GD(**setting),
            classes=["a", "b", "c"],
            data_norm=2.0,
        )

    tuned = tune(X, y, grid=STEPS, make=make, law="geometric", expected_runs=20, **ASKED)
    model = tuned.model
    rows = as_rows(X, np.zeros(len(y)), fit_intercept=False, row_norm=2.0)
    assert search._correct(model, rows, y) == np.count_nonzero(model.predict(X) == y)


def test_one_row_moves_the_count_by_one_at_most_even_at_ties(table):
    """Margins of some rows are zero but for rounding; another row must not tip them."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(301, 7))
    w = rng.normal(size=7)
    X[::3] -= np.outer(X[::3] @ w / (w @ w), w)
    y = rng.integers(0, 2, 301)
    model = SimpleNamespace(coef_=w[None], intercept_=np.zeros(1), classes_=np.array([0, 1]))

    def count(X, y):
        rows = as_rows(np.ascontiguousarray(X), np.zeros(len(y)), fit_intercept=False)
        return search._correct(model, rows, y)

    whole = count(X, y)
    for i in range(0, 301, 7):
        without = count(np.delete(X, i, axis=0), np.delete(y, i))
        assert 0 <= whole - without <= 1
        other_X, other_y = X.copy(), y.copy()
        other_X[i], other_y[i] = rng.normal(size=7), 1 - y[i]
        assert abs(count(other_X, other_y) - whole) <= 1


# -- refusals


@pytest.mark.parametrize("name", ["objpert", "amp", "amp-hf", "sgd", "sgd-adv", "sgd-ma", "rrpsgd"])
def test_methods_without_a_renyi_curve_are_refused_with_the_reason(name, table):
    with pytest.raises(NotSupported, match=f"'{name}' cannot be tuned privately: it is accounted"):
        tune(*table, grid=[{}, {}], make=logistic(name), **ASKED)


def test_every_solver_is_either_tunable_or_refused():
    refused = set()
    for name in names():
        if describe(name).package != "discreet":
            continue
        try:
            check_tunable(resolve(name))
        except NotSupported:
            refused.add(name)
    assert {"nonprivate", "majority"} <= refused
    assert not refused & set(GRIDS)


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"accountant": Accountant()}, PrivacyError, "accountant=None"),
        ({"progress": print}, PrivacyError, "progress=None"),
        ({"random_state": 0}, PrivacyError, "give it to tune"),
        ({"preparation": ()}, None, ""),
    ],
)
def test_what_would_show_other_runs_is_refused(more, error, words, table):
    make = logistic("gd", **more)
    if error is None:
        assert tune(*table, grid=STEPS, make=make, **ASKED).setting in STEPS
        return
    with pytest.raises(error, match=words):
        tune(*table, grid=STEPS, make=make, **ASKED)


def test_wrong_use_is_refused_before_a_row_is_read(table):
    unread = np.full((5, 2), np.nan), np.array([0, 1, 0, 1, 0])
    with pytest.raises(ValueError, match="two settings or more"):
        tune(*unread, grid=STEPS[:1], make=logistic("gd"), **ASKED)
    with pytest.raises(NotSupported, match="delta > 0"):
        tune(*unread, grid=STEPS, make=logistic("gd"), **(ASKED | {"delta": 0.0}))
    with pytest.raises(ValueError, match="iterations"):
        tune(*unread, grid=[*STEPS, {"iterations": -1}], make=logistic("gd"), **ASKED)

    def greedy(setting, budget):
        return LogisticRegression(2 * budget.epsilon, budget.delta, solver=GD(**setting))

    with pytest.raises(PrivacyError, match="must pass on the budget"):
        tune(*unread, grid=STEPS, make=greedy, **ASKED)

    def automatic(setting, budget):
        return LogisticRegression(budget.epsilon, budget.delta, data_norm=1.0)

    with pytest.raises(NotSupported, match="row by row"):
        tune(*unread, grid=STEPS, make=automatic, **ASKED)


# -- an attack on the whole


class Teller:
    """One Gaussian release that says, as well as its budget allows, what the only row's label is.

    It predicts what it believes, so its score tells the label once more: the worst case of a run.
    """

    solver, preparation, accountant, progress, random_state = "agd", None, None, None, None
    row_norm_, classes_ = None, np.array([0, 1])
    factor = 1.0  # of the cost that it owns up to

    def __init__(self, budget):
        self.epsilon, self.delta, self.relation = budget.epsilon, budget.delta, budget.relation

    def check_settings(self):
        """Nothing can be wrong."""

    def fit(self, X, y):
        rho = Budget(self.epsilon, self.delta, self.relation).to_zcdp().rho
        mechanism = Gaussian.from_rho(rho * (1 - 1e-9))
        bits = SeededBits(self.random_state)
        (told,), _ = mechanism.release(
            np.array([float(y[0]) - 0.5]), sensitivity=1.0, magnitude=1.0, noise=Noise(bits)
        )
        self.coef_, self.intercept_ = np.zeros((1, 1)), np.array([told])
        self.guarantee_ = Guarantee(
            self.epsilon, self.delta, self.relation, "zcdp", self.factor * rho, None,
            (), (), False, (),
        )  # fmt: skip
        return self


TOLD = {"epsilon": 0.5, "delta": 0.01, "relation": "replace_one"}


def told(label, runs, first):
    """How often the released run believes in 1 if the label is this."""
    yes = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        for seed in range(first, first + runs):
            tuned = tune(
                np.zeros((1, 1)), np.array([label]), grid=[{}, {}],
                make=lambda setting, budget: Teller(budget),
                expected_runs=5.0, random_state=seed, **TOLD,
            )  # fmt: skip
            yes += tuned.model.intercept_[0] > 0
    return yes


def certified(runs):
    """The ε that the attack certifies, and how often it was right in each world."""
    yes, wrong = told(1, runs, 0), told(0, runs, 10**6)
    bound = float(epsilon_bound(yes, wrong, runs, delta=TOLD["delta"], alpha=ALPHA))
    return bound, yes, wrong


def test_an_attack_on_the_worst_case_does_not_refute_the_promise():
    """The event is fixed in advance; a true promise is refuted with probability below 1e-6."""
    bound, yes, wrong = certified(250)
    assert yes > wrong  # the attack does see something
    assert bound <= TOLD["epsilon"]


def test_the_same_attack_refutes_exact_scores_and_the_price_of_one_run(monkeypatch):
    """Scores without noise, and runs that may each spend all of ε."""
    monkeypatch.setattr(search, "largest_rho", lambda law, budget: budget.to_zcdp().rho)
    monkeypatch.setattr(search, "_noisy_score", lambda mechanism, correct, bits: float(correct))
    monkeypatch.setattr(Plan, "__post_init__", lambda self: None)
    assert certified(150)[0] > TOLD["epsilon"]


def test_a_fit_that_spends_more_than_planned_releases_nothing(monkeypatch):
    monkeypatch.setattr(Teller, "factor", 1.01)
    with pytest.raises(PrivacyError, match="Nothing was released"):
        told(1, 1, 0)
