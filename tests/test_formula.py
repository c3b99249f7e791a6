"""Formulas: what their text means, what is refused, and the bounds of expressions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import NotSupported
from discreet.expressions import Expression, Interval
from discreet.formula import Factor, Formula

NAMES = ("age", "bmi", "ward")


def names_of(formula):
    return [":".join(factor.name for factor in term) for term in formula.terms]


def test_operators_make_terms():
    made = Formula.of("y ~ age * ward + bs(bmi, df=5) + C(sex, ref='f') + offset(log(days))")
    assert made.response == "y"
    assert made.intercept
    assert set(names_of(made)) == {"age", "ward", "age:ward", "bs(bmi, df=5)", "sex"}
    assert [each.text for each in made.offsets] == ["log(days)"]
    assert set(made.columns) == {"age", "ward", "bmi", "sex", "days"}


@pytest.mark.parametrize("text", ["y ~ 0 + age", "y ~ age - 1"])
def test_the_constant_can_be_left_out(text):
    assert not Formula.of(text).intercept


def test_a_dot_stands_for_the_other_columns():
    assert names_of(Formula.of("y ~ . - ward", NAMES)) == ["age", "bmi"]
    with pytest.raises(ValueError, match="cannot be read"):
        Formula.of("y ~ .")


@pytest.mark.parametrize("text", ["y ~ `length of stay` * age", "y ~ age + admitted.month"])
def test_names_of_any_letters_survive_the_model_file(text):
    made = Formula.of(text)
    assert Formula.from_dict(made.to_dict()) == made


def test_the_source_of_a_part_of_a_date_is_the_date():
    made = Formula.of("y ~ admitted.month + age")
    assert made.sources(["age", "admitted", "other"]) == ["age", "admitted"]
    with pytest.raises(ValueError, match="'agee', which the table does not have; did you mean 'a"):
        Formula.of("y ~ agee").sources(["age"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("y ~ poly(age, 2)", r"poly\(\) in a formula would learn from the rows.*I\(x\*\*2\)"),
        ("y ~ scale(age)", "a fit scales its columns"),
        ("y ~ center(age)", "with a public number"),
        ("y ~ cr(age, df=3)", "bs"),
        ("y ~ C(ward, Sum)", "compared with a reference level"),
    ],
)
def test_what_learns_from_rows_is_refused_with_a_remedy(text, words):
    with pytest.raises(NotSupported, match=words):
        Formula.of(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be a text"),
        (3, "must be a text"),
        ("y ~ age +", "cannot be read"),
        ("y ~ 1", "names no column"),
        ("log(y) ~ age", "must be one column"),
        ("y + z ~ age", "must be one column"),
        ("y ~ age | bmi", "one model"),
        ("y ~ loog(age)", "did you mean 'log'"),
        ("y ~ age:offset(bmi)", "term of its own"),
        ("y ~ offset(age, 2) + bmi", r"must be offset\(COLUMN\)"),
        ("y ~ bs(age, knots=[50, 40])", "knots must rise"),
        ("y ~ bs(age, df=5, knots=[40])", "df or knots"),
        ("y ~ bs(age, df=2)", "at least"),
        ("y ~ bs(age, size=3)", "unknown size"),
        ("y ~ bs(age, lower_bound=3, upper_bound=2)", "upper_bound"),
        ("y ~ C(ward, levels=['A'])", "must be C"),
        ("y ~ I(age[0])", "not arithmetic"),
        ("y ~ I(age ** bmi)", "exponent"),
        ("y ~ log(age, 2)", "takes one argument"),
        ("y ~ C(ward) + ward", "a term twice"),
        ("y ~ log(3) + age", "names no column"),
    ],
)
def test_what_is_wrong_is_said(text, words):
    with pytest.raises(ValueError, match=words):
        Formula.of(text)


@pytest.mark.parametrize("text", ["C(ward, Treatment('B'))", "C(ward, Treatment(reference='B'))"])
def test_treatment_coding_is_that_of_the_reference(text):
    assert Factor.of(text).reference == Factor.of("C(ward, ref='B')").reference == "B"


def test_plain_data_that_is_no_formula_is_refused():
    plain = Formula.of("y ~ age").to_dict()
    for key, value in [("terms", [3]), ("terms", [[]]), ("response", 3), ("intercept", "no")]:
        with pytest.raises(ValueError, match=r"formula|factor"):
            Formula.from_dict({**plain, key: value})
    with pytest.raises(ValueError, match="must have a text"):
        Formula.from_dict({})


EXPRESSIONS = [
    "I(a ** 2)",
    "a ** 3 - b",
    "a * b + 2",
    "-a / 7 + b * b",
    "log(b)",
    "np.sqrt(b) * a",
    "exp(a / 10)",
    "a / b",
    "b ** -1.5",
    "log1p(a ** 2)",
    "(a - 2) ** 2",
]


@given(
    st.sampled_from(EXPRESSIONS),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
)
def test_values_are_within_the_bounds(text, first, second):
    expression = Expression(text)
    bounds = {"a": Interval(-3.0, 5.0), "b": Interval(0.5, 4.0)}
    values = {"a": np.array([-3.0 + 8.0 * first]), "b": np.array([0.5 + 3.5 * second])}
    low, high = expression.bounds({name: bounds[name] for name in expression.columns})
    found = expression.values({name: values[name] for name in expression.columns})[0]
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    assert low - slack <= found <= high + slack


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_bounds_are_attained_by_single_columns(text):
    expression = Expression(text)
    if len(expression.columns) > 1 or text == "(a - 2) ** 2":
        return
    ends = {"a": Interval(-3.0, 5.0), "b": Interval(0.5, 4.0)}
    (name,) = expression.columns
    at = np.linspace(*ends[name], 1001)
    low, high = expression.bounds({name: ends[name]})
    found = expression.values({name: at})
    assert found.min() == pytest.approx(low, abs=1e-6)
    assert found.max() == pytest.approx(high, rel=1e-6)


@pytest.mark.parametrize("text", ["log(a)", "sqrt(a)", "1 / a", "a ** 0.5", "a ** -1", "exp(c)"])
def test_functions_without_values_everywhere_need_bounds(text):
    expression = Expression(text)
    ends = {"a": Interval(-1.0, 1.0), "c": Interval(-np.inf, np.inf)}
    with pytest.raises(ValueError, match="bounds"):
        expression.bounds({name: ends[name] for name in expression.columns})


def test_values_of_a_row_depend_on_that_row_alone():
    rng = np.random.default_rng(0)
    a = rng.normal(size=50)
    b = rng.random(50) + 0.5
    for text, row in itertools.product(EXPRESSIONS, [0, 17, 49]):
        expression = Expression(text)
        alone = expression.values({"a": a[[row]], "b": b[[row]]})
        assert alone[0] == expression.values({"a": a, "b": b})[row]
