"""Terms of a formula: features of single rows, and the lines that statsmodels would have."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from formulaic import model_matrix

from discreet.design import Design, EncodedRows
from discreet.errors import NotSupported, TableError
from discreet.formula import Formula
from discreet.tables import Boolean, Categorical, Date, Hashed, Numeric, Ordinal, Schema

SCHEMA = Schema(
    {
        "age": Numeric(18, 100, gaps="average"),
        "bmi": Numeric(15, 60, gaps="average"),
        "ward": Categorical(["A", "B", "C"], unseen="average"),
        "sex": Categorical(["f", "m"], unseen="average"),
        "insured": Boolean(gaps="average"),
        "stage": Ordinal(["I", "II", "III"], gaps="average"),
        "income": Numeric(gaps="average"),
        "admitted": Date("2020-01-01", "2024-01-01", parts=("month",), gaps="average"),
        "code": Hashed(8),
        "marked": Numeric(0, 1, missing=True),
    }
)
FORMULAS = [
    "age",
    "0 + ward",
    "age * bmi",
    "age * ward * sex",
    "sex + age:sex",
    "ward + ward:sex",
    "0 + age:sex",
    "age:bmi",
    "bs(bmi, df=5) + C(ward, ref='B') + age:sex",
    "bs(age) * sex",
    "log(bmi) + I(age**2) + age",
    "income * age + insured:age + insured",
    "stage * sex + I(income / 1000)",
    "bs(log(bmi), knots=[3.0, 3.5])",
]

DECLARED = {
    "bs(bmi, df=5) + C(ward, ref='B') + age:sex": (
        "bs(bmi, knots=[30.0, 45.0], lower_bound=15, upper_bound=60)"
        " + C(ward, contr.treatment('B')) + age:sex"
    ),
    "bs(age) * sex": "bs(age, lower_bound=18, upper_bound=100) * sex",
    "bs(log(bmi), knots=[3.0, 3.5])": (
        "bs(log(bmi), knots=[3.0, 3.5], lower_bound=log(15), upper_bound=log(60))"
    ),
}
"""Formulas with the knots and bounds that formulaic would take from the rows."""


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(18, 100, n),
            "bmi": rng.uniform(15, 60, n),
            "ward": rng.choice(list("ABC"), n),
            "sex": rng.choice(["f", "m"], n),
            "insured": rng.random(n) < 0.5,
            "stage": rng.choice(["I", "II", "III"], n),
            "income": rng.normal(30_000, 5_000, n),
            "admitted": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1400, n), "D"),
            "code": rng.choice(["x", "y"], n),
            "marked": rng.random(n),
        }
    )


def design(text):
    return Design(SCHEMA).with_formula(Formula.of(text))


@pytest.mark.parametrize("text", FORMULAS)
def test_features_of_a_row_depend_on_that_row_alone(text):
    made = design(text)
    df = table()
    whole = made.encode(df)
    rng = np.random.default_rng(1)
    for row in rng.integers(0, len(df), 5):
        assert np.array_equal(made.encode(df.iloc[[row]]), whole[[row]])
        other = df.copy()
        for name in df:
            other.loc[row, name] = df.loc[(row + 7) % len(df), name]
        changed = np.flatnonzero((made.encode(other) != whole).any(axis=1))
        assert set(changed) <= {row}
    assert np.array_equal(design(text).encode(df[::-1])[::-1], whole)


@pytest.mark.parametrize("text", FORMULAS)
def test_lines_are_the_columns_of_formulaic(text):
    """Where formulaic learns nothing from rows, it makes the same columns."""
    made = design(text)
    df = table()
    df["insured"] = df["insured"].astype(float)
    df["stage"] = df["stage"].map({"I": 0.0, "II": 1.0, "III": 2.0})
    ours = made.terms
    encoded = made.encode_columns(table())
    lines = np.hstack([term.values(encoded) for term in ours.bound])
    names = [line.name for line in ours.lines]
    theirs = np.asarray(model_matrix(DECLARED.get(text, text).replace("log(", "np.log("), df))
    constant = int(made.formula.intercept)
    assert theirs.shape[1] == len(names) + constant
    span = theirs[:, constant:]
    for k, column in enumerate(lines.T):
        near = np.isclose(span, column[:, None], rtol=1e-6, atol=1e-8).all(axis=0)
        assert near.sum() == 1, names[k]


@pytest.mark.parametrize("text", FORMULAS)
def test_the_matrix_carries_weights_to_coefficients_of_lines(text):
    made = design(text)
    rows = made.encode_columns(table(300, 3))
    features = made.terms.features(rows)
    lines = np.hstack([term.values(rows) for term in made.terms.bound])
    weights = np.random.default_rng(0).normal(size=features.shape[1] + made.formula.intercept)
    matrix = made.terms.matrix
    if made.formula.intercept:
        features = np.column_stack([np.ones(len(rows)), features])
        lines = np.column_stack([np.ones(len(rows)), lines])
    scores = features @ weights
    assert lines @ (matrix @ weights) == pytest.approx(scores, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("text", FORMULAS)
def test_bounded_features_are_within_one(text):
    made = design(text)
    features = made.encode(table(500, 5))
    free = [at for at, column in made.numbers.items() if not column.is_bounded]
    kept = np.delete(np.arange(made.width), free)
    assert np.abs(features[:, kept]).max(initial=0.0) <= 1.0


def test_numbers_in_products_are_centred_where_that_is_the_same_model():
    assert all(term.centre for term in design("age * bmi").terms.bound)
    assert not design("age:bmi").terms.bound[0].centre
    encoded = design("age * bmi").encode(table(20_000))
    assert abs(np.corrcoef(encoded[:, 0], encoded[:, 2])[0, 1]) < 0.05  # 20,000 rows: 7 deviations


def test_a_missing_number_is_in_the_middle_of_its_bounds_and_an_unseen_level_between_all():
    made = design("age * ward")
    df = table(3)
    df.loc[0, "age"] = np.nan
    df.loc[0, "ward"] = "B"
    df.loc[1, "ward"] = "new"
    encoded = made.encode(df)
    assert np.isnan(encoded[0, 0])  # as without a formula: the fit knows what to do
    assert encoded[0, 3:].tolist() == [0.0, 0.0]
    assert encoded[1, 1:3] == pytest.approx([1 / 3, 1 / 3])


def test_dates_have_a_trend_and_parts():
    made = design("admitted + admitted.month")
    assert made.feature_names[:3] == ["admitted", "admitted.month=Feb", "admitted.month=Mar"]
    assert made.encode(table()).shape == (200, 12)


def test_sparse_rows_give_the_same_features():
    made = design("age * ward")
    dense = made.encode_columns(table())
    sparse = made.terms.features(sp.csr_array(dense))
    assert sp.issparse(sparse)
    assert np.array_equal(sparse.toarray(), made.terms.features(dense))


def test_rows_that_were_encoded_with_more_columns_are_taken():
    made = design("age * ward")
    df = table()
    encoded = EncodedRows(SCHEMA.transformer(sparse=False).transform(df), SCHEMA)
    assert np.array_equal(made.encode(encoded), made.encode(df))
    other = Schema({"age": Numeric(0, 100), "ward": Categorical(["A"])})
    with pytest.raises(ValueError, match="another schema"):
        made.encode(EncodedRows(np.zeros((1, other.width)), other))


def test_offsets_depend_on_their_row_and_are_within_their_bounds():
    made = design("age + offset(log(bmi)) + offset(0.01 * age)")
    df = table()
    found = made.offsets(df)
    assert found == pytest.approx(np.log(df["bmi"]) + 0.01 * df["age"])
    low, high = made.terms.offset_interval
    assert (low, high) == pytest.approx((np.log(15) + 0.18, np.log(60) + 1.0))
    df.loc[0, "bmi"] = 1e9
    assert made.offsets(df)[0] <= high
    assert np.array_equal(made.offsets(df)[1:], found[1:])
    assert made.encode_new(df).shape[1] == made.width + 1
    assert design("age").offsets(df) is None


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("agee", ValueError, "did you mean 'age'"),
        ("bs(income)", ValueError, r"needs public bounds of 'income'.*columns=\{'income'"),
        ("log(income)", ValueError, "public bounds above 0"),
        ("offset(income) + age", ValueError, "needs public bounds"),
        ("C(age)", ValueError, "needs the levels of 'age'"),
        ("C(ward, ref='Z')", ValueError, "'Z' of 'ward' is not among its levels"),
        ("C(ward, ref='A') + C(ward, ref='B'):age", ValueError, "two reference levels"),
        ("code + age", ValueError, "hashed, not a number"),
        ("marked * age", NotSupported, "marks missing cells"),
        ("ward:sex", ValueError, r"Write ward\*sex"),
        ("age + I(2 * age)", ValueError, "says what other terms"),
        ("I(ward + 1)", ValueError, "not a number"),
        ("bs(bmi, knots=[10.0])", ValueError, "knots must be between 15 and 60"),
        ("I(0 * age) + bmi", ValueError, "has one value"),
    ],
)
def test_wrong_columns_are_said_without_a_row(text, kind, words):
    with pytest.raises(kind, match=words):
        design(text)


def test_texts_without_levels_are_refused_for_columns_of_the_formula_alone():
    df = table()[["age", "ward", "sex"]]
    formula = Formula.of("age + ward")
    with pytest.raises(ValueError, match=r"not declared: ward\..*discover"):
        Design.of(df, {"age": Numeric(18, 100)}, formula)
    made = Design.of(df, {"ward": Categorical(["A", "B", "C"])}, formula)
    assert made.names == ["age", "ward"]
    with pytest.raises(ValueError, match="a formula is for tables"):
        Design.of(df["age"].to_numpy(), {}, formula)


def test_errors_show_no_cell():
    made = design("age + ward")
    df = table(3).astype({"age": object})
    df.loc[1, "age"] = "secret"
    with pytest.raises(TableError) as caught:
        made.encode(df)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_design_with_a_formula_is_written_and_read(text):
    made = design(text)
    again = Design.from_dict(made.to_dict())
    assert again.feature_names == made.feature_names
    assert np.array_equal(again.encode(table()), made.encode(table()))
