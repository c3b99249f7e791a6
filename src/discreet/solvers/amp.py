"""Approximate minima perturbation (AMP), and its variant without hyper-parameters (H-F AMP).

Iyengar, Near, Song, Thakkar, Thakurta & Wang, "Towards Practical Differentially Private Convex
Optimization", IEEE S&P 2019, Algorithm 1 and section V-A. Tilt the objective by Gaussian noise,
find a point at which its gradient is at most γ, and add noise that hides the distance from there
to the minimum.

Where this differs from the paper:

- the bound γ is fixed in advance and certified, rounding included; the authors' benchmark doubles
  it until their optimiser succeeds, which makes it depend on the data;
- two approximate minima can be 2nγ/Λ apart, not nγ/Λ: ``"published"`` keeps the printed noise and
  is held to the ε it really has; ``"tight"`` uses the true distance;
- ``"tight"`` charges the determinants c = k·ln(1 + t/(kΛ)) instead of rβ/Λ, and both parts are
  composed by the bound on their δ at every ε, with a preparation and with each other.

Proof: docs/proofs/amp.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, NamedTuple

from discreet.accounting import conversions
from discreet.accounting.budget import Measure
from discreet.accounting.objective_perturbation import ridge_for
from discreet.core import Budget, Curator, Gaussian, Relation
from discreet.objectives import Logistic, Loss, Problem
from discreet.solvers.base import Progress, Solution, Solver, part_of, true_budget
from discreet.solvers.minimise import Minimizer
from discreet.solvers.perturbed import (
    SMALLEST_BOUND,
    Room,
    Tilt,
    check_loss,
    check_tilt,
    constants,
    curvature_of,
    open_minimum,
    run,
)
from discreet.solvers.settings import choice, flags, functions, numbers

__all__ = ["AMP", "AMPHF"]

LARGEST_COST = 0.99
"""ε₁ − ε₃ is kept below 1, as the paper's theorem asks and its section V-A does."""


class _Split(NamedTuple):
    """Algorithm 1, line 1: shares of the objective, of its noise and of the output."""

    epsilon1: float
    epsilon2: float
    epsilon3: float
    delta1: float
    delta2: float


class _ApproximateMinima(Solver):
    """What AMP and H-F AMP share; they differ in how they split the budget."""

    calibration: str
    unsafe: bool
    gradient_bound: float | None
    minimizer: Minimizer | None

    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
    demands: ClassVar[tuple[str, ...]] = (
        "the penalty covers all weights, the intercept's included",
        "the gradient bound is fixed in advance and certified on the exact rows",
        "the part of ε that pays for curvature, which sets the least penalty, is below 1",
    )
    needs_delta: ClassVar[bool] = True
    needs_smooth_loss: ClassVar[bool] = True
    needs_convex_loss: ClassVar[bool] = True
    needs_row_bound: ClassVar[bool] = True
    takes_outputs: ClassVar[bool] = True
    composes: ClassVar[tuple[Measure, ...]] = ("profile",)

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
        room = Room.of(budget, n_models)
        epsilon = room.true_epsilon(constants(problem), tilt)
        found = true_budget(self.name, room.whole, epsilon, self.unsafe)
        return budget if found == room.whole else found

    def solve(
        self,
        problem: Problem,
        curator: Curator,
        budget: Budget,
        progress: Callable[[Progress], None] | None = None,
    ) -> Solution:
        """Tilt, minimise, add noise, release."""
        self.plan(problem, budget, curator.n_models)
        tilt = self._tilt(problem, budget, curator.n_models)
        minimum, composed = open_minimum(tilt, problem, curator, budget)
        words = (
            f"of ε, {minimum.curvature_cost:.4g} go to curvature; the noise on the output is "
            f"{minimum.output_mu:.4g}-GDP and hides the distance to the exact minimum",
            f"the sum over rows is penalised with λ = {tilt.ridge:.6g} and tilted by Gaussian "
            f"noise of standard deviation {tilt.scale:.6g}; each row's gradient has norm at most "
            f"{problem.lipschitz:.6g}",
            *composed,
        )
        return run(tilt, problem, curator, minimum, self.minimizer, progress, words)

    def _split(self, problem: Problem, epsilon: float, delta: float) -> _Split:
        raise NotImplementedError

    def _tilt(self, problem: Problem, budget: Budget, n_models: int) -> Tilt:
        part = part_of(budget, n_models)
        if self.calibration == "published":
            return check_tilt(self._published(problem, part), problem)
        return check_tilt(self._tight(problem, part, Room.of(budget, n_models)), problem)

    def _published(self, problem: Problem, part: Budget) -> Tilt:
        """Lines 2, 3 and 6 of Algorithm 1, for the sum over rows instead of their mean."""
        split = self._split(problem, part.epsilon, part.delta)
        loss = problem.loss
        curvature = 1.0 if type(loss) is Logistic else curvature_of(loss)  # the paper's β = L²
        rank = min(problem.n_parameters, 2 * loss.hessian_rank)
        smoothness = curvature * problem.row_norm_bound**2
        ridge = rank * smoothness / (split.epsilon1 - split.epsilon3)
        shift = part.relation.rows_changed * problem.lipschitz
        # The printed σ₂ is for nγ/Λ; noise multipliers here are relative to 2nγ/Λ.
        return Tilt(
            ridge=max(ridge, problem.n_rows * problem.penalty.alpha),
            scale=shift * _spread(split.delta1) / split.epsilon3,
            pure=False,
            output=Gaussian(_spread(split.delta2) / (2 * split.epsilon2)),
            gradient_bound=self._gradient_bound(problem),
        )

    def _tight(self, problem: Problem, part: Budget, room: Room) -> Tilt:
        """Λ and the output's noise by the same split; the least noise for the rest."""
        split = self._split(problem, part.epsilon, part.delta)
        facts = constants(problem)
        ridge = max(
            ridge_for(split.epsilon1 - split.epsilon3, rank=facts.rank, trace=facts.trace),
            problem.n_rows * problem.penalty.alpha,
        )
        mu = conversions.mu_from_epsilon(split.epsilon2, split.delta2)
        output = Gaussian(math.nextafter(1 / mu, math.inf))
        return Tilt(
            ridge=ridge,
            scale=room.scale(facts, ridge, output),
            pure=False,
            output=output,
            gradient_bound=self._gradient_bound(problem),
        )

    def _gradient_bound(self, problem: Problem) -> float:
        """γ: 1/n² as in the paper; when tight, less where few rows make that a lot."""
        if self.gradient_bound is not None:
            return self.gradient_bound
        published = 1 / problem.n_rows**2
        if self.calibration == "published":
            return published
        return min(published, SMALLEST_BOUND * problem.lipschitz / problem.n_rows)

    def _check_settings(self) -> None:
        choice(self, "calibration", ("tight", "published"))
        flags(self, "unsafe")
        numbers(self, "gradient_bound", least=1e-30, most=1e30, optional=True)
        functions(self, "minimizer")


