"""Checks of what callers pass. No message shows a number that depends on the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Checked", "Vector", "check_clip", "check_steps", "check_targets", "check_vector"]

Vector = NDArray[np.float64]

CLIP_RANGE = (1e-100, 1e100)
"""Clips outside this range could underflow or overflow."""


class Checked(NamedTuple):
    """Targets that were checked and that nobody else writes to: rows share them."""

    values: Vector


def check_targets(y: ArrayLike | Checked, n_rows: int) -> Vector:
    """Return targets as a new float64 array, or those that were checked before as they are."""
    if isinstance(y, Checked):
        return y.values
    array = np.asarray(y)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(
            "y must be a one-dimensional array of numbers; encode labels as -1 and 1 first."
        )
    if array.size != n_rows:
        raise ValueError(f"y must have one target for each of {n_rows} rows, not {array.size}.")
    targets = array.astype(np.float64)
    if not np.isfinite(targets).all():
        raise ValueError(
            "y must be finite; it has NaN or infinite entries. Remove those rows first."
        )
    return targets


def check_clip(clip: float) -> float:
    """Return a clip that is in range."""
    low, high = CLIP_RANGE
    if not low <= clip <= high:
        raise ValueError(
            f"clip must be between {low} and {high}, not {clip!r}. A usual choice is 3."
        )
    return float(clip)


def check_vector(name: str, vector: ArrayLike, size: int) -> Vector:
    """Return a vector of weights as a new array, which the caller cannot change later."""
    array = np.array(vector, dtype=np.float64)
    if array.shape != (size,):
        raise ValueError(
            f"{name} must have shape ({size},), one number for each feature and one for the "
            f"intercept if there is one; its shape is {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; it has NaN or infinite entries.")
    return array


def check_steps(steps: ArrayLike) -> Vector:
    """Return step sizes as a new array."""
    array = np.array(steps, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError(
            "steps must be a one-dimensional array of finite numbers, for example "
            "np.linspace(0, 2, 21)."
        )
    return array
