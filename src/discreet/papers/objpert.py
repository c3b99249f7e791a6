"""Objective perturbation: release the minimum of a randomly perturbed objective.

Chaudhuri, Monteleoni & Sarwate, JMLR 2011 (pure privacy), and Kifer, Smith & Thakurta, "Private
Convex Empirical Risk Minimization and High-dimensional Regression", COLT 2012 (Gaussian noise).

Differences from the papers:

- the least-noise form adds a little noise to the output, so that the minimum need not be exact;
- its noise is calibrated by the privacy profile of Redberg, Koskela & Wang 2023.

Proofs: docs/proofs/objective_perturbation.md, docs/proofs/amp.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar

from scipy.optimize import brentq

from discreet import exact
from discreet.accounting import conversions
from discreet.accounting.budget import Measure
from discreet.accounting.calibration import pure_scale, ridge_for
from discreet.accounting.profiles import root_up
from discreet.core import Budget, Curator, Gaussian, L2Norm, Relation
from discreet.objectives import Loss, Problem
from discreet.solvers import base
from discreet.validate import number

Share = Annotated[float, partial(number, least=1e-9, most=1 - 1e-9)]
Scale = Annotated[float, partial(number, least=1e-30, most=1e30)]

LARGEST_SHARE = 0.3  # the rule for the penalty spends no larger share of ε on curvature


@dataclass(frozen=True)
class Minimum(base.TraceEntry):
    """The one step of the method; all of it is public.

    λ of the penalty (λ/2)‖w‖² on the sum over rows, the scale of b (a standard deviation, or that
    of a gamma norm), the certified bound γ on the mean's gradient at the point found, and the scale
    of the noise added to that point (0 if none).
    """

    ridge: float
    noise_scale: float
    gradient_bound: float
    output_noise: float


@dataclass(frozen=True)
class MinimumPlan(base.Plan):
    """The release of a perturbed minimum."""

    minimum: exact.PerturbedMinimum


@dataclass(frozen=True, kw_only=True)
class MinimumSolver(base.PaperSolver):
    """Base of the solvers that release a perturbed minimum; they differ in its calibration."""

    unsafe: bool = False
    gradient_bound: Scale | None = None
    optimizer: Annotated[exact.Optimizer, exact.check_optimizer] | None = None
    one_vs_rest: bool = False

    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
    demands: ClassVar[tuple[str, ...]] = (
        "the penalty covers all weights, the intercept's included",
        "the gradient bound is fixed in advance and certified on the exact rows",
    )
    needs_smooth_loss: ClassVar[bool] = True
    needs_convex_loss: ClassVar[bool] = True
    needs_row_bound: ClassVar[bool] = True
    takes_outputs: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    composes: ClassVar[tuple[Measure, ...]] = ("profile",)

    def fits_jointly(self) -> bool:
        """Tell whether more than two classes are one model; else one per class, as in the paper."""
        return not self.one_vs_rest

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse losses that the proof does not cover."""
        super().check(loss, budget, n_models)
        exact.check_corners(self.name, loss)

    def _calibrate(self, problem: Problem, budget: Budget, n_models: int) -> exact.Perturbation:
        """Return the perturbation of each of ``n_models`` minima."""
        raise NotImplementedError

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> MinimumPlan:
        perturbation = self._calibrate(problem, budget, n_models)
        minimum = exact.PerturbedMinimum(problem, perturbation, self.optimizer)
        if self.calibration == "tight":
            return MinimumPlan(budget, budget, minimum)
        constants = minimum.constants
        if budget.pure:
            shift = budget.relation.rows_changed * constants.lipschitz / perturbation.scale
            epsilon = n_models * (shift + constants.cost(perturbation.ridge))
            spends = base.true_budget(self.name, budget, epsilon, self.unsafe)
        else:
            room = exact.Headroom.of(budget, n_models)
            epsilon = room.true_epsilon(constants, perturbation)
            spends = base.true_budget(self.name, room.whole, epsilon, self.unsafe)
            spends = budget if spends == room.whole else spends
        return MinimumPlan(budget, spends, minimum)

    def _solve(
        self, problem: Problem, curator: Curator, plan: MinimumPlan, record: base.Recorder
    ) -> base.Solution:
        minimum = plan.minimum
        perturbation = plan.minimum.perturbation
        if plan.budget.pure:
            total = math.nextafter(curator.open("pure"), 0.0)
            mechanism = minimum.pure_mechanism(total, curator.relation)
            composed = []
        else:
            room = exact.Headroom.of(plan.budget, curator.n_models)
            mechanism = minimum.mechanism(room.whole.delta, curator.relation)
            curator.open_plan(mechanism, 1)
            composed = [f"{room.releases} minima"] if room.releases > 1 else []
            if room.before:
                composed.append(f"a preparation of μ = {math.sqrt(room.before):.6g} in Gaussian DP")
        size = problem.n_parameters
        relation = curator.relation
        weights = curator.run(minimum, size=size, proven_for=relation, mechanism=mechanism)
        bound = minimum.gradient_bound / problem.n_rows
        ridge = perturbation.ridge
        scale = perturbation.scale
        record(Minimum(ridge, scale, bound, minimum.output_scale), weights)
        facts = perturbation.facts(minimum.constants)
        hidden = (
            f"of ε, {facts['curvature_cost']:.4g} go to curvature; the noise on the output is "
            f"{facts['output_mu']:.4g}-GDP and hides the distance to the exact minimum"
        )
        if perturbation.output is None:
            hidden = (
                "the released point is the exact minimum: it is as exact as floating point gets, "
                "and no noise hides what is left"
            )
        conditions = [
            f"the sum over rows is penalised with λ = {ridge:.6g} and perturbed by noise of scale "
            f"{scale:.6g}; each row's gradient has norm at most {problem.lipschitz:.6g}",
            hidden,
            f"the gradient of the mean at the point found has norm at most {bound:.3g}, certified",
        ]
        if composed:
            conditions[2:2] = [
                f"on its own each minimum is ({mechanism.epsilon:.6g}, {mechanism.delta:g})-DP; "
                f"the bound on its δ at every ε composes with {' and '.join(composed)}"
            ]
        return base.Solution(weights, record.trace, tuple(conditions))


