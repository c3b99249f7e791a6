"""Pairs are neighbours, and each of them is what its name says."""

import itertools

import numpy as np
import pytest

from discreet.audit.pairs import BEYOND, Pair, own, worst_cases
from discreet.core import Relation
from discreet.objectives import Huber, HuberHinge
from discreet.rows import as_rows
from discreet.rows.sums import gradient_sum

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
NORM = 0.7

KINDS = [
    {"relation": relation, "n_features": d, "regression": regression, "same_height": same}
    for relation, d, regression, same in itertools.product(
        (ADD, REPLACE), (1, 2, 3), (False, True), (False, True)
    )
]


def name_of(kind):
    return "-".join(str(value) for value in kind.values())


def pairs_of(kind):
    return worst_cases(norm=NORM, **kind)


def by_name(relation, name, **kind):
    (found,) = [pair for pair in worst_cases(relation, norm=NORM, **kind) if pair.name == name]
    return found


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_exactly_the_first_row_differs(kind):
    for pair in pairs_of(kind):
        (X, y), (other, other_y) = pair.tables
        shorter = kind["relation"] is ADD and not kind["same_height"]
        assert len(X) == len(y) == 6 - shorter
        assert other.shape == (6, kind["n_features"])
        assert other_y.shape == (6,)
        np.testing.assert_array_equal(X[-5:], other[1:])
        np.testing.assert_array_equal(y[-5:], other_y[1:])
        if not shorter:
            assert not (np.array_equal(X[0], other[0]) and y[0] == other_y[0])
        assert (pair.n_rows, pair.n_features) == (6, kind["n_features"])
        assert pair.relation is kind["relation"]


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_names_tell_pairs_apart_and_none_is_missing(kind):
    names = [pair.name for pair in pairs_of(kind)]
    assert len(set(names)) == len(names)
    wanted = {"one row alone", "one row far beyond the norm bound"}
    if kind["n_features"] > 1:
        wanted.add("one row orthogonal to the others")
    if kind["relation"] is REPLACE:
        wanted.add("one row's label")
    if kind["relation"] is REPLACE or not kind["same_height"]:
        wanted |= {"one row that moves only the intercept", "one row with an intercept"}
    assert set(names) == wanted


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_only_pairs_named_so_have_an_intercept(kind):
    for pair in pairs_of(kind):
        assert pair.fit_intercept == ("intercept" in pair.name)
        assert pair.direction.shape == (kind["n_features"] + pair.fit_intercept,)


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_targets_are_what_the_task_takes(kind):
    for pair in pairs_of(kind):
        for X, y in pair.tables:
            if kind["regression"]:
                assert np.abs(y).max() <= 1
            else:
                assert set(y) == {-1.0, 1.0}
            assert np.isfinite(X).all()


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_the_direction_is_where_the_changed_row_pulls(kind):
    """It is that of the difference between the two tables' clipped gradients at zero."""
    loss = Huber(1.0) if kind["regression"] else HuberHinge()
    for pair in pairs_of(kind):
        sums = []
        for X, y in pair.tables:
            rows = as_rows(X, y, fit_intercept=pair.fit_intercept, row_norm=NORM)
            sums.append(-gradient_sum(rows, np.zeros(pair.direction.size), loss, 10.0).values)
        pull = sums[1] - sums[0]
        assert np.linalg.norm(pair.direction) == pytest.approx(1, rel=1e-12)
        np.testing.assert_allclose(pull / np.linalg.norm(pull), pair.direction, atol=1e-9)
        # as far as one row can move it: by its whole bound, twice if it is replaced
        longest = 1.0 if pair.name.endswith("moves only the intercept") else NORM
        longest = np.hypot(NORM, 1) if pair.name == "one row with an intercept" else longest
        turned = 2 if kind["relation"] is REPLACE else 1
        assert np.linalg.norm(pull) == pytest.approx(turned * longest, rel=1e-9)


def test_the_others_are_at_right_angles_and_of_both_classes():
    for relation in (ADD, REPLACE):
        pair = by_name(relation, "one row orthogonal to the others", n_features=3)
        X, y = pair.tables[1]
        assert np.linalg.norm(X[0]) == NORM
        np.testing.assert_array_equal(X[1:] @ X[0], 0)
        assert np.linalg.norm(X[1:], axis=1).min() > 0
        assert set(y[1:]) == {-1.0, 1.0}


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_one_row_is_far_beyond_the_bound_and_no_other(relation):
    pair = by_name(relation, "one row far beyond the norm bound")
    X, _ = pair.tables[1]
    lengths = np.linalg.norm(X, axis=1)
    assert lengths[0] == pytest.approx(BEYOND * NORM)
    assert lengths[1:].max() <= NORM


