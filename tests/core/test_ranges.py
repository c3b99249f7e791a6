"""Bounds of a column: exact probabilities on neighbours, scores by definition, and usefulness."""

import math
from functools import reduce

import numpy as np
import pytest
from scipy import stats

from discreet.core import ExponentialMechanism, Relation, ranges
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import MedianNorm, Public
from discreet.core.ranges import (
    select_bounds_from_counts,
    tail_share,
)
from discreet.errors import PrivacyError
from discreet.rows import moments as row_counts
from discreet.rows.moments import Counts, edges, norm_candidates

SMALL = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])


@pytest.fixture
def few_edges(monkeypatch):
    """Five candidates, so that every outcome and neighbour can be listed."""
    monkeypatch.setattr(ranges, "edges", lambda: SMALL)
    return SMALL


def noise(seed):
    return Noise(SeededBits(seed))


def cell_counts(values, candidates=None, weights=None):
    candidates = ranges.edges() if candidates is None else candidates
    return row_counts.cell_counts(values, candidates, weights)


def select_bounds(values, *arguments):
    return select_bounds_from_counts(cell_counts(values), *arguments)


def log_probabilities(values, share, scale):
    """Exact log-probabilities of both selections by the exponential mechanism."""
    scores = ranges._scores(cell_counts(np.array(values)), share)
    return [s / scale - np.logaddexp.reduce(s / scale) for s in scores]


def neighbours(values, relation, kinds):
    """All tables that one row more or less, or one row replaced, can make of this one."""
    for i in range(len(values)):
        rest = values[:i] + values[i + 1 :]
        if relation == "add_remove":
            yield rest
        else:
            yield from ([*rest, other] for other in kinds)


def test_candidates_are_round_symmetric_and_cover_the_useful_range():
    candidates = edges()
    assert candidates.size == 3783
    assert np.all(np.diff(candidates) > 0)
    assert np.array_equal(candidates, -candidates[::-1])
    positive = candidates[candidates > 0]
    assert positive[0] == 1e-9
    assert positive[-1] == 1e12
    assert (positive[1:] / positive[:-1]).max() < 1.1 + 1e-9
    assert {0.1, 1.0, 17.0, 90.0, 5200.0, 0.0, -0.37} <= set(candidates.tolist())
    with pytest.raises(ValueError, match="read-only"):
        candidates[0] = 0.0


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_no_row_moves_a_score_by_more_than_the_sensitivity(few_edges, relation):
    rng = np.random.default_rng(0)
    kinds = [-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 7.0, math.nan]
    largest = 0.0
    for _ in range(150):
        values = rng.choice(kinds, size=rng.integers(1, 9)).tolist()
        share = rng.integers(1, 2**19) / 2**20
        before = np.concatenate(ranges._scores(cell_counts(np.array(values)), share))
        for other in neighbours(values, relation, kinds):
            after = np.concatenate(ranges._scores(cell_counts(np.array(other)), share))
            largest = max(largest, np.abs(after - before).max())
    assert largest <= ranges.SENSITIVITY
    assert largest > 0.95 * ranges.SENSITIVITY  # the bound is not loose


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_exact_output_probabilities_keep_the_promise_on_all_neighbours(few_edges, relation):
    epsilon = 1.3
    scale = ExponentialMechanism(epsilon, monotone=False).scale(ranges.SENSITIVITY)
    rng = np.random.default_rng(1)
    kinds = [-3.0, -2.0, -0.5, 0.0, 0.5, 1.0, 3.0, math.nan]
    worst = broken = 0.0
    for _ in range(60):
        values = rng.choice(kinds, size=rng.integers(1, 12)).tolist()
        share = float(rng.choice([2**-20, 0.0625, 0.25, 0.4375]))
        for other in neighbours(values, relation, kinds):
            for b, halved in ((scale, False), (scale / 2, True)):
                pairs = zip(
                    log_probabilities(values, share, b),
                    log_probabilities(other, share, b),
                    strict=True,
                )
                ratio = max(np.abs(first - second).max() for first, second in pairs)
                worst, broken = (
                    (worst, max(broken, ratio)) if halved else (max(worst, ratio), broken)
                )
    assert worst <= epsilon
    assert broken > epsilon  # half the noise would not do: the tables above are bad enough


def test_scores_by_definition():
    # 0 exactly where the bound cuts at most the share and the next tighter one at least as much.
    rng = np.random.default_rng(2)
    values = np.round(rng.normal(30, 20, 500), 1)
    candidates, allowed = edges(), 500 / 16
    low_scores, high_scores = ranges._scores(cell_counts(values), 1 / 16)
    cut_low = np.array([(values < e).sum() for e in candidates])
    cut_high = np.array([(values > e).sum() for e in candidates])
    low = np.maximum(cut_low - allowed, allowed - np.append(cut_low[1:], 500))
    high = np.maximum(cut_high - allowed, allowed - np.insert(cut_high[:-1], 0, 500))
    assert np.array_equal(low_scores, -np.maximum(low, 0))
    assert np.array_equal(high_scores, -np.maximum(high, 0))
    assert low_scores.max() == high_scores.max() == 0


