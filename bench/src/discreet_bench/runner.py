"""Run an experiment with benchopt, and collect its results in the columns of `runs`.

benchopt makes the product of data sets, objectives and solvers, runs processes side by side, and
caches finished runs, so that an interrupted experiment continues and experiments share runs. Added
here: the remaining time, results of interrupted runs, a cache that notices changes to the library's
own code, data sets and methods left out with a reason, baselines that are run once for all budgets,
and one tidy file.
"""

from __future__ import annotations

import _thread
import contextlib
import hashlib
import itertools
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

import discreet
import discreet_bench
from discreet_bench import benchmark
from discreet_bench import runs as table
from discreet_bench.data import GENERATED, available, too_large
from discreet_bench.experiment import Experiment, Grid, Plan
from discreet_bench.extensions import data_names, is_file, solver_of
from discreet_bench.rivals import RIVALS, ready
from discreet_bench.task import JOBS, OVERSPENT, SEED, delta_for

__all__ = [
    "BASELINES",
    "Done",
    "Status",
    "finalists",
    "insistent_interrupts",
    "narrowed",
    "run",
    "size",
    "split",
]

BASELINES = ("majority", "nonprivate", "plain-sgd", "scikit-learn")
"""Methods without privacy: no budget and no relation has an influence on their runs."""
_ANY_BUDGET = {"epsilon": [1.0], "delta": ["1/n^2"], "relation": ["add_remove"]}
"""Budget under which baselines are run, whatever the plan says, so that all plans share them."""

_IRRELEVANT = ("audit", "card", "cli", "report", "experiments", "claims.py", "command.py",
               "effort.py", "experiment.py", "extensions.py", "figures.py", "lines.py", "points.py",
               "published.py", "runner.py", "results.py", "runs.py", "significance.py", "speed.py",
               "statistics.py", "summary.py", "tables.py", "verdicts.py", "which.py")  # fmt: skip
"""Code of the two packages that has no influence on the result of a run."""
MOST_AT_ONCE = 400
"""Largest number of runs that benchopt is given at once."""
FINALISTS = 5
"""Settings of a grid that get more repeats in the paper form."""

FINAL_REPEATS = 20
"""Their repeats."""

WRITE_EVERY = 30.0
"""Seconds between writing the file of all runs so far."""
_WAIT = 0.5


@dataclass(frozen=True)
class Status:
    """Progress of an experiment."""

    done: int
    total: int
    seconds_left: float | None
    now: str


@dataclass
class Done:
    """Results of an experiment.

    Attributes
    ----------
    runs
        All lines.
    skipped
        Data sets and methods that were left out, with the reason.
    failures
        Runs that were errors; a run that spent too much is one.
    interrupted
        Whether it was stopped.
    made
        Number of runs that were not in the cache.
    seconds, processor_seconds
        Time that passed, and processor time of this process and of workers that have ended.
    """

    runs: pd.DataFrame
    skipped: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False
    made: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0


