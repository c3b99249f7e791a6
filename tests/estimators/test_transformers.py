"""Private scaler and imputer: what they release, what they charge, and what they are."""

import doctest
import math
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from discreet import (
    Budget,
    BudgetExceeded,
    Ledger,
    LogisticRegression,
    PrivacyLeakWarning,
    PrivateImputer,
    PrivateScaler,
    card,
    save,
)
from discreet.core import Curator
from discreet.core.questions import ColumnBounds, RowSum
from discreet.estimators import transformers

KINDS = [PrivateScaler, PrivateImputer]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    n = 20_000
    return np.column_stack([rng.normal(50, 10, n), rng.normal(3e4, 8e3, n), rng.integers(0, 2, n)])


@pytest.fixture
def asked(monkeypatch):
    """Record the rows behind each question of the curator, before it is answered."""
    found = {"bounds": [], "sums": []}
    plain = Curator.ask

    def ask(self, question, mechanism):
        if isinstance(question, ColumnBounds):
            found["bounds"].append(self._rows)
        else:
            assert isinstance(question, RowSum)
            found["sums"].append((self._rows, mechanism))
        return plain(self, question, mechanism)

    monkeypatch.setattr(Curator, "ask", ask)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learn_checks(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(kind(), on_fail=None, on_skip=None)
    assert not {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert sum(r["status"] == "passed" for r in results) > 35


def test_examples_in_docstrings():
    result = doctest.testmod(transformers)
    assert (result.attempted > 0, result.failed) == (True, 0)


def test_means_and_scales_are_near_those_of_the_rows(table):
    """Six standard deviations of noise: a false alarm has probability below 1e-8 per number."""
    scaler = PrivateScaler(epsilon=1.0, bounds=[(0, 120), (0, 1e5), (0, 1)]).fit(table)
    mu = Budget(1.0, 1e-6, "add_remove").to_gdp().mu
    off = 6 * math.sqrt(6) / mu / len(table) * np.array([60, 5e4, 0.5])
    assert (abs(scaler.mean_ - np.clip(table, 0, [120, 1e5, 1]).mean(0)) < off).all()
    assert np.allclose(scaler.scale_, table.std(0), rtol=0.2)
    scaled = scaler.transform(table)
    assert abs(scaled.mean(0)).max() < 0.1
    assert np.allclose(scaler.inverse_transform(scaled), table)
    half = PrivateScaler(epsilon=1.0, bounds=(0, 1e5), with_mean=False, with_std=False).fit(table)
    assert np.array_equal(half.transform(table), table)


def test_private_bounds_serve_columns_of_any_unit(table):
    scaler = PrivateScaler(epsilon=2.0).fit(table)
    assert np.allclose(scaler.mean_, table.mean(0), rtol=0.1)
    assert np.allclose(scaler.scale_, table.std(0), rtol=0.3)
    assert "chosen privately" in scaler.guarantee_.conditions[0]


def test_missing_values_become_the_mean_of_the_others(table):
    X = table.copy()
    X[::3, 0] = np.nan
    X[:, 2] = np.nan  # nothing is there
    imputer = PrivateImputer(epsilon=1.0, bounds=[(0, 120), (0, 1e5), (0, 1)])
    filled = imputer.fit_transform(X)
    assert not np.isnan(filled).any()
    assert filled[0, 0] == imputer.statistics_[0] == pytest.approx(50, abs=1)
    assert imputer.statistics_[2] == 0.5  # the middle of its public bounds
    assert np.array_equal(filled[1], [*X[1, :2], 0.5])
    assert PrivateImputer(epsilon=1.0).fit(X).statistics_[2] == 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("delta", "bounds"), [(1e-6, None), (1e-6, (0, 1e5)), (0.0, None)])
def test_another_accountant_confirms_the_guarantee(table, kind, relation, delta, bounds):
    fitted = kind(0.5, delta, relation=relation, bounds=bounds).fit(table)
    stated = fitted.guarantee_
    assert (stated.epsilon, stated.delta, str(stated.relation)) == (0.5, delta, relation)
    assert stated.recompute() <= 0.5 * (1 + 1e-9)
    assert stated.recompute() >= 0.5 * 0.98  # and the budget is used
    assert stated.mechanisms[-1].count == 1
    if bounds is None:
        assert stated.mechanisms[0].count == 2 * table.shape[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_within_the_bound_of_its_sum(asked, kind):
    """The sensitivity of the sum is √(2p): no row may be longer, whatever its values are."""
    X = np.array([[1e300, -1e300], [0.0, 1e-300], [5.0, 5.0]])
    X = np.vstack([X, [[np.nan, np.nan]]]) if kind is PrivateImputer else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind(1.0, 1e-6, bounds=(-1, 1), random_state=0).fit(X)
    ((rows, _),) = asked["sums"]
    assert rows.row_norm == math.sqrt(2 * X.shape[1])
    assert (rows.table.array**2).sum(axis=1).max() <= 2 * X.shape[1]
    assert np.isfinite(rows.table.array).all()


def test_missing_values_count_nothing_in_the_choice_of_bounds(asked, table):
    X = table.copy()
    X[::4, 1] = np.nan
    PrivateImputer(epsilon=1.0).fit(X)
    assert [rows.weights.sum() for rows in asked["bounds"]] == [20_000, 15_000, 20_000]
    assert [rows.public_size for rows in asked["bounds"]] == [20_000] * 3  # missing ones are secret


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_counts_once(asked, table, kind):
    X = table.copy()
    people = np.arange(len(X)) // 7
    if kind is PrivateImputer:
        X[::5, 0] = np.nan
    fitted = kind(epsilon=1.0).fit(X, groups=people)
    assert fitted.guarantee_.unit == "person"
    assert any("each row of a person" in text for text in fitted.guarantee_.conditions)
    if kind is PrivateImputer:
        assert not asked["bounds"][0].weights[::5].any()
    for rows in [*asked["bounds"], asked["sums"][0][0]]:
        assert np.bincount(people, rows.weights).max() <= 1
        assert rows.public_size == people[-1] + 1


def test_settings_are_refused_before_rows_are_read(table):
    for settings in ({"epsilon": -1}, {"bounds": (1, 0)}, {"bounds": [(0, 1)]}, {"with_std": 3}):
        with pytest.raises(ValueError, match="must be"):
            PrivateScaler(**settings).fit(table)


def test_nan_is_refused_by_the_scaler_without_showing_a_value(table):
    X = table.copy()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        PrivateScaler(epsilon=1.0).fit(X)


def test_a_ledger_counts_it_and_stops_it(table, asked):
    visits = Ledger().create("visits", limit=Budget(1.0, 1e-6, "add_remove"))
    scaler = PrivateScaler(epsilon=0.6, ledger=visits).fit(table)
    assert (visits.entries, scaler.ledger_entry_) == (1, visits.records()[0]["entry"])
    assert visits.records()[0]["settings"]["estimator"] == "PrivateScaler"
    assert visits.spent == pytest.approx(0.6, rel=1e-3)
    before = len(asked["bounds"]) + len(asked["sums"])
    with pytest.raises(BudgetExceeded):
        PrivateScaler(epsilon=0.9, ledger=visits).fit(table)
    assert len(asked["bounds"]) + len(asked["sums"]) == before


def test_a_seed_is_test_mode(table):
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        first = PrivateScaler(epsilon=1.0, random_state=3).fit(table)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        second = PrivateScaler(epsilon=1.0, random_state=3).fit(table)
    assert not first.guarantee_.secure
    assert np.array_equal(first.mean_, second.mean_)
    other = PrivateScaler(epsilon=1.0).fit(table)
    assert not np.array_equal(first.mean_, other.mean_)


def test_names_and_outputs_of_scikit_learn(table):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(table, columns=["age", "income", "sex"])
    scaler = PrivateScaler(epsilon=1.0).set_output(transform="pandas").fit(frame)
    assert list(scaler.get_feature_names_out()) == ["age", "income", "sex"]
    assert list(scaler.transform(frame).columns) == ["age", "income", "sex"]
    pipeline = make_pipeline(PrivateImputer(epsilon=1.0), PrivateScaler(epsilon=1.0))
    assert list(pipeline.fit(frame).get_feature_names_out()) == ["age", "income", "sex"]


def test_routed_groups_reach_scaler_and_model(table):
    y, people = (table[:, 0] > 50).astype(int), np.arange(len(table)) // 2
    pipeline = make_pipeline(PrivateScaler(epsilon=0.5), LogisticRegression(0.5, classes=[0, 1]))
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline.fit(table, y, groups=people)
    assert [step.guarantee_.unit for step in (pipeline[0], pipeline[1])] == ["person", "person"]


def test_the_card_of_a_pipeline_counts_its_scaler(table):
    y = (table[:, 0] > 50).astype(int)
    pipeline = make_pipeline(PrivateScaler(epsilon=0.5), LogisticRegression(1.0, classes=[0, 1]))
    made = card.card(pipeline.fit(table, y))
    assert made.total == (1.5, 2e-6)
    assert "This model and the steps before it are together (ε = 1.5" in made.summary
    assert "PrivateScaler" in str(made)


@pytest.mark.parametrize("step", [PrivateScaler(epsilon=1.0), PrivateImputer(epsilon=1.0)])
def test_a_model_file_does_not_lose_the_cost_of_a_transformer(table, step, tmp_path):
    model = LogisticRegression(epsilon=1.0, classes=[0, 1])
    pipeline = make_pipeline(step, model).fit(table, table[:, 2].astype(int))
    with pytest.raises(TypeError, match=f"{type(step).__name__} cannot be saved.*one guarantee"):
        save(pipeline, tmp_path / "model.json")
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_is_stopped_gives_back_what_it_did_not_use(kind, table, monkeypatch):
    def interrupted(self, question, mechanism):
        raise KeyboardInterrupt

    monkeypatch.setattr(Curator, "ask", interrupted)
    ledger = Ledger().create("rows")
    with pytest.raises(KeyboardInterrupt):
        kind(epsilon=1.0, bounds=(0, 1e5), ledger=ledger).fit(table)
    assert [entry["status"] for entry in ledger.records()] == ["returned"]
