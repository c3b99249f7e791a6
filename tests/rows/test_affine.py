"""Moved rows answer as a table that was moved and written down would, and keep the contract."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.errors import NotSupported
from discreet.objectives import HuberHinge, Logistic, Softmax, Squared
from discreet.rows import AffineMap, as_rows
from discreet.rows.bounds import UNIT_ROUNDOFF, gamma
from discreet.rows.moments import column_counts, outer_sum, row_sum, square_sum
from discreet.rows.sums import candidate_losses, corner_gradient, gradient_sum, line_losses
from discreet.rows.table import KERNELS

N, D = 3000, 6
RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((N, D)) * (RNG.random((N, D)) < 0.5) * 3.0
TARGETS = np.where(RNG.random(N) < 0.4, 1.0, -1.0)
MEAN = 0.3 * RNG.standard_normal(D)
WEIGHTS = np.array([0.5, 2.0, 1.0, 7.0, 0.01, 1.0])
MATRIX = RNG.standard_normal((D, D))

LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "csr": sp.csr_array,
    "csr32": lambda X: sp.csr_array(X.astype(np.float32)),
}
START = AffineMap.to_norm(2.0, D).then(0.5)
MOVES = {
    "scaled": START.then(1.0, MEAN).then(WEIGHTS),
    "turned": START.then(1.0, MEAN).then(WEIGHTS).then(MATRIX),
    "shifted last": START.then(MATRIX).then(WEIGHTS).then(1.0, MEAN),
}
UNITS = np.exp2([3, -2, 0, 1, -40, 5])
IN_UNITS = replace(AffineMap.in_units(UNITS), row_norm=9.0)
MOVES |= {
    "in units": IN_UNITS.then(0.1).then(1.0, MEAN),
    "in units, turned": IN_UNITS.then(0.1).then(1.0, MEAN).then(MATRIX),
}


def written(X, move):
    """The moved rows as a table."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    norms = np.linalg.norm(X * move.units, axis=1)
    X = X * (move.row_norm / np.maximum(norms, move.row_norm))[:, None]
    moved = X * move.linear if move.linear.ndim == 1 else X @ move.linear.T
    return moved - move.offset


def start_rows(X, y, move):
    rows = as_rows(X, y, fit_intercept=False)
    rows = rows.with_units(move.units) if move.units.ndim else rows
    return rows.with_row_norm(move.row_norm)


def moved_rows(X, y, move, **settings):
    return start_rows(X, y, move).transformed(move, **settings)


@pytest.fixture(params=LAYOUTS)
def table(request):
    return LAYOUTS[request.param](TABLE)


@pytest.fixture(params=MOVES)
def move(request):
    return MOVES[request.param]


def test_steps_of_a_move_are_done_one_after_the_other():
    X = TABLE[:50] * (2.0 / np.maximum(np.linalg.norm(TABLE[:50], axis=1), 2.0))[:, None]
    expected = ((X * 0.5 - MEAN) * WEIGHTS) @ MATRIX.T
    assert np.allclose(written(TABLE[:50], MOVES["turned"]), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("layout", "loss", "intercept"),
    [(layout, Logistic(), layout != "F") for layout in LAYOUTS]
    + [("C", HuberHinge(), False), ("csr", Squared(), True), ("csr", Logistic(), False)]
    + [("C", Softmax(3), True), ("csr", Softmax(3), False)],
)
def test_gradients_are_those_of_the_written_table(layout, loss, intercept, move):
    table = LAYOUTS[layout](TABLE)
    y = np.arange(N) % 3.0 if loss.n_outputs > 1 else TARGETS
    rows = moved_rows(table, y, move, fit_intercept=intercept)
    plain = as_rows(written(table, move), y, fit_intercept=intercept)
    plain = replace(plain, norm_bounds=np.maximum(plain.norm_bounds, 1.0))  # at least 1
    weights = np.random.default_rng(1).standard_normal(loss.n_outputs * rows.n_parameters)
    for at in (weights, -2 * weights):
        found, expected = gradient_sum(rows, at, loss, 0.7), gradient_sum(plain, at, loss, 0.7)
        assert np.allclose(found.values, expected.values, rtol=1e-6, atol=1e-5)
        assert 0 < found.error < 1e-6


