"""Checks of settings by the annotations of their fields, and of flags, functions and matrices.

They are for settings of solvers, steps and schemas; trusted code checks its own arguments with
`discreet.validate`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache, partial
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from discreet.validate import FloatArray, check_fields, choice, display, vector


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


def square_matrix(name: str, value: ArrayLike) -> FloatArray:
    """Return a new square float64 array of finite numbers."""
    array = np.array(value, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError(f"{name} must be a square matrix; its shape is {array.shape}.")
    return vector(name, array.ravel()).reshape(array.shape)


def check_declared(owner: Any) -> None:
    """Check fields of a frozen dataclass by their annotations, and store the results.

    ``Annotated[float, check]`` has a function of a name and a value, ``Literal`` lists choices and
    ``bool`` is a flag; with ``| None``, None is accepted. Other fields are not checked.
    """
    kind: Any = type(owner)
    for name, check, optional in _declared(kind):
        check_fields(owner, check, name, optional=optional)


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
