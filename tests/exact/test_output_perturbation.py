"""Descents on exact rows: how far one row moves their end, and what their constructors refuse."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.core import Relation
from discreet.errors import NotSupported, PrivacyError
from discreet.exact import GradientDescent, PermutationPasses
from discreet.objectives import L2, Hinge, Huber, HuberHinge, Logistic, Problem, Squared
from discreet.rows import BLOCK_ROWS, as_rows

D = 5
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def problem_of(n, loss, alpha=0.0, d=D, fit_intercept=True, row_norm=1.0):
    return Problem(loss, L2(alpha), n, d, fit_intercept, row_norm)


def end_of(descent, X, y, *order):
    intercept = descent.problem.fit_intercept
    return descent.run(as_rows(X, y, fit_intercept=intercept, row_norm=1.0), *order)


# -- gradient descent on all rows


@pytest.mark.parametrize(
    ("relation", "loss", "alpha"),
    [
        (ADD, Logistic(), 0.05),
        (ADD, HuberHinge(), 0.0),
        (ADD, Huber(threshold=0.5), 0.05),
        (REPLACE, Logistic(), 0.0),
        (REPLACE, HuberHinge(), 0.05),
        (REPLACE, Huber(threshold=0.5), 0.0),
    ],
)
def test_no_neighbour_moves_the_end_further(relation, loss, alpha):
    """Worst-case rows: aligned, at the norm bound, with extreme targets."""
    rng = np.random.default_rng(1)
    problem = problem_of(12, loss, alpha, d=3)
    descent = GradientDescent(problem, 15, 1 / problem.smoothness)
    sensitivity, largest = descent.sensitivity(relation), 0.0
    for trial in range(20):
        X = rng.normal(size=(12, 3)) * (3 if trial % 2 else 0.01)
        y = rng.choice([-1.0, 1.0], size=12)
        if relation is ADD:
            other = X[1:], y[1:]
        else:
            other = X.copy(), y.copy()
            other[0][0], other[1][0] = 50.0 * rng.normal(size=3), -y[0]
        moved = np.linalg.norm(end_of(descent, X, y) - end_of(descent, *other))
        assert moved <= sensitivity
        largest = max(largest, moved / sensitivity)
    assert largest > 0.2  # the bound is not idle


def test_one_row_more_may_expand_but_the_smaller_table_contracts():
    """n = 3, η = 2/(β + α): the map of n + 1 rows expands by 5/3, and the bound still holds.

    Quadratic losses, rows along one axis: the data curvature of the n + 1 rows is (n + 1)/n times
    that of n, so I − η∇²F has the eigenvalue 1 − η((β − α)(n + 1)/n + α), far below −1.
    """
    n, alpha = 3, 1e-9
    problem = problem_of(n, Huber(1e6), alpha, d=2, fit_intercept=False)
    step = 2 / (problem.smoothness + alpha)
    expands = abs(1 - step * ((problem.smoothness - alpha) * (n + 1) / n + alpha))
    assert expands == pytest.approx(5 / 3, rel=1e-6)
    rng = np.random.default_rng(0)
    for iterations in (1, 2, 5, 20):
        descent = GradientDescent(problem, iterations, step)
        sensitivity, largest = descent.sensitivity(ADD), 0.0
        for _ in range(30):
            X = np.tile([1.0, 0.0], (n + 1, 1)) * rng.choice([-1.0, 1.0], (n + 1, 1))
            y = 1e7 * rng.choice([-1.0, 0.0, 1.0], n + 1)  # straight or curved at small weights
            moved = np.linalg.norm(end_of(descent, X, y) - end_of(descent, X[1:], y[1:]))
            assert moved <= sensitivity
            norms = [np.linalg.norm(end_of(descent, *t)) for t in ((X, y), (X[1:], y[1:]))]
            assert max(norms) <= descent.weight_bound * (n + 1) / n
            largest = max(largest, moved / sensitivity)
        assert largest > 0.5
    with pytest.raises(ValueError, match="too long"):
        GradientDescent(problem, 5, step * (1 + 1e-9))


def test_rounding_is_part_of_the_sensitivity():
    """By hand, at sizes where rounding is most of it: few steps of any length, many rows.

    β = 1/4, L = 1, T = 10⁶, η = 4, n = 10¹², p = 1, α = 0: R = TηL = 4·10⁶, and a step rounds by
    η(2·17u·β·R + 32u·L + 4(4096 + 145)u·L) + 8uR.
    """
    n, iterations, step, u = 10**12, 10**6, 4.0, 2.0**-53
    problem = problem_of(n, Logistic(), d=1, fit_intercept=False)
    descent = GradientDescent(problem, iterations, step)
    far = iterations * step
    sums = 4 * (4096 + 145) * u
    by_hand = step * (2 * 17 * u * 0.25 * far + 32 * u + sums) + 8 * u * far
    assert descent.rounding == pytest.approx(by_hand, rel=1e-12)
    exact = iterations * step / n
    for relation in (ADD, REPLACE):
        expected = relation.rows_changed * exact + 2 * iterations * by_hand
        assert descent.sensitivity(relation) == pytest.approx(expected, rel=1e-9)
        assert descent.sensitivity(relation) >= expected
    assert 2 * iterations * by_hand > 10 * exact


def test_the_block_size_is_that_of_the_rows(monkeypatch):
    descent = GradientDescent(problem_of(10**9, Logistic()), 10, 1.0)
    before = descent.rounding
    monkeypatch.setattr("discreet.rows.bounds.BLOCK_ROWS", 8 * BLOCK_ROWS)
    assert descent.rounding != before
    assert as_rows(np.ones((2, 1)), [1.0, 1.0]).table.block_rows == BLOCK_ROWS


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_rows_whose_margins_could_overflow_take_no_part(make):
    """Margins that are infinite or no numbers at some weights would break the contraction."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (50, 4)), rng.choice([-1.0, 1.0], 50)
    huge = X.copy()
    huge[::2] *= 1e307
    descent = GradientDescent(problem_of(50, Logistic(), d=4), 40, 2.0)
    with_them = end_of(descent, make(huge), y)
    assert np.linalg.norm(with_them) > 0.1
    np.testing.assert_array_equal(with_them, end_of(descent, make(X[1::2]), y[1::2]))