def narrowed(
    plans: Sequence[Plan],
    *,
    repeats: int | None = None,
    data: Sequence[str] = (),
    methods: Sequence[str] = (),
    without: Sequence[str] = (),
    epsilons: Sequence[float] = (),
    relations: Sequence[str] = (),
) -> list[Plan]:
    """Keep the part of plans with these data sets, methods, budgets and relations.

    ``without`` are methods to leave out. Files of users are always kept.
    """
    kept = []
    for plan in plans:
        objective = dict(plan.objective)
        if epsilons:
            objective["epsilon"] = list(epsilons)
        if relations:
            objective["relation"] = [r for r in objective["relation"] if r in relations]
        tables = {k: v for k, v in plan.data.items() if not data or k in data or is_file(k)}
        solvers = {
            k: v
            for k, v in plan.solvers.items()
            if (not methods or k in methods or is_file(k)) and k not in without
        }
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
    form: str = "",
) -> Done:
    """Run plans and write their runs to ``path``, now and then and at the end.

    Finished runs are kept in the cache as they finish, so that a run that was killed continues
    where it stopped.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    plans : sequence of Plan
        Its plans, or a part of them.
    path : Path
        The Parquet file.
    jobs : int
        Processes side by side.
    cache : Path
        Folder of finished runs, which are not run again.
    watch : callable
        Called with the progress from time to time.
    form : str
        Name of the form of the experiment, for the column ``form``.
    """
    cache = cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    log = cache / f"progress-{os.getpid()}.jsonl"  # commands may share a cache
    code = fingerprint(_files_of(plans))
    _set_environment(
        {"BENCHOPT_CACHE": str(cache / code), benchmark.LOG: str(log), JOBS: str(jobs)}
    )
    users = sorted({name for plan in plans for name in plan.solvers if is_file(name)})
    folder = benchmark.write(cache / "private_erm", users)
    done = Done(pd.DataFrame())
    units = [(part, asked) for plan in _units(plans, done.skipped) for part, asked in split(plan)]
    counter = _Counter(log, [size(plan) for plan, _ in units], watch, [_cost(p) for p, _ in units])
    parts: list[pd.DataFrame] = []
    written, begun = time.monotonic(), _clocks()
    for number, (plan, asked) in enumerate(units):
        with counter.watching(number, " · ".join(plan.data)):
            file = cache / "parts" / f"{experiment.name}-{number}-{os.getpid()}.parquet"
            found, stopped = _benchopt(plan, folder, file, jobs)
        if found is not None:
            runs = table.tidy(
                found,
                experiment=experiment.name,
                tuning=plan.tuning,
                difference=plan.difference,
            )
            runs["code"] = code
            runs["form"] = form
            parts.append(_for_all_budgets(runs, asked) if asked else runs)
        last = stopped or number == len(units) - 1
        if parts and (last or time.monotonic() - written > WRITE_EVERY):
            done.runs = table.complete(pd.concat(parts, ignore_index=True))
            _keep_larger(path, len(done.runs))
            table.write(done.runs, path)
            written = time.monotonic()
        if stopped:
            done.interrupted = True
            break
    done.made = counter.lines()
    done.seconds, done.processor_seconds = (
        now - then for now, then in zip(_clocks(), begun, strict=True)
    )
    log.unlink(missing_ok=True)
    if not done.runs.empty:
        failed = done.runs[done.runs["problem"].str.startswith(OVERSPENT)]
        done.failures = [_failure(row) for row in failed.to_dict("records")]
    return done


def finalists(runs: pd.DataFrame, plans: Sequence[Plan]) -> list[Plan]:
    """Return plans of the best few settings of each grid, with more repeats.

    A setting that is the best of hundreds by three repeats is mostly lucky. Of the settings that
    get more repeats, `discreet_bench.statistics.best_settings` chooses the best by all of them. The
    best by test rows and the best by training rows are taken.
    """
    found: list[Plan] = []
    grids = [plan for plan in plans if plan.tuning == "grid" and plan.repeats < FINAL_REPEATS]
    tried = runs[(runs["tuning"] == "grid") & (runs["problem"] == "")]
    keys = ["data", "relation", "epsilon", "method", "calibration", "variant"]
    for (data, relation, epsilon, method, calibration, _), group in tried.groupby(keys):
        name = str(data).split(" (")[0]
        plan = next((p for p in grids if name in p.data and method in p.solvers), None)
        if plan is None:
            continue
        means = group.groupby("setting")[["accuracy", "train_accuracy"]].mean()
        asked = {**plan.objective, "relation": [relation], "epsilon": [epsilon]}
        best = [means[name].dropna().nlargest(FINALISTS).index for name in means]
        for setting in dict.fromkeys(itertools.chain(*best)):
            grid = {key: [value] for key, value in table.settings_of(setting).items()}
            solvers = {str(method): {"calibration": [calibration], **grid}}
            new = replace(plan, data={name: plan.data[name]}, objective=asked, solvers=solvers)
            found.append(replace(new, repeats=FINAL_REPEATS))
    return found


