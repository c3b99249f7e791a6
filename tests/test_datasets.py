"""The example table: the same everywhere, as described, and with the effects that are stated."""

import csv
import hashlib
import math
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from discreet.cli.app import run
from discreet.cli.exits import Exit
from discreet.datasets import VISITS_EFFECTS, VISITS_LEVELS, load_visits, write_visits

N = 500


@pytest.fixture(scope="module")
def cells():
    return load_visits(form="columns")


def test_it_is_the_same_on_every_machine(tmp_path):
    """Every cell of the file, by its hash: the pages show results of this table."""
    write_visits(tmp_path / "visits.csv", N)
    found = hashlib.sha256((tmp_path / "visits.csv").read_bytes()).hexdigest()
    assert found == "18ca322305943c36a787c8168072cd051ac7d95a30b848a211f2dd0d51950e76"


def test_all_forms_hold_the_same_cells():
    columns = load_visits(N, form="columns")
    frame = load_visits(N)
    table = load_visits(N, form="arrow")
    assert isinstance(frame, pd.DataFrame)
    assert isinstance(table, pa.Table)
    assert list(columns) == list(frame) == table.column_names
    for name, values in columns.items():
        if name == "bmi":
            np.testing.assert_array_equal(values, frame[name])
            known = [value for value in values if not math.isnan(value)]
            assert table[name].drop_null().to_pylist() == known
            assert 0 < table[name].null_count < len(values)
        elif name == "admitted":
            assert list(values) == [each.date() for each in frame[name]]
            assert list(values) == table[name].to_pylist()
        else:
            assert list(values) == frame[name].tolist() == table[name].to_pylist()
    for name, levels in VISITS_LEVELS.items():
        assert tuple(frame[name].cat.categories) == levels


def test_another_seed_makes_other_patients():
    first, second = load_visits(N, seed=1), load_visits(N, seed=2)
    assert not set(first["patient"]) & set(second["patient"])
    assert first["patient"].nunique() == N


def test_ranges_and_gaps_are_those_of_the_documentation(cells):
    assert len(cells["age"]) > 35_000
    rows = np.unique(cells["patient"], return_counts=True)[1]
    assert rows.size == 20_000
    assert 1.7 < rows.mean() < 1.9
    assert rows.max() <= 20
    for name, low, high in (("age", 18, 100), ("emergencies", 0, 12), ("days", 1, 30)):
        assert low <= cells[name].min() < cells[name].max() <= high
    assert 0.06 < np.isnan(cells["bmi"]).mean() < 0.08
    assert np.nanmin(cells["bmi"]) >= 14
    assert np.nanmax(cells["bmi"]) <= 48
    assert date(2023, 1, 1) <= min(cells["admitted"]) < max(cells["admitted"]) <= date(2024, 12, 31)
    assert cells["admitted"] == sorted(cells["admitted"])


def test_the_effects_are_those_that_are_stated():
    """A fit without privacy of all columns, with the curve of bmi, finds each effect.

    Six standard errors: a false alarm has a probability below 1e-7 for the 21 coefficients.
    """
    cells = load_visits(seed=11, form="columns")
    known = ~np.isnan(cells["bmi"])
    used = {name: cells[name] for name in ("age", "emergencies", "days", "cost")}
    used["bmi"] = cells["bmi"]
    used["curve"] = (cells["bmi"] - 27) ** 2
    for name in ("sex", "ward", "diagnosis", "insulin"):
        for level in VISITS_LEVELS[name][1:]:
            used[f"{name}={level}"] = np.array(cells[name]) == level
    X = np.column_stack(list(used.values())).astype(float)[known]
    y = (np.array(cells["readmitted"]) == "yes")[known]
    scale = X.std(axis=0)
    model = LogisticRegression(C=1e6, max_iter=5000, tol=1e-9).fit(X / scale, y)
    p = model.predict_proba(X / scale)[:, 1]
    V = np.column_stack([np.ones(len(X)), X])
    errors = np.sqrt(np.diag(np.linalg.inv((V * (p * (1 - p))[:, None]).T @ V)))[1:]
    true = [{**VISITS_EFFECTS, "curve": 0.012}.get(name, 0.0) for name in used]
    assert np.all(np.abs(model.coef_[0] / scale - true) < 6 * errors)
    assert sum(value != 0 for value in true) == len(VISITS_EFFECTS) + 1


def test_a_european_file_has_the_same_cells_in_another_form(tmp_path):
    write_visits(tmp_path / "plain.csv", N)
    write_visits(tmp_path / "european.csv", N, european=True)
    with open(tmp_path / "plain.csv", encoding="utf-8", newline="") as file:
        plain = list(csv.DictReader(file))
    with open(tmp_path / "european.csv", encoding="cp1252", newline="") as file:
        european = list(csv.DictReader(file, delimiter=";"))
    assert len(plain) == len(european) > N
    assert "cost €" in european[0]
    for one, other in zip(plain, european, strict=True):
        day, month, year = other.pop("admitted").split(".")
        assert one.pop("admitted") == f"{year}-{month}-{day}"
        amount = other.pop("cost €").replace(".", "").replace(",", ".")
        assert float(one.pop("cost")) == float(amount)
        assert one.pop("bmi") == other.pop("bmi").replace(",", ".")
        assert one == other
    assert any("." in each["cost €"] for each in csv.DictReader(
        (tmp_path / "european.csv").read_text("cp1252").splitlines(), delimiter=";"))  # fmt: skip


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="n_patients must be at least 1; got 0"):
        load_visits(0)
    with pytest.raises(ValueError, match='form must be "pandas"'):
        load_visits(5, form="polars")


def test_the_command_writes_the_table_and_replaces_no_file(tmp_path, capsys):
    path = tmp_path / "visits.csv"
    assert run(["example", str(path), "--patients", "50"]) == Exit.OK
    assert "50 generated patients" in capsys.readouterr().out
    write_visits(tmp_path / "same.csv", 50)
    assert path.read_bytes() == (tmp_path / "same.csv").read_bytes()
    assert run(["example", str(path)]) == Exit.USAGE
    assert "pass --force" in capsys.readouterr().err
    words = ["example", str(path), "--patients", "50", "--european", "--force", "--json"]
    assert run(words) == Exit.OK
    assert '"patients": 50' in capsys.readouterr().out
    assert b"cost \x80" in path.read_bytes()
