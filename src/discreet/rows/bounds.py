"""Rounding constants, block sizes and error bounds: the only place for each of them.

Proofs use these numbers, so each says which. Every bound is a function of public numbers. It holds
for the table at hand and for every neighbouring one: ``size`` is the public bound on the total
weight of the rows, the number of rows if they have no weights, and bounds are taken at one more.
``block_rows`` are those whose numbers are summed before blocks are added up, ``clip`` bounds the
norm of a row's part. ``REACH``, where exponentials are cut off, is with them in
``discreet.objectives.formulas``.
"""

from __future__ import annotations

from discreet.errors import NotSupported
from discreet.objectives import Huber, HuberHinge, Logistic, Loss

UNIT_ROUNDOFF = 2.0**-53
"""u: the relative error of one rounding. All proofs."""

SLACK = 1.01
"""Covers underflow (clips are at least 1e-100) and the rounding of a bound itself. All proofs."""

BLOCK_ROWS = 4096
"""B: rows whose numbers are summed in any order, before blocks are added up pairwise. summation.md,
outpert.md. Sparse gradients use max(B, d)."""

TREE_LEVELS = 64
"""Additions between a block's sum and the total, and a partition's: 2^63 of each. summation.md."""

DEPTH = 2 * TREE_LEVELS + 8
"""Roundings between a block's sum and the total, for any number of rows, and 8 more. Those between
a row's number and the total are at most this and the rows of a block. summation.md."""

WEIGHT_STEPS = 2**30
"""Weights of rows are multiples of 1 over this, so that sums of them are exact. summation.md."""

ROOT_ROOM = 1.0 - 2.0**-50
"""Lowers a computed root of a weight, so that its square is at most the weight. summation.md."""

OUTER_ROWS, OUTER_ROUNDINGS = 4096, 4
"""Rows whose outer products are summed before blocks are added up, and the roundings of a number of
the weighted triangle of yyᵀ, which is within C² for ‖y‖ ≤ C. preparation.md."""

CLIP_RANGE = (1e-100, 1e100)
"""Clips outside this range could underflow or overflow. summation.md."""

ROW_NORM_RANGE = (1e-100, 1e100)
"""Norms that rows can be scaled down to. summation.md."""

SMALLEST_NORM = 2.0**-500
"""Norms are not taken to be smaller than this, so that clip / norm is finite. summation.md."""

SMALLEST_FACTOR = 2.0**-1000
"""Smaller factors of rows become 0: subnormal numbers round by more than u. summation.md."""

SAFE_LOW, SAFE_HIGH = 2.0**-900, 2.0**1000
"""A sum of squares between these lost nothing to underflow or overflow. summation.md."""

ROOT_LIFT = 1.0 + 2.0**-48
"""Lifts a computed √(N² + 1) above the true one, with room. summation.md, affine.md."""

ENTRY_LIFT = 1.0 + 2.0**-50
"""Lifts the computed largest entry of a scaled row above the true one. frank_wolfe.md."""

SMALLEST_PRODUCT_CLIP = 1e-3
"""Below this clip, factors 1 + exp(·) are too close to 1 to be clipped accurately. summation.md."""

SMALLEST_SCALE = 2.0**-500
"""Rows scaled down further take no part in exact computations: products of such a row with weights
could overflow before they are scaled. objective_perturbation.md, outpert.md, permutation_sgd.md."""

LARGEST_WEIGHTS = 2.0**300
"""Norm of weights above which no gradient is certified. objective_perturbation.md."""

SLOPE_ROUNDINGS = 32
"""A computed slope is off by at most this many u times its bound. objective_perturbation.md."""

ROUNDING_ROOM = 1.0 - 2.0**-40
"""Vectors (x, 1, y) are scaled to this share of the clip: room for all roundings. newton.md."""

LARGEST_TARGET = 1e100
"""Weighted targets are cut to this, so that they stay finite. newton.md."""

SMALLEST_MOMENT_FACTOR = 2.0**-900
"""Factors of (x, 1, y) below it count as 0: products with them could be subnormal. newton.md."""

CONTRACTION_ROUNDING = 2.0**-48
"""Covers the rounding of a computed contraction 1 − ηα. permutation_sgd.md."""

FOURIER_GRID = 2.0**20
"""Numbers in [0, 1] are rounded to multiples of one over this before Fourier features. features.md.
"""

FREQUENCY_GRID = 2.0**16
"""Frequencies are multiples of one over this. features.md."""

LARGEST_FREQUENCY = 31.0
"""Largest frequency, in turns. features.md."""

FOURIER_COLUMNS = 1024
"""Columns that have Fourier features, at most: the sums of products stay exact. features.md."""

UNDERFLOW = 2.0**-900
"""Covers what products of tiny numbers lose to underflow in a pass. permutation_sgd.md."""

LARGEST_ENTRY = 1e150
"""Entries of narrower tables are cut to this. shrunk_gd.md."""

QR_ROUNDINGS = 64
"""Roundings of a computed QR decomposition, over the number of entries; 6 suffice. affine.md."""

