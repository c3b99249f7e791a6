"""Estimates from a noisy second moment of rows and targets: start, ridge, steps and their noise.

Post-processing of released numbers: nothing here is private. `Newton` uses it.

Proof: docs/proofs/newton.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.core import Relation
from discreet.objectives import Local, Problem
from discreet.solvers.base import nearest
from discreet.validate import FloatArray

__all__ = ["MOMENT_CLIP", "STEP", "Descent", "SecondMoment", "Spectrum", "Target", "doubt"]

MOMENT_CLIP = 1.2
"""The clip of the moment, over the usual norm of a row with its constant."""

SIGNAL = 0.25
"""Share of the target's variance that weights are taken to explain where noise wants a ridge. It is
rather small: a model that explains nothing is better than one made of noise."""

LEAST_LEFT = 0.05
"""Share of the target's variance that is taken to be left unexplained at least."""

LEAST_KEPT = 0.5
"""Share of the target's variance that the moment is taken to keep at least, where it scales rows
with their targets down."""

STEP = 0.8
"""Of Newton's step: stable where the curvature is up to 2.5 times what the moment says, as it can
be if many rows are longer than the clip."""

SHRINK = 3.0
"""Slopes are multiplied by 1 less this power of the share of noise in the variance of scores."""

TINY = 1e-12
"""Least eigenvalue, so that nothing is divided by 0."""


class Target(NamedTuple):
    """Mean of the target, and root mean square distance from it: both public by now."""

    centre: float
    spread: float


class Spectrum(NamedTuple):
    """Eigenvalues of the moment of slopes: those that steps divide by, and likely ones."""

    cautious: FloatArray
    likely: FloatArray
    vectors: FloatArray


class Descent(NamedTuple):
    """Public numbers of a descent, which decide what its noise becomes.

    Each step divides by ``divided_by`` times the moment, while the loss has this ``curvature``:
    less, as clipped rows have none. ``noise`` is that in the mean of all gradients,
    ``start_noise`` that in the product of rows and targets at the start. Rows drawn at random add
    ``sampling`` times the second moment to the square of the former.
    """

    iterations: int
    averaged: int
    divided_by: float
    curvature: float
    ridge: float
    noise: float
    start_noise: float = 0.0
    sampling: float = 0.0

    def variances(self, spectrum: Spectrum) -> FloatArray:
        """Return the variance of noise in the result, along the moment's eigenvectors.

        Weights follow w ← a·w + noise, with a from the eigenvalues of the moment that steps divide
        by and of the one that rows have. The result is the mean of the last weights.
        """
        cautious = spectrum.cautious
        moment = spectrum.likely
        divisor = self.divided_by * cautious + self.ridge
        slope = self.curvature * moment + self.ridge
        factor = np.clip(1 - STEP * slope / divisor, -1.0, 1.0)
        powers = factor[:, None] ** np.arange(self.iterations + 1)
        first = self.iterations - self.averaged + 1
        start = powers[:, first:].mean(axis=1) * self.start_noise / (cautious + self.ridge)
        sums = np.cumsum(powers[:, :-1], axis=1)  # of powers up to t
        parts = sums[:, ::-1].copy()  # of the noise of each step, in the sum of all later weights
        parts[:, : first - 1] -= sums[:, : first - 1][:, ::-1]
        each = STEP * self.noise * math.sqrt(self.iterations) / (self.averaged * divisor)
        drawn = self.sampling * moment / (moment + self.ridge) ** 2
        return np.asarray(start**2 + each**2 * np.sum(parts**2, axis=1) + drawn)


