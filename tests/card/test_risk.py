import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_distribution

from discreet.accounting import conversions
from discreet.card import risk
from discreet.card.risk import (
    RATES,
    STATED_RATE,
    attack_curve,
    attack_success,
    budget_success,
    group_text,
    percent,
    risk_text,
)
from discreet.core import Account, Budget, Guarantee, Relation

ALL_RATES = (1e-6, 1e-3, 0.01, 0.1, 0.5, 0.9)


def promised(epsilon=1.0, delta=1e-6, measure="approximate", rho=None, mu=None, **changes):
    stated = Guarantee(
        epsilon, delta, Relation.ADD_REMOVE, measure, rho, mu, (), (), secure=True, mechanisms=()
    )
    return replace(stated, **changes)


def by_dp_accounting(pld, rate):
    """The best true-positive rate by an independent accountant: least δ(ε) + e^ε·rate."""
    epsilons = np.linspace(-12, 12, 1601)
    deltas = np.array(pld.get_delta_for_epsilon(epsilons))
    return float(np.min(np.minimum(1, deltas + np.exp(epsilons) * rate)))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (3.0, 0.0), (8.0, 0.01)])
def test_an_epsilon_delta_promise_is_that_of_dp_accounting(epsilon, delta):
    pld = privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(epsilon, delta), value_discretization_interval=1e-3
    )
    for rate in ALL_RATES:
        bound = attack_success(promised(epsilon, delta), rate)
        assert bound == pytest.approx(by_dp_accounting(pld, rate), rel=2e-2, abs=1e-9)
        formulas = (1, delta + math.exp(epsilon) * rate, 1 - (1 - delta - rate) / math.exp(epsilon))
        assert bound == pytest.approx(min(formulas), rel=1e-12)


@pytest.mark.parametrize("mu", [0.1, 0.7, 2.0])
def test_gaussian_promises_are_exact(mu):
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        1 / mu, value_discretization_interval=1e-3
    )
    stated = promised(conversions.epsilon_from_mu(mu, 1e-6), 1e-6, "gdp", mu=mu)
    for rate in ALL_RATES:
        bound = attack_success(stated, rate)
        with mpmath.workdps(50):
            quantile = mpmath.findroot(
                lambda z, rate=rate: mpmath.ncdf(z) - rate, mpmath.mpf(risk.ndtri(rate))
            )
            exact = mpmath.ncdf(quantile + mu)
        assert bound >= exact
        assert bound == pytest.approx(float(exact), rel=1e-9)
        assert bound == pytest.approx(by_dp_accounting(pld, rate), rel=5e-3)


@pytest.mark.parametrize("mu", [0.1, 0.7, 2.0])
def test_a_concentrated_promise_covers_gaussian_noise_and_beats_its_epsilon(mu):
    rho = conversions.rho_from_mu(mu)
    for rate in ALL_RATES:
        bound = risk.concentrated_bound(rho, rate)
        assert bound >= risk.gaussian_bound(mu, rate) * (1 - 1e-10)
        by_epsilon = min(
            risk.approximate_bound(epsilon, conversions.delta_from_rho(rho, epsilon), rate)
            for epsilon in np.linspace(0, 12, 300)
        )
        assert bound <= by_epsilon


def divergence(order, p, q):
    """(α−1)·D_α between two coins, in 50 digits."""
    with mpmath.workdps(50):
        p, q, order = mpmath.mpf(p), mpmath.mpf(q), mpmath.mpf(order)
        total = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
        return mpmath.log(total)


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 4.0])
@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.6])
def test_no_concentrated_bound_could_be_lower(rho, rate):
    """Two coins just inside the bound are ρ-zCDP themselves, so it is reached."""
    bound = risk.concentrated_bound(rho, rate)
    inside = bound - 3e-4 * min(bound - rate, 1 - bound)
    for order in 1 + np.geomspace(1e-3, 1e4, 150):
        allowed = order * (order - 1) * rho
        assert divergence(order, inside, rate) <= allowed
        assert divergence(order, rate, inside) <= allowed


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 4.0])
@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.6])
def test_a_concentrated_bound_is_ruled_out_in_fifty_digits(rho, rate):
    """Some order forbids the bound itself, so no mechanism reaches it."""
    bound, order = risk._ruled_out(rho, rate, risk._ORDERS, 1.0, 46)
    assert bound >= risk.concentrated_bound(rho, rate) * (1 - 1e-12)
    with mpmath.workdps(50):
        allowed = mpmath.mpf(order) * (mpmath.mpf(order) - 1) * mpmath.mpf(rho)
        assert max(divergence(order, bound, rate), divergence(order, rate, bound)) > allowed


def test_randomised_response_stays_below_the_bound_for_its_rho():
    for epsilon in (0.1, 1.0, 4.0):
        rho = conversions.rho_from_pure(epsilon)
        wrong = 1 / (1 + math.exp(epsilon))
        assert risk.concentrated_bound(rho, wrong) >= 1 - wrong


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 30.0])
def test_a_total_is_never_worse_than_epsilon_and_delta(epsilon):
    budget = Budget(epsilon, 1e-6, "add_remove")
    for measure in ("zcdp", "gdp"):
        account = Account(budget)
        account.open(measure)
        stated = account.guarantee(secure=True)
        plain = promised(epsilon, 1e-6)
        for rate in (0.0, *ALL_RATES, 1.0):
            assert rate <= attack_success(stated, rate) <= attack_success(plain, rate)


def test_a_pure_total_needs_no_delta():
    assert attack_success(promised(1.0, 0.5, "pure"), 0.0) == 0.0
    assert attack_success(promised(1.0, 0.5), 0.0) == pytest.approx(0.5)


