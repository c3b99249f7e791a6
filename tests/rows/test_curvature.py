"""Second derivatives steer an optimiser; the certified gradient is what privacy rests on."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Hinge, Huber, HuberHinge, Logistic, Loss, Sigmoid, Softmax, Squared
from discreet.rows import as_rows
from discreet.rows.certified import accurate_margins, allowance
from discreet.rows.sums import gradient_sum, line_losses

SMOOTH = [Logistic(), HuberHinge(), Huber(0.7), Sigmoid(), Squared(), Softmax(3)]
LAYOUTS = {"C": np.asarray, "F": np.asfortranarray, "csr": sp.csr_array}
losses = pytest.mark.parametrize("loss", SMOOTH, ids=lambda loss: loss.name)
layouts = pytest.mark.parametrize("layout", LAYOUTS)


def table(loss, n=300, d=7, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d)) * (generator.random((n, d)) < 0.6)
    y = generator.choice([-1.0, 1.0], n)
    if loss.n_outputs > 1:
        y = generator.integers(0, loss.n_outputs, n).astype(float)
    return X, y, generator.standard_normal(loss.n_outputs * (d + 1))


def full(X, row_norm):
    norms = np.linalg.norm(X, axis=1)
    scaled = X * np.minimum(1, row_norm / np.maximum(norms, 1e-9))[:, None]
    return np.column_stack([scaled, np.ones(len(X))])


def margins_of(design, weights, loss):
    return (
        design @ weights.reshape(loss.n_outputs, -1).T if loss.n_outputs > 1 else design @ weights
    )


@losses
@layouts
def test_sums_agree_with_their_definitions(loss, layout):
    X, y, weights = table(loss)
    rows = as_rows(LAYOUTS[layout](X), y, row_norm=1.5)
    design = full(X, 1.5)
    margins = margins_of(design, weights, loss)
    assert rows.objective_sum(weights, loss) == pytest.approx(loss.value(margins, y).sum())
    slopes = np.asarray(loss.derivative(margins, y)).reshape(len(y), -1)
    gradient = np.einsum("ik,ij->kj", slopes, design).ravel()
    np.testing.assert_allclose(gradient_sum(rows, weights, loss, 1e9).values, gradient, atol=1e-11)
    bends = np.asarray(loss.second_derivative(margins, y)).reshape(len(y), *2 * [loss.n_outputs])
    hessian = np.einsum("ikl,ij,im->kjlm", bends, design, design).reshape(2 * [weights.size])
    vector = np.linspace(-1, 1, weights.size)
    np.testing.assert_allclose(
        rows.hessian_product(weights, loss, vector), hessian @ vector, atol=1e-10
    )
    np.testing.assert_allclose(rows.hessian_diagonal(weights, loss), hessian.diagonal(), atol=1e-10)
    if layout == "csr":
        with pytest.raises(NotSupported, match="dense"):
            rows.hessian_sum(weights, loss)
    else:
        np.testing.assert_allclose(rows.hessian_sum(weights, loss), hessian, atol=1e-10)


def test_large_tables_in_threads(monkeypatch):
    from discreet.rows import table as tables

    loss = Softmax(3)
    X, y, weights = table(loss, n=9000)
    rows = as_rows(X, y)
    whole = rows.hessian_sum(weights, loss), gradient_sum(rows, weights, loss, 1.0).values
    monkeypatch.setattr(tables, "ENTRIES_WORTH_A_THREAD", 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    np.testing.assert_allclose(rows.hessian_sum(weights, loss), whole[0], rtol=1e-12, atol=1e-9)
    threaded = gradient_sum(rows, weights, loss, 1.0).values
    np.testing.assert_allclose(threaded, whole[1], rtol=1e-12, atol=1e-10)
    assert rows.objective_sum(weights, loss) == pytest.approx(
        loss.value(margins_of(full(X, 1e9), weights, loss), y).sum()
    )


# Several outputs: the contract of the clipped sum


@layouts
@pytest.mark.parametrize("clip", [0.1, 1.0, 50.0])
def test_gradients_of_several_outputs_are_clipped_row_by_row(layout, clip):
    loss = Softmax(3)
    X, y, weights = table(loss)
    X[3] *= 1e12
    rows = as_rows(LAYOUTS[layout](X), y)
    design = np.column_stack([X, np.ones(len(X))])
    slopes = loss.derivative(margins_of(design, weights, loss), y)
    each = np.einsum("ik,ij->ikj", slopes, design).reshape(len(y), -1)
    norms = np.linalg.norm(each, axis=1)
    expected = (each * np.minimum(1, clip / norms)[:, None]).sum(axis=0)
    total = gradient_sum(rows, weights, loss, clip)
    np.testing.assert_allclose(total.values, expected, atol=1e-10 * max(1, clip))
    for i in (0, 3, 17):
        alone = as_rows(LAYOUTS[layout](X[i : i + 1]), y[i : i + 1])
        values = gradient_sum(alone, weights, loss, clip).values
        assert math.sqrt(math.fsum(values * values)) <= clip * (1 + 1e-15)


@layouts
def test_a_row_of_several_outputs_counts_the_same_wherever_it_stands(layout):
    loss = Softmax(3)
    X, y, weights = table(loss, n=50)
    found = []
    for index in (np.arange(50), np.arange(49, 0, -3), [4]):
        rows = as_rows(LAYOUTS[layout](X[index]), y[index], row_norm=1.0)
        position = list(index).index(4)
        found.append(rows.computed_margins(weights, 3)[position])
        np.testing.assert_array_equal(found[0], found[-1])


def test_a_target_that_is_no_class_counts_as_nothing():
    X, _, weights = table(Softmax(3), n=4)
    for bad in (-1.0, 3.0, 0.5, 1e300):
        values = gradient_sum(as_rows(X, [bad] * 4), weights, Softmax(3), 1.0).values
        np.testing.assert_array_equal(values, np.zeros(24))


class OwnSoftmax(Softmax):
    """A third party's: it goes through its NumPy methods."""


