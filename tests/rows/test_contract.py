"""The privacy contract of the sums: docs/proofs/summation.md, line by line."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from discreet.core import Gaussian, Relation
from discreet.core.questions import Gradient, Public
from discreet.objectives import Hinge, Huber, HuberHinge, Logistic, Squared
from discreet.objectives.formulas import slopes
from discreet.rows import as_rows, bounds
from discreet.rows.loss_kernels import clip_slopes
from discreet.rows.sums import gradient_sum, line_losses

STEPS = np.linspace(0, 2, 21)
ALL = [Logistic(), Hinge(), HuberHinge(), Huber(2.0), Squared()]
CONVERTED = [np.asarray, np.asfortranarray, sp.csr_array]
EXTREME = [0.0, -0.0, 1.0, -1.0, 1e150, -1e150, 1e300, 1.7e308, -1.7e308, 5e-324, 1e-310, 1e-160]
entries = st.one_of(st.sampled_from(EXTREME), st.floats(-10, 10), st.floats(-1e308, 1e308))


@st.composite
def tables(draw):
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    X = draw(arrays(np.float64, (n, d), elements=entries))
    y = draw(arrays(np.float64, (n,), elements=st.sampled_from([-1.0, 1.0])))
    if draw(st.booleans()):
        y = draw(arrays(np.float64, (n,), elements=entries))
    settings_ = {"fit_intercept": draw(st.booleans())}
    settings_["row_norm"] = draw(st.sampled_from([None, 1e-100, 1e-9, 0.5, 1.0, 1e100]))
    p = d + settings_["fit_intercept"]
    weights = draw(arrays(np.float64, (p,), elements=entries))
    direction = draw(arrays(np.float64, (p,), elements=entries))
    clip = draw(st.sampled_from([1e-100, 1e-5, 0.3, 3.0, 500.0, 1e100]))
    return X, y, settings_, weights, direction, clip


def coefficients(rows, weights, loss, clip):
    """Return each row's factors (u_i of x_i, t_i of the constant)."""
    code, parameter = loss.code, loss.parameter
    t = np.empty(rows.n_rows)
    slopes((parameter,) * code, rows.margins(weights), rows.targets, t)
    u = t.copy()
    clip_slopes(rows.norm_bounds, np.empty(0), rows.weights, clip, t)
    clip_slopes(rows.norm_bounds, rows.scales, rows.weights, clip, u)
    return u, t


UNIT = 1200
"""Exact numbers are whole multiples of 2^-UNIT: far faster than fractions."""


def exact(values):
    parts = (math.frexp(float(v)) for v in values)
    return [int(m * 2.0**53) << (e - 53 + UNIT) for m, e in parts]


def assert_within(X, u, t, clip, weight=1.0):
    """Check ‖(u_i·x_i, t_i)‖ ≤ weight·clip in exact arithmetic, for every row."""
    largest = math.prod(exact([clip, weight]))
    for x, u_i, t_i in zip(X, exact(u), exact(t), strict=True):
        square = u_i**2 * sum(v**2 for v in exact(x))
        assert square + (t_i**2 << 2 * UNIT) <= largest**2


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables(), convert=st.sampled_from(CONVERTED), loss=st.sampled_from(ALL))
def test_every_row_is_within_the_clip_exactly(convert, loss, table):
    X, y, options, weights, _, clip = table
    rows = as_rows(convert(X), y, **options)
    u, t = coefficients(rows, weights, loss, clip)
    assert np.isfinite(u).all()
    assert np.isfinite(t).all()
    assert_within(X, u, t if options["fit_intercept"] else 0 * t, clip)
    for weight in (2.0**-30, 0.333251953125, 1.0):
        weighted = {"weights": np.full(len(X), weight), "public_size": len(X), **options}
        u, t = coefficients(as_rows(convert(X), y, **weighted), weights, loss, clip)
        assert_within(X, u, t if options["fit_intercept"] else 0 * t, clip, weight)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    table=tables(),
    convert=st.sampled_from(CONVERTED),
    loss=st.sampled_from(ALL),
    data=st.data(),
)
def test_one_row_fewer(convert, loss, table, data):
    X, y, options, weights, direction, clip = table
    gone = data.draw(st.integers(0, len(X) - 1))
    kept = np.delete(np.arange(len(X)), gone)
    full = as_rows(convert(X), y, **options)
    part = as_rows(convert(X[kept]), y[kept], **options)
    sums = [gradient_sum(rows, weights, loss, clip) for rows in (full, part)]
    change = np.linalg.norm((sums[0].values - sums[1].values) / clip)
    assert change <= 1 + 2 * sums[0].error / clip + 1e-14
    lines = [line_losses(rows, weights, direction, STEPS, loss, clip) for rows in (full, part)]
    change = lines[0].values - lines[1].values
    assert np.all(change >= -2 * lines[0].error)
    assert np.all(change <= clip + 2 * lines[0].error)
    assert np.all(lines[0].values >= 0)


