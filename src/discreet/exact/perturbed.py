"""Release of a perturbed minimum: objective perturbation and approximate minima perturbation.

Both minimise Σℓ(w) + (λ/2)‖w‖² + b·w. No computer finds the exact minimum for a real vector b, so
the proof is about this: b is rounded to a grid and the point that is found has a gradient of norm
at most τ, certified; so it is within τ/λ of the exact minimum for the real b, and noise that hides
2τ/λ is added to it. Any optimiser may search for the point (`discreet.exact.minimise`); the
certificate decides (`discreet.exact.certificate`). Proof: docs/proofs/objective_perturbation.md.

With Gaussian noise such a release has a profile, a bound on its δ at every ε, which composes with
the Gaussian releases of a preparation before it, with the noise on the output and with the other
models of a fit: the account checks the whole of it before it opens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.accounting.budget import Relation
from discreet.accounting.objective_perturbation import ObjectivePerturbation, curvature_cost
from discreet.core import Gaussian, L2Norm
from discreet.core.noise import Noise, from_grid
from discreet.errors import NotSupported, PrivacyError
from discreet.exact.certificate import PerturbedObjective, certifiable_norm, certify
from discreet.exact.minimise import Optimizer, minimise
from discreet.objectives import Loss, Problem
from discreet.rows import UNIT_ROUNDOFF, Rows
from discreet.validate import FloatArray

SLACK = 1 + 2.0**-40
"""Factor above the bound on a row's gradient, so that no rounding makes a clip act."""

FINEST = 38
"""The grid of the noise is at least 2^-38 of its scale: finer ones are slow to draw on."""

GRID_SHARE = 16
"""The rounding of b to its grid takes at most one part in this many of τ."""

STEEPEST = 2.0**40
"""Largest ratio of the sum's curvature to λ: beyond, Newton steps might not converge in doubles."""

SMALLEST = 1e-50
"""Smaller penalties, noise and bounds on gradients could underflow; they are refused."""

LARGEST = 1e50
"""Larger penalties, noise and bounds on gradients could overflow; they are refused."""

SMALLEST_BOUND = 1e-6
"""τ over the bound on a row's gradient where nothing else is asked for and noise hides it."""

EXACT = 1e-9
"""τ over the bound on a row's gradient where the minimum is released without noise."""


@dataclass(frozen=True)
class Constants:
    """Constants of a problem that the proof needs, all about one row: k, t·R², m, L."""

    rank: int
    trace: float
    corners: int
    lipschitz: float

    @classmethod
    def of(cls, problem: Problem) -> Constants:
        """Return the constants of a problem with a smooth convex loss and bounded rows."""
        loss = problem.loss
        trace = loss.hessian_trace_bound
        corners = loss.gradient_corners
        if trace is None or corners is None:
            raise NotSupported(
                f"{loss.name!r} does not declare its bounds on Hessians and gradients."
            )
        trace = trace * problem.row_norm_bound**2 * SLACK
        rank = min(loss.hessian_rank, problem.n_parameters)
        return cls(rank, trace, corners, problem.lipschitz * SLACK)

    def cost(self, ridge: float) -> float:
        """Return the curvature cost at λ."""
        return curvature_cost(ridge, rank=self.rank, trace=self.trace)


@dataclass(frozen=True)
class Perturbation:
    """A calibrated perturbation of an objective: λ, and the scale of b.

    ``pure``: b has density ∝ exp(−‖b‖/scale) rather than a Gaussian one. ``output`` hides the
    distance to the exact minimum. ``gradient_bound`` is γ on the mean, or None for as small as is
    worth it. Without ``output`` it must be None: the point is as exact as floating point gets.
    """

    ridge: float
    scale: float
    pure: bool
    output: Gaussian | L2Norm | None
    gradient_bound: float | None

    def facts(self, constants: Constants) -> dict[str, Any]:
        """Return the arguments of `profile` but for the relation; the ratio is rounded up."""
        return {
            "noise_ratio": math.nextafter(constants.lipschitz / self.scale, math.inf),
            "curvature_cost": constants.cost(self.ridge),
            "corners": constants.corners,
            "output_mu": 0.0 if self.output is None else self.output.loss.mu,
        }


