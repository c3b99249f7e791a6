"""The first page of a card: true for each kind of guarantee, and before every detail."""

import math

import pytest

from discreet import Budget, Ledger, LogisticRegression
from discreet.card import card, html, text
from discreet.card.risk import STATED_RATE, attack_success, percent
from discreet.core import Account
from discreet.datasets import load_visits
from discreet.tables import Numeric, Schema, Target

FIRST = ["facts", "plain", "warnings", "checks", "sign-off", "appendix"]


def answers(made):
    [section] = [each for each in made.sections if each.name == "plain"]
    return dict(section.blocks[0].rows)


def guarantee(epsilon=1.0, delta=1e-6, relation="add_remove", unit="row", measure="gdp"):
    account = Account(Budget(epsilon, delta, relation), unit=unit)
    account.open(measure)
    return account.guarantee(secure=True)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("unit", ["row", "person"])
def test_the_promise_is_e_to_epsilon_for_the_unit(epsilon, unit):
    found = answers(card(guarantee(epsilon, unit=unit)))
    factor = float(found["What is promised?"].split("at most ")[1].split(" times")[0])
    assert math.exp(epsilon) <= factor <= math.exp(epsilon) + 0.1
    assert ("all of their rows" in found["To whom?"]) == (unit == "person")
    assert ("several rows is protected less" in found["To whom?"]) == (unit == "row")


def test_the_gain_is_the_bound_that_is_stated_everywhere():
    stated = guarantee(1.0)
    gain = answers(card(stated))["What does an attacker gain?"]
    assert "1 in 20" in gain
    assert percent(attack_success(stated, STATED_RATE)) in gain


def test_replaced_rows_are_not_left_out():
    found = answers(card(guarantee(relation="replace_one")))
    assert "replaced by another" in found["What is promised?"]


def test_nothing_is_promised_where_nothing_holds():
    account = Account(Budget(1.0, 1e-6, "add_remove"))
    account.open("gdp")
    for made in (card(account.guarantee(secure=False)),):
        found = answers(made)
        assert found["What is promised?"] == "Nothing."
        assert found["To whom?"] == "To nobody."
        assert "catches at most" not in found["What does an attacker gain?"]
    assert "Little" in answers(card(guarantee(20.0)))["What is promised?"]


def test_what_was_not_covered_is_on_the_first_page():
    visits = load_visits(400)
    X, y = visits[["age", "days"]], visits["readmitted"].astype(str)
    with pytest.warns(UserWarning, match="classes"):
        model = LogisticRegression(1.0).fit(X, y)
    found = answers(card(model))
    assert "Nothing that the software saw" not in found["What did the budget not cover?"]
    declared = LogisticRegression(1.0, classes=["no", "yes"]).fit(X, y)
    found = answers(card(declared))
    assert "Nothing that the software saw" in found["What did the budget not cover?"]


def test_the_ledger_says_what_was_spent_and_is_left():
    visits = Ledger().create("visits", Budget(3.0, 1e-5, "add_remove"))
    X, y = load_visits(400)[["age", "days"]], load_visits(400)["readmitted"]
    model = LogisticRegression(1.0, 1e-6, ledger=visits).fit(X, y)
    said = answers(card(model))["What was spent, and what is left?"]
    assert "This model: (ε = 1, δ = 1e-06)." in said
    assert f"All 1 releases of the data set: ε = {visits.spent:.4g} of 3." in said
    assert f"at most ε = {visits.remaining:.4g}" in said
    assert "No ledger" in answers(card(model.guarantee_))["What was spent, and what is left?"]


def test_boxes_depend_on_the_unit_and_the_schema():
    def boxes(stated, schema=None):
        [section] = [s for s in card(stated, schema=schema).sections if s.name == "checks"]
        return section.blocks[1].items

    by_row = boxes(guarantee())
    assert by_row[0].startswith("☐ Each person has one row")
    columns = {"age": Numeric(18, 100)}
    schema = Schema(columns, Target("readmitted", ["no", "yes"]), unit="patient")
    by_person = boxes(guarantee(unit="person"), schema)
    assert "'patient'" in by_person[0]
    assert len(by_row) == len(by_person) == 5


def test_the_first_page_comes_first_and_the_appendix_on_a_new_one():
    made = card(guarantee())
    names = [section.name for section in made.sections]
    assert names[: len(FIRST)] == FIRST
    assert {"promise", "risk", "conditions", "run"} <= set(names[len(FIRST) :])
    page = html(made)
    assert ".appendix { break-before: page" in page
    written = text(made)
    assert written.index("In plain words") < written.index("☐") < written.index("Appendix")
