"""Linear models under differential privacy.

>>> from discreet import LogisticRegression
>>> model = LogisticRegression(epsilon=1.0, delta=1e-6)
"""

from discreet.errors import BudgetExceeded, NotSupported, PrivacyError, PrivacyLeakWarning
from discreet.estimators import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
)
from discreet.privacy import Accountant, Budget, Guarantee
from discreet.solvers import AGD

__version__ = "0.1.0"

__all__ = [
    "AGD",
    "Accountant",
    "Budget",
    "BudgetExceeded",
    "Guarantee",
    "HuberRegressor",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "NotSupported",
    "PrivacyError",
    "PrivacyLeakWarning",
]
