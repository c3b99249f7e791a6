"""Scores of pairs of columns: sensitivities on neighbours, exact sums, charges and refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.core import (
    Account,
    Budget,
    Curator,
    ExponentialMechanism,
    Gaussian,
    LaplaceNoisyMax,
    Relation,
)
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import Public
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.exact.pair_questions import MOST_CELLS, BestPairs, PairScores
from discreet.rows import Units, as_rows
from discreet.rows import pair_sums as kernel
from discreet.rows.pair_sums import COUNTED, LARGEST_SIZE, pair_sums
from discreet.rows.partitions import added

CELLS = (np.arange(3), np.array([0, 1, 1, 0]), np.arange(4))
PAIRS = ((0, 1), (0, 2), (1, 2))
CHOICE = ExponentialMechanism(1.0, monotone=False)
COUNTS = [len(cells) for cells in CELLS]


def drawn(rng, rows):
    X = np.column_stack([rng.integers(0, count, rows) for count in COUNTS]).astype(float)
    y = rng.uniform(-1, 1, rows) * rng.choice([0.2, 1.0, 3.0], rows)
    return X, y


def made(X, y, groups=None, size=None):
    weights = None if groups is None else Units.of(groups, len(X)).weights()
    public = None if groups is not None else size
    return as_rows(X, y, fit_intercept=False, weights=weights, public_size=public)


def pair_scores(rows, cells, pairs):
    return kernel.pair_scores(pair_sums(rows, cells, pairs), cells, pairs)


def scores(X, y, groups=None):
    return pair_scores(made(X, y, groups), CELLS, PAIRS).values


def by_hand(X, y):
    """The scores in exact rational numbers: residuals cut to whole steps of 2^-30."""
    found = []
    for first, second in PAIRS:
        sums = {}
        for row, r in zip(X.astype(int), y, strict=True):
            cell = CELLS[first][row[first]], CELLS[second][row[second]]
            steps = math.trunc(Fraction(max(-1.0, min(1.0, r))) * 2**30)
            sums[cell] = sums.get(cell, 0) + steps
        found.append(float(Fraction(sum(map(abs, sums.values())), 2**30)))
    return found


def test_scores_are_sums_of_sizes_in_exact_steps():
    X, y = drawn(np.random.default_rng(0), 500)
    assert scores(X, y).tolist() == by_hand(X, y)


def test_the_order_of_rows_and_the_blocks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(1)
    X, y = drawn(rng, 3000)
    whole = scores(X, y)
    order = rng.permutation(3000)
    monkeypatch.setattr("discreet.rows.pair_sums.COUNTED", 7)
    assert scores(X[order], y[order]).tolist() == whole.tolist()
    assert COUNTED * 2**30 < 2**53
    assert LARGEST_SIZE * 2**30 < 2**63
    assert MOST_CELLS**2 < 2**31


@pytest.mark.parametrize("people", [False, True])
def test_one_unit_moves_each_score_by_the_sensitivity_and_no_further(people):
    rng = np.random.default_rng(2)
    furthest = dict.fromkeys(Relation, 0.0)
    together = dict.fromkeys(Relation, 0.0)
    for trial in range(300):
        X, y = drawn(rng, 40)
        ids = np.arange(40) // 4 if people else np.arange(40)
        count = int(rng.integers(1, 9)) if people else 1
        tables = []
        for r in (1.0, -1.0):
            # the unit is in one cell of everyone: the sums there grow or fall by all of it
            own = np.zeros((count, 3)) if trial % 2 else drawn(rng, count)[0]
            y[(X == 0).all(axis=1)] = 0.9
            rows = np.vstack([X, own]), np.append(y, np.full(count, r))
            tables.append(scores(*rows, np.append(ids, [99] * count)))
        alone = scores(X, y, ids)
        moved = {
            Relation.ADD_REMOVE: tables[0] - alone,
            Relation.REPLACE_ONE: tables[0] - tables[1],
        }
        for relation, change in moved.items():
            furthest[relation] = max(furthest[relation], np.abs(change).max())
            together[relation] = max(together[relation], np.linalg.norm(change))
    for relation in Relation:
        limit = BestPairs(CELLS, PAIRS, 1).sensitivity(relation)
        assert limit == relation.rows_changed
        assert 0.9 * limit < furthest[relation] <= limit
        assert together[relation] <= PairScores(CELLS, PAIRS).sensitivity(relation)
        assert together[relation] > 0.9 * limit * math.sqrt(3) / 2
    assert PairScores(CELLS, PAIRS).sensitivity(Relation.ADD_REMOVE) == math.sqrt(3)


def test_scores_of_one_row_move_apart_by_twice_the_sensitivity():
    """A mechanism that counted on monotone scores would have half of the noise that it needs."""
    X = np.array([[0, 0, 1], [1, 0, 0], [0, 0, 0]], dtype=float)
    base = scores(X[:2], np.array([-1.0, 1.0]))
    more = scores(X, np.array([-1.0, 1.0, 1.0]))
    change = more - base
    assert change.max() - change.min() == 2.0


def test_targets_that_are_no_numbers_and_values_without_a_cell_are_harmless():
    rows = made(np.array([[0.0, 0.0, 0.0], [7.0, 3.0, -2.0]]), np.array([2.0, 0.5]))
    assert pair_scores(rows, CELLS, PAIRS).values.tolist() == [1.5, 1.5, 1.5]
    rows.targets = np.array([np.nan, 0.5])
    assert pair_scores(rows, CELLS, PAIRS).values.tolist() == [0.5, 0.5, 0.5]


def curator(budget=None, groups=None, size=4):
    X, y = drawn(np.random.default_rng(3), size)
    unit = "row" if groups is None else "person"
    account = Account(budget or Budget(1.0, 1e-6, "add_remove"), unit=unit)
    found = Curator(made(X, y, groups), account, Noise(SeededBits(1)))
    found.open("gdp")
    return found


def test_each_choice_is_charged_before_the_rows_are_read(monkeypatch):
    asked = curator(Budget(1.0, 1e-6, "add_remove"))
    monkeypatch.setattr(type(asked._rows), "answer", lambda self, questions: 1 / 0)
    with pytest.raises(BudgetExceeded):
        asked.ask(BestPairs(CELLS, PAIRS, 3), ExponentialMechanism(5.0, monotone=False))
    cheap = ExponentialMechanism(0.01, monotone=False)
    with pytest.raises(ZeroDivisionError):
        asked.ask(BestPairs(CELLS, PAIRS, 3), cheap)
    spent = 3 * cheap.loss.mu**2 / Budget(1.0, 1e-6, "add_remove").to_gdp().mu ** 2
    assert asked.spent_share == pytest.approx(spent, rel=1e-6)


def test_pairs_are_chosen_once_each_and_the_best_with_little_noise():
    asked = curator(Budget(1e6, 1e-6, "add_remove"), size=400)
    best = asked.ask(BestPairs(CELLS, PAIRS, 3), ExponentialMechanism(900.0, monotone=False))
    exact = pair_scores(asked._rows, CELLS, PAIRS).values
    assert best == np.argsort(-exact).tolist()
    noisy = asked.ask(PairScores(CELLS, PAIRS), Gaussian(0.5))
    assert noisy.deviation == pytest.approx(0.5 * math.sqrt(3), rel=1e-6)
    # three normal numbers within 6 deviations: a false alarm in fewer than 1e-8 of runs
    assert np.abs(noisy.values - exact).max() < 6 * noisy.deviation


@pytest.mark.parametrize("relation", list(Relation))
def test_noise_has_the_scale_of_scores_that_move_apart(monkeypatch, relation):
    handed = []

    def select(self, scores, *, sensitivity, noise, magnitude=None):
        handed.append((len(scores), self.scale(sensitivity)))
        return 0

    monkeypatch.setattr(ExponentialMechanism, "select", select)
    asked = curator(Budget(100.0, 1e-6, relation))
    assert asked.ask(BestPairs(CELLS, PAIRS, 2), CHOICE) == [0, 1]
    assert [count for count, _ in handed] == [3, 2]
    for _, scale in handed:
        assert 2.0 * relation.rows_changed <= scale < 2.00001 * relation.rows_changed


def test_the_error_is_public_and_covers_one_rounding_of_each_score():
    X, y = drawn(np.random.default_rng(4), 10)
    error = pair_scores(made(X, y), CELLS, PAIRS).error
    assert error == math.sqrt(3) * 2.0**30 * 2.0**-53
    assert pair_scores(made(X, y, size=1000), CELLS, PAIRS).error == error
    # a score of 2^30, the largest, is rounded by half of its last place at most
    assert error / math.sqrt(3) >= np.spacing(2.0**30) / 2


def test_scores_of_blocks_are_those_of_the_whole_table():
    """Sums in cells add up over blocks; their sizes do not."""
    X, y = drawn(np.random.default_rng(5), 300)
    parts = [pair_sums(made(X[at], y[at]), CELLS, PAIRS) for at in (slice(100), slice(100, 300))]
    joined = added(parts)
    assert joined.values.dtype == np.int64
    assert kernel.pair_scores(joined, CELLS, PAIRS).values.tolist() == by_hand(X, y)


def several(rng, rows, outputs=3):
    """Residuals e_y − p of classes, over 2; a few rows are far from what a model gives."""
    y = np.eye(outputs)[rng.integers(0, outputs, rows)] - rng.dirichlet(np.ones(outputs), rows)
    y *= rng.choice([0.5, 0.5, 0.5, 3.0, 1e300], (rows, 1))
    return y


@pytest.mark.parametrize("people", [False, True])
def test_one_unit_with_residuals_of_several_classes_moves_scores_by_the_same(people):
    rng = np.random.default_rng(6)
    furthest = dict.fromkeys(Relation, 0.0)
    for _ in range(300):
        X, _ = drawn(rng, 40)
        y = several(rng, 40)
        ids = np.arange(40) // 4 if people else np.arange(40)
        count = int(rng.integers(1, 9)) if people else 1
        X[:30] = 0.0  # the unit is in one cell with these: the sums there grow or fall by all of it
        y[:30] = 0.3
        tables = [scores(X, y, ids)]
        for sign in (1.0, -1.0):
            own = several(rng, count) if rng.random() < 0.5 else np.full((count, 3), sign)
            rows = np.vstack([X, np.zeros((count, 3))]), np.vstack([y, own])
            tables.append(scores(*rows, np.append(ids, [99] * count)))
        moved = {
            Relation.ADD_REMOVE: tables[1] - tables[0],
            Relation.REPLACE_ONE: tables[1] - tables[2],
        }
        for relation, change in moved.items():
            furthest[relation] = max(furthest[relation], np.abs(change).max())
    for relation in Relation:
        limit = BestPairs(CELLS, PAIRS, 1).sensitivity(relation)
        assert 0.9 * limit < furthest[relation] <= limit


def test_residuals_of_several_classes_add_up_to_one_at_most():
    X = np.zeros((1, 3))
    assert scores(X, np.array([[0.5, -0.25, -0.25]])).tolist() == [1.0] * 3
    third = pair_sums(made(X, np.array([[2.0, -1.0, 1.0]])), CELLS, PAIRS).values
    assert np.abs(third).sum() == 3 * (3 * (2**30 // 3))
    assert scores(X, np.array([[0.5, 0.0, 0.25]])).tolist() == [0.75] * 3
    rows = made(X, np.zeros((1, 3)))
    rows.targets = np.full((1, kernel.MOST_OUTPUTS + 1), 0.5)
    with pytest.raises(ValueError, match="at most 65536 residuals"):
        pair_sums(rows, CELLS, PAIRS)


def test_what_the_proof_does_not_cover_is_refused():
    question = BestPairs(CELLS, PAIRS, 1)
    public = Public(Relation.ADD_REMOVE, 10, 3, 3, None)
    with pytest.raises(PrivacyError, match="not monotone"):
        question.check(public, ExponentialMechanism(1.0, monotone=True))
    with pytest.raises(TypeError, match="needs a ExponentialMechanism"):
        question.check(public, LaplaceNoisyMax(1.0, monotone=False))
    with pytest.raises(ValueError, match="fewer than"):
        question.check(public._replace(n_rows=LARGEST_SIZE), CHOICE)
    with pytest.raises(ValueError, match="cells must map"):
        question.check(public._replace(n_features=4), CHOICE)
    for cells in ((np.array([-1]),), (np.array([MOST_CELLS]),), (np.array([]),)):
        for kind in (BestPairs(cells * 3, PAIRS, 1), PairScores(cells * 3, PAIRS)):
            with pytest.raises(ValueError, match="cells must map"):
                kind.check(public, CHOICE)
    with pytest.raises(ValueError, match="count must be at most 3"):
        BestPairs(CELLS, PAIRS, 4).check(public, CHOICE)
    for pairs in ((), ((0, 3),), ((-1, 0),)):
        with pytest.raises(ValueError, match="pairs must name"):
            PairScores(CELLS, pairs).check(public, Gaussian(1.0))


def test_other_rows_are_of_the_same_units_and_budget():
    groups = [1, 1, 2, 3]
    asked = curator(groups=groups)
    X, _ = drawn(np.random.default_rng(3), 4)
    other = asked.with_rows(made(X, np.full(4, 0.25), groups))
    assert other._rows.unit == "person"
    assert other._rows.weights.tolist() == asked._rows.weights.tolist()
    other.ask(BestPairs(CELLS, PAIRS, 1), ExponentialMechanism(0.1, monotone=False))
    assert asked.spent_share == other.spent_share > 0
    assert asked._rows.targets.tolist() != other._rows.targets.tolist()
    for foreign in (made(X, np.ones(4)), made(X, np.ones(4), [1, 2, 3, 4])):
        with pytest.raises(PrivacyError, match="unit and public size"):
            asked.with_rows(foreign)
    people = curator(groups=[1, 2, 3, 4])  # as many as there are rows
    with pytest.raises(PrivacyError, match="unit and public size"):
        people.with_rows(made(X, np.ones(4)))
