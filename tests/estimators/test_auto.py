"""The rule behind solver="auto": what it decides by, and that nothing else decides."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from sklearn.base import clone
from sklearn.metrics import log_loss

from discreet import (
    Bounds,
    Budget,
    Centre,
    HuberRegressor,
    Ledger,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    NotSupported,
    PrivacyLeakWarning,
    Radius,
    Scale,
    Windows,
)
from discreet.accounting.budget import PrivacyLoss
from discreet.estimators import features as feature_rule
from discreet.estimators.auto import choose
from discreet.objectives import (
    L2,
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Pinball,
    Problem,
    Softmax,
    Squared,
)
from discreet.preparation import pipeline, share_for
from discreet.preparation.windows import Numbers
from discreet.solvers import GD, ShrunkGD, Solver
from discreet.solvers.gd import clip_by_rule

BUDGET = Budget(1.0, 1e-6, "add_remove")
TWICE = ["radius", "centre", "spread", "centre", "scale", "scale"]
UNITS = [
    *("magnitude", "largest", "radius"),
    *("centre", "magnitude", "spread", "centre", "magnitude", "scale"),
]


def names(choice):
    return [step.name for step in choice.steps]


def radius_of(choice):
    return next(step for step in choice.steps if step.name == "radius")


def decide(n_rows=10_000, n_features=20, loss=None, budget=BUDGET, given=(), **settings):
    penalty = L2(settings.pop("alpha", 0.0))
    row_norm = settings.pop("data_norm", None)
    constant = settings.pop("fit_intercept", True)
    problem = Problem(loss or Logistic(), penalty, n_rows, n_features, constant, row_norm)
    return choose(problem, budget, given, **settings)


def test_a_large_narrow_table_is_whitened_and_a_wide_one_is_not():
    assert names(decide()) == [*UNITS, "whiten"]
    assert names(decide(n_features=800)) == TWICE[:-1]
    assert names(decide(n_rows=20_000, n_features=5000)) == TWICE
    assert isinstance(decide().solver, GD)


def test_many_columns_are_whitened_at_larger_budgets_only():
    """Noise is twice the mean eigenvalue here; below it all are whitened."""
    for columns, known in ((50, 0), (300, 0), (50, 1), (301, 0)):
        rows = np.sqrt(2) * columns**1.5 / (2 * np.sqrt(0.1)) / BUDGET.to_gdp().mu
        found = names(decide(round(rows), columns, n_known=known))
        assert ("whiten" in found) == (columns <= 300 and not known)
        assert "whiten" in names(decide(round(2.1 * rows), columns, n_known=known))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_function_gives_measurements_of_tables_their_shares(relation):
    """Noise of √c/(n·μ/k) is a 17th of what is measured, within 0.005 and 0.1 of the budget."""
    budget = Budget(1.0, 1e-6, relation)
    windows = Windows(range(20), Numbers((False,) * 20, (0.0,) * 20), others=5)
    for n_rows in (300, 1000, 3000, 20_000, 10**6):
        signal = n_rows * budget.to_gdp().mu / (1 if relation == "add_remove" else 2)
        counts, moments, one, six = (
            float(np.clip(289 * count / signal**2, 0.005, 0.1)) for count in (20, 25, 1, 6)
        )
        choice = decide(n_rows, n_features=30, budget=budget, windows=windows)
        shares = {step.name: step.share for step in choice.steps}
        assert shares["windows"] == pytest.approx(2 * counts)  # which are counted twice
        assert shares["centre"] == shares["scale"] == pytest.approx(moments)
        assert choice.solver.start_share == pytest.approx(one)
        several = decide(n_rows, loss=Softmax(6), budget=budget)
        assert several.solver.start_share == pytest.approx(six)
    assert share_for(7, 300.0) < share_for(8, 300.0)


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Softmax(3), Squared(), Huber()])
def test_a_bound_on_the_norm_of_rows_changes_nothing_that_is_measured(loss):
    """It says nothing about units and typical norms, so a true one cannot lower a score."""
    for n_rows, n_features in ((5, 5), (1200, 50), (3000, 101), (20_000, 20), (10**6, 300)):
        for norm in (1e-3, 1.0, 1e6):
            bounded = decide(n_rows, n_features, loss, data_norm=norm)
            assert bounded == decide(n_rows, n_features, loss)


def scales_of(choice):
    return [step for step in choice.steps if step.name == "scale"]


def test_scales_of_two_classes_are_shrunk_where_noise_hides_units():
    few, many = scales_of(decide(1200, 50)), scales_of(decide(4000, 400))
    assert [(s.shrink, s.norm, s.floor) for s in few] == [(True, 5.0, 0.1)] * 2
    assert [(s.shrink, s.norm, s.floor) for s in many] == [(True, 5.0, 2.0)]
    assert [scales_of(decide(2000, d))[0].floor for d in (101, 300, 301)] == [0.3, 0.3, 2.0]
    assert few[0].squares == pytest.approx(2 / np.sqrt(50))
    assert many[0].squares == pytest.approx(0.1)
    assert len(scales_of(decide(1500, 50, n_known=10))) == 1
    (once,) = scales_of(decide(500, 50))  # the first mean is not precise enough for a second
    assert once.shrink
    assert once.share == 0.05
    assert scales_of(decide(500, 3))[0].squares == 1.0
    others = [
        *(decide(1500, 50, loss) for loss in (Softmax(3), Hinge(), Squared())),
        *(decide(1500, 50, n_known=50), decide(20_000, 50), decide(500, 40_000)),
        *(decide(1600, 50), decide(2000, 50)),  # a look at units at the usual share
        decide(20_000, 5000),  # wide: more columns than n·μ
    ]
    looked = decide(1200, 50)  # a coarse look at units
    assert [(s.shrink, s.norm, s.floor) for s in scales_of(looked)] == [(True, 5.0, 0.1)] * 2
    assert looked.solver.gradient_clip == 1.25
    for choice in others:
        assert choice.solver.name == "newton" or choice.solver.gradient_clip is None
        assert scales_of(choice)
        assert not any(s.shrink or s.squares < 1 for s in scales_of(choice))


def looks_of(choice):
    return [step.share for step in choice.steps if step.name == "magnitude"]


def test_units_of_few_columns_are_looked_at_coarsely_for_two_classes():
    """Precision 12, at a share of up to 0.2; other models of classes need 14 at 0.057."""
    price = 50 / BUDGET.to_gdp().mu ** 2
    assert looks_of(decide(1600, 50)) == [0.057]
    assert looks_of(decide(1200, 50)) == pytest.approx([144 * price / 1200**2])
    least = np.sqrt(144 * price / 0.2)
    assert looks_of(decide(round(1.01 * least), 50)) == pytest.approx([0.196], rel=1e-2)
    others = [
        *(decide(1600, 50, loss) for loss in (Softmax(3), Hinge())),
        *(decide(round(0.99 * least), 50), decide(1200, 50, n_known=1), decide(2300, 101)),
    ]
    assert not any(looks_of(choice) for choice in others)
    other = Budget(1.0, 1e-6, "replace_one")
    assert looks_of(decide(1700, 50, budget=other)) == pytest.approx([288 * price / 1700**2])


def largest_of(choice):
    return [step.share for step in choice.steps if step.name == "largest"]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_looks_at_largest_entries(relation):
    """One of (250·√k/(n·μ))² after a look at units, else three; none where they see too little."""
    budget, changed = Budget(1.0, 1e-6, relation), 1 if relation == "add_remove" else 2
    one = np.sqrt(changed) / budget.to_gdp().mu  # rows at which n·μ/√k is 1

    def shares(signal, columns=20, loss=None, **settings):
        rows = round(signal * one)
        return largest_of(decide(rows, columns, loss or Logistic(), budget, **settings))

    assert shares(199) == shares(199, loss=Squared()) == []
    assert shares(400) == pytest.approx([0.06])
    assert shares(400, loss=Squared()) == pytest.approx([0.12])
    assert shares(1500) == pytest.approx([(250 / 1500) ** 2], rel=1e-2)
    assert shares(5000) == pytest.approx([0.01])
    assert shares(5000, n_known=5) == pytest.approx([0.01])
    assert shares(400, columns=300) == pytest.approx([0.02, 0.02, 0.08])
    many = [shares(1000, columns=300, loss=Softmax(3)), shares(1000, columns=301, loss=Softmax(3))]
    assert many == [pytest.approx([0.0625 / 6, 0.0625 / 6, 0.0625 * 2 / 3], rel=1e-2), []]
    assert shares(400, columns=101, n_known=1) == []
    assert shares(5000, n_known=20) == []


def census(n_rows, seed=0):
    """Make a raw table: dollars that few have, a weight in the 100,000s, age, 30 categories."""
    rng = np.random.default_rng(seed)
    gains, losses = (
        (rng.random(n_rows) < share) * rng.lognormal(8.5, 0.6, n_rows) for share in (0.08, 0.05)
    )
    age, weight = rng.normal(40, 12, n_rows), rng.lognormal(12, 0.5, n_rows)
    codes = rng.random((n_rows, 30)) < np.geomspace(0.005, 0.5, 30)
    score = age / 12 + 2.0 * (gains > 0) + codes @ rng.normal(size=30)
    return np.column_stack([age, weight, gains, losses, codes]), score


def test_a_raw_table_with_rare_long_columns():
    """Without looks at largest entries: a log loss of 0.55, and an R² of −0.6 to −1.4."""
    X, score = census(25_000)
    middle, bounds = np.median(score), (score.min(), score.max())
    accuracy, error, fits = [], [], []
    for seed in range(3):
        noise = np.random.default_rng(seed).normal(size=score.size)
        y, target = score + noise > middle, np.clip(score + noise, *bounds)
        model = LogisticRegression(0.5, 1e-9, random_state=seed).fit(X[:20_000], y[:20_000])
        accuracy.append(model.score(X[20_000:], y[20_000:]))
        error.append(log_loss(y[20_000:], model.predict_proba(X[20_000:])))
        numbers = LinearRegression(0.5, 1e-9, random_state=seed, target_bounds=bounds)
        fits.append(numbers.fit(X[:20_000], target[:20_000]).score(X[20_000:], target[20_000:]))
    assert np.mean(accuracy) > 0.82
    assert np.mean(error) < 0.41
    assert min(fits) > 0.65


def test_two_classes_in_odd_units_at_a_small_budget():
    """Without a look at the units the mean is 0.71."""
    rng, scores = np.random.default_rng(3), []
    X = rng.normal(size=(8000, 12))
    y = X @ np.linspace(-1, 1, 12) + rng.normal(size=8000) > 0
    X *= 10.0 ** np.linspace(-3, 3, 12)[::-1]
    for seed in range(8):
        model = LogisticRegression(0.1, 1e-6, random_state=seed).fit(X[:6000], y[:6000])
        assert model.preparation_[0].name == "magnitude"
        scores.append(model.score(X[6000:], y[6000:]))
    assert np.mean(scores) > 0.8


def test_the_floor_of_scales_is_larger_for_two_classes_and_many_columns():
    floors = [
        scales_of(decide(60_000, d, loss))[0].floor
        for d, loss in (
            (300, Logistic()),
            (301, Logistic()),
            (301, Softmax(3)),
            (301, Hinge()),
            (301, Squared()),
        )
    ]
    assert floors == [0.1, 0.4, 0.1, 0.1, 0.1]


def test_the_share_for_the_length_of_rows_falls_with_the_number_of_rows():
    shares = [radius_of(decide(n_rows=n)).share for n in (100, 1000, 10_000, 1_000_000)]
    assert shares == sorted(shares, reverse=True)
    signal = BUDGET.to_gdp().mu * np.array([100, 1000])
    assert shares[:2] == pytest.approx([(13.5 / signal[0]) ** 2, (30 / signal[1]) ** 2])
    assert shares[-1] == pytest.approx(0.005)
    assert radius_of(decide(n_rows=90)).share == pytest.approx((13.5 / (0.9 * signal[0])) ** 2)
    assert radius_of(decide(n_rows=10, fit_intercept=False)).share == 0.5
    assert radius_of(decide(n_rows=150)).share == 0.25
    other = Budget(1.0, 1e-6, "replace_one")  # scores of a median move by twice as much
    found = [radius_of(decide(n_rows=n, budget=other)).share for n in (170, 1000)]
    expected = [(27 / (1.7 * signal[0])) ** 2, (44 / signal[1]) ** 2]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_share_for_units_is_what_counts_need(relation):
    """(24·√(k·d)/(n·μ))², with 48 up to 0.02, at least 0.004; 0.057 where 14 need no more.

    Where columns are many, or some have a known unit, there is no look then.
    """
    budget = Budget(1.0, 1e-6, relation)
    changed = 1 if relation == "add_remove" else 2
    for n_rows in (1000, 2000, 2700, 8000, 15_000, 10**6):
        needed = 576 * changed * 20 / (n_rows * budget.to_gdp().mu) ** 2
        looks = looks_of(decide(n_rows, loss=Softmax(3), budget=budget))
        if needed > 0.057:
            assert looks == [0.057] * (needed * (14 / 24) ** 2 < 0.057)
            known = decide(n_rows=n_rows, budget=budget, n_known=1).steps
            assert known[0].name == "radius"
        else:
            again = max(needed * (35 / 24) ** 2, 0.004)
            later = [again, again] if again <= 0.03 else []
            fine = min(4 * needed, 0.02)
            assert looks == pytest.approx([max(needed, fine, 0.004), *later])


def test_steps_of_the_caller_come_first_and_only_bounds_are_completed():
    bounds = Bounds(columns=[0], share=0.2)
    choice = decide(given=(bounds,))
    assert choice.steps[0] is bounds
    assert names(choice)[1:] == [*UNITS, "whiten"]
    assert choice.steps[4].share == pytest.approx(0.8 * 0.03)
    assert names(decide(given=(Centre(),))) == ["centre"]


def test_pure_budgets_are_refused_with_a_remedy():
    for kind in (LogisticRegression, LinearRegression):
        with pytest.raises(NotSupported, match=r"delta > 0.*'objpert'"):
            kind(1.0, 0.0).check_settings()


def test_rows_are_clipped_further_out_where_noise_allows_it():
    """In moments; the model gets rows of up to 50 times the median where a mean is precise."""
    radii = [radius_of(decide(n_rows=n)) for n in (100, 11_500, 20_000, 10**6)]
    factors = [radius.factor * radius.moment_clip for radius in radii]
    assert factors == sorted(factors)
    assert [radius.factor for radius in radii] == [2.0, 50.0, 50.0, 50.0]
    assert radius_of(decide(n_rows=100, n_known=5)).factor == 1.1
    assert radius_of(decide(n_rows=100, n_features=101)).factor == 1.1
    rich = np.sqrt(0.15 * 1e6 * BUDGET.to_gdp().mu * np.sqrt(0.05) / 20)
    assert factors[-1] == pytest.approx(rich / 2)
    assert radius_of(decide(n_rows=10**9)).moment_clip == 1
    assert radius_of(decide(n_rows=3000, n_features=101)).moment_clip == 1  # noise hides units
    reach = 11_500 * BUDGET.to_gdp().mu
    assert factors[1] == pytest.approx(np.sqrt(0.15 * reach * np.sqrt(0.05) / 20))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_where_the_norm_of_rows_would_be_a_guess_the_model_is_a_constant(relation):
    budget = Budget(1.0, 1e-6, relation)
    edge = 13.5 * np.sqrt(2) * (1 if relation == "add_remove" else 2) / budget.to_gdp().mu
    bounds = Bounds(columns=[0], share=0.2)
    for loss in (Logistic(), Hinge(), Softmax(4), Squared(), Huber()):
        few, more = (decide(round(f * edge), loss=loss, budget=budget) for f in (0.98, 1.02))
        assert few == ((), GD(0))
        assert more.steps
        assert decide(round(1.1 * edge), 5, loss, budget, (bounds,)) == ((bounds,), GD(0))
        assert decide(5, 5, loss, fit_intercept=False).solver != GD(0)
        assert decide(5, 5, loss, given=(Centre(),)).solver != GD(0)
    assert decide(5, 5, Pinball()).solver != GD(0)


@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC, LinearRegression, HuberRegressor])
def test_a_constant_is_the_most_frequent_class_or_the_mean(kind):
    """150 rows at ε = 0.05: noise in a share or a mean of [−1, 1] is 0.36 or less."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 4)) * [1e9, 1.0, 1e-9, 1.0]
    more = {"classes": [0, 1]} if kind in (LogisticRegression, LinearSVC) else {}
    y = np.zeros(150) if more else np.full(150, 5.0)
    more = more or {"target_bounds": (-100.0, 100.0)}
    with pytest.warns(UserWarning, match="All coefficients are 0"):
        model = kind(0.05, 1e-6, **more).fit(X, y)
    assert not model.coef_.any()
    assert model.guarantee_.epsilon == 0.05
    assert model.guarantee_.recompute() <= 0.05 * (1 + 1e-9)
    found = model.predict(100 * X)
    assert (found == found[0]).all()
    if kind is LogisticRegression:
        assert model.predict_proba(X)[0, 1] == pytest.approx(1 / (1 + np.exp(-model.intercept_[0])))


