"""Options that several commands share, and their completion in the shell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.exits import Exit, Problem, watch_outputs
from discreet.core import Relation

__all__ = [
    "AsJson",
    "DataDir",
    "DataFile",
    "Delta",
    "Force",
    "ModelFile",
    "OutputFile",
    "RelationName",
    "check_output",
    "complete_solvers",
]


def complete_solvers(incomplete: str) -> list[str]:
    """Complete the name of a solver."""
    from discreet.solvers import names

    return [name for name in names() if name.startswith(incomplete)]


DataFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="CSV (also .gz, .xz, .bz2) or Parquet file.")
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file that `discreet fit` wrote.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Write JSON, without progress bars and colours.")
]
RelationName = Annotated[
    Relation,
    typer.Option(
        help="Neighbouring data sets: add_remove (they differ by one row more or less) or "
        "replace_one (by the content of one row)."
    ),
]
Delta = Annotated[
    float,
    typer.Option(
        help="δ: roughly the probability that the guarantee of ε fails. Keep it well below 1 / "
        "number of rows."
    ),
]
OutputFile = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; standard output by default.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder of data sets; DISCREET_DATA by default."),
]


def check_output(output: Path | None, force: bool, *inputs: Path, option: str = "--output") -> None:
    """Refuse an output that cannot or should not be written, before any work is done."""
    if output is None:
        return
    watch_outputs(output)
    if output.is_dir():
        raise Problem(Exit.USAGE, f"{option} {output} is a folder; name a file in it.")
    if not output.parent.is_dir():
        raise Problem(Exit.USAGE, f"{option} {output}: there is no folder {output.parent}.")
    if not os.access(output.parent, os.W_OK):
        raise Problem(Exit.USAGE, f"{option} {output}: the folder may not be written to.")
    if not output.exists():
        return
    if not output.is_file():
        raise Problem(Exit.USAGE, f"{option} {output} is not a regular file.")
    if any(given.exists() and output.samefile(given) for given in inputs):
        raise Problem(Exit.USAGE, f"{option} {output} is also an input; name another file.")
    if not force:
        raise Problem(Exit.USAGE, f"{output} exists; pass --force to replace it.")
