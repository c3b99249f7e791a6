"""What a fit gets: a checked table with its targets and units.

scikit-learn's own messages quote what it could not read; a value of a protected row must not be
in an error text. The checks here come first and cover all inputs for which it would.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet import engines
from discreet.core.bits import Bits
from discreet.estimators.units import ClassWeights, PrivacyUnits
from discreet.rows import Rows
from discreet.validate import FloatArray

Rule = Callable[[NDArray[Any]], FloatArray]
"""A function that can be pickled, from targets as given to those of a model."""

Method = TypeVar("Method", bound=Callable[..., Any])

_COMPLEX = "Complex data not supported: {} must be real numbers."
_ADVICE = "Encode them (one-hot, with a public list of categories) or leave them out."


@dataclass(frozen=True, eq=False)
class Inputs:
    """A table that was checked, whose rows it has, and the models to fit to it.

    Attributes
    ----------
    X, y
        The table and what targets are made of; y is None where blocks of X have their own.
    rules
        For each model, the function from y, or from targets in blocks, to its targets.
    units, by_class
        Whose row each row is, and the weights of classes, if there are any.
    public
        Statements of what the estimator treats as public.
    names, booleans
        Names of the columns, if they have any, and the columns that are stored as booleans.
    scale, centre
        Factor and constant that bring margins of the fit to units of predictions.
    """

    X: Any
    y: NDArray[Any] | None
    rules: tuple[Rule, ...]
    units: PrivacyUnits
    by_class: ClassWeights | None = None
    public: tuple[str, ...] = ()
    names: Sequence[str] | None = None
    booleans: tuple[int, ...] = ()
    scale: float = 1.0
    centre: float = 0.0

    @property
    def uneven(self) -> bool:
        """True if units may have a total weight other than 1 in the objective."""
        return not self.units.even or self.by_class is not None

    def labelled(self, rows: Rows, model: int) -> Rows:
        """Return the rows with the targets of a model; rows are made with those of the first."""
        rule = self.rules[model]
        if self.y is None:
            return rows.with_targets(rule)
        return rows if model == 0 else rows.with_targets(rule(self.y))

    def drawn(self, bits: Bits) -> Inputs:
        """Return one row of each unit, drawn at random."""
        assert self.y is not None  # rows on workers go to solvers that take units
        index, units = self.units.draw(bits)
        classes = None if self.by_class is None else self.by_class.take(index)
        return replace(self, X=self.X[index], y=self.y[index], units=units, by_class=classes)


def check_table(X: Any) -> tuple[int, ...]:
    """Raise if X is not a two-dimensional table of real numbers; say which columns are not.

    Returns the columns that a DataFrame stores as booleans, as one-hot columns often are. The type
    of a column is public; its values are not looked at.
    """
    if not sp.issparse(X) and hasattr(X, "columns") and hasattr(X, "dtypes"):
        types = list(zip(X.columns, X.dtypes, strict=True))
        text = [str(name) for name, dtype in types if not _is_number(dtype)]
        if text:
            raise ValueError(f"X has columns that are not numbers: {', '.join(text)}. {_ADVICE}")
        kinds = [str(dtype).lower() for _, dtype in types]
        return tuple(j for j, kind in enumerate(kinds) if kind in ("bool", "boolean"))
    array: Any = X if sp.issparse(X) else np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"Expected a 2D array of rows and columns, got {array.ndim}D. Reshape your data: one "
            "column is X.reshape(-1, 1), one row is X.reshape(1, -1)."
        )
    if array.dtype.kind == "c":
        raise ValueError(_COMPLEX.format("X"))
    if array.dtype.kind not in "OSU":
        return ()
    failures = {j: error for j in range(array.shape[1]) if (error := _unreadable(array[:, j]))}
    if failures:
        kind = TypeError if TypeError in failures.values() else ValueError
        columns = ", ".join(f"column {j}" for j in failures)
        raise kind(
            f"X has columns that are not numbers: {columns}. {_ADVICE} An argument must be a "
            "number or a string that spells a number."
        )
    return ()


def check_target(y: Any, *, numbers: bool) -> None:
    """Raise if a target is complex or, for a regressor, not numbers."""
    if y is None or sp.issparse(y):
        return  # scikit-learn's messages for these show nothing
    array = np.asarray(y)
    if array.dtype.kind == "c":
        raise ValueError(_COMPLEX.format("y"))
    if numbers and array.dtype.kind in "OSU" and _unreadable(array):
        raise ValueError("y must be numbers for a regressor; it has values that are not.")


def by_blocks(method: Method) -> Method:
    """Make a method that predicts take Dask arrays and dataframes, block by block and by need."""

    @functools.wraps(method)
    def predict(self: Any, X: Any) -> Any:
        if engines.is_lazy(X):
            return engines.predicted(X, functools.partial(method, self))
        return method(self, X)

    return predict  # type: ignore[return-value]


def _unreadable(values: Any) -> type[Exception] | None:
    """Return the type of the error that reading the values as floats raises, if any."""
    try:
        values.astype(np.float64)
    except (TypeError, ValueError) as error:
        return type(error)
    return None


def _is_number(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "biuf"
