"""Objective perturbation: release the minimum of a randomly tilted objective.

Chaudhuri, Monteleoni & Sarwate, "Differentially Private Empirical Risk Minimization", JMLR 2011
(pure privacy), and Kifer, Smith & Thakurta, "Private Convex Empirical Risk Minimization and
High-dimensional Regression", COLT 2012 (Gaussian noise).

Where ``"tight"`` differs from the papers:

- the noise comes from the profile of docs/proofs/objective_perturbation.md, which holds for noise
  that the gradients depend on, instead of tail bounds, and which composes with a preparation and
  with the other models of a fit;
- a small part of the budget buys noise that hides how far the computed point is from the exact
  minimum, which no computer finds;
- the penalty follows from the noise: as strong as it takes to keep the weights moderate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from scipy.optimize import brentq

from discreet.accounting import conversions
from discreet.accounting.budget import Measure
from discreet.accounting.objective_perturbation import (
    ObjectivePerturbation,
    pure_scale,
    ridge_for,
)
from discreet.accounting.profiles import root_up
from discreet.core import Budget, Curator, Gaussian, L2Norm, Relation
from discreet.objectives import Loss, Problem
from discreet.solvers.base import Progress, Solution, Solver, part_of, true_budget
from discreet.solvers.minimise import Minimizer
from discreet.solvers.perturbed import (
    Constants,
    Room,
    Tilt,
    check_loss,
    check_tilt,
    constants,
    curvature_of,
    open_minimum,
    run,
    share,
)
from discreet.solvers.settings import choice, flags, functions, numbers

__all__ = ["ObjPert"]

LARGEST_SHARE = 0.3
"""The rule for the penalty spends no larger share of the models' ε on curvature."""


