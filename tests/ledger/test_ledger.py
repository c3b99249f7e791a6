"""Ledgers in a file and on a server: the same tests for both stores."""

import json
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent
from dp_accounting.dp_event import PoissonSampledDpEvent, ZCDpEvent

from discreet import Ledger, LogisticRegression, load, save
from discreet.accounting.planning import divide
from discreet.core import Account, Budget
from discreet.errors import BudgetExceeded, LedgerError, PrivacyError
from discreet.ledger.costs import PrivacyCost
from discreet.ledger.dataset import Reservation
from discreet.solvers import GD

LIMIT = Budget(3.0, 1e-6, "add_remove")
FIT = Budget(0.5, 1e-6, "add_remove")
HARD = 'Robert\'); DROP TABLE ledger_events;-- "ü" 患者 %s ? \\'


def charge(dataset, budget=FIT, measure="gdp"):
    account = Account(budget, dataset)
    account.open(measure)
    return account


@pytest.fixture
def visits(place):
    return Ledger(place, who="ada").create("visits", LIMIT)


def test_what_one_writes_another_reads(place, visits):
    charge(visits).confirm()
    charge(Ledger(place, who="bob").open("visits"))
    again = Ledger(place).open("visits")
    assert again.entries == visits.entries == 2
    assert again.limit == LIMIT
    assert [(r["who"], r["status"]) for r in again.records()] == [
        ("ada", "confirmed"),
        ("bob", "reserved"),
    ]
    assert 0.5 < again.spent < 0.8
    assert Ledger(place).verify().ok


def test_a_limit_is_created_once(place, visits):
    with pytest.raises(LedgerError, match="cannot be changed"):
        Ledger(place).create("visits", Budget(100.0, 1e-6, "add_remove"))
    other = Ledger(place).create("other")
    charge(other)
    assert visits.entries == 0
    assert [each.name for each in Ledger(place).list()] == ["visits", "other"]
    with pytest.raises(LedgerError, match="Known: 'visits', 'other'"):
        Ledger(place).open("visit")


def test_the_limit_holds_in_epsilon(visits):
    def spend_all():
        for _ in range(100):
            charge(visits)

    with pytest.raises(BudgetExceeded) as refused:
        spend_all()
    assert visits.entries == 25
    text = str(refused.value)
    assert "asks for ε = 0.5, δ = 1e-06" in text
    assert "limit of 'visits' is ε = 3, δ = 1e-06" in text
    most = float(text.split("largest ε that still fits, at the same δ, is ")[1].split(". No")[0])
    assert most == visits.remaining
    assert not visits.affords(Budget(most * 1.01, 1e-6, "add_remove"))
    assert visits.affords(Budget(most, 1e-6, "add_remove"))
    charge(visits, Budget(most, 1e-6, "add_remove"))
    assert visits.spent <= 3.0
    assert visits.epsilon(1e-6) <= 3.0


def test_what_the_next_fits_leave(visits):
    assert visits.spent == 0
    assert visits.fits_left(FIT) == 25
    assert visits.fits_left(FIT, most=3) == 3
    assert visits.affords(LIMIT)  # the first entry may take all
    charge(visits)
    assert not visits.affords(LIMIT)
    assert visits.fits_left(FIT) == 24


def test_a_charge_is_returned_only_if_no_filter_was_charged(visits):
    from discreet.core import Gaussian

    unread = Account(FIT, visits)
    filter_ = unread.open("gdp")
    unread.abandon()
    assert visits.entries == 0
    with pytest.raises(PrivacyError, match="closed"):
        filter_.charge(Gaussian(1e6))
    with pytest.raises(PrivacyError):
        unread.open("gdp")
    read = Account(FIT, visits)
    read.open("gdp").charge(Gaussian(1e6))
    read.abandon()
    assert visits.entries == 1
    parts = Account(FIT, visits)
    parts.reserve(divide(parts.budget, [("centre", 0.1)], ["gdp"]))
    parts.open_reserved(0).charge(Gaussian(1e6))
    parts.abandon()
    assert visits.entries == 2
    with pytest.raises(PrivacyError):
        parts.open("gdp")
    assert [r["status"] for r in visits.records()] == ["returned", "reserved", "reserved"]


