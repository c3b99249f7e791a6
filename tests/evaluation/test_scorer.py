"""Scorers for scikit-learn: contract, charges, warnings and groups."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

import discreet
from discreet import Budget, BudgetExceeded, Ledger, PrivacyLeakWarning
from discreet.evaluation import scorer

N = 1200
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = np.where(X[:, 0] + RNG.logistic(size=N) > 0, "yes", "no")
IDS = np.arange(N) // 2


@pytest.fixture
def dataset():
    return Ledger().create("rows", limit=Budget(100.0, 1e-4, "add_remove"))


@pytest.fixture
def people():
    return Ledger().create("rows", limit=Budget(100.0, 1e-4, "add_remove"), unit="person")


def model(**settings):
    return discreet.LogisticRegression(epsilon=2.0, classes=["no", "yes"], **settings)


@pytest.fixture(scope="module")
def fitted():
    return model().fit(X, Y)


@pytest.mark.parametrize(
    ("name", "measure", "sign"),
    [
        ("accuracy", "accuracy", 1),
        ("balanced_accuracy", "balanced accuracy", 1),
        ("roc_auc", "AUC", 1),
        ("neg_log_loss", "log loss", -1),
        ("recall", "recall of yes", 1),
        ("precision", "precision of yes", 1),
    ],
)
def test_scores_are_measures_of_an_evaluation_larger_is_better(
    name, measure, sign, fitted, dataset, monkeypatch
):
    kept = []

    def noted(*args, **settings):
        kept.append(discreet.evaluate(*args, **settings))
        return kept[-1]

    monkeypatch.setattr(scorer, "evaluate", noted)
    score = discreet.private_scorer(name, epsilon=0.5, ledger=dataset)(fitted, X, Y)
    assert score == sign * kept[0].measures[measure]
    assert kept[0].guarantee.epsilon == 0.5
    assert dataset.entries == 1


def test_errors_are_negative(dataset):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        line = discreet.LinearRegression(epsilon=2.0, target_bounds=(-3, 3)).fit(X, X[:, 0])
    for name in ("neg_mean_absolute_error", "neg_root_mean_squared_error"):
        score = discreet.private_scorer(name, epsilon=50.0, ledger=dataset)(line, X, -X[:, 0])
        assert -6 < score < -0.5


def test_a_ledger_is_charged_at_each_fold(dataset):
    own = discreet.private_scorer("roc_auc", epsilon=0.5, ledger=dataset)
    scores = cross_val_score(model(ledger=dataset), X, Y, scoring=own, cv=3, error_score="raise")
    assert len(scores) == 3
    assert all(0.6 < score < 1 for score in scores)
    assert dataset.entries == 6  # three fits and three scores
    search = GridSearchCV(model(ledger=dataset), {"alpha": [1e-4, 1.0]}, scoring=own, cv=2)
    search.fit(X, Y)
    assert search.best_params_ in ({"alpha": 1e-4}, {"alpha": 1.0})
    assert dataset.entries == 6 + 5 + 4


def test_a_spent_ledger_refuses_the_score(fitted):
    small = Ledger().create("rows", limit=Budget(0.7, 1e-6, "add_remove"))
    own = discreet.private_scorer("accuracy", epsilon=0.5, ledger=small)
    own(fitted, X, Y)
    with pytest.raises(BudgetExceeded):
        own(fitted, X, Y)
    assert small.entries == 1


def test_without_a_ledger_it_warns_that_scores_add_up():
    with pytest.warns(PrivacyLeakWarning, match="add up"):
        discreet.private_scorer("accuracy", epsilon=0.5)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("neg_mean_absolute_error", "classifier"),
        ("neg_log_loss", "svc"),
        ("accuracy", "line"),
        ("roc_auc", "three"),
        ("recall", "three"),
    ],
)
def test_a_measure_that_a_model_lacks_costs_nothing(name, kind, fitted, dataset):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kinds = {
            "classifier": fitted,
            "svc": discreet.LinearSVC(epsilon=2.0, classes=["no", "yes"]).fit(X, Y),
            "line": discreet.LinearRegression(epsilon=2.0, target_bounds=(-3, 3)).fit(X, X[:, 0]),
            "three": discreet.LogisticRegression(epsilon=2.0, classes=["a", "no", "yes"]).fit(X, Y),
        }
    with pytest.raises(ValueError, match="nothing was spent"):
        discreet.private_scorer(name, epsilon=0.5, ledger=dataset)(kinds[kind], X, Y)
    assert dataset.entries == 0


def test_settings_are_checked_when_it_is_made(dataset):
    for given, text in (
        ({"scoring": "f1"}, "scoring must be"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"relation": "other"}, "relation"),
        ({"ledger": "visits"}, "ledger must be"),
    ):
        settings = {"scoring": "accuracy", "epsilon": 0.5, "ledger": dataset} | given
        with pytest.raises(ValueError, match=text):
            discreet.private_scorer(settings.pop("scoring"), **settings)


def test_groups_are_routed_to_the_scorer(people):
    own = discreet.private_scorer("accuracy", epsilon=0.5, ledger=people)
    with sklearn.config_context(enable_metadata_routing=True):
        cross_val_score(
            model(ledger=people),
            X,
            Y,
            scoring=own,
            cv=GroupKFold(2),
            params={"groups": IDS},
            error_score="raise",
        )
    assert people.entries == 4  # a release about rows would be refused by a ledger of people


def test_it_can_be_pickled():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = discreet.private_scorer("accuracy", epsilon=0.5)
    assert pickle.loads(pickle.dumps(own)) == own
