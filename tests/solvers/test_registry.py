"""Solvers by name: what is listed, what a description says, and solvers of other packages."""

import dataclasses
import subprocess
import sys
import textwrap
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from discreet import solvers
from discreet.core import Budget
from discreet.errors import NotSupported
from discreet.objectives import L2, Logistic, Problem

from .conftest import solve, table

EXAMPLE = Path(__file__).parent.parent / "example_package"


def test_names_are_sorted_and_start_with_auto():
    names = solvers.names()
    assert names[0] == "auto"
    assert names[1:] == sorted(names[1:])
    assert {"agd", "outpert", "nonprivate", "majority"} <= set(names)


@pytest.mark.parametrize("name", solvers.names())
def test_every_solver_describes_itself(name):
    described = solvers.describe(name)
    assert described.paper
    assert described.summary.endswith(".")
    assert described.relations
    text = str(described)
    assert described.name in text
    for parameter in described.parameters:
        assert f"{parameter}=" in text
    assert described.private == (name not in ("nonprivate", "majority"))


def test_papers_names_are_aliases_of_one_solver():
    for name, paper in (("sgd-ma", "abadi"), ("sgd-adv", "bassily")):
        assert solvers.resolve(name) == solvers.SGD(published=paper)
        described = solvers.describe(name)
        assert described.summary == f"Alias of sgd with published={paper!r}."
        assert described.parameters == {**solvers.describe("sgd").parameters, "published": paper}
    assert solvers.resolve("sgd") == solvers.SGD()


def test_auto_is_a_rule_and_no_solver():
    auto = solvers.resolve("auto")
    assert auto == solvers.Auto()
    assert not isinstance(auto, solvers.GD)
    assert solvers.AUTO == auto.name == "auto"
    described = solvers.describe("auto")
    assert described.summary.startswith("Chooses a preparation and one of gd, shrunk-gd and newton")
    assert described.parameters == {}
    problem = Problem(Logistic(), L2(), 100, 3)
    with pytest.raises(NotSupported, match="rule of estimators"):
        auto.plan(problem, Budget(1.0, 1e-6, "add_remove"))
    with pytest.raises(NotSupported, match="delta > 0"):
        auto.check(Logistic(), Budget(1.0, 0.0, "add_remove"))


@pytest.mark.parametrize("name", solvers.names())
def test_every_solver_is_a_frozen_dataclass_that_works_without_settings(name):
    solver = solvers.resolve(name)
    assert dataclasses.is_dataclass(solver)
    assert solvers.resolve(solver) is solver
    with pytest.raises(dataclasses.FrozenInstanceError):
        solver.anything = 1


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown solver 'outprt'.*outpert"):
        solvers.resolve("outprt")


@pytest.mark.process
def test_an_installed_package_adds_its_solver(tmp_path):
    """The example package, installed as pip would leave it, in a Python of its own."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    installed = tmp_path / f"discreet_example-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = ["[discreet.solvers]"]
    lines += [
        f"{name} = {target}" for name, target in project["entry-points"]["discreet.solvers"].items()
    ]
    (installed / "entry_points.txt").write_text("\n".join(lines) + "\n")
    program = textwrap.dedent(
        f"""
        import sys
        sys.path[:0] = [{str(tmp_path)!r}, {str(EXAMPLE / "src")!r}]
        from discreet import LogisticRegression, solvers
        from discreet_bench.synthetic import plane
        assert "noisy-descent" in solvers.names()
        print(solvers.describe("noisy-descent"))
        X, y = plane(4000, seed=0)
        model = LogisticRegression(solver="noisy-descent", epsilon=4.0, delta=1e-6).fit(X, y)
        print("accuracy", model.score(X, y), model.guarantee_.measure)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "from the package discreet-example" in done.stdout
    accuracy, measure = done.stdout.split("accuracy")[1].split()
    assert float(accuracy) > 0.75
    assert measure == "gdp"


class _Entry:
    """An entry point that loads something that is no solver."""

    value = "some.module:thing"
    dist = None

    def __init__(self, name):
        self.name = name

    def load(self):
        return int


def test_an_entry_point_adds_a_solver(monkeypatch):
    """As the installed example package does, in this process."""
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    entry = EntryPoint("noisy-descent", "discreet_example:NoisyDescent", solvers.GROUP)
    monkeypatch.setattr(solvers, "entry_points", lambda group: [entry])
    assert "noisy-descent" in solvers.names()
    budget = Budget(4.0, 1e-6, "add_remove")
    solution, guarantee, curator = solve(solvers.resolve("noisy-descent"), budget)
    assert guarantee.measure == "gdp"
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)
    assert len(solution.trace) == 30
    X, y = table()
    assert np.mean(np.sign(X @ solution.weights[:-1] + solution.weights[-1]) == y) > 0.75


def test_an_entry_point_that_is_no_solver_is_refused(monkeypatch):
    monkeypatch.setattr(solvers, "entry_points", lambda group: [_Entry("broken")])
    assert "broken" in solvers.names()
    with pytest.raises(TypeError, match=r"some\.module:thing.*subclass"):
        solvers.resolve("broken")


def test_an_entry_point_that_cannot_be_imported_is_named(monkeypatch):
    gone = EntryPoint("gone", "no_such_package:Solver", solvers.GROUP)
    monkeypatch.setattr(solvers, "entry_points", lambda group: [gone])
    with pytest.raises(ImportError, match=r"'gone' is registered as no_such_package:Solver"):
        solvers.describe("gone")


def test_a_package_cannot_take_the_name_of_a_solver_of_the_library(monkeypatch):
    taken = [_Entry("agd"), _Entry("auto"), _Entry("sgd-ma")]
    monkeypatch.setattr(solvers, "entry_points", lambda group: taken)
    assert isinstance(solvers.resolve("sgd-ma"), solvers.SGD)
    assert isinstance(solvers.resolve("agd"), solvers.AGD)
    assert solvers.names().count("auto") == 1
