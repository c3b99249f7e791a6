"""``discreet bench`` and ``discreet datasets``, the commands that this package adds."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.exits import CommandError, Exit, interrupted
from discreet.cli.options import AsJson, Force
from discreet.cli.screen import Screen
from discreet.cli.state import check_output
from discreet.core import Relation
from discreet.files import replacing

if TYPE_CHECKING:
    import pandas as pd

    from discreet_bench.experiment import Experiment, Plan
    from discreet_bench.runner import Done, Status

__all__ = ["app", "datasets"]

app = typer.Typer(
    help="Rerun the experiments of the papers and of this library, and show the results.",
    no_args_is_help=True,
)

OUT = Path("out") / "bench"
RESULTS, PAGE, COMMAND, TIMES = "runs.parquet", "report.html", "command.txt", "times.csv"
LINE_EVERY = 30.0
"""Seconds between progress lines in a log file, which has no bar."""


def _complete_experiments(incomplete: str) -> list[str]:
    from discreet_bench.experiments import EXPERIMENTS

    return [name for name in (*EXPERIMENTS, "all") if name.startswith(incomplete)]


def _complete_datasets(incomplete: str) -> list[str]:
    from discreet_bench.datasets import names

    return [name for name in names() if name.startswith(incomplete)]


DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder of data sets (else the variable DISCREET_DATA)."),
]


# -- discreet datasets


def datasets(
    name: Annotated[
        str | None,
        typer.Argument(help="Describe this one.", autocompletion=_complete_datasets),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the public schema of its file, or of --table."),
    ] = None,
    table: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the table to this CSV file.")
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Download it to the cache and check it.")
    ] = False,
    data_dir: DataDir = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """List the named data sets, or describe one: content, size, licence, source, and files.

    Example: discreet datasets adult --schema adult.toml --table adult.csv
    """
    from discreet_bench import datasets as sets
    from discreet_bench.datasets.catalogue import nearest

    screen = Screen(as_json=as_json)
    if data_dir is not None and not data_dir.is_dir():
        raise CommandError(f"--data-dir {data_dir}: there is no such folder.")
    if name is None:
        if schema or table or fetch:
            raise CommandError("--schema, --table and --fetch need the name of a data set.")
        _list_datasets(screen, [sets.describe(each, data_dir=data_dir) for each in sets.names()])
        return
    if name not in sets.names():
        raise CommandError(f"unknown data set {name!r}; {nearest(name, sets.names())}")
    check_output(schema, force, option="--schema")
    check_output(table, force, option="--table")
    if schema is not None:
        _write_schema(name, schema, of_publisher=table is None)
    try:
        if fetch:
            with screen.waiting(f"getting {name}"):
                sets.load(name, data_dir=data_dir)
        if table is not None:
            from pyarrow import csv

            with screen.waiting(f"reading {name}"):
                csv.write_csv(sets.table(name, data_dir=data_dir), table)
    except FileNotFoundError as error:  # its text has the remedy
        raise CommandError(str(error), Exit.DATA) from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    found = sets.describe(name, data_dir=data_dir)
    screen.result(dataclasses.asdict(found), str(found))
    for path in filter(None, (schema, table)):
        screen.note(f"Written: {path}")


def _list_datasets(screen: Screen, found: Sequence[Any]) -> None:
    from rich.table import Table

    listed = Table(title="Data sets (more about one: discreet datasets NAME)")
    listed.add_column("name", no_wrap=True)
    for heading in ("content", "rows", "columns", "task", "on this machine"):
        listed.add_column(heading, justify="right" if heading in ("rows", "columns") else "left")
    for one in found:
        here = "yes" if one.available else ""
        listed.add_row(one.name, one.title, f"{one.rows:,}", f"{one.features:,}", one.task, here)
    screen.result([dataclasses.asdict(one) for one in found], listed)


def _write_schema(name: str, path: Path, *, of_publisher: bool) -> None:
    """Write a schema for the publisher's file, or for the table that ``--table`` writes."""
    from discreet.tables import FileFormat
    from discreet_bench.datasets import schema

    made = schema(name)
    if made is None:
        raise CommandError(f"{name!r} is a table of numbers that needs no schema.")
    if not of_publisher:
        made = dataclasses.replace(made, file=FileFormat())
    with replacing(path) as stream:
        stream.write(made.to_toml())