def test_moments_are_those_of_the_written_table(table, move):
    rows = moved_rows(table, np.zeros(N), move, fit_intercept=False, row_norm=1.5)
    plain = as_rows(written(table, move), np.zeros(N), fit_intercept=False, row_norm=1.5)
    for kernel in (row_sum, square_sum, outer_sum):
        found, expected = kernel(rows), kernel(plain)
        assert np.allclose(found.values, expected.values, rtol=1e-6, atol=1e-5)
        assert expected.error <= found.error * 1.1 < 1e-6
    short = [square_sum(each, 0.3).values for each in (rows, plain)]
    assert np.allclose(*short, rtol=1e-6, atol=1e-5)
    assert short[0].sum() < 0.99 * square_sum(rows).values.sum()


def exact_length(x, move, scale):
    """The squared length of a moved row, for the scale that was used, in rational numbers."""
    x = [Fraction(float(v)) * Fraction(float(scale)) for v in x]
    linear = [[Fraction(float(v)) for v in row] for row in np.atleast_2d(move.linear)]
    if move.linear.ndim == 1:
        turned = [a * v for a, v in zip(linear[0], x, strict=True)]
    else:
        turned = [sum(a * v for a, v in zip(row, x, strict=True)) for row in linear]
    return sum((v - Fraction(float(b))) ** 2 for v, b in zip(turned, move.offset, strict=True))


def hard_rows(move):
    """Rows that are moved to almost 0, huge, tiny, empty and ordinary ones."""
    inverse = (
        move.offset / move.linear
        if move.linear.ndim == 1
        else np.linalg.solve(move.linear, move.offset)
    )
    rows = [np.zeros(D), inverse, inverse * (1 + 1e-15), inverse + 1e-12, np.full(D, 1e-320)]
    rows += [np.full(D, 1e300), np.eye(D)[0] * 1e307, np.eye(D)[1] * 1e-200, TABLE[0], TABLE[1]]
    return np.array(rows)


FAR = AffineMap.to_norm(2.0, D).then(0.5).then(1.0, 100.0 * np.eye(D)[0])


@pytest.mark.parametrize("name", [*MOVES, "far", "far, turned"])
def test_the_bound_of_a_map_covers_its_offset(name):
    """No row that was moved is longer, even one that lies opposite to the offset."""
    move = (MOVES | {"far": FAR, "far, turned": FAR.then(MATRIX)})[name]
    matrix = np.diag(move.linear) if move.is_diagonal else move.linear
    largest = np.linalg.svd(matrix / move.units)[2][0]
    towards = -(matrix / move.units).T @ move.offset
    ends = np.array([largest, -largest, towards / np.linalg.norm(towards)])
    lengths = np.linalg.norm(written(move.row_norm * ends / move.units, move), axis=1)
    assert (lengths >= np.linalg.norm(move.offset)).any()
    assert lengths.max() <= move.bound


@pytest.mark.parametrize("layout", ["C", "csr"])
def test_lengths_are_upper_bounds(move, layout):
    X = hard_rows(move)
    rows = moved_rows(LAYOUTS[layout](X), np.zeros(len(X)), move, fit_intercept=False)
    for x, scale, length in zip(X, rows.scales, rows.bounds(), strict=True):
        assert Fraction(float(length)) ** 2 >= exact_length(x, move, scale)
        assert length <= 2.01 * move.bound + 1
    ordinary = np.linalg.norm(written(X[-2:], move), axis=1)
    assert rows.bounds()[-2:] == pytest.approx(ordinary, rel=1e-6)


