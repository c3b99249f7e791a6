"""``discreet schema``: drafting and checking a schema, the public knowledge about a table."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from typer import Argument, Option

from discreet.cli import options, state
from discreet.cli.exits import CommandError
from discreet.cli.screen import Screen, name_of, prose
from discreet.core import Budget, Relation
from discreet.files import replacing

if TYPE_CHECKING:
    from discreet.tables import Spent

SCHEMA_BYTES = 2**20  # space that is held for a schema that is estimated from rows

app = typer.Typer(
    help="Write and check a schema: the public bounds, categories and target of a table.",
    no_args_is_help=True,
)

Task = StrEnum("Task", ["CLASSES", "NUMBERS"])


@app.command()
def draft(
    files: options.DataFiles,
    output: options.OutputFile = None,
    target: Annotated[str | None, Option(help="The column to predict.")] = None,
    unit: options.Unit = None,
    sql: options.Sql = None,
    ask: Annotated[
        bool,
        Option(
            "--ask",
            help="Ask in the terminal what is public about each column, with what is known of it.",
        ),
    ] = False,
    names_only: Annotated[bool, Option("--names-only", help="Read names, but no cell.")] = False,
    epsilon: Annotated[
        float | None,
        Option(help="Estimate kinds, bounds and categories from the rows, with this budget."),
    ] = None,
    delta: options.Delta = 1e-9,
    relation: options.RelationName = Relation.ADD_REMOVE,
    coverage: Annotated[
        float,
        Option(
            help="Share of the numbers of a column that estimated bounds keep. Bounds that the "
            "budget cannot buy are left to the fit."
        ),
    ] = 0.99,
    task: Annotated[Task | None, Option(help="What the target holds, for --epsilon.")] = None,
    delimiter: Annotated[
        str | None, Option(help="Character between cells; by default guessed from the first line.")
    ] = None,
    encoding: Annotated[str | None, Option(help="Encoding of the text; by default UTF-8.")] = None,
    header: Annotated[
        bool | None,
        Option(
            "--header/--no-header",
            help="The first line of a text file holds the names of the columns, which become "
            "public, or is a record. With --epsilon one of the two is needed, or --names.",
        ),
    ] = None,
    names: Annotated[
        str | None,
        Option(help="Names of all columns, separated by commas, for a file without header."),
    ] = None,
    missing: Annotated[
        list[str] | None,
        Option(help='Text that means a missing cell, such as "?"; the empty one always does.'),
    ] = None,
    decimal: Annotated[
        str | None,
        Option(
            metavar="SIGN",
            help="Sign before decimals in a text file: . or , (then dots are between thousands). "
            "By default a comma if semicolons separate the cells.",
        ),
    ] = None,
    dates: Annotated[
        str | None,
        Option(metavar="FORM", help="Form of dates, such as %d.%m.%Y; by default 2024-12-31."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN=KIND",
            help="Kind of a column: numeric, categorical, hashed, boolean, date or ignored.",
        ),
    ] = None,
    prefix: Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN=NUMBER",
            help="Group a column of codes by this many first letters: 250.83 counts as 250 by 3.",
        ),
    ] = None,
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    block: options.Blocks = None,
    purpose: options.Purpose = "",
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a draft of a schema for a table; bounds and categories are left to fill in.

    With --epsilon they are estimated privately instead, and the schema records the cost.

    Example: discreet schema draft visits.csv --target readmitted -o visits.toml
    """
    from discreet import tables
    from discreet.tables.source import source as opened

    screen = Screen(as_json=as_json)
    state.check_output(output, force, *files)
    form: dict[str, Any] = {
        "target": target,
        "unit": unit,
        "delimiter": "\t" if delimiter == "\\t" else delimiter,
        "encoding": encoding,
        "header": header,
        "names": None if names is None else names.split(","),
        "missing": missing or (),
        "decimal": decimal,
        "dates": dates,
        "kinds": options.pairs("--kind", kind, "COLUMN=KIND"),
        "prefixes": _prefixes(prefix),
    }
    cost = None
    unbounded: tuple[str, ...] = ()
    source = options.table_of(files, sql, passes=3)
    if epsilon is None:
        text = tables.draft(source, names_only=names_only, **form)
        text = _answered(text, screen) if ask else text
    elif names_only or ask:
        given = "--ask" if ask else "--names-only"
        raise CommandError(f"{given} and --epsilon exclude each other.")
    else:
        form |= {"task": task and task.value, "coverage": coverage}
        budget = Budget(epsilon, delta, relation)
        form["ledger"] = state.find_dataset(ledger, dataset, files, block, purpose, budget)
        reading = screen.bar(f"reading {name_of(files)}")
        with state.room_for(output, SCHEMA_BYTES), reading as bar:
            made = tables.draft_private(source, epsilon, delta, relation, progress=bar, **form)
        text = made.to_toml()
        cost = made.spent
        unbounded = tuple(made.feature_names[place] for place in made.unbounded)
    if unit is None and not ask:
        _suggest_unit(screen, text)
    if output is None:
        screen.result({"schema": text}, text)
        return
    if cost is None:
        _write(text, output)
    else:
        state.keep(partial(_write, text), output, "the schema")
    said = f"Schema: {output}. " + _said(output, cost, unbounded, asked=ask)
    spent = None
    if cost is not None:
        spent = {"epsilon": cost.epsilon, "delta": cost.delta, "relation": cost.relation}
    if names is None and header is not False and sql is None and not opened(files).names:
        said += "\nThe names of its columns were taken from the first line of the file, as public."
    screen.result({"schema": str(output), "spent": spent}, prose(said))