def test_other_losses_with_several_outputs():
    X, y, weights = table(Softmax(3))
    rows = as_rows(X, y, row_norm=1.0)
    ours = gradient_sum(rows, weights, Softmax(3), 0.3).values
    np.testing.assert_allclose(
        gradient_sum(rows, weights, OwnSoftmax(3), 0.3).values, ours, atol=1e-12
    )


def test_margins_of_one_output_survive_those_of_several():
    X, y, weights = table(Softmax(3))
    rows = as_rows(X, np.where(y > 0, 1.0, -1.0))
    line = line_losses(rows, weights[:8], weights[8:16], [0.0, 1.0], Logistic(), 5.0).values
    gradient_sum(rows, weights, Softmax(3), 1.0)
    again = line_losses(rows, weights[:8], weights[8:16], [0.0, 1.0], Logistic(), 5.0).values
    np.testing.assert_array_equal(line, again)
    with pytest.raises(NotSupported, match="several outputs"):
        line_losses(rows, weights, weights, [0.0], Softmax(3), 1.0)


# The certificate


def exact_norm(rows, X, y, weights, loss, ridge, linear):
    """‖gradient‖ in 60 digits, for rows that are the stored rows times their stored scales."""
    mp = mpmath.mp.clone() if hasattr(mpmath.mp, "clone") else mpmath.mp
    with mp.workdps(60):
        vector = [mp.mpf(float(w)) for w in weights]
        total = [mp.mpf(ridge) * w + mp.mpf(float(b)) for w, b in zip(vector, linear, strict=True)]
        scales = rows.scales if rows.scales.size else np.ones(len(X))
        for x, target, scale in zip(X, y, scales, strict=True):
            row = [mp.mpf(float(v)) * mp.mpf(float(scale)) for v in x] + [mp.mpf(1)]
            margin = mp.fsum(a * b for a, b in zip(row, vector, strict=True))
            slope = exact_slope(mp, loss, margin, mp.mpf(float(target)))
            total = [t + slope * v for t, v in zip(total, row, strict=True)]
        return float(mp.sqrt(mp.fsum(t * t for t in total)))


def exact_slope(mp, loss, margin, target):
    match loss:
        case Logistic():
            return -target / (1 + mp.exp(target * margin))
        case HuberHinge(h):
            near = max(-mp.mpf(h), min(mp.mpf(h), 1 - target * margin))
            return -target * (near + mp.mpf(h)) / (2 * mp.mpf(h))
        case Huber(t):
            return max(-mp.mpf(t), min(mp.mpf(t), margin - target))
    raise AssertionError(loss)


