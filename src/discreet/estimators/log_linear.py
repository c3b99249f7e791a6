"""Private regression with a log link: `PoissonRegressor` and `GammaRegressor`."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import d2_tweedie_score

from discreet.core import Budget
from discreet.design import number_of_table
from discreet.errors import NotSupported
from discreet.estimators.base import by_blocks
from discreet.estimators.familiar import familiar
from discreet.estimators.regressors import LinearRegressor
from discreet.estimators.units import Exposure
from discreet.objectives import L2, Gamma, Loss, Poisson
from discreet.objectives.compile import KernelModule
from discreet.tables.schema import as_schema
from discreet.validate import FloatArray, number

FORMULAS = KernelModule("discreet.objectives.formulas")


@dataclass(eq=False, repr=False)
class LogLinearRegressor(LinearRegressor):
    """Base class: the mean of the target is ``exp(X @ coef_ + intercept_)``.

    Targets are divided by their upper bound, which the intercept takes back: it must be there.
    """

    __metadata_request__fit: ClassVar = {"exposure": True}

    _has_intervals: ClassVar[bool] = True
    _ratio: ClassVar[str] = "rate ratio"
    _normal_errors: ClassVar[bool] = False
    _power: ClassVar[int]
    _positive: ClassVar[bool]
    _by_exposure: ClassVar[bool] = False

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        groups: Any = None,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | str | None = None,
    ) -> Self:
        """Fit the model within the budget.

        Parameters
        ----------
        X, groups, sample_weight
            As in `LogisticRegression.fit`.
        y : array of shape (n_samples,)
            Counts, rates or amounts. Values outside ``target_bounds`` are clipped to them without
            a message, as it would be about rows: negative numbers, and 0 if the lower bound is
            above it, become the lower bound. Fractions are used as they are.
        exposure : array of shape (n_samples,) or str, optional
            Time, area or number at risk behind each target: positive numbers, protected like the
            rest of the row; or the name of a column of X, which is no feature then. The mean of
            the target is then ``exposure * exp(X @ coef_ + intercept_)``, ``target_bounds`` are
            those of target over exposure, and `predict` returns the rate of an exposure of 1.
        """
        aside = exposure if isinstance(exposure, str) else None
        if aside is not None and self.schema is not None and aside in as_schema(self.schema).used:
            raise ValueError(
                f"exposure: the schema has {aside!r} as a feature. Give it the kind Ignored()."
            )
        values = number_of_table(X, "exposure", exposure)
        own = None if values is None else self._exposure(values)
        return self._fit(X, y, groups, sample_weight, own, aside)

    @by_blocks
    def predict(self, X: Any) -> FloatArray:
        """Return ``exp(X @ coef_ + intercept_)``, clipped to ``target_bounds``."""
        return super().predict(X)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return D², the share of the deviance of a constant model that the model explains.

        It is exact, and so not private.
        """
        predicted = self.predict(X)
        weights = {"sample_weight": sample_weight, "power": self._power}
        return float(d2_tweedie_score(y, predicted, **weights))

    def _exposure(self, values: ArrayLike) -> Exposure:
        return Exposure(values, None)

    def _without_offset(
        self, target: NDArray[Any], offset: FloatArray, exposure: Exposure | None
    ) -> tuple[FloatArray, Exposure | None]:
        """Return targets with the exposure that the offset is the logarithm of."""
        if exposure is not None:
            raise ValueError("the formula has an offset, and fit got exposure as well. Give one.")
        assert self.design_ is not None  # of a formula
        most = math.exp(self.design_.terms.offset_interval.high)
        return np.asarray(target), Exposure(np.exp(offset), most if self._by_exposure else None)

    def _fit_bounds(self) -> tuple[float, float]:
        """Return the public bounds of the target, over exposure if there is one."""
        return self._bounds()

    def _clipped(self) -> tuple[str, ...]:
        (text,) = super()._clipped()
        below = "an amount of 0 or less" if self._positive else "a negative count"
        return (f"{text} (over exposure, if it is given): {below} becomes {self._bounds()[0]:g}",)

    def _unchecked(self) -> tuple[str, ...]:
        return () if self._positive else ("that counts are whole numbers",)

    def _objective(self) -> tuple[Budget, Loss, L2]:
        if not self.fit_intercept:
            raise NotSupported(
                f"{type(self).__name__} needs fit_intercept=True: targets are divided by their "
                "bound, and the intercept takes it back."
            )
        return super()._objective()

    def _bounds(self) -> tuple[float, float]:
        low, high = super()._bounds()
        if low < 0 or (self._positive and low == 0):
            least = "above 0" if self._positive else "of at least 0"
            raise ValueError(
                f"target_bounds of {type(self).__name__} must be numbers {least}; got "
                f"{(low, high)!r}."
            )
        return low, high

    def _target_units(self) -> tuple[float, float]:
        """Return 0 and the upper bound."""
        if self.target_bounds is None:
            example = (0.1, 100) if self._positive else (0, 100)
            raise ValueError(
                f"{type(self).__name__} needs target_bounds=(low, high), public bounds of the "
                f"target (of target over exposure, if there is one), for example {example}."
            )
        return 0.0, self._bounds()[1]

    def _scaled_ends(
        self, low: float, high: float, centre: float, scale: float
    ) -> tuple[float, float]:
        """Return the bounds of scaled targets; counts of 0 are not clipped, they are counts."""
        return (-1.0 if low == 0.0 else low / scale), high / scale

    def _margin_units(self) -> tuple[float, float]:
        return 1.0, math.log(self._target_units()[1])

    def _predicted(self, margins: FloatArray) -> FloatArray:
        low, high = self._bounds()
        if self.design_ is not None and self.design_.has_offset:
            known = self.design_.terms.offset_interval
            low *= math.exp(known.low)
            high *= math.exp(known.high)
        means = np.empty(margins.size)
        FORMULAS.exponentials(np.minimum(margins, math.log(high)), means)
        return np.clip(means, low, high)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: targets are positive."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


