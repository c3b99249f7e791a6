"""Settings that a tuning selects from, and the plan of its runs.

Nothing here is trusted: a `RunBudget` is checked when it is made, and each fit against it when it
is done. A wrong plan is refused, or wastes budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

from scipy.optimize import brentq

from discreet import validate
from discreet.accounting import conversions
from discreet.core import Budget, Gaussian
from discreet.errors import NotSupported, PrivacyError
from discreet.solvers import Solver, resolve
from discreet.tuning.laws import MOST, Law, NegativeBinomial, Poisson, binomial_mean
from discreet.tuning.runs import SLACK, RunBudget

Setting = dict[str, Any]

SCORE_NOISE = 0.002  # target standard deviation of a score, as a share of the number of rows
LEAST_SHARE = 0.02  # of a run's budget, for its score
MOST_SHARE = 0.25  # the same: most of the budget is for the fit
MOST_RUNS = 5.0  # expected by default: beyond it the Poisson law gets expensive
_FEWEST = 1.05  # least expected number of runs: fewer are no selection


def _grid(**values: tuple[Any, ...]) -> tuple[Setting, ...]:
    return tuple(dict(zip(values, choice, strict=True)) for choice in product(*values.values()))


GRIDS: dict[str, tuple[Setting, ...]] = {
    "agd": _grid(splits=(10, 30, 60), gradient_clip=(1.0, 3.0)),
    "gd": _grid(step_size=(1.0, 3.0, 10.0, 30.0), gradient_clip=(0.3, 1.0)),
    "frank-wolfe": _grid(radius=(1.0, 10.0, 20.0, 50.0), iterations=(50, 200)),
    "outpert": _grid(weight_norm=(0.3, 1.0, 3.0, 10.0, 30.0, 100.0)),
    "permutation-sgd": _grid(weight_norm=(0.3, 1.0, 3.0, 10.0, 30.0, 100.0)),
    "privgene": _grid(generations=(30, 100), mutation=(0.3, 1.0, 3.0)),
}
"""Grids of solvers: wide steps around the papers' values and the defaults."""

_TUNABLE = {"pure", "zcdp", "gdp"}
_WHY = {
    "approximate": "it is accounted as one (ε, δ) for all its steps, without a Rényi curve",
    "profile": "it is accounted by a δ for each ε, which does not bound its Rényi divergence",
}


def solver_grid(name: str) -> list[Setting]:
    """Return the grid of a solver in `GRIDS` as settings of an estimator: ``{"solver": …}``."""
    if name not in GRIDS:
        raise ValueError(f"there is a grid for {', '.join(GRIDS)}; got {name!r}. Pass your own.")
    solver: Any = resolve(name)
    return [{"solver": replace(solver, **setting)} for setting in GRIDS[name]]


def check_tunable(solver: Solver) -> None:
    """Raise `NotSupported` if a solver's runs have no bound in zCDP, which a selection needs."""
    if not solver.private:
        raise NotSupported(
            f"solver={solver.name!r} is not private, so it cannot be tuned privately."
        )
    for measure in solver.composes:
        if measure not in _TUNABLE:
            raise NotSupported(
                f"solver={solver.name!r} cannot be tuned privately: {_WHY[measure]}. The cost of "
                "selecting the best run is known for runs with a bound in zCDP or Gaussian DP. Use "
                "'agd', 'gd' or 'frank-wolfe'."
            )


def settings_of(estimator: Any, grid: Sequence[Mapping[str, Any]] | None) -> list[Setting]:
    """Return the settings as dicts; they leave the budget alone."""
    if grid is None:
        solver = estimator.solver
        grid = solver_grid(solver if isinstance(solver, str) else solver.name)
    settings = [dict(setting) for setting in grid]
    if len(settings) < 2:
        raise ValueError(
            f"the grid must have two settings or more; got {len(settings)}. With a single setting "
            "there is nothing to tune: fit it."
        )
    for setting in settings:
        reserved = sorted({"epsilon", "delta", "relation", "random_state"} & set(setting))
        if reserved:
            raise PrivacyError(
                f"a setting of the grid may not change the budget; got {reserved}. Set epsilon, "
                "delta and relation on the estimator and random_state in tune."
            )
    return settings


# ---- the plan of runs


def negative_binomial(mean: float, shape: float) -> NegativeBinomial:
    """Return the distribution of this shape with approximately this mean."""

    def excess(log_gamma: float) -> float:
        return math.log(binomial_mean(shape, math.exp(log_gamma)) / mean)

    return NegativeBinomial(float(shape), math.exp(float(brentq(excess, math.log(1e-6), -1e-9))))


def poisson(mean: float) -> Poisson:
    """Return the Poisson distribution with approximately this mean."""
    return Poisson(float(brentq(lambda rate: rate / -math.expm1(-rate) - mean, 1e-6, MOST)))


LAWS: dict[str, Callable[[float], Law]] = {  # by name, each constructed from its mean
    "poisson": poisson,
    "logarithmic": lambda mean: negative_binomial(mean, 0.0),
    "geometric": lambda mean: negative_binomial(mean, 1.0),
}


def law_of(name: str, mean: float) -> Law:
    """Return the distribution of this name and mean."""
    remedy = "About the number of settings is typical; a single run needs no tuning."
    mean = validate.number("expected_runs", mean, least=_FEWEST, most=MOST, remedy=remedy)
    return LAWS[validate.choice("law", name, LAWS)](mean)


@lru_cache(maxsize=256)
def largest_rho(law: Law, budget: Budget) -> float:
    """Return the largest ρ such that the best of K runs of ρ-zCDP keeps a budget with δ > 0.

    It is a lower bound, checked before it is returned: ``law.epsilon(rho, delta) <= epsilon``.
    """
    most = conversions.rho_from_epsilon(budget.epsilon, budget.delta)

    def excess(log_rho: float) -> float:
        return law.epsilon(math.exp(log_rho), budget.delta) - budget.epsilon

    top = math.log(most)
    rho = math.exp(float(brentq(excess, top - 20, top, xtol=1e-9)))
    while law.epsilon(rho, budget.delta) > budget.epsilon:
        rho *= 1 - 1e-9
    return rho


def planned(budget: Budget, law: Law, n_rows: int) -> RunBudget:
    """Return the budget of a run on a table of this size.

    `SCORE_NOISE` decides on the share of the score.
    """
    if budget.pure:
        raise NotSupported(
            "tuning needs delta > 0; got delta=0. Give a delta well below 1/n, such as 1e-6."
        )
    rho = largest_rho(law, budget)
    wanted = 0.5 / (SCORE_NOISE * n_rows) ** 2
    share = min(max(wanted / rho, LEAST_SHARE), MOST_SHARE)
    score = Gaussian.from_rho(share * rho * (1 - SLACK))
    return RunBudget(budget, law, rho, (1 - share) * rho, score)


def fit_budget(run: RunBudget, measures: Sequence[str]) -> Budget:
    """Return the (ε, δ) that an estimator converts to the ρ of a fit, or slightly less.

    A solver of several measures gets the one in Gaussian DP, which is the smallest.
    """
    rho = run.rho_fit * (1 - SLACK)
    delta = run.budget.delta
    if set(measures) == {"zcdp"}:
        epsilon = conversions.epsilon_from_rho(rho, delta)
    else:
        epsilon = conversions.epsilon_from_mu(math.sqrt(2 * rho), delta)
    return replace(run.budget, epsilon=epsilon)
