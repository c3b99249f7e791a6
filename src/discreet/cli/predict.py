"""``discreet predict``: predictions for the rows of a table."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli import options
from discreet.cli.exits import Exit, Problem
from discreet.cli.screen import Screen

__all__ = ["predict"]


def predict(
    model: options.ModelFile,
    file: options.DataFile,
    output: options.OutputFile = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column of probabilities per class.")
    ] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Predict the target of every row of a table; the table needs no target column.

    A prediction reveals something about its row: protect it like the row.

    Example: discreet predict visits.json new.csv --output predicted.csv
    """
    from discreet.files import replacing

    screen = Screen(as_json=as_json)
    options.check_output(output, force, model, file)
    encoder, estimator = options.load_table_model(model)
    if probabilities and not hasattr(estimator, "predict_proba"):
        kind = type(estimator).__name__
        raise Problem(Exit.USAGE, f"a {kind} has no probabilities; leave out --probabilities.")
    names = ["prediction"]
    if probabilities:
        names += [f"probability {label}" for label in estimator.classes_]
    with screen.bar(f"predicting {file.name}") as bar:
        rows = _rows(encoder, estimator, file, probabilities, bar)
        if as_json and output is None:
            screen.result([dict(zip(names, row, strict=True)) for row in rows], "")
        elif output is None:
            # All of it is computed first: a bad row in the middle must not leave half a result.
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(chain([names], rows))
            sys.stdout.write(text.getvalue())
        else:
            with replacing(output) as stream:
                csv.writer(stream, lineterminator="\n").writerows(chain([names], rows))
            screen.result({"predictions": str(output)}, f"Predictions: {output}")


def _rows(
    encoder: Any, estimator: Any, file: Path, probabilities: bool, progress: Any
) -> Iterator[tuple[Any, ...]]:
    """Yield the prediction for each row, and the probabilities of the classes."""
    from discreet.tables import batches
    from discreet.tables.reading import naming

    for batch in batches(file, encoder.schema, target=False, progress=progress):
        with naming(file):
            X = encoder.transform(batch)
        columns = [estimator.predict(X).tolist()]
        if probabilities:
            columns += estimator.predict_proba(X).T.tolist()
        yield from zip(*columns, strict=True)
