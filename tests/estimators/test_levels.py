"""Ordered classes and survival in discrete time."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression as ExactLogistic
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from statsmodels.miscmodels.ordinal_model import OrderedModel

from discreet import DiscreteTimeSurvival, NotSupported, OrdinalClassifier, load, save
from discreet.errors import PrivacyError
from discreet.estimators.levels import PersonPeriods
from discreet.estimators.scoring import score_classifier
from discreet.estimators.units import PrivacyUnits
from discreet.rows import RowWeights
from discreet.solvers import GD

# Fits that are scored have fixed seeds, which warns.
pytestmark = pytest.mark.filterwarnings("ignore::discreet.PrivacyLeakWarning")

COEF = np.array([0.6, -0.4, 0.3, 0.0])
THRESHOLDS = np.array([-2.0, -0.5, 0.5, 2.5])
BASELINE = np.array([-2.5, -2.0, -1.8, -1.9, -2.2])


@pytest.fixture(scope="module")
def ordered():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 4)) @ (np.eye(4) + 0.2)
    return X, np.digitize(X @ COEF + rng.logistic(size=len(X)), THRESHOLDS)


@pytest.fixture(scope="module")
def spells():
    """Times to an event in five periods, and independent censoring."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(10_000, 4)) @ (np.eye(4) + 0.2)
    events = rng.random((len(X), 5)) < expit((X @ COEF)[:, None] + BASELINE)
    first = np.where(events.any(axis=1), events.argmax(axis=1) + 1, 6)
    censored = rng.integers(1, 6, len(X))
    return X, np.minimum(first, censored), (first <= censored).astype(int)


# Ordered classes


def test_the_exact_minimum_is_near_that_of_proportional_odds(ordered):
    X, y = ordered
    exact = OrderedModel(y, X, distr="logit").fit(method="bfgs", disp=0).params
    thresholds = exact[4] + np.concatenate([[0.0], np.cumsum(np.exp(exact[5:]))])
    model = OrdinalClassifier(solver="nonprivate", classes=range(5), alpha=1e-8).fit(X, y)
    np.testing.assert_allclose(model.coef_, exact[:4], atol=0.02)
    np.testing.assert_allclose(model.thresholds_, thresholds, atol=0.02)
    np.testing.assert_allclose(model.coef_, COEF, atol=0.06)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_ordered_classes_are_learned(epsilon, ordered):
    X, y = ordered
    best = OrdinalClassifier(solver="nonprivate", classes=range(5)).fit(X, y)
    model = OrdinalClassifier(epsilon, classes=range(5), random_state=0).fit(X, y)
    assert np.corrcoef(model.latent_score(X), X @ COEF)[0, 1] > 0.95
    assert model.score(X, y) > best.score(X, y) - 0.03
    assert (np.diff(model.thresholds_) >= 0).all()
    shares = model.predict_proba(X).mean(axis=0)
    np.testing.assert_allclose(shares, np.bincount(y) / len(y), atol=0.06)


def test_probabilities_are_those_of_the_thresholds(ordered):
    X, y = ordered
    model = OrdinalClassifier(solver="nonprivate", classes=range(5)).fit(X, y)
    above = expit((X @ model.coef_)[:, None] - model.thresholds_)
    found = model.predict_proba(X)
    np.testing.assert_allclose(found[:, 1:].sum(axis=1), above[:, 0], atol=1e-12)
    np.testing.assert_allclose(found[:, 4], above[:, 3], atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (found >= 0).all()
    np.testing.assert_array_equal(model.predict(X), found.argmax(axis=1))
    assert score_classifier(model, X, y).accuracy == pytest.approx(model.score(X, y))


def test_thresholds_that_noise_put_out_of_order_are_ordered(ordered):
    X, y = ordered
    model = OrdinalClassifier(solver="nonprivate", classes=range(5)).fit(X, y)
    model.levels_ = np.array([1.0, -1.0, 0.0, -2.0])
    np.testing.assert_array_equal(model.thresholds_, [-1.0, 0.5, 0.5, 2.0])
    assert (model.predict_proba(X) >= 0).all()


def test_labels_are_in_the_callers_order(ordered):
    X, y = ordered
    names = np.array(["none", "mild", "fair", "strong", "worst"])
    settings = {"solver": "nonprivate", "classes": names}
    model = OrdinalClassifier(**settings).fit(X, names[y])
    np.testing.assert_array_equal(model.classes_, names)
    plain = OrdinalClassifier(solver="nonprivate", classes=range(5)).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), names[plain.predict(X)])


