"""Options that several commands share: their help, completion in the shell, and parsing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from discreet.cli.exits import CommandError
from discreet.core import Relation

DataFiles = Annotated[
    list[str],
    Argument(
        metavar="FILE...",
        help="CSV (also .gz, .xz, .bz2), Parquet or Feather: a file, a folder, a pattern in quotes "
        "such as 'visits/*.parquet', or several files that are one table.",
    ),
]
Sql = Annotated[
    str | None,
    Option(
        metavar="QUERY",
        help="Read the result of this query. FILE is then a DuckDB file, an address such as "
        "postgresql://… (with its ADBC driver), or - if the query names files itself.",
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
TestSeed = Annotated[
    int | None, Option(help="For tests only: fix the noise, so that nothing is private.")
]


@contextmanager
def connected(engine: str) -> Iterator[None]:
    """Run a block with the cluster that ``--engine`` names as the current one of Dask."""
    kind, _, address = engine.partition("://")
    if kind != "dask" or not address:
        raise CommandError(f"--engine must be dask://HOST:PORT or dask://local; got {engine!r}.")
    try:
        from distributed import Client
    except ImportError:
        raise CommandError(
            "--engine needs Dask: pip install 'discreet[dask]', workers too."
        ) from None
    try:
        client = Client() if address == "local" else Client(f"tcp://{address}", timeout=10)
    except (OSError, ValueError) as error:
        raise CommandError(
            f"no Dask scheduler answers at {address} ({type(error).__name__})."
        ) from None
    with client:
        yield


def table_of(files: list[str], sql: str | None, *, passes: int = 1) -> Any:
    """Return the table that a command reads: files, or the result of a query.

    What is read in several passes is kept in memory.
    """
    if sql is None:
        return files
    if len(files) != 1:
        raise CommandError("--sql needs one FILE: a DuckDB file, an address, or -.")
    from discreet.tables import query

    found = query(sql, "" if files[0] == "-" else files[0])
    return found if passes == 1 else found.read_all()


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
            raise CommandError(f"{option} {text!r} must be {form}.")
        found[name.strip()] = value.strip()
    return found
