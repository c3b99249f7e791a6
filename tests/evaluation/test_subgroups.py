"""Levels of subgroups: declared by a type, or listed; never collected from the rows."""

import numpy as np
import pandas as pd
import pytest

from discreet.evaluation.subgroups import of_rows, of_values
from discreet.tables import Boolean, Categorical, LevelCodes, Numeric, Ordinal, Schema

VALUES = ["F", "M", "F"]


@pytest.mark.parametrize(
    ("values", "levels", "codes"),
    [
        (pd.Series(VALUES, dtype=pd.CategoricalDtype(["M", "F", "X"])), ("M", "F", "X"), [1, 0, 1]),
        (pd.Categorical(VALUES, ["F", "M"]), ("F", "M"), [0, 1, 0]),
        (np.array([True, False]), (False, True), [1, 0]),
        (pd.Series([True, False], dtype="boolean"), (False, True), [1, 0]),
    ],
)
def test_types_declare_levels(values, levels, codes):
    found = of_values(values, "sex", None)
    assert found.levels == levels
    assert found.codes.tolist() == codes


def test_polars_declares_levels():
    pl = pytest.importorskip("polars")
    column = pl.Series("sex", VALUES, dtype=pl.Enum(["M", "F", "X"]))
    found = of_values(column, "sex", None)
    assert found.levels == ("M", "F", "X")
    assert found.codes.tolist() == [1, 0, 1]
    assert of_values(pl.Series([True, False]), "old", None).codes.tolist() == [1, 0]
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "sex": column})
    subgroups, name = of_rows("sex", frame)
    assert (subgroups.name, name) == ("sex", "sex")
    for kind in (pl.String, pl.Categorical):  # the levels of these come from the rows
        with pytest.raises(ValueError, match="must be public"):
            of_values(pl.Series("sex", VALUES, dtype=kind), "sex", None)
    with pytest.raises(ValueError, match="not one of the levels"):
        of_values(pl.Series("sex", ["F", None], dtype=pl.Enum(["F"])), "sex", None)


@pytest.mark.parametrize(
    "values",
    [VALUES, np.array(VALUES), pd.Series(VALUES), np.array([1, 2]), np.array([0.5]), [True]],
)
def test_levels_are_not_collected_from_rows(values):
    with pytest.raises(ValueError, match=r'Pass by=\("sex", \[every level\]\)'):
        of_values(values, "sex", None)


def test_listed_levels_may_have_any_order_and_a_missing_one():
    values = pd.Series(["F", None, "M", np.nan], dtype=object)
    assert of_values(values, "sex", ("M", "F", None)).codes.tolist() == [1, 2, 0, 2]
    assert of_values(pd.array([1, pd.NA]), "x", (None, 1)).codes.tolist() == [1, 0]
    assert of_values(np.array([2, 1]), "x", (1, 2)).codes.tolist() == [1, 0]
    for levels in (("F", "M"), ("F", None)):
        with pytest.raises(ValueError, match="not one of the levels"):
            of_values(values, "sex", levels)
    with pytest.raises(ValueError, match="texts, numbers or booleans"):
        of_values([["F"]], "sex", ("F",))


@pytest.mark.parametrize("values", [pd.Categorical(["F", None]), pd.Series([True, pd.NA])])
def test_missing_values_need_a_list(values):
    with pytest.raises(ValueError, match=r"not one of the levels|must be public"):
        of_values(values, "sex", None)


def test_names_come_from_columns():
    frame = pd.DataFrame({"sex": pd.Categorical(VALUES), "x": 1.0})
    assert of_rows("sex", frame)[0].name == "sex"
    assert of_rows(frame.sex, frame)[0].name == "sex"
    assert of_rows(pd.Categorical(VALUES), frame)[0].name == "subgroup"
    assert of_rows((VALUES, ["F", "M"]), np.zeros((3, 1)))[0].levels == ("F", "M")


def test_codes_of_a_table_follow_its_rules():
    pa = pytest.importorskip("pyarrow")

    def codes(column, *blocks):
        found = LevelCodes("c", column, ("", "?"))
        for block in blocks:
            found.append(pa.array(block))
        return found.levels, found.codes().tolist()

    assert codes(Categorical(("F", "M"), unseen="other"), [" F", "M"], ["x"]) == (
        ("F", "M", "(other)"),
        [0, 1, 2],
    )
    accepting = Categorical(("F",), unseen="average", missing=True)
    assert codes(accepting, ["F", "?", None, "y"]) == (("F", "(other)", "(missing)"), [0, 2, 2, 1])
    assert codes(Boolean(), ["No", "yes", "1"]) == (("false", "true"), [0, 1, 1])
    assert codes(Boolean(), [True, False]) == (("false", "true"), [1, 0])
    assert codes(Ordinal(("low", "high"), missing=True), ["high", "", "low"]) == (
        ("low", "high", "(missing)"),
        [1, 2, 0],
    )
    assert codes(Categorical(("1", "2"), unseen="refuse"), [2.0, 1.0]) == (("1", "2"), [1, 0])
    assert codes(Categorical(("F",)))[1] == []
    with pytest.raises(ValueError, match="no public list"):
        LevelCodes("c", Numeric(0, 1), ())


def test_a_design_lists_the_levels_of_its_columns():
    """Types come first: an array of texts alone needs the list of the model's design."""
    schema = Schema({"sex": Categorical(["F", "M"], unseen="average"), "age": Numeric(0, 110)})
    texts = pd.DataFrame({"sex": ["M", "F", None, "?"], "age": [1, 2, 3, 4]})
    found, column = of_rows("sex", texts, schema)
    assert column == "sex"
    assert found.levels == ("F", "M", "(other)", "(missing)")
    assert found.codes.tolist() == [1, 0, 3, 2]
    typed = texts.head(2).astype({"sex": pd.CategoricalDtype(["M", "F"])})
    assert of_rows("sex", typed, schema)[0].levels == ("M", "F")
    with pytest.raises(ValueError, match="must be public"):
        of_rows("age", texts, schema)
    with pytest.raises(ValueError, match="must be public"):
        of_rows("sex", texts, Schema({"age": Numeric(0, 110)}))
