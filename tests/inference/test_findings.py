"""What follows from released coefficients: tests, contrasts, submodels, margins, data frames.

Statistical tests compare with bounds of false alarm at most 1e-6.
"""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import binom, chi2, norm

from discreet import LinearRegression, LogisticRegression, NotSupported, PoissonRegressor
from discreet.inference import Coefficients, JointTest, Term
from discreet.inference.checks import Checks, Variances
from discreet.inference.covariance import Covariance
from discreet.inference.hypotheses import Hypothesis, adjusted, contrasts, equivalence
from discreet.inference.hypotheses import test as wald

FALSE_ALARM = 1e-6
COLUMNS = {"age": (18, 110), "bmi": (10, 60), "ward": ["A", "B", "C"]}
quiet = pytest.mark.filterwarnings("ignore")


def visits(n, seed=0):
    rng = np.random.default_rng(seed)
    ward = rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2])
    table = pd.DataFrame(
        {"age": rng.uniform(20, 90, n), "bmi": rng.normal(25, 4, n).clip(10, 60), "ward": ward}
    )
    table["bmi"] = (table["bmi"] + 0.05 * (table["age"] - 55)).clip(10, 60)
    score = 0.02 * (table["age"] - 50) + 0.05 * (table["bmi"] - 25)
    return table, (score + 0.5 * (ward == "B") - 0.3 * (ward == "C")).to_numpy(), rng


@pytest.fixture(scope="module")
def line():
    table, score, rng = visits(20_000)
    y = score + rng.normal(size=len(score))
    settings = {"target_bounds": (-12, 12), "inference": True, "columns": COLUMNS}
    return LinearRegression(100.0, 1e-6, **settings).fit(table, y), table, y


@pytest.fixture(scope="module")
def classes():
    table, score, rng = visits(20_000)
    y = (rng.random(len(score)) < expit(score)).astype(int)
    settings = {"classes": [0, 1], "inference": True, "columns": COLUMNS}
    return LogisticRegression(100.0, 1e-6, **settings).fit(table, y), table, y


TERMS = (
    Term("intercept"),
    Term("age", "age"),
    Term("age years", "age years"),
    Term("ward=B", "ward", "B", "A"),
    Term("ward=C, D", "ward", "C, D", "A"),
)


def coefficients(values=(1.0, 2.0, 3.0, 4.0, 5.0), covariance=None):
    whole = np.diag([1.0, 4.0, 9.0, 1.0, 1.0]) if covariance is None else covariance
    errors = np.sqrt(np.diag(whole))
    none = np.zeros(5)
    return Coefficients(TERMS, np.array(values), errors, none, none, "", covariance=whole)


@pytest.mark.parametrize(
    ("text", "rows", "values"),
    [
        ("age", [[0, 1, 0, 0, 0]], [0]),
        ("age years = 2", [[0, 0, 1, 0, 0]], [2]),
        ("ward", [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], [0, 0]),
        ("ward=B = ward=C, D", [[0, 0, 0, 1, -1]], [0]),
        ("2*age - 0.5 * ward=B + 1 = -3", [[0, 2, 0, -0.5, 0]], [-4]),
        ("age = 0, intercept = 1e1", [[0, 1, 0, 0, 0], [1, 0, 0, 0, 0]], [0, 10]),
        ("-age = age years", [[0, -1, -1, 0, 0]], [0]),
        (["age = 1", "ward"], [[0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], [1, 0, 0]),
    ],
)
def test_hypotheses_are_read_by_the_names_of_the_table(text, rows, values):
    found = Hypothesis.of(coefficients(), text)
    assert found.rows.tolist() == rows
    assert found.values.tolist() == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wrad", "'wrad' has no coefficient"),
        ("age = 0,", "must name coefficients"),
        ("3 = 3", "names no coefficient"),
        ("2*ward = 0", "several coefficients"),
        ("ageing = 0", "no coefficient at 'ageing = 0'"),
    ],
)
def test_other_texts_are_refused_with_the_names(text, message):
    with pytest.raises(ValueError, match=message):
        Hypothesis.of(coefficients(), text)