@pytest.mark.parametrize("kind", [GradientDescent, PermutationPasses])
def test_what_the_proof_does_not_cover_cannot_be_made(kind):
    """The conditions are checked where the proof is, whatever a solver forgets."""

    def make(problem, step=0.1):
        if kind is GradientDescent:
            return GradientDescent(problem, 3, step)
        lipschitz = min(problem.lipschitz, 1.0)
        return PermutationPasses(problem, 2, np.full((3, 5), step), lipschitz)

    class Other(Logistic):
        """A loss whose slope could be computed in any way."""

    good = problem_of(10, Logistic())
    make(good)
    with pytest.raises(NotSupported, match="rounding error"):
        make(replace(good, loss=Other()))
    with pytest.raises(NotSupported, match="rounding error"):
        make(replace(good, loss=Hinge()))
    with pytest.raises(ValueError, match="rescale"):
        make(replace(good, row_norm=None))
    with pytest.raises(ValueError, match="rescale"):
        make(replace(good, row_norm=1e30))
    for step in (4.1, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"too long|rescale"):
            make(good, step)


# -- passes over batches


def passes_of(problem, steps, batch, lipschitz=None, radius=None):
    bound = problem.lipschitz if lipschitz is None else lipschitz
    return PermutationPasses(problem, batch, np.asarray(steps), bound, radius)


def schedule(problem, kind, passes, batches, step=0.01):
    t = np.arange(1.0, passes * batches + 1)
    beta, alpha = problem.smoothness, problem.penalty.alpha
    steps = {
        "constant": np.full(t.size, step),
        "sqrt": 2 / (beta * (np.sqrt(t) + batches**0.9)),
        "strong": np.minimum(1 / beta, 1 / (alpha * t)) if alpha else t,
    }[kind]
    return steps.reshape(passes, batches)


def test_longest_steps_contract_as_stated():
    """Squared loss of rows of one direction: 1 − ηα and 1 − ηβ at once, where they are −1 apart."""
    alpha = 0.5
    problem = problem_of(40, Squared(), alpha, d=2, fit_intercept=False)
    step = 2 / (problem.smoothness + alpha)
    descent = passes_of(problem, np.full((3, 10), step), 4, lipschitz=1.0)
    worst = 0.0
    for place in range(0, 40, 4):
        ends = []
        for target in (1.0, -1.0):
            X, y = np.tile([1.0, 0.0], (40, 1)), np.zeros(40)
            X[place], y[place] = (0.0, 1.0), 50 * target
            ends.append(end_of(descent, X, y, np.arange(40)))
        worst = max(worst, float(np.linalg.norm(ends[0] - ends[1])))
    assert 0.9 * descent.stability < worst <= descent.sensitivity


