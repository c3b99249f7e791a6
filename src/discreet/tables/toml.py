"""Dataclasses as plain data, and plain data as the text of a TOML file that people edit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, TypeAlias, TypeVar

from discreet.tables.columns import KINDS, Column, Numeric, nearest, quoted

_FILL_IN_BOUNDS = (
    "fill in low and high (public knowledge, e.g. from the codebook), or write "
    'bounds = "private" to spend part of the fit\'s budget on them.'
)

_LINE = 96  # letters beyond which a list is wrapped
Made = TypeVar("Made")
Gaps: TypeAlias = Mapping[tuple[str, ...], Sequence[str]]


def to_plain(part: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults, as plain data."""
    plain: dict[str, Any] = {"kind": part.kind} if isinstance(part, Column) else {}
    if isinstance(part, Numeric) and not part.is_bounded:
        plain["bounds"] = "private"
    for item in fields(part):
        value = getattr(part, item.name)
        if _default(item) is not MISSING and value == _default(item):
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
        if not isinstance(name, str) or name not in KINDS:
            raise ValueError(f"kind = {name!r} is not known; {nearest(str(name), KINDS)}")
        kind = KINDS[name]  # type: ignore[assignment]
    defaults = {item.name: _default(item) for item in fields(kind)}  # type: ignore[arg-type]
    known = [*defaults, "bounds"] if kind is Numeric else list(defaults)
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise ValueError(
            " ".join(f"{key!r} is not known; {nearest(str(key), known)}" for key in unknown)
        )
    if kind is Numeric:
        bounds = settings.pop("bounds", None)
        given = "low" in settings or "high" in settings
        if bounds not in (None, "private"):
            raise ValueError(f'bounds must be "private" or left out; got {bounds!r}.')
        if bounds and given:
            raise ValueError('give low and high, or bounds = "private", but not both.')
        if not bounds and not given:
            raise ValueError(_FILL_IN_BOUNDS)
    elif "values" in known:
        settings.setdefault("values", ())  # the error for an empty list says what to do
    needed = [name for name, value in defaults.items() if value is MISSING and name not in settings]
    if needed:
        raise ValueError(f"{quoted(needed)} must be given.")
    return kind(**settings)


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def toml_text(about: str, plain: Mapping[str, Any], gaps: Gaps | None = None) -> str:
    """Write plain data as a TOML file; ``gaps`` are comments at the end of a table, by its path."""
    import tomlkit

    document = tomlkit.document()
    for line in about.splitlines():
        document.add(tomlkit.comment(line) if line else tomlkit.nl())
    document.add(tomlkit.nl())
    _fill(document, plain, (), gaps or {})
    return re.sub("\n{3,}", "\n\n", tomlkit.dumps(document)).rstrip("\n") + "\n"


def key_text(key: str) -> str:
    """Return a key as TOML writes it: bare if it can be, else in quotes."""
    import tomlkit

    return tomlkit.key(key).as_string()


def _fill(container: Any, plain: Mapping[str, Any], path: tuple[str, ...], gaps: Gaps) -> None:
    """Add values, then comments, then inner tables, as the format demands."""
    import tomlkit

    inner = {key: value for key, value in plain.items() if isinstance(value, Mapping)}
    for key, value in plain.items():
        if key not in inner:
            container.add(key, _item(value, len(key)))
    for line in gaps.get(path, ()):
        container.add(tomlkit.comment(line))
    for key, value in inner.items():
        is_super = bool(value) and all(isinstance(part, Mapping) for part in value.values())
        table = tomlkit.table(is_super)
        _fill(table, value, (*path, key), gaps)
        if not is_super:
            container.add(tomlkit.nl())
        container.append(key, table)


def _item(value: Any, indent: int) -> Any:
    """Return a TOML value; whole numbers have no decimals, and long lists are wrapped."""
    import tomlkit

    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    item = tomlkit.item(value)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return item
    if indent + len(" = ") + len(item.as_string()) <= _LINE:
        return item
    line: list[Any] = []
    wrapped, width = tomlkit.array(), 0
    for part in value:
        size = len(tomlkit.item(part).as_string()) + len(", ")
        if line and width + size > _LINE - len("  "):
            wrapped.add_line(*line, indent="  ")
            line, width = [], 0
        line.append(part)
        width += size
    wrapped.add_line(*line, indent="  ")
    wrapped.add_line(indent="")
    return wrapped
