"""Inference on generated rows: coverage, what is refused, and that it is paid for.

Statistical tests compare with bounds of false alarm at most 1e-6, by the binomial distribution.
"""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, chi2, kstest

from discreet import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    NotSupported,
    PoissonRegressor,
    QuantileRegressor,
)
from discreet.core import Account, Budget, Curator, Gaussian
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import CurvatureSum, NoisySum, ScoreSquareSum, ScoreSum, ScoreVariances
from discreet.estimators import method
from discreet.inference.allocation import Allocation
from discreet.inference.checks import Checks, CutSlopes, LargeCurvature, LargeSlope, Variances
from discreet.inference.evidence import Evidence, Points
from discreet.inference.hessian import (
    CLIPS,
    HESSIAN_SHARE,
    MOST_NOISE,
    Hessian,
    Usual,
    expected_error,
)
from discreet.inference.means import Means, Source, first_beyond, share_with
from discreet.inference.measure import _shortening
from discreet.inference.rule import PILOT_NEWTON, lighter, pilot, reserved, sample_rate
from discreet.inference.shares import (
    CANDIDATES,
    CHOICE_NOISE,
    COUNTS,
    PRECISION,
    SHARE,
    SHARES,
    STUDENT,
    candidates,
    few_beyond,
    share_for,
    together,
)
from discreet.inference.walk import Walk
from discreet.objectives import Logistic, Poisson, Squared
from discreet.preparation import Centre, Radius, Scale, Whiten
from discreet.rows import Rows, RowWeights, as_rows
from discreet.rows.moments import norm_candidates
from discreet.solvers import GD, Newton

FALSE_ALARM = 1e-6
SEEDED = pytest.mark.filterwarnings("ignore::discreet.PrivacyLeakWarning")


def line(rng, n=1500, d=3):
    X = rng.uniform(0, 10, (n, d))
    truth = np.linspace(1.5, -2, d)
    return X, X @ truth + 3 + rng.standard_normal(n), np.append(3.0, truth)


def classes(rng, n=1500, d=3):
    X = rng.standard_normal((n, d)) + 2
    truth = np.linspace(0.8, -0.6, d)
    return X, (rng.random(n) < expit(X @ truth - 0.5)).astype(int), np.append(-0.5, truth)


def counts(rng, n=4000, d=3):
    X = rng.standard_normal((n, d)) + 2
    truth = np.linspace(0.3, -0.2, d)
    return X, rng.poisson(np.exp(X @ truth + 0.5)).astype(float), np.append(0.5, truth)


def amounts(rng, n=3000, d=3):
    X = rng.standard_normal((n, d)) + 2
    truth = np.linspace(0.3, -0.2, d)
    return X, rng.gamma(2.0, np.exp(X @ truth + 0.5) / 2), np.append(np.nan, truth)


BOUNDS = {PoissonRegressor: (0, 20), GammaRegressor: (1e-3, 60)}


def fitted(make, kind, rng, epsilon=3.0, **settings):
    X, y, truth = make(rng)
    if kind is LogisticRegression:
        settings["classes"] = [0, 1]
    else:
        settings["target_bounds"] = BOUNDS.get(kind, (-30, 30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(epsilon, 1e-6, inference=True, **settings).fit(X, y), truth


def z_scores(make, kind, count, **settings):
    rng, found = np.random.default_rng(5), []
    for _ in range(count):
        model, truth = fitted(make, kind, rng, **settings)
        values = np.append(model.intercept_, np.ravel(model.coef_))
        found.append((values - truth) / model.standard_errors_)
    return np.array(found)


@pytest.mark.parametrize(
    ("make", "kind", "epsilon"),
    [
        (line, LinearRegression, 1.0),
        (line, HuberRegressor, 1.0),
        (line, QuantileRegressor, 3.0),
        (classes, LogisticRegression, 1.0),
        (counts, PoissonRegressor, 3.0),
        (amounts, GammaRegressor, 3.0),
    ],
)
def test_intervals_cover_the_truth(make, kind, epsilon):
    """50 fits, one coefficient: its errors over standard errors have the variance of normal ones.

    At this budget most of the variance is noise. Coverages of 0.975 and 0.93 are those of standard
    errors 1.14 and 0.92 times as large as they should be, which is allowed for.
    """
    z = z_scores(make, kind, 50, epsilon=epsilon)[:, 1]
    count = int(np.isfinite(z).sum())
    assert count >= 25
    square = float(np.nansum(np.square(z)))
    assert chi2.ppf(FALSE_ALARM / 2, count) / 1.14**2 <= square
    assert square <= chi2.isf(FALSE_ALARM / 2, count) / 0.92**2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (line, LinearRegression),
        (line, QuantileRegressor),
        (classes, LogisticRegression),
        (counts, PoissonRegressor),
    ],
)
def test_coverage_and_uniform_p_values(make, kind):
    z = z_scores(make, kind, 400)[:, 1]
    z = z[np.isfinite(z)]  # a fit whose noisy Hessian tells too little refuses
    assert z.size > 380
    inside, chances = int((abs(z) < 1.96).sum()), (FALSE_ALARM / 2, z.size)
    assert binom.ppf(*chances, 0.93) <= inside <= binom.isf(*chances, 0.975)
    assert kstest(z, "norm").pvalue > FALSE_ALARM


