"""Processes that charge one ledger: searches, races and kills. The long form: make check-ledger."""

import os
import warnings

import pytest
from joblib import parallel_config
from sklearn.model_selection import GridSearchCV

from discreet import Ledger, LogisticRegression
from discreet.core import Budget
from discreet.errors import BudgetExceeded
from discreet.solvers import GD

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]
LIMIT = Budget(3.0, 1e-6, "add_remove")


def search(dataset, **settings):
    model = LogisticRegression(
        epsilon=0.5,
        solver=GD(iterations=2),
        data_norm=1.0,
        classes=["no", "yes"],
        ledger=dataset,
    )
    return GridSearchCV(model, {"alpha": [1e-4, 1e-2]}, cv=3, error_score="raise", **settings)


def test_a_search_in_worker_processes_counts(place, binary):
    visits = Ledger(place).create("visits", LIMIT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(visits, n_jobs=2).fit(*binary)
    assert visits.entries == 7
    assert {record["status"] for record in visits.records()} == {"confirmed"}
    with parallel_config(backend="threading"):
        search(visits, n_jobs=2).fit(*binary)
    assert visits.entries == 14
    assert Ledger(place).verify().ok


def test_a_search_in_worker_processes_is_held_to_the_limit(tmp_path, binary):
    visits = Ledger(tmp_path / "v.sqlite").create("visits", Budget(1.0, 1e-6, "add_remove"))
    assert visits.fits_left(Budget(0.5, 1e-6, "add_remove")) == 3
    with pytest.raises(BudgetExceeded):
        search(visits, n_jobs=2).fit(*binary)
    assert visits.entries == 3


def test_a_race_for_the_last_of_a_budget(harness, place_kind):
    found = harness.race(place_kind, 1, processes=16, fits=4)
    assert found == {"4 of 16 succeeded": 1}


def test_kills(harness, place_kind):
    found = harness.kill(place_kind, 15, per_round=15, workers=3)
    assert found["kills"] == 15
    assert found["entries"] > 0
    assert {fault: found[fault] for fault in harness.FAULTS} == dict.fromkeys(harness.FAULTS, 0)


def test_the_harness_sees_a_read_without_an_entry(harness, tmp_path, monkeypatch):
    real = harness.fit
    monkeypatch.setattr(
        harness, "fit", lambda dataset, token, reads: real(Ledger().create("x"), token, reads)
    )
    counts = harness.kill_round(str(tmp_path / "v.sqlite"), 5, 10, 2, 0.5)
    assert counts["reads without an entry"] > 0


def test_the_harness_sees_overspending(harness, tmp_path, monkeypatch):
    from discreet.ledger.limits import Limits

    place = str(tmp_path / "v.sqlite")
    real = Limits.admits
    monkeypatch.setattr(
        harness,
        "hammer",
        lambda dataset, reads: (
            monkeypatch.setattr(Limits, "admits", lambda *_: True)
            or ([harness.fit(dataset, str(k), reads) for k in range(9)] and harness.time.sleep(60))
        ),
    )
    counts = harness.kill_round(place, 2, 3, 2, 2.0)
    assert Limits.admits is real
    assert counts["data sets overspent"] == 1
    assert counts["ledgers not verified"] == 1


@pytest.fixture(params=["sqlite", "postgresql"])
def place_kind(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if request.param == "postgresql":
        request.getfixturevalue("server")  # skips if there is none
    return request.param
