"""
Categories and odds ratios
==========================

A report needs more than predictions: how large is an effect, and could it be chance? With
``inference=True`` a private model has standard errors, p-values and confidence intervals that
include both the sampling error and the privacy noise (:doc:`/inference`).

The table is the example table of the package, whose effects are known. *Steady* insulin, the wards
*cardiology* and *neurology*, and the sex have no effect.
"""

from discreet.datasets import VISITS_EFFECTS, load_visits

columns = ["patient", "age", "sex", "ward", "insulin", "emergencies", "days"]
visits = load_visits()[[*columns, "readmitted"]]

# %%
# Fit
# ---
# Ask for intervals before the fit: they are measured on a part of its budget. Nothing can be added
# afterwards without a new release.

import discreet

model = discreet.fit("readmitted", visits, unit="patient", epsilon=1.0, inference=True)
print(model.guarantee)

# %%
# Read the table
# --------------
# The table looks like that of statsmodels, with one column more: *noise* is the share of the
# privacy noise in the variance of a coefficient. Numbers are in their own units: the odds ratio of
# *age* is for one year. A level is compared with the reference level of its column, and each
# column of levels has a joint test. Everything in the table was released by the fit, so you may
# print it as often as you like.

print(model.summary(odds_ratios=True))

# %%
# Here the truth is known: does each interval contain the effect that made the rows? On average one
# in twenty of them does not. (The model leaves out the body mass index and the diagnosis, which
# moves the effects a little towards 0.)

rows = model.summary().to_dict()["models"][0]["coefficients"]
for row in rows[1:]:  # without the intercept
    true = VISITS_EFFECTS.get(row["name"], 0.0)
    low, high = row["low"], row["high"]
    print(f"{row['name']:16} {low:6.3f} to {high:6.3f}   true {true:5.2f}   {low <= true <= high}")

# %%
# The forest plot is made of the same numbers:

figure = model.estimator.plot_coefficients()

# %%
# Another reference level
# -----------------------
# The first level is the reference, unless a declaration names another one. A declaration also
# lists the levels of a column of texts, such as that of a CSV file.

from discreet.tables import Categorical

names = ["medicine", "cardiology", "surgery", "neurology"]
wards = Categorical(names, reference="surgery", unseen="average")
against = discreet.fit(
    "readmitted",
    visits[["patient", "ward", "emergencies", "readmitted"]],
    unit="patient",
    epsilon=1.0,
    columns={"ward": wards},
    inference=True,
)
print(against.summary(odds_ratios=True).to_frame().round(3).to_string())

# %%
# What a larger budget would buy
# ------------------------------
# *noise* answers this question: at 50 %, an infinite budget would narrow the interval by 30 %
# only. Below 10 %, more rows help and more budget does not. Here is the standard error of
# *emergencies* at three budgets. On private rows each fit would be another release;
# ``discreet.plan`` shows the same on rows that are nobody's
# (:ref:`sphx_glr_generated_tutorials_03_choosing_epsilon.py`).

for epsilon in (0.3, 1.0, 3.0):
    fitted = discreet.fit("readmitted", visits, unit="patient", epsilon=epsilon, inference=True)
    found = fitted.summary().to_dict()["models"][0]["coefficients"]
    [line] = [row for row in found if row["name"] == "emergencies"]
    print(f"ε = {epsilon:<4g} std err {line['std_err']:.4f}   noise {line['noise_share']:.0%}")

# %%
# A coefficient without an interval
# ---------------------------------
# Where the noise hides a direction of the rows, an interval could not be trusted, and the table
# shows a dash and the reason. It is then better to fit fewer columns, or to join rare categories,
# than to interpret the coefficient. Here the budget is too small:

small = discreet.fit("readmitted", visits, unit="patient", epsilon=0.05, inference=True)
print(small.summary())
