# mypy: ignore-errors
"""Compiled loops that make features of rows: B-splines and cosines.

As in `discreet.rows.kernels`, what becomes of a row is computed from that row and public arguments
alone, in strict IEEE arithmetic and one order, wherever the row lies in the table.
"""

import math

import numpy as np

from discreet.objectives.compile import kernel

COSINE = tuple((-1.0) ** k * (2 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(13))
"""Taylor coefficients of cos(2πt) in t²: for |t| ≤ 1/2 what is left out is below 1e-13."""


@kernel
def spline_rows(values, low, high, pieces, degree, first, out):
    """Write the B-splines of each number to out, from column ``first`` on.

    The knots divide [low, high] into ``pieces`` of one width; numbers outside are clipped
    to it. out is 0 where it is written to. Numbers that are not finite become NaN.
    """
    basis = np.empty(degree + 1)
    for i in range(values.size):
        x = np.float64(values[i])
        if not math.isfinite(x):
            out[i, first] = np.nan
            continue
        t = min(max((x - low) / (high - low), 0.0), 1.0) * pieces
        piece = min(int(t), pieces - 1)
        u = t - piece
        basis[0] = 1.0
        for j in range(1, degree + 1):
            carried = 0.0
            for r in range(j):
                share = basis[r] / j
                basis[r] = carried + (r + 1 - u) * share
                carried = (u + (j - r - 1)) * share
            basis[j] = carried
        for r in range(degree + 1):
            out[i, first + piece + r] = basis[r]


@kernel
def cosine_rows(turns, factor, first, out):
    """Write factor·cos(2πt) of each number t to out, from column ``first`` on."""
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12 = COSINE
    for i in range(turns.shape[0]):
        for j in range(turns.shape[1]):
            t = turns[i, j] - np.rint(turns[i, j])
            s = t * t
            total = c8 + s * (c9 + s * (c10 + s * (c11 + s * c12)))
            total = c3 + s * (c4 + s * (c5 + s * (c6 + s * (c7 + s * total))))
            out[i, first + j] = factor * (c0 + s * (c1 + s * (c2 + s * total)))