def test_an_entry_is_settled_once(visits):
    made = visits.charge("gdp", Fraction(0.01), Fraction(0), FIT)
    made.confirm()
    with pytest.warns(UserWarning, match=r"could not be returned.*settled before"):
        made.give_back()
    with pytest.warns(UserWarning, match="counted but could not be confirmed"):
        made.confirm()
    assert visits.entries == 1
    returned = visits.charge("gdp", Fraction(0.01), Fraction(0), FIT)
    returned.give_back()
    with pytest.warns(UserWarning, match="settled before"):
        returned.give_back()
    assert visits.entries == 1


def model(dataset, **settings):
    return LogisticRegression(
        epsilon=0.5, solver=GD(iterations=2), data_norm=1.0, classes=[0, 1], ledger=dataset
    ).set_params(**settings)


X = np.array([[1.0, 0.5], [0.3, -0.2], [-0.7, 0.1], [0.2, 0.9]])
Y = np.array([0, 1, 1, 0])


def test_a_fit_is_entered_with_what_it_was(visits, tmp_path):
    fitted = model(visits.noting(purpose="weekly model")).fit(X, Y)
    save(fitted, tmp_path / "model.json")
    (record,) = visits.records()
    assert fitted.ledger_entry_ == record["entry"]
    assert (record["status"], record["solver"]) == ("confirmed", "gd")
    assert record["purpose"] == "weekly model"
    assert record["settings"]["estimator"] == "LogisticRegression"
    assert record["settings"]["alpha"] == 1e-4
    assert record["epsilon"] == 0.5
    assert record["measure"] == "gdp"
    import hashlib

    assert record["model"] == hashlib.sha256((tmp_path / "model.json").read_bytes()).hexdigest()
    assert load(tmp_path / "model.json").ledger is None
    frame = visits.history(full=True)
    assert list(frame.index) == [record["entry"]]
    assert frame["who"].tolist() == ["ada"]
    assert frame["when"].tolist() == [record["when"]]
    assert len(frame.columns) == len(record) - 1


def test_the_history_fits_on_a_screen(place, visits):
    import pandas as pd

    assert visits.history().empty
    charge(visits.noting(purpose="weekly model", solver="gd"))
    with pd.option_context("display.width", 80, "display.max_columns", 0):
        text = str(visits.history())
    assert "..." not in text
    for word in ("ada", "reserved", "0.5", "0.000001", "gd", "weekly model"):
        assert word in text
    assert "\\" not in text
    blocks = Ledger(place).create("blocks", unit_in_one_block=True)
    blocks.add_block("2026-01").add(rho=0.1)
    assert blocks.history()["blocks"].tolist() == [["2026-01"]]


def test_the_default_solver_is_counted_in_gaussian_dp(visits, binary):
    LogisticRegression(epsilon=1.0, classes=["no", "yes"], ledger=visits).fit(*binary)
    (record,) = visits.records()
    assert record["measure"] == "gdp"
    assert math.sqrt(record["total"]) == pytest.approx(
        Budget(1.0, 1e-6, "add_remove").to_gdp().mu, rel=1e-6
    )


def test_a_fit_that_fails_before_it_reads_costs_nothing(visits):
    class Stop(Exception):
        pass

    class Early(GD):
        def _solve(self, problem, curator, plan, record):
            curator.open("gdp")
            raise Stop

    def late(_):
        raise Stop

    with pytest.raises(Stop):
        model(visits, solver=Early()).fit(X, Y)
    assert visits.entries == 0
    with pytest.raises(Stop):
        model(visits, progress=late).fit(X, Y)
    assert visits.entries == 1


