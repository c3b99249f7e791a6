"""A schema as plain data and as the text of a TOML file, and back.

Reading collects: one error lists everything that is wrong in a file, because a person who fills in
forty bounds should not have to run forty times.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

from discreet.errors import TableError
from discreet.tables.columns import KINDS, Column, Numeric, nearest, quoted
from discreet.tables.parts import FileFormat, FrozenMapping, Spent, Target
from discreet.tables.schema import Schema

__all__ = [
    "from_plain",
    "from_text",
    "key_text",
    "plain_fields",
    "table_lines",
    "to_plain",
    "to_text",
]

VERSION = 1

_ABOUT = """\
# Schema of a table, for discreet: what is publicly known about each column.
# Bounds, categories and classes come from a codebook or a form, never from looking at the rows.
"""

_ABOUT_ESTIMATED = """\
# Schema of a table, for discreet: what may be known about each column.
# What was not known was estimated from the rows, within the budget under [spent]. Keep that part:
# every model that is fitted to the same rows adds to it, and its privacy card counts both.
"""

_FILL_IN_BOUNDS = (
    "fill in low and high (public knowledge, e.g. from the codebook), or write "
    'bounds = "private" to spend part of the fit\'s budget on them.'
)

_LINE = 96

Made = TypeVar("Made")


def to_plain(schema: Schema) -> dict[str, Any]:
    """A schema as dicts, lists, texts and numbers; what has its default value is left out."""
    plain: dict[str, Any] = {"version": VERSION}
    for name, part in (("file", schema.file), ("target", schema.target), ("spent", schema.spent)):
        if part is not None and (name != "file" or part != FileFormat()):
            plain[name] = plain_fields(part)
    plain["columns"] = {name: _plain_column(column) for name, column in schema.columns.items()}
    return plain


def from_plain(data: Mapping[str, Any], name: str = "schema") -> Schema:
    """The schema that plain data describe.

    Parameters
    ----------
    data : mapping
        As `to_plain` makes it.
    name : str
        What to call it in an error, the file's name for example.

    Raises
    ------
    TableError
        Lists everything that is wrong.
    """
    problems: list[str] = []
    if not isinstance(data, Mapping):
        raise TableError(f"{name}: a schema must be a table with [columns.NAME] in it.")
    if data.get("version") != VERSION or isinstance(data["version"], bool):
        # Keys of another version may mean something else: do not judge them by this one's rules.
        if "version" not in data:
            raise TableError(f"{name}: the version is missing; add version = {VERSION} at the top.")
        raise TableError(
            f"{name}: version = {VERSION} is the version of schema files that is read here; got "
            f"{data['version']!r}. Write the schema anew, or use the release that wrote it."
        )
    for key in data:
        if key not in ("version", "file", "target", "spent", "columns"):
            known = ("file", "target", "columns", "spent")
            problems.append(f"{key!r} is not a part of a schema; {nearest(str(key), known)}")

    def part(key: str, make: Callable[[Any], Made]) -> Made | None:
        """Make one part, and note what is wrong with it."""
        try:
            return make(data[key]) if key in data else None
        except ValueError as problem:
            problems.append(f"[{key}] {problem}")
            return None

    file = part("file", lambda plain: _made(FileFormat, plain))
    target = part("target", lambda plain: _made(Target, plain))
    spent = part("spent", lambda plain: _made(Spent, plain))
    columns = {}
    listed = data.get("columns", {})
    if not isinstance(listed, Mapping):
        listed = {}
        problems.append("[columns] must hold one table for each column, [columns.NAME].")
    for column_name, plain in listed.items():
        try:
            columns[column_name] = _column(plain)
        except ValueError as problem:
            problems.append(f"[columns.{key_text(str(column_name))}] {problem}")
    if not problems:
        try:
            return Schema(columns, target, file or FileFormat(), spent)
        except ValueError as problem:
            problems.append(str(problem))
    if len(problems) == 1:
        raise TableError(f"{name}: {problems[0]}")
    listing = "\n".join(f"  - {problem}" for problem in problems)
    raise TableError(f"{name}: {len(problems)} problems\n{listing}")


def from_text(text: str, name: str = "schema") -> Schema:
    """The schema in the text of a TOML file; ``name`` is the file's, for errors."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise TableError(f"{name}: this is not TOML: {problem}.") from None
    return from_plain(data, name)