def test_wald_s_statistic_is_a_quadratic_form():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((5, 5))
    model = coefficients(covariance=root @ root.T)
    asked = Hypothesis.of(model, "age = 1, 2*ward=B - intercept = 3")
    apart = asked.rows @ model.values - asked.values
    expected = apart @ np.linalg.solve(asked.rows @ model.covariance @ asked.rows.T, apart)
    found = wald(model, asked)
    assert found.statistic == pytest.approx(expected)
    assert (found.df, found.p) == (2, pytest.approx(chi2.sf(expected, 2)))
    (one,) = contrasts(model, Hypothesis.of(model, "age - ward=B = 1"), 0.9)
    variance = model.covariance[1, 1] + model.covariance[3, 3] - 2 * model.covariance[1, 3]
    assert one.estimate == pytest.approx(-2.0)
    assert one.std_error == pytest.approx(np.sqrt(variance))
    assert one.z == pytest.approx(-3.0 / np.sqrt(variance))
    assert one.high - one.low == pytest.approx(2 * 1.6449 * one.std_error, rel=1e-3)


def test_what_has_no_interval_has_no_test():
    whole = np.eye(5)
    whole[1] = whole[:, 1] = np.nan
    model = coefficients(covariance=whole)
    assert np.isnan(wald(model, Hypothesis.of(model, "age")).statistic)
    assert np.isfinite(wald(model, Hypothesis.of(model, "ward")).statistic)
    (one,) = contrasts(model, Hypothesis.of(model, "age + ward=B"), 0.95)
    assert np.isnan([one.std_error, one.p, one.low]).all()


def test_adjusted_p_values():
    """By hand; NaN is left out and does not count."""
    p = [0.01, 0.04, np.nan, 0.03, 0.005]
    assert adjusted(p, "bonferroni")[[0, 1, 3, 4]] == pytest.approx([0.04, 0.16, 0.12, 0.02])
    assert adjusted(p, "holm")[[0, 1, 3, 4]] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjusted(p, "fdr_bh")[[0, 1, 3, 4]] == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert np.isnan(adjusted(p, "holm")[2])
    with pytest.raises(ValueError, match="adjust"):
        adjusted(p, "sidak")


def test_equivalence_takes_the_worse_of_both_sides():
    model = coefficients()
    (one,) = contrasts(model, Hypothesis.of(model, "ward=B"), 0.95)  # 4 with an error of 1
    assert equivalence(one, 1.0, 5.0).p == pytest.approx(norm.sf(1.0))
    assert equivalence(one, 3.5, 9.0).p == pytest.approx(norm.sf(0.5))
    with pytest.raises(ValueError, match="high"):
        equivalence(one, 2.0, 2.0)


def least_squares(table, y, columns):
    parts = {"age": table["age"], "bmi": table["bmi"]}
    parts |= {f"ward={level}": (table["ward"] == level).astype(float) for level in "BC"}
    names = [name for name in parts if name.split("=")[0] in columns]
    V = np.column_stack([np.ones(len(y)), *(parts[name] for name in names)])
    beta, square, *_ = np.linalg.lstsq(V, y, rcond=None)
    variance = square[0] / (len(y) - V.shape[1]) * np.linalg.inv(V.T @ V)
    return ["intercept", *names], beta, np.sqrt(np.diag(variance))


@quiet
@pytest.mark.parametrize("columns", [["age", "bmi", "ward"], ["age"], ["bmi", "ward"]])
def test_submodels_are_those_of_other_fits(line, columns):
    """They are apart from least squares on these columns by the known noise, mostly.

    Six deviations of it, and 0.2 standard errors for the cut of residuals and weights of rows.
    """
    model, table, y = line
    names, beta, errors = least_squares(table, y, columns)
    found = model.submodel(columns).to_frame()
    assert list(found.index) == names
    noise = np.sqrt(found["noise share"]) * found["std err"]
    assert (np.abs(found["coef"] - beta) < 6 * noise + 0.2 * errors).all()
    own = np.sqrt(1 - found["noise share"]) * found["std err"]
    assert own.to_numpy() == pytest.approx(errors, rel=0.1)
    assert (found["noise share"] < 0.6).all()
    text = str(model.submodel(columns))
    assert "exact given the released moments" in text
    assert 'cov_type="model"' in text