@dataclass(frozen=True, kw_only=True)
class ObjPert(MinimumSolver):
    """Releases the minimum of an objective perturbed by Gaussian noise, or by pure noise for δ = 0.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"published"``: the papers' constants, and the minimum as exact as floating point gets;
        the promise then rests on its being exact. ``"tight"``: the least noise a sound proof
        allows, with a little noise on the output so that it need not be.
    unsafe : bool
        Run published constants that do not keep their promise; the guarantee has the true ε.
    noise_reach : float
        B: the penalty is chosen so that noise alone moves the weights to norm B divided by the
        bound on a row's norm. A larger B means a weaker penalty. Only for ``"tight"``.
    ridge : float, optional
        The penalty λ/2·‖w‖² on the *sum* over rows, instead of the rule. Only for ``"tight"``.
        In either case λ is at least n·alpha.
    output_fraction : float
        Share for the noise on the output: of the μ² that Gaussian DP would allow the models, or of
        ε of a pure budget. Only for ``"tight"``.
    gradient_bound : float, optional
        γ, the bound on the mean's gradient at the point found; as small as is worth it by
        default. Only for ``"tight"``, whose noise on the output hides what is left.
    optimizer : str or callable, optional
        Method of ``scipy.optimize.minimize`` such as ``"trust-ncg"``, or a function
        ``optimizer(objective, start)`` that returns a point, where the objective is a
        `discreet.exact.MeanObjective`. It need not be trusted: its point is released only if a
        certificate holds there, else the built-in optimiser goes on. It runs on exact rows, so it
        must not print or store what it sees. Only for ``"tight"``.
    one_vs_rest : bool
        Whether more than two classes are fitted by one model per class against the rest, which
        share the budget evenly. By default there is one model of all classes.
    """

    noise_reach: base.Size = 15.0
    ridge: Scale | None = None
    output_fraction: Share = 1e-3

    name: ClassVar[str] = "objpert"
    paper: ClassVar[str] = (
        "Chaudhuri, Monteleoni & Sarwate, JMLR 2011, Algorithm 2; Kifer, Smith & Thakurta, COLT "
        "2012, Algorithm 1"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calibration == "published":
            for field in ("gradient_bound", "optimizer"):
                if getattr(self, field) is not None:
                    raise ValueError(
                        f"{field} is for calibration='tight': 'published' adds no noise to the "
                        "point found, so it must be the minimum, not any point near it."
                    )

    def _calibrate(self, problem: Problem, budget: Budget, n_models: int) -> exact.Perturbation:
        part = base.part_of(budget, n_models)
        if self.calibration == "published":
            return self._published(problem, part)
        constants = exact.Constants.of(problem)
        if budget.pure:
            return self._pure(problem, constants, part)
        return self._gaussian(problem, constants, budget, exact.Headroom.of(budget, n_models))

    def _published(self, problem: Problem, part: Budget) -> exact.Perturbation:
        """Δ ≥ 2β/ε; b ~ N(0, L²(8 ln(2/δ) + 4ε)/ε² I), or of norm Gamma(d, 2L/ε)."""
        epsilon = part.epsilon
        factor = 2.0
        smoothness = exact.curvature_of(problem.loss) * problem.row_norm_bound**2
        ridge = max(2 * smoothness / epsilon, problem.n_rows * problem.penalty.alpha)
        if not part.pure:
            factor = math.sqrt(8 * math.log(2 / part.delta) + 4 * epsilon)
        scale = problem.lipschitz * factor / epsilon
        return exact.Perturbation(ridge, scale, part.pure, None, None)

    def _pure(
        self, problem: Problem, constants: exact.Constants, part: Budget
    ) -> exact.Perturbation:
        epsilon = (1 - self.output_fraction) * (1 - 2.0**-40) * part.epsilon

        least: Any = {"lipschitz": constants.lipschitz, "relation": part.relation}

        def scale(ridge: float) -> float:
            return pure_scale(epsilon, curvature_cost=constants.cost(ridge), **least)

        ridge = self._ridge(problem, scale, problem.n_parameters, LARGEST_SHARE * epsilon)
        output = L2Norm(self.output_fraction * (1 - 2.0**-40) * part.epsilon)
        return exact.Perturbation(ridge, scale(ridge), True, output, self.gradient_bound)

    def _gaussian(
        self, problem: Problem, constants: exact.Constants, budget: Budget, room: exact.Headroom
    ) -> exact.Perturbation:
        """Choose the noise on the output, λ by the rule, then the least noise at it."""
        releases = room.releases
        square = self.output_fraction * budget.to_gdp().mu ** 2 / releases
        output = Gaussian(math.nextafter(1 / math.sqrt(square), math.inf))

        def scale(ridge: float) -> float:
            return room.scale(constants, ridge, output)

        # What Gaussians take of ε on their own is not there for curvature.
        mu = root_up(room.before + releases * Fraction(output.loss.mu) ** 2)
        taken = conversions.epsilon_from_mu(mu, room.whole.delta)
        most = min(LARGEST_SHARE * budget.epsilon, 0.5 * (room.whole.epsilon - taken)) / releases
        ridge = self._ridge(problem, scale, math.sqrt(problem.n_parameters), most)
        return exact.Perturbation(ridge, scale(ridge), False, output, self.gradient_bound)

    def _ridge(
        self, problem: Problem, scale: Callable[[float], float], length: float, most: float
    ) -> float:
        """Return λ as it was given, or by the rule; at least the problem's own penalty.

        The rule solves λ = factor·scale(λ), but spends at most ``most`` of ε on curvature.
        """
        least = problem.n_rows * problem.penalty.alpha
        if self.ridge is not None:
            return max(self.ridge, least)
        constants = exact.Constants.of(problem)
        factor = length * problem.row_norm_bound / self.noise_reach

        def ridge_at(exponent: float) -> float:
            return ridge_for(most * math.exp(exponent), rank=constants.rank, trace=constants.trace)

        def excess(exponent: float) -> float:
            ridge = ridge_at(exponent)
            return math.log(ridge / (factor * scale(ridge)))

        low, high = -60.0, 0.0
        if math.isinf(scale(ridge_at(low))):
            return max(ridge_at(low), least)
        while math.isinf(scale(ridge_at(high))):
            high -= 0.5  # so much curvature leaves nothing for noise
        if excess(high) < 0:
            high = float(brentq(excess, low, high, xtol=1e-9))
        return max(ridge_at(high), least)
