"""Measures of two classes: exact ones are the textbook's, noisy ones come from one histogram."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, log_loss, roc_auc_score

from discreet import Ledger, LinearSVC, LogisticRegression
from discreet.core import Budget
from discreet.estimators import measures
from discreet.estimators.classifiers import Link
from discreet.estimators.measures import (
    area_under_curve,
    calibration_groups,
    score_edges,
    score_two_classes,
)
from discreet.estimators.scoring import count_scores, score_histogram
from discreet.preparation import FeatureMap

N = 20_000
PLACES = np.linspace(0.0, 1.0, 41)
EDGES = np.linspace(-3.0, 3.0, 13)


def model_of(kind=LogisticRegression, coef=1.0, **attributes):
    model = kind()
    model.coef_, model.intercept_ = np.array([[coef]]), np.array([-1.0])
    model.n_features_in_, model.features_ = 1, FeatureMap()
    model.classes_ = np.array(["no", "yes"])
    if kind is LogisticRegression:
        model.link_, model.multinomial_ = Link(0.9, 0.1), False
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = 1.5 * rng.normal(size=(N, 1))
    y = np.where(X[:, 0] - 1 + rng.logistic(size=N) > 0, "yes", "no")
    return X, y


def test_exact_measures_are_those_of_scikit_learn(rows):
    X, y = rows
    model = model_of()
    scores = score_two_classes(model, X, y)
    assert scores.guarantee is None
    assert scores.deviations == {}
    assert scores.auc == pytest.approx(roc_auc_score(y, model.decision_function(X)), abs=1e-12)
    assert scores.log_loss == pytest.approx(log_loss(y, model.predict_proba(X)), rel=1e-9)
    assert scores.confusion.counts.tolist() == confusion_matrix(y, model.predict(X)).tolist()
    assert sum(group.count for group in scores.calibration) == N
    chance = model.predict_proba(X)[:, 1]
    assert scores.calibration[0].low == chance.min()
    for group in scores.calibration:
        above = group.low <= chance if group is scores.calibration[0] else group.low < chance
        inside = above & (chance <= group.high)
        assert inside.sum() == group.count
        assert group.observed == pytest.approx(np.mean(y[inside] == "yes"))
        assert group.predicted == pytest.approx(chance[inside].mean())


def test_ties_count_half():
    assert area_under_curve(np.array([[10.0], [10.0]])) == 0.5
    assert area_under_curve(np.array([[10.0, 0.0], [0.0, 10.0]])) == 1.0
    assert np.isnan(area_under_curve(np.array([[10.0], [0.0]])))


def test_a_threshold_moves_the_decision_alone(rows):
    X, y = rows
    model = model_of()
    low, usual = score_two_classes(model, X, y, threshold=0.2), score_two_classes(model, X, y)
    assert (low.auc, low.log_loss) == (usual.auc, usual.log_loss)
    predicted = np.where(model.predict_proba(X)[:, 1] > 0.2, "yes", "no")
    assert low.confusion.counts.tolist() == confusion_matrix(y, predicted).tolist()
    with pytest.raises(ValueError, match="probabilities"):
        score_two_classes(model_of(LinearSVC), X, y, threshold=0.2)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_noisy_measures_are_near_the_exact_ones(rows, relation):
    # Six standard deviations of the noise, and what bins of 0.25 in the log odds round away.
    X, y = rows
    model = model_of()
    exact = score_two_classes(model, X, y, threshold=0.3).measures()
    noisy = score_two_classes(model, X, y, Budget(5.0, 0.0, relation), threshold=0.3)
    assert noisy.guarantee.epsilon == 5.0
    for name, value in noisy.measures().items():
        assert value == pytest.approx(exact[name], abs=6 * noisy.deviations[name] + 0.004), name
    assert noisy.log_loss_bound < 6.3
    assert (noisy.calibration[0].low, noisy.calibration[-1].high) == (0.0, 1.0)
    for group in noisy.calibration:
        assert group.observed == pytest.approx(group.predicted, abs=0.15)


def test_stated_deviations_are_those_of_the_noise(rows):
    # A standard deviation of 60 runs is within a factor of 1.7 but for a chance below 1e-6.
    X, y = (part[:2000] for part in rows)
    runs = [score_two_classes(model_of(), X, y, Budget(0.5, 0.0, "add_remove")) for _ in range(60)]
    for name in ("accuracy", "AUC", "log loss"):
        found = np.std([run.measures()[name] for run in runs])
        stated = np.mean([run.deviations[name] for run in runs])
        assert 1 / 1.7 < found / stated < 1.7, name


@pytest.mark.parametrize(("relation", "scale"), [("add_remove", 1.0), ("replace_one", 2.0)])
def test_noise_on_a_histogram_has_the_scale_of_the_relation(rows, relation, scale):
    # The mean of 28 × 15 |noise| of mean 1 has standard deviation 0.05: six of them are 0.3, which
    # a wrong factor of two exceeds. The chance of a false alarm is below 1e-6.
    X, y = rows
    exact = score_histogram(model_of(), X, y, EDGES).counts
    budget, noise = Budget(1.0, 0.0, relation), []
    for _ in range(15):
        found = score_histogram(model_of(), X, y, EDGES, budget)
        assert found.scale == scale
        noise.append(np.abs(found.counts - exact))
    assert np.mean(noise) / scale == pytest.approx(1.0, abs=0.3)


def test_one_row_moves_one_count_by_one(rows):
    X, y = (part[:500] for part in rows)
    rng = np.random.default_rng(1)
    whole = score_histogram(model_of(), X, y, EDGES).counts
    for k in rng.integers(0, 500, 20):
        less = score_histogram(model_of(), np.delete(X, k, 0), np.delete(y, k), EDGES).counts
        assert np.abs(whole - less).sum() == 1
        other = X.copy()
        other[k] = 9.0
        assert np.abs(whole - score_histogram(model_of(), other, y, EDGES).counts).sum() <= 2


def test_one_person_moves_counts_by_one_in_all(rows):
    X, y = (part[:600] for part in rows)
    ids = np.repeat(np.arange(20), 30)
    whole = score_histogram(model_of(), X, y, EDGES, groups=ids).counts
    assert whole.sum() == pytest.approx(20, abs=1e-6)
    for person in (0, 7, 19):
        kept = ids != person
        less = score_histogram(model_of(), X[kept], y[kept], EDGES, groups=ids[kept]).counts
        assert np.abs(whole - less).sum() <= 1


def test_edges_depend_on_public_numbers_alone(rows):
    model, budget = model_of(), Budget(0.1, 0.0, "add_remove")
    edges = score_edges(model, N, budget, 0.3)
    assert 0.3 in edges
    assert np.diff(edges).min() > 0
    chances = model.link_.positive(edges)
    assert chances[0] == pytest.approx(0.0025, rel=0.02)
    fine = score_edges(model, 100 * N, budget, 0.3)
    assert len(fine) > len(edges) > len(score_edges(model, 10, budget, 0.3))
    # replacing a row takes twice the noise, so bins are as for half the rows
    half = Budget(0.1, 0.0, "replace_one")
    assert len(score_edges(model, 2 * N, half, 0.3)) == len(edges)
    assert len(score_edges(model, 15_000, half, 0.3)) < len(score_edges(model, 15_000, budget, 0.3))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC])
def test_edges_are_the_same_on_all_tables_of_one_size(kind, grouped, monkeypatch):
    """Labels and values of rows are private, and whose they are: no edge may depend on them."""
    size, rng = 1200, np.random.default_rng(0)
    asked = []

    def noted(model, X, y, edges, *rest):
        asked.append(edges)
        return count_scores(model, X, y, edges, *rest)

    monkeypatch.setattr(measures, "count_scores", noted)
    X, budget = rng.normal(size=(size, 1)), Budget(1.0, 0.0, "add_remove")
    mixed = np.where(rng.random(size) < 0.5, "yes", "no")
    ids = np.arange(size) // 2
    tables = [
        (X, mixed, ids),
        (X, np.full(size, "no"), ids),
        (X, np.full(size, "yes"), ids),
        (np.full((size, 1), 1e6), mixed, ids),
        (X, mixed, np.where(np.arange(size) < size // 2, np.arange(size), 0)),
    ]
    if grouped:  # as many people with fewer rows
        tables.append((X[::2], mixed[::2], ids[::2]))
    for values, labels, people in tables:
        groups = people if grouped else None
        score_two_classes(model_of(kind), values, labels, budget, groups=groups)
    units = {"none": 0, "people": size // 2, "rows": size, "given": 10**6}
    known = {name: score_edges(model_of(kind), n, budget, 0.0) for name, n in units.items()}
    assert len({edges.size for edges in known.values()}) == 4  # these numbers can tell
    public = known["people" if grouped else "rows"]
    assert len(asked) == len(tables)
    assert all(np.array_equal(edges, public) for edges in asked)
    # a size that the caller knows to be public is used instead of the table's
    asked.clear()
    for values, labels, people in tables:
        groups = people if grouped else None
        score_two_classes(model_of(kind), values, labels, budget, groups=groups, size=10**6)
    assert all(np.array_equal(edges, known["given"]) for edges in asked)


def test_a_histogram_is_charged_before_a_row_is_read(rows, monkeypatch):
    X, y = rows
    ledger = Ledger().create("rows", limit=Budget(1.0, 1e-6, "add_remove"))
    model = model_of()

    def stop(*_args, **_settings):
        raise RuntimeError("rows are read")

    monkeypatch.setattr("discreet.estimators.base.PrivateLinearModel._margins", stop)
    with pytest.raises(RuntimeError):
        score_histogram(model, X, y, EDGES, Budget(0.5, 0.0, "add_remove"), ledger)
    assert ledger.spent == pytest.approx(0.5)


@pytest.mark.parametrize(
    "edges", [None, [0.0], [1.0, 0.0], [0.0, 0.0], [0.0, np.inf], [np.nan, 1.0]]
)
def test_edges_that_are_no_public_bins_are_refused(rows, edges):
    ledger = Ledger().create("rows", limit=Budget(1.0, 1e-6, "add_remove"))
    with pytest.raises(ValueError, match="edges must be"):
        score_histogram(model_of(), *rows, edges, Budget(0.5, 0.0, "add_remove"), ledger)
    assert ledger.entries == 0


def test_a_histogram_is_for_two_classes(rows):
    model = model_of(classes_=np.array(["a", "no", "yes"]))
    with pytest.raises(ValueError, match="two classes; got 3"):
        score_histogram(model, *rows)


def test_a_bin_next_to_the_cut_is_not_much_narrower_than_others():
    model, budget = model_of(LinearSVC), Budget(1.0, 0.0, "add_remove")
    edges = score_edges(model, 500, budget, 0.01)  # bins of 0.5
    assert 0.01 in edges
    assert 0.0 not in edges
    assert 0.0 in score_edges(model, 500, budget, 0.06)


def test_counts_of_a_noisy_confusion_matrix_are_not_negative(rows):
    """Of 120 noisy counts of one row, all are positive with probability below 1e-9."""
    X, y = (part[:1] for part in rows)
    budget = Budget(0.1, 0.0, "replace_one")
    for _ in range(30):
        scores = score_two_classes(model_of(), X, y, budget)
        assert scores.confusion.counts.min() >= 0
        assert 0 <= scores.auc <= 1 or np.isnan(scores.auc)
        assert 0 <= scores.log_loss <= scores.log_loss_bound


def test_models_without_probabilities_have_no_log_loss(rows):
    scores = score_two_classes(model_of(LinearSVC), *rows, Budget(1.0, 0.0, "add_remove"))
    assert scores.log_loss is None
    assert scores.calibration == ()
    assert scores.auc == pytest.approx(0.8, abs=0.1)
    assert "log loss" not in scores.measures()


def test_groups_of_a_calibration_are_larger_than_the_noise():
    rng = np.random.default_rng(0)
    counts = rng.laplace(0, 5.0, (2, 40))  # no rows at all
    assert len(calibration_groups(PLACES[1:], PLACES, counts, 5.0)) <= 1
    counts = np.full((2, 40), 1000.0)
    assert len(calibration_groups(PLACES[1:], PLACES, counts, 5.0)) == 10
