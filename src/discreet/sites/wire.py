"""Messages between a coordinator and sites: plain data of a closed list of types.

A message is MessagePack of numbers, texts, lists, arrays and the public dataclasses listed here.
Nothing is unpickled, and no name that a message has is imported: what is not on the list is
refused. Functions that make targets are on the list as well; each makes the target of a row from
that row's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from discreet import objectives, preparation
from discreet.core import ExponentialMechanism, Gaussian, LaplaceNoisyMax, PermuteAndFlip, questions
from discreet.errors import PrivacyError
from discreet.estimators.classifiers import _one_of, label_codes
from discreet.estimators.regressors import _in_units
from discreet.inference import checks
from discreet.preparation.pipeline import Written
from discreet.rows import AffineMap
from discreet.sites.shares import MedianCounts
from discreet.sites.terms import Terms

_QUESTIONS = (
    questions.Gradient,
    questions.RowSum,
    questions.SquareSum,
    questions.OuterSum,
    questions.TargetMoment,
    questions.TargetSum,
    questions.ClassCounts,
    questions.ExponentCounts,
    questions.EdgeCounts,
    questions.ScoreSum,
    questions.CurvatureSum,
    questions.ScoreSquareSum,
    questions.ScoreVariances,
    questions.LineLosses,
    questions.MedianNorm,
    questions.MedianSlope,
    questions.ColumnBounds,
    MedianCounts,
)

_MECHANISMS = (Gaussian, ExponentialMechanism, PermuteAndFlip, LaplaceNoisyMax)

_LOSSES = (*objectives.LOSSES.values(), objectives.Softmax, objectives.MulticlassHinge)

_INDICATORS = (
    checks.AtBound,
    checks.BeyondCut,
    checks.LargeSlope,
    checks.LargeCurvature,
    checks.CutSlopes,
)
"""Functions of margins and targets that inference sums in place of slopes of a loss."""

_MAPS = (
    AffineMap,
    Written,
    preparation.FittedBounds,
    preparation.FittedWindows,
    preparation.Splines,
    preparation.Fourier,
)

_KNOWN: tuple[Any, ...] = (*_QUESTIONS, *_MECHANISMS, *_LOSSES, *_INDICATORS, *_MAPS, Terms)

TYPES: dict[str, Any] = {kind.__name__: kind for kind in _KNOWN}
"""Dataclasses that a message may have, by name."""

RULES: dict[str, Callable[..., Any]] = {
    "label_codes": label_codes,
    "one_of": _one_of,
    "in_units": _in_units,
    "as_numbers": np.asarray,
}
"""Functions of targets that a message may have, by name: the target of a row is made of its own."""

_RULE_NAMES = {function: name for name, function in RULES.items()}

_KINDS = "biufU"
"""Kinds of arrays that a message may have: numbers and texts."""


def encode(value: Any) -> bytes:
    """Return the bytes of a message."""
    return msgspec.msgpack.encode(_plain(value))


def decode(message: bytes) -> Any:
    """Return the content of a message, or raise for anything that is not on the list."""
    try:
        return _made(msgspec.msgpack.decode(message))
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError) as error:
        raise PrivacyError(f"A message cannot be read ({type(error).__name__}).") from None


def _plain(value: Any) -> Any:
    """Return a value as lists, dictionaries and bytes with marks of what they were."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(each) for each in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(name), _plain(each)] for name, each in value.items()]}
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    if isinstance(value, partial):
        return _plain_rule(value)
    kind = type(value)
    if TYPES.get(kind.__name__) is not kind:
        raise PrivacyError(f"A {kind.__name__} cannot be sent to a site.")
    own = (each.name for each in fields(value) if each.init)
    return {"type": kind.__name__, "fields": {name: _plain(getattr(value, name)) for name in own}}


def _plain_array(value: NDArray[Any]) -> dict[str, Any]:
    if value.dtype.kind not in _KINDS:
        raise PrivacyError(f"An array of {value.dtype} cannot be sent to a site.")
    own = np.ascontiguousarray(value)
    return {"array": own.dtype.str, "shape": list(value.shape), "bytes": own.tobytes()}


def _plain_rule(value: partial[Any]) -> dict[str, Any]:
    name = _RULE_NAMES.get(value.func)
    if name is None or value.args:
        raise PrivacyError("A function that sites do not know cannot be sent to them.")
    settings = {key: each for key, each in value.keywords.items() if each is not np.float64}
    return {"rule": name, "settings": _plain(settings)}


def _made(value: Any) -> Any:
    """Return what `_plain` was given; constructors check their fields."""
    if isinstance(value, list):
        return [_made(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return _array(value)
    if "tuple" in value:
        return tuple(_made(each) for each in value["tuple"])
    if "dict" in value:
        return {_made(name): _made(each) for name, each in value["dict"]}
    if "rule" in value:
        settings = _made(value["settings"])
        if value["rule"] == "as_numbers":
            return partial(np.asarray, dtype=np.float64)
        return partial(RULES[value["rule"]], **settings)
    kind = TYPES[value["type"]]
    return kind(**{name: _made(each) for name, each in value["fields"].items()})


def _array(value: dict[str, Any]) -> NDArray[Any]:
    dtype = np.dtype(value["array"])
    if dtype.kind not in _KINDS:
        raise PrivacyError("A message has an array of a kind that is not allowed.")
    shape = tuple(int(size) for size in value["shape"])
    return np.frombuffer(value["bytes"], dtype=dtype).reshape(shape).copy()
