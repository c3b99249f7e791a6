"""A preparation inside a fit: one budget, one guarantee, the same in predict."""

import json
import math
import pickle
import tracemalloc
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from discreet import (
    HuberRegressor,
    Ledger,
    LinearSVC,
    LogisticRegression,
    Magnitude,
    NotSupported,
    solvers,
)
from discreet.accounting.composition import delta_with_gaussian
from discreet.accounting.planning import divide
from discreet.core import Budget, Gaussian, L2Norm
from discreet.core.bits import SeededBits
from discreet.core.questions import (
    CurvatureSum,
    Gradient,
    RowSum,
    ScoreSum,
)
from discreet.core.session import Session
from discreet.estimators.classifiers import label_codes
from discreet.objectives import L2, Logistic, Problem
from discreet.papers.objpert import ObjPert
from discreet.preparation import (
    WIDEST,
    Balance,
    Bounds,
    Centre,
    Radius,
    Scale,
    Spread,
    Whiten,
    pipeline,
)
from discreet.rows import Rows, RowWeights, as_rows
from discreet.rows.scores import score_sum
from discreet.rows.sums import gradient_sum
from discreet.solvers.gd import GD

from .prepared import ALL, FULL, RAW, SCORE, Y, model

pytestmark = pytest.mark.filterwarnings("ignore::discreet.PrivacyLeakWarning")

PRIVATE = [
    name
    for name in solvers.names()
    if name not in ("auto", "newton") and solvers.describe(name).private  # newton: regression only
]


class Unread:
    """A table that must not be touched."""

    def __array__(self, *_, **__):
        raise AssertionError("the table was read")


@pytest.mark.parametrize("name", PRIVATE)
def test_every_private_solver_takes_a_preparation(name):
    fitted = model(name).fit(RAW, Y)
    assert fitted.score(RAW, Y) > 0.75
    guarantee = fitted.guarantee_
    assert (guarantee.epsilon, guarantee.delta) == (3.0, 1e-6)
    assert [part for part, _ in guarantee.split] == ["bounds", "centre", "whiten", "model"]
    assert sum(share for _, share in guarantee.split) == pytest.approx(1.0)
    assert any("second moment" in text for text in guarantee.conditions)
    assert guarantee.mechanisms[0].count == 8  # two choices for each of four columns
    json.loads(guarantee.to_json())


@pytest.mark.parametrize("name", [n for n in PRIVATE if not solvers.resolve(n).needs_delta])
def test_pure_budgets_stay_pure(name):
    fitted = model(name, delta=0.0, epsilon=8.0).fit(RAW, Y)
    guarantee = fitted.guarantee_
    assert guarantee.delta == 0
    assert guarantee.measure == "pure"
    spent = sum(use.count * use.mechanism.loss.epsilon for use in guarantee.mechanisms)
    assert 0.9 * 8 <= spent <= 8
    assert all(use.mechanism.loss.delta == 0 for use in guarantee.mechanisms)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_zcdp_fit_recomputed_by_another_accountant(relation):
    from dp_accounting.rdp import RdpAccountant

    guarantee = model("agd", relation=relation, epsilon=1.0).fit(RAW, Y).guarantee_
    assert guarantee.measure == "zcdp"
    accountant = RdpAccountant(orders=np.geomspace(1.05, 1000, 400))
    accountant.compose(guarantee.event)
    assert 0.9 <= accountant.get_epsilon(1e-6) <= 1.003
    assert sum(use.count * use.mechanism.loss.rho for use in guarantee.mechanisms) <= guarantee.rho


def test_a_gdp_fit_recomputed_by_another_accountant():
    from dp_accounting.pld import PLDAccountant

    guarantee = model("outpert", [Centre(), Whiten()], epsilon=1.0).fit(RAW, Y).guarantee_
    assert guarantee.measure == "gdp"
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(guarantee.event)
    assert 0.99 <= accountant.get_epsilon(1e-6) <= 1.003


