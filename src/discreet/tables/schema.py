"""A schema: the public knowledge about a table, and so the encoding of each of its rows.

The schema is written before the rows are read. It fixes the width of the encoded table, the name
and bounds of each encoded column and the largest norm of a row, none of which then depends on the
rows. Where looking at the data was unavoidable (bounds estimated privately, say), ``spent`` records
the cost.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from discreet.errors import TableError
from discreet.files import replacing
from discreet.tables.columns import (
    Boolean,
    Categorical,
    Column,
    Ignored,
    Numeric,
    Ordinal,
    check_bounds,
    check_text,
    check_texts,
    nearest,
    quoted,
    repeated,
)
from discreet.tables.toml import from_plain, key_text, to_plain, toml_text
from discreet.validate import check_fields, choice, flag, number

if TYPE_CHECKING:
    from discreet.tables.transformer import TableTransformer

__all__ = ["FileFormat", "Schema", "Spent", "Target"]

VERSION = 1  # of schema files
_ABOUT = """\
Schema of a table, for discreet: what is publicly known about each column.
Bounds, categories and classes come from a codebook or a form, never from looking at the rows."""

_ABOUT_ESTIMATED = """\
Schema of a table, for discreet: what may be known about each column.
The names of the columns are public. What was not known was estimated from the rows, within the
budget under [spent]. Keep that part: every model that is fitted to the same rows adds to it, and
its privacy card counts both."""


class _FrozenMapping(Mapping[str, Any]):
    """A mapping that cannot be changed, and whose order counts.

    (`types.MappingProxyType` is no substitute: it can be neither pickled nor copied.)
    """

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and list(self.items()) == list(other.items())

    def __repr__(self) -> str:
        return repr(self._items)


@dataclass(frozen=True)
class FileFormat:
    """Form of a text file.

    Parameters
    ----------
    delimiter : str
        The character between two cells.
    encoding : str
        The character encoding.
    header : bool
        True if the first line holds the names of the columns.
    missing : sequence of str
        The texts that mean a missing cell. In a categorical column a text that is listed among its
        values is a value. Spaces around a text do not count.
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
        check_fields(self, flag, "header")
        check_fields(self, check_text, "delimiter", "quote", "encoding")
        check_fields(self, check_texts, "missing")
        check_fields(self, check_texts, "names", stripped=False)
        for name, empty in (("delimiter", ""), ("quote", " or empty")):
            value = getattr(self, name)
            if len(value) > 1 or value in ("\n", "\r") or not (value or empty):
                raise ValueError(f"{name} must be one character{empty}; got {value!r}.")
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote must differ; both are {self.quote!r}.")
        try:
            "".encode(self.encoding)
        except LookupError:
            known = 'one that Python knows, like "utf-8" or "latin-1"'
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
        labels. Public knowledge. Spaces around a text do not count.
    other : str, optional
        The label of every cell that is missing or whose text is not listed. If None, such a cell
        is refused.
    low, high : float, optional
        Instead of classes: bounds of a numeric target. Numbers outside are clipped to them.
    invalid : {"refuse", "middle"}
        Treatment of a missing cell or a text in a numeric target: an error, or the middle of the
        bounds.
    """

    column: str
    classes: Mapping[str, tuple[str, ...]] | Sequence[str] | None = None
    other: str | None = None
    low: float | None = None
    high: float | None = None
    invalid: str = "refuse"

    def __post_init__(self) -> None:
        check_fields(self, check_text, "column")
        check_fields(self, check_text, "other", optional=True)
        check_fields(self, choice, "invalid", known=("refuse", "middle"))
        bounded = self.low is not None or self.high is not None
        if self.classes is None:
            if not bounded:
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
        if bounded:
            raise ValueError("give classes, or low and high, but not both.")
        if self.invalid != "refuse":
            raise ValueError("invalid is for numeric targets; classes have other.")
        object.__setattr__(self, "classes", _FrozenMapping(_checked_classes(self.classes)))
        if len(self.labels) < 2:
            raise ValueError(f"there must be two classes at least; got {quoted(self.labels)}.")

    @property
    def is_classification(self) -> bool:
        """True if the target is one of several classes."""
        return self.classes is not None

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in sorted order; the code of a class is its index here."""
        return tuple(sorted({*(self.classes or ()), self.other} - {None}))


def _checked_classes(classes: Any) -> dict[str, tuple[str, ...]]:
    """Return labels and the texts that mean them; no text means two."""
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
class Spent:
    """Privacy budget that was spent on the data to make the schema.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee of the estimates.
    relation : {"add_remove", "replace_one"}
        Relation of neighbouring data sets in that guarantee.
    what : sequence of str
        List of the estimates.
    secure : bool
        False if a seed was fixed: the estimates then protect nobody.
    """

    epsilon: float
    delta: float
    relation: str
    what: tuple[str, ...] = ()
    secure: bool = True

    def __post_init__(self) -> None:
        check_fields(self, number, "epsilon", least=0.0)
        check_fields(self, number, "delta", least=0.0, most=1.0)
        check_fields(self, choice, "relation", known=("add_remove", "replace_one"))
        check_fields(self, flag, "secure")
        if isinstance(self.what, str):
            raise ValueError(f"what must be a list of texts; got {self.what!r}.")
        object.__setattr__(self, "what", tuple(check_text("what", text) for text in self.what))


