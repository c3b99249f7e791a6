"""``discreet solvers``, ``discreet datasets`` and ``discreet demo``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from discreet.cli.exits import Exit, Problem
from discreet.cli.options import AsJson, DataDir, complete_datasets, complete_solvers
from discreet.cli.screen import Screen

__all__ = ["datasets", "demo", "solvers"]


def solvers(
    name: Annotated[
        str | None,
        typer.Argument(help="Show all about this one.", autocompletion=complete_solvers),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the solvers, or say all about one: its paper, conditions and settings.

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
    all_of_them = [describe(each) for each in names()]
    table = Table(title="Solvers (discreet solvers NAME says more)")
    table.add_column("name", no_wrap=True)
    for heading in ("what it does", "relations", "budgets", "losses"):
        table.add_column(heading)
    for each, described in zip(names(), all_of_them, strict=True):
        if each != described.name:
            table.add_row(each, f"The library's choice: {described.name}, for now.")
        elif described.private:
            relations = ", ".join(described.relations)
            table.add_row(each, described.summary, relations, described.budgets, described.losses)
        else:
            table.add_row(each, described.summary, "NOT PRIVATE", "none", described.losses)
    listed = zip(names(), all_of_them, strict=True)
    screen.result([{**_plain(of), "name": each, "method": of.name} for each, of in listed], table)


def _plain(described: object) -> dict[str, object]:
    """A description as data that JSON can hold."""
    fields = dataclasses.asdict(described)  # type: ignore[call-overload]
    fields["parameters"] = {
        key: value if isinstance(value, str | int | float | bool | None) else repr(value)
        for key, value in fields["parameters"].items()
    }
    return fields


def datasets(
    name: Annotated[
        str | None,
        typer.Argument(help="Show all about this one.", autocompletion=complete_datasets),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the named data sets, or say all about one: what it is, its licence, where it comes from.

    Example: discreet datasets adult
    """
    from discreet_bench import datasets as sets

    screen = Screen(as_json=as_json)
    if name is not None:
        if name not in sets.names():
            raise Problem(
                Exit.USAGE, f"unknown data set {name!r}. Known: {', '.join(sets.names())}."
            )
        described = sets.describe(name, data_dir=data_dir)
        screen.result(dataclasses.asdict(described), str(described))
        return
    all_of_them = [sets.describe(each, data_dir=data_dir) for each in sets.names()]
    table = Table(title="Data sets (discreet datasets NAME says more)")
    table.add_column("name", no_wrap=True)
    for heading in ("what it is", "rows", "columns", "task", "here?"):
        table.add_column(heading, justify="right" if heading in ("rows", "columns") else "left")
    for each in all_of_them:
        here = "yes" if each.available else ""
        table.add_row(
            each.name, each.title, f"{each.rows:,}", f"{each.features:,}", each.task, here
        )
    screen.result([dataclasses.asdict(each) for each in all_of_them], table)


def demo(
    figure: Annotated[Path, typer.Option(help="Where to save the figure.")] = Path("out/demo.png"),
) -> None:
    """Train private models on generated data and show what a budget buys (a minute).

    Example: discreet demo --figure demo.png
    """
    from discreet.cli.demo import show

    show(figure)
