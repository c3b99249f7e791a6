"""``discreet evaluate``: how good a model is on a table, exactly or within a budget."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from discreet.cli.exits import Exit, Problem
from discreet.cli.options import AsJson, DataFile, ModelFile, RelationName
from discreet.cli.predict import load_table_model
from discreet.cli.screen import Screen
from discreet.core import Budget, Relation

__all__ = ["evaluate"]

_EXACT = (
    "These figures are exact: they are a release about the rows of this table, with no privacy at "
    "all. Show them only if those rows are public, or pass --epsilon to have them with noise."
)


def evaluate(
    model: ModelFile,
    file: DataFile,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Spend this budget on the evaluation (pure; Laplace noise on counts)."),
    ] = None,
    relation: RelationName = Relation.ADD_REMOVE,
    as_json: AsJson = False,
) -> None:
    """Say how good a model is on a table that has its target.

    An exact accuracy on private rows is itself a release. With --epsilon the counts behind it are
    released with noise, and the promise for them is printed; it adds to that of any other release
    about the same rows.

    Example: discreet evaluate visits.json held-out.csv --epsilon 0.1
    """
    from discreet.estimators.scoring import score_classes, score_numbers
    from discreet.tables import read

    screen = Screen(as_json=as_json)
    budget = None if epsilon is None else Budget(epsilon, 0.0, relation)
    pipeline = load_table_model(model)
    transformer, estimator = pipeline[0], pipeline[-1]
    target = transformer.schema.target
    if target is None:
        raise Problem(Exit.MODEL, f"{model} does not know which column it predicts.")
    with screen.bar(f"reading {file.name}") as bar:
        X, y = read(file, transformer.schema, progress=bar)
    if budget is None:
        screen.warn("Not private", _EXACT)
    if target.is_classification:
        labels = tuple(estimator.classes_.tolist())
        codes = np.searchsorted(estimator.classes_, estimator.predict(X))
        scores: Any = score_classes(y, codes, labels, budget)
        data, shown = _classes(scores, X.shape[0])
    else:
        scores = score_numbers(y, estimator.predict(X), (target.low, target.high), budget)
        data, shown = _numbers(scores, X.shape[0])
    promise = scores.guarantee
    data |= {"private": promise is not None, "guarantee": promise and promise.to_dict()}
    screen.result(data, shown)
    if promise is not None:
        screen.note(
            f"This evaluation is {promise.epsilon:g}-differentially private (pure) for "
            f"{promise.relation.text}; the number of rows is treated as public. It adds to every "
            "other release about the same rows."
        )


def _classes(scores: Any, n_rows: int) -> tuple[dict[str, Any], Table]:
    table = _table(f"Accuracy on {n_rows:,} rows", scores.guarantee)
    table.add_row("accuracy", f"{scores.accuracy:.4f}")
    table.add_row("balanced accuracy", f"{scores.balanced_accuracy:.4f}")
    for label, recall in zip(scores.labels, scores.recalls, strict=True):
        table.add_row(f"found of {label!r}", f"{recall:.4f}")
    data = {
        "rows": n_rows,
        "accuracy": _plain(scores.accuracy),
        "balanced_accuracy": _plain(scores.balanced_accuracy),
        "labels": list(scores.labels),
        "counts": scores.counts.tolist(),
    }
    return data, table


def _numbers(scores: Any, n_rows: int) -> tuple[dict[str, Any], Table]:
    table = _table(f"Errors on {n_rows:,} rows", scores.guarantee)
    table.add_row("mean absolute error", f"{scores.mean_absolute_error:.6g}")
    table.add_row("root mean squared error", f"{scores.root_mean_squared_error:.6g}")
    data = {
        "rows": n_rows,
        "mean_absolute_error": scores.mean_absolute_error,
        "root_mean_squared_error": scores.root_mean_squared_error,
    }
    return data, table


def _table(title: str, guarantee: Any) -> Table:
    how = "EXACT, NOT PRIVATE" if guarantee is None else f"with noise, ε = {guarantee.epsilon:g}"
    table = Table(title=f"{title} ({how})", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    return table


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else value
