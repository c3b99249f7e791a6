"""Private linear models with the interface of scikit-learn."""

from discreet.estimators.classifiers import LinearSVC, LogisticRegression
from discreet.estimators.log_linear import GammaRegressor, PoissonRegressor
from discreet.estimators.regressors import HuberRegressor, LinearRegression, QuantileRegressor

__all__ = [
    "GammaRegressor",
    "HuberRegressor",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "PoissonRegressor",
    "QuantileRegressor",
]
