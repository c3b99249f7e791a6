"""Losses of scores that have a known part: a second model corrects a first one."""

# ruff: noqa: D102  the methods are documented in Loss

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.objectives.losses import Loss, Task
from discreet.validate import FloatArray

__all__ = ["LARGEST_OFFSET", "WithOffset", "with_offsets"]

LARGEST_OFFSET = 64.0
"""Size beyond which offsets are clipped: e^-64 is below the rounding of a probability."""


def with_offsets(targets: ArrayLike, offsets: FloatArray) -> FloatArray:
    """Return targets with their offsets beside them, clipped to ±64: (n, 1 + n_outputs)."""
    known = np.clip(np.nan_to_num(offsets, nan=0.0), -LARGEST_OFFSET, LARGEST_OFFSET)
    return np.column_stack([np.asarray(targets, dtype=np.float64), known])


@dataclass(frozen=True)
class WithOffset(Loss):
    """A loss at margins m + o; the offsets o follow the target of a row (`with_offsets`)."""

    base: Loss
    name: ClassVar[str] = "offset"
    task: ClassVar[Task] = "classification"
    dispersion: ClassVar[float | None] = 1.0  # that of the logistic loss, the base of inference

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_outputs", self.base.n_outputs)

    @property
    def slope_bound(self) -> float:
        return self.base.slope_bound

    @property
    def curvature_bound(self) -> float | None:
        return self.base.curvature_bound

    def _of(self, margin: ArrayLike, target: ArrayLike) -> tuple[FloatArray, Any]:
        given = np.asarray(target, dtype=np.float64)
        margins = np.asarray(margin, dtype=np.float64)
        several = self.n_outputs > 1
        rows = margins.shape[:-1] if several else margins.shape
        if given.shape != (*rows, 1 + self.n_outputs):
            raise ValueError("targets with offsets need with_offsets, and a row for each margin.")
        return margins + (given[..., 1:] if several else given[..., 1]), given[..., 0]

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        return self.base.value(*self._of(margin, target))

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        return self.base.derivative(*self._of(margin, target))

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        return self.base.second_derivative(*self._of(margin, target))
