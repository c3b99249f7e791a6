"""Baselines find what they should, and never claim to be private."""

import json
import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression as Reference

from discreet import HuberRegressor, Ledger, LinearSVC, LogisticRegression
from discreet.errors import PrivacyError, PrivacyLeakWarning
from discreet.solvers import NonPrivate

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(1500, 4))
Y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + 0.4 + 0.3 * rng.logistic(size=1500) > 0, "yes", "no")
THREE = np.digitize(X @ [1.0, -2.0, 0.5, 0.0], [-0.3, 1.2])

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")


@pytest.mark.parametrize("as_table", [np.asarray, sp.csr_array])
def test_nonprivate_is_the_minimum(as_table):
    alpha = 1e-2
    model = LogisticRegression(solver="nonprivate", alpha=alpha).fit(as_table(X), Y)
    # scikit-learn does not penalise the intercept, so give it one as a feature
    with_ones = np.column_stack([X, np.ones(len(X))])
    reference = Reference(C=1 / (alpha * len(X)), fit_intercept=False, tol=1e-10).fit(with_ones, Y)
    np.testing.assert_allclose(model.coef_, reference.coef_[:, :4], atol=1e-5)
    np.testing.assert_allclose(model.intercept_, reference.coef_[:, 4], atol=1e-5)


def test_nonprivate_takes_losses_with_a_kink():
    model = LinearSVC(solver="nonprivate", loss="hinge").fit(X, Y)
    assert model.score(X, Y) > 0.85


def test_majority_predicts_the_most_frequent_class():
    for labels in (Y, THREE):
        model = LogisticRegression(solver="majority").fit(X, labels)
        values, counts = np.unique(labels, return_counts=True)
        assert set(model.predict(X)) == {values[counts.argmax()]}
        assert not model.coef_.any()


def test_majority_of_a_regression_is_the_mean():
    target = X[:, 0] + 3.0
    model = HuberRegressor(solver="majority").fit(X, target)
    assert model.predict(X[:1]) == pytest.approx(target.mean())
    with pytest.raises(ValueError, match="fit_intercept=True"):
        HuberRegressor(solver="majority", fit_intercept=False).fit(X, target)


@pytest.mark.parametrize("solver", ["nonprivate", "majority"])
def test_they_say_that_they_are_not_private(solver):
    with pytest.warns(PrivacyLeakWarning, match="without any privacy"):
        model = LogisticRegression(solver=solver).fit(X, Y)
    guarantee = model.guarantee_
    assert not guarantee.private
    assert guarantee.epsilon == math.inf
    assert str(guarantee).startswith("NOT PRIVATE")
    assert json.loads(guarantee.to_json())["private"] is False
    assert json.loads(guarantee.to_json())["epsilon"] is None


@pytest.mark.parametrize("solver", ["nonprivate", "majority"])
@pytest.mark.parametrize("labels", [Y, THREE], ids=["two", "three"])
def test_a_fit_warns_once_and_shows_its_entries(solver, labels):
    seen = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LogisticRegression(solver=solver, progress=seen.append).fit(X, labels)
    assert sum("without any privacy" in str(warning.message) for warning in caught) == 1
    assert [at.entry for at in seen] == list(model.trace_)
    assert len(seen) == (1 if labels is Y else 3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tolerance", 0.0),
        ("tolerance", "small"),
        ("max_iterations", 0),
        ("max_iterations", 1.5),
        ("smoothing", -1.0),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        NonPrivate(**{field: value})


def test_a_ledger_refuses_them():
    spent = Ledger().create("rows")
    with pytest.raises(PrivacyError, match="not be private"):
        LogisticRegression(solver="nonprivate", ledger=spent).fit(X, Y)
    assert spent.entries == 0
