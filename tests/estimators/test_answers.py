"""Answers by column: reference levels, own units, joint tests, explanations, names."""

import io
import json
import pickle
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot
from scipy.special import expit
from scipy.stats import binom, chi2, norm
from sklearn.base import clone

from discreet import (
    DiscreteTimeSurvival,
    LinearRegression,
    LogisticRegression,
    NotSupported,
    OrdinalClassifier,
    PoissonRegressor,
    TableModel,
    load,
    save,
)
from discreet.design import Design
from discreet.errors import AveragedCellsWarning
from discreet.estimators.effects import LEAST, effects, noisy_means, nonnegative
from discreet.estimators.layout import layout
from discreet.tables import Boolean, Categorical, Hashed, Ignored, Numeric, Ordinal, Schema

pytestmark = pytest.mark.filterwarnings("ignore")

N = 8000
LEVELS = ("A", "B", "C", "D")
PAIN = ("none", "some", "much")
COLUMNS = {
    "age": Numeric(18, 98),
    "income": Numeric(0, 1e5, scale="log"),
    "ward": Categorical(LEVELS, unseen="average"),
    "pain": Ordinal(PAIN),
}


@pytest.fixture(scope="module")
def table():
    """A table of 8,000 rows whose log-odds are known in own units."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 98, N),
            "income": np.exp(rng.normal(9, 1, N)),
            "ward": rng.choice(LEVELS, N, p=[0.4, 0.3, 0.2, 0.1]),
            "smoker": rng.random(N) < 0.3,
            "pain": rng.choice(PAIN, N),
        }
    )
    ward = frame.ward.map({"A": 0.0, "B": 1.0, "C": -0.5, "D": 0.4}).astype(float)
    pain = frame.pain.map({"none": 0.0, "some": 0.3, "much": 0.6}).astype(float)
    score = 0.03 * (frame.age - 50) + ward + 0.5 * frame.smoker + pain - 0.5
    return frame, rng.random(N) < expit(score)


def model(inference=True, columns=COLUMNS, **settings):
    settings = {"epsilon": 8.0, "random_state": 0, **settings}
    return LogisticRegression(delta=1e-6, columns=columns, inference=inference, **settings)


@pytest.fixture(scope="module")
def fitted(table):
    return model().fit(*table)


@pytest.fixture(scope="module")
def default(table):
    return model(inference=False).fit(*table)


def referring(level):
    return COLUMNS | {"ward": Categorical(LEVELS, unseen="average", reference=level)}


# ---- reference levels


def test_a_model_with_intervals_leaves_the_reference_out(fitted, default):
    assert fitted.design_.feature_names == [
        "age", "income", "ward=B", "ward=C", "ward=D", "smoker", "pain"
    ]  # fmt: skip
    assert fitted.coef_.shape == (1, 7)
    assert "ward=A" in default.design_.feature_names
    assert np.isfinite(fitted.standard_errors_).all()


def test_a_reference_is_a_listed_level():
    with pytest.raises(ValueError, match=r"reference = 'X' is not among the values"):
        Categorical(LEVELS, reference="X")
    assert Categorical(LEVELS).reference_level == "A"
    assert Categorical(LEVELS, reference=" C ").reference_level == "C"


def test_schema_files_keep_the_reference():
    schema = Schema({"ward": Categorical(LEVELS, reference="C"), "city": Categorical(["x", "y"])})
    text = schema.to_toml()
    assert 'reference = "C"' in text
    assert text.count("reference") == 1
    assert Schema.from_toml(text) == schema


def test_rows_are_encoded_by_themselves(table):
    """An unlisted level is the middle of the levels, dense and sparse; no other row changes."""
    frame, _ = table
    few = frame.head(40_000).copy()
    few.loc[few.index[3], "ward"] = "new"
    few.loc[few.index[4], "ward"] = None
    wide = Categorical([*LEVELS, *(f"w{k}" for k in range(40))], unseen="average")
    for ward in (COLUMNS["ward"], wide):
        columns = COLUMNS | {"ward": ward, "smoker": Boolean()}
        design = Design(Schema({name: columns[name] for name in frame}))
        short = design.for_inference()
        whole, encoded = (np.asarray(_dense(each.encode(few))) for each in (design, short))
        kept = [design.feature_names.index(name) for name in short.feature_names]
        others = np.delete(np.arange(len(few)), [3, 4])
        np.testing.assert_array_equal(encoded[others], whole[others][:, kept])
        own = [k for k, name in enumerate(short.feature_names) if name.startswith("ward=")]
        np.testing.assert_allclose(encoded[3:5, own], 1 / len(ward.values), rtol=1e-6)
        assert short.width == design.width - 1
        again = Design.from_dict(json.loads(json.dumps(short.to_dict())))
        assert again.feature_names == short.feature_names


def _dense(rows):
    return rows.toarray() if hasattr(rows, "toarray") else rows


def test_marks_and_buckets_keep_all_indicators():
    columns = {
        "a": Categorical(["x", "y", "z"], "other", missing=True, reference="y"),
        "b": Hashed(4),
        "c": Categorical(["only"], unseen="average"),
        "d": Ignored(),
    }
    design = Design(Schema(columns)).for_inference()
    assert design.feature_names == [
        "a=x", "a=z", "a=(other)", "a=(missing)", "b#0", "b#1", "b#2", "b#3", "c=only"
    ]  # fmt: skip
    frame = pd.DataFrame({"a": ["x", "y", "q", None], "b": list("stuv"), "c": ["only"] * 4, "d": 1})
    encoded = _dense(design.encode(frame))[:, :4]
    np.testing.assert_array_equal(encoded, [[1, 0, 0, 0], [0] * 4, [0, 0, 1, 0], [0, 0, 0, 1]])


def test_an_unlisted_level_is_scored_as_the_average(fitted, table):
    frame, _ = table
    one = frame.head(1)
    scores = {level: fitted.decision_function(one.assign(ward=level))[0] for level in LEVELS}
    shares = frame.ward.value_counts(normalize=True)
    average = sum(shares[level] * score for level, score in scores.items())
    rows = pd.concat([one.assign(ward="new"), one.assign(ward=None)])
    with pytest.warns(AveragedCellsWarning, match=r"2 cells are scored .*: ward \(2\)"):
        found = fitted.decision_function(rows)
    assert found[0] == found[1] == pytest.approx(average, abs=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AveragedCellsWarning)
        fitted.decision_function(frame)
    inside = fitted.predict_interval(rows)
    assert (inside.low < expit(found)).all()
    assert (inside.high > expit(found)).all()
    own = fitted.predict_interval(frame.head(1))
    assert inside.sampling[0] < 4 * own.sampling[0]


def test_files_and_pickles_keep_the_contrasts(fitted, table, tmp_path):
    frame, _ = table
    save(fitted, tmp_path / "model.json")
    for again in (load(tmp_path / "model.json"), pickle.loads(pickle.dumps(fitted))):
        assert str(again.summary()) == str(fitted.summary())
        np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    assert clone(fitted).get_params()["inference"] is True


# ---- own units


def test_own_units_are_those_of_a_model_scaled_by_hand(fitted, table):
    """The same fit, of columns encoded by hand and with the same noise; to 1e-9."""
    frame, y = table
    ends = np.log1p(1e5)
    X = np.column_stack(
        [
            (frame.age - 18) / 80,
            np.log1p(frame.income.clip(upper=1e5)) / ends,
            *(frame.ward == level for level in LEVELS[1:]),
            frame.smoker,
            frame.pain.map({"none": 0.0, "some": 0.5, "much": 1.0}).astype(float),
        ]
    ).astype(float)
    by_hand = model(columns=None).fit(X, y)
    L = np.zeros((8, 8))  # intercept, age, log(1 + income), B, C, D, smoker, pain
    L[0, :2] = 1.0, -18 / 80
    L[1:, 1:] = np.diag([1 / 80, 1 / ends, 1.0, 1.0, 1.0, 1.0, 1 / 2])
    beta = np.append(by_hand.intercept_, by_hand.coef_)
    frame = fitted.summary().to_frame()
    assert list(frame.index) == [
        "intercept", "age", "log(1 + income)", "ward=B", "ward=C", "ward=D", "smoker",
        "pain (per step)",
    ]  # fmt: skip
    np.testing.assert_allclose(frame["coef"], L @ beta, rtol=1e-9)
    covariance = L @ by_hand.cov_params_ @ L.T
    np.testing.assert_allclose(fitted.cov_params_, covariance, rtol=1e-9)
    np.testing.assert_allclose(fitted.standard_errors_, np.sqrt(np.diag(covariance)), rtol=1e-9)
    low, high = fitted.conf_int(0.9).T
    np.testing.assert_allclose(high - low, 2 * norm.ppf(0.95) * fitted.standard_errors_)
    np.testing.assert_allclose(frame["odds ratio"], np.exp(frame["coef"]))


def test_coefficients_are_near_the_truth(fitted):
    """By 6 standard errors each, of 8: a false alarm has a chance of 2e-8."""
    truth = [-2.0, 0.03, 0.0, 1.0, -0.5, 0.4, 0.5, 0.3]
    assert (np.abs(fitted.summary().to_frame()["coef"] - truth) < 6 * fitted.standard_errors_).all()


def test_contrasts_are_those_of_a_fit_with_another_reference(fitted, table):
    """Two fits with other noise: their contrasts differ by less than 6 standard errors.

    Of 3 contrasts and the intercept: a false alarm has a chance below 1e-8.
    """
    other = model(columns=referring("C"), random_state=1).fit(*table)
    one, two = (each.summary().to_frame()["coef"] for each in (fitted, other))
    apart = 6 * np.hypot(fitted.standard_errors_.max(), other.standard_errors_.max())
    assert two["ward=B"] == pytest.approx(one["ward=B"] - one["ward=C"], abs=apart)
    assert two["ward=A"] == pytest.approx(-one["ward=C"], abs=apart)
    assert two["intercept"] == pytest.approx(one["intercept"] + one["ward=C"], abs=apart)
    assert "ward (reference: C)" in str(other.summary())


def test_contrasts_of_a_default_fit_are_differences_of_its_weights(default, table):
    """Scores are the sum of the table's lines, with the curve of age at its own place."""
    names = default.design_.feature_names
    assert "age" in names
    linear = model(
        False,
        COLUMNS
        | {
            n: Numeric(lo, hi, scale=s, shape="linear")
            for n, lo, hi, s in (("age", 18, 98, "linear"), ("income", 0, 1e5, "log"))
        },
    )
    linear.fit(*table)
    found = linear.summary().to_frame()["coef"]
    weights = dict(zip(linear.get_feature_names_out(), linear.coef_[0], strict=True))
    assert found["ward=C"] == pytest.approx(weights["ward=C"] - weights["ward=A"])
    windows = linear.features_.bounds
    assert found["age"] == pytest.approx(weights["age"] / (80 * windows.unit[0]))
    frame = table[0].head(50)
    score = found["intercept"] + found["age"] * frame.age
    score += found["log(1 + income)"] * np.log1p(frame.income) + found["smoker"] * frame.smoker
    score += found["pain (per step)"] * frame.pain.map({k: i for i, k in enumerate(PAIN)})
    score += frame.ward.map({"A": 0.0} | {k: found[f"ward={k}"] for k in "BCD"})
    np.testing.assert_allclose(score, linear.decision_function(frame), rtol=1e-9)
    text = str(linear.summary())
    assert "ward (reference: A)\n" in text
    assert "–" in text
    assert np.isnan(linear.standard_errors_).all()
    assert linear.cov_params_.shape == (8, 8)


