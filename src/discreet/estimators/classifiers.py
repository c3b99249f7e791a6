"""Private linear classifiers: `LogisticRegression` and `LinearSVC`."""

from __future__ import annotations

import contextlib
import difflib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from discreet import engines
from discreet.core import Budget
from discreet.errors import NotSupported, PrivacyLeakWarning
from discreet.estimators import averaged, coefficients
from discreet.estimators.base import PrivateLinearModel, by_blocks
from discreet.estimators.engine import Fitted
from discreet.estimators.familiar import familiar
from discreet.estimators.method import Settings, settle
from discreet.estimators.units import ClassWeights, PrivacyUnits, Rule, check_class_weight
from discreet.inference import Intervals
from discreet.objectives import (
    L2,
    LOSSES,
    HuberHinge,
    Logistic,
    Loss,
    MulticlassHinge,
    Problem,
    Softmax,
)
from discreet.objectives.offset import WithOffset, with_offsets
from discreet.preparation import Scale, Step
from discreet.solvers import Solution
from discreet.statement import LABELS, LABELS_TAKEN
from discreet.tables.schema import Schema, as_schema
from discreet.validate import CheckedFields, FloatArray, Positive, number

BEND = 0.25
"""Growth of scores beyond the reach of a link, per factor e of their distance from it."""

LARGEST_BEND = 500.0
"""Largest power of e that the inverse of a link takes."""

LEAST_CHANCE = 1e-9
"""Least probability that log-odds are taken of."""

LEAST_REACH = 1.0
"""Least reach of a link."""

REACH = 1.5
"""Reach of a link over the size of a typical row's score, for two classes."""

REACH_OF_CLASSES = 4.0
"""The same for more classes, over the size of the largest score."""

_BLOCK = 2**16
"""Number of labels that are searched for at a time."""

_ORDERS = {"b": "number", "i": "number", "u": "number", "f": "number", "U": "text"}
"""Order of labels by the kind of their type, where it is known."""