def test_names_and_purposes_are_stored_literally(place):
    dataset = Ledger(place, who=HARD).create(HARD, unit=HARD, unit_in_one_block=True)
    lines = f"{HARD}\n\tsecond line"
    block = dataset.add_block(HARD).noting(purpose=lines, note=HARD)
    block.add(epsilon=1.0)
    (again,) = Ledger(place).list()
    assert again.name == again.unit == HARD
    (record,) = again.records()
    assert record["who"] == HARD
    assert record["purpose"] == lines
    assert record["blocks"] == [HARD]
    assert record["settings"] == {"note": HARD}
    assert Ledger(place).verify().ok
    for bad in ("", "a\0b", "\ud800", 3, "x" * 201):
        with pytest.raises(ValueError, match="name"):
            Ledger(place).create(bad)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (" visits", "white space at its start or end"),
        ("visits ", "white space at its start or end"),
        ("my  visits", "two spaces"),
        ("vis\u200bits", "U\\+200B"),  # zero-width space
        ("vis\u00adits", "U\\+00AD"),  # soft hyphen
        ("\ufeffvisits", "U\\+FEFF"),
        ("my\u00a0visits", "U\\+00A0"),
        ("my\u2003visits", "U\\+2003"),
        ("my\tvisits", "U\\+0009"),
        ("my\nvisits", "U\\+000A"),
        ("my\u2028visits", "U\\+2028"),
        ("my\u2029visits", "U\\+2029"),
        ("vis\u3164its", "U\\+3164"),  # a letter that is shown as nothing
        ("visits\ufe0f", "U\\+FE0F"),
        ("cafe\u0301", "'café'"),  # as the one letter é
        ("\u212bngstr\u00f6m", "'Ångström'"),
    ],
)
def test_names_that_look_the_same_are_one_name(name, said):
    ledger = Ledger()
    visits = ledger.create("visits", LIMIT, unit="patient", unit_in_one_block=True)
    for ask in (
        lambda: ledger.create(name),
        lambda: ledger.create("other", unit=name),
        lambda: visits.add_block(name),
        lambda: Ledger(who=name),
        lambda: visits.add(rho=0.1, unit=name),
    ):
        with pytest.raises(ValueError, match=said) as refused:
            ask()
        assert "look the same" in str(refused.value)
    assert [each.name for each in ledger.list()] == ["visits"]
    for good in ("my visits", "café", "Ångström", "患者-2026_01 (all)"):
        ledger.create(good)
        ledger.open(good)


def test_handles_survive_pickling(visits):
    handle = pickle.loads(pickle.dumps(visits.noting(purpose="x")))
    charge(handle)
    assert visits.entries == 1
    assert visits.records()[0]["purpose"] == "x"


def test_blocks_have_the_whole_limit_each(place):
    visits = Ledger(place).create("visits", LIMIT, unit="patient", unit_in_one_block=True)
    with pytest.raises(ValueError, match="no block '2026-01'"):
        visits.in_blocks("2026-01")
    january, february = visits.add_block("2026-01"), visits.add_block("2026-02")
    with pytest.raises(ValueError, match="keeps its totals"):
        visits.add_block("2026-01")
    january.add(gaussian=1.0, planned=True, sensitivity=0.5)
    assert january.spent > 0
    assert february.spent == 0
    assert visits.spent == january.spent
    both = visits.in_blocks("2026-01", "2026-02")
    both.add(gaussian=2.8, planned=True)
    assert february.entries == 1
    assert january.entries == 2
    assert visits.entries == 2
    with pytest.raises(PrivacyError, match="name those"):
        visits.add(gaussian=2.6)
    with pytest.raises(BudgetExceeded):
        both.add(gaussian=2.0, planned=True)  # January has less left
    february.add(gaussian=2.0, planned=True)
    assert [len(r["blocks"]) for r in visits.records()] == [1, 2, 1]
    assert len(february.records()) == 2
    assert Ledger(place).verify().ok
    assert "2026-02" in visits.summary()["blocks"]


@pytest.fixture
def blocks(place):
    """A data set with a block that is nearly spent, "full", and one that is not, "new"."""
    visits = Ledger(place).create("visits", LIMIT, unit="patient", unit_in_one_block=True)
    visits.add_block("new")
    visits.add_block("full").add(gaussian=1.8, planned=True)
    return visits


@pytest.mark.parametrize("names", [("new", "full"), ("full", "new")])
def test_a_release_on_several_blocks_keeps_the_limit_of_each(place, blocks, names):
    both = blocks.in_blocks(*names)
    blocks.in_blocks("new").add(gaussian=20.0, planned=True)
    most = float(blocks.in_blocks("full").remaining)
    assert most < float(blocks.in_blocks("new").remaining)
    assert both.remaining == most
    large = Budget(most * 1.01, 1e-6, "add_remove")
    assert not both.affords(large)
    with pytest.raises(BudgetExceeded):
        charge_patients(both, large)
    assert blocks.in_blocks("full").entries == 1
    assert blocks.in_blocks("new").entries == 1
    charge_patients(both, Budget(most, 1e-6, "add_remove"))
    assert blocks.in_blocks("full").spent <= 3.0
    assert Ledger(place).verify().ok


