"""Messages are data of a closed list: what is not on it is neither sent nor made."""

import contextlib
from dataclasses import fields
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.core import ExponentialMechanism, Gaussian, questions
from discreet.core.questions import Gradient, MedianNorm, ScoreSum, TargetMoment
from discreet.errors import PrivacyError
from discreet.estimators.classifiers import _one_of, label_codes
from discreet.inference.checks import AtBound, CutSlopes, LargeSlope
from discreet.objectives import Huber, Logistic, MulticlassHinge, Softmax, Squared
from discreet.objectives.losses import Loss
from discreet.preparation import FittedBounds, Splines
from discreet.preparation.pipeline import Written
from discreet.rows import AffineMap
from discreet.sites import Terms, wire
from discreet.sites.shares import MedianCounts

MAP = AffineMap.in_units(np.array([2.0, 4.0])).then(np.eye(2), np.ones(2))

VALUES = [
    {"a": None, "b": [True, 1, 2.5, float("inf"), "text", b"bytes"], 3: (1, (2,))},
    Gradient(Huber(0.5), np.arange(3.0), 2.0),
    ScoreSum(AtBound(-1.0, 1.0), np.zeros(2), 1.0),
    CutSlopes(LargeSlope(Huber(0.5), 0.1), 0.5),
    Gradient(Softmax(3), np.arange(6.0), 2.0),
    TargetMoment(2.0, 0.5, 1.0),
    MedianCounts(MedianNorm(4.0)),
    Gaussian(3.5),
    ExponentialMechanism(0.1, monotone=False),
    Logistic(),
    Squared(),
    MulticlassHinge(3, Huber(1.0)),
    MAP,
    Written(MAP),
    FittedBounds((0, 2), np.zeros(2), np.ones(2)),
    Splines((1,), np.zeros(1), np.ones(1), (4,), (3,)),
    Terms("ab", "secure", 1, ("x", "y"), (10, 20), "row", 1.0, 1e-6, "add_remove"),
    np.arange(6, dtype=np.uint64).reshape(2, 3),
    np.array(["no", "yes"]),
    np.float32([1.5]),
]


LEFT_OUT = {"WithOffset"}  # offsets come from a first model of the rows, which sites have not
"""Losses that no site is asked with."""


def kinds_of(base):
    """Yield all classes below a class."""
    for kind in base.__subclasses__():
        yield kind
        yield from kinds_of(kind)


def test_every_loss_and_every_plain_sum_is_on_the_list():
    """A new one that is left out would end a fit over sites alone."""
    losses = {
        kind.__name__: kind
        for kind in kinds_of(Loss)
        if kind.__module__.startswith(("discreet.objectives", "discreet.inference"))
    }
    sums = {
        kind.__name__: kind
        for kind in kinds_of(questions.SumQuestion)
        if kind.__module__ == questions.__name__ and kind.release is questions.SumQuestion.release
    }
    assert {"AtBound", "Huber", "Softmax"} <= set(losses)
    assert {"Gradient", "ScoreVariances"} <= set(sums)
    for name, kind in (losses | sums).items():
        left_out = name.startswith("_") or name in LEFT_OUT
        assert left_out or wire.TYPES.get(name) is kind, name


def same(one, other):
    """Return whether two values are equal, field by field."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return one == other


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_message_arrives_as_it_was_sent(value):
    assert same(wire.decode(wire.encode(value)), value)


def test_rules_of_targets_arrive():
    sent = partial(label_codes, declared=np.array(["no", "yes"]))
    found = wire.decode(wire.encode(sent))
    np.testing.assert_array_equal(found(np.array(["yes", "no"])), [1, 0])
    one = wire.decode(wire.encode(partial(_one_of, code=1)))
    np.testing.assert_array_equal(one(np.array([1, 0])), [1.0, -1.0])
    numbers = wire.decode(wire.encode(partial(np.asarray, dtype=np.float64)))
    assert numbers(np.array([1], dtype=np.int8)).dtype == np.float64


@pytest.mark.parametrize(
    "value",
    [
        object(),
        np.array([object()]),
        partial(print, "text"),
        partial(label_codes, np.zeros(1)),
        Exception("text"),
    ],
)
def test_what_is_not_on_the_list_is_not_sent(value):
    with pytest.raises(PrivacyError, match=r"cannot be sent|do not know"):
        wire.encode(value)


def made(content):
    """Return the bytes of plain content."""
    return wire.msgspec.msgpack.encode(content)


@pytest.mark.parametrize(
    "content",
    [
        {"type": "Budget", "fields": {}},
        {"type": "os.system", "fields": {"command": "id"}},
        {"rule": "eval", "settings": {"dict": []}},
        {"array": "|O", "shape": [1], "bytes": b"12345678"},
        {"array": "|V8", "shape": [1], "bytes": b"12345678"},
        {"other": 1},
        {"type": "Gaussian", "fields": {"unknown": 1}},
    ],
)
def test_what_is_not_on_the_list_is_not_made(content):
    with pytest.raises((PrivacyError, ValueError)):
        wire.decode(made(content))


def test_fields_are_checked_when_they_arrive():
    with pytest.raises(ValueError, match="clip must be"):
        wire.decode(
            made(
                {
                    "type": "RowSum",
                    "fields": {"clip": -1.0},
                }
            )
        )


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_raise_no_other_error(content):
    with contextlib.suppress(PrivacyError, ValueError):
        wire.decode(content)
