"""Private tuning as a whole: what it returns and refuses, and an attack that does not refute it."""

import logging
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chi2, kstest
from sklearn.exceptions import DataConversionWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from discreet import Ledger, LinearRegression, LinearSVC, LogisticRegression, Radius, Scale, Whiten
from discreet.audit.statistics import epsilon_bound
from discreet.core import Budget, Gaussian, Guarantee, Relation
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import NoisySum, Public
from discreet.core.score_questions import CorrectCount
from discreet.errors import BudgetExceeded, NotSupported, PrivacyError, PrivacyLeakWarning
from discreet.estimators.scoring import classified_rows
from discreet.preparation import FeatureMap
from discreet.rows.sums import Sum
from discreet.solvers import GD, describe, names, resolve
from discreet.tuning import GRIDS, candidates, check_tunable, search, solver_grid, tune
from discreet.tuning.candidates import law_of, planned
from discreet.tuning.laws import Poisson
from discreet.tuning.runs import RunBudget

DELTA = 1e-6
ALPHA = 1e-6  # false-alarm probability of each statistical test below


# -- tuning


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 4))
    y = (X[:, 0] + 0.3 * rng.normal(size=1500) > 0).astype(int)
    return X, y


def logistic(solver="gd", **more):
    given = {"epsilon": 2.0, "delta": DELTA, "classes": [0, 1], "data_norm": 1.0} | more
    return LogisticRegression(solver=solver, **given)


STEPS = (
    {"solver": GD(iterations=10, step_size=1e-5)},
    {"solver": GD(iterations=10, step_size=20.0)},
)


SKEWED, EVEN = ({"class_weight": {0: weight, 1: 1.0}} for weight in (0.01, 1.0))
"""A setting by which nearly all rows are of one class, and one that knows both."""


def exact_scores(monkeypatch):
    """Release scores without noise; returns a list of the mechanisms and scores to come."""
    scored = []

    def spied(question, exact, mechanism, public, noise):
        scored.append((mechanism, exact.values[0]))
        return NoisySum(exact.values, 0.0, mechanism)

    monkeypatch.setattr(CorrectCount, "release", spied)
    return scored


def correct(model, X, y):
    """Return the exact number of correct predictions."""
    return CorrectCount().on(classified_rows(model, X, y)).values[0]


def test_the_better_setting_wins_and_the_guarantee_covers_all(table):
    won = 0
    for _ in range(7):
        before = logistic().set_params(**EVEN).fit(*table).guarantee_.earlier_fits
        tuned = tune(logistic(), *table, grid=(SKEWED, EVEN), law="geometric", expected_runs=8)
        assert tuned.model.guarantee_ is tuned.guarantee
        assert tuned.runs is None
        # what was counted before the first run, whichever of them won
        assert tuned.guarantee.earlier_fits == before + 1
        won += tuned.setting == EVEN
    # never drawn, hence lost, with probability below 0.12 each: all seven lost in 4e-7 of cases
    assert won >= 1
    guarantee = tuned.guarantee
    assert (guarantee.epsilon, guarantee.delta) == (2.0, DELTA)
    assert guarantee.secure
    assert guarantee.recompute() == pytest.approx(2.0, rel=1e-4)
    assert any("the best of a secret, random number of runs" in c for c in guarantee.conditions)
    assert "the grid of 2 settings" in guarantee.public
    assert tuned.model.score(*table) > 0.6
    again = Guarantee.from_dict(guarantee.to_dict())
    assert again.to_dict() == guarantee.to_dict()


def test_a_seed_repeats_everything_and_says_so(table):
    with pytest.warns(PrivacyLeakWarning, match="test mode"):
        one = tune(logistic(), *table, grid=STEPS, random_state=7)
    with pytest.warns(PrivacyLeakWarning):
        two = tune(logistic(), *table, grid=STEPS, random_state=7)
    assert one.runs == two.runs >= 1
    assert one.setting == two.setting
    np.testing.assert_array_equal(one.model.coef_, two.model.coef_)
    assert not one.guarantee.secure


@pytest.mark.parametrize("base", GRIDS)
def test_every_grid_makes_solvers_that_keep_their_part(base, table):
    relation = "replace_one" if base == "permutation-sgd" else "add_remove"
    small = solver_grid(base)
    if base == "privgene":
        small = [{"solver": type(resolve(base))(generations=20, mutation=m)} for m in (1.0, 3.0)]
    X, y = table[0][:300], table[1][:300]
    tuned = tune(logistic(base, relation=relation), X, y, grid=small, expected_runs=1.5)
    assert tuned.setting in small
    assert 6 <= len(GRIDS[base]) <= 12


