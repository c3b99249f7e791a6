"""``discreet predict`` and ``discreet evaluate``: a model applied to the rows of a table."""

from __future__ import annotations

import csv
import io
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Annotated, Any

import numpy as np
from rich.console import Group
from rich.table import Table
from typer import Option

from discreet.cli import options, session
from discreet.cli.exits import Exit, Problem
from discreet.cli.screen import Screen, table
from discreet.core import Budget, Relation
from discreet.errors import AveragedCellsWarning
from discreet.estimators import averaged
from discreet.files import replacing
from discreet.statement import neighbours

_EXACT = (
    "These figures are exact: they are a release about the rows of this table, with no privacy at "
    "all. Show them only if those rows are public, or pass --epsilon to have them with noise."
)


def predict(
    model: options.ModelFile,
    files: options.DataFiles,
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
    screen = Screen(as_json=as_json)
    options.check_output(output, force, model, *files)
    encoder, estimator = options.load_table_model(model)
    if probabilities and not hasattr(estimator, "predict_proba"):
        kind = type(estimator).__name__
        raise Problem(f"a {kind} has no probabilities; leave out --probabilities.")
    decided = options.at_threshold(estimator, threshold)
    extra = [] if id_column is None else [id_column]
    names = [*extra, "prediction"]
    if probabilities:
        names += [f"probability {label}" for label in estimator.classes_]
    with screen.bar(f"predicting {options.name_of(files)}") as bar:
        schema = options.adapted(encoder.schema, ignore_extra)
        blocks = schema.batches(files, extra=extra, progress=bar)
        encoded = list(encoder.get_feature_names_out())
        rows = _rows(estimator, decided, blocks, probabilities, encoded)
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
    estimator: Any,
    decided: Any,
    blocks: Iterator[Any],
    probabilities: bool,
    names: Sequence[str],
) -> Iterator[tuple[Any, ...]]:
    """Yield the identifier of each row if there is one, its prediction, and probabilities.

    One warning says how many cells of all blocks were averaged; ``names`` are those of columns.
    """
    cells = 0
    for block in blocks:
        columns = [each.to_pylist() for each in block.extra.values()]
        cells += averaged.count(estimator, block.X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AveragedCellsWarning)
            columns.append(decided.predict(block.X).tolist())
            if probabilities:
                columns += estimator.predict_proba(block.X).T.tolist()
        yield from zip(*columns, strict=True)
    if cells:
        said = averaged.text(estimator, cells, names)
        warnings.warn(said, AveragedCellsWarning, stacklevel=2)


def evaluate(
    model: options.ModelFile,
    files: options.DataFiles,
    epsilon: Annotated[
        float | None,
        Option(help="Privacy budget of the evaluation (δ = 0: Laplace noise on counts)."),
    ] = None,
    relation: options.RelationName = Relation.ADD_REMOVE,
    unit: options.Unit = None,
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
    from discreet.tables import read

    screen = Screen(as_json=as_json)
    budget = None if epsilon is None else Budget(epsilon, 0.0, relation)
    encoder, estimator = options.load_table_model(model)
    schema = options.adapted(encoder.schema, ignore_extra, unit)
    options.at_threshold(estimator, threshold)  # refuses what has no probabilities
    if schema.target is None:
        raise Problem(f"{model} does not know which column it predicts.", Exit.MODEL)
    charged = None
    if budget is not None:
        charged = options.find_dataset(ledger, dataset, files, block, purpose)
        charged = options.spending(budget, charged)
    elif ledger or dataset:
        raise Problem(
            "a ledger counts what is spent on these rows, and an exact evaluation cannot be "
            "counted. Pass --epsilon."
        )
    with screen.bar(f"reading {options.name_of(files)}") as bar:
        places: Any = {"memory": memory, "folder": temp_folder}
        X, y, groups = read(files, schema, progress=bar, **places)
    if budget is None:
        screen.warn("Not private", _EXACT)
    size, counted = X.shape[0], "rows"
    if groups is not None:
        size, counted = int(groups.max(initial=-1)) + 1, "people, each counted once"
    scored = _score(estimator, (X, y, groups, size), schema.target, budget, charged, threshold)
    session.current().released = True
    guarantee, measures, details = scored
    how = "EXACT, NOT PRIVATE" if guarantee is None else f"with noise, ε = {guarantee.epsilon:g}"
    title = f"Evaluation on {size:,} {counted} ({how})"
    data: dict[str, Any] = {
        "rows" if groups is None else "people": size,
        **{name.replace(" ", "_"): value for name, value in _numbers(measures).items()},
        **details,
        "private": guarantee is not None,
        "guarantee": guarantee and guarantee.to_dict(),
    }
    screen.result(data, Group(*_tables(title, measures, details)))
    if guarantee is not None:
        screen.note(
            f"This evaluation is {guarantee.epsilon:g}-differentially private (pure, δ = 0) for "
            f"{neighbours(guarantee)}; {guarantee.public[0]} is treated as public. Its ε adds to "
            "that of every other release about the same rows."
        )


def _numbers(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if np.isnan(value) else value for name, value in values.items()}


def _score(
    estimator: Any,
    rows: tuple[Any, Any, Any, int],
    target: Any,
    budget: Budget | None,
    ledger: Any,
    threshold: float | None,
) -> tuple[Any, dict[str, float], dict[str, Any]]:
    """Return the guarantee for the measures of a model, if there is one, those, and details."""
    from discreet.estimators.evaluation import confusion_measures, score_two_classes
    from discreet.estimators.scoring import score_classifier, score_regressor

    X, y, groups, size = rows
    if not target.is_classification:
        bounds = (target.low, target.high)
        errors = score_regressor(estimator, X, y, bounds, budget, ledger, groups)
        measures = {
            "mean absolute error": errors.mean_absolute_error,
            "root mean squared error": errors.root_mean_squared_error,
        }
        return errors.guarantee, measures, {}
    asked = (estimator, X, estimator.classes_[y], budget, ledger, groups)
    if len(estimator.classes_) > 2:
        scores = score_classifier(*asked)
        details = {"labels": list(scores.labels), "counts": scores.counts.tolist()}
        return scores.guarantee, confusion_measures(scores), details
    found = score_two_classes(*asked, size=size, threshold=threshold)
    details = {
        "labels": list(found.confusion.labels),
        "counts": found.confusion.counts.tolist(),
        "calibration": [asdict(each) for each in found.calibration],
        "noise": _numbers(found.deviations),
    }
    return found.guarantee, found.measures(), details


def _tables(title: str, measures: dict[str, float], details: dict[str, Any]) -> Iterator[Table]:
    """Yield tables of the measures, with the noise of each if it is known, and of the details."""
    rows = [[name, f"{value:{'.4f' if details else '.6g'}}"] for name, value in measures.items()]
    noise = details.get("noise")
    for row in rows if noise else ():
        row.append("–" if noise[row[0]] is None else f"{noise[row[0]]:.4f}")
    yield table(title, ("measure", "value", "± noise")[: len(rows[0])], rows)
    if details:
        labels = list(map(str, details["labels"]))
        counts = ([f"{count:,.0f}" for count in row] for row in details["counts"])
        rows = [[label, *row] for label, row in zip(labels, counts, strict=True)]
        yield table("Confusion matrix", ("true \\ predicted", *labels), rows)
    if details.get("calibration"):
        header = ("from", "to", "predicted", "observed", "number")
        rows = [
            [*(f"{g[name]:.3f}" for name in ("low", "high", *header[2:4])), f"{g['count']:,.0f}"]
            for g in details["calibration"]
        ]
        yield table(f"Calibration: probability of {labels[1]}", header, rows)
