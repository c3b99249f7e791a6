"""Losses of linear models, as functions of one number per row, the margin, or of one per class.

A row (x, y) with margin m = x·w (plus the intercept) has the loss φ(m, y), so its gradient is
φ'(m, y)·x, of norm |φ'|·‖x‖. Everything a proof needs of a loss is a bound on φ'
(``slope_bound``), a bound on φ'' (``curvature_bound``) and whether φ is convex. Targets are ±1
for classification and real for regression.

=================  ================================  ============  ============
loss               φ                                 bound on |φ'| bound on φ''
=================  ================================  ============  ============
``logistic``       log(1 + exp(−ym))                 1             1/4
``hinge``          max(0, 1 − ym)                    1             none
``huber-hinge``    hinge, quadratic near its kink    1             1/(2h)
``huber``          quadratic, linear beyond t        t             1
``squared``        (m − y)²/2, 0 beyond a limit      infinite      1
``sigmoid``        1/(1 + exp(ym)), not convex       1/4           √3/18
=================  ================================  ============  ============

Losses of counts, positive amounts and quantiles are in ``families.py``.

All methods work elementwise on arrays, are accurate for margins of any size and never warn; a
value too large for a float is ``inf``. Kernels compute the same formulas row by row; their compiled
forms are in ``formulas.py``, and tests compare the two.
"""

# ruff: noqa: D102  the methods are documented in Loss

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.objectives.advice import Advice, HingeAdvice, HuberAdvice, SquaredAdvice
from discreet.validate import FloatArray, check_fields, integer, positive

Task: TypeAlias = Literal["classification", "regression"]


