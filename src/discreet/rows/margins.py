"""Margins that rows remember: at the last weights, and along the last line.

The keys are public: weights, directions and steps that callers passed. Neither is ever modified, so
copies of rows may share them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.rows.checks import Vector

__all__ = ["Line", "Point"]


class Point(NamedTuple):
    """Weights, and the margins of all rows at them."""

    weights: Vector
    margins: Vector


class Line(NamedTuple):
    """A line of weights, and how the margins of all rows change along it."""

    start: Point
    steps: Vector
    direction: Vector
    changes: Vector

    def find(self, weights: Vector) -> int | None:
        """Return k such that ``weights`` is exactly the point at ``steps[k]``, if there is one."""
        at = np.argmax(np.abs(self.direction))  # one coordinate rules out most steps
        along = self.start.weights[at] - self.steps * self.direction[at]
        likely = np.flatnonzero(along == weights[at])
        points = self.start.weights - self.steps[likely, None] * self.direction
        hits = likely[(points == weights).all(axis=1)]
        return int(hits[0]) if hits.size else None
