"""Weights of rows: every sum takes each row's part times its weight, once."""

from dataclasses import is_dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.core import Account, Budget, Curator, Gaussian, questions
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import Question, ScoreSquareSum, ScoreVariances
from discreet.errors import NotSupported, PrivacyError
from discreet.exact.noisy_descents import Descent
from discreet.objectives import Logistic
from discreet.rows import Rows, as_rows, bounds
from discreet.rows.moments import column_counts
from discreet.rows.sums import gradient_sum, line_losses

from .questions import EVERYTHING, GENERAL, MAPS, along, numbers, table, weights_of

LAYOUTS = {
    "C": np.asarray,
    "F": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "csr": sp.csr_array,
}
X, Y, WEIGHTS = table(40)
WITHOUT_BOUND = ("objective", "hessian", "hessians", "product", "diagonal")
CASES = [(layout, None, name) for layout in LAYOUTS for name in EVERYTHING]
CASES += [(layout, move, name) for layout in ("C", "csr") for move in MAPS for name in GENERAL]


ELSEWHERE = dict.fromkeys(
    (ScoreSquareSum, ScoreVariances), "squares of units' sums: tests/rows/test_scores.py"
)


def kinds(base):
    """Return the classes of questions below a class that have fields, so can be asked."""
    below = [kind for child in base.__subclasses__() for kind in kinds(child)]
    asked = is_dataclass(base) and not base.__name__.startswith("_")
    return below + [base] * asked


def test_every_kind_of_question_is_tested_here(monkeypatch):
    """A question whose kernel forgets the weights would protect rows where people are promised."""
    asked, answer = set(), Rows.answer

    def spied(self, questions):
        asked.update(type(question) for question in questions)
        return answer(self, questions)

    monkeypatch.setattr(Rows, "answer", spied)
    for ask in EVERYTHING.values():
        ask(rows_of(X, Y, weights=WEIGHTS, public_size=30))
    of_package = {kind for kind in kinds(Question) if kind.__module__ == questions.__name__}
    assert asked | set(ELSEWHERE) == of_package


def rows_of(X, y, move=None, **settings):
    rows = as_rows(X, y, row_norm=1.5, **settings)
    if move is None:
        return rows
    return rows.transformed(MAPS[move], fit_intercept=True, row_norm=1.2)


@cache
def parts(layout, move, name):
    """Return the answers for tables of one row each, without weights."""
    singles = [rows_of(LAYOUTS[layout](X[i : i + 1]), Y[i : i + 1], move) for i in range(len(X))]
    return np.stack([numbers(EVERYTHING[name](rows)) for rows in singles])


@pytest.mark.parametrize(("layout", "move", "name"), CASES)
def test_every_sum_is_that_of_weighted_parts(layout, move, name):
    rows = rows_of(LAYOUTS[layout](X), Y, move, weights=WEIGHTS, public_size=30)
    got = numbers(EVERYTHING[name](rows))
    each = parts(layout, move, name)
    # weights by the norm are rounded to the grid once more
    near = 1e-6 if name in ("score", "curvature") else 1e-12
    np.testing.assert_allclose(got, WEIGHTS @ each, rtol=near, atol=near)
    np.testing.assert_allclose(
        numbers(EVERYTHING[name](rows.take(np.arange(7, 20)))),
        WEIGHTS[7:20] @ each[7:20],
        rtol=near,
        atol=near,
    )


@pytest.mark.parametrize("name", EVERYTHING)
def test_weights_of_one_change_nothing_but_the_last_bits(name):
    plain, ones = rows_of(X, Y), rows_of(X, Y, weights=np.ones(40), public_size=40)
    one, two = EVERYTHING[name](plain), EVERYTHING[name](ones)
    np.testing.assert_allclose(numbers(one), numbers(two), rtol=1e-13, atol=1e-13)
    if hasattr(one, "error"):
        assert one.error == two.error


@pytest.mark.parametrize("name", [name for name in EVERYTHING if name != "remembered gradient"])
def test_errors_depend_on_the_public_size_and_not_on_the_rows(name):
    few = rows_of(X[:3], Y[:3], weights=WEIGHTS[:3], public_size=500)
    many = rows_of(X, Y, weights=WEIGHTS, public_size=500)
    larger = rows_of(X, Y, weights=WEIGHTS, public_size=1001)
    one, two, three = (EVERYTHING[name](rows) for rows in (few, many, larger))
    if hasattr(one, "error"):
        assert one.error == two.error
        assert three.error == pytest.approx(2 * one.error, rel=1e-2)
    else:
        assert name in ("norms", "column", "slopes", *WITHOUT_BOUND)
    gradient = gradient_sum(many, weights_of(many), Logistic(), 0.7)
    assert gradient.error == bounds.gradient_error(500, bounds.BLOCK_ROWS, 0.7)


