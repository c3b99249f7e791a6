"""Errors of tables, and the door behind which cells are read.

Code that reads cells raises a `Refusal`: a text of this package with gaps, filled in with names
that a person wrote, paths, types and counts. It runs behind a `door`, which lets nothing else out.
The errors of other libraries quote cells: a door replaces them by one with a fixed text, without
their traceback and without a chain to them. So code behind a door need not be trusted to write
messages without cells. Proof: docs/proofs/cells.md.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np

from discreet.errors import TableError
from discreet.validate import display

Place: TypeAlias = Path | type | None
"""The origin of cells: a file, the type of a table in memory, or unknown."""

WORDS = frozenset(
    ["utf-8", "cp1252", "utf-16", "utf-32", "text", "parquet", "feather", "numbers", "texts"]
).union(["truth values", "times", "nothing", "other"])
"""Words of this package that may fill a gap: encodings, kinds of files and of cells."""

MOST_NAMES = 10
"""Names that are listed in a message; the others are counted."""

_WITHHELD = (
    "does not fit what was declared about it. The reason is withheld: it names something that is "
    "not in the schema, which may be a cell. Check the names of the columns and the first line."
)
_FAILED = (
    "cannot be read: the library that holds it failed ({kind}; its text is withheld, because it "
    "may quote a cell). Save the table as Parquet, and open that."
)


class Refusal(TableError):
    """A text with gaps for a table that is refused, and the values of the gaps.

    Parameters
    ----------
    text : str
        A literal of the code. A gap is ``{name}``: names are shown in quotes, or bare with
        ``{name:plain}`` and ``{name:upper}``; a count may have its noun, ``{count:column}``.
    header : sequence of str
        Names of the columns as the source has them, if a gap may be filled with one of them.
    **gaps
        Names, lists of names, counts, paths, types, types of Arrow, errors of the system.
    """

    def __init__(self, text: str, *, header: Sequence[str] = (), **gaps: Any) -> None:
        filled = {name: _Gap(value) for name, value in gaps.items()}
        super().__init__(text.format(**filled) if gaps else text)
        self.names = {name for gap in filled.values() for name in gap.names}
        self.header = tuple(header)
        self.place: Place = None

    def checked(self, names: Collection[str] | None, words: Collection[str]) -> str:
        """Return the text, after the place, if it shows public names only.

        ``names`` are those of the schema, ``words`` other public ones. Those of a header are public
        if `is_header` says so.
        """
        text = str(self)
        if names is not None:
            header = self.header if is_header(self.header, names) else ()
            text = text if self.names <= {*names, *words, *WORDS, *header} else _WITHHELD
        where = f"the {self.place.__name__}" if isinstance(self.place, type) else self.place
        return text if where is None else f"{where}: {text}"


def joined(refusals: Sequence[Refusal], between: str) -> Refusal:
    """Return several refusals as one; ``between`` is a literal of the code."""
    made = Refusal(between.join(map(str, refusals)))
    made.names = {name for each in refusals for name in each.names}
    made.header = tuple(name for each in refusals for name in each.header)
    return made


def is_header(first_line: Iterable[str], names: Collection[str]) -> bool:
    """Return True if a first line has most of the schema's names; otherwise it may be a record."""
    return 2 * len(set(names).intersection(first_line)) > len(set(names))


@contextmanager
def door(
    names: Collection[str] | None, words: Collection[str] = (), place: Place = None
) -> Iterator[None]:
    """Run code that reads cells: no error of it shows one, and NumPy does not warn of one.

    Parameters
    ----------
    names : collection of str, optional
        Names of the schema, which a message may show; None if no cell is read, but only names.
    words : collection of str
        Other words that a message may show: names of columns that were asked for, and the form of
        a text file.
    place : Path, type or None
        The origin of the cells.
    """
    made: BaseException | None = None
    with np.errstate(all="ignore"):
        try:
            yield
        except BaseException as error:
            made = _replacement(error, None, place)
    if isinstance(made, Refusal):
        made = TableError(made.checked(names, words))
        vars(made)["of_door"] = True  # an outer door lets it out as it is
    if made is not None:
        _raise_alone(made)


@contextmanager
def instead(text: str = "", place: Place = None, **gaps: Any) -> Iterator[None]:
    """Replace the errors of a library by a refusal, and name the origin of the cells.

    ``text`` and ``gaps`` are those of the `Refusal`; without a text it is the door's.
    """
    made: BaseException | None = None
    try:
        yield
    except BaseException as error:
        made = _replacement(error, Refusal(text, **gaps) if text else None, place)
    if made is not None:
        _raise_alone(made)


def _replacement(error: BaseException, refusal: Refusal | None, place: Place) -> BaseException:
    """Return the error that is shown: a refusal, an interrupt, or the number of an OSError."""
    made = error
    if isinstance(error, MemoryError):
        made = MemoryError("Memory ran out while a table was read.")
    elif isinstance(error, Exception) and not (
        isinstance(error, Refusal) or "of_door" in vars(error)
    ):
        made = refusal or Refusal(_FAILED, kind=type(error))
        if refusal is None and isinstance(error, OSError) and error.errno is not None:
            path = error.filename if place is None else place
            path = path if isinstance(path, Path) else None
            made = OSError(error.errno, os.strerror(error.errno), path)
    if isinstance(made, Refusal):
        made.place = made.place or place
    return made


def _raise_alone(error: BaseException) -> NoReturn:
    """Raise an error without a chain to the one that it replaces."""
    error.__cause__ = None
    try:
        raise error
    finally:
        error.__context__ = None


class _Gap:
    """The value of a gap in a text, and the names in it."""

    def __init__(self, value: Any) -> None:
        self._value = value
        is_list = isinstance(value, (list, tuple))
        self.names = tuple(value) if is_list else (value,) if isinstance(value, str) else ()

    def __format__(self, spec: str) -> str:
        value = self._value
        if isinstance(value, str):
            return {"": display(value), "plain": value, "upper": value.upper()}[spec]
        if isinstance(value, (list, tuple)):
            return quoted(value)
        if isinstance(value, int):
            return counted(value, spec) if spec else f"{value:,}"
        if isinstance(value, Path):
            return os.fspath(value)
        if isinstance(value, type):
            return value.__name__
        if isinstance(value, OSError) and value.errno is not None:
            return os.strerror(value.errno)
        if isinstance(value, arrow().DataType):
            return str(value).partition("<")[0]  # names inside a nested type can be data
        raise TypeError("a gap holds names, a count, a path, a type or an error of the system.")


def quoted(texts: Iterable[Any]) -> str:
    """List texts in a message: in quotes, ten at most, each cut to 60 characters."""
    listed = [display(text) for text in texts]
    more = len(listed) - MOST_NAMES
    return ", ".join(listed[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, thing: str) -> str:
    """Write a number of things: "1 column", "3 columns"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def arrow() -> Any:
    """Import pyarrow with its compute functions; only tables need it."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise ImportError(
            'Reading tables needs pyarrow, which is not installed: pip install "discreet[tables]".'
        ) from None
    return pyarrow
