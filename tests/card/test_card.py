import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from discreet import card as cards
from discreet.card.risk import percent
from discreet.card.sections import STEPS
from discreet.core import Gaussian, Guarantee, Relation
from discreet.estimators import LogisticRegression
from discreet.guarantee_file import Use
from discreet.inference.measure import Inference
from discreet.preparation import FeatureMap, Splines
from discreet.preparation.balance import Balance
from discreet.preparation.steps import STEPS as PREPARED
from discreet.solvers import AGD
from discreet.tables.columns import Boolean, Categorical, Ignored, Numeric
from discreet.tables.schema import About, Schema, Spent, Target

NASTY = '<script>alert("1")</script> & | `x` *y* [z](w) \x1b[31m\u202e'


@pytest.fixture
def guarantee():
    return Guarantee(
        epsilon=1.0,
        delta=1e-6,
        relation=Relation.ADD_REMOVE,
        measure="zcdp",
        rho=0.02,
        mu=None,
        conditions=("gradients are clipped to 3",),
        public=("the number of rows",),
        secure=True,
        mechanisms=(Use(Gaussian(10.0), 3), Use(Gaussian(20.0), 2)),
        earlier_fits=2,
        split=(("centre", 0.1), ("model", 0.9)),
    )


@pytest.fixture
def schema():
    return Schema(
        columns={
            "age": Numeric(0, 120),
            "income": Numeric(None, None, scale="log"),
            "job": Categorical(tuple(f"job {k}" for k in range(40))),
            "smoker": Boolean(missing=True),
            "key": Ignored("a name"),
            NASTY: Numeric(0, 1),
        },
        target=Target("ill", classes=["no", "yes"]),
        spent=Spent(0.25, 1e-7, "add_remove", ("bounds of age",)),
    )


@pytest.fixture
def model():
    fitted = LogisticRegression(solver=AGD(splits=40), data_norm=2.0, random_state=0)
    fitted.classes_, fitted.n_features_in_ = np.array(["no", "yes"]), 47
    fitted.coef_ = np.full((1, 47), 0.123456789)
    return fitted


WRITERS = [cards.text, cards.markdown, cards.html]


def words(written):
    """Return a card's words without markup, escapes and line breaks."""
    plain = re.sub(r"<style>.*?</style>|<[^>]+>", " ", written, flags=re.DOTALL)
    plain = plain.replace("&nbsp;", " ").replace("\\", "").replace("|", " ")
    return re.sub(r"\s+", " ", plain)


@pytest.mark.parametrize("writer", WRITERS)
def test_everything_is_on_it(writer, guarantee, schema, model):
    about = {"owner": "Department of Cardiology", "purpose": "to plan beds"}
    told = cards.card(
        replace(guarantee, n_units=12_345),
        model=model,
        schema=replace(schema, about=About("Visits 2024", "somebody else")),
        title="visits",
        date="2026-01-02",
        **about,
    )
    assert told.title == "Privacy card: visits, Visits 2024"
    shown = words(writer(told))
    for expected in (
        "visits",
        "(ε = 1.25, δ = 1.1e-06)-differentially private for one row added or removed",
        "one row of the table",
        "One row is protected, not one person",
        "zCDP",
        "0.02",
        "Means of columns subtracted, so that the model learns differences, not levels 10 %",
        "Weights the model itself 90 %",
        "Number of units 12,345 rows",
        "Owner Department of Cardiology",
        "Purpose to plan beds",
        "Data set Visits 2024",
        "Date of this card 2026-01-02",
        "Strength moderate",
        "approved on conditions",
        "Prepared by",
        "gaussian noise multiplier 10 to 20 5",
        "the number of rows",
        "age numeric 0 to 120",
        "bounds estimated in the fit, within its budget, on a log scale",
        "job 0, job 1, job 2, job 3, job 4, job 5, … (40 in all)",
        "yes or no, may be missing",
        "not used: a name",
        "labels no, yes",
        "exact on a public grid, bits from the operating system",
        "gradients are clipped to 3",
        "Estimating the schema 0.25 1e-07",
        "Together 1.25 1.1e-06",
        "bounds of age",
        "2 fits took place in the same process before",
        "LogisticRegression",
        "agd (splits 40)",
        "discreet 0",
        "wrongly accuses 1 in 1,000 of those",
        "wrongly accuses 1 in 100 of those",
        "wrongly accuses 1 in 20 of those",
    ):
        assert expected in shown, expected
    for item in told.risks:
        assert f"at most {percent(item.true_positive_rate)}" in shown
    assert "NOT PRIVATE" not in shown
    assert "0.1234" not in shown  # no weight
    assert "random state" not in shown


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("relation", Relation)
def test_a_promise_for_people_never_speaks_of_one_row(writer, relation, guarantee):
    shown = words(writer(cards.card(replace(guarantee, unit="person", relation=relation))))
    changed = "added or removed" if relation is Relation.ADD_REMOVE else "replaced by another"
    assert f"one person with all of their rows {changed}" in shown
    assert "What it means for one person" in shown
    assert "any number of rows" in shown
    assert "one row" not in shown.lower()