def test_without_a_constant_nothing_is_subtracted():
    for loss in (Logistic(), Squared()):
        assert "centre" in names(decide(loss=loss))
        assert "centre" not in names(decide(loss=loss, fit_intercept=False))


def iterations(n_rows=1_000_000, n_features=30, **more):
    solver = decide(n_rows=n_rows, n_features=n_features, **more).solver
    if not solver.quasi_newton:
        damping = 10 if more.get("loss", Logistic()).n_outputs > 1 else 8
        assert solver.momentum == pytest.approx(1 - damping / solver.iterations)
    return solver.iterations, solver.quasi_newton


def test_descent_takes_as_few_steps_as_are_stable():
    """Steps of at most 0.5 per weight, or of 10 on rows that are not whitened."""
    rich = Budget(100.0, 1e-6, "add_remove")
    assert iterations(20_000) == (20, False)  # 9/0.5 would be enough: noise limits the path
    assert iterations(100) == (20, False)
    assert iterations(budget=Budget(0.001, 1e-6, "add_remove")) == (20, False)
    assert iterations(20_000, loss=Softmax(3)) == (24, False)
    assert iterations(loss=Hinge()) == (36, False)  # 18/0.5
    assert iterations(20_000, 4000, budget=rich) == (50, False)  # too wide to be whitened
    assert decide(given=[Centre()]).solver.iterations == GD().iterations  # rows of any kind


