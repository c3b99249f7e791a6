"""Private scaler and imputer: transformers of scikit-learn with a budget of their own.

Both choose bounds of each column privately, unless these are public, and release two noisy sums of
the columns between them. All else is computed from released numbers.

Proof: docs/proofs/preparation.md, part 7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from discreet.accounting.budget import Measure
from discreet.core import Budget, Guarantee
from discreet.core.questions import ColumnBounds, NoisySum, RowSum
from discreet.core.session import Session, bits_of
from discreet.estimators.engine import FITS, PUBLIC
from discreet.estimators.familiar import UNCHOSEN, familiar, warn_of_fit
from discreet.estimators.method import Process
from discreet.estimators.units import PrivacyUnits
from discreet.ledger import Dataset, check_dataset
from discreet.preparation import Bounds, Centre
from discreet.validate import FloatArray, check_table, flag, number

COVERAGE = 0.98
"""Share of a column's values that privately chosen bounds should hold."""

DETECTED = 4.0
"""A column's mean is used if the noisy number of its values exceeds this many deviations."""

_CHOSEN = "bounds of all columns were chosen privately among public round numbers"

_NUMBERS = [np.float64, np.float32]


@dataclass(eq=False, repr=False)
class _ColumnTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base class: settings, checks, and the private fit of bounds and of two sums per column."""

    epsilon: float = UNCHOSEN
    delta: float = 1e-6
    _: KW_ONLY
    relation: str = "add_remove"
    bounds: Sequence[Any] | None = None
    random_state: Any = None
    ledger: Dataset | None = None

    bounds_: FloatArray = field(init=False)
    guarantee_: Guarantee = field(init=False)
    ledger_entry_: int | None = field(init=False)

    # fit gets it from pipelines, if metadata routing is enabled
    __metadata_request__fit: ClassVar = {"groups": True}
    within_budget: ClassVar[bool] = True  # whatever it learns is paid for
    _flags: ClassVar[tuple[str, ...]] = ()
    _missing: ClassVar[bool] = False
    _released: ClassVar[str]

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Learn from the rows, within the budget.

        NaN marks missing numbers, where they are allowed; y is ignored. With ``groups``, which say
        whose row each row is, the guarantee is for one person with all of their rows.
        """
        budget = Budget(self.epsilon, self.delta, self.relation)
        if self.ledger is not None:
            check_dataset(self.ledger)
        for name in self._flags:
            flag(name, getattr(self, name))
        X = self._read(X, reset=True)
        units = PrivacyUnits.of(X, groups, None, None)
        public = self._public_bounds(X.shape[1])
        process = Process(self.random_state, self.epsilon is not UNCHOSEN, self.ledger)
        outside = warn_of_fit(type(self), budget, units, process)
        earlier_fits = next(FITS)
        payer = None
        if self.ledger is not None:
            payer = self.ledger.noting(estimator=type(self).__name__)
        session = Session(budget, units.unit, ledger=payer, bits=bits_of(self.random_state))
        try:
            bounds = public
            share = Fraction(1)
            if bounds is None:
                share = Fraction(1, 2)
                bounds = self._private_bounds(X, units, session, 1 - share)
            noisy = self._sums(X, units, bounds, session, share)
        except BaseException:
            session.account.abandon()
            raise
        conditions: tuple[str, ...] = (self._released,)
        known = ["the bounds of the columns"]
        if public is None:
            conditions = (_CHOSEN, *conditions)
            known = []
        if units.unit != "row":
            conditions = units.stated(conditions)
        self.guarantee_ = session.account.guarantee(
            conditions=conditions,
            public=(f"the number of {units.plural}", *PUBLIC, *known, *outside),
            secure=session.secure,
            earlier_fits=earlier_fits,
        )
        charge = session.account.charge
        self.ledger_entry_ = None if payer is None else getattr(charge, "entry", None)
        self.bounds_ = bounds
        self._learn(noisy, bounds, units.size)
        return self

    def _second(self, scaled: FloatArray, present: NDArray[np.bool_]) -> FloatArray:
        """Return what is added up beside the scaled columns, in [0, 1]."""
        raise NotImplementedError

    def _learn(self, noisy: NoisySum, bounds: FloatArray, n_units: int) -> None:
        """Compute the fitted attributes from the noisy sums: post-processing."""
        raise NotImplementedError

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Convert X to an array without a message that shows a value."""
        check_table(X)
        finite = "allow-nan" if self._missing else True
        return validate_data(self, X, reset=reset, dtype=_NUMBERS, ensure_all_finite=finite)

    def _public_bounds(self, width: int) -> FloatArray | None:
        """Return the bounds that the caller gave, of shape (width, 2), or None."""
        if self.bounds is None:
            return None
        given = np.asarray(self.bounds, dtype=object)
        if given.shape not in ((2,), (width, 2)):
            raise ValueError(
                f"bounds must be one pair (low, high), or one for each of the {width} columns of "
                f"X; got an array of shape {given.shape}. Leave it None to choose them privately."
            )
        lows, highs = np.broadcast_to(given, (width, 2)).T.tolist()
        low = [number("low", value, least=-1e100, most=1e100) for value in lows]
        pairs = zip(highs, low, strict=True)
        high = [number("high", value, above=least, most=1e100) for value, least in pairs]
        return np.array([low, high]).T

    def _private_bounds(
        self, X: Any, units: PrivacyUnits, session: Session, share: Fraction
    ) -> FloatArray:
        """Choose bounds of each column, with an equal part of ``share`` of the budget each.

        Privacy
        -------
        Missing values have the weight 0, so the number of those present stays inside.
        """
        pairs = []
        targets = np.zeros(X.shape[0])
        measure = _measure(session.account.budget)
        for column, stream in enumerate(session.streams(X.shape[1])):
            values = np.asarray(X[:, column], dtype=np.float64)
            present = ~np.isnan(values)
            own = np.where(present, values, 0.0)[:, None]
            rows = units.rows(own, targets, factors=present)
            curator = session.curator(rows, stream, share / X.shape[1])
            mechanism: Any = Bounds((0,)).mechanism(measure, Fraction(curator.open(measure)))
            pairs.append(curator.ask(ColumnBounds(0, COVERAGE), mechanism))
        return np.array(pairs)

    def _sums(
        self, X: Any, units: PrivacyUnits, bounds: FloatArray, session: Session, share: Fraction
    ) -> NoisySum:
        """Release the sums of the scaled columns and of what `_second` makes of them.

        Privacy
        -------
        All 2p terms of a row are in [-1, 1], so its norm is at most √(2p); a row that rounding
        makes longer is scaled down by the curator.
        """
        present = ~np.isnan(X)
        low, high = bounds.T
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (np.asarray(X, dtype=np.float64) - low) / (high - low) * 2.0 - 1.0
        scaled = np.where(present, np.clip(scaled, -1.0, 1.0), 0.0)
        table = np.concatenate([scaled, self._second(scaled, present)], axis=1)
        norm = math.sqrt(table.shape[1])
        rows = units.rows(table, np.zeros(len(table)), row_norm=norm)
        curator = session.curator(rows, share=share)
        measure = _measure(session.account.budget)
        mechanism: Any = Centre().mechanism(measure, Fraction(curator.open(measure)))
        return curator.ask(RowSum(curator.row_norm), mechanism)


@familiar
@dataclass(eq=False, repr=False)
class PrivateScaler(_ColumnTransformer):
    """Scaler of columns to about mean 0 and variance 1, under differential privacy.

    `LogisticRegression` and the other models scale rows within their own budget by default; this
    class is for pipelines that need scaled columns before another step.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of the scaler, beside that of the model.
    delta : float, default=1e-6
        δ of (ε, δ)-differential privacy; keep it well below 1/n.
    relation : {"add_remove", "replace_one"}, default="add_remove"
        Neighbouring data sets: one row added or removed, or one row replaced.
    bounds : pair of numbers, or one pair per column, optional
        Public bounds of the columns. Values beyond are clipped to them in fit. Chosen privately,
        with half of the budget, if not given.
    random_state : int or RandomState, optional
        For tests only: fixes the noise, so the fit is not private.
    ledger : Dataset, optional
        Data set of a `Ledger`, which counts what all releases spend together.
    with_mean, with_std : bool, default=True
        Whether columns are centred, and whether they are scaled.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_features,)
        Noisy mean and standard deviation of each column, between its bounds.
    bounds_ : ndarray of shape (n_features, 2)
        Bounds of the columns.
    guarantee_ : Guarantee
        The privacy guarantee of this fit. That of a model adds to it.
    ledger_entry_ : int or None
        Entry of the ledger, if there is one.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    **Privacy.** All attributes together are (ε, δ)-differentially private. Public: n, the number of
    columns, all settings.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import PrivateScaler
    >>> ages = np.random.default_rng(0).normal(50, 10, size=(10_000, 1))
    >>> scaler = PrivateScaler(epsilon=1.0, bounds=(0, 120)).fit(ages)
    >>> scaler.mean_.round(-1), scaler.scale_.round(-1)
    (array([50.]), array([10.]))
    """

    _: KW_ONLY
    with_mean: bool = True
    with_std: bool = True
    mean_: FloatArray = field(init=False)
    scale_: FloatArray = field(init=False)
    _flags: ClassVar[tuple[str, ...]] = ("with_mean", "with_std")
    _released: ClassVar[str] = (
        "the sums of the columns and of their squares, between their bounds, were released with "
        "noise; means and scales follow from them"
    )

    def transform(self, X: Any) -> FloatArray:
        """Return ``(X - mean_) / scale_``, each as asked for."""
        check_is_fitted(self, "scale_")
        X = self._read(X, reset=False)
        centred = X - self.mean_ if self.with_mean else np.array(X, dtype=np.float64)
        return centred / self.scale_ if self.with_std else centred

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return columns in their own units."""
        check_is_fitted(self, "scale_")
        wide = np.asarray(X, dtype=np.float64) * (self.scale_ if self.with_std else 1.0)
        return wide + self.mean_ if self.with_mean else wide

    def _second(self, scaled: FloatArray, present: NDArray[np.bool_]) -> FloatArray:
        return scaled**2

    def _learn(self, noisy: NoisySum, bounds: FloatArray, n_units: int) -> None:
        """Compute means and scales; a variance is at least its noise."""
        first, second = noisy.values.reshape(2, -1) / n_units
        mean = np.clip(first, -1.0, 1.0)
        half = np.diff(bounds, axis=1)[:, 0] / 2
        centre = bounds.mean(axis=1)
        variance = np.clip(second - mean**2, noisy.deviation / n_units, 1.0)
        self.mean_ = centre + half * mean
        self.scale_ = half * np.sqrt(variance)