@dataclass(eq=False, repr=False)
class LinearClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Base class of classifiers: one linear score for two classes, else one per class."""

    _: KW_ONLY
    classes: ArrayLike | None = None
    class_weight: Mapping[Any, float] | str | None = None
    classes_: NDArray[Any] = field(init=False)
    intercept_: FloatArray = field(init=False)
    multinomial_: bool = field(init=False)

    def fit(
        self, X: Any, y: ArrayLike, groups: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the model within the budget.

        Parameters
        ----------
        X : array, CSR matrix, DataFrame or table in blocks of shape (n_samples, n_features)
            Numbers only, without NaN. Float32, float64 and CSR are used as they are. A Dask array
            or dataframe stays on its workers (docs/scale.md), and so does a Spark dataframe that
            was opened with `discreet.engines.spark.open`.
        y : array of shape (n_samples,)
            Labels. The set of labels is public: pass it as ``classes``.
        groups : sequence of ids, optional
            Whose row each row is: any hashable values of one kind, none missing. The guarantee is
            then for one person with all of their rows, who has a total weight of 1.
        sample_weight : array of shape (n_samples,), optional
            Numbers of at least 0: the weight of each row. They are public and count relative to the
            largest, unless ``weight_bound`` is given: then they are protected, like the row.

        Returns
        -------
        self
        """
        settings = settle(self)
        declared = self._declared_classes()
        if declared is None:
            declared = type_classes(y)
        if declared is None and self.schema is not None:
            declared = schema_classes(y, as_schema(self.schema))
        taken = declared is None
        if declared is None and engines.is_lazy(X):
            raise ValueError(
                "Labels of rows on workers are not collected; list all of them in classes, for "
                "example classes=[0, 1]."
            )
        if self.schema is not None:
            groups = self._unit_of(X, groups)
        table = X
        X, target = self._read(X, y, settings, numbers=False, groups=groups)
        offset = self._offset(table)
        units = PrivacyUnits.of(X, groups, sample_weight, self.rows_per_unit, self.weight_bound)
        codes: NDArray[Any] | None = None
        if declared is None:
            assert target is not None  # refused above for rows on workers
            classes, codes = self._labels_of(target)
            taken = not is_binary(classes)
        elif target is None:
            classes = declared
            X = X.with_targets(partial(label_codes, declared=declared))
        else:
            classes = declared
            codes = label_codes(target, declared)
        if units.size < len(classes):
            raise ValueError(
                f"there are {len(classes)} classes, but only {units.size} {units.plural}; a "
                "classifier needs at least one for each class."
            )
        weights = None
        if self.class_weight is not None:
            weights = self._class_weights(classes, codes)
            units = replace(units, even=False)
        settings, rules = self._models(settings, len(classes))
        if offset is not None:
            settings, codes = _with_offset(settings, len(classes), codes, offset)
            rules = [partial(np.asarray, dtype=np.float64)]
        public = (LABELS_TAKEN if taken else LABELS,)
        about: Any = {"units": units, "by_class": weights, "public": public}
        self._keep_link(self._fit_models(settings, X, codes, rules, **about))
        self.classes_ = classes
        self.multinomial_ = settings.loss.n_outputs > 1
        return self

    def _class_weights(self, classes: NDArray[Any], codes: NDArray[Any] | None) -> ClassWeights:
        """Return the weights of the classes, for tables of this process."""
        if codes is None:
            raise NotSupported(
                "class_weight is for tables of this process, and these rows are on workers."
            )
        return ClassWeights.of(self.class_weight, classes, codes)

    def _models(self, settings: Settings, n_classes: int) -> tuple[Settings, list[Rule]]:
        """Return the targets of each model, and settings with the loss of one model for all.

        There is one model of all classes if the loss and the solver have one, else one for each
        class against the others.
        """
        two = n_classes == 2
        method = settings.method
        joint = None
        if not (two or self.inference is True):
            joint = _joint(settings.loss, n_classes, auto=method is None)
        # every solver of the rule takes several outputs
        if joint is not None and (method is None or method.solver.fits_jointly()):
            return replace(settings, loss=joint), [partial(np.asarray, dtype=np.float64)]
        if self.features == "pairs" and not two:
            raise NotSupported(
                "features='pairs' needs one model of all classes, and this solver fits one for "
                "each class. Use solver='auto' or 'gd'."
            )
        return settings, [partial(_one_of, code=one) for one in ([1] if two else range(n_classes))]

    def _keep_link(self, fitted: Fitted) -> None:
        """Keep the map from scores to probabilities, in models that have one."""

    @by_blocks
    def decision_function(self, X: Any) -> FloatArray:
        """Return scores: shape (n_samples,) for two classes, else (n_samples, n_classes).

        They are ``X @ coef_.T + intercept_`` (with the features of X, where these are not its
        columns). With two classes, a positive score is for the second.
        """
        check_is_fitted(self, "coef_")
        scores = self._margins(self._read_new(X))
        return scores[:, 0] if len(self.classes_) == 2 else scores

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each row."""
        check_is_fitted(self, "coef_")
        return self.classes_[self._codes_of(self._margins(self._read_new(X)))]

    def rename_classes(self, labels: Sequence[Any]) -> Self:
        """Give the classes of a fitted model other labels, one per class and in the same order.

        A model can be fitted to codes 0, 1, …, which take less memory than texts, and renamed
        afterwards. Labels are public, so nothing is spent.
        """
        check_is_fitted(self, "coef_")
        new = np.asarray(labels)
        if len(new) != len(self.classes_) or not np.array_equal(new, np.unique(new)):
            raise ValueError(
                f"labels must be {len(self.classes_)} different ones, one per class, in sorted "
                f"order; got {labels!r}."
            )
        if isinstance(self.class_weight, Mapping):
            names = dict(zip(self.classes_.tolist(), labels, strict=True))
            self.class_weight = {names[old]: w for old, w in self.class_weight.items()}
        self.classes = list(labels)
        self.classes_ = new
        return self

    @staticmethod
    def _codes_of(scores: FloatArray) -> NDArray[np.intp]:
        """Return the index of the predicted class for scores of shape (n_rows, n_models)."""
        if scores.shape[1] == 1:
            return (scores[:, 0] > 0).astype(np.intp)
        return np.asarray(scores.argmax(axis=1))

    def _objective(self) -> tuple[Budget, Loss, L2]:
        self._declared_classes()
        if self.class_weight is not None:
            check_class_weight(self.class_weight)
        return super()._objective()

    def _declared_classes(self) -> NDArray[Any] | None:
        if self.classes is None:
            return None
        declared = np.unique(np.asarray(self.classes))
        if declared.ndim != 1 or len(declared) < 2 or len(declared) != np.size(self.classes):
            raise ValueError(
                f"classes must list each label once, at least two of them; got {self.classes!r}."
            )
        return declared

    @staticmethod
    def _labels_of(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the labels in y, which are treated as public, and each row's index among them."""
        check_classification_targets(y)
        found, codes = np.unique(y, return_inverse=True)
        if not is_binary(found):
            warnings.warn(
                "The class labels were taken from y, outside the budget. They are treated as "
                "public: pass classes=[…] to say which labels exist.",
                PrivacyLeakWarning,
                stacklevel=3,
            )
        if len(found) < 2:
            raise ValueError(
                "y has only one class; a classifier needs two. If more labels are possible, list "
                "them in classes."
            )
        return found, codes

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: on the small tables of its checks, privacy leaves little."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.poor_score = True
        return tags


