"""Checks of a question's arguments: before anything is charged, and without quoting a row."""

from __future__ import annotations

import math

import numpy as np

from discreet.core.curator.protocols import FloatArray

__all__ = ["check_clip", "check_kind", "finite", "positive"]

CLIPS = (1e-100, 1e100)
"""Clips that sums over rows can take; see docs/proofs/summation.md."""


def finite(name: str, value: FloatArray) -> FloatArray:
    """Return an argument as doubles; refuse NaN and infinity."""
    array = np.asarray(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity; the question was not answered.")
    return array


def positive(name: str, value: float) -> float:
    """Return a positive finite number as a double."""
    number = float(value)  # a double: narrower types would round sensitivities too coarsely
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be > 0 and finite; got {value!r}.")
    return number


def check_clip(clip: float) -> float:
    """Return a clip as a double, within what sums over rows can take."""
    number = float(clip)
    if not CLIPS[0] <= number <= CLIPS[1]:
        raise ValueError(
            f"clip must be between {CLIPS[0]:g} and {CLIPS[1]:g}; got {clip!r}. "
            "A usual choice is 3."
        )
    return number


def check_kind(mechanism: object, kind: type) -> None:
    """Refuse a mechanism whose noise does not fit the question's sensitivity, before charging."""
    if not isinstance(mechanism, kind):
        raise TypeError(
            f"this question needs a {kind.__name__} mechanism; got {type(mechanism).__name__}."
        )