def test_a_label_alone_is_turned():
    pair = by_name(REPLACE, "one row's label")
    (X, y), (other, other_y) = pair.tables
    np.testing.assert_array_equal(X, other)
    assert (y[0], other_y[0]) == (-1, 1)


def test_only_the_intercept_matters_where_features_are_zero():
    for relation in (ADD, REPLACE):
        pair = by_name(relation, "one row that moves only the intercept")
        assert not any(X.any() for X, _ in pair.tables)


def test_a_row_of_zeros_stands_for_the_missing_one():
    for pair in worst_cases(ADD, norm=NORM, same_height=True):
        X, y = pair.tables[0]
        assert not X[0].any()
        assert not pair.fit_intercept
        assert y[0] == 1
    for pair in worst_cases(ADD, norm=NORM, same_height=True, regression=True):
        assert pair.tables[0][1][0] == 0


def test_sizes_and_relations_as_words():
    pair = worst_cases("add_remove", norm=2.0, n_units=9, n_features=4)[0]
    assert (pair.n_rows, pair.n_features, pair.relation) == (9, 4, ADD)
    assert pair.tables[1][0][0].tolist() == [2, 0, 0, 0]


TABLE = (np.eye(3), np.array([1.0, -1.0, 1.0]))


@pytest.mark.parametrize(
    ("relation", "other", "match"),
    [
        (REPLACE, TABLE, "exactly one row"),
        (REPLACE, (np.eye(3)[::-1], TABLE[1]), "exactly one row"),
        (REPLACE, (np.eye(3), -TABLE[1]), "exactly one row"),
        (REPLACE, (np.vstack([np.ones(3), np.eye(3)]), np.ones(4)), "as many rows"),
        (REPLACE, (np.eye(3)[:2], TABLE[1][:2]), "as many rows"),
        (ADD, (np.vstack([np.eye(3), np.ones(3)]), np.append(TABLE[1], 1.0)), "exactly one row"),
        (ADD, (np.vstack([np.ones(3), np.eye(3)]), np.ones(4)), "exactly one row"),
        (ADD, (np.vstack([np.eye(3), np.eye(3)]), np.ones(6)), "as many rows"),
        (ADD, (np.ones((3, 2)), TABLE[1]), "as many rows"),
    ],
)
def test_what_are_no_neighbours_is_refused(relation, other, match):
    with pytest.raises(ValueError, match=match):
        Pair("no pair", relation, (TABLE, other), np.array([1.0, 0.0, 0.0]))


def test_neighbours_are_taken():
    longer = (np.vstack([np.ones(3), np.eye(3)]), np.append(1.0, TABLE[1]))
    assert Pair("a row", ADD, (TABLE, longer), np.ones(3)).n_rows == 4
    turned = (np.eye(3), np.array([1.0, 1.0, 1.0]))
    assert Pair("a label", REPLACE, (TABLE, turned), np.ones(3)).n_rows == 3


def test_a_callers_tables():
    X, y = TABLE
    other = X.copy()
    other[2] = [0.0, 3.0, 1.0]
    pair = own(((X.tolist(), y.tolist()), (other, y)), fit_intercept=False)
    assert pair.relation is REPLACE
    assert pair.name == "the caller's tables"
    np.testing.assert_allclose(pair.direction, [0, 1, 0])
    assert pair.tables[0][0].dtype == np.float64
    assert not pair.fit_intercept


def test_a_callers_label_moves_the_intercept_too():
    X, y = TABLE
    turned = np.array([1.0, 1.0, 1.0])
    pair = own(((X, y), (X, turned)), fit_intercept=True)
    assert pair.fit_intercept
    np.testing.assert_allclose(pair.direction, np.array([0, 1, 0, 1]) / np.sqrt(2))


def test_a_callers_row_that_pulls_nowhere_has_no_direction():
    X, y = TABLE
    other, other_y = X.copy(), y.copy()
    other[0], other_y[0] = -X[0], -y[0]  # the same row to a model without an intercept
    pair = own(((X, y), (other, other_y)), fit_intercept=False)
    np.testing.assert_array_equal(pair.direction, 0)


def test_a_callers_tables_have_one_shape_and_differ_in_one_row():
    X, y = TABLE
    with pytest.raises(ValueError, match="number of rows is public"):
        own(((X[1:], y[1:]), (X, y)), fit_intercept=False)
    with pytest.raises(ValueError, match="exactly one row"):
        own(((X, y), (X, y)), fit_intercept=False)
    with pytest.raises(ValueError, match="exactly one row"):
        own(((X, y), (X[::-1], y)), fit_intercept=False)
