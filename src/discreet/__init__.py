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
        DiscreteTimeSurvival,
        GammaRegressor,
        HuberRegressor,
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        OrdinalClassifier,
        PoissonRegressor,
        QuantileRegressor,
    )
    from discreet.estimators.model_file import load, save
    from discreet.estimators.transformers import PrivateImputer, PrivateScaler
    from discreet.ledger import Ledger
    from discreet.preparation import Bounds, Centre, Magnitude, Radius, Scale, Spread, Whiten
    from discreet.solvers import AGD
    from discreet.tuning.plan import plan

__version__ = "0.1.0"

__all__ = [
    "AGD",
    "Bounds",
    "Budget",
    "BudgetExceeded",
    "Centre",
    "DiscreteTimeSurvival",
    "GammaRegressor",
    "Guarantee",
    "HuberRegressor",
    "Ledger",
    "LedgerError",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "Magnitude",
    "ModelFileError",
    "NotSupported",
    "OrdinalClassifier",
    "PoissonRegressor",
    "PrivacyError",
    "PrivacyLeakWarning",
    "PrivateImputer",
    "PrivateScaler",
    "QuantileRegressor",
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
    name: module
    for module, names in {
        "solvers": "AGD",
        "preparation": "Bounds Centre Magnitude Radius Scale Spread Whiten",
        "core": "Budget Guarantee",
        "errors": "BudgetExceeded LedgerError ModelFileError NotSupported "
        "PrivacyError PrivacyLeakWarning TableError",
        "estimators": "DiscreteTimeSurvival GammaRegressor HuberRegressor LinearRegression "
        "LinearSVC LogisticRegression OrdinalClassifier PoissonRegressor QuantileRegressor",
        "ledger": "Ledger",
        "estimators.transformers": "PrivateImputer PrivateScaler",
        "estimators.model_file": "load save",
        "tuning.plan": "plan",
    }.items()
    for name in names.split()
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