@pytest.mark.parametrize("layout", ["C", "csr"])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_part_of_one_row_is_within_the_clip(move, layout, intercept):
    for x in hard_rows(move):
        for loss in (Logistic(), Squared(), Softmax(3)):
            rows = moved_rows(LAYOUTS[layout](x[None]), [1.0], move, fit_intercept=intercept)
            weights = np.full(loss.n_outputs * rows.n_parameters, 1e3)
            weights[::2] *= -1
            found = gradient_sum(rows, weights, loss, 0.5)
            assert np.linalg.norm(found.values) <= 0.5 + found.error
        rows = moved_rows(LAYOUTS[layout](x[None]), [1.0], move, fit_intercept=False, row_norm=0.25)
        assert np.linalg.norm(row_sum(rows).values) <= 0.25 + row_sum(rows).error
        for squares in (square_sum(rows), outer_sum(rows)):
            assert np.linalg.norm(squares.values) <= 0.25**2 + squares.error
        short = square_sum(rows, 0.3)
        assert np.linalg.norm(short.values) <= 0.3 * 0.25**2 + short.error


@pytest.mark.parametrize("kernel", [gradient_sum, row_sum, square_sum, outer_sum])
def test_a_sum_is_that_of_its_rows_up_to_its_error(table, move, kernel):
    arguments = ()
    if kernel is gradient_sum:
        weights = np.random.default_rng(2).standard_normal(D)
        arguments = (weights, Logistic(), 0.7)
    settings = {"fit_intercept": False, "row_norm": 1.5}
    few = table[:60]
    whole = kernel(moved_rows(few, TARGETS[:60], move, **settings), *arguments)
    singles = [
        kernel(moved_rows(few[[i]], TARGETS[[i]], move, **settings), *arguments) for i in range(60)
    ]
    parts = np.array([single.values for single in singles])
    total = np.array([math.fsum(column) for column in parts.T])
    slack = whole.error + sum(single.error for single in singles)
    assert np.linalg.norm(whole.values - total) <= slack


def test_the_length_of_a_row_is_a_function_of_that_row(table, move):
    whole = moved_rows(table, np.zeros(N), move, fit_intercept=False)
    order = np.random.default_rng(3).permutation(N)[: N - 7]
    part = moved_rows(table[order], np.zeros(N - 7), move, fit_intercept=False)
    assert np.array_equal(part.bounds(), whole.bounds()[order])


def test_norms_are_computed_once_and_never_missing(table, move):
    """An interrupted pass leaves norms out; they are computed before a row is clipped by them."""
    base = start_rows(table, TARGETS, move)
    rows = base.transformed(move, fit_intercept=False, row_norm=1.5)
    assert base.transformed(move, fit_intercept=False).norm_bounds is rows.norm_bounds
    assert base.transformed(move, fit_intercept=True).norm_bounds is not rows.norm_bounds
    expected = rows.bounds().copy()
    for missing in (slice(0, 5), slice(100, 101), slice(N - 3, N), slice(0, N)):
        other = replace(rows, norm_bounds=expected.copy())
        other.norm_bounds[missing] = 0.0
        few = other.take(np.arange(N))
        assert np.array_equal(other.norms(), expected)
        assert row_sum(other).values.tolist() == row_sum(rows).values.tolist()
        assert np.array_equal(few.bounds(), expected)


def test_rows_take_a_row_norm_later(table):
    """The norms of the table are used again."""
    raw = as_rows(table, TARGETS, fit_intercept=False)
    later, once = raw.with_row_norm(1.5), as_rows(table, TARGETS, fit_intercept=False, row_norm=1.5)
    assert np.array_equal(later.scales, once.scales)
    assert np.array_equal(later.norm_bounds, once.norm_bounds)
    assert raw.norm_bounds.max() > 1.5
    assert raw.row_norm is None
    assert later.with_row_norm(1.5) is later
    for rows in (later, as_rows(table, TARGETS)):
        with pytest.raises(ValueError, match="without row_norm"):
            rows.with_row_norm(1.0)


