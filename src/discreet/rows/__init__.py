"""Where data lives, and how clipped sums over it are computed.

:func:`as_rows` wraps a table; :class:`Rows` says what can be asked of it, with which contract.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from discreet.rows.affine import AffineMap, TransformedRows
from discreet.rows.base import Rows, Sum
from discreet.rows.bounds import BLOCK_ROWS, UNIT_ROUNDOFF, certificate_allowance
from discreet.rows.dense import DenseRows
from discreet.rows.sparse import SparseRows

__all__ = [
    "BLOCK_ROWS",
    "UNIT_ROUNDOFF",
    "AffineMap",
    "DenseRows",
    "Rows",
    "SparseRows",
    "Sum",
    "TransformedRows",
    "as_rows",
    "certificate_allowance",
]


def as_rows(
    X: Any, y: ArrayLike, *, fit_intercept: bool = True, row_norm: float | None = None
) -> DenseRows | SparseRows:
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

    Returns
    -------
    DenseRows or SparseRows

    Raises
    ------
    ValueError
        If X or y has another type or shape, or entries that are NaN or infinite.
    """
    if row_norm is not None and not (math.isfinite(row_norm) and 1e-100 <= row_norm <= 1e100):
        raise ValueError(
            f"row_norm must be between 1e-100 and 1e100, not {row_norm!r}. "
            "Pass a public bound on the norm of a row, or None to leave rows as they are."
        )
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
    if sparse:
        return SparseRows(X, y, fit_intercept=fit_intercept, row_norm=row_norm)
    return DenseRows(np.asarray(X), y, fit_intercept=fit_intercept, row_norm=row_norm)