def test_a_row_has_the_same_weight_whatever_the_number_of_classes(ordered):
    X, y = ordered
    model = OrdinalClassifier(5.0, classes=range(5), random_state=0).fit(X, y)
    assert model.guarantee_.unit == "row"
    assert any("each row counts as 4" in text for text in model.guarantee_.conditions)
    spread = PrivacyUnits(3).spread(np.repeat(np.arange(3), 4), "")
    weights = spread.model_weights()
    np.testing.assert_array_equal(weights.values, np.full(12, 0.25))
    assert weights.size == 3
    assert (weights.unit, weights.grouped) == ("row", True)  # a row of the caller's table
    rows = spread.rows(np.ones((12, 2)), np.ones(12))
    assert (rows.unit, rows.grouped, rows.public_size) == ("row", True, 3)


def test_rows_that_share_a_row_of_the_table_say_which():
    with pytest.raises(PrivacyError, match="say of which"):
        RowWeights(np.full(4, 0.25), 2, "row", grouped=True)


@pytest.mark.parametrize("rows_per_unit", [None, 3])
def test_ordered_classes_of_people(rows_per_unit, ordered):
    X, y = ordered
    people = np.arange(len(y)) // 2
    model = OrdinalClassifier(
        5.0, classes=range(5), random_state=0, rows_per_unit=rows_per_unit
    ).fit(X, y, groups=people)
    assert model.guarantee_.unit == "person"
    assert model.guarantee_.rows_per_unit == (rows_per_unit or 1)
    assert np.corrcoef(model.latent_score(X), X @ COEF)[0, 1] > 0.95


def test_solvers_of_single_rows_take_one_threshold_of_each_row(ordered):
    X, y = ordered
    settings = {"classes": range(5), "data_norm": 3.0, "alpha": 0.01}
    model = OrdinalClassifier(20.0, solver="objpert", **settings).fit(X, y)
    assert any("one of the rows made of each row" in text for text in model.guarantee_.conditions)
    assert np.corrcoef(model.latent_score(X), X @ COEF)[0, 1] > 0.9


@pytest.mark.parametrize("classes", [[0], [0, 0, 1], [[0, 1]], 3])
def test_bad_classes(classes):
    with pytest.raises(ValueError, match="from the lowest class to the highest"):
        OrdinalClassifier(classes=classes).check_settings()


def test_ordinal_settings_that_make_no_sense(ordered):
    with pytest.raises(NotSupported, match="fit_intercept=True"):
        OrdinalClassifier(fit_intercept=False).check_settings()
    with pytest.raises(ValueError, match="takes at most 201"):
        OrdinalClassifier(classes=range(300)).fit(*ordered)


# Survival


def test_person_periods_by_hand():
    ends = np.array([10.0, 20.0, 30.0])
    rows = PersonPeriods.of([10.0, 10.5, 20.0, 25.0, 5.0, 99.0], [1, 1, 0, 0, 0, 1], ends)
    table = {
        person: [
            (int(t), bool(e), bool(r)) for p, t, e, r in zip(*rows, strict=True) if p == person
        ]
        for person in range(6)
    }
    assert table == {
        0: [(0, True, True)],  # an event at the end of a period is in it
        1: [(0, False, True), (1, True, True)],
        2: [(0, False, True), (1, False, True)],  # censored at the end of the second
        3: [(0, False, True), (1, False, True)],  # the third was not seen to its end
        4: [(0, False, False)],  # nothing was seen, but the person counts
        5: [(0, False, True), (1, False, True), (2, False, True)],  # after the last period
    }


durations = st.lists(st.tuples(st.floats(0, 12), st.booleans()), min_size=1, max_size=30)


@given(durations, st.integers(2, 10))
def test_every_person_has_rows_and_at_most_one_event(given_rows, count):
    time, event = (np.array(part, dtype=float) for part in zip(*given_rows, strict=True))
    rows = PersonPeriods.of(time, event, np.arange(1.0, count + 1))
    per_person = np.bincount(rows.person, minlength=len(time))
    assert (per_person >= 1).all()
    assert (per_person <= count).all()
    events = np.bincount(rows.person, rows.event, minlength=len(time))
    np.testing.assert_array_equal(events, (event == 1) & (time <= count))
    assert ((rows.period >= 0) & (rows.period < count)).all()