def test_a_fit_pays_for_inference_and_stays_within_its_budget():
    model, _ = fitted(line, LinearRegression, np.random.default_rng(0))
    guarantee = model.guarantee_
    share = dict(guarantee.split)["inference"]
    steps = sum(value for name, value in guarantee.split if name not in ("inference", "model"))
    assert share == pytest.approx(SHARE * (1 - steps))
    assert guarantee.epsilon == 3.0
    spent = sum(use.count * use.mechanism.loss.mu**2 for use in guarantee.mechanisms)
    assert spent <= Budget(3.0, 1e-6, "add_remove").to_gdp().mu ** 2 * (1 + 1e-9)
    assert any("inference" in condition for condition in guarantee.conditions)


@SEEDED
def test_estimates_do_not_depend_on_units_of_columns():
    """Errors scale with a column; the noise is the same."""
    rng = np.random.default_rng(1)
    X, y, _ = line(rng)
    scaled = X * [1.0, 2.0, 0.5]
    models = [
        LinearRegression(30.0, 1e-6, target_bounds=(-30, 30), inference=True, random_state=0).fit(
            each, y
        )
        for each in (X, scaled)
    ]
    first, second = (model.standard_errors_[1:] for model in models)
    assert second * [1.0, 2.0, 0.5] == pytest.approx(first, rel=0.15)


@SEEDED
def test_collinear_columns_have_no_interval_and_the_others_do():
    rng = np.random.default_rng(2)
    X, y, truth = line(rng, n=4000)
    doubled = np.column_stack([X, X[:, 0]])
    model = LinearRegression(
        20.0, 1e-6, target_bounds=(-30, 30), inference=True, random_state=0
    ).fit(doubled, y)
    missing = np.isnan(model.standard_errors_)
    assert missing[[1, 4]].all()
    assert not missing.all()
    known = ~missing[[2, 3]]
    apart = abs(model.coef_[1:3] - truth[2:]) / model.standard_errors_[2:4]
    assert (apart[known] < 6).all()
    assert "combination" in str(model.summary())