@quiet
def test_shares_of_the_variance(line):
    model, table, y = line
    _, whole, _ = least_squares(table, y, ["age", "bmi", "ward"])
    assert whole.size == 5
    total = y.var()
    left = {}
    for columns in (["age", "bmi", "ward"], ["age", "bmi"], ["bmi", "ward"]):
        names, beta, _ = least_squares(table, y, columns)
        V = np.column_stack(
            [np.ones(len(y))]
            + [
                table[name] if name in table else table["ward"] == name.split("=")[1]
                for name in names[1:]
            ]
        ).astype(float)
        left[len(names), names[1]] = np.mean((y - V @ beta) ** 2)
    full = left[5, "age"]
    # its standard deviation over fits is 0.0024
    assert model.rsquared == pytest.approx(1 - full / total, abs=0.02)
    found = model.anova()
    assert found.loc["ward", "partial_r2"] == pytest.approx(1 - full / left[3, "age"], abs=0.01)
    assert found.loc["age", "partial_r2"] == pytest.approx(1 - full / left[4, "bmi"], abs=0.015)
    assert list(found.index) == ["age", "bmi", "ward"]
    assert list(found["df"]) == [1, 1, 2]
    assert found.loc["ward", "chi2"] == pytest.approx(model.wald_test("ward").statistic)
    summary = model.summary().models[0].tests["ward"]
    assert found.loc["ward", "chi2"] == pytest.approx(summary.statistic)


@quiet
def test_margins_are_differences_of_predictions(classes):
    model, table, _ = classes
    found = model.margins(table)
    probability = expit(model.decision_function(table))
    more = expit(model.decision_function(table.assign(age=table["age"] + 0.01)))
    assert found.loc["age", "effect"] == pytest.approx((more - probability).mean() / 0.01, rel=1e-3)
    at = [expit(model.decision_function(table.assign(ward=ward))).mean() for ward in "ABC"]
    assert found.loc["ward=B", "effect"] == pytest.approx(at[1] - at[0], rel=1e-3)
    assert found.loc["ward=C", "effect"] == pytest.approx(at[2] - at[0], rel=1e-3)
    assert "not protected" in found.attrs["where"]
    means = model.margins()
    assert means.loc["age", "effect"] == pytest.approx(found.loc["age", "effect"], rel=0.2)
    assert "released means" in means.attrs["where"]
    assert (found["std_error"] > 0).all()
    # an effect in proportion to a coefficient is as many standard errors from 0, nearly
    assert means.loc["age", "z"] == pytest.approx(model.tvalues["age"], rel=0.15)


@quiet
def test_errors_of_margins_are_those_of_refitted_models(classes):
    """The delta method against 4,000 draws of the coefficients; six deviations of a deviation."""
    model, table, _ = classes
    some = table.iloc[:500]
    rows, _ = model._rows_of(some)
    weights, _ = model._whole()
    covariance = model.covariances_[0].robust()
    whole = covariance.sampling + covariance.noise + covariance.bias
    draws = np.random.default_rng(3).multivariate_normal(weights, whole, 4_000)
    names = list(model.get_feature_names_out())
    scores = rows @ draws.T
    slope = draws[:, names.index("age")] / 92.0  # of one year
    effects = (expit(scores) * expit(-scores)).mean(axis=0) * slope
    assert model.margins(some).loc["age", "std_error"] == pytest.approx(effects.std(), rel=0.07)


@quiet
def test_data_frames_and_names_as_statsmodels_has_them(classes):
    model, _, _ = classes
    table = model.summary().to_frame()
    assert model.params.to_numpy() == pytest.approx(table["coef"].to_numpy())
    assert model.bse.to_numpy() == pytest.approx(table["std err"].to_numpy())
    assert model.tvalues.to_numpy() == pytest.approx(table["z"].to_numpy())
    assert model.pvalues.to_numpy() == pytest.approx(table["p"].to_numpy())
    assert list(model.params.index) == ["intercept", "age", "bmi", "ward=B", "ward=C"]
    assert model.nobs == 20_000
    tidy = model.tidy(exp=True, adjust="holm")
    assert tidy["estimate"].to_numpy() == pytest.approx(np.exp(table["coef"].to_numpy()))
    assert tidy["conf_low"].to_numpy() == pytest.approx(np.exp(table["low"].to_numpy()))
    assert np.isnan(tidy["p_adjusted"][0])  # the intercept is no hypothesis of interest
    assert (tidy["p_adjusted"][1:] >= tidy["p_value"][1:]).all()
    assert list(tidy["level"][3:]) == ["B", "C"]
    one = model.glance().iloc[0]
    assert (one["nobs"], one["epsilon"], one["cov_type"]) == (20_000, 100.0, "robust")
    assert isinstance(model.wald_test("age"), JointTest)
    assert model.equivalence_test("age", 0.0, 0.1).p < 1e-6


@quiet
def test_other_families_take_one_step_and_say_so(classes):
    model, _, _ = classes
    text = str(model.submodel(["age"]))
    assert "ONE-STEP APPROXIMATION" in text
    assert "odds ratio" in text
    with pytest.raises(ValueError, match="unknown columns height"):
        model.submodel(["height"])
    assert np.isnan(model.rsquared)


