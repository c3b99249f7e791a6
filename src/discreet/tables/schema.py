"""A schema: what is publicly known about a table, and so what each of its rows becomes.

The schema is written before the rows are read. It fixes the width of the encoded table, the name
and bounds of each encoded column and the largest norm of a row, none of which then depends on the
rows. Where looking at the data was unavoidable (bounds estimated privately, say), ``spent`` tells
what it cost.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
    check_text,
    nearest,
    quoted,
    repeated,
)
from discreet.tables.parts import FileFormat, FrozenMapping, Spent, Target

if TYPE_CHECKING:
    from discreet.tables.transformer import TableTransformer

__all__ = ["FileFormat", "Schema", "Spent", "Target"]


@dataclass(frozen=True)
class Schema:
    """What is publicly known about a table.

    Parameters
    ----------
    columns : mapping of str to Column
        Every column of the table but the target, in the table's order.
    target : Target, optional
        The column to predict.
    file : FileFormat
        How cells are written.
    spent : Spent, optional
        What it cost to make this schema from the data; None if it is public knowledge alone.
    """

    columns: Mapping[str, Column]
    target: Target | None = None
    file: FileFormat = field(default_factory=FileFormat)
    spent: Spent | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", FrozenMapping(self.columns))
        for name, column in self.columns.items():
            check_text("the name of a column", name)
            if not isinstance(column, Column):
                raise ValueError(
                    f"column {name!r} must be a Numeric, Categorical, …; got {column!r}."
                )
        if not self.groups:
            raise ValueError("there must be a column that is not ignored.")
        if self.target is not None and self.target.column in self.columns:
            raise ValueError(
                f"{self.target.column!r} is the target and also a column; take it out of columns."
            )
        twice = repeated(self.feature_names)
        if twice:
            raise ValueError(
                f"two encoded columns would be called {quoted(twice)}; rename a column or a value."
            )
        if self.file.names and set(self.file.names) != {*self.columns, *self._target_name}:
            odd = set(self.file.names) ^ {*self.columns, *self._target_name}
            raise ValueError(
                "the file's names must be those of all columns and the target; these are in one "
                f"but not the other: {quoted(sorted(odd))}."
            )

    @property
    def _target_name(self) -> tuple[str, ...]:
        return () if self.target is None else (self.target.column,)

    @property
    def file_names(self) -> tuple[str, ...]:
        """Names of all columns, the target among them, as a file without a header has them."""
        return self.file.names or (*self.columns, *self._target_name)

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns."""
        return [
            encoded
            for name, column in self.columns.items()
            for encoded in column.feature_names(name)
        ]

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(column.width for column in self.columns.values())

    @property
    def groups(self) -> int:
        """Number of columns that are encoded (not ignored)."""
        return sum(not isinstance(column, Ignored) for column in self.columns.values())

    @property
    def max_norm(self) -> float:
        """The largest norm of an encoded row, √groups, once no column is unbounded."""
        return math.sqrt(self.groups)

    @property
    def unbounded(self) -> tuple[int, ...]:
        """Places of the encoded columns that have no public bounds."""
        places, at = [], 0
        for column in self.columns.values():
            if isinstance(column, Numeric) and not column.is_bounded:
                places.append(at)
            at += column.width
        return tuple(places)

    @property
    def is_wide(self) -> bool:
        """Whether sparse rows are smaller than dense ones (in single precision).

        A row has one entry for each group, whatever its cells, so this is public.
        """
        return 8 * self.groups + 8 < 4 * self.width

    def with_target(self, name: str) -> Schema:
        """The same schema with one of its columns as the target.

        Texts become classes, and a number keeps its bounds (on the linear scale). A cell that is
        missing or not listed is refused in a target.

        Parameters
        ----------
        name : str
            The column. If the schema has another target, that column is dropped as one to ignore.
        """
        if self.target is not None and self.target.column == name:
            return self
        if name not in self.columns:
            raise ValueError(f"there is no column {name!r}; {nearest(name, self.file_names)}")
        columns = {
            key: Ignored("was the target") if self._target_name == (key,) else self.columns[key]
            for key in self.file_names
            if key != name
        }
        file = self.file if self.file.header else replace(self.file, names=self.file_names)
        target = _as_target(name, self.columns[name])
        return Schema(columns, target, file, self.spent)

    def transformer(
        self, *, sparse: bool | Literal["auto"] = "auto", dtype: str = "float64"
    ) -> TableTransformer:
        """A scikit-learn transformer that encodes tables by this schema."""
        from discreet.tables.transformer import TableTransformer

        return TableTransformer(self, sparse=sparse, dtype=dtype)

    def to_dict(self) -> dict[str, Any]:
        """Plain data (dicts, lists, texts, numbers) from which `from_dict` makes it again."""
        from discreet.tables.toml import to_plain

        return to_plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], name: str = "schema") -> Schema:
        """The schema that plain data describe; one `TableError` lists all that is wrong in it."""
        from discreet.tables.toml import from_plain

        return from_plain(data, name)

    def to_toml(self) -> str:
        """The text of a schema file."""
        from discreet.tables.toml import to_text

        return to_text(self)

    @classmethod
    def from_toml(cls, text: str, name: str = "schema") -> Schema:
        """The schema in the text of a file; one `TableError` lists all that is wrong in it."""
        from discreet.tables.toml import from_text

        return from_text(text, name)

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
        text = self.to_toml()
        with replacing(path) as stream:
            stream.write(text)


def _as_target(name: str, column: Column) -> Target:
    """The target that a column makes."""
    if isinstance(column, Numeric):
        if not column.is_bounded:
            raise ValueError(f"column {name!r} needs low and high to be the target.")
        return Target(name, low=column.low, high=column.high)
    if isinstance(column, Boolean):
        # Case does not matter in a Boolean, but it does in a class: list the usual spellings.
        classes = {}
        for label, texts in (("false", column.false), ("true", column.true)):
            written = [(text, text.lower(), text.upper(), text.capitalize()) for text in texts]
            classes[label] = tuple(dict.fromkeys(text for ways in written for text in ways))
        return Target(name, classes)
    if isinstance(column, Categorical | Ordinal):
        return Target(name, column.values)
    raise ValueError(f"column {name!r} is ignored; give it a kind to make it the target.")
