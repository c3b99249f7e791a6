"""
Coefficients with intervals
===========================

A report needs more than predictions: how large is an effect, and could it be chance? With
``inference=True`` a private model has standard errors, p-values and confidence intervals that hold
both the sampling error and the privacy noise (:doc:`/inference`).

The rows are generated here: 20,000 patients, and whether each of them was readmitted. *Weekday*,
the day of the week of the admission, has no effect.
"""

import numpy as np
import pandas as pd

rng = np.random.default_rng(5)
n = 20_000
frame = pd.DataFrame(
    {
        "age": rng.normal(6.2, 1.4, n).clip(1.8, 10),  # in decades
        "days": rng.poisson(4, n).clip(1, 14),
        "emergencies": rng.poisson(0.4, n).clip(0, 5),
        "insulin": rng.integers(0, 2, n),
        "weekday": rng.integers(1, 8, n),
    }
)
effects = np.array([0.15, 0.1, 0.6, 0.3, 0.0])
score = frame.to_numpy() @ effects - 2.3
y = (rng.uniform(size=n) < 1 / (1 + np.exp(-score))).astype(int)

# %%
# Fit
# ---
# Ask for intervals before the fit: they are measured on a part of its budget. Nothing can be added
# afterwards without a new release.

from discreet import LogisticRegression

model = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1], inference=True)
model.fit(frame, y)
print(model.guarantee_)

# %%
# Read the table
# --------------
# The table looks like that of statsmodels, with one column more: *noise* is the share of the
# privacy noise in the variance of a coefficient. With ``odds_ratios=True`` it has exp(coefficient)
# as well. Everything in it was released by the fit, so you may print it as often as you like.

print(model.summary(odds_ratios=True))

# %%
# ``conf_int`` has the intervals as numbers, intercept first. Here the truth is known: does each
# interval contain the effect that made the rows? On average one in twenty of them does not.

intervals = model.conf_int(level=0.95)
for name, true, (low, high) in zip(frame, effects, intervals[1:], strict=True):
    print(f"{name:12} {low:6.3f} to {high:6.3f}   true {true:5.2f}   {low <= true <= high}")

# %%
# The forest plot is made of the same numbers:

figure = model.plot_coefficients()

# %%
# Without ``inference=True``
# --------------------------
# A default fit is made for predictions. What helps their accuracy moves the coefficients: they can
# be shrunk, or at small budgets up to twice too large. So it gives no interval:

default = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(frame, y)
print(default.summary())

# %%
# What a larger budget would buy
# ------------------------------
# *noise* answers this question: at 50 %, an infinite budget would narrow the interval by 30 %
# only. Below 10 %, more rows help and more budget does not. Here are the widths of the intervals
# at three budgets, over those without privacy, which are computed from the generated rows. On
# private rows each fit would be another release; ``discreet.plan`` shows the same on rows that are
# nobody's (:ref:`sphx_glr_generated_tutorials_03_choosing_epsilon.py`).

V = np.column_stack([np.ones(n), frame])
p = 1 / (1 + np.exp(-score))
plain = 2 * 1.96 * np.sqrt(np.diag(np.linalg.inv((V * (p * (1 - p))[:, None]).T @ V)))[1:]
print("     ε   " + "  ".join(f"{name:>11}" for name in frame))
for epsilon in (0.3, 1.0, 3.0):
    fit = LogisticRegression(epsilon=epsilon, delta=1e-6, classes=[0, 1], inference=True)
    low, high = fit.fit(frame, y).conf_int().T
    print(f"{epsilon:6g}   " + "  ".join(f"{ratio:11.2f}" for ratio in (high - low)[1:] / plain))

# %%
# A coefficient without an interval
# ---------------------------------
# Where the noise hides a direction of the rows, an interval could not be trusted, and the table
# shows a dash and the reason. It is then better to fit fewer columns, or to join rare categories,
# than to interpret the coefficient. Here the budget is far too small:

small = LogisticRegression(epsilon=0.01, delta=1e-6, classes=[0, 1], inference=True)
print(small.fit(frame, y).summary())