# -- discreet bench


@app.command("list")
def list_experiments(as_json: AsJson = False) -> None:
    """List the experiments: content, numbers of runs, and data sets that are missing.

    Example: discreet bench list
    """
    from rich.table import Table

    from discreet_bench.data import available
    from discreet_bench.effort import affordable
    from discreet_bench.experiments import known

    table = Table(title="Experiments (discreet bench run NAME --quick, --paper, or in full)")
    table.add_column("name", no_wrap=True)
    table.add_column("content, source and missing data", ratio=1)
    for heading in ("quick", "paper", "full"):
        table.add_column(heading, justify="right", no_wrap=True)
    found = []
    for experiment in known().values():
        sets = dict.fromkeys(name for plan in experiment.plans for name in plan.data)
        one: dict[str, Any] = {
            "name": experiment.name,
            "title": experiment.title,
            "source": experiment.source,
            "question": experiment.question,
            "runs": _count(experiment.plans),
            "paper_runs": _count(affordable(experiment.paper, experiment.cell_seconds)),
            "quick_runs": _count(experiment.quick),
            "missing_data": [name for name in sets if available(name) is not None],
            "protocol": [dataclasses.asdict(item) for item in experiment.protocol],
            "claims": [claim.text for claim in experiment.claims],
            "notes": list(experiment.notes),
        }
        found.append(one)
        missing = f". Missing: {', '.join(one['missing_data'])}" if one["missing_data"] else ""
        table.add_row(
            experiment.name,
            f"{experiment.title} ({experiment.source}){missing}",
            *(_short_count(one[name]) for name in ("quick_runs", "paper_runs", "runs")),
        )
    Screen(as_json=as_json).result(found, table)


def _short_count(count: int) -> str:
    """Return a number of runs in at most five characters: 840, 15.0k, 5.6M."""
    if count < 10_000:
        return f"{count:,}"
    return f"{count / 1e3:.0f}k" if count < 1e6 else f"{count / 1e6:.1f}M"


