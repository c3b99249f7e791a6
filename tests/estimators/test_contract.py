"""scikit-learn's own checks, on every estimator."""

import warnings

import pytest
from sklearn.utils.estimator_checks import check_estimator

from discreet import HuberRegressor, LinearRegression, LinearSVC, LogisticRegression

ESTIMATORS = [
    LogisticRegression(),
    LinearSVC(),
    HuberRegressor(),
    LinearRegression(),
]

EXPECTED_FAILURES: dict[str, str] = {}  # no check is forbidden by privacy so far


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
