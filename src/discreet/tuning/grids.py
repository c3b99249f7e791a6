"""Grids of settings that benchmarks tune over, and which methods can be tuned privately.

The grids are public: wide steps around what the papers tried and around the defaults.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from discreet.errors import NotSupported
from discreet.solvers import Solver, resolve

__all__ = ["GRIDS", "check_tunable", "solver_with"]

Setting = dict[str, Any]


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
"""The settings to choose among, by solver."""

_TUNABLE = {"pure", "zcdp", "gdp"}
_WHY = {
    "approximate": "it is accounted as one (ε, δ) for all its steps, without a Rényi curve",
    "profile": "it is accounted by a δ for each ε, which does not bound its Rényi divergence",
}


def solver_with(name: str, setting: Setting) -> Solver:
    """The solver of that name with these settings."""
    return replace(resolve(name), **setting)  # type: ignore[type-var]


def check_tunable(solver: Solver) -> None:
    """Refuse a solver whose runs have no bound in zCDP: the price of choosing rests on one.

    Raises
    ------
    NotSupported
        With the reason.
    """
    if not solver.private:
        raise NotSupported(f"solver={solver.name!r} protects nobody; tuning it cannot be private.")
    for measure in solver.composes:
        if measure not in _TUNABLE:
            raise NotSupported(
                f"solver={solver.name!r} cannot be tuned privately: {_WHY[measure]}. The price of "
                "choosing the best run is known for runs with a bound in zCDP or Gaussian DP, such "
                "as those of 'agd', 'gd' or 'frank-wolfe'."
            )