@pytest.mark.parametrize(
    ("kind", "alpha"), [("constant", 0.0), ("constant", 4.0), ("sqrt", 0.0), ("strong", 4.0)]
)
def test_the_sensitivity_of_passes_is_attained(kind, alpha):
    """Rows of zeros, and one that is far from the kink with either sign: nothing can be saved."""
    n, k = 40, 4
    problem = problem_of(n, HuberHinge(0.5), alpha, fit_intercept=False)
    radius = problem.lipschitz / alpha if kind == "strong" else None
    descent = passes_of(problem, schedule(problem, kind, 3, n // k), k, radius=radius)
    worst = 0.0
    for place in range(0, n, k):
        ends = []
        for sign in (1.0, -1.0):
            X = np.zeros((n, D))
            X[place, 0] = sign
            ends.append(end_of(descent, X, np.ones(n), np.arange(n)))
        worst = max(worst, float(np.linalg.norm(ends[0] - ends[1])))
    assert worst <= descent.sensitivity
    assert worst > 0.999 * descent.stability


@pytest.mark.parametrize(
    ("loss", "kind", "alpha"),
    [
        (Logistic(), "constant", 0.0),
        (HuberHinge(0.5), "sqrt", 0.1),
        (Huber(0.5), "strong", 0.1),
        (Squared(), "constant", 0.0),
        (Squared(), "strong", 0.1),
    ],
)
def test_neighbours_end_within_the_sensitivity_of_passes(loss, kind, alpha):
    n = 30
    problem = problem_of(n, loss, alpha)
    radius = 0.8 / alpha if kind == "strong" else None
    steps = schedule(problem, kind, 4, 6, step=0.2)
    descent = passes_of(problem, steps, 5, lipschitz=0.8, radius=radius)
    rng = np.random.default_rng(5)
    largest = 0.0
    for _ in range(40):
        X, y = rng.normal(size=(n, D)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
        other, targets = X.copy(), y.copy()
        row = rng.integers(n)
        other[row], targets[row] = -X[row] * rng.choice([1, 100]), rng.choice([-1.0, 1.0])
        order = rng.permutation(n)
        ends = [end_of(descent, *table, order) for table in ((X, y), (other, targets))]
        assert all(np.linalg.norm(end) <= descent.weight_bound for end in ends)
        largest = max(largest, float(np.linalg.norm(ends[0] - ends[1])))
    assert 0 < largest <= descent.sensitivity


@pytest.mark.parametrize("radius", [None, 0.5])
def test_rounding_of_passes_stays_within_its_bound(radius):
    """Against the same passes in 80-bit numbers."""
    alpha = 0.05
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (200, D)) / math.sqrt(D), rng.choice([-1.0, 1.0], 200)
    problem = problem_of(200, Logistic(), alpha)
    steps = np.full((20, 20), 1 / problem.smoothness)
    descent = passes_of(problem, steps, 10, radius=radius)
    rows = np.column_stack([X, np.ones(200)]).astype(np.longdouble)
    w = np.zeros(D + 1, dtype=np.longdouble)
    batches = np.tile(np.arange(200).reshape(20, 10), (20, 1))
    for step, batch in zip(steps.ravel(), batches, strict=True):
        slope = -y[batch] / (1 + np.exp(y[batch] * (rows[batch] @ w)))
        w = w - np.longdouble(step) * (slope @ rows[batch] / 10 + np.longdouble(alpha) * w)
        if radius is not None:
            w = w * min(1, radius / np.sqrt((w * w).sum()))
    ours = end_of(descent, X, y, np.arange(200))
    distance = float(np.sqrt(((ours - w) ** 2).sum()))
    assert 0 < distance <= descent.rounding < 1e-4 * descent.stability
    assert descent.sensitivity == descent.stability + 2 * descent.rounding


def test_passes_use_every_row_at_most_once():
    """A row in two batches of a pass would move the end twice as far."""
    descent = passes_of(problem_of(10, Logistic()), np.full((2, 5), 0.1), 2)
    X, y = np.ones((10, D)), np.ones(10)
    with pytest.raises(PrivacyError, match="every row once"):
        end_of(descent, X, y, np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 0]))
    with pytest.raises(PrivacyError, match="one step size for each"):
        passes_of(problem_of(10, Logistic()), np.full((2, 4), 0.1), 2)
