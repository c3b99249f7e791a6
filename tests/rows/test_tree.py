"""Block sums are added up by one binary tree, whatever the number of blocks and threads."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.rows import as_rows, bounds, moments
from discreet.rows import table as tables
from discreet.rows.moments import target_sum

from .questions import EVERYTHING, numbers, table


def adversarial(count):
    """Return numbers up to 1 whose left-to-right sum is rounded down by almost half a unit each."""
    values, total = [], 0.0
    for _ in range(count):
        unit = math.ulp(total) if total > 1 else 2.0**-52
        value = (math.floor(0.99 / unit) + 0.49) * unit
        values.append(value)
        total += value
    return np.array(values)


def test_the_depth_does_not_grow_with_the_number_of_blocks(monkeypatch):
    """The error of 2^15 blocks of one row is within the bound; a running sum's is far beyond."""
    monkeypatch.setattr(moments, "BLOCK_ROWS", 1)
    values = adversarial(2**15)
    total = target_sum(as_rows(np.ones((values.size, 1)), values), 1.0)
    true = math.fsum(values)
    running = 0.0
    for value in values:
        running += value
    assert abs(total.values[0] - true) <= total.error
    assert abs(running - true) > 3 * total.error


def test_bounds_count_the_blocks_rows_and_the_levels_of_both_trees():
    assert bounds.DEPTH == 64 + 64 + 8
    for n_rows in (1, 10**6, 10**12):
        by_hand = 1.01 * 4232 * 2.0**-53 / (1 - 4232 * 2.0**-53) * (n_rows + 1) * 3.0
        assert bounds.gradient_error(n_rows, 4096, 3.0) == pytest.approx(by_hand, rel=1e-12)
    products = 1.01 * 4236 * 2.0**-53 * 11 * 3.0
    assert bounds.OUTER_ROUNDINGS == 4
    assert bounds.gradient_error(10, 4096, 3.0, 4) == pytest.approx(products, rel=1e-9)
    assert bounds.gradient_error(10, 4096, 3.0, 4) > bounds.gradient_error(10, 4096, 3.0)
    squares = 1.01 * 4244 * 2.0**-53 * 11 * (3 * 5.0**2 + 3.0**2)
    assert bounds.mapped_square_error(10, 4096, 3.0, 5.0) == pytest.approx(squares, rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 63, 64, 65, 1000])
def test_an_item_passes_through_few_additions(count):
    """Values that count the additions they went through."""

    class Depth:
        def __init__(self, depth):
            self.depth = depth

        def __add__(self, other):
            return Depth(max(self.depth, other.depth) + 1)

    nodes = ((0, k, Depth(0)) for k in range(count))
    assert tables.tree_total(nodes).depth <= math.ceil(math.log2(count)) + 1 <= bounds.TREE_LEVELS


@pytest.mark.parametrize("convert", [np.asarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("name", EVERYTHING)
def test_the_bits_are_the_same_for_any_number_of_threads(monkeypatch, name, convert):
    X, y, weights = table(7 * bounds.BLOCK_ROWS + 5, seed=3)
    monkeypatch.setattr(tables, "ENTRIES_WORTH_A_THREAD", 1)
    stored = convert(X)
    for settings in ({}, {"weights": weights, "public_size": len(y)}):
        answers = []
        for count in ("1", "3", "16"):
            monkeypatch.setenv("OMP_NUM_THREADS", count)
            rows = as_rows(stored, y, row_norm=1.5, **settings)
            answers.append(numbers(EVERYTHING[name](rows)))
        for other in answers[1:]:
            assert np.array_equal(answers[0], other)


def test_halves_become_nodes_of_the_next_level():
    nodes = [(1, 0, np.ones(1)), (0, 2, np.ones(1)), (0, 3, np.ones(1)), (0, 4, np.ones(1))]
    found = [(level, place, values.item()) for level, place, values in tables.joined(nodes)]
    assert found == [(2, 0, 3.0), (0, 4, 1.0)]


@pytest.mark.parametrize("times", [1.0, 2.0])
def test_a_factor_whose_products_may_underflow_counts_as_zero(times):
    rows = (np.full((1, 2), 4.0),)
    out = np.zeros(3)
    factor = np.full(1, times * bounds.SMALLEST_FACTOR)
    tables.KERNELS.scaled_row_sum(rows, np.empty(0), factor, out)
    assert (out[:2] == (0.0 if times == 1.0 else 4.0 * factor)).all()