@layouts
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), Huber(0.7)], ids=lambda x: x.name)
def test_the_bound_covers_the_exact_gradient(layout, loss):
    """At a point where the gradient is nearly nothing but rounding."""
    X, y, weights = table(loss, n=60)
    weights = 20 * weights
    rows = as_rows(LAYOUTS[layout](X), y, row_norm=1.0)
    clip = loss.slope_bound * math.sqrt(2) * (1 + 2**-40)
    gradient, _ = rows.perturbed_gradient(weights, loss, clip, 3.0, np.zeros(8))
    linear = -gradient  # so that what is left is rounding
    left, bound = rows.perturbed_gradient(weights, loss, clip, 3.0, linear)
    norm = exact_norm(rows, X, y, weights, loss, 3.0, linear)
    assert 0 < norm <= bound
    assert bound < 1e-10
    assert np.linalg.norm(left) <= bound


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), Softmax(3)], ids=lambda x: x.name)
@layouts
def test_the_allowance_for_rounding_does_not_depend_on_the_rows(loss, layout):
    """One long row, or one with many entries, must not make a certificate harder to reach."""
    X, y, weights = table(loss, n=3000)
    X[:, 1:] = 0
    clip = loss.slope_bound * math.sqrt(2) * (1 + 2**-40)
    point, excess = 1e3 * weights, []
    for first in (0.0, 1e6):
        X[0] = first
        rows = as_rows(LAYOUTS[layout](X), y, row_norm=1.0)
        linear = -rows.perturbed_gradient(point, loss, clip, 1.0, 0 * weights)[0]
        gradient, bound = rows.perturbed_gradient(point, loss, clip, 1.0, linear)
        excess.append(bound - np.linalg.norm(gradient))
        size = np.linalg.norm(point)
        terms = len(X) * clip + size + np.linalg.norm(linear)
        assert 3 * bound < 3.5 * allowance(rows, loss, clip, size, terms)
    assert excess[0] == pytest.approx(excess[1], rel=1e-2)


@layouts
def test_margins_of_a_certificate_are_accurate(layout):
    """Where nearly everything cancels, to a unit in the last place and 1e-28 of the terms."""
    generator = np.random.default_rng(0)
    half = generator.standard_normal((70, 150))
    X = np.concatenate([half, -half * (1 + 1e-14 * generator.standard_normal(half.shape))], axis=1)
    vector = np.tile(generator.standard_normal(150), 2)
    rest = 2.0**-54 * vector * generator.uniform(-1, 1, 300)
    targets = 1e3 * generator.standard_normal(70)

    def exact(table, scales, constant, targets):
        sums = [
            sum(Fraction(a) * (Fraction(b) + Fraction(c)) for a, b, c in zip(*row, strict=True))
            for row in ((row, vector.tolist(), rest.tolist()) for row in table.tolist())
        ]
        found = [
            total * Fraction(float(s)) + Fraction(constant) - Fraction(float(y))
            for total, s, y in zip(sums, scales, targets, strict=True)
        ]
        return [float(value) for value in found]

    rows = as_rows(LAYOUTS[layout](X), targets, fit_intercept=False)
    found = accurate_margins(rows, vector, rest, np.empty(0))
    right = exact(X, np.ones(70), 0.0, np.zeros(70))
    np.testing.assert_allclose(found, right, rtol=2.0**-52, atol=1e-27)
    assert np.abs(rows.margins(vector) - right).max() > 1e-15
    for table_ in (X, X.astype(np.float32)):  # scaled, with an intercept, less the targets
        rows = as_rows(LAYOUTS[layout](table_), targets, row_norm=1.0)
        longer = np.append(vector, 1e3), np.append(rest, 0.0)
        found = accurate_margins(rows, *longer, targets)
        right = exact(table_.astype(float), rows.scales, 1e3, targets)
        np.testing.assert_allclose(found, right, rtol=2.0**-52, atol=1e-27)


def test_remembered_lines_do_not_enter_a_certificate():
    X, y, weights = table(Logistic())
    rows = as_rows(X, y, row_norm=1.0)
    direction = 1e8 * np.ones(8)
    line_losses(rows, weights + direction, direction, [0.0, 1.0], Logistic(), 1.0)
    there = (weights + direction) - 1.0 * direction
    found, _ = rows.perturbed_gradient(there, Logistic(), 2.0, 1.0, np.zeros(8))
    fresh, _ = as_rows(X, y, row_norm=1.0).perturbed_gradient(
        there, Logistic(), 2.0, 1.0, np.zeros(8)
    )
    np.testing.assert_array_equal(found, fresh)