def test_the_default_grid_is_that_of_the_solver(table):
    assert tune(logistic("gd"), *table, expected_runs=1.1).setting in solver_grid("gd")
    assert tune(logistic(GD()), *table, expected_runs=1.1).setting in solver_grid("gd")
    with pytest.raises(ValueError, match="there is a grid for agd"):
        tune(logistic("newton"), *table)


@pytest.mark.parametrize(
    "changes",
    [{"solver": "auto"}, {"solver": "agd", "preparation": [Radius(), Scale()], "data_norm": None}],
)
def test_a_preparation_is_part_of_the_cost_of_a_run(changes, table):
    """The fits of a run, which is checked after each of them, cost all of it or slightly less."""
    grid = [{"alpha": 0.1}, {"alpha": 0.01}]
    tuned = tune(logistic(**changes), *table, grid=grid, expected_runs=2.0)
    assert tuned.model.preparation_
    assert (tuned.guarantee.epsilon, tuned.guarantee.delta) == (2.0, DELTA)
    assert any("the budget was divided" in text for text in tuned.guarantee.conditions)
    run = planned(Budget(2.0, DELTA, "add_remove"), law_of("poisson", 2.0), len(table[0]))
    model = search._candidate(logistic(**changes), grid[0], run)
    spent = model.fit(*table).guarantee_
    rho = spent.rho if spent.measure == "zcdp" else spent.mu**2 / 2
    assert rho == pytest.approx(run.rho_fit, rel=1e-6)
    with pytest.raises(PrivacyError, match="planned cost"):
        run.check(replace(spent, rho=1.01 * rho, mu=math.sqrt(2.02 * rho)))


def test_labels_in_a_column_count_once_per_row(table, monkeypatch):
    scored = exact_scores(monkeypatch)
    with pytest.warns(DataConversionWarning):
        tune(logistic(), table[0], table[1][:, None], grid=STEPS)
    assert scored
    assert all(count <= len(table[1]) for _, count in scored)


# -- the score


def line(weights, intercept):
    """Return a fitted model with these weights."""
    model = logistic(data_norm=None)
    model.coef_, model.intercept_ = weights[None], np.array([intercept])
    model.classes_, model.features_ = np.array([0, 1]), FeatureMap()
    model.n_features_in_ = len(weights)
    return model


def test_several_classes_are_scored_by_their_largest_score():
    rng = np.random.default_rng(2)
    X = np.repeat(np.eye(3), 300, axis=0) + 0.1 * rng.normal(size=(900, 3))
    y = np.repeat(["a", "b", "c"], 300)
    model = LinearSVC(
        2.0, DELTA, solver=GD(iterations=10), classes=["a", "b", "c"], data_norm=2.0
    ).fit(X, y)
    assert correct(model, X, y) == np.count_nonzero(model.predict(X) == y)


@pytest.mark.parametrize(
    "layout", [np.ascontiguousarray, np.asfortranarray, sp.csr_array, lambda X: X.astype("f4")]
)
def test_equal_rows_score_equally_wherever_they_are(layout):
    """Rows at a tie but for rounding, which BLAS rounds differently depending on their position."""
    rng = np.random.default_rng(5)
    weights = rng.normal(size=37)
    for _ in range(12):
        row = rng.normal(size=37).astype("f4").astype(float)
        # ties within a few units in the last place of the margin, on either side of it
        for nudge in (-2, -1, 0, 1, 2):
            tie = -(row @ weights) * (1 + nudge * 2.0**-53)
            model = line(weights, tie)
            counts = [
                correct(model, layout(np.tile(row, (n, 1))), np.ones(n, dtype=int))
                for n in range(1, 14)
            ]
            first = counts[0]
            assert first in (0, 1)
            assert counts == [first * n for n in range(1, 14)]  # neighbours differ by at most 1