def test_a_level_without_a_weight_is_compared_as_the_average(table):
    frame, y = table
    columns = COLUMNS | {"ward": Categorical((*LEVELS, "E"), unseen="average", reference="E")}
    found = model(False, columns).fit(frame, y)
    by_name = dict(zip(found.get_feature_names_out(), found.coef_[0], strict=True))
    assert by_name["ward=E"] == 0.0
    one = frame.head(1)
    scores = [found.decision_function(one.assign(ward=level))[0] for level in "BE"]
    assert found.summary().to_frame()["coef"]["ward=B"] == pytest.approx(scores[0] - scores[1])


def test_the_joint_test_is_walds(fitted):
    frame = fitted.summary().to_frame()
    at = [k for k, column in enumerate(frame["column"]) if column == "ward"]
    values = frame["coef"].to_numpy()[at]
    statistic = values @ np.linalg.solve(fitted.cov_params_[np.ix_(at, at)], values)
    found = fitted.summary().to_dict()["models"][0]["tests"]
    assert [each["column"] for each in found] == ["ward"]
    assert found[0]["chi2"] == pytest.approx(statistic)
    assert found[0]["df"] == 3
    assert found[0]["p"] == pytest.approx(chi2.sf(statistic, 3))
    assert f"ward (reference: A)  chi2(3) = {statistic:.2f}, p < 0.001" in str(fitted.summary())


