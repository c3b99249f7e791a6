"""Budgets that are not one number: (ε, δ) pairs, plans made in advance, and none at all."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from discreet import Ledger
from discreet.accounting.budget import PrivacyLoss
from discreet.core import Account, Budget, Curator, Gaussian, Relation
from discreet.core.account import PrivacyFilter
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.objectives import Logistic
from discreet.rows import as_rows
from discreet.rows.sums import gradient_sum

BUDGET = Budget(1.0, 1e-6, "add_remove")


@dataclass(frozen=True)
class Pair:
    """A mechanism that is (ε, δ)-DP and nothing else."""

    epsilon: float
    delta: float
    name: str = "pair"

    @property
    def loss(self):
        return PrivacyLoss(self.epsilon, math.inf, math.inf, self.delta)


@dataclass(frozen=True)
class Step:
    """A mechanism of which k uses cost k·each."""

    each: float
    relation: Relation = Relation.ADD_REMOVE
    name: str = "step"

    @property
    def loss(self):
        return PrivacyLoss(math.inf, math.inf, math.inf)

    def epsilon(self, count, delta):
        return self.each * count


def curator_of(account, share=Fraction(1)):
    X = np.arange(12.0).reshape(6, 2) / 12
    rows = as_rows(X, np.array([1.0, -1, 1, -1, 1, -1]))
    return Curator(rows, account, Noise(SeededBits(0)), share)


def test_pairs_add_up_in_both_parts():
    spent = PrivacyFilter("approximate", 1.0, 1e-6)
    spent.charge(Pair(0.5, 4e-7))
    with pytest.raises(BudgetExceeded, match="δ"):
        spent.charge(Pair(0.1, 7e-7))
    with pytest.raises(BudgetExceeded):
        spent.charge(Pair(0.6, 1e-7))
    spent.charge(Pair(0.5, 5e-7))
    assert spent.spent_share == 1.0


def test_a_pair_is_not_pure_and_a_pure_filter_has_no_delta():
    with pytest.raises(PrivacyError, match="'pure'"):
        PrivacyFilter("pure", 1.0).charge(Pair(0.5, 1e-9))
    with pytest.raises(ValueError, match="δ"):
        PrivacyFilter("zcdp", 1.0, 1e-6)


def test_shares_split_both_parts_of_a_pair():
    account = Account(BUDGET)
    first, second = (account.open("approximate", share=Fraction(1, 2)) for _ in range(2))
    assert first.total == second.total == Fraction(1, 2)
    assert first.total_delta == Fraction(1e-6) / 2
    assert account.guarantee(secure=True).measure == "approximate"


def test_a_plan_is_checked_as_a_whole_before_it_opens():
    account = Account(BUDGET)
    with pytest.raises(BudgetExceeded, match="20 uses"):
        curator_of(account, Fraction(1, 2)).open_plan(Step(0.1), 10)
    curator_of(account, Fraction(1, 2)).open_plan(Step(0.05), 10)
    curator_of(account, Fraction(1, 2)).open_plan(Step(0.05), 10)
    with pytest.raises(PrivacyError, match="share"):
        curator_of(account, Fraction(1, 2)).open_plan(Step(0.05), 10)


def test_a_plan_serves_its_own_mechanism_as_often_as_planned():
    plan = Account(BUDGET).open_plan(Step(0.1), 2)
    with pytest.raises(PrivacyError, match="not what this budget was planned for"):
        plan.charge(Step(0.05))
    plan.charge(Step(0.1))
    plan.charge(Step(0.1))
    with pytest.raises(BudgetExceeded, match="planned"):
        plan.charge(Step(0.1))


def test_all_parts_follow_one_plan_of_the_right_relation():
    account = Account(BUDGET)
    account.open_plan(Step(0.1), 2, Fraction(1, 2))
    with pytest.raises(PrivacyError, match="same plan"):
        account.open_plan(Step(0.1), 3, Fraction(1, 2))
    with pytest.raises(PrivacyError):
        account.open("approximate", share=Fraction(1, 2))
    with pytest.raises(PrivacyError, match="replace_one"):
        Account(BUDGET).open_plan(Step(0.1, Relation.REPLACE_ONE), 2)


def test_a_waived_account_promises_nothing_and_opens_nothing():
    account = Account(BUDGET)
    curator = curator_of(account)
    assert curator.reveal(lambda rows: np.ones(3), size=3).tolist() == [1, 1, 1]
    assert not account.guarantee(secure=True).private
    with pytest.raises(PrivacyError, match="forfeited"):
        curator.open("zcdp")
    opened = Account(BUDGET)
    curator = curator_of(opened)
    curator.open("zcdp")
    with pytest.raises(PrivacyError, match="promised"):
        curator.reveal(lambda rows: np.ones(3), size=3)


def test_run_charges_first_and_withholds_what_is_not_finite():
    curator = curator_of(Account(BUDGET))
    looked = []
    with pytest.raises(PrivacyError, match="open"):
        curator.run(looked.append, size=3, proven_for="add_remove", mechanism=Pair(1.0, 1e-6))
    curator.open("approximate")
    with pytest.raises(PrivacyError, match="proven for"):
        curator.run(looked.append, size=3, proven_for="replace_one", mechanism=Pair(1.0, 1e-6))
    with pytest.raises(BudgetExceeded):
        curator.run(looked.append, size=3, proven_for="add_remove", mechanism=Pair(1.1, 1e-6))
    assert not looked

    def compute(rows, noise):
        assert curator.spent_share == 0.5  # charged before it ran
        noise.gaussian(3, 1.0, -30)
        return gradient_sum(rows, np.zeros(3), Logistic(), 1.0).values * math.nan

    with pytest.raises(PrivacyError, match="nothing was released"):
        curator.run(compute, size=3, proven_for="add_remove", mechanism=Pair(0.5, 1e-7))
    assert curator.spent_share == 0.5


def test_a_ledger_adds_the_deltas_of_pairs_apart():
    # (1, 1e-6) counts as ρ = tanh(1/2) and δ = 1e-6: two of them at δ = 3e-6 leave 1e-6 for 2ρ.
    from discreet.accounting.conversions import epsilon_from_rho

    spent = Ledger().create("rows")
    for _ in range(2):
        Account(BUDGET, spent).open("approximate")
    rho = 2 * math.tanh(0.5)
    assert spent.rho == pytest.approx(rho)
    assert spent.epsilon(3e-6) == 2.0  # less than by ρ
    assert epsilon_from_rho(rho, 1e-6) > 2.0
    assert spent.epsilon(1.9e-6) == math.inf


def test_a_limit_sets_delta_aside_only_when_told():
    limit = Budget(5.0, 1e-5, "add_remove")
    full = Ledger().create("rows", limit, gaussian_share=1.0)
    Account(Budget(0.1, 1e-6, "add_remove"), full).open("gdp")
    with pytest.raises(BudgetExceeded, match="δ of its own"):
        Account(BUDGET, full).open("approximate")
    spent = Ledger().create("rows", limit, gaussian_share=0.0)  # half of δ for entries' own
    for _ in range(5):
        Account(Budget(0.1, 1e-6, "add_remove"), spent).open_plan(Step(0.05), 2)
    with pytest.raises(BudgetExceeded, match="δ of its own"):
        Account(Budget(0.1, 1e-6, "add_remove"), spent).open("approximate")
    Account(Budget(0.1, 1e-6, "add_remove"), spent).open("zcdp")
    assert spent.entries == 6
    with pytest.raises(ValueError, match="gaussian_share"):
        Ledger().create("rows", limit, gaussian_share=1.1)


def test_a_gaussian_does_not_fit_into_pairs():
    with pytest.raises(PrivacyError, match="'approximate'"):
        PrivacyFilter("approximate", 1.0, 1e-6).charge(Gaussian(10.0))
