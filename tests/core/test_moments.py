"""Moments, lengths and bounds: charged before rows are read, with noise for the sensitivity."""

import itertools
import math

import numpy as np
import pytest

from discreet.accounting.planning import divide
from discreet.core import (
    Account,
    Budget,
    Curator,
    ExponentialMechanism,
    Gaussian,
    L2Norm,
    Laplace,
    Relation,
)
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import (
    ColumnBounds,
    EdgeCounts,
    ExponentCounts,
    MedianNorm,
    OuterSum,
    Public,
    RowSum,
    SquareSum,
)
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.rows import as_rows
from discreet.rows.moments import Counts, cell_counts, edges, norm_candidates

from . import spies
from .spies import SpyRows

SMALL = Gaussian(100.0)
CHOICE = ExponentialMechanism(0.01, monotone=False)
PUBLIC = Public(Relation.REPLACE_ONE, 9, 2, 2, None)

EDGES = EdgeCounts((0, 1), np.array([[0.0, 1.0, 2.0]] * 2))

ANSWERS = {
    RowSum: [1.0, -2.0],
    OuterSum: [3.0, 0.5, 4.0],
    SquareSum: [3.0, 4.0],
    ExponentCounts: [0.0] * 258,
    EdgeCounts: [0.0] * 6,
    MedianNorm: lambda question: norm_counts(np.linspace(0.5, 1.5, 1000), question.largest),
    ColumnBounds: lambda _: Counts(cell_counts(np.arange(1000.0), edges()), 1),
}


def spied(relation="add_remove", measures=("zcdp",), delta=1e-6, share=0.5, **settings):
    rows = SpyRows(ANSWERS, n_rows=1000, n_parameters=2, **{"row_norm": 2.0, **settings})
    budget = Budget(1.0, delta, relation)
    curator = spies.spied(rows, budget, seed=1)
    curator._account.reserve(divide(budget, [("all", share)], measures))
    curator.open_reserved(0)
    return rows, curator


def test_every_answer_was_charged_first():
    rows, curator = spied()
    curator.ask(RowSum(curator.row_norm), SMALL)
    curator.ask(OuterSum(curator.row_norm), SMALL)
    curator.ask(ColumnBounds(0, coverage=0.9), CHOICE)
    curator.ask(SquareSum(curator.row_norm), SMALL)
    curator.ask(MedianNorm(), CHOICE)
    curator.ask(ExponentCounts(curator.n_features), SMALL)
    curator.ask(EDGES, SMALL)
    assert rows.charges_when_read == [
        1,
        2,
        4,
        5,
        6,
        7,
        8,
    ]  # two for a column


def test_nothing_is_read_that_is_not_affordable_or_makes_no_sense():
    rows, curator = spied()
    norm = curator.row_norm
    sums = (RowSum(norm), OuterSum(norm), SquareSum(norm), ExponentCounts(curator.n_features))
    for question in (*sums, EDGES):
        with pytest.raises(BudgetExceeded):
            curator.ask(question, Gaussian(0.1))
        with pytest.raises(TypeError, match="Gaussian or L2Norm"):
            curator.ask(question, Laplace(0.001))
    with pytest.raises(BudgetExceeded):
        curator.ask(ColumnBounds(0, coverage=0.9), ExponentialMechanism(2.0, monotone=False))
    with pytest.raises(PrivacyError, match="monotone"):
        curator.ask(ColumnBounds(0, coverage=0.9), ExponentialMechanism(0.01, monotone=True))
    with pytest.raises(BudgetExceeded):
        curator.ask(MedianNorm(), ExponentialMechanism(2.0, monotone=False))
    with pytest.raises(PrivacyError, match="monotone"):
        curator.ask(MedianNorm(), ExponentialMechanism(0.01, monotone=True))
    with pytest.raises(TypeError):
        curator.ask(MedianNorm(), SMALL)
    for largest in (0.0, math.nan, -1.0):
        with pytest.raises(ValueError, match="largest must be"):
            curator.ask(MedianNorm(largest=largest), CHOICE)
    for coverage in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="coverage"):
            curator.ask(ColumnBounds(0, coverage=coverage), CHOICE)
    for share in (0.0, 1.01, math.nan):
        with pytest.raises(ValueError, match="share must be"):
            curator.ask(SquareSum(curator.row_norm, share=share), SMALL)
    assert rows.asked == []
    assert curator.spent_share == 0


