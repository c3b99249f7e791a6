"""Ordered classes and discrete time: logistic models with one constant per level.

A row becomes several: one per threshold between classes, or one per period at risk. All of them
have the row's columns and the same slopes; a constant of its own belongs to each level. They stay
one unit of privacy, with weights that add up to at most 1. Proof: docs/proofs/families.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit
from sklearn.base import ClassifierMixin
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from discreet.core import Budget
from discreet.errors import NotSupported
from discreet.estimators import effects
from discreet.estimators.base import PrivateLinearModel, by_blocks
from discreet.estimators.classifiers import LinearClassifier, Link, label_codes
from discreet.estimators.familiar import familiar
from discreet.estimators.features import signal
from discreet.estimators.method import Settings, settle
from discreet.estimators.units import PrivacyUnits
from discreet.objectives import L2, Logistic, Loss
from discreet.objectives.offset import WithOffset, with_offsets
from discreet.statement import LABELS, LABELS_TAKEN
from discreet.validate import FloatArray, choice, integer

MOST_LEVELS = 200
"""Thresholds or periods of a model: each may be a column."""

SMOOTH = (2, 5)
"""Least and most degree of a smooth baseline."""

CONSTANTS = "intervals are for slopes: the constants of levels have none"

SIGNAL_PER_DEGREE = 1500.0
"""Least n·μ/k per degree: with less, noise exceeds the hazards of late periods, which a small
number of people reach."""


class LevelRows(NamedTuple):
    """Rows of X, repeated by ``places``, at levels, with targets ±1 and their units."""

    X: Any
    places: NDArray[np.intp]
    level: NDArray[np.intp]
    targets: FloatArray
    units: PrivacyUnits


@dataclass(eq=False, repr=False)
class LevelModel(PrivateLinearModel):
    """Base class: the log odds at level j are ``X @ coef_ + levels_[j]``."""

    coef_: FloatArray = field(init=False)
    intercept_: float = field(init=False)
    levels_: FloatArray = field(init=False)
    link_: Link = field(init=False)

    _has_intervals: ClassVar[bool] = True
    _ratio: ClassVar[str] = "odds ratio"
    _finds_levels: ClassVar[bool] = False
    _robust_errors: ClassVar[bool] = False

    def _loss(self) -> Loss:
        return Logistic()

    def _objective(self) -> tuple[Budget, Loss, L2]:
        if not self.fit_intercept:
            name = type(self).__name__
            raise NotSupported(f"{name} has a constant per level: it needs fit_intercept=True.")
        return super()._objective()

    def _fit_levels(
        self, settings: Settings, rows: LevelRows, basis: FloatArray, public: tuple[str, ...]
    ) -> None:
        """Fit one logistic model to rows at levels.

        ``basis`` has a row per level, the columns that rows at this level have after those of X.
        """
        wide = rows.X.shape[1]
        made = basis.shape[1]
        self._booleans = (*self._booleans, *range(wide, wide + made))
        parts = [rows.X[rows.places], basis[rows.level].astype(rows.X.dtype)]
        table = sp.csr_array(sp.hstack(parts)) if sp.issparse(rows.X) else np.hstack(parts)
        rule = partial(np.asarray, dtype=np.float64)
        about: Any = {"units": rows.units, "public": public}
        fitted = self._fit_models(settings, table, rows.targets, [rule], **about)
        self.link_ = Link.of(fitted.solution, fitted.steps)
        first = effects.first_level(self)
        own = slice(first, first + made)
        slopes = fitted.coef[0]
        constant = fitted.intercept[0]
        self.levels_ = constant + basis @ slopes[own]
        self.intercept_ = float(constant)
        self.coef_ = np.delete(slopes, own)
        kept = np.delete(np.arange(slopes.size + 1), own)
        self.covariances_ = tuple(
            each.of_slopes(kept, self._dispersion(each.dispersion, basis), CONSTANTS)
            for each in fitted.covariances
        )

    def _dispersion(self, measured: float, basis: FloatArray) -> float:
        """Return the mean squared score over the mean curvature of slopes, where all have another.

        It is that of the model with the released constants, or follows from the measured one.
        """
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


@familiar
@dataclass(eq=False, repr=False)
class OrdinalClassifier(ClassifierMixin, LevelModel):  # type: ignore[misc]
    """Ordinal logistic regression (proportional odds) under differential privacy.

    The probability of a class above the k-th is the sigmoid of ``X @ coef_ - thresholds_[k]``, with
    the same slopes for all k. Minimises the mean over rows and thresholds of the logistic loss of
    "above the k-th class or not", plus ``alpha/2·‖w‖²``.

    Parameters
    ----------
    epsilon, delta, relation, solver, alpha, data_norm, preparation, rows_per_unit, features, \
