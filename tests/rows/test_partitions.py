"""Rows in partitions answer like one table, and an engine that miscounts is refused."""

import pickle
import random
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.core import Account, Budget, Curator, Gaussian
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import Gradient
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Huber, Logistic
from discreet.rows import AffineMap, Block, as_rows, partitioned_rows

from .questions import (
    EVERYTHING,
    GENERAL,
    MAPS,
    Threads,
    along,
    exact,
    numbers,
    table,
    weights_of,
)

X, Y, WEIGHTS = table(90, seed=5)
EDGES = (0, 1, 2, 2, 40, 41, 90)  # partitions of one row, and one without any


def blocks(convert=np.asarray, weighted=False, edges=EDGES):
    pairs = pairwise(edges)
    return [
        Block(k, convert(X[a:b]), Y[a:b], WEIGHTS[a:b] if weighted else None)
        for k, (a, b) in enumerate(pairs)
    ]


def both(convert=np.asarray, weighted=False, engine=None, **settings):
    """Return a table in one place and in partitions."""
    settings = {"row_norm": 1.5, "public_size": 90} | settings
    whole = as_rows(convert(X), Y, weights=WEIGHTS if weighted else None, **settings)
    return whole, partitioned_rows(engine or Threads(), blocks(convert, weighted), **settings)


@cache
def kept(convert, weighted):
    return both(convert, weighted)


@pytest.mark.parametrize("name", EVERYTHING)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_every_question_is_answered_like_one_table(convert, weighted, name):
    whole, parts = kept(convert, weighted)
    one, two = EVERYTHING[name](whole), EVERYTHING[name](parts)
    np.testing.assert_allclose(numbers(two), numbers(one), rtol=1e-12, atol=1e-12)
    if hasattr(one, "error"):
        assert two.error == one.error
    if hasattr(one, "unit"):
        assert np.array_equal(one.values, two.values)


@pytest.mark.parametrize("name", GENERAL)
@pytest.mark.parametrize("move", MAPS)
def test_derived_partitions_are_those_of_derived_rows(move, name):
    for whole, parts in (kept(np.asarray, True), kept(sp.csr_array, False)):
        settings = {"fit_intercept": False, "row_norm": 1.2}
        one = whole.transformed(MAPS[move], **settings)
        two = parts.transformed(MAPS[move], **settings)
        assert all(getattr(two, k) == v for k, v in one.public_facts.items())
        want = numbers(GENERAL[name](one))
        np.testing.assert_allclose(numbers(GENERAL[name](two)), want, rtol=1e-12, atol=1e-12)


def test_partitions_in_units_are_rows_in_units():
    units = np.exp2([3, 0, -2, 1, 5])
    map = replace(AffineMap.in_units(units), row_norm=4.0).then(0.5)
    found = both(np.asarray, True, row_norm=None, fit_intercept=False)
    whole, parts = (rows.with_units(units).with_row_norm(4.0) for rows in found)
    for name in GENERAL:
        one, two = (r.transformed(map, fit_intercept=False, row_norm=1.2) for r in (whole, parts))
        want = numbers(GENERAL[name](one))
        np.testing.assert_allclose(numbers(GENERAL[name](two)), want, rtol=1e-12, atol=1e-12)


def minus(y):
    return -y


def test_targets_columns_and_certified_gradients():
    whole, parts = kept(np.asarray, False)
    at, linear = weights_of(whole), along(whole)
    pairs = [(whole.with_targets(-Y), parts.with_targets(minus))]
    pairs += [(whole.columns(np.array([0, 3]), 2.0), parts.columns(np.array([0, 3]), 2.0))]
    pairs += [(whole.within_reach(), parts.within_reach())]
    for one, two in pairs:
        want = exact(one, Gradient(Logistic(), weights_of(one), 0.7)).values
        got = exact(two, Gradient(Logistic(), weights_of(one), 0.7)).values
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    for rest in (None, 1e-17 * at):
        question = (at, Huber(0.5), 9.0, 0.3, linear, rest)
        (one, bound), (two, other) = (rows.perturbed_gradient(*question) for rows in (whole, parts))
        np.testing.assert_allclose(two, one, rtol=1e-12, atol=1e-12)
        assert other == pytest.approx(bound, rel=1e-12)
    question = (1e100 * at, Huber(0.5), 9.0, 0.3, linear)
    assert parts.perturbed_gradient(*question)[1] == np.inf


def test_a_sample_of_partitions_is_that_of_the_rows():
    whole, parts = kept(np.asarray, False)
    for rate in (0.0, 0.3, 1.0):
        one, two = (rows.sample(rate, np.random.default_rng(5)) for rows in (whole, parts))
        assert two.public_size == whole.public_size
        assert sum(two.answers("n_rows")) == one.n_rows
        want = exact(one, Gradient(Logistic(), weights_of(one), 0.7))
        got = exact(two, Gradient(Logistic(), weights_of(one), 0.7))
        np.testing.assert_allclose(got.values, want.values, rtol=1e-12, atol=1e-12)
        assert got.error == want.error