def test_rows_without_a_bound_are_refused_for_free():
    _, curator = spied(row_norm=None)
    with pytest.raises(ValueError, match="bound"):
        RowSum(curator.row_norm)
    for kind in (RowSum, OuterSum, SquareSum):
        with pytest.raises(ValueError, match="bound"):
            curator.ask(kind(2.0), SMALL)
    assert curator.spent_share == 0


@pytest.mark.parametrize(
    ("relation", "first", "second"),
    [("add_remove", 2.0, 4.0), ("replace_one", 4.0, 4.0 * math.sqrt(2))],
)
def test_noise_is_scaled_to_the_sensitivity_under_the_relation(relation, first, second):
    _, curator = spied(relation)
    assert curator.ask(RowSum(curator.row_norm), SMALL).deviation == pytest.approx(
        100 * first, rel=1e-5
    )
    assert curator.ask(OuterSum(curator.row_norm), SMALL).deviation == pytest.approx(
        100 * second, rel=1e-5
    )
    assert curator.ask(SquareSum(curator.row_norm), SMALL).deviation == pytest.approx(
        100 * second, rel=1e-5
    )
    short = curator.ask(SquareSum(curator.row_norm, share=0.2), SMALL)
    assert short.deviation == pytest.approx(20 * second, rel=1e-5)
    _, curator = spied(relation, error=0.25)  # twice the rounding error comes on top
    assert curator.ask(RowSum(curator.row_norm), SMALL).deviation == pytest.approx(
        100 * (first + 0.5), rel=1e-5
    )
    assert curator.ask(OuterSum(curator.row_norm), SMALL).deviation >= 100 * (second + 0.5)
    assert curator.ask(SquareSum(curator.row_norm), SMALL).deviation >= 100 * (second + 0.5)


def test_pure_noise_has_the_deviation_that_is_stated():
    _, curator = spied(delta=0.0, share=0.99)
    mechanism = L2Norm(0.0005)
    draws, stated = [], 0.0
    for _ in range(600):
        noisy = curator.ask(OuterSum(curator.row_norm), mechanism)
        draws.append(noisy.values - [3.0, 0.5, 4.0])
        stated = noisy.deviation
    # 1800 coordinates of kurtosis below 7: the ratio's deviation is below 0.06, so 0.35 is 6 of it
    assert np.sqrt(np.mean(np.square(draws))) == pytest.approx(stated, rel=0.35)


def test_a_preparation_is_opened_in_the_measure_of_the_division():
    for measures, delta, measure in (
        (("zcdp",), 1e-6, "zcdp"),
        (("gdp",), 1e-6, "gdp"),
        (("approximate",), 1e-6, "gdp"),
        (("approximate",), 0.0, "pure"),
    ):
        _, curator = spied(measures=measures, delta=delta)
        assert curator._filter.measure == measure
        with pytest.raises(PrivacyError, match="already open"):
            curator.open_reserved(0)


def test_bounds_of_a_column_hold_most_of_it():
    rng = np.random.default_rng(0)
    X = rng.uniform(20.0, 80.0, size=(20_000, 2))
    account = Account(Budget(1.0, 1e-6, "add_remove"))
    account.reserve(divide(account.budget, [("bounds", 0.9)], ["zcdp"]))
    rows = as_rows(X, np.zeros(len(X)), fit_intercept=False)
    curator = Curator(rows, account, Noise(SeededBits(0)))
    curator.open_reserved(0)
    mechanism = ExponentialMechanism(0.1, monotone=False)
    low, high = curator.ask(ColumnBounds(1, coverage=0.95), mechanism)
    assert 15 <= low <= 30
    assert 70 <= high <= 85


