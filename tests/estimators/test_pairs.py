"""Fits with pairs of columns: budget, cells, models that find an interaction and that find none."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import discreet
from discreet import HuberRegressor, LinearRegression, LogisticRegression
from discreet.core import Budget, ExponentialMechanism, Relation
from discreet.errors import NotSupported
from discreet.estimators import pairs
from discreet.estimators.pair_columns import (
    Candidate,
    cell_columns,
    celled,
    number_edges,
)
from discreet.estimators.pair_terms import PairTerm, PairTerms
from discreet.estimators.pairs import Descent, rule
from discreet.objectives import Huber, Logistic, Poisson, Softmax, Squared
from discreet.objectives.offset import LARGEST_OFFSET, WithOffset, with_offsets
from discreet.preparation.pair_cells import CellColumn, cell_table, values_of
from discreet.solvers import GD
from discreet.tables import Categorical, Numeric, Schema

ROWS = 30_000
LARGE = {"epsilon": 8.0, "delta": 1e-9, "random_state": 0}
KIND = {"classes": [0, 1], "columns": dict.fromkeys(range(4), (0.0, 1.0)), "features": "pairs"}

pytestmark = pytest.mark.filterwarnings(
    "ignore::discreet.errors.PrivacyLeakWarning", "ignore:All coefficients are 0"
)


def crossed(rows=ROWS, seed=0):
    """Four columns; the second has an effect whose sign is that of the first."""
    rng = np.random.default_rng(seed)
    X = rng.random((rows, 4))
    score = 8 * np.sign(X[:, 0] - 0.5) * (X[:, 1] - 0.5) + X[:, 2]
    return X, score, rng


def table(rows=ROWS):
    """The same as a table with names, levels, a truth value and missing numbers."""
    X, score, rng = crossed(rows)
    side = np.where(X[:, 0] > 0.5, "right", "left")
    frame = pd.DataFrame({
        "side": pd.Categorical(side, categories=["left", "right", "up"]),
        "dose": 20 * X[:, 1],
        "smoker": rng.random(rows) < 0.3,
        "age": 18 + 70 * X[:, 2],
    })  # fmt: skip
    return frame, (rng.random(rows) < expit(score)).astype(int)


NAMED = {"dose": (0, 20), "age": (18, 90)}


@pytest.fixture(scope="module")
def fitted():
    frame, y = table()
    model = LogisticRegression(**LARGE, classes=[0, 1], columns=NAMED, features="pairs")
    return model.fit(frame, y), frame, y


# -- whole fits


def test_an_interaction_of_two_classes_is_found():
    X, score, rng = crossed()
    y = (rng.random(ROWS) < expit(score)).astype(int)
    model = LogisticRegression(**LARGE, **KIND).fit(X[:20_000], y[:20_000])
    plain = LogisticRegression(**LARGE, **{**KIND, "features": "auto"}).fit(X[:20_000], y[:20_000])
    assert model.pairs_.names[0] == "x0 × x1"
    # by chance alone the error of 10,000 predictions is 0.005: the gap is 20 of them and more
    assert model.score(X[20_000:], y[20_000:]) > plain.score(X[20_000:], y[20_000:]) + 0.1
    odds = model.decision_function(X[20_000:])
    assert np.corrcoef(odds, score[20_000:])[0, 1] > 0.85


@pytest.mark.parametrize("kind", [LinearRegression, HuberRegressor])
def test_an_interaction_of_a_regression_is_found_in_units_of_the_target(kind):
    X, score, rng = crossed()
    y = 100 + 10 * score + rng.normal(0, 5, ROWS)
    settings = {key: value for key, value in KIND.items() if key != "classes"}
    model = kind(**LARGE, **settings, target_bounds=(0, 200)).fit(X[:20_000], y[:20_000])
    assert model.pairs_.names[0] == "x0 × x1"
    rest = y[20_000:] - model.predict(X[20_000:])
    # without the pair the residuals have the standard deviation of the interaction, 24
    assert rest.std() < 14
    table = model.pairs_.terms[0].values
    assert table.max() > 15
    assert table.min() < -15


def in_classes(score, rng, count):
    """Labels 0 to count − 1: the score is that of class 1; the others are equally likely."""
    if count == 2:
        return (rng.random(len(score)) < expit(score)).astype(int)
    odds = np.column_stack([np.zeros_like(score), score, *[np.zeros_like(score)] * (count - 2)])
    return np.argmax(odds + rng.gumbel(size=odds.shape), axis=1)


def test_an_interaction_of_several_classes_is_found(tmp_path):
    X, score, rng = crossed()
    y = in_classes(score, rng, 3)
    settings = {**KIND, "classes": [0, 1, 2]}
    model = LogisticRegression(**LARGE, **settings).fit(X[:20_000], y[:20_000])
    plain = LogisticRegression(**LARGE, **{**settings, "features": "auto"}).fit(
        X[:20_000], y[:20_000]
    )
    assert model.pairs_.names[0] == "x0 × x1"
    # by chance alone the error of 10,000 predictions is 0.005: the gap is 20 of them
    assert model.score(X[20_000:], y[20_000:]) > plain.score(X[20_000:], y[20_000:]) + 0.1
    assert np.allclose(model.predict_proba(X[:9]).sum(axis=1), 1.0)
    table = model.pairs_.terms[0].values
    assert table.shape[0] == 3
    mean = table[[0, 2]].mean(axis=0)
    assert np.corrcoef(table[1].ravel(), mean.ravel())[0, 1] < -0.9
    found = model.explain(X[:50])
    assert np.allclose(found.scores, model.decision_function(X[:50]), atol=1e-9)
    drawn = model.plot_effects(columns=["x0 × x1"]).axes[0]
    assert drawn.get_title() == "x0 × x1 (class 1)"
    assert np.allclose(drawn.images[0].get_array(), table[1] - model.pairs_.means()[0, 1])
    discreet.save(model, tmp_path / "model.json")
    again = discreet.load(tmp_path / "model.json")
    assert (again.decision_function(X[:99]) == model.decision_function(X[:99])).all()


def test_an_interaction_of_counts_is_found(tmp_path):
    X, score, rng = crossed()
    y = rng.poisson(2 * np.exp(score / 3))
    settings = {key: value for key, value in KIND.items() if key != "classes"}
    settings |= {"target_bounds": (0, 20)}
    model = discreet.PoissonRegressor(**LARGE, **settings).fit(X[:20_000], y[:20_000])
    plain = discreet.PoissonRegressor(**LARGE, **{**settings, "features": "auto"})
    plain.fit(X[:20_000], y[:20_000])
    assert model.pairs_.names[0] == "x0 × x1"
    gained = model.score(X[20_000:], y[20_000:]) - plain.score(X[20_000:], y[20_000:])
    # D² of an exact model is 0.55; deviances of 10,000 counts scatter by 0.01 of it
    assert gained > 0.2
    term = model.pairs_.terms[0].values
    assert term[0, 0] > 0.7  # the exact numbers there are about 1.0 and −1.0
    assert term[0, -1] < -0.7
    discreet.save(model, tmp_path / "model.json")
    assert (discreet.load(tmp_path / "model.json").predict(X[:99]) == model.predict(X[:99])).all()


@pytest.mark.parametrize("target", ["classes", "numbers"])
def test_a_fit_without_an_interaction_keeps_no_pair_and_is_fitted_twice(target):
    X, _, rng = crossed()
    score = 3 * X[:, 0] - 2 * X[:, 1]
    if target == "classes":
        y = (rng.random(ROWS) < expit(score)).astype(int)
        model = LogisticRegression(**LARGE, **KIND).fit(X, y)
    else:
        y = score + rng.normal(0, 0.5, ROWS)
        settings = {key: value for key, value in KIND.items() if key != "classes"}
        model = LinearRegression(**LARGE, **settings, target_bounds=(-4, 5)).fit(X, y)
    assert model.pairs_.terms == ()
    assert "No pair was kept" in model.pairs_.search.reason
    assert any("fitted twice" in text for text in model.guarantee_.conditions)
    spent = dict(model.guarantee_.split)
    search = [share for name, share in spent.items() if "pairs" in name or "residuals" in name]
    assert sum(search) == pytest.approx(model.pairs_.search.share)
    assert 1 - sum(search) >= 0.94
    plain = {**KIND, "features": "auto"}
    if target == "classes":
        other = LogisticRegression(**LARGE, **plain).fit(X, y)
        gap = np.abs(model.decision_function(X) - other.decision_function(X)).mean()
        assert gap < 0.1


@pytest.mark.parametrize("relation", list(Relation))
def test_chance_alone_is_kept_in_few_fits(relation, monkeypatch):
    """Twelve fits to targets that no column explains; the rule allows about one of twenty.

    Seeds are fixed, so that it passes always or never. If one of a hundred fits kept pairs, which
    is what such fits show, three of twelve would have a probability of 2e-4.
    """
    monkeypatch.setattr(pairs.PairSide, "_pays", lambda *_: True)
    kept = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.random((6000, 4))
        y = rng.integers(0, 2, 6000)
        settings = {**LARGE, "random_state": seed, "relation": relation}
        model = LogisticRegression(**settings, **KIND).fit(X, y)
        kept += bool(model.pairs_.search.chosen) and not model.pairs_.search.reason
    assert kept <= 2


def test_below_the_least_signal_nothing_is_spent_on_pairs():
    X, _, rng = crossed(2000)
    model = LogisticRegression(1.0, 1e-6, **KIND).fit(X, rng.integers(0, 2, 2000))
    assert "single columns alone" in model.pairs_.search.reason
    assert model.pairs_.search.share == 0
    assert not any("pairs" in name for name, _ in model.guarantee_.split)
    assert not any("fitted twice" in text for text in model.guarantee_.conditions)


def test_the_parts_of_the_budget_add_up_and_an_accountant_confirms_them(fitted):
    model, _, _ = fitted
    guarantee = model.guarantee_
    split = dict(guarantee.split)
    assert sum(share for _, share in guarantee.split) == pytest.approx(1)
    assert split["choice of pairs"] == pytest.approx(pairs.CHOICE_SHARE)
    assert split["cells of pairs"] == pytest.approx(pairs.CELLS_SHARE)
    assert split["scores of pairs"] == pytest.approx(pairs.SCORES_SHARE)
    every = guarantee.mechanisms
    choices = sum(use.count for use in every if isinstance(use.mechanism, ExponentialMechanism))
    medians = sum(name in ("radius", "spread") for name, _ in guarantee.split)
    assert choices == len(model.pairs_.search.chosen) + medians
    total = sum(use.count * use.mechanism.loss.mu**2 for use in every)
    allowed = Budget(8.0, 1e-9, "add_remove").to_gdp().mu ** 2
    assert 0.999 * allowed < total <= allowed * (1 + 1e-12)
    assert guarantee.recompute() <= 8.0 * (1 + 1e-6)


def test_people_are_protected_with_all_of_their_rows():
    X, score, rng = crossed()
    y = (rng.random(ROWS) < expit(score)).astype(int)
    people = np.arange(ROWS) // 2
    model = LogisticRegression(**LARGE, **KIND).fit(X, y, groups=people)
    assert model.guarantee_.unit == "person"
    assert model.guarantee_.n_units == ROWS // 2
    assert model.pairs_.names[0] == "x0 × x1"


def test_answers_of_a_model_include_its_pairs(fitted):
    model, frame, _ = fitted
    assert "side × dose" in model.pairs_.names
    found = model.explain(frame[:200])
    assert np.allclose(found.scores[:, 0], model.decision_function(frame[:200]), atol=1e-9)
    assert found.columns[-len(model.pairs_.names) :] == model.pairs_.names
    at = found.columns.index("side × dose")
    right = (frame["side"][:200] == "right").to_numpy()
    rising = np.sign(frame["dose"][:200].to_numpy() - 10) * np.where(right, 1, -1)
    assert np.corrcoef(found.contributions[:, at, 0], rising)[0, 1] > 0.6
    assert found.cells(0)[at].startswith(("left", "right"))
    said = str(model.summary())
    assert "side × dose" in said
    assert "the search" in said
    assert "side × dose" in str(model.card())
    assert "cost 5.4 %" in model.pairs_.text()


def test_heat_maps_are_drawn_alone_or_with_the_columns(fitted):
    model, _, _ = fitted
    whole = model.plot_effects()
    drawn = [panel.get_title() for panel in whole.axes]
    assert set(model.pairs_.names) <= set(drawn)
    assert "age" in drawn
    alone = model.plot_effects(columns=["side × dose"])
    panels = [panel for panel in alone.axes if panel.get_title()]
    assert [panel.get_title() for panel in panels] == ["side × dose"]
    term = model.pairs_.terms[model.pairs_.names.index("side × dose")]
    assert panels[0].images[0].get_array().shape == term.values.shape
    assert "gray numbers" in alone.get_suptitle()
    assert "left out" not in alone.get_suptitle()
    some = model.plot_effects(columns=["age", "side × dose"])
    assert [panel.get_title() for panel in some.axes if panel.get_title()] == ["age", "side × dose"]
    with pytest.raises(ValueError, match="columns must name columns"):
        model.plot_effects(columns=["age × dose × side"])


def test_a_model_file_holds_the_pairs_bit_by_bit(fitted, tmp_path):
    model, frame, _ = fitted
    discreet.save(model, tmp_path / "model.json")
    again = discreet.load(tmp_path / "model.json")
    assert (again.decision_function(frame[:500]) == model.decision_function(frame[:500])).all()
    assert again.pairs_.search == model.pairs_.search
    assert again.pairs_.text() == model.pairs_.text()


def test_scores_of_single_rows_are_those_of_the_whole_table(fitted):
    model, frame, _ = fitted
    encoded = model.design_.encode(frame[:50])
    whole = model._margins(encoded, by_row=True)
    alone = np.vstack([model._margins(encoded[k : k + 1], by_row=True) for k in range(50)])
    assert (whole == alone).all()


def test_a_seed_repeats_the_fit():
    X, score, rng = crossed(8000)
    y = (rng.random(8000) < expit(score)).astype(int)
    first, second = (LogisticRegression(**LARGE, **KIND).fit(X, y) for _ in range(2))
    assert first.pairs_.plain() == second.pairs_.plain()
    assert (first.coef_ == second.coef_).all()


# -- refusals


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (LogisticRegression(1.0, 0.0, features="pairs", solver="objpert"), "delta > 0"),
        (LogisticRegression(1.0, 1e-6, features="pairs", inference=True), "inference=True"),
        (LogisticRegression(1.0, 1e-6, features="pairs", class_weight="balanced"), "class_weight"),
        (LogisticRegression(1.0, 1e-6, features="pairs", solver="agd"), "Gaussian DP"),
        (discreet.LinearSVC(1.0, 1e-6, features="pairs"), "not for LinearSVC"),
        (
            discreet.GammaRegressor(1.0, 1e-6, features="pairs", target_bounds=(1, 9)),
            "not for GammaRegressor",
        ),
        (discreet.OrdinalClassifier(1.0, 1e-6, features="pairs"), "not for OrdinalClassifier"),
        (discreet.QuantileRegressor(1.0, 1e-6, features="pairs"), "not for QuantileRegressor"),
    ],
)
def test_what_is_not_supported_is_refused_before_any_data_is_read(model, match):
    with pytest.raises(NotSupported, match=match):
        model.check_settings()


class OneByOne(GD):
    """A solver that fits one model for each class."""

    takes_outputs = False


def test_a_model_per_class_undeclared_columns_and_unknown_levels_are_refused():
    X, _, rng = crossed(500)
    with pytest.raises(NotSupported, match="one model of all classes"):
        LogisticRegression(**LARGE, **{**KIND, "classes": [0, 1, 2]}, solver=OneByOne()).fit(
            X, rng.integers(0, 3, 500)
        )
    with pytest.raises(ValueError, match="two or more columns"):
        LogisticRegression(**LARGE, features="pairs", classes=[0, 1]).fit(
            X, rng.integers(0, 2, 500)
        )
    frame, y = table(500)
    frame["side"] = frame["side"].astype(str)
    columns = {**NAMED, "side": discreet.discover()}
    with pytest.raises(NotSupported, match=r"side declares discover\(\)"):
        LogisticRegression(**LARGE, features="pairs", classes=[0, 1], columns=columns).fit(frame, y)


@pytest.mark.parametrize("kind", ["classes", "several classes", "numbers", "counts"])
def test_a_fit_on_workers_is_that_of_the_same_rows_in_memory(kind):
    dask_array = pytest.importorskip("dask.array")
    X, score, rng = crossed(9000)
    settings = {key: value for key, value in KIND.items() if key != "classes"}
    if kind == "numbers":
        y = score + rng.normal(0, 0.5, 9000)
        make = lambda: LinearRegression(**LARGE, **settings, target_bounds=(-6, 7))  # noqa: E731
    elif kind == "counts":
        y = rng.poisson(np.exp(score / 4))
        make = lambda: discreet.PoissonRegressor(  # noqa: E731
            **LARGE, **settings, target_bounds=(0, 8)
        )
    else:
        labels = [0, 1] if kind == "classes" else [0, 1, 2]
        y = in_classes(score, rng, len(labels))
        make = lambda: LogisticRegression(**LARGE, **{**settings, "classes": labels})  # noqa: E731
    here = make().fit(X, y)
    there = make().fit(dask_array.from_array(X, chunks=2000), dask_array.from_array(y, chunks=2000))
    assert here.pairs_.names == there.pairs_.names
    assert "x0 × x1" in here.pairs_.names
    for one, two in zip(here.pairs_.terms, there.pairs_.terms, strict=True):
        assert np.allclose(one.values, two.values, atol=1e-6)
    assert here.pairs_.search == there.pairs_.search


# -- the rule


def test_the_rule_sees_public_numbers_alone():
    columns = [Candidate(f"x{k}", k, bounds=(0.0, 1.0)) for k in range(5)]
    budget = Budget(1.0, 1e-9, "add_remove")
    mu = budget.to_gdp().mu
    for loss, least in ((Logistic(), 4000.0), (Squared(None), 2000.0)):
        small = rule(columns, math.floor(least / mu) - 1, loss, budget)
        assert (small.parts, small.models) == ((), 1)
        assert rule(columns, math.ceil(least / mu) + 1, loss, budget).models == 2

    def sizes(signal, loss):
        found = rule(columns * 4, math.ceil(signal / mu) + 1, loss, budget)
        return found.count, found.bins

    assert sizes(4_000, Logistic()) == (6, 4)
    assert sizes(12_000, Logistic()) == (15, 6)
    assert sizes(1e6, Logistic()) == (15, 10)
    assert sizes(12_000, Poisson()) == (15, 6)
    assert sizes(12_000, Softmax(16)) == (15, 4)
    assert sizes(2_000, Squared(None)) == (6, 6)
    assert sizes(8_500, Huber(1.0)) == (6, 10)
    assert len(rule(columns * 4, 10**6, Squared(None), budget).parts) == 4
    assert not rule(columns * 4, 10**6, Poisson(), budget).parts[3].selects
    assert rule(columns[:2], 10**6, Huber(1.0), budget).count == 1
    twice = Budget(1.0, 1e-9, "replace_one")
    assert rule(columns, 10**5, Logistic(), twice).signal == pytest.approx(1e5 * mu / 2)
    assert len(rule(columns * 100, 10**6, Logistic(), budget).columns) == pairs.MOST_COLUMNS
    for loss in (Logistic(), Squared(None)):
        assert rule(columns, 10**6, loss, budget).share <= 0.06


# -- cells


def columns():
    schema = Schema({
        "ward": Categorical(["A", "B", "C"]),
        "age": Numeric(0, 100, missing=True),
    })  # fmt: skip
    return schema


def test_values_depend_on_the_own_row_alone():
    levels = CellColumn("ward", 0, 3, np.empty(0))
    number = CellColumn("age", 3, 0, np.array([0.25, 0.5]), mark=4)
    X = np.array([
        [1, 0, 0, 0.1, 0],
        [0, 0, 1, 0.25, 0],
        [0, 0, 0, 0.9, 0],
        [0, 1, 0, 0.0, 1],
        [0, 1, 0, np.nan, 0],
    ])  # fmt: skip
    values = values_of([levels, number], X)
    assert values.tolist() == [[0, 0], [2, 1], [3, 2], [1, 3], [1, 3]]
    assert (levels.count, number.count) == (4, 4)
    order = [3, 1, 4, 0, 2]
    assert (values_of([levels, number], X[order]) == values[order]).all()


def test_cells_are_quantiles_of_numbers_and_frequent_levels():
    [number] = cell_columns([Candidate("x", 0, bounds=(0.0, 1.0))], None)
    skewed = np.random.default_rng(0).random(100_000) ** 8
    counts = np.bincount(
        values_of([number], skewed[:, None])[:, 0].astype(int), minlength=number.count
    )
    found = celled(number, (), counts.astype(float), 1.0, 4)
    assert len(found.labels) == 4
    assert np.allclose(found.shares, 0.25, atol=0.06)
    assert found.labels[0].startswith("≤")
    missing = counts.astype(float)
    missing[-1] = 30_000
    assert celled(number, (), missing, 1.0, 4).labels[-1] == "(missing)"
    names = [f"l{k}" for k in range(20)]
    levels = CellColumn("x", 0, 20, np.empty(0))
    many = np.array([1000.0] * 3 + [20.0] * 17 + [0.0])
    found = celled(levels, names, many, 1.0, 4)
    assert found.labels == ("l0", "l1", "l2", "(rest)")
    assert found.cells.tolist() == [0, 1, 2] + [3] * 18
    yes = celled(CellColumn("b", 0, 0, np.array([0.5])), ("no", "yes"), many[[0, 1, 20]], 1.0, 4)
    assert yes.labels == ("no", "yes")


def test_edges_are_inside_the_bounds_and_fine_at_their_ends():
    edges = number_edges(-1.0, 7.0)
    assert (np.diff(edges) > 0).all()
    assert edges[0] > -1.0
    assert edges[-1] < 7.0
    assert edges[0] == pytest.approx(-1.0 + 8 * 2.0**-16)
    assert np.abs(edges[edges != 0]).min() == pytest.approx(8 * 2.0**-16)


def test_the_cells_of_pairs_are_one_entry_each():
    values = np.array([[0, 1], [2, 0], [1, 1]], dtype=np.float32)
    cells = [np.array([0, 1, 1]), np.array([0, 1])]
    made = cell_table(values, cells, [(0, 1), (1, 0)])
    assert made.toarray().tolist() == [
        [0, 1, 0, 0, 0, 0, 1, 0],
        [0, 0, 1, 0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 1],
    ]
    columns = (CellColumn("a", 0, 0, np.array([0.5, 1.5])), CellColumn("b", 1, 0, np.array([0.5])))
    tables = np.array([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    own = (np.append(cells[0], 0), np.append(cells[1], 0))
    places = ((0, 1), (1, 0))
    for several in (False, True):
        numbers = tables[:, None] * [[[1.0]], [[-2.0]]] if several else tables
        terms = [PairTerm(*p, t, t, 1.0) for p, t in zip(places, numbers, strict=True)]
        found = PairTerms(columns, own, terms=tuple(terms)).scores(values)
        weights = np.concatenate([table.reshape(-1, 4) for table in numbers], axis=1)
        assert found.tolist() == (made @ weights.T).tolist()


# -- losses with offsets, and the descent


def test_a_loss_with_offsets_is_the_loss_at_shifted_margins():
    rng = np.random.default_rng(0)
    margins, offsets = rng.normal(0, 3, (2, 100))
    y = rng.choice([-1.0, 1.0], 100)
    loss = WithOffset(Logistic())
    coded = with_offsets(y, offsets)
    assert coded.shape == (100, 2)
    for name in ("value", "derivative", "second_derivative"):
        own = getattr(loss, name)(margins, coded)
        assert np.allclose(own, getattr(Logistic(), name)(margins + offsets, y), atol=1e-12)
    assert np.abs(loss.derivative(margins, coded)).max() <= loss.slope_bound == 1.0
    assert loss.curvature_bound == 0.25
    extreme = with_offsets(np.array([1.0, -1.0]), np.array([np.inf, np.nan]))
    assert extreme.tolist() == [[1.0, LARGEST_OFFSET], [-1.0, 0.0]]


def test_a_loss_with_offsets_of_several_outputs_and_targets_of_another_shape():
    rng = np.random.default_rng(0)
    margins, offsets = rng.normal(0, 2, (2, 50, 3))
    y = rng.integers(0, 3, 50).astype(float)
    own = WithOffset(Softmax(3)).derivative(margins, with_offsets(y, offsets))
    assert np.allclose(own, Softmax(3).derivative(margins + offsets, y), atol=1e-12)
    # a target of another row would be taken for an offset
    for targets in (y, y[:2], with_offsets(y, offsets[:, 0]), with_offsets(y[:1], offsets[:1])):
        with pytest.raises(ValueError, match="with_offsets"):
            WithOffset(Softmax(3)).derivative(margins, targets)
    for count in (1, 2, 50):
        with pytest.raises(ValueError, match="with_offsets"):
            WithOffset(Logistic()).derivative(margins[:count, 0], y[:count])
        with pytest.raises(ValueError, match="one target"):
            Logistic().derivative(margins[:count, 0], with_offsets(y, offsets[:, 0])[:count])


def test_the_response_of_the_descent_is_that_of_its_recurrence():
    descent = Descent(step=0.5, iterations=40)
    rng = np.random.default_rng(0)
    curvature = 0.3
    ends = []
    for _ in range(4000):
        weight = velocity = total = 0.0
        for t in range(40):
            velocity = pairs.MOMENTUM * velocity + curvature * weight - 1.0 + rng.normal()
            weight -= 0.5 * (1 - pairs.MOMENTUM) * velocity
            total += weight if t >= 20 else 0.0
        ends.append(total / 20)
    gain, variance = descent.response(np.array([curvature]))
    # 4,000 draws: the mean is within 6 of its errors, the variance within 15 %, but for 1e-8
    assert np.mean(ends) * curvature == pytest.approx(
        gain[0], abs=6 * curvature * np.std(ends) / 63
    )
    assert np.var(ends) == pytest.approx(variance[0], rel=0.15)


def test_plain_data_of_pairs_is_checked(fitted):
    model, _, _ = fitted
    width = model.design_.width
    plain = model.pairs_.plain()
    assert PairTerms.from_plain(plain, width).plain() == plain
    bad = [
        {},
        {**plain, "columns": [{**plain["columns"][0], "cells": [0]}]},
        {**plain, "columns": [{**each, "first": width} for each in plain["columns"]]},
        {**plain, "terms": [{**plain["terms"][0], "first": 99}]},
        {**plain, "terms": [{**plain["terms"][0], "values": [[math.nan]]}]},
        {**plain, "terms": [{**plain["terms"][0], "kept": 2.0}]},
        {**plain, "search": {**plain["search"], "unknown": 1}},
    ]
    for each in bad:
        with pytest.raises(ValueError, match=r"."):
            PairTerms.from_plain(each, width)


def test_a_search_is_a_record_of_numbers(fitted):
    search = fitted[0].pairs_.search
    assert len(search.chosen) == len(search.scores) == len(search.chance)
    assert sum(search.scores) > search.threshold > sum(search.chance)
    assert dataclasses.asdict(search)["pairs"] == 6
