"""
Adding a solver and benchmarking it
===================================

A solver is an ordinary optimiser that never sees a row. It asks a *curator*, which charges the
budget, reads the rows and adds the noise. So a mistake in your solver can make a bad model, but it
cannot leak, and the solver cannot spend more than its budget.

Here: gradient descent with equally noisy gradients and decreasing steps. It is one class.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.core import Gaussian
from discreet.core.questions import Gradient
from discreet.solvers import Solution, Solver, TraceEntry
from discreet.validate import check_fields, integer, number


@dataclass(frozen=True)
class SlowingDescent(Solver):
    """Gradient descent whose steps decrease like 1/√t.

    Parameters
    ----------
    iterations : int
        Number of gradients to measure.
    step_size : float
        First step, for gradients of the mean loss.
    gradient_clip : float
        Bound on the norm of a row's gradient.
    """

    iterations: int = 20
    step_size: float = 2.0
    gradient_clip: float = 1.0

    name: ClassVar[str] = "slowing-descent"
    paper: ClassVar[str] = "none: a tutorial"
    demands: ClassVar[tuple[str, ...]] = ("gradients are clipped row by row",)
    needs_delta: ClassVar[bool] = True
    composes: ClassVar[tuple[str, ...]] = ("gdp",)  # it adds up its cost in Gaussian DP

    def __post_init__(self):
        """Refuse settings that make no sense, before any data is read."""
        check_fields(self, integer, "iterations", most=10**6)
        check_fields(self, number, "step_size", "gradient_clip", least=1e-6, most=1e6)

    def _solve(self, problem, curator, plan, record):
        total = curator.open("gdp")  # the budget as μ², which Gaussian answers share
        mechanism = Gaussian(math.sqrt(self.iterations / total) * (1 + 1e-12))
        weights = np.zeros(problem.n_parameters)
        for t in range(1, self.iterations + 1):
            gradient = curator.ask(
                Gradient(problem.loss, weights, clip=self.gradient_clip), mechanism
            )
            mean = gradient.values / problem.n_rows + problem.penalty.gradient(weights)
            weights = weights - self.step_size / math.sqrt(t) * mean
            record(TraceEntry(), weights)
        return Solution(weights, record.trace, (f"gradients have norm {self.gradient_clip:g}",))


# %%
# Use it
# ------
# An object can be passed as ``solver``. The guarantee is stated by the library, not by the solver,
# and an independent accountant confirms it.

from discreet import LogisticRegression

rng = np.random.default_rng(4)
weights = rng.normal(size=10)


def rows(n):
    """Return n rows of norm 1 and their labels."""
    X = rng.normal(size=(n, 10))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (3 * X @ weights + rng.logistic(size=n) > 0).astype(int)


X, y = rows(20_000)
X_new, y_new = rows(20_000)
budget = {"epsilon": 0.5, "delta": 1e-7, "classes": [0, 1], "data_norm": 1.0}
model = LogisticRegression(solver=SlowingDescent(), **budget).fit(X, y)
print(model.guarantee_)
print(f"ε recomputed: {model.guarantee_.recompute():.4f}, accuracy {model.score(X_new, y_new):.3f}")

# %%
# Attack it
# ---------
# The audit recognises by its behaviour that the solver asks for noisy gradients only, and runs
# many fits at once.

from discreet.audit import audit

print(audit(SlowingDescent(iterations=3), epsilon=1.0, delta=1e-3, trials=60_000))

# %%
# Compare it
# ----------
# Noise differs from fit to fit, so compare means of several fits on the same rows, at several
# budgets.

import matplotlib.pyplot as plt

methods = {
    "slowing-descent": SlowingDescent(),
    "gd": "gd",
    "sgd": "sgd",
    "objpert": "objpert",
    "auto": "auto",
}
tries, repeats = [0.03, 0.1, 0.3, 1.0], 3

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, solver), marker in zip(methods.items(), "*osD^", strict=True):
    curve = []
    for epsilon in tries:
        model = LogisticRegression(solver=solver, **budget | {"epsilon": epsilon})
        curve.append(np.mean([model.fit(X, y).score(X_new, y_new) for _ in range(repeats)]))
    axes.plot(tries, curve, marker=marker, label=name)
    print(f"{name:16}" + "  ".join(f"{value:.3f}" for value in curve))
axes.set(xscale="log", xlabel="ε", ylabel="accuracy on new rows")
axes.set_xticks(tries, [f"{epsilon:g}" for epsilon in tries])
axes.minorticks_off()
axes.set_title(f"Solvers on 20,000 generated rows, mean of {repeats} fits")
axes.legend()
plt.show()

# %%
# Share it
# --------
# In a package of its own, the class needs one entry point in ``pyproject.toml``::
#
#     [project.entry-points."discreet.solvers"]
#     slowing-descent = "my_package:SlowingDescent"
#
# Then ``solver="slowing-descent"`` works everywhere: in estimators, ``discreet fit --solver``,
# ``discreet audit``, and the benchmark, which runs it on the data sets of the literature beside all
# other methods and recomputes every guarantee::
#
#     discreet bench run auto-table --quick
#
# The folder ``tests/example_package`` of the repository is such a package, to copy.
# :doc:`/architecture` lists what a solver of this library needs besides, and :doc:`/extending` how
# to run one without an entry point.
