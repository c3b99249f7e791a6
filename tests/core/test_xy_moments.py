"""The moment of rows and targets: charged before rows are read, with noise for the sensitivity."""

import math

import numpy as np
import pytest

from discreet.core import Budget, Gaussian, L2Norm, Laplace
from discreet.core.questions import ClassCounts, TargetMoment, TargetSum
from discreet.errors import BudgetExceeded

from . import spies
from .spies import SpyRows

SMALL = Gaussian(100.0)


ANSWERS = {
    TargetMoment: [3.0, 0.5, 4.0],
    TargetSum: [7.0],
    ClassCounts: [7.0, 0.0, 1.0],
}


def spied(relation="add_remove", error=0.0):
    rows = SpyRows(ANSWERS, n_rows=1000, n_parameters=1, error=error)
    return rows, spies.spied(rows, Budget(1.0, 1e-6, relation), measure="gdp", seed=1)


def ask(curator, mechanism=SMALL, **changes):
    return curator.ask(TargetMoment(**{"clip": 2.0, "target_weight": 3.0, **changes}), mechanism)


def test_every_answer_was_charged_first():
    rows, curator = spied()
    ask(curator)
    ask(curator, target_centre=0.5, features=False)
    assert rows.charges_when_read == [1, 2]
    assert [question.features for question in rows.asked] == [True, False]


def test_nothing_is_read_that_is_not_affordable_or_makes_no_sense():
    rows, curator = spied()
    with pytest.raises(BudgetExceeded):
        ask(curator, mechanism=Gaussian(0.1))
    for mechanism in (Laplace(0.001), L2Norm(0.001)):
        with pytest.raises(TypeError, match="Gaussian"):
            ask(curator, mechanism=mechanism)
    for clip in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="clip"):
            ask(curator, clip=clip)
    for weight in (0.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="target_weight"):
            ask(curator, target_weight=weight)
    for centre in (math.nan, math.inf):
        with pytest.raises(ValueError, match="target_centre"):
            ask(curator, target_centre=centre)
    assert rows.asked == []
    assert curator.spent_share == 0


@pytest.mark.parametrize(
    ("relation", "apart"), [("add_remove", 4.0), ("replace_one", 4.0 * math.sqrt(2))]
)
def test_noise_is_scaled_to_the_sensitivity_under_the_relation(relation, apart):
    _, curator = spied(relation)
    assert ask(curator).deviation == pytest.approx(100 * apart, rel=1e-5)
    assert ask(curator).deviation >= 100 * apart
    _, curator = spied(relation, error=0.25)  # twice the rounding error comes on top
    assert ask(curator).deviation == pytest.approx(100 * (apart + 0.5), rel=1e-5)


def test_the_noise_has_the_deviation_that_is_stated():
    _, curator = spied()
    answers = [ask(curator, mechanism=Gaussian(1000.0)) for _ in range(400)]
    draws = [answer.values - [3.0, 0.5, 4.0] for answer in answers]
    # 1200 draws: the variance is off by √(2/1200) = 4 %, so 22 % is 5.4 of it: 1e-7 of runs
    assert np.mean(np.square(draws)) == pytest.approx(answers[0].deviation ** 2, rel=0.22)


@pytest.mark.parametrize(("relation", "apart"), [("add_remove", 2.0), ("replace_one", 4.0)])
def test_a_sum_of_targets_is_charged_first_and_noisy_by_its_sensitivity(relation, apart):
    rows, curator = spied(relation, error=0.25)
    with pytest.raises(BudgetExceeded):
        curator.ask(TargetSum(clip=2.0), Gaussian(0.1))
    with pytest.raises(TypeError, match="Gaussian"):
        curator.ask(TargetSum(clip=2.0), Laplace(0.001))
    with pytest.raises(ValueError, match="clip"):
        curator.ask(TargetSum(clip=math.inf), SMALL)
    assert rows.asked == []
    noisy = curator.ask(TargetSum(clip=2.0), SMALL)
    assert rows.charges_when_read == [1]
    assert noisy.values.shape == (1,)
    assert noisy.deviation == pytest.approx(100 * (apart + 0.5), rel=1e-5)


@pytest.mark.parametrize(("relation", "apart"), [("add_remove", 1.0), ("replace_one", 2**0.5)])
def test_class_counts_are_charged_first_and_noisy_by_their_sensitivity(relation, apart):
    rows, curator = spied(relation, error=0.25)
    with pytest.raises(BudgetExceeded):
        curator.ask(ClassCounts(3), Gaussian(0.1))
    with pytest.raises(TypeError, match="Gaussian"):
        curator.ask(ClassCounts(3), Laplace(0.001))
    with pytest.raises(ValueError, match="n_classes"):
        curator.ask(ClassCounts(0), SMALL)
    assert rows.asked == []
    noisy = curator.ask(ClassCounts(3), SMALL)
    assert rows.charges_when_read == [1]
    assert noisy.values.shape == (3,)
    assert noisy.deviation == pytest.approx(100 * (apart + 0.5), rel=1e-5)
    assert noisy.deviation >= 100 * (apart + 0.5)
