"""Options that several commands share, and their completion in the shell."""

from __future__ import annotations

import copy
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from discreet.cli import session
from discreet.cli.exits import Exit, Problem, reason
from discreet.core import Budget, Relation
from discreet.files import reserved
from discreet.ledger.dataset import Dataset, Reservation

DataFiles = Annotated[
    list[str],
    Argument(
        metavar="FILE...",
        help="CSV (also .gz, .xz, .bz2), Parquet or Feather: a file, a folder, a pattern in quotes "
        "such as 'visits/*.parquet', or several files that are one table.",
    ),
]
Memory = Annotated[
    str | None,
    Option(
        help="Largest size of the encoded table in memory, such as 2GB; by default a quarter of "
        "the machine's. A larger table is kept in a temporary file that only this process can "
        "read and that is gone when it ends."
    ),
]
Engine = Annotated[
    str | None,
    Option(
        help="Read and fit on a Dask cluster: dask://HOST:PORT of its scheduler, or dask://local "
        "for worker processes of this machine. Workers must see the files under the same path."
    ),
]
Folder = Annotated[Path | None, Option(help="Folder for that temporary file, on a local disk.")]
ModelFile = Annotated[
    Path, Argument(metavar="MODEL", help="A model file that `discreet fit` wrote.")
]
AsJson = Annotated[bool, Option("--json", help="Write JSON, without progress bars and colours.")]
RelationName = Annotated[
    Relation,
    Option(
        help="Neighbouring data sets: add_remove (they differ by one row more or less) or "
        "replace_one (by the content of one row)."
    ),
]
Delta = Annotated[
    float,
    Option(
        help="δ: roughly the probability that the guarantee of ε fails. Keep it well below 1 / "
        "number of rows."
    ),
]
Unit = Annotated[
    str | None,
    Option(
        metavar="COLUMN",
        help="Column with the id of the person (or other unit) that a row belongs to: people are "
        "then protected with all of their rows, each with a total weight of 1. By default the "
        "schema's unit.",
    ),
]
Threshold = Annotated[
    float | None,
    Option(
        help="Predict the second of two classes if its probability is above this; by default the "
        "class of the higher score."
    ),
]
OutputFile = Annotated[
    Path | None, Option("--output", "-o", help="File to write; standard output by default.")
]
LedgerPlace = Annotated[
    str | None,
    Option(
        "--ledger",
        envvar="DISCREET_LEDGER",
        help="Ledger: an SQLite file or postgresql://…; by default that of a discreet.toml in this "
        "folder or above.",
    ),
]
DatasetName = Annotated[
    str | None,
    Option(
        "--dataset",
        envvar="DISCREET_DATASET",
        help="Data set of the ledger to charge; not needed if it has one.",
    ),
]
Blocks = Annotated[
    list[str] | None, Option("--block", help="Block of the data set that the rows are from.")
]
Purpose = Annotated[str, Option(help="Purpose to note in the ledger.")]
IgnoreExtra = Annotated[
    bool, Option("--ignore-extra", help="Leave out columns of the table that the schema lacks.")
]
Force = Annotated[bool, Option("--force", help="Replace an existing file.")]


def name_of(files: list[str]) -> str:
    """Return what a progress bar calls the files of a table."""
    return Path(files[0]).name if len(files) == 1 else f"{len(files)} files"


@contextmanager
def connected(engine: str | None) -> Iterator[bool]:
    """Run a block on the cluster that ``--engine`` names; yields False if there is none."""
    if engine is None:
        yield False
        return
    kind, _, address = engine.partition("://")
    if kind != "dask" or not address:
        raise Problem(f"--engine must be dask://HOST:PORT or dask://local; got {engine!r}.")
    try:
        from distributed import Client
    except ImportError:
        raise Problem("--engine needs Dask: pip install 'discreet[dask]', workers too.") from None
    try:
        client = Client() if address == "local" else Client(f"tcp://{address}", timeout=10)
    except (OSError, ValueError) as error:
        raise Problem(f"no Dask scheduler answers at {address} ({type(error).__name__}).") from None
    with client:
        yield True