def test_what_needs_single_rows_is_refused():
    _, parts = kept(np.asarray, False)
    calls = [parts.check_batches, lambda: parts.take(np.arange(3)), lambda: parts.batch_error(1, 1)]
    for call in [*calls, lambda: parts.descend(0, 0)]:
        with pytest.raises(NotSupported, match="'agd'"):
            call()
    curator = Curator(parts, Account(Budget(1.0, 1e-6, "add_remove")), Noise(SeededBits(0)))
    curator.open("gdp")
    noisy = curator.ask(Gradient(Logistic(), np.zeros(6), 1.0), Gaussian(50.0))
    assert noisy.values.shape == (6,)


class Shuffled(Threads):
    """An engine whose answers come in another order each time."""

    order = random.Random(4)

    def map(self, task, parts):
        answers = super().map(task, parts)
        self.order.shuffle(answers)
        return answers


@pytest.mark.parametrize("name", EVERYTHING)
def test_the_order_of_completion_does_not_matter(name):
    answers = [numbers(EVERYTHING[name](both(engine=e)[1])) for e in (Threads(), Threads(4))]
    _, shuffled = both(engine=Shuffled())
    answers += [numbers(EVERYTHING[name](shuffled)) for _ in range(3)]
    assert all(np.array_equal(answers[0], other) for other in answers[1:])


class Broken:
    """An engine that can be told to misbehave."""

    fault, before = "", ()

    def map(self, task, parts):
        answers = [(part.id, task(part)) for part in parts]
        stale, self.before = self.before, answers
        match self.fault:
            case "twice":
                return [*answers, answers[4]]
            case "twice, not once":
                return [*answers[:4], answers[3], *answers[5:]]
            case "dropped":
                return answers[:-1]
            case "unknown":
                return [*answers, (6, answers[3][1]._replace(id=6))]
            case "under another name":
                return [*answers[:4], (4, answers[3][1]), *answers[5:]]
            case "stale":
                return [stale[0], *answers[1:]]
            case "older rows":
                return [(0, task(self.first)), *answers[1:]]
            case "other error":
                [value] = answers[0][1].value
                reply = answers[0][1]._replace(value=[value._replace(error=0.0)])
                return [(0, reply), *answers[1:]]
            case "not a reply":
                return [(0, answers[0][1].value), *answers[1:]]
        return answers

    def derive(self, task, parts):
        self.first = parts[0]
        return [task(part) for part in parts]


FAULTS = ["twice", "twice, not once", "dropped", "unknown", "under another name", "stale"]


@pytest.mark.parametrize("fault", [*FAULTS, "older rows", "other error", "not a reply"])
def test_an_engine_that_miscounts_is_refused(fault):
    engine = Broken()
    _, parts = both(engine=engine)
    parts = parts.with_targets(minus)
    first = exact(parts, Gradient(Logistic(), weights_of(parts), 0.7))
    engine.fault = fault
    with pytest.raises(PrivacyError):
        exact(parts, Gradient(Logistic(), weights_of(parts) / 2, 0.7))
    engine.fault = ""
    again = exact(parts, Gradient(Logistic(), weights_of(parts), 0.7))
    np.testing.assert_allclose(again.values, first.values, rtol=1e-12)


def test_partitions_that_are_more_than_the_public_size_are_refused():
    for weighted, size in ((False, 89), (True, int(WEIGHTS.sum()) - 1)):
        with pytest.raises(PrivacyError, match="more than public_size"):
            partitioned_rows(Threads(), blocks(weighted=weighted), public_size=size)
    with pytest.raises(ValueError, match="at least one partition"):
        partitioned_rows(Threads(), [], public_size=3)
    mixed = blocks()
    mixed[3] = mixed[3]._replace(X=mixed[3].X[:, :4])
    with pytest.raises(PrivacyError, match="disagree"):
        partitioned_rows(Threads(), mixed, public_size=90)
    swapped = blocks()
    swapped[3] = swapped[3]._replace(id=4)
    with pytest.raises(PrivacyError, match="answered twice"):
        partitioned_rows(Threads(), swapped, public_size=90)


class Pickled(Threads):
    """An engine that pickles everything on its way."""

    def map(self, task, parts):
        task = pickle.loads(pickle.dumps(task))
        return pickle.loads(pickle.dumps([(part.id, task(part)) for part in parts]))

    def derive(self, task, parts):
        return [pickle.loads(pickle.dumps(task))(part) for part in parts]


def test_tasks_and_answers_can_be_sent_elsewhere():
    whole, parts = both(engine=Pickled())
    parts = parts.with_targets(minus)
    want = exact(whole.with_targets(-Y), Gradient(Logistic(), weights_of(whole), 0.7))
    got = exact(parts, Gradient(Logistic(), weights_of(whole), 0.7))
    np.testing.assert_allclose(got.values, want.values, rtol=1e-12)
    parts.release()