def test_where_noise_does_not_limit_the_path_descent_stops_by_itself():
    rich = Budget(100.0, 1e-6, "add_remove")
    for more in ({}, {"n_features": 200, "budget": rich}):
        assert iterations(**more) == (30, True)
    assert iterations(loss=Softmax(3), budget=rich) == (45, False)  # several classes need a path
    assert iterations(loss=HuberHinge(), budget=rich) == (36, False)  # so do kinks


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_number_of_steps_follows_from_the_path_of_the_solver(relation):
    for epsilon in np.geomspace(0.5, 3.0, 12):
        budget = Budget(epsilon, 1e-6, relation)
        choice = decide(100_000, 30, budget=budget)
        left = 1 - sum(min(step.share, 0.1) for step in choice.steps)
        mu = budget.to_gdp().mu * np.sqrt(left * (1 - choice.solver.start_share))
        changed = 1 if relation == "add_remove" else 2
        reach = 0.3 * 100_000 * mu / changed
        path = min(reach / clip_by_rule(reach, 18 * 31), 18 * 31)
        assert choice.solver.quasi_newton == (path == 18 * 31)
        expected = 30 if path == 18 * 31 else max(20, np.ceil(path / (0.5 * 31)))
        assert choice.solver.iterations == expected


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_very_wide_tables_are_for_shrunk_descent(relation):
    k = 1 if relation == "add_remove" else 2
    for epsilon, rule in ((0.1, 20), (1.0, 0), (20.0, 0), (50.0, 0)):
        budget = Budget(epsilon, 1e-6, relation)
        edge = int(rule * 2000 * budget.to_gdp().mu / k) if rule else 2000  # else: as many as rows
        for columns, kind in ((edge, GD), (edge + 1, ShrunkGD)):
            choice = decide(n_rows=2000, n_features=columns, budget=budget)
            assert type(choice.solver) is kind
        steps = 2000 * budget.to_gdp().mu / (100 * k)
        assert choice.solver.iterations == math.ceil(min(max(steps, 30), 120))
    assert decide(n_rows=2000, n_features=3000, budget=Budget(900, 1e-6, relation)).solver == (
        ShrunkGD(120, start_share=0.005)
    )


