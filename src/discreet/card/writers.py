"""Writers of a privacy card: plain text, Markdown and a self-contained HTML page."""

from __future__ import annotations

import math
import re
import textwrap
from html import escape
from importlib.resources import files

from discreet.card.contents import Card
from discreet.card.descriptions import Bullets, Content, Paragraph, TextTable
from discreet.card.risk import percent
from discreet.page import document

_WIDTH = 88  # characters of a line of plain text


def text(card: Card) -> str:
    """Write a card as plain text, at most 88 characters wide where words allow it."""
    lines = [card.title, "=" * len(card.title), ""]
    if card.banner:
        banner = textwrap.wrap(card.banner, _WIDTH - 4)
        lines += ["!" * _WIDTH, *(f"!! {line}" for line in banner), "!" * _WIDTH, ""]
    for section in card.sections:
        lines += [section.heading, "-" * len(section.heading)]
        for block in section.blocks:
            lines += [*_text_block(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def _text_block(block: Content) -> list[str]:
    if isinstance(block, Paragraph):
        return _wrapped(block.text, "", "")
    if isinstance(block, Bullets):
        return [line for item in block.items for line in _wrapped(item, "- ", "  ")]
    return columns(block)


def _wrapped(words: str, first: str, rest: str) -> list[str]:
    lines = textwrap.wrap(
        words, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return lines or [first.rstrip()]


def columns(table: TextTable, width: int = _WIDTH) -> list[str]:
    """Write columns side by side; the widest one is wrapped into the remaining width."""
    rows = [table.header, *table.rows] if any(table.header) else list(table.rows)
    widths = [max(len(row[j]) for row in rows) for j in range(len(table.header))]
    widest = widths.index(max(widths))
    left = width - (sum(widths) - max(widths)) - 2 * len(widths)
    widths[widest] = min(widths[widest], max(20, left))
    lines: list[str] = []
    for row in rows:
        cells = [
            textwrap.wrap(cell, size or 1) or [""] for cell, size in zip(row, widths, strict=True)
        ]
        for k in range(max(map(len, cells))):
            parts = [cell[k] if k < len(cell) else "" for cell in cells]
            aligned = [
                part.rjust(size) if j in table.numeric else part.ljust(size)
                for j, (part, size) in enumerate(zip(parts, widths, strict=True))
            ]
            lines.append(f"  {'  '.join(aligned)}".rstrip())
    return lines


def markdown(card: Card) -> str:
    """Write a card as Markdown (with tables, as GitHub and most tools read them)."""
    lines = [f"# {_inert(card.title)}", ""]
    if card.banner:
        lines += [f"> **⚠ {_inert(card.banner)}**", ""]
    for section in card.sections:
        lines += [f"## {_inert(section.heading)}", ""]
        for block in section.blocks:
            lines += [*_markdown_block(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_block(block: Content) -> list[str]:
    if isinstance(block, Paragraph):
        return [_inert(block.text)]
    if isinstance(block, Bullets):
        return [f"- {_inert(item)}" for item in block.items]
    return markdown_table(block)


def markdown_table(table: TextTable) -> list[str]:
    """Return the lines of a table as Markdown."""
    rule = ["---:" if j in table.numeric else "---" for j in range(len(table.header))]
    rows = [table.header, rule, *([_inert(cell) for cell in row] for row in table.rows)]
    return [f"| {' | '.join(row)} |" for row in rows]


def _inert(words: str) -> str:
    """Escape text so that Markdown shows it as it is: no markup, HTML or link."""
    safe = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    safe = re.sub(r"([\\`*_{}\[\]#|~!$])", r"\\\1", safe)
    safe = re.sub(r"^(\s*)([-+])(\s)", r"\1\\\2\3", safe)
    safe = re.sub(r"^(\s*\d+)([.)])(\s)", r"\1\\\2\3", safe)
    # A bare address would become a link; a character reference in its scheme prevents that.
    return re.sub(r"(?i)\b(https?|ftp|mailto)(:)", r"\1&#58;", safe).replace("www.", "www&#46;")


def html(card: Card) -> str:
    """Write a card as one self-contained HTML page: no script, nothing loaded from elsewhere."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError("the HTML card needs jinja2: pip install jinja2.") from error
    # Autoescape makes every text of the card inert, whatever it contains.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["units"] = lambda words: re.sub(r"(\d) %", "\\1\u00a0%", words)
    environment.tests["paragraph"] = lambda block: isinstance(block, Paragraph)
    environment.tests["bullets"] = lambda block: isinstance(block, Bullets)
    folder = files("discreet.card")
    template = environment.from_string(folder.joinpath("card.html.jinja").read_text("utf-8"))
    body = template.render(card=card, figure=_Figure(card))
    return document(card.title, body, style=folder.joinpath("card.css").read_text("utf-8"))


def framed(card: Card) -> str:
    """Write the page inside a frame for notebooks, which keeps its style apart."""
    return (
        f'<iframe title="{escape(card.title)}" sandbox="" srcdoc="{escape(html(card))}" '
        'style="width: 100%; height: 40rem; border: 1px solid #8888"></iframe>'
    )


class _Figure:
    """Coordinates of the curve: true-positive against false-positive rate, log scales from 1e-4."""

    left = 62.0  # space for the labels of the vertical axis
    top = 16.0
    width = 322.0  # of the plotted area
    height = 262.0
    decades = 4  # of either axis, down from 1

    def __init__(self, card: Card) -> None:
        self.right = self.left + self.width
        self.bottom = self.top + self.height
        self.path = " ".join(f"{self.x(fpr)},{self.y(tpr)}" for fpr, tpr in card.curve)
        self.diagonal = f"{self.x(1)},{self.y(1)} {self.x(1e-4)},{self.y(1e-4)}"
        ticks = [10.0 ** (k - self.decades) for k in range(self.decades + 1)]
        self.ticks = [(self.x(rate), self.y(rate), f"{100 * rate:g} %") for rate in ticks]
        self.marks = [self._mark(r.false_positive_rate, r.true_positive_rate) for r in card.risks]

    def x(self, rate: float) -> float:
        """Return the horizontal coordinate of a rate."""
        share = 1 + math.log10(max(rate, 10.0**-self.decades)) / self.decades
        return round(self.left + self.width * share, 1)

    def y(self, rate: float) -> float:
        """Return the vertical coordinate of a rate."""
        share = math.log10(max(rate, 10.0**-self.decades)) / self.decades
        return round(self.top - self.height * share, 1)

    def _mark(self, fpr: float, tpr: float) -> dict[str, object]:
        x = self.x(fpr)
        y = self.y(tpr)
        low = y < self.top + 24  # no space above the curve: the label goes below it
        label_x, label_y = (x + 2, y + 22) if low else (x - 8, y - 10)
        anchor = "start" if low else "end"
        return {
            "x": x, "y": y, "label_x": round(label_x, 1), "label_y": round(label_y, 1),
            "anchor": anchor, "text": percent(tpr),
        }  # fmt: skip
