"""Choices of corners and candidates: charged first, with the right noise, exactly distributed."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate, stats

from discreet.accounting.conversions import rho_from_pure
from discreet.accounting.planning import affordable_selection
from discreet.accounting.recompute import mechanism_event
from discreet.core import (
    Account,
    Budget,
    Curator,
    ExponentialMechanism,
    Gaussian,
    PermuteAndFlip,
    SelectionMechanism,
)
from discreet.core import mechanisms as module
from discreet.core.bits import SeededBits
from discreet.core.mechanisms import LaplaceNoisyMax
from discreet.core.noise import Noise
from discreet.core.questions import CandidateLosses, CornerGradient, LineLosses
from discreet.errors import BudgetExceeded, NotSupported, PrivacyError
from discreet.objectives import Hinge, Logistic
from discreet.rows import as_rows

from . import spies
from .spies import SpyRows

BUDGET = Budget(1.0, 1e-6, "replace_one")


ANSWERS = {
    CornerGradient: [1e7, -3e7, 2e7],
    CandidateLosses: lambda question: np.linspace(0.0, 1e7, len(question.candidates)).tolist(),
    LineLosses: [0.0] * 4,
}


@dataclass(frozen=True)
class Recorder(SelectionMechanism):
    """A selection that says what it was given."""

    name = "recorder"

    @property
    def loss(self):
        return ExponentialMechanism(self.epsilon, monotone=False).loss

    def select(self, scores, *, sensitivity, noise, magnitude=None):
        SEEN.append((scores, sensitivity))
        return int(np.argmax(scores))


SEEN = []


def spied(budget=BUDGET, seed=0):
    rows = SpyRows(ANSWERS, n_rows=10**8)
    return rows, spies.spied(rows, budget, measure="zcdp", seed=seed)


def corner(curator, mechanism, *, weights=None, clip=1.0, public=None):
    return curator.ask(
        CornerGradient(
            Logistic(),
            np.zeros(3) if weights is None else weights,
            clip=clip,
            public_gradient=np.zeros(3) if public is None else public,
        ),
        mechanism,
    )


def candidate(curator, mechanism, *, candidates=None, parent=None, clip=1.0, public=None):
    return curator.ask(
        CandidateLosses(
            Logistic(),
            np.zeros((4, 3)) if candidates is None else candidates,
            np.zeros(3) if parent is None else parent,
            clip=clip,
            public_losses=np.zeros(4) if public is None else public,
        ),
        mechanism,
    )


@pytest.mark.parametrize("ask", [corner, candidate])
def test_every_answer_was_charged_first(ask):
    rows, curator = spied()
    ask(curator, ExponentialMechanism(0.01, monotone=False))
    ask(curator, LaplaceNoisyMax(0.01, monotone=False))
    ask(curator, PermuteAndFlip(0.01, monotone=False))
    assert rows.charges_when_read == [1, 2, 3]


@pytest.mark.parametrize("ask", [corner, candidate])
def test_nothing_is_read_when_the_budget_does_not_cover_it(ask):
    rows, curator = spied()
    with pytest.raises(BudgetExceeded):
        ask(curator, ExponentialMechanism(100.0, monotone=False))
    assert rows.charges_when_read == []
    assert curator.spent_share == 0


@pytest.mark.parametrize("ask", [corner, candidate])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_bad_questions_cost_nothing(ask, relation):
    rows, curator = spied(Budget(1.0, 1e-6, relation))
    good = ExponentialMechanism(0.01, monotone=False)
    with pytest.raises(PrivacyError, match="not monotone"):
        ask(curator, ExponentialMechanism(0.01, monotone=True))
    with pytest.raises(TypeError, match="SelectionMechanism"):
        ask(curator, Gaussian(10.0))
    with pytest.raises(ValueError, match="clip"):
        ask(curator, good, clip=0.0)
    with pytest.raises(ValueError, match="NaN"):
        ask(curator, good, public=np.array([0.0, math.nan, 0.0, 0.0][: 3 + (ask is candidate)]))
    with pytest.raises(ValueError, match=r"shape|vector"):
        ask(curator, good, public=np.zeros(2))
    assert curator.spent_share == 0
    assert rows.charges_when_read == []


def test_bad_weights_cost_nothing():
    rows, curator = spied()
    good = ExponentialMechanism(0.01, monotone=False)
    for bad in (np.zeros(4), np.array([0.0, np.inf, 0.0])):
        with pytest.raises(ValueError, match="weights"):
            corner(curator, good, weights=bad)
        with pytest.raises(ValueError, match="parent"):
            candidate(curator, good, parent=bad)
    for bad in (np.zeros((4, 2)), np.zeros((0, 3)), np.full((4, 3), np.nan)):
        with pytest.raises(ValueError, match="candidates"):
            candidate(curator, good, candidates=bad)
    assert curator.spent_share == 0
    assert rows.charges_when_read == []


@pytest.mark.parametrize("ask", [corner, candidate])
@pytest.mark.parametrize(("relation", "factor"), [("add_remove", 1), ("replace_one", 2)])
def test_sensitivity_by_hand(ask, relation, factor):
    # A row moves a score by the clip C either way, once or (replaced) twice, and the computed
    # score by twice its error E more: k·C + 2E. Scores move apart by 2(k·C + 2E); ε = that / b.
    rows, curator = spied(Budget(1.0, 1e-6, relation))
    ask(curator, Recorder(0.01, monotone=False), clip=3.0)
    assert SEEN[-1][1] == pytest.approx(factor * 3.0, rel=1e-6)
    rows.error = 0.25
    ask(curator, Recorder(0.01, monotone=False), clip=3.0)
    assert SEEN[-1][1] == pytest.approx(factor * 3.0 + 0.5, rel=1e-6)
    assert Recorder(0.01, monotone=False).scale(SEEN[-1][1]) == pytest.approx(
        2 * (factor * 3.0 + 0.5) / 0.01, rel=1e-6
    )


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_sensitivity_of_a_step_by_hand(relation):
    # Losses of one row lie in [0, C]: a score moves by C at most, and by 4E more as computed.
    rows, curator = spied(Budget(1.0, 1e-6, relation))
    rows.error = 0.25
    curator.ask(
        LineLosses(
            Logistic(), *np.zeros((2, 3)), np.arange(4.0), clip=3.0, public_losses=np.zeros(4)
        ),
        Recorder(0.01, monotone=False),
    )
    assert SEEN[-1][1] == pytest.approx(3.0 + 4 * 0.25, rel=1e-6)


def test_a_line_may_have_one_step_but_not_none():
    _, curator = spied(Budget(1.0, 1e-6, "add_remove"))
    for count in (1, 0):
        steps = np.zeros(count)
        line = LineLosses(Logistic(), *np.zeros((2, 3)), steps, clip=3.0, public_losses=steps)
        if count:
            curator.ask(line, Recorder(0.01, monotone=False))
        else:
            with pytest.raises(ValueError, match="at least one"):
                curator.ask(line, Recorder(0.01, monotone=False))


def test_noisy_max_pays_for_its_grid():
    # Scores of up to 1e9 need a grid of 2^-31, far coarser than the sensitivity 1e-12: rounding
    # alone moves two scores apart by 2 steps each, and noise is scaled to that.
    scales = []

    class Spying(Noise):
        def laplace(self, size, scale, grid):
            scales.append((scale, grid))
            return super().laplace(size, scale, grid)

    mechanism = LaplaceNoisyMax(0.5, monotone=False)
    mechanism.select(np.zeros(3), sensitivity=1e-12, noise=Spying(SeededBits(0)), magnitude=1e9)
    ((scale, grid),) = scales
    assert 2.0**grid > 1e-10
    assert scale >= 2 * (1e-12 + 2 * 2.0**grid) / 0.5


def test_the_corner_points_against_private_plus_public_gradient():
    # Gradient sums (1e7, −3e7, 2e7): the steepest descent is along +e_1; a public part changes it.
    for mechanism in (
        ExponentialMechanism(0.1, monotone=False),
        LaplaceNoisyMax(0.1, monotone=False),
    ):
        _, curator = spied()
        assert corner(curator, mechanism) == (1, 1)
        assert corner(curator, mechanism, public=np.array([0.0, 0.0, 3e7])) == (2, -1)
        assert candidate(curator, mechanism) == 0
        assert candidate(curator, mechanism, public=np.array([4e7, 3e7, 2e7, 0.0])) == 3


@pytest.mark.parametrize("ask", [corner, candidate])
def test_losses_with_several_outputs_cost_nothing(ask, monkeypatch):
    monkeypatch.setattr(Logistic, "n_outputs", 3, raising=False)
    rows, curator = spied()
    with pytest.raises(NotSupported, match="several outputs"):
        ask(curator, ExponentialMechanism(0.01, monotone=False))
    assert curator.spent_share == 0
    assert rows.charges_when_read == []


def chi_square(counts, probabilities):
    """Whether counts fit; a true null hypothesis fails with probability 1e-7."""
    expected = counts.sum() * probabilities
    statistic = ((counts - expected) ** 2 / expected).sum()
    return statistic < stats.chi2.isf(1e-7, len(counts) - 1)


@pytest.mark.parametrize("kind", [ExponentialMechanism, LaplaceNoisyMax])
def test_corners_are_chosen_with_the_stated_probabilities(kind):
    # Two rows, two weights, hinge at 0: gradient sums (−1.5, 0.5), clip 1, one row added or
    # removed: noise of scale 2·1/ε. False alarm: 1e-7 (chi-square, expected counts > 150).
    X = np.array([[1.0, 0.5], [0.5, -1.0]])
    rows = as_rows(X, np.array([1.0, 1.0]), fit_intercept=False)
    scores = np.array([1.5, -0.5, -1.5, 0.5])  # +e_0, +e_1, −e_0, −e_1
    epsilon = 1.5
    scale = 2 / epsilon
    if kind is ExponentialMechanism:
        probabilities = np.exp(scores / scale)
        probabilities /= probabilities.sum()
    else:
        noise = stats.laplace(scale=scale)

        def wins(i):
            others = np.delete(scores, i)
            return integrate.quad(
                lambda x: noise.pdf(x - scores[i]) * noise.cdf(x - others).prod(),
                -60,
                60,
                points=scores,
                limit=500,
            )[0]

        probabilities = np.array([wins(i) for i in range(4)])
    assert probabilities.sum() == pytest.approx(1, abs=1e-6)
    draws = 3000
    curator = Curator(rows, Account(Budget(1e6, 0.0, "add_remove")), Noise(SeededBits(3)))
    curator.open("pure")
    counts = np.zeros(4)
    for _ in range(draws):
        coordinate, sign = curator.ask(
            CornerGradient(Hinge(), np.zeros(2), clip=1.0, public_gradient=np.zeros(2)),
            kind(epsilon, monotone=False),
        )
        counts[coordinate + (0 if sign > 0 else 2)] += 1
    assert chi_square(counts, probabilities / probabilities.sum())


def test_groups_have_the_probabilities_of_the_exponential_mechanism(monkeypatch):
    # 7 candidates in groups of 2 (the last has one): chi-square, false alarm 1e-7.
    monkeypatch.setattr(module, "GROUP", 2)
    scores = np.array([0.3, 1.0, -0.5, 2.0, 0.0, 1.5, 0.7])
    mechanism = ExponentialMechanism(2.0, monotone=False)
    probabilities = np.exp(scores / mechanism.scale(1.0))
    probabilities /= probabilities.sum()
    noise = Noise(SeededBits(5))
    counts = np.bincount(
        [
            mechanism.select(scores, sensitivity=1.0, magnitude=2.0, noise=noise)
            for _ in range(6000)
        ],
        minlength=7,
    )
    assert chi_square(counts, probabilities)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_errors_of_group_scores_are_within_their_bound(scale):
    from mpmath import mp, mpf

    rng = np.random.default_rng(0)
    magnitude = 50.0
    groups = rng.uniform(-magnitude, magnitude, size=(20, module.GROUP))
    groups[0] = 50.0
    groups[1] = groups[1, 0] + scale * rng.normal(size=module.GROUP)
    groups = np.clip(groups, -magnitude, magnitude)
    groups[2, 3:] = -math.inf
    computed = module._group_scores(groups, scale)
    with mp.workdps(60):
        for row, score in zip(groups, computed, strict=True):
            finite = [mpf(float(x)) for x in row if math.isfinite(x)]
            exact = scale * mp.log(mp.fsum(mp.exp(x / scale) for x in finite))
            assert abs(exact - score) <= module.GROUP_ERROR * scale + 2.0**-52 * magnitude


def test_the_scale_of_groups_covers_their_errors():
    # b·ε ≥ r + 4·(2⁻⁴¹·b + 2⁻⁵²·magnitude)
    for epsilon in (1e-9, 1e-3, 1.0, 1e9):
        for monotone, apart in ((False, 2 * 3.0), (True, 3.0)):
            mechanism = ExponentialMechanism(epsilon, monotone=monotone)
            b = module._group_scale(mechanism, 3.0, 1e6)
            assert b * epsilon >= apart + 4 * (2.0**-41 * b + 2.0**-52 * 1e6)
            assert b <= 1.01 * mechanism.scale(3.0)


def test_many_candidates_cost_few_draws_and_the_best_wins():
    scores = np.zeros(5000)
    scores[4321] = 1e6
    mechanism = ExponentialMechanism(1.0, monotone=False)
    noise = Noise(SeededBits(0))
    assert mechanism.select(scores, sensitivity=1.0, magnitude=1e6, noise=noise) == 4321
    settings = {"sensitivity": 1e9, "magnitude": 1e6, "noise": noise}
    picks = {mechanism.select(scores, **settings) for _ in range(50)}
    assert len(picks) > 40  # nearly uniform over 5,000: ten repeats among 50 have probability 1e-12


def test_laplace_noise_scale_by_hand():
    # Not monotone: two scores move apart by 2Δ, so b = 2Δ/ε; ε-DP, so ρ ≤ ε²/2.
    mechanism = LaplaceNoisyMax(0.5, monotone=False)
    assert mechanism.scale(3.0) == pytest.approx(12.0)
    assert LaplaceNoisyMax(0.5, monotone=True).scale(3.0) == pytest.approx(6.0)
    assert mechanism.loss.epsilon == 0.5
    assert rho_from_pure(0.5) <= mechanism.loss.rho <= 0.5**2 / 2
    assert mechanism_event(mechanism).rho == mechanism.loss.rho
    with pytest.raises(ValueError, match="magnitude"):
        mechanism.select(np.zeros(2), sensitivity=1.0, noise=Noise(SeededBits(0)))


@pytest.mark.parametrize("count", [1, 2, 20, 500])
@pytest.mark.parametrize(
    "budget",
    [
        BUDGET,
        Budget(0.05, 1e-9, "add_remove"),
        Budget(2.0, 0.0, "add_remove"),
        Budget(1e-3, 0.01, "add_remove"),
    ],
)
def test_affordable_selections_fit_the_account_and_use_it(budget, count):
    measure, epsilon = affordable_selection(budget, count)
    filter_ = Account(budget).open(measure)
    mechanism = ExponentialMechanism(epsilon, monotone=False)
    for _ in range(count):
        filter_.charge(mechanism)
    assert filter_.spent_share > 1 - 1e-9
    # pure composition of ε/count is always allowed, and ε²/8 each if δ > 0
    assert epsilon >= budget.epsilon / count * (1 - 1e-9)
    assert (measure == "gdp") is (budget.delta == 0.01)
    if not budget.pure:
        assert epsilon >= math.sqrt(8 * budget.to_zcdp().rho / count) * (1 - 1e-9)
