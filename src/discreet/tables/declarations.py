"""Declarations of a schema besides its columns, as plain data and as TOML that people edit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from itertools import chain
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from discreet.tables.columns import (
    KINDS,
    Column,
    Numeric,
    Text,
    Texts,
    check_bounds,
    check_text,
    check_texts,
    nearest,
    repeated,
)
from discreet.tables.messages import quoted
from discreet.validate import CheckedFields, check_declared, choice, number


class FrozenMapping(dict[str, Any]):
    """A dict that cannot be changed, whose order counts, and that can be pickled."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and list(self.items()) == list(other.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __reduce__(self) -> Any:
        return FrozenMapping, (dict(self),)

    def _refuse(self, *given: Any, **named: Any) -> Any:
        raise TypeError("a declaration cannot be changed; make a new one.")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


@dataclass(frozen=True)
class FileFormat:
    """Form of a text file.

    Parameters
    ----------
    delimiter, encoding : str
        The character between two cells, and the character encoding.
    header : bool
        True if the first line holds the names of the columns.
    missing : sequence of str
        The texts that mean a missing cell, except among the listed values of a column.
    quote : str
        The character around cells that hold a delimiter; "" if there is none.
    names : sequence of str
        For a file without a header: the names of all its columns from left to right. By default
        the schema's columns in order, then the target.
    decimal : {".", ","}
        Sign between the whole part of a number and its decimals.
    thousands : {"", ".", ",", " ", "'"}
        Sign between groups of three digits. Numbers without it are read, too.
    """

    delimiter: Text = ","
    encoding: Text = "utf-8"
    header: bool = True
    missing: Texts = ("",)
    quote: Text = '"'
    names: Annotated[tuple[str, ...], partial(check_texts, stripped=False)] = ()
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ".", ",", " ", "'"] = ""

    def __post_init__(self) -> None:
        check_declared(self)
        if self.decimal == self.thousands:
            raise ValueError(f"decimal and thousands must differ; both are {self.decimal!r}.")
        for name, empty in (("delimiter", ""), ("quote", " or empty")):
            value = getattr(self, name)
            if len(value) > 1 or value in ("\n", "\r") or not (value or empty):
                raise ValueError(f"{name} must be one character{empty}; got {value!r}.")
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote must differ; both are {self.quote!r}.")
        try:
            "".encode(self.encoding)
        except LookupError:
            known = 'one that Python knows, like "utf-8" or "cp1252"'
            raise ValueError(f"encoding must be {known}; got {self.encoding!r}.") from None
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
        labels.
    other : str, optional
        The label of cells that are missing or not listed, which are refused if it is None.
    low, high : float, optional
        Instead of classes: bounds of a numeric target. Numbers outside are clipped to them.
    invalid : {"refuse", "middle"}
        Treatment of missing cells and texts in a numeric target: an error, or the middle of the
        bounds.
    bounded : bool
        False for a numeric target without public bounds, whose numbers are not clipped.

    Attributes
    ----------
    is_classification : bool
        True if the target is one of several classes.
    texts : mapping of str to sequence of str
        The cell texts that mean each class; empty for a numeric target.
    labels : tuple of str
        Labels in sorted order; the code of a class is its index here.
    """

    column: Text
    classes: Mapping[str, tuple[str, ...]] | Sequence[str] | None = None
    other: Text | None = None
    low: float | None = None
    high: float | None = None
    invalid: Literal["refuse", "middle"] = "refuse"
    bounded: bool = True
    is_classification: bool = field(init=False, repr=False, compare=False, default=False)
    texts: Mapping[str, Sequence[str]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    labels: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        check_declared(self)
        bounds = self.low is not None or self.high is not None
        if not self.bounded:
            if bounds or self.classes is not None or self.invalid != "refuse":
                raise ValueError(
                    "bounded = false is for a numeric target alone: leave out classes, low, high "
                    "and invalid."
                )
            return
        if self.classes is None:
            if not bounds:
                raise ValueError(
                    'fill in classes = ["…", "…"], or low and high for a numeric target (public '
                    "knowledge, e.g. from the codebook)."
                )
            if self.other is not None:
                raise ValueError("other is the label of a class; a numeric target has none.")
            low, high = check_bounds(self)
            if math.isinf(high - low):
                raise ValueError(f"low = {low:g} and high = {high:g} are too far apart.")
            return
        if bounds:
            raise ValueError("give classes, or low and high, but not both.")
        if self.invalid != "refuse":
            raise ValueError("invalid is for numeric targets; classes have other.")
        classes = FrozenMapping(_checked_classes(self.classes))
        labels = tuple(sorted({*classes, self.other} - {None}))
        if len(labels) < 2:
            raise ValueError(f"there must be two classes at least; got {quoted(labels)}.")
        vars(self).update(classes=classes, texts=classes, labels=labels, is_classification=True)


def _checked_classes(classes: Any) -> dict[str, tuple[str, ...]]:
    """Return labels and the texts that mean them; no text means more than one."""
    if not isinstance(classes, Mapping):
        classes = {text: (text,) for text in check_texts("classes", classes)}
    checked = {}
    for label, texts in classes.items():
        checked[check_text("the label of a class", label)] = check_texts(f"class {label!r}", texts)
        if not checked[label]:
            raise ValueError(f"class {label!r} needs the texts that mean it, one at least.")
    if twice := repeated(chain.from_iterable(checked.values())):
        raise ValueError(f"{quoted(twice)} must not mean more than one class.")
    return checked


@dataclass(frozen=True)
class About(CheckedFields):
    """Name, owner and purpose of the data set, for its privacy cards; all of it is public."""

    dataset: Text = ""
    owner: Text = ""
    purpose: Text = ""


@dataclass(frozen=True)
class Spent:
    """Privacy budget that was spent on the data to make the schema.

    Parameters
    ----------
    epsilon, delta, relation
        The guarantee of the estimates, and its relation of neighbouring data sets.
    what : sequence of str
        List of the estimates.
    secure : bool
        False if a seed was fixed: the estimates then protect nobody.
    unit : str, optional
        The column by which people with all of their rows are protected; None: single rows are.
    """

    epsilon: Annotated[float, partial(number, least=0.0)]
    delta: Annotated[float, partial(number, least=0.0, most=1.0)]
    relation: Annotated[str, partial(choice, known=("add_remove", "replace_one"))]
    what: tuple[str, ...] = ()
    secure: bool = True
    unit: Text | None = None

    def __post_init__(self) -> None:
        check_declared(self)
        if isinstance(self.what, str):
            raise ValueError(f"what must be a list of texts; got {self.what!r}.")
        object.__setattr__(self, "what", tuple(check_text("what", text) for text in self.what))


_LINE = 96
"""Letters beyond which a list is wrapped."""

Made = TypeVar("Made")
Gaps: TypeAlias = Mapping[tuple[str, ...], Sequence[str]]


def to_plain(part: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults, as plain data."""
    plain: dict[str, Any] = {"kind": part.kind} if isinstance(part, Column) else {}
    if isinstance(part, Numeric) and not part.is_bounded:
        plain["bounds"] = "private"
    for item in fields(part):
        value = getattr(part, item.name)
        if not item.init or value == item.default:
            continue
        if isinstance(value, Mapping):
            value = {label: list(texts) for label, texts in value.items()}
            if all(texts == [label] for label, texts in value.items()):
                value = list(value)
        plain[item.name] = list(value) if isinstance(value, tuple) else value
    return plain


