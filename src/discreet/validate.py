"""Checks of arguments: one message format, before any data is read.

Every function returns the checked value as a plain Python or float64 value, so that no narrow type
rounds what is computed from it. A message states the value, what is allowed and what to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache, partial
from numbers import Integral, Real
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
"""The array type of the library."""


def number(
    name: str,
    value: Any,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    remedy: str = "",
) -> float:
    """Return a finite real number as a float, within closed or open bounds.

    ``remedy`` is a sentence that says what to do.
    """
    found = value if type(value) is float else math.nan  # the usual type, known at once
    if type(value) is not float and isinstance(value, Real) and not isinstance(value, bool):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
    if math.isfinite(found) and least <= found <= most and above < found < below:
        return found
    if math.isfinite(least) and math.isfinite(most):
        allowed = f" between {least:g} and {most:g}"
    else:
        bounds = [
            f" {word} {bound:g}"
            for word, bound in ((">=", least), (">", above), ("<=", most), ("<", below))
            if math.isfinite(bound)
        ]
        allowed = " and".join(bounds)
    raise ValueError(
        f"{name} must be a finite number{allowed}; got {display(value)}.{_after(remedy)}"
    )


positive = partial(number, above=0.0)
"""Return a positive finite number as a float, as `number` does."""


def integer(name: str, value: Any, *, least: int = 1, most: int = 10**9, remedy: str = "") -> int:
    """Return an integer in a range as an int."""
    whole = type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))
    if whole and least <= int(value) <= most:
        return int(value)
    raise ValueError(
        f"{name} must be an integer from {least} to {most:,}; got {display(value)}.{_after(remedy)}"
    )


def choice(name: str, value: Any, known: Iterable[str], *, remedy: str = "") -> str:
    """Return a string that is one of several."""
    known = tuple(known)
    if isinstance(value, str) and value in known:
        return value
    allowed = " or ".join(map(repr, known))
    raise ValueError(f"{name} must be {allowed}; got {display(value)}.{_after(remedy)}")


def flag(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False; got {display(value)}.")
    return value


def function(name: str, value: Any) -> Callable[..., Any]:
    """Return a callable."""
    if not callable(value):
        raise ValueError(f"{name} must be a function; got {display(value)}.")
    return value  # type: ignore[no-any-return]


def vector(
    name: str, value: ArrayLike, size: int | None = None, *, above: float = -math.inf
) -> FloatArray:
    """Return a new one-dimensional float64 array of finite numbers, of ``size`` if it is given."""
    array = np.array(value, dtype=np.float64)
    if array.ndim != 1 or size not in (None, array.size):
        shape = "one-dimensional" if size is None else f"of shape ({size},)"
        raise ValueError(f"{name} must be an array {shape}; its shape is {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; it has NaN or infinite entries.")
    if above > -math.inf and not (array > above).all():
        raise ValueError(f"{name} must have entries > {above:g} only.")
    return array


def square_matrix(name: str, value: ArrayLike) -> FloatArray:
    """Return a new square float64 array of finite numbers."""
    array = np.array(value, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError(f"{name} must be a square matrix; its shape is {array.shape}.")
    return vector(name, array.ravel()).reshape(array.shape)


def check_fields(
    owner: Any, check: Callable[..., Any], *names: str, optional: bool = False, **rules: Any
) -> None:
    """Check fields of a frozen dataclass with a function of this module, and store the results.

    With ``optional``, None is accepted. ``rules`` are passed to ``check``.
    """
    for name in names:
        value = getattr(owner, name)
        if not (value is None and optional):
            object.__setattr__(owner, name, check(name, value, **rules))


def check_declared(owner: Any) -> None:
    """Check fields of a frozen dataclass by their annotations, and store the results.

    ``Annotated[float, check]`` has a function of a name and a value, ``Literal`` lists choices and
    ``bool`` is a flag; with ``| None``, None is accepted. Other fields are not checked.
    """
    kind: Any = type(owner)
    for name, check, optional in _declared(kind):
        value = getattr(owner, name)
        if not (value is None and optional):
            object.__setattr__(owner, name, check(name, value))


class CheckedFields:
    """Base of frozen dataclasses whose fields are checked by their annotations (`check_declared`).

    A class with further rules has a ``__post_init__`` of its own, which calls this one first.
    """

    def __post_init__(self) -> None:
        check_declared(self)


Vector = Annotated[FloatArray, vector]
"""Field that is a one-dimensional array of finite numbers, copied."""

Positive = Annotated[float, positive]
"""Field that is a positive finite number."""


@cache
def _declared(kind: Any) -> tuple[tuple[str, Callable[..., Any], bool], ...]:
    """Return the name, the check and whether None is accepted, of each declared field."""
    hints = get_type_hints(kind, include_extras=True)
    found: list[tuple[str, Callable[..., Any], bool]] = []
    for name in (field.name for field in fields(kind)):
        optional = NoneType in get_args(hints[name])
        for part in get_args(hints[name]) if optional else (hints[name],):
            if get_origin(part) is Annotated:
                found.append((name, part.__metadata__[0], optional))
            elif get_origin(part) is Literal:
                found.append((name, partial(choice, known=get_args(part)), optional))
            elif part is bool:
                found.append((name, flag, optional))
    return tuple(found)


def display(value: Any) -> str:
    """Return the repr of a value, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _after(remedy: str) -> str:
    return f" {remedy}" if remedy else ""


# ---- tables and targets

# scikit-learn's own messages quote what it could not read; a value of a protected row must not be
# in an error text. These checks come first and cover all inputs for which it would.

_COMPLEX = "Complex data not supported: {} must be real numbers."
_ADVICE = "Encode them (one-hot, with a public list of categories) or leave them out."


def check_table(X: Any) -> tuple[int, ...]:
    """Raise if X is not a two-dimensional table of real numbers; say which columns are not.

    Returns the columns that a DataFrame stores as booleans, as one-hot columns often are. The type
    of a column is public; its values are not read.
    """
    if not sp.issparse(X) and hasattr(X, "columns") and hasattr(X, "dtypes"):
        types = list(zip(X.columns, X.dtypes, strict=True))
        text = [str(name) for name, dtype in types if not is_number(dtype)]
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


def _unreadable(values: Any) -> type[Exception] | None:
    """Return the type of the error that reading the values as floats raises, if any."""
    try:
        values.astype(np.float64)
    except (TypeError, ValueError) as error:
        return type(error)
    return None


def is_number(dtype: Any) -> bool:
    """Return whether a type of a column of a DataFrame is that of numbers or truth values."""
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "biuf"