def test_counts_of_blocks_add_up_and_nothing_is_lost():
    values = np.array([0.0, -0.0, 1e-12, 17.0, 17.05, -1e300, math.inf, -math.inf, math.nan, 1e12])
    counts = cell_counts(values)
    assert counts.sum() == 9  # all but the missing one
    assert np.array_equal(
        counts, reduce(np.add, (cell_counts(values[i : i + 3]) for i in (0, 3, 6, 9)))
    )
    candidates = edges()
    assert counts[2 * np.searchsorted(candidates, 0.0) + 1] == 2
    assert counts[2 * np.searchsorted(candidates, 17.0) + 1] == 1
    assert counts[2 * np.searchsorted(candidates, 18.0)] == 1  # 17.05, just below 18
    assert counts[1] == 2  # beyond the lowest
    assert counts[-2] == 2  # at and beyond the highest


def test_frequencies_follow_the_closed_form(few_edges):
    # 3,000 selections of each bound, chi-square with false alarm 1e-7.
    values = np.array([-1.0, -0.5, 0.5, 0.5, 1.5])
    mechanism = ExponentialMechanism(2.0, monotone=False)
    share = tail_share(0.6, 5, mechanism)
    chosen = np.zeros((2, 5))
    source = noise(4)
    for _ in range(3000):
        for row, scores in enumerate(ranges._scores(cell_counts(values), share)):
            chosen[row, mechanism.select(scores, sensitivity=1.0, noise=source)] += 1
    logs = log_probabilities(values, share, mechanism.scale(1.0))
    for row, expected in zip(chosen, 3000 * np.exp(logs), strict=True):
        assert ((row - expected) ** 2 / expected).sum() < stats.chi2.isf(1e-7, 4)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (np.tile(np.arange(17.0, 91.0), 200), 17.0, 90.0),
        (np.where(np.arange(20_000) % 10, 0.0, 4000.0), 0.0, 4000.0),
        (np.where(np.arange(20_000) % 30, 999.0, 5.0), 5.0, 1000.0),  # most rows hold one number
        (np.arange(20_000) % 2.0, 0.0, 1.0),
        (np.where(np.arange(20_000) % 3, np.nan, -0.25), -0.26, -0.24),  # one number: a step apart
        (np.linspace(92.2, 94.8, 20_000), 92.0, 95.0),
    ],
    ids=["ages", "mostly zero", "atom between candidates", "binary", "constant", "narrow"],
)
def test_bounds_are_what_a_person_would_write(values, low, high):
    # The nearest wrong candidates miss by at least 100 rows of these tables, 50 noise scales and
    # more; among 3,783 candidates that has a chance below 1e-15.
    mechanism = ExponentialMechanism(1.0, monotone=False)
    found = select_bounds(values, len(values), 0.98, mechanism, noise(0))
    assert found == (low, high)


def test_blocks_and_a_whole_column_give_the_same_bounds():
    values = np.random.default_rng(5).lognormal(3, 2, 10_000)
    mechanism = ExponentialMechanism(0.5, monotone=False)
    whole = select_bounds(values, 10_000, 0.95, mechanism, noise(1))
    counts = cell_counts(values[:3000]) + cell_counts(values[3000:])
    assert select_bounds_from_counts(counts, 10_000, 0.95, mechanism, noise(1)) == whole


@pytest.mark.parametrize("values", [[], [math.nan] * 5, [3.0], [math.inf, -math.inf], [0.0] * 4])
def test_low_is_below_high_whatever_the_noise(values):
    mechanism = ExponentialMechanism(0.1, monotone=False)
    for seed in range(40):
        low, high = select_bounds(np.array(values), 5, 0.9, mechanism, noise(seed))
        assert low < high
        assert low in edges()
        assert high in edges()


def test_equal_answers_move_apart_also_at_the_ends(monkeypatch):
    mechanism = ExponentialMechanism(1.0, monotone=False)

    def bounds(*picks):
        chosen = iter(picks)
        monkeypatch.setattr(ExponentialMechanism, "select", lambda *_, **__: next(chosen))
        return select_bounds_from_counts(cell_counts(np.zeros(9)), 9, 0.9, mechanism, noise(0))

    last = edges().size - 1
    assert bounds(5, 5) == (edges()[4], edges()[6])
    assert bounds(0, 0) == (edges()[0], edges()[1])
    assert bounds(last, last) == (edges()[last - 1], edges()[last])
    assert bounds(9, 2) == (edges()[2], edges()[9])


