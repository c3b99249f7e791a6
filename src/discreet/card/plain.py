"""A card as text for a terminal, and as Markdown."""

from __future__ import annotations

import re
import textwrap

from discreet.card.facts import Card
from discreet.card.parts import Block, Bullets, Paragraph, Table

__all__ = ["markdown", "text"]

_WIDTH = 88
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~!$])")


def text(card: Card) -> str:
    """A card as plain text, at most 88 characters wide where words allow it."""
    lines = [card.title, "=" * len(card.title), ""]
    if card.banner:
        banner = textwrap.wrap(card.banner, _WIDTH - 4)
        lines += ["!" * _WIDTH, *(f"!! {line}" for line in banner), "!" * _WIDTH, ""]
    for section in card.sections:
        lines += [section.heading, "-" * len(section.heading)]
        for block in section.blocks:
            lines += [*_plain(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def _plain(block: Block) -> list[str]:
    if isinstance(block, Paragraph):
        return _wrapped(block.text, "", "")
    if isinstance(block, Bullets):
        return [line for item in block.items for line in _wrapped(item, "- ", "  ")]
    return _columns(block)


def _wrapped(words: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def _columns(table: Table) -> list[str]:
    """Columns side by side; the widest one is wrapped into what is left of the line."""
    rows = [table.header, *table.rows] if any(table.header) else list(table.rows)
    widths = [max(len(row[j]) for row in rows) for j in range(len(table.header))]
    widest = widths.index(max(widths))
    left = _WIDTH - sum(width for j, width in enumerate(widths) if j != widest) - 2 * len(widths)
    widths[widest] = min(widths[widest], max(20, left))
    lines: list[str] = []
    for row in rows:
        cells = [
            textwrap.wrap(cell, width or 1) or [""] for cell, width in zip(row, widths, strict=True)
        ]
        for k in range(max(map(len, cells))):
            parts = [cell[k] if k < len(cell) else "" for cell in cells]
            aligned = [
                part.rjust(width) if j in table.numeric else part.ljust(width)
                for j, (part, width) in enumerate(zip(parts, widths, strict=True))
            ]
            lines.append(f"  {'  '.join(aligned)}".rstrip())
    return lines


def markdown(card: Card) -> str:
    """A card as Markdown (with tables, as GitHub and most tools read them)."""
    lines = [f"# {_escaped(card.title)}", ""]
    if card.banner:
        lines += [f"> **⚠ {_escaped(card.banner)}**", ""]
    for section in card.sections:
        lines += [f"## {_escaped(section.heading)}", ""]
        for block in section.blocks:
            lines += [*_marked(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def _marked(block: Block) -> list[str]:
    if isinstance(block, Paragraph):
        return [_escaped(block.text)]
    if isinstance(block, Bullets):
        return [f"- {_escaped(item)}" for item in block.items]
    rule = ["---:" if j in block.numeric else "---" for j in range(len(block.header))]
    rows = [block.header, rule, *([_escaped(cell) for cell in row] for row in block.rows)]
    return [f"| {' | '.join(row)} |" for row in rows]


def _escaped(words: str) -> str:
    """Text that Markdown shows as it is: nothing in it is markup, HTML or a link."""
    safe = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    safe = _SPECIAL.sub(r"\\\1", safe)
    safe = re.sub(r"^(\s*)([-+])(\s)", r"\1\\\2\3", safe)
    safe = re.sub(r"^(\s*\d+)([.)])(\s)", r"\1\\\2\3", safe)
    # A bare address would become a link; a word joiner after its scheme keeps it text.
    return re.sub(r"(?i)\b(https?|ftp|mailto)(:)", r"\1&#58;", safe).replace("www.", "www&#46;")
