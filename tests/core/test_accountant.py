import copy
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from joblib import Parallel, delayed

from discreet.accounting.conversions import epsilon_from_rho
from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Account, Accountant, Budget, Relation
from discreet.errors import BudgetExceeded, PrivacyError

BUDGET = Budget(0.5, 1e-6, "add_remove")
RHO = Fraction(BUDGET.to_zcdp().rho)


def open_account(accountant, measure="zcdp"):
    Account(BUDGET, accountant).open(measure)


def test_fits_add_up():
    accountant = Accountant()
    assert accountant.epsilon(1e-6) == 0
    for _ in range(4):
        open_account(accountant)
    assert accountant.fits == 4
    assert accountant.rho == pytest.approx(4 * float(RHO))
    assert accountant.epsilon(1e-6) == pytest.approx(epsilon_from_rho(4 * float(RHO), 1e-6))


def test_the_limit_holds_and_a_refused_fit_costs_nothing():
    accountant = Accountant(limit=Budget(1.2, 1e-6, "add_remove"))

    def spend_all():
        for _ in range(100):
            open_account(accountant)

    with pytest.raises(BudgetExceeded, match="nothing was spent"):
        spend_all()
    assert accountant.epsilon(1e-6) <= 1.2
    before = accountant.rho
    with pytest.raises(BudgetExceeded):
        open_account(accountant)
    assert accountant.rho == before


@pytest.mark.parametrize("way", ["open", "open_plan", "open_reserved"])
def test_a_refused_account_stays_refused(way):
    # The accountant must have agreed before the account counts as charged.
    accountant = Accountant(limit=Budget(0.1, 1e-6, "add_remove"), delta_share=0.1)
    account = Account(BUDGET, accountant)
    step = SampledGaussian(50.0, 0.1, Relation.ADD_REMOVE)
    if way == "open_reserved":
        account.reserve([("centre", 0.1)], ["gdp"])
    opening = {
        "open": lambda: account.open("zcdp"),
        "open_plan": lambda: account.open_plan(step, 1),
        "open_reserved": lambda: account.open_reserved(0),
    }[way]
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            opening()
    assert accountant.fits == 0
    with pytest.raises(PrivacyError, match="nothing to state"):
        account.guarantee(secure=True)


def test_measures_are_added_as_zcdp():
    accountant = Accountant()
    accountant.charge("pure", Fraction(1, 2), Relation.ADD_REMOVE)
    accountant.charge("gdp", Fraction(1, 4), Relation.ADD_REMOVE)  # the total of gdp is μ²
    assert accountant.rho == pytest.approx(0.125 + 0.125)


def test_relations_do_not_mix():
    accountant = Accountant()
    open_account(accountant)
    with pytest.raises(PrivacyError, match="one relation"):
        accountant.charge("zcdp", RHO, Relation.REPLACE_ONE)


def test_copies_are_the_same_accountant():
    accountant = Accountant()
    for twin in (
        copy.copy(accountant),
        copy.deepcopy(accountant),
        pickle.loads(pickle.dumps(accountant)),
    ):
        assert twin is accountant


def test_threads_count_together():
    accountant = Accountant()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: open_account(accountant), range(40)))
    assert accountant.fits == 40


@pytest.mark.process
def test_another_process_is_refused_rather_than_lost():
    accountant = Accountant()
    with pytest.raises(PrivacyError, match="threading"):
        Parallel(n_jobs=2)(delayed(open_account)(accountant) for _ in range(2))
    assert accountant.fits == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_refused_rather_than_lost():
    accountant = Accountant()
    child = os.fork()
    if child == 0:
        try:
            open_account(accountant)
        except PrivacyError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_pickle_of_a_forgotten_accountant_refuses_to_count():
    data = pickle.dumps(Accountant())
    orphan = pickle.loads(data)
    with pytest.raises(PrivacyError):
        open_account(orphan)
