"""Solvers that look at rows where they must not, all variations of one honest descent."""

import logging
import math
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.core import Gaussian
from discreet.core.questions import Gradient
from discreet.errors import BudgetExceeded
from discreet.rows.sums import gradient_sum
from discreet.solvers import Progress, Solution, Solver, TraceEntry


@dataclass(frozen=True)
class Loss(TraceEntry):
    """A trace that says what the loss was."""

    loss: float


@dataclass(frozen=True)
class Descent(Solver):
    """Noisy gradient descent; ``bug`` names what is wrong with it."""

    bug: str = ""

    name: ClassVar[str] = "descent"
    paper: ClassVar[str] = "none: for tests"
    needs_delta: ClassVar[bool] = True
    composes: ClassVar = ("gdp",)

    def solve(self, problem, curator, plan, progress=None):
        start = np.zeros(problem.n_parameters)
        secret = gradient_sum(curator._rows, start, problem.loss, 1.0).values
        total = curator.open("gdp")
        mechanism = Gaussian(math.sqrt(12 / total) * (1 + 1e-9))
        clip = float(np.abs(secret).max()) if self.bug == "scale" else 1.0
        steps = 6 + int(secret[0] > 0) if self.bug == "count" else 6
        weights = start
        trace = []
        for _ in range(steps):
            at = weights + secret if self.bug == "question" else weights
            gradient = curator.ask(Gradient(problem.loss, at, clip=clip), mechanism)
            step = gradient.values / problem.n_rows
            weights = weights - step
            trace.append(Loss(float(secret[0]) if self.bug == "trace" else float(step[0])))
            if progress is not None:
                given = secret if self.bug == "progress" else weights
                progress(Progress(trace[-1], given.copy(), curator.spent_share))
        if self.bug == "spends the rest":
            while secret[0] > 0:
                try:
                    curator.ask(Gradient(problem.loss, weights, clip=1.0), mechanism)
                except BudgetExceeded:
                    break
        if self.bug == "weights":
            weights = weights + 1e-9 * secret
        self._speak(secret)
        return Solution(weights, tuple(trace), ("gradients are clipped",))

    def _speak(self, secret):
        if self.bug == "print":
            print(f"converged at {secret[0]:.3f}")
        elif self.bug == "log":
            logging.getLogger("somewhere.else").debug("gradient %s", secret[0])
        elif self.bug == "quiet log":
            logger = logging.getLogger("keeps.to.itself")
            logger.propagate = False
            logger.info("gradient %s", secret[0])
        elif self.bug == "warning" and secret[0] > 0:
            warnings.warn("the gradient is positive", UserWarning, stacklevel=2)
        elif self.bug == "error" and secret[0] > 0:
            raise ValueError("did not converge")


FLOWS = ["scale", "count", "question", "spends the rest"]
OUTPUTS = ["weights", "trace"]
MESSAGES = ["progress", "print", "log", "quiet log", "warning", "error"]
