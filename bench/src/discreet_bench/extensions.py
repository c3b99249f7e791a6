"""Solvers, data sets and experiments of users: from files, and from entry points of packages.

- **Solvers.** A file with a class ``Solver`` for benchopt, or with a dataclass that derives from
  `discreet.solvers.Solver`. A package registers the latter in the group ``discreet.solvers``, and
  its solver joins every experiment whose loss it supports.
- **Data sets.** A file with a function ``load`` that returns a `discreet_bench.data.Table`
  (`discreet_bench.data.table_of` makes one), or an entry point to such a function in the group
  ``discreet_bench.data``.
- **Experiments.** A file with an `discreet_bench.experiment.Experiment` named ``experiment``, or an
  entry point to one in the group ``discreet_bench.experiments``.

What is wrong with a file is said in one sentence, before anything runs or as the result of a run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from benchopt import BaseSolver

from discreet.core import Budget, Relation
from discreet.errors import NotSupported
from discreet.solvers import Solver as LibrarySolver
from discreet.solvers import describe, names, resolve
from discreet_bench.data import Table
from discreet_bench.estimator import EstimatorSolver, in_a_cell, parameters_of
from discreet_bench.experiment import Experiment, Plan
from discreet_bench.measures import loss_of
from discreet_bench.problem import Result

__all__ = [
    "data_names",
    "data_of",
    "experiment_of",
    "experiments",
    "is_file",
    "registered_solvers",
    "solver_of",
    "with_data",
    "with_solvers",
]

DATA_GROUP = "discreet_bench.data"
EXPERIMENT_GROUP = "discreet_bench.experiments"


class ExtensionError(ValueError):
    """A file or an entry point that is not what the benchmark needs; its text is one sentence."""


def is_file(name: str) -> bool:
    """Tell whether the name of a solver, data set or experiment is a user's file."""
    return name.endswith(".py")