def test_a_budget_that_buys_nothing_is_not_spent():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((300, 20)), rng.integers(0, 2, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(0.5, 1e-6, classes=[0, 1], inference=True).fit(X, y)
    assert model.covariances_ == ()
    assert "inference" not in dict(model.guarantee_.split)
    assert np.isnan(model.conf_int()).all()
    assert "too small" in str(model.summary())


def test_the_rule_sees_public_numbers_only():
    budget = Budget(1.0, 1e-6, "add_remove")
    assert expected_error(2000, 21, budget) > expected_error(20_000, 21, budget)
    replaced = Budget(1.0, 1e-6, "replace_one")
    assert expected_error(2000, 21, replaced) > expected_error(2000, 21, budget)
    assert reserved(2000, 101, budget, 1, 0.7) == ()
    shares = reserved(10**6, 5, budget, 4, 0.7)
    # with the largest curvature a Hessian would be above its noise from 15,000 rows on
    small = Budget(0.3, 1e-6, "add_remove")
    assert len(reserved(16_000, 21, small, 1, 0.85)) == 1
    assert reserved(14_000, 21, small, 1, 0.85) == ()
    assert sum(part.share for part in shares) == pytest.approx(0.7 * SHARE)


def test_a_pilot_has_few_iterations_unless_the_caller_chose_them():
    for error in (0.01, 1.0):
        assert pilot(GD(shrink=True), Logistic(), error).iterations < GD().iterations
        assert pilot(GD(shrink=True), Logistic(), error).shrink
        assert pilot(GD(3), Logistic(), error) == GD(3)
        assert pilot(Newton(30), Squared(), error) == Newton(30)
        assert pilot(Newton(), Poisson(), error).iterations == PILOT_NEWTON
    assert pilot(Newton(), Squared(), 0.01).iterations < pilot(Newton(), Squared(), 1.0).iterations


STEPS = (Radius(), Centre(share=0.03), Scale(share=0.03), Whiten(share=0.1))


def test_steps_take_no_larger_a_share_than_noise_calls_for():
    assert lighter(STEPS, 100.0, 20, 1) == STEPS  # much noise
    light = lighter(STEPS, 2e4, 20, 1)
    assert light[0] == STEPS[0]
    assert light[1].share == SHARES[0]
    assert light[2].share == SHARES[0]
    assert light[3].share == pytest.approx(8 * 20**3 / (0.1 * 2e4) ** 2)
    assert lighter(STEPS, 2e4, 20, 2)[3].share == pytest.approx(2 * light[3].share)


def test_a_sample_is_large_enough_for_first_weights():
    budget = Budget(1.0, 1e-6, "add_remove")
    assert sample_rate(STEPS, 20_000, 4, budget) == pytest.approx(0.4)
    assert sample_rate(STEPS, 200_000, 4, Budget(0.3, 1e-6, "add_remove")) == pytest.approx(
        1600 / (200_000 * Budget(0.3, 1e-6, "add_remove").to_gdp().mu)
    )
    assert sample_rate(STEPS, 10**7, 50, Budget(50.0, 1e-6, "add_remove")) == 0.01
    assert sample_rate(STEPS, 20_000, 21, budget) == 1.0
    assert sample_rate((), 10**7, 4, budget) == 1.0
    little = Budget(0.3, 1e-6, "replace_one")
    assert sample_rate(STEPS, 10**6, 4, little) == pytest.approx(
        3200 / (10**6 * little.to_gdp().mu)
    )


@pytest.mark.parametrize(
    ("make", "data"), [(PoissonRegressor, counts), (LogisticRegression, classes)]
)
def test_curvature_that_varies_is_not_measured_by_a_sample(make, data, monkeypatch):
    """First weights of a sample are too far for counts: intervals covered 0.73 to 0.93."""
    asked = []
    monkeypatch.setattr(method, "sample_rate", lambda *settings: asked.append(settings) or 1.0)
    fitted(data, make, np.random.default_rng(0), epsilon=3.0)
    assert bool(asked) is (make is LogisticRegression)


def test_large_tables_are_asked_by_a_sample_but_for_scores(monkeypatch):
    sizes = {}
    answer = Rows.answer

    def counted(rows, questions):
        for question in questions:
            sizes.setdefault(type(question), []).append((rows.n_rows, rows.public_size))
        return answer(rows, questions)

    monkeypatch.setattr(Rows, "answer", counted)
    rng = np.random.default_rng(9)
    X, y, truth = line(rng, n=60_000)
    model = LinearRegression(3.0, 1e-6, target_bounds=(-30, 30), inference=True).fit(X, y)
    for kind in (ScoreSum, ScoreVariances):  # the noise in them counts, and so does each row
        assert set(sizes.pop(kind)) == {(60_000, 60_000)}
    assert {public for _, public in sizes.pop(ScoreSquareSum)} == {60_000}  # by its noise
    drawn = {each for asked in sizes.values() for each in asked}
    ((rows, public),) = drawn  # one sample serves all
    assert public == 60_000
    assert abs(rows - 8_000) < 550  # six deviations
    values = np.append(model.intercept_, np.ravel(model.coef_))
    assert (abs(values - truth) < 6 * model.standard_errors_).all()
    assert model.standard_errors_[1] == pytest.approx(1 / np.sqrt(60_000 * 100 / 12), rel=0.2)
    groups = np.arange(60_000) // 2
    sizes.clear()
    LinearRegression(3.0, 1e-6, target_bounds=(-30, 30), inference=True).fit(X, y, groups=groups)
    assert {rows for asked in sizes.values() for rows, _ in asked} == {60_000}


def test_directions_in_which_little_is_kept_are_made_shorter():
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    kept = turned @ np.diag([1.0, 1.0, 1.0, 0.25]) @ turned.T
    wanted = turned @ np.diag([1.0, 1.0, 1.0, 0.5]) @ turned.T
    assert _shortening(kept) == pytest.approx(wanted)
    least = np.linalg.eigvalsh(_shortening(np.diag([1.0, 1.0, 1.0, -0.5])))[0]
    assert least == pytest.approx((CLIPS[0] / CLIPS[1]) ** 2)
    path = Points([], [], 1.0, np.diag([1.0, 0.5]))
    assert path.length(np.array([3.0, 8.0])) == 5.0


def test_a_rare_category_has_an_interval():
    """A category of 2 % among four columns: its rows are long, and count nonetheless."""
    rng, found = np.random.default_rng(4), []
    for _ in range(20):
        X = rng.standard_normal((20_000, 4))
        X[:, 3] = rng.random(20_000) < 0.02
        y = (rng.random(20_000) < expit(X @ [0.5, -0.5, 0.0, -1.5])).astype(int)
        model = LogisticRegression(1.0, 1e-6, classes=[0, 1], inference=True).fit(X, y)
        found.append((model.coef_[0, 3] + 1.5, model.standard_errors_[4]))
    errors, deviations = np.array(found).T
    known = np.isfinite(deviations)
    assert known.sum() >= 12  # about one in 40 is refused: below, one in 10^9 runs
    assert np.median(deviations[known]) < 0.4  # 0.15 without privacy
    most = chi2.isf(FALSE_ALARM, known.sum()) / 0.92**2
    assert np.square(errors / deviations)[known].sum() < most


def test_a_guess_stands_in_for_what_noise_hides():
    assert together(5.0, 1e-9, 1.0) == pytest.approx((5.0, 1e-9))
    assert together(5.0, 1e9, 1.0, 0.35) == pytest.approx((1.0, 0.35))
    assert together(2.0, 0.35, 1.0, 0.35)[0] == pytest.approx(1.5)
    assert together(2.0, PRECISION, 1.0)[0] == pytest.approx(1.5)


def test_a_share_gives_one_precision_within_its_limits():
    assert share_for(0.02) == pytest.approx((0.02 / PRECISION) ** 2)
    assert share_for(1e-9) == SHARES[0]
    assert norm_candidates().size == round(np.exp(CHOICE_NOISE))
    assert share_for(1.0) == SHARES[1]
    assert share_for(1.0, (SHARES[1], HESSIAN_SHARE)) == HESSIAN_SHARE
    found = candidates(8.0, 1.5)
    assert (found.size, found[0], found[-1]) == (CANDIDATES, 1.5, 8.0)
    assert found[-2] == pytest.approx(8.0 / np.sqrt(2.0))


class Answers:
    """Exact scores and Hessians of a quadratic function around ``truth``, and what they cost."""

    def __init__(self, truth, curvature=1.0, deviation=0.0):
        self.truth, self.curvature, self.deviation, self.asked = truth, curvature, deviation, []
        self.scored = Logistic().scored(1.0)

    def score(self, weights, share):
        self.asked.append(("score", share))
        return self.curvature * (weights - self.truth), 0.0

    def hessian(self, weights, share):
        self.asked.append(("hessian", share))
        return Hessian.of(self.curvature * np.eye(weights.size), self.deviation)


def walked(how, distance=0.01, *, bent=True, **settings):
    truth = np.array([distance, 0.0])
    answers = Answers(truth, **settings)
    walk = Walk(answers, np.zeros(2), Points([], [], 1.0), 0.9, bent)
    if how == "long" and bent:
        walk.measure(0.06)
    getattr(walk, how)(0.2)
    assert walk.weights == pytest.approx(truth)
    assert sum(share for _, share in answers.asked) == pytest.approx(0.9)
    assert walk.left == pytest.approx(0.0, abs=1e-12)
    assert all(share > 0 for _, share in answers.asked)
    assert len({round(share, 12) for kind, share in answers.asked[2:] if kind == "score"}) == 1
    return [kind[0] for kind, _ in answers.asked]


@pytest.mark.parametrize("first", range(CANDIDATES))
def test_the_first_candidate_beyond_which_hardly_a_row_is_takes_few_counts(first, monkeypatch):
    asked = []

    def counted(rows, weights, indicator, total, *, weighted):
        asked.append(total)
        return (0.1 if indicator.cut < first else 0.0005), 0.001

    monkeypatch.setattr("discreet.inference.means.share_with", counted)
    losses = [LargeSlope(Logistic(), float(k)) for k in range(CANDIDATES)]
    rows = Source(None, 10_000)
    assert first_beyond(rows, np.zeros(2), losses, 1.0, weighted=False) == first
    assert len(asked) == COUNTS
    assert sum(asked) == pytest.approx(1.0)


@pytest.mark.parametrize(("deviations", "found"), [(0.4, 3), (0.6, 4), (1.9, 4), (2.1, 4)])
def test_a_candidate_that_is_likely_too_small_is_not_taken(deviations, found, monkeypatch):
    """Of the third, a count is so far above what may be beyond it; all below have many rows."""
    least = few_beyond(10_000)

    def counted(rows, weights, indicator, total, *, weighted):
        shares = {0: 0.1, 1: 0.1, 2: 0.1, 3: least + deviations * 0.001}
        return shares.get(int(indicator.cut), 0.9 * least), 0.001

    monkeypatch.setattr("discreet.inference.means.share_with", counted)
    losses = [LargeSlope(Logistic(), float(k)) for k in range(CANDIDATES)]
    rows = Source(None, 10_000)
    assert first_beyond(rows, np.zeros(2), losses, 1.0, weighted=False) == found


def test_the_largest_candidate_is_the_last(monkeypatch):
    monkeypatch.setattr("discreet.inference.means.share_with", lambda *_, **__: (0.5, 0.1))
    losses = [LargeSlope(Logistic(), float(k)) for k in range(CANDIDATES)]
    last = first_beyond(Source(None, 100), np.zeros(2), losses, 1.0, weighted=False)
    assert last == CANDIDATES - 1


def test_rules_expect_the_noise_of_the_smallest_clip():
    account = Account(Budget(1.0, 1e-6, "add_remove"), unit="row")
    rows = as_rows(np.ones((500, 2)), np.ones(500))
    curator = Curator(rows, account, Noise(SeededBits(0)))
    source = Source(curator, 500)
    usual = Usual(0.5, 1.0)
    narrow = Allocation(source, source, 3, 1.0)
    wide = replace(narrow, nearest=math.sqrt(CLIPS[0] * CLIPS[1]))
    more = CLIPS[1] / CLIPS[0]  # noise is in proportion to the squared clip
    assert wide.error(source, usual) == pytest.approx(more * narrow.error(source, usual))
    assert wide.clip(source, 0.5, usual, 3.0).factor == pytest.approx(wide.nearest)
    assert narrow.clip(source, 0.5, usual, 3.0).factor == CLIPS[0]


@pytest.mark.parametrize("people", [False, True])
def test_a_share_of_rows_is_counted_with_known_noise(people):
    """For people it is the mean of their own shares. Six deviations."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((3_000, 2)), rng.poisson(2.0, 3_000) / 20.0
    weights = np.array([0.2, -0.1, -2.3])
    units = None
    if people:
        codes = np.arange(3_000, dtype=np.int64) // 2
        units = RowWeights.of(np.full(3_000, 0.5), 1_500, grouped=True, codes=codes)
    rows = as_rows(X, y, weights=units) if people else as_rows(X, y)
    account = Account(Budget(30.0, 1e-6, "add_remove"), unit="person" if people else "row")
    curator = Curator(rows, account, Noise(SeededBits(0)))
    curator.open("gdp")
    loss = LargeSlope(Poisson(1.0), 0.1)
    source = Source(curator, 1_500 if people else 3_000)
    share, deviation = share_with(source, weights, loss, 1.0, weighted=people)
    slopes = np.minimum(np.exp(X @ weights[:2] + weights[2]), 1.0) - y
    assert 0.05 < np.mean(np.abs(slopes) > 0.1) < 0.5
    assert abs(share - np.mean(np.abs(slopes) > 0.1)) < 6 * deviation + 0.01 * people
    assert deviation < 0.01


def test_losses_that_count_and_cut():
    margins, targets = np.array([-2.0, -1.0, -0.5]), np.array([0.0, 1.0, 0.2])
    loss = Poisson(1.0)
    slopes = np.exp(margins) - targets
    cut = CutSlopes(loss, 0.3)
    assert cut.slope_bound == 0.3
    assert cut.derivative(margins, targets) == pytest.approx(np.clip(slopes, -0.3, 0.3))
    assert cut.second_derivative(margins, targets) == pytest.approx(np.exp(margins))
    assert CutSlopes(loss, 2.0).slope_bound == 1.0
    large = LargeSlope(loss, 0.3).derivative(margins, targets)
    assert large.tolist() == (np.abs(slopes) > 0.3).tolist()
    steep = LargeCurvature(loss, 0.3).derivative(margins, targets)
    assert steep.tolist() == (np.exp(margins) > 0.3).tolist()
    narrow = loss.narrowed(0.25)
    assert (narrow.curvature_bound, narrow.slope_bound) == (0.25, 0.25)
    assert Logistic().narrowed(0.25) is None


def test_the_mean_variance_replaces_a_dispersion_that_is_known_less():
    """What noise in the squared scores has added is taken off; the mean ratio has less noise."""
    identity = np.eye(4)
    checks = Checks(variances=Variances(np.array([0.8, 0.9, 1.0, 1.3]), 0.02))
    parts = (identity, identity, identity, np.zeros((0, 4)), identity)
    found = Evidence(np.zeros(4), 2.5 * identity, *parts[1:], 1.0, 2.0, checks=checks)
    doubt = STUDENT / 4 * 0.01**2  # that of a relative error of 0.02 over √4 values
    made = found.with_mean_variance(0.25)
    assert made.dispersion == pytest.approx(2.0)
    assert made.sampling == pytest.approx(2.0 * (1 + doubt) * identity)
    narrow = replace(found, checks=Checks(variances=Variances(np.full(4, 0.9), 0.02)))
    made = narrow.with_mean_variance(0.25)
    assert made.dispersion == pytest.approx(1.8)
    assert made.checks.variances.ratio == pytest.approx(np.ones(4))
    assert narrow.with_mean_variance(1e-9) is narrow  # the dispersion is known better


def test_wide_bounds_of_counts_cost_little():
    """Nothing of a table with counts to 15 is near 100: its errors are nearly the same."""
    rng = np.random.default_rng(12)
    X = rng.standard_normal((20_000, 5))
    y = rng.poisson(np.exp(X @ [0.18, -0.12, 0.18, -0.12, 0.0] + 0.5)).astype(float)
    errors = []
    for high in (15.0, 100.0):
        model = PoissonRegressor(3.0, 1e-6, target_bounds=(0, high), inference=True)
        errors.append(model.fit(X, y).standard_errors_)
    assert np.isfinite(errors).all()
    assert (errors[1] < 1.5 * errors[0]).all()


@pytest.mark.parametrize("kind", [LinearRegression, PoissonRegressor])
def test_at_a_large_budget_estimates_are_those_without_privacy(kind):
    """Within a tenth of a standard error, six deviations of the noise, which is as small.

    One in 10^7 fits has a coefficient beyond six deviations.
    """
    rng = np.random.default_rng(7)
    X = rng.standard_normal((20_000, 3))
    score = X @ [0.4, -0.3, 0.2] + 0.7
    if kind is LinearRegression:
        y = score + rng.standard_normal(20_000)
        bounds = (-12, 12)
    else:
        y = rng.poisson(np.exp(score)).astype(float)
        bounds = (0, 30)
    model = kind(100.0, 1e-6, target_bounds=bounds, inference=True).fit(X, y)
    V = np.column_stack([np.ones(20_000), X])
    exact = np.zeros(4)
    for _ in range(30):
        mean = V @ exact if kind is LinearRegression else np.exp(V @ exact)
        curved = np.ones(20_000) if kind is LinearRegression else mean
        hessian = (V * curved[:, None]).T @ V
        exact = exact + np.linalg.solve(hessian, V.T @ (y - mean))
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    found = np.append(model.intercept_, model.coef_)
    noise = np.sqrt(model.tidy()["noise_share"].to_numpy()) * model.standard_errors_
    assert (noise < 0.1 * errors).all()
    assert (np.abs(found - exact) < 6 * noise + 0.1 * errors).all()
    assert model.standard_errors_ == pytest.approx(errors, rel=0.12)


def test_the_variance_of_new_targets_does_not_depend_on_long_rows():
    """Columns with heavy tails: their rows weigh less, and residuals are measured without."""
    rng = np.random.default_rng(13)
    X = rng.standard_t(2.5, (20_000, 8)).clip(-30, 30)
    y = X @ np.full(8, 0.2) + rng.standard_normal(20_000)
    model = LinearRegression(3.0, 1e-6, target_bounds=(-30, 30), inference=True).fit(X, y)
    found = model.predict_interval(X[:2]).residual
    assert found == pytest.approx(1.0, rel=0.12)  # noise 0.012, in units of a guess of 0.1


def test_walks_spend_what_is_left_and_ask_for_few_hessians():
    assert walked("short") == ["h", "s", "s"]
    assert walked("short", distance=2 * PRECISION) == ["h", "s", "h", *"sss"]
    assert walked("short", distance=2 * PRECISION, bent=False) == ["h", "s", *"sss"]
    noisy = 2.1 * PRECISION / np.sqrt(4)
    assert walked("short", deviation=noisy) == ["h", "s", "h", *"sss"]
    assert walked("long") == ["h", *"sss", "h", *"sss"]
    assert walked("long", bent=False) == ["h", *"ssssss"]


def evidence(values, deviation, drawn=1.0, score=0.0, of_score=0.1):
    """Evidence of a diagonal Hessian: deviations of its noise and of the score's noise."""
    size = len(values)
    points = [np.zeros(size)] * 3
    path = Points(points, [np.zeros(size) + score] * 3, 1.0)
    hessian = Hessian.of(np.diag(np.asarray(values, dtype=float)), deviation)
    return hessian.evidence(path, of_score, 1.0, drawn, np.eye(size))


def test_a_hessian_hidden_by_its_noise_gives_no_intervals():
    """Its noise, √(2p) deviations, may be at most a share of the median eigenvalue."""
    limit = MOST_NOISE / np.sqrt(8)
    assert evidence([1.0] * 4, 1.01 * limit).reason
    assert not evidence([1.0] * 4, 0.9 * limit).reason
    assert not evidence([1.0, 1.0, 1.0, 1e-3], 0.01).reason  # one direction is not known


def test_variances_of_an_exact_hessian_are_those_of_a_newton_step():
    found = evidence([2.0, 4.0], 0.0, drawn=3.0)
    assert np.diag(found.sampling) == pytest.approx([1.5, 0.75])
    assert np.diag(found.noise) == pytest.approx([0.005 / 4, 0.005 / 16])  # two scores


def test_noise_of_the_hessian_is_part_of_the_variance_of_a_step():
    """With exact scores, all noise in the estimate is what the noise E of the Hessian makes of it.

    E has variance s² on its diagonal and s²/2 beside it, as `NoisySum.matrix` makes it of equal
    noise in a triangle. Of 40,000 draws a variance is off by a factor of 1 ± 0.04 with probability
    below 1e-6 for each.
    """
    values, score, deviation = np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.5, -1.0]), 0.01
    rng = np.random.default_rng(0)
    noise = deviation * rng.standard_normal((40_000, 3, 3))
    upper = np.triu(np.ones((3, 3)), 1) / np.sqrt(2)
    drawn = noise * upper
    drawn = drawn + drawn.transpose(0, 2, 1) + noise * np.eye(3)
    ends = -np.linalg.solve(np.diag(values) + drawn, np.broadcast_to(score, (40_000, 3))[..., None])
    found = evidence(values, deviation, score=score, of_score=0.0).noise
    assert np.diag(found) == pytest.approx(ends[..., 0].var(axis=0), rel=0.04)
    # by hand: s²/2·(‖v‖²·I + vvᵀ) between the inverses, for the step v
    step = score / values
    by_hand = 0.5 * deviation**2 * (step @ step + step**2) / values**2
    assert np.diag(found) == pytest.approx(by_hand, rel=2e-3)
    # a score's noise comes on top
    both = evidence(values, deviation, score=score, of_score=0.1).noise
    alone = evidence(values, deviation, of_score=0.1).noise
    assert both == pytest.approx(found + alone, rel=1e-9)


