"""People with several rows, class weights and thresholds on the command."""

import csv
import json

import numpy as np
import pytest

import discreet
from discreet.cli.app import run
from discreet.cli.exits import Exit
from discreet.tables import Schema


@pytest.fixture(scope="module")
def visits(people, tmp_path_factory):
    """The people with a column of ids: 1,000 persons with 1 to 10 rows."""
    folder = tmp_path_factory.mktemp("visits")
    rng = np.random.default_rng(3)
    for name in ("people.csv", "held-out.csv"):
        lines = (people / name).read_text().splitlines()
        ids = rng.integers(0, 1000, len(lines) - 1)
        rows = [f"{line},{id}" for line, id in zip(lines[1:], ids, strict=True)]
        (folder / name).write_text("\n".join([f"{lines[0]},person", *rows]) + "\n")
    schema = (people / "people.toml").read_text()
    (folder / "row.toml").write_text(schema + '\n[columns.person]\nkind = "ignored"\n')
    unit = schema.replace("version = 1\n", 'version = 1\nunit = "person"\n')
    (folder / "unit.toml").write_text(unit)
    return folder


def fit(visits, model, *more, schema="unit.toml"):
    command = ["fit", str(visits / "people.csv"), "--schema", str(visits / schema)]
    command += ["--epsilon", "3", "--delta", "1e-6", "--output", str(model), *more]
    return run(command)


@pytest.fixture(scope="module")
def model(visits):
    path = visits / "model.json"
    assert fit(visits, path) == Exit.OK
    return path


@pytest.mark.parametrize("by", ["schema", "option"])
def test_fits_protect_people(visits, tmp_path, capsys, by):
    path = tmp_path / "m.json"
    more = () if by == "schema" else ("--unit", "person")
    schema = "unit.toml" if by == "schema" else "row.toml"
    assert fit(visits, path, "--json", *more, schema=schema) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert said["guarantee"]["unit"] == "person"
    assert said["unit"] == "person"
    assert said["rows"] is None  # how many rows the people have is not public
    assert said["units"] == said["guarantee"]["n_units"] > 900
    loaded = discreet.load(path)
    assert loaded.design_.schema.unit == "person"
    assert "person" not in loaded.feature_names_in_
    assert loaded.n_encoded_ == 7  # no feature of ids
    assert run(["explain", str(path)]) == Exit.OK
    out = capsys.readouterr().out
    assert "one person with all of their rows" in out
    assert "never a feature" in out


def test_without_the_unit_rows_are_protected(visits, tmp_path, capsys):
    assert fit(visits, tmp_path / "m.json", "--json", schema="row.toml") == Exit.OK
    assert json.loads(capsys.readouterr().out)["guarantee"]["unit"] == "row"


@pytest.mark.parametrize("column", ["income", "persn"])
def test_units_that_are_none(visits, tmp_path, capsys, column):
    assert fit(visits, tmp_path / "m.json", "--unit", column, schema="row.toml") == Exit.USAGE
    assert "--unit: " in capsys.readouterr().err
    assert not (tmp_path / "m.json").exists()