def _module(path: str) -> ModuleType:
    """Import a user's file; what goes wrong is one sentence."""
    file = Path(path)
    if not file.is_file():
        raise ExtensionError(f"{path}: there is no such file.")
    digest = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(f"discreet_bench_user_{digest}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file does
        raise ExtensionError(f"{path} cannot be imported: {in_a_cell(error)}") from None
    return module


def _points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise ExtensionError(
            f"the entry point {point.name!r} ({point.value}) cannot be imported: {error}."
        ) from None


# -- solvers


@cache
def solver_of(path: str) -> type[BaseSolver]:
    """Return the solver of a file for benchopt; its errors become results of one sentence."""
    module = _module(path)
    found = getattr(module, "Solver", None)
    if not (isinstance(found, type) and issubclass(found, BaseSolver)):
        own = [
            kind
            for kind in vars(module).values()
            if isinstance(kind, type)
            and issubclass(kind, LibrarySolver)
            and kind.__module__ == module.__name__
            and dataclasses.is_dataclass(kind)
        ]
        if len(own) != 1:
            raise ExtensionError(
                f"{path} must have a class Solver for benchopt, or one dataclass that derives from "
                f"discreet.solvers.Solver; it has {len(own)}."
            )
        method = own[0]()
        found = type("Solver", (EstimatorSolver,), {
            "name": method.name,
            "solver": method,
            "parameters": parameters_of(method),
            "__doc__": own[0].__doc__,
        })  # fmt: skip
    if not isinstance(getattr(found, "name", None), str):
        raise ExtensionError(f"{path}: the class Solver must have a name, such as name = 'mine'.")
    return _guarded(found)


def _guarded(kind: type[BaseSolver]) -> type[BaseSolver]:
    """Return the solver with errors of its methods as results, in one sentence each."""

    def run(self: Any, value: Any) -> None:
        self.failed = ""
        try:
            super(made, self).run(value)
        except Exception as error:  # whatever a user's method does
            self.failed = in_a_cell(error)

    def get_result(self: Any) -> dict[str, Any]:
        if self.failed:
            return Result(problem=self.failed, variant="private").as_dict()
        try:
            given = super(made, self).get_result()
        except Exception as error:
            return Result(problem=in_a_cell(error), variant="private").as_dict()
        return checked(given)

    own = {"run": run, "get_result": get_result, "__doc__": kind.__doc__, "name": kind.name}
    made = type("Solver", (kind,), own)
    return made


def checked(given: Any) -> dict[str, Any]:
    """Return what a solver gave, or the sentence that says why it is no result."""
    known = {field.name for field in dataclasses.fields(Result)}
    wrong = ""
    if not isinstance(given, dict):
        wrong = f"get_result returned {type(given).__name__}, not a dict of the fields of Result"
    elif unknown := sorted(set(given) - known):
        wrong = f"get_result returned {unknown[0]!r}, which is no field of Result"
    elif given.get("scores") is None and not given.get("problem"):
        wrong = "get_result returned no scores of the test rows"
    if wrong:
        return Result(problem=f"ValueError: {wrong}.", variant="private").as_dict()
    return dict(given)


def registered_solvers() -> tuple[str, ...]:
    """Return the names of solvers that other installed packages register."""
    return tuple(
        name for name in names() if name != "auto" and describe(name).package != "discreet"
    )


def with_solvers(plans: Sequence[Plan], solvers: Iterable[str]) -> list[Plan]:
    """Add solvers by name or file to open plans, once per data set and objective.

    Registered solvers join plans whose loss they support; files join all of them.
    """
    found = list(plans)
    solvers = list(solvers)
    seen: set[tuple[str, str, str]] = set()
    for plan in plans:
        if not plan.open:
            continue
        asked = _asked(plan)
        for name in solvers:
            if not is_file(name) and not supported(name, plan):
                continue
            new = {
                data: grid for data, grid in plan.data.items() if (data, asked, name) not in seen
            }
            seen |= {(data, asked, name) for data in new}
            if new:
                found.append(dataclasses.replace(plan, data=new, solvers={name: {}}))
    return found


def _asked(plan: Plan) -> str:
    """Return the objective of a plan as text, the smoothed hinge counting as the hinge.

    Experiments about the hinge have it smoothed for methods that need that; a method that takes
    either runs once.
    """
    same = {"huber-hinge": "hinge"}
    losses = [same.get(loss, loss) for loss in plan.objective.get("loss", ())]
    return json.dumps({**plan.objective, "loss": losses}, default=str, sort_keys=True)


def supported(name: str, plan: Plan) -> bool:
    """Tell whether a registered solver supports a loss and a relation of a plan."""
    solver = resolve(name)
    relations = {str(relation) for relation in solver.relations}
    relation = next((each for each in plan.objective["relation"] if each in relations), None)
    if relation is None:
        return False
    delta = plan.objective["delta"][0]
    budget = Budget(1.0, 1e-6 if isinstance(delta, str) else delta, Relation(relation))
    try:
        for loss in plan.objective["loss"]:
            solver.check(loss_of(loss), budget)
    except NotSupported:
        return False
    return True


# -- data sets


def data_names() -> tuple[str, ...]:
    """Return the names of data sets that installed packages register."""
    return tuple(_points(DATA_GROUP))


@cache
def data_of(place: str) -> Table:
    """Return the data set of a file or of an entry point."""
    if is_file(place):
        load = getattr(_module(place), "load", None)
        if not callable(load):
            raise ExtensionError(f"{place} must have a function load() that returns a Table.")
    else:
        load = _loaded(_points(DATA_GROUP)[place])
    try:
        made = load()
    except Exception as error:  # whatever a user's function does
        raise ExtensionError(f"{place} cannot be loaded: {in_a_cell(error)}") from None
    if not isinstance(made, Table):
        raise ExtensionError(
            f"load() of {place} returned {type(made).__name__}, not a Table; "
            "discreet_bench.data.table_of makes one."
        )
    return made


def with_data(plans: Sequence[Plan], places: Iterable[str], *, alone: bool) -> list[Plan]:
    """Add data sets by file or entry point to open plans; ``alone`` leaves out all others.

    Each solver runs on a data set once per objective, in the first plan that has it.
    """
    found: list[Plan] = [] if alone else list(plans)
    for place in places:
        seen: set[tuple[str, str]] = set()
        for plan in plans:
            if not plan.open:
                continue
            asked = json.dumps(plan.objective, default=str, sort_keys=True)
            new = {name: grid for name, grid in plan.solvers.items() if (name, asked) not in seen}
            seen |= {(name, asked) for name in new}
            if new:
                found.append(dataclasses.replace(plan, data={place: {}}, solvers=new))
    return found


# -- experiments


def experiment_of(path: str) -> Experiment:
    """Return the experiment of a file."""
    found = getattr(_module(path), "experiment", None)
    if not isinstance(found, Experiment):
        raise ExtensionError(f"{path} must have an Experiment named experiment.")
    return found


def experiments() -> dict[str, Experiment]:
    """Return the experiments that installed packages register."""
    found: dict[str, Experiment] = {}
    for name, point in _points(EXPERIMENT_GROUP).items():
        made = _loaded(point)
        if not isinstance(made, Experiment):
            raise ExtensionError(f"the entry point {name!r} must name an Experiment; got {made!r}.")
        found[made.name] = made
    return found
