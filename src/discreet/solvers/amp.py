"""Approximate minima perturbation (AMP), and its variant without hyper-parameters (H-F AMP).

Iyengar, Near, Song, Thakkar, Thakurta & Wang, "Towards Practical Differentially Private Convex
Optimization", IEEE S&P 2019, Algorithm 1 and section V-A. Perturb the objective with Gaussian
noise, find a point at which its gradient is at most γ, and add noise that hides the distance from
there to the minimum.

Differences from the paper:

- the bound γ is fixed in advance and certified; the authors' benchmark doubles it until their
  optimiser succeeds, which makes it depend on the data;
- two approximate minima can be 2nγ/Λ apart, not nγ/Λ: ``"published"`` keeps the printed noise and
  is held to the ε it really has; ``"tight"`` uses the true distance;
- ``"tight"`` charges the determinants c = k·ln(1 + t/(kΛ)) instead of rβ/Λ, and both parts are
  composed by the bound on their δ at every ε, with a preparation and with each other.

Proof: docs/proofs/amp.md.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, NamedTuple

from discreet.accounting import conversions
from discreet.accounting.objective_perturbation import ridge_for
from discreet.core import Budget, Gaussian
from discreet.exact import (
    SMALLEST_BOUND,
    Constants,
    Headroom,
    Optimizer,
    Perturbation,
    PerturbedMinimum,
    curvature_of,
)
from discreet.objectives import Logistic, Problem
from discreet.solvers.base import part_of
from discreet.solvers.objpert import MinimumSolver
from discreet.validate import check_fields, choice, number

LARGEST_COST = 0.99
"""ε₁ − ε₃ is kept below 1, as the paper's theorem asks and its section V-A does."""


class _Split(NamedTuple):
    """Algorithm 1, line 1: shares of the objective, of its noise and of the output."""

    epsilon1: float
    epsilon2: float
    epsilon3: float
    delta1: float
    delta2: float


class _ApproximateMinima(MinimumSolver):
    """Base of AMP and H-F AMP, which differ in the split of the budget."""

    demands: ClassVar[tuple[str, ...]] = (
        *MinimumSolver.demands,
        "the part of ε that pays for curvature, which sets the least penalty, is below 1",
    )
    needs_delta: ClassVar[bool] = True

    def _output_condition(self, minimum: PerturbedMinimum) -> str:
        perturbation = minimum.perturbation
        curvature = minimum.constants.cost(perturbation.ridge)
        return (
            f"of ε, {curvature:.4g} go to curvature; the noise on the output is "
            f"{perturbation.output_mu:.4g}-GDP and hides the distance to the exact minimum"
        )

    def _split(self, problem: Problem, epsilon: float, delta: float) -> _Split:
        """Divide the (ε, δ) of one model."""
        raise NotImplementedError

    def _calibrate(self, problem: Problem, budget: Budget, n_models: int) -> Perturbation:
        """Follow lines 2, 3 and 6 of Algorithm 1, for the sum over rows instead of their mean.

        ``"tight"``: Λ and the output's noise by the same split, and the least noise for the rest.
        """
        part, loss = part_of(budget, n_models), problem.loss
        split = self._split(problem, part.epsilon, part.delta)
        cost, least = split.epsilon1 - split.epsilon3, problem.n_rows * problem.penalty.alpha
        if self.calibration == "published":
            curvature = 1.0 if type(loss) is Logistic else curvature_of(loss)  # the paper's β = L²
            rank = min(problem.n_parameters, 2 * loss.hessian_rank)
            smoothness = curvature * problem.row_norm_bound**2
            ridge = max(rank * smoothness / cost, least)
            shift = part.relation.rows_changed * problem.lipschitz
            scale = shift * _gaussian_factor(split.delta1) / split.epsilon3
            # The printed σ₂ is for nγ/Λ; noise multipliers here are relative to 2nγ/Λ.
            output = Gaussian(_gaussian_factor(split.delta2) / (2 * split.epsilon2))
        else:
            constants = Constants.of(problem)
            ridge = max(ridge_for(cost, rank=constants.rank, trace=constants.trace), least)
            mu = conversions.mu_from_epsilon(split.epsilon2, split.delta2)
            output = Gaussian(math.nextafter(1 / mu, math.inf))
            scale = Headroom.of(budget, n_models).scale(constants, ridge, output)
        return Perturbation(ridge, scale, False, output, self._gradient_bound(problem))

    def _gradient_bound(self, problem: Problem) -> float:
        """Return γ: 1/n² as in the paper; when tight, less where few rows make that a lot."""
        if self.gradient_bound is not None:
            return self.gradient_bound
        published = 1 / problem.n_rows**2
        if self.calibration == "published":
            return published
        return min(published, SMALLEST_BOUND * problem.lipschitz / problem.n_rows)


