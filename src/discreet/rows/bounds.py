"""Bounds on the rounding error of sums over rows. Proof: docs/proofs/summation.md.

Every bound here is a function of public numbers. It holds for the table at hand and for every
neighbouring one, so it is taken at one row more than the table has.
"""

from __future__ import annotations

import math

__all__ = ["gamma", "gradient_error", "line_error", "norm_inflation", "sum_depth"]

UNIT_ROUNDOFF = 2.0**-53

SLACK = 1.01
"""Covers underflow (clip is at least 1e-100) and the rounding of the bound itself."""


def gamma(roundings: int) -> float:
    """Return γ_k = ku/(1 − ku), the relative error that k roundings can add up to."""
    share = roundings * UNIT_ROUNDOFF
    return share / (1.0 - share)


def norm_inflation(n_features: int) -> float:
    """Return the factor that lifts a computed norm of n_features numbers above the true norm."""
    return 1.0 + (n_features + 8) * 2.0**-52


def sum_depth(n_rows: int, block_rows: int) -> int:
    """Bound the number of roundings between a row's number and a sum made of block sums."""
    return min(block_rows, n_rows) + math.ceil(n_rows / block_rows) + 8


def gradient_error(n_rows: int, block_rows: int, clip: float) -> float:
    """Bound the L2 error of a sum of gradients clipped to norm clip.

    Parameters
    ----------
    n_rows : int
        Public number of rows; the bound holds for one more as well.
    block_rows : int
        Rows whose gradients are summed before the sum is added to the total.
    clip : float
        Bound on the norm of a row's gradient.
    """
    rows = n_rows + 1
    return SLACK * gamma(sum_depth(rows, block_rows)) * rows * clip


def line_error(n_rows: int, block_rows: int, clip: float, *, products: bool) -> float:
    """Bound the error of a sum of losses clipped to [0, clip].

    Parameters
    ----------
    n_rows, block_rows, clip
        As in :func:`gradient_error`.
    products : bool
        Whether factors of rows are multiplied before a logarithm is taken: one more rounding, of
        size u whatever the clip is, for every row.
    """
    rows = n_rows + 1
    error = gamma(sum_depth(rows, block_rows)) * rows * clip
    if products:
        error += 2.0 * UNIT_ROUNDOFF * rows
    return SLACK * error