def test_hazards_converge_to_those_without_privacy(spells):
    X, time, event = spells
    rows = PersonPeriods.of(time, event, np.arange(1.0, 6.0))
    table = np.hstack([X[rows.person], np.eye(5)[rows.period]])
    exact = ExactLogistic(C=1e8, fit_intercept=False, max_iter=1000).fit(table, rows.event)
    model = DiscreteTimeSurvival(solver="nonprivate", periods=5, baseline="free", alpha=1e-9)
    model.fit(X, time, event=event)
    np.testing.assert_allclose(model.coef_, exact.coef_[0, :4], atol=0.05)
    np.testing.assert_allclose(model.baseline_, exact.coef_[0, 4:], atol=0.05)
    np.testing.assert_allclose(model.coef_, COEF, atol=0.08)
    np.testing.assert_allclose(model.baseline_, BASELINE, atol=0.15)
    hazard = model.predict_hazard(X)
    np.testing.assert_allclose(
        hazard, expit((X @ model.coef_)[:, None] + model.baseline_), rtol=1e-9
    )
    np.testing.assert_allclose(model.predict_survival(X)[:, 1], (1 - hazard[:, :2]).prod(axis=1))
    assert model.predict(X).min() > 0
    assert model.predict(X).max() < 5


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_survival_is_learned(epsilon, spells):
    X, time, event = spells
    model = DiscreteTimeSurvival(epsilon, periods=5, random_state=0).fit(X, time, event=event)
    assert np.corrcoef(model.predict(X), X @ COEF)[0, 1] < -0.9
    true = np.cumprod(1 - expit((X @ COEF)[:, None] + BASELINE), axis=1)
    assert np.abs(model.predict_survival(X) - true).mean() < 0.06
    assert "the periods" in model.guarantee_.public


def test_without_event_all_durations_end_with_it(spells):
    X, time, _ = spells
    settings = {"periods": 5, "solver": "nonprivate"}
    first = DiscreteTimeSurvival(**settings).fit(X, time)
    second = DiscreteTimeSurvival(**settings).fit(X, time, event=np.ones(len(time)))
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_the_degree_of_the_baseline_follows_from_public_numbers(spells):
    X, time, event = spells
    for epsilon, periods, baseline, columns in (
        (0.1, 20, "smooth", 2),
        (50.0, 20, "smooth", 5),
        (50.0, 5, "smooth", 4),
        (0.1, 7, "free", 6),
    ):
        model = DiscreteTimeSurvival(epsilon, periods=periods, baseline=baseline, random_state=0)
        assert model.fit(X, time, event=event).prepared_coef_.shape[1] == 4 + columns
        assert model.baseline_.shape == (periods,)
    with pytest.raises(ValueError, match="baseline"):
        DiscreteTimeSurvival(baseline="flat").check_settings()


@given(durations, st.integers(2, 6), st.integers(1, 3))
def test_weights_of_a_person_add_up_to_at_most_one(given_rows, count, spells_each):
    time, event = (np.array(part, dtype=float) for part in zip(*given_rows, strict=True))
    rows = PersonPeriods.of(time, event, np.arange(1.0, count + 1))
    nominal = np.where(rows.event, 0.5, 0.5 / (count - 1))
    people = PrivacyUnits.of(np.empty((len(time), 1)), None, None, None)
    if len(time) > 2 * spells_each:
        ids = np.arange(len(time)) // spells_each
        people = PrivacyUnits.of(np.empty((len(time), 1)), ids, None, None)
    spread = people.spread(rows.person, "")
    units = spread.units
    weights = units.capped(nominal)
    steps = (weights.values * 2**30).astype(np.int64)
    totals = np.bincount(units.codes, steps)
    assert (weights.values * 2**30 == steps).all()
    assert (totals <= 2**30).all()
    alone = np.bincount(units.codes, nominal) <= 1
    kept = alone[units.codes]
    np.testing.assert_allclose(weights.values[kept], nominal[kept], atol=2**-29)


def test_survival_of_people_with_several_spells(spells):
    X, time, event = spells
    people = np.arange(len(time)) // 2
    model = DiscreteTimeSurvival(5.0, periods=5, random_state=0, rows_per_unit=2)
    model.fit(X, time, event=event, groups=people)
    assert model.guarantee_.unit == "person"
    assert np.corrcoef(model.predict(X), X @ COEF)[0, 1] < -0.9


