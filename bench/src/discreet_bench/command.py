"""``discreet bench``: run the experiments, and make tables, figures and a page of what came out."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.exits import Exit, Problem
from discreet.cli.options import AsJson, DataDir, Force, check_output
from discreet.cli.screen import Screen
from discreet.core import Relation

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from discreet_bench.experiment import Experiment
    from discreet_bench.run import Done

__all__ = ["app"]

app = typer.Typer(
    help="Rerun the experiments of the papers and of this library, and show what came out.",
    no_args_is_help=True,
)

OUT = Path("out") / "bench"
RESULTS, PAGE = "runs.parquet", "report.html"
LINE_EVERY = 30.0
"""Seconds between lines in a log file, where there is no bar."""


def _complete(incomplete: str) -> list[str]:
    from discreet_bench.experiments import EXPERIMENTS

    return [name for name in (*EXPERIMENTS, "all") if name.startswith(incomplete)]


@app.command("list")
def list_experiments(as_json: AsJson = False) -> None:
    """List the experiments: what each asks, and whether its data are here.

    Example: discreet bench list
    """
    from rich.table import Table

    from discreet_bench.experiments import EXPERIMENTS

    _needs_benchopt()
    screen = Screen(as_json=as_json)
    table = Table(title="Experiments (discreet bench run NAME --quick, or without --quick in full)")
    table.add_column("name", no_wrap=True)
    for heading in ("what it shows", "source", "runs", "quick", "data not here"):
        table.add_column(heading, justify="right" if heading in ("runs", "quick") else "left")
    told = []
    for experiment in EXPERIMENTS.values():
        full, quick = _count(experiment.plans), _count(experiment.quick)
        missing = _missing(experiment)
        table.add_row(
            experiment.name,
            experiment.title,
            experiment.source,
            f"{full:,}",
            f"{quick:,}",
            ", ".join(missing),
        )
        told.append(
            {
                "name": experiment.name,
                "title": experiment.title,
                "source": experiment.source,
                "question": experiment.question,
                "runs": full,
                "quick_runs": quick,
                "missing_data": missing,
                "notes": list(experiment.notes),
            }
        )
    screen.result(told, table)


@app.command("run")
def run_experiments(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME…",
            help="Experiments (see: discreet bench list), or all.",
            autocompletion=_complete,
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="In small: at most two minutes an experiment.")
    ] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Splits, each with fresh noise, instead of its own.")
    ] = None,
    data: Annotated[list[str] | None, typer.Option(help="Only this data set; repeatable.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; repeatable.")] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="This ε instead of its own; repeatable.")
    ] = None,
    relation: Annotated[
        list[Relation] | None, typer.Option(help="Only this relation; repeatable.")
    ] = None,
    solver_file: Annotated[
        list[Path] | None,
        typer.Option(help="A further method: a Python file with a class Solver; repeatable."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes side by side; by default as many as cores.")
    ] = None,
    data_dir: DataDir = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch data sets that are not here.")
    ] = False,
    install_rivals: Annotated[
        bool,
        typer.Option(
            "--install-rivals",
            help="Set up other libraries, each in an environment of its own; without it they run "
            "only where that was done before.",
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for what comes out.")] = OUT,
) -> None:
    """Run experiments; what is done is kept, and not run again.

    Each experiment gets a folder in --out with its runs (Parquet), tables (Markdown, CSV, LaTeX),
    figures (SVG, PNG) and a page. Ctrl-C keeps what is done; the same command goes on from there.

    Example: discreet bench run dpagd-fig2 --quick --jobs 2
    """
    from discreet_bench.run import narrowed

    _needs_benchopt()
    screen = Screen()
    chosen = _chosen(names)
    if data_dir is not None:
        if not data_dir.is_dir():
            raise Problem(Exit.USAGE, f"--data-dir {data_dir}: there is no such folder.")
        os.environ["DISCREET_DATA"] = str(data_dir.resolve())
    os.environ["DISCREET_DOWNLOAD"] = "1" if download else "0"
    if install_rivals:
        _install_rivals(screen)
    jobs = jobs or os.cpu_count() or 1
    relations = [str(each) for each in relation or []]
    files = [_solver_file(file) for file in solver_file or []]
    failures: list[str] = []
    for experiment in chosen:
        plans = narrowed(
            experiment.quick if quick else experiment.plans,
            repeats=repeats,
            data=data or (),
            methods=method or (),
            epsilons=epsilon or (),
            relations=relations,
            files=files,
        )
        if not plans:
            screen.note(f"{experiment.name}: nothing is left of it with these options.")
            continue
        folder = out / (experiment.name + ("-quick" if quick else ""))
        done = _run_one(screen, experiment, plans, folder, jobs=jobs, cache=out / "cache")
        failures += done.failures
        _tell(screen, experiment, done, folder)
        if not done.runs.empty:
            commands = {experiment.name: _command(experiment, quick, done.runs)}
            _write_all(screen, done.runs, [experiment], folder, commands)
        if done.interrupted:
            raise Problem(
                Exit.INTERRUPTED,
                f"Interrupted. {len(done.runs):,} runs are kept in {folder / RESULTS}; the same "
                "command goes on from there.",
            )
    if failures:
        raise Problem(
            Exit.PRIVACY, "Runs that failed their judgement:\n  " + "\n  ".join(failures[:10])
        )


@app.command("report")
def make_report(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Files of runs, or folders that hold them."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = OUT / PAGE,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Private linear models",
    force: Force = False,
) -> None:
    """Make one page of runs: a leaderboard, curves to explore, what each method promises.

    The page is one file that loads nothing else. Tables and figures are written beside it.

    Example: discreet bench report out/bench -o report.html
    """
    from discreet_bench.experiments import EXPERIMENTS

    screen = Screen()
    found = _files(files)
    output.parent.mkdir(parents=True, exist_ok=True)
    check_output(output, force, *found)
    runs = _read(found)
    known = [EXPERIMENTS[name] for name in dict.fromkeys(runs["experiment"]) if name in EXPERIMENTS]
    quick = {path.parent.name.removesuffix("-quick") for path in found if _is_quick(path)}
    commands = {each.name: _command(each, each.name in quick, runs) for each in known}
    _write_all(screen, runs, known, output.parent, commands, page=output, title=title)


@app.command("compare")
def compare_runs(
    before: Annotated[Path, typer.Argument(help="A file of runs, or a folder that holds some.")],
    after: Annotated[Path, typer.Argument(help="Another.")],
    measure: Annotated[str, typer.Option(help="What to compare.")] = "accuracy",
    as_json: AsJson = False,
) -> None:
    """Compare two files of runs: what became better or worse, beyond chance.

    Example: discreet bench compare benchmarks/results/runs.parquet out/bench/auto-table
    """
    from rich.table import Table

    from discreet_bench.lines import title_of
    from discreet_bench.runs import MEASURES
    from discreet_bench.statistics import compare

    if measure not in MEASURES:
        raise Problem(Exit.USAGE, f"--measure must be one of {', '.join(MEASURES)}.")
    screen = Screen(as_json=as_json)
    found = compare(_read(_files([before])), _read(_files([after])), measure)
    if found.empty:
        raise Problem(
            Exit.DATA, "The two have no experiment, data set, budget and method in common."
        )
    table = Table(title=f"{measure}: after less before (95 % interval)")
    for heading in ("data", "loss", "relation"):
        table.add_column(heading)
    table.add_column("ε", justify="right")
    table.add_column("method")
    for heading in ("before", "after", "difference"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for row in found.to_dict("records"):
        between = f"{row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"
        cells = [row["data"], row["loss"], row["relation"], f"{row['epsilon']:g}"]
        cells += [title_of(row["line"]), f"{row['before']:.4f}", f"{row['after']:.4f}"]
        table.add_row(*cells, between.replace("+nan", "–"), row["verdict"])
    told = found.astype(object).where(found.notna(), None).to_dict("records")
    screen.result(told, table)


def _needs_benchopt() -> None:
    from importlib.util import find_spec

    if find_spec("benchopt") is None or find_spec("pandas") is None:
        raise Problem(
            Exit.USAGE, "The benchmark needs more packages: pip install 'discreet[bench]'."
        )


def _solver_file(file: Path) -> str:
    """A file with a method of one's own, under a name of its own."""
    from discreet_bench.solvers import descriptions

    if not file.is_file():
        raise Problem(Exit.USAGE, f"--solver-file {file}: there is no such file.")
    named = re.search(r"^\s+name\s*=\s*[\"'](.+?)[\"']", file.read_text(), re.MULTILINE)
    if named and named[1] in descriptions():
        raise Problem(
            Exit.USAGE,
            f"--solver-file {file}: the benchmark has a method {named[1]!r}; name yours otherwise.",
        )
    return str(file.resolve())


