"""The whole path of a table on disk, through the command."""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import discreet
from discreet.cli import describe
from discreet.cli.app import run
from discreet.cli.exits import Exit
from discreet.cli.screen import Screen


def fit(people, model, *more):
    return run(
        [
            "fit",
            str(people / "people.csv"),
            *("--schema", str(people / "people.toml")),
            *("--epsilon", "3", "--delta", "1e-6", "--output", str(model)),
            *more,
        ]
    )


@pytest.fixture(scope="module")
def model(people):
    """A model file of the logistic loss."""
    path = people / "logistic.json"
    assert fit(people, path) == Exit.OK
    return path


def test_fit_writes_a_model_and_says_what_it_promises(people, tmp_path, capsys):
    assert fit(people, tmp_path / "m.json") == Exit.OK
    out = capsys.readouterr().out
    assert "(ε = 3, δ = 1e-06)-differentially private" in out
    assert "discreet explain" in out
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]


def test_fit_speaks_json(people, tmp_path, capsys):
    assert fit(people, tmp_path / "m.json", "--json") == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert said["rows"] == 4000
    assert said["columns"] == 7
    assert said["guarantee"]["epsilon"] == 3


@pytest.mark.parametrize(
    "more",
    [
        ("--loss", "huber"),
        ("--loss", "hinge"),
        ("--solver", "objpert"),
        ("--solver", "sgd", "--relation", "replace_one", "--data-norm", "1"),
        ("--centre", "0.1", "--whiten", "0.1"),
        ("--no-intercept", "--alpha", "0.01"),
    ],
    ids=" ".join,
)
def test_options_reach_the_model(people, tmp_path, capsys, more):
    assert fit(people, tmp_path / "m.json", *more) == Exit.OK
    capsys.readouterr()
    assert run(["evaluate", str(tmp_path / "m.json"), str(people / "held-out.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.6


@pytest.mark.parametrize(
    "more",
    [(), ("--loss", "poisson"), ("--loss", "gamma"), ("--loss", "quantile", "--quantile", "0.4")],
    ids=" ".join,
)
def test_a_numeric_target_is_regressed(people, tmp_path, capsys, more):
    schema = (people / "people.toml").read_text()
    start, end = schema.index("[target]"), schema.index("[columns.age]")
    income = '[columns.income]\nkind = "categorical"\nvalues = ["high", "low"]\n\n'
    (tmp_path / "s.toml").write_text(schema[:start] + schema[end:] + income)
    model = tmp_path / "m.json"
    command = ["fit", str(people / "people.csv"), "--schema", str(tmp_path / "s.toml")]
    command += ["--target", "age", "--epsilon", "3", "--delta", "1e-6", "-o", str(model)]
    assert run([*command, *more]) == Exit.OK
    capsys.readouterr()
    held_out = str(people / "held-out.csv")
    assert run(["evaluate", str(model), held_out, "--json", "--epsilon", "1"]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert said["private"]
    assert 2 < said["root_mean_squared_error"] < 20  # the target's own spread is 21


def test_predict_writes_one_line_a_row(people, model, tmp_path, capsys):
    out = tmp_path / "p.csv"
    command = ["predict", str(model), str(people / "held-out.csv")]
    assert run([*command, "--probabilities", "-o", str(out)]) == Exit.OK
    lines = out.read_text().splitlines()
    assert lines[0] == "prediction,probability high,probability low"
    assert len(lines) == 1001
    assert {line.split(",")[0] for line in lines[1:]} == {"high", "low"}
    capsys.readouterr()
    assert run(command) == Exit.OK
    assert capsys.readouterr().out.splitlines()[1:] == [line.split(",")[0] for line in lines[1:]]
    assert run([*command, "--json"]) == Exit.OK
    assert len(json.loads(capsys.readouterr().out)) == 1000


def test_predict_needs_no_target_column(people, model, tmp_path, capsys):
    lines = (people / "held-out.csv").read_text().splitlines()
    bare = tmp_path / "bare.csv"
    bare.write_text("\n".join(line.rsplit(",", 1)[0] for line in lines) + "\n")
    assert run(["predict", str(model), str(bare)]) == Exit.OK
    short = capsys.readouterr().out
    assert run(["predict", str(model), str(people / "held-out.csv")]) == Exit.OK
    assert short == capsys.readouterr().out


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    """The same people in three Parquet files."""
    csv, pq = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    table, folder = csv.read_csv(people / "people.csv"), tmp_path_factory.mktemp("parts")
    for k, (start, stop) in enumerate([(0, 1500), (1500, 3500), (3500, 4000)]):
        pq.write_table(table.slice(start, stop - start), folder / f"part-{k}.parquet")
    return folder


@pytest.mark.parametrize("memory", [(), ("--memory", "1kB")], ids=["in memory", "in a file"])
def test_one_table_in_several_files_gives_the_model_of_one_file(people, folder, tmp_path, memory):
    weights = []
    for source in (people / "people.csv", folder, folder / "*.parquet"):
        model = tmp_path / "m.json"
        command = ["fit", str(source), "--schema", str(people / "people.toml"), "--epsilon", "3"]
        command += ["--delta", "1e-6", "-o", str(model), "--test-seed", "1", "--force", *memory]
        assert run(command) == Exit.OK
        weights.append(discreet.load(model).coef_)
    for other in weights[1:]:
        np.testing.assert_allclose(other, weights[0], rtol=1e-9)


@pytest.mark.process
def test_a_fit_on_a_cluster_gives_the_same_model(people, folder, tmp_path, capsys):
    weights = []
    for engine in ((), ("--engine", "dask://local")):
        command = ["fit", str(folder), "--schema", str(people / "people.toml"), "--epsilon", "3"]
        command += [
            "--delta",
            "1e-6",
            "-o",
            str(tmp_path / "m.json"),
            "--test-seed",
            "1",
            "--force",
        ]
        assert run([*command, *engine]) == Exit.OK
        weights.append(discreet.load(tmp_path / "m.json").coef_)
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-9)


@pytest.mark.parametrize("engine", ["spark://host", "dask://", "dask://127.0.0.1:1"])
def test_an_engine_that_is_not_there_is_named(
    people, folder, tmp_path, capsys, monkeypatch, engine
):
    distributed = pytest.importorskip("distributed")
    client = distributed.Client  # which waits for ten seconds
    monkeypatch.setattr(distributed, "Client", lambda where, timeout: client(where, timeout=0.5))
    command = ["fit", str(folder), "--schema", str(people / "people.toml"), "--epsilon", "3"]
    command += ["--delta", "1e-6", "-o", str(tmp_path / "m.json"), "--engine", engine]
    assert run(command) == Exit.USAGE
    shown = capsys.readouterr().err
    assert "dask://HOST:PORT" in shown or "no Dask scheduler answers" in shown
    assert list(tmp_path.iterdir()) == []


def test_predictions_carry_a_named_column_and_several_files_are_one_table(folder, model, capsys):
    files = [str(path) for path in sorted(folder.iterdir())]
    assert run(["predict", str(model), *files, "--id", "note"]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "note,prediction"
    assert [line.split(",")[0] for line in lines[1:]] == [f"x{k}" for k in range(4000)]
    assert run(["predict", str(model), *files, "--id", "nobody"]) == Exit.DATA
    assert "'nobody'" in capsys.readouterr().err
    assert run(["evaluate", str(model), str(folder), "--json", "--memory", "1kB"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["rows"] == 4000


def test_predictions_are_those_of_the_loaded_pipeline(people, model, capsys):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(people / "held-out.csv", dtype=str, keep_default_na=False)
    assert run(["predict", str(model), str(people / "held-out.csv")]) == Exit.OK
    predicted = discreet.load(model).predict(frame)
    assert capsys.readouterr().out.splitlines()[1:] == predicted.tolist()


def test_exact_evaluation_warns_and_a_private_one_states_its_promise(people, model, capsys):
    command = ["evaluate", str(model), str(people / "held-out.csv")]
    assert run(command) == Exit.OK
    shown = capsys.readouterr()
    assert "no privacy" in shown.err
    assert "EXACT, NOT PRIVATE" in shown.out
    assert run([*command, "--epsilon", "0.5"]) == Exit.OK
    shown = capsys.readouterr()
    assert "0.5-differentially private (pure, δ = 0)" in shown.err
    assert "EXACT" not in shown.out
    assert "found" not in shown.out
    for measure in ("accuracy", "recall of high", "precision of high", "precision of low"):
        assert measure in shown.out


def test_the_model_learned(people, model, capsys):
    assert run(["evaluate", str(model), str(people / "held-out.csv"), "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert found["accuracy"] > 0.8
    counts = np.array(found["counts"])  # true labels in rows, predicted ones in columns
    assert found["labels"] == ["high", "low"]
    assert found["recall_of_high"] == pytest.approx(counts[0, 0] / counts[0].sum())
    assert found["precision_of_high"] == pytest.approx(counts[0, 0] / counts[:, 0].sum())
    assert found["accuracy"] == pytest.approx(counts.trace() / 1000)


def test_numeric_columns_have_curves_unless_told_otherwise(people, tmp_path):
    assert fit(people, tmp_path / "curves.json") == Exit.OK
    assert fit(people, tmp_path / "lines.json", "--features", "linear") == Exit.OK
    assert discreet.load(tmp_path / "curves.json").features_.expansion is not None
    linear = discreet.load(tmp_path / "lines.json").features_
    assert linear.bounds.name == "windows"
    assert linear.expansion is None
    assert fit(people, tmp_path / "none.json", "--features", "trees") == Exit.USAGE


def test_explain_draws_effects(model, tmp_path, capsys):
    picture = tmp_path / "effects.svg"
    assert run(["explain", str(model), "--effects", str(picture)]) == Exit.OK
    assert "Effects on the score" in picture.read_text() or picture.stat().st_size > 10_000
    assert run(["explain", str(model), "--effects", str(picture)]) == Exit.USAGE
    assert run(["explain", str(model), "--effects", str(tmp_path / "a.txt")]) == Exit.USAGE
    assert "must end with .png" in capsys.readouterr().err


def test_a_card_of_an_unknown_form_is_refused(model, tmp_path, capsys):
    assert run(["explain", str(model), "-o", str(tmp_path / "card.docx")]) == Exit.USAGE
    assert "--format" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["card.html", "card.md", "card.txt"])
def test_explain_writes_cards(model, tmp_path, name):
    assert run(["explain", str(model), "-o", str(tmp_path / name)]) == Exit.OK
    card = (tmp_path / name).read_text()
    assert "wrongly accuses 1 in 1,000" in card
    assert card.startswith("<!doctype html>") == name.endswith("html")


def test_explain_speaks_json_and_text(model, capsys):
    assert run(["explain", str(model), "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)
    assert run(["explain", str(model)]) == Exit.OK
    assert "one row added or removed" in capsys.readouterr().out


def test_schema_draft_is_refused_until_it_is_filled_in(people, tmp_path, capsys):
    draft = tmp_path / "s.toml"
    command = ["schema", "draft", str(people / "people.csv"), "--target", "income"]
    assert run([*command, "-o", str(draft)]) == Exit.OK
    assert run(["schema", "check", str(draft)]) == Exit.DATA
    told = capsys.readouterr().err
    assert "fill in" in told
    assert "age" in told
    assert "nurse" not in draft.read_text()
    assert run(["schema", "check", str(people / "people.toml")]) == Exit.OK
    assert "is complete" in capsys.readouterr().out


def test_a_draft_takes_other_delimiters_and_encodings(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_bytes("größe\tort\n1\tKöln\n".encode("latin-1"))
    assert run(["schema", "draft", str(path)]) == Exit.DATA
    assert "--encoding" in capsys.readouterr().err
    command = ["schema", "draft", str(path), "--encoding", "latin-1", "--delimiter", "\\t"]
    assert run(command) == Exit.OK
    drafted = capsys.readouterr().out
    assert 'encoding = "latin-1"' in drafted
    assert "größe" in drafted
    assert "Köln" not in drafted


def test_a_privately_drafted_schema_can_be_fitted_and_its_cost_is_in_the_card(
    people, tmp_path, capsys
):
    schema, model = tmp_path / "s.toml", tmp_path / "m.json"
    command = ["schema", "draft", str(people / "people.csv"), "--target", "income"]
    command += ["--epsilon", "5", "--delta", "1e-6", "-o", str(schema)]
    assert run(command) == Exit.USAGE
    assert "--no-header" in capsys.readouterr().err
    assert not schema.exists()
    assert run([*command, "--header"]) == Exit.OK
    out = capsys.readouterr().out
    assert "ε = 5" in out
    assert "taken from the first line of the file, as public" in " ".join(out.split())
    rest = [line for line in out.splitlines() if str(tmp_path) not in line]  # a path is one word
    assert max(map(len, rest)) <= 78
    command = ["fit", str(people / "people.csv"), "--schema", str(schema), "--epsilon", "3"]
    command += ["--delta", "1e-6", "-o", str(model)]
    assert run([*command, "--relation", "replace_one"]) == Exit.USAGE
    assert run(command) == Exit.OK
    assert "Together: ε = 8" in capsys.readouterr().out  # 3 + 5
    assert run(["explain", str(model), "--json"]) == Exit.OK
    card = json.loads(capsys.readouterr().out)
    assert card["total"] == {"epsilon": 8.0, "delta": 2e-6}
    assert "together (ε = 8, δ = 2e-06)-differentially private" in card["summary"]


def test_solvers_are_listed_and_described(capsys):
    assert run(["solvers"]) == Exit.OK
    out = capsys.readouterr().out
    assert "objpert" in out
    assert "for now" not in out
    assert run(["solvers", "--json"]) == Exit.OK
    assert {"auto", "gd"} <= {each["name"] for each in json.loads(capsys.readouterr().out)}
    assert run(["solvers", "outpert"]) == Exit.OK
    assert "outpert" in capsys.readouterr().out
    assert run(["solvers", "nope"]) == Exit.USAGE


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--epsilon", "-1"], Exit.USAGE, "epsilon must be a finite number"),
        (["--solver", "nope"], Exit.USAGE, "unknown solver"),
        (["--loss", "squared"], Exit.USAGE, "is not for the target"),
        (["--loss", "cubic"], Exit.USAGE, "unknown loss"),
        (["--loss", "poisson"], Exit.USAGE, "is not for the target"),
        (["--quantile", "0.9"], Exit.USAGE, "--quantile is for"),
        (["--solver", "sgd", "--delta", "0"], Exit.PRIVACY, "delta"),
        (["--schema", "none.toml"], Exit.DATA, "none.toml"),
        (["--output", "nowhere/m.json"], Exit.USAGE, "folder"),
        (["--target", "wage"], Exit.USAGE, "wage"),
        (["--centre", "1.5"], Exit.USAGE, "share"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_have_their_own_exit_codes_and_leave_nothing(
    people, tmp_path, capsys, monkeypatch, arguments, code, said
):
    monkeypatch.chdir(tmp_path)
    assert fit(people, tmp_path / "m.json", *arguments) == code
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_existing_model_is_not_replaced_unless_asked(people, model, capsys):
    before = model.read_bytes()
    assert fit(people, model) == Exit.USAGE
    assert "--force" in capsys.readouterr().err
    assert model.read_bytes() == before


def test_a_damaged_model_file_is_refused(people, model, tmp_path, capsys):
    damaged = tmp_path / "m.json"
    damaged.write_text(model.read_text().replace("high", "hugh"))
    for command in (["explain", str(damaged)], ["predict", str(damaged), "x.csv"]):
        assert run(command) == Exit.MODEL
        assert "m.json" in capsys.readouterr().err


def test_a_bad_table_leaves_no_output_and_shows_no_cell(people, model, tmp_path, capsys):
    bad = tmp_path / "bad.csv"
    lines = (people / "people.csv").read_text().splitlines()
    lines[3000] = "SECRET-7391,clerk,1,x,low"
    bad.write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    commands = [
        [
            *("fit", str(bad), "--schema", str(people / "people.toml")),
            *("--epsilon", "1", "--delta", "1e-6", "-o", str(out)),
        ],
        ["predict", str(model), str(bad), "-o", str(out)],
        ["predict", str(model), str(bad)],
        ["evaluate", str(model), str(bad)],
    ]
    for command in commands:
        assert run(command) == Exit.DATA
        shown = capsys.readouterr()
        assert "bad.csv" in shown.err
        assert "'age'" in shown.err
        assert "SECRET" not in shown.out + shown.err
        assert shown.out == ""
        assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


def test_the_text_of_an_unexpected_error_is_withheld(people, tmp_path, capsys, monkeypatch):
    def fail(*_args, **_rest):
        raise RuntimeError("SECRET-7391")

    monkeypatch.setattr("discreet.tables.read", fail)
    assert fit(people, tmp_path / "m.json") == Exit.UNEXPECTED
    shown = capsys.readouterr().err
    assert "RuntimeError" in shown
    assert "SECRET" not in shown


def test_errors_of_compiled_code_are_withheld_even_from_our_own_lines():
    from discreet.cli.app import describe_error
    from discreet.validate import positive, vector

    for call, shown in (
        (lambda: vector("w", ["SECRET-7391"]), False),  # NumPy's own message quotes the text
        (lambda: positive("w", -1), True),
    ):
        with pytest.raises(ValueError, match=r"SECRET|must be") as caught:
            call()
        assert ("withheld" not in describe_error(caught.value)[1]) == shown
        assert "SECRET" not in describe_error(caught.value)[1]


def test_an_odd_encoding_does_not_show_what_it_could_not_read(people, tmp_path, capsys):
    schema = tmp_path / "s.toml"
    text = (people / "people.toml").read_text()
    schema.write_text(text.replace("[file]", '[file]\nencoding = "utf-7"'))
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b"age,job,gain,note,income\n30,+2AA-,1,x,low\n")
    command = ["fit", str(bad), "--schema", str(schema), "--epsilon", "1", "--delta", "1e-6"]
    assert run([*command, "-o", str(tmp_path / "m.json")]) == Exit.DATA
    told = capsys.readouterr().err
    assert "utf-7" in told
    assert "position" not in told


def test_outputs_that_would_destroy_something_are_refused(people, model, tmp_path, capsys):
    table = tmp_path / "in.csv"
    table.write_bytes((people / "held-out.csv").read_bytes())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for output, said in ((table, "also an input"), (pipe, "regular file"), (tmp_path, "a folder")):
        command = ["predict", str(model), str(table), "-o", str(output), "--force"]
        assert run(command) == Exit.USAGE
        assert said in capsys.readouterr().err
    assert table.read_bytes() == (people / "held-out.csv").read_bytes()


def test_predictions_go_to_the_file_in_json_mode_too(people, model, tmp_path, capsys):
    out = tmp_path / "p.csv"
    command = ["predict", str(model), str(people / "held-out.csv"), "--json", "-o", str(out)]
    assert run(command) == Exit.OK
    assert json.loads(capsys.readouterr().out) == {"predictions": str(out)}
    assert out.read_text().startswith("prediction\n")


@pytest.mark.process
def test_terminals_without_greek_and_closed_pipes_do_not_stop_a_command(model):
    command = [sys.executable, "-m", "discreet", "explain", str(model)]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=ascii_only, capture_output=True, check=True)
    assert b"\\u03b5" in done.stdout
    shell = f"{sys.executable} -m discreet solvers | head -1"
    closed = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)
    assert closed.stderr == ""


@pytest.mark.process
def test_a_model_is_not_called_failed_when_only_printing_failed(people, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs a device that is always full")
    command = [sys.executable, "-m", "discreet", "fit", str(people / "people.csv")]
    command += ["--schema", str(people / "people.toml"), "--epsilon", "1", "--delta", "1e-6"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command, "-o", str(tmp_path / "m.json")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == Exit.OK
    assert "The model was written" in done.stderr
    assert discreet.load(tmp_path / "m.json")


def test_interrupting_leaves_nothing_and_says_so(people, tmp_path, capsys, monkeypatch):
    def interrupt(*_args, **_rest):
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.tables.read", interrupt)
    assert fit(people, tmp_path / "m.json") == Exit.INTERRUPTED
    assert "No file was written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "m.json").write_text("old")
    assert fit(people, tmp_path / "m.json", "--force") == Exit.INTERRUPTED
    assert "No file was written" in capsys.readouterr().err
    assert (tmp_path / "m.json").read_text() == "old"


@pytest.mark.parametrize("command", ["fit", "predict", "draft", "explain"])
def test_an_interrupt_after_the_file_was_saved_names_it(
    people, model, tmp_path, capsys, monkeypatch, command
):
    # Who is told that nothing was written fits again, and has two releases for one budget.
    def interrupt(*_args, **_rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(Screen, "result", interrupt)
    output, table = tmp_path / "out.html", str(people / "people.csv")
    output.write_text("old")
    more = ["-o", str(output), "--force"]
    if command == "fit":
        code = fit(people, output, "--force")
    elif command == "predict":
        code = run(["predict", str(model), table, *more])
    elif command == "draft":
        code = run(["schema", "draft", table, "--header", "--epsilon", "5", *more])
    else:
        code = run(["explain", str(model), *more])
    assert output.read_text() != "old"
    assert code == Exit.OK
    shown = capsys.readouterr().err
    assert f"{output} had been written in full" in shown
    assert "No file was written" not in shown


def test_an_interrupt_in_the_last_step_of_saving_is_seen(people, tmp_path, capsys, monkeypatch):
    replace = os.replace

    def replaced_and_interrupted(*arguments):
        replace(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", replaced_and_interrupted)
    assert fit(people, tmp_path / "m.json") == Exit.OK
    assert "had been written" in capsys.readouterr().err
    assert discreet.load(tmp_path / "m.json")


@pytest.mark.process
def test_the_installed_command_runs_and_completes_names():
    command = [sys.executable, "-m", "discreet"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"discreet {discreet.__version__}\n"
    wrong = subprocess.run([*command, "fit"], capture_output=True, text=True, check=False)
    assert wrong.returncode == Exit.USAGE
    shell = {
        **os.environ,
        "_DISCREET_COMPLETE": "complete_bash",
        "COMP_WORDS": "discreet solvers obj",
        "COMP_CWORD": "2",
    }
    script = "import sys; sys.argv[0] = 'discreet'; from discreet.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script], env=shell, capture_output=True, text=True, check=False
    )
    assert "objpert" in done.stdout


def test_every_command_has_an_example(capsys):
    for command in ("fit", "predict", "evaluate", "explain", "audit", "solvers", "demo"):
        assert run([command, "--help"]) == Exit.OK
        assert f"Example: discreet {command}" in capsys.readouterr().out
    for command in ("draft", "check"):
        assert run(["schema", command, "--help"]) == Exit.OK
        assert f"Example: discreet schema {command}" in capsys.readouterr().out


def test_fits_of_the_command_are_not_reproducible_unless_asked(people, tmp_path, capsys):
    weights = []
    for name, more in (
        ("a", ()),
        ("b", ()),
        ("c", ("--test-seed", "1")),
        ("d", ("--test-seed", "1")),
    ):
        assert fit(people, tmp_path / name, *more) == Exit.OK
        weights.append(discreet.load(tmp_path / name).coef_)
    assert not np.array_equal(weights[0], weights[1])
    assert np.array_equal(weights[2], weights[3])
    assert "Not private" in capsys.readouterr().err


# -- documents of a model


ABOUT = ["--title", "Incomes", "--data", "People", "--owner", "The office", "--purpose", "a test"]


def test_explain_states_owner_and_purpose(model, capsys):
    assert run(["explain", str(model), *ABOUT]) == Exit.OK
    card = capsys.readouterr().out
    assert card.startswith("Privacy card: Incomes, People\n")
    for expected in ("The office", "a test", "4,000 rows"):
        assert expected in card


def test_the_schema_may_state_owner_and_purpose(people, tmp_path, capsys):
    schema = tmp_path / "people.toml"
    about = '[about]\ndataset = "People"\nowner = "The office"\npurpose = "a test"\n\n[target]'
    schema.write_text((people / "people.toml").read_text().replace("[target]", about))
    made = tmp_path / "m.json"
    assert fit(people, made, "--schema", str(schema)) == Exit.OK
    capsys.readouterr()
    assert run(["explain", str(made)]) == Exit.OK
    card = capsys.readouterr().out
    assert card.startswith("Privacy card: m, People\n")
    assert "The office" in card


def test_explain_drafts_a_registry_record(model, tmp_path, capsys):
    draft = tmp_path / "draft.yaml"
    arguments = ["explain", str(model), *ABOUT, "--registry", str(draft)]
    assert run([*arguments, "--answer", "data_product_sector=Finance", "--json"]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert "registry_authors" in said["open"]
    assert "data_product_sector" not in said["open"]
    assert "data_curators" not in said["open"]
    assert 'data_product_sector: "Finance"' in draft.read_text("utf-8")
    assert run([*arguments, "--force", "--answer", "colour=red"]) == Exit.USAGE
    assert "not asked for" in capsys.readouterr().err
    assert run(["explain", str(model), "--answer", "name=x"]) == Exit.USAGE


def test_a_terminal_is_asked_for_what_only_the_user_knows(model, tmp_path, capsys, monkeypatch):
    asked = []

    def prompt(text, **_settings):
        asked.append(text.split(":")[0])
        return "Static" if asked[-1] == "data_source_type" else "said"

    monkeypatch.setattr("discreet.cli.describe.typer.prompt", prompt)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    draft = tmp_path / "draft.yaml"
    more = ["--answer", "data_product_sector=Finance"]
    assert run(["explain", str(model), *ABOUT, "--registry", str(draft), *more]) == Exit.OK
    assert asked == [
        "data_product_region",
        "data_source_type",
        "actors",
        "justification",
        "sources",
        "registry_authors",
    ]
    assert "tier 3" in capsys.readouterr().out


def test_explain_assesses_along_nist(model, capsys):
    assert run(["explain", str(model), "--nist"]) == Exit.OK
    assert "not met" in capsys.readouterr().out


@pytest.mark.browser
def test_a_card_prints_on_one_page_and_an_appendix(model, tmp_path, capsys):
    if not any(map(shutil.which, describe._BROWSERS)):
        pytest.skip("no browser to print with")
    target = tmp_path / "card.pdf"
    assert run(["explain", str(model), *ABOUT, "-o", str(target)]) == Exit.OK
    pages = len(re.findall(rb"/Type\s*/Page\b", target.read_bytes()))
    assert 2 <= pages <= 3  # the first page, and an appendix of one or two


def test_a_pdf_needs_a_browser_and_a_file(model, tmp_path, capsys, monkeypatch):
    assert run(["explain", str(model), "--format", "pdf"]) == Exit.USAGE
    assert "--output card.pdf" in capsys.readouterr().err
    monkeypatch.setattr(describe.shutil, "which", lambda _name: None)
    assert run(["explain", str(model), "-o", str(tmp_path / "c.pdf")]) == Exit.USAGE
    assert "print it to a PDF" in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.glob("*.pdf"))


# -- files as they come


@pytest.fixture(scope="module")
def headless(people, tmp_path_factory):
    """The tables without their first line, and a schema that was drafted for them."""
    folder = tmp_path_factory.mktemp("headless")
    for name in ("people.csv", "held-out.csv"):
        lines = (people / name).read_text().split("\n", 1)[1]
        (folder / name).write_text(lines)
    return folder


def test_a_file_without_a_header_goes_all_the_way(headless, tmp_path, capsys):
    table, schema, model = headless / "people.csv", tmp_path / "s.toml", tmp_path / "m.json"
    names = ["--names", "age,job,gain,note,income"]
    more = ["--target", "income", "--missing", "?", "--kind", "note=ignored", "-o", str(schema)]
    assert run(["schema", "draft", str(table), "--epsilon", "9", *names, *more]) == Exit.OK
    budget = ["--epsilon", "3", "--delta", "1e-6"]
    assert run(["fit", str(table), "--schema", str(schema), *budget, "-o", str(model)]) == Exit.OK
    held_out = str(headless / "held-out.csv")
    capsys.readouterr()
    assert run(["evaluate", str(model), held_out, "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["AUC"] > 0.8
    assert run(["predict", str(model), held_out, "--probabilities", "--id", "note"]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "note,prediction,probability high,probability low"
    assert len(lines) == 1001
    assert lines[1].startswith("x0,")


def test_a_header_that_is_missing_is_explained_in_options(headless, capsys):
    assert run(["schema", "draft", str(headless / "people.csv")]) == Exit.DATA
    said = " ".join(capsys.readouterr().err.split())
    assert "--no-header" in said
    assert "Python" not in said
    assert "header=True" not in said


def test_extra_columns_are_left_out_on_request(people, model, tmp_path, capsys):
    lines = (people / "held-out.csv").read_text().splitlines()
    table = tmp_path / "more.csv"
    table.write_text("\n".join([f"{lines[0]},ward", *(f"{line},w" for line in lines[1:])]) + "\n")
    for arguments in (["predict", str(model), str(table)], ["evaluate", str(model), str(table)]):
        assert run(arguments) == Exit.DATA
        assert "--ignore-extra" in " ".join(capsys.readouterr().err.split())
        assert run([*arguments, "--ignore-extra"]) == Exit.OK
        capsys.readouterr()


def test_a_draft_says_what_may_be_the_unit(tmp_path, capsys):
    table = tmp_path / "t.csv"
    table.write_text("patient_id,icd9,count\n" + "7,250.1,3\n" * 20)
    assert run(["schema", "draft", str(table)]) == Exit.OK
    shown = capsys.readouterr()
    assert "--unit patient_id" in " ".join(shown.err.split())
    assert 'kind = "categorical"' in shown.out.split("[columns.icd9]")[1].split("[columns")[0]
    for wrong in (["--kind", "icd9"], ["--prefix", "icd9=three"], ["--kind", "icd9=code"]):
        assert run(["schema", "draft", str(table), *wrong]) == Exit.USAGE


@pytest.mark.parametrize("more", [[], ["--epsilon", "5"], ["--epsilon", "5", "--threshold", "0.3"]])
def test_evaluate_shows_matrix_and_calibration(people, model, capsys, more):
    arguments = ["evaluate", str(model), str(people / "held-out.csv"), *more]
    assert run(arguments) == Exit.OK
    shown = capsys.readouterr().out
    for expected in ("AUC", "log loss", "precision of high", "Confusion matrix", "Calibration"):
        assert expected in shown
    assert ("± noise" in shown) == bool(more)
    assert run([*arguments, "--json"]) == Exit.OK
    data = json.loads(capsys.readouterr().out)
    assert 0.9 < data["AUC"] <= 1
    assert 0 < data["log_loss"] < 0.5
    assert np.sum(data["counts"]) == pytest.approx(1000, abs=60)
    assert data["calibration"][0].keys() == {"low", "high", "predicted", "observed", "count"}
    assert bool(data["noise"]) == bool(more)


def test_predictions_say_once_how_many_cells_they_averaged(people, model, tmp_path, capsys):
    """A category that the fit never saw has no weight: blocks add up to one sentence."""
    fitted = discreet.load(model)
    names = fitted.design_.feature_names
    kept = fitted.features_.expansion.kept(len(names)).tolist()
    fitted.coef_[:, kept.index(names.index("job=(other)"))] = 0.0  # if it is not anyway
    discreet.save(fitted, tmp_path / "m.json")
    lines = (people / "held-out.csv").read_text().splitlines()
    for at in (1, 5, 900):
        age, _, *rest = lines[at].split(",")
        lines[at] = ",".join([age, "baker", *rest])
    for name, part in (("a", lines[1:400]), ("b", lines[400:])):
        (tmp_path / f"{name}.csv").write_text("\n".join([lines[0], *part]) + "\n")
    command = ["predict", str(tmp_path / "m.json"), str(tmp_path / "a.csv")]
    command += [str(tmp_path / "b.csv"), "--probabilities", "-o", str(tmp_path / "p.csv")]
    assert run(command) == Exit.OK
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert said.count("scored as the average of the column") == 1
    assert "3 cells are" in said
    assert "noise: job (3)." in said


# ---- without a schema file


@pytest.fixture(scope="module")
def typed(people, tmp_path_factory):
    """The table of people as a Parquet file with types."""
    table = pd.read_csv(people / "people.csv", na_values=["?"]).drop(columns=["note", "gain"])
    path = tmp_path_factory.mktemp("typed") / "people.parquet"
    table.assign(high=table.income == "high").to_parquet(path)
    return path


DECLARED = ("--column", "age=18:90", "--column", "job=clerk,nurse,smith")


def test_types_and_options_take_the_place_of_a_schema(typed, tmp_path, capsys):
    path = tmp_path / "m.json"
    asked = ["fit", str(typed), "--target", "income", "--classes", "high,low", *DECLARED]
    asked += ["--column", "high=ignored", "--epsilon", "3", "--delta", "1e-6", "-o", str(path)]
    assert run(asked) == Exit.OK
    columns = discreet.load(path).design_.schema.columns
    assert (columns["age"].low, columns["age"].high) == (18, 90)
    assert columns["job"].values == ("clerk", "nurse", "smith")
    assert "high" not in discreet.load(path).design_.schema.used
    capsys.readouterr()
    assert run(["predict", str(path), str(typed)]) == Exit.OK
    assert set(capsys.readouterr().out.split()[1:]) == {"high", "low"}


def test_a_fit_with_intervals_prints_them(typed, tmp_path, capsys):
    path = tmp_path / "m.json"
    asked = ["fit", str(typed), "--target", "high", *DECLARED, "--column", "income=ignored"]
    asked += ["--epsilon", "3", "--delta", "1e-6", "-o", str(path), "--force"]
    assert run([*asked, "--inference", "--odds-ratios"]) == Exit.OK
    out = capsys.readouterr().out
    assert "odds ratio" in out
    assert out.index("std err") < out.index("This fit is")
    assert run([*asked, "--inference", "--json"]) == Exit.OK
    assert "age" in json.dumps(json.loads(capsys.readouterr().out)["coefficients"])
    assert run([*asked, "--odds-ratios"]) == Exit.USAGE
    assert "pass --inference too" in " ".join(capsys.readouterr().err.split())


def test_an_evaluation_has_subgroups(typed, tmp_path, capsys):
    path = tmp_path / "m.json"
    asked = ["fit", str(typed), "--target", "high", *DECLARED, "--column", "income=ignored"]
    assert run([*asked, "--epsilon", "3", "--delta", "1e-6", "-o", str(path)]) == Exit.OK
    capsys.readouterr()
    asked = ["evaluate", str(path), str(typed), "--epsilon", "2", "--json", "--by"]
    for by in ("job", "job=clerk,nurse,smith"):
        assert run([*asked, by]) == Exit.OK
        found = json.loads(capsys.readouterr().out)
        assert {"clerk", "nurse", "smith"} <= set(found["subgroups"])
        assert found["guarantee"]["epsilon"] == 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "--column job=…"),
        (("--column", "job"), "must be NAME=LOW:HIGH or NAME=TEXT,…"),
        (("--column", "age=18-90"), "--column age must be LOW:HIGH"),
        (("--target-bounds", "3", *DECLARED), "--target-bounds must be LOW:HIGH"),
    ],
)
def test_a_missing_or_wrong_declaration_names_the_option(typed, tmp_path, capsys, more, said):
    asked = ["fit", str(typed), "--target", "high", "--column", "income=ignored", "--epsilon", "1"]
    assert run([*asked, "--delta", "1e-6", "-o", str(tmp_path / "m.json"), *more]) == Exit.USAGE
    err = " ".join(capsys.readouterr().err.split())
    assert said in err
    assert "The command has no option" not in err
    assert "clerk" not in err
