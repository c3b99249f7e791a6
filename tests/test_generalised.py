"""`discreet.glm`: coefficients of statsmodels at large budgets, and what follows from a fit."""

import warnings

import numpy as np
import pandas as pd
import pytest

import discreet
from discreet.errors import NotSupported

sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")

COLUMNS = {"age": (18, 100), "bmi": (15, 45), "days": (1, 30)}
TERMS = "age * bmi + age:sex + sex * ward"


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 20_000
    df = pd.DataFrame(
        {
            "age": rng.normal(60, 15, n).clip(18, 100),
            "bmi": rng.normal(28, 5, n).clip(15, 45),
            "ward": pd.Categorical(rng.choice(list("ABC"), n, p=[0.5, 0.3, 0.2])),
            "sex": pd.Categorical(rng.choice(["f", "m"], n)),
            "days": rng.integers(1, 31, n).astype(float),
            "note": rng.choice(["x", "y"], n),
            "person": np.arange(n) // 2,
        }
    )
    age = (df["age"] - 60) / 15
    bmi = (df["bmi"] - 28) / 5
    man = df["sex"] == "m"
    eta = 0.2 + 0.3 * age - 0.2 * bmi + 0.1 * age * bmi + 0.3 * man - 0.2 * man * age
    eta = eta + 0.2 * (df["ward"] == "B") * (1 + man)
    df["number"] = eta + rng.normal(0, 1, n)
    df["sum"] = df["number"] + 0.5 * np.log(df["days"])
    df["yes"] = (rng.random(n) < 1 / (1 + np.exp(1 - eta))).astype(int)
    df["sooner"] = (rng.random(n) < 1 / (1 + np.exp(3 - eta - np.log(df["days"])))).astype(int)
    df["count"] = rng.poisson(np.exp(eta)).astype(float)
    df["events"] = rng.poisson(np.exp(eta - 0.5) * df["days"] / 10).astype(float)
    df["amount"] = rng.gamma(2, np.exp(eta) / 2)
    grades = np.digitize(eta + rng.logistic(size=n), [-1, 1])
    df["grade"] = pd.Categorical(np.array(["low", "middle", "high"])[grades])
    return df


def fitted(formula, table, **settings):
    settings = {"epsilon": 100, "columns": COLUMNS, "random_state": 0} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return discreet.glm(formula, table, **settings)


def theirs(model):
    """Return coefficients and errors of statsmodels by our names."""
    frame = pd.DataFrame({"value": model.params, "error": model.bse})
    names = frame.index.str.replace("Intercept", "intercept")
    frame.index = names.str.replace(r"\[T\.(.*?)\]", r"=\1", regex=True)
    return frame


def distance(model, reference):
    """Return the largest difference from statsmodels, over its standard errors."""
    known = theirs(reference)
    ours = model.params
    names = [name for name in ours.index if name in known.index]
    assert len(names) >= len(ours) - 1  # all but perhaps the constants of an ordinal model
    return float(((ours[names] - known["value"][names]) / known["error"][names]).abs().max())


FAMILIES = {
    "gaussian": ("number", {"target_bounds": (-6, 7)}, "Gaussian"),
    "binomial": ("yes", {}, "Binomial"),
    "poisson": ("count", {"target_bounds": (0, 30)}, "Poisson"),
    "gamma": ("amount", {"target_bounds": (0.001, 40)}, "Gamma"),
}
BARS = {"gaussian": 0.1, "binomial": 0.1, "poisson": 0.3, "gamma": 0.3}
"""Largest distance from statsmodels at ε = 100 in its standard errors, with seeded noise.

Rows of large norm have less weight than in the likelihood, and noise is in proportion to bounds."""


@pytest.mark.parametrize("family", FAMILIES)
def test_families_have_the_coefficients_of_statsmodels(table, family):
    target, settings, name = FAMILIES[family]
    model = fitted(f"{target} ~ {TERMS}", table, family=family, **settings)
    link = {"link": sm.families.links.Log()} if name == "Gamma" else {}
    known = getattr(sm.families, name)(**link)
    assert distance(model, smf.glm(f"{target} ~ {TERMS}", table, family=known).fit()) < BARS[family]


