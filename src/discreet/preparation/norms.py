"""What is publicly known of rows' lengths in a preparation, and what to make of noisy moments.

Everything here is computed from released and public numbers: post-processing, nothing private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.newton import nearest

__all__ = ["Lengths", "column_weights", "plausible", "shrunk", "stretches", "whitening"]

FloatArray = NDArray[np.float64]

LEAST_SHARE = 0.05
"""Of the largest mean squared norm that rows can have, what they are taken to have at least."""


@dataclass(frozen=True)
class Lengths:
    """What is publicly known of the length of rows between two steps of a preparation.

    Attributes
    ----------
    clip
        Norm that rows are scaled down to in the next moment that is asked for.
    size
        What the root of their mean squared norm is at most, as far as is known.
    norm
        What `FittedWhiten` brings the root of their mean squared norm to.
    raw
        Whether nothing was asked of their lengths yet. The next step then scales longer rows down
        to ``clip`` when it moves them; later ones do so in their moments only.
    """

    clip: float
    size: float
    norm: float
    raw: bool = False


def shrunk(mean: FloatArray, deviation: float) -> FloatArray:
    """A noisy mean m, shrunk by James and Stein: m·max(0, 1 − d·s²/‖m‖²) for noise of deviation s.

    Where the noise is larger than the mean, subtracting it would do more harm than good.
    """
    square = float(mean @ mean)
    noise = mean.size * deviation**2
    return mean * (1.0 - noise / square) if square > noise else np.zeros_like(mean)


def plausible(values: FloatArray, deviation: float, lengths: Lengths) -> FloatArray:
    """The nearest values that are not negative and whose sum rows of such lengths can have.

    The sum t of noisy values is known better than each of them, so it is kept, but for two limits.
    It is at most size². And it is at least its own noise or a twentieth of size², whichever is
    less: rows are not all 0. The result is the Euclidean projection on {v ≥ 0, Σv = t}.

    Parameters
    ----------
    values : ndarray
        Noisy second moments, in any orthogonal directions.
    deviation : float
        Standard deviation of the noise in each.
    lengths : Lengths
        What is known of the rows.
    """
    largest_sum = lengths.size**2
    least = min(LEAST_SHARE * largest_sum, deviation * math.sqrt(values.size))
    total = float(np.clip(values.sum(), least, largest_sum))
    likely = nearest(values, total)
    if not likely.any():  # t is nothing next to the noise, and was rounded away
        likely[:] = total / values.size
    return likely


def stretches(values: FloatArray, ridge: float, norm: float) -> FloatArray:
    """Numbers g ∝ 1/√(v + ridge) such that Σ v·g² = norm²."""
    explained = float(np.sum(values / (values + ridge)))
    return norm / np.sqrt(explained * (values + ridge))


def column_weights(
    moments: FloatArray, deviation: float, lengths: Lengths, norm: float
) -> FloatArray:
    """The columns' weights that noisy means of their squares allow.

    They are 1/√(v + σ/2), v the means after `plausible` and σ their noise's deviation, all times a
    number that makes the mean squared norm, as far as v tells, norm².
    """
    return stretches(plausible(moments, deviation, lengths), 0.5 * deviation, norm)


def whitening(moment: FloatArray, deviation: float, lengths: Lengths) -> tuple[FloatArray, float]:
    """The whitening matrix that a noisy second moment allows, and its ridge λ.

    Parameters
    ----------
    moment : ndarray
        The noisy mean of xxᵀ, a symmetric matrix.
    deviation : float
        Standard deviation of the noise on its diagonal.
    lengths : Lengths
        What is known of the rows.

    Notes
    -----
    The noise is a symmetric matrix with deviation σ on the diagonal and σ/√2 off it, whose largest
    eigenvalue is about σ·√(2d). That is λ: directions in which rows vary by less are noise.
    """
    values, vectors = np.linalg.eigh(moment)
    ridge = deviation * math.sqrt(2 * len(moment))
    likely = plausible(values, deviation, lengths)
    turned = (vectors * stretches(likely, ridge, lengths.norm)) @ vectors.T
    return (turned + turned.T) / 2, ridge
