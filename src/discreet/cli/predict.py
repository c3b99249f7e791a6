"""``discreet predict``: predictions for the rows of a table."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import typer

from discreet.cli.exits import Exit, Problem
from discreet.cli.options import AsJson, DataFile, Force, ModelFile, OutputFile, check_output
from discreet.cli.screen import Screen
from discreet.errors import TableError

__all__ = ["load_table_model", "predict", "scored_batches"]


def predict(
    model: ModelFile,
    file: DataFile,
    output: OutputFile = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column of probabilities per class.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Predict the target of every row of a table; the table needs no target column.

    A prediction reveals something about its row: protect it like the row.

    Example: discreet predict visits.json new.csv --output predicted.csv
    """
    from discreet.files import replacing

    screen = Screen(as_json=as_json)
    check_output(output, force, model, file)
    pipeline = load_table_model(model)
    if probabilities and not hasattr(pipeline[-1], "predict_proba"):
        kind = type(pipeline[-1]).__name__
        raise Problem(Exit.USAGE, f"a {kind} has no probabilities; leave out --probabilities.")
    with screen.bar(f"predicting {file.name}") as bar:
        blocks = scored_batches(pipeline, file, probabilities, bar)
        if as_json and output is None:
            rows = [record for block in blocks for record in _records(block)]
            screen.result(rows, "")
        elif output is None:
            # All of it is computed first: a bad row in the middle must not leave half a result.
            _write(sys.stdout, list(blocks))
        else:
            with replacing(output) as stream:
                _write(stream, blocks)
            screen.result({"predictions": str(output)}, f"Predictions: {output}")


def load_table_model(path: Path) -> Any:
    """Load a pipeline from a model file; a model without a schema cannot read tables."""
    from sklearn.pipeline import Pipeline

    from discreet import load

    loaded = load(path)
    if not isinstance(loaded, Pipeline):
        raise Problem(
            Exit.MODEL,
            f"{path} holds a model without a schema, so it cannot read files. Load it in Python "
            "with discreet.load and give it the encoded rows.",
        )
    return loaded


def scored_batches(
    pipeline: Any, file: Path, probabilities: bool, progress: Any
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the predictions for one block of rows after the other."""
    from discreet.tables import batches

    schema = pipeline[0].schema
    for batch in batches(file, schema, target=False, progress=progress):
        try:
            X = pipeline[0].transform(batch)
        except TableError as error:
            raise TableError(f"{file}: {error}") from None
        columns = {"prediction": pipeline[-1].predict(X)}
        if probabilities:
            shares = pipeline[-1].predict_proba(X)
            columns |= {
                f"probability {label}": shares[:, k]
                for k, label in enumerate(pipeline[-1].classes_)
            }
        yield columns


def _write(stream: TextIO, blocks: Any) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    for number, block in enumerate(blocks):
        if number == 0:
            writer.writerow(block)
        writer.writerows(zip(*(column.tolist() for column in block.values()), strict=True))


def _records(block: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    columns = (column.tolist() for column in block.values())
    return [dict(zip(block, row, strict=True)) for row in zip(*columns, strict=True)]
