import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from discreet_bench.synthetic import plane, sphere, synthetic_high, synthetic_low

MAKERS = (synthetic_low, synthetic_high, sphere, plane)


def test_synthetic_l_is_that_of_the_release():
    from sklearn.datasets import make_classification

    X, y = synthetic_low()
    released, labels = make_classification(
        n_samples=10_000, n_features=40, n_informative=30, n_classes=2, class_sep=2.0,
        random_state=1000,
    )  # fmt: skip
    np.testing.assert_array_equal(X, released)  # no value is beyond the public bound
    np.testing.assert_array_equal(y, labels)
    assert np.abs(synthetic_low(200, 8, bound=0.5)[0]).max() == 0.5


def test_recipe():
    X, y = plane()
    assert X.shape == (10_000, 20)
    assert X.min() >= -1
    assert X.max() <= 1
    assert set(np.unique(y)) == {0, 1}
    # 5 % of labels are flipped, so a linear model is right about 95 times in 100.
    assert LogisticRegression(C=100).fit(X, y).score(X, y) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_seed_gives_the_same_data(make):
    first, again, other = make(50, 12, seed=3), make(50, 12, seed=3), make(50, 12, seed=4)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])


def test_without_flips_it_is_separable():
    X, y = plane(2000, 3, flip=0.0)
    assert LogisticRegression(C=1e6).fit(X, y).score(X, y) > 0.999


def test_in_high_dimension_ten_columns_tell_the_classes_apart():
    X, y = synthetic_high(2000, 300)
    assert X.shape == (2000, 300)
    assert np.abs(X).max() <= 20
    assert y.mean() == pytest.approx(0.5, abs=0.05)
    # Columns of pure noise have standard deviation 1; those that matter have other ones.
    spread = np.abs(X.std(axis=0) - 1.0)
    matter = np.argsort(spread)[-10:]
    model = LogisticRegression(C=1)
    with_them = model.fit(X[:1500][:, matter], y[:1500]).score(X[1500:][:, matter], y[1500:])
    rest = np.delete(X, matter, axis=1)
    without = model.fit(rest[:1500], y[:1500]).score(rest[1500:], y[1500:])
    assert with_them > 0.85
    assert without < 0.65
    assert np.abs(synthetic_high(200, 20, bound=0.1)[0]).max() == 0.1  # cut to the bound


def test_points_of_the_sphere_keep_their_distance_from_the_plane():
    X, y = sphere()
    assert X.shape == (10_000, 5)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, rtol=1e-12)
    assert y.mean() == pytest.approx(0.5, abs=0.05)  # 10 standard deviations
    X, y = sphere(2000, 3, margin=0.3)
    model = LogisticRegression(C=1e8, fit_intercept=False).fit(X, y)
    assert model.score(X, y) == 1.0
    distances = np.abs(X @ model.coef_[0]) / np.linalg.norm(model.coef_)
    # The widest gap between the classes is at least the one they were drawn with.
    assert distances.min() > 0.29


@pytest.mark.parametrize("margin", [-0.1, 0.6])
def test_a_margin_that_leaves_no_room_is_refused(margin):
    with pytest.raises(ValueError, match=r"at most 0\.5"):
        sphere(10, margin=margin)