def to_text(schema: Schema) -> str:
    """The text of a schema file, for a person to read and to change."""
    plain = to_plain(schema)
    lines = [_ABOUT if schema.spent is None else _ABOUT_ESTIMATED, f"version = {plain['version']}"]
    for name in ("file", "target", "spent"):
        if name in plain:
            lines.extend(table_lines(name, plain[name]))
    for name, column in plain["columns"].items():
        lines.extend(table_lines(f"columns.{key_text(name)}", column))
    return "\n".join(lines) + "\n"


def plain_fields(part: Any) -> dict[str, Any]:
    """The fields of a dataclass that do not have their default value."""
    plain = {}
    for item in fields(part):
        value = getattr(part, item.name)
        if _default(item) is not MISSING and value == _default(item):
            continue
        if isinstance(value, FrozenMapping):
            if all(texts == (label,) for label, texts in value.items()):
                value = list(value)
            else:
                value = {label: list(texts) for label, texts in value.items()}
        plain[item.name] = list(value) if isinstance(value, tuple) else value
    return plain


def _plain_column(column: Column) -> dict[str, Any]:
    plain: dict[str, Any] = {"kind": column.kind}
    if isinstance(column, Numeric) and not column.is_bounded:
        plain["bounds"] = "private"
    return plain | plain_fields(column)


def _column(plain: Any) -> Column:
    """A column from its plain form; a ValueError says what is wrong."""
    if not isinstance(plain, Mapping):
        raise ValueError('must be a table that starts with kind = "…".')
    settings = dict(plain)
    kind = settings.pop("kind", None)
    if kind is None:
        raise ValueError(f"kind is missing; it is one of {quoted(KINDS)}.")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind = {kind!r} is not known; {nearest(str(kind), KINDS)}")
    made = KINDS[kind]
    if made is Numeric:
        bounds = settings.pop("bounds", None)
        given = "low" in settings or "high" in settings
        _check_keys((*_field_names(made), "bounds"), settings)
        if bounds not in (None, "private"):
            raise ValueError(f'bounds must be "private" or left out; got {bounds!r}.')
        if bounds and given:
            raise ValueError('give low and high, or bounds = "private", but not both.')
        if not bounds and not given:
            raise ValueError(_FILL_IN_BOUNDS)
    elif "values" in _field_names(made):
        settings.setdefault("values", ())  # an empty list says by itself what to do
    return _made(made, settings)


def _made(kind: type[Made], plain: Any) -> Made:
    """A dataclass from its plain form; a ValueError says what is wrong."""
    if not isinstance(plain, Mapping):
        raise ValueError("must be a table, not a single value.")
    names = _field_names(kind)
    _check_keys(names, plain)
    needed = [item.name for item in fields(kind) if _default(item) is MISSING]  # type: ignore[arg-type]
    left_out = [name for name in needed if name not in plain]
    if left_out:
        raise ValueError(f"{quoted(left_out)} must be given.")
    return kind(**plain)


def _check_keys(names: Iterable[str], plain: Mapping[str, Any]) -> None:
    names = list(names)
    unknown = [
        f"{key!r} is not known; {nearest(str(key), names)}" for key in plain if key not in names
    ]
    if unknown:
        raise ValueError(" ".join(unknown))


def _field_names(kind: Any) -> list[str]:
    return [item.name for item in fields(kind)]


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def table_lines(name: str, plain: Mapping[str, Any]) -> list[str]:
    """The lines of one TOML table; tables inside it come last, as the format demands."""
    lines = ["", f"[{name}]"]
    inner = {key: value for key, value in plain.items() if isinstance(value, Mapping)}
    for key, value in plain.items():
        if key not in inner:
            lines.append(f"{key_text(key)} = {_value(value, len(key_text(key)))}")
    for key, value in inner.items():
        lines.extend(table_lines(f"{name}.{key_text(key)}", value))
    return lines


def key_text(key: str) -> str:
    """A key as TOML writes it: bare if it can be, else in quotes."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _value(value: Any, indent: int) -> str:
    """A value as TOML writes it; a list that does not fit on a line is wrapped."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        whole = value == int(value) and abs(value) < 1e15
        return str(int(value)) if whole else repr(float(value))
    items = [_value(item, 0) for item in value]
    line = f"[{', '.join(items)}]"
    if indent + len(" = ") + len(line) <= _LINE:
        return line
    lines = [" "]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > _LINE and lines[-1] != " ":
            lines.append(" ")
        lines[-1] += f" {item},"
    return "\n".join(["[", *lines, "]"])


_ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def _text(text: str) -> str:
    """A text in double quotes, with all that TOML wants escaped."""
    return '"' + re.sub(r'[\\"\x00-\x1f\x7f]', _escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    letter = match.group()
    return _ESCAPES.get(letter, f"\\u{ord(letter):04x}")
