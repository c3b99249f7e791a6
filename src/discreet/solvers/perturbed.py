"""What objective perturbation and approximate minima perturbation run inside the curator.

Both minimise Σℓ(w) + (λ/2)‖w‖² + b·w. No computer finds the exact minimum for a real vector b, so
the proof is about this: b is rounded to a grid and the point that is found has a gradient of norm
at most τ, certified; so it is within τ/λ of the exact minimum for the real b, and noise that hides
2τ/λ is added to it. Proof: docs/proofs/objective_perturbation.md.

With Gaussian noise such a release has a profile, a bound on its δ at every ε, which composes with
the Gaussian releases of a preparation before it, with the noise on the output and with the other
models of a fit: the account checks the whole of it before it opens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.accounting.composition import Remainder
from discreet.accounting.objective_perturbation import (
    ObjectivePerturbation,
    curvature_cost,
    noise_ratio,
    true_epsilon,
)
from discreet.core import Budget, Curator, Gaussian, L2Norm
from discreet.core.noise import Noise, from_grid
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Loss, Problem
from discreet.solvers.base import FloatArray, Progress, Solution, TraceEntry
from discreet.solvers.minimise import Minimizer, PerturbedObjective, minimise

__all__ = [
    "SMALLEST_BOUND",
    "Minimum",
    "Room",
    "Tilt",
    "check_loss",
    "check_tilt",
    "constants",
    "curvature_of",
    "open_minimum",
    "run",
    "share",
]

ROOM = 1 + 2.0**-40
"""Room above the bound on a row's gradient, so that no rounding makes a clip act."""

FINEST = 38
"""The grid of the noise is at least 2^-38 of its scale: finer ones are slow to draw on."""

GRID_SHARE = 16
"""The rounding of b to its grid takes at most one part in so many of τ."""

STEEPEST = 2.0**40
"""Largest ratio of the sum's curvature to λ: beyond, Newton steps might not converge in doubles."""

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


@dataclass(frozen=True)
class Room:
    """What the Gaussian minima of a fit may spend together, and what else counts towards it.

    Attributes
    ----------
    whole
        The budget of everything.
    before
        μ² of what is released before them.
    releases
        Number of minima.
    """

    whole: Budget
    before: Fraction
    releases: int

    @classmethod
    def of(cls, budget: Budget, releases: int) -> Room:
        """The room in a solver's budget, which a preparation may have a part of."""
        if isinstance(budget, Remainder):
            return cls(budget.whole, budget.before, releases)
        return cls(budget, Fraction(0), releases)

    def scale(self, facts: Constants, ridge: float, output: Gaussian) -> float:
        """The least noise at λ with which everything together keeps the budget, or infinity."""
        ratio = noise_ratio(
            self.whole.epsilon,
            self.whole.delta,
            curvature_cost=facts.cost(ridge),
            relation=self.whole.relation,
            corners=facts.corners,
            output_mu=output.loss.mu,
            releases=self.releases,
            before=self.before,
        )
        return facts.lipschitz / ratio * ROOM if ratio else math.inf

    def true_epsilon(self, facts: Constants, tilt: Tilt) -> float:
        """The ε of everything together, at the budget's δ."""
        return true_epsilon(
            self.whole.delta,
            noise_ratio=_ratio(facts, tilt),
            curvature_cost=facts.cost(tilt.ridge),
            relation=self.whole.relation,
            corners=facts.corners,
            output_mu=_output_mu(tilt),
            releases=self.releases,
            before=self.before,
        )


def _ratio(facts: Constants, tilt: Tilt) -> float:
    return math.nextafter(facts.lipschitz / tilt.scale, math.inf)


def _output_mu(tilt: Tilt) -> float:
    return 0.0 if tilt.output is None else tilt.output.loss.mu


