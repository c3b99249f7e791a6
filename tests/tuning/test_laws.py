"""Cost of selecting the best of K runs: exact checks of the bounds, of K and of calibration."""

import math

import numpy as np
import pytest
from mpmath import mp
from scipy.stats import chisquare

from discreet.accounting import conversions
from discreet.core import Budget, Relation
from discreet.core.bits import SeededBits
from discreet.errors import PrivacyError
from discreet.tuning import laws
from discreet.tuning.candidates import LAWS, fit_budget, largest_rho, law_of, planned
from discreet.tuning.laws import BestOfMany, NegativeBinomial, Poisson, _draw
from discreet.tuning.recompute import recomputed_epsilon
from discreet.tuning.runs import RunBudget

DELTA = 1e-6
ALPHA = 1e-6  # false-alarm probability of each statistical test below


@pytest.mark.parametrize("mean", [1.5, 10.0])
@pytest.mark.parametrize("name", LAWS)
def test_probabilities_add_up_to_one_and_have_the_stated_mean(name, mean, monkeypatch):
    """A draw goes through them until they exceed a uniform number: below 1 it might never end."""
    asked = []
    monkeypatch.setattr(laws, "_draw", lambda first, ratio, bits: asked.append((first, ratio)))
    law = law_of(name, mean)
    law.draw(SeededBits(0))
    ((first, ratio),) = asked
    with mp.workdps(30):
        chance, total, weighted = first(mp), mp.mpf(0), mp.mpf(0)
        for k in range(1, 2000):
            total, weighted = total + chance, weighted + k * chance
            chance *= ratio(mp, k)
        assert abs(total - 1) < mp.mpf("1e-15")
        assert weighted <= law.mean <= weighted * (1 + mp.mpf("1e-9"))


# -- the best of K runs, exactly


def pgf(law, x):
    """E[x^K], as books have it."""
    if isinstance(law, Poisson):
        return np.expm1(law.rate * x) / math.expm1(law.rate)
    if law.shape == 0:
        return np.log1p(-(1 - law.gamma) * x) / math.log(law.gamma)
    top = (1 - (1 - law.gamma) * x) ** -law.shape - 1
    return top / (law.gamma**-law.shape - 1)


def best(law, q):
    """Probabilities of the best of K draws from q, whose last outcome has the highest score.

    Differences of the generating function, without cancellation.
    """
    above = np.append(np.cumsum(q[::-1])[::-1][1:], 0.0)
    if isinstance(law, Poisson):
        return np.exp(-law.rate * above) * np.expm1(-law.rate * q) / math.expm1(-law.rate)
    below = law.gamma + (1 - law.gamma) * (above + q)
    logs = -np.log1p(-(1 - law.gamma) * q / below)
    if law.shape == 0:
        return logs / -math.log(law.gamma)
    return below**-law.shape * np.expm1(law.shape * logs) / (law.gamma**-law.shape - 1)


def renyi(p, q, orders):
    """Rényi divergences of all orders (1 included), in logarithms."""
    orders = np.asarray(orders, dtype=float)[:, None]
    terms = orders * np.log(p) + (1 - orders) * np.log(q)
    top = terms.max(axis=1)
    logs = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
    kl = float(np.sum(p * np.log(p / q)))
    flat = orders[:, 0] == 1
    return np.where(flat, kl, logs / np.where(flat, 1.0, orders[:, 0] - 1))


def pairs(count):
    """Neighbours' output distributions: random ones, rare best outcomes, randomised response."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        size = int(rng.integers(2, 6))
        p = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 5.0]))) + 1e-9
        tilt = rng.choice([-1.0, 1.0], size) if rng.random() < 0.5 else rng.normal(size=size)
        q = p * np.exp(rng.choice([0.05, 0.3, 1.0]) * tilt)
        yield p / p.sum(), q / q.sum()
    for rare in (0.5, 0.1, 0.01, 1e-3):
        for e in (0.05, 0.3, 1.0):
            low, high = rare / (1 + math.exp(e)), rare * math.exp(e) / (1 + math.exp(e))
            p, q = np.array([1 - high, high]), np.array([1 - low, low])
            yield p, q
            yield q, p
            yield p[::-1], q[::-1]


MANY = [law_of(name, mean) for name in LAWS for mean in (1.3, 4.0, 30.0)]
MANY += [NegativeBinomial(0.5, 0.1), NegativeBinomial(3.0, 0.3)]
ORDERS = np.array([1.05, 1.5, 2.0, 4.0, 10.0, 40.0])
OTHER_ORDERS = np.array([1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0])


def terms(law, p, q):
    """The theorem's bound on the divergences of the best: of a run, of choosing, of E[K]."""
    mean = np.log(law.mean) / (ORDERS - 1)
    if isinstance(law, Poisson):
        factors = 1 + 1 / (ORDERS - 1)
        choosing = law.rate * np.maximum(q - factors[:, None] * p, 0).sum(axis=1)
    else:
        each = (1 - 1 / OTHER_ORDERS) * renyi(q, p, OTHER_ORDERS)
        choosing = (1 + law.shape) * np.min(each - math.log(law.gamma) / OTHER_ORDERS)
    return renyi(p, q, ORDERS), choosing + 0 * ORDERS, mean


