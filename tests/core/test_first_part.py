"""The first part of an account: verified, charged before all else, and Gaussian DP follows."""

from dataclasses import replace
from fractions import Fraction

import pytest

from discreet.accounting.planning import divide
from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Budget, Gaussian
from discreet.core.account import Account
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.exact.histogram import GaussianHistogram

BUDGET = Budget(1.0, 1e-6, "add_remove")
LEFT = replace(BUDGET, delta=9e-7)
DELTA = Fraction(5e-8)


def division(whole=LEFT, share=0.1, measures=("gdp",)):
    return divide(whole, [("levels of a", share / 2), ("levels of b", share / 2)], measures)


class Book:
    """A ledger that notes what it is charged."""

    def __init__(self):
        self.charged = []
        self.returned = False

    def charge(self, *cost):
        self.charged.append(cost)
        return self

    def confirm(self):
        self.confirmed = True

    def give_back(self):
        self.returned = True


def test_what_is_left_is_the_budget_of_everything_else():
    account = Account(BUDGET)
    first = division()
    opened = account.open_first(first, DELTA)
    assert account.models == first.models
    assert opened.total == first.total
    assert opened.total_delta == DELTA
    rest = account.open("gdp")
    whole = LEFT.total("gdp")
    assert opened.total + rest.total <= whole
    assert float(opened.total + rest.total) == pytest.approx(float(whole))
    assert float(opened.total / whole) == pytest.approx(0.1)


def test_the_filter_holds_mu_and_delta():
    opened = Account(BUDGET).open_first(division(), DELTA)
    mechanism = GaussianHistogram(opened.total**-0.5 * 1.5, float(DELTA) / 2, "add_remove")
    opened.charge(mechanism, 2)
    with pytest.raises(BudgetExceeded):
        opened.charge(replace(mechanism, delta=1e-12))
    assert not opened.close()


def test_a_division_of_more_than_the_budget_is_refused():
    for wrong in (
        division(BUDGET),  # no δ is left for the first part
        division(replace(LEFT, epsilon=1.01)),
        division(replace(LEFT, relation="replace_one")),
        division(measures=("zcdp",)),
        division(measures=("approximate",)),
    ):
        with pytest.raises(PrivacyError, match="This is a division of"):
            Account(BUDGET).open_first(wrong, DELTA)
    with pytest.raises(PrivacyError, match="This is a division of"):
        Account(BUDGET).open_first(division(), Fraction(-1, 10**7))
    larger = replace(division(), models=replace(LEFT, epsilon=0.999))
    with pytest.raises(PrivacyError, match="not sound"):
        Account(BUDGET).open_first(larger, DELTA)


def test_it_comes_once_and_before_everything_else():
    account = Account(BUDGET)
    account.open_first(division(), DELTA)
    with pytest.raises(PrivacyError, match="opened once"):
        account.open_first(division(), DELTA)
    account = Account(BUDGET)
    account.open("gdp")
    with pytest.raises(PrivacyError, match="before any other"):
        account.open_first(division(), DELTA)
    account = Account(BUDGET)
    account.reserve(divide(BUDGET, [("centre", 0.1)], ("gdp",)))
    with pytest.raises(PrivacyError, match="opened once"):
        account.open_first(division(), DELTA)
    account = Account(BUDGET)
    account.abandon()
    with pytest.raises(PrivacyError, match="before any other"):
        account.open_first(division(), DELTA)


@pytest.mark.parametrize("measure", ["zcdp", "pure", "approximate"])
def test_nothing_but_gaussian_dp_follows(measure):
    account = Account(BUDGET)
    account.open_first(division(), DELTA)
    with pytest.raises(PrivacyError, match="Gaussian DP alone"):
        account.open(measure)
    with pytest.raises(PrivacyError, match="Gaussian DP alone"):
        account.reserve(divide(account.models, [("centre", 0.1)], (measure,)))
    with pytest.raises(PrivacyError, match="Gaussian DP alone"):
        account.open_plan(SampledGaussian(50.0, 0.01, "add_remove"), 1)
    with pytest.raises(PrivacyError, match="promised privacy already"):
        account.forfeit()


def test_the_rest_is_divided_and_not_the_whole():
    account = Account(BUDGET)
    account.open_first(division(), DELTA)
    with pytest.raises(PrivacyError, match="but the account holds"):
        account.reserve(divide(BUDGET, [("centre", 0.1)], ("gdp",)))
    account.reserve(divide(account.models, [("centre", 0.1)], ("gdp",)))


def test_the_guarantee_states_no_mu_and_all_shares():
    account = Account(BUDGET)
    opened = account.open_first(division(), DELTA)
    opened.charge(GaussianHistogram(100.0, 1e-8, "add_remove"))
    account.reserve(divide(account.models, [("centre", 0.1)], ("gdp",)))
    account.open_reserved(0).charge(Gaussian(1000.0))
    account.open("gdp").charge(Gaussian(2000.0), 3)
    found = account.guarantee(secure=True)
    assert (found.epsilon, found.delta, found.measure) == (1.0, 1e-6, "approximate")
    assert found.mu is None
    assert [use.mechanism.name for use in found.mechanisms] == ["gaussian_histogram"] + [
        "gaussian"
    ] * 2
    shares = dict(found.split)
    expected = {"levels of a": 0.05, "levels of b": 0.05, "centre": 0.09, "model": 0.81}
    assert shares == pytest.approx(expected, rel=1e-6)


def test_a_ledger_is_charged_with_all_of_it_before_the_first_part_opens():
    book = Book()
    account = Account(BUDGET, book)
    account.open_first(division(), DELTA)
    assert book.charged == [("approximate", Fraction(1.0), Fraction(1e-6), BUDGET, "row")]
    account.open("gdp")
    assert len(book.charged) == 1
    account.abandon()
    assert book.returned  # nothing was read

    book = Book()
    account = Account(BUDGET, book)
    opened = account.open_first(division(), DELTA)
    opened.charge(GaussianHistogram(100.0, 1e-8, "add_remove"))
    account.abandon()
    assert not book.returned
    with pytest.raises(PrivacyError, match="closed"):
        opened.charge(GaussianHistogram(100.0, 1e-8, "add_remove"))


def test_a_refused_ledger_opens_nothing():
    class Full(Book):
        def charge(self, *cost):
            raise BudgetExceeded("full")

    account = Account(BUDGET, Full())
    with pytest.raises(BudgetExceeded):
        account.open_first(division(), DELTA)
    assert account.models == BUDGET
