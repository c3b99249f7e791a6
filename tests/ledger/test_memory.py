"""A ledger without a file counts the fits of one process, threads included."""

import copy
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from joblib import Parallel, delayed

from discreet import Ledger
from discreet.accounting.conversions import epsilon_from_rho
from discreet.accounting.planning import divide
from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Account, Budget, Relation
from discreet.errors import BudgetExceeded, PrivacyError

BUDGET = Budget(0.5, 1e-6, "add_remove")
RHO = Fraction(BUDGET.to_zcdp().rho)


def open_account(dataset, measure="zcdp"):
    Account(BUDGET, dataset).open(measure)


@pytest.fixture
def rows():
    return Ledger().create("rows")


def test_fits_add_up(rows):
    assert rows.epsilon(1e-6) == 0
    for _ in range(4):
        open_account(rows)
    assert rows.entries == 4
    assert rows.rho == pytest.approx(4 * float(RHO))
    assert rows.epsilon(1e-6) == pytest.approx(epsilon_from_rho(4 * float(RHO), 1e-6))


def test_the_limit_holds_and_a_refused_fit_costs_nothing():
    rows = Ledger().create("rows", limit=Budget(1.2, 1e-6, "add_remove"))

    def spend_all():
        for _ in range(100):
            open_account(rows)

    with pytest.raises(BudgetExceeded, match="nothing was spent"):
        spend_all()
    assert rows.epsilon(1e-6) <= 1.2
    before = rows.rho
    with pytest.raises(BudgetExceeded):
        open_account(rows)
    assert rows.rho == before


@pytest.mark.parametrize("way", ["open", "open_plan", "open_reserved"])
def test_a_refused_account_stays_refused(way):
    # The ledger must have agreed before the account counts as charged.
    rows = Ledger().create("rows", limit=Budget(0.1, 1e-6, "add_remove"))
    account = Account(BUDGET, rows)
    step = SampledGaussian(50.0, 0.1, Relation.ADD_REMOVE)
    if way == "open_reserved":
        account.reserve(divide(account.budget, [("centre", 0.1)], ["gdp"]))
    opening = {
        "open": lambda: account.open("zcdp"),
        "open_plan": lambda: account.open_plan(step, 1),
        "open_reserved": lambda: account.open_reserved(0),
    }[way]
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            opening()
    assert rows.entries == 0
    with pytest.raises(PrivacyError, match="nothing to state"):
        account.guarantee(secure=True)


def test_copies_are_the_same_data_set(rows):
    assert copy.copy(rows) is rows
    assert copy.deepcopy(rows) is rows
    again = pickle.loads(pickle.dumps(rows.noting(purpose="x")))
    open_account(again)
    assert rows.entries == 1
    assert rows.records()[0]["purpose"] == "x"


def test_threads_count_together(rows):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: open_account(rows), range(40)))
    assert rows.entries == 40


@pytest.mark.process
def test_another_process_is_refused_rather_than_lost(rows):
    with pytest.raises(PrivacyError, match="Use a file"):
        Parallel(n_jobs=2)(delayed(open_account)(rows) for _ in range(2))
    assert rows.entries == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_refused_rather_than_lost(rows):
    child = os.fork()
    if child == 0:
        try:
            open_account(rows)
        except PrivacyError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_pickle_of_a_forgotten_ledger_refuses_to_count():
    data = pickle.dumps(Ledger().create("rows"))
    orphan = pickle.loads(data)
    with pytest.raises(PrivacyError, match="another process"):
        open_account(orphan)