def _chosen(names: Sequence[str]) -> list[Experiment]:
    from discreet_bench.experiments import EXPERIMENTS, find

    if "all" in names:
        return list(EXPERIMENTS.values())
    return [find(name) for name in dict.fromkeys(names)]


def _count(plans: Sequence[object]) -> int:
    from discreet_bench.run import size

    return sum(size(plan) for plan in plans)  # type: ignore[arg-type]


def _missing(experiment: Experiment) -> list[str]:
    from discreet_bench.data import available

    names = dict.fromkeys(name for plan in experiment.plans for name in plan.data)
    return [name for name in names if available(name) is not None]


def _is_quick(path: Path) -> bool:
    return path.parent.name.endswith("-quick")


def _command(experiment: Experiment, quick: bool, runs: pd.DataFrame) -> str:
    """The command that makes such runs, narrowed as they are."""
    runs = runs[runs["experiment"] == experiment.name]
    plans = experiment.quick if quick else experiment.plans
    words = ["discreet bench run", experiment.name, *(["--quick"] if quick else [])]
    repeats = int(runs["repeat"].max()) + 1
    if repeats != max(plan.repeats for plan in plans):
        words.append(f"--repeats {repeats}")
    epsilons = set(runs["epsilon"])
    if epsilons != {epsilon for plan in plans for epsilon in plan.objective["epsilon"]}:
        words += [f"--epsilon {epsilon:g}" for epsilon in sorted(epsilons)]
    data = {name.split(" (")[0] for name in runs["data"]}
    if data != {name for plan in plans for name in plan.data}:
        words += [f"--data {name}" for name in sorted(data)]
    return " ".join(words)


