"""Fitted steps that move rows: by a length, a mean, weights of columns or a matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from discreet.preparation.bounded import FittedBounds
from discreet.preparation.fitted_step import FittedStep, FloatArray, positive, truth, vector
from discreet.rows import AffineMap, as_rows

__all__ = [
    "FittedCentre",
    "FittedRadius",
    "FittedScale",
    "FittedSpread",
    "FittedWhiten",
    "affine_map_of",
    "from_dict",
]


@dataclass(frozen=True, eq=False)
class FittedRadius(FittedStep):
    """A length: a row x becomes x/max(radius, ‖x‖), of norm at most 1.

    Attributes
    ----------
    radius
        The length that becomes 1; longer rows are scaled down to it.
    """

    radius: float
    name: ClassVar[str] = "radius"

    def __post_init__(self) -> None:
        """Refuse what no fit could have released."""
        positive(self, "radius")
        if not 1e-21 <= self.radius <= 1e21:
            raise ValueError("radius must be between 1e-21 and 1e21.")

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns: it is for any."""
        return True

    def move(self, before: AffineMap | None, columns: int) -> AffineMap | None:
        """As `FittedStep.move`: only as the first of them, as it depends on the rows' lengths."""
        if before is not None:
            return None
        return AffineMap.to_norm(self.radius, columns).scaled(1.0 / self.radius)

    def apply(self, X: Any, *, in_place: bool = False) -> Any:
        """Bring the rows to norm 1 or less; a sparse table stays sparse."""
        return _scaled_down(X, self.radius, 1.0 / self.radius, in_place)

    @property
    def condition(self) -> str:
        """What the privacy of the step rests on, in words."""
        return (
            f"the radius {self.radius:.4g} was chosen privately by the median norm of the rows, "
            "among public candidates; rows were clipped to it and divided by it"
        )


@dataclass(frozen=True, eq=False)
class FittedSpread(FittedStep):
    """A length that most rows are below, where they lie now. Rows stay as they are.

    Attributes
    ----------
    length
        Rows are scaled down to it in the moments of later steps.
    """

    length: float
    name: ClassVar[str] = "spread"

    def __post_init__(self) -> None:
        """Refuse what no fit could have released."""
        positive(self, "length")

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns: it is for any."""
        return True

    def move(self, before: AffineMap | None, columns: int) -> AffineMap | None:
        """As `FittedStep.move`."""
        return before

    def apply(self, X: Any, *, in_place: bool = False) -> Any:
        """Leave the rows alone."""
        return X

    @property
    def condition(self) -> str:
        """What the privacy of the step rests on, in words."""
        return (
            f"the length {self.length:.4g} was chosen privately by the median norm of the rows, "
            "among public candidates, and later moments clip rows to it"
        )


@dataclass(frozen=True, eq=False)
class FittedCentre(FittedStep):
    """A noisy mean, which is subtracted from rows.

    Attributes
    ----------
    mean
        The noisy mean of the rows.
    deviation
        Standard deviation of the noise in each coordinate of it.
    row_norm
        Norm that longer rows were scaled down to for the mean.
    clips
        Whether they are scaled down to it before the mean is subtracted, too.
    """

    mean: FloatArray
    deviation: float
    row_norm: float
    clips: bool
    name: ClassVar[str] = "centre"

    def __post_init__(self) -> None:
        """Refuse what no fit could have released."""
        object.__setattr__(self, "mean", vector("mean", self.mean))
        positive(self, "deviation", "row_norm")
        truth(self, "clips")

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns."""
        return self.mean.size == columns

    def move(self, before: AffineMap | None, columns: int) -> AffineMap | None:
        """As `FittedStep.move`."""
        return _first(before, self, columns).shifted(self.mean)

    def apply(self, X: Any, *, in_place: bool = False) -> Any:
        """Subtract the mean."""
        if self.clips:
            rows = as_rows(X, np.zeros(X.shape[0]), fit_intercept=False, row_norm=self.row_norm)
            return rows.shifted(self.mean, out=X if in_place else None)
        if sp.issparse(X):
            X, in_place = X.toarray(), True
        mean = self.mean.astype(X.dtype)
        return np.subtract(X, mean, out=X if in_place else None, order="C")

    @property
    def condition(self) -> str:
        """What the privacy of the step rests on, in words."""
        return (
            f"the mean of the rows, each clipped to norm {self.row_norm:g}, was released with "
            f"noise of standard deviation {self.deviation:.4g} and subtracted"
        )