@dataclass(frozen=True)
class AMP(_ApproximateMinima):
    """Releases an approximate minimum of a perturbed objective, with noise that hides its error.

    Parameters
    ----------
    calibration : {"tight", "published"}
        The paper's constants, or the least noise a sound proof allows for the same split.
    unsafe : bool
        Run published constants that do not keep their promise; the guarantee has the true ε.
    output_fraction : float
        f: ε₂ = f·ε and δ₂ = f·δ hide the distance between the point found and the minimum.
    objective_fraction : float
        f₁: ε₃ = f₁·ε₁ scales the noise; ε₁ − ε₃, which must be below 1, sets the penalty. When
        ``"tight"``, f₁ is raised where it would not be.
    gradient_bound : float, optional
        γ, the bound on the mean's gradient at the point found. By default 1/n², when ``"tight"``
        at most 10⁻⁶·L/n with L the bound on a row's gradient; never below what can be certified.
    optimizer : str or callable, optional
        Any optimiser, by name of a SciPy method or as a function, as in `ObjPert`: its point is
        released only if a certificate holds there.
    """

    calibration: Literal["tight", "published"] = "tight"
    _: KW_ONLY
    unsafe: bool = False
    output_fraction: float = 0.01
    objective_fraction: float = 0.9
    gradient_bound: float | None = None
    optimizer: Optimizer | None = None

    name: ClassVar[str] = "amp"
    paper: ClassVar[str] = (
        "Iyengar, Near, Song, Thakkar, Thakurta & Wang, IEEE S&P 2019, Algorithm 1"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        fractions = ("output_fraction", "objective_fraction")
        check_fields(self, number, *fractions, least=1e-9, most=1 - 1e-9)

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
    """Variant of amp without hyper-parameters: the split follows from ε and the dimension.

    Parameters
    ----------
    calibration, unsafe, gradient_bound, optimizer
        As in `AMP`.
    dimensions : {"auto", "low", "high"}
        Rule of the paper for ε₃; ``"auto"``: high if there are at least as many weights as rows.
    """

    calibration: Literal["tight", "published"] = "tight"
    _: KW_ONLY
    unsafe: bool = False
    dimensions: Literal["auto", "low", "high"] = "auto"
    gradient_bound: float | None = None
    optimizer: Optimizer | None = None

    name: ClassVar[str] = "amp-hf"
    paper: ClassVar[str] = (
        "Iyengar, Near, Song, Thakkar, Thakurta & Wang, IEEE S&P 2019, section V-A"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, choice, "dimensions", known=("auto", "low", "high"))

    def _split(self, problem: Problem, epsilon: float, delta: float) -> _Split:
        epsilon1 = 0.99 * epsilon
        high = self.dimensions == "high" or (
            self.dimensions == "auto" and problem.n_parameters >= problem.n_rows
        )
        usual = 0.97 if high else min(0.887 + 0.019 / epsilon1**0.373, 0.99)
        return _divide(epsilon, delta, 0.01, max(usual, 1 - LARGEST_COST / epsilon1))


def _divide(epsilon: float, delta: float, output: float, noise: float) -> _Split:
    """Split by ε₂ = f·ε, δ₂ = f·δ, ε₃ = f₁·ε₁; sums stay below ε and δ."""
    keep = (1 - output) * (1 - 2.0**-50)
    epsilon1, epsilon2, epsilon3 = keep * epsilon, output * epsilon, noise * keep * epsilon
    return _Split(epsilon1, epsilon2, epsilon3, keep * delta, output * delta)


def _gaussian_factor(delta: float) -> float:
    """Return σ·ε/Δ by the paper's lemma III.1: 1 + √(2 ln(1/δ))."""
    return 1 + math.sqrt(2 * math.log(1 / delta))
