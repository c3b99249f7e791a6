"""Losses of scores that have a known part: a second model corrects a first one."""

# ruff: noqa: D102  the methods are documented in Loss

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.objectives.losses import Logistic, Loss, Task, arrays
from discreet.validate import FloatArray

__all__ = ["LARGEST_OFFSET", "WithOffset", "with_offsets"]

LARGEST_OFFSET = 64.0
"""Size beyond which offsets are clipped: e^-64 is below the rounding of a probability."""


def with_offsets(targets: FloatArray, offsets: FloatArray) -> FloatArray:
    """Return targets y·(128 + o) for targets y of ±1 and offsets o, clipped to ±64."""
    known = np.clip(np.nan_to_num(offsets, nan=0.0), -LARGEST_OFFSET, LARGEST_OFFSET)
    return np.asarray(np.sign(targets) * (2 * LARGEST_OFFSET + known))


@dataclass(frozen=True)
class WithOffset(Loss):
    """A loss for two classes, at margins m + o; targets carry the offsets (`with_offsets`)."""

    base: Logistic
    name: ClassVar[str] = "offset"
    task: ClassVar[Task] = "classification"
    dispersion: ClassVar[float | None] = 1.0  # that of the logistic loss, the base of all offsets

    @property
    def slope_bound(self) -> float:
        return self.base.slope_bound

    @property
    def curvature_bound(self) -> float | None:
        return self.base.curvature_bound

    def _of(self, margin: ArrayLike, target: ArrayLike) -> tuple[FloatArray, FloatArray]:
        margins, targets = arrays(margin, target)
        return margins + (np.abs(targets) - 2 * LARGEST_OFFSET), np.sign(targets)

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        return self.base.value(*self._of(margin, target))

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        return self.base.derivative(*self._of(margin, target))

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        return self.base.second_derivative(*self._of(margin, target))