@dataclass(frozen=True)
class AMP(_ApproximateMinima):
    """The minimum of an objective tilted by noise, found roughly; more noise hides how roughly.

    Parameters
    ----------
    calibration : {"tight", "published"}
        The paper's constants, or the least noise a sound proof allows for the same split.
    unsafe : bool
        Run published constants even where they break the promise; the guarantee states the
        true ε.
    output_fraction : float
        f: ε₂ = f·ε and δ₂ = f·δ hide the distance between the point found and the minimum.
    objective_fraction : float
        f₁: ε₃ = f₁·ε₁ scales the noise; ε₁ − ε₃, which must be below 1, sets the penalty. When
        ``"tight"``, f₁ is raised where it would not be.
    gradient_bound : float, optional
        γ, the bound on the mean's gradient at the point found. By default 1/n², when ``"tight"``
        at most 10⁻⁶·L/n with L the bound on a row's gradient; never below what can be certified.
    minimizer : callable, optional
        Replaces ``scipy.optimize.minimize``; same signature.
    """

    calibration: Literal["tight", "published"] = "tight"
    _: KW_ONLY
    unsafe: bool = False
    output_fraction: float = 0.01
    objective_fraction: float = 0.9
    gradient_bound: float | None = None
    minimizer: Minimizer | None = None

    name: ClassVar[str] = "amp"
    paper: ClassVar[str] = (
        "Iyengar, Near, Song, Thakkar, Thakurta & Wang, IEEE S&P 2019, Algorithm 1"
    )

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        self._check_settings()
        numbers(self, "output_fraction", "objective_fraction", least=1e-9, most=1 - 1e-9)

    def _split(self, problem: Problem, epsilon: float, delta: float) -> _Split:
        epsilon1 = (1 - self.output_fraction) * epsilon
        fraction = self.objective_fraction
        if self.calibration == "tight":
            fraction = max(fraction, 1 - LARGEST_COST / epsilon1)
        if not (1 - fraction) * epsilon1 < 1:
            raise ValueError(
                "The proof needs the part of ε that pays for curvature, (1 - objective_fraction)·"
                f"(1 - output_fraction)·ε, to be below 1; it is {(1 - fraction) * epsilon1:.4g}. "
                f"Use objective_fraction >= {1 - LARGEST_COST / epsilon1:.6g}, or "
                "calibration='tight'."
            )
        return _divide(epsilon, delta, self.output_fraction, fraction)


@dataclass(frozen=True)
class AMPHF(_ApproximateMinima):
    """As amp, without hyper-parameters: the split of the budget follows from ε and the dimension.

    Parameters
    ----------
    calibration, unsafe, gradient_bound, minimizer
        As in `AMP`.
    dimensions : {"auto", "low", "high"}
        Which of the paper's two rules for ε₃ to use; ``"auto"``: high if there are at least as
        many weights as rows.
    """

    calibration: Literal["tight", "published"] = "tight"
    _: KW_ONLY
    unsafe: bool = False
    dimensions: Literal["auto", "low", "high"] = "auto"
    gradient_bound: float | None = None
    minimizer: Minimizer | None = None

    name: ClassVar[str] = "amp-hf"
    paper: ClassVar[str] = (
        "Iyengar, Near, Song, Thakkar, Thakurta & Wang, IEEE S&P 2019, section V-A"
    )

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        self._check_settings()
        choice(self, "dimensions", ("auto", "low", "high"))

    def _split(self, problem: Problem, epsilon: float, delta: float) -> _Split:
        epsilon1 = 0.99 * epsilon
        high = self.dimensions == "high" or (
            self.dimensions == "auto" and problem.n_parameters >= problem.n_rows
        )
        usual = 0.97 if high else min(0.887 + 0.019 / epsilon1**0.373, 0.99)
        return _divide(epsilon, delta, 0.01, max(usual, 1 - LARGEST_COST / epsilon1))


def _divide(epsilon: float, delta: float, output: float, noise: float) -> _Split:
    """ε₂ = f·ε, δ₂ = f·δ, ε₃ = f₁·ε₁; sums stay below ε and δ."""
    keep = (1 - output) * (1 - 2.0**-50)
    return _Split(keep * epsilon, output * epsilon, noise * keep * epsilon, keep * delta,
                  output * delta)  # fmt: skip


def _spread(delta: float) -> float:
    """The paper's lemma III.1: σ = (Δ/ε)·(1 + √(2 ln(1/δ)))."""
    return 1 + math.sqrt(2 * math.log(1 / delta))
