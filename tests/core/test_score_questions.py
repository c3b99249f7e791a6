"""Questions about scored rows: sensitivities on neighbours, charges before scores, exact totals."""

import math

import numpy as np
import pytest

from discreet.core import Budget, Gaussian, Laplace, Relation
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import Public
from discreet.core.score_questions import CellCounts, CorrectCount, ErrorSums
from discreet.core.session import Session
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.rows.scored import scored_rows
from discreet.rows.sums import Sum

RELATIONS = [Relation.ADD_REMOVE, Relation.REPLACE_ONE]
EDGES = np.array([-0.5, 0.0, 0.5])
QUESTIONS = {
    "correct": (CorrectCount(), 2),
    "confusion": (CellCounts.confusion(3), 1),
    "cells": (CellCounts(3, EDGES), 1),
    "errors": (ErrorSums(-1.0, 2.0), 1),
}
"""Questions, and the norm of their sensitivity."""


def first_column(table):
    """Score a row by its first column."""
    return table[:, 0]


def made(scores, targets, groups=None):
    return scored_rows(
        np.asarray(scores, float)[:, None], np.asarray(targets), first_column, groups
    )


def distance(question, norm, *tables):
    one, other = (question.on(made(*table)).values for table in tables)
    return np.linalg.norm(one - other, norm)


def worst_row(rng, name):
    """A score and a target; for errors and codes, often at an extreme."""
    if name in ("correct", "confusion"):
        return float(rng.integers(3)), int(rng.integers(3))
    return float(rng.choice([-np.inf, np.nan, np.inf, -1.0, 0.3, 2.0])), int(rng.integers(3))


# -- sensitivities


@pytest.mark.parametrize("name", QUESTIONS)
def test_one_row_moves_the_totals_by_the_sensitivity_and_no_further(name):
    question, norm = QUESTIONS[name]
    rng = np.random.default_rng(0)
    scores, targets = rng.uniform(-2, 3, 40), rng.integers(0, 3, 40)
    if name in ("correct", "confusion"):
        scores = rng.integers(0, 3, 40).astype(float)
    furthest = dict.fromkeys(RELATIONS, 0.0)
    for _ in range(200):
        own, others = worst_row(rng, name), worst_row(rng, name)
        with_own = np.append(scores, own[0]), np.append(targets, own[1])
        with_other = np.append(scores, others[0]), np.append(targets, others[1])
        added = distance(question, norm, (scores, targets), with_own)
        replaced = distance(question, norm, with_own, with_other)
        furthest[RELATIONS[0]] = max(furthest[RELATIONS[0]], added)
        furthest[RELATIONS[1]] = max(furthest[RELATIONS[1]], replaced)
    for relation, moved in furthest.items():
        assert moved == pytest.approx(question.sensitivity(relation), abs=1e-8)
        assert moved <= question.sensitivity(relation)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_person_moves_the_totals_as_a_row_does(name):
    """A person of m rows, all of which are replaced or leave; other people have 1 to 5 rows."""
    question, norm = QUESTIONS[name]
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 12, 40)
    scores, targets = rng.integers(0, 3, 40).astype(float), rng.integers(0, 3, 40)
    for m in (1, 2, 3, 7, 300):
        for trial in range(20):
            rows = [worst_row(rng, name) for _ in range(m)]
            if trial == 0:  # all rows of the person at one extreme
                rows = [rows[0]] * m
            own = np.append(scores, [row[0] for row in rows])
            codes = np.append(targets, [row[1] for row in rows])
            people = np.append(ids, np.full(m, 99))
            other = own.copy(), codes.copy(), people
            other[0][40:], other[1][40:] = worst_row(rng, name)
            pairs = {
                Relation.ADD_REMOVE: ((scores, targets, ids), (own, codes, people)),
                Relation.REPLACE_ONE: ((own, codes, people), other),
            }
            for relation, tables in pairs.items():
                moved = distance(question, norm, *tables)
                assert moved <= question.sensitivity(relation)


def test_sensitivities_by_hand():
    stated = {
        name: [question.sensitivity(relation) for relation in RELATIONS]
        for name, (question, _) in QUESTIONS.items()
    }
    assert stated == {
        "correct": [1.0, 1.0],
        "confusion": [1.0, 2.0],
        "cells": [1.0, 2.0],
        "errors": [2.0, 2.0],
    }


