"""What stands beside the columns in a schema: how files are written, the target, what was spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from discreet.tables.columns import (
    check_bounds,
    check_choice,
    check_flag,
    check_number,
    check_text,
    check_texts,
    quoted,
    repeated,
)

__all__ = ["FileFormat", "FrozenMapping", "Spent", "Target"]

Value = TypeVar("Value")


class FrozenMapping(Mapping[str, Value], Generic[Value]):
    """A mapping that cannot be changed, and whose order counts.

    (`types.MappingProxyType` is no substitute: it can be neither pickled nor copied.)
    """

    def __init__(self, items: Mapping[str, Value]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and list(self.items()) == list(other.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._items)


@dataclass(frozen=True)
class FileFormat:
    """How cells are written in a text file.

    Parameters
    ----------
    delimiter : str
        The character between two cells.
    encoding : str
        The character encoding.
    header : bool
        Whether the first line holds the names of the columns.
    missing : sequence of str
        The texts that stand for a missing cell. In a categorical column a text that is listed
        among its values is a value. Spaces around a text do not count.
    quote : str
        The character around cells that hold a delimiter; "" if there is none.
    names : sequence of str
        For a file without a header: the names of all its columns from left to right, the target's
        among them. If left out, they are the schema's columns in order, and the target is last.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    header: bool = True
    missing: tuple[str, ...] = ("",)
    quote: str = '"'
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_flag("header", self.header)
        for name, least in (("delimiter", 1), ("quote", 0)):
            value = check_text(name, getattr(self, name))
            if not least <= len(value) <= 1 or value in ("\n", "\r"):
                raise ValueError(
                    f"{name} must be one character{'' if least else ' or empty'}; got {value!r}."
                )
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote must differ; both are {self.quote!r}.")
        try:
            "".encode(check_text("encoding", self.encoding))
        except LookupError:
            raise ValueError(
                f'encoding must be one that Python knows, like "utf-8" or "latin-1"; '
                f"got {self.encoding!r}."
            ) from None
        object.__setattr__(self, "missing", check_texts("missing", self.missing))
        object.__setattr__(self, "names", _checked_names("names", self.names))
        if self.names and self.header:
            raise ValueError("names is for files without a header; write header = false too.")


@dataclass(frozen=True)
class Target:
    """The column to predict: one of several classes, or a number between public bounds.

    Parameters
    ----------
    column : str
        Its name.
    classes : mapping of str to sequence of str, or sequence of str, optional
        The label of each class and the cell texts that mean it; or just the texts, if they are the
        labels. Public knowledge. Spaces around a text do not count.
    other : str, optional
        The label of every cell that is missing or whose text is not listed. If None, such a cell
        is refused.
    low, high : float, optional
        Instead of classes: bounds of a numeric target. What lies outside is clipped to them.
    invalid : {"refuse", "middle"}
        What becomes of a missing cell or a text in a numeric target: an error, or the middle of
        the bounds.
    """

    column: str
    classes: Mapping[str, tuple[str, ...]] | Sequence[str] | None = None
    other: str | None = None
    low: float | None = None
    high: float | None = None
    invalid: str = "refuse"

    def __post_init__(self) -> None:
        check_text("column", self.column)
        check_choice("invalid", self.invalid, ("refuse", "middle"))
        bounded = self.low is not None or self.high is not None
        if self.classes is None:
            if not bounded:
                raise ValueError(
                    'fill in classes = ["…", "…"], or low and high for a numeric target (public '
                    "knowledge, e.g. from the codebook)."
                )
            if self.other is not None:
                raise ValueError("other is the label of a class; a numeric target has none.")
            low, high = check_bounds(self.low, self.high)
            if math.isinf(high - low):
                raise ValueError(f"low = {low:g} and high = {high:g} are too far apart.")
            object.__setattr__(self, "low", low)
            object.__setattr__(self, "high", high)
            return
        if bounded:
            raise ValueError("give classes, or low and high, but not both.")
        if self.invalid != "refuse":
            raise ValueError("invalid is for numeric targets; classes have other.")
        object.__setattr__(self, "classes", FrozenMapping(_checked_classes(self.classes)))
        if self.other is not None:
            check_text("other", self.other)
        if len(self.labels) < 2:
            raise ValueError(f"there must be two classes at least; got {quoted(self.labels)}.")

    @property
    def is_classification(self) -> bool:
        """Whether the target is one of several classes."""
        return self.classes is not None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in sorted order; the code of a class is its place here."""
        if self.classes is None:
            return ()
        other = () if self.other is None else (self.other,)
        return tuple(sorted({*self.classes, *other}))


@dataclass(frozen=True)
class Spent:
    """What was spent on the data to make the schema.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee of what was looked at.
    relation : {"add_remove", "replace_one"}
        Which tables are neighbours in that guarantee.
    what : sequence of str
        What was estimated, in words.
    secure : bool
        False if a seed was fixed: the estimates then protect nobody.
    """

    epsilon: float
    delta: float
    relation: str
    what: tuple[str, ...] = ()
    secure: bool = True

    def __post_init__(self) -> None:
        for name, most in (("epsilon", math.inf), ("delta", 1.0)):
            value = check_number(name, getattr(self, name))
            if not 0.0 <= value <= most:
                raise ValueError(f"{name} must not be negative (delta at most 1); got {value:g}.")
            object.__setattr__(self, name, value)
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        if isinstance(self.what, str):
            raise ValueError(f"what must be a list of texts; got {self.what!r}.")
        object.__setattr__(self, "what", tuple(check_text("what", text) for text in self.what))
        if not isinstance(self.secure, bool):
            raise ValueError(f"secure must be true or false; got {self.secure!r}.")


def _checked_names(name: str, values: Any) -> tuple[str, ...]:
    """A list of different names, spaces and all."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueError(f"{name} must be a list of texts; got {values!r}.")
    texts = tuple(check_text(name, value) for value in values)
    if len(set(texts)) < len(texts):
        raise ValueError(f"{name} lists {quoted(repeated(texts))} more than once.")
    return texts


def _checked_classes(classes: Any) -> dict[str, tuple[str, ...]]:
    """Labels and the texts that mean them; no text means two."""
    if not isinstance(classes, Mapping):
        classes = {text: (text,) for text in check_texts("classes", classes)}
    checked = {}
    for label, texts in classes.items():
        checked[check_text("the label of a class", label)] = check_texts(f"class {label!r}", texts)
        if not checked[label]:
            raise ValueError(f"class {label!r} needs the texts that mean it, one at least.")
    twice = repeated(text for texts in checked.values() for text in texts)
    if twice:
        raise ValueError(f"{quoted(twice)} must not mean more than one class.")
    return checked