def norm_counts(values, largest=None):
    return Counts(cell_counts(values, norm_candidates(largest)), 1)


def scores_of(counts):
    """Return the scores that the mechanism is given."""
    seen = []

    class Seen(ExponentialMechanism):
        def select(self, scores, *, sensitivity, noise):
            seen.append(scores)
            return 0

    mechanism, noise = Seen(1.0, monotone=False), Noise(SeededBits(0))
    MedianNorm().release(counts, mechanism, PUBLIC, noise)
    return seen[0]


def median_scores(values):
    return scores_of(norm_counts(values))


def select_median(values, largest, mechanism, noise, relation):
    public = PUBLIC._replace(relation=relation, n_rows=values.size)
    question = MedianNorm(largest)
    question.check(public, mechanism)
    return question.release(norm_counts(values, largest), mechanism, public, noise)


def chances(values, sensitivity, epsilon=1.0):
    """Exact probabilities of each candidate under the exponential mechanism."""
    exponents = epsilon * median_scores(values) / (2 * sensitivity)
    weights = np.exp(exponents - exponents.max())
    return weights / weights.sum()


def tables():
    rng = np.random.default_rng(0)
    yield rng.lognormal(size=7)
    yield np.ones(6)
    yield np.repeat([1e-9, 3.0, 1e9], 3)
    yield np.array([2.0])


def test_no_candidate_becomes_likelier_than_its_cost_allows_when_a_row_comes_or_goes():
    largest = 0.0
    for values in tables():
        for new in (0.0, 1e-3, 0.99, 1.0, 1.01, 5.0, 1e12):
            neighbour = np.append(values, new)
            scores = median_scores(neighbour) - median_scores(values)
            assert np.abs(scores).max() <= 0.5
            ratio = np.log(chances(neighbour, 0.5) / chances(values, 0.5))
            largest = max(largest, np.abs(ratio).max())
    assert 0.5 < largest <= 1 + 1e-12


def test_no_candidate_becomes_likelier_than_its_cost_allows_when_a_row_is_replaced():
    largest = moved = 0.0
    for values in tables():
        for new in (0.0, 1e-3, 0.99, 1.0, 1.01, 5.0, 1e12):
            for at in range(values.size):
                neighbour = values.copy()
                neighbour[at] = new
                scores = median_scores(neighbour) - median_scores(values)
                moved = max(moved, np.abs(scores).max())
                ratio = np.log(chances(neighbour, 1.0) / chances(values, 1.0))
                largest = max(largest, np.abs(ratio).max())
    assert moved == 1.0  # attained: half of it would not do
    assert 0.5 < largest <= 1 + 1e-12


def test_scores_of_a_median_count_values_above_candidates():
    """By the definition, value by value; more values than a block has, and some at candidates."""
    rng = np.random.default_rng(3)
    candidates = norm_candidates()[300:330]
    drawn = np.exp2(rng.uniform(-6, 1, 70_000))
    beyond = [0.0, 1e300, np.inf, candidates[-1], np.nextafter(candidates[-1], np.inf)]
    values = np.concatenate([drawn, rng.choice(candidates, 5_000), beyond])
    above = [np.count_nonzero(values > candidate) for candidate in candidates[:-1]]
    above, half = [values.size, *above, 0], values.size / 2
    pairs = itertools.pairwise(above)
    expected = [-max(here - half, half - before, 0.0) for before, here in pairs]
    counts = Counts(cell_counts(values, candidates), 1)
    assert np.array_equal(scores_of(counts), expected)


