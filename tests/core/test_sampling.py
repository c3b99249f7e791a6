"""Exact samples: their distribution, their bits, and what they refuse."""

import math

import numpy as np
import pytest

from discreet.core.bits import SeededBits, SystemBits, poisson_index, uniform_index


class Counted:
    """Hands out given words and counts them."""

    secure = False

    def __init__(self, *batches):
        self.batches = [np.array(batch, dtype=np.uint64) for batch in batches]
        self.asked = []

    def words(self, count):
        self.asked.append(count)
        return self.batches.pop(0)[:count]


@pytest.mark.parametrize("rate", [1e-3, 0.0123, 0.5, 0.999])
def test_poisson_counts(rate):
    # Bernoulli counts over 10^6 rows: beyond 5.5 standard deviations with probability < 1e-7.
    n = 1_000_000
    index = poisson_index(n, rate, SeededBits(1))
    assert np.all(np.diff(index) > 0)
    assert index[0] >= 0
    assert index[-1] < n
    spread = math.sqrt(n * rate * (1 - rate))
    assert abs(index.size - n * rate) < 5.5 * spread
    half = np.count_nonzero(index < n // 2)
    assert abs(half - n * rate / 2) < 5.5 * spread / math.sqrt(2)


def test_poisson_rates_below_one_in_256():
    # 2^-20 over 2^24 rows: 16 expected; Poisson(16) leaves [0, 45] with probability < 1e-8.
    index = poisson_index(2**24, 2.0**-20, SeededBits(2))
    assert 1 <= index.size <= 45  # none at all: e^-16 = 1.1e-7


def test_poisson_decides_by_64_bits():
    # The first byte decides below and above 0x80; at 0x80, 56 more bits are compared.
    rate = 0.5 + 2.0**-50
    words = np.array([0x7F, 0x80, 0x80, 0x81, 0, 0, 0, 0], dtype=np.uint8).view(np.uint64)
    rest = 2**14  # 2^-50 · 2^64
    bits = Counted(words, [(rest - 1) << 8, rest << 8])
    assert poisson_index(4, rate, bits).tolist() == [0, 1]
    assert bits.asked == [1, 2]


def test_poisson_needs_about_a_byte_a_row():
    class Meter(SeededBits):
        drawn = 0

        def words(self, count):
            self.drawn += count
            return super().words(count)

    meter = Meter(5)
    poisson_index(100_000, 0.01, meter)
    assert meter.drawn < 12_500 + 600  # 390 undecided are expected, give or take 20


def test_poisson_edges():
    assert poisson_index(5, 1.0, SystemBits()).tolist() == [0, 1, 2, 3, 4]
    assert poisson_index(5, 0.0, SystemBits()).size == 0
    assert poisson_index(0, 0.5, SystemBits()).size == 0
    for n, rate in [(5, 1.1), (5, -0.1), (5, math.nan)]:
        with pytest.raises(ValueError, match="rate"):
            poisson_index(n, rate, SystemBits())


@pytest.mark.parametrize("n", [2, 3, 7, 100])
def test_uniform_counts(n):
    # A count is beyond 6 standard deviations with probability about 2e-9; at most 100 of them.
    draws = 200_000
    counts = np.bincount(uniform_index(draws, n, SeededBits(7)), minlength=n)
    assert counts.size == n
    assert counts.sum() == draws
    spread = math.sqrt(draws / n * (1 - 1 / n))
    assert np.abs(counts - draws / n).max() < 6 * spread


def test_uniform_rejects_what_would_be_biased():
    limit = 2**64 // 3 * 3
    bits = Counted([limit, 5, limit - 1], [4])
    assert uniform_index(3, 3, bits).tolist() == [2, 2, 1]
    assert bits.asked == [3, 1]


def test_uniform_edges():
    assert uniform_index(0, 3, SystemBits()).size == 0
    assert uniform_index(4, 1, SystemBits()).tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="count"):
        uniform_index(-1, 3, SystemBits())
    with pytest.raises(ValueError, match="n must be an integer from 1"):
        uniform_index(1, 0, SystemBits())
