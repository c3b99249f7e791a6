"""The benchmark in the form that benchopt runs: objective, data sets and a file per solver."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from benchopt import BaseDataset, BaseObjective

from discreet_bench.data import generated, public
from discreet_bench.problem import CHOICES, Result
from discreet_bench.solvers import solver_names
from discreet_bench.task import Task

__all__ = ["LOG", "NAME", "Generated", "Given", "Objective", "Public", "write"]

LOG = "DISCREET_BENCH_LOG"
"""Environment variable with a file for a line per finished run; without it none is written."""

NAME = "Private ERM"


class Objective(BaseObjective):
    """Mean loss + alpha/2 |w|^2 over training rows, judged on test rows and on itself."""

    name = NAME
    sampling_strategy = "run_once"
    requirements: ClassVar[list[str]] = []
    parameters: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [1.0],
        "delta": ["1/n^2"],
        "relation": ["add_remove"],
        "loss": ["logistic"],
        "alpha": [1e-4],
        "test": ["80/20"],
        "rows": ["encoded"],
        "intercept": [True],
    }

    @classmethod
    def get_all_parameter_values(cls, name: str) -> list[str] | None:
        """Return all values of a parameter, where there are a few."""
        return list(CHOICES[name]) if name in CHOICES else None

    def skip(self, table: Any) -> tuple[bool, str | None]:
        """Skip losses that are not for this kind of target."""
        reason = Task(table, **self._settings()).unfit()
        return reason is not None, reason

    def set_data(self, table: Any) -> None:
        """Take a data set."""
        self.task = Task(table, **self._settings())
        self.cv = self.task.splits

    def split(self, repeat: int, *_: Any) -> int:
        """Return the number of the repeat, which `get_split` returns in turn."""
        return repeat

    def get_objective(self) -> dict[str, Any]:
        """Return one repeat's problem, with the fields of `discreet_bench.problem.Problem`."""
        return vars(self.task.problem(self.get_split()))

    def evaluate_result(self, **result: Any) -> list[dict[str, Any]]:
        """Judge what a solver returned."""
        lines = self.task.judged(Result(**result))
        self._note()
        return lines

    def get_one_result(self) -> dict[str, Any]:
        """Return a result that can be judged: scores of zero."""
        problem = self.task.last
        shape: tuple[int, ...] = (problem.X_test.shape[0],)
        if problem.n_classes > 2:
            shape += (problem.n_classes,)
        return {"scores": np.zeros(shape), "variant": "not private"}

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.parameters}

    def _note(self) -> None:
        """Append a line to the log, from which the command counts finished runs."""
        path = os.environ.get(LOG)
        if not path:
            return
        context = self._run_context
        run = " · ".join((context.dataset_name, context.objective_name, context.solver_name))
        entry = {"run": run, "repeat": context.repetition, "at": time.time()}
        line = json.dumps(entry, ensure_ascii=False) + "\n"
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:  # one write: lines of several workers do not mix
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


class Generated(BaseDataset):
    """A generated data set, of its usual size unless another is given."""

    name = "generated"
    requirements: ClassVar[list[str]] = []
    parameters: ClassVar[dict[str, list[Any]]] = {
        "data": ["synthetic-l"],
        "rows": [None],
        "features": [None],
        "seed": [0],
    }
    test_parameters: ClassVar[dict[str, list[Any]]] = {"rows": [500], "features": [5]}

    def get_data(self) -> dict[str, Any]:
        """Return the table for the objective."""
        return {"table": generated(self.data, self.rows, self.features, self.seed)}


class Public(BaseDataset):
    """A public data set, encoded by its public schema, and perhaps cut."""

    name = "public"
    requirements: ClassVar[list[str]] = []
    parameters: ClassVar[dict[str, list[Any]]] = {
        "data": ["adult"],
        "rows": [None],
        "columns": [None],
        "unit": [False],
    }

    def get_data(self) -> dict[str, Any]:
        """Return the table for the objective."""
        return {"table": public(self.data, self.rows, self.columns, self.unit)}


class Given(BaseDataset):
    """A data set of a user's file, or of an entry point of an installed package."""

    name = "given"
    requirements: ClassVar[list[str]] = []
    parameters: ClassVar[dict[str, list[Any]]] = {"place": [""]}

    def get_data(self) -> dict[str, Any]:
        """Return the table for the objective."""
        from discreet_bench.extensions import data_of

        return {"table": data_of(self.place)}


def write(folder: Path, files: Iterable[str] = ()) -> Path:
    """Write the folder that benchopt reads: one file per class, each of them an import.

    ``files`` are users' solvers.
    """
    made = {
        "objective.py": "from discreet_bench.benchmark import Objective",
        "datasets/generated.py": "from discreet_bench.benchmark import Generated as Dataset",
        "datasets/public.py": "from discreet_bench.benchmark import Public as Dataset",
        "datasets/given.py": "from discreet_bench.benchmark import Given as Dataset",
    }
    for file in files:
        text = f"from discreet_bench.extensions import solver_of\n\nSolver = solver_of({file!r})"
        made[f"solvers/user_{hashlib.sha256(file.encode()).hexdigest()[:12]}.py"] = text
    for name in solver_names():
        text = f"from discreet_bench.solvers import solver_class\n\nSolver = solver_class({name!r})"
        made[f"solvers/{name.replace('-', '_')}.py"] = text
    for name, text in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text + "\n":
            path.write_text(text + "\n", encoding="utf-8")
    for path in (folder / "solvers").glob("*.py"):
        if f"solvers/{path.name}" not in made:
            path.unlink()
    return folder