def test_the_share_is_raised_by_public_numbers_until_noise_stays_inside():
    mechanism = ExponentialMechanism(0.02, monotone=False)
    # b = 2/0.02 = 100 rows; ln(3783/0.001) = 15.146: 1514.6 of 32,561 rows.
    assert tail_share(0.98, 32_561, mechanism) == pytest.approx(0.04652, rel=1e-3)
    assert tail_share(0.98, 10**8, mechanism) == pytest.approx(0.01, abs=2**-19)
    assert tail_share(0.98, 100, mechanism) == 0.25
    assert tail_share(0.01, 10**8, mechanism) == pytest.approx(0.495, abs=2**-19)
    share = tail_share(1 - 1e-12, 2**32 - 1, ExponentialMechanism(1e6, monotone=False))
    assert share == 2**-20
    # With that share a table has a bound beyond its data with a chance of 0.02 at most (0.01 for
    # each bound), so more than 20 of 100 do with a chance below 1e-13.
    values = np.random.default_rng(3).uniform(20, 60, 32_561)
    found = [select_bounds(values, 32_561, 0.98, mechanism, noise(seed)) for seed in range(100)]
    assert sum(low < 19 or high > 61 for low, high in found) <= 20


def test_scores_are_exact_at_the_largest_sizes():
    counts = np.zeros(2 * edges().size + 1, dtype=np.int64)
    counts[100], counts[200] = 2**31 - 1, 2**31
    low, _ = ranges._scores(counts, (2**19 - 1) / 2**20)
    total, numerator = 2**32 - 1, 2**19 - 1
    assert float(low[0]) * 2**20 == -(numerator * total)  # in whole numbers


def test_what_the_proof_does_not_cover_is_refused():
    good = ExponentialMechanism(1.0, monotone=False)
    with pytest.raises(PrivacyError, match="monotone"):
        select_bounds(np.zeros(3), 3, 0.9, ExponentialMechanism(1.0, monotone=True), noise(0))
    for coverage in (0.0, 1.0, math.nan, -1):
        with pytest.raises(ValueError, match="coverage"):
            select_bounds(np.zeros(3), 3, coverage, good, noise(0))
    for n_rows in (0, 2**32, True):
        with pytest.raises(ValueError, match="n_rows"):
            select_bounds(np.zeros(1), n_rows, 0.9, good, noise(0))


class Asked(ExponentialMechanism):
    """A mechanism that takes the best score and records what it was asked."""

    def select(self, scores, *, sensitivity, noise):
        self.seen.append((scores, sensitivity))
        return int(np.argmax(scores))


def test_counts_of_long_columns_are_those_of_their_blocks(monkeypatch):
    """Block by block, with and without weights; NaN is skipped with its weight."""
    rng = np.random.default_rng(7)
    values, weights = rng.normal(size=1000), rng.integers(0, 2**30, 1000).astype(float)
    values[::9] = np.nan
    expected = cell_counts(values), cell_counts(values, weights=weights)
    assert expected[0].sum() == np.isfinite(values).sum()
    assert expected[1].sum() == weights[np.isfinite(values)].sum()
    monkeypatch.setattr(row_counts, "COUNTED", 64)
    assert np.array_equal(cell_counts(values), expected[0])
    assert np.array_equal(cell_counts(values, weights=weights), expected[1])


def test_weights_are_scored_in_units_of_rows():
    """Counts of weights 1 score like counts of rows; fractions add up; rounding is paid for."""
    values, unit = np.random.default_rng(6).lognormal(size=300), 2**30
    whole = cell_counts(values)
    fractions = cell_counts(np.repeat(values, 4), weights=np.full(1200, unit / 4))
    assert np.array_equal(fractions, whole * unit)
    mechanism = Asked(1.0, monotone=False)
    object.__setattr__(mechanism, "seen", [])
    ends = [
        select_bounds_from_counts(counts, 300, 0.9, mechanism, noise(0), of)
        for counts, of in ((whole, 1), (fractions, unit))
    ]
    assert ends[0] == ends[1]
    candidates = norm_candidates()
    norms = cell_counts(values, candidates)
    for counts in (Counts(norms, 1), Counts(norms * unit, unit)):
        public = Public(Relation.REPLACE_ONE, 300, 1, 1, None)
        MedianNorm().release(counts, mechanism, public, noise(0))
    for first, second in ((0, 2), (1, 3), (4, 5)):  # low, high and the median
        (scores, exact), (others, rounded) = mechanism.seen[first], mechanism.seen[second]
        assert np.array_equal(scores, others)
        assert (exact, rounded) == (1.0, 1.0 + 301 * 2.0**-49)


def test_candidates_for_norms_by_hand():
    """preparation.md: 2^(j/16) within 2^±20 and powers of 2 beyond, times 1 + 2^-16."""
    exponents = [*range(-64, -20), *(j / 16 for j in range(-320, 321)), *range(21, 65)]
    expected = [2.0**exponent * 65537 / 65536 for exponent in exponents]
    np.testing.assert_allclose(norm_candidates(), expected, rtol=1e-14)
    assert not norm_candidates().flags.writeable
    single = np.linalg.norm(np.full(100, 0.1, dtype=np.float32).astype(float))
    assert 1.0 < single <= norm_candidates()[44 + 320]  # the candidate at 1


def test_candidates_for_norms_end_at_a_public_bound():
    assert norm_candidates(1.0)[-1] == norm_candidates()[44 + 319]
    assert norm_candidates(1.1)[-1] == pytest.approx(2 ** (2 / 16) * (1 + 2.0**-16), rel=1e-12)
    assert norm_candidates(1e-30).tolist() == norm_candidates()[:1].tolist()