def test_sparse_rows_mapped_to_almost_nothing_have_their_slack():
    """Squared norms are differences of large numbers: of small ones, nothing may be left."""
    generator = np.random.default_rng(4)
    offset = 1e3 * (1 + generator.random(D))
    move = AffineMap(1e4, np.full(D, 0.7), offset)
    sizes = 10.0 ** generator.uniform(-13, -7, (500, 1))  # of rows after the map, over the offset
    X = offset / 0.7 * (1 + sizes * generator.standard_normal((500, D)))
    rows = moved_rows(sp.csr_array(X), np.zeros(500), move, fit_intercept=False)
    exact = [exact_length(x, move, s) for x, s in zip(X, rows.scales, strict=True)]
    for norm, square in zip(rows.bounds(), exact, strict=True):
        assert Fraction(float(norm)) ** 2 >= square
    squares = np.empty(500)
    numbers = (rows.scales, move.linear, move.offset, float(offset @ offset))
    KERNELS.sparse_mapped_squares(rows.table.block(slice(0, 500)), *numbers, squares)
    bare = np.sqrt(squares) * (1 + 16 * UNIT_ROUNDOFF) + 4 * gamma(D + 16) * move.bound
    below = [Fraction(float(b)) ** 2 < square for b, square in zip(bare, exact, strict=True)]
    assert sum(below) > 10  # so these rows would show that the slack is missing


def test_losses_of_mapped_rows_are_those_of_the_written_table(table, move):
    """Margins are linear in a row, so all sums of losses take mapped rows."""
    rows = moved_rows(table, TARGETS, move, fit_intercept=False)
    plain = as_rows(written(table, move), TARGETS, fit_intercept=False)
    weights, direction = np.random.default_rng(5).standard_normal((2, D))
    steps = np.linspace(0, 2, 21)
    for r in (rows, plain):
        gradient_sum(r, weights, Logistic(), 1.0)
    assert np.allclose(rows.margins(direction), plain.margins(direction), rtol=1e-6, atol=1e-6)
    for kernel, arguments in (
        (line_losses, (weights, direction, steps, Logistic(), 3.0)),
        (candidate_losses, (np.array([weights, direction]), 0.1 * weights, HuberHinge(), 0.7)),
    ):
        found, expected = kernel(rows, *arguments), kernel(plain, *arguments)
        assert np.allclose(found.values, expected.values, rtol=1e-6)
        assert found.error == expected.error
    at = weights - steps[3] * direction  # on the line: margins are remembered
    fresh = moved_rows(table, TARGETS, move, fit_intercept=False)
    assert np.allclose(rows.margins(at), fresh.margins(at), rtol=1e-9, atol=1e-9)
    assert rows.objective_sum(weights, Logistic()) == pytest.approx(
        plain.objective_sum(weights, Logistic()), rel=1e-6
    )


def test_mapped_rows_can_be_sampled(table, move):
    rows = moved_rows(table, TARGETS, move, fit_intercept=True, row_norm=1.5)
    index = np.arange(0, N, 3)
    drawn, fresh = (
        rows.take(index),
        moved_rows(table[index], TARGETS[index], move, fit_intercept=True),
    )
    weights = np.ones(D + 1)
    found = gradient_sum(drawn, weights, Logistic(), 0.7)
    assert np.array_equal(found.values, gradient_sum(fresh, weights, Logistic(), 0.7).values)
    assert found.error == gradient_sum(rows, weights, Logistic(), 0.7).error  # of the whole table


def test_what_needs_stored_rows_says_so():
    rows = moved_rows(TABLE, TARGETS, MOVES["scaled"], fit_intercept=True)
    weights, order = np.zeros(D + 1), np.zeros((1, 1), dtype=int)
    for ask in (
        lambda: corner_gradient(rows, weights, Logistic(), 1.0),
        lambda: rows.descend(weights, Logistic(), order=order, steps=[0.1], clip=1.0),
        lambda: rows.perturbed_gradient(weights, Logistic(), 9.0, 1.0, weights),
        lambda: rows.hessian_sum(weights, Logistic()),
        lambda: rows.hessian_product(weights, Logistic(), weights),
        lambda: rows.hessian_diagonal(weights, Logistic()),
        lambda: column_counts(rows, 0, np.zeros(1)),
        lambda: rows.scaled(1.0),
        lambda: rows.written(START),
    ):
        with pytest.raises(NotSupported, match="affine map"):
            ask()
    with pytest.raises(ValueError, match="no map before"):
        rows.transformed(MOVES["scaled"], fit_intercept=True)


