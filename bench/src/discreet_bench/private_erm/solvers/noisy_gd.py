"""Noisy descent with steps of one size, looked at before each of them."""

from discreet_bench.plain import fixed_steps, looked_at
from discreet_bench.solver import EstimatorSolver


class Solver(EstimatorSolver):
    """Noisy descent with steps of one size: a line for each gradient that was measured.

    Rows are left as they are unless ``norm`` is given; gradients are clipped row by row.
    """

    name = "noisy-gd"
    solver = "gd"
    parameters = {  # noqa: RUF012
        "iterations": [11],
        "step_size": [1.0],
        "gradient_clip": [3.0],
        "alpha": [None],
        "norm": [None],
    }

    def skip(self, **objective):
        """Skip several classes, whose models would be looked at in turns, and real targets."""
        if objective["n_classes"] != 2:
            return True, "for two classes only"
        return super().skip(**objective)

    def get_result(self):
        """The fit as it went; the model it ended with is the next station, and left out."""
        result = super().get_result()
        if not result["problem"]:
            result["iterates"] = looked_at(self.seen)
        return result

    def _solver(self, n_rows):
        return fixed_steps(self.iterations, self.step_size, self.gradient_clip)

    def _estimator(self, problem, shared):
        self.seen = []
        return super()._estimator(problem, {**shared, "progress": self.seen.append})
