"""Steps of a preparation as they were fitted: released numbers, and how they move rows.

Everything here is public once the fit is done. The same code moves rows in a fit and in prediction,
and treats every row alike: what becomes of a row depends on that row and the released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.rows import Move, as_rows

__all__ = [
    "FittedBounds",
    "FittedCentre",
    "FittedRadius",
    "FittedScale",
    "FittedStep",
    "FittedWhiten",
    "from_dict",
    "move_of",
]

FloatArray = NDArray[np.float64]


class FittedStep:
    """Base class of fitted steps: frozen dataclasses of released numbers."""

    name: ClassVar[str]

    def apply(self, X: Any, *, in_place: bool = False) -> Any:
        """Move the rows of X; ``in_place`` allows a dense X to be overwritten."""
        raise NotImplementedError

    def move(self, before: Move | None, columns: int) -> Move | None:
        """What moves rows as ``before`` does and then as this step does; None if no `Move` can."""
        return None

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns."""
        raise NotImplementedError

    @property
    def condition(self) -> str:
        """What the privacy of the step rests on, in words."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        plain = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"step": self.name, **plain}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The step that `to_dict` was called on; anything else is a ``ValueError``."""
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        if set(data) != {"step", *known} or data["step"] != cls.name:
            raise ValueError(
                f"a fitted {cls.name!r} has exactly the entries: step, {', '.join(known)}."
            )
        return cls(**{name: data[name] for name in known})


