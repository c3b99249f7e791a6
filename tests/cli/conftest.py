import numpy as np
import pytest

SCHEMA = """\
version = 1

[file]
missing = ["", "?"]

[target]
column = "income"
classes = ["high", "low"]

[columns.age]
kind = "numeric"
low = 18
high = 90

[columns.job]
kind = "categorical"
values = ["clerk", "nurse", "smith"]
unseen = "other"

[columns.gain]
kind = "numeric"
low = 0
high = 100_000
scale = "log"
missing = true

[columns.note]
kind = "ignored"
"""


def write_people(path, n_rows=4000, seed=0):
    """A table of people whose income follows their age and job."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n_rows)
    job = rng.choice(["clerk", "nurse", "smith"], n_rows)
    gain = np.where(rng.random(n_rows) < 0.1, "?", rng.integers(0, 9000, n_rows).astype(str))
    score = (age - 54) / 18 + (job == "nurse") - (job == "smith") + rng.logistic(0, 0.2, n_rows)
    income = np.where(score > 0, "high", "low")
    cells = zip(age, job, gain, income, strict=True)
    lines = [f"{a},{j},{g},x{k},{i}" for k, (a, j, g, i) in enumerate(cells)]
    path.write_text("age,job,gain,note,income\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def people(tmp_path_factory):
    """A folder with people.csv, held-out.csv and people.toml."""
    folder = tmp_path_factory.mktemp("people")
    write_people(folder / "people.csv")
    write_people(folder / "held-out.csv", 1000, seed=1)
    (folder / "people.toml").write_text(SCHEMA)
    return folder
