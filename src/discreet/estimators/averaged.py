"""Cells of new rows that do not move a prediction, as no row of the fit determined their weights.

The fit drops the weights of columns that too few rows carry (`discreet.preparation.support`). A
cell in such a column, like a category that the fit never saw, is scored as the column's mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.errors import AveragedCellsWarning

__all__ = ["columns", "count", "text", "warn"]

SHOWN = 5
"""Columns that a message names."""


def columns(model: Any) -> NDArray[np.intp]:
    """Return the columns of X, by number, that a fitted model gives no weight.

    Columns that features are made of are left out. There are none in a constant model, and in one
    with ``inference=True``, whose weights the caller may select.
    """
    weights = np.atleast_2d(model.coef_)
    expansion = model.features_.expansion
    width = model.n_features_in_
    kept = np.arange(width) if expansion is None else expansion.kept(width)
    if model.inference or not weights.any():
        return kept[:0]
    without = ~np.asarray(weights.any(axis=0))[: kept.size]
    return kept[without]


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
    names = getattr(model, "feature_names_in_", None) if names is None else names
    named = [str(j if names is None else names[j]) for j in found[:SHOWN]]
    more = f" and {found.size - SHOWN:,} more" if found.size > SHOWN else ""
    cells = "1 cell does" if number == 1 else f"{number:,} cells do"
    return (
        f"{cells} not move these predictions; their columns are scored as their means. At its "
        f"budget the fit could not tell the weights of these columns from noise: "
        f"{', '.join(named)}{more}."
    )


def warn(model: Any, X: Any) -> None:
    """Warn if cells of new rows were averaged. Never for rows whose answers are paid for."""
    number = count(model, X)
    if number:
        warnings.warn(text(model, number), AveragedCellsWarning, stacklevel=5)
