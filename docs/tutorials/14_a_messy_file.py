"""
A messy CSV file
================

An export of a spreadsheet in central Europe: semicolons, decimal commas, dots between thousands,
dates like 31.12.2024, the encoding Windows-1252, gaps, and several visits per patient. This page
leads from the file to a model without editing anything.
"""

import tempfile
from pathlib import Path

from discreet.datasets import write_visits

folder = Path(tempfile.mkdtemp())
write_visits(folder / "visits.csv", european=True)
with open(folder / "visits.csv", encoding="cp1252") as file:
    for _ in range(4):
        print(file.readline().rstrip())

# %%
# A private draft of a schema
# ---------------------------
# A schema states what is public about the columns. If nobody knows it, a draft estimates it from
# the rows within a budget: which columns hold numbers or dates, and which categories many rows
# share. Some facts have to be stated, since they are about the form of the file: that the first
# line holds names, its encoding, and the form of its dates. A comma before decimals is assumed
# where semicolons separate the cells.

from discreet.tables import draft_private

schema = draft_private(
    folder / "visits.csv",
    epsilon=0.5,
    delta=1e-9,
    relation="add_remove",
    target="readmitted",
    unit="patient",
    header=True,
    encoding="cp1252",
    dates="%d.%m.%Y",
)
print(schema.to_toml()[:1500])

# %%
# ``bounds = "private"`` says that the budget was too small for bounds that keep 99 % of a column's
# numbers. Then nothing is spent on them, and the fit finds them at less cost. The schema records
# what it has cost, and everything that is fitted by it adds to that.
#
# Fit
# ---

import discreet

model = discreet.fit(None, folder / "visits.csv", schema=schema, epsilon=1.0)
print(model.report)

# %%
# Predict
# -------
# New files of the same form are read by the same schema. An unknown ward, or a gap, is scored as
# the average; predictions say how many such cells they met.

write_visits(folder / "new.csv", 3_000, seed=1, european=True)
for block in model.predictions(folder / "new.csv", extra=["patient"], probabilities=True):
    print(block.extra["patient"][:3].to_pylist(), block.probabilities[:3, 1].round(2))
    break

# %%
# How good is it? The new patients are people, too, so the answer has noise and a budget of its own.

found = model.evaluate(folder / "new.csv", epsilon=0.5)
print(f"AUC {found.measures['AUC']:.3f} ± {found.deviations['AUC']:.3f} (noise)")

# %%
# Effects are in the units of the file, whatever the form of its numbers:

figure = model.plot_effects(columns=["age", "bmi", "emergencies", "ward"])

# %%
# The same with commands
# ----------------------
# ``discreet example visits.csv --european`` writes the file. Then
#
# .. code-block:: text
#
#    discreet schema draft visits.csv --header --target readmitted \
#        --unit patient --encoding cp1252 --dates %d.%m.%Y \
#        --epsilon 0.5 -o visits.toml
#    discreet fit visits.csv --schema visits.toml --epsilon 1 \
#        --delta 1e-6 -o visits.json
#    discreet predict visits.json new.csv --id patient -o predicted.csv
#    discreet explain visits.json -o card.html --effects effects.png
