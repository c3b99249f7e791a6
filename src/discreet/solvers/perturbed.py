"""What objective perturbation and approximate minima perturbation run inside the curator.

Both minimise Σℓ(w) + (λ/2)‖w‖² + b·w. No computer finds the exact minimum for a real vector b, so
the proof is about this: b is rounded to a grid and the point that is found has a gradient of norm
at most τ, certified; so it is within τ/λ of the exact minimum for the real b, and noise that hides
2τ/λ is added to it. Proof: docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Loss, Problem
from discreet.privacy import Budget, Curator, Gaussian, L2Norm
from discreet.privacy.noise import Noise, from_grid
from discreet.privacy.objective_perturbation import ObjectivePerturbation, curvature_cost
from discreet.solvers.base import FloatArray, Progress, Solution, TraceEntry
from discreet.solvers.minimise import Minimizer, PerturbedObjective, minimise

__all__ = [
    "SMALLEST_BOUND",
    "Minimum",
    "Tilt",
    "check_loss",
    "check_tilt",
    "constants",
    "curvature_of",
    "run",
    "share",
]

ROOM = 1 + 2.0**-40
"""Room above the bound on a row's gradient, so that no rounding makes a clip act."""

FINEST = 38
"""The grid of the noise is at least 2^-38 of its scale: finer ones are slow to draw on."""

SMALLEST, LARGEST = 1e-50, 1e50
"""Penalties, noise and bounds on gradients beyond these could overflow; they are refused."""

SMALLEST_BOUND = 1e-6
"""τ over the bound on a row's gradient where nothing else is asked for and noise hides it."""

EXACT = 1e-9
"""The same where no noise hides it."""


@dataclass(frozen=True)
class Minimum(TraceEntry):
    """The one step of the method; all of it is public.

    Attributes
    ----------
    ridge
        λ: the penalty on the sum over rows, (λ/2)‖w‖², the problem's own included.
    noise_scale
        Scale of the noise b that tilts the sum: its standard deviation, or that of a gamma length.
    gradient_bound
        γ: the certified bound on the gradient of the mean at the point that was found.
    output_noise
        Scale of the noise added to that point; 0 if none.
    """

    ridge: float
    noise_scale: float
    gradient_bound: float
    output_noise: float


@dataclass(frozen=True)
class Constants:
    """What the proof needs of a problem, all about one row: k, t·R², m, L."""

    rank: int
    trace: float
    corners: int
    lipschitz: float

    def cost(self, ridge: float) -> float:
        """The curvature cost at λ."""
        return curvature_cost(ridge, rank=self.rank, trace=self.trace)


@dataclass(frozen=True)
class Tilt:
    """A calibrated run.

    Attributes
    ----------
    ridge
        λ.
    scale
        Scale of b.
    pure
        Whether b has density ∝ exp(−‖b‖/scale) rather than a Gaussian one.
    output
        What hides the distance to the exact minimum; ``None`` leaves it out.
    gradient_bound
        γ on the mean, or ``None`` for as small as is worth it. ``None`` without ``output``: then
        the point must be as exact as floating point gets.
    """

    ridge: float
    scale: float
    pure: bool
    output: Gaussian | L2Norm | None
    gradient_bound: float | None


def check_loss(name: str, loss: Loss) -> None:
    """Refuse a loss whose gradients' hull is not known."""
    if loss.gradient_corners is None:
        raise NotSupported(
            f"solver={name!r} needs a loss that declares gradient_corners; {loss.name!r} does not."
        )


def curvature_of(loss: Loss) -> float:
    """The bound on a loss's second derivative, which smooth losses declare."""
    if loss.curvature_bound is None:
        raise NotSupported(f"{loss.name!r} does not declare a curvature_bound.")
    return loss.curvature_bound


def constants(problem: Problem) -> Constants:
    """Constants of a problem with a smooth convex loss and bounded rows; a hair rounded up."""
    loss = problem.loss
    trace, corners = loss.hessian_trace_bound, loss.gradient_corners
    if trace is None or corners is None:
        raise NotSupported(f"{loss.name!r} does not declare its bounds on Hessians and gradients.")
    square = problem.row_norm_bound**2
    return Constants(
        rank=min(loss.hessian_rank, problem.n_parameters),
        trace=trace * square * ROOM,
        corners=corners,
        lipschitz=problem.lipschitz * ROOM,
    )