def charge_patients(dataset, budget):
    loss = PrivacyCost.of(budget, "gdp")
    return dataset.charge(loss.measure, loss.total, loss.delta, budget, "patient")


def test_a_returned_charge_on_several_blocks_leaves_each_as_it_was(place, blocks):
    before = blocks.totals_by_block()
    made = charge_patients(blocks.in_blocks("new", "full"), FIT)
    during = blocks.totals_by_block()
    assert all(during[block].entries == before[block].entries + 1 for block in ("new", "full"))
    made.give_back()
    assert blocks.totals_by_block() == before
    assert Ledger(place).verify().ok


def test_an_entry_is_settled_by_its_own_data_set(place, visits):
    other = Ledger(place).create("other", LIMIT)
    made = other.charge("gdp", Fraction(0.01), Fraction(0), FIT)
    visits.charge("gdp", Fraction(0.01), Fraction(0), FIT)
    before = visits.totals_by_block()
    for act in (Reservation(visits, made.entry).give_back, Reservation(visits, made.entry).confirm):
        with pytest.warns(UserWarning, match="is no reservation of 'visits'"):
            act()
    assert visits.totals_by_block() == before
    assert other.records()[0]["status"] == "reserved"
    added = visits.add(rho=0.01)  # no reservation: it was made
    with pytest.warns(UserWarning, match="is no reservation"):
        Reservation(visits, added).give_back()
    assert visits.entries == 2
    assert Ledger(place).verify().ok


def test_blocks_need_a_statement_and_add_remove(place):
    plain = Ledger(place).create("plain", LIMIT)
    with pytest.raises(ValueError, match="unit_in_one_block"):
        plain.add_block("2026-01")
    with pytest.raises(ValueError, match="not divided"):
        plain.in_blocks("2026-01")
    with pytest.raises(ValueError, match="leave its block"):
        Ledger(place).create("x", Budget(1.0, 1e-6, "replace_one"), unit_in_one_block=True)


def test_person_level_limits(place):
    ledger = Ledger(place)
    refused = ledger.create("a", LIMIT, unit="patient")
    with pytest.raises(PrivacyError, match="rows_per_unit=k"):
        charge(refused)
    counted = ledger.create("b", LIMIT, unit="patient", rows_per_unit=3)
    charge(counted)
    (record,) = counted.records()
    assert record["steps"] == 3
    assert record["total"] == pytest.approx(9 * FIT.to_gdp().mu ** 2)
    assert counted.fits_left(FIT) == 1
    most = Budget(counted.remaining, 1e-6, "add_remove")
    assert counted.affords(most)
    charge(counted, most)
    replaced = ledger.create("c", Budget(3.0, 1e-6, "replace_one"))
    charge(replaced)
    assert replaced.records()[0]["steps"] == 2
    with pytest.raises(PrivacyError, match="add_remove"):
        charge(ledger.create("d", LIMIT), Budget(0.5, 1e-6, "replace_one"))
    with pytest.raises(ValueError, match="rows_per_unit"):
        ledger.create("e", LIMIT, rows_per_unit=3)
    assert ledger.verify().ok