@dataclass(frozen=True)
class Schema:
    """Public knowledge about a table.

    Parameters
    ----------
    columns : mapping of str to Column
        Every column of the table but the target, in the table's order.
    target : Target, optional
        The column to predict.
    file : FileFormat
        Form of text files.
    spent : Spent, optional
        Cost of making this schema from the data; None if it is public knowledge alone.
    """

    columns: Mapping[str, Column]
    target: Target | None = None
    file: FileFormat = field(default_factory=FileFormat)
    spent: Spent | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _FrozenMapping(self.columns))
        for name, each in self.columns.items():
            check_text("the name of a column", name)
            if not isinstance(each, Column):
                raise ValueError(
                    f"column {name!r} must be a Numeric, Categorical, …; got {each!r}."
                )
        if not self.used:
            raise ValueError("there must be a column that is not ignored.")
        if self.target is not None and self.target.column in self.columns:
            raise ValueError(
                f"{self.target.column!r} is the target and also a column; take it out of columns."
            )
        if twice := repeated(self.feature_names):
            raise ValueError(
                f"two encoded columns would be called {quoted(twice)}; rename a column or a value."
            )
        if odd := set(self.file_names).symmetric_difference(self._all_names):
            raise ValueError(
                "the file's names must be those of all columns and the target; these are in one "
                f"but not the other: {quoted(sorted(odd))}."
            )

    @property
    def _all_names(self) -> tuple[str, ...]:
        return (*self.columns, *(() if self.target is None else (self.target.column,)))

    @property
    def file_names(self) -> tuple[str, ...]:
        """Names of all columns, the target among them, in the order of a file without a header."""
        return self.file.names or self._all_names

    @property
    def used(self) -> dict[str, Column]:
        """Columns that are encoded (not ignored)."""
        return {name: c for name, c in self.columns.items() if not isinstance(c, Ignored)}

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns."""
        return [each for name, column in self.used.items() for each in column.feature_names(name)]

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(column.width for column in self.columns.values())

    @property
    def groups(self) -> int:
        """Number of columns that are encoded (not ignored)."""
        return len(self.used)

    @property
    def max_norm(self) -> float:
        """Largest norm of an encoded row, √groups, once no column is unbounded."""
        return math.sqrt(self.groups)

    @property
    def unbounded(self) -> tuple[int, ...]:
        """Indices of the encoded columns that have no public bounds."""
        columns = self.columns.values()
        starts = accumulate((column.width for column in columns), initial=0)
        unbounded = (isinstance(each, Numeric) and not each.is_bounded for each in columns)
        return tuple(compress(starts, unbounded))

    @property
    def numeric(self) -> dict[int, tuple[float | None, float | None, str]] | None:
        """Encoded columns with a curved effect, as an estimator's ``numeric`` takes them.

        Their bounds are 0 and 1, or None where they are to be found privately. None if there are
        no such columns.
        """
        found: dict[int, tuple[float | None, float | None, str]] = {}
        at = 0
        for column in self.columns.values():
            if isinstance(column, Numeric) and column.shape != "linear":
                ends = (0.0, 1.0) if column.is_bounded else (None, None)
                found[at] = (*ends, column.shape)
            at += column.width
        return found or None

    @property
    def is_wide(self) -> bool:
        """True if sparse rows, of one entry per group, are smaller than dense ones (float32)."""
        return 8 * self.groups + 8 < 4 * self.width

    def missing_markers(self, name: str) -> list[str]:
        """Return the texts that mean a missing cell of a column; its listed values never do."""
        column, listed = self.columns.get(name), ()
        if self.target is not None and name == self.target.column:
            listed = tuple(chain.from_iterable((self.target.classes or {}).values()))
        elif isinstance(column, Categorical):
            listed = column.values
        return [text for text in self.file.missing if text not in listed]

    def holds_numbers(self, name: str) -> bool:
        """Return True if a column or the target is declared as numbers."""
        if self.target is not None and name == self.target.column:
            return not self.target.is_classification
        return isinstance(self.columns.get(name), Numeric)

    def with_target(self, name: str) -> Schema:
        """Return the same schema with one of its columns as the target.

        Texts become classes, and a number keeps its bounds (on the linear scale). A cell that is
        missing or not listed is refused in a target.

        Parameters
        ----------
        name : str
            The column. If the schema has another target, that column is ignored from now on.
        """
        if self.target is not None and self.target.column == name:
            return self
        if name not in self.columns:
            raise ValueError(f"there is no column {name!r}; {nearest(name, self.file_names)}")
        was_target = Ignored("was the target")
        columns = {k: self.columns.get(k, was_target) for k in self.file_names if k != name}
        file = self.file if self.file.header else replace(self.file, names=self.file_names)
        return Schema(columns, _as_target(name, self.columns[name]), file, self.spent)

    def transformer(
        self, *, sparse: bool | Literal["auto"] = "auto", dtype: str = "float64"
    ) -> TableTransformer:
        """Make a scikit-learn transformer that encodes tables by this schema."""
        from discreet.tables.transformer import TableTransformer  # needs scikit-learn

        return TableTransformer(self, sparse=sparse, dtype=dtype)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data (dicts, lists, texts, numbers) without what has its default value."""
        plain: dict[str, Any] = {"version": VERSION}
        for name in ("file", "target", "spent"):
            part = getattr(self, name)
            if part is not None and part != FileFormat():
                plain[name] = to_plain(part)
        plain["columns"] = {name: to_plain(column) for name, column in self.columns.items()}
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], name: str = "schema") -> Schema:
        """Make a schema from plain data.

        Parameters
        ----------
        data : mapping
            As `to_dict` returns it.
        name : str
            Name of the schema in an error, that of its file for example.

        Raises
        ------
        TableError
            Lists everything that is wrong: who fills in forty bounds should not have to run forty
            times.
        """
        _check_version(data, name)
        known = ("file", "target", "columns", "spent")
        problems = [
            f"{key!r} is not a part of a schema; {nearest(str(key), known)}"
            for key in data
            if key not in ("version", *known)
        ]

        listed = data.get("columns", {})
        kinds = {"file": FileFormat, "target": Target, "spent": Spent}
        wanted = [(key, key, kind, data[key]) for key, kind in kinds.items() if key in data]
        if isinstance(listed, Mapping):
            for key, plain in listed.items():
                wanted.append((key, f"columns.{key_text(str(key))}", Column, plain))
        parts, columns = dict[str, Any](), dict[str, Any]()
        for key, where, kind, plain in wanted:
            try:
                (columns if kind is Column else parts)[key] = from_plain(kind, plain)
            except ValueError as problem:
                text = str(problem).replace("True or False", "true or false")  # as TOML has them
                problems.append(f"[{where}] {text}")
        if not isinstance(listed, Mapping):
            problems.append("[columns] must hold one table for each column, [columns.NAME].")
        if not problems:
            try:
                return cls(columns, **parts)
            except ValueError as problem:
                problems.append(str(problem))
        if len(problems) > 1:
            problems = [f"{len(problems)} problems", *problems]
        raise TableError(f"{name}: " + "\n  - ".join(problems))

    def to_toml(self) -> str:
        """Return the text of a schema file, for a person to read and to change."""
        return toml_text(_ABOUT if self.spent is None else _ABOUT_ESTIMATED, self.to_dict())

    @classmethod
    def from_toml(cls, text: str, name: str = "schema") -> Schema:
        """Make a schema from the text of a file; one `TableError` lists everything wrong in it."""
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise TableError(f"{name}: this is not TOML: {problem}.") from None
        return cls.from_dict(data, name)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a schema file."""
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise TableError(f"{os.fspath(path)}: a schema file must be text in UTF-8.") from None
        return cls.from_toml(text, name=os.fspath(path))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a schema file; an existing one is replaced as a whole or not at all."""
        with replacing(path) as stream:
            stream.write(self.to_toml())


