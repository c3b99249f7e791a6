"""A ledger must be charged for every fit."""

import copy

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from discreet import Ledger
from discreet.errors import PrivacyError

from . import all as every
from .all import CheckResult, check_all, ledger_lost
from .streams import Noisy, OneSeed, SharedByClasses
from .tables import NEIGHBOURS, QUICK, TABLE, logistic, named


@pytest.mark.parametrize("estimator", QUICK, ids=named)
def test_ours_are_counted(estimator):
    found = ledger_lost(estimator, TABLE)
    assert found.passed, found


@pytest.mark.process
@pytest.mark.parametrize("estimator", QUICK[::2], ids=named)
def test_ours_are_refused_in_forked_processes(estimator):
    found = ledger_lost(estimator, TABLE, fork=True)
    assert found.passed, found
    assert "forked process was refused" in found.text


def test_the_callers_own_ledger_is_not_charged():
    mine = Ledger().create("rows")
    assert ledger_lost(logistic("outpert", ledger=mine), TABLE).passed
    assert mine.entries == 0


class Counted(BaseEstimator):
    def __init__(self, ledger=None):
        self.ledger = ledger

    def fit(self, X, y):
        self.ledger.charge()
        self.coef_ = np.random.default_rng().normal(size=2)
        return self


class Losable:
    """A ledger of which every copy counts for itself."""

    def __init__(self):
        self.entries = 0

    def charge(self):
        self.entries += 1


class Shared(Losable):
    """One that copies share, but not pickles, nor forks."""

    def __deepcopy__(self, memo):
        return self


class Kept(Shared):
    """One that refuses to be pickled, too."""

    def __reduce__(self):
        raise PrivacyError("stays here")


class Twice(Kept):
    def charge(self):
        self.entries += 2


@pytest.mark.parametrize(
    ("ledger", "lost"),
    [
        (Losable(), "A fit of a clone was counted 0 times"),
        (Shared(), "A fit of a pickled copy was counted 0 times"),
        pytest.param(Kept(), "A fit in a forked process went through", marks=pytest.mark.process),
        (Twice(), "A fit was counted 2 times"),
    ],
)
def test_lost_ledgers_are_seen(ledger, lost):
    forked = isinstance(ledger, Kept)
    found = ledger_lost(Counted(), TABLE, ledger=ledger, fork=forked)
    assert not found.passed
    assert found.text.startswith(lost)


def test_no_ledger_no_check():
    assert ledger_lost(Noisy(), TABLE) is None


def test_baselines_refuse_to_be_counted():
    found = ledger_lost(logistic("nonprivate"), TABLE)
    assert found.passed
    assert "refused" in found.text


@pytest.mark.parametrize("estimator", [logistic("amp"), QUICK[-1]], ids=named)
def test_check_all_passes_ours(estimator):
    found = check_all(estimator, NEIGHBOURS, fits=5, processes=False)
    assert all(one.passed for one in found), [str(one) for one in found]
    assert len({one.check for one in found}) == len(found) >= 11


def test_check_all_finds_what_is_wrong_with_others():
    found = check_all(OneSeed(), NEIGHBOURS, fits=5, processes=False)
    assert {one.check for one in found if not one.passed} == {
        *(f"noise repeated by {what}" for what in ("fits", "copies", "threads", "folds")),
        "entropy of seeds",
    }
    found = check_all(SharedByClasses(), NEIGHBOURS, fits=5, processes=False)
    assert [one.check for one in found if not one.passed] == ["noise repeated by classes"]


@pytest.mark.process
def test_check_all_starts_both_kinds_of_processes(monkeypatch):
    started = []

    def check(estimator, table, *, method):
        started.append(method)
        return CheckResult(method, True, "")

    monkeypatch.setattr(every, "repeated_in_processes", check)
    found = check_all(Noisy(), NEIGHBOURS, fits=2, processes=True)
    assert started == ["fork", "spawn"]
    assert {"fork", "spawn"} <= {one.check for one in found}


def test_check_all_takes_pipelines():
    pipeline = make_pipeline(
        FunctionTransformer(), logistic("outpert", ledger=Ledger().create("rows"))
    )
    found = check_all(pipeline, NEIGHBOURS, fits=3, processes=False)
    assert all(one.passed for one in found), [str(one) for one in found]
    assert {"ledger", "answers only", "messages on hard tables"} <= {one.check for one in found}
    wrong = make_pipeline(FunctionTransformer(), OneSeed())
    assert not check_all(wrong, NEIGHBOURS, fits=3, processes=False)[0].passed


def test_baselines_are_told_apart_from_private_solvers():
    found = check_all(logistic("majority"), NEIGHBOURS, fits=3, processes=False)
    failed = [one for one in found if not one.passed]
    assert [one.check for one in failed] == ["control flow"]
    assert "baseline" in failed[0].text


def test_results_read_well():
    assert str(CheckResult("low bits", False, "Seen.")) == "FAILED: low bits: Seen."
    assert str(CheckResult("low bits", True, "Nothing.")) == "passed: low bits: Nothing."
    assert copy.copy(CheckResult("a", True, "b")) == CheckResult("a", True, "b")