def test_releases_made_elsewhere(visits):
    assert visits.add(gaussian=2.0, sensitivity=0.5) > 0
    assert visits.records()[-1]["total"] == pytest.approx(1 / 16)
    visits.add(laplace=4.0, times=2)
    assert visits.records()[-1]["total"] == 0.5
    visits.add(rho=0.01)
    visits.add(epsilon=0.1, delta=1e-9)
    event = ComposedDpEvent([GaussianDpEvent(10.0), SelfComposedDpEvent(GaussianDpEvent(20.0), 4)])
    visits.add(event=event)
    assert visits.records()[-1]["measure"] == "gdp"
    assert visits.records()[-1]["total"] == pytest.approx(1 / 100 + 4 / 400)
    visits.add(event=ComposedDpEvent([ZCDpEvent(0.01), LaplaceDpEvent(10.0)]))
    assert visits.records()[-1]["total"] == pytest.approx(0.01 + 0.1 * math.tanh(0.05))
    with pytest.raises(ValueError, match="give the delta"):
        visits.add(event=ZCDpEvent(0.01, xi=0.5))  # ξ is no part of ρ
    sampled = SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(2.0)), 100)
    with pytest.raises(ValueError, match="give the delta"):
        visits.add(event=sampled)
    visits.add(event=sampled, delta=1e-9)
    assert visits.records()[-1]["measure"] == "approximate"
    for wrong in ({}, {"rho": 1.0, "epsilon": 1.0}, {"gaussian": 0.0}):
        with pytest.raises(ValueError, match=r"exactly one|gaussian"):
            visits.add(**wrong)
    assert visits.entries == 7


SAMPLED = SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(2.0)), 100)


@pytest.mark.parametrize("planned", [False, True])
def test_a_sampled_event_is_known_under_add_remove_only(place, planned):
    """dp-accounting evaluates it for one row more; two such steps bound one row replaced."""
    limit = Budget(8.0, 1e-4, "replace_one")
    visits = Ledger(place).create("visits", limit)
    for settings in ({}, {"relation": "replace_one"}):
        with pytest.raises(PrivacyError, match=r"add_remove.*Nothing was charged") as refused:
            visits.add(event=SAMPLED, delta=1e-6, planned=planned, **settings)
        assert "relation='add_remove'" in str(refused.value)
    with pytest.raises(PrivacyError, match="add_remove"):
        visits.add(event=ComposedDpEvent([GaussianDpEvent(9.0), SAMPLED]), delta=1e-6)
    assert visits.entries == 0
    assert len(Ledger(place).events()) == 1
    visits.add(event=SAMPLED, delta=1e-6, planned=planned, relation="add_remove")
    visits.add(event=GaussianDpEvent(9.0))  # noise relative to what one replaced row changes
    sampled, plain = visits.records()
    assert (sampled["steps"], plain["steps"]) == (2, 1)
    alone = Ledger().create("rows").add
    assert alone(event=SAMPLED, delta=1e-6) > 0
    charged = visits.totals_by_block()[""]
    assert charged.approximate == 2 * Fraction(sampled["epsilon"])
    assert float(charged.delta) == pytest.approx(1e-6 * (1 + math.exp(sampled["epsilon"])))


def test_an_event_that_cannot_be_evaluated_is_refused(visits):
    for event in (ZCDpEvent(0.01, xi=0.5), PoissonSampledDpEvent(0.1, ZCDpEvent(0.01))):
        with pytest.raises(ValueError, match=r"cannot evaluate .* ε and δ instead"):
            visits.add(event=event, delta=1e-9)
    assert visits.entries == 0


def test_after_a_release_known_by_epsilon_and_delta_only_fits_go_on(place, visits):
    charge(visits, Budget(0.5, 1e-8, "add_remove"), "approximate")
    assert visits.spent == 0.5
    assert 2.0 < visits.remaining < 2.5
    charge(visits, Budget(1.0, 1e-6, "add_remove"), "gdp")
    assert visits.records()[-1]["measure"] == "gdp"
    assert 1.5 < visits.spent < 1.501  # δ = 1e-8 is taken, so the fit is evaluated at a little less
    assert Ledger(place).verify().ok


def test_after_a_large_release_known_by_epsilon_and_delta_fits_go_on_by_sums(place, visits):
    charge(visits, Budget(1.6, 1e-7, "add_remove"), "approximate")
    known = visits.summary()
    assert known["remaining"] == 0  # at the limit's δ
    assert known["at_smaller_delta"] == {"epsilon": 1.4, "delta": 1e-8}
    assert repr(visits).endswith("up to ε = 1.4 at δ = 1e-08, and none at δ = 1e-06")
    small = Budget(0.7, 1e-8, "add_remove")
    assert visits.fits_left(small) == 2
    charge(visits, small, "gdp")
    assert visits.records()[-1]["measure"] == "approximate"
    assert visits.spent == pytest.approx(2.3)
    assert visits.preview(small)["spent"] == pytest.approx(3.0)
    charge(visits, small, "zcdp")
    with pytest.raises(BudgetExceeded):
        charge(visits, Budget(1e-3, 1e-8, "add_remove"), "gdp")
    assert repr(visits).endswith("no other fit is possible")
    assert Ledger(place).verify().ok


