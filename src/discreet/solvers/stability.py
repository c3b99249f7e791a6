"""How far to descend when only the end is released, and noise grows with the way there."""

from __future__ import annotations

import math

from discreet.objectives import Problem
from discreet.privacy import Budget

__all__ = ["descent_length", "noise_to_signal"]


def noise_to_signal(
    problem: Problem, budget: Budget, weight_norm: float, lipschitz: float
) -> float:
    """Squared size of the noise that a unit of descent costs, relative to D².

    L²·d·ln(1/δ)/(nεD)², with d² instead of d·ln(1/δ) for pure budgets.
    """
    size = problem.n_parameters
    spread = size**2 if budget.pure else size * math.log(1 / budget.delta)
    return spread * (lipschitz / (problem.n_rows * budget.epsilon * weight_norm)) ** 2


def descent_length(problem: Problem, budget: Budget, weight_norm: float, lipschitz: float) -> float:
    """The sum of step sizes that balances progress and noise for a convex objective.

    Zhang et al. 2017, theorem 3 (T steps of 1/β), with the constant 1 in its Θ(·): a function of
    public numbers and of a guess D of the best weights' norm.
    """
    smoothness = problem.smoothness or math.inf
    noise = noise_to_signal(problem, budget, weight_norm, lipschitz)
    return (smoothness**2 / noise) ** (1 / 3) / smoothness