@dataclass(frozen=True, eq=False)
class SecondMoment:
    """Estimates from a noisy second moment: post-processing, nothing private.

    ``matrix`` is the rows' second moment, projected on those that rows can have. ``product`` and
    ``square`` are the means of a row times, and of the square of, its target's distance from the
    centre. ``doubt`` is half of the largest eigenvalue of the matrix's noise, ``deviation`` that
    of the noise in each entry of ``product``, ``square_deviation`` that of the square; with an
    intercept, the last entry is a constant's.
    """

    matrix: FloatArray
    product: FloatArray
    square: float
    doubt: float
    deviation: float
    intercept: bool
    square_deviation: float = 0.0

    @classmethod
    def of(
        cls, full: FloatArray, deviation: float, problem: Problem, weight: float, length: float
    ) -> SecondMoment:
        """Read a noisy mean of outer products, of a known standard deviation."""
        size = problem.n_parameters
        values, vectors = np.linalg.eigh(full[:size, :size])
        trace = float(np.clip(values.sum(), LEAST_LEFT * length**2, (MOMENT_CLIP * length) ** 2))
        matrix = (vectors * nearest(values, trace)) @ vectors.T
        return cls(
            matrix=(matrix + matrix.T) / 2,
            product=full[:size, size] / weight,
            square=float(full[size, size]) / weight**2,
            doubt=0.5 * deviation * math.sqrt(2 * size),
            deviation=deviation / (math.sqrt(2.0) * weight),
            intercept=problem.fit_intercept,
            square_deviation=deviation / weight**2,
        )

    def ridge(self, alpha: float, deviation: float, spread: float) -> FloatArray:
        """Return the penalty on each weight: alpha, or what noise in the mean gradient calls for.

        If p weights explain a variance v in equal parts, a ridge of p·s²/v balances what it takes
        from them against the noise s that it keeps out. A constant has none of it. ``spread`` is
        the deviation of what margins are to explain.
        """
        size = self.product.size
        noise = size * deviation**2 / (SIGNAL * spread**2)
        ridge = np.full(size, max(alpha, noise))
        if self.intercept:
            ridge[-1] = alpha
        return ridge

    def least_squares(self, alpha: float, target: Target) -> tuple[FloatArray, float]:
        """Return weights of least squares, and the root mean square of their residuals.

        The weights are those for targets less their centre.
        """
        ridge = self.ridge(alpha, self.deviation, target.spread)
        product = self.product.copy()
        if self.intercept:
            product[-1] -= alpha * target.centre  # the penalty is on the whole intercept
        inverse = np.linalg.inv(self.matrix + np.diag(ridge + self.doubt))
        weights = inverse @ product
        # as much of the square as the weights explain, less what they would explain of noise
        gained = weights @ product + ridge @ weights**2
        gained -= 2 * self.deviation**2 * float(np.trace(inverse))
        # noise may have made the spread far too large, but not this square as well
        most = (max(self.square, 0.0) + 2 * self.square_deviation) / LEAST_KEPT
        variance = max(min(target.spread**2, most), TINY)
        whole = max(self.square, LEAST_KEPT * variance)
        left = float(np.clip(1 - gained / whole, LEAST_LEFT, 1.0)) * variance
        # the minimum leaves no more than the best constant with its penalty on it does
        left += target.centre**2 * alpha / (1 + alpha)
        return weights, math.sqrt(left)

    def cautious(self) -> FloatArray:
        """Return the matrix plus its doubt, as far as that is not known better.

        The curvature along a constant is 1, whatever noise says, plus at most a half. What it
        shares with other columns is trusted by 1/(1 + doubt).
        """
        trust = np.ones(len(self.matrix))
        doubt = np.full(len(self.matrix), self.doubt)
        if self.intercept:
            trust[-1] = 1 / (1 + self.doubt)
            found = trust[-1] ** 2 * float(self.matrix[-1, -1])
            doubt[-1] = 1.0 - found + 0.5 * trust[-1] * self.doubt
        return np.asarray(trust[:, None] * self.matrix * trust + np.diag(doubt))

    def spectrum(self) -> Spectrum:
        """Return eigenvalues for slopes; noise may hide as much as its doubt along any direction.

        Their sum is known far better than each of them. Along no direction is more assumed to be
        hidden than the mean.
        """
        size = self.product.size - int(self.intercept)
        values, vectors = np.linalg.eigh(self.matrix[:size, :size])
        values = np.maximum(values, TINY)
        likely = values + min(self.doubt, float(values.mean()))
        return Spectrum(values + self.doubt, likely * (values.sum() / likely.sum()), vectors)

    def free_noise(self, spectrum: Spectrum, descent: Descent) -> FloatArray:
        """Return a root of the covariance that noise gives slopes which no row determines.

        The loss then has no curvature along them, so only a ridge pulls the noise back.
        """
        flat = spectrum._replace(likely=np.zeros_like(spectrum.likely))
        variances = descent._replace(sampling=0.0).variances(flat)
        return np.asarray(spectrum.vectors * np.sqrt(variances))

    def shrunk(
        self, weights: FloatArray, spectrum: Spectrum, descent: Descent
    ) -> tuple[FloatArray, float]:
        """Shrink slopes by what noise explains of the variance of their scores; return the share.

        With q its share of that variance, slopes are multiplied by 1 − q³: a model that found
        nothing is the mean of the target.
        """
        size = self.product.size - int(self.intercept)
        slopes = weights[:size]
        noise = float(spectrum.likely @ descent.variances(spectrum))
        variance = float(spectrum.likely @ (spectrum.vectors.T @ slopes) ** 2)
        share = max(1.0 - (noise / variance) ** SHRINK, 0.0) if variance > 0 else 0.0
        if not self.intercept:
            return share * slopes, share
        # slopes have a part in the mean of predictions, which stays as it is
        part = float(slopes @ self.matrix[-1, :-1])
        doubtful = float(slopes @ slopes) * self.doubt**2 / self.product.size
        part *= max(0.0, 1 - doubtful / part**2) if part else 0.0
        return np.append(share * slopes, weights[size] + (1 - share) * part), share

    def start(self, weights: FloatArray, shape: Local) -> FloatArray:
        """Return the first weights, from those of least squares, for a loss of this shape.

        For normal rows and targets of mean exp(margin), E[x·y] = E[y]·E[x·margin] (Stein's lemma)
        and E[y] is the exponential of the mean margin plus half its variance.
        """
        weights = shape.scale * weights
        if self.intercept:
            variance = float(weights @ self.matrix @ weights)
            weights[-1] += shape.margin - shape.convexity * min(variance, 1.0)
        return weights


def doubt(n_parameters: int, relation: Relation, length: float) -> float:
    """Return half of the noise's largest eigenvalue in a sum of outer products, at μ = 1.

    About s·√(2p)/2 for a deviation s on the diagonal and s/√2 off it.
    """
    changed = 1.0 if relation is Relation.ADD_REMOVE else math.sqrt(2.0)
    return 0.5 * changed * (MOMENT_CLIP * length) ** 2 * math.sqrt(2 * n_parameters)
