"""``discreet predict`` and ``discreet evaluate``: a model applied to the rows of a table."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from discreet.cli import options
from discreet.cli.exits import Exit, Problem
from discreet.cli.screen import Screen
from discreet.core import Budget, Relation
from discreet.statement import neighbours

__all__ = ["evaluate", "predict"]

_EXACT = (
    "These figures are exact: they are a release about the rows of this table, with no privacy at "
    "all. Show them only if those rows are public, or pass --epsilon to have them with noise."
)


def predict(
    model: options.ModelFile,
    files: options.DataFiles,
    output: options.OutputFile = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column of probabilities per class.")
    ] = False,
    threshold: options.Threshold = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column of the table to write beside each prediction."),
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Predict the target of every row of a table; the table needs no target column.

    Rows are read, predicted and written block by block, so a table may be larger than memory.

    A prediction reveals something about its row: protect it like the row.

    Example: discreet predict visits.json new.csv --output predicted.csv
    """
    from discreet.files import replacing

    screen = Screen(as_json=as_json)
    options.check_output(output, force, model, *files)
    encoder, estimator = options.load_table_model(model)
    if probabilities and not hasattr(estimator, "predict_proba"):
        kind = type(estimator).__name__
        raise Problem(Exit.USAGE, f"a {kind} has no probabilities; leave out --probabilities.")
    decided = options.at_threshold(estimator, threshold)
    extra = [] if id_column is None else [id_column]
    names = [*extra, "prediction"]
    if probabilities:
        names += [f"probability {label}" for label in estimator.classes_]
    with screen.bar(f"predicting {options.name_of(files)}") as bar:
        blocks = encoder.schema.batches(files, extra=extra, progress=bar)
        rows = _rows(estimator, decided, blocks, probabilities)
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
    estimator: Any, decided: Any, blocks: Iterator[Any], probabilities: bool
) -> Iterator[tuple[Any, ...]]:
    """Yield the identifier of each row if there is one, its prediction, and probabilities."""
    for block in blocks:
        columns = [each.to_pylist() for each in block.extra.values()]
        columns.append(decided.predict(block.X).tolist())
        if probabilities:
            columns += estimator.predict_proba(block.X).T.tolist()
        yield from zip(*columns, strict=True)


def evaluate(
    model: options.ModelFile,
    files: options.DataFiles,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy budget of the evaluation (δ = 0: Laplace noise on counts)."),
    ] = None,
    relation: options.RelationName = Relation.ADD_REMOVE,
    unit: options.Unit = None,
    threshold: options.Threshold = None,
    memory: options.Memory = None,
    temp_folder: options.Folder = None,
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    block: options.Blocks = None,
    purpose: options.Purpose = "",
    as_json: options.AsJson = False,
) -> None:
    """Measure accuracy, recall and precision (or errors) on a table that has the target.

    An exact accuracy on private rows is itself a release. With --epsilon the counts behind it are
    released with noise, and the guarantee for them is printed; it adds to that of any other release
    about the same rows.

    Example: discreet evaluate visits.json held-out.csv --epsilon 0.1
    """
    from discreet.tables.reading import open_table

    screen = Screen(as_json=as_json)
    budget = None if epsilon is None else Budget(epsilon, 0.0, relation)
    encoder, estimator = options.load_table_model(model)
    schema = options.with_unit(encoder.schema, unit)
    estimator = options.at_threshold(estimator, threshold)
    if schema.target is None:
        raise Problem(Exit.MODEL, f"{model} does not know which column it predicts.")
    charged = None
    if budget is not None:
        charged = options.find_dataset(ledger, dataset, files, block, purpose)
    elif ledger or dataset:
        raise Problem(
            Exit.USAGE,
            "a ledger counts what is spent on these rows, and an exact evaluation cannot be "
            "counted. Pass --epsilon.",
        )
    with screen.bar(f"reading {options.name_of(files)}") as bar:
        X, y, groups = open_table(
            files, schema, memory=memory, folder=temp_folder, as_labels=False, progress=bar
        )
    if budget is None:
        screen.warn("Not private", _EXACT)
    scores, measures = _score(estimator, (X, y, groups), schema.target, budget, charged)
    guarantee, of_classes = scores.guarantee, schema.target.is_classification
    how = "EXACT, NOT PRIVATE" if guarantee is None else f"with noise, ε = {guarantee.epsilon:g}"
    size, counted = X.shape[0], "rows"
    if groups is not None:
        size, counted = int(groups.max(initial=-1)) + 1, "people, each counted once"
    table = Table(title=f"Evaluation on {size:,} {counted} ({how})", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    for name, value in measures.items():
        table.add_row(name, f"{value:.4f}" if of_classes else f"{value:.6g}")
    data: dict[str, Any] = {
        "rows" if groups is None else "people": size,
        **{name.replace(" ", "_"): None if np.isnan(v) else v for name, v in measures.items()},
        "private": guarantee is not None,
        "guarantee": guarantee and guarantee.to_dict(),
    }
    if of_classes:
        data |= {"labels": list(scores.labels), "counts": scores.counts.tolist()}
    screen.result(data, table)
    if guarantee is not None:
        screen.note(
            f"This evaluation is {guarantee.epsilon:g}-differentially private (pure, δ = 0) for "
            f"{neighbours(guarantee)}; {guarantee.public[0]} is treated as public. Its ε adds to "
            "that of every other release about the same rows."
        )


def _score(
    estimator: Any, rows: tuple[Any, Any, Any], target: Any, budget: Budget | None, ledger: Any
) -> tuple[Any, dict[str, float]]:
    """Score a model on encoded rows; with a budget, through noisy counts or sums."""
    from discreet.estimators.scoring import score_classifier, score_regressor

    X, y, groups = rows
    if not target.is_classification:
        bounds = (target.low, target.high)
        scores = score_regressor(estimator, X, y, bounds, budget, ledger, groups)
        return scores, {
            "mean absolute error": scores.mean_absolute_error,
            "root mean squared error": scores.root_mean_squared_error,
        }
    scores = score_classifier(estimator, X, estimator.classes_[y], budget, ledger, groups)
    measures = {"accuracy": scores.accuracy, "balanced accuracy": scores.balanced_accuracy}
    hits = np.diag(scores.counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        recalls, precisions = hits / scores.counts.sum(1), hits / scores.counts.sum(0)
    for label, recall, precision in zip(scores.labels, recalls, precisions, strict=True):
        measures |= {f"recall of {label}": float(recall)}
        measures |= {f"precision of {label}": float(precision)}
    return scores, measures
