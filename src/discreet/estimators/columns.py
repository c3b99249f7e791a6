"""Refusing what is not numbers: say which columns, show none of their values.

scikit-learn's own messages quote the first value that it could not read; a value of a protected
row has no place in an error text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["refuse_text_columns", "refuse_text_target"]

_NUMBERS = "biuf"
_ADVICE = (
    "Encode them (one-hot, with a public list of categories) or leave them out; every argument "
    "must be a number or a string that spells a number."
)


def refuse_text_columns(X: Any) -> None:
    """Raise an error that names the columns of X that are not numbers, if there are any."""
    if sp.issparse(X):
        return
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        text = [
            str(name)
            for name, dtype in zip(X.columns, X.dtypes, strict=True)
            if not _is_number(dtype)
        ]
        if text:
            raise ValueError(f"X has columns that are not numbers: {', '.join(text)}. {_ADVICE}")
        return
    array = np.asarray(X)
    if array.dtype.kind not in "OSU" or array.ndim != 2:
        return
    failures = {j: error for j in range(array.shape[1]) if (error := _unreadable(array[:, j]))}
    if failures:
        kind = TypeError if TypeError in failures.values() else ValueError
        columns = ", ".join(f"column {j}" for j in failures)
        raise kind(f"X has columns that are not numbers: {columns}. {_ADVICE}")


def refuse_text_target(y: Any) -> None:
    """Raise an error if a regression target is not numbers."""
    array = np.asarray(y)
    if array.dtype.kind in "OSU" and _unreadable(array):
        raise ValueError("y must be numbers for a regressor; it has values that are not.")


def _unreadable(values: Any) -> type[Exception] | None:
    """The error that reading the values as floats raises, without its text."""
    try:
        values.astype(np.float64)
    except (TypeError, ValueError) as error:
        return type(error)
    return None


def _is_number(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in _NUMBERS