def test_the_renyi_bound_holds_exactly_and_each_term_is_needed():
    without_choosing = without_mean = 0
    for p, q in pairs(150):
        for law in MANY:
            truth = renyi(best(law, p), best(law, q), ORDERS)
            run, choosing, mean = terms(law, p, q)
            assert np.all(truth <= (run + choosing + mean) * (1 + 1e-9) + 1e-9), (law, p, q)
            without_choosing += np.any(truth > run + mean + 1e-6)
            without_mean += np.any(truth > run + choosing + 1e-6)
    assert without_choosing > 0
    assert without_mean > 0


@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_the_final_promise_holds_exactly_for_runs_of_known_zcdp(delta):
    orders = 1 + np.geomspace(1e-3, 1e3, 60)
    closest = 0.0
    for p, q in pairs(60):
        rho = 1.001 * np.max(np.maximum(renyi(p, q, orders), renyi(q, p, orders)) / orders)
        rho = float(rho)
        for law in MANY:
            epsilon = law.epsilon(rho, delta)
            a, b = best(law, p), best(law, q)
            spent = max(
                float(np.maximum(a - math.exp(epsilon) * b, 0).sum()),
                float(np.maximum(b - math.exp(epsilon) * a, 0).sum()),
            )
            assert spent <= delta
            if epsilon > 0.05:
                closest = max(closest, float(np.abs(np.log(a / b)).max()) / epsilon)
    assert closest > 0.2  # the pairs come near enough to the promise to mean something


def test_a_geometric_number_of_pure_runs_costs_three_times_one():
    law, e = NegativeBinomial(1.0, 1e-4), 0.3
    worst = 0.0
    for middle in np.geomspace(1e-5, 1.0, 60):
        for rest in np.geomspace(1e-5, 1.0, 60):
            p = np.array([1.0, middle, rest])
            q = np.array([1.0, middle * math.exp(-e), rest * math.exp(e)])
            p, q = p / p.sum(), q / q.sum()
            ratio = np.log(p / q)
            if np.abs(ratio).max() > e:  # bring the pair back to ε-DP
                q = p * np.exp(np.clip(-ratio, -e, e) * e / np.abs(ratio).max())
                q /= q.sum()
            pure = np.abs(np.log(p / q)).max()
            worst = max(worst, np.abs(np.log(best(law, p) / best(law, q))).max() / pure)
    assert 2.0 < worst <= 3.0 + 1e-9


@pytest.mark.parametrize("law", MANY, ids=repr)
def test_the_best_is_computed_from_the_generating_function(law):
    q = np.array([0.5, 0.2, 0.3])
    expected = np.diff(pgf(law, np.array([0.0, 0.5, 0.7, 1.0])))
    np.testing.assert_allclose(best(law, q), expected, rtol=1e-9, atol=1e-12)


# -- the number of runs


@pytest.mark.parametrize("law", MANY, ids=repr)
def test_means_are_those_of_the_generating_function(law):
    step = 1e-6
    slope = (1 - pgf(law, 1 - step)) / step
    assert law.mean == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("name", LAWS)
def test_draws_have_the_stated_frequencies(name):
    """Chi-square with 5 classes; a false alarm has probability 1e-6, and the seed is fixed."""
    law, bits = law_of(name, 4.0), SeededBits(3)
    drawn = np.array([law.draw(bits) for _ in range(1200)])
    circle = 0.9 * np.exp(2j * np.pi * np.arange(512) / 512)
    chances = np.array(  # by Cauchy's formula, from the generating function
        [float(np.mean(pgf(law, circle) / circle**k).real) for k in range(1, 5)]
    )
    counts = np.array([np.count_nonzero(drawn == k) for k in range(1, 5)])
    expected = np.append(chances, 1 - chances.sum()) * drawn.size
    assert chisquare(np.append(counts, drawn.size - counts.sum()), expected).pvalue > ALPHA


