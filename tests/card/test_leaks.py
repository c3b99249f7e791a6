"""Steps that learned from the exact rows are on the card; those that paid are not accused."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)

from discreet import (
    LogisticRegression,
    PrivacyLeakWarning,
    PrivateImputer,
    PrivateScaler,
    load,
    save,
)
from discreet import card as cards
from discreet.card.documents import assessment
from discreet.card.leaks import leaky_steps
from discreet.core import Guarantee
from discreet.statement import GROUPS_LOST

N = 400
RNG = np.random.default_rng(5)
TABLE = pd.DataFrame(
    {
        "age": RNG.uniform(20, 90, N),
        "weight": np.where(RNG.random(N) < 0.1, np.nan, RNG.uniform(40, 120, N)),
        "ward": RNG.choice(["north", "south", "rare"], N),
    }
)
LABELS = (TABLE["age"] > 55).astype(int)
NUMBERS = ["age", "weight"]


def model(**settings):
    return LogisticRegression(1.0, 1e-6, classes=[0, 1], **settings)


def numbers():
    return make_pipeline(SimpleImputer(), StandardScaler())


def everybodys():
    """The pipeline that most people write."""
    return ColumnTransformer(
        [
            ("numbers", numbers(), NUMBERS),
            ("ward", OneHotEncoder(handle_unknown="ignore"), ["ward"]),
        ]
    )


def fit(*steps):
    pipeline = make_pipeline(*steps, model())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return pipeline.fit(TABLE, LABELS)


def only(*names):
    """A step that passes these columns on, which learns nothing."""
    return FunctionTransformer(lambda table: table[list(names)])


PLACES = {
    "pipeline": (lambda: fit(only("age"), StandardScaler()), ["StandardScaler"]),
    "columns": (lambda: fit(everybodys()), ["SimpleImputer", "StandardScaler", "OneHotEncoder"]),
    "nested": (
        lambda: fit(make_pipeline(FunctionTransformer(), everybodys())),
        ["SimpleImputer", "StandardScaler", "OneHotEncoder"],
    ),
    "union": (
        lambda: fit(
            only("age"),
            FeatureUnion([("a", StandardScaler()), ("b", make_pipeline(SimpleImputer()))]),
        ),
        ["StandardScaler", "SimpleImputer"],
    ),
    "remainder": (
        lambda: fit(only("age"), ColumnTransformer([], remainder=StandardScaler())),
        ["StandardScaler"],
    ),
}


@pytest.fixture(scope="module")
def fitted():
    return {name: make() for name, (make, _) in PLACES.items()}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("of", ["pipeline", "model", "guarantee"])
def test_the_card_opens_with_the_steps_outside_the_budget(place, of, fitted):
    pipeline, names = fitted[place], PLACES[place][1]
    last = pipeline[-1]
    made = {
        "pipeline": lambda: cards.card(pipeline),
        "model": last.card,
        "guarantee": lambda: cards.card(last.guarantee_),
    }[of]()
    assert made.banner.startswith("NOT PRIVATE in part: ")
    for name in names:
        assert name in made.banner
        assert (
            f"what {name} learned from the exact rows, outside the budget" in made.guarantee.public
        )
        assert name in made.summary
    text = cards.text(made).split("\n")
    assert text[3] == "!" * 88
    assert text[4].startswith("!! NOT PRIVATE in part")
    assert cards.markdown(made).split("\n")[2].startswith("> **⚠ NOT PRIVATE in part")
    page = cards.html(made)
    assert page.index('class="banner" role="alert">⚠ NOT PRIVATE in part') < page.index("<section")
    assert '<svg class="curve"' in page  # bounds are given, with what they do not cover


@pytest.mark.parametrize("write", [cards.text, cards.markdown, cards.html])
def test_strength_and_bounds_are_qualified(write, fitted):
    made = cards.card(fitted["columns"])
    words = " ".join(write(made).split())
    assert "none for what is outside the budget; for the rest, strong" in words
    assert "These bounds do not hold for what was learned outside the budget" in words
    assert "Fit again with steps that are private" in words
    (point,) = [
        row
        for section in assessment(made).sections
        for block in section.blocks
        for row in getattr(block, "rows", ())
        if row[0] == "Nothing was taken from the rows for free"
    ]
    assert point[1] == "not met"
    assert "OneHotEncoder" in point[2]


def test_the_guarantee_says_it_and_files_keep_it(fitted, tmp_path):
    last = fitted["columns"][-1]
    sentence = (
        "It does not cover what SimpleImputer, StandardScaler and OneHotEncoder learned from the "
        "exact rows, outside the budget."
    )
    save(last, tmp_path / "model.json")
    read = load(tmp_path / "model.json")
    for guarantee in (
        last.guarantee_,
        Guarantee.from_dict(last.guarantee_.to_dict()),
        read.guarantee_,
    ):
        assert sentence in str(guarantee)
        assert "what OneHotEncoder learned from the exact rows" in guarantee.explain()
        assert "#c0392b" in guarantee._repr_html_()  # the colour of an alarm
    assert read.card().banner == last.card().banner


def test_parts_that_were_fitted_one_by_one_are_on_the_card_of_the_pipeline():
    """The fit saw no pipeline, so its guarantee cannot know."""
    scaler = StandardScaler().fit(TABLE[["age"]])
    last = model().fit(scaler.transform(TABLE[["age"]]), LABELS)
    assert not last.card().banner
    made = cards.card(Pipeline([("scaler", scaler), ("model", last)]))
    assert "StandardScaler" in made.banner
    inner = Pipeline([("columns", FunctionTransformer()), ("model", last)])
    assert "StandardScaler" in cards.card(make_pipeline(scaler, inner)).banner


# -- steps that paid, or learned nothing


def private():
    bounds = {"bounds": [(0, 120), (0, 300)]}
    return make_pipeline(PrivateImputer(1.0, **bounds), PrivateScaler(1.0, **bounds))


def test_private_steps_inside_a_column_transformer_are_not_accused():
    columns = make_column_transformer((private(), NUMBERS))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        pipeline = make_pipeline(columns, model()).fit(TABLE, LABELS)
    made = cards.card(pipeline)
    assert made.banner == ""
    assert made.total == pytest.approx((3.0, 3e-6))
    assert "outside the budget" not in cards.text(made)


def test_a_leaky_step_beside_a_private_one_is_named_alone():
    columns = make_column_transformer((private(), NUMBERS), (OneHotEncoder(), ["ward"]))
    with pytest.warns(PrivacyLeakWarning, match="OneHotEncoder in this pipeline") as caught:
        pipeline = make_pipeline(columns, model()).fit(TABLE, LABELS)
    assert len(caught) == 1
    made = cards.card(pipeline)
    assert "OneHotEncoder" in made.banner
    assert "Private" not in made.banner


def test_a_private_step_without_columns_is_not_accused():
    columns = make_column_transformer((PrivateScaler(1.0), []), ("passthrough", ["age"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        assert not cards.card(make_pipeline(columns, model()).fit(TABLE, LABELS)).banner


WARDS = [["north", "rare", "south"]]


@pytest.mark.parametrize(
    ("step", "leaks"),
    [
        (OneHotEncoder(categories=WARDS), False),
        (OrdinalEncoder(categories=WARDS), False),
        (SimpleImputer(strategy="constant"), False),
        (OneHotEncoder(), True),
        (OneHotEncoder(categories=WARDS, min_frequency=5), True),  # counts rows
        (OneHotEncoder(categories=WARDS, max_categories=2), True),
        (TargetEncoder(categories=WARDS), True),  # has means of the target
        (SimpleImputer(strategy="constant", add_indicator=True), True),  # knows who has gaps
        (SelectKBest(k=1), True),
    ],
    ids=repr,
)
def test_settings_decide_on_what_a_step_learns(step, leaks):
    assert bool(list(leaky_steps(make_pipeline(step, model())))) is leaks


def test_texts_that_are_hashed_and_types_that_declare_labels_are_clean():
    texts = make_pipeline(
        FunctionTransformer(lambda table: table["ward"].tolist()),
        HashingVectorizer(n_features=8, norm=None),
        model(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        texts.fit(TABLE, LABELS)
        by_type = LogisticRegression(1.0, 1e-6).fit(TABLE[["age"]], LABELS == 1)
    for made in (cards.card(texts), by_type.card()):
        assert made.banner == ""
        assert "outside the budget" not in cards.text(made)
        assert "labels were taken" not in cards.text(made)
        assert 'class="banner"' not in cards.html(made)


class SelectCols(BaseEstimator, TransformerMixin):
    """Stands in for skrub's: it has the same name and settings."""

    def __init__(self, cols):
        self.cols = cols

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[self.cols]


