"""
Private evaluation
==================

How good is a model on people whose data is private? An exact accuracy or a ROC curve would be a
release of its own: it says something about each row. ``evaluate`` measures with noise, within a
budget, and says how large the noise is (:doc:`/evaluate`).

The table is the example table of the package.
"""

import discreet
from discreet.datasets import load_visits

columns = ["patient", "age", "sex", "ward", "insulin", "emergencies", "days"]
visits = load_visits()[[*columns, "readmitted"]]
held_out = load_visits(8_000, seed=1)[[*columns, "readmitted"]]
model = discreet.fit("readmitted", visits, unit="patient", epsilon=1.0)

# %%
# All measures from one release
# -----------------------------
# One noisy histogram of the scores gives all measures of a model for two classes. The last column
# is the standard deviation that the noise causes; the sampling error of the rows comes on top.

found = model.evaluate(held_out, epsilon=0.3)
print(found)

# %%
# Is the risk calibrated?
# -----------------------
# Among the visits with a predicted risk of about 30 %, are 30 % followed by a readmission? The same
# release answers it.

import matplotlib.pyplot as plt

predicted = [part.predicted for part in found.calibration]
observed = [part.observed for part in found.calibration]
sizes = [part.count / 15 for part in found.calibration]
figure, axes = plt.subplots(figsize=(4.8, 4.0), layout="constrained")
axes.plot([0, 0.6], [0, 0.6], color="gray", linestyle=":", label="perfect")
axes.scatter(predicted, observed, sizes, label="visits, by predicted risk", zorder=2)
axes.set(xlabel="predicted risk", ylabel="observed share of readmissions")
axes.set_title("Calibration on private rows, ε = 0.3")
axes.legend()
plt.show()

# %%
# By subgroup
# -----------
# A model can be worse for some people. Each patient is in one subgroup for each visit, and the
# guarantee covers all measures of all subgroups together.

by_sex = model.evaluate(held_out, epsilon=0.3, by=("sex", ["f", "m"]))
for level, part in by_sex.subgroups.items():
    auc, noise = part.measures["AUC"], part.deviations["AUC"]
    print(f"{level:10} AUC {auc:.3f} ± {noise:.3f}")

# %%
# What it costs
# -------------
# The held-out patients are others than those of the fit, so the two budgets do not add up: each
# patient is in one of the tables. Two evaluations of the same patients do add up:

print(found.guarantee)
print(f"both evaluations together: ε = {found.guarantee.epsilon + by_sex.guarantee.epsilon:g}")

# %%
# The smaller the budget, the larger the noise. Before anything is spent, the size of the noise can
# be seen on rows that are nobody's, such as those of the example table:

for epsilon in (0.05, 0.1, 0.3, 1.0):
    rows = model.evaluate(held_out, epsilon=epsilon)
    print(f"ε = {epsilon:<5g} noise of the AUC: {rows.deviations['AUC']:.4f}")