@pytest.mark.parametrize("size", [1, 3, 40])
def test_a_unit_of_weight_one_moves_a_sum_by_the_clip(size):
    """The lemma of summation.md, for a unit whose rows all point the same way."""
    big, y = np.vstack([X, np.tile(100.0 * X[:1], (size, 1))]), np.append(Y, -np.ones(size))
    weights = np.append(WEIGHTS, np.full(size, 1 / size))
    here = rows_of(big, y, weights=weights, public_size=41)
    gone = here.take(np.arange(40))
    at, clip = np.append(9 * X[0] / np.linalg.norm(X[0]), 9.0), 0.6
    sums = [gradient_sum(rows, at, Logistic(), clip) for rows in (here, gone)]
    moved = np.linalg.norm(sums[0].values - sums[1].values)
    assert 0.999 * clip <= moved <= clip + 2 * sums[0].error
    losses = [line_losses(rows, at, along(rows), [0.0], Logistic(), clip) for rows in (here, gone)]
    change = losses[0].values - losses[1].values
    assert -2 * losses[0].error <= change[0] <= clip + 2 * losses[0].error
    counts = [column_counts(rows, 0, np.array([-1.0, 1.0])) for rows in (here, gone)]
    change = (counts[0].values - counts[1].values) / counts[0].unit
    assert 1 - size * 2.0**-30 <= change.sum() <= 1  # exactly whole steps, rounded down


def test_weights_are_carried_to_other_rows():
    rows = as_rows(X, Y, row_norm=1.5, weights=WEIGHTS, public_size=77)
    chosen = rows.take(np.array([4, 2, 9]))
    assert np.array_equal(chosen.weights, WEIGHTS[[4, 2, 9]])
    sample = rows.sample(0.5, np.random.default_rng(0))
    drawn = np.random.default_rng(0).random(40) + 2.0**-53 <= 0.5
    assert np.array_equal(sample.weights, WEIGHTS[drawn])
    mapped = rows.transformed(MAPS["diagonal"], fit_intercept=True)
    others = [rows.columns(np.array([1, 3]), 2.0), rows.with_targets(-Y), rows.within_reach()]
    for other in (mapped, mapped.columns(np.array([1, 3]), 2.0), *others):
        assert np.array_equal(other.weights, WEIGHTS)
        assert other.public_size == 77
    far = X.copy()
    far[5] = 1e300
    reach = as_rows(far, Y, row_norm=1e-5, weights=WEIGHTS, public_size=77).within_reach()
    assert np.array_equal(reach.weights, np.delete(WEIGHTS, 5))


def test_bad_weights_are_refused():
    for bad in (-0.1, 1.1, np.nan, np.inf):
        weights = WEIGHTS.copy()
        weights[3] = bad
        with pytest.raises(ValueError, match="from 0 to 1"):
            as_rows(X, Y, weights=weights, public_size=50)
    for shape in (WEIGHTS[:-1], WEIGHTS[:, None]):
        with pytest.raises(ValueError, match="one number for each row"):
            as_rows(X, Y, weights=shape, public_size=50)
    with pytest.raises(ValueError, match="pass public_size"):
        as_rows(X, Y, weights=WEIGHTS)
    with pytest.raises(ValueError, match="at least the number of rows"):
        as_rows(X, Y, public_size=39)
    with pytest.raises(PrivacyError, match="more than public_size"):
        as_rows(X, Y, weights=np.ones(40), public_size=39)
    rounded = as_rows(X, Y, weights=np.full(40, 1 / 3), public_size=14).weights
    assert (rounded * 2**30 == np.floor(2**30 / 3)).all()


def test_batches_of_weighted_rows_are_refused_before_anything_is_charged():
    rows = as_rows(X, Y, weights=WEIGHTS, public_size=50)
    with pytest.raises(NotSupported, match="'agd'"):
        rows.descend(weights_of(rows), Logistic(), order=[[0]], steps=[1.0], clip=1.0)
    account = Account(Budget(1.0, 1e-6, "replace_one"), unit=rows.unit)
    curator = Curator(rows, account, Noise(SeededBits(0)))
    curator.open("gdp")
    assert curator.n_rows == 50
    with pytest.raises(NotSupported, match="weights"):
        curator.descend(
            Descent(Logistic(), weights_of(rows), clip=1.0, step_sizes=np.ones(50), order="pass"),
            Gaussian(1.0),
        )
    assert curator.spent_share == 0


def test_squares_of_roots_are_at_most_the_weights():
    """In rational numbers, with the rounding of a product with a scale (summation.md, part 2)."""
    weights = np.floor(np.random.default_rng(2).random(2000) * 2**30) / 2**30
    rows = as_rows(np.ones((2000, 1)), np.ones(2000), weights=weights, public_size=2000)
    roots = rows.weighted(slice(0, 2000), np.ones(2000), root=True)
    for weight, root in zip(weights, roots, strict=True):
        lifted = Fraction(float(root)) * (1 + Fraction(1, 2**53)) ** 3
        assert lifted**2 <= Fraction(float(weight))
