"""An account charges its ledger before anything opens, and gives back only what was not used."""

import math
from dataclasses import dataclass
from fractions import Fraction

import pytest

from discreet.accounting.budget import PrivacyLoss
from discreet.accounting.planning import divide
from discreet.accounting.profiles import Profile
from discreet.core import Account, Budget, Gaussian, Relation
from discreet.core.account import AccountPart
from discreet.errors import BudgetExceeded, PrivacyError

BUDGET = Budget(1.0, 1e-6, "replace_one")
RHO = Fraction(BUDGET.to_zcdp().rho)
STEPS = [("radius", 0.1), ("centre", 0.2)]


class Counter:
    """A ledger that remembers what it was asked to do, and refuses if it is full."""

    def __init__(self, *, full=False):
        self.full, self.charges, self.calls = full, [], []

    def charge(self, measure, total, delta, budget, unit):
        if self.full:
            raise BudgetExceeded("The ledger is full.")
        self.charges.append((measure, total, delta, budget, unit))
        return self

    def confirm(self):
        self.calls.append("confirm")

    def give_back(self):
        self.calls.append("give back")


def small(total):
    """A mechanism that costs a part of a total in zCDP."""
    return Gaussian.from_rho(float(total) / 2)


@pytest.mark.parametrize(
    ("measure", "total", "delta"),
    [
        ("zcdp", RHO, 0),
        ("gdp", Fraction(BUDGET.to_gdp().mu) ** 2, 0),
        ("pure", 1, 0),
        ("approximate", 1, Fraction(1e-6)),  # an (ε, δ) has both parts
    ],
)
def test_a_ledger_is_told_all_of_the_budget_and_whose_rows_they_are(measure, total, delta):
    ledger = Counter()
    account = Account(BUDGET, ledger, "person")
    assert ledger.charges == []
    account.open(measure, share=Fraction(1, 3))
    account.open(measure, share=Fraction(1, 3))
    # all of it, whatever part was opened, and once
    assert ledger.charges == [(measure, total, delta, BUDGET, "person")]


def test_a_ledger_that_refuses_opens_nothing():
    account = Account(BUDGET, Counter(full=True))
    with pytest.raises(BudgetExceeded, match="full"):
        account.open("zcdp")
    assert account.charge is None
    assert account._filters == []
    prepared = Account(BUDGET, Counter(full=True))
    prepared.reserve(divide(prepared.budget, STEPS, ["zcdp"]))
    with pytest.raises(BudgetExceeded, match="full"):
        prepared.open_reserved(0)
    assert prepared._reserved == {}
    for failed in (account, prepared):
        with pytest.raises(PrivacyError, match="nothing to state"):
            failed.guarantee(secure=True)


def test_a_charge_is_given_back_if_nothing_was_read():
    ledger = Counter()
    account = Account(BUDGET, ledger)
    account.reserve(divide(account.budget, STEPS, ["zcdp"]))
    account.open_reserved(0)
    account.open("zcdp")
    account.abandon()
    assert ledger.calls == ["give back"]
    account.abandon()  # what was given back once is not given back again
    assert ledger.calls == ["give back"]


@pytest.mark.parametrize("reader", ["preparation", "model"])
def test_a_charge_stays_if_any_part_was_read(reader):
    ledger = Counter()
    account = Account(BUDGET, ledger)
    account.reserve(divide(account.budget, STEPS, ["zcdp"]))
    steps, model = account.open_reserved(0), account.open("zcdp")
    read = steps if reader == "preparation" else model
    read.charge(small(read.total))
    account.abandon()
    assert ledger.calls == []


def test_a_charge_for_what_was_released_is_never_given_back():
    ledger = Counter()
    account = Account(BUDGET, ledger)
    account.open("zcdp")
    account.guarantee(secure=True)
    account.abandon()
    account.confirm()
    assert ledger.calls == ["confirm"]


def test_an_abandoned_account_is_closed_for_good():
    """Its charge may be given back: whatever is read afterwards would be read for nothing."""
    account = Account(BUDGET, Counter())
    account.reserve(divide(account.budget, STEPS, ["zcdp"]))
    filters = [account.open_reserved(0), account.open("zcdp", share=Fraction(1, 2))]
    account.abandon()
    for opened in filters:
        with pytest.raises(PrivacyError, match="closed"):
            opened.charge(small(opened.total))
        assert opened.uses == []
    with pytest.raises(PrivacyError, match="share"):
        account.open("zcdp", share=Fraction(1, 2))


def test_a_preparation_that_was_abandoned_opens_no_further_part():
    account = Account(BUDGET, Counter())
    account.reserve(divide(account.budget, STEPS, ["zcdp"]))
    account.open_reserved(0)
    account.abandon()
    with pytest.raises(PrivacyError, match="reserved"):
        account.open_reserved(1)
    with pytest.raises(PrivacyError, match="share"):
        account.open("zcdp")


