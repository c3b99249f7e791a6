"""Run an experiment with benchopt, and bring what it wrote into the columns of `runs`.

What benchopt does: the product of data sets, objectives and solvers, processes side by side, and a
cache of every finished run, which makes an interrupted experiment go on where it stopped. What it
does not, and stands here and in `progress`: the time that is left, keeping the results of a run
that was interrupted, a cache that knows when the library's own code has changed, data sets and
methods that are left out with a reason, and one tidy file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

import discreet
from discreet_bench import runs as table
from discreet_bench.data import GENERATED, available, too_large
from discreet_bench.experiment import Experiment, Plan
from discreet_bench.interrupts import insistent_interrupts
from discreet_bench.progress import JOBS, LOG, Count
from discreet_bench.promise import OVERSPENT
from discreet_bench.rivals import RIVALS, ready
from discreet_bench.tidy import tidy, versions

__all__ = ["Done", "Status", "benchmark_folder", "narrowed", "run", "size"]

_DECIDING = (
    "privacy", "objectives", "rows", "solvers", "estimators", "tables", "bench/released",
    "bench/rivals", "bench/tuning", "bench/data.py", "bench/measures.py", "bench/minimum.py",
    "bench/plain.py", "bench/problem.py", "bench/promise.py",
    "bench/recompute.py", "bench/solver.py", "bench/splits.py", "bench/task.py",
)  # fmt: skip
"""Code that decides what a run gives, beside the solver files, which benchopt looks after."""
MOST_AT_ONCE = 400
"""Runs that benchopt is given at once."""
WRITE_EVERY = 30.0
"""Seconds between writing the file of all runs so far."""
_WAIT = 0.5


@dataclass(frozen=True)
class Status:
    """How far an experiment is."""

    done: int
    total: int
    seconds_left: float | None
    now: str


@dataclass
class Done:
    """What came out of an experiment.

    Attributes
    ----------
    runs
        All lines.
    skipped
        What was left out, with the reason.
    failures
        Runs that were errors; a run that spent too much is one.
    interrupted
        Whether somebody stopped it.
    """

    runs: pd.DataFrame
    skipped: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False


def benchmark_folder() -> Path:
    """Where the files for benchopt are: in this checkout, or inside the installed package."""
    here = Path(__file__).resolve()
    for folder in (here.parents[3] / "benchmarks" / "private_erm", here.parent / "private_erm"):
        if (folder / "objective.py").exists():
            return folder
    raise FileNotFoundError("The benchmark's files (benchmarks/private_erm) are not installed.")


def narrowed(
    plans: Sequence[Plan],
    *,
    repeats: int | None = None,
    data: Sequence[str] = (),
    methods: Sequence[str] = (),
    epsilons: Sequence[float] = (),
    relations: Sequence[str] = (),
    files: Sequence[str] = (),
) -> list[Plan]:
    """The part of plans that has these data sets, methods, budgets and relations.

    ``files`` are further solvers, each a Python file, which run wherever anything does.
    """
    kept = []
    for plan in plans:
        objective = dict(plan.objective)
        if epsilons:
            objective["epsilon"] = list(epsilons)
        if relations:
            objective["relation"] = [r for r in objective["relation"] if r in relations]
        tables = {k: v for k, v in plan.data.items() if not data or k in data}
        solvers = {k: v for k, v in plan.solvers.items() if not methods or k in methods}
        if plan.tuning == "default":
            solvers |= {file: {} for file in files}
        if tables and solvers and objective["relation"]:
            plan = replace(plan, data=tables, solvers=solvers, objective=objective)
            kept.append(replace(plan, repeats=repeats) if repeats else plan)
    return kept


def run(
    experiment: Experiment,
    plans: Sequence[Plan],
    path: Path,
    *,
    jobs: int = 1,
    cache: Path,
    watch: Callable[[Status], None] = lambda _: None,
) -> Done:
    """Run plans and write their runs to ``path``, now and then and at the end.

    Parameters
    ----------
    experiment : Experiment
        Whose plans they are.
    plans : sequence of Plan
        What to run.
    path : Path
        The Parquet file.
    jobs : int
        Processes side by side.
    cache : Path
        Folder of finished runs, which are not run again.
    watch : callable
        Told how far it is, from time to time.
    """
    cache = cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    log = cache / f"progress-{os.getpid()}.jsonl"  # commands may share a cache
    _tell_workers({"BENCHOPT_CACHE": str(cache / fingerprint()), LOG: str(log), JOBS: str(jobs)})
    done = Done(pd.DataFrame())
    units = list(_units(plans, done.skipped))
    counter = _Counter(log, [size(plan) for plan in units], watch)
    parts: list[pd.DataFrame] = []
    written = time.monotonic()
    for number, plan in enumerate(units):
        with counter.watching(number, " · ".join(plan.data)):
            file = cache / "parts" / f"{experiment.name}-{number}-{os.getpid()}.parquet"
            found, stopped = _benchopt(plan, file, jobs)
        if found is not None:
            parts.append(tidy(found, experiment=experiment.name, tuning=plan.tuning))
        last = stopped or number == len(units) - 1
        if parts and (last or time.monotonic() - written > WRITE_EVERY):
            done.runs = table.complete(pd.concat(parts, ignore_index=True))
            _keep_larger(path, len(done.runs))
            table.write(done.runs, path)
            written = time.monotonic()
        if stopped:
            done.interrupted = True
            break
    log.unlink(missing_ok=True)
    if not done.runs.empty:
        failed = done.runs[done.runs["problem"].str.startswith(OVERSPENT)]
        done.failures = [_in_words(row) for row in failed.to_dict("records")]
    return done


def _tell_workers(environment: dict[str, str]) -> None:
    """Set variables; workers that were started with others are sent home."""
    from joblib.externals.loky import get_reusable_executor

    if any(os.environ.get(name) != value for name, value in environment.items()):
        get_reusable_executor().shutdown(wait=True)
        os.environ.update(environment)


def _keep_larger(path: Path, count: int) -> None:
    """Put a file aside that has more runs than the one that takes its place."""
    if path.exists() and pq.read_metadata(path).num_rows > count:
        path.replace(path.with_name(f"{path.stem}.before{path.suffix}"))


def _in_words(row: dict[str, Any]) -> str:
    where = f"{row['method']} on {row['data']}, ε = {row['epsilon']:g}, {row['relation']}"
    return f"{where}, repeat {row['repeat']:.0f}: {row['problem']}"


def fingerprint() -> str:
    """A short name for the code that decides what a run gives."""
    root = Path(discreet.__file__).parent
    digest = hashlib.sha256()
    for place in map(root.joinpath, _DECIDING):
        inside = (file for file in sorted(place.rglob("*")) if file.suffix in (".py", ".toml"))
        for file in [place] if place.is_file() else inside:
            digest.update(file.read_bytes())
    digest.update(json.dumps([versions(), os.environ.get("DISCREET_DATA")]).encode())
    return digest.hexdigest()[:16]


def _units(plans: Sequence[Plan], skipped: dict[str, str]) -> Iterator[Plan]:
    """One data set at a time; data sets and other libraries that are not here are left out."""
    for plan in plans:
        for solver in plan.solvers:
            reason = ready(RIVALS[solver]) if solver in RIVALS else None
            if reason is not None:
                skipped[solver] = reason
        plan = replace(plan, solvers={k: v for k, v in plan.solvers.items() if k not in skipped})
        if not plan.solvers:
            continue
        for name, grid in plan.data.items():
            reason = available(name)
            large = too_large(name, grid)
            if large is not None:
                skipped[f"{name}: {large}"] = large
            elif reason is None or os.environ.get("DISCREET_DOWNLOAD") == "1":
                yield from _pieces(replace(plan, data={name: grid}))
            else:
                skipped[name] = reason


def _pieces(plan: Plan) -> Iterator[Plan]:
    """The same runs in plans that are small enough to be collected when they are interrupted."""
    if size(plan) <= MOST_AT_ONCE:
        yield plan
        return
    for name, values in plan.objective.items():
        if len(values) > 1:
            for value in values:
                yield from _pieces(replace(plan, objective={**plan.objective, name: [value]}))
            return
    names = list(plan.solvers)
    if len(names) > 1:
        for part in (names[: len(names) // 2], names[len(names) // 2 :]):
            yield from _pieces(replace(plan, solvers={name: plan.solvers[name] for name in part}))
        return
    ((solver, grid),) = plan.solvers.items()
    for name, values in grid.items():
        if len(values) > 1:
            for value in values:
                yield from _pieces(replace(plan, solvers={solver: {**grid, name: [value]}}))
            return
    yield plan


def size(plan: Plan) -> int:
    """How many runs a plan is."""

    def settings(grid: Mapping[str, Sequence[Any]]) -> int:
        return math.prod(len(values) for values in grid.values())

    data = sum(settings(grid) for grid in plan.data.values())
    solvers = sum(settings(grid) for grid in plan.solvers.values())
    return data * solvers * settings(plan.objective) * plan.repeats


def _benchopt(plan: Plan, file: Path, jobs: int) -> tuple[pd.DataFrame | None, bool]:
    """Run one plan; returns what benchopt wrote, if anything, and whether it was interrupted."""
    stopped = False
    try:
        with insistent_interrupts():
            found = _call(plan, file, jobs, collect=False)
    except (KeyboardInterrupt, SystemExit):  # benchopt turns some of the first into the second
        stopped = True
        found = _call(plan, file, 1, collect=True)
    return found, stopped


def _call(plan: Plan, file: Path, jobs: int, *, collect: bool) -> pd.DataFrame | None:
    from benchopt import run_benchmark

    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with (file.with_suffix(".log")).open("w") as log, contextlib.redirect_stdout(log):
        try:
            run_benchmark(
                benchmark_folder(),
                solver_names=[_solver(name, grid) for name, grid in plan.solvers.items()],
                dataset_names=[_data(name, grid) for name, grid in plan.data.items()],
                objective_filters=[{"Private ERM": _lists(plan.objective)}],
                n_repetitions=plan.repeats,
                n_jobs=jobs,
                collect=collect,
                plot_result=False,
                show_progress=False,
                output_file=str(file),
            )
        except RuntimeError:
            if file.exists():
                raise
            return None  # every run was skipped or failed: nothing was written
    found = pd.read_parquet(file)
    file.unlink()
    return found


def _data(name: str, grid: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, list[Any]]]:
    kind = "generated" if name in GENERATED else "public"
    return {kind: {"data": [name], **_lists(grid)}}


def _solver(name: str, grid: Mapping[str, Sequence[Any]]) -> str | dict[str, dict[str, list[Any]]]:
    """A solver of the benchmark with the values to try, or a file with one of its own."""
    return name if name.endswith(".py") else {name: _lists(grid)}


def _lists(grid: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in grid.items()}


class _Counter:
    """Reads the log of finished runs while benchopt works, and tells how far it is."""

    def __init__(self, log: Path, sizes: list[int], watch: Callable[[Status], None]) -> None:
        self.log, self._sizes, self._watch = log, sizes, watch
        self._start = time.monotonic()

    @contextlib.contextmanager
    def watching(self, number: int, now: str) -> Iterator[None]:
        """Tell of one plan's runs until it ends."""
        from threading import Event, Thread

        over, ended = Event(), Count(self.log)
        earlier, total = sum(self._sizes[:number]), sum(self._sizes)

        def tell() -> None:
            while not over.wait(_WAIT):
                inside = min(ended(), self._sizes[number])
                self._watch(self._status(earlier + inside, total, now))

        thread = Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._watch(self._status(earlier + self._sizes[number], total, now))

    def _status(self, done: int, total: int, now: str) -> Status:
        elapsed = time.monotonic() - self._start
        left = elapsed / done * (total - done) if done else None
        return Status(done, total, left, now)
