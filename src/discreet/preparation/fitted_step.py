"""What a fitted step of a preparation is: released numbers, and how they move rows.

Everything here is public once the fit is done. The same code moves rows in a fit and in prediction,
and treats every row alike: what becomes of a row depends on that row and the released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.rows import AffineMap

__all__ = ["FittedStep", "FloatArray", "positive", "truth", "vector", "whole"]

FloatArray = NDArray[np.float64]


class FittedStep:
    """Base class of fitted steps: frozen dataclasses of released numbers."""

    name: ClassVar[str]

    def apply(self, X: Any, *, in_place: bool = False) -> Any:
        """Move the rows of X; ``in_place`` allows a dense X to be overwritten."""
        raise NotImplementedError

    def move(self, before: AffineMap | None, columns: int) -> AffineMap | None:
        """What moves rows as ``before`` does and then as this step does, if an `AffineMap` can."""
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


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else _list(value)


def _list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def whole(value: Any) -> int:
    """The number of a column; anything else is a ``ValueError``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("columns must be whole numbers, counted from 0.")
    return value


def vector(name: str, value: Any, size: int | None = None) -> FloatArray:
    """Finite numbers, so many if given; anything else is a ``ValueError``."""
    numbers = np.array(value, dtype=np.float64)
    if numbers.ndim != 1 or not np.isfinite(numbers).all() or size not in (None, numbers.size):
        raise ValueError(f"{name} must be a vector of finite numbers, one for each column.")
    return numbers


def positive(step: Any, *names: str) -> None:
    """Make attributes of a frozen step floats; what is not finite and > 0 is refused."""
    for name in names:
        value = float(getattr(step, name))
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be > 0 and finite.")
        object.__setattr__(step, name, value)


def truth(step: Any, name: str) -> None:
    """Refuse an attribute that is not true or false."""
    if not isinstance(getattr(step, name), bool):
        raise ValueError(f"{name} must be true or false.")