@pytest.mark.parametrize(
    ("relation", "sensitivity"), [(Relation.ADD_REMOVE, 0.5), (Relation.REPLACE_ONE, 1.0)]
)
def test_the_median_is_selected_with_the_sensitivity_of_the_relation(relation, sensitivity):
    asked = []

    class Asked(ExponentialMechanism):
        def select(self, scores, *, sensitivity, noise):
            asked.append(sensitivity)
            return int(np.argmax(scores))

    mechanism, noise = Asked(1.0, monotone=False), Noise(SeededBits(0))
    values = np.random.default_rng(1).uniform(3.0, 5.0, size=10_001)
    median = select_median(values, None, mechanism, noise, relation)
    assert asked == [sensitivity]
    assert 4.0 * 0.95 <= median <= 4.0 * 1.1  # the next candidate above it, by 2^(1/16) at most
    with pytest.raises(PrivacyError, match="monotone"):
        select_median(values, None, ExponentialMechanism(1.0, monotone=True), noise, relation)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_of_one_length_leave_no_doubt(kind):
    X = np.random.default_rng(0).normal(size=(4000, 30))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(kind)
    norms = as_rows(X, np.zeros(4000), fit_intercept=False).norms()
    mechanism, noise = ExponentialMechanism(0.1, monotone=False), Noise(SeededBits(0))
    # any other candidate is 2000 rows short of it: a false alarm in less than 1e-40 of runs
    median = select_median(norms, None, mechanism, noise, Relation.REPLACE_ONE)
    assert median == pytest.approx(1.0, rel=1e-4)
    for largest, want in (
        (0.5, 0.5 / 2 ** (1 / 16)),
        (1e-25, 2.0**-64),
        (1e-12, 2.0**-40),
        (1e9, 1.0),
    ):
        median = select_median(norms, largest, mechanism, noise, Relation.REPLACE_ONE)
        assert median <= max(largest, norm_candidates()[0])
        assert median == pytest.approx(want, rel=1e-4)


@pytest.mark.parametrize(("relation", "change"), [("add_remove", 1.0), ("replace_one", 2.0)])
def test_noise_of_exponent_counts_by_relation(relation, change):
    """Noise of √d or √(2d) times the multiplier: checked by its stated and its actual deviation.

    The sum of 129·40 squares over their variance is within 12 % of its mean but for a probability
    of 1e-9 (6.1 standard deviations of √(2/5160)).
    """
    X = np.zeros((5, 40))
    account = Account(Budget(1.0, 1e-6, relation))
    account.reserve(divide(account.budget, [("all", 0.5)], ("gdp",)))
    curator = Curator(as_rows(X, np.zeros(5), fit_intercept=False), account, Noise(SeededBits(3)))
    curator.open_reserved(0)
    noisy = curator.ask(ExponentCounts(curator.n_features), Gaussian(50.0))
    expected = 50.0 * math.sqrt(change * 40)
    assert noisy.deviation == pytest.approx(expected, rel=1e-4)
    assert noisy.values.size == 129 * 40
    assert np.mean(noisy.values**2) == pytest.approx(expected**2, rel=0.12)


@pytest.mark.parametrize(("relation", "change"), [("add_remove", 1.0), ("replace_one", 2.0)])
def test_noise_of_counts_of_largest_entries_by_relation(relation, change):
    """√2 or 2 times the multiplier, however many columns there are."""
    account = Account(Budget(1.0, 1e-6, relation))
    account.reserve(divide(account.budget, [("all", 0.5)], ("gdp",)))
    rows = as_rows(np.zeros((5, 120)), np.zeros(5), fit_intercept=False)
    curator = Curator(rows, account, Noise(SeededBits(3)))
    curator.open_reserved(0)
    for wrong in (np.full(119, True), np.full(120, False), True):
        with pytest.raises(ValueError, match="among must name some of 120 columns"):
            curator.ask(ExponentCounts(curator.n_features, wrong), Gaussian(50.0))
    assert curator.spent_share == 0
    noisy = curator.ask(ExponentCounts(curator.n_features, np.full(120, True)), Gaussian(50.0))
    expected = 50.0 * math.sqrt(2 * change)
    assert noisy.deviation == pytest.approx(expected, rel=1e-4)
    assert noisy.values.size == 43 * 121
    assert np.mean(noisy.values**2) == pytest.approx(expected**2, rel=0.12)


