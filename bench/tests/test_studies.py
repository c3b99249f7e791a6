"""Studies and measurements behind the documentation run as documented, in small forms."""

import importlib
import lzma
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from discreet_bench import adult, coverage, families

ROOT = Path(__file__).parents[2]


@pytest.fixture
def study(monkeypatch, capsys):
    """A function that runs a study as ``python -m`` does, and returns its code and what it says."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(ROOT)

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        code = 0
        try:
            runpy.run_module(f"bench.studies.{name}", run_name="__main__", alter_sys=True)
        except SystemExit as stop:
            code = stop.code
        return code or 0, capsys.readouterr().out

    return run


@pytest.fixture
def findings(monkeypatch):
    """The module of the study of intervals."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.studies.findings")


def test_audit_table(study):
    for kind in ("solvers", "power"):
        code, said = study("audit_table", kind, "outpert", "--trials", "300", "--jobs", "1")
        assert code == 0
        assert said.count("outpert") >= 1


def test_audit_zoo(study):
    code, said = study("audit_zoo", "one-byte", "--markdown")
    assert code == 0
    assert "1 of 1 bugs refuted; 1 of 1 repaired twins not." in said


def test_features(study):
    code, said = study("features", "line", "--epsilon", "1", "--splits", "1")
    assert code == 0
    assert said.splitlines()[-1].startswith("| line | 1 | 0.")


def test_mapped_file(study, tmp_path):
    code, said = study("mapped_file", "--rows", "20000", "--columns", "6", "--folder", tmp_path)
    assert code == 0
    assert "whole fit" in said
    assert list(tmp_path.iterdir()) == []


def test_pairs(study):
    code, said = study("pairs", "crossed", "--epsilon", "8", "--splits", "1", "--rows", "8000")
    assert code == 0
    cells = [cell.strip() for cell in said.splitlines()[-1].split("|")]
    assert cells[1:4] == ["crossed", "8,000", "8"]
    assert float(cells[5]) > float(cells[4]) + 0.1  # the interaction is all but one column


def test_person_attack(study):
    code, said = study("person_attack", "--fits", "4")
    assert code == 0
    assert said.count("| one person |") == said.count("| one row |") > 0


def test_findings(study, tmp_path):
    file = tmp_path / "found.csv"
    cells = ("--output", file, "--cells", "linear, clean, n = 5,000", "at bound")
    code, said = study("findings", "--fits", "2", *cells)
    assert code == 0
    rows = [line.split(" | ") for line in said.splitlines() if "ε = " in line]
    assert [row[1] for row in rows] == ["robust", "model"] * 3
    marked = [float(row[8]) for row in rows]
    assert marked[2:] == [1.0] * 4  # 3 % of the targets at a bound are noticed
    written = file.read_text()
    code, said = study("findings", "--fits", "2", *cells, "linear, joint")  # the others are there
    assert code == 0
    kinds = [line.split(" | ")[1] for line in said.splitlines() if "ε = " in line]
    assert kinds == ["robust", "model", "submodel"]
    assert set(written.splitlines()) < set(file.read_text().splitlines())


def test_the_table_of_the_page_is_made_of_the_committed_results(findings):
    text = findings.PAGE.read_text(encoding="utf-8")
    assert findings.page(text, findings.read(findings.RESULTS)) == text


def test_coverage_that_is_surely_wrong_is_told_apart_from_chance(findings):
    z = np.random.default_rng(1).standard_normal((400, 5))
    for factor, wrong in ((1.0, False), (0.75, True), (1.3, True)):
        marked = np.zeros(5, dtype=bool)
        fits = [findings.Fit(row * factor, np.ones(5), marked, 0.5) for row in z]
        assert findings.outside(findings.summed(fits)) is wrong
    found = findings.summed([findings.Fit(row, np.ones(5), marked, 0.5) for row in z])
    inside = (np.abs(z) < 1.959964).mean()
    assert found["coverage"] == pytest.approx(inside)
    half = 1.96 * np.sqrt(inside * (1 - inside) / z.size)  # of independent intervals
    assert found["coverage high"] - found["coverage"] == pytest.approx(half, rel=0.15)
    assert (found["refused"], found["marked"], found["5 %"]) == (0.0, 0.0, 0.0)
    none = [findings.Fit(np.full(5, np.nan), np.ones(5), marked, np.nan)]
    assert findings.summed(none)["refused"] == 1.0


def test_rare_columns(study):
    code, said = study("rare_columns", "--fits", "1", "--rows", "2000")
    assert code == 0
    assert said.count("| classes |") == said.count("| numbers |") == 4


