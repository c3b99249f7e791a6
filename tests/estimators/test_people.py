"""Fits that protect people with several rows: groups, weights and what is public."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from discreet import (
    Budget,
    DiscreteTimeSurvival,
    HuberRegressor,
    Ledger,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    OrdinalClassifier,
    PoissonRegressor,
    PrivateScaler,
    load,
    save,
)
from discreet.core import Curator, Guarantee
from discreet.core.score_questions import CorrectCount
from discreet.errors import NotSupported, PrivacyError, PrivacyLeakWarning
from discreet.estimators.scoring import score_classifier, score_regressor
from discreet.estimators.units import ClassWeights, PrivacyUnits
from discreet.preparation import Balance, Bounds, Centre, Radius, Scale, Spread, Whiten
from discreet.rows import Units
from discreet.solvers import GD, names, resolve
from discreet.tables import Numeric, Schema
from discreet.tuning import search, tune

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")

RNG = np.random.default_rng(17)
N, PEOPLE = 900, 400
IDS = np.append(np.arange(PEOPLE), RNG.integers(0, PEOPLE // 3, N - PEOPLE))
X = RNG.uniform(-1, 1, (N, 4))
Y = (X[:, 0] + 0.2 * RNG.normal(size=N) > 0.4).astype(int)
STEPS = [
    Bounds([1], share=0.05),
    Radius(share=0.05),
    Centre(share=0.05),
    Spread(share=0.05),
    Scale(share=0.05),
    Whiten(share=0.05),
]


def logistic(**settings):
    return LogisticRegression(**{"epsilon": 1.0, "delta": 1e-6, "classes": [0, 1], **settings})


def spied(monkeypatch):
    """Record the weights of rows that any curator is made for, and the sizes it states."""
    seen = []
    make = Curator.__init__

    def note(self, rows, account, *args, **settings):
        make(self, rows, account, *args, **settings)
        seen.append((rows, self.n_rows))

    monkeypatch.setattr(Curator, "__init__", note)
    return seen


# ---- the unit of privacy


@pytest.mark.parametrize(
    "model",
    [
        logistic(),
        LinearSVC(epsilon=1.0, classes=[0, 1]),
        logistic(classes=[0, 1, 2]),
        LinearSVC(epsilon=1.0, classes=[0, 1, 2]),
        LinearRegression(epsilon=1.0, target_bounds=(0, 1)),
        HuberRegressor(epsilon=1.0, target_bounds=(0, 1)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_estimator_takes_groups(model):
    guarantee = model.fit(X, Y, groups=IDS).guarantee_
    assert (guarantee.unit, guarantee.rows_per_unit) == ("person", 1)
    assert "the number of people" in guarantee.public
    assert not any("number of rows" in text for text in guarantee.public)
    assert "one person with all of their rows" in str(guarantee)
    assert any("weight 1/m" in text for text in guarantee.conditions)
    assert guarantee.recompute() <= guarantee.epsilon * (1 + 1e-6)
    assert Guarantee.from_dict(guarantee.to_dict()) == guarantee
    plain = model.fit(X, Y).guarantee_
    assert (plain.unit, plain.public[0]) == ("row", "the number of rows")
    assert "one row" in str(plain)


def test_people_count_once_in_the_balance_of_several_classes():
    """A person with a hundred rows of class 2 is one of 30, not most of the rows.

    Noise in a share is 1/(n·μ·√0.002), 5e-4 at this budget.
    """
    y, ids = np.repeat([2, 0, 1], [100, 28, 1]), np.append(np.zeros(100), np.arange(1, 30))
    settings = {"epsilon": 1e4, "delta": 1e-6, "classes": [0, 1, 2], "random_state": 0}
    model = LogisticRegression(solver=GD(1, step_size=1e-6, start_share=0.002), **settings)
    model.fit(np.ones((129, 1)), y, groups=ids)
    shares = model.predict_proba(np.zeros((1, 1)))[0]
    np.testing.assert_allclose(shares, [28 / 30, 1 / 30, 1 / 30], atol=0.01)


def test_every_step_and_the_model_see_weights_by_unit(monkeypatch):
    seen = spied(monkeypatch)
    logistic(preparation=STEPS, solver="gd").fit(X, Y, groups=IDS)
    assert len(seen) == len(STEPS) + 1
    expected = Units.of(IDS, N).weights()
    for rows, size in seen:
        assert size == PEOPLE
        assert rows.grouped
        assert np.array_equal(rows.weights, expected.values)
        totals = np.bincount(IDS, rows.weights)
        assert (totals <= 1).all()
        assert (totals > 1 - 1e-6).all()


def test_the_default_uses_the_number_of_people_alone(monkeypatch):
    """The rule, the plan and everything released are the same for any number of rows."""
    problems = []
    plan = GD._plan

    def planned(self, problem, budget, n_models):
        problems.append(problem)
        return plan(self, problem, budget, n_models)

    monkeypatch.setattr(GD, "_plan", planned)
    models = []
    for times in (1, 2, 5):  # each person's rows, several times
        again, y, ids = (np.concatenate([array] * times) for array in (X, Y, IDS))
        models.append(logistic(random_state=3).fit(again, y, groups=ids))
    assert {problem.n_rows for problem in problems} == {PEOPLE}
    first = models[0]
    for other in models[1:]:
        assert other.guarantee_.mechanisms == first.guarantee_.mechanisms
        assert other.guarantee_.conditions[0] == first.guarantee_.conditions[0]
        np.testing.assert_allclose(other.coef_, first.coef_, rtol=1e-5, atol=1e-7)
        steps = [entry.step for entry in other.trace_]
        assert steps == [entry.step for entry in first.trace_]


def test_one_row_per_person_is_a_fit_without_groups():
    few = np.flatnonzero(np.arange(N) < PEOPLE)
    one = logistic(random_state=5).fit(X[few], Y[few], groups=IDS[few])
    two = logistic(random_state=5).fit(X[few], Y[few])
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-9)


def test_the_order_of_rows_and_names_of_people_do_not_matter():
    order = RNG.permutation(N)
    one = logistic(random_state=5).fit(X, Y, groups=IDS)
    two = logistic(random_state=5).fit(X[order], Y[order], groups=[f"p{k}" for k in IDS[order]])
    three = logistic(random_state=5).fit(sp.csr_array(X), Y, groups=IDS)
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-7)
    np.testing.assert_allclose(one.coef_, three.coef_, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in names() if name != "auto"])
def test_every_solver_protects_people(name, monkeypatch):
    """Sums get rows with weights by unit, others one row of each person."""
    seen = spied(monkeypatch)
    solver = resolve(name)
    loss = name == "newton"
    kind = LinearRegression if loss else logistic
    relation = str(solver.relations[0])
    settings = {"epsilon": 3.0, "delta": 1e-6, "relation": relation, "solver": solver}
    settings |= {"target_bounds": (0, 1)} if loss else {}
    model = kind(**settings, data_norm=2.0).fit(X, Y, groups=IDS)
    rows, size = seen[-1]
    assert size == PEOPLE
    guarantee = model.guarantee_
    assert guarantee.unit == "person"
    if solver.takes_units:
        assert rows.grouped
        assert np.array_equal(rows.weights, Units.of(IDS, N).weights().values)
    else:
        assert not rows.grouped
        assert rows.n_rows == PEOPLE
        assert not rows.weights.size
        assert any("one row of each person" in text for text in guarantee.conditions)


def test_the_drawn_rows_belong_to_different_people_and_vary(monkeypatch):
    marked = X.copy()
    marked[:, 3] = IDS / PEOPLE  # a column that names the person
    marked[:, 2] = np.arange(N) / N  # and one that names the row
    seen = spied(monkeypatch)
    model = logistic(solver="objpert", data_norm=9.0)
    chosen = []
    for _ in range(3):
        model.fit(marked, Y, groups=IDS)
        rows, _ = seen[-1]
        table = np.vstack([tile for _, tile in rows.tiles(slice(0, rows.n_rows))])
        ids = np.rint(table[:, 3] * PEOPLE).astype(int)
        assert sorted(ids) == list(range(PEOPLE))
        index = np.rint(table[:, 2] * N).astype(int)
        assert (rows.targets == np.where(Y[index] == 1, 1.0, -1.0)).all()
        chosen.append(tuple(index))
    assert len(set(chosen)) == 3


# ---- k, sample_weight and class_weight


def test_rows_per_unit(monkeypatch):
    seen = spied(monkeypatch)
    model = logistic(rows_per_unit=3).fit(X, Y, groups=IDS)
    assert model.guarantee_.rows_per_unit == 3
    rows, _ = seen[-1]
    assert np.array_equal(rows.weights, Units.of(IDS, N).weights(3).values)
    balance, size = seen[-2]  # the noisy total weight, of rows with the same weights
    assert np.array_equal(balance.weights, rows.weights)
    assert (size, balance.grouped) == (PEOPLE, True)
    for rows, _ in seen[:-2]:  # a preparation counts everybody once
        assert np.array_equal(rows.weights, Units.of(IDS, N).weights().values)
    assert dict(model.guarantee_.split)["class balance"] <= 0.06
    with pytest.raises(NotSupported, match="'objpert' takes one row"):
        logistic(rows_per_unit=3, solver="objpert", data_norm=1.0).fit(X, Y, groups=IDS)
    with pytest.raises(ValueError, match="got no groups"):
        logistic(rows_per_unit=1).fit(X, Y)
    for bad in (0, -1, 1.5, "1"):
        with pytest.raises(ValueError, match="rows_per_unit"):
            logistic(rows_per_unit=bad).fit(X, Y, groups=IDS)
        with pytest.raises(ValueError, match="rows_per_unit"):
            logistic(rows_per_unit=bad).check_settings()


def test_sample_weights_multiply_the_weights_of_people(monkeypatch):
    seen = spied(monkeypatch)
    given = RNG.uniform(1, 4, N)
    model = logistic().fit(X, Y, groups=IDS, sample_weight=given)
    rows, size = seen[-1]
    assert size == PEOPLE
    plain = Units.of(IDS, N).weights().values
    np.testing.assert_allclose(rows.weights, plain * given / given.max(), atol=2.0**-29)
    assert "the sample weights of the rows" in model.guarantee_.public
    alone = logistic().fit(X, Y, sample_weight=given)
    rows, size = seen[-1]
    assert (size, rows.grouped) == (N, False)
    np.testing.assert_allclose(rows.weights, given / given.max(), atol=2.0**-29)
    assert alone.guarantee_.unit == "row"
    logistic().fit(X, Y, sample_weight=np.full(N, 3.5))
    assert not seen[-1][0].weights.size


@pytest.mark.parametrize("solver", ["auto", "gd", "agd", "objpert", "amp", "outpert", "sgd"])
def test_rows_of_weight_zero_are_not_used(solver):
    """Most rows have wrong labels and weight 0: a fit that used them would predict these."""
    big, noise = np.tile(X, (12, 1)), RNG.random(12 * N) < 0.6
    y = np.where(noise, 1 - np.tile(Y, 12), np.tile(Y, 12))
    settings = {"epsilon": 50.0, "delta": 1e-6, "data_norm": 2.0, "solver": solver}
    weight = np.where(noise, 0.0, 2.0)
    model = logistic(**settings).fit(big, y, sample_weight=weight)
    assert np.mean(model.predict(X) == Y) > 0.8  # 0.91 with a deviation below 0.01


@pytest.mark.parametrize("name", ["permutation-sgd", "laplace-sgd", "rrpsgd"])
def test_passes_over_rows_refuse_weights(name):
    model = logistic(solver=name, relation="replace_one", data_norm=1.0)
    for settings in ({"sample_weight": np.arange(N)}, {}):
        model.class_weight = None if settings else "balanced"
        with pytest.raises(NotSupported, match="without weights"):
            model.fit(X, Y, **settings)


def test_class_weights(monkeypatch):
    seen = spied(monkeypatch)
    model = logistic(class_weight={1: 4.0}).fit(X, Y, groups=IDS)
    rows, _ = seen[-1]
    plain = Units.of(IDS, N).weights().values
    np.testing.assert_allclose(rows.weights, plain * np.where(Y == 1, 1.0, 0.25), atol=2.0**-29)
    assert "the weights of the classes" in model.guarantee_.public
    tables = np.tile(X, (20, 1)), np.tile(Y, 20), np.arange(20 * N)
    balanced = logistic(class_weight="balanced").fit(*tables)
    rows, _ = seen[-1]
    share = rows.weights[tables[1] == 1].sum() / rows.weights.sum()
    assert 0.4 < share < 0.6  # the noise of the balance is far smaller
    assert rows.weights.max() == 1.0
    assert dict(balanced.guarantee_.split)["class balance"] > 0
    assert any("total weight of each class" in text for text in balanced.guarantee_.conditions)
    assert balanced.guarantee_.recompute() <= 1.0 + 1e-6
    recall = [np.mean(m.predict(X)[Y == 1]) for m in (balanced, logistic().fit(*tables))]
    assert recall[0] > recall[1]


def test_the_size_of_the_objective_is_the_measured_weight(monkeypatch):
    problems = []
    solve = GD._solve

    def noted(self, problem, *args):
        problems.append(problem)
        return solve(self, problem, *args)

    monkeypatch.setattr(GD, "_solve", noted)
    big, y = np.tile(X, (20, 1)), np.tile(Y, 20)
    weight = np.where(y == 1, 1.0, 0.1)
    for _ in range(6):
        logistic(solver="gd", epsilon=3.0).fit(big, y, sample_weight=weight)
    sizes = [problem.n_rows for problem in problems]
    np.testing.assert_allclose(sizes, weight.sum(), rtol=0.1)
    # exact sizes would agree; noisy ones do with probability below 0.05^5
    assert len(set(sizes)) > 1


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("even", "class_weight must be"),
        ({}, "class_weight must be"),
        ({1: -1.0}, "class_weight"),
        ({1: np.inf}, "class_weight"),
        ({1: np.nan}, "class_weight"),
        ({1: 0.0, 0: 0.0}, "above 0"),
        ({2: 1.0}, "not among the classes"),
    ],
)
def test_bad_class_weights_are_refused(setting, text):
    with pytest.raises(ValueError, match=text):
        logistic(class_weight=setting).fit(X, Y)


def test_multiclass_weights():
    y = np.where(X[:, 1] > 0.8, 2, Y)
    for solver in ("gd", "agd"):
        model = LogisticRegression(
            epsilon=5.0, classes=[0, 1, 2], class_weight="balanced", solver=solver
        ).fit(X, y, groups=IDS)
        assert model.guarantee_.unit == "person"
        assert model.predict(X).shape == (N,)


# ---- bad input


def people_ledger():
    """A data set whose limit is for one patient."""
    return Ledger().create("visits", Budget(100.0, 1e-3, "add_remove"), unit="patient")


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        (IDS[:-1], "one id for each row"),
        (np.append(IDS, 1), "one id for each row"),
        (IDS[:, None], "one id for each row"),
        (np.where(IDS == 3, np.nan, IDS), "missing ids"),
        ([None, *IDS[1:]], "missing ids"),
        (["1", *IDS[1:].tolist()], "mixes kinds"),
        (np.zeros(N, dtype=int), "single person"),
        ("patient", "sequence of ids"),
    ],
)
def test_bad_groups_are_refused_before_anything_is_spent(groups, text):
    ledger = Ledger().create("visits", unit="patient")
    for model in (logistic(ledger=ledger), LinearRegression(ledger=ledger)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=text) as caught:
                model.fit(X, Y, groups=groups)
        assert str(N) not in str(caught.value)
    assert ledger.entries == 0


def test_fewer_people_than_classes_are_refused():
    model = LogisticRegression(classes=[0, 1, 2])
    with pytest.raises(ValueError, match="3 classes, but only 2 people"):
        model.fit(X, Y, groups=np.arange(N) % 2)


def test_messages_of_delta_speak_of_people():
    with pytest.warns(UserWarning, match="1/n = 0.0025: .* all rows of a person"):
        logistic(delta=0.003).fit(X, Y, groups=IDS)


def test_a_ledger_counts_one_unit():
    ledger = Ledger().create("visits", unit="patient")
    logistic(ledger=ledger).fit(X, Y, groups=IDS)
    with pytest.raises(PrivacyError, match=r"one patient.* protects one row"):
        logistic(ledger=ledger).fit(X, Y)
    model, budget = logistic().fit(X, Y), Budget(1.0, 0.0, "add_remove")
    with pytest.raises(PrivacyError, match="one patient"):
        score_classifier(model, X, Y, budget, ledger)
    assert ledger.entries == 1
    score_classifier(model, X, Y, budget, ledger, groups=IDS)
    assert ledger.entries == 2
    with pytest.raises(PrivacyError, match=r"one row.* protects one person"):
        logistic(ledger=Ledger().create("rows")).fit(X, Y, groups=IDS)


# ---- scikit-learn


def through(function):
    with sklearn.config_context(enable_metadata_routing=True):
        return function()


def test_metadata_routing_takes_groups_through_pipelines_and_searches(monkeypatch):
    seen = []
    of = PrivacyUnits.of.__func__

    def noted(cls, table, groups, weight, *others):
        seen.append((groups, weight))
        return of(cls, table, groups, weight, *others)

    monkeypatch.setattr(PrivacyUnits, "of", classmethod(noted))
    weight = RNG.uniform(1, 2, N)
    pipe = make_pipeline(FunctionTransformer(), logistic())
    through(lambda: pipe.fit(X, Y, groups=IDS, sample_weight=weight))
    assert seen[-1][0] is IDS
    assert seen[-1][1] is weight
    params = {"groups": IDS}
    for model in (logistic(), pipe):
        del seen[:]
        through(lambda m=model: cross_val_score(m, X, Y, params=params, cv=GroupKFold(3)))
        assert [len(groups) for groups, _ in seen] == [N - len(part) for part in parts()]
        for (groups, _), part in zip(seen, parts(), strict=True):  # never in both halves
            assert not set(groups) & set(IDS[part])
    search = GridSearchCV(logistic(), {"alpha": [1e-4, 1e-2]}, cv=GroupKFold(3))
    del seen[:]
    found = through(lambda: search.fit(X, Y, groups=IDS))
    assert len(seen) == 7
    assert all(groups is not None for groups, _ in seen)
    assert found.best_estimator_.guarantee_.unit == "person"


def parts():
    return [test for _, test in GroupKFold(3).split(X, Y, IDS)]


def test_groups_reach_a_pipeline_without_routing():
    pipe = make_pipeline(FunctionTransformer(), logistic())
    pipe.fit(X, Y, logisticregression__groups=IDS)
    assert pipe[-1].guarantee_.unit == "person"
    with pytest.raises((ValueError, TypeError), match="groups"):
        pipe.fit(X, Y, groups=IDS)


@pytest.mark.filterwarnings("default::discreet.errors.PrivacyLeakWarning")
def test_groups_are_never_dropped_silently():
    dropped = "not to this fit"
    pipe = make_pipeline(FunctionTransformer(), logistic())
    for model in (logistic(), pipe):
        with pytest.warns(PrivacyLeakWarning, match=dropped):
            cross_val_score(model, X, Y, groups=IDS, cv=GroupKFold(3))
        search = GridSearchCV(model, [{}], cv=GroupKFold(3), refit=False)
        with pytest.warns(PrivacyLeakWarning, match=dropped):
            search.fit(X, Y, groups=IDS)
    with pytest.raises(ValueError, match="got no groups"):
        cross_val_score(
            logistic(rows_per_unit=1), X, Y, groups=IDS, cv=GroupKFold(3), error_score="raise"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        cross_val_score(logistic(), X, Y, cv=3)
        logistic().fit(X, Y)
        through(lambda: cross_val_score(logistic(), X, Y, params={"groups": IDS}, cv=GroupKFold(3)))


# ---- scores, tuning, files


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_person_moves_scores_by_one(relation):
    model = logistic().fit(X, Y, groups=IDS)
    regressor = LinearRegression(target_bounds=(0, 1)).fit(X, Y, groups=IDS)
    whole = score_classifier(model, X, Y, groups=IDS).counts
    assert whole.sum() == pytest.approx(PEOPLE, abs=1e-4)
    errors = score_regressor(regressor, X, Y, (0.0, 1.0), groups=IDS).mean_absolute_error * PEOPLE
    for person in range(12):
        kept = person != IDS
        table, y, ids = X[kept], Y[kept], IDS[kept]
        if relation == "replace_one":
            far = np.full((70, 4), 9.0)
            table, y = np.vstack([table, far, -far]), np.append(y, np.zeros(140, dtype=int))
            ids = np.append(ids, np.full(140, -1))
        other = score_classifier(model, table, y, groups=ids).counts
        most = 1 if relation == "add_remove" else 2
        assert np.abs(other - whole).sum() <= most
        size = len(np.unique(ids))
        scores = score_regressor(regressor, table, y, (0.0, 1.0), groups=ids)
        assert abs(scores.mean_absolute_error * size - errors) <= 1 + 1e-9
    scores = score_classifier(model, X, Y, Budget(1.0, 0.0, relation), groups=IDS)
    assert scores.guarantee.unit == "person"
    assert scores.guarantee.public[0] == "the number of people"
    with pytest.raises(ValueError, match="missing ids"):
        score_classifier(model, X, Y, groups=[None] * N)


def test_scores_count_people_with_opposite_rows_in_parts():
    model = logistic().fit(X, Y)
    table, y, ids = np.vstack([X[:2], X[:2]]), [0, 0, 1, 1], [1, 1, 1, 2]
    counts = score_classifier(model, table, y, groups=ids).counts
    assert counts[0].sum() == pytest.approx(2 / 3, abs=1e-8)
    assert counts[1].sum() == pytest.approx(4 / 3, abs=1e-8)
    assert counts.sum() <= 2


def test_tuning_counts_people(monkeypatch):
    sizes = []
    planned = search.planned

    def noted(budget, law, size):
        sizes.append(size)
        return planned(budget, law, size)

    monkeypatch.setattr(search, "planned", noted)
    scored = []
    release = CorrectCount.release

    def spy(question, exact, *others):
        scored.append(exact.values[0])
        return release(question, exact, *others)

    monkeypatch.setattr(CorrectCount, "release", spy)
    grid = [{"alpha": 1e-4}, {"alpha": 1e-2}]
    found = tune(logistic(solver="gd"), X, Y, IDS, grid=grid)
    assert sizes == [PEOPLE]
    assert scored
    assert all(0 <= correct <= PEOPLE for correct in scored)
    assert found.guarantee.unit == "person"
    assert "one person changes it" in found.guarantee.explain()
    assert "one person with all of their rows" in str(found.guarantee)


def test_model_files_keep_the_unit(tmp_path):
    model = logistic(rows_per_unit=2, class_weight={1: 2.0}).fit(X, Y, groups=IDS)
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.guarantee_ == model.guarantee_
    assert (again.guarantee_.unit, again.guarantee_.rows_per_unit) == ("person", 2)
    assert again.rows_per_unit == 2
    assert again.class_weight == {1: 2.0}
    assert np.array_equal(again.predict(X), model.predict(X))


def test_class_weights_of_no_noise_balance_exactly():
    codes = np.array([0, 0, 0, 1])
    weights = ClassWeights.of("balanced", np.array([0, 1]), codes)
    assert weights.factors(np.array([3.0, 1.0])).tolist() == [1 / 3, 1.0]
    assert weights.factors(np.array([0.0, 9.0])).max() == 1.0


@pytest.mark.parametrize(
    ("solver", "delta"), [("gd", 1e-6), ("agd", 1e-6), ("amp", 1e-6), ("sgd", 1e-6), ("objpert", 0)]
)
def test_the_balance_is_measured_well_enough_in_every_measure(solver, delta, monkeypatch):
    """Noise deviates by about 0.01 of the rows: 0.1 is ten deviations, below 1e-20."""
    totals = []
    measure = Balance.measure

    def noted(*args):
        totals.append(measure(*args))
        return totals[-1]

    monkeypatch.setattr(Balance, "measure", staticmethod(noted))
    big, y = np.tile(X, (20, 1)), np.tile(Y, 20)
    model = logistic(solver=solver, delta=delta, data_norm=2.0, class_weight="balanced").fit(big, y)
    np.testing.assert_allclose(totals[0] / len(y), np.bincount(y) / len(y), atol=0.1)
    # the accountant's orders of Rényi's divergence are a grid, which costs it up to 4e-6
    assert model.guarantee_.recompute() <= 1.0 + 1e-5
    assert dict(model.guarantee_.split)["class balance"] <= 0.1


# ---- a schema that names the unit, in a pipeline


VISITS = Schema({"a": Numeric(-1, 1), "b": Numeric(-1, 1)}, unit="patient")
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "patient": IDS})
COLUMNS = ColumnTransformer([("table", VISITS.transformer(), ["a", "b"])], remainder="drop")


def bounded(kind, **settings):
    return kind(1.0, 1e-6, target_bounds=(0, 2), **settings)


@pytest.mark.parametrize(
    "last",
    [
        logistic,
        lambda **more: OrdinalClassifier(1.0, 1e-6, classes=[0, 1], **more),
        lambda **more: DiscreteTimeSurvival(1.0, 1e-6, periods=3, **more),
        lambda **more: bounded(LinearRegression, **more),
        lambda **more: bounded(PoissonRegressor, **more),
        lambda **more: PrivateScaler(1.0, bounds=(0, 1), **more),
    ],
    ids=["logistic", "ordinal", "survival", "linear", "poisson", "scaler"],
)
@pytest.mark.parametrize("first", [VISITS.transformer(), COLUMNS, make_pipeline(COLUMNS)])
def test_a_pipeline_whose_schema_names_a_unit_is_refused_without_groups(first, last, monkeypatch):
    monkeypatch.setattr(Curator, "__init__", lambda *args, **more: pytest.fail("a row was read"))
    ledger = Ledger().create("visits")
    pipeline = make_pipeline(first, last(ledger=ledger))
    name = pipeline.steps[-1][0]
    with pytest.raises(PrivacyError, match=rf"'patient'.*{name}__groups=table\['patient'\]"):
        pipeline.fit(FRAME, Y)
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(PrivacyError, match=r"pipeline\.fit\(table, y, groups=table\['patient'\]\)"),
    ):
        make_pipeline(VISITS.transformer(), last(ledger=ledger)).fit(FRAME, Y)
    assert ledger.records() == []


def test_such_a_pipeline_with_groups_protects_people():
    pipeline = make_pipeline(VISITS.transformer(), logistic())
    pipeline.fit(FRAME, Y, logisticregression__groups=FRAME["patient"])
    assert pipeline[-1].guarantee_.unit == "person"
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(
            VISITS.transformer(), PrivateScaler(1.0, bounds=(0, 1)), logistic()
        ).fit(FRAME, Y, groups=FRAME["patient"])
    assert {step.guarantee_.unit for step in pipeline[1:]} == {"person"}


def test_a_private_step_between_schema_and_model_needs_the_groups_as_well():
    pipeline = make_pipeline(VISITS.transformer(), PrivateScaler(1.0, bounds=(0, 1)), logistic())
    with pytest.raises(PrivacyError, match=r"PrivateScaler got no groups.*privatescaler__groups"):
        pipeline.fit(FRAME, Y, logisticregression__groups=FRAME["patient"])
    inside = ColumnTransformer([("scaler", PrivateScaler(1.0, bounds=(0, 1)), [0, 1])])
    with pytest.raises(PrivacyError, match="enable_metadata_routing=True"):
        make_pipeline(VISITS.transformer(), inside, logistic()).fit(FRAME, Y)


def test_schemas_without_a_unit_need_no_groups():
    rows = Schema({"a": Numeric(-1, 1), "b": Numeric(-1, 1)}, extra="ignore")
    assert make_pipeline(rows.transformer(), logistic()).fit(FRAME, Y)[-1].guarantee_.unit == "row"


def test_totals_of_baselines_are_weighted_by_person():
    groups = np.array([0, 0, 0, 0, 1])
    units = PrivacyUnits.of(np.zeros((5, 1)), groups, None, None)
    totals = units.totals(np.array([0, 0, 0, 1, 1]), 2)
    assert totals.tolist() == pytest.approx([0.75, 1.25], abs=1e-6)