def _run_one(
    screen: Screen,
    experiment: Experiment,
    plans: Sequence[object],
    folder: Path,
    *,
    jobs: int,
    cache: Path,
) -> Done:
    """Run one experiment under a bar that tells how long it will take."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from discreet_bench.run import Status, run

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} runs"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    hidden = not screen.people.is_terminal
    with Progress(*columns, console=screen.people, disable=hidden) as bars:
        task = bars.add_task(experiment.name, total=_count(plans), left="")

        last = time.monotonic()

        def watch(status: Status) -> None:
            nonlocal last
            left = "" if status.seconds_left is None else f"{_time(status.seconds_left)} left"
            if not screen.people.is_terminal and time.monotonic() - last > LINE_EVERY:
                last = time.monotonic()
                done = f"{status.done:,} of {status.total:,} runs"
                screen.note(f"{experiment.name} · {status.now}: {done}, {left}")
            bars.update(
                task,
                completed=status.done,
                description=f"{experiment.name} · {status.now}",
                left=left,
            )

        return run(
            experiment,
            plans,  # type: ignore[arg-type]
            folder / RESULTS,
            jobs=jobs,
            cache=cache,
            watch=watch,
        )


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _tell(screen: Screen, experiment: Experiment, done: Done, folder: Path) -> None:
    for name, reason in done.skipped.items():
        told = reason if name.split(":")[0] in reason else f"{name}: {reason}"
        screen.note(f"Left out: {told}.")
    if done.runs.empty:
        screen.note(f"{experiment.name}: no runs.")
        return
    refused = int((done.runs["problem"] != "").sum())
    told = f"{experiment.name}: {len(done.runs):,} runs in {folder / RESULTS}"
    screen.note(told + (f", {refused:,} of them refusals or errors." if refused else "."))


def _write_all(
    screen: Screen,
    runs: pd.DataFrame,
    experiments: Sequence[Experiment],
    folder: Path,
    commands: dict[str, str],
    *,
    page: Path | None = None,
    title: str | None = None,
) -> None:
    """Tables, figures and the page."""
    from discreet.files import replacing
    from discreet_bench import figures, tables
    from discreet_bench.report import report

    page = page or folder / PAGE
    for experiment in experiments:
        part = runs[runs["experiment"] == experiment.name]
        with screen.waiting(f"tables and figures of {experiment.name}"):
            tables.write_all(part, experiment, folder)
            figures.draw(part, experiment, folder)
    heading = title or " · ".join(each.title for each in experiments)
    with replacing(page) as stream:
        stream.write(report(runs, title=heading, commands=commands))
    screen.note(f"Page: {page}")


def _files(given: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = sorted(path.rglob(RESULTS))
            if not inside:
                raise Problem(Exit.DATA, f"{path} holds no {RESULTS}; run an experiment first.")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise Problem(Exit.DATA, f"{path}: there is no such file or folder.")
    return found


def _read(files: Sequence[Path]) -> pd.DataFrame:
    from discreet_bench.runs import read

    return read(*files)


def _install_rivals(screen: Screen) -> None:
    from discreet_bench.rivals.environments import RIVALS, install, ready

    for rival in RIVALS.values():
        if ready(rival) is None:
            continue
        with screen.waiting(f"setting up {rival.name}"):
            reason = install(rival)
        if reason is not None:
            screen.note(f"{rival.name} will be left out: {reason}")
