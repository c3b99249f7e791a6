"""Windows of columns: counts between edges, what follows from them, and rows in windows."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from discreet import LinearRegression, LogisticRegression
from discreet.accounting.planning import divide
from discreet.core import Account, Budget, Curator, Gaussian
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import EdgeCounts, ExponentCounts, Gradient, NoisySum, TargetSum
from discreet.errors import AveragedCellsWarning
from discreet.objectives import Logistic
from discreet.preparation import FittedWindows, Windows, from_dict, to_dict
from discreet.preparation.steps import FITTED_STEPS, STEPS
from discreet.preparation.windows import (
    PARTS,
    REACH,
    Numbers,
    exponent_edges,
    measured_windows,
    narrowed_windows,
)
from discreet.rows import Units, as_rows

rng = np.random.default_rng(0)


def counted(X, columns, edges, **settings):
    rows = as_rows(X, np.zeros(X.shape[0]), fit_intercept=False, **settings)
    return EdgeCounts(tuple(columns), np.asarray(edges, dtype=float)).on(rows).values


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_counts_between_edges(kind):
    X = kind(np.array([[5.0, -1.0], [5.0, 0.0], [5.0, 0.5], [5.0, 1.0], [5.0, 2.0], [5.0, 9.0]]))
    found = counted(X, [1], [[0.0, 0.5, 1.0, 2.0]])
    assert found.tolist() == [2.0, 1.0, 3.0, 0.0]  # 0.5 and 1 are in the cell that they begin
    both = counted(X, [1, 0], [[0.0, 1.0, 2.0], [4.0, 5.0, 6.0]])
    assert both.tolist() == [3.0, 3.0, 0.0, 0.0, 6.0, 0.0]


def test_a_person_counts_once_in_each_column_that_is_missing_or_not():
    X = np.array([[0.5, 3.0]] * 5 + [[1.5, 3.0]])
    gaps = np.where(np.arange(6)[:, None] < 4, np.nan, X)
    units = Units.of([1] * 5 + [2], 6)
    found = counted(X, [0, 1], [[0.0, 1.0, 2.0], [0.0, 1.0, 4.0]], weights=units.weights())
    assert found == pytest.approx([1.0, 1.0, 0.0, 0.0, 2.0, 0.0])
    found = counted(gaps, [0], [[0.0, 1.0, 2.0]], weights=units.weights(), gaps=True)
    assert found == pytest.approx([0.2, 1.0, 0.8], abs=1e-8)


def noisy(X, edges, deviation):
    values = counted(X, range(X.shape[1]), edges)
    values = values + rng.normal(0, deviation, values.size)
    return NoisySum(values, deviation, Gaussian(1.0))


def test_windows_of_columns_of_any_unit():
    """Widest at noise of a thousandth of the rows: numbers of all sizes and signs have theirs."""
    n = 20_000
    columns = [
        rng.normal(size=n),
        1e6 * rng.random(n),
        -1e-4 * rng.random(n),
        2015 + rng.integers(0, 5, n),
        np.where(rng.random(n) < 0.9, 0.0, rng.lognormal(8, 1, n)),
    ]
    X = np.column_stack(columns)
    edges = np.tile(exponent_edges(), (5, 1))
    low, high = measured_windows(noisy(X, edges, n / 1000), np.zeros(5), n)
    for j in range(5):
        inside = (low[j] <= X[:, j]) & (X[:, j] <= high[j])
        assert inside.mean() > 0.99, j
    assert high[0] <= 8
    assert low[0] >= -8
    assert 2.0**20 <= high[1] <= 2.0**21
    assert low[1] == 0.0
    assert low[2] >= -(2.0**-12)
    assert high[2] == 0.0
    assert (low[3], high[3]) == (0.0, 2048.0)


def test_windows_are_right_at_the_noise_of_the_default():
    """Noise of a 24th of the rows: 300 windows of normal numbers end at 2 to 8."""
    n = 4000
    X = rng.normal(size=(n, 6))
    edges = np.tile(exponent_edges(), (6, 1))
    for _ in range(50):
        low, high = measured_windows(noisy(X, edges, n / 24), np.zeros(6), n)
        largest = np.maximum(-low, high)
        assert largest.min() >= 2.0
        assert largest.max() <= 8.0


def test_a_window_is_narrowed_to_where_the_rows_are_and_not_where_noise_hides_them():
    n = 10_000
    X = np.column_stack([2015 + 3 * rng.random(n), rng.random(n) * 2048])
    parts = np.tile(np.linspace(0.0, 2048.0, PARTS + 1), (2, 1))
    low, high = narrowed_windows(noisy(X, parts, n / 1000), parts, np.zeros(2), n)
    assert (low[0], high[0]) == (1984.0, 2048.0)
    assert high[1] - low[1] >= 0.95 * 2048
    low, high = narrowed_windows(noisy(X, parts, n / 1000), parts, np.full(2, 100.0), n)
    assert high[0] - low[0] == 100.0
    low, high = narrowed_windows(noisy(X, parts, n / 10), parts, np.zeros(2), n)
    assert (low == 0).all()
    assert (high == 2048).all()


def test_numbers_in_windows():
    windows = FittedWindows((1,), np.array([10.0]), np.array([30.0]), 1.0)
    X = np.array([[7.0, 10.0], [7.0, 20.0], [7.0, 35.0], [7.0, 1e9], [7.0, -np.inf]])
    expected = [-1.0, 0.0, 1.5, REACH, -REACH]
    assert windows.apply(X)[:, 1].tolist() == expected
    assert (windows.apply(X)[:, 0] == 7).all()
    sparse = windows.apply(sp.csr_array(X))
    assert sparse.toarray()[:, 1].tolist() == expected


def test_windows_of_whole_numbers_end_at_a_whole_number():
    n = 10_000
    X = np.column_stack([rng.integers(0, 2, n), -rng.integers(0, 8, n)]).astype(float)
    edges = np.tile(exponent_edges(), (2, 1))
    low, high = measured_windows(noisy(X, edges, n / 1000), np.ones(2), n)
    assert (low.tolist(), high.tolist()) == ([0.0, -7.0], [1.0, 0.0])


def test_sparse_rows_that_store_zeros_have_the_same_windows():
    windows = FittedWindows((0, 2), np.array([0.0, 10.0]), np.array([4.0, 30.0]), 1.0)
    X = np.array([[0.0, 1.0, 20.0], [3.0, 0.0, 0.0], [9.0, 1.0, 10.0]])
    stored = sp.csr_array((X.ravel(), np.tile(np.arange(3), 3), np.arange(0, 10, 3)), (3, 3))
    found = windows.apply(stored)
    assert found.nnz == 9
    np.testing.assert_array_equal(found.toarray(), windows.apply(X))
    np.testing.assert_array_equal(windows.apply(sp.csr_array(X)).toarray(), windows.apply(X))
    np.testing.assert_array_equal(stored.toarray(), X)


def test_a_table_of_the_fit_itself_is_overwritten_and_no_other():
    windows = FittedWindows((0, 2), np.array([0.0, 10.0]), np.array([4.0, 30.0]), 1.0)
    X = np.array([[0.0, 1.0, 20.0], [3.0, 0.0, 0.0], [9.0, 1.0, np.nan]])
    stored = sp.csr_array((X.flatten(), np.tile(np.arange(3), 3), np.arange(0, 10, 3)), (3, 3))
    expected = windows.apply(X)
    assert X[0].tolist() == [0.0, 1.0, 20.0]
    locked = X.copy()
    locked.flags.writeable = False
    np.testing.assert_array_equal(windows.apply(locked, overwrite=True), expected)
    own = X.copy()
    assert windows.apply(own, overwrite=True) is own
    np.testing.assert_array_equal(own, expected)
    made = windows.apply(stored, overwrite=True)
    assert np.shares_memory(made.data, stored.data)
    np.testing.assert_array_equal(made.toarray(), expected)
    stored = sp.csr_array((X.flatten(), np.tile(np.arange(3), 3), np.arange(0, 10, 3)), (3, 3))
    shorter = sp.csr_array(
        (np.delete(stored.data, 4), np.delete(stored.indices, 4), [0, 3, 5, 8]), (3, 3)
    )  # the second row has no entry of the column between
    made = windows.apply(shorter, overwrite=True)
    assert np.shares_memory(made.data, shorter.data)
    np.testing.assert_array_equal(made.toarray(), expected)


def test_rare_whole_numbers_have_a_window_of_one_step():
    """One row of 200 is 1, which noise hides: no window is narrower, and 54 of 60 are one step."""
    n = 10_000
    X = (rng.random((n, 3)) < 0.005).astype(float)
    edges = np.tile(exponent_edges(), (3, 1))
    widths = []
    for _ in range(20):
        low, high = measured_windows(noisy(X, edges, n / 24), np.ones(3), n)
        widths += (high - low).tolist()
    assert min(widths) == 1.0
    assert np.sum(np.array(widths) == 1.0) >= 54


def test_steps_as_plain_data():
    known = Numbers((False, True), (1.0, 0.0))
    step = Windows([0, 2], known, others=3, share=0.02)
    again = from_dict(to_dict(step), STEPS)
    assert again == step
    fitted = FittedWindows((1,), np.array([10.0]), np.array([30.0]), 1.0)
    back = from_dict(to_dict(fitted), FITTED_STEPS)
    assert back.limits == (-REACH, REACH)
    assert back.origin.tolist() == [20.0]
    with pytest.raises(ValueError, match="one entry for each"):
        Windows([0, 1], Numbers((False,), (0.0,)))


def table(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "year": 2000 + rng.integers(0, 20, n),
            "income": rng.lognormal(10, 1, n),
            "ward": pd.Categorical(rng.choice(["A", "B", "C"], n)),
        }
    )
    score = (frame["year"] - 2010) / 5 + np.where(frame["ward"] == "A", 1.5, -0.5)
    return frame, (score + rng.logistic(size=n) > 0).to_numpy()


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_fit_counts_numbers_only_and_stays_within_its_budget(relation):
    X, y = table()
    model = LogisticRegression(1.0, 1e-6, relation=relation, random_state=0).fit(X, y)
    windows = model.preparation_[0]
    assert isinstance(windows, FittedWindows)
    assert windows.columns == (0, 1)
    assert [step.name for step in model.preparation_[1:]] == ["centre", "scale", "whiten"]
    uses = model.guarantee_.mechanisms
    spent = sum(use.count * use.mechanism.loss.mu**2 for use in uses)
    assert spent <= Budget(1.0, 1e-6, relation).to_gdp().mu ** 2 * (1 + 1e-9)
    assert model.score(X, y) > 0.7


def test_windows_of_declared_columns_are_within_their_bounds():
    X, y = table()
    columns = {"year": (2003, 2030, "linear"), "income": (0, 1e7, "linear")}
    model = LogisticRegression(1.0, 1e-6, random_state=0, columns=columns).fit(X, y)
    assert model.preparation_[0].low.min() >= 0.0
    assert model.preparation_[0].high.max() <= 1.0


def test_columns_with_curves_are_left_to_their_splines():
    X, y = table()
    model = LogisticRegression(3.0, 1e-6, random_state=0, columns={"year": (2000, 2020)}).fit(X, y)
    assert model.features_.expansion.columns == (0,)
    assert model.preparation_[0].columns == (1,)
    assert model.score(X, y) > 0.7


def test_declared_in_own_units_is_scaled_by_hand():
    X, y = table()
    columns = {"year": (1990, 2030, "linear"), "income": (0, 1e7, "linear")}
    own = LogisticRegression(1.0, 1e-6, random_state=0, columns=columns).fit(X, y)
    scaled = X.assign(year=(X["year"] - 1990) / 40, income=X["income"] / 1e7)
    unit = {"year": (0, 1, "linear"), "income": (0, 1, "linear")}
    hand = LogisticRegression(1.0, 1e-6, random_state=0, columns=unit).fit(scaled, y)
    difference = own.predict_proba(X) - hand.predict_proba(scaled)
    assert np.abs(difference).max() < 1e-9


def test_a_column_in_any_unit_gives_the_same_predictions():
    """Powers of two are exact: all windows are then the same, up to the unit."""
    X, y = table()
    first = LogisticRegression(1.0, 1e-6, random_state=0).fit(X, y)
    other = X.assign(income=X["income"] * 2.0**-9)
    second = LogisticRegression(1.0, 1e-6, random_state=0).fit(other, y)
    difference = first.predict_proba(X) - second.predict_proba(other)
    assert np.abs(difference).max() < 0.02


def test_regression_in_windows():
    X, _ = table()
    target = 0.3 * (X["year"] - 2010) / 10 + 0.2 * (X["ward"] == "A")
    model = LinearRegression(3.0, 1e-6, target_bounds=(-1, 1), random_state=0).fit(X, target)
    assert model.score(X, target) > 0.9
    assert math.isfinite(model.predict(X.assign(income=1e300)).max())


def with_gaps(frame, seed=1):
    rng = np.random.default_rng(seed)
    missing = rng.random(len(frame)) < 0.2
    return frame.assign(income=frame["income"].where(~missing), year=frame["year"].astype(float))


@pytest.mark.parametrize("columns", [None, {"income": (0, 1e7, "linear")}])
def test_missing_numbers_are_scored_as_the_average(columns):
    X, y = table()
    X = with_gaps(X)
    settings = {"epsilon": 3.0, "delta": 1e-6, "random_state": 0, "columns": columns}
    model = LogisticRegression(**settings).fit(X, y)
    row = X.dropna().head(1)
    grid = pd.concat([row.assign(income=value) for value in np.geomspace(1e2, 1e6, 200)])
    scores = model.decision_function(grid)
    with pytest.warns(AveragedCellsWarning, match=r"income \(1\)"):
        score = model.decision_function(row.assign(income=np.nan))[0]
    assert scores.min() <= score <= scores.max()
    typical = model.decision_function(row.assign(income=X["income"].mean()))[0]
    assert abs(score - typical) <= 0.5 * np.ptp(scores)


def test_a_gap_in_one_column_leaves_the_others_as_they_were():
    X, y = table()
    full = LogisticRegression(3.0, 1e-6, random_state=0).fit(X, y)
    gaps = LogisticRegression(3.0, 1e-6, random_state=0).fit(with_gaps(X), y)
    effect = [m.summary().to_frame()["coef"]["year"] for m in (full, gaps)]
    assert effect[1] == pytest.approx(effect[0], rel=0.2)


def test_rows_with_gaps_answer_counts_of_their_columns_alone():
    """Nothing is charged for another question: one missing entry would be seen in any sum."""
    X = np.array([[np.nan, 1.0], [0.5, 1.0]])
    rows = as_rows(X, np.zeros(2), fit_intercept=False, gaps=True)
    account = Account(Budget(1.0, 1e-6, "add_remove"))
    account.reserve(divide(account.budget, [("all", 0.5)], ("gdp",)))
    curator = Curator(rows, account, Noise(SeededBits(0)))
    curator.open_reserved(0)
    gradient = Gradient(Logistic(), np.zeros(2), 1.0)
    for question in (ExponentCounts(2), gradient, TargetSum(1.0)):
        with pytest.raises(ValueError, match="needs rows without missing entries"):
            curator.ask(question, Gaussian(50.0))
    with pytest.raises(ValueError, match="needs rows without missing entries"):
        curator.columns(np.array([1]))
    assert curator.spent_share == 0
    counts = EdgeCounts((0,), np.array([[0.0, 1.0, 2.0]]))
    assert counts.on(rows).values.tolist() == [1.0, 0.0, 1.0]
    curator.ask(counts, Gaussian(50.0))
    assert curator.spent_share > 0
    for settings in ({"fit_intercept": True}, {"fit_intercept": False, "row_norm": 1.0}):
        with pytest.raises(ValueError, match="neither a norm nor an intercept"):
            as_rows(X, np.zeros(2), gaps=True, **settings)
    with pytest.raises(ValueError, match="X must be finite"):
        as_rows(X, np.zeros(2), fit_intercept=False)


def test_weights_of_missing_entries_add_up_exactly():
    """Beyond 2^53, where doubles would round: 2^24 rows of the weight 1 − 2^-30."""
    n = 2**24
    rows = as_rows(
        np.full((n, 1), np.nan, dtype=np.float32),
        np.zeros(n),
        fit_intercept=False,
        gaps=True,
        weights=np.full(n, 1 - 2.0**-30),
        public_size=n,
    )
    missing = EdgeCounts((0,), np.array([[0.0, 1.0]])).on(rows).values[-1]
    assert missing == n * (2**30 - 1) / 2**30


def test_missing_numbers_of_curves_are_in_the_middle_of_their_bounds():
    X, y = table()
    X = with_gaps(X)
    X.loc[::7, "year"] = np.nan
    columns = {"year": (2000, 2020)}
    model = LogisticRegression(3.0, 1e-6, random_state=0, columns=columns).fit(X, y)
    assert model.features_.expansion.columns == (0,)
    assert model.preparation_[0].columns == (1,)
    with pytest.warns(AveragedCellsWarning, match=r"year \(572\)"):
        assert model.score(X, y) > 0.65


@pytest.mark.parametrize(("measure", "unit"), [("gdp", "mu"), ("zcdp", "rho"), ("pure", "epsilon")])
def test_both_counts_together_cost_what_the_step_is_given(measure, unit):
    total = Fraction(1, 10)
    loss = Windows([0], Numbers((False,), (0.0,))).mechanism(measure, total).loss
    each = Fraction(getattr(loss, unit)) ** (2 if measure == "gdp" else 1)
    assert total * (1 - Fraction(1, 2**20)) <= 2 * each <= total