@pytest.mark.slow
def test_the_joint_test_of_a_null_category_has_its_level():
    """100 fits of a category without an effect: rejections at 5 % are binomial.

    More of them than the limit have a chance of 1e-6.
    """
    rejected = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"x": rng.random(4000), "ward": rng.choice(LEVELS, 4000)})
        y = rng.random(4000) < expit(frame.x - 0.5)
        columns = {"x": (0, 1), "ward": list(LEVELS)}
        found = model(columns=columns, epsilon=3.0, random_state=seed).fit(frame, y)
        rejected += found.summary().to_dict()["models"][0]["tests"][0]["p"] < 0.05
    assert rejected <= binom.isf(1e-6, 100, 0.05)


def test_tables_name_column_level_and_reference(fitted):
    row = fitted.summary().to_dict()["models"][0]["coefficients"][3]
    assert (row["name"], row["column"], row["level"], row["reference"]) == (
        "ward=B", "ward", "B", "A"
    )  # fmt: skip
    html = fitted.summary()._repr_html_()
    assert "ward (reference: A)" in html
    assert "chi2(3)" in html
    assert "odds ratio" in html
    assert "own units" in str(fitted.summary())
    assert "odds ratio" not in str(fitted.summary(odds_ratios=False))
    plain = fitted.summary(names=fitted.design_.feature_names).to_frame()
    assert "column" not in plain
    assert plain["coef"]["age"] == fitted.coef_[0, 0]