def type_classes(y: Any) -> NDArray[Any] | None:
    """Return the classes that the type of y declares: booleans, or the levels of a category."""
    dtype = getattr(y, "dtype", None)
    if str(dtype).lower() in ("bool", "boolean"):
        return np.array([False, True])
    levels = getattr(dtype, "categories", None)
    if levels is None or str(dtype).startswith("Categorical"):
        return None
    found = np.unique(np.asarray(list(levels)))
    return found if len(found) > 1 else None


def schema_classes(y: Any, schema: Schema) -> NDArray[Any] | None:
    """Return the classes that a schema declares for its target, if y has texts."""
    target = schema.target
    if target is None or not target.is_classification or np.asarray(y).dtype.kind not in "OUT":
        return None
    return np.array(target.labels)


def is_binary(labels: NDArray[Any]) -> bool:
    """Return whether labels are 0 and 1 as whole numbers: such a target declares its classes."""
    return labels.dtype.kind in "iu" and labels.tolist() == [0, 1]


def _joint(loss: Loss, n_classes: int, *, auto: bool) -> Loss | None:
    """Return the loss of one model of all classes, if there is one; hinges have it for ``auto``."""
    if isinstance(loss, Logistic):
        return Softmax(n_classes)
    return MulticlassHinge(n_classes, loss) if auto and loss.convex else None


def _with_offset(
    settings: Settings, n_classes: int, codes: Any, offset: FloatArray
) -> tuple[Settings, FloatArray]:
    """Return settings and targets of a model of two classes whose scores have a known part."""
    if n_classes != 2 or not isinstance(settings.loss, Logistic):
        raise NotSupported(
            "an offset is for logistic models of two classes. Leave offset() out of the formula."
        )
    return replace(settings, loss=WithOffset(settings.loss)), with_offsets(
        _one_of(codes, 1), offset
    )


def _one_of(codes: NDArray[Any], code: int) -> FloatArray:
    """Return targets of one class against all others: 1 for rows of the class, else -1."""
    return np.where(codes == code, 1.0, -1.0)


