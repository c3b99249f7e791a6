"""``discreet example``: write the example table to a CSV file, to try the other commands on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from discreet.cli import options
from discreet.cli.screen import Screen
from discreet.cli.state import check_output
from discreet.datasets import write_visits


def example(
    output: Annotated[Path, Argument(help="CSV file to write.")],
    patients: Annotated[int, Option(min=1, help="Number of patients.")] = 20_000,
    seed: Annotated[int, Option(min=0, help="Another seed makes other patients.")] = 4,
    european: Annotated[
        bool,
        Option(
            "--european",
            help="Write it as spreadsheets in central Europe do: semicolons, decimal commas, dates "
            "like 31.12.2024, Windows-1252.",
        ),
    ] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a generated table of visits to a hospital, to try the other commands on.

    Nobody is in it. Its effects are known: see discreet.datasets.VISITS_EFFECTS.

    Example: discreet example visits.csv
    """
    screen = Screen(as_json=as_json)
    check_output(output, force, option="the output")
    write_visits(output, patients, seed=seed, european=european)
    text = f"The visits of {patients:,} generated patients: {output}. Nobody is in it."
    screen.result({"table": os.fspath(output), "patients": patients}, text)