@dataclass(frozen=True, eq=False)
class FittedBounds(FittedStep):
    """Columns and their bounds: x becomes clip((x − low)/(high − low), 0, 1).

    Attributes
    ----------
    columns
        Which columns.
    low, high
        Their bounds.
    """

    columns: tuple[int, ...]
    low: FloatArray
    high: FloatArray
    name: ClassVar[str] = "bounds"

    def __post_init__(self) -> None:
        """Refuse what no fit could have released."""
        columns = tuple(_whole(column) for column in self.columns)
        object.__setattr__(self, "columns", columns)
        for name in ("low", "high"):
            object.__setattr__(self, name, _vector(name, getattr(self, name), len(columns)))
        if not (columns and len(set(columns)) == len(columns) and (self.low < self.high).all()):
            raise ValueError("bounds must name each column once, with low < high.")

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns."""
        return max(self.columns) < columns

    def apply(self, X: Any, *, in_place: bool = False) -> Any:
        """Bring the columns to [0, 1]."""
        if sp.issparse(X):
            return self._apply_sparse(X)
        out = X if in_place else np.array(X, order="C")
        for at, column in enumerate(self.columns):
            out[:, column] = self._moved(at, X[:, column])
        return out

    def _moved(self, at: int, values: NDArray[Any]) -> FloatArray:
        low, high = self.low[at], self.high[at]
        with np.errstate(over="ignore"):
            moved = (np.asarray(values, dtype=np.float64) - low) / (high - low)
        return np.clip(moved, 0.0, 1.0, out=moved)

    def _apply_sparse(self, X: Any) -> Any:
        """Replace the columns: 0 may become something else, so they are made dense on the way."""
        kept = X.tocsr(copy=True)
        ours = np.zeros(X.shape[1], dtype=bool)
        ours[list(self.columns)] = True
        kept.data[ours[kept.indices]] = 0
        kept.eliminate_zeros()
        dense = np.empty((X.shape[0], len(self.columns)), dtype=X.dtype)
        for at, column in enumerate(self.columns):
            dense[:, at] = self._moved(at, np.asarray(X[:, [column]].toarray())[:, 0])
        new = sp.csr_array(dense)
        new = sp.csr_array(
            (new.data, np.array(self.columns, dtype=new.indices.dtype)[new.indices], new.indptr),
            shape=X.shape,
        )
        total = sp.csr_array(kept) + new
        total.sort_indices()
        return total.astype(X.dtype, copy=False)

    @property
    def condition(self) -> str:
        """What the privacy of the step rests on, in words."""
        return (
            f"bounds of {len(self.columns)} columns were chosen privately among public round "
            "numbers, and values cut to them"
        )


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
        _positive(self, "radius")
        if not 1e-13 <= self.radius <= 1e13:
            raise ValueError("radius must be between 1e-13 and 1e13.")

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns: it is for any."""
        return True

    def move(self, before: Move | None, columns: int) -> Move | None:
        """As `FittedStep.move`: only as the first of them, as it depends on the rows' lengths."""
        if before is not None:
            return None
        return Move.to_norm(self.radius, columns).stretched(1.0 / self.radius)

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
        object.__setattr__(self, "mean", _vector("mean", self.mean))
        _positive(self, "deviation", "row_norm")
        _truth(self, "clips")

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns."""
        return self.mean.size == columns

    def move(self, before: Move | None, columns: int) -> Move | None:
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
        object.__setattr__(self, "weights", _vector("weights", self.weights))
        if not (self.weights > 0).all():
            raise ValueError("weights must be > 0.")
        _positive(self, "deviation", "row_norm")
        _truth(self, "clips")

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns."""
        return self.weights.size == columns

    def move(self, before: Move | None, columns: int) -> Move | None:
        """As `FittedStep.move`."""
        return _first(before, self, columns).stretched(self.weights)

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
        _positive(self, "ridge", "deviation", "row_norm")
        _truth(self, "clips")

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns."""
        return len(self.matrix) == columns

    def move(self, before: Move | None, columns: int) -> Move | None:
        """As `FittedStep.move`."""
        return _first(before, self, columns).turned(self.matrix)

    def apply(self, X: Any, *, in_place: bool = False) -> Any:
        """Turn the rows."""
        bound = self.row_norm if self.clips else None
        rows = as_rows(X, np.zeros(X.shape[0]), fit_intercept=False, row_norm=bound)
        return rows.turned(self.matrix, out=X if in_place else None)

    @property
    def condition(self) -> str:
        """What the privacy of the step rests on, in words."""
        return (
            f"the second moment of the rows, each clipped to norm {self.row_norm:g}, was released "
            f"with noise of standard deviation {self.deviation:.4g} and rows were whitened by it"
        )


_STEPS: dict[str, type[FittedStep]] = {
    step.name: step
    for step in (FittedBounds, FittedRadius, FittedCentre, FittedScale, FittedWhiten)
}


def from_dict(data: Mapping[str, Any]) -> FittedStep:
    """The fitted step that these plain data describe."""
    name = data.get("step")
    if name not in _STEPS:
        raise ValueError(f"a fitted step is one of {', '.join(sorted(_STEPS))}; got {name!r}.")
    return _STEPS[name].from_dict(data)


def move_of(steps: Sequence[FittedStep], columns: int) -> Move | None:
    """The one `Move` that does what all these steps do, if there is one."""
    move: Move | None = None
    for step in steps:
        move = step.move(move, columns)
        if move is None:
            return None
    return move


def _first(before: Move | None, step: Any, columns: int) -> Move:
    """What comes before a step: if nothing does, scaling rows down to its own bound."""
    return Move.to_norm(step.row_norm, columns) if before is None else before


def _scaled_down(X: Any, row_norm: float, factor: float, in_place: bool) -> Any:
    """Rows scaled down to a norm, times a factor."""
    rows = as_rows(X, np.zeros(X.shape[0]), fit_intercept=False, row_norm=row_norm)
    return rows.scaled(factor, out=X if in_place and not sp.issparse(X) else None)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else _list(value)


def _list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("columns must be whole numbers, counted from 0.")
    return value


def _vector(name: str, value: Any, size: int | None = None) -> FloatArray:
    vector = np.array(value, dtype=np.float64)
    if vector.ndim != 1 or not np.isfinite(vector).all() or size not in (None, vector.size):
        raise ValueError(f"{name} must be a vector of finite numbers, one for each column.")
    return vector


def _positive(step: Any, *names: str) -> None:
    for name in names:
        value = float(getattr(step, name))
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be > 0 and finite.")
        object.__setattr__(step, name, value)


def _truth(step: Any, name: str) -> None:
    if not isinstance(getattr(step, name), bool):
        raise ValueError(f"{name} must be true or false.")
