"""Private linear regressors: `LinearRegression`, `HuberRegressor` and `QuantileRegressor`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from discreet.core import Budget
from discreet.errors import NotSupported
from discreet.estimators import averaged, coefficients
from discreet.estimators.base import PrivateLinearModel, by_blocks
from discreet.estimators.familiar import familiar, warn
from discreet.estimators.method import settle
from discreet.estimators.units import Exposure, PrivacyUnits
from discreet.inference import Intervals
from discreet.objectives import L2, Huber, Loss, Pinball, SmoothPinball, Squared
from discreet.solvers import resolve
from discreet.validate import FloatArray, number

AT_BOUND = 1 - 1e-9
"""Size from which a target in [-1, 1] is at a bound, up to rounding."""


def _in_units(y: NDArray[Any], low: float, high: float, centre: float, scale: float) -> FloatArray:
    """Return targets clipped to public bounds and brought to [-1, 1]."""
    return np.asarray((np.clip(np.asarray(y, dtype=np.float64), low, high) - centre) / scale)


@dataclass(eq=False, repr=False)
class LinearRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Base class of regressors; the target is scaled to [-1, 1] by public bounds."""

    _: KW_ONLY
    target_bounds: tuple[float, float] | None = None
    intercept_: float = field(init=False)

    _normal_errors: ClassVar[bool] = True
    _errors_need: ClassVar[tuple[str, ...]] = (
        "errors of one distribution, symmetric if the intercept is of interest",
    )

    def fit(
        self, X: Any, y: ArrayLike, groups: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the model within the budget.

        Parameters
        ----------
        X, groups, sample_weight
            As in `LogisticRegression.fit`.
        y : array of shape (n_samples,)
            Target; values outside ``target_bounds`` are clipped to them.
        """
        return self._fit(X, y, groups, sample_weight)

    def _fit(
        self,
        X: Any,
        y: ArrayLike,
        groups: Any,
        sample_weight: ArrayLike | None,
        exposure: Exposure | None = None,
        aside: str | None = None,
    ) -> Self:
        settings = settle(self)
        private = settings.method is None or settings.method.solver.private
        if self.target_bounds is None and private:
            warn(
                "Without target_bounds no target is clipped, but the contribution of each row to "
                "the fit is. Targets whose mean is far from 0, compared with their spread, can "
                "make the fit unusable. Pass target_bounds=(low, high), public bounds of the "
                "target."
            )
        if self.schema is not None:
            groups = self._unit_of(X, groups)
        table = X
        X, target = self._read(X, y, settings, numbers=True, groups=groups, aside=aside)
        units = PrivacyUnits.of(X, groups, sample_weight, self.rows_per_unit, self.weight_bound)
        offset = self._offset(table)
        if offset is not None:
            assert target is not None  # tables with a formula are of this process
            target, exposure = self._without_offset(target, offset, exposure)
        if exposure is not None:
            target, units = exposure.applied(X, target, units)
        public: tuple[str, ...] = ()
        bounds = (-np.inf, np.inf)
        if self.target_bounds is not None:
            public = ("the bounds of the target", *self._clipped())
            bounds = self._fit_bounds()
        middle, half = self._target_units()
        rule = partial(_in_units, low=bounds[0], high=bounds[1], centre=middle, scale=half)
        scale, centre = self._margin_units()
        about: Any = {"units": units, "public": public, "scale": scale, "centre": centre}
        if offset is None or exposure is not None:
            about["ends"] = self._scaled_ends(*bounds, middle, half)
        fitted = self._fit_models(settings, X, target, [rule], **about)
        self.coef_ = fitted.coef[0]
        self.intercept_ = float(fitted.intercept[0])
        return self

    @by_blocks
    def predict(self, X: Any) -> FloatArray:
        """Return ``X @ coef_ + intercept_``, clipped to ``target_bounds`` if given."""
        check_is_fitted(self, "coef_")
        return self._predicted(self._margins(self._read_new(X))[:, 0])

    def _without_offset(
        self, target: NDArray[Any], offset: FloatArray, exposure: Exposure | None
    ) -> tuple[FloatArray, Exposure | None]:
        """Return targets less the offset of their rows; targets are clipped to their bounds."""
        values = np.asarray(target, dtype=np.float64)
        if self.target_bounds is not None:
            values = np.clip(values, *self._bounds())
        return values - offset, exposure

    def _fit_bounds(self) -> tuple[float, float]:
        """Return the public bounds of what is fitted: of the target, less the offset if any."""
        low, high = self._bounds()
        if self.design_ is None or not self.design_.has_offset:
            return low, high
        known = self.design_.terms.offset_interval
        return low - known.high, high - known.low

    def _predicted(self, margins: FloatArray) -> FloatArray:
        """Return predictions for margins, each from its margin alone, within the public bounds."""
        return margins if self.target_bounds is None else np.clip(margins, *self._bounds())

    def predict_interval(self, X: Any, level: float = 0.95, *, target: bool = True) -> Intervals:
        """Return intervals for new targets, or for their mean, at the rows of X.

        With ``target`` they are for the target of a new row (prediction intervals, with normal
        residuals of the measured scale), else for its mean. ``low`` and ``high`` are clipped to
        ``target_bounds``, and NaN, with a warning, where a coefficient that is used has no
        interval; the variances are by source.
        """
        check_is_fitted(self, "coef_")
        if target and not self._normal_errors:
            raise NotSupported(
                f"{type(self).__name__} has intervals of what it predicts, not of single targets. "
                "Pass target=False."
            )
        table = self._read_new(X)
        averaged.warn(self, table)
        residual = coefficients.residual_variance(self) if target and self.covariances_ else 0.0
        found = coefficients.intervals(self, table, level, residual)
        return found._replace(low=self._predicted(found.low), high=self._predicted(found.high))

    def _clipped(self) -> tuple[str, ...]:
        if self.target_bounds is None:
            return ()
        low, high = self._bounds()
        return (f"targets beyond the bounds [{low:g}, {high:g}] are clipped to them",)

    def _objective(self) -> tuple[Budget, Loss, L2]:
        self._target_units()
        return super()._objective()

    def _bounds(self) -> tuple[float, float]:
        """Return the public bounds of the target, which are given."""
        bounds: Any = self.target_bounds
        pair = bounds.tolist() if isinstance(bounds, np.ndarray) else bounds
        try:
            low, high = pair if isinstance(pair, tuple | list) else ()
            low, high = number("low", low), number("high", high, above=low)
        except ValueError:
            raise ValueError(
                "target_bounds must be two finite numbers (low, high), low < high, or None; got "
                f"{bounds!r}."
            ) from None
        return low, high

    def _scaled_ends(
        self, low: float, high: float, centre: float, scale: float
    ) -> tuple[float, float] | None:
        """Return the bounds of scaled targets; None without bounds."""
        if self.target_bounds is None:
            return None
        return (low - centre) / scale, (high - centre) / scale

    def _target_units(self) -> tuple[float, float]:
        """Return centre and half-width of the public bounds; without intercept the centre is 0."""
        if self.target_bounds is None:
            return 0.0, 1.0
        low, high = self._fit_bounds()
        if self.fit_intercept:
            return (low + high) / 2, (high - low) / 2
        return 0.0, max(abs(low), abs(high))

    def _margin_units(self) -> tuple[float, float]:
        """Return factor and constant that bring margins of the fit to units of `predict`."""
        centre, scale = self._target_units()
        return scale, centre

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: on its checks' few dozen rows privacy leaves little score."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.regressor_tags.poor_score = True
        return tags


@familiar
@dataclass(eq=False, repr=False)
class LinearRegression(LinearRegressor):
    """Least squares under differential privacy.

    Minimises half the mean squared error plus ``alpha/2·‖w‖²`` (intercept included), on a target
    scaled to [-1, 1]. Predictions are clipped to ``target_bounds``: a row whose target is at a
    bound has no error where ``X @ coef_ + intercept_`` is beyond it, but for ``inference=True``.

    Parameters
    ----------
    epsilon, delta, relation, solver, data_norm, fit_intercept, preparation, \
rows_per_unit, features, columns, schema, inference, cov_type, weight_bound, random_state, ledger, \
progress, verbose
        As in `LogisticRegression`. With ``solver="auto"`` a part of the budget prepares the rows
        and measures moments of rows and targets, and the rest pays for a few Newton-like steps.
    alpha : float, default=1e-4
        Strength of the penalty, in units of the rows that the model sees. With ``solver="auto"``
        these are prepared rows, unless ``data_norm`` is given and alpha is larger than the ridge
        that noise would call for: then they are the rows as given, clipped to ``data_norm``.
        Where noise calls for a larger ridge, it is used.
    target_bounds : (float, float), optional
        Public bounds of the target; targets in the fit and predictions are clipped to them. Without
        bounds no target is clipped, but the contribution of each row to the fit is. Targets whose
        mean is far from 0, compared with their spread, can make the fit unusable: it warns.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients in units of X and of the target: `predict` is ``X @ coef_ + intercept_``,
        clipped to ``target_bounds``.
    intercept_ : float
        Constant term.
    features_, prepared_coef_, prepared_intercept_, guarantee_, trace_, preparation_, \
covariances_, size_
        As in `LogisticRegression`.

    Notes
    -----
    **Privacy.** As in `LogisticRegression`; the bounds of the target are public, so clipping
    predictions to them costs nothing.
    """

    _has_intervals: ClassVar[bool] = True
    _least_squares: ClassVar[bool] = True

    def _loss(self) -> Loss:
        return Squared(None if self.target_bounds is None or self.inference is True else AT_BOUND)


@familiar
@dataclass(eq=False, repr=False)
class HuberRegressor(LinearRegressor):
    """Robust regression with the Huber loss under differential privacy.

    Minimises the mean Huber loss plus ``alpha/2·‖w‖²`` (intercept included), on a target scaled to
    [-1, 1]. Attributes and privacy are those of `LinearRegression`.

    Parameters
    ----------
    epsilon, delta, relation, solver, alpha, data_norm, fit_intercept, preparation, \
rows_per_unit, features, columns, schema, inference, cov_type, weight_bound, random_state, ledger, \
progress, verbose, target_bounds
        As in `LinearRegression`.
    threshold : float, default=0.5
        Residuals beyond it count linearly. In units of half the width of ``target_bounds`` if
        given, else in the target's own.
    """

    _has_intervals: ClassVar[bool] = True

    _: KW_ONLY
    threshold: float = 0.5

    def _loss(self) -> Loss:
        return Huber(self.threshold)


@familiar
@dataclass(eq=False, repr=False)
class QuantileRegressor(LinearRegressor):
    """Regression of a quantile, such as the median, under differential privacy.

    Minimises the mean pinball loss plus ``alpha/2·‖w‖²`` (intercept included), on a target scaled
    to [-1, 1]. Its kink is smoothed over ±0.02 for ``"auto"`` and solvers that need a smooth loss:
    it is then the quantile of targets blurred by ±1/100 of the width of ``target_bounds``.
    Attributes and privacy are those of `LinearRegression`.

    Parameters
    ----------
    epsilon, delta, relation, solver, alpha, data_norm, fit_intercept, preparation, \
rows_per_unit, features, columns, schema, inference, cov_type, weight_bound, random_state, ledger, \
progress, target_bounds
        As in `LinearRegression`.
    quantile : float, default=0.5
        The quantile, from 0.01 to 0.99.
    """

    _: KW_ONLY
    quantile: float = 0.5

    _has_intervals: ClassVar[bool] = True
    _normal_errors: ClassVar[bool] = False
    _errors_need: ClassVar[tuple[str, ...]] = ("errors of one density at the quantile",)

    def _loss(self) -> Loss:
        exact = Pinball(self.quantile)
        if isinstance(self.solver, str) and self.solver == "auto":
            return SmoothPinball(self.quantile)
        return SmoothPinball(self.quantile) if resolve(self.solver).needs_smooth_loss else exact