def _clocks() -> tuple[float, float]:
    """Return the time, and processor time of this process and of those it waited for."""
    used = os.times()
    return time.monotonic(), used.user + used.system + used.children_user + used.children_system


def split(plan: Plan) -> Iterator[tuple[Plan, Grid | None]]:
    """Yield a plan without its baselines, and its baselines under one budget.

    The second comes with the objective of the plan, for whose budgets its runs count.
    """
    plain = {name: grid for name, grid in plan.solvers.items() if name in BASELINES}
    others = {name: grid for name, grid in plan.solvers.items() if name not in BASELINES}
    if others:
        yield replace(plan, solvers=others), None
    if plain:
        once = {**plan.objective, **_ANY_BUDGET}
        yield replace(plan, solvers=plain, objective=once), plan.objective


def _for_all_budgets(runs: pd.DataFrame, asked: Grid) -> pd.DataFrame:
    """Repeat the runs of baselines for all budgets and relations of an objective."""
    budget = [asked.get(name, _ANY_BUDGET[name]) for name in ("epsilon", "delta", "relation")]
    return pd.concat(
        [
            runs.assign(
                epsilon=float(epsilon),
                delta=[delta_for(delta, n) for n in runs["n"]],
                relation=relation,
            )
            for epsilon, delta, relation in itertools.product(*budget)
        ],
        ignore_index=True,
    )


def _set_environment(environment: dict[str, str]) -> None:
    """Set environment variables; workers that were started with others are ended."""
    from joblib.externals.loky import get_reusable_executor

    if any(os.environ.get(name) != value for name, value in environment.items()):
        get_reusable_executor().shutdown(wait=True)
        os.environ.update(environment)


def _keep_larger(path: Path, count: int) -> None:
    """Rename a file that has more runs than the one that replaces it."""
    if path.exists() and pq.read_metadata(path).num_rows > count:
        path.replace(path.with_name(f"{path.stem}.before{path.suffix}"))


def _failure(row: dict[str, Any]) -> str:
    where = f"{row['method']} on {row['data']}, ε = {row['epsilon']:g}, {row['relation']}"
    return f"{where}, repeat {row['repeat']:.0f}: {row['problem']}"


def _files_of(plans: Sequence[Plan]) -> list[str]:
    """Return the files of users that plans name."""
    return sorted({name for plan in plans for name in (*plan.solvers, *plan.data) if is_file(name)})


def fingerprint(files: Sequence[str] = ()) -> str:
    """Return a short hash of the code and versions that decide the result of a run.

    ``files`` are users' solvers and data sets, whose content counts as well.
    """
    digest = hashlib.sha256()
    for path in files:
        digest.update(Path(path).read_bytes())
    for package in (discreet, discreet_bench):
        root = Path(str(package.__file__)).parent
        for file in sorted(root.rglob("*")):
            inside = file.relative_to(root).parts
            if file.suffix in (".py", ".toml") and inside[0] not in _IRRELEVANT:
                digest.update(file.read_bytes())
    settings = [table.versions(), os.environ.get("DISCREET_DATA"), os.environ.get(SEED, "0")]
    digest.update(json.dumps(settings).encode())
    return digest.hexdigest()[:16]


def _units(plans: Sequence[Plan], skipped: dict[str, str]) -> Iterator[Plan]:
    """Yield one data set at a time, without data sets and libraries that are missing."""
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
    """Split a plan into ones that are small enough to be collected when interrupted."""
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
    """Return the number of runs of a plan."""

    def settings(grid: Mapping[str, Sequence[Any]]) -> int:
        return math.prod(len(values) for values in grid.values())

    data = sum(settings(grid) for grid in plan.data.values())
    solvers = sum(settings(grid) for grid in plan.solvers.values())
    return data * solvers * settings(plan.objective) * plan.repeats