@quiet
def test_what_needs_intervals_says_so():
    table, score, rng = visits(2_000)
    y = score + rng.normal(size=len(score))
    about = {"columns": COLUMNS, "features": "linear", "inference": False}
    model = LinearRegression(3.0, 1e-6, target_bounds=(-12, 12), **about).fit(table, y)
    assert model.bse.isna().all()
    assert np.isnan(model.rsquared)
    asked = [partial(ask, "age") for ask in (model.wald_test, model.contrast)]
    asked += [partial(model.equivalence_test, "age", -1, 1), partial(model.submodel, ["age"])]
    for call in (*asked, model.anova, model.margins):
        with pytest.raises(NotSupported, match="inference=True"):
            call()


@quiet
def test_several_models_are_asked_for_by_label():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((4_000, 2))
    y = rng.integers(0, 3, 4_000)
    model = LogisticRegression(20.0, 1e-6, classes=[0, 1, 2], inference=True).fit(X, y)
    with pytest.raises(ValueError, match="pass label"):
        model.wald_test("x0")
    assert model.wald_test("x0", label=1).df == 1
    assert set(model.tidy()["label"]) == {"0", "1", "2"}
    assert model.params["1", "x0"] == model.summary().models[1].values[1]
    with pytest.raises(ValueError, match="no model"):
        model.wald_test("x0", label=7)


