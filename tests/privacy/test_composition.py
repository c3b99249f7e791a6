"""A preparation and models on one budget: the division keeps it, and the account enforces it."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from discreet.errors import BudgetExceeded, PrivacyError
from discreet.privacy import Account, Accountant, Budget, ExponentialMechanism, Gaussian, Relation
from discreet.privacy.composition import delta_with_gaussian, divide
from discreet.privacy.subsampling import SampledGaussian

BUDGETS = [
    Budget(0.1, 1e-8, "add_remove"),
    Budget(1, 1e-6, "replace_one"),
    Budget(6, 1e-3, "add_remove"),
]
SHARES = [Fraction(1, 100), Fraction(0.15), Fraction(3, 5)]
CASES = [(0.02, 0.4, 3e-7, 0.5), (0.3, 1.0, 0.0, 2.5), (1.5, 2.0, 1e-4, 9.0), (0.5, 0.7, 0.01, 0.7)]


def exact_delta(mu, epsilon_part, delta_part, epsilon):
    """The textbook formula in 60 digits, for Φ by the complementary error function."""
    with mpmath.workdps(60):
        mu, inner, outer = mpmath.mpf(mu), mpmath.mpf(epsilon_part), mpmath.mpf(epsilon)

        def profile(t):
            return mpmath.ncdf(-t / mu + mu / 2) - mpmath.exp(t) * mpmath.ncdf(-t / mu - mu / 2)

        p = 1 / (1 + mpmath.exp(-inner))
        mixed = p * profile(outer - inner) + (1 - p) * profile(outer + inner)
        return delta_part + (1 - mpmath.mpf(delta_part)) * mixed


@pytest.mark.parametrize("case", CASES)
def test_the_formula_is_rounded_up_by_a_hair(case):
    exact, ours = exact_delta(*case), delta_with_gaussian(*case)
    assert exact <= ours <= exact * (1 + mpmath.mpf("1e-10"))


@pytest.mark.parametrize("case", CASES)
def test_the_formula_is_what_a_privacy_loss_distribution_composes_to(case):
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    mu, epsilon_part, delta_part, epsilon = case
    grid = 1e-4
    gaussian = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid)
    other = pld.from_privacy_parameters(
        DifferentialPrivacyParameters(epsilon_part, delta_part), value_discretization_interval=grid
    )
    theirs = gaussian.compose(other).get_delta_for_epsilon(epsilon)
    # theirs rounds losses up to its grid: the δ of an ε that is two steps smaller, at most
    assert delta_with_gaussian(*case) <= theirs * (1 + 1e-6) + 1e-12
    assert (
        theirs
        <= 1.02 * delta_with_gaussian(mu, epsilon_part - 3 * grid, delta_part, epsilon - 3 * grid)
        + 1e-12
    )


def test_the_formula_by_integrating_the_product_of_both_densities():
    mu, inner, delta_part, outer = 0.6, 0.5, 0.002, 1.2
    x = np.linspace(-12, 12, 2_000_001)
    p, q = (np.exp(-0.5 * (x - shift) ** 2) / math.sqrt(2 * math.pi) for shift in (mu, 0.0))
    keep = (1 - delta_part) / (1 + math.exp(inner))
    total = delta_part
    for first, second in ((math.exp(inner), 1.0), (1.0, math.exp(inner))):
        excess = keep * np.maximum(0.0, first * p - math.exp(outer) * second * q)
        total += np.trapezoid(excess, x)
    assert delta_with_gaussian(mu, inner, delta_part, outer) == pytest.approx(total, rel=1e-8)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("budget", BUDGETS)
def test_zcdp_and_gdp_are_divided_as_sums(budget, share):
    division = divide(budget, share, ["zcdp"])
    whole = Fraction(budget.to_zcdp().rho)
    assert division.total == share * whole
    for conversion in ("tight", "published"):
        rest = Fraction(division.models.to_zcdp(conversion).rho)
        assert rest <= (1 - share) * whole
    assert division.models.to_zcdp().rho >= float((1 - share) * whole) * (1 - 1e-9)
    division = divide(budget, share, ["gdp"])
    whole = Fraction(budget.to_gdp().mu) ** 2
    assert division.total == share * whole
    rest = Fraction(division.models.to_gdp().mu) ** 2
    assert (1 - share) * whole * (1 - Fraction(1, 10**9)) <= rest <= (1 - share) * whole
    assert division.models.delta == budget.delta


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(
    "measures", [["approximate"], ["pure", "zcdp", "gdp"], ["approximate", "zcdp"]]
)
def test_other_divisions_keep_the_budget_in_every_measure_and_leave_about_the_rest(
    budget, share, measures
):
    division = divide(budget, share, measures)
    models = division.models
    mu = math.sqrt(division.total) * (1 + 1e-15)
    own = models.delta if "approximate" in measures else 0.0
    if {"pure", "approximate"} & set(measures):
        assert exact_delta(mu * (1 - 1e-14), models.epsilon, own, budget.epsilon) <= budget.delta
    if "zcdp" in measures:
        assert models.to_zcdp().rho + mu**2 / 2 <= budget.to_zcdp().rho * (1 + 1e-12)
    if "gdp" in measures:
        assert models.to_gdp().mu ** 2 + mu**2 <= budget.to_gdp().mu ** 2 * (1 + 1e-12)
    assert models.epsilon >= 0.9 * float(1 - share) * budget.epsilon
    assert models.relation is budget.relation
    if measures == ["approximate"]:  # no room is left at this δ'
        wider = models.epsilon * (1 + 1e-6)
        assert exact_delta(mu, wider, own, budget.epsilon) > budget.delta * (1 - 1e-4)


def test_pure_budgets_are_divided_exactly():
    budget = Budget(0.7, 0.0, "replace_one")
    division = divide(budget, Fraction(0.3), ["zcdp"])
    assert (division.measure, division.measures) == ("pure", ("pure",))
    assert division.total + Fraction(division.models.epsilon) <= Fraction(0.7)
    assert division.models == replace(budget, epsilon=division.models.epsilon)
    assert division.models.epsilon == pytest.approx(0.49)


@pytest.mark.parametrize("share", [0, 1, Fraction(3, 2), -1])
def test_a_division_leaves_something_to_both(share):
    with pytest.raises(ValueError, match="less than 1"):
        divide(BUDGETS[0], share, ["zcdp"])
    with pytest.raises(PrivacyError, match="no measure"):
        divide(BUDGETS[0], Fraction(1, 2), [])


def test_models_are_held_to_their_measure():
    account = Account(BUDGETS[1])
    models = account.set_aside([("centre", 0.1)], ["zcdp"])
    assert account.models == models != account.budget
    for measure in ("gdp", "approximate", "pure"):
        with pytest.raises(PrivacyError, match="composes"):
            account.open(measure)
    step = SampledGaussian(50.0, 0.01, Relation.REPLACE_ONE)
    with pytest.raises(PrivacyError, match="composes"):
        account.open_plan(step, 1)
    assert account.open("zcdp").total == Fraction(models.to_zcdp().rho)


def test_a_plan_is_checked_against_what_is_left():
    budget = Budget(1.0, 1e-6, "add_remove")
    step = SampledGaussian(4.0, 0.01, Relation.ADD_REMOVE)
    count = 1
    while step.epsilon(2 * count, budget.delta) <= budget.epsilon:
        count *= 2
    account = Account(budget)
    account.set_aside([("whiten", 0.99)], ["approximate"])
    with pytest.raises(BudgetExceeded, match="budget is"):
        account.open_plan(step, count)
    Account(budget).open_plan(step, count)


def test_a_budget_is_divided_once_and_parts_are_opened_once_before_the_models():
    account = Account(BUDGETS[1])
    with pytest.raises(PrivacyError, match="set aside"):
        account.open_aside(0)
    account.set_aside([("bounds", 0.1), ("centre", 0.2)], ["zcdp"])
    with pytest.raises(PrivacyError, match="once"):
        account.set_aside([("bounds", 0.1)], ["zcdp"])
    with pytest.raises(PrivacyError, match="already"):
        account.waive()
    first = account.open_aside(0)
    for part in (0, 2, -1):
        with pytest.raises(PrivacyError):
            account.open_aside(part)
    account.open("zcdp")
    with pytest.raises(PrivacyError, match="before the models"):
        account.open_aside(1)
    assert first.total == Fraction(0.1) * Fraction(BUDGETS[1].to_zcdp().rho)
    opened = Account(BUDGETS[1])
    opened.open("zcdp")
    with pytest.raises(PrivacyError, match="before any part"):
        opened.set_aside([("centre", 0.1)], ["zcdp"])
    with pytest.raises(ValueError, match="greater than 0"):
        Account(BUDGETS[1]).set_aside([("centre", 0.0)], ["zcdp"])


def test_the_guarantee_states_all_parts():
    account = Account(BUDGETS[1])
    account.set_aside([("bounds", 0.1), ("centre", 0.2)], ["zcdp"])
    bounds, centre = account.open_aside(0), account.open_aside(1)
    bounds.charge(ExponentialMechanism(0.01, monotone=False), 2)
    centre.charge(Gaussian.from_rho(float(centre.total) * 0.999))
    model = account.open("zcdp")
    model.charge(Gaussian.from_rho(float(model.total) * 0.999))
    guarantee = account.guarantee(secure=True)
    assert guarantee.epsilon == 1
    assert guarantee.delta == 1e-6
    assert guarantee.measure == "zcdp"
    total = BUDGETS[1].to_zcdp().rho
    assert total * (1 - 1e-9) <= guarantee.rho <= total
    assert guarantee.split == (("bounds", 0.1), ("centre", 0.2), ("model", pytest.approx(0.7)))
    assert [use.count for use in guarantee.mechanisms] == [2, 1, 1]


@pytest.mark.parametrize(
    ("measures", "opened", "stated"),
    [
        (["gdp"], "gdp", "gdp"),
        (["approximate"], "approximate", "approximate"),
        (["pure", "zcdp"], "pure", "approximate"),
        (["pure", "zcdp"], "zcdp", "zcdp"),
    ],
)
def test_the_stated_measure_covers_the_preparation(measures, opened, stated):
    account = Account(BUDGETS[1])
    account.set_aside([("centre", 0.2)], measures)
    assert account.open_aside(0).measure == "gdp"
    account.open(opened)
    guarantee = account.guarantee(secure=True)
    assert guarantee.measure == stated
    if stated == "gdp":
        assert guarantee.mu <= BUDGETS[1].to_gdp().mu
    if stated == "zcdp":
        assert guarantee.rho <= BUDGETS[1].to_zcdp().rho


@pytest.mark.parametrize("measures", [["zcdp"], ["gdp"], ["approximate"], ["pure", "zcdp", "gdp"]])
def test_an_accountant_is_charged_once_for_all_of_it(measures):
    accountant = Accountant()
    account = Account(BUDGETS[1], accountant)
    account.set_aside([("bounds", 0.1), ("centre", 0.2)], measures)
    assert accountant.fits == 0
    account.open_aside(0)
    assert accountant.fits == 1
    rho = accountant.rho
    account.open_aside(1)
    account.open(measures[0])
    assert (accountant.fits, accountant.rho) == (1, rho)
    if measures == ["zcdp"]:
        assert rho == pytest.approx(BUDGETS[1].to_zcdp().rho)
    if measures == ["gdp"]:
        assert rho == pytest.approx(BUDGETS[1].to_gdp().mu ** 2 / 2)
    if measures == ["approximate"]:  # the parts, not the square of the whole ε
        parts = account._division
        assert rho == pytest.approx(float(parts.total) / 2 + parts.models.epsilon**2 / 2)
        assert accountant.epsilon(parts.models.delta) == math.inf


def test_an_accountant_that_refuses_stops_the_preparation():
    accountant = Accountant(limit=Budget(0.5, 1e-6, "replace_one"))
    account = Account(BUDGETS[1], accountant)
    account.set_aside([("centre", 0.1)], ["zcdp"])
    with pytest.raises(BudgetExceeded):
        account.open_aside(0)
    assert accountant.fits == 0
