"""A method whose setting is chosen privately from a public grid, all of it on the one budget."""

import warnings

from discreet.errors import NotSupported
from discreet.solvers import resolve
from discreet.tuning import GRIDS, check_tunable, solver_grid, tune
from discreet_bench.solver import EstimatorSolver


class Solver(EstimatorSolver):
    """The best of a secret number of private runs, each with a setting drawn from a grid.

    ``base`` is the method that is tuned. Time is that of all runs.
    """

    name = "tuned"
    parameters = {  # noqa: RUF012  benchopt's own form
        "base": ["agd"],
        "expected_runs": [None],
        "law": ["poisson"],
        "alpha": [None],
        "norm": [1.0],
    }

    def skip(self, **objective):
        """Skip methods without a grid or without a proof, and targets that are no classes."""
        try:
            check_tunable(resolve(self.base))
        except NotSupported as error:
            return True, str(error)
        if self.base not in GRIDS:
            return True, f"no grid for {self.base!r}; there is one for {', '.join(GRIDS)}"
        if objective["n_classes"] == 0:
            return True, "scores are counts of right answers, so targets must be classes"
        return super().skip(**objective)

    def get_result(self):
        """What the objective evaluates, marked as tuned privately."""
        return super().get_result() | {"tuning": "selected"}

    def _kind(self):
        return resolve(self.base)

    def _fit(self, X, y):
        problem = self.problem
        estimator = self._estimator(
            problem,
            {
                "epsilon": problem.epsilon,
                "delta": problem.delta,
                "relation": problem.relation,
                "solver": self.base,
                "alpha": problem.alpha if self.alpha is None else self.alpha,
                "data_norm": self.norm,
                "fit_intercept": problem.intercept,
            },
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tune(
                estimator,
                X,
                y,
                grid=solver_grid(self.base),
                expected_runs=self.expected_runs,
                law=self.law,
            ).model