def test_an_objective_perturbation_fit_recomputed_from_its_mechanisms():
    """By dp-accounting: Gaussians, and c + max(0, ψ) as a loss distribution (one corner)."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld
    from scipy.stats import norm

    fitted = model("objpert", epsilon=1.0, relation="add_remove").fit(RAW, Y)
    guarantee = fitted.guarantee_
    assert guarantee.measure == "approximate"
    *before, last = guarantee.mechanisms
    minimum = last.mechanism
    square = sum(use.count * use.mechanism.loss.mu**2 for use in before) + minimum.output_mu**2
    grid, s, cost = 1e-5, minimum.noise_ratio, minimum.curvature_cost
    edges = np.arange(round(cost / grid), round((cost + 9 * s) / grid))
    above = norm.sf((edges * grid - cost - s * s / 2) / s)
    mass = np.concatenate([[1 - above[0]], above[:-1] - above[1:]])
    losses = dict(zip(edges.tolist(), mass.tolist(), strict=True))
    other = pld.PrivacyLossDistribution(pld_pmf.SparsePLDPmf(losses, grid, float(above[-1]), True))
    gaussian = pld.from_gaussian_mechanism(
        1 / math.sqrt(square), value_discretization_interval=grid
    )
    assert 0.99 <= gaussian.compose(other).get_epsilon_for_delta(1e-6) <= 1.001


def test_a_sampled_fit_recomputed_from_its_mechanisms():
    from dp_accounting import SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    fit = model("sgd", [Centre(0.2)], epsilon=1.0, relation="add_remove").fit(RAW, Y)
    first, steps = fit.guarantee_.mechanisms
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(SelfComposedDpEvent(steps.mechanism.event(), steps.count))
    parts = [share * 1e-6 for share in (0.3, 0.5, 0.7, 0.8, 0.9)]
    totals = [
        delta_with_gaussian(first.mechanism.loss.mu, accountant.get_epsilon(part), part, 1.0)
        for part in parts
    ]
    assert min(totals) <= 1.02e-6  # the steps alone are (ε', δ')-DP for some δ' that was chosen


def test_prediction_prepares_rows_as_the_fit_did_but_for_the_clips(binary):
    X, y = binary
    fitted = model(preparation=[Bounds([1, 4]), Centre(), Whiten()]).fit(X, y)
    bounds, centre, whiten = fitted.preparation_
    Z = X.copy()
    for column, low, high in zip(bounds.columns, bounds.low, bounds.high, strict=True):
        Z[:, column] = np.clip((Z[:, column] - low) / (high - low), 0, 1)
    assert np.array_equal(fitted.features_.transform(X), Z)
    assert np.allclose(fitted.decision_function(X), Z @ fitted.coef_[0] + fitted.intercept_[0])
    Z = (Z - centre.mean) @ whiten.matrix.T
    assert (centre.clips, whiten.clips) == (True, False)  # raw rows are clipped once, in fit
    scores = Z @ fitted.prepared_coef_[0] + fitted.prepared_intercept_[0]
    assert fitted.decision_function(X) == pytest.approx(scores, abs=1e-12)
    assert fitted.decision_function(sp.csr_array(X)) == pytest.approx(scores, abs=1e-12)
    assert fitted.decision_function(X[5:6]) == pytest.approx(scores[5:6], abs=1e-12)


@pytest.mark.parametrize("solver", ["agd", "gd", "outpert"])
@pytest.mark.parametrize("steps", [ALL, FULL, [Spread(), Centre(), Scale()], [Scale(), Radius()]])
def test_tables_stay_as_they_are(solver, steps):
    X = RAW[:500].copy()
    model(solver, steps, data_norm=60.0).fit(X, Y[:500]).predict(X)
    assert np.array_equal(X, RAW[:500])


def test_large_tables_are_predicted_block_by_block(monkeypatch):
    fitted = model().fit(RAW, Y)
    whole = fitted.decision_function(RAW)
    monkeypatch.setattr(pipeline, "BLOCK_ENTRIES", 4000)
    assert np.array_equal(fitted.decision_function(RAW), whole)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sparse_and_dense_tables_give_the_same_model_and_stay_as_they_are(kind):
    dense = np.where(np.random.default_rng(1).random(RAW.shape) < 0.5, RAW, 0.0).astype(kind)
    before = dense.copy()
    sparse = sp.csr_array(dense)
    fits = [model().fit(table, Y) for table in (dense, sparse, np.asfortranarray(dense))]
    for other in fits[1:]:
        assert other.coef_ == pytest.approx(fits[0].coef_, rel=1e-5)
    assert np.array_equal(dense, before)
    assert np.array_equal(sparse.toarray(), before)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_full_zcdp_preparation_recomputed_by_another_accountant(relation):
    from dp_accounting.rdp import RdpAccountant

    fitted = model("agd", FULL, relation=relation, epsilon=1.0, data_norm=None).fit(RAW, Y)
    guarantee = fitted.guarantee_
    assert guarantee.measure == "zcdp"
    parts = [part for part, _ in guarantee.split]
    assert parts == ["radius", "centre", "scale", "whiten", "model"]
    accountant = RdpAccountant(orders=np.geomspace(1.05, 1000, 400))
    accountant.compose(guarantee.event)
    assert 0.9 <= accountant.get_epsilon(1e-6) <= 1.003
    spent = [use.count * use.mechanism.loss.rho for use in guarantee.mechanisms]
    assert sum(spent) <= guarantee.rho
    # Centre and Scale use one mechanism twice, as their shares are the same
    shares = [0.01 * guarantee.rho, 0.1 * guarantee.rho, 0.1 * guarantee.rho]
    assert [use.count for use in guarantee.mechanisms[:3]] == [1, 2, 1]
    assert spent[:3] == pytest.approx(shares, rel=1e-6)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_full_gdp_preparation_recomputed_by_another_accountant(relation):
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    guarantee = model("outpert", FULL, relation=relation, epsilon=1.0).fit(RAW, Y).guarantee_
    assert guarantee.measure == "gdp"
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    for use in guarantee.mechanisms:  # the selection is μ-GDP: no more than that Gaussian tells
        accountant.compose(GaussianDpEvent(1 / use.mechanism.loss.mu), use.count)
    assert sum(use.count for use in guarantee.mechanisms) == 5
    assert 0.99 <= accountant.get_epsilon(1e-6) <= 1.003


def test_a_full_pure_preparation_adds_up():
    guarantee = model("outpert", FULL, epsilon=20.0, delta=0.0).fit(RAW, Y).guarantee_
    spent = [use.count * use.mechanism.loss.epsilon for use in guarantee.mechanisms]
    assert 19.9 <= sum(spent) <= 20.0
    assert spent == pytest.approx([0.2, 2.0, 2.0, 15.8], rel=1e-6)  # Centre and Scale are alike


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_full_preparation_needs_no_bound_and_makes_columns_alike(kind):
    table = RAW.astype(kind)
    fitted = model(preparation=FULL, epsilon=10.0, data_norm=None).fit(table, Y)
    radius, centre, scale, whiten = fitted.preparation_
    norms = np.linalg.norm(RAW, axis=1)
    assert radius.radius == pytest.approx(1.1 * np.median(norms), rel=0.1)
    assert (centre.clips, scale.clips, whiten.clips) == (False, False, False)
    assert (centre.row_norm, whiten.row_norm) == (1.0, pytest.approx(4.0))
    left = math.sqrt(max(1 - centre.mean @ centre.mean, 0.05))
    assert scale.row_norm == pytest.approx(left)
    moved = RAW / np.maximum(radius.radius, norms)[:, None] - centre.mean
    moved = (moved * scale.weights) @ whiten.matrix
    linear = ((RAW / radius.radius - centre.mean) * scale.weights) @ whiten.matrix
    scores = linear @ fitted.prepared_coef_[0] + fitted.prepared_intercept_[0]
    close = 1e-10 if kind is np.float64 else 1e-4
    assert fitted.decision_function(table) == pytest.approx(scores, rel=close, abs=close)
    assert np.mean(np.sum(moved**2, axis=1)) == pytest.approx((10 / 3) ** 2, rel=0.5)
    assert fitted.score(table, Y) > 0.75


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        (np.float32, FULL),
        (np.float64, FULL),
        (np.float32, [Radius(0.1), Scale(0.2)]),
        (np.float64, [Scale(), Centre(), Radius()]),
    ],
)
def test_full_preparations_of_sparse_and_dense_tables_are_the_same(kind, steps):
    dense = np.where(np.random.default_rng(1).random(RAW.shape) < 0.5, RAW, 0.0).astype(kind)
    before = dense.copy()
    sparse = sp.csr_array(dense)
    tables = (dense, sparse, np.asfortranarray(dense))
    fits = [model(preparation=steps, data_norm=60.0).fit(table, Y) for table in tables]
    for other in fits[1:]:
        assert other.coef_ == pytest.approx(fits[0].coef_, rel=1e-3, abs=1e-5)
    assert np.array_equal(dense, before)
    assert np.array_equal(sparse.toarray(), before)


def test_a_ledger_counts_one_fit():
    ledger = Ledger().create("rows")
    fitted = model(ledger=ledger).fit(RAW, Y)
    assert ledger.entries == 1
    assert ledger.rho == pytest.approx(fitted.guarantee_.rho)


def test_several_models_share_what_is_left():
    three = np.digitize(SCORE, [-1.0, 1.0])
    fitted = LogisticRegression(
        epsilon=20.0, data_norm=1.0, preparation=ALL, classes=[0, 1, 2], random_state=0
    ).fit(RAW, three)
    assert fitted.coef_.shape == (3, 4)
    assert len(fitted.preparation_) == 3
    assert fitted.guarantee_.epsilon == 20.0


@pytest.mark.parametrize(
    "estimator", [LinearSVC(classes=["no", "yes"]), HuberRegressor(target_bounds=(-5, 5))]
)
def test_other_estimators_take_a_preparation(estimator):
    estimator.set_params(epsilon=5.0, data_norm=2.0, preparation=ALL, random_state=0)
    target = SCORE if isinstance(estimator, HuberRegressor) else Y
    assert estimator.fit(RAW, target).score(RAW, target) > 0.5


def test_clones_pickles_and_parameters():
    estimator = model(preparation=[Bounds(columns=[np.int64(2)]), Centre(share=0.1)])
    copy = clone(estimator)
    assert copy.get_params()["preparation"] == [Bounds((2,)), Centre(0.1)]
    fitted = estimator.fit(RAW, Y)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(RAW), fitted.predict(RAW))
    assert not hasattr(clone(fitted), "preparation_")
    assert model(preparation=None).fit(RAW, Y).preparation_ == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preparation": [Centre()], "data_norm": None}, "data_norm"),
        ({"preparation": [Scale(), Radius()], "data_norm": None}, "Radius"),
        ({"preparation": [Radius()], "data_norm": 1e20}, "data_norm"),
        ({"preparation": [Whiten(0.6), Centre(0.4)]}, "shares"),
        ({"preparation": ["centre"]}, "preparation must be"),
        ({"preparation": Centre}, "preparation must be"),
        ({"preparation": [Centre()], "data_norm": 1e20}, "data_norm"),
        ({"solver": "nonprivate"}, "protects nobody"),
    ],
)
def test_bad_settings_are_refused_before_data_is_read(settings, message):
    with pytest.raises((ValueError, NotSupported), match=message):
        model(**settings).fit(Unread(), Unread())


def test_tables_that_do_not_fit_are_refused_before_anything_is_spent():
    ledger = Ledger().create("rows")
    wide = sp.csr_array((50, WIDEST + 1))
    long = sp.csr_array((600_000, 1000), dtype=np.float64)
    for table, steps, message in (
        (RAW, [Bounds([4])], "column 4"),
        (wide, [Whiten()], "at most 2048 columns"),
        (long, [Centre()], "GiB"),
        (np.where(RAW.max() <= RAW, np.nan, RAW), ALL, "finite"),
    ):
        labels = np.resize(Y, table.shape[0])
        with pytest.raises((ValueError, NotSupported), match=message):
            model(preparation=steps, ledger=ledger).fit(table, labels)
    assert ledger.entries == 0


def test_constants_that_break_their_promise_cannot_be_prepared_for():
    solver = ObjPert("published", unsafe=True)
    settings = {"epsilon": 1.0, "relation": "replace_one"}
    assert model(solver, None, **settings).fit(RAW, Y).guarantee_.epsilon > 1.0
    ledger = Ledger().create("rows")
    with pytest.raises(NotSupported, match="unsafe=True"):
        model(solver, [Centre()], ledger=ledger, **settings).fit(RAW, Y)
    assert ledger.entries == 0


def test_labels_are_coded_by_the_declared_classes():
    labels = np.array(["b", "a", "c", "a"])
    for y, declared in (
        (labels, ["c", "a", "b"]),
        (labels.astype(object), ["c", "a", "b"]),
        (np.array([3, 1, 7, 1]), [7, 3, 1, 9]),
        (np.array([3.0, 1.0, 7.0, 1.0]), [1, 3, 7]),
        (np.array([True, False, True, False]), [0, 1]),
    ):
        estimator = LogisticRegression(classes=declared)
        classes = estimator._declared_classes()
        codes = label_codes(y, classes)
        assert np.array_equal(classes[codes], y)
        assert np.array_equal(classes, np.unique(declared))
    for y, declared in (
        (labels, ["a", "b"]),
        (labels, ["b", "c", "d"]),
        (np.array([0, 1, 2]), [0, 1]),
        (np.array([-1, 0]), [0, 1]),
        (np.array([0, 1]), ["0", "1"]),
        (labels.astype(object), ["a", "b"]),
    ):
        estimator = LogisticRegression(classes=declared)
        with pytest.raises(ValueError, match="not in classes"):
            label_codes(y, estimator._declared_classes())


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("units", [False, True])
def test_a_fit_without_a_copy_is_the_fit_with_one(monkeypatch, layout, intercept, units):
    X = layout(RAW * [1.0, 2.0**-12, 1.0, 2.0**20] if units else RAW)
    steps = (Magnitude(), *FULL) if units else FULL
    fits = []
    for moved in (True, False):
        monkeypatch.setattr(GD, "takes_transformed_rows", moved)
        settings = {"data_norm": None, "fit_intercept": intercept}
        fits.append(model(GD(gradient_clip=2.0), steps, **settings).fit(X, Y))
    first, second = fits
    assert np.allclose(first.coef_, second.coef_, rtol=1e-4, atol=1e-6)
    scores = first.decision_function(X)
    assert np.allclose(scores, second.decision_function(X), rtol=1e-4, atol=1e-5)
    assert first.guarantee_.epsilon == second.guarantee_.epsilon


def test_a_sparse_table_stays_sparse():
    X = sp.random_array((3000, 4000), density=0.003, format="csr", rng=np.random.default_rng(1))
    y = np.arange(3000) % 2
    fitted = LogisticRegression(1.0, 1e-8, classes=[0, 1])
    fitted.fit(X[:50], y[:50])  # compiles
    tracemalloc.start()
    fitted.fit(X, y).decision_function(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * 8 * 3000 * 4000


RICH = {"epsilon": 1.0, "delta": 1e-6, "classes": [0, 1]}


def large(n=60_000):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 3)) * [1.0, 1e6, 1e-3] + [1.0, 0.0, 0.002]
    return X, (X[:, 0] - 1 + X[:, 1] / 1e6 + rng.logistic(size=n) > 0).astype(int)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_neither_weights_nor_copies_are_sampled(kind, monkeypatch):
    X, y = large()
    monkeypatch.setattr(Rows, "sample", None)
    LogisticRegression(**RICH).fit(kind(X), y, groups=np.arange(60_000) // 2)
    LogisticRegression(preparation=[Radius(), Centre(), Scale()], **RICH).fit(kind(X), y)


def weights_of(values, size):
    return RowWeights.of(np.array(values), size, grouped=False)


def transformed(X, y, *, copy, weights=None, rate=1.0):
    """Rows after Radius and Centre, by the pipeline alone."""
    steps = (Radius(0.1), Centre(0.1))
    budget = Budget(3.0, 1e-6, "add_remove")
    unit = "row" if weights is None else weights.unit
    session = Session(budget, unit, bits=SeededBits(0))
    parts = [(step.name, step.share) for step in steps]
    session.account.reserve(divide(budget, parts, ["gdp"]))
    total = Fraction(budget.to_gdp().mu) ** 2
    mechanisms = tuple(step.mechanism("gdp", Fraction(step.share) * total) for step in steps)
    return pipeline.transform(
        pipeline.Recipe(steps, mechanisms, rate=rate, writes=copy),
        X,
        partial(as_rows, y=y, weights=weights),
        session,
        session.streams(2),
        Problem(Logistic(), L2(), len(X), X.shape[1]),
    )


@pytest.mark.parametrize("copy", [False, True])
def test_inference_reads_rows_with_the_weights_of_the_model(copy):
    """Steps weigh rows so that a unit counts once; the model may weigh them by class as well."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.where(rng.random(200) < 0.5, 1.0, -1.0)
    prepared = transformed(X, y, copy=copy, weights=weights_of(np.full(200, 0.5), 100))
    assert prepared.rows.row_weights.values.tolist() == [0.5] * 200
    assert prepared.mapped is not copy
    own = weights_of(np.where(y > 0, 0.25, 0.125), 100)
    far, _ = prepared.inference_rows(lambda rows: rows.with_weights(own))
    assert far.row_weights.values.tolist() == own.values.tolist()
    # and sums over them are those of rows with these weights
    score = score_sum(far, np.zeros(4), Logistic(), 1e6).values
    rows = as_rows(X, y, weights=own)
    assert score[-1] == pytest.approx(score_sum(rows, np.zeros(4), Logistic(), 1e6).values[-1])