@pytest.mark.parametrize(
    ("layout", "scaled"),
    [
        ("C", None),
        ("C", 0.7),
        ("F", 0.7),
        ("float32", None),
        ("strided", 0.7),
        ("csr-int32", None),
        ("csr-int32", 0.7),
        ("csr-float32", None),
    ],
)
def test_error_bounds_the_gradients_rounding(layout, scaled, to_layout):
    generator = np.random.default_rng(11)
    sizes = generator.choice([1e-3, 1, 1e3], (4500, 1))
    X = to_layout(layout, generator.standard_normal((4500, 3)) * sizes)
    y = generator.choice([-1.0, 1.0], 4500)
    rows = as_rows(X, y, row_norm=scaled)
    weights, clip = generator.standard_normal(4), 2.0
    got = gradient_sum(rows, weights, Logistic(), clip)
    u, t = coefficients(rows, weights, Logistic(), clip)
    table = X.toarray() if sp.issparse(X) else X
    assert_within(table, u, t, clip)
    u, t = exact(u), exact(t)
    columns = [exact(column) for column in table.T]
    true = [sum(a * b for a, b in zip(u, column, strict=True)) for column in columns]
    true.append(sum(t) << UNIT)
    square = sum(((a << UNIT) - b) ** 2 for a, b in zip(exact(got.values), true, strict=True))
    miss = math.sqrt(Fraction(square, 1 << 4 * UNIT))
    assert 0 < miss <= got.error <= 1e-8


@pytest.mark.parametrize(
    ("loss", "clip"), [*((loss, 3.0) for loss in ALL), (Logistic(), 0.05), (Logistic(), 40.0)]
)
def test_error_bounds_the_lines_rounding(loss, clip):
    """A table's sums against the exact sum of the same sums over tables of one row each."""
    generator = np.random.default_rng(12)
    X, y = generator.standard_normal((1000, 3)), generator.choice([-1.0, 1.0], 1000)
    X[::50] *= 1e4  # rows that leave the fast path
    weights, direction = generator.standard_normal((2, 4))
    got = line_losses(as_rows(X, y), weights, direction, STEPS, loss, clip)
    each = [
        line_losses(as_rows(x[None], t[None]), weights, direction, STEPS, loss, clip).values
        for x, t in zip(X, y, strict=True)
    ]
    true = [math.fsum(column) for column in np.array(each).T]
    miss = np.abs(got.values - true).max()
    assert miss <= got.error <= 1e-7
    assert np.all(np.array(each) <= clip * (1 + 1e-15))


def test_error_is_public():
    generator = np.random.default_rng(13)
    y = np.ones(500)
    weights, direction = generator.standard_normal((2, 4))
    errors = set()
    for X in (np.zeros((500, 3)), generator.standard_normal((500, 3)), np.full((500, 3), 1e200)):
        rows = as_rows(X, y)
        errors.add(
            (
                gradient_sum(rows, weights, Logistic(), 1.0).error,
                line_losses(rows, weights, direction, STEPS, Logistic(), 1.0).error,
            )
        )
        drawn = rows.sample(0.1, generator)
        assert gradient_sum(drawn, weights, Logistic(), 1.0).error == min(errors)[0]
    assert len(errors) == 1


def test_a_row_counts_the_same_wherever_it_stands(make_layout):
    """Norms, margins, slopes and losses of a row have the same bits in every table."""
    generator = np.random.default_rng(14)
    X = generator.standard_normal((1400, 105))
    y = generator.choice([-1.0, 1.0], 1400)
    weights, direction = generator.standard_normal((2, 106))
    numbers = []
    for index in (np.arange(1400), np.arange(1, 1400), np.arange(1399, 700, -3), [5]):
        rows = as_rows(make_layout(X[index]), y[index], row_norm=9.0)
        line_losses(rows, weights, direction, STEPS, Logistic(), 3.0)
        u, t = coefficients(rows, weights - STEPS[3] * direction, Logistic(), 0.5)
        numbers.append(np.array([rows.norm_bounds, rows.margins(weights), u, t]))
        np.testing.assert_array_equal(numbers[-1], numbers[0][:, index])


def test_rows_on_a_kink_do_not_move_together():
    """Equal rows with margins at the hinge's kink all fall on the same side of it."""
    generator = np.random.default_rng(15)
    x = generator.standard_normal(37)
    weights = x / (x @ x)
    for n in range(1, 40):
        rows = as_rows(np.tile(x, (n, 1)), np.ones(n), fit_intercept=False)
        t = coefficients(rows, weights, Hinge(), 100.0)[1]
        assert len(set(t)) == 1