@pytest.mark.parametrize(("table", "classes"), [(np.asarray, 3), (sp.csr_array, 2)])
def test_few_columns_of_many_are_found(table, classes):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 2500)).astype(np.float32) * (rng.random((3000, 2500)) < 0.5)
    y = X[:, :classes].argmax(axis=1)
    model = LogisticRegression(4.0, 1e-7, classes=np.arange(classes), random_state=1)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        model.fit(table(X[:2000]), y[:2000])
    assert model.solver_ == "shrunk-gd"
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (4.0, 1e-7)
    assert model.score(table(X[2000:]), y[2000:]) > 0.7  # gd: 0.6 and 0.45


def record_choice(monkeypatch):
    """What each fit runs: the steps where rows are transformed, and what its solver is handed."""
    seen = []
    transform = pipeline.transform

    def spied(recipe, *args):
        seen.append((recipe.steps, recipe.mechanisms, recipe.writes, recipe.data_norm))
        return transform(recipe, *args)

    monkeypatch.setattr(pipeline, "transform", spied)
    solve = Solver.solve

    def solved(self, problem, curator, budget, progress=None):
        seen.append((self, problem, budget, curator.n_models))
        return solve(self, problem, curator, budget, progress)

    monkeypatch.setattr(Solver, "solve", solved)
    return seen


