"""Newton's steps from the fitted weights to the estimate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from discreet.inference.evidence import Points
from discreet.inference.hessian import Hessian
from discreet.inference.means import Means
from discreet.inference.shares import PRECISION, SHARES
from discreet.objectives.advice import LIMIT
from discreet.validate import FloatArray

__all__ = ["SCORES", "Walk"]

SCORES = 3
"""Number of scores that are measured before and after the second Hessian. All but the first enter
the estimate, at the same cost each."""


@dataclass
class Walk:
    """Newton's steps from the fitted weights to the estimate, on a share that is ``left``.

    ``bent``: the curvature depends on the weights, as it does but in least squares.
    """

    asked: Means
    weights: FloatArray
    path: Points
    left: float
    bent: bool
    hessian: Hessian = field(init=False)
    deviation: float = math.inf
    inside: float = 1.0

    def measure(self, share: float) -> None:
        """Measure the Hessian at the weights; ask what the cut of slopes leaves of it."""
        self.hessian = self.asked.hessian(self.weights, share)
        self.left = self.left - share
        if self.asked.scored.inside:
            self.inside = self.asked.inside(self.weights, SHARES[0], self.hessian)
            self.hessian = self.hessian.times(self.inside)

    def step(self, share: float) -> None:
        """Measure a score and go where it leads."""
        score, self.deviation = self.asked.score(self.weights, share)
        self.path.add(self.weights, score)
        point, mean = self.path.means()
        step = self.hessian.solve(mean, least=2 * self.hessian.noise)
        longest = LIMIT * self.path.unit  # the window of the curvature
        self.weights = point - step * min(1.0, longest / max(self.path.length(step), 1e-300))
        self.left = self.left - share

    def short(self, share: float) -> None:
        """Take two steps, where much is known; more, with another Hessian, if that was too far."""
        start = self.weights
        steps = 1
        self.measure(share)
        self.step(SHARES[1] * self.left)
        moved = self.path.length(self.weights - start)
        if moved > PRECISION * self.path.unit or self.hessian.error > 2 * PRECISION:
            steps = SCORES
            if self.bent:
                self.measure(min(share, 0.5 * self.left))
        each = self.left / steps
        for _ in range(steps):
            self.step(each)

    def long(self, share: float) -> None:
        """Take all steps; the Hessian at the fitted weights is known, but in least squares."""
        if not self.bent:
            self.measure(share)
        spent = self.bent * share
        self.step(SHARES[1] * (self.left - spent))
        each = (self.left - spent) / (2 * SCORES - 1)
        for _ in range(SCORES - 1):
            self.step(each)
        if self.bent:
            self.measure(share)
        for _ in range(SCORES):
            self.step(each)
