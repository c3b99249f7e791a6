"""Second-order refinement of a fitted model: an estimate with known errors, and its covariance.

The reserved share of a fit buys noisy Hessians and scores of the fitted model
(`discreet.inference.measure`). Where intervals come with the predictions, both are estimates of the
same weights by independent noise, so predictions have their mean, weighted by what is known of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core import Curator
from discreet.inference import Covariance, Evidence, Inference
from discreet.inference.covariance import coefficient_map
from discreet.inference.measure import Wanted
from discreet.objectives import Problem
from discreet.preparation.pipeline import Prepared
from discreet.rows import AffineMap, Rows
from discreet.solvers import Solution
from discreet.validate import FloatArray

if TYPE_CHECKING:
    from discreet.estimators.engine import Run

UNKNOWN = 1e6
"""Variance of an estimate along directions that it does not determine, over that of the solution;
any large number will do."""

__all__ = ["Refined", "Refinement", "opened"]


@dataclass(frozen=True, eq=False)
class Refinement:
    """The open share of one model: its curator, one for a sample if there is one, and its μ²."""

    curator: Curator
    few: Curator | None
    total: float

    def refined(
        self, run: Run, prepared: Prepared, problem: Problem, solution: Solution
    ) -> tuple[Solution, Refined]:
        """Measure the second-order estimate; return the solution for predictions, and both."""
        settings = run.settings
        first = settings.inference is True
        affine = prepared.affine or AffineMap.to_norm(np.inf, problem.n_features)
        curator = self.curator
        few = self.few
        pilot = solution.weights
        turn = None if first or not prepared.mapped else whitening(solution)
        if turn is not None:
            every = np.arange(problem.n_features)
            curator = curator.columns(every, matrix=turn)
            few = None if few is None else few.columns(every, matrix=turn)
            affine = affine.then(turn)
            pilot = pilot.copy()
            pilot[: problem.n_features] = np.linalg.solve(turn, pilot[: problem.n_features])
        units = run.inputs.units
        evidence = Inference.measure(
            curator,
            few,
            self.total,
            problem,
            pilot,
            weighted=units.grouped or not units.even,
            mapped=prepared.mapped,
            wanted=_wanted(run, affine, problem),
        )
        if evidence.reason:  # then the fitted weights are better
            return solution, Refined(replace(evidence, weights=pilot), affine, apart=not first)
        if first:
            known: Any = {"clip": None, "deviation": None, "free_noise": None}
            own = replace(solution, weights=evidence.weights, **known)
            return own, Refined(evidence, affine, apart=False)
        if not settings.loss.scored(1.0).even:
            solution = combined(solution, evidence, turn)
        return solution, Refined(evidence, affine, apart=True)


@dataclass(frozen=True, eq=False)
class Refined:
    """Second-order estimate of a model, in the coordinates of its prepared rows.

    ``affine`` maps features to these coordinates. ``apart`` is True if predictions use other
    weights than the estimate.
    """

    evidence: Evidence
    affine: AffineMap
    apart: bool

    def covariance(self, run: Run, problem: Problem) -> Covariance:
        """Return the covariance of the coefficients of features."""
        scale = run.inputs.scale
        about: Any = {"intercept": problem.fit_intercept, "scale": scale}
        shifted = run.settings.shifted
        found = Covariance.of(self.evidence, self.affine, shifted=shifted, **about)
        if not self.apart:
            return found
        size = len(self.evidence.weights)
        weights = coefficient_map(self.affine, size, **about) @ self.evidence.weights
        if problem.fit_intercept:
            weights[-1] += run.inputs.centre
        return replace(found, weights=weights)


def opened(run: Run, prepared: Prepared) -> list[Refinement]:
    """Open what was reserved for inference, for each model.

    It must be open before the models. Its rows have the weights of the model's. The second
    curator is for the rows that the preparation saw, if it did not see all.
    """
    method = run.method
    inputs = run.inputs
    found = []
    parts = () if method.pairs is None else method.pairs.parts
    first = len(method.mechanisms) - len(parts) - len(method.inference)
    for model in range(len(method.inference)):

        def change(rows: Rows, model: int = model) -> Rows:
            labelled = inputs.labelled(rows, model)
            if inputs.y is None or rows is prepared.rows:
                return labelled
            return labelled.with_weights(prepared.rows.row_weights)

        rows, sample = prepared.inference_rows(change)
        if sample is not None:
            sample = inputs.labelled(sample, model)
        curator = run.session.curator(rows, run.streams[first + model])
        _, total = curator.open_reserved(first + model)
        drawn = None if sample is None else curator.on_sample(sample, prepared.size)
        found.append(Refinement(curator, drawn, float(total)))
    return found


def combined(solution: Solution, evidence: Evidence, turn: FloatArray | None = None) -> Solution:
    """Return the solution with the mean of its weights and of the estimate, by their known noise.

    Both have seen the same rows, so their sampling errors are one, and the noise in the mean is all
    that is left to choose: β + N·(N + s²)⁻¹·(w − β), for the covariance N of the noise in the
    estimate β and the deviation s in each of the solution's weights w. Directions that the
    estimate does not determine are left to the solution. Where a solver does not state its noise,
    the estimate is all that is used; it is of rows times ``turn``.
    """
    if solution.deviation is None:
        weights = evidence.weights.copy()
        if turn is not None:
            weights[: len(turn)] = turn @ weights[: len(turn)]
        return replace(solution, weights=weights, free_noise=None)
    size = solution.weights.size
    variance = solution.deviation**2
    noise = evidence.noise
    if len(evidence.blind):
        blind = np.linalg.qr(evidence.blind.T)[0]
        noise = noise + UNKNOWN * variance * (blind @ blind.T)
    gain = np.linalg.solve(noise + variance * np.eye(size), noise).T
    weights = evidence.weights + gain @ (solution.weights - evidence.weights)
    left = float(np.sqrt(max(np.trace(variance * gain), 0.0) / size))
    return replace(solution, weights=weights, clip=None, deviation=left, kept=1.0)


def whitening(solution: Solution) -> FloatArray | None:
    """Return a symmetric matrix that whitens rows, by the second moment that the solver released.

    Eigenvalues below the largest one of its noise are raised to that. The matrix is None if the
    solver released no moment.
    """
    if solution.moment is None:
        return None
    values, vectors = np.linalg.eigh(solution.moment)
    values = np.maximum(values, np.sqrt(2.0 * values.size))
    factors = np.sqrt(values.mean() / values)
    return np.asarray((vectors * factors) @ vectors.T)


def _wanted(run: Run, affine: AffineMap, problem: Problem) -> Wanted:
    """Return what is to be measured beside the coefficients."""
    about: Any = {"intercept": problem.fit_intercept, "scale": run.inputs.scale}
    basis = coefficient_map(affine, problem.n_parameters, **about)
    return Wanted(basis, run.settings.cov_type != "model", run.inputs.ends)
