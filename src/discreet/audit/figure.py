"""Figure of audits: ROC curves of the attacks, below or above the promised bound."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.audit.result import HEADINGS, Audit, Verdict, bound_text, row, summary
from discreet.card.descriptions import shown
from discreet.files import replacing
from discreet.page import document, table
from discreet.validate import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.figures import Figure

FORMATS = (".svg", ".png", ".pdf", ".html", ".htm")  # endings of files that `save` writes
TITLE = "Privacy audit: promised and measured"

FEWEST_HITS = 50  # measured rates of fewer hits are not drawn: they vary too much

# Colours of Okabe and Ito, which colour-blind readers can distinguish; line styles differ as well.
BLUE = "#0072b2"  # the promised bound
ORANGE = "#d55e00"  # the certified bound
RED = "#a30000"  # a guarantee that was refuted
LEGEND: dict[str, dict[str, Any]] = {
    "promised bound: no attack may be above": {"color": BLUE, "lw": 2.5},
    "measured: strongest attack": {"color": "black", "lw": 1.5, "marker": "o", "ms": 4, "mfc": "w"},
    "measured: other attacks": {"color": "0.6", "lw": 0.8},
    "bound for the certified ε": {"color": ORANGE, "lw": 2, "ls": "-."},
    "event that certifies it": {"color": ORANGE, "ls": "", "marker": "D", "ms": 7, "mec": "w"},
    "random guessing": {"color": "0.5", "lw": 1.2, "ls": ":"},
}
PROMISED, MEASURED, OTHER, CERTIFIED, EVENT, GUESSING = LEGEND

CAPTION = (
    "Each panel shows one guarantee. Horizontal axis: false-positive rate of an attacker who "
    "decides whether a row was used; vertical axis: its true-positive rate; both logarithmic. The "
    "blue curve bounds every attack under the promised ε and δ. The orange curve is the bound for "
    "the certified ε, which the true curve reaches. A guarantee is refuted if the orange curve is "
    "above the blue one."
)


def draw(audits: Sequence[Audit]) -> Figure:
    """Draw one panel per guarantee, in which the attack that certifies most has markers."""
    import matplotlib as mpl
    from matplotlib.lines import Line2D

    from discreet.figures import Figure

    panels = _panels(audits)
    columns = min(len(panels), 2 if len(panels) in (2, 4) else 3)
    lines = -(-len(panels) // columns)
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(max(3.8 * columns, 6.4), 3.8 * lines + 1.0), layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False).ravel()
        for at, attacks in zip(axes, panels, strict=False):
            _draw_panel(at, attacks, min(map(_lowest, audits)))
        for at in axes[len(panels) :]:
            at.remove()
        figure.suptitle(TITLE, fontsize=13, fontweight="bold")
        shown = [name for name in LEGEND if name != OTHER or any(len(p) > 1 for p in panels)]
        handles = [Line2D([], [], label=name, **LEGEND[name]) for name in shown]
        figure.legend(
            handles=handles, loc="outside lower center", ncols=min(columns + 1, 3), frameon=False
        )
    return figure


def inline_svg(figure: Figure, **settings: Any) -> str:
    """Return a figure as SVG, in which text stays text; the same figure has the same SVG."""
    import matplotlib as mpl

    stream = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "discreet"}):
        figure.savefig(stream, format="svg", metadata={"Date": None}, **settings)
    return stream.getvalue()[stream.getvalue().index("<svg") :]


def svg(audits: Sequence[Audit]) -> str:
    """Return the figure as an SVG document with a title and a description for screen readers."""
    attributes, rest = inline_svg(draw(audits)).split(">", 1)
    return (
        f'{attributes} role="img" aria-labelledby="audit-title audit-description">'
        f'<title id="audit-title">{escape(TITLE)}</title>'
        f'<desc id="audit-description">{escape(alt_text(audits))}</desc>{rest}'
    )


def page(audits: Sequence[Audit], *, title: str = "Audit") -> str:
    """Return the summary, the figure and the table as one HTML page without scripts or links."""
    rows = [list(map(shown, row(audit))) for audit in audits]
    body = f"""<main>
<h1>{escape(shown(title))}</h1>
<p>{escape(summary(audits))}</p>
<figure>
{svg(audits)}<figcaption>{escape(CAPTION)}</figcaption></figure>
{table(HEADINGS, rows)}
</main>"""
    style = files("discreet.audit").joinpath("figure.css").read_text("utf-8")
    return document(shown(title), body, style=style)


def save(audits: Sequence[Audit], path: Any, *, title: str = "Audit") -> None:
    """Write the figure (.svg, .png, .pdf) or the page (.html), by the ending of ``path``."""
    ending = str(path).lower().rpartition(".")[2]
    with replacing(path) as stream:
        if ending in ("html", "htm"):
            stream.write(page(audits, title=title))
        elif ending == "svg":
            stream.write(svg(audits))
        else:
            draw(audits).savefig(stream.buffer, format=ending, dpi=150)


def alt_text(audits: Sequence[Audit]) -> str:
    """Return the figure's content as text."""
    parts = [CAPTION]
    for best, *_ in _panels(audits):
        rates = _measured(best)
        caught = float(np.max(rates[1][rates[0] <= 0.01], initial=0.0))
        allowed = float(_bound(best.epsilon, best.delta, np.array([0.01]))[0])
        parts.append(
            f"{shown(best.subject)}, {best.relation}, {shown(best.pair)}: {best.verdict}; "
            f"promised ε = {best.epsilon:g} at δ = {best.delta:g}, certified ε ≥ "
            f"{bound_text(best)}. At a false-positive rate of at most 1 %, the true-positive rate "
            f"was {100 * caught:.2g} %; the guarantee allows {100 * allowed:.3g} %."
        )
    return " ".join(parts)


