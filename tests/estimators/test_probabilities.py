"""Probabilities: what clipping and noise do to scores is undone by public numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression as PlainLogisticRegression
from sklearn.metrics import log_loss

from discreet import LogisticRegression, PrivacyLeakWarning, Scale
from discreet.estimators.classifiers import Link
from discreet.objectives import L2, Logistic, Problem, Softmax
from discreet.rows import as_rows
from discreet.rows.sums import gradient_sum
from discreet.solvers import Solution

SCORES = np.linspace(-12, 12, 241)


def test_without_clipping_and_noise_it_is_the_logistic_function():
    assert np.allclose(Link().positive(SCORES), expit(SCORES), rtol=1e-12)


@pytest.mark.parametrize("slope", [0.05, 0.5, 0.6, 0.9])
@pytest.mark.parametrize("noise", [0.0, 1.0, 30.0])
def test_probabilities_grow_with_scores_and_add_up(slope, noise):
    link = Link(slope, noise)
    positive = link.positive(SCORES)
    assert (np.diff(positive) > 0).all()
    assert np.allclose(positive + link.positive(-SCORES), 1.0, rtol=1e-12)
    assert ((positive > 0.5) == (SCORES > 1e-9)).all()
    assert (np.abs(positive - 0.5) <= np.abs(expit(SCORES) - 0.5) + 1e-12).all()


@pytest.mark.parametrize("chance", [0.6, 0.75, 0.9, 0.97])
def test_clipped_pulls_balance_where_it_says(chance):
    """Rows of one kind: where their clipped gradient is 0, the link gives their chance."""
    count, length, clip = 10_000, 3.0, 1.8
    X = np.full((count, 1), length)
    y = np.where(np.arange(count) < chance * count, 1.0, -1.0)
    rows = as_rows(X, y, fit_intercept=False)
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        rising = gradient_sum(rows, [middle], Logistic(), clip).values[0] > 0
        low, high = (low, middle) if rising else (middle, high)
    found = Link(clip / length).positive(np.array([length * low]))
    assert found[0] == pytest.approx(chance, abs=1e-6)


def test_noise_is_averaged_out():
    rng = np.random.default_rng(0)
    for score in (0.5, 2.0, 4.0):
        draws = expit(score + 1.5 * rng.standard_normal(200_000))
        found = Link(1.0, 1.5**2).positive(np.array([score]))[0]
        assert found == pytest.approx(draws.mean(), abs=0.02)


def test_default_fits_are_better_calibrated_than_their_scores():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40_000, 20))
    weights = rng.standard_normal(20) / 2.5
    y = (rng.random(40_000) < expit(X @ weights - 1.0)).astype(int)
    model = LogisticRegression(0.5, 1e-9, classes=[0, 1], random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        model.fit(X[:20_000], y[:20_000])
    test, truth = X[20_000:], y[20_000:]
    scores = model.decision_function(test)
    corrected = model.predict_proba(test)[:, 1]
    plain, best = expit(scores), PlainLogisticRegression(C=1e6).fit(scores[:, None], truth)
    losses = [log_loss(truth, p) for p in (plain, corrected)]
    least = log_loss(truth, best.predict_proba(scores[:, None]))
    assert losses[1] - least < 0.5 * (losses[0] - least)
    assert np.array_equal(model.predict(test), (corrected > 0.5).astype(int))
    assert 0.7 < model.link_.slope < 0.8  # a clip of 2.6 over the norm of a usual row
    assert 0 < model.link_.noise < 1.2


@pytest.mark.parametrize(("slope", "noise"), [(0.0, 0.0), (math.nan, 0.0), (1.0, -1.0), (True, 0)])
def test_impossible_links_are_refused(slope, noise):
    with pytest.raises(ValueError, match="must be a finite number"):
        Link(slope, noise)


def test_scores_beyond_the_reach_of_a_link_grow_slowly():
    """Rows far longer than usual have extreme scores, but no extreme probabilities."""
    link = Link(1.0, 0.0, 2.0)
    scores = np.array([-1e6, -60.0, -2.0, 0.3, 1.999, 2.0, 2.001, 60.0, 1e6])
    chances = link.positive(scores)
    assert (np.diff(chances) > 0).all()  # ranks are kept
    np.testing.assert_allclose(chances[2:6], Link().positive(scores[2:6]))
    assert 0.95 < chances[-2] < 0.98
    assert chances[-2] == pytest.approx(1 - chances[1])
    for probability in (0.05, 0.2, 0.6, 0.95):
        assert link.positive(np.array([link.score(probability)]))[0] == pytest.approx(probability)


def test_scores_of_several_classes_are_bent_together():
    """The softmax of usual rows; of longer ones all classes' scores shrink, and the order stays."""
    scores = np.array([[0.5, -0.2, 1.0], [60.0, 0.0, -20.0], [1e6, 2e6, 3e6], [0.0, 0.0, 0.0]])
    plain, bent = Link().several(scores), Link(1.0, 0.0, 2.0).several(scores)
    np.testing.assert_allclose(plain, softmax(scores, axis=1))
    np.testing.assert_allclose(bent[0], plain[0])
    size = 2 + 0.25 * math.log1p((60 - 40 / 3 - 2) / 0.25)
    np.testing.assert_allclose(
        bent[1], softmax((scores[1] - 40 / 3) * size / (60 - 40 / 3)), rtol=1e-12
    )
    assert (np.argsort(bent[2]) == [0, 1, 2]).all()
    assert (bent[2] > 1e-6).all()
    np.testing.assert_allclose(bent[3], 1 / 3)