class ApplyToCols(SelectCols):
    """The same for a step that fits a transformer to columns."""

    def __init__(self, transformer, cols=()):
        self.transformer = transformer
        self.cols = cols


@pytest.mark.parametrize(
    ("step", "names"),
    [
        (SelectCols(["age"]), []),
        (SelectCols("age"), []),
        (SelectCols(lambda column: column.max() > 3), ["SelectCols"]),
        (ApplyToCols(FunctionTransformer()), []),
        (ApplyToCols(StandardScaler()), ["StandardScaler"]),
    ],
    ids=["list", "name", "rule", "blind", "scaler"],
)
def test_steps_of_skrub_are_judged_by_what_they_fit(step, names):
    found = leaky_steps(make_pipeline(step, model()))
    assert [type(each).__name__ for each in found] == names


def test_groups_that_a_search_lost_open_the_card():
    search = GridSearchCV(
        LogisticRegression(1.0, 1e-6, classes=[0, 1]), {"alpha": [1e-4]}, cv=GroupKFold(2)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(TABLE[["age"]], LABELS, groups=np.arange(N) // 2)
    fitted = search.best_estimator_
    assert GROUPS_LOST in fitted.guarantee_.public
    made = fitted.card()
    assert "NOT PRIVATE in part: The ids of people did not reach the fit" in made.banner
    assert any("metadata routing" in text for text in made.warnings)


def test_labels_taken_from_y_are_on_the_card_as_well():
    with pytest.warns(PrivacyLeakWarning, match="labels were taken"):
        fitted = LogisticRegression(1.0, 1e-6).fit(TABLE[["age"]], np.where(LABELS, "yes", "no"))
    assert "the class labels, taken from y outside the budget" in fitted.guarantee_.public
    for made in (fitted.card(), cards.card(fitted.guarantee_)):
        assert made.banner == (
            "NOT PRIVATE in part: The class labels were taken from the data, outside the budget. "
            "The promise below does not cover that."
        )
        assert any("labels were taken from the data" in text for text in made.warnings)
        assert "the class labels are outside the budget" in " ".join(cards.text(made).split())
