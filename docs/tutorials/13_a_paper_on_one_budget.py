"""
A paper on one budget
=====================

Table 1, Table 2 and Figure 1 of a study, and the sentence for its methods section, at ε = 1 in
total for each patient, with all of their visits, on one ledger.

The visits are generated here: 24,000 of about 12,000 patients, and whether each was followed by a
readmission within 30 days.
"""

import numpy as np
import pandas as pd

rng = np.random.default_rng(13)
n = 24_000
visits = pd.DataFrame(
    {
        "patient": rng.integers(0, 14_000, n),
        "age": rng.normal(62, 15, n).clip(18, 100).round(),
        "days": rng.gamma(2.0, 2.2, n).clip(0.2, 30).round(1),
        "ward": rng.choice(["medicine", "surgery", "cardiology"], n, p=[0.5, 0.3, 0.2]),
        "insulin": rng.random(n) < 0.35,
    }
)
score = 0.02 * (visits["age"] - 62) + 0.07 * (visits["days"] - 4) + 0.4 * visits["insulin"]
score += visits["ward"].map({"medicine": 0.0, "surgery": -0.3, "cardiology": 0.5}) - 1.2
visits["readmitted"] = rng.random(n) < 1 / (1 + np.exp(-score))

# %%
# One ledger
# ----------
# The ledger refuses what would go beyond its limit, whoever asks. Without a path it lives as long
# as the process; a study would name a file.

import discreet

ledger = discreet.Ledger(who="study")
limit = discreet.Budget(1.0, 1e-5, "add_remove")
data = ledger.create("visits", limit, unit="patient")

# %%
# What is public about the columns is declared once. Bounds are what is possible, not what is in the
# table.

columns = {
    "age": (0, 110),
    "days": (0, 30),
    "ward": ["medicine", "surgery", "cardiology"],
}

# %%
# Table 1
# -------
# Counts are of patients, and means are means of patients' means. All numbers come from one noisy
# sum, which costs ε = 0.3; the intervals are for its noise and for another sample of patients.

table_1 = discreet.describe(
    visits, columns=columns, by="ward", unit="patient", epsilon=0.3, delta=2e-6, ledger=data
)
print(table_1)

# %%
# ``to_frame()``, ``to_html()`` and ``to_latex()`` have it in other forms.

print(table_1.to_latex().splitlines()[0])

# %%
# Table 2
# -------
# A logistic model with intervals takes the rest. Patients have several visits, so the standard
# errors are robust to dependence within them. The table has odds ratios, and a joint test of the
# wards.

from discreet import LogisticRegression

model = LogisticRegression(
    0.9, 2e-6, classes=[False, True], columns=columns, inference=True, ledger=data
)
features = visits[["age", "days", "ward", "insulin"]]
model.fit(features, visits["readmitted"], groups=visits["patient"])
print(model.summary())

# %%
# More questions to the same model cost nothing: a joint test, a contrast, one line per column with
# adjusted p-values, and average changes of the probability at the released means.

print(model.wald_test("age = 0, days = 0"))
print(model.contrast("ward=cardiology - ward=surgery")[0])
print(model.anova(adjust="holm"))
print(model.margins()[["effect", "low", "high"]])

# %%
# Figure 1
# --------
# Effects of the columns, with 95 % intervals.

figure = model.plot_effects()

# %%
# The methods section
# -------------------
# What was spent is on the ledger: nothing else was released.

print(data.summary())
print(
    "Numbers were released under differential privacy for patients with all of their visits "
    f"(ε = {limit.epsilon:g}, δ = {limit.delta:g} in total, add/remove; discreet "
    f"{discreet.__version__}). Intervals of coefficients include the privacy noise; standard "
    "errors are robust to dependence within patients, and each patient has the same weight."
)
