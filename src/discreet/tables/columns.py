"""What one column of a table may hold, and what it becomes: plain data, all of it public.

A column is declared from what is known without looking at the rows: a codebook, a form, the law of
what can be measured. From the declaration alone follow the encoded columns, their names and their
bounds, so encoding a row costs no privacy.

Every column is one *group* of encoded columns, of which a row fills at most one with a number in
[0, 1]. So a group's part of a row has norm at most 1, and a row of k groups has norm at most √k.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["KINDS", "Boolean", "Categorical", "Column", "Ignored", "Numeric", "Ordinal"]

MISSING, OTHER = "(missing)", "(other)"
"""Names of the encoded columns for cells that are empty, or not in the list."""

SPACES = " \t\n\r\v\f\u00a0"
"""What is stripped from both ends of a cell before it is compared with a listed text."""

_FROM_CODEBOOK = "public knowledge, e.g. from the codebook"


@dataclass(frozen=True)
class Numeric:
    """A column of numbers between public bounds; what lies outside is clipped to them.

    A cell v becomes (s(v) - s(low)) / (s(high) - s(low)), in [0, 1], where s is the scale. A NaN
    counts as missing, an infinite number is clipped.

    Without bounds the column is *unbounded*: it becomes s(v) as it is, and the fit has to spend
    part of its budget on finding bounds before it can use it.

    Parameters
    ----------
    low, high : float or None
        Bounds that hold for every cell that may occur, known without looking at the data; or both
        None.
    scale : {"linear", "sqrt", "log"}
        s(v) = v, sign(v)·√|v| or sign(v)·log(1 + |v|). The last two spread out small numbers where
        a few are very large (incomes, counts).
    missing : bool
        Whether a cell may be missing. If so, an indicator column is added, and the other is 0.
    invalid : {"refuse", "missing"}
        What to do with a cell that is not a number: stop, or count it as missing.
    """

    kind: ClassVar[str] = "numeric"

    low: float | None = None
    high: float | None = None
    scale: str = "linear"
    missing: bool = False
    invalid: str = "refuse"

    def __post_init__(self) -> None:
        check_choice("scale", self.scale, ("linear", "sqrt", "log"))
        check_flag("missing", self.missing)
        check_choice("invalid", self.invalid, ("refuse", "missing"))
        if self.invalid == "missing" and not self.missing:
            raise ValueError('invalid = "missing" needs missing = true.')
        if self.low is None and self.high is None:
            return
        low, high = check_bounds(self.low, self.high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        span = float(self.scaled(high)) - float(self.scaled(low))
        if not 0.0 < span < math.inf:
            raise ValueError(
                f"low = {low:g} and high = {high:g} are too close or too far apart for floating "
                f'point numbers at scale = "{self.scale}".'
            )

    @property
    def is_bounded(self) -> bool:
        """Whether public bounds are given."""
        return self.low is not None

    @property
    def width(self) -> int:
        """How many encoded columns it takes."""
        return 1 + self.missing

    def feature_names(self, name: str) -> list[str]:
        """Names of the encoded columns."""
        return _names(name, [name], self.missing)

    def scaled(self, values: Any) -> NDArray[np.float64]:
        """The scale s of the values, number by number."""
        values = np.asarray(values, dtype=np.float64)
        if self.scale == "linear":
            return values
        size = np.sqrt(np.abs(values)) if self.scale == "sqrt" else np.log1p(np.abs(values))
        return np.copysign(size, values)


@dataclass(frozen=True)
class Categorical:
    """A column of one of several texts; each becomes a column of its own (one-hot).

    Parameters
    ----------
    values : sequence of str
        Every text that can occur, known without looking at the data. Spaces around a text do not
        count.
    unseen : {"other", "zeros", "refuse"}
        What to do with a text that is not listed: a column "(other)", all columns 0, or stop.
    missing : bool
        Whether a cell may be missing. If so, a column "(missing)" is added.
    """

    kind: ClassVar[str] = "categorical"

    values: tuple[str, ...]
    unseen: str = "other"
    missing: bool = False

    def __post_init__(self) -> None:
        values = check_texts("values", self.values)
        if not values:
            raise ValueError(f'fill in values = ["…", …] ({_FROM_CODEBOOK}).')
        check_choice("unseen", self.unseen, ("other", "zeros", "refuse"))
        check_flag("missing", self.missing)
        for text, taken in ((OTHER, self.unseen == "other"), (MISSING, self.missing)):
            if taken and text in values:
                raise ValueError(f"the value {text!r} is the name of a column that is added.")
        object.__setattr__(self, "values", values)

    @property
    def width(self) -> int:
        """How many encoded columns it takes."""
        return len(self.values) + (self.unseen == "other") + self.missing

    def feature_names(self, name: str) -> list[str]:
        """Names of the encoded columns."""
        texts = (*self.values, OTHER) if self.unseen == "other" else self.values
        return _names(name, [f"{name}={text}" for text in texts], self.missing)


@dataclass(frozen=True)
class Boolean:
    """A column of yes and no, which becomes 1 and 0. Upper and lower case do not matter.

    Parameters
    ----------
    true, false : sequence of str
        The texts that mean yes, and those that mean no. Any other is refused.
    missing : bool
        Whether a cell may be missing. If so, an indicator column is added, and the other is 0.
    """

    kind: ClassVar[str] = "boolean"

    true: tuple[str, ...] = ("true", "yes", "1", "t", "y")
    false: tuple[str, ...] = ("false", "no", "0", "f", "n")
    missing: bool = False

    def __post_init__(self) -> None:
        for field in ("true", "false"):
            texts = check_texts(field, getattr(self, field))
            if not texts:
                raise ValueError(f'fill in {field} = ["…"], the texts that mean {field}.')
            object.__setattr__(self, field, texts)
        both = {text.lower() for text in self.true} & {text.lower() for text in self.false}
        if both:
            raise ValueError(
                f"{quoted(sorted(both))} means both true and false (case does not matter); "
                "take it out of one list."
            )
        check_flag("missing", self.missing)

    @property
    def width(self) -> int:
        """How many encoded columns it takes."""
        return 1 + self.missing

    def feature_names(self, name: str) -> list[str]:
        """Names of the encoded columns."""
        return _names(name, [name], self.missing)


@dataclass(frozen=True)
class Ordinal:
    """A column of texts that have an order; the i-th of k becomes (i - 1) / (k - 1).

    Parameters
    ----------
    values : sequence of str
        Every text that can occur, from the least to the greatest. Any other is refused.
    missing : bool
        Whether a cell may be missing. If so, an indicator column is added, and the other is 0.
    """

    kind: ClassVar[str] = "ordinal"

    values: tuple[str, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        values = check_texts("values", self.values)
        if len(values) < 2:
            raise ValueError(
                f'fill in values = ["least", …, "greatest"], two at least ({_FROM_CODEBOOK}).'
            )
        check_flag("missing", self.missing)
        object.__setattr__(self, "values", values)

    @property
    def width(self) -> int:
        """How many encoded columns it takes."""
        return 1 + self.missing

    def feature_names(self, name: str) -> list[str]:
        """Names of the encoded columns."""
        return _names(name, [name], self.missing)


@dataclass(frozen=True)
class Ignored:
    """A column that is not read.

    Parameters
    ----------
    reason : str
        Why, for a person who reads the schema.
    """

    kind: ClassVar[str] = "ignored"

    reason: str = ""

    def __post_init__(self) -> None:
        check_text("reason", self.reason)

    @property
    def width(self) -> int:
        """How many encoded columns it takes: none."""
        return 0

    def feature_names(self, name: str) -> list[str]:
        """Names of the encoded columns: none."""
        return []


Column: TypeAlias = Numeric | Categorical | Boolean | Ordinal | Ignored

KINDS: dict[str, type[Column]] = {
    column.kind: column for column in (Numeric, Categorical, Boolean, Ordinal, Ignored)
}
"""Every kind of column, by the name it has in a schema file."""


def _names(name: str, texts: list[str], missing: bool) -> list[str]:
    return [*texts, f"{name}={MISSING}"] if missing else texts


def strip(text: str) -> str:
    """A text without the spaces around it, as cells are compared."""
    return text.strip(SPACES)


def quoted(texts: Iterable[Any]) -> str:
    """Texts as they may stand in a message: in quotes, and not a page long."""
    listed = [repr(text) for text in texts]
    shown = ", ".join(text if len(text) <= 60 else f"{text[:57]}..." for text in listed[:10])
    return shown if len(listed) <= 10 else f"{shown} and {len(listed) - 10} more"


def counted(number: int, thing: str) -> str:
    """A number of things, in words: "1 column", "3 columns"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def repeated(texts: Iterable[str]) -> list[str]:
    """The texts that occur more than once."""
    return [text for text, times in Counter(texts).items() if times > 1]


