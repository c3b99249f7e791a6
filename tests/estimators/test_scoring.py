import numpy as np
import pytest

from discreet.core import Accountant, Budget
from discreet.errors import BudgetExceeded
from discreet.estimators.scoring import score_classes, score_numbers

TRUTH = np.repeat([0, 1, 1], [600, 300, 100])
PREDICTED = np.repeat([0, 1, 0], [600, 300, 100])


def test_exact_scores_are_those_of_the_counts():
    scores = score_classes(TRUTH, PREDICTED, ("no", "yes"))
    assert scores.guarantee is None
    assert scores.counts.tolist() == [[600, 0], [100, 300]]
    assert scores.accuracy == pytest.approx(0.9)
    assert scores.recalls == pytest.approx((1.0, 0.75))
    assert scores.balanced_accuracy == pytest.approx(0.875)


@pytest.mark.parametrize(("relation", "scale"), [("add_remove", 1.0), ("replace_one", 2.0)])
def test_noise_on_counts_has_the_scale_of_the_relation(relation, scale):
    # The mean of 400 |noise| of mean 1 has standard deviation 0.05: six of them are 0.3, which a
    # wrong factor of two exceeds. The chance of a false alarm is below 1e-6.
    budget = Budget(1.0, 0.0, relation)
    noise = []
    for _ in range(100):
        counts = score_classes(TRUTH, TRUTH, ("no", "yes"), budget).counts
        noise += [counts[0, 0] - 600, counts[1, 1] - 400]
        other = score_classes(TRUTH, 1 - TRUTH, ("no", "yes"), budget).counts
        noise += [other[0, 1] - 600, other[1, 0] - 400]
    assert np.mean(np.abs(noise)) / scale == pytest.approx(1.0, abs=0.3)


def test_noisy_counts_are_never_negative_and_a_class_without_rows_has_no_recall():
    budget = Budget(0.01, 0.0, "add_remove")
    for _ in range(20):
        assert score_classes(TRUTH, PREDICTED, ("a", "b"), budget).counts.min() >= 0
    none = score_classes(np.zeros(5, int), np.zeros(5, int), ("a", "b"))
    assert np.isnan(none.recalls[1])
    assert none.balanced_accuracy == 1.0


def test_the_guarantee_is_pure_and_an_accountant_counts_it():
    spent = Accountant(limit=Budget(0.5, 1e-6, "add_remove"))
    scores = score_classes(TRUTH, PREDICTED, ("no", "yes"), Budget(0.02, 0.0, "add_remove"), spent)
    assert (scores.guarantee.epsilon, scores.guarantee.delta) == (0.02, 0.0)
    assert scores.guarantee.secure
    assert spent.fits == 1
    with pytest.raises(BudgetExceeded):
        score_classes(TRUTH, PREDICTED, ("no", "yes"), Budget(5.0, 0.0, "add_remove"), spent)


def test_errors_of_numbers_are_cut_to_the_bounds():
    truth = np.array([0.0, 5.0, 10.0, 1e9])
    predicted = np.array([-1e9, 5.0, 4.0, 10.0])
    scores = score_numbers(truth, predicted, (0.0, 10.0))
    assert scores.mean_absolute_error == pytest.approx(6 / 4)
    assert scores.root_mean_squared_error == pytest.approx(3.0)


def test_sums_move_by_no_more_than_one_row_may_move_them():
    # Floating sums of the same rows differ by where a row stands; these must not.
    rng = np.random.default_rng(0)
    truth, predicted = rng.random(100_001), rng.random(100_001)
    truth[500], predicted[500] = 0.0, 1.0
    with_row = score_numbers(truth, predicted, (0.0, 1.0))
    rest = np.delete(np.arange(len(truth)), 500)
    without = score_numbers(truth[rest], predicted[rest], (0.0, 1.0))
    n = len(truth)
    moved = with_row.mean_absolute_error * n - without.mean_absolute_error * (n - 1)
    assert moved == pytest.approx(1.0, abs=1e-9)
    odd = score_numbers(np.array([np.nan, 0.5]), np.array([0.5, 0.5]), (0.0, 1.0))
    assert odd.mean_absolute_error == 0.5


def test_noisy_errors_of_many_rows_are_near_the_exact_ones():
    # Laplace noise of scale 2 on sums over 100,000 rows: off by more than 60 with chance e^-30.
    rng = np.random.default_rng(0)
    truth = rng.uniform(0, 10, 100_000)
    predicted = truth + 1.0
    exact = score_numbers(truth, predicted, (0.0, 10.0))
    noisy = score_numbers(truth, predicted, (0.0, 10.0), Budget(1.0, 0.0, "replace_one"))
    assert noisy.mean_absolute_error == pytest.approx(exact.mean_absolute_error, abs=0.006)
    assert noisy.guarantee.epsilon == 1.0