def label_codes(y: NDArray[Any], declared: NDArray[Any]) -> NDArray[Any]:
    """Return each label's index among the declared ones.

    Unknown labels are a ``ValueError`` that shows none of them.
    """
    by_size = np.argsort(declared)
    if not np.array_equal(by_size, np.arange(len(declared))):  # classes in an order of their own
        return np.asarray(by_size[label_codes(y, declared[by_size])])
    order = _ORDERS.get(y.dtype.kind)
    if order is not None and order == _ORDERS.get(declared.dtype.kind):
        codes = np.empty(len(y), dtype=np.min_scalar_type(len(declared)))
        known = True
        for start in range(0, len(y), _BLOCK):
            labels = y[start : start + _BLOCK]
            found = np.minimum(np.searchsorted(declared, labels), len(declared) - 1)
            known &= bool((declared[found] == labels).all())
            codes[start : start + _BLOCK] = found
    else:  # objects, or text and numbers: np.unique decides on order and equality
        known = False
        codes = np.empty(0)
        with contextlib.suppress(TypeError):  # labels of types that have no order
            found, inverse = np.unique(y, return_inverse=True)
            known = bool(np.isin(found, declared).all())
            codes = np.searchsorted(declared, found)[inverse] if known else inverse
    if not known:
        raise ValueError(
            "y holds labels that are not in classes; list every possible label in classes "
            "or leave those rows out."
        )
    return codes


@dataclass(frozen=True)
class Link(CheckedFields):
    """Map from scores of a logistic model with clipped gradients to probabilities.

    A row of score m whose gradient was clipped contributed a slope of at most c instead of 1 − σ(m)
    or σ(m). Where these slopes balance, the probability of the second class is

        p = min(σ, c) / (min(σ, c) + min(1 − σ, c)),

    not σ: clipping makes scores too extreme. So does noise of variance v in a score; averaged over
    it, a score m becomes m/√(1 + πv/8) (MacKay 1992). Scores beyond ``reach`` r are those of rows
    much longer than typical ones, and become r + ln(1 + 4(|m| − r))/4 instead of |m|. All of it is
    computed from the released model and public numbers: post-processing. The reasons are in
    bench/default.md.

    ``slope`` is c for a row of typical norm (below 1/2 it is taken as 1/2, so that p grows with m
    everywhere), ``noise`` is v for such a row.
    """

    slope: Annotated[float, partial(number, least=1e-12)] = 1.0
    noise: Annotated[float, partial(number, least=0.0)] = 0.0
    reach: Positive | None = None

    @classmethod
    def of(
        cls, solution: Solution, steps: tuple[Step, ...], problem: Problem | None = None
    ) -> Self:
        """Return the link for rows of the norm that `Scale` makes, of a solution on them.

        With the problem it solves, scores have a reach, of all weights but intercepts.
        """
        norms = [step.norm for step in steps if isinstance(step, Scale)]
        if not norms:
            return cls()
        norm = math.hypot(norms[-1], 1.0)
        reach = None
        if problem is not None:
            weights = solution.weights.reshape(problem.loss.n_outputs, -1)
            slopes, constants = np.split(weights, [problem.n_features], axis=1)
            typical = norms[-1] * np.linalg.norm(slopes, axis=1) / problem.n_features**0.5
            typical += np.abs(constants).sum(axis=1)
            factor = REACH if typical.size == 1 else REACH_OF_CLASSES
            reach = max(LEAST_REACH, factor * float(typical.max()))
        clip = norm if solution.clip is None else min(solution.clip, norm)
        clipped = math.sqrt(solution.kept) * (1 - clip / norm)  # the start was not clipped
        return cls(1 - clipped, ((solution.deviation or 0.0) * norm) ** 2, reach)

    def positive(self, scores: FloatArray) -> FloatArray:
        """Return the probability of the second class."""
        shrunk = np.copysign(self._bent(np.abs(scores)), scores)
        shrunk /= math.sqrt(1 + math.pi * self.noise / 8)
        most = max(self.slope, 0.5)
        second = np.minimum(expit(shrunk), most)
        first = np.minimum(expit(-shrunk), most)
        return np.asarray(second / (second + first))

    def log_odds(self, scores: FloatArray) -> FloatArray:
        """Return the log-odds of the probability of the second class."""
        return np.asarray(logit(np.clip(self.positive(scores), LEAST_CHANCE, 1 - LEAST_CHANCE)))

    def several(self, scores: FloatArray) -> FloatArray:
        """Return the softmax of the scores of several classes; those of a long row share a bend."""
        scores = scores - scores.mean(axis=1, keepdims=True)
        largest = np.maximum(np.abs(scores).max(axis=1, keepdims=True), 1e-300)
        return np.asarray(softmax(scores * (self._bent(largest) / largest), axis=1))

    def log_shares(self, scores: FloatArray) -> FloatArray:
        """Return the logarithms of the probabilities of several classes."""
        return np.asarray(np.log(np.maximum(self.several(scores), LEAST_CHANCE)))

    def _bent(self, sizes: FloatArray) -> FloatArray:
        """Return the sizes that scores of these sizes count with."""
        if self.reach is None:
            return sizes
        beyond = np.maximum(sizes - self.reach, 0.0)
        return np.minimum(sizes, self.reach) + np.log1p(beyond / BEND) * BEND

    def score(self, probability: float) -> float:
        """Return the score at which the second class has this probability, between 0 and 1."""
        most = max(self.slope, 0.5)
        less = min(probability, 1.0 - probability)
        tail = most * less / (1.0 - less) if less < 1.0 - most else less
        distance = -math.sqrt(1 + math.pi * self.noise / 8) * float(logit(tail))
        if self.reach is not None and distance > self.reach:
            beyond = min((distance - self.reach) / BEND, LARGEST_BEND)
            distance = self.reach + BEND * math.expm1(beyond)
        return -distance if probability < 0.5 else distance


