"""Private linear models with the interface of scikit-learn."""

from discreet.estimators.classifiers import LinearSVC, LogisticRegression
from discreet.estimators.regressors import HuberRegressor, LinearRegression

__all__ = ["HuberRegressor", "LinearRegression", "LinearSVC", "LogisticRegression"]
