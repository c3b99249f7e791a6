"""A schema: the public knowledge about a table, and so the encoding of each of its rows.

The schema is written before the rows are read. It fixes the width of the encoded table, the name
and bounds of each encoded column and the largest norm of a row, none of which then depends on the
rows. Where it was estimated from the rows, as private bounds are, ``spent`` is the cost.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from discreet.errors import TableError
from discreet.files import replacing
from discreet.page import table
from discreet.tables.columns import (
    Boolean,
    Categorical,
    Column,
    Date,
    Ignored,
    Numeric,
    Ordinal,
    Piece,
    check_text,
    check_texts,
    nearest,
    repeated,
)
from discreet.tables.declarations import (
    About,
    FileFormat,
    FrozenMapping,
    Spent,
    Target,
    from_plain,
    key_text,
    to_plain,
    toml_text,
)
from discreet.tables.messages import quoted
from discreet.validate import choice

if TYPE_CHECKING:
    from discreet.tables.alignment import EncodedBlock
    from discreet.tables.reader import Encoded, TableTransformer

__all__ = ["About", "FileFormat", "Schema", "Spent", "Target"]

VERSION = 1
"""Version of schema files."""

AVERAGED = """
A cell that is missing, or a text that is not listed, is scored as the average of its column.
For an effect of its own write missing = true, or unseen = "other", in the part of that column.
With unseen = "refuse" a table with other texts is refused."""
"""Note of drafts on cells that no column of the encoded table stands for."""

_ABOUT = """\
Schema of a table, for discreet: what is publicly known about each column.
Bounds, categories and classes come from a codebook or a form, never from looking at the rows."""

_ABOUT_ESTIMATED = f"""\
Schema of a table, for discreet: what may be known about each column.
The names of the columns are public. What was not known was estimated from the rows, within the
budget under [spent]. Keep that part: every model that is fitted to the same rows adds to it, and
its privacy card counts both.
{AVERAGED.lstrip()}"""


@dataclass(frozen=True)
class Schema:
    """Public knowledge about a table.

    Parameters
    ----------
    columns : mapping of str to Column
        Every column of the table but the target and the unit, in the table's order.
    target : Target, optional
        The column to predict.
    file : FileFormat
        Form of text files.
    spent : Spent, optional
        Cost of making this schema from the data; None if it is public knowledge alone.
    unit : str, optional
        The column that says whose row a row is, such as "patient_nbr". Fits then protect people
        with all of their rows. It is never encoded.
    about : About
        Name, owner and purpose of the data set, for privacy cards.
    extra : {"refuse", "ignore"}
        Treatment of a table's columns that the schema does not know.

    Attributes
    ----------
    used : mapping of str to Column
        Columns that are encoded (not ignored).
    pieces : tuple of (str, Piece)
        Groups of encoded columns, each with the name of the column whose cells it encodes.
    groups : int
        Number of these groups: that of the columns that are encoded, plus the parts of dates.
    width : int
        Number of encoded columns.
    is_wide : bool
        True if sparse rows, of one entry per group, are smaller than dense ones (float32).
    file_names : tuple of str
        Names of all columns with target and unit, in the order of a file without a header.
    """

    columns: Mapping[str, Column]
    target: Target | None = None
    file: FileFormat = field(default_factory=FileFormat)
    spent: Spent | None = None
    unit: str | None = None
    about: About = field(default_factory=About)
    extra: str = "refuse"
    used: Mapping[str, Column] = field(init=False, repr=False, compare=False)
    pieces: tuple[tuple[str, Piece], ...] = field(init=False, repr=False, compare=False)
    groups: int = field(init=False, repr=False, compare=False)
    width: int = field(init=False, repr=False, compare=False)
    is_wide: bool = field(init=False, repr=False, compare=False)
    file_names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _numbers: tuple[tuple[int, Numeric], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = FrozenMapping(self.columns)
        for name, each in columns.items():
            check_text("the name of a column", name)
            if not isinstance(each, Column):
                raise ValueError(
                    f"column {name!r} must be a Numeric, Categorical, …; got {each!r}."
                )
        used = {name: each for name, each in columns.items() if not isinstance(each, Ignored)}
        if not used:
            raise ValueError("there must be a column that is not ignored.")
        if self.target is not None and self.target.column in columns:
            raise ValueError(
                f"{self.target.column!r} is the target and also a column; take it out of columns."
            )
        choice("extra", self.extra, ("refuse", "ignore"))
        self._check_unit()
        pieces = tuple((name, piece) for name, each in used.items() for piece in each.pieces(name))
        vars(self).update(columns=columns, used=FrozenMapping(used))
        vars(self).update(pieces=pieces, groups=len(pieces))
        encoded = self.feature_names
        if twice := repeated(encoded):
            raise ValueError(
                f"two encoded columns would be called {quoted(twice)}; rename a column or a value."
            )
        others = (None if self.target is None else self.target.column, self.unit)
        names = (*columns, *(name for name in others if name is not None))
        file_names = self.file.names or names
        if odd := set(file_names).symmetric_difference(names):
            raise ValueError(
                "the file's names must be those of all columns, target and unit; these are in one "
                f"but not the other: {quoted(sorted(odd))}."
            )
        kinds = [piece.column for _, piece in pieces]
        starts = accumulate((column.width for column in kinds), initial=0)
        pairs = zip(starts, kinds, strict=False)  # the last start is the width
        vars(self).update(
            width=len(encoded),
            is_wide=8 * len(pieces) + 8 < 4 * len(encoded),
            file_names=file_names,
            _numbers=tuple((at, each) for at, each in pairs if isinstance(each, Numeric)),
        )

    def _check_unit(self) -> None:
        if self.unit is None:
            return
        check_text("unit", self.unit)
        if self.target is not None and self.target.column == self.unit:
            other = "is also the target: name another column."
        elif self.unit in self.columns:
            other = "is also a column: take it out of columns. Ids are not features."
        elif not self.file.header and not self.file.names:
            other = "has no place in a file without a header: list all names in [file]."
        else:
            return
        raise ValueError(f"unit = {self.unit!r} says whose row a row is, but {other}")

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns."""
        return [each for name, column in self.used.items() for each in column.feature_names(name)]

    @property
    def max_norm(self) -> float:
        """Largest norm of an encoded row, √groups, once no column is unbounded."""
        return math.sqrt(self.groups)

    @property
    def unbounded(self) -> tuple[int, ...]:
        """Indices of the encoded columns that have no public bounds."""
        return tuple(at for at, column in self._numbers if not column.is_bounded)

    @property
    def whole(self) -> tuple[int, ...]:
        """Indices of the unbounded encoded columns that hold whole numbers."""
        return tuple(
            at
            for at, column in self._numbers
            if not column.is_bounded and column.integer and column.scale == "linear"
        )

    @property
    def numeric(self) -> dict[int, tuple[float | None, float | None, str]] | None:
        """Encoded columns with a curved effect, as an estimator's ``numeric`` takes them.

        Their bounds are 0 and 1, or None where they are to be found privately. None without any.
        """
        found = {
            at: (*((0.0, 1.0) if column.is_bounded else (None, None)), column.shape)
            for at, column in self._numbers
            if column.shape != "linear"
        }
        return found or None

    def _repr_html_(self) -> str:
        from discreet.card.descriptions import describe_columns

        cost = "" if self.spent is None else f"; estimating it cost ε = {self.spent.epsilon:g}"
        counts = f"{self.groups:,} columns, {self.width:,} encoded"
        caption = f"Schema: {counts}. All of it is treated as public{cost}."
        return table(("Column", "Kind", "Schema"), describe_columns(self), caption=caption)

    def missing_markers(self, name: str) -> list[str]:
        """Return the texts that mean a missing cell of a column; its listed values never do."""
        column = self.columns.get(name)
        listed: tuple[str, ...] = ()
        if self.target is not None and name == self.target.column:
            listed = tuple(chain.from_iterable(self.target.texts.values()))
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
        missing or not listed is refused in a target. If the schema has another target, that column
        is ignored from now on.
        """
        if self.target is not None and self.target.column == name:
            return self
        old = None if self.target is None else self.target.column
        columns, file = self._without(name, old, "was the target")
        target = as_target(name, self.columns[name])
        return replace(self, columns=columns, target=target, file=file)

    def with_unit(self, name: str) -> Schema:
        """Return the same schema with one of its columns as the unit; an old one is ignored."""
        if self.unit == name:
            return self
        columns, file = self._without(name, self.unit, "was the unit")
        return replace(self, columns=columns, unit=name, file=file)

    def _without(
        self, name: str, old: str | None, reason: str
    ) -> tuple[dict[str, Column], FileFormat]:
        """Return all columns but one, and ``old`` among them as ignored; and the file's form."""
        if name not in self.columns:
            if name in self.file_names:
                raise ValueError(f"{name!r} is the target or the unit; name another column.")
            raise ValueError(f"there is no column {name!r}; {nearest(name, self.file_names)}")
        known = {**self.columns, **({} if old is None else {old: Ignored(reason)})}
        columns = {k: known[k] for k in self.file_names if k in known and k != name}
        file = self.file if self.file.header else replace(self.file, names=self.file_names)
        return columns, file

    def check_cost(self, relation: str, unit: str | None) -> None:
        """Refuse a cost of this schema that cannot be added to that of a fit.

        ``relation`` and ``unit`` are those of the fit; its unit is None if rows are protected.
        """
        cost = self.spent
        if cost is None:
            return
        if cost.relation != relation:
            raise ValueError(
                f"the schema was estimated under {cost.relation!r}; its guarantee and the model's "
                f"add up only under the same relation. Pass relation='{cost.relation}'."
            )
        if cost.unit != unit:
            drafted = "rows" if cost.unit is None else f"people by {cost.unit!r}"
            raise ValueError(
                f"the schema was estimated for {drafted}; its guarantee and the model's add up "
                "only for the same unit. Draft the schema again with the unit of the fit (unit=)."
            )

    def transformer(
        self, *, sparse: bool | Literal["auto"] = "auto", dtype: str = "float64"
    ) -> TableTransformer:
        """Make a scikit-learn transformer that encodes tables by this schema."""
        from discreet.tables.reader import TableTransformer

        return TableTransformer(self, sparse=sparse, dtype=dtype)

    def open(
        self,
        source: Any,
        *,
        memory: int | str | None = None,
        folder: str | os.PathLike[str] | None = None,
        dtype: str = "float32",
        sparse: bool | Literal["auto"] = "auto",
        progress: Callable[[float], None] | None = None,
    ) -> Encoded:
        """Encode a table of any kind and size for ``fit``: X, y and groups, in this order.

        Records are read and encoded block by block, so a source may be larger than memory. y has
        the target's labels or numbers, groups the person of each row; they are None if the schema
        has no target or unit.

        Parameters
        ----------
        source : path, list of paths, or table
            A file (CSV and its relatives, also packed; Parquet; Feather), a folder or a pattern of
            such files, or a list of them; a pandas or polars table (also lazy), a pyarrow Table,
            Dataset or RecordBatchReader, a DuckDB relation, a dask DataFrame, a dict of arrays, or
            anything with ``__arrow_c_stream__``. Columns are found by name.
        memory : int or str, optional
            Largest size of the encoded table in memory, in bytes or as "2GB"; by default a quarter
            of the machine's. A larger table is kept in a private file, mapped into memory.
        folder : path, optional
            Folder for that file, on a local disk. By default the one for temporary files.
        dtype, sparse
            "float32" or "float64"; X as a CSR matrix, with "auto" if that is smaller (``is_wide``).
        progress : callable, optional
            Called with the share of the source that was read, between 0 and 1.

        Notes
        -----
        *Privacy.* X, y and groups are the rows: hand them to an estimator, show them to nobody.
        Leaving groups out of ``fit`` protects single rows instead of people.
        """
        from discreet.tables.reader import read

        places: Any = {"memory": memory, "folder": folder}
        form: Any = {"dtype": dtype, "sparse": sparse}
        return read(source, self, **places, **form, labels=True, progress=progress)

    def batches(
        self,
        source: Any,
        *,
        extra: Sequence[str] = (),
        target: bool = False,
        dtype: str = "float32",
        sparse: bool | Literal["auto"] = "auto",
        progress: Callable[[float], None] | None = None,
    ) -> Generator[EncodedBlock, None, None]:
        """Encode a table block by block, to predict or to evaluate in bounded memory.

        Parameters
        ----------
        source, dtype, sparse, progress
            As in `open`.
        extra : sequence of str
            Columns to hand through as Arrow arrays, such as an identifier; any of the source.
        target : bool
            Read the target too. If False, the source may lack it, and y is None.
        """
        from discreet.tables.reader import BlockReader

        asked = check_texts("extra", extra, stripped=False)
        found = BlockReader(source, self, target, asked, dtype=dtype, sparse=sparse, labels=True)
        return found.blocks(progress)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data (dicts, lists, texts, numbers) without what has its default value."""
        plain: dict[str, Any] = {"version": VERSION}
        if self.unit is not None:
            plain["unit"] = self.unit
        if self.extra != "refuse":
            plain["extra"] = self.extra
        for name in ("about", "file", "target", "spent"):
            part = getattr(self, name)
            stated = {} if part is None else to_plain(part)
            if stated:
                plain[name] = stated
        plain["columns"] = {name: to_plain(column) for name, column in self.columns.items()}
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], name: str = "schema") -> Schema:
        """Make a schema from plain data, as `to_dict` returns it; ``name`` is shown in an error.

        The `TableError` lists everything that is wrong: who fills in forty bounds should not have
        to run forty times.
        """
        _check_version(data, name)
        known = ("unit", "extra", "about", "file", "target", "columns", "spent")
        problems = [
            f"{key!r} is not a part of a schema; {nearest(str(key), known)}"
            for key in data
            if key not in ("version", *known)
        ]

        def made(kind: type[Any], plain: Any, *path: str) -> Any:
            try:
                return from_plain(kind, plain)
            except ValueError as problem:
                where = ".".join(map(key_text, path))
                text = str(problem).replace("True or False", "true or false")  # as TOML has them
                problems.append(f"[{where}] {text}")

        kinds = {"about": About, "file": FileFormat, "target": Target, "spent": Spent}
        parts = {key: made(kind, data[key], key) for key, kind in kinds.items() if key in data}
        parts |= {key: data[key] for key in ("unit", "extra") if key in data}
        columns = {}
        listed = data.get("columns", {})
        if isinstance(listed, Mapping):
            for key, plain in listed.items():
                columns[key] = made(Column, plain, "columns", str(key))
        else:
            problems.append("[columns] must hold one table per column, [columns.NAME].")
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
    def from_toml(
        cls, text: str, name: str = "schema", folder: str | os.PathLike[str] = ""
    ) -> Schema:
        """Make a schema from the text of a file; one `TableError` lists everything wrong in it.

        A column's ``values_file`` names a text file in ``folder`` with one value per line.
        """
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise TableError(f"{name}: this is not TOML: {problem}.") from None
        _read_values(data, name, Path(folder))
        return cls.from_dict(data, name)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a schema file."""
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise TableError(f"{os.fspath(path)}: a schema file must be text in UTF-8.") from None
        return cls.from_toml(text, name=os.fspath(path), folder=Path(path).parent)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a schema file; an existing one is replaced as a whole or not at all."""
        with replacing(path) as stream:
            stream.write(self.to_toml())


def as_schema(schema: Schema | str | os.PathLike[str]) -> Schema:
    """Return a schema, which is read if a path is given."""
    if isinstance(schema, str | os.PathLike):
        return Schema.read(schema)
    return check_schema(schema)


def check_schema(schema: Any) -> Schema:
    """Refuse what is not a schema."""
    if not isinstance(schema, Schema):
        raise ValueError(f"schema must be a Schema; got {type(schema).__name__}.")
    return schema


def _read_values(data: dict[str, Any], name: str, folder: Path) -> None:
    """Put the lines of each ``values_file`` in its place, without empty lines and comments (#).

    The values are in the schema from then on, and in every file that is made of it.
    """
    columns = data.get("columns")
    for key, column in columns.items() if isinstance(columns, dict) else ():
        if not isinstance(column, dict) or "values_file" not in column:
            continue
        where = f"{name}: [columns.{key_text(str(key))}] values_file"
        if "values" in column:
            raise TableError(f"{where}: give values or values_file, but not both.")
        try:
            text = (folder / column.pop("values_file")).read_bytes().decode("utf-8-sig")
        except (OSError, TypeError) as error:
            reason = getattr(error, "strerror", None) or "it must be the name of a file"
            raise TableError(f"{where} cannot be read: {reason.lower()}.") from None
        except UnicodeDecodeError:
            raise TableError(f"{where} must be text in UTF-8, with one value per line.") from None
        lines = (line.strip() for line in text.splitlines())
        column["values"] = [line for line in lines if line and not line.startswith("#")]


def _check_version(data: Any, name: str) -> None:
    """Refuse another version, whose keys may mean something else."""
    if not isinstance(data, Mapping):
        raise TableError(f"{name}: a schema must be a table with [columns.NAME] in it.")
    version = data.get("version")
    if version is None:
        raise TableError(f"{name}: the version is missing; add version = {VERSION} at the top.")
    if version != VERSION or isinstance(version, bool):
        raise TableError(
            f"{name}: version = {VERSION} is the version of schema files that is read here; got "
            f"{version!r}. Write the schema anew, or use the release that wrote it."
        )


def as_target(name: str, column: Column) -> Target:
    """Return a column as a target: texts become classes, and a number keeps its bounds."""
    if isinstance(column, Numeric):
        if not column.is_bounded:
            raise ValueError(f"column {name!r} needs low and high to be the target.")
        return Target(name, low=column.low, high=column.high)
    if isinstance(column, Boolean):
        # Case does not matter in a Boolean, but it does in a class: list the common spellings.
        classes = {}
        for label, texts in (("false", column.false), ("true", column.true)):
            written = ((text, text.lower(), text.upper(), text.capitalize()) for text in texts)
            classes[label] = tuple(dict.fromkeys(chain.from_iterable(written)))
        return Target(name, classes)
    if isinstance(column, Categorical | Ordinal):
        return Target(name, column.values)
    if isinstance(column, Date):
        raise ValueError(f"column {name!r} holds dates; a target has classes, or is a number.")
    raise ValueError(f"column {name!r} is ignored; give it a kind to make it the target.")
