"""Weights of columns that too few rows carry: kept only as far as noise does not explain them.

A category that no row of a table has gets a weight of pure noise, and `Whiten` makes its column
long: one cell could move a score by 30. Whether rows carry a column is known from the noisy second
moments that the fit has released, and so is the noise in its weight. Post-processing of released
and public numbers: nothing here is private.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from discreet.objectives import Problem
from discreet.preparation.pipeline import Prepared, unclipped_map
from discreet.rows import AffineMap
from discreet.solvers.base import Solution
from discreet.validate import FloatArray

__all__ = ["Support", "without_noise"]

TYPICAL_MOMENT = 10.0
"""Deviations of noise that the mean second moment of the columns must reach. Below it, moments say
too little about single columns, and weights of common ones would be dropped."""

CLEAR = 6.0
"""Squared deviations of noise that the second moment or the weight of a column must reach, where
one cell makes a row as long as a typical one. A column that no row carries passes once in 140."""


@dataclass(frozen=True, eq=False)
class Support:
    """Evidence that rows carry the columns of a prepared table.

    Parameters
    ----------
    moments : array of shape (n_features,)
        Noisy second moment of each column, over the standard deviation of its noise.
    deviations : array of shape (n_features,)
        Standard deviation that noise alone gives each weight of prepared rows, if no row carries
        its column.
    norm : float
        Root mean square norm of prepared rows.
    made : int
        Number of last columns that an expansion made, such as splines. They keep their weights:
        0 is not the average effect of a spline at the end of a column's range.
    """

    moments: FloatArray
    deviations: FloatArray
    norm: float
    made: int = 0

    def averaged(
        self, slopes: FloatArray, affine: AffineMap
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return slopes of prepared rows, (n_models, d), without those that noise explains.

        A column whose weight is dropped is scored as its mean, which ``affine`` takes to 0.
        ``affine`` maps features to prepared rows. The second result marks the features whose
        weights were dropped in all models.

        Let r be the norm that a cell of one typical unit has as a prepared row, over that of a
        typical row: noise moves the score of a row that carries it r times as much. A column with
        r > 1 is unresolved if its moment is below √(6 + 2·ln r) deviations: the larger the harm,
        the less likely noise alone resolves a column. Its weight w with noise of deviation s is
        then multiplied by max(0, 1 − (6 + 2·ln r)·s²/w²).
        """
        linear = np.diag(affine.linear) if affine.is_diagonal else affine.linear
        noise = np.linalg.norm(linear * self.deviations[:, None], axis=0)
        typical = self.norm * float(np.sqrt(np.mean(np.square(self.deviations))))
        ratio = np.maximum(noise / affine.units / typical, 1.0)
        clear = CLEAR + 2 * np.log(ratio)
        own = np.arange(clear.size) < clear.size - self.made
        unresolved = own & (ratio > 1) & (self.moments < np.sqrt(clear))
        if not unresolved.any() or self.moments.mean() < TYPICAL_MOMENT:
            return slopes, np.zeros(unresolved.size, dtype=bool)
        weights = slopes @ linear
        explained = clear * noise**2
        kept = np.clip(1 - explained / np.maximum(np.square(weights), 1e-300), 0.0, 1.0)
        change = np.where(unresolved, (kept - 1) * weights, 0.0)
        dropped = unresolved & (kept == 0).all(axis=0)
        lengths = np.linalg.norm(linear, axis=0)  # units may differ by many powers of two
        return slopes + np.linalg.solve((linear / lengths).T, (change / lengths).T).T, dropped


def without_noise(
    solution: Solution, prepared: Prepared, problem: Problem, made: int = 0
) -> tuple[Solution, NDArray[np.bool_]]:
    """Return a solution without weights of unresolved columns, and which features that were.

    An expansion made the last ``made`` features.

    Nothing changes where neither the preparation nor the solver measured second moments, or where
    the solver does not know the noise in its weights.
    """
    norms = prepared.norms
    moments = solution.moments if norms is None or norms.moments is None else norms.moments
    deviations = solution.free_deviations
    if moments is None or norms is None or deviations is None or not deviations.any():
        return solution, np.zeros(problem.n_features, dtype=bool)
    support = Support(moments, deviations, norms.target, made)
    weights = solution.weights.reshape(problem.loss.n_outputs, -1).copy()
    affine = unclipped_map(prepared.fitted, problem.n_features)
    slopes, dropped = support.averaged(weights[:, : problem.n_features], affine)
    weights[:, : problem.n_features] = slopes
    return replace(solution, weights=weights.ravel()), dropped
