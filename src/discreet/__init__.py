"""Linear models under differential privacy.

>>> from discreet import LogisticRegression
>>> model = LogisticRegression(epsilon=1.0, delta=1e-6)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet import card, solvers, tables, tuning
    from discreet.core import Accountant, Budget, Guarantee
    from discreet.errors import (
        BudgetExceeded,
        ModelFileError,
        NotSupported,
        PrivacyError,
        PrivacyLeakWarning,
        TableError,
    )
    from discreet.estimators import (
        HuberRegressor,
        LinearRegression,
        LinearSVC,
        LogisticRegression,
    )
    from discreet.estimators.model_file import load, save
    from discreet.preparation.pipeline import Bounds, Centre, Radius, Scale, Spread, Whiten
    from discreet.solvers import AGD

__version__ = "0.1.0"

__all__ = [
    "AGD",
    "Accountant",
    "Bounds",
    "Budget",
    "BudgetExceeded",
    "Centre",
    "Guarantee",
    "HuberRegressor",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "ModelFileError",
    "NotSupported",
    "PrivacyError",
    "PrivacyLeakWarning",
    "Radius",
    "Scale",
    "Spread",
    "TableError",
    "Whiten",
    "card",
    "load",
    "save",
    "solvers",
    "tables",
    "tuning",
]

_ROOMS = ("errors", "estimators", "estimators.model_file", "preparation.pipeline", "core")
"""Where the public names live, in the order in which they are looked for."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the command's help must not wait for SciPy."""
    if name in ("card", "solvers", "tables", "tuning"):
        return import_module(f"discreet.{name}")
    if name in __all__:
        for room in (*_ROOMS, "solvers"):
            module = import_module(f"discreet.{room}")
            if name in module.__all__:
                globals()[name] = found = getattr(module, name)
                return found
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
