import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from discreet import validate


@pytest.mark.parametrize("value", [1, 1.5, np.float32(2), np.int64(3), 10**30])
def test_numbers_become_floats(value):
    found = validate.number("x", value, above=0)
    assert type(found) is float
    assert found == float(value)


@pytest.mark.parametrize("value", [True, "1", None, math.nan, math.inf, 10**400, 1j, [1]])
def test_what_is_not_a_finite_number_is_refused(value):
    with pytest.raises(ValueError, match=r"^x must be a finite number; got .*\. Use 1\.$"):
        validate.number("x", value, remedy="Use 1.")


@pytest.mark.parametrize(
    ("rules", "good", "bad"),
    [
        ({"least": 1}, 1, 0.999),
        ({"most": 1}, 1, 1.001),
        ({"above": 1}, 1.001, 1),
        ({"below": 1}, 0.999, 1),
    ],
)
def test_bounds_are_open_or_closed(rules, good, bad):
    assert validate.number("x", good, **rules) == good
    with pytest.raises(ValueError, match=r"a finite number (>=|<=|>|<) 1; got"):
        validate.number("x", bad, **rules)


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"least": 0.0, "most": 1.0}, "between 0 and 1"),
        ({"least": 0.0, "below": 1.0}, ">= 0 and < 1"),
        ({"above": 0.0, "most": 1.0}, "> 0 and <= 1"),
        ({"above": 0.0, "below": 1.0}, "> 0 and < 1"),
        ({"least": 1e-100, "most": 1e100}, "between 1e-100 and 1e+100"),
    ],
)
def test_two_bounds_read_well(rules, text):
    message = re.escape(f"x must be a finite number {text}; got -2.")
    with pytest.raises(ValueError, match=f"^{message}$"):
        validate.number("x", -2, **rules)


@pytest.mark.parametrize("value", [0, 0.0, -1])
def test_positive_numbers(value):
    with pytest.raises(ValueError, match="> 0"):
        validate.positive("x", value)


@pytest.mark.parametrize("value", [0, 1.0, True, 10**9 + 1, "1"])
def test_integers_have_a_range(value):
    assert validate.integer("k", np.int32(7)) == 7
    with pytest.raises(ValueError, match="k must be an integer from 1 to 1,000,000,000; got"):
        validate.integer("k", value)


def test_choices_flags_and_functions():
    assert validate.choice("mode", "a", ("a", "b")) == "a"
    with pytest.raises(ValueError, match=r"mode must be 'a' or 'b'; got 'c'\."):
        validate.choice("mode", "c", ("a", "b"))
    assert validate.flag("copy", False) is False
    with pytest.raises(ValueError, match="copy must be True or False; got 1"):
        validate.flag("copy", 1)
    assert validate.function("call", len) is len
    with pytest.raises(ValueError, match="call must be a function"):
        validate.function("call", 3)


def test_vectors_are_new_finite_arrays():
    given = np.array([1.0, 2.0])
    found = validate.vector("w", given, 2)
    assert found is not given
    assert found.dtype == np.float64
    with pytest.raises(ValueError, match=r"of shape \(3,\); its shape is \(2,\)"):
        validate.vector("w", given, 3)
    with pytest.raises(ValueError, match="one-dimensional"):
        validate.vector("w", [[1.0]])
    with pytest.raises(ValueError, match="NaN or infinite"):
        validate.vector("w", [math.nan])
    assert validate.vector("w", [0.5], above=0.0) == [0.5]
    with pytest.raises(ValueError, match="w must have entries > 0 only"):
        validate.vector("w", [0.5, 0.0], above=0.0)


def test_square_matrices_are_new_finite_arrays():
    given = np.eye(2)
    found = validate.square_matrix("m", given)
    assert found is not given
    assert np.array_equal(found, given)
    for wrong in (np.ones(4), np.ones((2, 3)), np.ones((1, 1, 1))):
        with pytest.raises(ValueError, match="m must be a square matrix; its shape is"):
            validate.square_matrix("m", wrong)
    with pytest.raises(ValueError, match="m must be finite"):
        validate.square_matrix("m", [[math.nan]])


def test_fields_of_frozen_dataclasses_are_stored_as_plain_numbers():
    @dataclass(frozen=True)
    class Settings:
        step: float = 1.0
        limit: float | None = None

        def __post_init__(self):
            validate.check_fields(self, validate.positive, "step", "limit", optional=True)

    assert type(Settings(step=np.float32(0.5)).step) is float
    with pytest.raises(ValueError, match="limit must be"):
        Settings(limit=-1.0)


def test_declared_fields_are_checked_by_their_annotations():
    size = Annotated[float, validate.positive]

    @dataclass(frozen=True)
    class Settings:
        step: size = 1
        limit: size | None = None
        mode: Literal["a", "b"] = "a"
        copy: bool = False
        anything: object = None

        def __post_init__(self):
            validate.check_declared(self)

    assert type(Settings(step=np.float32(0.5)).step) is float
    assert Settings(limit=None, anything="x").limit is None
    for wrong in ({"step": None}, {"step": 0}, {"limit": -1}, {"mode": "c"}, {"copy": None}):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"{name} must be"):
            Settings(**wrong)


def test_long_values_are_cut_in_messages():
    assert len(validate.display("x" * 1000)) == 60


def test_columns_of_tables_that_are_not_numbers_are_named_and_truth_values_found():
    columns = {"a": [1.5, 2.0], "b": [True, False], "c": ["x", "y"]}
    for table in (pd.DataFrame(columns), pl.DataFrame(columns)):
        with pytest.raises(ValueError, match=r"not numbers: c\. "):
            validate.check_table(table)
        assert validate.check_table(table[["a", "b"]]) == (1,)
    assert validate.check_table(np.array([["1", "2.5"]], dtype=object)) == ()
    with pytest.raises(ValueError, match=r"not numbers: column 1\. "):
        validate.check_table(np.array([["1", "secret"]], dtype=object))