def test_a_doubtful_hessian_makes_intervals_wider():
    """Relative errors of eigenvalues widen both variances, as with Student's t."""
    exact, doubtful = (evidence([2.0, 4.0], each) for each in (0.0, 0.1))
    # eigenvalues are raised by what makes up for the mean of an inverse
    raised = np.array([2.0, 4.0]) + 0.005 * (1 / np.array([2.0, 4.0]) + 0.75)
    doubt = STUDENT * (0.1 / raised) ** 2
    lower = np.array([2.0, 4.0]) / raised
    wanted = np.diag(exact.sampling) * lower * (1 + doubt / 4)
    assert np.diag(doubtful.sampling) == pytest.approx(wanted)
    assert np.diag(doubtful.noise) == pytest.approx(np.diag(exact.noise) * lower**2 * (1 + doubt))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_expected_error_of_a_hessian_is_that_of_the_noise_it_would_get(relation):
    """At the smallest clip, for all of μ²: the sensitivity depends on the relation."""
    n, size, mu = 400, 5, 0.5
    rows = as_rows(np.zeros((n, size - 1)), np.ones(n))
    account = Account(Budget(5.0, 1e-6, relation))
    curator = Curator(rows, account, Noise(SeededBits(0)))
    curator.open("gdp")
    clip = CLIPS[0] * np.sqrt(size)
    bought = Gaussian.sharing(mu**2)
    noisy = curator.ask(CurvatureSum(Logistic(), np.zeros(size), clip=clip), bought)
    wanted = noisy.deviation * np.sqrt(2 * size) / (0.5 * n)
    source = Source(curator, n)
    expected = Allocation(source, source, size, mu).error(source, Usual(0.5, 1.0))
    assert expected == pytest.approx(wanted, rel=1e-6)
    budget = account.budget
    share = (mu / budget.to_gdp().mu) ** 2 / HESSIAN_SHARE  # whose largest part is this μ²
    assert expected_error(n, size, budget, share) == pytest.approx(wanted, rel=1e-6)