def open_minimum(
    tilt: Tilt, problem: Problem, curator: Curator, budget: Budget
) -> tuple[ObjectivePerturbation, tuple[str, ...]]:
    """Open the curator's budget for one Gaussian minimum; returns it and what holds, in words.

    Privacy
    -------
    The account composes the profile of all minima with what came before and refuses what does not
    keep the budget. The profile is that of ``tilt``, all of whose numbers are public and were
    fixed by settings and the table's size.
    """
    facts, room = constants(problem), Room.of(budget, curator.n_models)
    minimum = ObjectivePerturbation.gaussian(
        room.whole.delta,
        noise_ratio=_ratio(facts, tilt),
        curvature_cost=facts.cost(tilt.ridge),
        corners=facts.corners,
        output_mu=_output_mu(tilt),
        relation=curator.relation,
    )
    curator.open_plan(minimum, 1)
    if not room.before and room.releases == 1:
        return minimum, ()
    alone = f"on its own each minimum is ({minimum.epsilon:.6g}, {minimum.delta:g})-DP"
    others = [f"{room.releases} minima"] if room.releases > 1 else []
    if room.before:
        others.append(f"a preparation of μ = {math.sqrt(room.before):.6g} in Gaussian DP")
    return minimum, (
        f"{alone}; the bound on its δ at every ε composes with {' and '.join(others)}",
    )


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
    if math.isinf(tilt.scale):
        cost = constants(problem).cost(tilt.ridge)
        raise ValueError(
            f"with a penalty of {tilt.ridge:.3g} on the sum, curvature costs {cost:.4g} of epsilon "
            "for each model and nothing is left for noise; raise the penalty, or leave more of the "
            "budget to the minimum."
        )
    bound = tilt.gradient_bound or 1.0
    sizes = (tilt.ridge, tilt.scale, bound * problem.n_rows, _magnitude(tilt, problem))
    if not all(SMALLEST <= size <= LARGEST for size in sizes):
        raise ValueError(
            f"These settings need numbers out of range: a penalty of {tilt.ridge:.3g} on the sum, "
            f"noise of scale {tilt.scale:.3g}, weights up to {sizes[-1]:.3g}. Use an alpha, ridge, "
            "gradient_bound and data_norm nearer to 1."
        )
    curvature = problem.n_rows * curvature_of(problem.loss) * problem.row_norm_bound**2
    if curvature > STEEPEST * tilt.ridge:
        raise ValueError(
            f"A penalty of {tilt.ridge:.3g} on the sum is too small for floating point, whatever "
            f"the rows are: use an alpha or ridge that makes it at least "
            f"{curvature / STEEPEST:.3g}."
        )
    return tilt


def share(curator: Curator, budget: Budget, total: float) -> Budget:
    """What this curator's filter holds, a hair below it."""
    delta = math.nextafter(budget.delta / curator.n_models, 0.0) if budget.delta else 0.0
    return replace(budget, epsilon=math.nextafter(total, 0.0), delta=delta)


