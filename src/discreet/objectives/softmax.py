"""Cross-entropy over K classes: one model with K margins per row.

The weights are K rows one after the other, the weights of class 0 first, each with its intercept
last if there is one: ``weights.reshape(K, -1)[k]`` belongs to class k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.objectives.losses import Loss, Task
from discreet.validate import FloatArray, check_fields, integer

__all__ = ["Softmax"]


@dataclass(frozen=True)
class Softmax(Loss):
    """Cross-entropy, log Σ_k exp(m_k) − m_y, for targets 0, 1, …, K − 1 (as floats).

    A row's gradient is (p − e_y) ⊗ x with the class probabilities p. Margins have K entries in
    their last axis; so have slopes, and second derivatives are K × K matrices.

    Parameters
    ----------
    n_classes : int
        K, at least 2.
    """

    n_classes: int

    name: ClassVar[str] = "softmax"
    task: ClassVar[Task] = "classification"

    def __post_init__(self) -> None:
        check_fields(self, integer, "n_classes", least=2)

    @property
    def n_outputs(self) -> int:
        """K."""
        return self.n_classes

    @property
    def slope_bound(self) -> float:
        """Bound on ‖p − e_y‖: √2, rounded up."""
        return math.nextafter(math.sqrt(2.0), 2.0)

    @property
    def curvature_bound(self) -> float | None:
        """Bound on the largest eigenvalue of diag(p) − ppᵀ."""
        return 0.5

    @property
    def hessian_rank(self) -> int:
        """K − 1: moving all margins alike changes nothing."""
        return self.n_classes - 1

    @property
    def hessian_trace_bound(self) -> float:
        """Bound on the trace 1 − ‖p‖² of diag(p) − ppᵀ: 1 − 1/K."""
        return 1.0 - 1.0 / self.n_classes

    @property
    def gradient_corners(self) -> int:
        """K − 1: p − e_y is a convex combination of 0 and the e_j − e_y, j ≠ y."""
        return self.n_classes - 1

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return φ(margin, target), one number per row."""
        m, index = self._split(margin, target)
        top = m.max(axis=-1)
        with np.errstate(all="ignore"):
            rest = np.log(np.exp(m - top[..., None]).sum(axis=-1))
            own = np.take_along_axis(m, index[..., None], axis=-1)[..., 0]
            return np.asarray(np.maximum((top - own) + rest, 0.0), dtype=np.float64)

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return p − e_y."""
        m, index = self._split(margin, target)
        slopes = self._probabilities(m)
        own = np.take_along_axis(slopes, index[..., None], axis=-1)
        np.put_along_axis(slopes, index[..., None], own - 1.0, axis=-1)
        return slopes

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return diag(p) − ppᵀ."""
        m, _ = self._split(margin, target)
        p = self._probabilities(m)
        return np.asarray(p[..., :, None] * (np.eye(self.n_classes) - p[..., None, :]))

    def _split(self, margin: ArrayLike, target: ArrayLike) -> tuple[FloatArray, NDArray[np.intp]]:
        m = np.asarray(margin, dtype=np.float64)
        if m.ndim < 1 or m.shape[-1] != self.n_classes:
            raise ValueError(
                f"Softmax: margins must have {self.n_classes} entries in the last axis."
            )
        index = np.broadcast_to(np.asarray(target, dtype=np.intp), m.shape[:-1])
        if index.size and not (index.min() >= 0 and index.max() < self.n_classes):
            raise ValueError(
                f"Softmax: targets must be classes 0 to {self.n_classes - 1}. Encode labels first."
            )
        return m, index

    def _probabilities(self, m: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            weights = np.exp(m - m.max(axis=-1, keepdims=True))
            return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
