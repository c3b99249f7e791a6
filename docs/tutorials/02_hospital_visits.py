"""
Hospital visits: patients as units
==================================

A hospital's table has one row per visit, and some patients have many. A promise about one row
protects a patient with twenty rows hardly at all. Say whose row each row is, and the promise is for
a patient with all of their visits.

The visits are those of the example table of the package. :doc:`/units` has the same with UCI's
"Diabetes 130-US hospitals", from the command line.
"""

from discreet.datasets import load_visits

columns = ["patient", "age", "days", "emergencies", "insulin", "readmitted"]
visits = load_visits()[columns]
held_out = load_visits(4_000, seed=1)[columns]
rows_per_patient = visits["patient"].value_counts()
print(f"{len(visits):,} visits, {len(rows_per_patient):,} patients")
visits.head()

# %%
# What is public
# --------------
# A schema states what everybody may know: which columns there are, between which bounds they lie,
# which categories exist, and which column names the patient. It comes from a codebook or a form,
# never from the rows.

from discreet.tables import Categorical, Numeric, Schema, Target

schema = Schema(
    {
        "age": Numeric(18, 100),
        "days": Numeric(1, 30),
        "emergencies": Numeric(0, 12),
        "insulin": Categorical(["no", "steady", "changed"]),
    },
    target=Target("readmitted", classes=["no", "yes"]),
    unit="patient",
)
X, y, groups = schema.open(visits)
print(X.shape, schema.target.labels)

# %%
# Two fits
# --------
# The first ignores the patients and protects one row. The second protects one patient.

from discreet import LogisticRegression

settings = {"epsilon": 1.0, "delta": 1e-7, "classes": schema.target.labels}
by_row = LogisticRegression(**settings).fit(X, y)
by_patient = LogisticRegression(**settings).fit(X, y, groups)
print(by_patient.guarantee_)

# %%
# How good are they? The held-out patients are private as well, so each score is noisy and costs
# them ε = 0.5. They are other people than those of the fits, so the budgets do not add up.

import discreet

X_test, y_test, groups_test = schema.open(held_out)
for name, model in {"one row": by_row, "one patient": by_patient}.items():
    found = discreet.evaluate(model, X_test, y_test, groups=groups_test, epsilon=0.5)
    print(f"promise for {name:11}: AUC {found.measures['AUC']:.3f}")

# %%
# What a patient gets
# -------------------
# An attacker knows all other visits and wrongly accuses one in twenty of those who are not in the
# table. How many of those who are in it can the attacker find, at most? The bound grows with the
# number of visits if the promise is about one row (*group privacy*), and does not if it is about a
# patient.

import matplotlib.pyplot as plt

from discreet.card.risk import attack_success

numbers = [1, 2, 5, 10, 20]
row = [attack_success(by_row.guarantee_, 0.05, units=k) for k in numbers]
patient = [attack_success(by_patient.guarantee_, 0.05)] * len(numbers)

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.plot(numbers, row, "o-", label="promise for one row")
axes.plot(numbers, patient, "s-", label="promise for one patient")
axes.axhline(0.05, color="gray", linestyle=":", label="random guessing")
axes.set(xscale="log", xlabel="visits of the patient", ylabel="found at most", ylim=(0, 1.05))
axes.set_xticks(numbers, numbers)
axes.minorticks_off()
axes.set_title("Patients that any attacker can find, by number of visits")
axes.legend()
plt.show()

# %%
# From the command line the same is ``unit = "patient"`` in the schema, or ``--unit patient``:
# :doc:`/units` shows a whole session.
