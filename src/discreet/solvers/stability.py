"""What solvers share that release only the end of a descent on exact rows.

The end moves little when one row changes, if steps are short; noise grows with how far it can move,
and so with the length of the descent.
"""

from __future__ import annotations

import math

from discreet.accounting import conversions
from discreet.core import Budget, Curator, Gaussian, L2Norm
from discreet.core.mechanisms import AdditiveMechanism
from discreet.errors import NotSupported
from discreet.objectives import Huber, HuberHinge, Logistic, Loss, Problem, Squared
from discreet.solvers.base import part_of, true_budget

__all__ = [
    "UNIT",
    "check_evaluated",
    "check_sizes",
    "descent_length",
    "mechanism_for",
    "noise_to_signal",
    "published_budget",
    "published_gaussian",
    "smoothness_of",
    "weight_norm_for",
]

UNIT = 2.0**-53
"""Relative error of one rounding."""

_EVALUATED = (Logistic, HuberHinge, Huber, Squared)
"""Losses whose computed slope has the error bound that the proofs use."""

_MOST = 1e20


def check_evaluated(name: str, loss: Loss) -> None:
    """Refuse losses whose slopes have no proven error bound."""
    if type(loss) not in _EVALUATED:  # exact type: a subclass may compute something else
        raise NotSupported(
            f"solver={name!r} releases the end of a descent on exact rows, so it needs a bound on "
            f"the rounding error of the loss's slope; {loss.name!r} has none. Use the logistic, "
            "huber-hinge, huber or squared loss."
        )


def check_sizes(*sizes: float) -> None:
    """Refuse problems whose norms, constants and steps could overflow or vanish."""
    if not all(1 / _MOST <= size <= _MOST for size in sizes):  # also for what is not a number
        raise ValueError(
            "constants of this problem (norms of rows and gradients, smoothness, step sizes, "
            f"length of the descent) are not between {1 / _MOST:g} and {_MOST:g}: rescale the "
            "columns."
        )


def smoothness_of(problem: Problem) -> float:
    """β, for solvers that take smooth losses only."""
    smoothness = problem.smoothness
    if smoothness is None:
        raise NotSupported(f"a smooth loss is needed; {problem.loss.name!r} is not.")
    return smoothness


def weight_norm_for(weight_norm: float | None, loss: Loss) -> float:
    """D: what the caller guesses; else 10 for classification and 1 for regression.

    Margins of classification separate the better the longer the weights are; those of regression
    are of the size of the targets.
    """
    if weight_norm is not None:
        return weight_norm
    return 1.0 if loss.task == "regression" else 10.0


def noise_to_signal(
    problem: Problem, budget: Budget, weight_norm: float, lipschitz: float
) -> float:
    """Squared size of the noise that a unit of descent costs, relative to D².

    L²·d·ln(1/δ)/(nεD)², with d² instead of d·ln(1/δ) for pure budgets.
    """
    size = problem.n_parameters
    spread = size**2 if budget.pure else size * math.log(1 / budget.delta)
    noise = spread * (lipschitz / (problem.n_rows * budget.epsilon * weight_norm)) ** 2
    return max(noise, 1e-200)  # so that it can be divided by


def descent_length(problem: Problem, budget: Budget, weight_norm: float, lipschitz: float) -> float:
    """The sum of step sizes that balances progress and noise for a convex objective.

    Zhang et al. 2017, theorem 3 (T steps of 1/β), with the constant 1 in its Θ(·): a function of
    public numbers and of a guess D of the best weights' norm.
    """
    smoothness = smoothness_of(problem)
    noise = noise_to_signal(problem, budget, weight_norm, lipschitz)
    return (smoothness**2 / noise) ** (1 / 3) / smoothness


def published_gaussian(budget: Budget, n_models: int) -> float:
    """The papers' σ/Δ = √(2 ln(2/δ))/ε, for one of several models."""
    share = part_of(budget, n_models)
    return math.sqrt(2 * math.log(2 / share.delta)) / share.epsilon


def published_budget(
    name: str, budget: Budget, n_models: int, sensitivity: float, published: float, unsafe: bool
) -> Budget:
    """Hold the papers' noise to its claim.

    Parameters
    ----------
    name : str
        The solver.
    budget : Budget
        What was claimed.
    n_models : int
        Among how many models it is shared.
    sensitivity, published : float
        How far the end can move, and how far the paper says it can.
    unsafe : bool
        Whether to run noise that does not keep its promise.
    """
    if budget.pure:
        return budget  # `mechanism_for` never has less noise than the true sensitivity needs
    mu = math.sqrt(n_models) * sensitivity / (published * published_gaussian(budget, n_models))
    epsilon = conversions.epsilon_from_mu(mu, budget.delta)
    return true_budget(name, budget, epsilon, unsafe)


def mechanism_for(
    curator: Curator, budget: Budget, sensitivity: float, published: float | None
) -> AdditiveMechanism:
    """The noise, relative to the true sensitivity, on a budget that is opened for it.

    ``published`` is the paper's sensitivity where its noise is wanted, and None for exactly as
    much noise as the budget needs.
    """
    if budget.pure:
        epsilon = curator.open("pure")
        if published is not None:
            epsilon *= min(1.0, sensitivity / published)
        return L2Norm(epsilon * (1 - 2.0**-50))
    total = curator.open("gdp")
    if published is not None:
        return Gaussian(published * published_gaussian(budget, curator.n_models) / sensitivity)
    return Gaussian(1 / math.sqrt(total) * (1 + 2.0**-50))