def test_points_far_from_the_estimate_give_no_intervals():
    """The Hessian is that of the last points: a step of more than half a unit leaves it behind."""
    assert not evidence([1.0, 1.0], 0.0, score=np.array([0.49, 0.0])).reason
    assert "far" in evidence([1.0, 1.0], 0.0, score=np.array([0.51, 0.0])).reason


class Sums:
    """A curator that answers with the identity and a score of 1, and noise of deviation 0.6."""

    def ask(self, question, mechanism):
        exact = {CurvatureSum: 100 * np.array([1.0, 0.0, 1.0]), ScoreSquareSum: np.array([50.0])}
        return NoisySum(exact[type(question)], 0.6, mechanism)


def test_means_are_in_the_units_of_the_loss_and_a_sample_adds_its_own_error():
    loss = Logistic()
    source = Source(Sums(), 100)
    asked = Means(source, source, source, loss.scored(1.0), 2.0, 1.0)
    whole = asked.hessian(np.zeros(2), 0.5)
    bound = asked.scored.factor * loss.curvature_bound
    assert whole.matrix == pytest.approx(bound * np.eye(2))
    assert whole.deviation == pytest.approx(bound * 0.006)
    drawn = replace(asked, hessians=Source(Sums(), 100, drawn=True)).hessian(np.zeros(2), 0.5)
    assert drawn.deviation == pytest.approx(bound * np.hypot(0.006, np.sqrt(2 / 100)))
    # of squared norms at most (slope_bound·clip)², half of it on average
    most = (asked.scored.slopes.slope_bound * 2.0) ** 2
    assert asked.squares(np.zeros(2), 0.5) == pytest.approx((0.5 * most, 0.006 * most))