def test_rows_that_break_the_promised_bound_are_refused():
    X, y, weights = table(Logistic())
    with pytest.raises(PrivacyError, match="longer than the problem says"):
        as_rows(10 * X, y).perturbed_gradient(weights, Logistic(), 2.0, 1.0, np.zeros(8))
    with pytest.raises(PrivacyError):
        as_rows(X, y, row_norm=1.0).perturbed_gradient(weights, Hinge(), 2.0, 1.0, np.zeros(8))


@losses
@pytest.mark.parametrize(("layout", "huge"), [("C", 1e155), ("F", 1e300), ("csr", 1e308)])
def test_rows_that_might_overflow_take_no_part(loss, layout, huge):
    X, y, weights = table(loss)
    expected = as_rows(LAYOUTS[layout](X[1:]), y[1:], row_norm=1.0)
    X[0] = huge
    whole = as_rows(LAYOUTS[layout](X), y, row_norm=1.0)
    rows = whole.within_reach()
    assert rows.n_rows == 299
    vector = np.linspace(-1, 1, weights.size)
    for name, arguments in (
        ("objective_sum", (weights, loss)),
        ("hessian_diagonal", (weights, loss)),
        ("hessian_product", (weights, loss, vector)),
        *([("hessian_sum", (weights, loss))] if rows.dense else []),
    ):
        found, right = getattr(rows, name)(*arguments), getattr(expected, name)(*arguments)
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12)
    if math.isfinite(loss.slope_bound):
        point = (weights, loss, loss.slope_bound * 1.5, 1.0, np.zeros(weights.size))
        gradient, bound = rows.perturbed_gradient(*point)
        right, _ = expected.perturbed_gradient(*point)
        np.testing.assert_allclose(gradient, right, rtol=1e-12, atol=1e-12)
        assert np.linalg.norm(gradient) <= bound < math.inf
        with pytest.raises(PrivacyError, match="within reach"):
            whole.perturbed_gradient(*point)


@layouts
def test_sensible_rows_are_all_within_reach(layout):
    X, y, weights = table(Logistic())
    for row_norm in (1.0, None):
        rows = as_rows(LAYOUTS[layout](X), y, row_norm=row_norm)
        assert rows.within_reach() is rows
    X[:] = 1e200
    rows = as_rows(LAYOUTS[layout](X), y, row_norm=1.0).within_reach()
    assert rows.n_rows == 0
    assert rows.objective_sum(weights, Logistic()) == 0
    gradient, bound = rows.perturbed_gradient(weights, Logistic(), 2.0, 1.0, np.zeros(8))
    np.testing.assert_array_equal(gradient, weights)
    assert bound >= np.linalg.norm(weights)


def test_weights_out_of_range_have_no_certificate():
    X, y, _ = table(Logistic())
    rows = as_rows(X, y, row_norm=1.0)
    _, bound = rows.perturbed_gradient(np.full(8, 1e100), Logistic(), 2.0, 1.0, np.zeros(8))
    assert bound == math.inf


def test_the_sigmoid_has_a_kernel():
    """Compiled and NumPy slopes and losses agree, far out as well."""
    X = np.array([[0.0], [1e-3], [-2.0], [40.0], [-700.0], [2e3]])
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])

    class Plain(Sigmoid):
        """Not the library's own type, so it has no kernel."""

    rows = as_rows(X, y, fit_intercept=False)
    for weights in ([1.0], [-3.0]):
        compiled = gradient_sum(rows, weights, Sigmoid(), 0.2).values
        np.testing.assert_allclose(compiled, gradient_sum(rows, weights, Plain(), 0.2).values)
        sums = [
            line_losses(rows, weights, [0.5], [0.0, 1.0], loss, 0.9).values
            for loss in (Sigmoid(), Plain())
        ]
        np.testing.assert_allclose(*sums, rtol=1e-14)
        assert rows.objective_sum(weights, Sigmoid()) == pytest.approx(
            rows.objective_sum(weights, Plain())
        )
    assert isinstance(Plain(), Loss)
