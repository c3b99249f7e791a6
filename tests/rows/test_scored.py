"""Exact totals of scored rows: counts in cells, correct predictions, sums of errors."""

import math

import numpy as np
import pytest

from discreet.rows.scored import EXACT_TOTAL, ScoredRows, scored_rows
from discreet.rows.units import RowWeights

EDGES = np.array([-0.5, 0.0, 0.5])
CODES = np.array([0.0, 1.0])  # edges between the codes of three classes


def first_column(table):
    """Score a row by its first column."""
    return table[:, 0]


def made(scores, targets, groups=None):
    table = np.asarray(scores, float)[:, None]
    return scored_rows(table, np.asarray(targets), first_column, groups)


def confusion(rows, n_classes):
    return rows.weight_of_cells(n_classes, np.arange(n_classes - 1.0)).values


def test_totals_by_hand():
    rows = made([0, 1, 1, 2], [0, 1, 2, 2])
    assert rows.correct_weight().values.tolist() == [3]
    matrix = confusion(rows, 3).reshape(3, 3)
    assert matrix.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    cells = made([0.0, 0.5, 1.0, 1.5], [0, 0, 1, 1]).weight_of_cells(2, CODES)
    assert cells.values.reshape(2, 3).tolist() == [[1, 1, 0], [0, 1, 1]]
    errors = made([1.0, 9.0, np.nan], [0, 0, 1]).error_sums(0.0, 4.0)
    assert errors.values.tolist() == [0.25 + 1 + 1, 0.0625 + 1 + 1]


def test_totals_of_people_by_hand():
    rows = made([0, 1, 1, 1], [0, 0, 1, 1], ["a", "a", "b", "b"])
    assert rows.public_size == 2
    assert rows.unit == "person"
    assert rows.grouped
    assert rows.correct_weight().values.tolist() == [1.5]
    assert confusion(rows, 2).tolist() == [0.5, 0.5, 0, 1]
    assert rows.error_sums(0.0, 1.0).values.tolist() == [0.5, 0.5]


def test_a_code_beyond_the_classes_changes_no_shape():
    rows = made([0, 0, 0], [-3, 0, 7])
    assert confusion(rows, 2).tolist() == [2, 0, 1, 0]


def test_totals_of_many_blocks_are_exact():
    """Weights of 1/3, in steps of 2^-30, of more rows than are counted at a time."""
    n = 3 * 50_000
    rows = made(np.zeros(n), np.zeros(n, dtype=int), np.arange(n) // 3)
    step = math.floor(2**30 / 3) / 2**30
    assert rows.correct_weight().values.tolist() == [n * step]


def test_rounding_of_totals_is_part_of_the_error_for_very_many_units():
    for size, exact in ((EXACT_TOTAL - 1, True), (EXACT_TOTAL, False)):
        weights = RowWeights(np.ones(1), size, "person", True)
        rows = ScoredRows(np.zeros((1, 1)), np.zeros(1, dtype=int), first_column, weights)
        found = (
            rows.correct_weight(),
            rows.weight_of_cells(3, CODES),
            rows.weight_of_cells(3, EDGES),
            rows.error_sums(0.0, 1.0),
        )
        errors = [total.error for total in found]
        cells = (2, 9, 12, 2)
        expected = [0.0 if exact else count * (size + 1) * 2.0**-53 for count in cells]
        assert errors == expected


def test_public_facts():
    rows = scored_rows(np.zeros((5, 3)), np.zeros(5), first_column)
    assert (rows.public_size, rows.n_features, rows.n_parameters) == (5, 3, 3)
    assert (rows.row_norm, rows.unit, rows.grouped) == (None, "row", False)


@pytest.mark.parametrize("m", [1, 2, 3, 7, 300])
def test_the_part_of_a_person_is_at_most_one(m):
    """All rows of one person, alone in a table: whatever they hold, no total exceeds 1."""
    rng = np.random.default_rng(m)
    for scores in (np.zeros(m), np.full(m, np.inf), rng.normal(size=m), rng.integers(0, 3, m)):
        rows = made(scores, rng.integers(0, 3, m), np.zeros(m, dtype=int))
        for total in (
            rows.weight_of_cells(3, EDGES).values,
            rows.weight_of_cells(3, CODES).values,
            rows.correct_weight().values,
        ):
            assert (total >= 0).all()
            assert total.sum() <= 1
        errors = rows.error_sums(-1.0, 1.0).values
        assert (errors >= 0).all()
        assert (errors <= 1).all()


def test_errors_are_rounded_down_row_by_row():
    """0.7/3 of 2^30 steps is 250,539,622.9 for each of three rows of one person."""
    rows = made([0.7, 0.7, 0.7], [0, 0, 0], [1, 1, 1])
    weight = math.floor(2**30 / 3) / 2**30
    assert rows.error_sums(0.0, 1.0).values[0] == 3 * math.floor(0.7 * weight * 2**30) / 2**30


def test_nothing_is_scored_before_a_question_is_answered():
    seen = []

    def score(table):
        seen.append(len(table))
        return table[:, 0]

    class Asked:
        def on(self, rows):
            return rows.correct_weight()

    rows = scored_rows(np.zeros((3, 1)), np.zeros(3), score)
    assert seen == []
    [total] = rows.answer([Asked()])
    assert seen == [3]
    assert total.values.tolist() == [3]