def _insurance(folder, n=1500):
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.integers(18, 65, n),
        "sex": rng.choice(["female", "male"], n),
        "bmi": rng.normal(30, 4, n).round(2).clip(16, 53),
        "children": rng.integers(0, 6, n),
        "smoker": rng.choice(["no", "yes"], n),
        "region": rng.choice(["southwest", "northeast"], n),
    }
    columns["charges"] = columns["age"] * 250 + 20_000 * (columns["smoker"] == "yes")
    cells = [values.astype(str) for values in columns.values()]
    lines = [",".join(columns), *map(",".join, zip(*cells, strict=True))]
    with lzma.open(folder / "insurance.csv.xz", "wt") as file:
        file.write("\n".join(lines) + "\n")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("scripts", "insurance: 6 lines"),
        ("units", "| insurance | 0.0e+00 | 0.0e+00 | 0.0e+00 |"),
        ("declarations", "| insurance | 1 | data_norm |"),
        ("cost", "| insurance | 1,500 | 9 |"),
    ],
)
def test_columns(study, tmp_path, part, said):
    _insurance(tmp_path)
    options = ("--tables", "insurance", "--splits", "2", "--repeats", "1", "--output", tmp_path)
    code, found = study("columns", part, tmp_path, *options)
    assert code == 0
    assert said in found
    assert (part == "scripts") == (tmp_path / "insurance.png").exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("transcripts", "insurance: 5 commands, exit codes [0, 0, 0, 0, 0]"),
        ("bounds", "| insurance | 2 |"),
        ("scores", "| insurance | "),
    ],
)
def test_drafts(study, tmp_path, part, said):
    (tmp_path / "tables").mkdir()
    _insurance(tmp_path / "tables")
    options = ("--only", "insurance", "--seeds", "2", "--splits", "2", "--output", tmp_path / "out")
    code, found = study("drafts", part, tmp_path / "tables", *options)
    assert code == 0
    assert said in found
    if part == "transcripts":
        shown = (tmp_path / "out" / "insurance.txt").read_text()
        for text in ("It cost ε = 0.5", "is complete", "std err", "Privacy card:", "Predictions:"):
            assert text in shown


@pytest.mark.filterwarnings("ignore")
def test_columns_of_cells_that_no_row_had(study, tmp_path):
    """The scores of such cells are compared on a table in the form of telco's."""
    rng = np.random.default_rng(0)
    n = 1500
    payment = rng.choice(["Mailed check", "Electronic check"], n)
    numbers = rng.integers(0, 72, (3, n)).astype(str)
    contract = rng.choice(["One year", "Two year"], n)
    churn = np.where(numbers[0].astype(int) > 30, "No", "Yes")
    ids = np.arange(n).astype(str)
    rows = zip(ids, ids, payment, contract, *numbers, churn, strict=True)
    names = "#,customerID,PaymentMethod,Contract,tenure,MonthlyCharges,TotalCharges,Churn"
    with lzma.open(tmp_path / "telco.csv.xz", "wt") as file:
        file.write("\n".join([names, *map(",".join, rows)]) + "\n")
    code, found = study("columns", "unseen", tmp_path, "--fits", "2")
    assert code == 0
    assert found.count("| a missing level |") == 2


@pytest.mark.filterwarnings("ignore:All coefficients are 0")
def test_hospital_units(study, tmp_path):
    runs = runpy.run_path(str(ROOT / "bench" / "studies" / "hospital_units.py"))
    rng, n = np.random.default_rng(0), 1500
    columns = {
        name: rng.integers(low, high + 1, n) for name, (low, high) in runs["NUMBERS"].items()
    }
    columns |= {name: rng.integers(0, 9, n) for name in runs["LEFT_OUT"]}
    columns["patient_nbr"] = rng.integers(0, 900, n)
    columns["readmitted"] = np.where(columns["number_inpatient"] > 2, "<30", "NO")
    columns["gender"] = rng.choice(["Female", "Male"], n)
    cells = [values.astype(str) for values in columns.values()]
    lines = [",".join(columns), *map(",".join, zip(*cells, strict=True))]
    (tmp_path / "d.csv").write_text("\n".join(lines) + "\n")
    code, said = study("hospital_units", tmp_path / "d.csv", "--seeds", "1")
    assert code == 0
    assert "| people, default |" in said


@pytest.mark.filterwarnings("ignore")
def test_adult_against_statsmodels(tmp_path, capsys):
    """The measurement of docs/inference.md, on made-up records in the form of the original."""
    pytest.importorskip("statsmodels")
    rng = np.random.default_rng(0)
    for name in ("adult.data", "adult.test"):
        (tmp_path / name).write_text(_records(rng, 3000, test=name.endswith("test")))
    files = [str(tmp_path / name) for name in ("adult.data", "adult.test")]
    adult.main([*files, "--output", str(tmp_path)])
    assert "rows;" in capsys.readouterr().out
    assert (tmp_path / "summary-adult.html").stat().st_size > 1000
    assert (tmp_path / "coefficients-adult.png").read_bytes().startswith(b"\x89PNG")


def _records(rng, n, *, test):
    from discreet.tables import Categorical
    from discreet_bench.speed import adult as schema

    columns = []
    for column in schema().columns.values():
        if isinstance(column, Categorical):
            columns.append(rng.choice(column.values[:3], n))
        else:
            columns.append(rng.integers(int(column.low), int(column.low) + 40, n).astype(str))
    rich = np.where(columns[0].astype(int) + rng.normal(0, 9, n) > 38, ">50K", "<=50K")
    columns.append(np.char.add(rich, "." if test else ""))
    lines = [", ".join(record) for record in zip(*columns, strict=True)]
    return "\n".join(["|1x3 Cross validator"] * test + lines) + "\n"


def test_selections_without_standard_errors_are_counted_not_raised():
    """``python -m discreet_bench.coverage --quick``: some fits have too little budget."""
    row = coverage.selection("poisson", 0.05, 2, n=300, d=20)
    assert "(2 of 2 refused)" in row
    kept = coverage.selection("logistic", 30.0, 1, n=20_000, d=4)
    assert "refused" not in kept
    assert row.count("|") == kept.count("|")


def test_families_without_data_are_left_out(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DISCREET_DATA", str(tmp_path))
    families.main(["--seeds", "1", "--only", "bike rentals per hour"])
    assert "left out: DISCREET_DATA has no such data" in capsys.readouterr().out
    monkeypatch.delenv("DISCREET_DATA")
    families.main(["--seeds", "1", "--only", "bike rentals per hour"])
    assert "left out" in capsys.readouterr().out
