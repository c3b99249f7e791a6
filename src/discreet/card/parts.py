"""What a card is made of: a few kinds of plain blocks that every way of writing can show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Block", "Bullets", "Paragraph", "Section", "Table", "listed", "shown"]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of short texts."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table of texts; ``numeric`` names the columns that are set flush right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()


Block = Paragraph | Bullets | Table


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; ``name`` tells writers which section it is."""

    name: str
    heading: str
    blocks: tuple[Block, ...]


def shown(text: object, most: int = 300) -> str:
    """A text from elsewhere as it may be shown: one line, no control characters, not too long.

    Column names and labels come from files. One with an escape sequence or a change of writing
    direction in it could make a card look as if it said something else.
    """
    raw = str(text)
    clean = "".join(
        character
        if character.isprintable()
        else " "
        if character in "\n\r\t"
        else character.encode("unicode_escape").decode("ascii")
        for character in raw[: most + 1]
    )
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def listed(texts: Sequence[object] | Iterable[object], most: int = 6) -> str:
    """The first few of a list, and how many there are if that is more."""
    items = list(texts)
    words = ", ".join(shown(item, 40) for item in items[:most])
    return words if len(items) <= most else f"{words}, … ({len(items):,} in all)"
