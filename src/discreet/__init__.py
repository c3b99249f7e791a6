"""Linear models under differential privacy.

>>> from discreet import LogisticRegression
>>> model = LogisticRegression(epsilon=1.0, delta=1e-6)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet import card as card
    from discreet import datasets as datasets
    from discreet import solvers as solvers
    from discreet import tables as tables
    from discreet import tuning as tuning
    from discreet.column_kinds import discover as discover
    from discreet.core import Budget as Budget
    from discreet.core import Guarantee as Guarantee
    from discreet.descriptive import describe as describe
    from discreet.errors import BudgetExceeded as BudgetExceeded
    from discreet.errors import LedgerError as LedgerError
    from discreet.errors import ModelFileError as ModelFileError
    from discreet.errors import NotSupported as NotSupported
    from discreet.errors import PrivacyError as PrivacyError
    from discreet.errors import PrivacyLeakWarning as PrivacyLeakWarning
    from discreet.errors import TableError as TableError
    from discreet.estimators import DiscreteTimeSurvival as DiscreteTimeSurvival
    from discreet.estimators import GammaRegressor as GammaRegressor
    from discreet.estimators import HuberRegressor as HuberRegressor
    from discreet.estimators import LinearRegression as LinearRegression
    from discreet.estimators import LinearSVC as LinearSVC
    from discreet.estimators import LogisticRegression as LogisticRegression
    from discreet.estimators import OrdinalClassifier as OrdinalClassifier
    from discreet.estimators import PoissonRegressor as PoissonRegressor
    from discreet.estimators import QuantileRegressor as QuantileRegressor
    from discreet.estimators.model_file import load as load
    from discreet.estimators.model_file import save as save
    from discreet.estimators.transformers import PrivateImputer as PrivateImputer
    from discreet.estimators.transformers import PrivateScaler as PrivateScaler
    from discreet.evaluation import evaluate as evaluate
    from discreet.evaluation import private_scorer as private_scorer
    from discreet.fitting import fit as fit
    from discreet.generalised import glm as glm
    from discreet.ledger import Ledger as Ledger
    from discreet.preparation import Bounds as Bounds
    from discreet.preparation import Centre as Centre
    from discreet.preparation import Largest as Largest
    from discreet.preparation import Magnitude as Magnitude
    from discreet.preparation import Radius as Radius
    from discreet.preparation import Scale as Scale
    from discreet.preparation import Spread as Spread
    from discreet.preparation import Whiten as Whiten
    from discreet.preparation import Windows as Windows
    from discreet.solvers import AGD as AGD
    from discreet.table_model import TableModel as TableModel
    from discreet.tuning.plan import plan as plan

__version__ = "0.1.0"

_MODULES = {
    name: module
    for module, names in {
        "solvers": "AGD",
        "preparation": "Bounds Centre Largest Magnitude Radius Scale Spread Whiten Windows",
        "core": "Budget Guarantee",
        "descriptive": "describe",
        "column_kinds": "discover",
        "errors": "BudgetExceeded LedgerError ModelFileError NotSupported "
        "PrivacyError PrivacyLeakWarning TableError",
        "estimators": "DiscreteTimeSurvival GammaRegressor HuberRegressor LinearRegression "
        "LinearSVC LogisticRegression OrdinalClassifier PoissonRegressor QuantileRegressor",
        "evaluation": "evaluate private_scorer",
        "fitting": "fit",
        "generalised": "glm",
        "ledger": "Ledger",
        "estimators.transformers": "PrivateImputer PrivateScaler",
        "estimators.model_file": "load save",
        "table_model": "TableModel",
        "tuning.plan": "plan",
    }.items()
    for name in names.split()
}
"""Module of each public name. Modules are imported when a name is first used: `import discreet`
and the command's help must not wait for SciPy."""

_PACKAGES = ("card", "datasets", "solvers", "tables", "tuning")
__all__ = sorted([*_MODULES, *_PACKAGES])


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"discreet.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    value = getattr(import_module(f"discreet.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
