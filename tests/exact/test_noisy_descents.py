"""Noisy descent in one question: charged first, rightly noisy, and only where it is proven."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import discreet.exact.noisy_descents as descents
from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Account, Budget, Curator, Gaussian, L2Norm, Laplace
from discreet.core.account import PrivacyFilter
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.exact.noisy_descents import Descent
from discreet.objectives import Hinge, Logistic
from discreet.rows import as_rows

REPLACE = Budget(5.0, 1e-6, "replace_one")
N, D = 103, 4
PASS = L2Norm(2.0)


def table(seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (N, D)), np.where(rng.random(N) < 0.5, 1.0, -1.0)


class Recording:
    """Rows that remember what they were asked for, and what had been charged by then."""

    def __init__(self, rows):
        self.rows, self.calls, self.curator = rows, [], None

    def __getattr__(self, name):
        return getattr(self.rows, name)

    def descend(self, weights, loss, **arguments):
        uses = sum(times for _, times in self.curator._filter.uses)
        path = self.rows.descend(weights, loss, **arguments)
        self.calls.append((uses, weights.copy(), arguments, path.weights))
        return path


def make_curator(budget=REPLACE, seed=0, data=None):
    rows = Recording(as_rows(*(data or table())))
    curator = Curator(rows, Account(budget), Noise(SeededBits(seed)))
    rows.curator = curator
    return curator, rows


def a_pass(curator, mechanism=PASS, **changes):
    settings = {
        "clip": 1.0,
        "step_sizes": np.full(10, 0.1),
        "order": "pass",
        "batch_size": 10,
    }
    return curator.descend(Descent(Logistic(), np.zeros(D + 1), **(settings | changes)), mechanism)


def test_a_pass_is_charged_once_before_rows_are_read():
    curator, rows = make_curator()
    curator.open("pure")
    weights = a_pass(curator)
    assert weights.shape == (D + 1,)
    assert [call[0] for call in rows.calls] == [1]
    assert curator.spent_share == pytest.approx(0.4)
    a_pass(curator)
    with pytest.raises(BudgetExceeded):
        a_pass(curator)
    assert len(rows.calls) == 2


def test_a_pass_uses_each_row_at_most_once_in_batches_of_one_size():
    curator, rows = make_curator()
    curator.open("pure")
    a_pass(curator)
    order = rows.calls[0][2]["order"]
    assert order.shape == (10, 10)
    assert np.unique(order).size == 100
    assert order.min() >= 0
    assert order.max() < N
    a_pass(curator)
    assert not np.array_equal(order, rows.calls[1][2]["order"])  # a fresh permutation


def test_a_replaced_row_is_seen_in_its_own_batch_only():
    """Same bits, one row replaced: noisy sums are the same before its batch.

    After it, sums are computed from the same rows at the weights that were released, which is all
    that parallel composition needs.
    """
    X, y = table()
    other = X.copy()
    other[17] = -3 * X[17]
    runs = []
    for data in ((X, y), (other, y)):
        curator, rows = make_curator(data=data)
        curator.open("pure")
        a_pass(curator)
        order, noise = rows.calls[0][2]["order"], rows.calls[0][2]["noise"]
        batch = int(np.flatnonzero((order == 17).any(axis=1))[0])
        until = rows.rows.descend(
            np.zeros(D + 1),
            Logistic(),
            order=order[:batch],
            steps=np.full(batch, 0.1),
            clip=1.0,
            noise=noise._replace(integers=noise.integers[:batch]),
        ).weights
        sums = [
            rows.rows.descend(until, Logistic(), order=order[k : k + 1], steps=[-10.0], clip=1.0)
            for k in range(10)
        ]
        runs.append((batch, order, until, np.array([path.weights for path in sums]) - until))
    assert runs[0][0] == runs[1][0]
    assert np.array_equal(runs[0][1], runs[1][1])
    assert np.array_equal(runs[0][2], runs[1][2])
    changed = np.flatnonzero((runs[0][3] != runs[1][3]).any(axis=1))
    assert changed.tolist() == [runs[0][0]]
    assert np.linalg.norm(runs[0][3] - runs[1][3]) <= 2.0 + 1e-12


def noise_of(mechanism, order, count, **settings):
    """Noise alone: rows that are 0 and have slope 0, and a step of −b from 0."""
    curator, _ = make_curator(Budget(1e9, 1e-6, "replace_one"), 3, (np.zeros((N, D)), np.ones(N)))
    if order == "one_row":
        curator.open_plan(mechanism, count)
    else:
        curator.open("gdp")
    draws = []
    for _ in range(count):
        batch = settings["batch_size"]
        draws.append(
            curator.descend(
                Descent(
                    Hinge(),
                    np.append(np.zeros(D), 2.0),
                    order=order,
                    step_sizes=np.append(np.zeros(N // batch - 1), -batch)
                    if order == "pass"
                    else [-1],
                    **settings,
                ),
                mechanism,
            )
        )
    return np.array(draws) - np.append(np.zeros(D), 2.0)


def test_noise_of_a_pass_by_hand():
    # Length of density ∝ exp(−ε‖z‖/(2·clip)) is Gamma(5, 2·3/0.5 = 12). KS at p > 1e-7.
    drawn = noise_of(L2Norm(0.5), "pass", 1500, clip=3.0, batch_size=20)
    lengths = np.linalg.norm(drawn, axis=1)
    assert stats.kstest(lengths, stats.gamma(D + 1, scale=12.0 * (1 + 1e-3)).cdf).pvalue > 1e-7
    # Gaussian: deviation noise_multiplier·2·clip = 0.7·6 = 4.2
    drawn = noise_of(Gaussian(0.7), "pass", 1500, clip=3.0, batch_size=20)
    assert stats.kstest(drawn.ravel() / 4.2, "norm").pvalue > 1e-7


def test_noise_of_one_row_by_hand():
    # deviation noise_multiplier·clip = 0.7·3 = 2.1, the clip of one row; KS at p > 1e-7
    step = SampledGaussian(0.7, 1 / N, REPLACE.relation, "one_row")
    drawn = noise_of(step, "one_row", 1500, clip=3.0, batch_size=1)
    assert stats.kstest(drawn.ravel() / 2.1, "norm").pvalue > 1e-7


@pytest.mark.parametrize(
    ("order", "batch_size", "expected"), [("pass", 10, 7.0), ("one_row", 1, 3.5)]
)
def test_noise_covers_the_rounding_of_a_batch(monkeypatch, order, batch_size, expected):
    # C = 3 and E = 1/2: 2C + 2E for a pass of replaced rows, C + E for one row of a sample.
    curator, rows = make_curator(Budget(1e4, 1e-6, "replace_one"))
    rows.batch_error = lambda batch_size, clip: 0.5
    mechanism, seen = Gaussian(20.0), []
    if order == "one_row":
        mechanism = SampledGaussian(20.0, 1 / N, REPLACE.relation, "one_row")
        curator.open_plan(mechanism, 10)
    else:
        curator.open("gdp")
    draw = Gaussian.draw_block

    def record(self, *arguments, **settings):
        seen.append((settings["sensitivity"], settings["magnitude"]))
        return draw(self, *arguments, **settings)

    monkeypatch.setattr(Gaussian, "draw_block", record)
    a_pass(curator, order=order, batch_size=batch_size, mechanism=mechanism, clip=3.0)
    assert seen == [(expected, batch_size * 3.0 + 0.5)]


def test_one_row_is_charged_for_every_update_in_advance():
    curator, rows = make_curator(Budget(1e4, 1e-6, "replace_one"))
    step = SampledGaussian(1.0, 1 / N, REPLACE.relation, "one_row")
    curator.open_plan(step, 1000)

    def updates(count):
        steps = np.full(count, 1e-3)
        return Descent(Logistic(), np.zeros(D + 1), 1.0, step_sizes=steps, order="one_row")

    curator.descend(updates(600), step)
    assert rows.calls[0][0] == 600
    assert curator.spent_share == 0.6
    with pytest.raises(BudgetExceeded):
        curator.descend(updates(401), step)
    assert curator.spent_share == 0.6
    guarantee = curator._account.guarantee(secure=False)
    assert [(use.mechanism, use.count) for use in guarantee.mechanisms] == [(step, 600)]


def test_rows_drawn_one_by_one_are_uniform():
    curator, rows = make_curator(Budget(1e6, 1e-6, "replace_one"))
    step = SampledGaussian(10.0, 1 / N, REPLACE.relation, "one_row")
    curator.open_plan(step, 20_000)
    steps = np.full(20_000, 1e-3)
    curator.descend(
        Descent(Logistic(), np.zeros(D + 1), clip=1.0, step_sizes=steps, order="one_row"), step
    )
    drawn = np.concatenate([call[2]["order"].ravel() for call in rows.calls])
    assert stats.chisquare(np.bincount(drawn, minlength=N)).pvalue > 1e-7


def test_noise_in_blocks_is_noise_at_once(monkeypatch):
    ends = []
    for values in (2**18, 7):
        monkeypatch.setattr(descents, "NOISE_VALUES", values)
        curator, rows = make_curator()
        curator.open("gdp")
        ends.append((a_pass(curator, mechanism=Gaussian(20.0)), len(rows.calls)))
    assert np.array_equal(ends[0][0], ends[1][0])
    assert [calls for _, calls in ends] == [1, 10]


def test_the_average_and_the_ball():
    curator, rows = make_curator()
    curator.open("gdp")
    mean = a_pass(curator, mechanism=Gaussian(20.0), average=True, radius=0.3, alpha=0.1)
    assert np.linalg.norm(rows.calls[0][3]) <= 0.3 * (1 + 1e-12)
    assert 0 < np.linalg.norm(mean) <= 0.3 * (1 + 1e-12)
    assert not np.array_equal(mean, rows.calls[0][3])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be an integer from 1 to 103"),
        ({"batch_size": 104}, ValueError, "batch_size must be an integer from 1 to 103"),
        ({"batch_size": 2.0}, ValueError, "batch_size must be an integer"),
        ({"step_sizes": np.full(11, 0.1)}, ValueError, "whole batch"),
        ({"step_sizes": np.full(10, math.nan)}, ValueError, "NaN"),
        ({"step_sizes": np.zeros(0)}, ValueError, "whole batch"),
        ({"clip": 0.0}, ValueError, "clip"),
        ({"alpha": -1.0}, ValueError, "alpha"),
        ({"radius": 0.0}, ValueError, "radius"),
        ({"mechanism": Laplace(1.0)}, TypeError, "Gaussian or L2Norm"),
        ({"order": "sorted"}, ValueError, "order"),
        ({"order": "one_row"}, TypeError, "SampledGaussian"),
        (
            {
                "order": "one_row",
                "mechanism": SampledGaussian(1.0, 1 / N, REPLACE.relation, "one_row"),
            },
            ValueError,
            "batch_size=1",
        ),
        (
            {
                "order": "one_row",
                "mechanism": SampledGaussian(1.0, 1 / N, REPLACE.relation, "poisson"),
            },
            TypeError,
            "one_row",
        ),
    ],
)
def test_bad_questions_cost_nothing(change, error, message):
    curator, rows = make_curator()
    curator.open("pure")
    with pytest.raises(error, match=message):
        a_pass(curator, **change)
    assert curator.spent_share == 0
    assert not rows.calls


def test_one_row_is_accounted_for_at_least_its_rate():
    # One of N rows is drawn: a plan for half that rate would promise too much.
    step = SampledGaussian(50.0, 0.5 / N, REPLACE.relation, "one_row")
    curator, rows = make_curator()
    curator.open_plan(step, 3)
    with pytest.raises(PrivacyError, match=f"one of {N} rows is drawn"):
        a_pass(curator, order="one_row", batch_size=1, step_sizes=np.full(3, 0.1), mechanism=step)
    assert curator.spent_share == 0
    assert not rows.calls
    with pytest.raises(ValueError, match="at least one step size"):
        a_pass(
            curator,
            order="one_row",
            batch_size=1,
            step_sizes=np.zeros(0),
            mechanism=replace(step, rate=1 / N),
        )


def test_add_remove_and_samples_are_refused():
    curator, rows = make_curator(Budget(5.0, 1e-6, "add_remove"))
    curator.open("pure")
    with pytest.raises(PrivacyError, match="replace_one"):
        a_pass(curator)
    sampled = Curator(rows.rows, Account(REPLACE), Noise(SeededBits(0)))
    sampled.open("pure")
    with pytest.raises(PrivacyError, match="all rows"):
        a_pass(sampled.sample(0.5))
    assert sampled.spent_share == 0


def test_a_descent_that_diverges_says_so_without_a_number():
    curator, _ = make_curator()
    curator.open("gdp")
    steps = np.full(10, 1e160)
    with pytest.raises(ValueError, match="smaller steps"):
        a_pass(curator, mechanism=Gaussian(20.0), step_sizes=steps, alpha=1.0)


class Words:
    """Bits that are given."""

    secure = False

    def __init__(self, words):
        self.left = list(words)

    def words(self, count):
        drawn, self.left = self.left[:count], self.left[count:]
        return np.array(drawn, dtype=np.uint64)


def test_uniform_numbers_reject_what_would_favour_small_ones():
    # 2^64 = 3·6148914691236517205 + 1: the last word would give 0 once too often
    bits = Words([2**64 - 1, 2**64 - 2, 5, 2**64 - 1, 7])
    assert descents.uniform_index(3, 3, bits).tolist() == [2, 2, 1]
    assert descents.uniform_index(2, 8, Words([2**64 - 1, 9])).tolist() == [7, 1]
    drawn = descents.uniform_index(60_000, 6, SeededBits(1))
    assert stats.chisquare(np.bincount(drawn, minlength=6)).pvalue > 1e-7


def test_permutations_are_uniform_and_ties_are_drawn_again():
    bits = Words([4, 4, 1, 9, 2, 5])
    assert descents.permutation(3, bits).tolist() == [1, 2, 0]
    bits = SeededBits(2)
    seen = [tuple(descents.permutation(4, bits)) for _ in range(12_000)]
    counts = np.unique(seen, axis=0, return_counts=True)[1]
    assert counts.size == 24
    assert stats.chisquare(counts).pvalue > 1e-7
    curator, _ = make_curator()
    assert np.array_equal(np.sort(curator.permutation()), np.arange(N))


def test_indices_are_drawn_in_proportion():
    curator, _ = make_curator()
    chances = np.array([1.0, 0.0, 3.0, 4.0])
    drawn = np.bincount([curator.draw_index(chances) for _ in range(16_000)], minlength=4)
    assert drawn[1] == 0
    assert stats.chisquare(drawn[[0, 2, 3]], [2000, 6000, 8000]).pvalue > 1e-7
    for bad in ([], [0.0, 0.0], [-1.0, 2.0], [math.nan]):
        with pytest.raises(ValueError, match="chances"):
            curator.draw_index(np.array(bad))


def test_a_filter_takes_many_uses_at_once_or_none():
    mechanism = L2Norm(0.1)
    once, many = PrivacyFilter("pure", 1.0), PrivacyFilter("pure", 1.0)
    for _ in range(9):
        once.charge(mechanism)
    many.charge(mechanism, 9)
    assert once.spent_share == many.spent_share
    assert once._spent == many._spent == 9 * Fraction(0.1)
    with pytest.raises(BudgetExceeded):
        many.charge(mechanism, 2)
    assert many.uses == [(mechanism, 9)]
    with pytest.raises(ValueError, match="times"):
        many.charge(mechanism, 0)


def least_epsilon(ours, theirs):
    """A lower bound on ε from the best threshold, wrong with probability below 1e-6.

    The threshold is chosen on one half of the draws and judged on the other, by Clopper-Pearson
    intervals.
    """
    half = len(ours) // 2
    thresholds = np.quantile(ours[:half], np.linspace(0.02, 0.98, 49))
    hits = [(ours[:half] > t).mean() / max((theirs[:half] > t).mean(), 1e-3) for t in thresholds]
    t = thresholds[int(np.argmax(hits))]
    count, other = int((ours[half:] > t).sum()), int((theirs[half:] > t).sum())
    low = stats.beta.ppf(5e-7, count, half - count + 1)
    high = stats.beta.ppf(1 - 5e-7, other + 1, half - other)
    return math.log(low / high)


@pytest.mark.slow
def test_an_audit_of_a_pass():
    """One row of three flips its sign. A pass at ε = 1 stays below 1; one at ε = 6 is found out."""

    def ends(sign, epsilon, seed):
        data = np.array([[sign], [1.0], [-1.0]]), np.ones(3)
        rows = as_rows(*data, fit_intercept=False)
        noise, drawn = Noise(SeededBits(seed)), []
        for _ in range(20_000):
            curator = Curator(rows, Account(Budget(epsilon, 0.0, "replace_one")), noise)
            curator.open("pure")
            weights = curator.descend(
                Descent(
                    Hinge(),
                    np.zeros(1),
                    clip=1.0,
                    step_sizes=np.array([0.01, 0.01, 0.01]),
                    order="pass",
                ),
                L2Norm(epsilon),
            )
            drawn.append(weights[0])
        return np.array(drawn)

    for epsilon in (1.0, 6.0):
        found = least_epsilon(ends(1.0, epsilon, 1), ends(-1.0, epsilon, 2))
        assert found <= epsilon
        if epsilon > 1:
            assert found > 1