def test_the_intercept_of_amounts_has_no_interval_and_single_targets_have_none():
    rng = np.random.default_rng(8)
    model, _ = fitted(amounts, GammaRegressor, rng, epsilon=10.0)
    assert np.isnan(model.standard_errors_[0])
    assert np.isfinite(model.standard_errors_[1:]).all()
    assert "intercept" in str(model.summary())
    model, truth = fitted(counts, PoissonRegressor, rng, epsilon=10.0)
    X, _, _ = counts(rng, n=5)
    with pytest.raises(NotSupported, match="target=False"):
        model.predict_interval(X)
    found = model.predict_interval(X, target=False)
    mean = np.exp(X @ truth[1:] + truth[0])
    assert (found.low < model.predict(X)).all()
    assert (found.high > model.predict(X)).all()
    assert (abs(np.log(mean / model.predict(X))) < 0.5).all()


@pytest.mark.parametrize(
    ("make", "settings", "word"),
    [
        (LogisticRegression, {"columns": [0], "features": "additive"}, "features='linear'"),
        (LogisticRegression, {"solver": "agd"}, "solver='auto'"),
        (LinearSVC, {}, "LogisticRegression"),
    ],
)
def test_what_has_no_intervals_is_refused(make, settings, word):
    X, y, _ = classes(np.random.default_rng(0))
    model = make(1.0, 1e-6, classes=[0, 1], inference=True, **settings)
    with pytest.raises(NotSupported, match=word):
        model.fit(X, y)


