"""Texts that differ between neighbours are seen, also where things go wrong."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from .all import hard_neighbours, messages, messages_on_hard_tables
from .tables import NEIGHBOURS, OTHERS, TABLE, logistic, named

OURS = [*(logistic(name) for name in ("auto", "outpert", "objpert", "amp")), *OTHERS]


@pytest.mark.parametrize("estimator", OURS, ids=named)
def test_ours_say_the_same(estimator):
    found = messages(estimator, NEIGHBOURS)
    assert found.passed, found
    found = messages_on_hard_tables(estimator, TABLE)
    assert found.passed, found


def test_progress_is_recorded():
    assert "messages" in messages(logistic("gd"), NEIGHBOURS).text
    assert "The same 1 messages" not in messages(logistic("gd"), NEIGHBOURS).text


class Careless(BaseEstimator):
    """Says too much about one kind of row."""

    def __init__(self, bug=""):
        self.bug = bug

    def fit(self, X, y):
        X = np.asarray(X)
        bad = np.flatnonzero(~np.isfinite(X).all(axis=1))
        if bad.size:
            raise ValueError(f"row {bad[0]} is bad" if self.bug == "where" else "a row is bad")
        with np.errstate(over="warn" if self.bug == "overflow" else "ignore"):
            squares = (X * X).sum(axis=0)
        if self.bug == "constant" and np.any(np.ptp(X, axis=0) == 0):
            warnings.warn("a column is constant", UserWarning, stacklevel=2)
        if self.bug == "zero" and np.any(squares == 0):
            raise ZeroDivisionError("a column has no length")
        if self.bug == "target" and len(np.unique(y)) < 2:
            raise ValueError("y has one value only")
        if self.bug == "cause" and X[-1, 0] == 0:
            raise RuntimeError("failed") from ValueError("a zero")
        if self.bug == "cause":
            raise RuntimeError("failed")
        self.coef_ = np.random.default_rng().normal(size=X.shape[1])
        return self


def test_a_careful_one_passes():
    assert messages_on_hard_tables(Careless(), TABLE).passed


@pytest.mark.parametrize("bug", ["where", "overflow", "constant", "zero", "target", "cause"])
def test_careless_ones_are_seen(bug):
    found = messages_on_hard_tables(Careless(bug), TABLE)
    assert not found.passed
    assert "the budget does not cover" in found.text


def test_labels_that_are_not_declared_are_seen():
    """The set of labels is public; messages differ between one label and two."""
    X, y = TABLE
    one = np.zeros_like(y)
    two = one.copy()
    two[-1] = 1
    declared = logistic("outpert")
    assert messages(declared, ((X, one), (X, two))).passed
    assert not messages(logistic("outpert", classes=None), ((X, one), (X, two))).passed


def test_hard_neighbours_differ_in_one_row():
    for estimator in (OURS[0], OTHERS[1]):
        for name, ((X, y), (X2, y2)) in hard_neighbours(estimator, TABLE):
            apart = (X != X2).any(axis=1) | (y != y2)
            broken = np.isnan(X).any(axis=1) | np.isnan(X2).any(axis=1)
            assert (apart & ~broken).sum() + broken.any() == 1, name