def test_ratios_have_the_name_of_their_family(table):
    frame, y = table
    settings = {"delta": 1e-6, "columns": COLUMNS, "inference": True, "random_state": 0}
    counts = PoissonRegressor(8.0, target_bounds=(0, 2), **settings).fit(frame, y.astype(float))
    assert "rate ratio" in counts.summary().to_frame()
    line = LinearRegression(8.0, target_bounds=(0, 1), **settings).fit(frame, y.astype(float))
    assert "ratio" not in str(line.summary()).partition("====\n")[2].partition("---")[0]
    with pytest.raises(NotSupported, match="odds ratios"):
        line.summary(odds_ratios=True)


def test_selection_and_forest_plots_take_contrasts(fitted):
    figure = fitted.plot_coefficients()
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels[0].startswith("age (per 10")
    assert "ward: B" in labels
    assert "selected by the same numbers" in str(fitted.select_coefficients().summary())


# ---- effects


def test_effects_are_by_column_and_towards_a_class(fitted, default):
    for each in (fitted, default):
        figure = each.plot_effects()
        panels = [panel for panel in figure.axes if panel.get_title()]
        titles = [panel.get_title() for panel in panels]
        assert titles == ["age", "income", "ward", "smoker", "pain"]
        assert panels[0].get_ylabel() == "log-odds of True"
        assert panels[1].get_xlim() == pytest.approx((0.0, 1e5))
        levels = [text.get_text() for text in panels[2].get_xticklabels()]
        assert levels == list(LEVELS)
    at = effects(fitted)[2]
    coefficients = fitted.summary().to_frame()["coef"]
    np.testing.assert_allclose(at.values[0], [0.0, *coefficients[["ward=B", "ward=C", "ward=D"]]])
    np.testing.assert_allclose(at.deviation[0][1:], fitted.standard_errors_[3:6])


