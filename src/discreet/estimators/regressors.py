"""Private linear regressors: `LinearRegression` and `HuberRegressor`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from discreet.estimators.base import FloatArray, PrivateLinearModel
from discreet.estimators.preparation import Step
from discreet.objectives import Huber, Loss, Squared
from discreet.privacy import Accountant
from discreet.solvers import Solver

__all__ = ["HuberRegressor", "LinearRegression"]


class _LinearRegressor(RegressorMixin, PrivateLinearModel):
    """Regression on a target that is brought to [-1, 1] by public bounds."""

    target_bounds: tuple[float, float] | None
    coef_: FloatArray
    intercept_: float

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit the model within the budget.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n_samples, n_features)
            Numbers only, without NaN. Float32, float64 and CSR are used as they are.
        y : array of shape (n_samples,)
            Target; values outside ``target_bounds`` are cut to them.

        Returns
        -------
        self
        """
        centre, scale = self._target_units()
        settings = self._settings()
        X, y = self._read(X, y, numbers=True)
        settings = self._choose(settings, X)
        target = np.asarray(y, dtype=np.float64)
        public: tuple[str, ...] = ()
        if self.target_bounds is not None:
            target = (np.clip(target, *self.target_bounds) - centre) / scale
            public = ("the bounds of the target",)
        weights = self._fit_models(settings, X, lambda _: target, 1, public)
        coefficients, intercepts = self._split_intercept(weights)
        self.coef_ = coefficients[0] * scale
        self.intercept_ = float(intercepts[0] * scale + centre)
        return self

    def predict(self, X: Any) -> FloatArray:
        """The predicted target of each row."""
        check_is_fitted(self, "coef_")
        return self._margins(self._read_new(X), self.coef_[None, :], np.array([self.intercept_]))[
            :, 0
        ]

    def _target_units(self) -> tuple[float, float]:
        """Centre and half-width of the public bounds; without an intercept the centre stays 0."""
        if self.target_bounds is None:
            return 0.0, 1.0
        low, high = self.target_bounds
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(
                f"target_bounds must be two finite numbers, low < high; got {self.target_bounds!r}."
            )
        if self.fit_intercept:
            return (low + high) / 2, (high - low) / 2
        return 0.0, max(abs(low), abs(high))

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what to expect."""
        tags = super().__sklearn_tags__()
        # Privacy on a few dozen rows leaves little accuracy: that is the promise, not a bug.
        tags.regressor_tags.poor_score = True
        return tags


class LinearRegression(_LinearRegressor):
    """Least squares under differential privacy.

    Minimises half the mean squared error plus ``alpha/2·‖w‖²`` (intercept included), on a target
    brought to [-1, 1].

    Parameters
    ----------
    epsilon, delta, relation, solver, data_norm, fit_intercept, preparation, random_state, \
accountant, progress
        As in `LogisticRegression`. With ``solver="auto"`` a part of the budget prepares the rows
        and measures moments of rows and targets, and the rest pays for a few Newton-like steps.
    alpha : float, default=1e-4
        Strength of the penalty, in units of the rows that the model sees. With ``solver="auto"``
        these are prepared rows, unless ``data_norm`` is given and alpha is larger than the ridge
        that noise would call for: then they are the rows as given, scaled down to ``data_norm``.
        Where noise calls for a larger ridge, it is used.
    target_bounds : (float, float), optional
        Public bounds of the target. Give them: without, targets beyond [-1, 1] are cut short by
        what every private method must clip.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients in the target's own units.
    intercept_ : float
        Constant term.
    guarantee_, trace_, preparation_
        As in `LogisticRegression`.

    Privacy
    -------
    As in `LogisticRegression`; the bounds of the target are public.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        target_bounds: tuple[float, float] | None = None,
        relation: str = "add_remove",
        solver: str | Solver = "auto",
        alpha: float = 1e-4,
        data_norm: float | None = None,
        fit_intercept: bool = True,
        preparation: Sequence[Step] | None = None,
        random_state: Any = None,
        accountant: Accountant | None = None,
        progress: Callable[[Any], None] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target_bounds = target_bounds
        self.relation = relation
        self.solver = solver
        self.alpha = alpha
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.preparation = preparation
        self.random_state = random_state
        self.accountant = accountant
        self.progress = progress

    def _loss(self) -> Loss:
        return Squared()


class HuberRegressor(_LinearRegressor):
    """Robust regression with the Huber loss under differential privacy.

    Minimises the mean Huber loss plus ``alpha/2·‖w‖²`` (intercept included), on a target brought to
    [-1, 1].

    Parameters
    ----------
    epsilon, delta, relation, solver, alpha, data_norm, fit_intercept, preparation, random_state, \
accountant, progress, target_bounds
        As in `LinearRegression`.
    threshold : float, default=0.5
        Residuals beyond it count linearly. In units of half the width of ``target_bounds`` if
        they are given, else in the target's own.

    Attributes
    ----------
    coef_, intercept_, guarantee_, trace_, preparation_
        As in `LinearRegression`.

    Privacy
    -------
    As in `LinearRegression`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        threshold: float = 0.5,
        target_bounds: tuple[float, float] | None = None,
        relation: str = "add_remove",
        solver: str | Solver = "auto",
        alpha: float = 1e-4,
        data_norm: float | None = None,
        fit_intercept: bool = True,
        preparation: Sequence[Step] | None = None,
        random_state: Any = None,
        accountant: Accountant | None = None,
        progress: Callable[[Any], None] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.threshold = threshold
        self.target_bounds = target_bounds
        self.relation = relation
        self.solver = solver
        self.alpha = alpha
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.preparation = preparation
        self.random_state = random_state
        self.accountant = accountant
        self.progress = progress

    def _loss(self) -> Loss:
        return Huber(self.threshold)
