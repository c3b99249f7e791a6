"""A card as one HTML page: no script, nothing loaded, light or dark, for a phone or for print."""

from __future__ import annotations

import re
from html import escape

from discreet.card.facts import Card
from discreet.card.figure import figure
from discreet.card.parts import Block, Bullets, Paragraph, Table
from discreet.page import document

__all__ = ["framed", "html"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #555; --paper: #fff; --line: #d0d0d0;
  --tint: #f3f5f7; --bound: #0060a8; --gain: #0060a822; --alarm: #a30000; --alarm-paper: #fff0f0; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --soft: #b4b4b4; --paper: #161819;
  --line: #3f4447; --tint: #1f2325; --bound: #6cc0f5; --gain: #6cc0f52e; --alarm: #ff9c9c;
  --alarm-paper: #3a1414; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 46rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .5rem 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; padding-bottom: .25rem;
  border-bottom: 1px solid var(--line); }
h1, h2, p, li, tbody th { overflow-wrap: anywhere; }
td, thead th { overflow-wrap: break-word; }
p { margin: .6rem 0; }
ul { margin: .6rem 0; padding-left: 1.2rem; }
li { margin: .3rem 0; }
.lead { font-size: 1.15rem; }
.banner { border: 3px solid var(--alarm); background: var(--alarm-paper); color: var(--alarm);
  padding: .8rem 1rem; font-weight: 700; font-size: 1.1rem; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
caption { text-align: left; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
th:last-child, td:last-child { padding-right: 0; }
tbody th { font-weight: 400; color: var(--soft); min-width: 6.5rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
.wide { overflow-x: auto; }
figure { margin: 1.2rem 0; }
figcaption { color: var(--soft); font-size: .9rem; }
.curve { display: block; width: 100%; max-width: 34rem; height: auto; }
.curve text { font: 13px system-ui, sans-serif; fill: var(--soft); }
.curve .value { font-weight: 700; fill: var(--ink); paint-order: stroke; stroke: var(--paper);
  stroke-width: 4px; stroke-linejoin: round; }
.curve .axis { fill: var(--ink); }
.curve .grid { stroke: var(--line); stroke-width: 1; }
.curve .gain { fill: var(--gain); }
.curve .guess { fill: none; stroke: var(--soft); stroke-width: 2; stroke-dasharray: 6 5; }
.curve .bound { fill: none; stroke: var(--bound); stroke-width: 3; stroke-linejoin: round; }
.curve .mark { fill: var(--bound); stroke: var(--paper); stroke-width: 2; }
@media print { :root { --ink: #000; --soft: #333; --paper: #fff; --line: #999; --bound: #004a86;
  --gain: #0060a822; --alarm: #a30000; --alarm-paper: #fff; } body { max-width: none; padding: 0;
  font-size: 10.5pt; } h2 { break-after: avoid; } tr, figure, li { break-inside: avoid; } }
"""

_PER_CENT = re.compile(r"(\d) %")
_CAPTION = (
    "The solid line is the promised bound on every attacker, the dashed one is guessing; dots are "
    "the three rates above. Both axes grow by factors of ten."
)


def html(card: Card) -> str:
    """A card as one self-contained HTML page."""
    parts = ["<main>", f"<h1>{escape(card.title)}</h1>"]
    if card.banner:
        parts.append(f'<p class="banner" role="alert">⚠ {escape(card.banner)}</p>')
    for section in card.sections:
        heading = f"{section.name}-heading"
        parts += [
            f'<section aria-labelledby="{heading}">',
            f'<h2 id="{heading}">{escape(section.heading)}</h2>',
            *(
                _block(block, lead=section.name == "promise" and k == 0)
                for k, block in enumerate(section.blocks)
            ),
        ]
        if section.name == "risk" and not card.banner:
            caption = f"<figcaption>{escape(_CAPTION)}</figcaption>"
            parts.append(f"<figure>\n{figure(card)}\n{caption}\n</figure>")
        parts.append("</section>")
    return document(card.title, "\n".join([*parts, "</main>"]), style=_STYLE)


def framed(card: Card) -> str:
    """The page inside a frame, so that its style stays its own (for notebooks)."""
    return (
        f'<iframe title="{escape(card.title)}" sandbox="" srcdoc="{escape(html(card))}" '
        'style="width: 100%; height: 40rem; border: 1px solid #8888"></iframe>'
    )


def _block(block: Block, *, lead: bool = False) -> str:
    if isinstance(block, Paragraph):
        opening = '<p class="lead">' if lead else "<p>"
        return f"{opening}{_escaped(block.text)}</p>"
    if isinstance(block, Bullets):
        return "\n".join(["<ul>", *(f"<li>{_escaped(item)}</li>" for item in block.items), "</ul>"])
    return _table(block)


def _table(table: Table) -> str:
    lines = ['<div class="wide">', "<table>"]
    if any(table.header):
        cells = (
            f'<th scope="col"{_number(table, j)}>{escape(cell)}</th>'
            for j, cell in enumerate(table.header)
        )
        lines.append(f"<thead><tr>{''.join(cells)}</tr></thead>")
    lines.append("<tbody>")
    for first, *rest in table.rows:
        cells = (
            f"<td{_number(table, j)}>{_escaped(cell)}</td>" for j, cell in enumerate(rest, start=1)
        )
        lines.append(f'<tr><th scope="row">{escape(first)}</th>{"".join(cells)}</tr>')
    return "\n".join([*lines, "</tbody>", "</table>", "</div>"])


def _escaped(words: str) -> str:
    """Text that is safe in a page, with numbers kept together with their unit."""
    return _PER_CENT.sub("\\1&nbsp;%", escape(words))


def _number(table: Table, column: int) -> str:
    return ' class="number"' if column in table.numeric else ""