def test_columns_of_exponent_counts_are_those_of_the_table_without_the_intercept():
    """A mask for the intercept, too, would be longer than the counts that the kernel fills."""
    account = Account(Budget(1.0, 1e-6, "add_remove"))
    account.reserve(divide(account.budget, [("all", 0.5)], ("gdp",)))
    rows = as_rows(np.ones((5, 12)), np.zeros(5), fit_intercept=True)
    curator = Curator(rows, account, Noise(SeededBits(3)))
    curator.open_reserved(0)
    noisy = curator.ask(ExponentCounts(curator.n_features, np.full(12, True)), Gaussian(50.0))
    assert noisy.values.size == 43 * 13
    spent = curator.spent_share
    with pytest.raises(ValueError, match="among must name some of 12 columns"):
        curator.ask(ExponentCounts(curator.n_features, np.full(13, True)), Gaussian(50.0))
    assert curator.spent_share == spent
    noisy = curator.ask(ExponentCounts(curator.n_features), Gaussian(50.0))
    assert noisy.values.size == 129 * 12
    assert noisy.deviation == pytest.approx(50.0 * math.sqrt(12), rel=1e-4)


@pytest.mark.parametrize(("relation", "change"), [("add_remove", 1.0), ("replace_one", 2.0)])
def test_noise_of_counts_between_edges_by_relation(relation, change):
    """√c or √(2c) times the multiplier for c columns, however many cells they have."""
    account = Account(Budget(1.0, 1e-6, relation))
    account.reserve(divide(account.budget, [("all", 0.5)], ("gdp",)))
    rows = as_rows(np.zeros((5, 40)), np.zeros(5), fit_intercept=False)
    curator = Curator(rows, account, Noise(SeededBits(3)))
    curator.open_reserved(0)
    cells = np.tile(np.arange(1.0, 302.0), (9, 1))
    noisy = curator.ask(EdgeCounts(tuple(range(9)), cells), Gaussian(50.0))
    expected = 50.0 * math.sqrt(change * 9)
    assert noisy.deviation == pytest.approx(expected, rel=1e-4)
    assert noisy.values.size == 301 * 9
    assert np.mean(noisy.values**2) == pytest.approx(expected**2, rel=0.15)


def test_columns_and_edges_of_counts_must_fit_the_rows():
    account = Account(Budget(1.0, 1e-6, "add_remove"))
    account.reserve(divide(account.budget, [("all", 0.5)], ("gdp",)))
    rows = as_rows(np.ones((5, 3)), np.zeros(5), fit_intercept=True)
    curator = Curator(rows, account, Noise(SeededBits(3)))
    curator.open_reserved(0)
    one = np.array([[0.0, 1.0]])
    for columns in ((3,), (-1,), (), (0, 0)):
        with pytest.raises(ValueError, match="columns must name some of 3 columns, each once"):
            curator.ask(EdgeCounts(columns, np.tile(one, (len(columns), 1))), Gaussian(50.0))
    for edges_of in (one, np.array([[0.0], [0.0]]), np.zeros(2)):
        with pytest.raises(ValueError, match="column_edges must have one row"):
            curator.ask(EdgeCounts((0, 1), edges_of), Gaussian(50.0))
    for edges_of in ([[1.0, 1.0]], [[0.0, math.inf]], [[1.0, 0.0]]):
        with pytest.raises(ValueError, match="finite and increasing"):
            curator.ask(EdgeCounts((0,), np.array(edges_of)), Gaussian(50.0))
    assert curator.spent_share == 0
