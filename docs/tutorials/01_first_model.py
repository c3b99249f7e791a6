"""
Your first private model
========================

Fit a model to visits to a hospital, read what it promises, draw the effects of its columns, and
explain single predictions.

The table is the example table of the package: generated patients with several visits each. Nobody
is in it, and the effects that made it are known.
"""

from discreet.datasets import load_visits

columns = ["patient", "age", "ward", "insulin", "bmi", "emergencies", "days"]
visits = load_visits()[[*columns, "readmitted"]]
print(f"{len(visits):,} visits of {visits['patient'].nunique():,} patients")
visits.head()

# %%
# Fit
# ---
# Name the column to predict, the budget (``epsilon``) and the column of ids (``unit``), so that
# each patient is protected with all visits. The types of the columns say which hold numbers and
# which have levels. Public bounds are needed for a curve: here of age and of the body mass index,
# which everybody knows without looking at the rows.

import discreet
from discreet.tables import Numeric

model = discreet.fit(
    "readmitted",
    visits,
    unit="patient",
    epsilon=1.0,
    columns={"age": (18, 100), "bmi": Numeric(14, 48, missing=True)},
)
new = load_visits(5_000, seed=1)[[*columns, "readmitted"]]
risk = model.predict_proba(new)[:, 1]
print("risk of a readmission, first three visits:", risk[:3].round(2))

# %%
# What is promised
# ----------------
# Printing the guarantee gives two sentences. They hold for everything that the fit shows: the
# coefficients, the curves, the trace and all messages.

print(model.guarantee)

# %%
# The privacy card says the same to somebody who has to decide about a release. One of its answers
# is a number that means the same everywhere: what an attacker gains at one wrong accusation in 20.

card = model.card(title="Readmissions")
print(card.risks[-1].text)

# %%
# :doc:`/guarantee` explains the card, and the :doc:`/glossary` the words. You need not believe the
# arithmetic: an independent accountant computes ε again from the list of mechanisms.

print(f"ε recomputed: {model.guarantee.recompute():.4f}")

# %%
# Effects
# -------
# The model is a sum of one effect per column. Bands show the privacy noise. The rows were made with
# a straight line in age, emergencies and days, a bowl in the body mass index with its lowest point
# at 27, and nothing for *steady*. Gray parts have too few rows to tell.

figure = model.plot_effects()

# %%
# Contributions
# -------------
# For one row, the effects of its cells add up to its score. *Contributions* are differences from
# the average row, so they say why this patient's risk is above or below the average.

explanation = model.explain(new.iloc[[0]])
print(explanation)

# %%
# Keep it
# -------
# A model file is JSON. It holds the model, its settings and its guarantee: all of it may be
# published (:doc:`/model-file`). Predictions may not: each shows something of its own row.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "visits.json"
    model.save(path)
    again = discreet.TableModel.load(path)
    same = (again.predict(new) == model.predict(new)).all()
    print(f"{path.stat().st_size:,} bytes; same predictions: {same}")