OCTAVES = 3
"""Exponents that are counted together where rows are counted by their largest entry."""

EXPONENTS = (-63, 64)
"""First and last binary exponent that entries are counted by. preparation.md."""

SMALLEST_MAPPED_CLIP = 1e-9
"""Below this clip, factors of mapped rows could be rounded to 0. affine.md."""

LARGEST_MAPPED_NORM = 1e40
"""Maps to longer rows are refused; no preparation makes such. affine.md."""

SMALLEST_MAPPED_SCALE = 2.0**-800
"""Mapped rows scaled down further count as the longest that there can be. affine.md."""


def gamma(roundings: int) -> float:
    """Return γ_k = ku/(1 − ku), the relative error that k roundings can add up to."""
    share = roundings * UNIT_ROUNDOFF
    return share / (1.0 - share)


def norm_inflation(n_features: int) -> float:
    """Return the factor that lifts a computed norm of n_features numbers above the true norm."""
    return 1.0 + (n_features + 8) * 2.0**-52


def gradient_error(size: int, block_rows: int, clip: float, roundings: int = 0) -> float:
    """Bound the L2 error of a sum of gradients, or other terms, within clip (summation.md).

    ``roundings`` are those of a term itself, where it is not within the clip as computed.
    """
    return SLACK * gamma(block_rows + DEPTH + roundings) * (size + 1) * clip


def line_error(size: int, block_rows: int, clip: float, *, products: bool) -> float:
    """Bound the error of a sum of losses clipped to [0, clip] (summation.md).

    ``products``: factors of rows are multiplied before a logarithm is taken. That is one more
    rounding, of size u for any clip, per row.
    """
    rounding = 2.0 * UNIT_ROUNDOFF if products else 0.0
    return SLACK * (gamma(block_rows + DEPTH) * clip + rounding) * (size + 1)


def mapped_error(
    size: int, block_rows: int, factor: float, n_features: int, map_bound: float
) -> float:
    """Bound the error of a sum of mapped rows whose factors are at most ``factor`` (affine.md)."""
    depth = gamma(block_rows + DEPTH) + gamma(n_features + 16)
    return SLACK * (size + 1) * factor * depth * (map_bound + 1.0)


def mapped_norm_error(n_features: int, map_bound: float, *, turned: bool) -> float:
    """Bound what a computed norm of a mapped row falls short of the true one (affine.md).

    ``turned``: the map is a matrix, and was made a triangle before.
    """
    roundings = QR_ROUNDINGS * (n_features + 1) ** 2 if turned else 0
    return (4 * gamma(n_features + 16) + gamma(roundings)) * map_bound


def mapped_square_error(size: int, block_rows: int, clip: float, map_bound: float) -> float:
    """Bound the error of a sum of squares of sparse rows under a diagonal map (affine.md)."""
    return gradient_error(size, block_rows, 3.0 * map_bound**2 + clip**2, roundings=12)


def descent_error(n_parameters: int, lipschitz: float) -> float:
    """Bound the error of a computed mean of gradients in a descent without noise (outpert.md)."""
    return 4 * (BLOCK_ROWS + DEPTH + n_parameters + 8) * UNIT_ROUNDOFF * lipschitz


def certificate_allowance(
    loss: Loss,
    *,
    clip: float,
    weights: float,
    terms: float,
    size: int,
    n_features: int,
    block_rows: int,
) -> float:
    """Bound the rounding of a certified gradient (docs/proofs/objective_perturbation.md).

    ``weights`` is the norm of the weights, ``terms`` the sum of the norms of the gradient's terms.
    """
    if loss.curvature_bound is None:
        raise NotSupported(f"gradients are certified for smooth losses; {loss.name!r} is not.")
    longest, curvature = clip / loss.slope_bound, loss.curvature_bound
    largest = longest * weights
    relative = curvature * largest  # bounds |m|·φ''(m); |r|·φ'' for Huber's residual r
    if type(loss) is Logistic:  # |m|/(4cosh²(m/2)) ≤ sinh(|m|/2)/(2cosh²(m/2)) ≤ 1/4
        relative = 0.25
    elif type(loss) is HuberHinge:
        relative = (1.0 + loss.smoothing) / (2.0 * loss.smoothing)
    elif type(loss) is Huber:
        relative = loss.threshold
    margin = UNIT_ROUNDOFF * relative + 4 * gamma(n_features + 16) ** 2 * curvature * largest
    roundings = SLOPE_ROUNDINGS + 2 * loss.n_outputs + 1  # one for a row's weight
    slope = 1.01 * margin + roundings * UNIT_ROUNDOFF * loss.slope_bound
    rows = size * longest * slope
    total = gradient_error(size, block_rows, clip)
    return total + 1.01 * rows + term_allowance(terms)


def term_allowance(terms: float) -> float:
    """Bound the rounding of a sum of the terms of a gradient whose norms add up to ``terms``."""
    return 1.01 * 6 * UNIT_ROUNDOFF * terms