@pytest.mark.parametrize(
    ("estimator", "relation"),
    [
        (LogisticRegression(classes=[0, 1]), "add_remove"),
        (LogisticRegression(classes=[0, 1, 2], data_norm=5.0), "replace_one"),
        (LinearSVC(classes=[0, 1], preparation=[Bounds([0])]), "add_remove"),
        (LinearRegression(target_bounds=(-1, 1), data_norm=5.0, alpha=1e-3), "replace_one"),
        (HuberRegressor(target_bounds=(-1, 1)), "add_remove"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_no_value_of_a_row_changes_the_choice(estimator, relation, monkeypatch):
    """Tables of one size that differ in values only, some of them extreme, run the same method."""
    seen = record_choice(monkeypatch)
    model = clone(estimator).set_params(relation=relation, delta=1e-6)
    rng = np.random.default_rng(0)
    for shape in ((60, 3), (40, 200)):  # wide: another solver
        usual = rng.normal(size=shape)
        tables = [usual, 1e3 * usual, np.zeros(shape), np.full(shape, 1e308), usual.copy()]
        tables[-1][7, 1] = -1e308
        targets = [np.arange(len(usual)) % 2, np.zeros(len(usual), dtype=int)]
        runs = []
        for X in tables:
            for y in targets:
                seen.clear()
                model.fit(X, y)
                runs.append(list(seen))
        assert len(runs[0]) == 2
        assert all(run == runs[0] for run in runs)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 10)) * 10.0 ** rng.uniform(-0.5, 0.5, 10) + 5.0
    score = (X - 5.0) / X.std(axis=0) @ rng.normal(size=10)
    return X, score


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("estimator", [LogisticRegression, LinearSVC])
def test_badly_scaled_rows_need_no_care(rows, relation, estimator):
    X, score = rows
    y = score > 0
    model = estimator(epsilon=1.0, delta=1e-9, relation=relation, classes=[False, True]).fit(X, y)
    assert model.score(X, y) > 0.93
    assert model.solver_ == "gd"
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 1e-9)
    assert [name for name, _ in model.guarantee_.split][-1] == "model"


