"""Solvers, data sets and experiments of users, from files and entry points."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pandas as pd
import pytest

from discreet.cli.app import run
from discreet.cli.exits import Exit
from discreet_bench import extensions
from discreet_bench.experiment import Plan, objective
from discreet_bench.experiments import EXPERIMENTS, find

EXAMPLES = Path(__file__).parents[1] / "examples"
SOLVER = EXAMPLES / "growing_descent.py"
DATA = EXAMPLES / "two_moons.py"
EXPERIMENT = EXAMPLES / "small_budgets.py"


@pytest.fixture(autouse=True)
def only_known_experiments():
    before = dict(EXPERIMENTS)
    yield
    EXPERIMENTS.clear()
    EXPERIMENTS.update(before)


def asked(out: Path, *words: str) -> list[str]:
    return ["bench", "run", *words, "--quick", "--repeats", "1", "--jobs", "1", "--no-pages",
            "--out", str(out)]  # fmt: skip


def test_the_documented_files_run_together(tmp_path):
    assert len(SOLVER.read_text().splitlines()) <= 50
    words = [str(EXPERIMENT), "--solver-file", str(SOLVER), "--data-file", str(DATA)]
    assert run(asked(tmp_path, *words)) == Exit.OK
    runs = pd.read_parquet(tmp_path / "small-budgets-quick" / "runs.parquet")
    assert set(runs["data"]) == {"two-moons"}
    assert set(runs["method"]) == {"auto", "gd", "majority", "growing-descent"}
    mine = runs[runs["method"] == "growing-descent"]
    assert (mine["problem"] == "").all()
    assert (mine["variant"] == "private").all()
    assert (mine["epsilon_recomputed"] <= mine["epsilon"] * 1.001).all()
    assert mine["accuracy"].max() > 0.6


def test_a_data_file_joins_the_data_sets_that_are_named(tmp_path):
    words = [str(EXPERIMENT), "--data-file", str(DATA), "--data", "plane", "--method", "majority"]
    assert run(asked(tmp_path, *words)) == Exit.OK
    runs = pd.read_parquet(tmp_path / "small-budgets-quick" / "runs.parquet")
    assert {name.split(" (")[0] for name in runs["data"]} == {"two-moons", "plane"}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("    def get_result(self):\n        return {'score': 1}\n", "'score'"),
        ("    def get_result(self):\n        return 3\n", "returned int"),
        ("    def get_result(self):\n        return {'scores': [1.0]}\n", "shape (1,)"),
        ("    def run(self, _):\n        raise RuntimeError('No luck. More.')\n", "No luck."),
    ],
)
def test_a_wrong_result_is_one_sentence(tmp_path, capfd, body, says):
    file = tmp_path / "wrong.py"
    file.write_text(
        "from benchopt import BaseSolver\n\n\nclass Solver(BaseSolver):\n    name = 'wrong'\n"
        "    sampling_strategy = 'run_once'\n\n    def set_objective(self, **objective):\n"
        "        pass\n\n    def run(self, _):\n        pass\n\n    def get_result(self):\n"
        f"        return {{}}\n\n{body}"
    )
    words = [str(EXPERIMENT), "--solver-file", str(file), "--method", "none"]
    assert run(asked(tmp_path / "out", *words)) == Exit.OK
    runs = pd.read_parquet(tmp_path / "out" / "small-budgets-quick" / "runs.parquet")
    assert len(runs) == 2
    assert all(says in problem and "\n" not in problem for problem in runs["problem"])
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("--solver-file", "x = 1\n", "must have a class Solver"),
        ("--solver-file", "import nowhere\n", "cannot be imported"),
        ("--data-file", "x = 1\n", "function load"),
        ("--data-file", "def load():\n    return 3\n", "returned int, not a Table"),
        ("--data-file", "def load():\n    raise KeyError('gone')\n", "cannot be loaded"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path, capsys, option, text, says):
    file = tmp_path / "wrong.py"
    file.write_text(text)
    assert run(asked(tmp_path, str(EXPERIMENT), option, str(file))) != Exit.OK
    told = " ".join(capsys.readouterr().err.split())
    assert says in told
    assert "Traceback" not in told


def test_a_wrong_experiment_is_one_sentence(tmp_path, capsys):
    file = tmp_path / "wrong.py"
    file.write_text("experiment = 3\n")
    assert run(asked(tmp_path, str(file))) == Exit.USAGE
    assert "Experiment named experiment" in " ".join(capsys.readouterr().err.split())


def registered(monkeypatch: pytest.MonkeyPatch, group: str, **points: str) -> None:
    """Make entry points of an installed package visible."""
    from discreet import solvers

    monkeypatch.syspath_prepend(str(EXAMPLES))
    made = [EntryPoint(name.replace("_", "-"), value, group) for name, value in points.items()]

    def found(*, group: str) -> list[EntryPoint]:
        return [point for point in made if point.group == group]

    monkeypatch.setattr(solvers, "entry_points", found)
    monkeypatch.setattr(extensions, "entry_points", found)


def test_an_installed_solver_joins_every_experiment_whose_loss_it_supports(monkeypatch):
    registered(monkeypatch, "discreet.solvers", growing_descent="growing_descent:GrowingDescent")
    assert extensions.registered_solvers() == ("growing-descent",)
    for experiment in EXPERIMENTS.values():
        for form in ("quick", "paper", "full"):
            plans = experiment.form(form)
            joined = extensions.with_solvers(plans, extensions.registered_solvers())
            added = [plan for plan in joined[len(plans) :] if "growing-descent" in plan.solvers]
            assert not any(plan.difference or plan.tuning == "grid" for plan in added)
            takes = any(extensions.supported("growing-descent", plan) for plan in plans)
            assert bool(added) == takes, (experiment.name, form)
            assert takes or experiment.name.startswith("sgd-")  # δ = 0, which it does not take
            seen = [(data, str(plan.objective)) for plan in added for data in plan.data]
            assert len(seen) == len(set(seen))
    sys.modules.pop("growing_descent", None)


def test_a_method_that_needs_a_smooth_loss_joins_experiments_about_the_hinge():
    plans = EXPERIMENTS["dpagd-fig3"].paper
    for name, loss in (("agd", "hinge"), ("objpert", "huber-hinge")):
        added = extensions.with_solvers(plans, [name])[len(plans) :]
        assert {one for plan in added for one in plan.objective["loss"]} == {loss}
        joined = [data for plan in added for data in plan.data]
        assert sorted(joined) == sorted(set(joined))  # once


def test_losses_and_relations_that_a_solver_does_not_support_are_left_out(monkeypatch):
    plan = Plan({"plane": {}}, objective((1.0,), 0.0, relation=("add_remove",)), {"gd": {}}, 1)
    assert not extensions.supported("agd", plan)  # it needs δ > 0
    assert extensions.supported("frank-wolfe", plan)
    hinge = objective((1.0,), 1e-6, relation=("replace_one",), loss="hinge")
    plan = Plan({"plane": {}}, hinge, {"gd": {}}, 1)
    assert not extensions.supported("amp", plan)
    assert extensions.supported("agd", plan)
    assert not extensions.supported("laplace-sgd", Plan(
        {"plane": {}}, objective((1.0,), 1e-6, relation=("add_remove",)), {"gd": {}}, 1
    ))  # fmt: skip


def test_data_and_experiments_of_packages_are_found_by_name(monkeypatch):
    registered(monkeypatch, "discreet_bench.data", two_moons="two_moons:load")
    assert extensions.data_names() == ("two-moons",)
    assert extensions.data_of("two-moons").name == "two-moons"
    registered(monkeypatch, "discreet_bench.experiments", small="small_budgets:experiment")
    assert find("small-budgets").title == "Two methods at small budgets"
    for name in ("two_moons", "small_budgets"):
        sys.modules.pop(name, None)
