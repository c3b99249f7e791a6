"""Entries and summaries of a data set as plain data, text and HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from html import escape
from typing import Any

COLUMNS = (
    "entry", "when", "who", "host", "status", "epsilon", "delta", "relation", "unit", "blocks",
    "measure", "total", "steps", "solver", "purpose", "settings", "version", "model",
)  # fmt: skip
"""Fields of an entry in the history."""

SHORT = ("when", "who", "status", "epsilon", "delta", "solver", "purpose")
"""Those that fit on a screen."""

_SETTLED = {"confirm": "confirmed", "return": "returned"}


def records(bodies: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries among the events of a data set, with what became of each."""
    found: dict[int, dict[str, Any]] = {}
    for body in bodies:
        kind = body["kind"]
        if kind in ("reserve", "add"):
            found[body["seq"]] = _record(body)
        elif kind in _SETTLED:
            found[body["entry"]]["status"] = _SETTLED[kind]
        elif kind == "model":
            found[body["entry"]]["model"] = body["model"]
    return list(found.values())


def _record(body: dict[str, Any]) -> dict[str, Any]:
    details = dict(body["details"])
    charged = body["charged"]
    found = {name: body[name] for name in COLUMNS if name in body}
    found |= {
        "entry": body["seq"],
        "status": "entered" if body["kind"] == "add" else "reserved",
        "epsilon": float(body["epsilon"]),
        "delta": float(body["delta"]),
        "blocks": [block for block in body["blocks"] if block],
        "measure": charged["measure"],
        "total": float(Fraction(charged["total"])),
        "steps": body["group"],
        "solver": details.pop("solver", "elsewhere" if body["entered"] else ""),
        "purpose": details.pop("purpose", ""),
        "settings": details,
        "model": "",
    }
    return {name: found[name] for name in COLUMNS}


def plain(value: Any) -> Any:
    """Return what JSON can hold; anything else as a text of limited length."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(inner) for inner in list(value)[:20]]
    return str(value)[:500]


def finite(value: float) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if math.isfinite(value) else None


def html(known: dict[str, Any]) -> str:
    """Write a summary as HTML, with a bar of what is spent."""
    limit = known["limit"]
    bar = ""
    if limit is not None:
        spent = math.inf if known["spent"] is None else known["spent"]
        share = 100 * min(1.0, spent / limit["epsilon"])
        bar = (
            '<div style="width:24em;max-width:100%;height:.8em;border:1px solid #8888;'
            'border-radius:.4em;overflow:hidden" role="img" '
            f'aria-label="{share:.0f} % of the limit spent">'
            f'<div style="width:{share:.1f}%;height:100%;background:#4477aa"></div></div>'
        )
    return f"<div>{bar}{escape(text(known))}</div>"


def text(known: dict[str, Any]) -> str:
    """Write a summary in one sentence."""
    times = "1 release" if known["entries"] == 1 else f"{known['entries']:,} releases"
    head = f"{known['dataset']!r}: {times}"
    limit = known["limit"]
    if limit is None:
        return f"{head}, no limit (per {known['unit']}, {known['relation']})"
    spent = "more than the limit" if known["spent"] is None else f"ε = {known['spent']:.4g}"
    return (
        f"{head}, {spent} spent of ε = {limit['epsilon']:g} at δ = {limit['delta']:g} "
        f"(per {known['unit']}, {known['relation']}); {following(known)}"
    )


def following(known: dict[str, Any]) -> str:
    """Write what the next fit may have, or why there is none."""
    if known["remaining"] > 0:
        return f"the next fit may have up to ε = {known['remaining']:g}"
    if (at := known.get("at_smaller_delta")) is not None:
        return (
            f"the next fit may have up to ε = {at['epsilon']:g} at δ = {at['delta']:g}, and none "
            f"at δ = {known['limit']['delta']:g}"
        )
    if known["delta_taken"] > known["delta_share"]:
        return (
            f"no other fit is possible: releases known by (ε, δ) only took "
            f"δ = {known['delta_taken']:.3g}, and {known['delta_share']:.3g} is set aside for them"
        )
    return "no other fit is possible"