def run(
    tilt: Tilt,
    problem: Problem,
    curator: Curator,
    mechanism: ObjectivePerturbation,
    minimizer: Minimizer | None,
    progress: Callable[[Progress], None] | None,
    conditions: tuple[str, ...],
) -> Solution:
    """Charge ``mechanism`` and release the perturbed minimum.

    Privacy
    -------
    The caller has proven that ``tilt`` is what ``mechanism`` says. τ, the grid and the output's
    magnitude are functions of public numbers. τ is never below what can be certified for every
    table, so that no row decides whether a fit succeeds; only draws of b beyond 64 standard
    deviations can leave nothing to release.
    """
    if tilt.output is None and not (minimizer is None and tilt.gradient_bound is None):
        raise PrivacyError("Without noise on the output the minimum must be found exactly.")
    size = problem.n_parameters
    lipschitz = problem.lipschitz * ROOM
    public: dict[str, float] = {}

    def compute(rows: Any, noise: Noise) -> FloatArray:
        reach, length = _reach(tilt, problem), _tilt_length(tilt, problem)
        floor = rows.certifiable_norm(problem.loss, lipschitz, tilt.ridge, reach, length)
        bound = _bound(tilt, problem, floor, lipschitz)
        grid = _grid(tilt.scale, bound, size)
        draw = noise.l2_norm if tilt.pure else noise.gaussian
        linear = from_grid(draw(size, tilt.scale, grid), grid)
        objective = PerturbedObjective(rows, problem.loss, lipschitz, tilt.ridge, linear)
        off_grid = 2.0**grid * math.sqrt(size)  # twice the rounding of b
        weights = minimise(objective, bound - off_grid, minimizer=minimizer)
        public["bound"], public["output"] = bound, 0.0
        if tilt.output is None:
            return weights
        far = reach + bound / tilt.ridge
        if not float(np.linalg.norm(weights)) <= 2 * far:  # b beyond _tilt_length
            raise PrivacyError("The noise was larger than floating point allows; try again.")
        rounding = 4 * 2.0**-53 * far  # the point found is precise to more than a double
        noisy, scale = tilt.output.release(
            weights,
            sensitivity=2 * (bound / tilt.ridge + rounding) * ROOM,
            magnitude=_magnitude(tilt, problem),
            noise=noise,
        )
        public["output"] = scale
        return noisy

    weights = curator.run(
        compute,
        size=size,
        proven_for=curator.relation,
        mechanism=mechanism,
    )
    mean = public["bound"] / problem.n_rows
    entry = Minimum(tilt.ridge, tilt.scale, mean, public["output"])
    if progress is not None:
        progress(Progress(entry, weights.copy(), curator.spent_share))
    found = f"the gradient of the mean at the point found has norm at most {mean:.3g}, certified"
    return Solution(weights, (entry,), (*conditions, found))


def _bound(tilt: Tilt, problem: Problem, floor: float, lipschitz: float) -> float:
    """τ: what was asked for, but not below what can be certified for every table."""
    if tilt.gradient_bound is None:
        asked = (EXACT if tilt.output is None else SMALLEST_BOUND) * lipschitz
    else:
        asked = tilt.gradient_bound * problem.n_rows
    grid = GRID_SHARE * math.sqrt(problem.n_parameters) * 2.0**-FINEST * tilt.scale
    return max(asked, floor, grid)


def _grid(scale: float, bound: float, size: int) -> int:
    """The coarsest grid whose rounding takes at most its share of τ, down to the finest."""
    enough = math.frexp(bound / (GRID_SHARE * math.sqrt(size)))[1] - 1
    usual = math.frexp(scale)[1] - 1 - 20
    return max(min(enough, usual), math.frexp(scale)[1] - 1 - FINEST)


def _tilt_length(tilt: Tilt, problem: Problem) -> float:
    """A public bound that the norm of b stays below but for very unlikely noise."""
    size = problem.n_parameters
    return tilt.scale * (size + 64 * math.sqrt(size) if tilt.pure else math.sqrt(size) + 64)


def _reach(tilt: Tilt, problem: Problem) -> float:
    """A public bound on the norm of the minimum, for every table.

    ‖w‖ ≤ (nL + ‖b‖)/λ; and where φ(0) ≤ c whatever the target, ‖w‖ ≤ √(nc/λ) + ‖b‖/λ, because
    −φ'(m)·m ≤ φ(0) for a convex φ that is not negative.
    """
    loss, worst = problem.loss, math.inf
    if loss.task == "classification":
        count = loss.n_outputs
        targets = np.arange(count, dtype=np.float64) if count > 1 else np.array([-1.0, 1.0])
        margins = np.zeros((targets.size, count) if count > 1 else 2)
        worst = float(np.max(loss.value(margins, targets)))
    length = _tilt_length(tilt, problem) / tilt.ridge
    bounded = math.sqrt(problem.n_rows * worst / tilt.ridge) + length
    return min(_magnitude(tilt, problem), bounded * ROOM)


def _magnitude(tilt: Tilt, problem: Problem) -> float:
    """A public bound that weights stay below but for very unlikely noise."""
    return (problem.n_rows * problem.lipschitz + _tilt_length(tilt, problem)) / tilt.ridge
