import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.tables.columns import KINDS, Boolean, Categorical, Ignored, Numeric, Ordinal


@pytest.mark.parametrize(
    ("column", "names"),
    [
        (Numeric(0, 1), ["x"]),
        (Numeric(missing=True), ["x", "x=(missing)"]),
        (Categorical(["a", "b."], unseen="other"), ["x=a", "x=b.", "x=(other)"]),
        (Categorical(["a"], unseen="average", missing=True), ["x=a", "x=(missing)"]),
        (Categorical(["a", "b"], unseen="refuse"), ["x=a", "x=b"]),
        (Boolean(), ["x"]),
        (Boolean(missing=True), ["x", "x=(missing)"]),
        (Ordinal(["low", "high"], missing=True), ["x", "x=(missing)"]),
        (Ignored("an identifier"), []),
    ],
)
def test_encoded_names_and_width(column, names):
    assert column.feature_names("x") == names
    assert column.width == len(names)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Numeric(0, None), "high is not filled in"),
        (lambda: Numeric(None, 1), "low is not filled in"),
        (lambda: Numeric(1, 1), "low must be below high"),
        (lambda: Numeric(2, 1), "low = 2 and high = 1"),
        (lambda: Numeric(0, math.inf), "high must be a finite number"),
        (lambda: Numeric(math.nan, 1), "low must be a finite number"),
        (lambda: Numeric(True, 2), "low must be a finite number"),
        (lambda: Numeric("0", 1), "low must be a finite number"),
        (lambda: Numeric(0, 10**400), "high must be a finite number"),
        (lambda: Numeric(-1.7e308, 1.7e308), "too close or too far apart"),
        (lambda: Numeric(1e16, 1e16 + 2, scale="log"), "too close or too far apart"),
        (lambda: Numeric(0, 1, scale="cubic"), "scale must be 'linear' or 'sqrt' or 'log'"),
        (lambda: Numeric(0, 1, missing=1), "missing must be True or False"),
        (lambda: Numeric(0, 1, invalid="skip"), "invalid must be 'refuse' or 'missing'"),
        (lambda: Numeric(0, 1, invalid="missing"), "needs missing = true"),
        (lambda: Categorical([]), "fill in values"),
        (lambda: Categorical("abc"), "must be a list of texts"),
        (lambda: Categorical({"a", "b"}), "must be a list of texts"),
        (lambda: Categorical([1, 2]), "must be a text in quotes"),
        (lambda: Categorical(["a", " a "]), "'a' more than once"),
        (lambda: Categorical(["(other)"], unseen="other"), "name of a column that is added"),
        (lambda: Categorical(["(missing)"], missing=True), "name of a column that is added"),
        (
            lambda: Categorical(["a"], unseen="drop"),
            "unseen must be 'other' or 'average'",
        ),
        (lambda: Categorical(["a\x00"]), "no file can hold"),
        (lambda: Categorical(["\ud800"]), "no file can hold"),
        (lambda: Boolean(true=[]), "fill in true"),
        (lambda: Boolean(true=["Y"], false=["y"]), "'y' means both"),
        (lambda: Ordinal(["only"]), "two at least"),
        (lambda: Ordinal(["a", "b"], missing="no"), "missing must be True or False"),
        (lambda: Ignored(3), "reason must be a text"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_rule(make, rule):
    with pytest.raises(ValueError, match=rule.replace("(", r"\(").replace(")", r"\)")):
        make()


def test_reserved_names_are_free_where_no_column_is_added():
    assert Categorical(["(other)", "(missing)"], unseen="refuse").width == 2


def test_spaces_around_a_listed_text_do_not_count():
    assert Categorical([" <=50K", ">50K\t"]).values == ("<=50K", ">50K")


@given(st.sampled_from(["linear", "sqrt", "log"]), st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
def test_scales_keep_order_and_sign(scale, a, b):
    column = Numeric(scale=scale)
    low, high = column.scaled([min(a, b), max(a, b)])
    assert low <= high
    assert column.scaled(-a) == -column.scaled(a)
    expected = {"linear": abs(a), "sqrt": math.sqrt(abs(a)), "log": math.log1p(abs(a))}[scale]
    assert float(np.abs(column.scaled(a))) == pytest.approx(expected, rel=1e-12)


def test_every_kind_has_a_name_of_its_own():
    assert sorted(KINDS) == [
        "boolean", "categorical", "date", "discovered", "hashed", "ignored", "numeric", "ordinal",
    ]  # fmt: skip
    assert all(column.kind == name for name, column in KINDS.items())
