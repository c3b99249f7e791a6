"""Questions about scores: charged before rows are read, with noise for what a row can change."""

import numpy as np
import pytest

from discreet.core import Account, Budget, Curator, ExponentialMechanism, Gaussian, Noise
from discreet.core.bits import SeededBits
from discreet.core.questions import (
    CurvatureSum,
    MedianSlope,
    ScoreSquareSum,
    ScoreSum,
    ScoreVariances,
)
from discreet.errors import BudgetExceeded
from discreet.objectives import Huber, Squared
from discreet.rows import as_rows

CLIP, SLOPE, CUT = 2.0, 0.25, 1.5
LOSS = Huber(SLOPE)


class Watched:
    """Rows that say when they are asked."""

    def __init__(self, rows):
        self.rows, self.asked = rows, []

    def __getattr__(self, name):
        return getattr(self.rows, name)

    def answer(self, questions):
        self.asked += questions
        return self.rows.answer(questions)


def curator(relation="add_remove", epsilon=50.0):
    rng = np.random.default_rng(0)
    rows = Watched(as_rows(rng.standard_normal((50, 2)), rng.standard_normal(50)))
    made = Curator(rows, Account(Budget(epsilon, 1e-6, relation)), Noise(SeededBits(1)))
    made.open("gdp")
    return made, rows


SENSITIVITIES = {
    ScoreSum: (SLOPE * CLIP, 2 * SLOPE * CLIP),
    CurvatureSum: (CLIP**2, np.sqrt(2) * CLIP**2),
    ScoreSquareSum: (1.0, 1.0),
    ScoreVariances: (CUT**2, np.sqrt(2) * CUT**2),
}


def question(kind, weights, *clip):
    """Return a question of a kind; that for variances has a matrix and a cut, too."""
    more = (np.eye(2, 3), CUT) if kind is ScoreVariances else ()
    return kind(LOSS, weights, *clip, *more)


@pytest.mark.parametrize("kind", SENSITIVITIES)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_noise_is_that_of_what_a_row_can_change(kind, relation):
    made, _ = curator(relation)
    answer = made.ask(question(kind, np.zeros(3), CLIP), Gaussian(2.0))
    expected = SENSITIVITIES[kind][relation == "replace_one"]
    assert 2.0 * expected <= answer.deviation <= 2.0 * expected * (1 + 1e-6)


@pytest.mark.parametrize("kind", [*SENSITIVITIES, MedianSlope])
def test_nothing_is_read_before_it_is_paid_for(kind):
    made, rows = curator(epsilon=0.01)
    clip = (CLIP,)
    mechanism = Gaussian(0.5)
    if kind is MedianSlope:
        clip = ()
        mechanism = ExponentialMechanism(5.0, monotone=False)
    with pytest.raises(BudgetExceeded):
        made.ask(question(kind, np.zeros(3), *clip), mechanism)
    assert rows.asked == []
    with pytest.raises(ValueError, match="weights"):
        made.ask(question(kind, np.full(3, np.nan), *clip), mechanism)
    assert made.spent_share == 0


def test_a_clip_below_one_and_a_slope_without_bound_are_refused():
    made, rows = curator()
    with pytest.raises(ValueError, match="clip"):
        made.ask(ScoreSum(LOSS, np.zeros(3), clip=0.5), Gaussian(1.0))
    with pytest.raises(ValueError, match="slope_bound"):
        made.ask(ScoreSum(Squared(), np.zeros(3), clip=1.0), Gaussian(1.0))
    assert rows.asked == []
    assert made.spent_share == 0


def test_variances_are_cut_at_the_bound_that_the_noise_is_for():
    """Rows of nearly the clip and large residuals: each of 50 adds all of its bound."""
    rows = as_rows(np.full((50, 2), 1.2), np.full(50, -1e6))
    asked = ScoreVariances(LOSS, np.zeros(3), CLIP, 1e3 * np.eye(3), CUT)
    found = asked.on(rows)
    assert found.values.sum() == pytest.approx(50 * CUT**2, rel=1e-6)
    assert found.values.sum() <= 50 * asked.bound


def test_a_matrix_of_another_width_or_with_gaps_is_refused():
    made, rows = curator()
    for matrix in (np.eye(2), np.full((1, 3), np.inf)):
        asked = ScoreVariances(LOSS, np.zeros(3), CLIP, matrix, CUT)
        with pytest.raises(ValueError, match="matrix"):
            made.ask(asked, Gaussian(1.0))
    assert rows.asked == []
    assert made.spent_share == 0


def test_a_sample_is_asked_on_the_same_budget_with_the_noise_of_all_rows():
    made, rows = curator()
    few = made.on_sample(rows.rows.take(np.arange(5)), 6)
    assert (few.n_rows, made.n_rows) == (6, 50)
    answers = [
        each.ask(CurvatureSum(LOSS, np.zeros(3), clip=CLIP), Gaussian(2.0)) for each in (made, few)
    ]
    assert answers[0].deviation == answers[1].deviation
    assert few.spent_share == made.spent_share > 0
    for wrong in (0, 51):
        with pytest.raises(ValueError, match="n_rows"):
            made.on_sample(rows.rows, wrong)