@dataclass(frozen=True)
class ObjPert(Solver):
    """The minimum of an objective that noise has tilted: Gaussian, or longer for pure budgets.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"published"``: the papers' constants, and the minimum as exact as floating point gets;
        the promise then rests on its being exact. ``"tight"``: the least noise a sound proof
        allows, with a little noise on the output so that it need not be.
    unsafe : bool
        Run published constants even where they break the promise; the guarantee states the
        true ε.
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
    minimizer : callable, optional
        Replaces ``scipy.optimize.minimize``; same signature. Only for ``"tight"``.
    """

    calibration: Literal["tight", "published"] = "tight"
    _: KW_ONLY
    unsafe: bool = False
    noise_reach: float = 15.0
    ridge: float | None = None
    output_fraction: float = 1e-3
    gradient_bound: float | None = None
    minimizer: Minimizer | None = None

    name: ClassVar[str] = "objpert"
    paper: ClassVar[str] = (
        "Chaudhuri, Monteleoni & Sarwate, JMLR 2011, Algorithm 2; Kifer, Smith & Thakurta, COLT "
        "2012, Algorithm 1"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
    demands: ClassVar[tuple[str, ...]] = (
        "the penalty covers all weights, the intercept's included",
        "the gradient bound is fixed in advance and certified on the exact rows",
    )
    needs_smooth_loss: ClassVar[bool] = True
    needs_convex_loss: ClassVar[bool] = True
    needs_row_bound: ClassVar[bool] = True
    takes_outputs: ClassVar[bool] = True
    composes: ClassVar[tuple[Measure, ...]] = ("profile",)

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        choice(self, "calibration", ("tight", "published"))
        flags(self, "unsafe")
        numbers(self, "noise_reach", least=1e-6, most=1e6)
        numbers(self, "output_fraction", least=1e-9, most=1 - 1e-9)
        numbers(self, "ridge", "gradient_bound", least=1e-30, most=1e30, optional=True)
        functions(self, "minimizer")
        if self.calibration == "published":
            for field in ("gradient_bound", "minimizer"):
                if getattr(self, field) is not None:
                    raise ValueError(
                        f"{field} is for calibration='tight': 'published' adds no noise to the "
                        "point found, so it must be the minimum, not any point near it."
                    )

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse losses that the proof does not cover."""
        super().check(loss, budget, n_models)
        check_loss(self.name, loss)

    def plan(self, problem: Problem, budget: Budget, n_models: int = 1) -> Budget:
        """Calibrate, to see that it works; hold published constants to their claim."""
        super().plan(problem, budget, n_models)
        tilt = self._tilt(problem, budget, n_models)
        if self.calibration == "tight":
            return budget
        facts = constants(problem)
        if budget.pure:
            changed = budget.relation.rows_changed
            epsilon = n_models * (changed * facts.lipschitz / tilt.scale + facts.cost(tilt.ridge))
            return true_budget(self.name, budget, epsilon, self.unsafe)
        room = Room.of(budget, n_models)
        found = true_budget(self.name, room.whole, room.true_epsilon(facts, tilt), self.unsafe)
        return budget if found == room.whole else found

    def solve(
        self,
        problem: Problem,
        curator: Curator,
        budget: Budget,
        progress: Callable[[Progress], None] | None = None,
    ) -> Solution:
        """Tilt, minimise, release."""
        self.plan(problem, budget, curator.n_models)
        tilt = self._tilt(problem, budget, curator.n_models)
        composed: tuple[str, ...] = ()
        if budget.pure:
            spent = share(curator, budget, curator.open("pure"))
            minimum = ObjectivePerturbation(spent.epsilon)
        else:
            minimum, composed = open_minimum(tilt, problem, curator, budget)
        words = (
            f"the sum over rows is penalised with λ = {tilt.ridge:.6g} and tilted by noise of "
            f"scale {tilt.scale:.6g}; each row's gradient has norm at most {problem.lipschitz:.6g}",
            "noise on the output hides the distance to the exact minimum"
            if self.calibration == "tight"
            else "the released point is the exact minimum: it is as exact as floating point gets, "
            "and no noise hides what is left",
            *composed,
        )
        return run(tilt, problem, curator, minimum, self.minimizer, progress, words)

    def _tilt(self, problem: Problem, budget: Budget, n_models: int) -> Tilt:
        if self.calibration == "published":
            tilt = self._published(problem, part_of(budget, n_models))
        elif budget.pure:
            tilt = self._pure(problem, part_of(budget, n_models))
        else:
            tilt = self._gaussian(problem, budget, Room.of(budget, n_models))
        return check_tilt(tilt, problem)

    def _published(self, problem: Problem, part: Budget) -> Tilt:
        """Δ ≥ 2β/ε; b ~ N(0, L²(8 ln(2/δ) + 4ε)/ε² I), or of norm Gamma(d, 2L/ε)."""
        epsilon = part.epsilon
        smoothness = curvature_of(problem.loss) * problem.row_norm_bound**2
        ridge = max(2 * smoothness / epsilon, problem.n_rows * problem.penalty.alpha)
        if part.pure:
            scale = 2 * problem.lipschitz / epsilon
        else:
            spread = math.sqrt(8 * math.log(2 / part.delta) + 4 * epsilon)
            scale = problem.lipschitz * spread / epsilon
        return Tilt(ridge, scale, part.pure, None, None)

    def _pure(self, problem: Problem, part: Budget) -> Tilt:
        """The rule for λ, then the least noise at it."""
        facts = constants(problem)
        epsilon = (1 - self.output_fraction) * (1 - 2.0**-40) * part.epsilon

        def scale(ridge: float) -> float:
            return pure_scale(
                epsilon,
                lipschitz=facts.lipschitz,
                curvature_cost=facts.cost(ridge),
                relation=part.relation,
            )

        length = float(problem.n_parameters)
        ridge = self._ridge(problem, scale, length, LARGEST_SHARE * epsilon)
        output = L2Norm(self.output_fraction * (1 - 2.0**-40) * part.epsilon)
        return Tilt(ridge, scale(ridge), True, output, self.gradient_bound)

    def _gaussian(self, problem: Problem, budget: Budget, room: Room) -> Tilt:
        """The noise on the output, the rule for λ, then the least noise at it."""
        facts, releases = constants(problem), room.releases
        square = self.output_fraction * budget.to_gdp().mu ** 2 / releases
        output = Gaussian(math.nextafter(1 / math.sqrt(square), math.inf))

        def scale(ridge: float) -> float:
            return room.scale(facts, ridge, output)

        # What Gaussians take of ε on their own is not there for curvature.
        mu = root_up(room.before + releases * Fraction(output.loss.mu) ** 2)
        taken = conversions.epsilon_from_mu(mu, room.whole.delta)
        most = min(LARGEST_SHARE * budget.epsilon, 0.5 * (room.whole.epsilon - taken)) / releases
        ridge = self._ridge(problem, scale, math.sqrt(problem.n_parameters), most)
        return Tilt(ridge, scale(ridge), False, output, self.gradient_bound)

    def _ridge(
        self, problem: Problem, scale: Callable[[float], float], length: float, most: float
    ) -> float:
        """λ as it was given, or by the rule; at least the problem's own penalty."""
        ridge = self.ridge
        if ridge is None:
            factor = length * problem.row_norm_bound / self.noise_reach
            ridge = _fixed_point(scale, factor, constants(problem), most)
        return max(ridge, problem.n_rows * problem.penalty.alpha)


def _fixed_point(
    scale: Callable[[float], float], factor: float, facts: Constants, most: float
) -> float:
    """Solve λ = factor·scale(λ), but spend at most ``most`` of ε on curvature."""

    def ridge_at(exponent: float) -> float:
        return ridge_for(most * math.exp(exponent), rank=facts.rank, trace=facts.trace)

    def excess(exponent: float) -> float:
        ridge = ridge_at(exponent)
        return math.log(ridge / (factor * scale(ridge)))

    low, high = -60.0, 0.0
    if math.isinf(scale(ridge_at(low))):
        return ridge_at(low)
    while math.isinf(scale(ridge_at(high))):
        high -= 0.5  # so much curvature leaves no room for noise
    if excess(high) >= 0:
        return ridge_at(high)
    return ridge_at(float(brentq(excess, low, high, xtol=1e-9)))