def test_a_loss_is_entered_as_epsilon_and_delta_only_if_it_implies_them():
    budget = Budget(1.0, 1e-6, "add_remove")
    loss = PrivacyCost.of(budget, "gdp")
    assert loss.forms(budget, 1) == (loss, PrivacyCost.of(budget, "approximate"))
    more = PrivacyCost("gdp", loss.total * Fraction(1001, 1000))
    assert more.forms(budget, 1) == (more,)
    assert loss.forms(budget, 2) == (loss.grouped(2),)
    pure = Budget(1.0, 0.0, "add_remove")
    assert PrivacyCost.of(pure, "pure").forms(pure, 1) == (PrivacyCost.of(pure, "pure"),)


def test_a_first_release_that_takes_too_much_delta_is_the_last(visits):
    with pytest.warns(UserWarning, match="δ = 1.25e-07 is set aside .* nothing can follow"):
        charge(visits, Budget(1.0, 1e-6, "add_remove"), "approximate")
    assert visits.remaining == 0
    assert "took δ = 1e-06, and 1.25e-07 is set aside for them" in repr(visits)


def test_what_was_released_is_entered_beyond_the_limit(place, visits):
    with pytest.raises(BudgetExceeded):
        visits.add(gaussian=0.1, planned=True)
    visits.add(gaussian=0.1)
    assert visits.spent > 3.0
    assert visits.remaining == 0
    with pytest.raises(BudgetExceeded, match="Nothing of that kind"):
        charge(visits, Budget(1e-3, 1e-6, "add_remove"))
    assert Ledger(place).verify().ok


def test_a_moved_ledger_takes_no_more_entries(place, visits, tmp_path):
    charge(visits)
    there = Ledger(place).move_to(tmp_path / "new.sqlite")
    assert there.open("visits").entries == 1
    with pytest.raises(LedgerError, match="was moved to"):
        charge(visits)
    charge(there.open("visits"))
    assert there.verify().ok
    assert Ledger(place).verify().ok
    with pytest.raises(ValueError, match="itself"):
        there.move_to(tmp_path / "new.sqlite")
    Ledger(tmp_path / "other.sqlite").create("x")
    with pytest.raises(LedgerError, match="in use"):
        there.move_to(tmp_path / "other.sqlite")
    charge(there.open("visits"))


def test_display(place, visits):
    charge(visits)
    assert "1 release, ε = 0.5" in repr(visits)
    assert "of ε = 3 at δ = 1e-06 (per row, add_remove)" in repr(visits)
    html = visits._repr_html_()
    assert 'aria-label="17 % of the limit spent"' in html
    Ledger(place).create("<script>")
    html = Ledger(place).open("<script>")._repr_html_()
    assert "<script>" not in html
    assert "no limit" in html
    json.dumps(visits.summary(), allow_nan=False)


def test_a_fit_and_an_evaluation_cost_no_more_than_their_sum(place, visits):
    charge(visits, Budget(1.0, 1e-6, "add_remove"), "gdp")
    charge(visits, Budget(0.5, 0.0, "add_remove"), "pure")
    assert 1.4 < visits.spent <= 1.5
    assert visits.remaining > 1.65
    charge(visits, Budget(visits.remaining, 1e-6, "add_remove"), "gdp")
    assert visits.spent <= 3.0
    assert Ledger(place).verify().ok


def test_a_limit_of_none_only_counts(place):
    rows = Ledger(place).create("rows")
    for _ in range(3):
        charge(rows, Budget(50.0, 1e-6, "add_remove"))
    assert rows.epsilon(1e-6) > 50
    for ask in (lambda: rows.spent, lambda: rows.remaining, lambda: rows.affords(FIT)):
        with pytest.raises(ValueError, match="no limit"):
            ask()