@pytest.mark.parametrize(
    ("target", "family", "settings", "name", "bar"),
    [
        ("sum", "gaussian", {"target_bounds": (-6, 9)}, "Gaussian", 0.1),
        ("sooner", "binomial", {}, "Binomial", 0.5),
        ("events", "poisson", {"target_bounds": (0, 3)}, "Poisson", 1.5),
    ],
)
def test_offsets_have_the_coefficient_one(table, target, family, settings, name, bar):
    formula = f"{target} ~ {TERMS} + offset(log(days))"
    model = fitted(formula, table, family=family, **settings)
    known = getattr(sm.families, name)()
    reference = smf.glm(
        f"{target} ~ {TERMS}", table, family=known, offset=np.log(table["days"])
    ).fit()
    assert distance(model, reference) < bar
    # predictions have the offset of the new rows
    made = reference.predict(table, offset=np.log(table["days"]))
    ours = model.predict_proba(table)[:, 1] if family == "binomial" else model.predict(table)
    assert np.corrcoef(ours, made)[0, 1] > 0.999
    assert np.mean(ours) == pytest.approx(np.mean(made), rel=0.02)
    assert "offset log(days)" in str(model.summary())


def test_gamma_takes_an_offset(table):
    df = table.assign(amount=table["amount"] * table["days"])
    formula = f"amount ~ {TERMS} + offset(log(days))"
    model = fitted(formula, df, family="gamma", target_bounds=(0.001, 40))
    link = sm.families.links.Log()
    known = smf.glm(
        f"amount ~ {TERMS}", df, family=sm.families.Gamma(link=link), offset=np.log(df["days"])
    ).fit()
    assert distance(model, known) < 0.3


def test_ordered_classes(table):
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    model = fitted("grade ~ age + sex", table, family="ordinal", classes=["low", "middle", "high"])
    ordered = table.assign(
        grade=pd.Categorical(table["grade"], ["low", "middle", "high"], ordered=True)
    )
    known = OrderedModel.from_formula("grade ~ age + sex", ordered, distr="logit")
    known = known.fit(method="bfgs", disp=0)
    assert distance(model, known) < 0.3
    assert list(model.classes_) == ["low", "middle", "high"]
    assert set(model.predict(table)) <= {"low", "middle", "high"}
    assert model.predict_proba(table).mean(axis=0) == pytest.approx(
        [np.mean(table["grade"] == each) for each in model.classes_], abs=0.02
    )


def test_quantiles(table):
    model = fitted("number ~ age * sex", table, family="quantile", target_bounds=(-6, 7))
    assert distance(model, smf.quantreg("number ~ age * sex", table).fit(q=0.5)) < 0.5


def test_splines_are_those_of_statsmodels_with_declared_knots(table):
    rng = np.random.default_rng(1)
    bmi = table["bmi"].clip(15, 40)  # where rows are
    score = np.log(table["age"] / 60) - (bmi - 28) / 10
    yes = (rng.random(len(table)) < 1 / (1 + np.exp(-score))).astype(int)
    df = table.assign(yes=yes, bmi=bmi)
    columns = {"age": (18, 100), "bmi": (15, 40)}
    model = fitted("yes ~ bs(bmi, df=6) + log(age)", df, family="binomial", columns=columns)
    ends = "knots=(21.25, 27.5, 33.75), lower_bound=15, upper_bound=40"
    formula = f"yes ~ bs(bmi, {ends}, degree=3) + np.log(age)"
    known = smf.glm(formula, df, family=sm.families.Binomial()).fit()
    ours = model.params.to_numpy()
    assert np.abs((ours - known.params.to_numpy()) / known.bse.to_numpy()).max() < 0.4


def test_people_have_robust_errors_and_texts_of_other_columns_are_not_read(table):
    model = fitted("yes ~ age + sex", table, family="binomial", unit="person", epsilon=3)
    assert model.guarantee_.unit == "person"
    assert "robust" in str(model.summary())
    assert "Formula: age + sex." in str(model.summary())
    assert any("'age + sex'" in text for text in model.guarantee_.public)


def test_what_follows_from_a_fit(table, tmp_path):
    model = fitted(
        f"sum ~ {TERMS} + offset(log(days))", table, family="gaussian", target_bounds=(-6, 9)
    )
    assert model.wald_test("age:sex").df == 1
    assert model.wald_test("sex:ward").df == 2
    found = model.anova()
    assert list(found.index) == ["age", "bmi", "sex", "ward", "age:bmi", "age:sex", "sex:ward"]
    assert found["partial_r2"].isna().tolist() == [True] * 4 + [False] * 3
    (combined,) = model.contrast("age + 28*age:bmi")
    assert combined.low < 0.3 / 15 < combined.high
    part = model.submodel(["age", "sex", "ward", "sex:ward"]).to_frame()
    assert "age:bmi" not in part.index
    with pytest.raises(ValueError, match="'age:bmi' is not the same without 'bmi'"):
        model.submodel(["age", "age:bmi"])
    path = tmp_path / "model.json"
    discreet.save(model, path)
    again = discreet.load(path)
    assert np.array_equal(again.predict(table), model.predict(table))
    assert again.summary().to_frame().equals(model.summary().to_frame())
    explained = model.explain(table[:50])
    assert explained.scores[:, 0] == pytest.approx(model.predict(table[:50]))
    assert "(offset)" in str(explained)
    figure = model.plot_effects()
    titles = [panel.get_title() for panel in figure.axes]
    assert "age (sex=f)" in titles
    assert len(model.plot_effects(columns=["age"]).axes) == 2