@dataclass(frozen=True, eq=False)
class FittedScale(FittedStep):
    """A weight for each column, from their noisy second moments: columns are multiplied by them.

    Attributes
    ----------
    weights
        The columns' weights.
    deviation
        Standard deviation of the noise in each second moment.
    row_norm
        Norm that longer rows were scaled down to for the moments.
    clips
        Whether they are scaled down to it before columns are multiplied, too.
    """

    weights: FloatArray
    deviation: float
    row_norm: float
    clips: bool
    name: ClassVar[str] = "scale"

    def __post_init__(self) -> None:
        """Refuse what no fit could have released."""
        object.__setattr__(self, "weights", vector("weights", self.weights))
        if not (self.weights > 0).all():
            raise ValueError("weights must be > 0.")
        positive(self, "deviation", "row_norm")
        truth(self, "clips")

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns."""
        return self.weights.size == columns

    def move(self, before: AffineMap | None, columns: int) -> AffineMap | None:
        """As `FittedStep.move`."""
        return _first(before, self, columns).scaled(self.weights)

    def apply(self, X: Any, *, in_place: bool = False) -> Any:
        """Multiply the columns; a sparse table stays sparse."""
        if self.clips:
            X, in_place = _scaled_down(X, self.row_norm, 1.0, in_place), True
        weights = self.weights.astype(X.dtype)
        if sp.issparse(X):
            parts = (X.data * weights[X.indices], X.indices, X.indptr)
            return sp.csr_array(parts, shape=X.shape)
        return np.multiply(X, weights, out=X if in_place else None, order="C")

    @property
    def condition(self) -> str:
        """What the privacy of the step rests on, in words."""
        return (
            f"the columns' second moments, of rows each clipped to norm {self.row_norm:g}, were "
            f"released with noise of standard deviation {self.deviation:.4g} and columns scaled "
            "by them"
        )


@dataclass(frozen=True, eq=False)
class FittedWhiten(FittedStep):
    """A matrix from a noisy second moment, which rows are multiplied by.

    Attributes
    ----------
    matrix
        s·(Σ + λI)^(−1/2).
    ridge
        λ.
    deviation
        Standard deviation of the noise in each diagonal entry of the second moment; off the
        diagonal it is that over √2.
    row_norm
        Norm that longer rows were scaled down to for the moment.
    clips
        Whether they are scaled down to it before they are turned, too.
    """

    matrix: FloatArray
    ridge: float
    deviation: float
    row_norm: float
    clips: bool
    name: ClassVar[str] = "whiten"

    def __post_init__(self) -> None:
        """Refuse what no fit could have released."""
        matrix = np.array(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
            raise ValueError("matrix must be a square of finite numbers.")
        object.__setattr__(self, "matrix", matrix)
        positive(self, "ridge", "deviation", "row_norm")
        truth(self, "clips")

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns."""
        return len(self.matrix) == columns

    def move(self, before: AffineMap | None, columns: int) -> AffineMap | None:
        """As `FittedStep.move`."""
        return _first(before, self, columns).rotated(self.matrix)

    def apply(self, X: Any, *, in_place: bool = False) -> Any:
        """Turn the rows."""
        bound = self.row_norm if self.clips else None
        rows = as_rows(X, np.zeros(X.shape[0]), fit_intercept=False, row_norm=bound)
        return rows.rotated(self.matrix, out=X if in_place else None)

    @property
    def condition(self) -> str:
        """What the privacy of the step rests on, in words."""
        return (
            f"the second moment of the rows, each clipped to norm {self.row_norm:g}, was released "
            f"with noise of standard deviation {self.deviation:.4g} and rows were whitened by it"
        )


_STEPS: dict[str, type[FittedStep]] = {
    step.name: step
    for step in (FittedBounds, FittedRadius, FittedSpread, FittedCentre, FittedScale, FittedWhiten)
}


def from_dict(data: Mapping[str, Any]) -> FittedStep:
    """The fitted step that these plain data describe."""
    name = data.get("step")
    if name not in _STEPS:
        raise ValueError(f"a fitted step is one of {', '.join(sorted(_STEPS))}; got {name!r}.")
    return _STEPS[name].from_dict(data)


def affine_map_of(steps: Sequence[FittedStep], columns: int) -> AffineMap | None:
    """The one `AffineMap` that does what all these steps do, if there is one."""
    move: AffineMap | None = None
    for step in steps:
        move = step.move(move, columns)
        if move is None:
            return None
    return move


def _first(before: AffineMap | None, step: Any, columns: int) -> AffineMap:
    """What comes before a step: if nothing does, scaling rows down to its own bound."""
    return AffineMap.to_norm(step.row_norm, columns) if before is None else before


def _scaled_down(X: Any, row_norm: float, factor: float, in_place: bool) -> Any:
    """Rows scaled down to a norm, times a factor."""
    rows = as_rows(X, np.zeros(X.shape[0]), fit_intercept=False, row_norm=row_norm)
    return rows.scaled(factor, out=X if in_place and not sp.issparse(X) else None)
