"""Bounds on the rounding error of sums over rows. Proof: docs/proofs/summation.md.

Every bound here is a function of public numbers. It holds for the table at hand and for every
neighbouring one, so it is taken at one row more than the table has.
"""

from __future__ import annotations

import math

from discreet.errors import NotSupported
from discreet.objectives import Huber, HuberHinge, Logistic, Loss

__all__ = [
    "BLOCK_ROWS",
    "certificate_allowance",
    "gamma",
    "gradient_error",
    "line_error",
    "norm_inflation",
    "sum_depth",
]

BLOCK_ROWS = 4096
"""Rows whose numbers are summed before the sum is added to the total; sparse tables have blocks of
at least as many rows as columns."""

SLOPE_ROUNDINGS = 32
"""A computed slope is off by at most this many u times its bound, at the computed margin."""

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


def certificate_allowance(
    loss: Loss,
    *,
    clip: float,
    weights: float,
    terms: float,
    n_rows: int,
    n_features: int,
    block_rows: int,
) -> float:
    """Bound the rounding of a certified gradient (docs/proofs/objective_perturbation.md).

    Parameters
    ----------
    loss : Loss
        A loss of bounded slope and curvature.
    clip : float
        Bound on the norm of every row's gradient.
    weights, terms : float
        Norm of the weights, and the sum of the norms of the three terms of the gradient.
    n_rows, n_features, block_rows : int
        Public size of the table, and rows whose gradients are summed before the sum is added to
        the total.
    """
    if loss.curvature_bound is None:
        raise NotSupported(f"gradients are certified for smooth losses; {loss.name!r} is not.")
    longest, curvature = clip / loss.slope_bound, loss.curvature_bound
    relative = _relative_curvature(loss)
    largest = longest * weights
    if relative is None:
        relative = curvature * largest
    margin = UNIT_ROUNDOFF * relative + 4 * gamma(n_features + 16) ** 2 * curvature * largest
    roundings = SLOPE_ROUNDINGS + 2 * loss.n_outputs
    slope = 1.01 * margin + roundings * UNIT_ROUNDOFF * loss.slope_bound
    rows = n_rows * longest * slope
    total = gradient_error(n_rows, block_rows, clip)
    return total + 1.01 * (rows + 6 * UNIT_ROUNDOFF * terms)


def _relative_curvature(loss: Loss) -> float | None:
    """Bound |m|·φ''(m) for the library's losses of one margin; |r|·φ'' for Huber's residual r.

    Logistic: |m|/(4cosh²(m/2)) ≤ sinh(|m|/2)/(2cosh²(m/2)) ≤ 1/4.
    """
    if type(loss) is Logistic:
        return 0.25
    if type(loss) is HuberHinge:
        return (1.0 + loss.smoothing) / (2.0 * loss.smoothing)
    return loss.threshold if type(loss) is Huber else None
