"""Cells of new rows that do not move a prediction, as no row of the fit determined their weights.

The fit drops the weights of columns that too few rows carry (`discreet.preparation.support`). A
cell in such a column is scored as the column's mean. In a model with a design, so is a missing
number. A category that is not among the levels of its column, or whose level has no weight, is
scored as the average over the levels that the fit saw, by their released shares of the rows.
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
from discreet.estimators.effects import noisy_means, released_means
from discreet.estimators.layout import column_names
from discreet.validate import FloatArray

__all__ = ["average_levels", "columns", "count", "text", "warn"]

SHOWN = 5
"""Columns that a message names."""


def columns(model: Any) -> NDArray[np.intp]:
    """Return the columns of X, by number, that a fitted model gives no weight.

    Columns that features are made of are left out. There are none in a constant model, and in one
    whose weights are those of a table of coefficients: the caller may select them.
    """
    weights = np.atleast_2d(model.coef_)
    expansion = model.features_.expansion
    width = model.n_encoded_
    kept = np.arange(width) if expansion is None else expansion.kept(width)
    if _tabulated(model) or not weights.any():
        return kept[:0]
    without = ~np.asarray(weights.any(axis=0))[: kept.size]
    return kept[without]


def _tabulated(model: Any) -> bool:
    """Return whether predictions have the very weights that the table of coefficients shows."""
    covariances: tuple[Any, ...] = getattr(model, "covariances_", ())
    return bool(covariances) and covariances[0].weights is None


def average_levels(model: Any, X: Any, scores: FloatArray) -> None:
    """Add to scores the average over levels, in rows whose own level has no weight.

    Scores of shape (n_rows, n_models) are changed in place, each by its own row and the model.
    """
    weights = np.atleast_2d(model.coef_)
    for group, features, without in _levels(model, X):
        own = weights[:, features]
        cells: Any = X[:, group.start : group.stop][np.flatnonzero(without)]
        scores[without] += own @ shares(model, group) - cells @ own.T


def average_cells(model: Any, X: Any, rows: FloatArray) -> None:
    """Write the average over levels to the features of rows whose own level has no weight."""
    for group, features, without in _levels(model, X):
        rows[without, features] = shares(model, group)


def _levels(model: Any, X: Any) -> Iterator[tuple[Group, slice, NDArray[np.bool_]]]:
    """Yield columns with levels, their features, and which rows of X carry no weight there."""
    if model.design_ is None:
        return
    for group in model.design_.groups:
        if not group.has_levels:
            continue
        features = features_of(model, group)
        cells: Any = X[:, group.start : group.stop]
        if group.contrasts:
            first = np.asarray(X[:, [group.start]].sum(axis=1)).ravel()
            dropped = np.asarray(cells @ (~has_weight(model, group)).astype(np.float64))
            yield group, features, ((first > 0.0) & (first < 1.0)) | (dropped >= 1.0)
            continue
        carried = np.asarray(cells @ has_weight(model, group).astype(np.float64)) > 0.0
        yield group, features, ~carried


def features_of(model: Any, group: Group) -> slice:
    """Return the features of a column with levels; those that stay come first, in their order."""
    expansion = model.features_.expansion
    before = 0
    if expansion is not None:
        before = sum(1 for column in expansion.columns if column < group.start)
    return slice(group.start - before, group.stop - before)


def has_weight(model: Any, group: Group) -> NDArray[np.bool_]:
    """Return which levels of a column have a weight; all have that a caller may have selected."""
    if _tabulated(model):
        return np.ones(group.stop - group.start, dtype=bool)
    weights = np.atleast_2d(model.coef_)[:, features_of(model, group)]
    return np.asarray((weights != 0.0).any(axis=0))


def shares(model: Any, group: Group) -> FloatArray:
    """Return the share of each level among the rows of the fit, as far as it was released.

    A reference level that is left out of the features has the share that remains.
    """
    means = released_means(model)
    count = group.stop - group.start
    even = np.full(count, 1.0 / (count + int(group.contrasts)))
    if means is None:
        return even
    found = np.clip(means[features_of(model, group)], 0.0, 1.0)
    total = float(found.sum())
    total = max(total, 1.0) if group.contrasts else total
    return found / total if total > 0.0 else even


def gaps(model: Any, X: Any) -> dict[str, NDArray[np.bool_]]:
    """Return which cells are missing, by column without levels; those with any alone."""
    found: dict[str, NDArray[np.bool_]] = {}
    if model.design_ is None:
        return found
    with_gaps = model.design_.with_gaps
    for group in model.design_.groups:
        if group.start in with_gaps:
            cells: Any = X[:, [group.start]]
            sparse: bool = sp.issparse(cells)
            absent = np.isnan((cells.toarray() if sparse else cells)[:, 0])
            if absent.any():
                found[group.name] = absent
    return found


def with_averages(model: Any, X: Any) -> Any:
    """Return encoded rows in which missing numbers have the mean of their column.

    It is the released mean, or else the middle of the column's window or of its bounds.
    """
    absent = gaps(model, X)
    if not absent:
        return X
    sparse: bool = sp.issparse(X)
    filled = X.toarray() if sparse else X.copy()
    for group in model.design_.groups:
        if group.name in absent:
            filled[absent[group.name], group.start] = _average(model, group)
    return sp.csr_array(filled) if sparse else filled


def _average(model: Any, group: Group) -> float:
    """Return the encoded number that a missing cell of a column is scored as."""
    features = model.features_
    curved = features.expansion is not None and group.start in features.expansion.columns
    known = None if curved else noisy_means(model)
    mean = None if known is None else float(known[0][features_of(model, group).start])
    bounds = features.bounds
    if bounds is not None and group.start in bounds.columns:
        at = bounds.columns.index(group.start)
        within = sum(bounds.ends) / 2 if mean is None else mean
        return float(bounds.origin[at] + bounds.unit[at] * within)
    if mean is not None:
        return mean
    return 0.5 if getattr(group.column, "is_bounded", True) else 0.0


def counts(model: Any, X: Any) -> dict[str, int]:
    """Return how many cells of each column of the design were averaged."""
    found = {name: int(np.count_nonzero(absent)) for name, absent in gaps(model, X).items()}
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
