"""Documents made of a card: a registry record that validates, and a self-assessment."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml

from discreet import card as cards
from discreet.card import documents
from discreet.core import Gaussian, Guarantee, Laplace, Relation
from discreet.estimators import LogisticRegression
from discreet.guarantee_file import Use
from discreet.tables.columns import Categorical, Numeric
from discreet.tables.schema import About, Schema, Spent, Target

SCHEMA = yaml.safe_load(Path(__file__).with_name("registry-schema.yaml").read_text("utf-8"))
ANSWERS = {
    "data_product_region": "Scotland: its hospitals",
    "data_product_sector": "Healthcare",
    "data_source_type": "Static",
    "actors": 'The "data office" fits; # everybody may read the model',
    "justification": "as in the policy",
    "registry_authors": "A. Author",
    "sources": "https://example.org/a-report",
}


@pytest.fixture
def guarantee():
    return Guarantee(
        epsilon=1.0,
        delta=1e-6,
        relation=Relation.ADD_REMOVE,
        measure="zcdp",
        rho=0.01,
        mu=None,
        conditions=("gradients are clipped to 3: always",),
        public=("the number of people",),
        secure=True,
        mechanisms=(Use(Gaussian(10.0), 2),),
        split=(("centre", 0.1), ("model", 0.9)),
        unit="person",
        n_units=5000,
    )


@pytest.fixture
def made(guarantee):
    schema = Schema(
        {"age: in years": Numeric(0, 120), "job": Categorical(("- a", "#b", "'c\"", "yes"))},
        target=Target("ill", classes=["no", "yes"]),
        unit="id",
        about=About("Visits", "Data office", "to plan beds"),
        spent=Spent(0.5, 1e-7, "add_remove", unit="id"),
    )
    model = LogisticRegression(classes=["no", "yes"])
    return cards.card(guarantee, model=model, schema=schema, title="Readmission risk")


def validate(text):
    data = yaml.safe_load(text)
    checker = jsonschema.FormatChecker()
    jsonschema.Draft202012Validator(SCHEMA, format_checker=checker).validate(data)
    return data


def test_an_answered_record_validates_and_says_what_the_card_says(made):
    record = documents.record(made, ANSWERS)
    data = validate(documents.yaml_text(record, "A draft."))
    assert data["url_slug"] == "readmission-risk"
    assert (data["status"], data["tier"]) == ("Draft", 3)
    basic = data["deployment"]["basic"]
    assert basic["data_curators"] == ["Data office"]
    assert basic["intended_use"] == "to plan beds"
    assert basic["description"].endswith("of Visits, fitted to 5,000 people.")
    loss = data["deployment"]["privacy_loss"]
    assert loss["privacy_unit"] == "one person with all of their rows"
    assert loss["privacy_parameters"] == {
        "epsilon": 1.5, "delta": pytest.approx(1.1e-6), "rho": 0.01,
    }  # fmt: skip
    assert data["deployment"]["deployment_model"]["actors"] == ANSWERS["actors"]
    assert "age: in years" in data["deployment"]["dp_variant"]["data_domain"]
    assert "gradients are clipped" in data["deployment"]["implementation"]["mechanisms"]
    assert documents.OPEN not in documents.yaml_text(record)


def test_yaml_says_what_the_record_says(made):
    record = documents.record(made, ANSWERS)
    assert yaml.safe_load(documents.yaml_text(record)) == record


def test_an_open_record_validates_and_marks_what_is_open(guarantee):
    data = validate(documents.yaml_text(documents.record(cards.card(guarantee))))
    assert data["tier"] == 2
    found = data["deployment"]["privacy_loss"]["privacy_parameters"]
    assert found == {"epsilon": 1.0, "delta": 1e-6, "rho": 0.01}  # 1e-06 would be read as a text
    basic = data["deployment"]["basic"]
    for field in ("name", "intended_use", "data_product_region"):
        assert basic[field].startswith("FILL IN: ")
    assert basic["data_curators"][0].startswith("FILL IN: ")
    assert "data_product_sector" not in basic  # the schema has a list, without a place to be open


def test_every_question_is_a_field_of_the_schema():
    parts = SCHEMA["properties"]["deployment"]["properties"].values()
    fields = {name: field for part in parts for name, field in part["properties"].items()}
    assert set(documents.QUESTIONS) <= set(fields)
    for name, question in documents.QUESTIONS.items():
        assert list(question.choices) == fields[name].get("enum", []), name
    basic = SCHEMA["properties"]["deployment"]["properties"]["basic"]
    asked = {name for name, question in documents.QUESTIONS.items() if question.required}
    assert {*basic["required"], "registry_authors"} == asked | {"data_product_type"}


def test_pure_promises_have_a_variant_of_their_own(guarantee):
    pure = replace(guarantee, delta=0.0, measure="pure", rho=None, split=())
    data = validate(documents.yaml_text(documents.record(cards.card(pure))))
    assert data["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
    assert data["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 1, "delta": 0}


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"colour": "red"}, "'colour' is not asked for"),
        ({"data_product_sector": "Sports"}, "must be one of Technology, Healthcare"),
        ({"publication_date": "soon"}, "must be YYYY-MM-DD"),
    ],
)
def test_answers_that_the_registry_does_not_know_are_refused(made, answers, message):
    with pytest.raises(ValueError, match=message):
        documents.record(made, answers)


@pytest.mark.parametrize("changes", [{"secure": False}, {"epsilon": float("inf")}])
def test_what_is_not_private_has_no_record(guarantee, changes):
    with pytest.raises(ValueError, match="promises nothing"):
        documents.record(cards.card(replace(guarantee, **changes)))


# -- self-assessment


def status(card):
    sections = documents.assessment(card).sections
    tables = [section.blocks[0] for section in sections if section.name.startswith("nist-")]
    return {question: status for table in tables for question, status, _ in table.rows}


def test_a_good_model_meets_what_a_library_can_meet(made):
    found = status(made)
    assert found["ε is stated and small enough"] == "met"
    assert found["δ is well below 1/n"] == "met"
    assert found["The unit of privacy is a person"] == "met"
    assert found["Noise cannot be predicted"] == "met"
    assert found["Another accountant agrees"] == "met"
    assert found["All releases are added up"] == "not met"  # no ledger
    assert found["Side channels such as time are closed"] == "not met"
    assert found["Access to the rows is controlled"] == "outside our control"


@pytest.mark.parametrize(
    ("changes", "question", "expected"),
    [
        ({"epsilon": 11.0}, "ε is stated and small enough", "not met"),
        ({"n_units": 1_000_000}, "δ is well below 1/n", "not met"),
        ({"n_units": None}, "δ is well below 1/n", "outside our control"),
        ({"unit": "row"}, "The unit of privacy is a person", "outside our control"),
        ({"secure": False}, "Noise cannot be predicted", "not met"),
        ({"secure": False}, "Floating point does not break the promise", "not met"),
        ({"secure": False}, "A promise is made", "not met"),
        ({"secure": False}, "ε is stated and small enough", "not met"),
        ({"epsilon": float("inf"), "measure": None}, "Another accountant agrees", "not met"),
        ({"epsilon": 0.01}, "Another accountant agrees", "not met"),
    ],
)
def test_each_point_can_fail(guarantee, changes, question, expected):
    assert status(cards.card(replace(guarantee, **changes)))[question] == expected


def test_labels_taken_from_the_data_fail(guarantee):
    model = LogisticRegression()
    model.classes_ = np.array([0, 1])
    found = status(cards.card(guarantee, model=model))
    assert found["Nothing was taken from the rows for free"] == "not met"


def test_the_assessment_is_a_document(made, guarantee):
    for writer in (cards.text, cards.markdown, cards.html):
        written = writer(documents.assessment(made))
        assert "Self-assessment along NIST SP 800-226: Readmission risk, Visits" in written
        assert "Decision" in written
    laplace = replace(guarantee, mechanisms=(Use(Laplace(1.0), 1),), measure="pure", rho=None)
    assert "laplace" in cards.text(documents.assessment(cards.card(laplace)))


@pytest.mark.browser
def test_the_longest_card_prints_on_four_pages(guarantee, tmp_path):
    from discreet.cli import describe

    if not any(map(shutil.which, describe._BROWSERS)):
        pytest.skip("no browser to print with")
    long = tuple(f"value number {k} of this column" for k in range(20))
    columns = {
        f"a_rather_long_name_of_a_column_{k}": Categorical(long, missing=True) for k in range(80)
    }
    schema = Schema(
        columns,
        target=Target("ill", classes=["no", "yes"]),
        unit="id",
        about=About("A data set of a long name", "An office of a long name", 3 * "a long purpose "),
        spent=Spent(9.5, 1e-3, "add_remove", (f"categories of {', '.join(columns)}",), unit="id"),
    )
    steps = ("radius", "centre", "spread", "scale", "whiten", "class balance", "model")
    steep = replace(
        guarantee,
        epsilon=11.0,
        earlier_fits=3,
        conditions=tuple(
            f"the columns' second moments were released with noise {k}" for k in range(16)
        ),
        split=tuple((step, 1 / 7) for step in steps),
    )
    model = LogisticRegression()
    model.classes_ = np.array([0, 1])
    made = cards.card(steep, model=model, schema=schema, title="A model of a long name")
    assert len(made.warnings) == 4
    target = tmp_path / "card.pdf"
    describe._print_pdf(cards.html(made), target)
    pages = len(re.findall(rb"/Type\s*/Page\b", target.read_bytes()))
    assert pages <= 4  # one for the decision, and the appendix