def test_margins_go_through_all_terms_of_a_column(table):
    model = fitted("yes ~ age * sex + bs(bmi, df=4)", table, family="binomial")
    found = model.margins(table)["effect"]
    changed = []
    for step in (-0.01, 0.01):
        moved = table.assign(age=table["age"].clip(19, 99) + step)
        changed.append(model.predict_proba(moved)[:, 1].mean())
    assert found["age"] == pytest.approx((changed[1] - changed[0]) / 0.02, rel=0.02)
    sexes = [
        model.predict_proba(table.assign(sex=pd.Categorical([each] * len(table), ["f", "m"])))
        for each in ("f", "m")
    ]
    assert found["sex=m"] == pytest.approx((sexes[1] - sexes[0])[:, 1].mean(), rel=0.02)
    typical = model.margins()
    assert typical.attrs["where"].startswith("at the released means")
    # at the mean and on average the slopes differ by the curve of the logistic function
    assert typical["effect"]["age"] == pytest.approx(found["age"], rel=0.3)


def test_a_fit_learns_nothing_from_rows_but_through_the_curator(table):
    """The design of a fit is that of the declarations, whatever the rows are."""
    first = fitted("yes ~ age * ward + bs(bmi)", table, family="binomial")
    other = table.assign(age=18.0, bmi=15.0)
    second = fitted("yes ~ age * ward + bs(bmi)", other, family="binomial")
    assert first.design_.to_dict() == second.design_.to_dict()
    assert np.array_equal(first.design_.terms.matrix, second.design_.terms.matrix)


def test_levels_can_be_paid_for(table):
    columns = COLUMNS | {"note": discreet.discover()}
    model = fitted("yes ~ age * note", table, family="binomial", columns=columns)
    assert [line for line in model.params.index if "note" in line] == ["note=y", "age:note=y"]


def test_estimators_take_formulas(table):
    settings = {"columns": {"age": (18, 100)}, "inference": True, "random_state": 0}
    model = discreet.LogisticRegression(100, formula="age * sex", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table, table["yes"])
        same = fitted("yes ~ age * sex", table, family="binomial", columns={"age": (18, 100)})
    assert model.params.to_numpy() == pytest.approx(same.params.to_numpy(), rel=0.05, abs=0.01)
    assert model.feature_names_in_.tolist() == ["age", "sex"]
    assert discreet.LogisticRegression(100, formula="age").get_params()["formula"] == "age"


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"formula": "y ~ age"}, ValueError, "the target is y of fit"),
        ({"formula": "0 + age"}, ValueError, "has no constant.*fit_intercept=False"),
        ({"formula": "age", "fit_intercept": False}, ValueError, "has a constant"),
        ({"formula": "age", "features": "additive"}, ValueError, "says what the features are"),
        ({"formula": "poly(age)"}, NotSupported, "learn from the rows"),
        ({"formula": "age", "preparation": [discreet.Bounds([0])]}, NotSupported, "Bounds before"),
    ],
)
def test_settings_that_contradict_a_formula(settings, kind, words):
    model = discreet.LogisticRegression(1.0, **settings)
    with pytest.raises(kind, match=words):
        model.check_settings()


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"family": "gausian"}, ValueError, "did you mean 'gaussian'"),
        ({"family": "gamma", "link": "inverse"}, NotSupported, "has the link 'log'"),
        ({"formula": "~ age"}, ValueError, "names no target"),
        ({"formula": "maybe ~ age"}, ValueError, "'maybe', which the table does not have"),
        ({"formula": "yes ~ agee"}, ValueError, "did you mean 'age'"),
        ({"formula": "yes ~ note"}, ValueError, "not declared: note"),
        ({"formula": "yes ~ bs(days)", "columns": None}, ValueError, "public bounds of 'days'"),
        ({"inference": False}, NotSupported, "Use discreet.fit"),
        ({"family": "poisson", "formula": "count ~ age"}, ValueError, "needs target_bounds"),
    ],
)
def test_errors_come_before_a_row_is_read(table, settings, kind, words):
    class Unread(pd.DataFrame):
        """A table whose cells must not be read."""

        def __arrow_c_stream__(self, *_):
            raise AssertionError("rows were read")

    settings = {"formula": "yes ~ age", "family": "binomial", "epsilon": 1.0} | settings
    settings.setdefault("columns", COLUMNS)
    formula = settings.pop("formula")
    with pytest.raises(kind, match=words):
        discreet.glm(formula, Unread(table), **settings)