def test_what_the_schema_spent_is_in_the_risk(guarantee, schema):
    alone = cards.card(guarantee)
    both = cards.card(guarantee, schema=schema)
    assert alone.total is None
    assert both.total == (1.25, pytest.approx(1.1e-6))
    for one, two in zip(alone.risks, both.risks, strict=True):
        assert two.true_positive_rate > one.true_positive_rate


def test_promises_under_different_relations_are_not_added_up(guarantee, schema):
    told = cards.card(replace(guarantee, relation=Relation.REPLACE_ONE), schema=schema)
    assert told.total is None
    assert "cannot be added up" in words(cards.text(told))
    assert "Together" not in cards.text(told)


def test_promises_for_different_units_are_not_added_up(guarantee, schema):
    people = replace(guarantee, unit="person")
    assert cards.card(people, schema=schema).total is None
    drafted = replace(schema, spent=replace(schema.spent, unit="id"), unit="id")
    assert cards.card(guarantee, schema=drafted).total is None
    both = cards.card(people, schema=drafted)
    assert both.total == (1.25, pytest.approx(1.1e-6))
    assert "whose row a row is; never a feature" in words(cards.text(both))
    told = cards.card(guarantee, schema=drafted).summary
    assert "for one person with all of their rows added or removed" in told


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    ("changes", "banner"),
    [
        ({"secure": False}, "TEST MODE, NOT PRIVATE"),
        ({"epsilon": float("inf"), "measure": None, "rho": None}, "NOT PRIVATE: computed on"),
    ],
)
def test_what_is_not_private_says_so_loudly(writer, changes, banner, guarantee, schema):
    told = cards.card(replace(guarantee, **changes), schema=schema)
    shown = words(writer(told))
    assert banner in shown
    assert shown.index(banner) < shown.index("What is promised")
    assert "at most" not in shown
    assert "an attacker may be right about everybody" in shown
    assert all(item.true_positive_rate == 1 for item in told.risks)


