"""``discreet predict`` and ``discreet evaluate``: a model applied to the rows of a table."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Group
from rich.table import Table
from typer import Option

from discreet.cli import options, state
from discreet.cli.screen import Screen, name_of, table
from discreet.core import Budget, Relation
from discreet.files import replacing

if TYPE_CHECKING:
    from discreet.evaluation import Evaluation
    from discreet.table_model import PredictedBlock


def predict(
    model: options.ModelFile,
    files: options.DataFiles,
    sql: options.Sql = None,
    output: options.OutputFile = None,
    probabilities: Annotated[
        bool, Option("--probabilities", help="Add a column of probabilities per class.")
    ] = False,
    threshold: options.Threshold = None,
    id_column: Annotated[
        str | None, Option("--id", help="Column of the table to write beside each prediction.")
    ] = None,
    ignore_extra: options.IgnoreExtra = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Predict the target of every row of a table; the table needs no target column.

    Rows are read, predicted and written block by block, so a table may be larger than memory.

    A prediction reveals something about its row: protect it like the row.

    Example: discreet predict visits.json new.csv --output predicted.csv
    """
    from discreet import TableModel

    screen = Screen(as_json=as_json)
    state.check_output(output, force, model, *files)
    fitted = TableModel.load(model, threshold=threshold, ignore_extra=ignore_extra)
    extra = [] if id_column is None else [id_column]
    with screen.bar(f"predicting {name_of(files)}") as bar:
        source = options.table_of(files, sql)
        blocks = fitted.predictions(source, extra=extra, probabilities=probabilities, progress=bar)
        names = [*extra, "prediction"]
        if probabilities:
            names += [f"probability {label}" for label in fitted.estimator.classes_]
        rows = _rows(blocks)
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


def _rows(blocks: Iterable[PredictedBlock]) -> Iterator[tuple[Any, ...]]:
    """Yield the identifier of each row if there is one, its prediction, and probabilities."""
    for block in blocks:
        columns = [each.to_pylist() for each in block.extra.values()]
        columns.append(block.predictions.tolist())
        if block.probabilities is not None:
            columns += block.probabilities.T.tolist()
        yield from zip(*columns, strict=True)


def evaluate(
    model: options.ModelFile,
    files: options.DataFiles,
    sql: options.Sql = None,
    epsilon: Annotated[
        float | None,
        Option(help="Privacy budget of the evaluation (δ = 0: Laplace noise on counts)."),
    ] = None,
    relation: options.RelationName = Relation.ADD_REMOVE,
    unit: options.Unit = None,
    by: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Measure each level of this column as well; its levels are those that the model "
            "knows, or COLUMN=LEVEL,LEVEL,… lists them.",
        ),
    ] = None,
    threshold: options.Threshold = None,
    ignore_extra: options.IgnoreExtra = False,
    memory: options.Memory = None,
    temp_folder: options.Folder = None,
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    block: options.Blocks = None,
    purpose: options.Purpose = "",
    as_json: options.AsJson = False,
) -> None:
    """Measure a model on a table that has the target: AUC, recall, calibration, errors.

    Exact figures about private rows are themselves a release. With --epsilon the counts behind them
    are released with noise, and the guarantee for them is printed; it adds to that of any other
    release about the same rows. For two classes one noisy histogram of scores gives all measures,
    each with the standard deviation that the noise causes.

    Example: discreet evaluate visits.json held-out.csv --epsilon 0.1 --threshold 0.2
    """
    from discreet import TableModel

    screen = Screen(as_json=as_json)
    fitted = TableModel.load(model, threshold=threshold, ignore_extra=ignore_extra)
    charged = None
    if epsilon is not None:
        budget = Budget(epsilon, 0.0, relation)
        charged = state.find_dataset(ledger, dataset, files, block, purpose, budget)
    elif ledger or dataset:
        charged = state.find_dataset(ledger, dataset, files)
    with screen.bar(f"reading {name_of(files)}") as bar:
        found = fitted.evaluate(
            options.table_of(files, sql),
            epsilon=epsilon,
            relation=relation,
            unit=unit,
            by=_subgroups(by),
            ledger=charged,
            memory=memory,
            folder=temp_folder,
            progress=bar,
        )
    state.current.released = True
    screen.result(found.to_dict(), Group(*_tables(found)))
    if found.guarantee is not None:
        screen.note(found.promise)


def _subgroups(by: str | None) -> Any:
    """Return the column of subgroups, with its levels if they are listed."""
    if by is None or "=" not in by:
        return by
    [(column, levels)] = options.pairs("--by", [by], "COLUMN or COLUMN=LEVEL,…").items()
    return column, [level.strip() for level in levels.split(",")]


def _tables(found: Evaluation) -> Iterator[Table]:
    """Yield tables of the measures, with the noise of each if there is any, and of the details."""
    for caption, (header, *rows) in found.tables():
        yield table(caption, header, rows)
