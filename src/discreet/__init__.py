"""Linear models under differential privacy.

>>> from discreet import LogisticRegression
>>> model = LogisticRegression(epsilon=1.0, delta=1e-6)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet import card, solvers, tables, tuning
    from discreet.core import Budget, Guarantee
    from discreet.errors import (
        BudgetExceeded,
        LedgerError,
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
    from discreet.ledger import Ledger
    from discreet.preparation import Bounds, Centre, Radius, Scale, Spread, Whiten
    from discreet.solvers import AGD
    from discreet.tuning.plan import plan

__version__ = "0.1.0"

__all__ = [
    "AGD",
    "Bounds",
    "Budget",
    "BudgetExceeded",
    "Centre",
    "Guarantee",
    "HuberRegressor",
    "Ledger",
    "LedgerError",
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
    "plan",
    "save",
    "solvers",
    "tables",
    "tuning",
]

_MODULES = {
    "AGD": "solvers",
    "Bounds": "preparation",
    "Budget": "core",
    "BudgetExceeded": "errors",
    "Centre": "preparation",
    "Guarantee": "core",
    "HuberRegressor": "estimators",
    "Ledger": "ledger",
    "LedgerError": "errors",
    "LinearRegression": "estimators",
    "LinearSVC": "estimators",
    "LogisticRegression": "estimators",
    "ModelFileError": "errors",
    "NotSupported": "errors",
    "PrivacyError": "errors",
    "PrivacyLeakWarning": "errors",
    "Radius": "preparation",
    "Scale": "preparation",
    "Spread": "preparation",
    "TableError": "errors",
    "Whiten": "preparation",
    "load": "estimators.model_file",
    "plan": "tuning.plan",
    "save": "estimators.model_file",
}
"""Module of each public name. Modules are imported when a name is first used: `import discreet`
and the command's help must not wait for SciPy."""


def __getattr__(name: str) -> Any:
    if name in ("card", "solvers", "tables", "tuning"):
        return import_module(f"discreet.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    value = getattr(import_module(f"discreet.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