# -- noise


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_noise_has_the_scale_of_the_sensitivity(name, relation):
    question, _ = QUESTIONS[name]
    public = Public(relation, 1000, 1, 1, None)
    mechanism = Gaussian(3.0) if name == "correct" else Laplace(0.5)
    found = question.release(Sum(np.zeros(4), 0.0), mechanism, public, Noise(SeededBits(0)))
    sensitivity = question.sensitivity(relation)
    expected = 3.0 * sensitivity if name == "correct" else math.sqrt(2.0) * sensitivity / 0.5
    assert found.deviation == pytest.approx(expected, rel=1e-3)  # rounding to the grid, too
    rounded = question.release(Sum(np.zeros(4), 5.0), mechanism, public, Noise(SeededBits(0)))
    factor = (sensitivity + 10.0) / sensitivity
    assert rounded.deviation == pytest.approx(factor * expected, rel=1e-3)


def test_released_totals_have_the_stated_noise():
    """Mean |noise| of 4,000 Laplace draws of scale 4: 4 ± 0.38, six standard deviations."""
    rows = made(np.zeros(50), np.zeros(50, dtype=int))
    noise = []
    for seed in range(1000):
        session = Session(Budget(0.5, 0.0, "replace_one"), bits=SeededBits(seed))
        curator = session.curator(rows)
        curator.open("pure")
        noisy = curator.ask(CellCounts.confusion(2), Laplace(0.5)).values
        noise.append(noisy - [50, 0, 0, 0])
    assert np.mean(np.abs(noise)) == pytest.approx(4.0, abs=0.38)


def test_questions_take_their_own_mechanism_only():
    curator = Session(Budget(1.0, 1e-6, "add_remove")).curator(made([0.0], [0]))
    curator.open("zcdp")
    with pytest.raises(TypeError, match="CorrectCount needs a Gaussian"):
        curator.ask(CorrectCount(), Laplace(0.1))
    for question in (CellCounts.confusion(2), ErrorSums(0.0, 1.0)):
        with pytest.raises(TypeError, match="needs a Laplace"):
            curator.ask(question, Gaussian(10.0))
    assert curator.spent_share == 0.0


# -- charges


@pytest.mark.parametrize("groups", [None, [1, 1, 2]])
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_charge_comes_before_the_scores(name, groups):
    question, _ = QUESTIONS[name]
    mechanism = Gaussian(100.0) if name == "correct" else Laplace(0.01)
    seen = []

    def score(table):
        seen.append(curator.spent_share)
        return table[:, 0]

    rows = scored_rows(np.zeros((3, 1)), np.zeros(3, dtype=int), score, groups)
    unit = "row" if groups is None else "person"
    curator = Session(Budget(1.0, 1e-6, "add_remove"), unit).curator(rows)
    curator.open("zcdp")
    assert seen == []
    curator.ask(question, mechanism)
    assert len(seen) == 1
    assert seen[0] > 0


def test_rows_are_not_scored_for_a_question_that_cannot_be_paid():
    def score(table):
        pytest.fail("rows were scored")

    rows = scored_rows(np.zeros((3, 1)), np.zeros(3, dtype=int), score)
    curator = Session(Budget(0.1, 0.0, "add_remove")).curator(rows)
    curator.open("pure")
    with pytest.raises(BudgetExceeded):
        curator.ask(CellCounts.confusion(2), Laplace(1.0))


@pytest.mark.parametrize(("unit", "groups"), [("row", [1, 2]), ("person", None)])
def test_rows_of_another_unit_are_refused(unit, groups):
    with pytest.raises(PrivacyError, match="privacy unit"):
        Session(Budget(1.0, 0.0, "add_remove"), unit).curator(made([0, 0], [0, 0], groups))


# -- bad questions


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: CellCounts(0, EDGES), "n_classes"),
        (lambda: CellCounts(2, EDGES[::-1]), "increasing"),
        (lambda: CellCounts(2, np.array([0.0, np.inf])), "finite"),
        (lambda: ErrorSums(1.0, 1.0), "high must be above"),
        (lambda: ErrorSums(0.0, np.inf), "finite"),
    ],
)
def test_questions_that_make_no_sense_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()