def test_units_do_not_matter(rows):
    X, score = rows
    y = score > 0
    scores = []
    for factor in (1e-3, 1.0, 1e3):
        model = LogisticRegression(epsilon=1.0, delta=1e-9, classes=[False, True])
        scores.append(model.fit(factor * X, y).score(factor * X, y))
    assert max(scores) - min(scores) < 0.05


def test_sparse_rows_and_single_precision(rows):
    X, score = rows
    y = score > 0
    for table in (sp.csr_matrix(X), X.astype(np.float32)):
        model = LogisticRegression(epsilon=1.0, delta=1e-9, classes=[False, True]).fit(table, y)
        assert model.score(table, y) > 0.93


def test_several_classes_are_one_model_with_probabilities(rows):
    X, score = rows
    y = np.digitize(score, np.quantile(score, [1 / 3, 2 / 3]))
    model = LogisticRegression(epsilon=1.0, delta=1e-9, classes=[0, 1, 2]).fit(X, y)
    assert model.multinomial_
    assert model.coef_.shape == (3, 10)
    assert model.score(X, y) > 0.75
    shares = model.predict_proba(X)
    assert np.allclose(shares.sum(axis=1), 1)
    assert (model.classes_[shares.argmax(axis=1)] == model.predict(X)).all()
    for loss in ("huber", "hinge"):
        vectors = LinearSVC(epsilon=1.0, delta=1e-9, loss=loss, classes=[0, 1, 2]).fit(X, y)
        assert vectors.multinomial_
        assert vectors.coef_.shape == (3, 10)
        assert vectors.score(X, y) > 0.75
    apart = LinearSVC(epsilon=1.0, delta=1e-9, solver="gd", classes=[0, 1, 2]).fit(X, y)
    assert not apart.multinomial_
    assert apart.coef_.shape == (3, 10)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("estimator", [LogisticRegression, LinearSVC])
@pytest.mark.parametrize("classes", [3, 8])
def test_classes_without_a_signal_are_the_most_frequent_one(estimator, classes, relation):
    """At least 60 % of the rows have one class, and columns say nothing.

    Noise in a share is at most √2/(n·μ·√0.002), 0.05: the difference of two is 7 deviations.
    """
    rng = np.random.default_rng(classes)
    X = rng.normal(size=(3000, 10))
    y = np.where(rng.random(3000) < 0.6, 1, rng.integers(0, classes, 3000))
    settings = {"relation": relation, "classes": range(classes), "random_state": 1}
    model = estimator(epsilon=1.0, delta=1e-7, **settings)
    most = np.mean(y == 1)
    assert model.fit(X, y).score(X, y) > most - 0.02
    if estimator is LogisticRegression:
        shares = np.bincount(y, minlength=classes) / y.size
        own = -np.log(model.predict_proba(X)[np.arange(y.size), y]).mean()
        # noise s in shares p costs Σ s²/2p, about 0.1 for 8 classes; equal shares cost 0.7
        assert own < -shares @ np.log(shares) + 0.25


def test_an_independent_accountant_agrees(rows):
    X, score = rows
    model = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[False, True]).fit(X, score > 0)
    events = []
    for use in model.guarantee_.mechanisms:
        loss: PrivacyLoss = use.mechanism.loss
        events.append(SelfComposedDpEvent(GaussianDpEvent(1 / loss.mu), use.count))
    accountant = PLDAccountant()
    accountant.compose(ComposedDpEvent(events))
    assert accountant.get_epsilon(1e-6) == pytest.approx(1.0, rel=2e-2)
    assert accountant.get_epsilon(1e-6) < 1.0 + 2e-3


