"""
Your first private model
========================

Fit a logistic regression to a survey, read what it promises, and see what the promise costs in
accuracy.

The rows are generated here: 20,000 people with five answers each. The question is whether somebody
earns more than the median.
"""

import numpy as np

rng = np.random.default_rng(7)
names = ["age", "schooling", "hours", "commute", "siblings"]
effects = np.array([0.03, 0.35, 0.06, 0.0, -0.05])


def survey(n):
    """Return n rows of answers, and whether each person earns more than the median."""
    X = np.column_stack(
        [
            rng.uniform(18, 80, n),
            rng.integers(6, 21, n),
            rng.normal(38, 9, n).clip(0, 80),
            rng.exponential(25, n).clip(0, 120),
            rng.integers(0, 7, n),
        ]
    )
    score = X @ effects - 8.3 + rng.logistic(size=n)
    return X, (score > 0).astype(int)


X, y = survey(20_000)
X_new, y_new = survey(10_000)

# %%
# Fit
# ---
# Say how much privacy you want (``epsilon``, ``delta``) and which labels can occur (``classes``).
# Nothing else has to be set: the default centres, scales and fits the rows within the budget, and
# you need not know bounds of the columns.
#
# ``delta`` should be far below 1/n; here 1/n is 5e-5.

from discreet import LogisticRegression

model = LogisticRegression(epsilon=1.0, delta=1e-7, classes=[0, 1])
model.fit(X, y)
print(f"accuracy on new people: {model.score(X_new, y_new):.3f}")

# %%
# ``score`` on rows that nobody has to protect is free. On the rows of the fit, or on other private
# rows, it would be a release of its own: :doc:`/limitations` says why, and
# ``discreet.evaluate(model, X, y, epsilon=0.1)`` has noisy measures (:doc:`/evaluate`).
#
# What is promised
# ----------------
# Printing the guarantee gives two sentences. They hold for everything that the fit shows: the
# coefficients, the preparation, the trace and all messages.

print(model.guarantee_)

# %%
# The same for somebody who has to decide about a release: what can an attacker learn about one
# person? :doc:`/guarantee` explains the numbers, and the :doc:`/glossary` the words.

from discreet.card import card

for risk in card(model, title="Survey").risks:
    print("-", risk.text)

# %%
# You need not believe the arithmetic: an independent accountant computes ε again from the list of
# the mechanisms that were run.

print(f"ε recomputed: {model.guarantee_.recompute():.4f}")

# %%
# The price of privacy
# --------------------
# Compare the coefficients with those that made the rows, and with scikit-learn's model, which
# protects nobody. Effects are per standard deviation of a column, so that they can be compared.

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression as NotPrivate

exact = NotPrivate(max_iter=1000).fit(X, y)
print(f"accuracy without privacy: {exact.score(X_new, y_new):.3f}")

deviation = X_new.std(axis=0)  # of rows that are not protected
shown = {
    "made the rows": effects * deviation,
    "not private": exact.coef_[0] * deviation,
    "private, ε = 1": model.coef_[0] * deviation,
}
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for k, (label, values) in enumerate(shown.items()):
    axes.barh(np.arange(5) + 0.27 * (k - 1), values, height=0.25, label=label)
axes.set_yticks(range(5), names)
axes.invert_yaxis()
axes.set_xlabel("effect per standard deviation")
axes.set_title("Effects: true, without privacy, and private")
axes.legend()
plt.show()

# %%
# Keep it
# -------
# A model file is JSON. It holds the model, its settings and its guarantee: all of it may be
# published (:doc:`/model-file`).

import tempfile
from pathlib import Path

import discreet

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "survey.json"
    discreet.save(model, path)
    again = discreet.load(path)
    print(f"{path.stat().st_size:,} bytes; same predictions:",
          np.array_equal(again.predict(X_new), model.predict(X_new)))  # fmt: skip
