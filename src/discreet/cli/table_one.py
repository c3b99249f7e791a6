"""``discreet describe``: Table 1 of a table on disk, within a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from discreet.cli import options, state
from discreet.cli.exits import CommandError
from discreet.cli.fit import columns_of
from discreet.cli.screen import Screen
from discreet.core import Budget, Relation
from discreet.files import replacing

WIDTH = 80
"""Characters of a line of the table on a screen."""

ENDINGS = (".html", ".htm", ".tex", ".csv", ".txt")
"""Endings of files that the table is written to."""


def describe(
    files: options.DataFiles,
    epsilon: Annotated[float, Option(help="Privacy budget: smaller is more private.")],
    delta: options.Delta = 1e-6,
    schema: Annotated[
        Path | None, Option(help="Schema file with bounds and levels of the columns.")
    ] = None,
    column: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=…",
            help="Without a schema: NAME=LOW:HIGH for numbers, NAME=TEXT,TEXT,… for levels, "
            "NAME=ignored; give the option once per column. Columns of text files that are not "
            "named are left out.",
        ),
    ] = None,
    by: Annotated[
        str | None, Option(metavar="COLUMN", help="Describe the rows by the levels of a column.")
    ] = None,
    unit: options.Unit = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="File to write: .html, .tex, .csv (all numbers) or .txt."),
    ] = None,
    level: Annotated[float, Option(help="Level of the intervals.")] = 0.95,
    relation: options.RelationName = Relation.ADD_REMOVE,
    sql: options.Sql = None,
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    block: options.Blocks = None,
    purpose: options.Purpose = "",
    force: options.Force = False,
    test_seed: options.TestSeed = None,
    as_json: options.AsJson = False,
) -> None:
    """Describe a table privately: counts, means, quantiles and levels, as Table 1 of a paper.

    One release pays for all numbers, with intervals.

    Example: discreet describe visits.parquet --epsilon 0.3 --unit patient --by ward
    --column age=18:100 --column ward=A,B,C -o table1.html
    """
    import discreet

    screen = Screen(as_json=as_json)
    state.check_output(output, force, *files, *([] if schema is None else [schema]))
    if output is not None and output.suffix.lower() not in ENDINGS:
        raise CommandError(f"--output must end in {', '.join(ENDINGS)}; got {output.name!r}.")
    if schema is not None and column:
        raise CommandError("a schema declares all columns: give --schema or --column.")
    declared: Any = columns_of(column) if column else None
    if schema is not None:
        declared = discreet.tables.Schema.read(schema)
    budget = Budget(epsilon, delta, relation)
    charged = state.find_dataset(ledger, dataset, files, block, purpose, budget)
    with screen.bar("reading") as bar:
        bar(0.0, "reading")
        found = discreet.describe(
            options.table_of(files, sql, passes=2),
            epsilon=epsilon,
            delta=delta,
            columns=declared,
            by=by,
            unit=unit,
            level=level,
            relation=relation,
            ledger=charged,
            random_state=test_seed,
        )
    record = {
        "entries": [each._asdict() for each in found.entries],
        "level": found.level,
        "guarantee": found.guarantee.to_dict(),
        "ledger_entry": found.ledger_entry,
    }
    if output is None:
        screen.result(record, f"{found.text(WIDTH)}\n\n{found.guarantee}")
        return
    text = _text(found, output.suffix.lower())
    state.keep(lambda place: _write(text, place), output, "the table")
    screen.result(
        {"table": str(output), **record},
        f"{found.guarantee}\n\nTable: {output}",
        done=f"The table was written to {output}",
    )


def _text(found: Any, ending: str) -> str:
    """Return the table in the form that the ending of a file names."""
    if ending == ".csv":
        csv: str = found.to_frame().to_csv(index=False)
        return csv
    forms = {".tex": found.to_latex, ".txt": found.text}
    return f"{forms.get(ending, found.to_html)()}\n"


def _write(text: str, place: Any) -> None:
    """Write a text to a path, as a whole or not at all, or to an open stream."""
    if not isinstance(place, Path):
        place.write(text)
        return
    with replacing(place) as stream:
        stream.write(text)
