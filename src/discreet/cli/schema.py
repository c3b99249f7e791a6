"""``discreet schema``: what is public about a table, drafted and checked."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.exits import Exit, Problem
from discreet.cli.options import (
    AsJson,
    DataFile,
    Force,
    OutputFile,
    RelationName,
    check_output,
    complete_datasets,
)
from discreet.cli.screen import Screen
from discreet.core import Relation

__all__ = ["app"]

app = typer.Typer(
    help="Write down what is public about a table: bounds, categories, the target.",
    no_args_is_help=True,
)


class Task(StrEnum):
    """What a target is."""

    CLASSES = "classes"
    NUMBERS = "numbers"


@app.command()
def draft(
    file: DataFile,
    output: OutputFile = None,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    names_only: Annotated[
        bool, typer.Option("--names-only", help="Read no cell, not even to tell numbers from text.")
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Estimate kinds, bounds and categories from the rows, with this budget."),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="Slack of the promise, for --epsilon; well below 1/rows.")
    ] = 1e-9,
    relation: RelationName = Relation.ADD_REMOVE,
    coverage: Annotated[
        float, typer.Option(help="Share of a column's values that its bounds should hold.")
    ] = 0.98,
    task: Annotated[
        Task | None, typer.Option(help="What the target is, for --epsilon; else it is estimated.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Between cells; else guessed from the first line.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help='Of the text, such as "latin-1"; else UTF-8.')
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a skeleton of a schema for a table; bounds and categories are left to fill in.

    With --epsilon they are estimated privately instead, and the schema records what that spent.

    Example: discreet schema draft visits.csv --target readmitted -o visits.toml
    """
    from discreet.files import replacing
    from discreet.tables import draft as write_draft
    from discreet.tables import draft_private

    screen = Screen(as_json=as_json)
    check_output(output, force, file)
    spent = None
    form = {
        "delimiter": "\t" if delimiter == "\\t" else delimiter,
        "encoding": encoding,
    }
    if epsilon is None:
        text = write_draft(file, target=target, names_only=names_only, **form)
    else:
        if names_only:
            raise Problem(Exit.USAGE, "--names-only and --epsilon exclude each other.")
        with screen.bar(f"reading {file.name}") as bar:
            made = draft_private(
                file,
                epsilon,
                delta,
                relation,
                target=target,
                task=None if task is None else task.value,
                coverage=coverage,
                progress=bar,
                **form,
            )
        text, spent = made.to_toml(), made.spent
    if output is None:
        screen.result({"schema": text}, text)
        return
    with replacing(output) as stream:
        stream.write(text)
    if spent is None:
        said = (
            f"Schema: {output}. Fill in what it leaves open, then: discreet schema check {output}"
        )
    else:
        said = (
            f"Schema: {output}. It cost ε = {spent.epsilon:g}, δ = {spent.delta:g} "
            f"({spent.relation}), which adds to what a fit on the same rows will spend."
        )
    cost = spent and {"epsilon": spent.epsilon, "delta": spent.delta, "relation": spent.relation}
    screen.result({"schema": str(output), "spent": cost}, said)


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="A named data set.", autocompletion=complete_datasets)
    ],
    output: OutputFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show the public schema of a named data set, written from its codebook.

    Example: discreet schema show adult -o adult.toml
    """
    from discreet.files import replacing
    from discreet_bench import datasets

    screen = Screen(as_json=as_json)
    check_output(output, force)
    if name not in datasets.names():
        raise Problem(
            Exit.USAGE, f"unknown data set {name!r}. Known: {', '.join(datasets.names())}."
        )
    made = datasets.schema(name)
    if made is None:
        raise Problem(Exit.USAGE, f"{name!r} is a table of numbers that needs no schema.")
    if output is None:
        screen.result(made.to_dict(), made.to_toml())
        return
    with replacing(output) as stream:
        stream.write(made.to_toml())
    screen.result({"schema": str(output)}, f"Schema: {output}")


@app.command()
def check(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA", help="A schema file (TOML).")],
    as_json: AsJson = False,
) -> None:
    """Check a schema file and say what it encodes to. No table is read.

    Example: discreet schema check visits.toml
    """
    from discreet.tables import Schema

    screen = Screen(as_json=as_json)
    table = Schema.read(schema)
    target = table.target.column if table.target is not None else None
    facts = {
        "columns": len(table.columns),
        "encoded_columns": table.width,
        "max_norm": table.max_norm,
        "sparse": table.is_wide,
        "private_bounds": len(table.unbounded),
        "target": target,
    }
    told = (
        f"{schema} is complete: {len(table.columns)} columns become {table.width} "
        f"({'sparse' if table.is_wide else 'dense'}), no row is longer than {table.max_norm:.4g}; "
        + (f"the target is {target!r}." if target else "it names no target.")
    )
    if table.unbounded:
        told += f" Bounds found privately during the fit: {len(table.unbounded)}."
    screen.result(facts, told)