def test_events_are_exported(visits, place):
    charge(visits)
    first, second = Ledger(place).events()
    assert first["kind"] == "create"
    assert second["previous"] == first["hash"]
    assert second["details"] == {}


def test_signed_entries(place, tmp_path):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    raw = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (tmp_path / "key.pem").write_bytes(key.private_bytes(*raw, serialization.NoEncryption()))
    public = key.public_key().public_bytes_raw().hex()
    signed = Ledger(place, signing_key=tmp_path / "key.pem")
    charge(pickle.loads(pickle.dumps(signed.create("visits", LIMIT))))
    found = signed.verify([public])
    assert found.ok
    assert found.signed == 2
    assert not signed.verify(["00" * 32]).ok
    charge(Ledger(place).open("visits"))
    assert signed.verify().ok
    unsigned = signed.verify([public])
    assert (unsigned.ok, unsigned.first_bad) == (False, 3)


def test_a_warning_free_fit(visits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(visits, delta=1e-6).fit(X, Y)


def test_tuning_is_charged_once_before_the_first_run(binary):
    from discreet.tuning import tune

    visits = Ledger().create("visits", LIMIT, gaussian_share=0.0)
    estimator = LogisticRegression(
        epsilon=1.0, delta=1e-7, solver="gd", data_norm=1.0, classes=["no", "yes"]
    )
    grid = [{"solver": GD(iterations=2, step_size=s)} for s in (1.0, 3.0)]
    tune(estimator, *binary, grid=grid, ledger=visits)
    (record,) = visits.records()
    assert (record["status"], record["solver"]) == ("confirmed", "tuning")
    assert (record["measure"], record["delta"]) == ("approximate", 1e-7)
    small = Ledger().create("small", Budget(0.5, 1e-6, "add_remove"), gaussian_share=0.0)
    with pytest.raises(BudgetExceeded):
        tune(estimator, *binary, grid=grid, ledger=small)
    assert small.entries == 0
    with pytest.raises(ValueError, match="ledger must be"):
        tune(estimator, *binary, grid=grid, ledger=3)


def test_an_audit_charges_the_ledger_of_its_estimator():
    from discreet.audit import audit_one_run

    visits = Ledger().create("visits")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3))
    audit_one_run(
        model(visits, fit_intercept=False), rows, (rows[:, 0] > 0).astype(int), canaries=20, seed=0
    )
    assert visits.entries == 1


def test_the_card_shows_the_history(visits, tmp_path):
    from discreet.card import card

    first = model(visits).fit(X, Y)
    model(visits).fit(X, Y)
    text = str(card(first))
    assert "So far: all" in text
    assert f"entry {first.ledger_entry_} of" in text
    assert "So far: all 2 releases of the data set" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["Limit", "of", "the", "data", "set", "3", "1e-06"] in lines
    save(first, tmp_path / "m.json")
    loaded = load(tmp_path / "m.json")
    assert "So far" not in str(card(loaded))
    (record, _) = visits.records()
    assert "entry 2 of" in str(card(loaded, ledger=visits, sha256=record["model"]))
    assert "not found in the ledger" in str(card(loaded, ledger=visits))
    counted = Ledger().create("rows")
    assert "Limit" not in str(card(model(counted).fit(X, Y)).sections[4])


def test_a_preparation_before_a_solver_with_its_own_delta(binary):
    from discreet import Centre

    visits = Ledger().create("visits", Budget(3.0, 1e-5, "add_remove"), gaussian_share=0.0)
    estimator = LogisticRegression(
        epsilon=1.0,
        delta=1e-6,
        solver="sgd",
        data_norm=1.0,
        classes=["no", "yes"],
        preparation=[Centre()],
        ledger=visits,
    )
    estimator.fit(*binary)
    (record,) = visits.records()
    assert (record["measure"], record["total"]) == ("approximate", 1.0)
    assert visits.totals_by_block()[""].delta == Fraction(1e-6)
    with pytest.raises(BudgetExceeded, match="δ of its own"):
        estimator.set_params(epsilon=0.1, delta=9e-6).fit(*binary)
    with pytest.raises(BudgetExceeded, match="that still fits, at the same δ, is 2"):
        estimator.set_params(epsilon=5.0, delta=1e-7).fit(*binary)
    assert visits.entries == 1