def _benchopt(plan: Plan, folder: Path, file: Path, jobs: int) -> tuple[pd.DataFrame | None, bool]:
    """Run one plan; returns what benchopt wrote, if anything, and whether it was interrupted."""
    stopped = False
    try:
        with insistent_interrupts():
            found = _call(plan, folder, file, jobs, collect=False)
    except (KeyboardInterrupt, SystemExit):  # benchopt turns some of the first into the second
        stopped = True
        found = _call(plan, folder, file, 1, collect=True)
    return found, stopped


def _call(plan: Plan, folder: Path, file: Path, jobs: int, *, collect: bool) -> pd.DataFrame | None:
    from benchopt import run_benchmark

    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with (file.with_suffix(".log")).open("w") as log, contextlib.redirect_stdout(log):
        try:
            run_benchmark(
                folder,
                solver_names=[_solver(name, grid) for name, grid in plan.solvers.items()],
                dataset_names=[_data(name, grid) for name, grid in plan.data.items()],
                objective_filters=[{benchmark.NAME: _lists(plan.objective)}],
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
    if is_file(name) or name in data_names():
        return {"given": {"place": [name]}}
    kind = "generated" if name in GENERATED else "public"
    return {kind: {"data": [name], **_lists(grid)}}


def _solver(name: str, grid: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, list[Any]]]:
    """Return a solver with the values to try; a user's file by the name of its class."""
    return {solver_of(name).name if is_file(name) else name: _lists(grid)}


def _lists(grid: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in grid.items()}


class _Counter:
    """Reads the log of finished runs while benchopt works, and reports the progress.

    Units differ in cost, and a continued experiment takes many runs from the cache. So the time
    that is left is that of the runs made so far, per unit of their expected cost, times the cost of
    all that is not done.
    """

    def __init__(
        self,
        log: Path,
        sizes: list[int],
        watch: Callable[[Status], None],
        costs: list[float] | None = None,
    ) -> None:
        self._log = log
        self._sizes = sizes
        self._watch = watch
        self._costs = costs or [float(size) for size in sizes]
        self._start = time.monotonic()
        self._worked = 0.0

    @contextlib.contextmanager
    def watching(self, number: int, now: str) -> Iterator[None]:
        """Report one plan's runs until it ends."""
        over = threading.Event()
        begun = self.lines()

        def report() -> None:
            while not over.wait(_WAIT):
                self._report(number, self.lines() - begun, now)

        thread = threading.Thread(target=report, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            made = self.lines() - begun
            self._worked += self._costs[number] * min(1.0, made / self._sizes[number])
            self._report(number + 1, 0, now)

    def lines(self) -> int:
        """Return the number of runs that were made since the start."""
        return self._log.read_bytes().count(b"\n") if self._log.exists() else 0

    def _report(self, number: int, made: int, now: str) -> None:
        """Report that the units before ``number`` are done, and ``made`` runs of this one."""
        earlier = sum(self._sizes[:number])
        left = sum(self._costs[number:])
        worked = self._worked
        if number < len(self._sizes):
            made = min(made, self._sizes[number])
            part = self._costs[number] * made / self._sizes[number]
            left -= part
            worked += part
        seconds = None
        if worked > 0:
            seconds = (time.monotonic() - self._start) / worked * left
        self._watch(Status(earlier + made, sum(self._sizes), seconds, now))


def _cost(plan: Plan) -> float:
    """Return the expected processor seconds of a plan, and never nothing."""
    from discreet_bench import effort

    return max(1e-3, effort.seconds(effort.distinct([plan])))


@contextlib.contextmanager
def insistent_interrupts() -> Iterator[None]:
    """Repeat Ctrl-C every second until the block has ended; does nothing outside the main thread.

    Python prints and forgets a KeyboardInterrupt inside a callback from compiled code or in a
    finaliser, and the work would continue.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked, over = threading.Event(), threading.Event()

    def interrupt(*_: Any) -> None:
        asked.set()
        raise KeyboardInterrupt

    def repeat() -> None:
        while not over.is_set():
            if asked.wait(0.2) and not over.wait(1.0):
                _thread.interrupt_main()

    before = signal.signal(signal.SIGINT, interrupt)
    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        signal.signal(signal.SIGINT, before)
        thread.join()
