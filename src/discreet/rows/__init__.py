"""Tables of rows, and clipped sums over them with proven error bounds.

:func:`as_rows` wraps a table; :class:`Rows` says what can be asked of it, with which contract. A
table (``dense.py``, ``sparse.py``) offers a few block primitives; sums are free functions on a
table, an affine map and targets (``sums.py``, ``moments.py``); every rounding constant and error
bound is in ``bounds.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from discreet.rows.affine import AffineMap
from discreet.rows.bounds import (
    BLOCK_ROWS,
    ROW_NORM_RANGE,
    UNIT_ROUNDOFF,
    certificate_allowance,
    descent_error,
)
from discreet.rows.data import RowData
from discreet.rows.dense import DenseTable
from discreet.rows.descents import GridNoise, Path
from discreet.rows.rows import Checked, Rows, check_targets
from discreet.rows.sparse import SparseTable
from discreet.rows.sums import Sum
from discreet.validate import number

__all__ = [
    "BLOCK_ROWS",
    "UNIT_ROUNDOFF",
    "AffineMap",
    "Checked",
    "DenseTable",
    "GridNoise",
    "Path",
    "Rows",
    "SparseTable",
    "Sum",
    "as_rows",
    "certificate_allowance",
    "check_targets",
    "descent_error",
]


def as_rows(
    X: Any, y: ArrayLike | Checked, *, fit_intercept: bool = True, row_norm: float | None = None
) -> Rows:
    """Wrap a table and its targets, without copying the table.

    Parameters
    ----------
    X : ndarray, memmap, csr_array or csr_matrix of float32 or float64
        The table, one row for each person. It is read in place and never written, and must not
        change while the rows are in use.
    y : array of numbers
        Targets, one for each row: -1 and 1 for classification.
    fit_intercept : bool
        Whether rows have a constant last feature 1 (which is never stored).
    row_norm : float or None
        Public bound on the norm of a row, without the constant; longer rows act as if scaled down
        to it. ``None``: rows are left as they are.

    Raises
    ------
    ValueError
        If X or y has another type or shape, or entries that are NaN or infinite.
    """
    if row_norm is not None:
        low, high = ROW_NORM_RANGE
        remedy = "Pass a public bound on the norm of a row, or None to leave rows as they are."
        row_norm = number("row_norm", row_norm, least=low, most=high, remedy=remedy)
    sparse = sp.issparse(X)
    if sparse and X.format != "csr":
        raise ValueError(f"X must be a CSR matrix, not {X.format}. Convert it with X.tocsr().")
    if not sparse and (not isinstance(X, np.ndarray) or isinstance(X, np.ma.MaskedArray)):
        raise ValueError(
            f"X must be a numpy array or a scipy CSR matrix, not {type(X).__name__}. "
            "Convert it with numpy.asarray(X, dtype=float)."
        )
    if X.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(
            f"X must have dtype float32 or float64 (native byte order), not {X.dtype}. "
            "Convert it with X.astype(numpy.float64)."
        )
    if X.ndim != 2 or X.shape[1] < 1:
        raise ValueError(
            f"X must have two dimensions and at least one column; its shape is {X.shape}."
        )
    targets = check_targets(y, X.shape[0])
    table = SparseTable(X) if sparse else DenseTable(np.asarray(X))
    return Rows(RowData.of(table, targets, fit_intercept=fit_intercept, row_norm=row_norm))
