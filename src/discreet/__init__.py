"""Linear models under differential privacy.

>>> from discreet import LogisticRegression
>>> model = LogisticRegression(epsilon=1.0, delta=1e-6)
"""

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
from discreet.estimators.preparation import Bounds, Centre, Whiten
from discreet.privacy import Accountant, Budget, Guarantee
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
    "TableError",
    "Whiten",
    "load",
    "save",
]