def test_the_reach_of_scores_follows_the_largest_of_the_classes():
    """1.5 times |b| + norm·‖w‖/√d for two classes, 4 times the largest for several; at least 1."""
    steps = (Scale(norm=3.0),)
    for outputs, factor in ((1, 1.5), (3, 4.0)):
        loss = Logistic() if outputs == 1 else Softmax(outputs)
        problem = Problem(loss, L2(0.0), 100, 4)
        weights = np.zeros((outputs, 5))
        weights[-1] = [1.0, 1.0, 1.0, 1.0, -2.0]
        solution = Solution(weights.ravel(), (), (), 10.0, 0.1)
        assert Link.of(solution, steps, problem).reach == pytest.approx(factor * (2 + 3.0))
        assert Link.of(replace(solution, weights=0 * weights.ravel()), steps, problem).reach == 1
        assert Link.of(solution, steps).reach is None
        unknown = Link.of(Solution(weights.ravel(), (), ()), steps, problem)
        assert unknown == Link(1.0, 0.0, factor * (2 + 3.0))
        assert Link.of(solution, (), problem) == Link()


def test_a_start_that_was_kept_was_not_clipped():
    """With nothing kept of descent, probabilities are those of the start: 1/(1 + e^−score)."""
    steps, solution = (Scale(norm=3.0),), Solution(np.zeros(5), (), (), 1.0, 0.1)
    full = 1 - 1 / math.hypot(3.0, 1.0)
    for kept in (0.0, 0.25, 1.0):
        link = Link.of(replace(solution, kept=kept), steps)
        assert link.slope == pytest.approx(1 - math.sqrt(kept) * full)


def test_log_loss_of_heavy_tailed_rows_is_not_above_that_of_frequencies():
    """Deviation over the 8 fits 0.01, distance of the mean from the limit 0.1: ten of them."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(9000, 6))
    X = np.exp(Z * [1.2, 0.5, 0.8, 0.3, 1, 0.5]) * 10.0 ** np.array([3, 0, -2, 1, 0, -3])
    y = (Z @ [-0.8, 0.9, 0.6, -1.0, 0.3, 0.4] + rng.logistic(size=9000) > 1.5).astype(int)
    share = y[:6000].mean()
    losses = []
    for _ in range(8):
        model = LogisticRegression(1.0, 1e-9, classes=[0, 1]).fit(X[:6000], y[:6000])
        chances = model.predict_proba(X[6000:])[np.arange(3000), y[6000:]]
        losses.append(-np.log(chances).mean())
    frequencies = -np.log(np.where(y[6000:] == 1, share, 1 - share)).mean()
    assert np.mean(losses) < frequencies + 0.01
