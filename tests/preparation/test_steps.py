"""Single steps of a preparation: what they leave of a table, of a row, and as plain data."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.preparation import (
    FITTED_STEPS,
    Bounds,
    Centre,
    Radius,
    RowNorms,
    Scale,
    Spread,
    Whiten,
    from_dict,
    to_dict,
)
from discreet.preparation.pipeline import model_norm
from discreet.preparation.steps import column_weights, plausible, shrunk, whitening
from discreet.solvers.gd import GD

from .prepared import FULL, RAW, TWICE, N, Y, applied, model

pytestmark = pytest.mark.filterwarnings("ignore::discreet.PrivacyLeakWarning")


class Answers:
    """A curator with fixed answers, and no rows that a step could read."""

    n_rows = 10
    row_norm = 6.0

    def ask(self, question, mechanism):
        return getattr(self, type(question).__name__)(question)

    def MedianNorm(self, question):
        return 2.0

    def ColumnBounds(self, question):
        return -1.0, 3.0

    def RowSum(self, question):
        return SimpleNamespace(values=np.array([30.0, -40.0]), deviation=1.0)

    def SquareSum(self, question):
        return SimpleNamespace(values=np.array([30.0, 40.0]), deviation=question.share)

    def OuterSum(self, question):
        return SimpleNamespace(matrix=lambda: np.diag([30.0, 40.0]), deviation=1.0)


def test_steps_use_the_answers_of_the_curator_only():
    norms = RowNorms(6.0, 6.0, 6.0, raw=True)
    fitted = {
        step.name: step.fit(Answers(), None, norms)
        for step in (Bounds([1]), Radius(), Spread(), Centre(shrink=False), Scale(), Whiten())
    }
    assert fitted["bounds"][0].low.tolist() == [-1.0]
    assert fitted["radius"][0].radius == pytest.approx(2.2)
    assert fitted["spread"][0].norm == pytest.approx(3.0)
    assert fitted["centre"][0].mean.tolist() == [3.0, -4.0]
    assert fitted["centre"][0].deviation == 0.1
    likely = plausible(np.array([3.0, 4.0]), 0.1, norms)
    weights = column_weights(likely, 0.05, 10 / 3)
    assert np.array_equal(fitted["scale"][0].weights, weights)
    matrix, _ = whitening(np.diag([3.0, 4.0]), 0.1, norms)
    assert np.array_equal(fitted["whiten"][0].matrix, matrix)
    left = {name: (known.clip, known.raw) for name, (_, known) in fitted.items()}
    assert left["bounds"] == (6.0, True)
    assert left["radius"] == (1.0, False)
    assert left["spread"] == (3.0, True)
    assert left["centre"] == (pytest.approx(math.sqrt(36 - 25)), False)
    assert left["scale"] == (pytest.approx(4.0), False)
    assert left["whiten"] == (pytest.approx(7.2), False)


def test_scales_are_shrunk_as_far_as_noise_explains_them():
    norms = RowNorms(6.0, 6.0, 6.0, median=2.0)
    step = Scale(squares=0.5, shrink=True)
    fitted, known = step.fit(Answers(), None, norms)
    assert fitted.deviation == 0.05
    noise = 0.05**2 / 0.5  # the squares of ±0.5 around the mean 3.5 add up to 0.5
    likely = 3.5 + (1 - noise**2) * np.array([-0.5, 0.5])
    expected = 3.5 + (1 - noise) * np.array([-0.5, 0.5])
    ratio = math.sqrt((likely[1] + 0.025) / (likely[0] + 0.025))
    assert fitted.weights[0] / fitted.weights[1] == pytest.approx(ratio)
    # rows of norm 2, whose squares differ as expected, get the norm 10/3
    after = np.sum(expected / 7.0 * 4.0 * fitted.weights**2)
    assert after == pytest.approx((10 / 3) ** 2)
    assert known.median == pytest.approx(10 / 3)
    unknown, _ = step.fit(Answers(), None, replace(norms, median=0.0))
    assert np.sum(expected * unknown.weights**2) == pytest.approx((10 / 3) ** 2)


def test_scales_that_noise_explains_are_equal():
    class Noisy(Answers):
        def SquareSum(self, question):
            return SimpleNamespace(values=np.array([30.0, 40.0]), deviation=7.1)

    norms = RowNorms(6.0, 6.0, 6.0, median=2.0)
    fitted, _ = Scale(shrink=True).fit(Noisy(), None, norms)
    assert fitted.weights == pytest.approx(np.full(2, 10 / 3 / 2))


def test_steps_tell_the_usual_norm():
    """2 is the median norm that was chosen."""
    _, known = Radius(factor=1.6).fit(Answers(), None, None)
    assert known.median == pytest.approx(1 / 1.6)
    _, known = Radius(factor=1.6).fit(Answers(), None, RowNorms(2.5, 2.5, 2.5, raw=True))
    assert known.median == pytest.approx(2 / 2.5)
    norms = RowNorms(9.0, 9.0, 9.0, median=6.0)
    _, known = Centre(shrink=False).fit(Answers(), None, norms)
    assert known.median == pytest.approx(math.sqrt(36 - 25))
    _, known = Centre(shrink=False).fit(Answers(), None, replace(norms, median=4.0))
    assert known.median == pytest.approx(math.sqrt(0.05 * 16))
    assert Spread().fit(Answers(), None, norms)[1].median == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("norms", "clip"),
    [
        (RowNorms(6.0, 6.0, 6.0, raw=True), 3.0),  # 1.5 times the median
        (RowNorms(1.0, 1.0, 1.0, raw=True), 1.0),  # rows are at most as long as that
        (RowNorms(1.0, 1.0, 1.0), 2.0),  # or twice, if a mean was subtracted
        (RowNorms(1e9, 1e9, 1e9), 1e3),  # shorter rows could overflow when they are scaled
    ],
)
def test_a_spread_is_kept_within_public_limits(norms, clip):
    assert Spread().fit(Answers(), None, norms)[1].clip == pytest.approx(clip)


def test_a_released_mean_is_noisy():
    """Σ((noisy − exact)/deviation)² of 400 coordinates is χ² with 400 degrees of freedom.

    It lies between 230 and 620 but for one run in 10⁸; it is 0 for an exact mean.
    """
    X = np.full((50, 400), 0.01)
    (step,) = model(preparation=[Centre(0.2, shrink=False)]).fit(X, Y[:50]).preparation_
    assert 230 < np.sum(((step.mean - X.mean(axis=0)) / step.deviation) ** 2) < 620


def test_bounds_leave_a_sparse_table_sparse():
    table = sp.random_array((5000, 300), density=0.01, format="csr", rng=np.random.default_rng(1))
    fitted = model(preparation=[Bounds([0, 7])], epsilon=5.0).fit(table, np.resize(Y, 5000))
    moved = fitted.preparation_[0].apply(table)
    assert sp.issparse(moved)
    assert moved.shape == table.shape
    dense = fitted.preparation_[0].apply(table.toarray())
    assert np.array_equal(moved.toarray(), dense)


def test_whitening_makes_second_moments_alike():
    mixed = np.random.default_rng(2).normal(size=(20_000, 3)) @ np.array(
        [[1.0, 0, 0], [0.9, 0.3, 0], [0, 0.2, 0.1]]
    )
    mixed /= 4.0
    fitted = model(preparation=[Whiten(0.5)], epsilon=20.0, data_norm=2.0)
    fitted.fit(mixed, np.resize(Y, 20_000))
    (step,) = fitted.preparation_
    moved = applied(step, mixed)
    moments = moved.T @ moved / len(moved)
    assert np.trace(moments) == pytest.approx(2.0**2, rel=0.1)
    before, after = np.linalg.cond(mixed.T @ mixed), np.linalg.cond(moments)
    assert after < 2 < 50 < before


@pytest.mark.parametrize("deviation", [1e-9, 0.1, 1e3, 1e30])
def test_a_second_moment_that_is_all_noise_turns_nothing(deviation):
    matrix, _ = whitening(-np.eye(3), deviation, RowNorms(1.0, 1.0, 1.0))
    assert matrix == pytest.approx(matrix[0, 0] * np.eye(3))
    likely = plausible(-np.ones(3), deviation, RowNorms(1.0, 1.0, 1.0))
    weights = column_weights(likely, 0.5 * deviation, 1.0)
    assert weights == pytest.approx(weights[0])
    least = math.sqrt(min(0.05, deviation * math.sqrt(3)))  # what rows are taken to have
    assert (matrix[0, 0], weights[0]) == pytest.approx((1 / least, 1 / least))


def test_noisy_moments_are_moved_to_the_nearest_that_rows_can_have():
    known = RowNorms(3.0, 2.0, 1.0)
    for seed in range(20):
        noisy = np.random.default_rng(seed).normal(size=6)
        likely = plausible(noisy, 1.0, known)
        total = np.clip(noisy.sum(), 0.05 * 4, 4)
        assert likely.min() >= 0
        assert likely.sum() == pytest.approx(total)
        inside = likely > 0  # where it is not 0, it is the noisy one moved by the same number
        by = (noisy - likely)[inside]
        assert np.ptp(by) <= 1e-12
        assert (noisy[~inside] <= by[0]).all()
    assert plausible(np.array([0.01, 0.02]), 1e-6, known) == pytest.approx([0.01, 0.02])
    assert plausible(np.array([1e30, -1e30]), 1e30, known).sum() > 0


def test_shrinking_leaves_what_stands_out_of_the_noise():
    mean = np.array([3.0, 4.0])
    assert shrunk(mean, 0.5) == pytest.approx(mean * (1 - 2 * 0.25 / 25))
    assert np.array_equal(shrunk(mean, 4.0), [0.0, 0.0])
    assert np.array_equal(shrunk(np.zeros(2), 1.0), [0.0, 0.0])
    # mean of unit rows under noise of deviation 1 in 400 columns: shrunk it is nearer to the truth
    truth = np.zeros(400)
    truth[0] = 1.0
    noisy = truth + np.random.default_rng(0).normal(size=400)
    assert np.linalg.norm(shrunk(noisy, 1.0) - truth) < 0.5 * np.linalg.norm(noisy - truth)


def test_centring_subtracts_the_mean_up_to_its_noise():
    far = 0.2 * np.random.default_rng(3).normal(size=(N, 3)) + [5.0, 5.0, 0.0]
    (step,) = model(preparation=[Centre(0.2)], data_norm=8.0).fit(far, Y).preparation_
    # seven deviations of the noise a coordinate: a false alarm in less than 1e-10 of runs
    assert np.abs(step.mean - far.mean(axis=0)).max() <= 7 * step.deviation
    assert step.deviation < 0.2
    assert np.abs(applied(step, far).mean(axis=0)).max() <= 7 * step.deviation


def test_radius_and_scale_leave_a_sparse_table_sparse():
    table = sp.random_array((5000, 300), density=0.01, format="csr", rng=np.random.default_rng(1))
    for steps, bound in (([Radius(0.1), Scale(0.1)], None), ([Scale(0.1)], 1.5)):
        fit = model(preparation=steps, epsilon=5.0, data_norm=bound)
        moved, dense = table, table.toarray()
        for step in fit.fit(table, np.resize(Y, 5000)).preparation_:
            moved, dense = applied(step, moved), applied(step, dense)
        assert sp.issparse(moved)
        assert moved.nnz == table.nnz
        assert np.allclose(moved.toarray(), dense, rtol=1e-12, atol=0.0)


def test_a_radius_is_no_larger_than_a_given_bound():
    (step,) = model(preparation=[Radius(0.1)], data_norm=10.0).fit(RAW, Y).preparation_
    assert step.radius == pytest.approx(10.0, rel=0.05)  # the rows are about five times as long
    assert step.radius <= 10.0


def test_scaling_alone_clips_raw_rows_and_brings_them_to_the_norm():
    fit = model(preparation=[Scale(0.3, norm=2.0)], epsilon=10.0, data_norm=70.0).fit(RAW, Y)
    (step,) = fit.preparation_
    assert step.clips
    assert step.row_norm == 70.0
    clipped = RAW * np.minimum(1.0, 70.0 / np.linalg.norm(RAW, axis=1))[:, None]
    assert applied(step, RAW) == pytest.approx(clipped * step.weights, rel=1e-12)
    assert np.mean(np.sum(applied(step, RAW) ** 2, axis=1)) == pytest.approx(4.0, rel=0.1)


def test_a_moved_row_is_a_function_of_that_row():
    rough = np.random.default_rng(5).normal(size=(999, 37)).astype(np.float32) * 3
    fitted = model(preparation=FULL, data_norm=None).fit(rough, np.resize(Y, 999))
    order = np.random.default_rng(6).permutation(999)
    for table in (rough, sp.csr_array(rough)):
        whole, turned, alone = table, table[order], table[500:501]
        for step in fitted.preparation_:
            whole, turned, alone = applied(step, whole), applied(step, turned), applied(step, alone)
        assert np.array_equal(whole[order], turned)
        assert np.array_equal(whole[500:501], alone)


@pytest.mark.parametrize("bound", [None, 1e6, 200.0, 50.0, 3.0])
def test_a_bound_moves_the_radius_and_not_the_norm_that_moments_clip_to(bound):
    """Moments clip rows of median norm 2 to 20, or to the bound if that is less."""
    norms = None if bound is None else RowNorms(*3 * (bound,), raw=True)
    curator = SimpleNamespace(ask=lambda question, mechanism: 2.0)
    fitted, after = Radius(factor=50.0, moment_clip=0.2).fit(curator, None, norms)
    assert fitted.radius == min(100.0, bound or 1e9)
    assert after.clip * fitted.radius == pytest.approx(min(20.0, bound or 1e9))
    assert after.median * fitted.radius == pytest.approx(2.0)


def test_the_next_moment_may_clip_rows_nearer_than_the_radius():
    """The mean of one long row among equal ones is off by what the moment leaves of it."""
    X = np.ones((1000, 4))
    X[0] = 200.0
    labels = np.where(np.arange(1000) % 2, "yes", "no")
    settings = {"data_norm": None, "epsilon": 1e5}
    for nearer in (1.0, 0.1):
        steps = [Radius(0.1, factor=100.0, moment_clip=nearer), Centre(0.1, shrink=False)]
        radius, centre = model(preparation=steps, **settings).fit(X, labels).preparation_
        assert radius.radius == pytest.approx(200.0, rel=0.05)  # times the median norm, 2
        assert centre.row_norm == nearer
        mean = (
            (999 * 2 / radius.radius + nearer) / 1000 / 2
        )  # of norm 1, or nearer, along (1, 1, …)
        np.testing.assert_allclose(centre.mean, mean, rtol=0.01)


def test_the_norm_for_a_model_is_public():
    for steps, bound, want in (
        ([], 5.0, 5.0),
        ([Bounds([0]), Centre(), Whiten()], 5.0, 5.0),
        ([Radius(), Centre()], None, 1.0),
        ([Radius(), Centre()], 5.0, 1.0),
        (FULL, 5.0, 4.0),
        ([Scale(norm=2.0), Whiten()], 5.0, 2.4),
    ):
        assert model_norm(steps, bound) == pytest.approx(want)
    assert model_norm([Bounds([0])], None) is None


def test_fitted_steps_are_plain_data_and_back():
    fitted = model().fit(RAW, Y)
    for step in fitted.preparation_:
        again = from_dict(json.loads(json.dumps(to_dict(step))), FITTED_STEPS)
        assert type(again) is type(step)
        assert np.array_equal(applied(again, RAW), applied(step, RAW))
    good = to_dict(fitted.preparation_[1])
    scale = {"step": "scale", "weights": [1.0], "deviation": 1.0, "row_norm": 1.0, "clips": True}
    assert from_dict(scale, FITTED_STEPS).accepts(1)
    for step in model(preparation=(*TWICE, Whiten()), data_norm=None).fit(RAW, Y).preparation_:
        again = from_dict(json.loads(json.dumps(to_dict(step))), FITTED_STEPS)
        assert np.array_equal(applied(again, RAW), applied(step, RAW))
        assert again.accepts(4)
        assert again.accepts(5) == (step.name in ("radius", "spread"))
        assert again.condition == step.condition
    for bad in (
        {**good, "step": "centred"},
        {**good, "more": 1},
        {**good, "mean": [math.nan] * 4},
        {**good, "row_norm": -1.0},
        {**good, "clips": 1},
        {**scale, "weights": [0.0]},
        {**scale, "weights": [math.inf]},
        {**scale, "clips": None},
        {"step": "radius", "radius": 0.0},
        {"step": "radius", "radius": 1e22},
        {"step": "radius", "radius": math.nan},
        {"step": "bounds", "columns": [0], "low": [1.0], "high": [1.0]},
        {"step": "bounds", "columns": [-1], "low": [0.0], "high": [1.0]},
        {"step": "whiten", "matrix": [[1.0]], "ridge": 1.0, "deviation": 1.0},
    ):
        with pytest.raises(ValueError, match=r"."):
            from_dict(bad, FITTED_STEPS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bounds([]),
        lambda: Bounds([1, 1]),
        lambda: Bounds([-1]),
        lambda: Bounds([0.5]),
        lambda: Bounds(3),
        lambda: Bounds([0], coverage=1.0),
        lambda: Centre(0.0),
        lambda: Whiten(1.0),
        lambda: Centre(math.nan),
        lambda: Centre(shrink=1),
        lambda: Radius(0.0),
        lambda: Radius(factor=0.0),
        lambda: Radius(factor=math.inf),
        lambda: Radius(moment_clip=0.0),
        lambda: Radius(moment_clip=1.1),
        lambda: Scale(share=2.0),
        lambda: Scale(norm=0.0),
    ],
)
def test_bad_steps_are_refused_when_they_are_made(make):
    with pytest.raises(ValueError, match="must"):
        make()


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_a_second_look_at_shorter_rows_is_more_precise(monkeypatch, layout):
    X = layout(RAW + np.array([0.0, 0.0, 5000.0, 0.0]))
    first, spread, second = model("gd", TWICE, data_norm=None).fit(X, Y).preparation_[1:4]
    assert spread.norm < 0.05  # of rows that had length 1 before their mean was subtracted
    assert second.row_norm == spread.norm
    assert second.deviation == pytest.approx(first.deviation * spread.norm, rel=1e-4)
    for moved in (True, False):
        monkeypatch.setattr(GD, "takes_transformed_rows", moved)
        fitted = model("gd", TWICE, data_norm=None).fit(X, Y)
        assert fitted.score(X, Y) > 0.8


def test_measuring_first_leaves_the_table_alone_and_sets_the_norm_that_is_clipped_to(monkeypatch):
    steps, X = (Spread(), Centre(), Scale()), RAW.copy()
    for solver, moved in (("agd", False), ("gd", True), ("gd", False)):
        monkeypatch.setattr(GD, "takes_transformed_rows", moved)
        fitted = model(solver, steps, data_norm=60.0).fit(X, Y)
        assert np.array_equal(X, RAW)
        length = fitted.preparation_[1].row_norm
        assert fitted.preparation_[1].clips
        assert length == min(fitted.preparation_[0].norm, 60.0)
        step, long = fitted.preparation_[1], 1e3 * RAW[:5]
        same = long * (length / np.linalg.norm(long, axis=1, keepdims=True))
        assert np.allclose(applied(step, long), applied(step, same))