def test_one_row_changes_the_count_by_at_most_one_at_ties():
    """Margins of some rows are zero but for rounding; another row must not change them."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(301, 7))
    w = rng.normal(size=7)
    X[::3] -= np.outer(X[::3] @ w / (w @ w), w)
    y = rng.integers(0, 2, 301)
    model = line(w, 0.0)
    whole = correct(model, X, y)
    for i in range(0, 301, 7):
        without = correct(model, np.delete(X, i, axis=0), np.delete(y, i))
        assert 0 <= whole - without <= 1
        other_X, other_y = X.copy(), y.copy()
        other_X[i], other_y[i] = rng.normal(size=7), 1 - y[i]
        assert abs(correct(model, other_X, other_y) - whole) <= 1


def test_the_scale_of_the_score_by_hand():
    """0.002·1000 rows is a standard deviation of 2, within the bounds on its share of the budget.

    Elsewhere the share of ρ is 2 % or 25 %, and σ = 1/√(2·share·ρ).
    """
    budget, law = Budget(2.0, DELTA, "add_remove"), law_of("poisson", 4.0)
    within = planned(budget, law, 5000)
    assert 0.02 * within.rho < 0.5 / 10.0**2 < 0.25 * within.rho
    assert within.score.noise_multiplier == pytest.approx(10.0, rel=1e-8)
    assert within.rho_fit == pytest.approx(within.rho - 0.5 / 10.0**2, rel=1e-8)
    for rows, share in ((100, 0.25), (10**6, 0.02)):
        run = planned(budget, law, rows)
        sigma = 1 / math.sqrt(2 * share * run.rho)
        assert run.score.noise_multiplier == pytest.approx(sigma, rel=1e-8)
        assert run.rho_fit == pytest.approx((1 - share) * run.rho, rel=1e-8)


def test_scores_are_normal_with_the_planned_deviation():
    """Variance by chi-square and shape by Kolmogorov-Smirnov, each with false alarms below 1e-6."""
    deviation, count = 10.0, 2000
    noise = Noise(SeededBits(11))
    exact, public = Sum(np.array([640.0]), 0.0), Public(Relation.ADD_REMOVE, 1000, 1, 1, None)
    question, mechanism = CorrectCount(), Gaussian(deviation)
    released = [question.release(exact, mechanism, public, noise) for _ in range(count)]
    drawn = np.array([each.values[0] - 640 for each in released])
    low, high = chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], count) * deviation**2
    assert low < np.sum(drawn**2) < high
    assert kstest(drawn / deviation, "norm").pvalue > ALPHA
    half = np.sum((drawn / 2) ** 2)  # a score of half the noise fails the same test
    assert half < low


def test_every_run_is_scored_by_the_planned_mechanism(table, monkeypatch):
    scored = exact_scores(monkeypatch)
    with pytest.warns(PrivacyLeakWarning):
        tuned = tune(logistic(), *table, grid=STEPS, random_state=7)
    run = planned(Budget(2.0, DELTA, "add_remove"), law_of("poisson", 2.0), len(table[1]))
    assert len(scored) == tuned.runs
    assert {mechanism for mechanism, _ in scored} == {run.score}
    counts = [count for _, count in scored]
    assert max(counts) == np.count_nonzero(tuned.model.predict(table[0]) == table[1])


# -- people and the ledger


PEOPLE = np.repeat(np.arange(500), 3)


def test_the_ledger_is_charged_once_for_all_runs(table):
    visits = Ledger().create("visits", Budget(3.0, 1e-5, "add_remove"), gaussian_share=0.0)
    tune(logistic(), *table, grid=STEPS, ledger=visits)
    (entry,) = visits.records()
    assert (entry["status"], entry["solver"], entry["unit"]) == ("confirmed", "tuning", "row")
    assert (entry["measure"], entry["epsilon"], entry["delta"]) == ("approximate", 2.0, DELTA)


def test_a_ledger_without_room_refuses_before_the_first_run(table, monkeypatch):
    monkeypatch.setattr(search, "_fit", lambda *args: pytest.fail("a run was fitted"))
    visits = Ledger().create("visits", Budget(1.0, 1e-5, "add_remove"), gaussian_share=0.0)
    with pytest.raises(BudgetExceeded):
        tune(logistic(), *table, grid=STEPS, ledger=visits)
    assert visits.entries == 0


def test_tuning_with_groups_is_charged_for_people(table):
    patients = Ledger().create("patients", unit="patient")
    tuned = tune(logistic(), *table, PEOPLE, grid=STEPS, ledger=patients)
    assert tuned.guarantee.unit == "person"
    (entry,) = patients.records()
    assert (entry["status"], entry["unit"]) == ("confirmed", "person")


@pytest.mark.parametrize(("unit", "groups"), [("row", PEOPLE), ("patient", None)])
def test_a_ledger_for_another_unit_refuses_before_the_first_run(unit, groups, table, monkeypatch):
    monkeypatch.setattr(search, "_fit", lambda *args: pytest.fail("a run was fitted"))
    visits = Ledger().create("visits", unit=unit)
    with pytest.raises(PrivacyError, match=f"limit of this data set is for one {unit}"):
        tune(logistic(), *table, groups, grid=STEPS, ledger=visits)
    assert visits.entries == 0


def test_a_score_counts_each_person_once(table, monkeypatch):
    scored = exact_scores(monkeypatch)
    with pytest.warns(PrivacyLeakWarning):
        tuned = tune(logistic(), *table, PEOPLE, grid=STEPS, random_state=7)
    right = tuned.model.predict(table[0]) == table[1]
    best = max(count for _, count in scored)
    # rows have weights of 1/3, rounded down to multiples of 2^-30
    assert best == pytest.approx(right.sum() / 3, abs=1e-5)
    assert best <= 500


# -- the number of runs stays secret


@pytest.mark.parametrize("runs", [1, 3])
def test_later_fits_do_not_show_the_number_of_runs(runs, table, monkeypatch):
    monkeypatch.setattr(Poisson, "draw", lambda self, bits: runs)
    before = logistic().fit(*table).guarantee_.earlier_fits
    tuned = tune(logistic(), *table, grid=STEPS)
    assert tuned.guarantee.earlier_fits == before + 1
    assert logistic().fit(*table).guarantee_.earlier_fits == before + 2
    # the released model counts again when it is fitted again
    assert tuned.model.fit(*table).guarantee_.earlier_fits == before + 3


@pytest.mark.parametrize("runs", [1, 3])
def test_the_log_does_not_show_the_number_of_runs(runs, table, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, logger="discreet")
    monkeypatch.setattr(Poisson, "draw", lambda self, bits: runs)
    tune(logistic(), *table, grid=STEPS)
    own = [entry.getMessage() for entry in caplog.records if entry.name.startswith("discreet")]
    assert own == ["Tuning: ε = 2, δ = 1e-06, add_remove."]


class Talkative(LogisticRegression):
    """A model whose fits warn about their setting, twice."""

    def fit(self, X, y):
        for _ in range(2):
            warnings.warn(f"alpha is {self.alpha}", UserWarning, stacklevel=2)
        return super().fit(X, y)


@pytest.mark.parametrize("runs", [1, 2, 3, 4])
@pytest.mark.parametrize("action", ["always", "default"])
def test_warnings_do_not_reveal_the_number_of_runs(runs, action, table, monkeypatch):
    monkeypatch.setattr(Poisson, "draw", lambda self, bits: runs)
    model = Talkative(2.0, 0.01, solver=GD(iterations=2), data_norm=1.0)  # no classes; δ ≥ 1/n
    grid = [{"alpha": 0.1}, {"alpha": 0.2}, {"alpha": 0.3}]
    X, y = table
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        tuned = tune(model, X, np.where(y == 1, "yes", "no"), grid=grid)
    texts = [str(item.message) for item in caught]
    assert tuned.runs is None
    assert len(texts) == 3
    assert texts[0] == f"alpha is {tuned.setting['alpha']}"  # of the released run only
    assert sum("class labels were taken" in text for text in texts) == 1
    assert sum("at least 1/n" in text for text in texts) == 1
    assert caught[0].filename == __file__


# -- refusals


@pytest.mark.parametrize("name", ["objpert", "amp", "amp-hf", "sgd", "sgd-adv", "sgd-ma", "rrpsgd"])
def test_methods_without_a_renyi_curve_are_refused(name, table):
    with pytest.raises(NotSupported, match="cannot be tuned privately: it is accounted"):
        tune(logistic(name), *table, grid=[{"alpha": 0.1}, {"alpha": 0.2}])


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
    ("changes", "error", "words"),
    [
        ({"ledger": Ledger().create("rows")}, PrivacyError, "ledger=None"),
        ({"progress": print}, PrivacyError, "progress=None"),
        ({"random_state": 0}, PrivacyError, "give it to tune"),
        ({"preparation": ["centre"]}, ValueError, "a sequence of steps"),
        ({"preparation": [Radius()], "solver": "frank-wolfe"}, NotSupported, "cost in zCDP"),
        ({"delta": 0.0}, NotSupported, "delta > 0"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
    ],
)
def test_estimators_that_cannot_be_tuned_are_refused_unread(changes, error, words):
    unread = np.full((5, 2), np.nan), np.array([0, 1, 0, 1, 0])
    with pytest.raises(error, match=words):
        tune(logistic().set_params(**changes), *unread, grid=[{"alpha": 0.1}, {"alpha": 0.2}])


@pytest.mark.parametrize(
    ("grid", "error", "words"),
    [
        (STEPS[:1], ValueError, "two settings or more"),
        ([*STEPS, {"alpha": -1.0}], ValueError, "alpha"),
        ([*STEPS, {"epsilon": 9.0}], PrivacyError, "may not change the budget"),
        ([*STEPS, {"ledger": Ledger().create("rows")}], PrivacyError, "ledger=None"),
        ([*STEPS, {"progress": print}], PrivacyError, "progress=None"),
        ([*STEPS, {"random_state": 3}], PrivacyError, "may not change the budget"),
        (
            [*STEPS, {"solver": "auto", "preparation": [Whiten(0.9), Radius(0.1)]}],
            ValueError,
            "shares",
        ),
        ([*STEPS, {"solver": "sgd"}], NotSupported, "cannot be tuned privately"),
    ],
)
def test_grids_that_cannot_be_tuned_are_refused_unread(grid, error, words):
    unread = np.full((5, 2), np.nan), np.array([0, 1, 0, 1, 0])
    with pytest.raises(error, match=words):
        tune(logistic(), *unread, grid=grid)


def test_only_classifiers_are_tuned(table):
    grid = [{"alpha": 0.1}, {"alpha": 0.2}]
    with pytest.raises(NotSupported, match="classifiers of discreet"):
        tune(LinearRegression(2.0, DELTA, solver="gd", data_norm=1.0), *table, grid=grid)
    pipeline = make_pipeline(FunctionTransformer(), logistic())
    with pytest.raises(NotSupported, match="got Pipeline"):
        tune(pipeline, *table, grid=grid)


def test_the_estimator_itself_is_not_changed(table):
    model = logistic()
    tune(model, *table, grid=STEPS, expected_runs=1.1)
    assert model.get_params() == logistic().get_params()
    assert not hasattr(model, "coef_")


# -- an attack on the whole


class Teller(LogisticRegression):
    """One Gaussian release that reveals the only row's label, as well as its budget allows.

    It predicts what it believes, so its score reveals the label once more: the worst case of a run.
    """

    factor = 1.0  # of the cost that it owns up to

    def check_settings(self):
        """Nothing can be wrong."""

    def fit(self, X, y):
        budget = Budget(self.epsilon, self.delta, self.relation)
        rho = budget.to_zcdp().rho
        mechanism = Gaussian.from_rho(rho * (1 - 1e-9))
        bits = SeededBits(self.random_state)
        (told,), _ = mechanism.release(
            np.array([float(y[0]) - 0.5]), sensitivity=1.0, magnitude=1.0, noise=Noise(bits)
        )
        vars(self).update(vars(line(np.zeros(1), told)) | self.get_params())
        self.guarantee_ = Guarantee(
            self.epsilon, self.delta, budget.relation, "zcdp", self.factor * rho, None,
            (), (), False, (),
        )  # fmt: skip
        return self


ASKED = {"epsilon": 0.5, "delta": 0.01, "relation": "replace_one"}


def believed(label, runs, first):
    """Count how often the released run believes in 1 if the label is this."""
    yes = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        for seed in range(first, first + runs):
            tuned = tune(
                Teller(**ASKED, solver="agd"), np.zeros((1, 1)), np.array([label]),
                grid=[{"alpha": 0.0}, {"alpha": 1.0}], expected_runs=5.0, random_state=seed,
            )  # fmt: skip
            yes += tuned.model.intercept_[0] > 0
    return yes


def certified(runs):
    """Return the ε that the attack certifies, and its counts in both worlds."""
    yes, wrong = believed(1, runs, 0), believed(0, runs, 10**6)
    bound = float(epsilon_bound(yes, wrong, runs, delta=ASKED["delta"], alpha=ALPHA))
    return bound, yes, wrong


def test_an_attack_on_the_worst_case_does_not_refute_the_promise():
    """The event is fixed in advance; a true promise is refuted with probability below 1e-6."""
    bound, yes, wrong = certified(150)
    assert yes > wrong  # the attack does see something
    assert bound <= ASKED["epsilon"]


def test_the_attack_refutes_exact_scores_and_the_price_of_one_run(monkeypatch):
    """Scores without noise, and runs that may each spend all of ε."""
    monkeypatch.setattr(candidates, "largest_rho", lambda law, budget: budget.to_zcdp().rho)
    exact_scores(monkeypatch)
    monkeypatch.setattr(RunBudget, "__post_init__", lambda self: None)
    assert certified(150)[0] > ASKED["epsilon"]


def test_a_fit_that_spends_more_than_planned_releases_nothing(monkeypatch):
    monkeypatch.setattr(Teller, "factor", 1.01)
    with pytest.raises(PrivacyError, match="Nothing was released"):
        believed(1, 1, 0)