@quiet
def test_refused_coefficients_are_named_with_predictions():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((4_000, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=4_000)
    doubled = np.column_stack([X, X[:, 0]])
    model = LinearRegression(20.0, 1e-6, target_bounds=(-12, 12), inference=True).fit(doubled, y)
    with pytest.warns(UserWarning, match="x0, x3 is not 0 have no interval") as found:
        low = model.predict_interval(doubled[:5]).low
    assert np.isnan(low).all()
    assert len(found) == 1
    zero = doubled[:5].copy()
    zero[:, [0, 3]] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(model.predict_interval(zero).low).all()


@quiet
@pytest.mark.slow
def test_submodels_cover_with_noise_in_their_moments():
    """ε = 1: 150 fits of three columns of six; coverage of 600 intervals in 0.90 to 0.985."""
    inside = []
    slopes = np.array([0.4, -0.3, 0.2, 0.3, 0.0, 0.1])
    correlation = 0.5 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    root = np.linalg.cholesky(correlation)
    kept = [0, 2, 5]
    out = [1, 3, 4]
    carried = np.linalg.solve(correlation[np.ix_(kept, kept)], correlation[np.ix_(kept, out)])
    truth = np.append(0.0, slopes[kept] + carried @ slopes[out])
    for seed in range(150):
        rng = np.random.default_rng([11, seed])
        X = rng.standard_normal((10_000, 6)) @ root.T
        y = X @ slopes + rng.normal(size=10_000)
        model = LinearRegression(1.0, 1e-6, target_bounds=(-12, 12), inference=True).fit(X, y)
        frame = model.submodel(["x0", "x2", "x5"]).to_frame()
        inside.append(np.abs((frame["coef"] - truth) / frame["std err"]) < 1.96)
    count = int(np.sum(inside))
    assert binom.ppf(FALSE_ALARM, 600, 0.93) <= count <= binom.isf(FALSE_ALARM, 600, 0.975)


def spread(n, seed, skewed=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    error = rng.exponential(size=n) - 1.0 if skewed else rng.standard_normal(n)
    return X, X @ [0.5, -0.5, 0.0] + (0.5 + np.abs(X[:, 0])) * error


@quiet
def test_robust_errors_see_where_residuals_vary_and_model_errors_do_not():
    """The variance of x0 is E[s²x²]/E[s²] = 2.37 times that of others, with s = 1/2 + |x|."""
    X, y = spread(40_000, 1)
    settings = {"target_bounds": (-20, 20), "inference": True}
    model = LinearRegression(20.0, 1e-6, **settings).fit(X, y)
    ratio = model.covariances_[0].checks.variances.ratio
    assert ratio[0] / ratio[1] == pytest.approx(2.37, rel=0.2)
    assert ratio[2] / ratio[1] == pytest.approx(1.0, rel=0.2)
    robust, plain = (model.summary(cov_type=kind).to_frame() for kind in ("robust", "model"))
    grown = (robust["std err"] / plain["std err"]).to_numpy()
    assert grown[1] / grown[2] == pytest.approx(np.sqrt(2.37), rel=0.12)
    assert model.bse.to_numpy() == pytest.approx(robust["std err"].to_numpy())
    assert 'cov_type="robust"' in str(model.summary())
    assert 'cov_type="model"' in str(model.summary(cov_type="model"))
    without = LinearRegression(20.0, 1e-6, cov_type="model", **settings).fit(X, y)
    assert without.covariances_[0].checks.variances is None
    with pytest.raises(NotSupported, match="did not measure robust errors"):
        without.summary(cov_type="robust")
    with pytest.raises(ValueError, match="cov_type"):
        LinearRegression(1.0, 1e-6, cov_type="HC3", **settings).fit(X, y)


@quiet
def test_robust_errors_are_those_of_people():
    """A treatment of people and a column within people, 5 rows each: 25 % of variance is theirs.

    The treatment's variance of the mean of a person is 1 + 4·0.5 times that of single rows.
    """
    rng = np.random.default_rng(4)
    people, rows = 6_000, 5
    groups = np.repeat(np.arange(people), rows)
    X = rng.standard_normal((people * rows, 2))
    X[:, 0] = np.repeat(rng.standard_normal(people), rows)
    y = X @ [0.5, 0.5] + np.repeat(rng.standard_normal(people), rows)
    y = y + rng.standard_normal(people * rows)
    # cluster-robust variances: (1 + 1/5)/people for the treatment, 2/(5·people) within
    expected = np.sqrt([(1 + 1 / 5) / people, 2 / (rows * people)])
    found = []
    for seed in range(12):  # the noise in one fit's variances is a tenth of these errors
        settings = {"target_bounds": (-20, 20), "inference": True, "random_state": seed}
        model = LinearRegression(10.0, 1e-6, **settings).fit(X, y, groups=groups)
        tidy = model.tidy()
        found.append((tidy["std_error"] * np.sqrt(1 - tidy["noise_share"])).to_numpy()[1:])
    assert np.mean(found, axis=0) == pytest.approx(expected, rel=0.1)
    text = str(model.summary())
    assert "dependence within people" in text
    assert "about people, not rows" in text


@quiet
def test_skewed_errors_and_targets_at_a_bound_are_marked():
    X, y = spread(20_000, 2, skewed=True)
    settings = {"inference": True}
    skewed = LinearRegression(1.0, 1e-6, target_bounds=(-20, 20), **settings).fit(X, y)
    assert set(skewed.summary().models[0].marks) == {"tail"}
    assert "errors are skewed" in " ".join(str(skewed.summary()).split())
    X, y = spread(20_000, 3)
    plain = LinearRegression(1.0, 1e-6, target_bounds=(-20, 20), **settings).fit(X, y)
    assert set(plain.summary().models[0].marks) == {""}
    high = float(np.quantile(y, 0.97))
    cut = LinearRegression(1.0, 1e-6, target_bounds=(-20, high), **settings).fit(X, y)
    assert set(cut.summary().models[0].marks) == {"bound"}
    share = cut.covariances_[0].checks.at_bound
    assert abs(share - 0.03) < 6 * cut.covariances_[0].checks.at_bound_error
    assert "targets are at target_bounds" in str(cut.summary())
    assert set(cut.tidy()["check"]) == {"bound"}


@quiet
def test_counts_at_their_upper_bound_are_marked_and_zeros_are_counts():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((20_000, 2))
    y = rng.poisson(np.exp(0.3 * X[:, 0])).astype(float)
    marks = []
    for high in (12, 3):
        model = PoissonRegressor(3.0, 1e-6, target_bounds=(0, high), inference=True).fit(X, y)
        marks.append(set(model.summary().models[0].marks))
    assert marks == [{""}, {"bound"}]


def test_robust_variances_scale_rows_and_columns_of_the_covariance():
    rng = np.random.default_rng(6)
    root = rng.standard_normal((3, 3))

    whole = root @ root.T
    checks = Checks(variances=Variances(np.array([1.0, 4.0, 0.25]), 0.0))
    none = np.zeros((3, 3))
    made = Covariance(whole, none, none, np.zeros(3, bool), "", 1.0, checks)
    sampling = made.robust().sampling
    assert np.diag(sampling) == pytest.approx(np.diag(whole) * [1.0, 4.0, 0.25])
    before, after = (
        each / np.sqrt(np.outer(np.diag(each), np.diag(each))) for each in (whole, sampling)
    )
    assert after == pytest.approx(before)
