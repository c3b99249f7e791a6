"""``discreet bench``: what it lists, runs, reports and compares, and how it fails."""

import json

import pandas as pd
import pytest

from discreet.cli.app import run
from discreet.cli.exits import Exit
from discreet_bench import runs as table

NARROW = ["--quick", "--data", "synthetic-l", "--method", "auto", "--method", "majority"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The folder of a small run."""
    folder = tmp_path_factory.mktemp("bench")
    code = run(["bench", "run", "auto-table", *NARROW, "--jobs", "1", "--out", str(folder)])
    assert code == Exit.OK
    return folder


def test_a_run_leaves_runs_tables_figures_and_a_page(out):
    folder = out / "auto-table-quick"
    runs = table.read(folder / "runs.parquet")
    assert set(runs["method"]) == {"auto", "majority"}
    names = {path.name for path in folder.iterdir()}
    assert {"auto-table.md", "auto-table.csv", "auto-table.tex", "report.html"} <= names
    assert any(name.endswith(".svg") for name in names)
    page = (folder / "report.html").read_text()
    assert "discreet bench run auto-table --quick --data synthetic-l" in page


def test_one_page_of_all_runs_in_a_folder(out, tmp_path, capsys):
    page = tmp_path / "all.html"
    asked = ["bench", "report", str(out), "-o", str(page), "--title", "Ours"]
    assert run(asked) == Exit.OK
    assert "<title>Ours" in page.read_text()
    assert run(asked) == Exit.USAGE  # it is there already
    assert "--force" in capsys.readouterr().err
    assert run([*asked, "--force"]) == Exit.OK


def test_the_page_has_the_command_that_makes_such_runs():
    from discreet_bench.command import _command
    from discreet_bench.experiments import find

    runs = table.complete(
        pd.DataFrame({"experiment": "auto-table", "repeat": [0, 1], "epsilon": [0.1, 1.0],
                      "data": ["adult", "kddcup99 (70,000 rows)"], "method": ["auto", "mine"],
                      "relation": "add_remove"})
    )  # fmt: skip
    assert _command(find("auto-table"), "full", runs) == (
        "discreet bench run auto-table --repeats 2 --epsilon 0.1 --epsilon 1 "
        "--data adult --data kddcup99 --relation add_remove --solver-file mine.py"
    )


def test_the_command_has_every_option_that_was_used(out, tmp_path):
    folder = out / "auto-table-quick"
    expected = (
        "discreet bench run auto-table --quick --data synthetic-l --method auto --method majority "
        f"--jobs 1 --out {out}"
    )
    assert (folder / "command.txt").read_text() == expected + "\n"
    assert expected in (folder / "report.html").read_text()
    page = tmp_path / "again.html"
    assert run(["bench", "report", str(out), "-o", str(page)]) == Exit.OK
    assert expected in page.read_text()


def test_the_form_of_runs_is_recognised():
    from discreet_bench.command import _form
    from discreet_bench.experiments import find

    runs = pd.DataFrame({"experiment": ["amp-fig2"] * 2, "form": ["paper"] * 2})
    assert _form(find("amp-fig2"), runs) == "paper"
    assert _form(find("amp-fig2"), runs.assign(form=["paper", "quick"])) == "full"
    assert _form(find("amp-fig2"), runs.assign(form="")) == "full"


def test_the_paper_form_says_how_long_it_takes_and_what_it_took(tmp_path, capsys):
    asked = ["bench", "run", "sgd-fig6", "--paper", "--repeats", "1", "--epsilon", "1"]
    asked += ["--method", "plain-sgd", "--jobs", "1", "--no-pages", "--out", str(tmp_path)]
    assert run(asked) == Exit.OK
    # two schedules at nine marks, both again with cut steps, and the last mark for other budgets
    assert "sgd-fig6: 36 runs, about" in capsys.readouterr().err
    times = pd.read_csv(tmp_path / "times.csv")
    assert times[["experiment", "form", "made"]].to_numpy().tolist() == [
        ["sgd-fig6", "paper plain-sgd", 36]
    ]
    runs = table.read(tmp_path / "sgd-fig6-paper" / "runs.parquet")
    assert set(runs["form"]) == {"paper"}
    assert set(runs["difference"]) == {"", "steps cut at 1/β"}
    assert {path.name for path in (tmp_path / "sgd-fig6-paper").iterdir()} == {
        "runs.parquet", "command.txt",
    }  # fmt: skip
    assert run([*asked, "--quick"]) == Exit.USAGE


def test_another_seed_has_other_splits_and_its_own_cache(tmp_path):
    found = []
    for seed in ("0", "1", "0"):
        asked = ["bench", "run", "sgd-fig6", "--quick", "--repeats", "1", "--method", "plain-sgd"]
        asked += ["--jobs", "1", "--no-pages", "--out", str(tmp_path), "--seed", seed]
        assert run(asked) == Exit.OK
        runs = table.read(tmp_path / "sgd-fig6-quick" / "runs.parquet")
        found.append((set(runs["seed"]), tuple(runs["objective"])))
    assert found[0] == found[2]
    assert found[0][0] == {0.0}
    assert found[1][0] == {100_000.0}
    assert found[0][1] != found[1][1]


def test_the_list_fits_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["bench", "list"]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)


def test_lines_of_an_older_form_give_way_to_the_whole_of_a_newer_one(tmp_path):
    kept = tmp_path / "kept" / "runs.parquet"
    older = pd.DataFrame({
        "experiment": ["sgd-fig6", "sgd-fig5"], "method": "gd", "epsilon": 7.0, "form": "",
    })  # fmt: skip
    table.write(older, kept)
    asked = ["bench", "run", "sgd-fig6", "--quick", "--repeats", "1", "--jobs", "1", "--no-pages"]
    assert run([*asked, "--out", str(tmp_path), "--into", str(kept)]) == Exit.OK
    after = table.read(kept)
    assert set(after.loc[after["experiment"] == "sgd-fig6", "form"]) == {"quick"}
    assert set(after.loc[after["experiment"] == "sgd-fig5", "epsilon"]) == {7.0}


def test_one_method_can_be_run_again_and_merged(out, tmp_path):
    kept = tmp_path / "kept" / "runs.parquet"
    before = table.read(out / "auto-table-quick" / "runs.parquet").assign(code="older")
    table.write(before, kept)
    asked = ["bench", "run", "auto-table", "--quick", "--data", "synthetic-l", "--method", "auto"]
    asked += ["--jobs", "1", "--no-pages", "--out", str(tmp_path), "--into", str(kept)]
    for _ in range(2):
        assert run(asked) == Exit.OK
    after = table.read(kept)
    assert len(after) == len(before)
    assert set(after.loc[after["method"] == "auto", "code"]) != {"older"}
    assert set(after.loc[after["method"] == "majority", "code"]) == {"older"}
    times = pd.read_csv(kept.with_name("times.csv"))
    assert times["form"].tolist() == ["quick auto on synthetic-l"]


def test_runs_of_several_files_become_one(out, tmp_path):
    page, kept = tmp_path / "page.html", tmp_path / "all.parquet"
    source = out / "auto-table-quick" / "runs.parquet"
    twice = [str(source), str(source)]
    assert run(["bench", "report", *twice, "-o", str(page), "--keep", str(kept)]) == Exit.OK
    assert len(table.read(kept)) == len(table.read(source))


def test_options_are_written_as_a_shell_takes_them():
    from discreet_bench.command import _words

    assert (
        _words(
            ["x"],
            quick=True,
            download=False,
            repeats=None,
            epsilon=[0.1, 1.0],
            solver_file=["a b.py"],
        )
        == "x --quick --epsilon 0.1 --epsilon 1 --solver-file 'a b.py'"
    )


def test_a_file_compared_with_itself_is_the_same(out, capsys):
    assert run(["bench", "compare", str(out), str(out), "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert {row["verdict"] for row in found} == {"same"}
    assert run(["bench", "compare", str(out), str(out)]) == Exit.OK
    assert "after minus before" in capsys.readouterr().out


def test_the_list_names_every_experiment(capsys):
    from discreet_bench.experiments import EXPERIMENTS

    assert run(["bench", "list", "--json"]) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in told] == list(EXPERIMENTS)
    assert all(each["runs"] > each["quick_runs"] > 0 for each in told)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "dpagd-fig22"], Exit.USAGE, "dpagd-fig2"),
        (["run", "auto-table", "--data-dir", "nowhere"], Exit.USAGE, "nowhere"),
        (["run", "auto-table", "--solver-file", "nowhere.py"], Exit.USAGE, "nowhere.py"),
        (["report", "nowhere.parquet"], Exit.DATA, "nowhere.parquet"),
        (["compare", "a.parquet", "b.parquet"], Exit.DATA, "a.parquet"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(arguments, code, says, capsys, tmp_path):
    assert run(["bench", *arguments]) == code
    assert says in capsys.readouterr().err.replace("\n", " ")


def test_a_file_that_takes_the_name_of_a_method_is_refused(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(
        "from benchopt import BaseSolver\n\n\n"
        'class Solver(BaseSolver):\n    name = "agd"\n    run = set_objective = get_result = None\n'
    )
    asked = ["bench", "run", "auto-table", "--quick", "--solver-file", str(file)]
    assert run([*asked, "--out", str(tmp_path)]) == Exit.USAGE
    assert "'agd'" in capsys.readouterr().err


def test_a_file_of_something_else_is_refused(tmp_path, capsys):
    path = tmp_path / "other.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(path)
    assert run(["bench", "report", str(path), "-o", str(tmp_path / "x.html")]) == Exit.DATA
    assert "not a file of benchmark runs" in capsys.readouterr().err.replace("\n", " ")


def test_an_overspending_method_ends_with_the_exit_code_of_privacy(tmp_path, capsys):
    file = tmp_path / "spender.py"
    file.write_text(
        "from discreet_bench.estimator import EstimatorSolver, parameters_of\n\n\n"
        "class Solver(EstimatorSolver):\n"
        '    """Spends too much."""\n\n'
        '    name = "spender"\n    solver = "gd"\n    parameters = parameters_of("gd")\n\n'
        "    def set_objective(self, **objective):\n"
        '        super().set_objective(**(objective | {"epsilon": 2 * objective["epsilon"]}))\n'
    )
    asked = ["bench", "run", "auto-table", *NARROW, "--jobs", "1", "--epsilon", "1"]
    code = run([*asked, "--repeats", "1", "--solver-file", str(file), "--out", str(tmp_path)])
    assert code == Exit.PRIVACY
    assert "spender" in capsys.readouterr().err