def test_what_cannot_be_moved_is_refused():
    move = MOVES["scaled"]
    for settings in ({"row_norm": None}, {"row_norm": 3.0}):
        with pytest.raises(ValueError, match="the row norm and units of the map"):
            as_rows(TABLE, TARGETS, **settings).transformed(move, fit_intercept=True)
    rows = moved_rows(TABLE, TARGETS, move, fit_intercept=False)
    with pytest.raises(ValueError, match="clip must be at least"):
        gradient_sum(rows, np.zeros(D), Logistic(), 1e-10)
    with pytest.raises(ValueError, match="public bound"):
        square_sum(rows)
    infinite = AffineMap(2.0, np.full(D, np.inf), np.zeros(D))
    with pytest.raises(ValueError, match="this map allows inf"):
        moved_rows(TABLE, TARGETS, infinite, fit_intercept=False)


def test_short_rows_without_a_constant_are_clipped_as_if_their_norm_were_1():
    """So their factors stay within the clip, which the error of a mapped sum rests on."""
    move = MOVES["scaled"].then(1e-3)
    for kind in (np.asarray, sp.csr_array):
        rows = moved_rows(kind(TABLE[:1]), np.full(1, 1e9), move, fit_intercept=False)
        norm = rows.norms()[0]
        assert norm < 0.1
        total = gradient_sum(rows, np.zeros(D), Squared(), 0.5)
        assert np.linalg.norm(total.values) == pytest.approx(0.5 * norm, rel=1e-6)


def test_other_targets_leave_the_rows_alone():
    rows = moved_rows(TABLE, TARGETS, MOVES["scaled"], fit_intercept=True)
    other = rows.with_targets(-TARGETS)
    weights = np.zeros(D + 1)
    first, second = (gradient_sum(r, weights, Logistic(), 0.7).values for r in (rows, other))
    assert np.array_equal(first, -second)


def test_units_are_powers_of_two_of_rows_as_they_are_stored():
    raw = as_rows(TABLE, TARGETS, fit_intercept=False)
    for units in (np.full(D, 3.0), np.zeros(D), -np.ones(D), np.ones(D + 1)):
        with pytest.raises(ValueError, match="a power of two for each column"):
            raw.with_units(units)
    for rows in (raw.with_row_norm(1.0), raw.with_units(UNITS), as_rows(TABLE, TARGETS)):
        with pytest.raises(ValueError, match="without row_norm and intercept"):
            rows.with_units(UNITS)
    move = MOVES["in units"]
    with pytest.raises(ValueError, match="units of the map"):
        raw.with_row_norm(move.row_norm).transformed(move, fit_intercept=True)
    with pytest.raises(ValueError, match="units of the map"):
        raw.with_units(2 * UNITS).with_row_norm(9.0).transformed(move, fit_intercept=True)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_norms_in_units_are_those_of_a_table_in_units(layout):
    """To the last bit: a power of two rounds nothing."""
    rows = as_rows(layout(TABLE), TARGETS, fit_intercept=False).with_units(UNITS)
    other = as_rows(layout(TABLE * UNITS), TARGETS, fit_intercept=False)
    assert np.array_equal(rows.norms(), other.norms())


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_a_row_that_overflows_in_its_units_counts_as_zero(layout):
    """No error and no warning: both would be about that row."""
    X = np.vstack([TABLE[:3], np.full(D, 1e300)])
    far = replace(AffineMap.in_units(np.exp2([40] * D)), row_norm=2.0**40).then(0.5**40)
    rows = moved_rows(layout(X), TARGETS[:4], far, fit_intercept=True, row_norm=1.0)
    few = moved_rows(layout(X[:3]), TARGETS[:3], far, fit_intercept=True, row_norm=1.0)
    weights = np.append(np.full(D, 0.2), 0.0)
    one, two = (gradient_sum(r, weights, Logistic(), 1.0).values for r in (rows, few))
    assert np.isfinite(one).all()
    assert np.array_equal(one[:D], two[:D])
    assert np.linalg.norm(one - two) <= 1.0
    assert np.allclose(row_sum(rows).values, row_sum(few).values)