def check_tilt(tilt: Tilt, problem: Problem) -> Tilt:
    """Refuse numbers that could overflow once rows are read; all of them are public."""
    bound = tilt.gradient_bound or 1.0
    sizes = (tilt.ridge, tilt.scale, bound * problem.n_rows, _magnitude(tilt, problem))
    if not all(SMALLEST <= size <= LARGEST for size in sizes):
        raise ValueError(
            f"These settings need numbers out of range: a penalty of {tilt.ridge:.3g} on the sum, "
            f"noise of scale {tilt.scale:.3g}, weights up to {sizes[-1]:.3g}. Use an alpha, ridge, "
            "gradient_bound and data_norm nearer to 1."
        )
    return tilt


def share(curator: Curator, budget: Budget, total: float) -> Budget:
    """What this curator's filter holds, a hair below it."""
    delta = math.nextafter(budget.delta / curator.parts, 0.0) if budget.delta else 0.0
    return replace(budget, epsilon=math.nextafter(total, 0.0), delta=delta)


def run(
    tilt: Tilt,
    problem: Problem,
    curator: Curator,
    spent: Budget,
    minimizer: Minimizer | None,
    progress: Callable[[Progress], None] | None,
    conditions: tuple[str, ...],
) -> Solution:
    """Charge ``spent`` and release the perturbed minimum.

    Privacy
    -------
    The caller has proven that ``tilt`` keeps ``spent``. τ, the grid and the output's magnitude
    are functions of public numbers. If the certificate cannot be reached, nothing is released;
    that event is not covered by the promise, and strong convexity rules it out but for rounding.
    """
    if tilt.output is None and not (minimizer is None and tilt.gradient_bound is None):
        raise PrivacyError("Without noise on the output the minimum must be found exactly.")
    size = problem.n_parameters
    lipschitz = problem.lipschitz * ROOM
    public: dict[str, float] = {}

    def compute(rows: Any, noise: Noise) -> FloatArray:
        bound = _bound(tilt, problem, rows.gradient_rounding(problem.loss, lipschitz), lipschitz)
        grid = _grid(tilt.scale, bound, size)
        draw = noise.l2_norm if tilt.pure else noise.gaussian
        linear = from_grid(draw(size, tilt.scale, grid), grid)
        objective = PerturbedObjective(rows, problem.loss, lipschitz, tilt.ridge, linear)
        off_grid = 2.0**grid * math.sqrt(size)  # twice the rounding of b
        weights = minimise(objective, bound - off_grid, minimizer=minimizer)
        public["bound"], public["output"] = bound, 0.0
        if tilt.output is None:
            return weights
        noisy, scale = tilt.output.release(
            weights,
            sensitivity=2 * bound / tilt.ridge * ROOM,
            magnitude=_magnitude(tilt, problem),
            noise=noise,
        )
        public["output"] = scale
        return noisy

    weights = curator.run(
        compute,
        size=size,
        proven_for=curator.relation,
        mechanism=ObjectivePerturbation(spent.epsilon, spent.delta),
    )
    mean = public["bound"] / problem.n_rows
    entry = Minimum(tilt.ridge, tilt.scale, mean, public["output"])
    if progress is not None:
        progress(Progress(entry, weights.copy(), curator.spent_share))
    found = f"the gradient of the mean at the point found has norm at most {mean:.3g}, certified"
    return Solution(weights, (entry,), (*conditions, found))


def _bound(tilt: Tilt, problem: Problem, rounding: float, lipschitz: float) -> float:
    """τ: what was asked for, but not below what rounding lets be certified."""
    if tilt.gradient_bound is None:
        asked = (EXACT if tilt.output is None else SMALLEST_BOUND) * lipschitz
    else:
        asked = tilt.gradient_bound * problem.n_rows
    grid = 4 * math.sqrt(problem.n_parameters) * 2.0**-FINEST * tilt.scale
    return max(asked, 2 * rounding, grid)


def _grid(scale: float, bound: float, size: int) -> int:
    """The coarsest grid whose rounding takes at most a quarter of τ, down to the finest."""
    enough = math.frexp(bound / (4 * math.sqrt(size)))[1] - 1
    usual = math.frexp(scale)[1] - 1 - 20
    return max(min(enough, usual), math.frexp(scale)[1] - 1 - FINEST)


def _magnitude(tilt: Tilt, problem: Problem) -> float:
    """A public bound that weights stay below but for very unlikely noise."""
    size = problem.n_parameters
    length = size + 64 * math.sqrt(size) if tilt.pure else math.sqrt(size) + 64
    return (problem.n_rows * problem.lipschitz + tilt.scale * length) / tilt.ridge