@familiar
@dataclass(eq=False, repr=False)
class LogisticRegression(LinearClassifier):
    """Logistic regression under differential privacy.

    Minimises the mean logistic loss plus ``alpha/2·‖w‖²`` (intercept included). With more than two
    classes it fits one multinomial (softmax) model if the solver supports it (``"auto"``, ``"gd"``,
    ``"objpert"``, ``"amp"``), else one-vs-rest models that share the budget.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget: smaller is more private.
    delta : float, default=1e-6
        δ of (ε, δ)-differential privacy; keep it well below 1/n.
    relation : {"add_remove", "replace_one"}, default="add_remove"
        Neighbouring data sets: one row added or removed, or one row replaced.
    solver : str or Solver, default="auto"
        A name, or a solver object with its own settings such as ``AGD(splits=40)``.
    alpha : float, default=1e-4
        Strength of the penalty.
    data_norm : float, optional
        Public bound on a row's L2 norm: rows are clipped to it in fit. Predictions clip no row.
    fit_intercept : bool, default=True
        Whether to fit a constant term.
    preparation : sequence of steps, optional
        Private transformations of the rows before the fit: `Bounds`, `Radius`, `Centre`, `Spread`,
        `Scale`, `Whiten`, in the order given. Each has a share of the budget; the model gets the
        rest. ``solver="auto"`` adds its own.
    rows_per_unit : int, optional
        For people with several rows (``groups`` of `fit`, which then must be given): the number of
        rows k from which a person has a total weight of 1. By default 1.
    features : {"auto", "linear", "additive", "kernel", "pairs"}, default="auto"
        Columns that the model is linear in: those of X; B-splines of each numeric column, which
        make it additive; or random Fourier features of the numeric columns. ``"pairs"`` adds pairs
        of columns to ``"auto"``, chosen privately (docs/pairs.md). ``"auto"`` is additive where
        ``columns`` declares numbers and n, the number of columns and the budget allow it,
        else linear (docs/features.md). ``data_norm`` bounds the norm of a row's features.
    columns : mapping or sequence, optional
        What is public about columns, by name or number: bounds of numbers, levels of texts, or a
        kind of `discreet.tables`; ``{"age": (17, 90), "hour": (0, 24, "bins"), "income": None,
        "ward": ["A", "B"]}``. Numbers named here may have curves; bounds that are not given are
        then chosen privately, with a tenth of the budget. Booleans, pandas categories and polars
        Enums need no entry: their type declares them. Texts need one.
    schema : Schema or path, optional
        In place of ``columns``: a schema, or the file of one, which declares all columns. The unit
        that it names is taken from X, or must be given as ``groups``.
    inference : {"auto", True, False}, default="auto"
        Whether to measure standard errors and intervals of the coefficients (docs/inference.md).
        ``"auto"`` does where public numbers say that predictions lose nothing by it: for two
        classes, rows of equal weight and a linear model. True spends most of the budget on them;
        more than two classes are then fitted one against the rest. False spends nothing.
    cov_type : {"model", "robust"}, optional
        Kind of standard errors. Default: robust to heteroscedasticity and to dependence within
        people, where that costs little (docs/inference.md).
    weight_bound : float, optional
        Public bound on private sample weights, such as five times their known mean. A row counts
        in proportion to its weight, up to this; noise grows with it.
    classes : array-like, optional
        The set of labels (public). Booleans, 0 and 1 as whole numbers, and levels of a pandas
        category or a polars Enum are declarations of their classes; otherwise labels are taken
        from y, with a warning, if they are not given.
    class_weight : dict or "balanced", optional
        What rows of each class count: public numbers (1 for labels that are not in it), or such
        that all classes have the same weight, by a noisy class balance that the budget pays for.
    random_state : int or RandomState, optional
        For tests only: fixes the noise, so the fit is not private.
    ledger : Dataset, optional
        Data set of a `Ledger`, which counts what all releases about the same people spend
        together and holds them to a limit.
    progress : callable, optional
        Called after each iteration with a `Progress`.
    verbose : bool, default=False
        Show a bar while the fit runs, in a terminal or a notebook: iterations, and the share of the
        budget that is spent.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        Shape (1, n_features) and (1,) for two classes, else one row per class, in units of X:
        ``decision_function(X)`` is ``X @ coef_.T + intercept_``.
    features_ : FeatureMap
        Map from X to the columns that ``coef_`` belongs to. These are the columns of X unless
        `Bounds` or ``features`` made others; then ``features_.transform(X)`` takes the place of X.
    prepared_coef_, prepared_intercept_ : ndarray
        The weights of prepared rows, as the solver found them.
    deviation_ : float or None
        Standard deviation of the noise in each of them, if the solver states it.
    classes_ : ndarray
        The labels.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.
    solver_ : str
        Name of the solver that ran.
    multinomial_ : bool
        Whether more than two classes were fitted by one model of all; else one-vs-rest.
    trace_ : tuple
        One entry per iteration, safe to publish.
    preparation_ : tuple
        The fitted steps of the preparation; ``prepared_coef_`` belongs to rows after them.
    link_ : Link
        Map from scores of two classes to probabilities.
    pairs_ : PairTerms or None
        With ``features="pairs"``, the pairs of columns; ``pairs_.scores`` is added to
        ``features_.transform(X) @ coef_.T + intercept_``, for encoded rows X.
    covariances_ : tuple of Covariance
        Of fits with intervals, one per model, split by source. `summary`, `conf_int`,
        ``cov_params_`` and ``standard_errors_`` show it. Its ``weights`` are the estimate that
        intervals are about, None if that is ``coef_``.
    size_ : int
        Number of rows, or of people: public.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    **Privacy.** The fitted model, its trace and its guarantee together are (ε, δ)-differentially
    private under ``relation``. Public: n, the number of columns, the labels, all settings.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import LogisticRegression
    >>> X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 5000, axis=0)
    >>> y = np.repeat([0, 1], 5000)
    >>> model = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(X, y)
    >>> model.predict([[1.0, 0.0]])
    array([1])
    """

    _has_intervals: ClassVar[bool] = True
    _ratio: ClassVar[str] = "odds ratio"

    link_: Link = field(init=False)

    def _loss(self) -> Loss:
        return Logistic()

    def _keep_link(self, fitted: Fitted) -> None:
        self.link_ = Link.of(fitted.solution, fitted.steps, fitted.problem)

    @staticmethod
    def log_odds(fitted: Fitted) -> Callable[[FloatArray], FloatArray]:
        """Return the function from scores of a fit to the log-odds of its probabilities."""
        link = Link.of(fitted.solution, fitted.steps, fitted.problem)
        return link.log_odds if fitted.problem.loss.n_outputs == 1 else link.log_shares

    @by_blocks
    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n_samples, n_classes).

        They are functions of `decision_function` alone, by ``link_`` (`Link`). With several classes
        and one model: its softmax, with less weight on scores of rows longer than typical ones.
        One-vs-rest: sigmoids, divided by their sum. With two classes: a sigmoid that is corrected
        for clipping and noise, too, if the solver states both.
        """
        scores = self.decision_function(X)
        if self.multinomial_:
            return self.link_.several(scores)
        if scores.ndim == 1:
            return np.column_stack([self.link_.positive(-scores), self.link_.positive(scores)])
        positive = expit(scores)
        sums = positive.sum(axis=1, keepdims=True)
        # Where all scores are so low that they round to 0, classes are equally likely.
        even = np.full_like(positive, 1 / positive.shape[1])
        return np.asarray(np.divide(positive, sums, out=even, where=sums > 0))

    def predict_interval(self, X: Any, level: float = 0.95) -> Intervals:
        """Return intervals for the probability of the second of two classes at the rows of X.

        They are those of the score, through the logistic function: ``low`` and ``high`` are
        probabilities, the variances by source are of the score.
        """
        check_is_fitted(self, "coef_")
        if len(self.classes_) != 2:
            raise NotSupported("intervals of probabilities are for models of two classes.")
        table = self._read_new(X)
        averaged.warn(self, table)
        found = coefficients.intervals(self, table, level, 0.0)
        return found._replace(low=expit(found.low), high=expit(found.high))

    @by_blocks
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


SMOOTHING = HuberHinge().smoothing
_SVM_LOSSES: dict[str, type[Loss]] = {
    "hinge": LOSSES["hinge"],
    "huber": LOSSES["huber-hinge"],
    "sigmoid": LOSSES["sigmoid"],
}


@familiar
@dataclass(eq=False, repr=False)
class LinearSVC(LinearClassifier):
    """Linear support vector machine under differential privacy.

    Attributes and privacy are those of `LogisticRegression`.

    Parameters
    ----------
    epsilon, delta, relation, solver, alpha, data_norm, fit_intercept, preparation, \