def check_output(
    output: Path | None, force: bool, *inputs: str | Path, option: str = "--output"
) -> None:
    """Refuse an output that cannot or should not be written, before any work is done."""
    if output is None:
        return
    session.watch_outputs(output)
    problem = None
    if output.is_dir():
        problem = f"{option} {output} is a folder; name a file in it."
    elif not output.parent.is_dir():
        problem = f"{option} {output}: there is no folder {output.parent}."
    elif not os.access(output.parent, os.W_OK):
        problem = f"{option} {output}: the folder may not be written to."
    elif output.exists() and not output.is_file():
        problem = f"{option} {output} is not a regular file."
    elif output.exists() and any(
        Path(given).exists() and output.samefile(given) for given in inputs
    ):
        problem = f"{option} {output} is also an input; name another file."
    elif output.exists() and not force:
        problem = f"{output} exists; pass --force to replace it."
    if problem is not None:
        raise Problem(problem)


@contextmanager
def room_for(output: Path | None, size: int) -> Iterator[None]:
    """Hold ``size`` bytes, a public number, for an output while the result is computed."""
    with ExitStack() as held:
        if output is not None:
            try:
                held.enter_context(reserved(output, size))
            except OSError as error:
                raise Problem(
                    f"--output {output}: {reason(error)}. It needs {size / 1e6:.2g} MB on the "
                    "disk: free some space, or name a file on another disk. Nothing was read, "
                    "and nothing is spent.",
                    Exit.UNEXPECTED,
                ) from None
        yield


def keep(write: Callable[[Any], None], output: Path, what: str) -> None:
    """Write a result that was paid for. If that fails, it is kept elsewhere, and an error says so.

    Parameters
    ----------
    write : callable
        Writes the result to a path, or to a text stream.
    output : Path
        The file that was asked for. The others are a new file in the system's temporary folder,
        which only this user can read, and standard output.
    what : str
        The result, as in "the model".
    """
    session.current().released = True
    try:
        write(output)
        return
    except OSError as error:
        failed = f"{output}: {reason(error)}."
    place = _kept(write, output.suffix)
    if place is None:
        kept = f"Nor could {what} be written to {tempfile.gettempdir()} or to standard output."
    else:
        kept = f"{what.capitalize()} was kept {place}. Do not repeat the command: it would spend "
        kept += "its budget again."
    raise Problem(f"{failed} {kept} {session.spent()}", Exit.UNEXPECTED)


def _kept(write: Callable[[Any], None], suffix: str) -> str | None:
    """Write a result to a second place; returns where it is, or None if that failed, too."""
    name = None
    try:
        handle, name = tempfile.mkstemp(prefix="discreet-", suffix=suffix)  # with mode 0600
        os.close(handle)
        write(Path(name))
        return f"in {name}, which only you can read: move it to where it belongs"
    except OSError:
        if name is not None:
            Path(name).unlink(missing_ok=True)
    try:
        write(sys.stdout)
        sys.stdout.flush()
        return "on standard output, which has nothing else"
    except OSError:
        return None


