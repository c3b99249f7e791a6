"""Selection of coefficients: rules, what becomes of the others, and that intervals are refused."""

import numpy as np
import pytest

from discreet import LinearRegression, LogisticRegression, NotSupported, load, save
from discreet.inference import Covariance
from discreet.inference.selection import _large, selected


def covariance(whole):
    nothing = np.zeros_like(whole)
    return Covariance(whole, nothing, nothing, np.zeros(len(whole), dtype=bool), "", 1.0)


def test_the_universal_rule_keeps_what_is_above_its_threshold():
    """With 8 columns: 2.039 standard errors."""
    z = np.array([2.03, 2.05, 0.0, 9.0, 1.0, 1.5, 0.3, 2.0])
    assert _large(z, "universal", 0.1).tolist() == [False, True, False, True, *[False] * 4]
    assert _large(np.array([1.17, 1.18]), "universal", 0.1).tolist() == [False, True]


def test_the_other_rule_is_that_of_benjamini_and_hochberg():
    """p-values 0.010, 0.045, 0.060, 0.5 at 0.1: limits 0.025, 0.05, 0.075, 0.1."""
    from scipy.stats import norm

    z = norm.isf(np.array([0.060, 0.5, 0.010, 0.045]) / 2)
    assert _large(z, "fdr", 0.1).tolist() == [True, False, True, True]
    assert not _large(z, "fdr", 0.01).any()
    assert not _large(np.array([]), "fdr", 0.1).size


def test_others_move_to_the_estimate_under_the_restriction():
    """Least squares of y on the kept columns, from that on all columns and its covariance."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 4))
    y = X @ [2.0, 0.0, -2.0, 0.0] + 0.01 * rng.standard_normal(200)
    X[:, 3] = 1.0
    moment = np.linalg.inv(X.T @ X)
    full = moment @ X.T @ y
    full[1] = 1e-9 * np.sqrt(moment[1, 1])  # below any threshold, whatever the noise
    found, left = selected(full, covariance(1e-12 * moment), "universal", 0.1, intercept=True)
    assert found[1] == 0.0
    assert found[[0, 2]] == pytest.approx(full[[0, 2]], rel=1e-6)
    short = full - moment[:, 1] * full[1] / moment[1, 1]
    assert found[[0, 2, 3]] == pytest.approx(short[[0, 2, 3]], rel=1e-12)
    assert left.refused.all()
    assert "universal, 2 of 3 kept" in left.reason


def test_coefficients_without_interval_and_the_intercept_are_kept():
    whole = covariance(np.eye(4))
    whole.refused[0] = True
    values = np.array([0.1, 0.1, 5.0, 0.1])
    found, _ = selected(values, whole, "universal", 0.1, intercept=True)
    assert found.tolist() == [0.1, 0.0, 5.0, 0.1]
    found, _ = selected(values, whole, "universal", 0.1, intercept=False)
    assert found.tolist() == [0.1, 0.0, 5.0, 0.0]


@pytest.mark.parametrize("rule", ["universal", "fdr"])
def test_a_model_without_its_noise(rule, tmp_path):
    """Two slopes are 40 standard errors or more, the others 0."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6000, 6)) + 3
    y = X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(6000)
    model = LinearRegression(5.0, 1e-6, target_bounds=(-6, 6), inference=True).fit(X, y)
    before = model.coef_.copy()
    copied = model.select_coefficients(rule, level=1e-8)
    assert copied.coef_[:2] == pytest.approx([1.0, -1.0], abs=0.1)
    kept = copied.coef_[2:] != 0
    assert (abs(before[2:] / model.standard_errors_[3:])[kept] > 1.8).all()
    assert np.array_equal(model.coef_, before)
    assert np.isfinite(model.conf_int()).all()
    assert np.isnan(copied.conf_int()).all()
    assert "selected by the same numbers" in str(copied.summary())
    assert abs(np.mean(copied.predict(X) - y)) < 0.1
    with pytest.raises(NotSupported, match="selected"):
        copied.predict_interval(X)
    with pytest.raises(NotSupported, match="selected"):
        copied.select_coefficients()
    save(copied, tmp_path / "model.json")
    read = load(tmp_path / "model.json")
    assert np.array_equal(read.coef_, copied.coef_)
    assert str(read.summary()) == str(copied.summary())


@pytest.mark.filterwarnings("ignore:All coefficients are 0")
def test_classes_and_what_is_refused():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((6000, 3))
    y = rng.integers(0, 3, 6000)
    model = LogisticRegression(8.0, 1e-6, classes=[0, 1, 2], inference=True).fit(X, y)
    copied = model.select_coefficients()
    assert copied.coef_.shape == (3, 3)
    assert (copied.coef_ == 0).any()
    assert copied.predict_proba(X[:5]).shape == (5, 3)
    with pytest.raises(ValueError, match="rule"):
        model.select_coefficients("lasso")
    plain = LogisticRegression(1.0, 1e-6, classes=[0, 1], inference=False).fit(X, y > 0)
    with pytest.raises(NotSupported, match="inference=True"):
        plain.select_coefficients()