class Outline(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in ("meta", "circle", "line", "polyline", "polygon"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_well_formed_whole_and_safe(guarantee, schema, model):
    page = cards.html(cards.card(guarantee, model=model, schema=schema, title=NASTY))
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert "script" not in outline.tags
    assert outline.tags.count("h1") == 1
    assert outline.tags.count("svg") == 1
    assert {"main", "section", "h2", "title", "desc", "figcaption"} <= set(outline.tags)
    assert '<script>alert("1")</script>' in "".join(outline.text)  # shown, not run
    loading = {"src", "href", "srcset", "action", "data", "poster"}
    assert not [pair for pair in outline.attributes if loading & set(pair[1])]
    assert not re.search(r"https?:|url\(|@import|\son\w+=", page)
    identifiers = [found["id"] for _, found in outline.attributes if "id" in found]
    assert len(set(identifiers)) == len(identifiers)
    svg = dict(next(found for tag, found in outline.attributes if tag == "svg"))
    assert set(svg["aria-labelledby"].split()) <= set(identifiers)


def contrast(first, second):
    def luminance(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_told_apart_in_light_dark_and_print(guarantee):
    page = cards.html(cards.card(guarantee))
    palettes = re.findall(r":root \{([^}]*)\}", page)
    assert len(palettes) == 3
    for palette in palettes:
        colours = {
            name: found if len(found) == 7 else "#" + "".join(2 * c for c in found[1:])
            for name, found in re.findall(r"--([\w-]+): (#(?:\w{6}|\w{3}));", palette)
        }
        for name in ("ink", "soft", "bound"):
            assert contrast(colours[name], colours["paper"]) >= 4.5, name
        assert contrast(colours["alarm"], colours["alarm-paper"]) >= 4.5


def test_text_shows_no_control_characters(guarantee, schema):
    written = cards.text(cards.card(guarantee, schema=schema, title=NASTY))
    assert all(character.isprintable() or character == "\n" for character in written)
    assert max(map(len, written.splitlines())) <= 100


def test_markdown_is_inert(guarantee, schema):
    written = cards.markdown(
        cards.card(guarantee, schema=schema, title=f"{NASTY} http://a.example")
    )
    assert "<" not in written
    assert "[z](w)" not in written
    assert "http:" not in written
    for line in written.splitlines():
        if line.startswith("| ") and "alert" in line:
            assert len(re.findall(r"(?<!\\)\|", line)) in (3, 4)  # two or three cells


def test_features_are_on_it(guarantee, model):
    splines = Splines([3, 5], [0.0, 0.0], [1.0, 1.0], [5, 5], [3, 3])
    model.features_ = FeatureMap(expansion=splines)
    written = words(cards.text(cards.card(guarantee, model=model)))
    assert "Features splines: 16 of 2 columns" in written


def test_a_wide_schema_is_cut_short(guarantee):
    many = Schema(columns={f"c{k}": Numeric(0, 1) for k in range(500)})
    written = cards.text(cards.card(guarantee, schema=many))
    assert "and 440 more columns" in written
    assert "c499" not in written


def test_it_is_plain_data(guarantee, schema, model):
    told = cards.card(guarantee, model=model, schema=schema)
    data = json.loads(json.dumps(told.to_dict(), allow_nan=False))
    assert data["guarantee"] == guarantee.to_dict()
    assert [item["false_positive_rate"] for item in data["risks"]] == [0.001, 0.01, 0.05]
    assert data["total"] == {"epsilon": 1.25, "delta": pytest.approx(1.1e-6)}
    assert str(told) == cards.text(told)
    assert told._repr_html_().startswith("<iframe")


def test_gaussian_and_pure_promises(guarantee):
    gaussian = replace(guarantee, measure="gdp", rho=None, mu=0.2)
    assert "Total μ" in cards.text(cards.card(gaussian))
    assert "μ² of Gaussian DP, which adds up: 0.04 in total" in words(
        cards.text(cards.card(gaussian))
    )
    pure = replace(guarantee, measure="pure", rho=None, delta=0.0, split=())
    assert "(ε = 1, pure)" in cards.text(cards.card(pure))
    assert "the whole budget was spent on the model" in cards.text(cards.card(pure))


# -- fitted models and pipelines


DRAFTED = Schema(
    columns={"age": Numeric(0, 100), "income": Numeric(0, 9)},
    target=Target("ill", classes=["no", "yes"]),
    spent=Spent(0.5, 1e-7, "add_remove", ("bounds of age",)),
)


@pytest.fixture
def fitted(guarantee, model):
    model.guarantee_ = guarantee
    return Pipeline([("table", DRAFTED.transformer()), ("model", model)])


def total_of(told):
    return pytest.approx((1.5, 1.1e-6)) == told.total and "(ε = 1.5, δ = 1.1e-06)" in told.summary


def test_the_budget_of_a_drafted_schema_is_always_counted(fitted, guarantee):
    """However the card is asked for, it states ε = 1 + 0.5, and the schema counts once."""
    for told in (
        cards.card(fitted),
        cards.card(guarantee, model=fitted),
        cards.card(fitted[-1], schema=DRAFTED),
        cards.card(fitted, schema=DRAFTED),
        cards.card(guarantee, model=fitted, schema=DRAFTED),
        cards.card(guarantee, schema=DRAFTED),
    ):
        assert total_of(told), told.summary
        assert "Estimating the schema 0.5 1e-07" in words(cards.text(told))


def test_schemas_of_nested_steps_are_counted(fitted, guarantee):
    nested = make_pipeline(FunctionTransformer(), fitted)
    assert total_of(cards.card(nested))
    columns = ColumnTransformer([("table", DRAFTED.transformer(), ["age", "income"])])
    columns.transformers_ = columns.transformers
    assert total_of(cards.card(Pipeline([("columns", columns), ("model", fitted[-1])])))


def test_two_drafted_schemas_are_both_counted(fitted):
    other = replace(DRAFTED, spent=Spent(0.25, 0.0, "add_remove"))
    told = cards.card(fitted, schema=other)
    assert told.total == pytest.approx((1.75, 1.1e-6))


def test_a_schema_under_another_relation_is_in_the_summary(fitted, guarantee):
    fitted[-1].guarantee_ = replace(guarantee, relation=Relation.REPLACE_ONE)
    told = cards.card(fitted)
    assert told.total is None
    assert "(ε = 1, δ = 1e-06)-differentially private for one row replaced" in told.summary
    assert "Estimating the schema cost more" in told.summary
    assert "(ε = 0.5, δ = 1e-07) for one row added or removed" in told.summary


def test_an_insecure_draft_makes_the_card_insecure(fitted):
    seeded = replace(DRAFTED, spent=replace(DRAFTED.spent, secure=False))
    pipeline = Pipeline([("table", seeded.transformer()), ("model", fitted[-1])])
    assert cards.card(pipeline).banner.startswith("TEST MODE, NOT PRIVATE")


def test_a_pipeline_is_described_by_its_last_step(guarantee, model):
    pipeline = Pipeline([("table", FunctionTransformer()), ("model", model)])
    assert cards.card(guarantee, model=pipeline) == cards.card(guarantee, model=model)


@pytest.mark.parametrize(
    "subject",
    [
        LogisticRegression(),
        Pipeline([("model", LogisticRegression())]),
        GridSearchCV(LogisticRegression(), {"alpha": [0.1]}),
        None,
    ],
)
def test_what_has_no_guarantee_has_no_card(subject):
    with pytest.raises(ValueError, match="Fit it first"):
        cards.card(subject)


def test_the_unit_of_the_guarantee_is_a_row(guarantee):
    told = words(cards.text(cards.card(guarantee)))
    assert "What it means for one row" in told
    assert "Protected unit one row of the table" in told
    assert "One row is protected, not one person with several" in told


def test_steps_of_one_kind_are_added_up_and_explained(guarantee):
    split = (("centre", 0.03), ("scale", 0.02), ("centre", 0.01), ("model", 0.94))
    told = words(cards.markdown(cards.card(replace(guarantee, split=split))))
    assert told.count("Means of columns") == 1
    assert "Means of columns (2 times) subtracted" in told
    assert "levels 4 %" in told
    assert "others 2 %" in told


def test_the_page_needs_jinja_and_says_so(guarantee, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match="pip install jinja2"):
        cards.html(cards.card(guarantee))


# -- warnings


def warnings_of(guarantee, **settings):
    return " ".join(cards.card(guarantee, **settings).warnings)


@pytest.mark.parametrize("unit", ["row", "person"])
def test_a_delta_above_one_over_n_is_on_the_card(guarantee, unit):
    small = replace(guarantee, n_units=999_999, unit=unit)
    assert "1/n" not in warnings_of(small)
    assert "δ = 1e-06 is not below 1/n" in warnings_of(replace(small, n_units=1_000_000))
    assert "1/n" not in warnings_of(replace(guarantee, n_units=None))


def test_a_delta_is_judged_with_that_of_the_schema(guarantee, schema):
    assert "1/n" not in warnings_of(replace(guarantee, n_units=950_000))
    assert "1/n" in warnings_of(replace(guarantee, n_units=950_000), schema=schema)


def test_an_epsilon_above_ten_is_on_the_card_with_its_meaning(guarantee):
    assert "above 10" not in warnings_of(replace(guarantee, epsilon=10.0))
    large = replace(guarantee, epsilon=11.0)
    assert "ε = 11 is above 10: the data of one row" in warnings_of(large)
    assert "59,874 times as likely" in warnings_of(large)
    assert "weak" in cards.text(cards.card(large))
    assert "e^500 times" in warnings_of(replace(guarantee, epsilon=500.0))


def test_labels_that_were_taken_from_the_data_are_on_the_card(guarantee, model):
    assert "labels were taken from the data" in warnings_of(guarantee, model=model)
    assert "labels" not in warnings_of(guarantee, model=model.set_params(classes=["no", "yes"]))


def test_a_fit_that_no_ledger_counts_is_pointed_out(guarantee):
    assert "No ledger counted this fit" in warnings_of(guarantee)
    assert cards.card(guarantee).to_dict()["warnings"]


def test_a_baseline_has_a_banner_and_no_warnings(guarantee):
    assert warnings_of(replace(guarantee, epsilon=float("inf"), measure=None)) == ""


def test_the_card_has_words_for_every_part_of_a_budget():
    parts = {*PREPARED, Balance.name, Inference.name, "model", "score"}
    assert parts - set(STEPS) == set()
