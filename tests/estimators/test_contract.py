"""scikit-learn's own checks, on every estimator."""

import warnings

import pytest
from sklearn.utils.estimator_checks import check_estimator

from discreet import (
    DiscreteTimeSurvival,
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    OrdinalClassifier,
    PoissonRegressor,
    QuantileRegressor,
)

ESTIMATORS = [
    LogisticRegression(),
    LinearRegression(),
    PoissonRegressor(target_bounds=(0, 100)),
    OrdinalClassifier(),
    DiscreteTimeSurvival(),
]
# these differ from one of those above in the loss alone
ESTIMATORS += [
    pytest.param(estimator, marks=pytest.mark.slow)
    for estimator in (
        LinearSVC(),
        HuberRegressor(),
        QuantileRegressor(),
        GammaRegressor(target_bounds=(0.1, 100)),
    )
]

_REPEATED = "a row of weight 3 is one person's, three rows are those of three"
EXPECTED_FAILURES: dict[str, str] = {
    "check_sample_weight_equivalence_on_dense_data": _REPEATED,
    "check_sample_weight_equivalence_on_sparse_data": _REPEATED,
}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_scikit_learn_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seeds and labels from y are on purpose here
        results = check_estimator(
            estimator, expected_failed_checks=EXPECTED_FAILURES, on_fail=None, on_skip=None
        )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 45
