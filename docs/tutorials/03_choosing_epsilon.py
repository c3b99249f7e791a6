"""
Choosing ε
==========

No table says which ε is right. Two questions help: what could an attacker learn at this ε, and how
good would the model be? The first has an exact answer. The second can be answered before a private
row is read: with generated rows, or with similar public rows.

What a budget means
-------------------
An attacker suspects that a person is in the table, and knows everybody else in it. For each rate of
false accusations there is a bound on the share of right ones, whatever the attacker does
(:doc:`/proofs/risk`). Read the curves at the left: an attacker who must not be wrong more than once
in a hundred times.
"""

import matplotlib.pyplot as plt
import numpy as np

from discreet.card.risk import budget_success, percent

epsilons = [0.1, 0.5, 1.0, 2.0, 4.0, 8.0]
wrong = np.logspace(-3, 0, 200)

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for epsilon, colour in zip(epsilons, plt.cm.viridis(np.linspace(0, 0.9, 6)), strict=True):
    found = [budget_success(epsilon, 1e-6, rate) for rate in wrong]
    axes.plot(wrong, found, color=colour, label=f"ε = {epsilon:g}")
axes.plot(wrong, wrong, color="gray", linestyle=":", label="random guessing")
axes.set(xscale="log", xlabel="wrong accusations", ylabel="people found, at most")
axes.set_title("Bound on every attack on one person, by ε")
axes.legend()
plt.show()

# %%
# The same in numbers, for an attacker who wrongly accuses 1 % and 5 % of those who are not there:

print("    ε   found at 1 %   found at 5 %")
for epsilon in epsilons:
    at = [percent(budget_success(epsilon, 1e-6, rate)) for rate in (0.01, 0.05)]
    print(f"{epsilon:5g}   {at[0]:>12}   {at[1]:>12}")

# %%
# At ε = 1 an attacker who wrongly accuses 5 % finds at most 8 % of the people in the table. At
# ε = 8 nearly half of them may be found. These are the bounds of a default fit, whose total is
# known in Gaussian DP. For other solvers they can be larger, and the privacy card states them.
# :doc:`/choosing-epsilon` compares the two, and has the rule for δ.
#
# How good the model would be
# ---------------------------
# Never try several ε on the private rows: each try is a release and counts. ``discreet.plan`` tries
# them on generated rows of the size that you name, so nothing is spent. Here: a table of 8,000
# people and 6 columns.

from discreet import plan

planned = plan(8_000, 6, [0.1, 0.3, 1.0, 3.0])
print(planned)

# %%
# Predictions need little budget, intervals of coefficients need more. In the figure a budget is
# enough where a curve has met the dashed line. From the command line the same is
# ``discreet plan --rows 8000 --columns 6 --figure plan.png``.

figure = planned.plot()

# %%
# Similar public rows
# -------------------
# Your rows may be harder than generated ones: long tails, rare categories, a rare class. If there
# are public rows of the same kind, such as last year's published sample or another country's, try
# the budgets on them. The number of rows, the number of columns and the difficulty should be close.

from sklearn.linear_model import LogisticRegression as NotPrivate

from discreet import LogisticRegression

rng = np.random.default_rng(11)
weights = rng.normal(size=20)


def look_alike(n):
    """Return n public rows of 20 columns, and labels of which a line explains 5 in 6."""
    X = rng.normal(size=(n, 20))
    return X, (X @ weights + 1.2 * rng.logistic(size=n) > 0).astype(int)


X_new, y_new = look_alike(20_000)
tries = [0.3, 1.0, 3.0, 10.0]

# %%
# Each point is the mean of three fits, because the noise of one fit may be lucky.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for n, marker in {1_000: "o", 4_000: "s", 16_000: "^"}.items():
    X, y = look_alike(n)
    curve = []
    for epsilon in tries:
        model = LogisticRegression(epsilon=epsilon, delta=1e-6, classes=[0, 1])
        curve.append(np.mean([model.fit(X, y).score(X_new, y_new) for _ in range(3)]))
    axes.plot(tries, curve, marker=marker, label=f"{n:,} rows")
    print(f"{n:6,} rows: " + "  ".join(f"{value:.3f}" for value in curve))
limit = NotPrivate().fit(*look_alike(16_000)).score(X_new, y_new)
axes.axhline(limit, color="gray", linestyle=":", label="without privacy")
axes.set(xscale="log", xlabel="ε", ylabel="accuracy on new rows")
axes.set_xticks(tries, [f"{epsilon:g}" for epsilon in tries])
axes.set_title("Accuracy by ε and number of rows")
axes.legend()
plt.show()

# %%
# Rows are worth as much as budget: four times the rows do about what four times the ε does. With
# 16,000 rows hardly anything is lost at ε = 0.3; with 1,000 rows some points are lost even at
# ε = 1.
#
# A rule of thumb
# ---------------
# 1. Count *everything* that will be released about these people: several models, a search, an
#    evaluation. That total is the ε to decide about (:doc:`/ledger`).
# 2. Take the smallest ε at which the curve for your number of rows is flat.
# 3. State it with its relation: an ε for a replaced row is not comparable with one for a row that
#    is added or removed, as a replacement is one of each.
# 4. If it is above 1, read the bounds above to whoever is responsible. If nobody is willing to
#    sign them, get more rows, or fit fewer columns.