def nearest(text: str, known: Iterable[str]) -> str:
    """Which of the known words was meant, as the end of a message."""
    known = list(known)
    close = difflib.get_close_matches(text, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {quoted(known)}."


def check_choice(field: str, value: Any, known: tuple[str, ...]) -> None:
    """The field is one of several words."""
    if not (isinstance(value, str) and value in known):
        words = ", ".join(f'"{word}"' for word in known[:-1]) + f' or "{known[-1]}"'
        raise ValueError(f"{field} must be {words}; got {value!r}.")


def check_flag(field: str, value: Any) -> None:
    """The field is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{field} must be true or false; got {value!r}.")


def check_text(field: str, value: Any) -> str:
    """The field is a text that can be written to a file."""
    if not isinstance(value, str):
        raise ValueError(f"{field} must be a text in quotes; got {value!r}.")
    if "\x00" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{field} holds a character that no file can hold: {value!r}.")
    return value


def check_texts(field: str, values: Any) -> tuple[str, ...]:
    """The field is a list of different texts; spaces around them are taken away."""
    # A set is refused because its order, which would be that of the columns, is not its own.
    if isinstance(values, (str, bytes, Set, Mapping)) or not isinstance(values, Iterable):
        raise ValueError(f"{field} must be a list of texts; got {quoted([values])}.")
    texts = tuple(strip(check_text(field, value)) for value in values)
    if len(set(texts)) < len(texts):
        raise ValueError(f"{field} lists {quoted(repeated(texts))} more than once.")
    return texts


def check_number(field: str, value: Any) -> float:
    """The field is a finite number."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not isinstance(value, Real) or not math.isfinite(number):
        raise ValueError(f"{field} must be a finite number; got {quoted([value])}.")
    return number


def check_bounds(low: Any, high: Any) -> tuple[float, float]:
    """Both bounds are given, finite, and in order."""
    for field, value in (("low", low), ("high", high)):
        if value is None:
            raise ValueError(f"{field} is not filled in ({_FROM_CODEBOOK}).")
    low, high = check_number("low", low), check_number("high", high)
    if not low < high:
        raise ValueError(f"low must be below high; got low = {low:g} and high = {high:g}.")
    return low, high
