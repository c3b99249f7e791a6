"""Private empirical risk minimisation: the budget, the relation and the loss are the problem's.

Every run's guarantee is recomputed by another accountant; one that claims privacy and spent more
than ``epsilon`` and ``delta`` allow fails: it has no measures, and the command ends with an error.
"""

from benchopt import BaseObjective

from discreet_bench.choices import CHOICES
from discreet_bench.problem import Result
from discreet_bench.progress import note
from discreet_bench.task import Task


class Objective(BaseObjective):
    """Mean loss + alpha/2 |w|^2 over training rows, judged on test rows and on itself."""

    name = "Private ERM"
    sampling_strategy = "run_once"
    requirements = []  # noqa: RUF012  benchopt's own form

    parameters = {  # noqa: RUF012
        "epsilon": [1.0],
        "delta": ["1/n^2"],
        "relation": ["add_remove"],
        "loss": ["logistic"],
        "alpha": [1e-4],
        "test": ["80/20"],
        "rows": ["encoded"],
        "intercept": [True],
    }

    @classmethod
    def get_all_parameter_values(cls, name):
        """What there is to choose from, which is more than the default."""
        return list(CHOICES[name]) if name in CHOICES else None

    def skip(self, table):
        """Skip losses that are not for this kind of target."""
        reason = Task(table, **self._settings()).unfit()
        return reason is not None, reason

    def set_data(self, table):
        """Take a data set."""
        self.task = Task(table, **self._settings())
        self.cv = self.task.splits

    def split(self, repeat, *_):
        """What `get_split` returns: the number of the repeat."""
        return repeat

    def get_objective(self):
        """One repeat's problem, as `discreet_bench.problem.Problem` has it."""
        return vars(self.task.problem(self.get_split()))

    def evaluate_result(self, **result):
        """Judge what a solver returned."""
        lines = self.task.judged(Result(**result))
        note(self)
        return lines

    def get_one_result(self):
        """A result that can be judged: no weights at all."""
        import numpy as np

        problem = self.task.last
        shape = (problem.X_test.shape[0],)
        if problem.n_classes > 2:
            shape += (problem.n_classes,)
        return {"scores": np.zeros(shape), "variant": "not private"}

    def _settings(self):
        return {name: getattr(self, name) for name in self.parameters}
