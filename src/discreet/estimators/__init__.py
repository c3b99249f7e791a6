"""Private linear models with the interface of scikit-learn."""

from discreet.estimators.classifiers import LinearSVC, LogisticRegression
from discreet.estimators.levels import DiscreteTimeSurvival, OrdinalClassifier
from discreet.estimators.log_linear import GammaRegressor, PoissonRegressor
from discreet.estimators.regressors import HuberRegressor, LinearRegression, QuantileRegressor

__all__ = [
    "DiscreteTimeSurvival",
    "GammaRegressor",
    "HuberRegressor",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "OrdinalClassifier",
    "PoissonRegressor",
    "QuantileRegressor",
]
