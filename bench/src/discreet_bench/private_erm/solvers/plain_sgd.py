"""SGD without noise: what Laplace SGD would be without privacy."""

import numpy as np
from benchopt import BaseSolver

from discreet_bench.measures import loss_of
from discreet_bench.memory import peak_memory
from discreet_bench.plain import sgd_without_noise
from discreet_bench.problem import Problem, Result
from discreet_bench.solver import in_a_cell


class Solver(BaseSolver):
    """SGD over the rows in random order, with the steps and batches of laplace-sgd."""

    name = "plain-sgd"
    sampling_strategy = "run_once"
    requirements = []  # noqa: RUF012
    parameters = {  # noqa: RUF012
        "batch_size": [1],
        "schedule": ["sqrt"],
        "step_size": [1.0],
        "passes": [1],
        "updates": [None],
        "alpha": [None],
        "norm": [1.0],
    }

    def skip(self, **objective):
        """Skip all but two classes."""
        if objective["n_classes"] != 2:
            return True, "for two classes only"
        return False, None

    def set_objective(self, **objective):
        """Keep the problem."""
        self.problem = Problem(**objective)

    def warm_up(self):
        """Compile the loop: its time is nobody's."""
        if self.batch_size <= len(self.problem.y):  # else the run says what is wrong
            self._walk(passes=1, updates=1)

    def run(self, _):
        """Walk; an error becomes the run's result, so that a table can show it."""
        self.walk, self.error = None, ""
        with peak_memory() as peak:
            try:
                self.walk = self._walk(self.passes, self.updates)
            except ValueError as error:
                self.error = in_a_cell(error)
        self.peak = peak.mebibytes

    def get_result(self):
        """What the objective evaluates."""
        if self.walk is None:
            return Result(variant="not private", problem=self.error).as_dict()
        weights = self.walk.weights
        return Result(
            scores=self._scores(self.problem.X_test),
            train_scores=self._scores(self.problem.X),
            weights=weights,
            variant="not private",
            claim="not private: SGD without noise",
            at=float("nan") if self.updates is None else float(self.walk.updates),
            peak_mb=self.peak,
        ).as_dict()

    def _walk(self, passes, updates):
        problem = self.problem
        return sgd_without_noise(
            problem.X,
            np.where(problem.y == 1, 1.0, -1.0),
            loss_of(problem.loss),
            alpha=problem.alpha if self.alpha is None else self.alpha,
            batch_size=self.batch_size,
            schedule=self.schedule,
            step_size=self.step_size,
            passes=passes,
            updates=updates,
            intercept=problem.intercept,
            norm=self.norm,
            rng=np.random.default_rng(problem.repeat),
        )

    def _scores(self, X):
        weights = self.walk.weights
        if self.problem.intercept:
            return X @ weights[:-1] + weights[-1]
        return X @ weights