rows_per_unit, features, columns, schema, classes, class_weight, random_state, ledger, progress, \
verbose
        As in `LogisticRegression`; there is no ``inference`` for it.
    loss : {"huber", "hinge", "sigmoid"}, default="huber"
        ``"huber"`` is the smoothed hinge (h = 0.1), which every solver supports; ``"hinge"`` is not
        smooth, so only some do. ``"sigmoid"``, a smooth count of errors, is not convex: only
        solvers such as ``"rrpsgd"`` and ``"agd"`` support it. ``"auto"`` has one model for more
        than two classes (`MulticlassHinge`); other solvers fit one per class against the rest.
    smoothing : float, default=0.1
        h of the smoothed hinge: half the width of its quadratic part, whose curvature is 1/(2h).
        Only for ``loss="huber"``.
    """

    _: KW_ONLY
    loss: str = "huber"
    smoothing: float = SMOOTHING

    def _loss(self) -> Loss:
        if self.loss not in _SVM_LOSSES:
            near = difflib.get_close_matches(str(self.loss), list(_SVM_LOSSES), n=9, cutoff=0.0)
            raise ValueError(
                f"unknown loss {self.loss!r}. Known (nearest first): {', '.join(near)}."
            )
        if self.loss == "huber":
            return HuberHinge(self.smoothing)
        if self.smoothing != SMOOTHING:
            raise ValueError(
                f"smoothing={self.smoothing!r} is for loss='huber'; loss={self.loss!r} has none. "
                "Leave it out, or use loss='huber'."
            )
        return _SVM_LOSSES[self.loss]()
