"""
One budget for a team
=====================

A guarantee covers one fit. The people in a table are affected by everything that is ever released
about them: every model of every colleague, the search behind it, and the evaluation. A ledger
counts it all and refuses what would exceed the limit.
"""

import tempfile
from pathlib import Path

import numpy as np

from discreet import Budget, BudgetExceeded, Ledger, LogisticRegression

rng = np.random.default_rng(5)
X = rng.normal(size=(10_000, 6))
y = (X @ rng.normal(size=6) + rng.logistic(size=10_000) > 0).astype(int)

# %%
# The officer opens an account
# ----------------------------
# Whoever answers for the data set decides once what may ever be spent. A ledger is a file that all
# processes of a machine can use at the same time; for several machines it is a PostgreSQL server.
# Here it is in a folder that is removed at the end.

folder = tempfile.TemporaryDirectory()
place = Path(folder.name) / "budgets.sqlite"
Ledger(place).create("people", limit=Budget(epsilon=2.0, delta=1e-6, relation="add_remove"))

# %%
# The team works
# --------------
# Everybody opens the data set by name and passes it to each fit. The cost is written to disk before
# a row is read, so a crash cannot hide a release.

people = Ledger(place).open("people")
settings = {"delta": 1e-6, "classes": [0, 1], "ledger": people}

first = LogisticRegression(epsilon=1.0, **settings).fit(X, y)
second = LogisticRegression(epsilon=0.8, solver="agd", **settings).fit(X, y)
print(people)

# %%
# A noisy evaluation is a release, too:

import discreet

found = discreet.evaluate(first, X, y, epsilon=0.1, ledger=people)
print(f"accuracy {found.measures['accuracy']:.3f}; spent: ε = {people.spent:.3f}")

# %%
# Too much
# --------
# The ε of the three releases add up to 1.9. The ledger counts less, since their noise is
# independent (the curve at the end shows the difference). Still, the next fit asks for too much. It
# is refused before a row is read, and the message says what still fits.

try:
    LogisticRegression(epsilon=1.5, **settings).fit(X, y)
except BudgetExceeded as refusal:
    print(refusal)

# %%
# It is better to ask first: does a budget fit, and how often?

small = Budget(0.3, 1e-6, "add_remove")
print(people.affords(small), people.fits_left(small))
third = LogisticRegression(epsilon=0.3, **settings).fit(X, y)

# %%
# In a notebook the data set is a bar:

people

# %%
# The history has one line per release, with time, person, solver and purpose. A ledger cannot be
# edited unnoticed: ``verify`` checks a chain of hashes.

print(people.history()[["status", "epsilon", "delta", "solver"]])
print(Ledger(place).verify())
folder.cleanup()

# %%
# Why many small fits are affordable
# ----------------------------------
# A ledger without a file counts within this process. It needs no rows to plan: enter 20 fits of
# ε = 0.5 and read the total after each.

import matplotlib.pyplot as plt

from discreet.ledger import PrivacyCost

plan = Ledger().create("plan", limit=Budget(10.0, 1e-6, "add_remove"))
spent = []
for _ in range(20):
    plan.add(PrivacyCost.of(Budget(0.5, 1e-6, "add_remove"), "gdp"))
    spent.append(plan.spent)

number = range(1, 21)
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.plot(number, [0.5 * k for k in number], "o:", color="gray", label="sum of all ε")
axes.plot(number, spent, "s-", label="ledger")
axes.set(xlabel="fits of ε = 0.5", ylabel="ε of all together")
axes.set_xticks([1, 5, 10, 15, 20])
axes.set_title("Total ε of many fits, at δ = 1e-6")
axes.legend()
plt.show()

# %%
# The total grows like the square root of the number of fits (:doc:`/proofs/ledger`).
# :doc:`/ledger` has the commands, backups, and how to set a limit.
