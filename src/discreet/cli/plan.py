"""``discreet plan``: what a budget will roughly buy, before anything is read."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli import options
from discreet.cli.exits import Exit, Problem
from discreet.cli.screen import Screen

Task = StrEnum("Task", ["CLASSIFICATION", "REGRESSION"])


def plan(
    rows: Annotated[int, typer.Option(help="Number of rows, or of people.")],
    columns: Annotated[int, typer.Option(help="Number of columns after encoding.")],
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="Values of ε; repeat the option. Default: 0.1, 0.3, 1, 3, 10."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ. Default: a tenth of 1/rows, at most 1e-6.")
    ] = None,
    relation: Annotated[str, typer.Option(help="add_remove or replace_one.")] = "add_remove",
    task: Annotated[Task, typer.Option(help="What is fitted.")] = Task.CLASSIFICATION,
    repeats: Annotated[int, typer.Option(help="Simulated fits per ε.")] = 3,
    figure: Annotated[
        Path | None, typer.Option(help="Draw score and intervals over ε to this .png or .svg.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what a budget will roughly buy, simulated with generated rows: nothing is spent.

    Example: discreet plan --rows 20000 --columns 20 --epsilon 1 --figure plan.png
    """
    screen = Screen(as_json=as_json)
    if figure is not None:
        options.check_output(figure, force, option="--figure")
        if importlib.util.find_spec("matplotlib") is None:
            raise Problem(Exit.USAGE, "--figure needs matplotlib: pip install 'discreet[report]'.")
        if figure.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise Problem(Exit.USAGE, f"--figure {figure}: name it .png, .svg or .pdf.")
    from discreet.tuning.plan import GRID
    from discreet.tuning.plan import plan as make

    made = make(
        rows,
        columns,
        epsilon or GRID,
        delta=delta,
        relation=relation,
        task=str(task),
        repeats=repeats,
    )
    if figure is not None:
        made.plot().savefig(figure, dpi=150)
    screen.result(made.to_dict(), str(made))
