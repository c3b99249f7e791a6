"""Approximate minima perturbation (AMP), and its variant without hyper-parameters (H-F AMP).

Iyengar, Near, Song, Thakkar, Thakurta & Wang, "Towards Practical Differentially Private Convex
Optimization", IEEE S&P 2019, Algorithm 1 and section V-A. Perturb the objective with Gaussian
noise, find a point at which its gradient is at most γ, and add noise that hides the distance from
there to the minimum.

Differences from the paper:

- the printed σ₂ is for half of the distance that its lemma has: it is kept when published, and
  the true ε is computed;
- γ is fixed in advance and certified, where the authors' code doubles it;
- more than two classes are one model unless ``one_vs_rest``.

Proof: docs/proofs/amp.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from discreet import exact
from discreet.accounting import conversions
from discreet.accounting.calibration import ridge_for
from discreet.core import Budget, Gaussian
from discreet.objectives import Logistic, Problem
from discreet.papers.objpert import MinimumSolver, Share
from discreet.solvers import base

LARGEST_COST = 0.99  # of ε₁ − ε₃: below 1, as the paper's theorem asks and its section V-A does


class _ApproximateMinima(MinimumSolver):
    """Base of AMP and H-F AMP, which differ in the split of the budget."""

    demands: ClassVar[tuple[str, ...]] = (
        *MinimumSolver.demands,
        "the part of ε that pays for curvature, which sets the least penalty, is below 1",
    )
    needs_delta: ClassVar[bool] = True

    def _fractions(self, problem: Problem, epsilon: float) -> tuple[float, float]:
        """Return f and f₁, the shares of the output and of the noise, for the ε of one model."""
        raise NotImplementedError

    def _calibrate(self, problem: Problem, budget: Budget, n_models: int) -> exact.Perturbation:
        """Return the perturbation of algorithm 1, for the sum over rows instead of their mean.

        The split of its line 1 is ε₂ = f·ε, δ₂ = f·δ for the output, ε₃ = f₁·ε₁ for the noise.
        ``"tight"``: Λ and the output's noise by the same split, and the least noise for the rest.
        """
        part = base.part_of(budget, n_models)
        loss = problem.loss
        output_share, noise_share = self._fractions(problem, part.epsilon)
        keep = (1 - output_share) * (1 - 2.0**-50)  # sums stay below ε and δ
        epsilon1 = keep * part.epsilon
        delta1 = keep * part.delta
        epsilon2 = output_share * part.epsilon
        delta2 = output_share * part.delta
        epsilon3 = noise_share * epsilon1
        cost = epsilon1 - epsilon3
        least = problem.n_rows * problem.penalty.alpha
        if self.calibration == "published":
            # the paper's β of the logistic loss is L²
            curvature = 1.0 if type(loss) is Logistic else exact.curvature_of(loss)
            rank = min(problem.n_parameters, 2 * loss.hessian_rank)
            smoothness = curvature * problem.row_norm_bound**2
            ridge = max(rank * smoothness / cost, least)
            shift = part.relation.rows_changed * problem.lipschitz
            scale = shift * _gaussian_factor(delta1) / epsilon3
            # The printed σ₂ is for nγ/Λ; noise multipliers here are relative to 2nγ/Λ.
            output = Gaussian(_gaussian_factor(delta2) / (2 * epsilon2))
        else:
            constants = exact.Constants.of(problem)
            ridge = max(ridge_for(cost, rank=constants.rank, trace=constants.trace), least)
            mu = conversions.mu_from_epsilon(epsilon2, delta2)
            output = Gaussian(math.nextafter(1 / mu, math.inf))
            scale = exact.Headroom.of(budget, n_models).scale(constants, ridge, output)
        return exact.Perturbation(ridge, scale, False, output, self._gradient_bound(problem))

    def _gradient_bound(self, problem: Problem) -> float:
        """Return γ: 1/n² as in the paper; when tight, less where few rows make that a lot."""
        if self.gradient_bound is not None:
            return self.gradient_bound
        published = 1 / problem.n_rows**2
        if self.calibration == "published":
            return published
        return min(published, exact.SMALLEST_BOUND * problem.lipschitz / problem.n_rows)


@dataclass(frozen=True, kw_only=True)
class AMP(_ApproximateMinima):
    """Releases an approximate minimum of a perturbed objective, with noise that hides its error.

    Parameters
    ----------
    calibration : {"tight", "published"}
        The paper's constants, or the least noise a sound proof allows for the same split.
    unsafe, optimizer, one_vs_rest
        As in `ObjPert`. The paper fits more than two classes by one model per class.
    output_fraction : float
        f: ε₂ = f·ε and δ₂ = f·δ hide the distance between the point found and the minimum.
    objective_fraction : float
        f₁: ε₃ = f₁·ε₁ scales the noise; ε₁ − ε₃, which must be below 1, sets the penalty. When
        ``"tight"``, f₁ is raised where it would not be.
    gradient_bound : float, optional
        γ, the bound on the mean's gradient at the point found. By default 1/n², when ``"tight"``
        at most 10⁻⁶·L/n with L the bound on a row's gradient; never below what can be certified.
    """

    output_fraction: Share = 0.01
    objective_fraction: Share = 0.9

    name: ClassVar[str] = "amp"
    paper: ClassVar[str] = (
        "Iyengar, Near, Song, Thakkar, Thakurta & Wang, IEEE S&P 2019, Algorithm 1"
    )

    def _fractions(self, problem: Problem, epsilon: float) -> tuple[float, float]:
        epsilon1 = (1 - self.output_fraction) * epsilon
        fraction = self.objective_fraction
        least = 1 - LARGEST_COST / epsilon1
        if self.calibration == "tight":
            fraction = max(fraction, least)
        if not (1 - fraction) * epsilon1 < 1:
            raise ValueError(
                "The proof needs the part of ε that pays for curvature, (1 - objective_fraction)·"
                f"(1 - output_fraction)·ε, to be below 1; it is {(1 - fraction) * epsilon1:.4g}. "
                f"Use objective_fraction >= {least:.6g}, or calibration='tight'."
            )
        return self.output_fraction, fraction


@dataclass(frozen=True, kw_only=True)
class AMPHF(_ApproximateMinima):
    """Variant of amp without hyper-parameters: the split follows from ε and the dimension.

    Rows are clipped to norm 1 unless ``data_norm`` says otherwise, as in the paper.

    Parameters
    ----------
    calibration, unsafe, gradient_bound, optimizer, one_vs_rest
        As in `AMP`.
    dimensions : {"auto", "low", "high"}
        Rule of the paper for ε₃; ``"auto"``: high if there are at least as many weights as rows.
    """

    dimensions: Literal["auto", "low", "high"] = "auto"

    default_row_norm: ClassVar[float | None] = 1.0  # the paper's L, so that a budget is enough

    name: ClassVar[str] = "amp-hf"
    paper: ClassVar[str] = (
        "Iyengar, Near, Song, Thakkar, Thakurta & Wang, IEEE S&P 2019, section V-A"
    )

    def _fractions(self, problem: Problem, epsilon: float) -> tuple[float, float]:
        epsilon1 = 0.99 * epsilon
        high = self.dimensions == "high" or (
            self.dimensions == "auto" and problem.n_parameters >= problem.n_rows
        )
        usual = 0.97 if high else min(0.887 + 0.019 / epsilon1**0.373, 0.99)
        return 0.01, max(usual, 1 - LARGEST_COST / epsilon1)


def _gaussian_factor(delta: float) -> float:
    """Return σ·ε/Δ by the paper's lemma III.1: 1 + √(2 ln(1/δ))."""
    return 1 + math.sqrt(2 * math.log(1 / delta))
