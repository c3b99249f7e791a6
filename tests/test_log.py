"""What is logged: what was asked, spent and written, and never a value or a secret number."""

import logging
import re

import numpy as np
import pytest

from discreet import Ledger, LogisticRegression, save
from discreet.cli.app import run
from discreet.cli.exits import Exit, as_options
from discreet.core import Budget
from discreet.estimators.scoring import score_classifier
from discreet.log import note, unlogged
from discreet.solvers import GD
from discreet.tuning import tune

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
Y = (X[:, 0] > 0).astype(int)
SECRET = 765.4321


def logged(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "discreet"]


def test_fits_evaluations_charges_and_files_are_logged(caplog, tmp_path):
    caplog.set_level(logging.INFO, logger="discreet")
    rows = X.copy()
    rows[0, 0] = SECRET
    dataset = Ledger().create("people", limit=Budget(9.0, 1e-6, "add_remove"))
    model = LogisticRegression(epsilon=2.0, delta=1e-6, classes=[0, 1], ledger=dataset)
    save(model.fit(rows, Y), tmp_path / "m.json")
    score_classifier(model, rows, Y, Budget(0.5, 0.0, "add_remove"), dataset)
    found = logged(caplog)
    assert any("ε = 2, δ = 1e-06, add_remove, one row" in text for text in found)
    assert any(text == "Evaluation: ε = 0.5, add_remove, one row." for text in found)
    assert sum("of the data set 'people' is reserved" in text for text in found) == 2
    assert any(text.startswith("Written: ") and text.endswith("m.json") for text in found)
    weights = [f"{value:.4f}" for value in model.coef_.ravel()]
    for text in found:
        assert "765" not in text
        assert "600" not in text
        assert not any(weight in text for weight in weights)


def test_a_baseline_is_logged_as_not_private(caplog):
    caplog.set_level(logging.INFO, logger="discreet")
    with pytest.warns(UserWarning, match="without any privacy"):
        LogisticRegression(solver="nonprivate", classes=[0, 1]).fit(X, Y)
    assert logged(caplog) == ["Fit of LogisticRegression by nonprivate: NOT PRIVATE."]


def test_the_log_does_not_reveal_the_number_of_runs_of_a_tuning(caplog):
    caplog.set_level(logging.DEBUG, logger="discreet")
    model = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1], solver="gd", data_norm=1.0)
    grid = [{"solver": GD(step_size=step)} for step in (1.0, 3.0)]
    runs = set()
    for seed in range(8):
        caplog.clear()
        with pytest.warns(UserWarning, match="fixes the noise"):
            runs.add(tune(model, X, Y, grid=grid, expected_runs=4, random_state=seed).runs)
        assert logged(caplog) == ["Tuning: ε = 1, δ = 1e-06, add_remove."]
    assert len(runs) > 1


def test_blocks_can_be_kept_out_of_the_log(caplog):
    caplog.set_level(logging.INFO, logger="discreet")
    with unlogged():
        note("not this")
    note("this")
    assert logged(caplog) == ["this"]


# -- the command


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rows = "\n".join(f"{x:.3f},{'ny'[y]}" for x, y in zip(X[:, 0], Y, strict=True))
    (folder / "t.csv").write_text(f"a,ill\n{SECRET},y\n{rows}\n")
    (folder / "t.toml").write_text(
        'version = 1\n[target]\ncolumn = "ill"\nclasses = ["n", "y"]\n'
        '[columns.a]\nkind = "numeric"\nlow = -3\nhigh = 3\n'
    )
    return folder


def command(table, *more):
    return [
        "fit", str(table / "t.csv"), "--schema", str(table / "t.toml"), "--epsilon", "3",
        "--delta", "1e-6", "-o", str(table / "m.json"), "--force", *more,
    ]  # fmt: skip


def test_a_session_is_logged_to_a_file(table, tmp_path, capsys):
    log = tmp_path / "session.log"
    assert run(command(table, "--log", str(log))) == Exit.OK
    assert run(["evaluate", str(table / "m.json"), str(table / "t.csv"), f"--log={log}"]) == 0
    assert run(["explain", str(table / "none.json"), "--log", str(log)]) == Exit.DATA
    shown = capsys.readouterr()
    text = log.read_text("utf-8")
    assert "Asked: discreet fit" in text
    assert "ε = 3, δ = 1e-06, add_remove, one row" in text
    assert f"Written: {table / 'm.json'}" in text
    assert "WARNING Not private: These figures are exact" in text
    assert "ERROR Exit code 3: " in text
    assert "765" not in text
    # Seconds are logged and may equal a result by chance.
    results = set(re.findall(r"\b\d+\.\d+\b", shown.out))
    logged_numbers = set(re.findall(r"\b\d+\.\d+\b(?! s\b)", text))
    assert not results & logged_numbers
    assert not logging.getLogger("discreet").isEnabledFor(logging.INFO)


def test_passwords_are_not_logged(table, tmp_path, capsys):
    log = tmp_path / "session.log"
    place = "postgresql://me:secret@localhost:1/x"
    assert run(command(table, "--log", str(log), "--ledger", place)) != Exit.OK
    assert "secret" not in log.read_text("utf-8")


def test_quiet_leaves_results_warnings_and_errors(table, capsys):
    assert run(command(table)) == Exit.OK
    assert "Read 601 rows" in capsys.readouterr().err
    assert run(command(table, "--quiet")) == Exit.OK
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "Model: " in shown.out
    arguments = ["evaluate", str(table / "m.json"), str(table / "t.csv"), "--quiet"]
    assert run(arguments) == Exit.OK
    assert "Not private" in capsys.readouterr().err
    assert run(["--quiet", "explain", "none.json"]) == Exit.DATA
    assert "Error:" in capsys.readouterr().err
    assert run(command(table)) == Exit.OK
    assert "Read 601 rows" in capsys.readouterr().err  # for one session only


def test_a_log_that_cannot_be_written_is_refused_before_anything_is_spent(table, tmp_path, capsys):
    ledger = tmp_path / "l.sqlite"
    assert run(command(table, "--log", str(tmp_path / "none" / "l.txt"))) == Exit.USAGE
    assert "Name a file to write to" in " ".join(capsys.readouterr().err.split())
    assert not ledger.exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use loss='huber' or solver='agd'.", "Use --loss huber or --solver agd."),
        ("delta=0.1 is at least 1/n", "--delta 0.1 is at least 1/n"),
        ("epsilon must be a finite number > 0", "--epsilon must be a finite number > 0"),
        ("pass --header (header=True).", "pass --header."),
        ("or --names a,b,… (names=[…] in Python); if", "or --names a,b,…; if"),
        ("Pass groups=ids; in a pipeline", "Pass --unit COLUMN; in a pipeline"),
        ("data_norm=2.5 is too small.", "--data-norm 2.5 is too small."),
        ("column 'delta' is of type x", "column 'delta' is of type x"),
        ("the sum of epsilon values", "the sum of epsilon values"),
    ],
)
def test_messages_name_options_of_the_command(text, expected):
    assert as_options(text) == expected


def test_an_error_of_the_library_names_an_option(table, capsys):
    assert run(command(table, "--solver", "amp", "--loss", "hinge")) == Exit.PRIVACY
    assert "--loss huber" in " ".join(capsys.readouterr().err.split())