def test_a_fit_measures_the_model_that_it_fitted(monkeypatch):
    """Class weights and weights by person: all rows that are asked for scores have the model's."""
    X, y = large(3000)
    seen = {}
    answer = Rows.answer

    def noted(rows, questions):
        for question in questions:
            seen.setdefault(type(question), []).append(rows.row_weights.values)
        return answer(rows, questions)

    monkeypatch.setattr(Rows, "answer", noted)
    ids = np.minimum(np.arange(3000), 2500)
    model = LogisticRegression(
        **RICH | {"epsilon": 20.0}, class_weight={0: 0.5, 1: 1.0}, inference=True
    )
    model.fit(X, y, groups=ids)
    fitted = seen[Gradient][0]
    assert fitted[y == 1].max() == 2 * fitted[y == 0].max()
    assert seen[RowSum][0][y == 0].max() == 1.0  # steps weigh no class
    for kind in (ScoreSum, CurvatureSum):
        assert all(np.array_equal(values, fitted) for values in seen[kind])


@pytest.mark.parametrize(("copy", "weighted"), [(True, False), (False, True), (True, True)])
def test_rows_with_weights_or_copies_are_never_sampled(copy, weighted, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.ones(200)
    weights = weights_of(np.full(200, 0.5), 100) if weighted else None
    prepared = transformed(X, y, copy=False, rate=0.5)
    assert prepared.size == 100
    assert 60 < prepared.sample.n_rows < 140  # 5.6 deviations
    monkeypatch.setattr(Rows, "sample", None)
    whole = transformed(X, y, copy=copy, weights=weights, rate=0.5)
    assert (whole.sample, whole.size) == (None, 200)


def test_a_sample_is_transformed_as_all_rows_are():
    """At a rate of almost 1 the sample has all rows, one of them far beyond the radius."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.where(rng.random(200) < 0.5, 1.0, -1.0)
    X[7] *= 1e4
    prepared = transformed(X, y, copy=False, rate=1 - 2.0**-50)
    problem = Problem(Logistic(), L2(), 1000, 3)
    seen, smaller = prepared.sampled_rows(problem)
    assert smaller.n_rows == prepared.size == 200
    ask = (np.array([0.5, -1.0, 0.25, 0.1]), Logistic(), 1e6)
    assert np.array_equal(gradient_sum(seen, *ask).values, gradient_sum(prepared.rows, *ask).values)
    far, few = prepared.inference_rows(lambda rows: rows)
    assert np.array_equal(score_sum(few, *ask).values, score_sum(far, *ask).values)
    assert not np.array_equal(score_sum(few, *ask).values, score_sum(seen, *ask).values)


def test_steps_cannot_take_all_of_the_budget():
    with pytest.raises(ValueError, match="leave a part"):
        pipeline.check_steps([Radius(0.5), Centre(0.5)], None)
    assert len(pipeline.check_steps([Radius(0.5), Centre(0.4999)], None)) == 2


@pytest.mark.parametrize("kind", [Gaussian, L2Norm])
def test_totals_of_classes_stay_between_their_bounds_whatever_the_noise(kind):
    """A weight of 1 over a total near 0, or below it, would be useless: √n is the least."""
    n, found = 400, []
    rows = as_rows(np.zeros((n, 1)), np.repeat([0.0, 2.0], n // 2))
    balance = Balance(0.1)
    for seed in range(30):
        budget = Budget(0.05, 1e-6 if kind is Gaussian else 0.0, "replace_one")
        session = Session(budget, bits=SeededBits(seed))
        division = divide(budget, [(balance.name, balance.share)], ["gdp"])
        session.account.reserve(division)
        mechanism = balance.mechanism(division.measure, division.total)
        assert isinstance(mechanism, kind)
        [stream] = session.streams(1)
        found.append(balance.measure(rows, 3, session, 0, mechanism, stream))
    found = np.array(found)
    assert found.min() == math.sqrt(n)
    assert found.max() == n
    assert found.shape == (30, 3)