@app.command("run")
def run_experiments(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME…",
            help="Experiments (see: discreet bench list), a Python file of one, or all.",
            autocompletion=_complete_experiments,
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="A small form: at most two minutes per experiment.")
    ] = False,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="The paper's rows, ε and repeats without its grid; slow fits have fewer repeats.",
        ),
    ] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Number of splits, each with fresh noise.")
    ] = None,
    cell_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="With --paper: processor seconds for the repeats of a method on a data set at one "
            "ε, instead of the experiment's own number.",
        ),
    ] = None,
    data: Annotated[list[str] | None, typer.Option(help="Only this data set; repeatable.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; repeatable.")] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="Leave this method out; repeatable.")
    ] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="This ε instead of the experiment's; repeatable.")
    ] = None,
    relation: Annotated[
        list[Relation] | None, typer.Option(help="Only this relation; repeatable.")
    ] = None,
    solver_file: Annotated[
        list[Path] | None,
        typer.Option(help="A further method: a Python file with a class Solver; repeatable."),
    ] = None,
    data_file: Annotated[
        list[Path] | None,
        typer.Option(
            help="A data set: a Python file with a function load; repeatable. Without --data the "
            "experiment runs on these alone."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Another number has other splits and draws.")
    ] = 0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes side by side; default: number of cores.")
    ] = None,
    data_dir: DataDir = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download data sets that are missing.")
    ] = False,
    install_rivals: Annotated[
        bool,
        typer.Option(
            "--install-rivals",
            help="Install other libraries, each in an environment of its own; without it they run "
            "only where they are installed already.",
        ),
    ] = False,
    pages: Annotated[
        bool, typer.Option(help="Write tables, figures and a page of each experiment.")
    ] = True,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = OUT,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Merge the runs into this Parquet file, in place of older ones of the same "
            "settings, and their times into the table beside it.",
        ),
    ] = None,
) -> None:
    """Run experiments; finished runs are kept and not run again.

    Each experiment gets a folder in --out with its runs (Parquet), tables (Markdown, CSV, LaTeX),
    figures (SVG, PNG) and a page; --out has a table of the time that each took. Ctrl-C keeps
    finished runs; the same command continues.

    Example: discreet bench run dpagd-fig2 --quick --jobs 2
    """
    from discreet_bench import effort
    from discreet_bench.runner import finalists, narrowed
    from discreet_bench.runs import merged, read, write

    screen = Screen()
    if quick and paper:
        raise CommandError("--quick and --paper are two forms; give one of them.")
    if cell_seconds is not None and not paper:
        raise CommandError("--cell-seconds needs --paper: other forms have fixed repeats.")
    form = "quick" if quick else "paper" if paper else "full"
    chosen = _chosen(names)
    if data_dir is not None:
        if not data_dir.is_dir():
            raise CommandError(f"--data-dir {data_dir}: there is no such folder.")
        os.environ["DISCREET_DATA"] = str(data_dir.resolve())
    os.environ["DISCREET_DOWNLOAD"] = "1" if download else "0"
    os.environ["DISCREET_BENCH_SEED"] = str(seed)
    files = [_solver_file(file) for file in solver_file or []]
    tables = [_data_file(file) for file in data_file or []]
    if install_rivals:
        _install_rivals(screen)
    failures: list[str] = []
    asked = [
        narrowed(
            _joined(experiment.form(form), files, tables, alone=not data),
            repeats=repeats,
            data=data or (),
            methods=method or (),
            without=without or (),
            epsilons=epsilon or (),
            relations=[str(each) for each in relation or []],
        )
        for experiment in chosen
    ]
    if paper:
        asked = [
            effort.affordable(plans, cell_seconds or experiment.cell_seconds)
            for experiment, plans in zip(chosen, asked, strict=True)
        ]
        _state_budget(screen, chosen, asked)
    for experiment, plans in zip(chosen, asked, strict=True):
        if not plans:
            screen.note(f"{experiment.name}: no runs are left with these options.")
            continue
        folder = out / _folder(experiment.name, form)
        workers = jobs or os.cpu_count() or 1
        done = _run(screen, experiment, plans, folder, workers, out / "cache", form)
        if paper and not done.interrupted and (best := finalists(done.runs, plans)):
            screen.note(f"{experiment.name}: more repeats for the best settings of its grids.")
            _refine(screen, experiment, best, folder, workers, out / "cache", done)
        part = _part(form, method, without, data)
        effort.record(out / TIMES, experiment.name, part, done)
        if into is not None and not done.runs.empty:
            older = read(*filter(Path.exists, [into]))
            if not (method or without or data):  # lines of other forms are of other problems
                older = older[(older["experiment"] != experiment.name) | (older["form"] == form)]
            write(_in_order(merged(older, done.runs)), into)
            effort.copied(out / TIMES, into.parent / TIMES, experiment.name, part)
        failures += done.failures
        for name, reason in done.skipped.items():
            text = reason if name.split(":")[0] in reason else f"{name}: {reason}"
            screen.note(f"Left out: {text}.")
        if done.runs.empty:
            screen.note(f"{experiment.name}: no runs.")
        else:
            refused = int((done.runs["problem"] != "").sum())
            text = f"{experiment.name}: {len(done.runs):,} runs in {folder / RESULTS}"
            text += f", {refused:,} of them refusals or errors" if refused else ""
            screen.note(f"{text}; {done.made:,} were new, in {_time(done.seconds)}.")
            command = _words(
                ["discreet bench run", experiment.name],
                quick=quick, paper=paper, repeats=repeats, cell_seconds=cell_seconds, data=data,
                method=method, without=without, epsilon=epsilon, relation=relation,
                solver_file=solver_file, data_file=data_file, seed=seed or None,
                jobs=jobs, data_dir=data_dir, download=download, install_rivals=install_rivals,
                out=None if out == OUT else out,
            )  # fmt: skip
            with replacing(folder / COMMAND) as stream:
                stream.write(command + "\n")
            commands = {experiment.name: command}
            if pages:
                _write_all(
                    screen, done.runs, [experiment], folder / PAGE, experiment.title, commands
                )
        if done.interrupted:
            raise CommandError(
                f"Interrupted. {len(done.runs):,} runs are kept in {folder / RESULTS}; the same "
                "command continues from there.",
                interrupted(),
            )
    if failures:
        raise CommandError(
            "Runs that spent too much:\n  " + "\n  ".join(failures[:10]), Exit.PRIVACY
        )


