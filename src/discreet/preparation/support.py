"""Weights that no row determined: kept only as far as noise does not explain them.

A category that no row of a table has gets a weight of pure noise. So does the sum of the weights of
categories of which every row has one: it could be added to the intercept instead. `Whiten` and
Newton's steps make such directions long, and one cell of a new row could move its score by 30.

Whether rows vary along a direction is known from the noisy second moment that the fit has released,
and so is the noise in the weights. Post-processing of released and public numbers: nothing here is
private.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from discreet.objectives import Problem
from discreet.preparation.pipeline import Prepared, unclipped_map
from discreet.preparation.steps import FittedWhiten
from discreet.rows import AffineMap
from discreet.solvers.base import Solution
from discreet.validate import FloatArray

__all__ = ["Support", "without_noise"]

TYPICAL_MOMENT = 10.0
"""Deviations of noise that the mean second moment of the columns must reach. Below it, moments say
too little about single columns, and weights of common ones would be dropped."""

LARGEST_NOISE = 5.0
"""The same for directions, over the largest eigenvalue of the noise."""

CLEAR = 6.0
"""Squared deviations of noise that a second moment or a weight must reach, where one cell makes a
row as long as a typical one. A column that no row carries passes once in 140."""

TYPICAL_STEP = 1 + 2.0**-30
"""Step along a direction, over the typical norm of rows. It is just above 1: where the noise is the
same in all directions, r of `Support._kept` is above 1 whatever its rounding."""


@dataclass(frozen=True, eq=False)
class Support:
    """Evidence that rows vary along the directions of a table.

    Parameters
    ----------
    moment : array of shape (n_features, n_features)
        Noisy second moment of the features, each times its scale, over the standard deviation of
        the noise on its diagonal.
    scales : array of shape (n_features,)
        Factors from features to the columns of the moment.
    root : array of shape (n_features, n_features)
        Noise that weights of prepared rows would have if no row determined them, as a matrix that
        normal numbers of variance 1 are multiplied by.
    norm : float
        Root mean square norm of rows, both of the columns of the moment and prepared.
    indicators : array of bool of shape (n_features,)
        Features that are known to have no entries but 0 and ±1.
    made : int
        Number of last features that an expansion made, such as splines. They keep their weights:
        0 is not the average effect of a spline at the end of a column's range.
    """

    moment: FloatArray
    scales: FloatArray
    root: FloatArray
    norm: float
    indicators: NDArray[np.bool_]
    made: int = 0

    def determined(
        self, slopes: FloatArray, affine: AffineMap
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return slopes of prepared rows, (n_models, d), without what noise explains.

        A column whose weight is dropped is scored as its mean, which ``affine`` takes to 0;
        ``affine`` maps features to prepared rows. The second result marks the features whose
        weights were dropped in all models. The rule is in docs/auto.md.
        """
        moments = np.diag(self.moment)
        unresolved = np.zeros(moments.size, dtype=bool)
        if moments.mean() < TYPICAL_MOMENT:
            return slopes, unresolved
        linear = np.diag(affine.linear) if affine.is_diagonal else affine.linear
        basis = linear / self.scales  # from columns of the moment to prepared rows
        spread = self.root.T @ basis
        weights = slopes @ basis
        own = np.arange(moments.size) < moments.size - self.made
        noise = np.linalg.norm(spread, axis=0)
        kept, unresolved = self._kept(weights, noise, moments, self.scales / affine.units)
        kept = np.where(own, kept, 1.0)
        left = kept * weights
        rest = np.flatnonzero(own & ~unresolved & self.indicators)
        if rest.size and moments[rest].mean() > LARGEST_NOISE * np.sqrt(2 * rest.size):
            values, vectors = np.linalg.eigh(self.moment[np.ix_(rest, rest)])
            parts = left[:, rest] @ vectors
            noise = np.linalg.norm(spread[:, rest] @ vectors, axis=0)
            shares, _ = self._kept(parts, noise, values, self.norm * TYPICAL_STEP)
            left[:, rest] += ((shares - 1) * parts) @ vectors.T
        dropped = (kept == 0).all(axis=0)
        if (left == weights).all():
            return slopes, dropped
        return slopes + np.linalg.solve(basis.T, (left - weights).T).T, dropped

    def _kept(
        self, weights: FloatArray, noise: FloatArray, moments: FloatArray, steps: FloatArray | float
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the share of weights along directions that is kept, and which are unresolved.

        Let r be the noise that a step along a direction adds to a score, over that in the score of
        a typical row. A direction with r > 1 is unresolved if its moment is below √(6 + 2·ln r)
        deviations: the larger the harm, the less likely noise alone resolves it.
        """
        typical = self.norm * float(np.linalg.norm(self.root)) / np.sqrt(len(self.root))
        ratio = np.maximum(noise * steps / typical, 1.0)
        clear = CLEAR + 2 * np.log(ratio)
        unresolved = (ratio > 1) & (moments < np.sqrt(clear))
        kept = np.clip(1 - clear * noise**2 / np.maximum(weights**2, 1e-300), 0.0, 1.0)
        return np.where(unresolved, kept, 1.0), unresolved


def without_noise(
    solution: Solution, prepared: Prepared, problem: Problem, made: int = 0
) -> tuple[Solution, NDArray[np.bool_]]:
    """Return a solution without weights that noise explains, and which features lost theirs.

    An expansion made the last ``made`` features. Nothing changes where neither the preparation nor
    the solver measured second moments, or where the solver does not know the noise in its weights.
    """
    norms = prepared.known
    root = solution.free_noise
    width = problem.n_features
    moment = solution.moment if norms is None or norms.moment is None else norms.moment
    if norms is None or moment is None or root is None or not root.any():
        return solution, np.zeros(width, dtype=bool)
    whitening = [step for step in prepared.fitted if isinstance(step, FittedWhiten)]  # the last one
    before = unclipped_map([step for step in prepared.fitted if step not in whitening], width)
    affine = before.then(whitening[0].matrix) if whitening else before
    none = np.zeros(width, dtype=bool)
    support = Support(
        moment=moment,
        scales=before.linear,
        root=root if root.ndim else float(root) * np.eye(width),
        norm=norms.target,
        indicators=none if norms.indicators is None else norms.indicators,
        made=made,
    )
    weights = solution.weights.reshape(problem.loss.n_outputs, -1).copy()
    weights[:, :width], dropped = support.determined(weights[:, :width], affine)
    return replace(solution, weights=weights.ravel()), dropped