def _check_version(data: Any, name: str) -> None:
    """Refuse another version, whose keys may mean something else."""
    if not isinstance(data, Mapping):
        raise TableError(f"{name}: a schema must be a table with [columns.NAME] in it.")
    if "version" not in data:
        raise TableError(f"{name}: the version is missing; add version = {VERSION} at the top.")
    if data["version"] != VERSION or isinstance(data["version"], bool):
        raise TableError(
            f"{name}: version = {VERSION} is the version of schema files that is read here; got "
            f"{data['version']!r}. Write the schema anew, or use the release that wrote it."
        )


def _as_target(name: str, column: Column) -> Target:
    """Turn a column into a target."""
    if isinstance(column, Numeric):
        if not column.is_bounded:
            raise ValueError(f"column {name!r} needs low and high to be the target.")
        return Target(name, low=column.low, high=column.high)
    if isinstance(column, Boolean):
        # Case does not matter in a Boolean, but it does in a class: list the usual spellings.
        classes = {}
        for label, texts in (("false", column.false), ("true", column.true)):
            written = ((text, text.lower(), text.upper(), text.capitalize()) for text in texts)
            classes[label] = tuple(dict.fromkeys(chain.from_iterable(written)))
        return Target(name, classes)
    if isinstance(column, Categorical | Ordinal):
        return Target(name, column.values)
    raise ValueError(f"column {name!r} is ignored; give it a kind to make it the target.")