def _panels(audits: Sequence[Audit]) -> list[list[Audit]]:
    """Group audits by guarantee, in their order; within a group the highest bound comes first."""
    if not audits:
        raise ValueError("There are no audits to draw: pass at least one.")
    groups: dict[tuple[str, str, float, float], list[Audit]] = {}
    for audit in audits:
        key = (audit.subject, audit.relation, audit.epsilon, audit.delta)
        groups.setdefault(key, []).append(audit)
    return [sorted(group, key=lambda audit: -audit.epsilon_bound) for group in groups.values()]


def _draw_panel(at: Axes, attacks: Sequence[Audit], lowest: float) -> None:
    best, *others = attacks
    refuted = best.verdict is Verdict.REFUTED
    rates = np.geomspace(lowest, 1.0, 201)
    promised = _bound(best.epsilon, best.delta, rates)
    at.plot(rates, promised, **LEGEND[PROMISED])
    at.fill_between(rates, lowest, promised, color=BLUE, alpha=0.12, lw=0)
    at.plot(rates, rates, **LEGEND[GUESSING])
    for audit in others:
        if audit.verdict is not Verdict.TOO_WEAK:  # few trials give a ragged curve
            at.plot(*_measured(audit), **LEGEND[OTHER])
    at.plot(*_measured(best), markevery=0.1, **LEGEND[MEASURED])
    if best.epsilon_bound > 0:
        at.plot(rates, _bound(best.epsilon_bound, best.delta, rates), **LEGEND[CERTIFIED])
        if best.event is not None:
            at.plot([best.event.fpr], [best.event.tpr], **LEGEND[EVENT])
    at.set(xscale="log", yscale="log", xlim=(lowest, 1), ylim=(lowest, 1.15))
    at.set(xlabel="false-positive rate", ylabel="true-positive rate")
    for axis in (at.xaxis, at.yaxis):
        axis.set_major_formatter(lambda rate, _: f"{100 * rate:g} %")
    at.grid(color="0.88", lw=0.8)
    at.set_axisbelow(True)
    at.spines[:].set(color=RED if refuted else "0.6", lw=2.5 if refuted else 0.8)
    heading = (
        _title(best.pair, 46),
        f"{best.relation}, promised ε = {best.epsilon:g}, δ = {best.delta:g}",
        f"certified ε ≥ {bound_text(best)}: {best.verdict}",
    )
    color = RED if refuted else "0.2"
    at.set_title("\n".join(heading), loc="left", fontsize=8.5, color=color)
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    name = _title(best.subject, 30)
    at.annotate(name, (0, 1), (0, 43), **place, fontsize=9.5, fontweight="bold")


def _lowest(audit: Audit) -> float:
    """Return the lower end of the axes: below the rarest measured rate and e^-ε."""
    rates = _measured(audit)[0]
    rare = min([0.1, math.exp(-audit.epsilon) / 3, *rates[rates < 1]])
    return 10.0 ** -min(5, max(2, math.ceil(-math.log10(max(rare, 1e-9)) - 0.2)))


def _measured(audit: Audit) -> tuple[FloatArray, FloatArray]:
    """Return the ROC curve where its rates rest on enough hits."""
    fewest = FEWEST_HITS / (0.4 * audit.trials)  # 4 in 10 runs are counted on each table
    points = [
        (max(point.fpr, fewest), point.tpr)
        for point in audit.curve
        if point.tpr >= fewest and (point.fpr >= fewest or point.tpr >= 20 * fewest)
    ]
    fpr, tpr = np.array(points).reshape(-1, 2).T
    return fpr, tpr


def _bound(epsilon: float, delta: float, fpr: FloatArray) -> FloatArray:
    """Return the largest true-positive rates under (ε, δ)-DP."""
    with np.errstate(over="ignore"):
        gained = delta + np.exp(epsilon) * fpr
    allowed = np.minimum(gained, 1 - np.exp(-epsilon) * (1 - delta - fpr))
    return np.asarray(np.clip(allowed, fpr, 1.0))


def _title(text: str, most: int) -> str:
    return shown(text, most).replace("$", r"\$")  # a dollar sign would start a formula