def test_seeds_repeat_it_and_regressors_have_a_choice_too(rows):
    X, score = rows
    y = score > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        fits = [LogisticRegression(random_state=1).fit(X, y).coef_ for _ in range(2)]
    assert np.array_equal(*fits)
    target = np.clip(score / 10, -1, 1)
    model = LinearRegression(epsilon=1.0, target_bounds=(-1, 1)).fit(X / 1000, target)
    assert model.solver_ == "newton"


def test_a_bound_on_rows_is_for_what_comes_in(rows):
    X, score = rows
    for norm in (4.0, 30.0):  # 4 is what the rule itself would bound prepared rows by
        model = LogisticRegression(classes=[False, True], data_norm=norm).fit(X, score > 0)
        assert model.row_norm_ is None
    spent = Ledger().create("rows")
    model = LogisticRegression(classes=[False, True], data_norm=1e-20, ledger=spent)
    with pytest.raises(ValueError, match="data_norm"):
        model.fit(X, score > 0)
    assert spent.entries == 0


@pytest.mark.parametrize("step", [Radius(), Scale(share=0.03)])
def test_steps_are_not_repeated_without_end(rows, step):
    X, score = rows
    steps = [Radius(), Scale(share=0.03), Scale(share=0.03), step]
    with pytest.raises(ValueError, match="once at most"):
        LogisticRegression(classes=[False, True], preparation=steps).fit(X, score > 0)


@pytest.mark.parametrize("unit", [1e-12, 1e-7, 1.0, 1e7, 1e15])
def test_rows_may_be_of_any_length(rows, unit):
    X, score = rows
    model = LogisticRegression(1.0, 1e-9, classes=[False, True]).fit(unit * X, score > 0)
    assert model.score(unit * X, score > 0) > 0.9


@pytest.mark.parametrize("offset", [0.0, 30.0, 1000.0])
def test_columns_may_lie_far_from_zero(offset):
    """Years, ids, body temperatures: a large mean next to a small spread.

    With 8,000 rows and a mean of 1,000 deviations one fit in about 25 loses a column.
    """
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(8000 if offset < 1000 else 50_000, 8))
    y, target = Z[:, 0] + Z[:, 1] > 0, Z[:, 0] / 4
    X = Z * [1, 1, 5, 1, 1, 3, 1, 1] + offset * np.linspace(0, 1, 8)[::-1]
    model = LogisticRegression(1.0, 1e-9, classes=[False, True]).fit(X, y)
    assert model.score(X, y) > 0.92
    line = LinearRegression(1.0, 1e-9, target_bounds=(-1, 1)).fit(X, target)
    assert line.score(X, target) > 0.9


@pytest.mark.parametrize("kind", ["units", "offset", "timestamps"])
def test_the_unit_of_a_column_does_not_matter(kind):
    """Units, means of 100 standard deviations and columns of ids: within a few points of none.

    Over 100 fits the differences had a standard deviation of 0.6 points: 4 are more than six.
    """
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(10_000, 8))
    score = Z @ np.linspace(-1, 1, 8)
    X = Z.copy()
    if kind == "units":
        X *= 10.0 ** np.array([9, -9, 0, 4, -4, 0, 6, -6])
    elif kind == "offset":
        X += [100, 0, -100, 0, 0, 0, 0, 100]
    else:
        X = np.column_stack([Z, np.arange(10_000.0), 1.7e9 + 1e7 * rng.normal(size=10_000)])
    model = LogisticRegression(1.0, 1e-8, classes=[False, True])
    plain = model.fit(Z, score > 0).score(Z, score > 0)
    assert model.fit(X, score > 0).score(X, score > 0) > plain - 0.04


def test_what_is_asked_twice_needs_a_first_answer():
    assert names(decide(n_rows=800, n_features=100)) == ["radius", "centre", "scale"]
    without = names(decide(fit_intercept=False))
    assert without == ["magnitude", "largest", "radius", "scale", "whiten"]
    assert sum(step.share for step in decide().steps) < 0.3


def test_budgets_too_extreme_for_a_step_are_refused_before_anything_is_spent(rows):
    X, score = rows
    spent = Ledger().create("rows")
    model = LogisticRegression(
        epsilon=1e-6,
        delta=1e-12,
        classes=[False, True],
        solver="gd",
        preparation=[Radius(share=1e-6)],
        ledger=spent,
    )
    with pytest.raises(ValueError, match="epsilon must be a finite number between 1e-09"):
        model.fit(X, score > 0)
    assert spent.entries == 0