@familiar
@dataclass(eq=False, repr=False)
class PoissonRegressor(LogLinearRegressor):
    """Poisson regression of counts or rates under differential privacy.

    Minimises half the mean Poisson deviance plus ``alpha/2·‖w‖²``, with the intercept counted from
    the logarithm of the target's upper bound. Means beyond that bound, which no target has, count
    as it: this makes every row's slope finite.

    Parameters
    ----------
    epsilon, delta, relation, solver, alpha, data_norm, preparation, rows_per_unit, features, \
columns, schema, inference, cov_type, weight_bound, random_state, ledger, \
progress
        As in `LinearRegression`. Intervals of the mean only: ``predict_interval(target=False)``.
    fit_intercept : bool, default=True
        Must be True.
    target_bounds : (float, float)
        Public bounds of the target, at least 0; of target over exposure, if there is one. Targets
        in the fit and predictions are clipped to them. Bounds far above all targets cost accuracy.
    exposure_bound : float, optional
        Public bound on ``exposure`` of `fit`, and required with it. The weight of a row is in
        proportion to its exposure, up to this.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients in units of X: `predict` is ``exp(X @ coef_ + intercept_)``, clipped to
        ``target_bounds``. ``exp(coef_)`` are ratios of rates.
    intercept_ : float
        Constant term.
    features_, prepared_coef_, prepared_intercept_, guarantee_, trace_, preparation_
        As in `LogisticRegression`.

    Notes
    -----
    **Privacy.** As in `LinearRegression`. Exposures are protected with the rows they belong to;
    their bound is public. Proof: docs/proofs/families.md.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import PoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 3))
    >>> y = rng.poisson(np.exp(0.5 * X[:, 0] + 1))
    >>> model = PoissonRegressor(epsilon=1.0, target_bounds=(0, 20)).fit(X, y)
    >>> bool(abs(model.coef_[0] - 0.5) < 0.1)
    True
    """

    _: KW_ONLY
    exposure_bound: float | None = None

    _errors_need: ClassVar[tuple[str, ...]] = ("variances in proportion to means",)
    _power: ClassVar[int] = 1
    _positive: ClassVar[bool] = False
    _by_exposure: ClassVar[bool] = True

    def _loss(self) -> Loss:
        return Poisson()

    def _objective(self) -> tuple[Budget, Loss, L2]:
        if self.exposure_bound is not None:
            number("exposure_bound", self.exposure_bound, least=1e-50, most=1e50)
        budget, loss, penalty = super()._objective()
        # the deviance of a target over c is 1/c of the target's
        return budget, loss, L2(penalty.alpha / self._target_units()[1])

    def _exposure(self, values: ArrayLike) -> Exposure:
        if self.exposure_bound is None:
            raise ValueError(
                "exposure needs a public bound: rows count in proportion to it. Pass "
                "exposure_bound, for example exposure_bound=1.0 for parts of a year."
            )
        return Exposure(values, self.exposure_bound)


@familiar
@dataclass(eq=False, repr=False)
class GammaRegressor(LogLinearRegressor):
    """Gamma regression of positive amounts under differential privacy.

    Minimises half the mean gamma deviance plus ``alpha/2·‖w‖²`` (intercept included), with slopes
    clipped at ``threshold``. The loss depends on target over exposure alone, so all exposures count
    the same. Attributes and privacy are those of `PoissonRegressor`.

    Parameters
    ----------
    epsilon, delta, relation, solver, alpha, data_norm, fit_intercept, preparation, \
rows_per_unit, features, columns, schema, inference, cov_type, weight_bound, random_state, ledger, \
progress, target_bounds
        As in `PoissonRegressor`; the bounds of the target are above 0.
    threshold : float, default=4.0
        A target of more than 1 + threshold times its mean is clipped to that.
    """

    _: KW_ONLY
    threshold: float = 4.0

    _errors_need: ClassVar[tuple[str, ...]] = ("one distribution of targets over their means",)
    _ratio: ClassVar[str] = "mean ratio"
    _power: ClassVar[int] = 2
    _positive: ClassVar[bool] = True
    _shifted_intercept: ClassVar[bool] = True

    def _loss(self) -> Loss:
        return Gamma(self.threshold)