def test_survival_needs_sums_over_rows(spells):
    X, time, event = spells
    with pytest.raises(NotSupported, match="differ in weight"):
        DiscreteTimeSurvival(periods=5, solver="objpert", data_norm=1.0).fit(X, time, event=event)


@pytest.mark.parametrize(
    "periods", [1, 0, 1000, [1.0], [2.0, 1.0], [1.0, np.inf], "ab", [[1, 2]], True]
)
def test_bad_periods(periods):
    with pytest.raises(ValueError, match="periods"):
        DiscreteTimeSurvival(periods=periods).check_settings()


@pytest.mark.parametrize("event", [[0, 1], [0, 1, 2], ["a", "b", "c"], [0.5, 0, 1]])
def test_bad_events(event):
    with pytest.raises(ValueError, match="event must have one number for each row"):
        DiscreteTimeSurvival(periods=3).fit(np.eye(3), [1, 2, 3], event=event)


def test_events_are_routed(spells):
    X, time, event = spells
    settings = {"periods": 5, "random_state": 0}
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(FunctionTransformer(), DiscreteTimeSurvival(5.0, **settings))
        pipeline.fit(X, time, event=event)
    direct = DiscreteTimeSurvival(5.0, **settings).fit(X, time, event=event)
    np.testing.assert_array_equal(pipeline[-1].coef_, direct.coef_)


# Both


@pytest.mark.parametrize("features", ["linear", "additive"])
@pytest.mark.parametrize("kind", ["ordinal", "survival"])
def test_files_sparse_tables_and_effects(kind, features, ordered, spells, tmp_path):
    numeric = {0: (-4, 4), 1: (-4, 4)} if features == "additive" else None
    # with some seeds rounding decides whether descent goes on, by one gradient
    settings = {"random_state": 1, "features": features, "columns": numeric}
    if kind == "ordinal":
        X, y = ordered
        model = OrdinalClassifier(5.0, classes=range(5), **settings).fit(X, y)
        again_sparse = OrdinalClassifier(5.0, classes=range(5), **settings)
        again_sparse.fit(sp.csr_array(X), y)
        predict = "predict_proba"
    else:
        X, time, event = spells
        model = DiscreteTimeSurvival(5.0, periods=5, **settings).fit(X, time, event=event)
        again_sparse = DiscreteTimeSurvival(5.0, periods=5, **settings)
        again_sparse.fit(sp.csr_array(X), time, event=event)
        predict = "predict_hazard"
    np.testing.assert_allclose(again_sparse.coef_, model.coef_, rtol=1e-6, atol=1e-7)
    assert model.coef_.shape == (model.features_.width(4),)
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(getattr(again, predict)(X), getattr(model, predict)(X))
    assert again.guarantee_ == model.guarantee_
    again.plot_effects()
    folded = model.features_.transform(X) @ model.coef_
    found = model._margins(X)[:, 0] - model.intercept_
    np.testing.assert_allclose(found, folded, atol=1e-9)


def test_a_gradient_solver_by_name_works(ordered):
    X, y = ordered
    model = OrdinalClassifier(5.0, classes=range(5), solver=GD(30), data_norm=4.0).fit(X, y)
    assert model.solver_ == "gd"


def test_the_weights_of_a_fit_add_up_to_at_most_one_for_each_person(monkeypatch, spells):
    X, time, event = spells
    seen = []
    weights_of = PrivacyUnits.model_weights

    def model_weights(self):
        seen.append(weights_of(self))
        return seen[-1]

    monkeypatch.setattr(PrivacyUnits, "model_weights", model_weights)
    time = np.where(np.arange(len(time)) < 50, 0.5, time)  # seen in no whole period
    event = np.where(np.arange(len(time)) < 50, 0, event)
    for ids in (None, np.arange(len(time)) // 3):
        seen.clear()
        DiscreteTimeSurvival(1.0, periods=5, random_state=0).fit(X, time, event=event, groups=ids)
        assert seen
        for weights in seen:
            assert weights.size == (len(time) if ids is None else len(np.unique(ids)))
            totals = np.bincount(weights.codes, weights.values)
            assert totals.max() <= 1.0
            assert totals.max() > 0.8
        if ids is None:
            assert not np.bincount(seen[0].codes, seen[0].values)[:50].any()