def test_a_mark_has_no_panel_of_its_own(table):
    """A mark without a row is not drawn; with rows it is beside the line of its column."""
    frame, y = table
    columns = COLUMNS | {"age": Numeric(18, 98, missing=True, shape="linear")}
    found = model(False, columns).fit(frame, y)
    assert [each.name for each in effects(found)] == ["age", "income", "ward", "smoker", "pain"]
    assert not effects(found)[0].expected[-1]
    gaps = frame.assign(age=frame.age.where(frame.index % 3 > 0))
    found = model(False, columns).fit(gaps, y)
    assert effects(found)[0].expected.all()
    age = found.plot_effects().axes[0]
    assert [text.get_text() for text in age.texts] == ["missing "]
    assert "age=(missing)" in found.summary().to_frame().index
    assert "(missing)' is compared" in str(found.summary())


def test_a_figure_has_at_most_30_panels_unless_asked():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"c{k}": rng.random(4000) for k in range(33)})
    y = rng.random(4000) < expit(4 * (X.c32 - 0.5))
    columns = {name: Numeric(0, 1, shape="linear") for name in X}
    found = model(False, columns).fit(X, y)
    figure = found.plot_effects()
    titles = [panel.get_title() for panel in figure.axes if panel.get_title()]
    assert len(titles) == 30
    assert "c32" in titles
    assert "30 of 33 columns; 3 are left out" in figure.get_suptitle()
    assert len([p for p in found.plot_effects(panels=33).axes if p.get_title()]) == 33
    named = found.plot_effects(columns=["c1", "c32"])
    assert [panel.get_title() for panel in named.axes] == ["c1", "c32"]
    with pytest.raises(ValueError, match="columns must name"):
        found.plot_effects(columns=["x"])


@pytest.mark.parametrize(("n", "epsilon"), [(500, 1.0), (1000, 0.5)])
def test_the_most_frequent_numbers_are_shown_whatever_the_noise(n, epsilon):
    """Ages around a mode, and cut at a bound, at small budgets: 12 fits each, with seeded noise.

    In some of these fits a feature of the mode is below 5 deviations of the noise, while another
    is above: that alone must not make a gap.
    """
    rng = np.random.default_rng(7)
    unclear = 0
    for mode, spread, low, high in ((63, 9, 57, 69), (75, 12, 68, 75)):
        for seed in range(100, 112):
            age = np.clip(rng.normal(mode, spread, n), 44, 75)
            noise = {f"x{k}": rng.normal(50, 15, n) for k in range(8)}
            frame = pd.DataFrame({"age": age, **noise})
            y = rng.random(n) < expit((age - 60) / 10)
            columns = {"age": (44, 75)} | dict.fromkeys(noise, (0, 100))
            settings = {"features": "additive", "epsilon": epsilon, "random_state": seed}
            found = model(False, columns, **settings).fit(frame, y)
            curve = effects(found)[0]
            at = found.design_.units["age"](curve.at)
            assert curve.expected[(at >= low) & (at <= high)].all()
            means, deviations = noisy_means(found)
            inner = list(layout(found)[0].curve)[1:3]
            unclear += (means[inner] > LEAST * deviations[inner]).sum() == 1
    assert unclear > 0


@pytest.mark.slow
def test_fifty_columns_are_drawn_in_seconds():
    rng = np.random.default_rng(0)
    levels = [f"level {k}" for k in range(6)]
    data = {f"n{k}": rng.random(4000) for k in range(25)}
    data |= {f"c{k}": rng.choice(levels, 4000) for k in range(25)}
    columns = {name: levels if name[0] == "c" else (0, 1, "linear") for name in data}
    found = model(False, columns, epsilon=3.0).fit(pd.DataFrame(data), rng.random(4000) < 0.5)
    start = time.process_time()
    found.plot_effects()._repr_png_()
    assert time.process_time() - start < 5.0