@dataclass(frozen=True)
class PerturbedMinimum:
    """One release of a perturbed minimum; all its attributes and properties are public.

    Called with exact rows and noise, inside `Curator.run`, it returns the weights to release. The
    optimiser is not trusted; see `discreet.exact.minimise`.
    """

    problem: Problem
    perturbation: Perturbation
    optimizer: Optimizer | None = None

    def __post_init__(self) -> None:
        """Refuse what the proof does not cover, and numbers that could overflow later."""
        problem = self.problem
        perturbation = self.perturbation
        if perturbation.output is None and (
            self.optimizer is not None or perturbation.gradient_bound is not None
        ):
            raise PrivacyError("Without noise on the output the minimum must be found exactly.")
        ridge = perturbation.ridge
        scale = perturbation.scale
        if math.isinf(scale):
            raise ValueError(
                f"with a penalty of {ridge:.3g} on the sum, curvature costs "
                f"{self.constants.cost(ridge):.4g} of epsilon for each model and nothing is left "
                "for noise; raise the penalty, or leave more of the budget to the minimum."
            )
        asked = (perturbation.gradient_bound or 1.0) * problem.n_rows
        if not all(SMALLEST <= size <= LARGEST for size in (ridge, scale, asked, self.magnitude)):
            raise ValueError(
                f"These settings need numbers out of range: a penalty of {ridge:.3g} on the sum, "
                f"noise of scale {scale:.3g}, weights up to {self.magnitude:.3g}. Use an alpha, "
                "ridge, gradient_bound and data_norm nearer to 1."
            )
        curvature = problem.n_rows * curvature_of(problem.loss) * problem.row_norm_bound**2
        if curvature > STEEPEST * ridge:
            raise ValueError(
                f"A penalty of {ridge:.3g} on the sum is too small for floating point, whatever "
                "the rows are: use an alpha or ridge that makes it at least "
                f"{curvature / STEEPEST:.3g}."
            )

    @property
    def constants(self) -> Constants:
        """Constants of the problem."""
        return Constants.of(self.problem)

    def mechanism(self, delta: float, relation: Relation) -> ObjectivePerturbation:
        """Return the mechanism of a Gaussian release, with its profile."""
        if self.perturbation.pure:
            raise PrivacyError("Pure noise has no profile.")
        facts = self.perturbation.facts(self.constants)
        return ObjectivePerturbation.gaussian(delta, **facts, relation=relation)

    def pure_mechanism(self, epsilon: float, relation: Relation) -> ObjectivePerturbation:
        """Return the mechanism of a pure release, if it is ε-DP."""
        constants = self.constants
        perturbation = self.perturbation
        output = perturbation.output
        if not perturbation.pure or isinstance(output, Gaussian):
            raise PrivacyError("Gaussian noise is not pure.")
        true = relation.rows_changed * constants.lipschitz / perturbation.scale
        true += constants.cost(perturbation.ridge) + (output.epsilon if output else 0.0)
        if not true <= epsilon:
            raise PrivacyError(f"This perturbation is {true:.6g}-DP, not {epsilon:.6g}-DP.")
        return ObjectivePerturbation(epsilon)

    @property
    def noise_norm_bound(self) -> float:
        """Bound on ‖b‖ that only very unlikely noise exceeds."""
        size = self.problem.n_parameters
        root = math.sqrt(self.problem.n_parameters)
        return self.perturbation.scale * (size + 64 * root if self.perturbation.pure else root + 64)

    @property
    def magnitude(self) -> float:
        """Bound on weights that only very unlikely noise exceeds."""
        shift = self.problem.n_rows * self.problem.lipschitz + self.noise_norm_bound
        return shift / self.perturbation.ridge

    @property
    def weight_bound(self) -> float:
        """W: bound on the norm of the minimum, for every table.

        ‖w‖ ≤ (nL + ‖b‖)/λ; and where φ(0) ≤ c whatever the target, ‖w‖ ≤ √(nc/λ) + ‖b‖/λ, because
        −φ'(m)·m ≤ φ(0) for a convex φ that is not negative.
        """
        loss = self.problem.loss
        ridge = self.perturbation.ridge
        worst = math.inf
        if loss.task == "classification":
            count = loss.n_outputs
            targets = np.arange(count, dtype=np.float64) if count > 1 else np.array([-1.0, 1.0])
            margins = np.zeros((targets.size, count) if count > 1 else 2)
            worst = float(np.max(loss.value(margins, targets)))
        bounded = math.sqrt(self.problem.n_rows * worst / ridge) + self.noise_norm_bound / ridge
        return min(self.magnitude, bounded * SLACK)

    @property
    def gradient_bound(self) -> float:
        """τ: what was asked for, but not below what can be certified for every table."""
        problem = self.problem
        perturbation = self.perturbation
        lipschitz = self.constants.lipschitz
        floor = certifiable_norm(
            problem,
            clip=lipschitz,
            ridge=perturbation.ridge,
            weights=self.weight_bound,
            linear=self.noise_norm_bound,
        )
        if perturbation.gradient_bound is None:
            asked = (EXACT if perturbation.output is None else SMALLEST_BOUND) * lipschitz
        else:
            asked = perturbation.gradient_bound * problem.n_rows
        grid = GRID_SHARE * math.sqrt(problem.n_parameters) * 2.0**-FINEST * perturbation.scale
        return max(asked, floor, grid)

    @property
    def grid(self) -> int:
        """Exponent of the grid of b: the coarsest whose rounding takes at most its share of τ."""
        scale = self.perturbation.scale
        size = self.problem.n_parameters
        enough = math.frexp(self.gradient_bound / (GRID_SHARE * math.sqrt(size)))[1] - 1
        exponent = math.frexp(scale)[1] - 1
        return max(min(enough, exponent - 20), exponent - FINEST)

    @property
    def certified_bound(self) -> float:
        """Bound that is certified with the rounded b: τ less twice the rounding of b."""
        return self.gradient_bound - 2.0**self.grid * math.sqrt(self.problem.n_parameters)

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of the point that is found, given the exact minimum."""
        distance = self.gradient_bound / self.perturbation.ridge
        # the point found is precise to more than a double
        rounding = 4 * UNIT_ROUNDOFF * (self.weight_bound + distance)
        return 2 * (distance + rounding) * SLACK

    @property
    def output_scale(self) -> float:
        """Scale of the noise on the output, before rounding to its grid is added; 0 if none."""
        output = self.perturbation.output
        return 0.0 if output is None else output.scale(self.sensitivity)

    def __call__(self, rows: Rows, noise: Noise) -> FloatArray:
        """Perturb, minimise, certify, and add the noise on the output.

        Privacy
        -------
        The result has the privacy of `mechanism` or `pure_mechanism`. τ is never below what can be
        certified for every table, so that no row decides whether a fit succeeds; only draws of b
        beyond 64 standard deviations can leave nothing to release.
        """
        problem = self.problem
        perturbation = self.perturbation
        size = self.problem.n_parameters
        grid = self.grid
        bound = self.certified_bound
        draw = noise.l2_norm if perturbation.pure else noise.gaussian
        linear = from_grid(draw(size, perturbation.scale, grid), grid)
        linear.flags.writeable = False  # an optimiser cannot change what is certified
        clip = self.constants.lipschitz
        objective = PerturbedObjective(rows, problem.loss, clip, perturbation.ridge, linear)
        point = minimise(objective, bound, self.optimizer)
        if point is None or not certify(objective, point, bound):
            raise PrivacyError(
                "The optimiser did not reach the gradient norm that the privacy proof needs; "
                "nothing was released. Use a larger gradient_bound or alpha."
            )
        if perturbation.output is None:
            return point.weights
        longest = self.weight_bound + self.gradient_bound / perturbation.ridge
        if not float(np.linalg.norm(point.weights)) <= 2 * longest:  # b beyond its bound
            raise PrivacyError("The noise was larger than floating point allows; try again.")
        noisy, _ = perturbation.output.release(
            point.weights, sensitivity=self.sensitivity, magnitude=self.magnitude, noise=noise
        )
        return noisy


def check_corners(name: str, loss: Loss) -> None:
    """Refuse a loss whose gradients' hull is not known."""
    if loss.gradient_corners is None:
        raise NotSupported(
            f"solver={name!r} needs a loss that declares gradient_corners; {loss.name!r} does not."
        )


def curvature_of(loss: Loss) -> float:
    """Return the bound on a loss's second derivative, which smooth losses declare."""
    if loss.curvature_bound is None:
        raise NotSupported(f"{loss.name!r} does not declare a curvature_bound.")
    return loss.curvature_bound
