"""
A table larger than memory
==========================

A schema reads files block by block. If the encoded table does not fit into the memory that you
grant, it is written once to a private file on disk, and the fit reads that: *out-of-core*.

The files are generated here: eight Parquet files with 50,000 calls to a help line each. They are
small enough to build this page, and the memory that is granted is smaller still.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

rng = np.random.default_rng(2)
regions = ["north", "east", "south", "west"]
folder = tempfile.TemporaryDirectory()
place = Path(folder.name)


def write_calls(path, n):
    """Write n calls: time of day, minutes waited, region, and whether the caller calls again."""
    hour, waited = rng.uniform(0, 24, n), rng.triangular(0, 5, 60, n)
    region = rng.integers(0, 4, n)
    score = 0.05 * (waited - 20) + 0.8 * (region == 2) + 0.6 * (hour > 18) - 0.6
    again = rng.uniform(size=n) < 1 / (1 + np.exp(-score))
    table = {
        "hour": hour,
        "waited": waited,
        "region": np.array(regions)[region],
        "again": np.where(again, "yes", "no"),
    }
    pq.write_table(pa.table(table), path)


for month in range(1, 9):
    write_calls(place / f"2026-{month:02d}.parquet", 50_000)
write_calls(place / "new.parquet", 20_000)
print(f"{sum(file.stat().st_size for file in place.iterdir()) / 1e6:.1f} MB of Parquet files")

# %%
# Open the files
# --------------
# The schema says what is public about the columns. ``open`` takes a file, a folder, a pattern, or a
# table of another library. ``memory`` is what X may take up; by default it is a quarter of the
# machine's.

from discreet.tables import Categorical, Numeric, Schema, Target

schema = Schema(
    {
        "hour": Numeric(0, 24),
        "waited": Numeric(0, 60),
        "region": Categorical(regions, unseen="refuse"),  # no other region can occur
    },
    target=Target("again", classes=["no", "yes"]),
)
X, y, groups = schema.open(place / "2026-*.parquet", memory="2MB", folder=place)
print(X.shape, X.dtype, f"{X.nbytes / 1e6:.1f} MB")

# %%
# The numbers of X are in a file that is mapped into memory: the operating system reads what is
# needed and forgets it again. The file has no name, so that nobody else can open it, and nothing
# remains when the process ends.

print(sorted(file.name for file in place.iterdir())[-2:])

# %%
# Fit
# ---
# Nothing changes: the same estimator takes arrays, mapped files, sparse matrices, and tables on
# Dask or Spark workers. ``numeric`` lets each number have a smooth curve, if rows and budget allow.

from discreet import LogisticRegression

model = LogisticRegression(
    epsilon=1.0, delta=1e-8, classes=schema.target.labels, columns=schema.numeric
)
model.fit(X, y)
print(model.guarantee_)

# %%
# The effects show what it learned: callers from the south, in the evening, and after a long wait
# call again. The bands are the noise of the fit. In X all numbers are between 0 and 1; ``units``
# brings them back to hours and minutes.

picture = model.plot_effects(
    names=schema.feature_names,
    units={"hour": lambda part: 24 * part, "waited": lambda part: 60 * part},
)

# %%
# Predict block by block
# ----------------------
# ``batches`` encodes one block at a time, so that predicting needs little memory, whatever the size
# of the files. ``extra`` hands other columns through, such as an identifier.

right = total = 0
for block in schema.batches(place / "new.parquet", target=True):
    right += int(np.sum(model.predict(block.X) == block.y))
    total += len(block.y)
print(f"{total:,} calls, accuracy {right / total:.3f}")
folder.cleanup()

# %%
# When to use what
# ----------------
# One machine with a mapped file is usually faster than a small cluster, and has fewer parts that
# must be trusted. :doc:`/scale` compares the ways, with measurements.