def test_figures_show_themselves_once(fitted):
    """A figure has an image of its own, and pyplot, which would show it once more, has none."""
    before = pyplot.get_fignums()
    figures = [fitted.plot_effects(), fitted.plot_coefficients()]
    assert pyplot.get_fignums() == before
    for figure in figures:
        assert figure._repr_png_().startswith(b"\x89PNG")
        assert figure._repr_html_() is None


# ---- explanations


def three(table):
    frame, y = table
    return model(inference=False, classes=[0, 1, 2]).fit(frame, y + (frame.age > 60))


def counts(table):
    settings = {"columns": COLUMNS, "target_bounds": (0, 2), "random_state": 0}
    return PoissonRegressor(8.0, 1e-6, **settings).fit(table[0], table[1].astype(float))


def ordered(table):
    frame, y = table
    settings = {"columns": COLUMNS, "classes": [0, 1, 2], "random_state": 0}
    return OrdinalClassifier(8.0, 1e-6, **settings).fit(frame, y + (frame.age > 60))


def spells(table):
    frame, y = table
    settings = {"columns": COLUMNS, "periods": 4, "random_state": 0}
    return DiscreteTimeSurvival(8.0, 1e-6, **settings).fit(frame, 1 + frame.age % 4, event=y)


def intervals(table):
    return model().fit(*table)


def curves(table):
    return model(False).fit(*table)


def published(table):
    return model(False, solver="objpert", data_norm=4.0).fit(*table)


KINDS = [three, counts, ordered, spells, intervals, curves, published]


@pytest.mark.parametrize("make", KINDS)
def test_contributions_add_up_to_the_score(make, table):
    found = make(table)
    rows = table[0].head(30).copy()
    rows.loc[rows.index[2], "ward"] = "new"
    explained = found.explain(rows)
    assert explained.columns == tuple(table[0])
    scores = found._margins(found._read_new(rows))
    np.testing.assert_allclose(explained.scores, scores, rtol=0, atol=1e-9)
    frame = explained.to_frame()
    total = frame["(baseline)"] + frame[list(explained.columns)].sum(axis=1)
    np.testing.assert_allclose(total, frame["(score)"], rtol=0, atol=1e-9)
    assert explained.contributions[2, 2] == pytest.approx(0.0, abs=1e-12)
    assert explained.cells(2)[2] == "(average)"
    cells = explained.cells(0)
    row = rows.iloc[0]
    assert float(cells[0]) == pytest.approx(row.age)
    assert float(cells[1]) == pytest.approx(row.income, rel=1e-4)
    assert cells[2:] == (row.ward, "yes" if row.smoker else "no", row.pain)
    assert "average row" in str(explained)
    assert "score" in explained._repr_html_()
    image = io.BytesIO()
    explained.plot(row=-1).savefig(image, dpi=30)
    assert image.getbuffer().nbytes > 1000


