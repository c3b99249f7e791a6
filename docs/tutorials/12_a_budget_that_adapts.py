"""
DP-AGD: a budget that adapts
============================

Private gradient descent has to decide how much of its budget a gradient gets, before it knows how
accurate the gradient has to be. Far from the minimum a gradient is long, and much noise does no
harm. Near the minimum it is short, and the same noise drowns it. A fixed budget per gradient is
either wasteful at the start or too small at the end.

DP-AGD (Lee & Kifer 2018) starts with little and asks for more when it needs to. Each iteration

1. measures a noisy gradient, with a budget ρ_gradient,
2. lets a private selection choose among 21 steps along it, *zero included*, with ρ_selection,
3. and if zero wins, the gradient was too noisy: it measures again, averages, and *keeps* the higher
   budget for all later gradients.
"""

import matplotlib.pyplot as plt
import numpy as np

from discreet import LogisticRegression
from discreet.core import Budget
from discreet.solvers import AGD

rng = np.random.default_rng(0)
n, d = 20_000, 20
direction = rng.normal(size=d)
X = rng.uniform(-1, 1, size=(n, d))
y = (X @ direction + rng.logistic(size=n) / 2 > 0).astype(int)
train, test = slice(0, 16_000), slice(16_000, n)

# %%
# The budget as ρ
# ---------------
# DP-AGD adds up its costs in zero-concentrated differential privacy. A promise in ρ can be given
# directly: `Budget.zcdp` states the ε that it implies at a δ.

budget = Budget.zcdp(rho=0.02, delta=1e-6)
print(f"ρ = 0.02 implies ε = {budget.epsilon:.3f} at δ = {budget.delta:g}")

model = LogisticRegression(
    epsilon=budget.epsilon,
    delta=budget.delta,
    classes=[0, 1],
    solver=AGD(calibration="published"),
).fit(X[train], y[train])
print(model.guarantee_)
print(f"accuracy {model.score(X[test], y[test]):.3f} after {len(model.trace_)} iterations")

# %%
# What it spent, iteration by iteration
# -------------------------------------
# ``trace_`` holds what was paid for, so it is safe to publish: both costs, the step, how often the
# gradient was measured again, and the norm of the gradient that was used. The largest step that may
# be chosen, α_max, follows from the steps: every ten iterations it becomes 1.1 times the largest of
# them, and 2 at most.

trace = list(model.trace_)
gradients = np.array([entry.rho_gradient for entry in trace])
selections = np.array([entry.rho_selection for entry in trace])
steps = np.array([entry.step for entry in trace])
refinements = np.array([entry.refinements for entry in trace])
largest = [2.0]
for start in range(0, len(steps), 10):
    found = steps[start : start + 10].max()
    largest += [largest[-1]] * (min(10, len(steps) - start) - 1)
    largest.append(min(1.1 * found, 2.0) if found > 0 else largest[-1])

figure, (above, middle, below) = plt.subplots(3, 1, figsize=(7, 7.5), sharex=True)
above.step(range(len(trace)), gradients, where="mid", label="ρ of the gradient")
above.step(range(len(trace)), selections, where="mid", label="ρ of the choices of a step")
above.set_yscale("log")
above.set_ylabel("ρ per iteration")
above.legend()
middle.plot(steps, ".", label="step taken")
middle.plot(largest[: len(steps)], "-", label="α_max")
middle.set_ylabel("step")
middle.legend()
below.vlines(range(len(trace)), 0, refinements)
below.set_ylabel("measured again")
below.set_xlabel("iteration")
figure.suptitle("Budgets grow where gradients become short")
figure.tight_layout()

# %%
# The first gradients are cheap. Whenever zero is chosen, a bar appears below and the curve of ρ
# rises, for good. Choices of a step cost much more than gradients here: with published constants a
# choice is charged ε²/2. The least-noise form (``calibration="tight"``, the default) chooses with
# Gumbel noise at ε²/8, and splits the budget evenly between gradients and choices.

print(f"share of ρ that went to choices: {selections.sum() / (selections + gradients).sum():.0%}")
print(f"iterations that measured again: {(refinements > 0).sum()} of {len(trace)}")
print(f"the last gradient had {gradients[-2] / gradients[0]:.0f} times the ρ of the first")

# %%
# Against fixed budgets
# ---------------------
# ``gd`` gives every gradient the same part of the budget. How many gradients there should be is a
# guess: few accurate ones, or many noisy ones. The default of this library makes that guess from
# public numbers.

budgets = {"ε": [0.05, 0.1, 0.2, 0.4, 0.8]}
methods = {
    "DP-AGD, published": lambda: AGD(calibration="published"),
    "DP-AGD, least noise": AGD,
    "gd, fixed budgets": lambda: "gd",
    "default": lambda: "auto",
}
scores = {
    name: [
        np.mean([
            LogisticRegression(
                epsilon=epsilon, delta=1e-6, classes=[0, 1], solver=make()
            ).fit(X[train], y[train]).score(X[test], y[test])
            for _ in range(3)
        ])
        for epsilon in budgets["ε"]
    ]
    for name, make in methods.items()
}  # fmt: skip

figure, axes = plt.subplots(figsize=(7, 4))
for name, line in scores.items():
    axes.plot(budgets["ε"], line, "o-", label=name)
axes.set_xscale("log")
axes.set_xticks(budgets["ε"], [f"{epsilon:g}" for epsilon in budgets["ε"]])
axes.minorticks_off()
axes.set_xlabel("ε (δ = 1e-6)")
axes.set_ylabel("accuracy")
axes.legend()
figure.tight_layout()

# %%
# Adapting has a cost of its own: every choice of a step reads the rows. With the paper's constants
# most of ρ goes there. With the least noise the choices are four times cheaper, and the adaptive
# budget comes near the fixed one, but a fixed budget that follows from n, d and ε does not pay for
# choices at all. On the data of the paper: :doc:`/results`, experiments ``dpagd-fig1`` to
# ``dpagd-fig4``.