def test_what_does_not_hold_promises_nothing():
    assert attack_success(promised(secure=False), 0.001) == 1.0
    assert attack_success(promised(epsilon=math.inf, measure=None), 0.001) == 1.0
    assert attack_success(promised(epsilon=1e6), 0.001) == 1.0
    assert "may catch all" in risk_text(promised(secure=False), 0.001)


def test_what_was_released_before_is_added():
    stated = promised(1.0, 1e-6)
    together = attack_success(stated, 0.01, before=[(0.5, 1e-7), (0.25, 0.0)])
    assert together == pytest.approx(math.exp(1.75) * 0.01 + 1.1e-6, rel=1e-9)
    total = promised(1.75, 1.1e-6)
    assert together == pytest.approx(attack_success(total, 0.01), rel=1e-12)


def test_before_uses_the_better_total_of_the_fit():
    """The exact trade-off of a Gaussian after an ε-DP release lies below the bound."""
    mu, epsilon = 0.5, 0.3
    stated = promised(conversions.epsilon_from_mu(mu, 1e-6), 1e-6, "gdp", mu=mu)
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        1 / mu, value_discretization_interval=1e-3
    ).compose(
        privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, 0.0), value_discretization_interval=1e-3
        )
    )
    for rate in RATES:
        bound = attack_success(stated, rate, before=[(epsilon, 0.0)])
        assert bound >= by_dp_accounting(pld, rate) * (1 - 5e-3)
        assert bound <= math.exp(epsilon) * attack_success(stated, rate) * (1 + 1e-9)


def test_the_curve_is_made_of_the_same_numbers():
    stated = promised(1.0, 1e-6, "zcdp", rho=0.02)
    rates, caught = attack_curve(stated)
    assert rates[0] == pytest.approx(1e-4)
    assert rates[-1] == 1.0
    assert caught[-1] == 1.0
    assert list(caught) == [attack_success(stated, float(rate)) for rate in rates]
    assert (np.diff(caught) > 0).all()


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_rates_are_checked(bad):
    with pytest.raises(ValueError, match="fpr must be a rate"):
        attack_success(promised(), bad)
    with pytest.raises(ValueError, match="before must list"):
        attack_success(promised(), 0.1, before=[(bad - 2, 0.0)])


def test_words_round_up():
    assert percent(0.002718) == "0.28 %"
    assert percent(0.0271001) == "2.8 %"
    assert percent(0.0796) == "8 %"
    assert percent(0.99999) == "100 %"
    assert percent(0.5) == "50 %"
    assert percent(0.0) == "0 %"
    sentence = risk_text(promised(1.0, 0.0), 0.001)
    assert sentence == (
        "An attacker who wrongly accuses 1 in 1,000 of those whose row was not used catches at "
        "most 0.28 % of those whose row was (guessing catches 0.1 %)."
    )
    replaced = risk_text(promised(1.0, 0.0, relation=Relation.REPLACE_ONE), 0.25)
    assert "1 in 4 of those whose row had other values than suspected" in replaced


@pytest.mark.parametrize("mu", [0.1, 0.7])
@pytest.mark.parametrize("rows", [2, 5, 40])
def test_several_rows_have_the_bound_of_their_group(mu, rows):
    """A sum with k rows more is moved k times as far: Gaussian noise of μ has kμ."""
    loose = promised(50.0, 0.5, "gdp", mu=mu)  # only μ tells
    group = promised(700.0, 0.5, "gdp", mu=rows * mu)
    for rate in ALL_RATES:
        bound = attack_success(loose, rate, units=rows)
        assert bound == pytest.approx(attack_success(group, rate), rel=1e-8, abs=1e-12)
        assert bound >= attack_success(loose, rate)


def test_a_pure_promise_for_several_rows_is_that_of_k_times_epsilon_or_better():
    alone, group = promised(0.5, 0.0, "pure"), promised(1.5, 0.0, "pure")
    for rate in ALL_RATES:
        assert attack_success(alone, rate, units=3) <= attack_success(group, rate) * (1 + 1e-9)
        assert attack_success(alone, rate, units=3) > attack_success(alone, rate, units=2)
    assert attack_success(alone, 0.001, units=3) == pytest.approx(0.001 * math.exp(1.5), rel=1e-9)


@pytest.mark.parametrize("bad", [0, -1, 1.5])
def test_numbers_of_units_are_checked(bad):
    with pytest.raises(ValueError, match="units"):
        attack_success(promised(), 0.1, units=bad)


def test_a_promise_about_a_row_says_what_it_is_for_a_person():
    row = promised(1.0, 1e-6, "gdp", mu=0.25)
    text = group_text(row)
    assert "One row is protected, not one person" in text
    for rows in (1, 5, 40):
        bound = attack_success(row, STATED_RATE, units=rows)
        assert (percent(bound) if bound < 0.9995 else "all") in text
    person = replace(row, unit="person")
    assert "any number of rows" in group_text(person)
    assert "whose rows were not used" in risk_text(person, 0.01)
    assert "whose row was not used" in risk_text(row, 0.01)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-9), (8.0, 1e-5)])
def test_a_budget_has_the_bound_of_its_gaussian_total(epsilon, delta):
    """An independent accountant finds it for the noise that just keeps the budget."""
    sigma = 1 / conversions.mu_from_epsilon(epsilon, delta)
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, value_discretization_interval=1e-4
    )
    for rate in (0.01, STATED_RATE, 0.5):
        bound = budget_success(epsilon, delta, rate)
        assert bound == pytest.approx(by_dp_accounting(pld, rate), rel=2e-3)
        assert bound <= risk.approximate_bound(epsilon, delta, rate)
    assert RATES[-1] == STATED_RATE