def test_the_average_row_has_the_released_means():
    rng = np.random.default_rng(0)
    X = rng.normal([5.0, -3.0], 1.0, (4000, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=4000)
    settings = {"target_bounds": (-10, 10), "random_state": 0}
    found = LinearRegression(8.0, 1e-6, **settings).fit(X, y)
    explained = found.explain(X)
    assert explained.columns == ("x0", "x1")
    assert explained.contributions.mean(axis=0) == pytest.approx(0.0, abs=0.2)
    assert explained.baseline[0] == pytest.approx(y.mean(), abs=0.3)
    np.testing.assert_allclose(explained.scores[:, 0], found.predict(X), atol=1e-9)
    assert explained.towards == "units of the target"


def test_the_average_row_is_average_where_noise_hides_levels():
    """Levels whose share is below the noise in it still have a part in the average row."""
    rng = np.random.default_rng(1)
    names = [f"c{k}" for k in range(12)]
    codes = {name: rng.choice(4, 6000, p=[0.55, 0.15, 0.15, 0.15]) for name in names}
    score = sum((codes[name] > 0) - 0.45 for name in names[:4])
    frame = pd.DataFrame({name: np.array(list("abcd"))[own] for name, own in codes.items()})
    frame["number"] = rng.random(6000)
    y = rng.random(6000) < expit(score)
    columns = {name: list("abcd") for name in names}
    hidden = 0
    for seed in range(5):
        found = model(False, columns, solver="auto", epsilon=1.0, random_state=seed).fit(frame, y)
        means, deviations = noisy_means(found)
        hidden += np.count_nonzero(means < LEAST * deviations)
        explained = found.explain(frame)
        assert abs(explained.contributions.mean(axis=0)).max() < 0.3
        assert explained.baseline[0] == pytest.approx(explained.scores.mean(), abs=0.5)
    assert hidden > 20


def test_means_that_are_not_negative_have_their_posterior_mean():
    """The posterior mean of a number with an even prior from 0, by integration."""
    values = np.array([-3.0, -0.2, 0.0, 0.4, 5.0])
    deviations = np.array([0.5, 1.0, 0.3, 0.2, 2.0])
    at = np.linspace(0.0, 40.0, 400_001)[:, None]
    density = np.exp(-np.square((at - values) / deviations) / 2)
    integrated = (at * density).sum(axis=0) / density.sum(axis=0)
    np.testing.assert_allclose(nonnegative(values, deviations), integrated, rtol=1e-3)
    assert nonnegative(np.array([-1e3]), np.ones(1))[0] >= 0.0


def test_explanations_of_several_classes_and_of_wrong_rows(table):
    found = three(table).explain(table[0].head(3))
    assert found.labels == ("0", "1", "2")
    assert found.to_frame().shape == (9, 7)
    assert "score of 2" in found.plot(0, label="2").axes[0].get_xlabel()
    for wrong in (3, "x"):
        with pytest.raises((ValueError, TypeError), match="row"):
            found.plot(wrong)
    with pytest.raises(ValueError, match="label must be one of"):
        found.plot(0, label="x")


def test_models_with_a_schema_answer_by_column(table):
    frame, y = table
    schema = Schema({name: COLUMNS.get(name, Boolean()) for name in frame})
    estimator = model(False, None, solver="auto", schema=schema).fit(frame, y)
    found = TableModel(estimator, schema)
    explained = found.explain(frame.head(9))
    assert explained.columns == tuple(frame)
    scores = estimator.decision_function(frame.head(9))
    np.testing.assert_allclose(explained.scores[:, 0], scores, atol=1e-9)
    assert "ward (reference: A)" in str(found.summary())
    titles = [panel.get_title() for panel in found.plot_effects(columns=["ward", "age"]).axes]
    assert titles == ["ward", "age"]


# ---- names


def test_columns_and_feature_names_agree(fitted, default, table):
    for each in (fitted, default):
        names = each.get_feature_names_out().tolist()
        assert len(names) == each.coef_.shape[1]
        assert sorted(name for one in each.columns_ for name in one["features"]) == sorted(names)
        assert names == each.features_.names(each.design_.feature_names)
        assert each.design_.get_feature_names_out().tolist() == each.design_.feature_names
        assert [one["name"] for one in each.columns_] == list(table[0])
    age, income, ward, smoker, pain = fitted.columns_
    assert (age["kind"], age["bounds"]) == ("numeric", (18.0, 98.0))
    assert income["unit"] == "1 of log(1 + x)"
    assert (ward["levels"], ward["reference"]) == (list(LEVELS), "A")
    assert smoker["unit"] == "yes"
    assert pain["levels"] == list(PAIN)
    plain = LogisticRegression(1.0, 1e-6, classes=[0, 1]).fit(np.eye(40), np.arange(40) % 2)
    assert [one["name"] for one in plain.columns_] == [f"x{k}" for k in range(40)]


def test_transformers_give_frames_with_the_same_names(table):
    frame, _ = table
    schema = Schema({name: COLUMNS.get(name, Boolean()) for name in frame})
    for library, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        encoder = schema.transformer(sparse=False).set_output(transform=library)
        found = encoder.fit_transform(frame.head())
        assert isinstance(found, kind)
        assert list(found.columns) == encoder.get_feature_names_out().tolist()
        assert list(found.columns) == Design(schema).feature_names