def test_sample_inclusion():
    """Inclusion of single rows, of pairs and in total, over 2,000 samples at rate 0.3.

    A row's count is binomial with standard deviation 20.5; 130 is 6.3 of them: below 400 · 4e-10
    for all rows. A pair's count has standard deviation 12.8; 84 is 6.5 of them: below 400 · 1e-9
    (the binomial's upper tail is a few times the normal's here). The total is within 5.5 standard
    deviations but for 4e-8. The false-alarm probability is at most 1e-6 in all; the seed is fixed.
    """
    X = np.arange(400.0)[:, None]
    rows = as_rows(X, np.ones(400), fit_intercept=False)
    generator = np.random.default_rng(16)
    counts, together, repeats, rate = np.zeros(400), np.zeros(400), 2000, 0.3
    for _ in range(repeats):
        drawn = np.zeros(400)
        drawn[rows.sample(rate, generator).table.array[:, 0].astype(int)] = 1
        counts += drawn
        together += drawn * np.roll(drawn, 1)
    assert np.abs(counts - repeats * rate).max() <= 130
    assert abs(counts.sum() - 400 * repeats * rate) <= 5.5 * math.sqrt(400 * repeats * 0.21)
    assert np.abs(together - repeats * rate**2).max() <= 84


def test_sample_is_the_rows_it_drew(make_layout, small_table):
    X, y = make_layout(small_table[0]), small_table[1]
    rows = as_rows(X, y, row_norm=1.0)
    weights = np.linspace(-1, 1, 12)
    direction = weights[::-1].copy()
    rows.margins(weights)
    drawn = rows.sample(0.3, np.random.default_rng(17))
    index = np.flatnonzero(np.random.default_rng(17).random(len(y)) < 0.3)
    fresh = as_rows(X[index].copy(), y[index], row_norm=1.0)
    assert drawn.n_rows == index.size < rows.n_rows
    np.testing.assert_allclose(drawn.margins(weights), fresh.margins(weights), rtol=1e-13)
    for loss in ALL:
        np.testing.assert_allclose(
            gradient_sum(drawn, weights, loss, 0.5).values,
            gradient_sum(fresh, weights, loss, 0.5).values,
            rtol=1e-12,
        )
        np.testing.assert_allclose(
            line_losses(drawn, weights, direction, STEPS, loss, 0.5).values,
            line_losses(fresh, weights, direction, STEPS, loss, 0.5).values,
            rtol=1e-12,
        )
    assert rows.n_rows == len(y)


@pytest.mark.parametrize("convert", [np.asarray, np.asfortranarray, sp.csr_array])
def test_empty_and_full_samples(convert, small_table):
    rows = as_rows(convert(small_table[0]), small_table[1])
    weights = np.ones(12)
    generator = np.random.default_rng(18)
    nobody, everybody = rows.sample(0.0, generator), rows.sample(1.0, generator)
    assert (nobody.n_rows, everybody.n_rows) == (0, rows.n_rows)
    for loss in ALL:
        np.testing.assert_array_equal(gradient_sum(nobody, weights, loss, 1.0).values, np.zeros(12))
        line = line_losses(nobody, weights, weights, STEPS, loss, 1.0).values
        np.testing.assert_array_equal(line, np.zeros(21))
    assert nobody.margins(weights).shape == (0,)
    np.testing.assert_array_equal(everybody.margins(weights), rows.margins(weights))
    for rate in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"rate must be .*probability"):
            rows.sample(rate, generator)


@pytest.mark.parametrize("size", [1.7e308, 1.3e305, 3.3e300, 1e290])
@pytest.mark.parametrize("row_norm", [1e-15, 1e-12, 1e-9, 1e-5, 0.7])
def test_scales_among_the_smallest_numbers(size, row_norm):
    """A scale that is a subnormal number is not accurate: it may not lift a row above the clip."""
    for factor in np.linspace(0.5, 1.0, 40):
        X = np.array([[size * factor, 1.0]])
        for fit_intercept in (True, False):
            rows = as_rows(X, [5e200], fit_intercept=fit_intercept, row_norm=row_norm)
            weights = np.zeros(2 + fit_intercept)
            u, t = coefficients(rows, weights, Squared(), 1e100)
            assert_within(X, u, t if fit_intercept else 0 * t, 1e100)


@pytest.mark.parametrize("clip", [*bounds.CLIP_RANGE, 0.5e-100, 2e100, 0.0, math.inf, math.nan])
def test_questions_refuse_exactly_the_clips_that_rows_refuse(clip):
    """Otherwise a clip could be charged for and then refused."""
    rows = as_rows(np.ones((3, 2)), np.ones(3))
    public = Public(Relation.ADD_REMOVE, 3, 2, 3, None)
    if clip in bounds.CLIP_RANGE:
        question = Gradient(Logistic(), np.zeros(3), clip)
        question.check(public, Gaussian(1.0))
        rows.answer([question])
        return
    with pytest.raises(ValueError, match="clip must be"):
        Gradient(Logistic(), np.zeros(3), clip)
    with pytest.raises(ValueError, match="clip must be"):
        gradient_sum(rows, np.zeros(3), Logistic(), clip)
