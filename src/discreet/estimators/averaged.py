"""Cells of new rows that do not move a prediction, as no row of the fit determined their weights.

The fit drops the weights of columns that too few rows carry (`discreet.preparation.support`). A
cell in such a column is scored as the column's mean. In a model with a design, so is a category
that is not among the levels of its column, or whose level has no weight: it is scored as the
average over the levels that the fit saw, by their released shares of the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.design import Group
from discreet.errors import AveragedCellsWarning
from discreet.estimators.effects import column_names, released_means
from discreet.validate import FloatArray

__all__ = ["average_levels", "columns", "count", "text", "warn"]

SHOWN = 5
"""Columns that a message names."""


def columns(model: Any) -> NDArray[np.intp]:
    """Return the columns of X, by number, that a fitted model gives no weight.

    Columns that features are made of are left out. There are none in a constant model, and in one
    with ``inference=True``, whose weights the caller may select.
    """
    weights = np.atleast_2d(model.coef_)
    expansion = model.features_.expansion
    width = model.n_encoded_
    kept = np.arange(width) if expansion is None else expansion.kept(width)
    if model.inference or not weights.any():
        return kept[:0]
    without = ~np.asarray(weights.any(axis=0))[: kept.size]
    return kept[without]


def average_levels(model: Any, X: Any, scores: FloatArray) -> None:
    """Add to scores the average over levels, in rows whose own level has no weight.

    Scores of shape (n_rows, n_models) are changed in place, each by its own row and the model.
    """
    weights = np.atleast_2d(model.coef_)
    for group, features, without in _levels(model, X):
        own = weights[:, features]
        scores[without] += own @ _shares(model, group, features)


def _levels(model: Any, X: Any) -> Iterator[tuple[Group, slice, NDArray[np.bool_]]]:
    """Yield columns with levels, their features, and which rows of X carry no weight there."""
    if model.design_ is None:
        return
    expansion = model.features_.expansion
    for group in model.design_.groups:
        if not group.has_levels:
            continue
        before = 0
        if expansion is not None:  # features of columns that stay come first, in their order
            before = sum(1 for column in expansion.columns if column < group.start)
        features = slice(group.start - before, group.stop - before)
        weights = np.ones((1, group.stop - group.start))  # of all levels, if none was dropped
        if not model.inference:
            weights = np.atleast_2d(model.coef_)[:, features]
        cells: Any = X[:, group.start : group.stop]
        carried = np.asarray(cells @ np.any(weights != 0.0, axis=0).astype(np.float64)) > 0.0
        yield group, features, ~carried


def _shares(model: Any, group: Group, features: slice) -> FloatArray:
    """Return the share of each level among the rows of the fit, as far as it was released."""
    means = released_means(model)
    count = group.stop - group.start
    if means is None:
        return np.full(count, 1.0 / count)
    found = np.clip(means[features], 0.0, 1.0)
    total = float(found.sum())
    return found / total if total > 0.0 else np.full(count, 1.0 / count)


def counts(model: Any, X: Any) -> dict[str, int]:
    """Return how many cells of each column of the design were averaged."""
    found: dict[str, int] = {}
    for group, _, without in _levels(model, X):
        found[group.name] = int(np.count_nonzero(without))
    constant = not np.atleast_2d(model.coef_).any()
    return {} if constant else {name: cells for name, cells in found.items() if cells}


def count(model: Any, X: Any) -> int:
    """Return the number of cells of X, other than 0, that do not move a prediction."""
    cells: Any = X[:, columns(model)]
    sparse: bool = sp.issparse(cells)
    return int(cells.count_nonzero() if sparse else np.count_nonzero(cells))


def text(model: Any, number: int, names: Sequence[str] | None = None) -> str:
    """Return the sentence that says how many cells were averaged, and of which columns.

    ``names`` are those of the columns of X, if the model was fitted without.
    """
    found = columns(model)
    names = column_names(model, names)
    named = [names[j] for j in found[:SHOWN]]
    more = f" and {found.size - SHOWN:,} more" if found.size > SHOWN else ""
    cells = "1 cell does" if number == 1 else f"{number:,} cells do"
    return (
        f"{cells} not move these predictions; their columns are scored as their means. At its "
        f"budget the fit could not tell the weights of these columns from noise: "
        f"{', '.join(named)}{more}."
    )


def text_by_column(found: Mapping[str, int]) -> str:
    """Return the sentence that says how many cells of each column were averaged."""
    listed = [f"{name} ({cells:,})" for name, cells in list(found.items())[:SHOWN]]
    more = f" and {len(found) - SHOWN:,} more columns" if len(found) > SHOWN else ""
    total = sum(found.values())
    cells = "1 cell is" if total == 1 else f"{total:,} cells are"
    return (
        f"{cells} scored as the average of the column, as the fit saw no such level or could not "
        f"tell its weight from noise: {', '.join(listed)}{more}."
    )


def warn(model: Any, X: Any) -> None:
    """Warn if cells of new rows were averaged. Never for rows whose answers are paid for."""
    if model.design_ is not None:
        found = counts(model, X)
        if found:
            warnings.warn(text_by_column(found), AveragedCellsWarning, stacklevel=5)
        return
    number = count(model, X)
    if number:
        warnings.warn(text(model, number), AveragedCellsWarning, stacklevel=5)