@app.command("report")
def make_report(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Files of runs, or folders that hold them."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = OUT / PAGE,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Private linear models",
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write all runs to this Parquet file; of equal ones the last."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Make one page of runs: comparisons, interactive charts, and the guarantee of each method.

    The page is one file that loads nothing else. Tables and figures are written next to it.

    Example: discreet bench report out/bench -o report.html
    """
    from discreet_bench.experiments import EXPERIMENTS
    from discreet_bench.runs import read, write

    found = _files(files)
    output.parent.mkdir(parents=True, exist_ok=True)
    check_output(output, force, *found)
    check_output(keep, force, *found, option="--keep")
    runs = _in_order(read(*found))
    if keep is not None:
        write(runs, keep)
    known = [EXPERIMENTS[name] for name in dict.fromkeys(runs["experiment"]) if name in EXPERIMENTS]
    folders = {path.parent.name: path.parent for path in found}
    commands = {}
    for one in known:
        forms = ("quick", "paper", "full")
        form = next((each for each in forms if _folder(one.name, each) in folders), None)
        form = form or _form(one, runs)
        kept = _kept_command(folders.get(_folder(one.name, form), Path()))
        commands[one.name] = kept or _command(one, form, runs)
    _write_all(Screen(), runs, known, output, title, commands)


@app.command("compare")
def compare_runs(
    before: Annotated[Path, typer.Argument(help="A file of runs, or a folder that holds some.")],
    after: Annotated[Path, typer.Argument(help="Another.")],
    measure: Annotated[str, typer.Option(help="Measure to compare.")] = "accuracy",
    as_json: AsJson = False,
) -> None:
    """Compare two files of runs: significant improvements and losses.

    Example: discreet bench compare bench/results/runs.parquet out/bench/auto-table
    """
    from rich.table import Table

    from discreet_bench.lines import title_of
    from discreet_bench.runs import MEASURES, read
    from discreet_bench.statistics import compare

    if measure not in MEASURES:
        raise CommandError(f"--measure must be one of {', '.join(MEASURES)}.")
    found = compare(read(*_files([before])), read(*_files([after])), measure)
    if found.empty:
        raise CommandError(
            "The two have no experiment, data set, budget and method in common.", Exit.DATA
        )
    table = Table(title=f"{measure}: after minus before (95 % confidence interval)")
    right = ("ε", "before", "after", "difference")
    for heading in ("data", "loss", "relation", "ε", "method", *right[1:], "verdict"):
        table.add_column(heading, justify="right" if heading in right else "left")
    for row in found.to_dict("records"):
        between = f"{row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"
        cells = [row["data"], row["loss"], row["relation"], f"{row['epsilon']:g}"]
        cells += [title_of(row["line"]), f"{row['before']:.4f}", f"{row['after']:.4f}"]
        table.add_row(*cells, between.replace("+nan", "–"), row["verdict"])
    records = found.astype(object).where(found.notna(), None).to_dict("records")
    Screen(as_json=as_json).result(records, table)


def _solver_file(file: Path) -> str:
    """Check the file of a user's own method: it must be one, and have a name of its own."""
    from discreet_bench.extensions import ExtensionError, solver_of
    from discreet_bench.solvers import solver_names

    try:
        name = solver_of(str(file.resolve()) if file.is_file() else str(file)).name
    except ExtensionError as error:
        raise CommandError(f"--solver-file {file}: {error}") from None
    if name in solver_names():
        raise CommandError(
            f"--solver-file {file}: the benchmark has a method {name!r}; choose another name."
        )
    return str(file.resolve())


def _data_file(file: Path) -> str:
    """Check the file of a user's data set by loading it."""
    from discreet_bench.extensions import ExtensionError, data_of

    try:
        data_of(str(file.resolve()) if file.is_file() else str(file))
    except ExtensionError as error:
        raise CommandError(f"--data-file {file}: {error}", Exit.DATA) from None
    return str(file.resolve())


def _joined(
    plans: Sequence[Plan], files: list[str], tables: list[str], *, alone: bool
) -> list[Plan]:
    """Add registered solvers, users' solvers and users' data sets to the plans of an experiment."""
    from discreet_bench import extensions

    found = extensions.with_solvers(plans, [*extensions.registered_solvers(), *files])
    return extensions.with_data(found, tables, alone=alone) if tables else found


def _chosen(names: Sequence[str]) -> list[Experiment]:
    from discreet_bench.experiments import EXPERIMENTS, find

    if "all" in names:
        return list(EXPERIMENTS.values())
    try:
        return [find(name) for name in dict.fromkeys(names)]
    except ValueError as error:  # unknown, or a file that is none
        raise CommandError(str(error)) from None


def _count(plans: Sequence[Plan]) -> int:
    from discreet_bench.runner import size

    return sum(size(plan) for plan in plans)


def _words(words: list[str], **options: Any) -> str:
    """Return a command with every option that was given, as a shell takes it."""
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            if each is None or each is False:
                continue
            words.append(f"--{name.replace('_', '-')}")
            if each is not True:
                words.append(f"{each:g}" if isinstance(each, float) else shlex.quote(str(each)))
    return " ".join(words)


def _state_budget(
    screen: Screen, chosen: Sequence[Experiment], asked: Sequence[Sequence[Plan]]
) -> None:
    """Say how many runs each experiment has, and the processor time that they should take."""
    from discreet_bench import effort

    for experiment, plans in zip(chosen, asked, strict=True):
        runs = effort.distinct(plans)
        count = sum(run.repeats for run in runs)
        needed = _time(effort.seconds(runs))
        screen.note(f"{experiment.name}: {count:,} runs, about {needed} of processor time.")
    if len(chosen) > 1:
        runs = effort.distinct(itertools.chain(*asked))
        count = sum(run.repeats for run in runs)
        needed = _time(effort.seconds(runs))
        screen.note(f"All: {count:,} different runs, about {needed} of processor time.")


def _form(experiment: Experiment, runs: pd.DataFrame) -> str:
    """Return the form that runs of an experiment are of; older files do not say, and are full."""
    forms = set(runs.loc[runs["experiment"] == experiment.name, "form"]) - {""}
    return forms.pop() if len(forms) == 1 else "full"


def _in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Sort runs by experiment, in reading order."""
    from discreet_bench.experiments import EXPERIMENTS

    places = {name: place for place, name in enumerate(EXPERIMENTS)}
    order = runs["experiment"].map(places).sort_values(kind="stable", na_position="last").index
    return runs.loc[order].reset_index(drop=True)


def _part(
    form: str,
    methods: Sequence[str] | None,
    without: Sequence[str] | None,
    data: Sequence[str] | None,
) -> str:
    """Return the form, and the methods and data sets that were run, where these are not all."""
    words = [form, *(methods or [])]
    words += ["without", *without] if without else []
    words += ["on", *data] if data else []
    return " ".join(words)


def _folder(name: str, form: str) -> str:
    return name if form == "full" else f"{name}-{form}"


def _command(experiment: Experiment, form: str, runs: pd.DataFrame) -> str:
    """Return the command that makes such runs, as far as runs tell, where none was kept."""
    from discreet_bench.lines import is_own

    runs = runs[runs["experiment"] == experiment.name]
    plans = experiment.form(form)
    repeats = int(runs["repeat"].max()) + 1
    epsilons = sorted(set(runs["epsilon"]))
    data = sorted({name.split(" (")[0] for name in runs["data"]})
    relations = sorted({str(each) for each in runs["relation"]} - {""})
    own = sorted({method for method in runs["method"] if method and is_own(method)})
    planned = {str(relation) for plan in plans for relation in plan.objective["relation"]}
    return _words(
        ["discreet bench run", experiment.name],
        quick=form == "quick",
        paper=form == "paper",
        repeats=repeats if repeats != max(plan.repeats for plan in plans) else None,
        epsilon=epsilons
        if set(epsilons) != {each for plan in plans for each in plan.objective["epsilon"]}
        else None,
        data=data if set(data) != {name for plan in plans for name in plan.data} else None,
        relation=relations if relations and set(relations) != planned else None,
        solver_file=[f"{method}.py" for method in own],
    )


def _kept_command(folder: Path) -> str:
    """Return the command that was kept beside the runs of a folder, if there is one."""
    path = folder / COMMAND
    return path.read_text("utf-8").strip() if path.is_file() else ""


def _run(
    screen: Screen,
    experiment: Experiment,
    plans: Sequence[Plan],
    folder: Path,
    jobs: int,
    cache: Path,
    form: str,
) -> Done:
    """Run one experiment with a progress bar and the remaining time."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from discreet_bench.runner import run

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
            now = f"{experiment.name} · {status.now}"
            left = "" if status.seconds_left is None else f"{_time(status.seconds_left)} left"
            if hidden and time.monotonic() - last > LINE_EVERY:
                last = time.monotonic()
                screen.note(f"{now}: {status.done:,} of {status.total:,} runs, {left}")
            bars.update(task, completed=status.done, description=now, left=left)

        path = folder / RESULTS
        return run(experiment, plans, path, jobs=jobs, cache=cache, watch=watch, form=form)


def _refine(
    screen: Screen,
    experiment: Experiment,
    plans: Sequence[Plan],
    folder: Path,
    jobs: int,
    cache: Path,
    done: Done,
) -> None:
    """Run the best settings of grids with more repeats, and add the runs to those of the rest."""
    from discreet_bench.runs import merged, write

    more = _run(screen, experiment, plans, folder / "finalists", jobs, cache, "paper")
    done.runs = merged(done.runs, more.runs)
    done.made += more.made
    done.seconds += more.seconds
    done.processor_seconds += more.processor_seconds
    done.interrupted = more.interrupted
    done.failures += more.failures
    write(done.runs, folder / RESULTS)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _write_all(
    screen: Screen,
    runs: pd.DataFrame,
    experiments: Sequence[Experiment],
    page: Path,
    title: str,
    commands: dict[str, str],
) -> None:
    """Write tables, figures and the page."""
    from discreet_bench import figures, tables
    from discreet_bench.report import report

    for experiment in experiments:
        part = runs[runs["experiment"] == experiment.name]
        with screen.waiting(f"tables and figures of {experiment.name}"):
            tables.write_all(part, experiment, page.parent)
            figures.draw(part, experiment, page.parent)
    with screen.waiting("page"), replacing(page) as stream:
        stream.write(report(runs, title=title, commands=commands))
    screen.note(f"Page: {page}")


def _files(given: Sequence[Path]) -> list[Path]:
    """Return files of runs, and those in folders."""
    found: list[Path] = []
    for path in given:
        inside: list[Any] = sorted(path.rglob(RESULTS)) if path.is_dir() else [path]
        if not inside:
            raise CommandError(f"{path} holds no {RESULTS}; run an experiment first.", Exit.DATA)
        if not path.exists():
            raise CommandError(f"{path}: there is no such file or folder.", Exit.DATA)
        found += inside
    return found


def _install_rivals(screen: Screen) -> None:
    from discreet_bench.rivals import RIVALS, install

    for rival in RIVALS.values():
        with screen.waiting(f"installing {rival.name}"):
            reason = install(rival)
        if reason is not None:
            screen.note(f"{rival.name} will be left out: {reason}")