def from_plain(kind: type[Made], plain: Any) -> Made:
    """Make a dataclass, or any kind of `Column`, from plain data; refuse what does not fit."""
    if not isinstance(plain, Mapping):
        rule = ' that starts with kind = "…"' if kind is Column else ", not a single value"
        raise ValueError(f"must be a table{rule}.")
    settings = dict(plain)
    if kind is Column:
        name = settings.pop("kind", None)
        if name is None:
            raise ValueError(f"kind is missing; it is one of {quoted(KINDS)}.")
        if name not in list(KINDS):
            raise ValueError(f"kind = {name!r} is not known; {nearest(str(name), KINDS)}")
        kind = KINDS[name]  # type: ignore[assignment]
    stated = fields(kind)  # type: ignore[arg-type]
    defaults = {item.name: item.default for item in stated if item.init}
    known = [*defaults, "bounds"] if kind is Numeric else list(defaults)
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise ValueError(
            " ".join(f"{key!r} is not known; {nearest(str(key), known)}" for key in unknown)
        )
    if kind is Numeric:
        _check_numeric(settings)
    elif "values" in known:
        settings.setdefault("values", ())  # the error for an empty list says what to do
    needed = [name for name, value in defaults.items() if value is MISSING and name not in settings]
    if needed:
        raise ValueError(f"{quoted(needed)} must be given.")
    return kind(**settings)


def _check_numeric(settings: dict[str, Any]) -> None:
    """Take ``bounds`` out of the settings of a numeric column; it has bounds of either kind."""
    bounds = settings.pop("bounds", None)
    if bounds not in (None, "private"):
        raise ValueError(f'bounds must be "private" or left out; got {bounds!r}.')
    if bounds and not settings.keys().isdisjoint(("low", "high")):
        raise ValueError('give low and high, or bounds = "private", but not both.')
    if not bounds and settings.keys().isdisjoint(("low", "high")):
        raise ValueError(
            "fill in low and high (public knowledge, e.g. from the codebook), or write "
            'bounds = "private" to spend part of the fit\'s budget on them.'
        )


def toml_text(about: str, plain: Mapping[str, Any], gaps: Gaps | None = None) -> str:
    """Write plain data as a TOML file; ``gaps`` are comments at the end of a table, by its path."""
    blocks = ["\n".join(f"# {line}" if line else "" for line in about.splitlines())]
    for path, table in _tables(plain, ()):
        lines = [f"[{'.'.join(map(key_text, path))}]"] if path else []
        for key, value in table.items():
            if not isinstance(value, Mapping):
                lines.append(f"{key_text(key)} = {_value_text(value, len(key))}")
        lines += [f"# {line}" for line in (gaps or {}).get(path, ())]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def key_text(key: str) -> str:
    """Return a key as TOML writes it: bare if it can be, else in quotes."""
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _value_text(key, 0)


def _tables(plain: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
    """Yield a table and those inside it with their paths, but none that holds only tables."""
    inner = {key: value for key, value in plain.items() if isinstance(value, Mapping)}
    if not inner or len(inner) < len(plain):
        yield path, plain
    for key, value in inner.items():
        yield from _tables(value, (*path, key))


def _value_text(value: Any, indent: int) -> str:
    """Return a TOML value; whole numbers have no decimals, and long lists are wrapped."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    if not isinstance(value, list | tuple):
        # JSON writes these values as TOML does, but for one control character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    lines = [""]
    for item in value:
        text = _value_text(item, 0) + ", "
        if lines[-1] and len(lines[-1]) + len(text) > _LINE - len("  "):
            lines.append("")
        lines[-1] += text
    if len(lines) == 1 and indent + len(" = [") + len(lines[0]) <= _LINE:
        return f"[{lines[0].removesuffix(', ')}]"
    return "".join(["[\n", *(f"  {line.rstrip()}\n" for line in lines), "]"])
