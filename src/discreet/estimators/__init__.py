"""The scikit-learn face of discreet."""

from discreet.estimators.classifiers import LinearSVC, LogisticRegression
from discreet.estimators.regressors import HuberRegressor, LinearRegression

__all__ = ["HuberRegressor", "LinearRegression", "LinearSVC", "LogisticRegression"]