def arrays(margin: ArrayLike, target: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return both as arrays of floats; a loss of one target refuses rows with several."""
    margins, targets = np.asarray(margin, dtype=np.float64), np.asarray(target, dtype=np.float64)
    if targets.ndim > max(margins.ndim, 1):
        raise ValueError("this loss takes one target for each row.")
    return margins, targets


@dataclass(frozen=True)
class Loss(Advice, ABC):
    """A row's loss φ(margin, target), with the constants that privacy proofs use.

    A new loss is a frozen dataclass that defines the class attributes, the two bounds (as class
    attributes or properties) and the three methods. The methods must be elementwise: an element of
    the result depends on the matching elements of the arguments and on nothing else. The bounds
    must be true for every margin and every allowed target; proofs rest on them.

    Attributes
    ----------
    name : str
        Name of the loss in settings and messages.
    task : {'classification', 'regression'}
        Classification losses take targets −1 and +1.
    convex : bool
        True if φ is convex in the margin.
    code, parameter : int, float
        Number and parameter by which compiled kernels know the loss. The code is 0 if they do not,
        as for a subclass that does not state one: it may compute something else.
    curves_unevenly : bool
        True if φ'' of single rows may be far from its mean over rows: advice for solvers.
    n_outputs : int
        Number of margins per row, each with its own weights; 1 but for multi-class losses. With
        more than one, the last axis of margins and of slopes runs over them.
    slowness : float
        Length of the path that descent needs, over that of one logistic margin: advice for solvers.
    of_residuals : bool
        True if φ is a function of the residual m − y: its scale is then unknown.
    dispersion : float, optional
        Mean of φ'² over that of φ'' if φ is minus a log likelihood, and it is known: 1 for the
        logistic loss. Where it is None, inference measures it (docs/inference.md).
    """

    name: ClassVar[str]
    code: ClassVar[int] = 0
    task: ClassVar[Task]
    convex: ClassVar[bool] = True
    curves_unevenly: ClassVar[bool] = False
    parameter = 0.0
    n_outputs = 1
    slowness = 1.0
    of_residuals: ClassVar[bool] = False
    dispersion: ClassVar[float | None] = None

    def __init_subclass__(cls) -> None:
        cls.code = vars(cls).get("code", 0)

    @property
    @abstractmethod
    def slope_bound(self) -> float:
        """Bound on |φ'|, ``math.inf`` if there is none."""

    @property
    @abstractmethod
    def curvature_bound(self) -> float | None:
        """Bound on |φ''|, ``None`` if φ is not smooth."""

    @property
    def smooth(self) -> bool:
        """True if φ' is Lipschitz."""
        return self.curvature_bound is not None

    @property
    def hessian_rank(self) -> int:
        """Bound on the rank of a row's Hessian in the weights."""
        return self.n_outputs

    @property
    def hessian_trace_bound(self) -> float | None:
        """Bound on the trace of φ'' in the margins, ``None`` if φ is not smooth."""
        curvature = self.curvature_bound
        return None if curvature is None else self.hessian_rank * curvature

    @property
    def gradient_corners(self) -> int | None:
        """Number of vectors that, with 0, span the convex hull of all slopes of a row.

        For a row (x, y), there are this many vectors, of norm at most ``slope_bound`` and the same
        at every margin, such that φ' is always in the convex hull of them and 0: 1 if φ' never
        changes its sign, 2 for any other φ' of one margin. ``None``: not known.
        """
        return 2 if self.n_outputs == 1 else None

    @abstractmethod
    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return φ(margin, target), which is at least 0."""

    @abstractmethod
    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return φ' in the margin (a subgradient where φ has a kink)."""

    @abstractmethod
    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return φ'' in the margin (0 at a kink)."""


@dataclass(frozen=True)
class Logistic(Loss):
    """Logistic loss, log(1 + exp(−ym)), for targets ±1."""

    name: ClassVar[str] = "logistic"
    code: ClassVar[int] = 1
    task: ClassVar[Task] = "classification"
    slope_bound = 1.0
    curvature_bound = 0.25
    gradient_corners = 1  # φ' never changes its sign
    dispersion: ClassVar[float | None] = 1.0

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        return as_float(np.logaddexp(0.0, -y * m))

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        z = y * m
        small = np.exp(-np.abs(z))  # at most 1, so nothing overflows
        return as_float(-y * np.where(z >= 0, small, 1.0) / (1.0 + small))

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        small = np.exp(-np.abs(y * m))
        return as_float(y * y * small / (1.0 + small) ** 2)


@dataclass(frozen=True)
class Hinge(HingeAdvice, Loss):
    """Hinge loss, max(0, 1 − ym), for targets ±1. Not smooth: it has a kink at ym = 1."""

    name: ClassVar[str] = "hinge"
    code: ClassVar[int] = 2
    task: ClassVar[Task] = "classification"
    slope_bound = 1.0
    curvature_bound = None  # it has a kink at ym = 1
    gradient_corners = 1  # φ' never changes its sign

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        return as_float(np.maximum(0.0, 1.0 - y * m))

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        return as_float(np.where(1.0 - y * m > 0, -y, 0.0))

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        return np.zeros(np.broadcast(m, y).shape)


@dataclass(frozen=True)
class HuberHinge(Loss):
    """Hinge with a smooth kink, for targets ±1.

    With s = 1 − ym, the loss is s for s > h, 0 for s < −h and s²/(4h) + s/2 + h/4 between.

    Parameters
    ----------
    smoothing : float
        h, half the width of the quadratic part.

    References
    ----------
    Iyengar, Near, Song, Thakkar, Thakurta, Wang: Towards Practical Differentially Private Convex
    Optimization, IEEE S&P 2019, appendix B.
    """

    smoothing: float = 0.1

    name: ClassVar[str] = "huber-hinge"
    code: ClassVar[int] = 3
    task: ClassVar[Task] = "classification"
    slope_bound = 1.0
    gradient_corners = 1  # φ' never changes its sign

    def __post_init__(self) -> None:
        remedy = "Use 0.1, or Hinge() for a hinge without smoothing."
        check_fields(self, positive, "smoothing", remedy=remedy)
        object.__setattr__(self, "parameter", self.smoothing)

    @property
    def curvature_bound(self) -> float | None:
        """Bound on φ''."""
        return 1.0 / (2.0 * self.smoothing)

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        h = self.smoothing
        s = 1.0 - y * m
        near = np.clip(s, -h, h)
        # (s + h)²/(4h), the quadratic part as a square: it cannot come out negative
        return as_float(np.where(s > h, s, (near + h) * ((near + h) / (4.0 * h))))

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        h = self.smoothing
        near = np.clip(1.0 - y * m, -h, h)
        return as_float(-y * ((near + h) / (2.0 * h)))

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        h = self.smoothing
        return as_float(np.where(np.abs(1.0 - y * m) <= h, y * y / (2.0 * h), 0.0))


@dataclass(frozen=True)
class Sigmoid(Loss):
    """Sigmoid loss, 1/(1 + exp(ym)), for targets ±1: a smooth count of errors. Not convex."""

    name: ClassVar[str] = "sigmoid"
    code: ClassVar[int] = 6
    task: ClassVar[Task] = "classification"
    convex: ClassVar[bool] = False
    slope_bound = 0.25  # attained at 0
    curvature_bound = 0.09622504486493764  # √3/18, rounded up
    gradient_corners = 1  # φ' never changes its sign

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        z = y * m
        small = np.exp(-np.abs(z))
        return as_float(np.where(z >= 0, small, 1.0) / (1.0 + small))

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        small = np.exp(-np.abs(y * m))
        return as_float(-y * (small / (1.0 + small) ** 2))

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        z = y * m
        small = np.exp(-np.abs(z))
        # with p = 1/(1 + exp(z)): p(1 − p)(1 − 2p)
        size = small / (1.0 + small) ** 2 * ((1.0 - small) / (1.0 + small))
        return as_float(y * y * np.where(z >= 0, size, -size))


@dataclass(frozen=True)
class Huber(HuberAdvice, Loss):
    """Huber loss of the residual r = m − y: r²/2 for |r| ≤ t, t(|r| − t/2) beyond.

    Parameters
    ----------
    threshold : float
        t, where the loss turns from quadratic to linear; also the bound on |φ'|.
    """

    threshold: float = 1.0

    name: ClassVar[str] = "huber"
    code: ClassVar[int] = 4
    task: ClassVar[Task] = "regression"
    of_residuals: ClassVar[bool] = True
    curvature_bound = 1.0

    def __post_init__(self) -> None:
        remedy = "Use 1.0, or Squared() for a loss without threshold."
        check_fields(self, positive, "threshold", remedy=remedy)
        object.__setattr__(self, "parameter", self.threshold)

    @property
    def slope_bound(self) -> float:
        """Bound on |φ'|."""
        return self.threshold

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        t = self.threshold
        with np.errstate(over="ignore"):
            size = np.abs(m - y)
            near = np.minimum(size, t)
            return as_float(near * (size - 0.5 * near))

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        with np.errstate(over="ignore"):
            return as_float(np.clip(m - y, -self.threshold, self.threshold))

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        with np.errstate(over="ignore"):
            return as_float(np.where(np.abs(m - y) <= self.threshold, 1.0, 0.0))


@dataclass(frozen=True)
class Squared(SquaredAdvice, Loss):
    """Squared loss, (m − y)²/2. Its slope is unbounded, so private methods must clip it.

    With a limit t, rows with a target of t or more have no loss at margins above their target, nor
    those with −t or less below theirs. It is convex, and for targets within [−t, t] its mean is
    least at their mean, as without; margins are meant to be clipped to that interval.

    Parameters
    ----------
    limit : float, optional
        t, a public bound on the size of targets. Default: none.
    """

    limit: float | None = None

    name: ClassVar[str] = "squared"
    code: ClassVar[int] = 5
    task: ClassVar[Task] = "regression"
    of_residuals: ClassVar[bool] = True
    slope_bound = math.inf
    curvature_bound = 1.0

    def __post_init__(self) -> None:
        check_fields(self, positive, "limit", optional=True)
        object.__setattr__(self, "parameter", math.inf if self.limit is None else self.limit)

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        with np.errstate(over="ignore"):
            r = self.derivative(margin, target)
            return as_float(0.5 * r * r)

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        with np.errstate(over="ignore"):
            return as_float(np.where(self._beyond(m, y), 0.0, m - y))

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        if self.limit is None:  # then it is 1 whatever the targets are, also if a row has several
            return np.ones(np.shape(margin))
        return as_float(~self._beyond(*arrays(margin, target)))

    def _beyond(self, m: FloatArray, y: FloatArray) -> NDArray[np.bool_]:
        """Return which margins are beyond a target at the limit."""
        t = self.parameter
        return np.asarray(((y >= t) & (m > y)) | ((y <= -t) & (m < y)))


def as_float(result: Any) -> FloatArray:
    """Give numpy scalars and arrays one type."""
    return np.asarray(result, dtype=np.float64)


@dataclass(frozen=True)
class Softmax(Loss):
    """Cross-entropy, log Σ_k exp(m_k) − m_y, for targets 0, 1, …, K − 1 (as floats).

    A row's gradient is (p − e_y) ⊗ x with the class probabilities p. Margins have K ≥ 2 entries in
    their last axis; so have slopes, and second derivatives are K × K matrices. The weights are K
    rows one after the other, the weights of class 0 first, each with its intercept last if there is
    one: ``weights.reshape(K, -1)[k]`` belongs to class k.
    """

    n_classes: int

    name: ClassVar[str] = "softmax"
    task: ClassVar[Task] = "classification"

    slope_bound = math.nextafter(math.sqrt(2.0), 2.0)  # of ‖p − e_y‖

    def __post_init__(self) -> None:
        check_fields(self, integer, "n_classes", least=2)
        object.__setattr__(self, "n_outputs", self.n_classes)
        if self.smooth:  # K equal classes have 2/K of the curvature of two
            object.__setattr__(self, "slowness", max(1.0, self.n_classes / 2))

    @property
    def curvature_bound(self) -> float | None:
        """Bound on the largest eigenvalue of diag(p) − ppᵀ."""
        return 0.5

    @property
    def hessian_rank(self) -> int:
        """K − 1: adding one number to all margins changes nothing."""
        return self.n_classes - 1

    @property
    def hessian_trace_bound(self) -> float | None:
        """Bound on the trace 1 − ‖p‖² of diag(p) − ppᵀ: 1 − 1/K."""
        return 1.0 - 1.0 / self.n_classes

    @property
    def gradient_corners(self) -> int:
        """K − 1: slopes are convex combinations of 0 and the e_j − e_y, j ≠ y."""
        return self.n_classes - 1

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, index = self._split(margin, target)
        top = m.max(axis=-1)
        with np.errstate(all="ignore"):
            rest = np.log(np.exp(m - top[..., None]).sum(axis=-1))
            own = np.take_along_axis(m, index, axis=-1)[..., 0]
            return np.asarray(np.maximum((top - own) + rest, 0.0), dtype=np.float64)

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, index = self._split(margin, target)
        slopes = self._probabilities(m)
        own = np.take_along_axis(slopes, index, axis=-1)
        np.put_along_axis(slopes, index, own - 1.0, axis=-1)
        return slopes

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, _ = self._split(margin, target)
        p = self._probabilities(m)
        return np.asarray(p[..., :, None] * (np.eye(self.n_classes) - p[..., None, :]))

    def _split(self, margin: ArrayLike, target: ArrayLike) -> tuple[FloatArray, NDArray[np.intp]]:
        """Return the margins and each row's class, with an axis of length 1 at its end."""
        m = np.asarray(margin, dtype=np.float64)
        name = type(self).__name__
        if m.ndim < 1 or m.shape[-1] != self.n_classes:
            raise ValueError(
                f"{name}: margins must have {self.n_classes} entries in the last axis."
            )
        index = np.broadcast_to(np.asarray(target, dtype=np.intp), m.shape[:-1])
        if index.size and not (index.min() >= 0 and index.max() < self.n_classes):
            raise ValueError(
                f"{name}: targets must be classes 0 to {self.n_classes - 1}. Encode labels first."
            )
        return m, index[..., None]

    def _probabilities(self, m: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            weights = np.exp(m - m.max(axis=-1, keepdims=True))
            return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class MulticlassHinge(Softmax):
    """A hinge h of the lead of a row's own margin over the largest other: h(m_y − max_k≠y m_k).

    Convex, as h does not increase; not smooth, as the largest one changes. Crammer & Singer, On the
    Algorithmic Implementation of Multiclass Kernel-based Vector Machines, JMLR 2001.
    """

    hinge: Loss

    name: ClassVar[str] = "multiclass-hinge"
    curvature_bound = hessian_trace_bound = None

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        return self.hinge.value(self._lead(margin, target)[0], 1.0)[..., 0]

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        lead, between = self._lead(margin, target)
        return self.hinge.derivative(lead, 1.0) * between

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        lead, between = self._lead(margin, target)
        bend = self.hinge.second_derivative(lead, 1.0)[..., None]
        return np.asarray(bend * between[..., :, None] * between[..., None, :])

    def _lead(self, margin: ArrayLike, target: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the lead, and its gradient in the margins: e_y − e_j, j the largest other."""
        m, index = self._split(margin, target)
        others = m.copy()
        between = np.zeros_like(m)
        np.put_along_axis(others, index, -np.inf, axis=-1)
        rival = others.argmax(axis=-1)[..., None]
        np.put_along_axis(between, index, 1.0, axis=-1)
        np.put_along_axis(between, rival, -1.0, axis=-1)
        with np.errstate(all="ignore"):
            lead = np.take_along_axis(m, index, axis=-1) - np.take_along_axis(m, rival, axis=-1)
        return lead, between