def test_splines_have_a_known_unit():
    """Rare splines are tiny in most rows: stretched by that, they would be the longest of all."""
    rng = np.random.default_rng(2)
    gains = np.where(rng.random(12_000) < 0.92, 0.0, rng.random(12_000) ** 3)
    X = np.column_stack([gains, rng.random((12_000, 2)), rng.random((12_000, 2)) < 0.3])
    y = 8 * gains + np.sin(6 * X[:, 1]) + X[:, 3] + rng.logistic(size=12_000) / 2 > 1
    numeric = dict.fromkeys(range(3), (0.0, 1.0, "smooth"))
    chosen = feature_rule.choose("auto", numeric, feature_rule.TableFacts(12_000, 5), BUDGET)
    assert chosen.known == chosen.expansion.count
    model = LogisticRegression(1.0, 1e-9, classes=[False, True], columns=numeric).fit(X, y)
    looks = [step for step in model.preparation_ if step.name == "magnitude"]
    assert looks
    assert all((step.factors[-chosen.known :] == 1).all() for step in looks)
    assert model.score(X, y) > 0.75  # 0.81 without noise
    every = decide(n_features=30, n_known=30)
    assert "magnitude" not in names(every)
    assert [step.floor for step in every.steps if step.name == "scale"] == [0.1]


def test_several_classes_take_more_steps():
    """Their path is longer by K/2, and steps are by its root."""
    assert iterations(100_000, 54, loss=Softmax(7)) == (np.ceil(9 / 0.5 * np.sqrt(3.5)), False)
    assert iterations(2000, 20, loss=Softmax(5)) == (24, False)


def test_a_fit_that_learned_nothing_says_so(recwarn):
    """From released numbers: with 60 rows at ε = 0.05 weights are often taken for noise."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 10)), rng.random(60) < 0.4
    for _ in range(40):
        model = LogisticRegression(0.05, 1e-6, classes=[False, True]).fit(X, y)
        said = [item for item in recwarn if "All coefficients are 0" in str(item.message)]
        assert bool(said) is not model.coef_.any()
        if said:
            break
        recwarn.clear()
    assert said


def _bounded_tables():
    """Two tables of classes and two of numbers: equal and own units, categories, long tails."""
    rng = np.random.default_rng(8)
    Z = rng.normal(size=(8000, 8))
    codes = (rng.random((8000, 8)) < 0.2).astype(float)
    units = Z * 10.0 ** np.array([0, 3, -2, 1, 0, -1, 2, 0])
    tails = np.exp(Z)
    score = Z @ np.linspace(-1, 1, 8)
    yield Z, score > 0
    yield np.column_stack([units, codes]), score + codes @ np.linspace(-1, 1, 8) > 0.4
    yield units, np.clip(score, -3, 3)
    yield np.column_stack([tails, codes]), np.clip(score + codes @ np.linspace(-1, 1, 8), -3, 3)


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_a_true_bound_on_the_norm_of_rows_never_lowers_a_score(epsilon):
    """The same noise, so the same score up to what a tighter radius changes."""
    for X, y in _bounded_tables():
        norm = float(np.linalg.norm(X, axis=1).max())
        settings = {"epsilon": epsilon, "delta": 1e-6, "random_state": 1}
        model = LogisticRegression(**settings, classes=[False, True])
        if y.dtype != bool:
            model = LinearRegression(**settings, target_bounds=(-3, 3))
        plain = model.fit(X[:6000], y[:6000]).score(X[6000:], y[6000:])
        for bound in (norm, 10 * norm):
            bounded = model.set_params(data_norm=bound)
            assert bounded.fit(X[:6000], y[:6000]).score(X[6000:], y[6000:]) > plain - 0.005


def test_more_budget_never_hurts():
    """Seeded noise, so the same result in every run: five fits of each table and budget."""
    for X, y in _bounded_tables():
        scores = []
        for epsilon in (0.3, 0.9, 2.7):
            settings = {"epsilon": epsilon, "delta": 1e-6}
            model = LogisticRegression(**settings, classes=[False, True])
            if y.dtype != bool:
                model = LinearRegression(**settings, target_bounds=(-3, 3))
            found = []
            for seed in range(5):
                model.set_params(random_state=seed).fit(X[:6000], y[:6000])
                found.append(model.score(X[6000:], y[6000:]))
            scores.append(found)
        gains = np.diff(scores, axis=0)
        errors = gains.std(axis=1, ddof=1) / math.sqrt(gains.shape[1])
        assert (gains.mean(axis=1) > -3 * errors - 0.002).all(), gains.mean(axis=1)