def check_figure(
    figure: Path | None,
    force: bool,
    *inputs: Path,
    option: str = "--figure",
    endings: Sequence[str] = (".png", ".svg", ".pdf"),
) -> None:
    """Refuse a figure that cannot be drawn or written, before any work is done."""
    if figure is None:
        return
    if figure.suffix.lower() not in endings:
        raise Problem(f"{option} {figure}: the name must end with {', '.join(endings)}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise Problem(f'{option} needs matplotlib: pip install "discreet[report]".')
    check_output(figure, force, *inputs, option=option)


def _configured(start: Path) -> dict[str, str]:
    """Return the table [ledger] of the nearest discreet.toml in a folder or above it."""
    import tomllib

    folder = start.absolute()
    for parent in (folder, *folder.parents):
        file = parent / "discreet.toml"
        if not file.is_file():
            continue
        try:
            found = tomllib.loads(file.read_text("utf-8")).get("ledger", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise Problem(f"{file} is not TOML: {error}.") from None
        if not all(isinstance(found.get(name, ""), str) for name in ("path", "dataset")):
            raise Problem(f"{file}: path and dataset of [ledger] must be texts.")
        if "path" in found and "://" not in found["path"]:
            found["path"] = os.fspath(parent / found["path"])
        return dict(found)
    return {}


def open_ledger(place: str | None, signing_key: Path | None = None) -> Any:
    """Open the ledger that is named, or that of a discreet.toml."""
    from discreet import Ledger

    place = place or _configured(Path()).get("path")
    if place is None:
        raise Problem(
            "name a ledger: --ledger FILE, DISCREET_LEDGER, or a discreet.toml with [ledger] and "
            'path = "…".'
        )
    return Ledger(place, signing_key=signing_key)


def find_dataset(
    place: str | None, name: str | None, files: list[str], blocks: list[str] | None, purpose: str
) -> Any:
    """Return the data set that a command has to charge, or None if nothing names a ledger.

    A discreet.toml is searched from the folder of the table upwards.
    """
    from discreet import Ledger

    settings = {} if place else _configured(Path(files[0]).absolute().parent)
    place, name = place or settings.get("path"), name or settings.get("dataset")
    if place is None:
        if name or blocks or purpose:
            raise Problem("--dataset, --block and --purpose need --ledger FILE.")
        return None
    ledger = Ledger(place)
    if name is None:
        found = ledger.list()
        if len(found) != 1:
            known = ", ".join(repr(each.name) for each in found) or "none"
            raise Problem(f"name the data set with --dataset. {place} has: {known}.")
        name = found[0].name
    dataset = ledger.open(name)
    dataset = dataset.in_blocks(*blocks) if blocks else dataset
    return dataset.noting(purpose=purpose) if purpose else dataset


class NotedDataset(Dataset):
    """A data set whose charges are noted in the session, for the report of a failure."""

    def charge(self, *cost: Any, **more: Any) -> Reservation:
        """Reserve an entry, and note it."""
        made = super().charge(*cost, **more)
        session.current().charges.append((self, made.entry))
        return made


def spending(budget: Budget, dataset: Dataset | None) -> Dataset | None:
    """Note that a command spends a budget; returns the data set to charge, which notes entries."""
    session.will_spend(budget.epsilon, budget.delta, ledger=dataset is not None)
    if dataset is None:
        return None
    return NotedDataset(**{each.name: getattr(dataset, each.name) for each in fields(dataset)})


def complete_solvers(incomplete: str) -> list[str]:
    """Complete the name of a solver."""
    from discreet.solvers import names

    return [name for name in names() if name.startswith(incomplete)]


def pairs(option: str, given: list[str] | None, form: str) -> dict[str, str]:
    """Return texts of the form NAME=TEXT as a mapping."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise Problem(f"{option} {text!r} must be {form}.")
        found[name.strip()] = value.strip()
    return found


def adapted(schema: Any, ignore_extra: bool, unit: str | None = None) -> Any:
    """Return a schema that leaves out unknown columns, and has another unit, if options say so."""
    if ignore_extra:
        schema = replace(schema, extra="ignore")
    try:
        return schema if unit is None else schema.with_unit(unit)
    except ValueError as error:
        raise Problem(f"--unit: {error}") from None


def at_threshold(estimator: Any, threshold: float | None) -> Any:
    """Return a model that predicts the second class where its probability is above a threshold."""
    from discreet.estimators.classifiers import LogisticRegression

    if threshold is None:
        return estimator
    if not 0 < threshold < 1:
        raise Problem(f"--threshold must be between 0 and 1; got {threshold:g}.")
    if not isinstance(estimator, LogisticRegression) or len(estimator.classes_) != 2:
        raise Problem("--threshold is for logistic models of two classes.")
    shifted = copy.copy(estimator)
    shifted.intercept_ = estimator.intercept_ - estimator.link_.score(threshold)
    return shifted


def load_model(path: Path) -> tuple[Any, Any]:
    """Load a model file: the encoder of its table, or None, and the estimator."""
    from sklearn.pipeline import Pipeline

    from discreet import load

    loaded = load(path)
    return (loaded[0], loaded[-1]) if isinstance(loaded, Pipeline) else (None, loaded)


def load_table_model(path: Path) -> tuple[Any, Any]:
    """Load a model file and refuse one without a schema, which cannot read tables."""
    encoder, estimator = load_model(path)
    if encoder is None:
        raise Problem(
            f"{path} holds a model without a schema, so it cannot read files. Load it in Python "
            "with discreet.load and give it the encoded rows.",
            Exit.MODEL,
        )
    return encoder, estimator
