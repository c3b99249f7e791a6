"""``discreet explain`` and ``discreet solvers``: the privacy card of a model, and all solvers."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from discreet.cli import options
from discreet.cli.exits import Exit, Problem
from discreet.cli.screen import Screen

__all__ = ["explain", "solvers"]


Form = StrEnum("Form", ["TEXT", "MARKDOWN", "HTML"])
_ENDINGS = {".html": Form.HTML, ".htm": Form.HTML, ".md": Form.MARKDOWN, ".txt": Form.TEXT}


def explain(
    model: options.ModelFile,
    form: Annotated[
        Form | None,
        typer.Option("--format", help="By default by the ending of the output's name, else text."),
    ] = None,
    output: options.OutputFile = None,
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    effects: Annotated[
        Path | None,
        typer.Option(help="Draw the effect of each column, with its noise, to this .png or .svg."),
    ] = None,
    coefficients: Annotated[
        bool,
        typer.Option(help="Show the coefficients with standard errors and intervals instead."),
    ] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Show a model's privacy card: the guarantee, its conditions, what is public, and the risk.

    Example: discreet explain visits.json --output card.html
    """
    from discreet import card
    from discreet.files import replacing

    screen = Screen(as_json=as_json)
    options.check_output(output, force, model)
    options.check_output(effects, force, model, option="--effects")
    if form is None:
        form = Form.TEXT if output is None else _ENDINGS.get(output.suffix.lower())
    if form is None:
        raise Problem(Exit.USAGE, f"{output}: name it {', '.join(_ENDINGS)}, or pass --format.")
    encoder, estimator = options.load_model(model)
    schema = None if encoder is None else encoder.schema
    if effects is not None:
        _draw_effects(estimator, schema, effects)
    if coefficients:
        _show_coefficients(screen, estimator, schema, form, output)
        return
    content = card.card(
        estimator.guarantee_,
        model=estimator,
        schema=schema,
        title=model.stem,
        ledger=options.find_dataset(ledger, dataset, [str(model)], None, ""),
        sha256=hashlib.sha256(model.read_bytes()).hexdigest(),
    )
    write = {Form.TEXT: card.text, Form.MARKDOWN: card.markdown, Form.HTML: card.html}[form]
    if output is None:
        screen.result(content.to_dict(), write(content))
        return
    with replacing(output) as stream:
        stream.write(write(content))
    screen.result({"card": str(output)}, f"Privacy card: {output}")


def _show_coefficients(
    screen: Screen, estimator: Any, schema: Any, form: Form, output: Path | None
) -> None:
    """Show the table of coefficients, or write it as text or HTML."""
    from discreet.files import replacing
    from discreet.page import document

    names = None if schema is None else schema.feature_names
    table = estimator.summary(names=names)
    text = str(table)
    if form is Form.HTML:
        text = document(table.title, table._repr_html_(), style="body{margin:2rem}")
    elif form is Form.MARKDOWN:
        text = f"```text\n{table}\n```\n"
    if output is None:
        screen.result(table.to_dict(), text)
        return
    with replacing(output) as stream:
        stream.write(f"{text}\n")
    screen.result({"coefficients": str(output)}, f"Coefficients: {output}")


def _draw_effects(estimator: Any, schema: Any, path: Path) -> None:
    """Draw the effects of columns, in units of the table if there is a schema."""
    if importlib.util.find_spec("matplotlib") is None:
        raise Problem(Exit.USAGE, "--effects needs matplotlib: pip install 'discreet[report]'.")
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise Problem(Exit.USAGE, f"--effects {path}: name it .png, .svg or .pdf.")
    if schema is None:
        figure = estimator.plot_effects()
    else:
        units = {
            name: column.decoded
            for name, column in schema.used.items()
            if hasattr(column, "decoded")
        }
        figure = estimator.plot_effects(schema.feature_names, units)
    figure.savefig(path, dpi=150)


def solvers(
    name: Annotated[
        str | None,
        typer.Argument(help="Describe this one.", autocompletion=options.complete_solvers),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the solvers, or describe one: its paper, conditions and settings.

    Example: discreet solvers objpert
    """
    from discreet.solvers import describe, names

    screen = Screen(as_json=as_json)
    if name is not None:
        if name not in names():
            raise Problem(Exit.USAGE, f"unknown solver {name!r}. Known: {', '.join(names())}.")
        described = describe(name)
        screen.result(_plain(described), str(described))
        return
    table = Table(title="Solvers (describe one with: discreet solvers NAME)")
    for heading in ("name", "method", "relations", "budgets", "losses"):
        table.add_column(heading, no_wrap=heading == "name")
    listed = []
    for each in names():
        described = describe(each)
        listed.append({**_plain(described), "name": each, "method": described.name})
        if each == "auto":
            table.add_row(each, "Chooses a preparation and a solver by public numbers (default).")
        elif each != described.name:
            table.add_row(each, f"Another name of {described.name}.")
        elif described.private:
            relations = ", ".join(described.relations)
            table.add_row(each, described.summary, relations, described.budgets, described.losses)
        else:
            table.add_row(each, described.summary, "NOT PRIVATE", "none", described.losses)
    screen.result(listed, table)


def _plain(described: object) -> dict[str, object]:
    """Return a description as data that JSON can hold."""
    fields = dataclasses.asdict(described)  # type: ignore[call-overload]
    fields["parameters"] = {
        key: value if isinstance(value, str | int | float | bool | None) else repr(value)
        for key, value in fields["parameters"].items()
    }
    return fields
