"""Private sample weights: each row counts in proportion to its weight, up to a public bound."""

import warnings

import numpy as np
import pytest
from scipy.stats import binom

from discreet import LinearRegression, LogisticRegression
from discreet.estimators.units import PrivacyUnits
from discreet.rows.units import scaled_weights

FALSE_ALARM = 1e-6


@pytest.mark.parametrize("weights", [[1.0, 6.0, 30.0, 90.0], [0.0] * 4, [5.0] * 4, [1e300] * 4])
def test_a_row_s_factor_depends_on_its_own_weight_alone(weights):
    found = scaled_weights(weights, 4, 30.0)
    assert found.tolist() == np.minimum(np.array(weights) / 30.0, 1.0).tolist()
    alone = [scaled_weights([each], 1, 30.0)[0] for each in weights]
    assert found.tolist() == alone
    assert (found <= 1.0).all()


def test_what_is_public_is_the_bound():
    X = np.zeros((3, 1))
    given = [1.0, 2.0, 3.0]
    private = PrivacyUnits.of(X, None, given, None, 2.0)
    assert private.public == ("the bound on sample weights",)
    assert private.factors.tolist() == [0.5, 1.0, 1.0]
    assert not private.even  # whatever the weights are
    assert not PrivacyUnits.of(X, None, [2.0] * 3, None, 2.0).even
    assert PrivacyUnits.of(X, None, given, None).public == ("the sample weights of the rows",)
    with pytest.raises(ValueError, match="Pass both"):
        PrivacyUnits.of(X, None, None, None, 2.0)
    with pytest.raises(ValueError, match="weight_bound"):
        LogisticRegression(1.0, 1e-6, weight_bound=-1.0).fit(X, given)


def survey(seed, n=30_000):
    """Rows of three strata with other slopes, drawn at rates of 1, 1/6 and 1/30."""
    rng = np.random.default_rng([9, seed])
    weights = np.array([1.0, 6.0, 30.0])
    population = np.array([0.1, 0.3, 0.6])
    rates = population / weights
    stratum = rng.choice(3, n, p=rates / rates.sum())
    X = rng.standard_normal((n, 2))
    slopes = np.array([[0.8, -0.4], [0.4, -0.4], [0.2, -0.1]])
    y = (X * slopes[stratum]).sum(axis=1) + rng.standard_normal(n)
    return X, y, weights[stratum], population @ slopes


@pytest.mark.filterwarnings("ignore")
def test_weighted_coefficients_are_those_of_the_population():
    """12 surveys, 24 intervals: fewer than 15 cover with probability below 1e-6."""
    inside = 0
    for seed in range(12):
        X, y, weights, truth = survey(seed)
        model = LinearRegression(
            3.0, 1e-6, target_bounds=(-8, 8), inference=True, weight_bound=30.0
        ).fit(X, y, sample_weight=weights)
        low, high = model.conf_int()[1:].T
        inside += int(((low < truth) & (truth < high)).sum())
    assert inside >= binom.ppf(FALSE_ALARM, 24, 0.93)
    text = " ".join(str(model.summary()).split())
    assert "Sample weights above 30 are reduced to it" in text
    assert 'cov_type="robust"' in text
    assert "the bound on sample weights" in model.guarantee_.public
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = LinearRegression(3.0, 1e-6, target_bounds=(-8, 8), inference=True).fit(X, y)
    assert abs(plain.coef_[0] - truth[0]) > 10 * plain.standard_errors_[1]
