import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from discreet.tables import synthetic_low


def test_recipe():
    X, y = synthetic_low()
    assert X.shape == (10_000, 20)
    assert X.min() >= -1
    assert X.max() <= 1
    assert set(np.unique(y)) == {0, 1}
    # 5 % of labels are flipped, so a linear model is right about 95 times in 100.
    assert LogisticRegression(C=100).fit(X, y).score(X, y) == pytest.approx(0.95, abs=0.01)


def test_the_same_seed_gives_the_same_data():
    assert np.array_equal(synthetic_low(seed=3)[0], synthetic_low(seed=3)[0])
    assert not np.array_equal(synthetic_low(seed=3)[0], synthetic_low(seed=4)[0])


def test_without_flips_it_is_separable():
    X, y = synthetic_low(2000, 3, flip=0.0)
    assert LogisticRegression(C=1e6).fit(X, y).score(X, y) > 0.999
