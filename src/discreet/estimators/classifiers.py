"""Private linear classifiers: `LogisticRegression` and `LinearSVC`."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from discreet.core import Accountant
from discreet.errors import PrivacyLeakWarning
from discreet.estimators.base import FloatArray, PrivateLinearModel
from discreet.estimators.probabilities import Link
from discreet.objectives import LOSSES, Logistic, Loss, Softmax
from discreet.preparation.pipeline import Step
from discreet.solvers import Solution, Solver

__all__ = ["LinearSVC", "LogisticRegression"]

_BLOCK = 2**16
"""Labels that are looked up at a time."""


class _LinearClassifier(ClassifierMixin, PrivateLinearModel):
    """Binary or one-vs-rest classification with one linear score a class."""

    classes: ArrayLike | None
    classes_: NDArray[Any]
    coef_: FloatArray
    intercept_: FloatArray
    multinomial_: bool

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit the model within the budget.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n_samples, n_features)
            Numbers only, without NaN. Float32, float64 and CSR are used as they are.
        y : array of shape (n_samples,)
            Labels. Which labels exist is public: say so with ``classes``.

        Returns
        -------
        self
        """
        settings = self._settings()
        classes = self._declared_classes()
        X, y = self._read(X, y, numbers=False)
        classes, codes = self._encode(y, classes)
        settings = self._choose(settings, X)
        joint = None
        if len(classes) > 2 and settings.solver.takes_outputs:
            joint = self._xy_loss(len(classes))
        models = 1 if len(classes) == 2 or joint is not None else len(classes)
        if joint is not None:
            settings = replace(settings, loss=joint)

        def target_of(model: int) -> FloatArray:
            if joint is not None:
                return codes.astype(np.float64)
            return np.where(codes == (1 if models == 1 else model), 1.0, -1.0)

        weights = self._fit_models(settings, X, target_of, models, ("the class labels",))
        if joint is not None:
            weights = weights.reshape(len(classes), -1)
        self.coef_, self.intercept_ = self._split_intercept(weights)
        self.classes_ = classes
        self.multinomial_ = joint is not None
        return self

    def _xy_loss(self, n_classes: int) -> Loss | None:
        """One loss for all classes together, if there is one; else one model a class."""
        return None

    def decision_function(self, X: Any) -> FloatArray:
        """Scores: shape (n_samples,) for two classes (positive: the second), else a column each."""
        check_is_fitted(self, "coef_")
        scores = self._margins(self._read_new(X), self.coef_, self.intercept_)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely label of each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def _declared_classes(self) -> NDArray[Any] | None:
        if self.classes is None:
            return None
        declared = np.unique(np.asarray(self.classes))
        if declared.ndim != 1 or len(declared) < 2 or len(declared) != np.size(self.classes):
            raise ValueError(
                f"classes must list each label once, at least two of them; got {self.classes!r}."
            )
        return declared

    def _encode(
        self, y: NDArray[Any], declared: NDArray[Any] | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The labels and each row's index among them."""
        if declared is not None:
            return declared, _codes(y, declared)
        check_classification_targets(y)
        found, codes = np.unique(y, return_inverse=True)
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
        """Tell scikit-learn what to expect."""
        tags = super().__sklearn_tags__()
        # Privacy on a few dozen rows leaves little accuracy: that is the promise, not a bug.
        tags.classifier_tags.poor_score = True
        return tags


def _codes(y: NDArray[Any], declared: NDArray[Any]) -> NDArray[Any]:
    """Each label's index among the declared ones, which are sorted; y itself is not sorted."""
    order = _ordered(y.dtype)
    if order is not None and order == _ordered(declared.dtype):
        codes = np.empty(len(y), dtype=np.min_scalar_type(len(declared)))
        known = True
        for start in range(0, len(y), _BLOCK):
            labels = y[start : start + _BLOCK]
            places = np.minimum(np.searchsorted(declared, labels), len(declared) - 1)
            known &= bool((declared[places] == labels).all())
            codes[start : start + _BLOCK] = places
    else:  # objects, or text among numbers: what sorts and equals is for unique to say
        found, inverse = np.unique(y, return_inverse=True)
        known = bool(np.isin(found, declared).all())
        codes = np.searchsorted(declared, found)[inverse] if known else inverse
    if not known:
        raise ValueError(
            "y holds labels that are not in classes; list every possible label in classes "
            "or leave those rows out."
        )
    return codes


def _ordered(dtype: np.dtype[Any]) -> str | None:
    """Within which order labels of a type stand, if they have one: that of numbers or of text."""
    return {"b": "number", "i": "number", "u": "number", "f": "number", "U": "text"}.get(dtype.kind)


class LogisticRegression(_LinearClassifier):
    """Logistic regression under differential privacy.

    Minimises the mean logistic loss plus ``alpha/2·‖w‖²`` (intercept included). More than two
    classes are one softmax model where the solver takes one (``"auto"``, ``"gd"``, ``"objpert"``,
    ``"amp"``), else one model against the rest each, sharing one budget.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget: smaller is more private.
    delta : float, default=1e-6
        Chance-like slack of the promise; keep it well below 1/n.
    relation : {"add_remove", "replace_one"}, default="add_remove"
        Which tables must look alike: one row more or less, or one row with other values.
    solver : str or Solver, default="auto"
        A name, or a solver object with its own settings such as ``AGD(splits=40)``.
    alpha : float, default=1e-4
        Strength of the penalty.
    data_norm : float, optional
        Public bound on a row's L2 norm: longer rows are scaled down to it, in fit and in predict.
    fit_intercept : bool, default=True
        Whether to fit a constant term.
    preparation : sequence of steps, optional
        What is done to the rows first, on the same budget: `Bounds`, `Radius`, `Centre`, `Spread`,
        `Scale`, `Whiten`, in the order given. Each has a share of the budget; the model gets the
        rest. ``solver="auto"`` adds its own.
    classes : array-like, optional
        The labels that exist (public). Taken from y, with a warning, if not given.
    random_state : int or RandomState, optional
        For tests only: fixes the noise, and with it gives up all privacy.
    accountant : Accountant, optional
        Counts what several fits on the same people spend together.
    progress : callable, optional
        Called after each iteration with a `Progress`.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        Shape (1, n_features) and (1,) for two classes, else one row a class.
    classes_ : ndarray
        The labels.
    guarantee_ : Guarantee
        What was promised.
    solver_ : str
        Which solver ran.
    multinomial_ : bool
        Whether more than two classes were fitted by one softmax model; else one against the rest.
    trace_ : tuple
        One entry per iteration, safe to publish.
    preparation_ : tuple
        The steps of the preparation with what they released; ``coef_`` belongs to rows after them.
    link_ : Link
        How scores of two classes become probabilities.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Privacy
    -------
    The fitted model, its trace and its guarantee together are (ε, δ)-differentially private under
    ``relation``. Public: n, the number of columns, the labels, all settings.

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

    link_: Link

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        relation: str = "add_remove",
        solver: str | Solver = "auto",
        alpha: float = 1e-4,
        data_norm: float | None = None,
        fit_intercept: bool = True,
        preparation: Sequence[Step] | None = None,
        classes: ArrayLike | None = None,
        random_state: Any = None,
        accountant: Accountant | None = None,
        progress: Callable[[Any], None] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.relation = relation
        self.solver = solver
        self.alpha = alpha
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.preparation = preparation
        self.classes = classes
        self.random_state = random_state
        self.accountant = accountant
        self.progress = progress

    def _loss(self) -> Loss:
        return Logistic()

    def _note(self, solution: Solution, norm: float | None) -> None:
        """Keep how scores become probabilities."""
        known = norm is not None and solution.clip is not None and solution.deviation is not None
        self.link_ = Link.of(solution.clip, solution.deviation, norm) if known else Link()

    def _xy_loss(self, n_classes: int) -> Loss | None:
        return Softmax(n_classes)

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes, one column each.

        Of two classes, scores are corrected for clipping and noise where the solver says how much
        there was (`Link`); one-vs-rest scores are normalised.
        """
        scores = self.decision_function(X)
        if self.multinomial_:
            return softmax(scores, axis=1)
        if scores.ndim == 1:
            return np.column_stack([self.link_.positive(-scores), self.link_.positive(scores)])
        positive = expit(scores)
        sums = positive.sum(axis=1, keepdims=True)
        # Scores so low that every class rounds to zero say nothing: call them equally likely.
        even = np.full_like(positive, 1 / positive.shape[1])
        return np.divide(positive, sums, out=even, where=sums > 0)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


_SVM_LOSSES: dict[str, type[Loss]] = {
    "hinge": LOSSES["hinge"],
    "huber": LOSSES["huber-hinge"],
    "sigmoid": LOSSES["sigmoid"],
}


class LinearSVC(_LinearClassifier):
    """Linear support vector machine under differential privacy.

    Parameters
    ----------
    epsilon, delta, relation, solver, alpha, data_norm, fit_intercept, preparation, classes, \
random_state, accountant, progress
        As in `LogisticRegression`.
    loss : {"huber", "hinge", "sigmoid"}, default="huber"
        ``"huber"`` is the hinge with its corner rounded off (h = 0.1), which every solver takes;
        ``"hinge"`` is not smooth, so only some do. ``"sigmoid"``, a smooth count of errors, is not
        convex: only solvers such as ``"rrpsgd"`` and ``"agd"`` take it.

    Attributes
    ----------
    coef_, intercept_, classes_, guarantee_, trace_, preparation_
        As in `LogisticRegression`.

    Privacy
    -------
    As in `LogisticRegression`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: str = "huber",
        relation: str = "add_remove",
        solver: str | Solver = "auto",
        alpha: float = 1e-4,
        data_norm: float | None = None,
        fit_intercept: bool = True,
        preparation: Sequence[Step] | None = None,
        classes: ArrayLike | None = None,
        random_state: Any = None,
        accountant: Accountant | None = None,
        progress: Callable[[Any], None] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.relation = relation
        self.solver = solver
        self.alpha = alpha
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.preparation = preparation
        self.classes = classes
        self.random_state = random_state
        self.accountant = accountant
        self.progress = progress

    def _loss(self) -> Loss:
        if self.loss not in _SVM_LOSSES:
            near = difflib.get_close_matches(str(self.loss), list(_SVM_LOSSES), n=9, cutoff=0.0)
            raise ValueError(
                f"unknown loss {self.loss!r}. Known (nearest first): {', '.join(near)}."
            )
        return _SVM_LOSSES[self.loss]()