columns, schema, inference, cov_type, weight_bound, random_state, ledger, \
progress
        As in `LogisticRegression`; intervals are for slopes, and for rows of equal weight.
    fit_intercept : bool, default=True
        Must be True.
    classes : array-like, optional
        The labels (public), from the lowest class to the highest. Taken from y and sorted, with a
        warning, if not given.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Slopes in units of X: ``exp(coef_)`` are ratios of the odds of a higher class.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between the classes, in rising order.
    classes_ : ndarray
        The labels, from the lowest class to the highest.
    intercept_, levels_
        Minus the first threshold, and minus all of them, as they were fitted.
    features_, prepared_coef_, prepared_intercept_, guarantee_, trace_, preparation_, link_
        As in `LogisticRegression`, of rows with a column for each threshold but the first.

    Notes
    -----
    **Privacy.** As in `LogisticRegression`. All thresholds of a row have a total weight of 1.

    The loss is that of each split of the classes by itself. It has the same minimum as the
    likelihood of the proportional-odds model, in the limit of many rows from it, and its slopes
    are bounded. Noise may leave thresholds out of order; ``thresholds_`` are the nearest ordered
    ones.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import OrdinalClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = np.digitize(X[:, 0] + rng.logistic(size=20_000), [-1, 1])
    >>> model = OrdinalClassifier(epsilon=1.0, classes=[0, 1, 2]).fit(X, y)
    >>> model.predict([[5.0, 0.0], [-5.0, 0.0]])
    array([2, 0])
    """

    _: KW_ONLY
    classes: ArrayLike | None = None
    classes_: NDArray[Any] = field(init=False)

    _errors_need: ClassVar[tuple[str, ...]] = ("proportional odds",)

    def fit(
        self, X: Any, y: ArrayLike, groups: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the model within the budget; the arguments are those of `LogisticRegression.fit`.

        Whether every class has rows is not checked, as the answer would be about rows. A class
        without rows has nearly the same threshold on either side.
        """
        settings = settle(self)
        declared = self._declared_classes()
        if self.schema is not None:
            groups = self._unit_of(X, groups)
        if self.inference is True and not (groups is None and sample_weight is None):
            raise NotSupported(
                "intervals of ordered classes are for independent rows of equal weight. Leave "
                "inference=False, or groups and sample_weight out."
            )
        table = X
        X, target = self._read(X, y, settings, numbers=False)
        offset = self._offset(table)
        if target is None:
            raise NotSupported("OrdinalClassifier is for tables of this process, not of workers.")
        units = PrivacyUnits.of(X, groups, sample_weight, self.rows_per_unit, self.weight_bound)
        if declared is None:
            classes, codes = LinearClassifier._labels_of(target)
        else:
            classes = declared
            codes = label_codes(target, declared)
        splits = len(classes) - 1
        if splits > MOST_LEVELS:
            raise ValueError(
                f"there are {splits + 1} classes; an ordinal model takes at most {MOST_LEVELS + 1}."
                " Use a regressor, or merge classes."
            )
        index = np.repeat(np.arange(X.shape[0]), splits)
        level = np.tile(np.arange(splits), X.shape[0])
        spread = units.spread(
            index,
            f"each row counts as {splits}, one per threshold; the rows of one {units.unit} have "
            "weights of at most 1 together",
        )
        if units.rows_per_unit > 1:
            nominal = np.full(len(index), 1.0 / (splits * units.rows_per_unit))
            spread = replace(spread, nominal=nominal)
        targets = np.where(codes[index] > level, 1.0, -1.0)
        if offset is not None:
            targets = with_offsets(targets, offset[index])
            settings = replace(settings, loss=WithOffset(Logistic()))
        public = (LABELS_TAKEN if self.classes is None else LABELS,)
        basis = np.eye(splits)[:, 1:]
        self._fit_levels(settings, LevelRows(X, index, level, targets, spread), basis, public)
        self.classes_ = classes
        return self

    def rename_classes(self, labels: Sequence[Any]) -> Self:
        """Give the classes of a model that was fitted to codes 0, 1, … other labels, by code."""
        check_is_fitted(self, "coef_")
        order = [int(code) for code in self.classes_]
        if sorted(order) != list(range(len(labels))):
            raise ValueError(f"labels must be one for each of {len(order)} codes; got {labels!r}.")
        self.classes = [labels[code] for code in order]
        self.classes_ = np.asarray(self.classes)
        return self

    @property
    def thresholds_(self) -> FloatArray:
        """Thresholds between the classes, in rising order."""
        check_is_fitted(self, "coef_")
        return np.asarray(isotonic_regression(-self.levels_))

    @by_blocks
    def latent_score(self, X: Any) -> FloatArray:
        """Return ``X @ coef_``, of shape (n_samples,), to be compared with ``thresholds_``."""
        check_is_fitted(self, "coef_")
        return self._margins(self._read_new(X))[:, 0] - self.intercept_

    @by_blocks
    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n_samples, n_classes)."""
        check_is_fitted(self, "coef_")
        return self._probabilities(self._margins(self._read_new(X)))

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each row."""
        check_is_fitted(self, "coef_")
        return self.classes_[self._codes_of(self._margins(self._read_new(X)))]

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        above = self.link_.positive(scores - self.intercept_ - self.thresholds_)
        ends = np.ones((len(scores), 1))
        return -np.diff(np.hstack([ends, above, 0.0 * ends]), axis=1)

    def _codes_of(self, scores: FloatArray) -> NDArray[np.intp]:
        return np.asarray(self._probabilities(scores).argmax(axis=1))

    def _dispersion(self, measured: float, basis: FloatArray) -> float:
        """Return the largest ratio at any score, by the released thresholds.

        The slope of a row is that of the number of thresholds below it, whose variance is more than
        the sum of single ones: who is above a threshold is more often above the others.
        """
        thresholds = self.thresholds_
        at = np.linspace(thresholds[0], thresholds[-1], 101)[:, None]
        above = expit(at - thresholds)
        later = np.maximum.outer(*2 * (np.arange(thresholds.size),))
        variance = above[:, later].sum(axis=(1, 2)) - above.sum(axis=1) ** 2
        single = (above * (1 - above)).sum(axis=1)
        return float((variance / single).max()) / thresholds.size

    def _objective(self) -> tuple[Budget, Loss, L2]:
        self._declared_classes()
        return super()._objective()

    def _unchecked(self) -> tuple[str, ...]:
        return ("that every class has rows (one without has equal thresholds, up to noise)",)

    def _declared_classes(self) -> NDArray[Any] | None:
        if self.classes is None:
            return None
        declared = np.asarray(self.classes)
        if declared.ndim != 1 or len(declared) < 2 or len(np.unique(declared)) != len(declared):
            raise ValueError(
                "classes must list each label once, from the lowest class to the highest, at least "
                f"two of them; got {self.classes!r}."
            )
        return declared

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: privacy leaves little score on a few dozen rows."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class PersonPeriods(NamedTuple):
    """Person-period rows: the person and the period of each, and whether the event came in it.

    Every person has a row. ``at_risk`` is False for the only row of a person who was not seen to
    the end of any period.
    """

    person: NDArray[np.intp]
    period: NDArray[np.intp]
    event: NDArray[np.bool_]
    at_risk: NDArray[np.bool_]

    @classmethod
    def of(cls, duration: ArrayLike, event: ArrayLike | None, ends: FloatArray) -> Self:
        """Make rows of durations and events, for periods with public ends in rising order.

        Period t is from ``ends[t - 1]``, which it leaves out, to ``ends[t]``. A person with an
        event is at risk up to its period, one without it in all periods that ended by then. What
        happens after the last period is left out.
        """
        time = np.asarray(duration, dtype=np.float64)
        given = np.asarray(event) if event is not None else np.ones(time.size, dtype=bool)
        whole = given.shape == (time.size,) and given.dtype.kind in "biuf"
        if not (whole and np.isin(given, (0, 1)).all()):
            raise ValueError("event must have one number for each row: 1 if it happened, else 0.")
        happened = given.astype(bool)
        if time.ndim != 1 or not np.isfinite(time).all():
            raise ValueError("durations must be a vector of finite numbers; some are not.")
        during = np.searchsorted(ends, time, side="left")
        happened &= during < ends.size
        seen = np.where(happened, during + 1, np.searchsorted(ends, time, side="right"))
        rows = np.maximum(seen, 1)
        person = np.repeat(np.arange(time.size), rows)
        period = np.arange(person.size) - np.repeat(np.cumsum(rows) - rows, rows)
        last = period == during[person]
        return cls(person, period, last & happened[person], (seen > 0)[person])