class Given:
    """Bits that a test chooses."""

    secure = False

    def __init__(self, *words):
        self.left = list(words)

    def words(self, count):
        return np.array([self.left.pop(0) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize(
    ("words", "runs", "left"),
    [
        ((0,), 1, 0),
        ((2**63 - 1, 2**62), 1, 0),  # just below 1/2: 64 bits do not decide
        ((2**63, 2**62), 2, 0),
        ((2**63, 0, 5), 2, 0),
        ((2**63 + 2**61,), 2, 0),
        ((2**64 - 1, 2**64 - 1, 5), 129, 0),
    ],
)
def test_bits_are_drawn_until_they_decide(words, runs, left):
    bits = Given(*words)
    assert NegativeBinomial(1.0, 0.5).draw(bits) == runs  # P(K ≤ k) = 1 − 2^−k
    assert len(bits.left) == left


def test_probabilities_that_do_not_add_up_end_a_draw():
    """Half of the geometric law: numbers beyond its total probability decide on no k."""
    bits = Given(*[2**64 - 1] * 100)
    with pytest.raises(PrivacyError, match="do not add up to 1"):
        _draw(lambda context: context.mpf(0.25), lambda context, k: context.mpf(0.5), bits)


@pytest.mark.parametrize("mean", [0.5, 1.0, 2000.0, float("nan"), True])
def test_means_that_make_no_sense_are_refused(mean):
    with pytest.raises(ValueError, match="expected_runs must be"):
        law_of("poisson", mean)


def test_unknown_laws_are_refused():
    with pytest.raises(ValueError, match="'poisson' or 'logarithmic' or 'geometric'"):
        law_of("fixed", 5.0)


# -- calibration


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("mean", [2.0, 8.0])
def test_the_calibration_spends_the_budget_and_no_more(name, epsilon, mean):
    law, budget = law_of(name, mean), Budget(epsilon, DELTA, "add_remove")
    rho = largest_rho(law, budget)
    assert epsilon * (1 - 1e-6) < law.epsilon(rho, DELTA) <= epsilon
    again = recomputed_epsilon(BestOfMany(rho, law.mean, law.shape), DELTA)
    assert epsilon * (1 - 1e-6) < again < epsilon * (1 + 1e-3)


@pytest.mark.parametrize("measures", [("zcdp",), ("gdp",), ("pure", "zcdp", "gdp")])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
def test_the_budget_of_a_fit_comes_back_as_the_planned_rho(measures, epsilon):
    run = planned(Budget(epsilon, DELTA, "replace_one"), law_of("poisson", 5.0), 10_000)
    given = fit_budget(run, measures)
    rho = (
        given.to_zcdp().rho if measures == ("zcdp",) else conversions.rho_from_mu(given.to_gdp().mu)
    )
    assert run.rho_fit * (1 - 1e-6) < rho <= run.rho_fit
    assert run.rho_fit + run.score.loss.rho <= run.rho
    assert given.relation is Relation.REPLACE_ONE


def test_runs_that_cost_more_than_the_budget_are_refused():
    budget, law = Budget(1.0, DELTA, "add_remove"), law_of("poisson", 5.0)
    run = planned(budget, law, 1000)
    with pytest.raises(PrivacyError, match="the budget is 1"):
        RunBudget(budget, law, run.rho * 1.01, run.rho_fit, run.score)
    with pytest.raises(PrivacyError, match="must share"):
        RunBudget(budget, law, run.rho, run.rho, run.score)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
@pytest.mark.parametrize("rows", [10, 10_000, 10**8])
def test_the_filter_of_a_score_holds_the_score_and_no_more(epsilon, delta, rows):
    run = planned(Budget(epsilon, delta, "add_remove"), law_of("poisson", 5.0), rows)
    total = float(run.score_budget.total("zcdp", "published"))
    assert run.score.loss.rho <= total <= run.rho - run.rho_fit
    assert total == pytest.approx(run.rho - run.rho_fit, rel=1e-8)