def _answered(drafted: str, screen: Screen) -> str:
    """Return a drafted schema with the gaps filled in by answers in the terminal."""
    from discreet.cli.ask import Questions

    def prompt(text: str, proposed: str) -> str:
        default = proposed or None
        return str(typer.prompt(text, default=default, err=True))

    return Questions(drafted, prompt, lambda told: screen.people.print(told)).schema().to_toml()


def _said(output: Path, cost: Spent | None, unbounded: Sequence[str], *, asked: bool) -> str:
    """Return what to do with a draft, or what it has cost and what it leaves to the fit."""
    if asked:
        return f"Check it, then: discreet fit --schema {output}"
    if cost is None:
        return f"Fill in what it leaves open, then: discreet schema check {output}"
    people = "" if cost.unit is None else ", for one person with all of their rows"
    said = (
        f"It cost ε = {cost.epsilon:g}, δ = {cost.delta:g} ({cost.relation}{people}), which adds "
        "to the cost of every fit on the same rows."
    )
    if unbounded:
        said += f" The fit finds the bounds of {', '.join(unbounded)} with part of its own budget."
    return said


def _prefixes(given: list[str] | None) -> dict[str, int]:
    """Return the number of first letters by which each column of codes is grouped."""
    found = {}
    for name, text in options.pairs("--prefix", given, "COLUMN=NUMBER").items():
        if not text.isdecimal():
            raise CommandError(f"--prefix {name}={text}: {text!r} is not a whole number.")
        found[name] = int(text)
    return found


def _suggest_unit(screen: Screen, text: str) -> None:
    """Name the columns of a drafted schema that may be ids of people."""
    from discreet.tables.columns import may_be_unit

    for name in filter(may_be_unit, tomllib.loads(text)["columns"]):
        screen.note(
            f"If {name!r} is the id of a person, draft again with --unit {name}: people are then "
            "protected with all of their rows."
        )


def _write(text: str, place: Path | TextIO) -> None:
    """Write a schema to a file, or to an open stream."""
    if isinstance(place, Path):
        with replacing(place) as stream:
            stream.write(text)
    else:
        place.write(text)


@app.command()
def check(
    schema: Annotated[Path, Argument(metavar="SCHEMA", help="A schema file (TOML).")],
    as_json: options.AsJson = False,
) -> None:
    """Check a schema file and describe the encoded table. No table is read.

    Example: discreet schema check visits.toml
    """
    from discreet.tables import Schema

    screen = Screen(as_json=as_json)
    table = Schema.read(schema)
    target = table.target.column if table.target is not None else None
    data = {
        "columns": len(table.columns),
        "encoded_columns": table.width,
        "max_norm": table.max_norm,
        "sparse": table.is_wide,
        "private_bounds": len(table.unbounded),
        "target": target,
        "unit": table.unit,
    }
    text = (
        f"{schema} is complete: {len(table.columns)} columns become {table.width} "
        f"({'sparse' if table.is_wide else 'dense'}), every row has norm {table.max_norm:.4g} at "
        f"most; " + (f"the target is {target!r}." if target else "it has no target.")
    )
    if table.unit is not None:
        text += f" Its unit is {table.unit!r}: fits protect people with all of their rows."
    if table.unbounded:
        text += f" Columns whose bounds the fit will estimate: {len(table.unbounded)}."
    screen.result(data, prose(text))