def test_parts_of_a_preparation_have_their_shares_and_no_more():
    account = Account(BUDGET)
    account.reserve(divide(account.budget, STEPS, ["zcdp"]))
    opened = [account.open_reserved(part) for part in range(2)]
    assert [each.total / RHO for each in opened] == [Fraction(0.1), Fraction(0.2)]
    models = account.open("zcdp").total
    assert sum(each.total for each in opened) + models <= RHO


def test_nothing_of_a_part_is_spent_before_it_is_opened():
    part = AccountPart(Account(BUDGET), Fraction(1))
    assert part.spent_share == 0.0
    part.open("zcdp")
    assert part.spent_share == 0.0


def test_a_part_of_a_preparation_is_opened_once_and_before_the_models():
    account = Account(BUDGET)
    account.reserve(divide(account.budget, STEPS, ["zcdp"]))
    account.open_reserved(0)
    with pytest.raises(PrivacyError, match="once"):
        account.open_reserved(0)
    account.open("zcdp")
    with pytest.raises(PrivacyError, match="before the models"):
        account.open_reserved(1)


def test_models_are_held_to_the_measures_that_the_budget_was_divided_for():
    ledger = Counter()
    account = Account(BUDGET, ledger)
    account.reserve(divide(account.budget, STEPS, ["zcdp"]))
    for measure in ("gdp", "approximate", "pure"):
        with pytest.raises(PrivacyError, match="composes"):
            account.open(measure)
    assert ledger.charges == []


@dataclass(frozen=True)
class Profiled:
    """A √square-GDP mechanism that composes by its profile."""

    square: Fraction
    relation: Relation = Relation.REPLACE_ONE
    name: str = "profiled"

    @property
    def loss(self):
        return PrivacyLoss(math.inf, math.inf, math.inf)

    @property
    def profile(self):
        return Profile.gaussian(self.square)


@pytest.mark.parametrize("prepared", [False, True])
def test_plans_with_a_profile_are_held_to_the_delta_of_the_budget(prepared):
    """Two uses of half of μ² fit, three do not; a preparation leaves less."""
    ledger = Counter()
    account = Account(BUDGET, ledger)
    left = Fraction(BUDGET.to_gdp().mu) ** 2
    if prepared:
        account.reserve(divide(account.budget, STEPS, ["profile"]))
        left *= 1 - Fraction(0.1) - Fraction(0.2)
    step = Profiled(left / 2 * (1 - Fraction(1, 10**9)))
    with pytest.raises(BudgetExceeded):
        account.open_plan(step, 3)
    assert ledger.charges == []
    account.open_plan(step, 2)
    assert ledger.charges == [("approximate", 1, Fraction(1e-6), BUDGET, "row")]


def test_a_forfeited_account_promises_nothing_and_opens_nothing():
    account = Account(BUDGET)
    account.forfeit()
    with pytest.raises(PrivacyError, match="forfeited"):
        account.open("zcdp")
    with pytest.raises(PrivacyError, match="once"):
        account.reserve(divide(account.budget, STEPS, ["zcdp"]))
    guarantee = account.guarantee(secure=True)
    assert guarantee.epsilon == math.inf
    assert guarantee.mechanisms == ()
    with pytest.raises(PrivacyError, match="no ledger"):
        Account(BUDGET, Counter()).forfeit()
    opened, reserved = Account(BUDGET), Account(BUDGET)
    opened.open("zcdp")
    reserved.reserve(divide(reserved.budget, STEPS, ["zcdp"]))
    for promised in (opened, reserved):
        with pytest.raises(PrivacyError, match="already"):
            promised.forfeit()


def test_the_guarantee_counts_every_use_of_every_part():
    account = Account(BUDGET, unit="person")
    account.reserve(divide(account.budget, STEPS, ["zcdp"]))
    steps = account.open_reserved(0)
    models = [account.open("zcdp", share=Fraction(1, 2)) for _ in range(2)]
    steps.charge(Gaussian(100.0), 2)
    for model in models:
        model.charge(Gaussian(100.0), 3)
        model.charge(Gaussian(200.0))
    guarantee = account.guarantee(secure=False, earlier_fits=4, rows_per_unit=2, n_units=9)
    assert [(use.mechanism, use.count) for use in guarantee.mechanisms] == [
        (Gaussian(100.0), 8),
        (Gaussian(200.0), 2),
    ]
    stated = (guarantee.epsilon, guarantee.delta, guarantee.relation, guarantee.secure)
    assert stated == (1.0, 1e-6, "replace_one", False)
    assert (guarantee.unit, guarantee.rows_per_unit, guarantee.n_units) == ("person", 2, 9)
    assert guarantee.earlier_fits == 4
    # ρ of both parts, of which the preparation has its shares
    assert guarantee.rho == pytest.approx(float(RHO))
    assert guarantee.rho <= RHO
    assert guarantee.split == (
        ("radius", pytest.approx(0.1)),
        ("centre", pytest.approx(0.2)),
        ("model", pytest.approx(0.7)),
    )