@SEEDED
def test_people_with_several_rows():
    """Rows of one person are the same: as many rows as people, as far as errors go."""
    rng = np.random.default_rng(6)
    X, y, truth = classes(rng, n=4000)
    rows = np.repeat(np.arange(4000), rng.integers(1, 5, 4000))
    settings = {"classes": [0, 1], "inference": True, "random_state": 0}
    model = LogisticRegression(3.0, 1e-6, **settings)
    model.fit(X[rows], y[rows], groups=rows)
    once = LogisticRegression(3.0, 1e-6, **settings).fit(X, y)
    assert model.standard_errors_ == pytest.approx(once.standard_errors_, rel=0.5)
    values = np.append(model.intercept_, model.coef_[0])
    assert (abs(values - truth) < 6 * model.standard_errors_).all()


def correlated(rng, n=20_000, d=6):
    """Columns with a common part of 0.96 to 0.99 of the variance, a skewed one, and a category."""
    common = rng.uniform(0.96, 0.99)
    X = np.sqrt(1 - common) * rng.standard_normal((n, d))
    X = X + np.sqrt(common) * rng.standard_normal((n, 1))
    X[:, 1] = rng.gamma(2.0, 0.7, n) - 1.4
    X[:, 2] = rng.random(n) < rng.uniform(0.03, 0.07)
    return X, X @ (0.15 * rng.standard_normal(d)) + 0.3


def test_intervals_of_a_budget_are_given_by_a_larger_budget():
    """Counts, 40 tables at ε = 0.3 and 1: hardly a coefficient is refused at the larger one alone.

    Noise decides at the limit, so 3 % of the tables may have such a coefficient.
    """
    worse = 0
    for seed in range(40):
        rng = np.random.default_rng([21, seed])
        X, score = correlated(rng)
        y = rng.poisson(np.exp(score)).astype(float)
        refused = []
        for epsilon in (0.3, 1.0):
            model = PoissonRegressor(epsilon, 1e-6, target_bounds=(0, 15), inference=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                refused.append(np.isnan(model.fit(X, y).standard_errors_))
        worse += bool((refused[1] & ~refused[0]).any())
    assert worse <= binom.isf(FALSE_ALARM, 40, 0.03)