def test_evaluation_counts_people_once(visits, model, tmp_path, capsys):
    command = ["evaluate", str(model), str(visits / "held-out.csv"), "--json"]
    assert run([*command, "--epsilon", "1"]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert said["guarantee"]["unit"] == "person"
    with (visits / "held-out.csv").open() as file:
        assert said["people"] == len({row["person"] for row in csv.DictReader(file)})
    assert run([*command[:-1], "--epsilon", "1"]) == Exit.OK
    assert "one person with all of their rows" in " ".join(capsys.readouterr().err.split())
    assert run(command) == Exit.OK
    exact = json.loads(capsys.readouterr().out)
    assert np.sum(exact["counts"]) == pytest.approx(said["people"], abs=1e-3)
    by_row = tmp_path / "row.json"
    assert fit(visits, by_row, schema="row.toml") == Exit.OK
    capsys.readouterr()
    assert run(["evaluate", str(by_row), *command[2:], "--unit", "person"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["people"] == said["people"]


def test_a_ledger_for_patients_takes_such_fits(visits, tmp_path, capsys):
    ledger = str(tmp_path / "l.sqlite")
    create = ["ledger", "create", "visits", "--ledger", ledger, "--epsilon", "9"]
    assert run([*create, "--delta", "1e-5", "--unit", "patient"]) == Exit.OK
    assert fit(visits, tmp_path / "m.json", "--ledger", ledger) == Exit.OK
    assert fit(visits, tmp_path / "n.json", "--ledger", ledger, schema="row.toml") != Exit.OK
    assert "for one patient" in capsys.readouterr().err


def test_class_weights(visits, tmp_path, capsys):
    shares = {}
    held_out = str(visits / "held-out.csv")
    for name, more in {
        "plain": (),
        "heavy": ("--class-weight", "high=20", "--class-weight", "low=1"),
        "balanced": ("--class-weight", "balanced"),
    }.items():
        path = tmp_path / f"{name}.json"
        assert fit(visits, path, *more) == Exit.OK
        capsys.readouterr()
        assert run(["predict", str(path), held_out]) == Exit.OK
        shares[name] = np.mean([x == "high" for x in capsys.readouterr().out.split()[1:]])
    assert shares["heavy"] > shares["plain"] + 0.1
    assert abs(shares["balanced"] - shares["plain"]) < 0.1  # classes are nearly balanced
    heavy = discreet.load(tmp_path / "heavy.json")
    assert heavy.class_weight == {"high": 20.0, "low": 1.0}  # by label, not by code
    assert "the weights of the classes" in heavy.guarantee_.public


@pytest.mark.parametrize("given", ["high", "high=x", "high=-1", "high=inf", "high=nan"])
def test_bad_class_weights(visits, tmp_path, capsys, given):
    assert fit(visits, tmp_path / "m.json", "--class-weight", given) == Exit.USAGE
    assert "must be LABEL=NUMBER" in capsys.readouterr().err


def test_class_weights_of_unknown_labels(visits, tmp_path, capsys):
    assert fit(visits, tmp_path / "m.json", "--class-weight", "hihg=1") == Exit.USAGE
    said = " ".join(capsys.readouterr().err.split())
    assert "--class-weight must have weights of the labels 'high', 'low'; got 'hihg'." in said
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.8, 0.97])
def test_a_threshold_decides_by_the_probability_of_the_second_class(
    visits, model, capsys, threshold
):
    held_out = str(visits / "held-out.csv")
    command = ["predict", str(model), held_out, "--probabilities", "--json"]
    assert run([*command, "--threshold", str(threshold)]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    chances = np.array([row["probability low"] for row in said])
    low = np.array([row["prediction"] == "low" for row in said])
    np.testing.assert_array_equal(low, chances > threshold)
    assert 0 < low.sum() < len(low)
    evaluate = ["evaluate", str(model), held_out, "--json", "--threshold", str(threshold)]
    assert run(evaluate) == Exit.OK
    counts = np.array(json.loads(capsys.readouterr().out)["counts"])
    with open(held_out) as file:
        ids = np.array([row["person"] for row in csv.DictReader(file)])
    sizes = dict(zip(*np.unique(ids, return_counts=True), strict=True))
    weights = np.array([1 / sizes[id] for id in ids])
    np.testing.assert_allclose(counts.sum(0)[1], weights[low].sum(), rtol=1e-6)


def test_bad_thresholds(visits, model, tmp_path, capsys):
    held_out = str(visits / "held-out.csv")
    for value in ("0", "1", "-0.5", "nan"):
        assert run(["predict", str(model), held_out, "--threshold", value]) == Exit.USAGE
    assert fit(visits, tmp_path / "m.json", "--loss", "huber") == Exit.OK
    assert run(["predict", str(tmp_path / "m.json"), held_out, "--threshold", "0.3"]) == Exit.USAGE
    assert "logistic models of two classes" in capsys.readouterr().err


def test_a_schema_that_was_estimated_for_rows_is_refused(visits, tmp_path, capsys):
    spent = '\n[spent]\nepsilon = 1\ndelta = 1e-9\nrelation = "add_remove"\n'
    path = tmp_path / "s.toml"
    path.write_text((visits / "unit.toml").read_text() + spent)
    assert Schema.read(path).spent.unit is None
    assert fit(visits, tmp_path / "m.json", schema=path) == Exit.USAGE
    assert "estimated for rows" in capsys.readouterr().err
