"""The frame of every HTML page of discreet: one file that loads nothing."""

from __future__ import annotations

from html import escape

__all__ = ["document"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_POLICY_WITH_SCRIPT = f"{_POLICY}; script-src 'unsafe-inline'; img-src data:"


def document(title: str, body: str, *, style: str, script: str = "") -> str:
    """Return a whole HTML page, whose policy lets a browser load nothing from elsewhere.

    Parameters
    ----------
    title : str
        As text; it is escaped here.
    body : str
        As HTML: whoever writes it has escaped what came from elsewhere.
    style, script : str
        CSS and JavaScript, put into the page as they are. Without a script none may run.

    Returns
    -------
    str
        The page, with a line break at its end.
    """
    for text, end in ((style, "</style"), (script, "</script")):
        if end in text.lower():
            raise ValueError(f"{end!r} would end this part of the page early: take it out.")
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta http-equiv="Content-Security-Policy" '
        f'content="{_POLICY_WITH_SCRIPT if script else _POLICY}">',
        f"<title>{escape(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        body,
        *([f"<script>{script}</script>"] if script else []),
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"