@familiar
@dataclass(eq=False, repr=False)
class DiscreteTimeSurvival(LevelModel):
    """Survival in discrete time (logistic hazards) under differential privacy.

    The hazard, the probability of the event in a period for those who had none before, is the
    sigmoid of ``X @ coef_ + baseline_[t]``. Each person becomes one row per period at risk.

    Parameters
    ----------
    periods : int or sequence of float
        Public periods: their ends in rising order, at least two, or a number T for the ends 1, 2,
        …, T of durations that are counted in periods. Times after the last end are censored.
    baseline : {"smooth", "free"}, default="smooth"
        Baseline log odds: a polynomial of the period, of degree 2 to 5 by n and the budget, or one
        number per period. Few people are left in late periods, and their rows are clipped most.
    epsilon, delta, relation, solver, alpha, data_norm, preparation, rows_per_unit, features, \
columns, schema, inference, cov_type, weight_bound, random_state, ledger, \
progress
        As in `LogisticRegression`; solvers that take sums over rows, such as ``"gd"``. Intervals
        are for slopes.
    fit_intercept : bool, default=True
        Must be True.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Slopes in units of X: ``exp(coef_)`` are ratios of the odds of the event in a period.
    baseline_ : ndarray of shape (n_periods,)
        Log odds of the event in each period where ``X @ coef_`` is 0.
    levels_, intercept_
        The same as they were fitted, with events counted n_periods − 1 times, and a constant.
    features_, prepared_coef_, prepared_intercept_, guarantee_, trace_, preparation_, link_
        As in `OrdinalClassifier`.

    Notes
    -----
    **Privacy.** As in `LogisticRegression`, for a row of X with all of its person-period rows; with
    ``groups`` for a person with several rows of X. The periods are public.

    A person has one event at most but up to T rows without one. So an event counts T − 1 times as
    much as each other row, and a person's rows have weights of at most 1 together. This moves the
    log odds by log(T − 1), which ``baseline_`` and hazards take back, and leaves slopes as they
    are (Prentice and Pyke 1979).

    References
    ----------
    Prentice, Pyke: Logistic disease incidence models and case-control studies. Biometrika 1979.
    Singer, Willett: It's about time: using discrete-time survival analysis to study duration and
    the timing of events. Journal of Educational Statistics 1993.
    """

    _: KW_ONLY
    periods: int | Sequence[float] = 10
    baseline: str = "smooth"

    __metadata_request__fit: ClassVar = {"event": True}

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        event: ArrayLike | None = None,
        groups: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the model within the budget.

        Parameters
        ----------
        X, groups, sample_weight
            As in `LogisticRegression.fit`; one row of X per person or spell.
        y : array of shape (n_samples,)
            Durations: time to the event, or to the end of the observation. A duration up to the end
            of the first period counts in it, also a negative one; one beyond the last period is
            censored there. No message says so, as it would be about rows.
        event : array of shape (n_samples,), optional
            1 if the duration ended with the event, 0 if it was censored. Default: all 1, which the
            guarantee lists among what is treated as public.

        Returns
        -------
        self
        """
        settings = settle(self)
        ends = self._ends()
        if self.schema is not None:
            groups = self._unit_of(X, groups)
        X, durations = self._read(X, y, settings, numbers=True)
        if self.design_ is not None and self.design_.has_offset:
            raise NotSupported(
                "DiscreteTimeSurvival has no offset. Leave offset() out of the formula."
            )
        if durations is None:
            raise NotSupported("survival is for tables of this process, not of workers.")
        units = PrivacyUnits.of(X, groups, sample_weight, self.rows_per_unit, self.weight_bound)
        rows = PersonPeriods.of(durations, event, ends)
        more = math.exp(self._shift)
        times = units.rows_per_unit
        one = 1.0 / max(more + ends.size - 1, ends.size)
        nominal = np.where(rows.at_risk, np.where(rows.event, more * one, one), 0.0) / times
        condition = (
            f"a period with an event has the weight {more * one:.4g}, one without {one:.4g}, and "
            f"all of one {units.unit} have at most 1 together"
        )
        spread = replace(units.spread(rows.person, condition), nominal=nominal, even=False)
        targets = np.where(rows.event, 1.0, -1.0)
        public: tuple[str, ...] = ("the periods", *self._clipped())
        if event is None:
            public = (*public, "that every duration ended with the event, as no event was given")
        basis = self._basis(ends.size, units.size, settings.budget)
        made = LevelRows(X, rows.person, rows.period, targets, spread)
        self._fit_levels(settings, made, basis, public)
        return self

    @property
    def baseline_(self) -> FloatArray:
        """Log odds of the event in each period where ``X @ coef_`` is 0."""
        check_is_fitted(self, "coef_")
        return self.levels_ - self._shift

    @by_blocks
    def predict_hazard(self, X: Any) -> FloatArray:
        """Return the probability of the event in each period, (n_samples, n_periods).

        It is that of people who had no event before the period.
        """
        check_is_fitted(self, "coef_")
        scores = self._margins(self._read_new(X)) + (self.levels_ - self.intercept_)
        odds = logit(self.link_.positive(scores))
        return np.asarray(expit(odds - self._shift))

    @by_blocks
    def predict_survival(self, X: Any) -> FloatArray:
        """Return the probability of no event by the end of each period, (n_samples, n_periods)."""
        left: FloatArray = np.cumprod(1.0 - self.predict_hazard(X), axis=1, dtype=np.float64)
        return left

    @by_blocks
    def predict(self, X: Any) -> FloatArray:
        """Return the expected time without the event, up to the end of the last period."""
        survival = self.predict_survival(X)
        ends = self._ends()
        before = np.hstack([np.ones((len(survival), 1)), survival[:, :-1]])
        start = np.concatenate([[min(0.0, float(ends[0]))], ends[:-1]])
        return np.asarray((before + survival) / 2 @ (ends - start))

    def _basis(self, count: int, size: int, budget: Budget) -> FloatArray:
        """Return columns for the periods, by public numbers: few polynomials, or one each."""
        if self.baseline == "free":
            return np.eye(count)[:, 1:]
        degree = min(max(int(signal(size, budget) / SIGNAL_PER_DEGREE), SMOOTH[0]), SMOOTH[1])
        at = np.linspace(-1.0, 1.0, count)
        return np.asarray(np.polynomial.legendre.legvander(at, min(degree, count - 1))[:, 1:])

    def _dispersion(self, measured: float, basis: FloatArray) -> float:
        """Correct the measured ratio, which is that of all weights, by the released hazards.

        At a hazard h the ratio is in proportion to 1/(1 + (T − 2)h), the curvature to h(1 − h)/(1 +
        (T − 2)h). So slopes have more than the weights of periods, which differ in hazards.
        """
        means = effects.released_means(self)
        hazard = expit(self.baseline_ + (0.0 if means is None else float(means @ self.coef_)))
        left = np.cumprod(np.append(1.0, 1.0 - hazard[:-1]))
        ratio = 1.0 / (1.0 + np.expm1(self._shift) * hazard)
        curvature = left * hazard * (1.0 - hazard) * ratio
        roots = np.sqrt(left / left.sum())[:, None]
        columns = np.linalg.qr(roots * np.column_stack([np.ones(left.size), basis]))[0] / roots
        squares = self.coef_.size + np.square(columns).sum(axis=1)
        slopes = curvature @ ratio / curvature.sum()
        return float(measured * slopes / (squares * curvature @ ratio / (squares @ curvature)))

    def _clipped(self) -> tuple[str, ...]:
        ends = self._ends()
        return (
            f"durations up to {ends[0]:g}, also negative ones, count in the first period, and "
            f"durations beyond {ends[-1]:g} are censored there",
        )

    @property
    def _shift(self) -> float:
        """Log of the weight of an event over that of another row."""
        return math.log(self._ends().size - 1)

    def _objective(self) -> tuple[Budget, Loss, L2]:
        self._ends()
        choice("baseline", self.baseline, ("smooth", "free"))
        return super()._objective()

    def _ends(self) -> FloatArray:
        """Return the public ends of the periods."""
        remedy = "Pass the ends of the periods, for example periods=[30, 60, 90], or their number."
        if isinstance(self.periods, Integral) and not isinstance(self.periods, bool):
            count = integer("periods", self.periods, least=2, most=MOST_LEVELS, remedy=remedy)
            return np.arange(1.0, count + 1.0)
        ends = np.asarray(self.periods)
        if ends.ndim != 1 or ends.dtype.kind not in "iuf" or not 2 <= ends.size <= MOST_LEVELS:
            raise ValueError(f"periods must be 2 to {MOST_LEVELS} numbers. {remedy}")
        if not (np.isfinite(ends).all() and (np.diff(ends) > 0).all()):
            raise ValueError(f"periods must be finite numbers in rising order. {remedy}")
        return ends.astype(np.float64)
