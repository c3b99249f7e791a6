"""The picture of audits: what was promised against what was measured, as one SVG.

One panel for each promise that was attacked. Along: the share of people who are wrongly accused;
up: the share who are rightly caught. The promise is a line that no attacker may get above. The
certified line is the same for the certified ε: the true trade-off reaches it somewhere. So a
promise is refuted when the certified line lies above the promised one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

import numpy as np

from discreet.audit.report import HEADINGS, NUMERIC, bound_in_words, in_words, row
from discreet.audit.result import Audit, Verdict
from discreet.card import shown
from discreet.card.risk import approximate_bound
from discreet.page import document

__all__ = ["figure", "page"]

_PLOT_X, _PLOT_Y = 226.0, 200.0
_LEFT, _ABOVE, _RIGHT, _BELOW = 62.0, 90.0, 22.0, 56.0
_CELL_X, _CELL_Y = _LEFT + _PLOT_X + _RIGHT, _ABOVE + _PLOT_Y + _BELOW
_TEXT = -54.0  # where a panel's headings begin, left of its plot
_HEAD, _LINE, _MARGIN = 52.0, 22.0, 12.0
_FEWEST_HITS = 50
"""A measured rate of fewer hits than that is not drawn: it would jump about."""

# Colours of Okabe and Ito, told apart by the colour-blind; dashes and dots tell them apart in grey.
_STYLE = """
.audit { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.audit text { font-size: 12px; fill: #444; }
.audit .title { font-size: 18px; font-weight: 700; fill: #111; }
.audit .subject { font-size: 14px; font-weight: 700; fill: #111; }
.audit .axis { fill: #111; }
.audit .found { fill: #111; }
.audit .alarm { fill: #a30000; font-weight: 700; }
.audit .paper { fill: #fff; }
.audit .frame { fill: none; stroke: #999; stroke-width: 1; }
.audit .frame.alarm { stroke: #a30000; stroke-width: 3; }
.audit .grid { stroke: #ddd; stroke-width: 1; }
.audit .allowed { fill: #0072b2; fill-opacity: .13; }
.audit .promise { fill: none; stroke: #0072b2; stroke-width: 3; stroke-linejoin: round; }
.audit .guess { fill: none; stroke: #777; stroke-width: 1.5; stroke-dasharray: 5 4; }
.audit .event { fill: #d55e00; stroke: #fff; stroke-width: 1.5; }
.audit .certified { fill: none; stroke: #d55e00; stroke-width: 2.5; stroke-dasharray: 9 3 2 3; }
.audit .other { fill: none; stroke: #111; stroke-opacity: .5; stroke-width: 1; }
.audit .measured { fill: none; stroke: #111; stroke-width: 1.8; stroke-linejoin: round; }
.audit .dot { fill: #fff; stroke: #111; stroke-width: 1.5; }
"""

_PAGE_STYLE = """
body { margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 62rem; background: #fff;
  color: #1a1a1a; font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; }
figure { margin: 1.5rem 0; }
svg { display: block; max-width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .9rem .3rem 0;
  border-bottom: 1px solid #d0d0d0; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } tr { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class _Panel:
    """One promise: the audit that got furthest, those that got less far, and the axes' extent."""

    best: Audit
    others: tuple[Audit, ...]
    decades: int

    def x(self, rate: float) -> float:
        return _PLOT_X * (1 + self._log(rate) / self.decades)

    def y(self, rate: float) -> float:
        return -_PLOT_Y * self._log(rate) / self.decades

    def _log(self, rate: float) -> float:
        return math.log10(max(rate, 10.0**-self.decades))

    def points(self, rates: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(fpr):.1f},{self.y(tpr):.1f}" for fpr, tpr in rates)


def figure(audits: Sequence[Audit]) -> str:
    """Draw audits, each promise in a panel of its own.

    Parameters
    ----------
    audits : sequence of Audit
        At least one. Of several attacks on one promise the one that certifies most is drawn with
        dots, the others are thin lines.

    Returns
    -------
    str
        An SVG document that needs nothing else, with a title and a description for those who
        cannot see it.
    """
    if not audits:
        raise ValueError("there is nothing to draw: pass at least one audit.")
    panels = _panels(audits)
    columns = min(len(panels), 2 if len(panels) in (2, 4) else 3)
    lines_of_panels = -(-len(panels) // columns)
    legend, legend_lines = _legend(columns, several=any(panel.others for panel in panels))
    head = _HEAD + _LINE * legend_lines
    width = 2 * _MARGIN + columns * _CELL_X
    size = 1.6 if len(panels) == 1 else 1.0
    height = head + lines_of_panels * _CELL_Y
    parts = [
        f'<svg class="audit" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-labelledby="audit-title audit-desc" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{size * width:.0f}" height="{size * height:.0f}">',
        '<title id="audit-title">Promised against measured</title>',
        f'<desc id="audit-desc">{escape(_described(panels))}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="title" x="{_MARGIN + 8}" y="32">Promised against measured</text>',
        *legend,
    ]
    for k, panel in enumerate(panels):
        left = _MARGIN + (k % columns) * _CELL_X + _LEFT
        top = head + (k // columns) * _CELL_Y + _ABOVE
        named = (k % columns == 0, k + columns >= len(panels))
        parts.append(f'<g transform="translate({left:.1f} {top:.1f})">')
        parts += _drawn(panel, named)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def page(audits: Sequence[Audit], *, title: str = "Audit") -> str:
    """The picture, the table and what they say, as one HTML page without script or links."""
    classes = ['class="number"' if j in NUMERIC else "" for j in range(len(HEADINGS))]
    heads = "".join(
        f'<th scope="col" {of}>{escape(cell)}</th>'
        for of, cell in zip(classes, HEADINGS, strict=True)
    )
    rows = [
        "".join(
            f"<td {of}>{escape(shown(cell))}</td>"
            for of, cell in zip(classes, row(audit), strict=True)
        )
        for audit in audits
    ]
    parts = [
        "<main>",
        f"<h1>{escape(shown(title))}</h1>",
        f"<p>{escape(in_words(audits))}</p>",
        f"<figure>\n{figure(audits)}</figure>",
        f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>',
        *(f"<tr>{cells}</tr>" for cells in rows),
        "</tbody></table></div>",
        "</main>",
    ]
    return document(shown(title), "\n".join(parts), style=_PAGE_STYLE)


def _panels(audits: Sequence[Audit]) -> list[_Panel]:
    def promise(audit: Audit) -> tuple[str, str, float, float]:
        return audit.subject, audit.relation, audit.epsilon, audit.delta

    order = {key: k for k, key in reversed(list(enumerate(map(promise, audits))))}
    decades = max(_decades(audit) for audit in audits)
    panels = []
    for _, group in groupby(
        sorted(audits, key=lambda audit: order[promise(audit)]), key=lambda a: order[promise(a)]
    ):
        best, *others = sorted(group, key=lambda audit: -audit.epsilon_bound)
        panels.append(_Panel(best, tuple(others), decades))
    return panels


def _decades(audit: Audit) -> int:
    """How far down the axes must go: to the rarest measured rate, and where the promise ends."""
    rates = [fpr for fpr, _ in _measured(audit) if fpr < 1]
    lowest = min([0.1, math.exp(-audit.epsilon) / 3, *rates])
    return min(5, max(2, math.ceil(-math.log10(max(lowest, 1e-9)) - 0.2)))


def _measured(audit: Audit) -> list[tuple[float, float]]:
    """The measured curve as far as it is known: no point rests on a handful of hits."""
    fewest = _FEWEST_HITS / (0.4 * audit.trials)  # 4 in 10 runs are tested in each world
    return [
        (max(at.fpr, fewest), at.tpr)
        for at in audit.curve
        if at.tpr >= fewest and (at.fpr >= fewest or at.tpr >= 20 * fewest)
    ]


def _line(epsilon: float, delta: float, decades: int) -> list[tuple[float, float]]:
    """The most that anyone catches under (ε, δ), over all rates of wrongly accusing."""
    rates = np.minimum(np.geomspace(10.0**-decades, 1.0, 201), 1.0)
    return [(float(rate), approximate_bound(epsilon, delta, float(rate))) for rate in rates]


def _drawn(panel: _Panel, named: tuple[bool, bool]) -> list[str]:
    best, decades = panel.best, panel.decades
    promised = panel.points(_line(best.epsilon, best.delta, decades))
    corners = panel.points([(1.0, 1.0), (0.0, 0.0)])
    refuted = best.verdict is Verdict.REFUTED
    certified = []
    if best.epsilon_bound > 0:
        points = panel.points(_line(best.epsilon_bound, best.delta, decades))
        certified = [f'<polyline class="certified" points="{points}"/>']
        if best.event is not None:
            at = panel.points([(best.event.fpr, best.event.tpr)]).split(",")
            certified.append(f'<circle class="event" cx="{at[0]}" cy="{at[1]}" r="5"/>')
    lines = [
        *_grid(panel),
        f'<polygon class="allowed" points="{promised} {corners}"/>',
        f'<polyline class="guess" points="{corners}"/>',
        f'<polyline class="promise" points="{promised}"/>',
        *(
            f'<polyline class="other" points="{panel.points(_measured(audit))}"/>'
            for audit in panel.others
            if audit.verdict is not Verdict.TOO_WEAK  # a few trials draw a ragged line
        ),
        f'<polyline class="measured" points="{panel.points(_measured(best))}"/>',
        *certified,
        *_dots(panel),
        f'<rect class="frame{" alarm" if refuted else ""}" width="{_PLOT_X}" height="{_PLOT_Y}"/>',
        _text(_short(best.subject, 32), _TEXT, -70, "subject"),
        _text(_short(best.pair, 44), _TEXT, -52),
        _text(f"{best.relation}, promised ε = {best.epsilon:g} at δ = {best.delta:g}", _TEXT, -34),
        _text(
            f"certified ε ≥ {bound_in_words(best)}: {best.verdict}",
            _TEXT,
            -16,
            "alarm" if refuted else "found",
        ),
    ]
    if named[0]:
        lines.append(
            f'<text class="axis" transform="translate(-48 {_PLOT_Y / 2}) rotate(-90)" '
            'text-anchor="middle">rightly caught</text>'
        )
    if named[1]:
        lines.append(_text("wrongly accused", _PLOT_X / 2, _PLOT_Y + 38, "axis", "middle"))
    return lines


def _dots(panel: _Panel) -> list[str]:
    """Marks on the measured line, some way apart, which tell it from the others in grey."""
    lines, last = [], (-99.0, -99.0)
    for fpr, tpr in _measured(panel.best):
        at = panel.x(fpr), panel.y(tpr)
        if math.dist(at, last) >= 22:
            lines.append(f'<circle class="dot" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3"/>')
            last = at
    return lines


def _grid(panel: _Panel) -> list[str]:
    lines = []
    for k in range(panel.decades + 1):
        rate = 10.0 ** (k - panel.decades)
        x, y, words = panel.x(rate), panel.y(rate), f"{100 * rate:g} %"
        lines += [
            f'<line class="grid" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{_PLOT_Y}"/>',
            f'<line class="grid" x1="0" y1="{y:.1f}" x2="{_PLOT_X}" y2="{y:.1f}"/>',
            _text(words, x, _PLOT_Y + 18, "", "middle"),
            _text(words, -6, y + 4, "", "end"),
        ]
    return lines


def _legend(columns: int, *, several: bool) -> tuple[list[str], int]:
    """What each line is, in as many columns as the panels; and how many lines that takes."""
    entries = [
        ("promise", "promised: no attacker gets above"),
        ("measured", "measured: the strongest attack"),
        ("certified", "certified: the truth reaches it (dot: how)"),
        ("guess", "guessing"),
    ]
    if several:
        entries.insert(2, ("other", "measured: other attacks"))
    lines = []
    for k, (name, words) in enumerate(entries):
        x = _MARGIN + 8 + (k % columns) * _CELL_X
        y = 56.0 + _LINE * (k // columns)
        lines.append(f'<polyline class="{name}" points="{x},{y} {x + 36},{y}"/>')
        if name == "measured":
            lines.append(f'<circle class="dot" cx="{x + 18}" cy="{y}" r="3"/>')
        if name == "promise":
            lines.append(f'<rect class="allowed" x="{x}" y="{y}" width="36" height="9"/>')
        lines.append(_text(words, x + 44, y + 4))
    return lines, -(-len(entries) // columns)


def _described(panels: Sequence[_Panel]) -> str:
    """The picture in words."""
    words = [
        "Along: share of people wrongly accused. Up: share rightly caught. Both axes grow by "
        "factors of ten. A solid line with a tint below it is the promise, which no attacker may "
        "get above; a line with dots is what was measured; a line of dashes and dots is certified: "
        "the true trade-off reaches it somewhere; a dashed diagonal is guessing."
    ]
    for panel in panels:
        best = panel.best
        caught = max([tpr for fpr, tpr in _measured(best) if fpr <= 0.01], default=0.0)
        allowed = approximate_bound(best.epsilon, best.delta, 0.01)
        words.append(
            f"{shown(best.subject)}, {best.relation}, on {shown(best.pair)}: {best.verdict}; "
            f"promised ε = {best.epsilon:g} at δ = {best.delta:g}, certified ε ≥ "
            f"{bound_in_words(best)}. Wrongly accusing at most 1 %, the attacker caught "
            f"{100 * caught:.2g} %; the promise allows {100 * allowed:.3g} %."
        )
    return " ".join(words)


def _text(words: str, x: float, y: float, name: str = "", anchor: str = "start") -> str:
    of = f' class="{name}"' if name else ""
    return f'<text{of} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _short(words: str, most: int) -> str:
    clean = shown(words)
    return clean if len(clean) <= most else f"{clean[: most - 1].rstrip()}…"