@familiar
@dataclass(eq=False, repr=False)
class PrivateImputer(_ColumnTransformer):
    """Imputer of missing numbers by the noisy mean of their column.

    Parameters
    ----------
    epsilon, delta, relation, bounds, random_state, ledger
        As in `PrivateScaler`.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        What takes the place of NaN in each column: its noisy mean between its bounds. If too few
        values are present for the budget, the middle of public bounds, else 0.
    bounds_, guarantee_, ledger_entry_, n_features_in_, feature_names_in_
        As in `PrivateScaler`.

    Notes
    -----
    **Privacy.** As in `PrivateScaler`. How many values are missing is protected, too.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import PrivateImputer
    >>> ages = np.random.default_rng(0).normal(50, 10, size=(10_000, 1))
    >>> ages[::3] = np.nan
    >>> PrivateImputer(epsilon=1.0, bounds=(0, 120)).fit_transform(ages)[0].round(-1)
    array([50.])
    """

    statistics_: FloatArray = field(init=False)
    _missing: ClassVar[bool] = True
    _released: ClassVar[str] = (
        "the sums of the columns, between their bounds, and the number of their values were "
        "released with noise; means follow from them"
    )

    def transform(self, X: Any) -> FloatArray:
        """Return X with NaN replaced, column by column."""
        check_is_fitted(self, "statistics_")
        X = self._read(X, reset=False)
        return np.where(np.isnan(X), self.statistics_.astype(X.dtype), X)

    def _second(self, scaled: FloatArray, present: NDArray[np.bool_]) -> FloatArray:
        return present.astype(np.float64)

    def _learn(self, noisy: NoisySum, bounds: FloatArray, n_units: int) -> None:
        sums, counts = noisy.values.reshape(2, -1)
        half = np.diff(bounds, axis=1)[:, 0] / 2
        centre = bounds.mean(axis=1)
        least = DETECTED * noisy.deviation
        means = centre + half * np.clip(sums / np.maximum(counts, least), -1.0, 1.0)
        # without values, bounds that were chosen privately mean nothing
        self.statistics_ = np.where(counts > least, means, 0.0 if self.bounds is None else centre)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: NaN is allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _measure(budget: Budget) -> Measure:
    """Return the measure in which choices and noisy sums are composed."""
    return "pure" if budget.pure else "gdp"
