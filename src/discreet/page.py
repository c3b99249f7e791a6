"""HTML of discreet: the frame of a page that loads nothing, and tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_POLICY_WITH_SCRIPT = f"{_POLICY}; script-src 'unsafe-inline'; img-src data:"


def document(title: str, body: str, *, style: str, script: str = "") -> str:
    """Return a whole HTML page, whose policy lets a browser load nothing from elsewhere.

    The title is escaped here; whoever writes the body has escaped what came from elsewhere. Style
    and script are put into the page as they are. Without a script none may run.
    """
    for text, end in ((style, "</style"), (script, "</script")):
        if end in text.lower():
            raise ValueError(f"{end!r} would end this part of the page early: take it out.")
    policy = _POLICY_WITH_SCRIPT if script else _POLICY
    code = f"<script>{script}</script>\n" if script else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
{code}</body>
</html>
"""


def table(
    header: Iterable[object],
    rows: Iterable[Iterable[object]],
    *,
    caption: str = "",
    texts: int | None = None,
) -> str:
    """Return a table of texts for a notebook, which are escaped here; wide ones scroll.

    If the number of first columns with ``texts`` is given, the others are numbers to the right.
    """
    style = "text-align:left;white-space:nowrap"
    parts = [f'<caption style="{style}">{escape(caption)}</caption>'] if caption else []
    names = [f'<th scope="col">{escape(str(name))}</th>' for name in header]
    if any(name != '<th scope="col"></th>' for name in names):
        parts.append(f"<thead><tr>{''.join(names)}</tr></thead>")
    body = []
    for row in rows:
        cells = []
        for place, cell in enumerate(row):
            side = "left" if texts is not None and place < texts else "right"
            style = "" if texts is None else f' style="text-align:{side}"'
            cells.append(f"<td{style}>{escape(str(cell))}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    parts.append(f"<tbody>{''.join(body)}</tbody>")
    return f'<div style="overflow-x:auto"><table>{"".join(parts)}</table></div>'


def note(title: str, text: str, *, more: str = "", alarm: bool = False) -> str:
    """Return a short text for a notebook, and ``more``, which is HTML, to be opened by a click."""
    colour = "#c0392b" if alarm else "#4477aa"
    opened = f"<details><summary>Details</summary>{more}</details>" if more else ""
    return (
        f'<div style="border-left:4px solid {colour};padding:.2em .8em;max-width:50em">'
        f"<strong>{escape(title)}</strong><p>{escape(text)}</p>{opened}</div>"
    )
