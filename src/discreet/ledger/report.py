"""A report on a data set of a ledger: what was spent over time, as text and as an HTML page."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from discreet.ledger import display
from discreet.ledger.balance import Balance
from discreet.ledger.costs import CostTotals
from discreet.page import document

NEARLY = 0.8
"""Share of the limit from which the report asks to plan what is left."""

_WIDTH = 640.0  # of the figure, with space for labels
_HEIGHT = 280.0
_LEFT = 48.0
_RIGHT = 18.0
_TOP = 18.0
_BOTTOM = 44.0
_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #555; --paper: #fff; --line: #d0d0d0;
  --spent: #0060a8; --area: #0060a822; --limit: #a30000; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --soft: #b4b4b4; --paper: #161819;
  --line: #3f4447; --spent: #6cc0f5; --area: #6cc0f52e; --limit: #ff9c9c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 52rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .5rem 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); }
.lead { font-size: 1.15rem; }
.care { border-left: 4px solid var(--limit); padding-left: .8rem; }
figure { margin: 1.2rem 0; } svg { display: block; width: 100%; height: auto; }
svg text { font: 13px system-ui, sans-serif; fill: var(--soft); }
.grid { stroke: var(--line); } .area { fill: var(--area); }
.spent { fill: none; stroke: var(--spent); stroke-width: 2.5; }
.dot { fill: var(--spent); }
.limit { stroke: var(--limit); stroke-width: 2; stroke-dasharray: 7 5; }
figcaption { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } td { vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
"""


@dataclass(frozen=True)
class Step:
    """The ε of all releases at the limit's δ after an event; ``entry`` is the release's number."""

    when: str
    entry: int
    spent: float


def timeline(dataset: Balance) -> list[Step]:
    """Return what was spent after each release, and after each that was returned; oldest first.

    In a data set with blocks it is the block that has spent most. The totals are those that the
    ledger wrote down with each event.
    """
    limits = dataset._limits()
    totals: dict[str, CostTotals] = {}
    found = []
    with dataset.book.begin() as transaction:
        bodies = [event.body for event in transaction.events(dataset.name)]
    for body in bodies:
        for block, stated in body.get("totals", {}).items():
            totals[block] = CostTotals.from_dict(stated)
        if body["kind"] in ("create", "reserve", "add", "return"):
            spent = max(map(limits.spent, totals.values()), default=0.0)
            found.append(Step(body["when"], body["seq"], spent))
    return found


def text(dataset: Balance) -> str:
    """Write the report as plain text: the balance, then one line per release."""
    lines = [f"{dataset!r}.", ""]
    after = {step.entry: step.spent for step in timeline(dataset)}
    for record in dataset.records():
        lines.append(
            f"{record['when'][:16].replace('T', ' ')}  ε = {record['epsilon']:<8.4g} "
            f"spent after it: {after[record['entry']]:<8.4g} {record['status']:<10} "
            f"{record['purpose'] or record['solver']}".rstrip()
        )
    return "\n".join(lines).rstrip() + "\n"


def html(dataset: Balance) -> str:
    """Write the report as one self-contained page: no script, nothing loaded from elsewhere."""
    known = dataset.summary()
    limit = dataset._limits().budget
    steps = timeline(dataset)
    spent = math.inf if known["spent"] is None else known["spent"]
    care = ""
    if spent >= NEARLY * limit.epsilon:
        share = min(spent / limit.epsilon, 1.0)
        care = (
            f'<p class="care">{share:.0%} of the limit is spent: plan what the rest is for. A '
            "limit is never raised; new people can be a data set of their own.</p>"
        )
    today = datetime.date.today().isoformat()
    body = f"""<main>
<h1>Privacy budget of {escape(known["dataset"])}</h1>
<p class="lead">{escape(_lead(known, spent, limit.epsilon))}</p>
<p>The limit is ε = {limit.epsilon:g} at δ = {limit.delta:g}, per {escape(known["unit"])}
({escape(known["relation"])}). It is the promise for the data set: all releases together keep it.
Report of {today}.</p>
{care}<h2>Over time</h2>
{_figure(steps, limit.epsilon)}
<h2>Releases</h2>
{_table(dataset, steps)}
<h2>What this report does not show</h2>
<p>Releases that nobody entered: tables, samples, or models that were fitted without this ledger.
Check with <code>discreet ledger verify</code> that no event was altered.</p>
</main>"""
    return document(f"Privacy budget of {known['dataset']}", body, style=_STYLE)


def _lead(known: dict[str, object], spent: float, limit: float) -> str:
    """Return the balance in two sentences."""
    entries = known["entries"]
    times = "1 release has" if entries == 1 else f"{entries:,} releases have"
    share = "more than all" if spent > limit else f"ε = {spent:.4g} ({spent / limit:.0%})"
    next_one = display.following(known)
    return f"{times} spent {share} of the budget. {next_one[:1].upper()}{next_one[1:]}."


def _table(dataset: Balance, steps: list[Step]) -> str:
    """Return the releases as a table, with what was spent after each."""
    after = {step.entry: step.spent for step in steps}
    rows = []
    for record in dataset.records():
        cells = (
            record["when"][:16].replace("T", " "), record["who"], record["purpose"] or "–",
            record["solver"], record["status"],
        )  # fmt: skip
        numbers = (f"{record['epsilon']:.4g}", f"{after[record['entry']]:.4g}")
        rows.append(
            "<tr>"
            + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells)
            + "".join(f'<td class="number">{number}</td>' for number in numbers)
            + "</tr>"
        )
    names = ("When (UTC)", "Who", "Purpose", "Method", "Status", "ε", "Spent after")
    heads = "".join(
        f'<th scope="col"{" class=number" if k > 4 else ""}>{name}</th>'
        for k, name in enumerate(names)
    )
    inner = "\n".join(rows) or f'<tr><td colspan="{len(names)}">None yet.</td></tr>'
    head = f"<thead><tr>{heads}</tr></thead>"
    label = 'tabindex="0" role="region" aria-label="Releases"'
    return f'<div class="wide" {label}><table>{head}<tbody>\n{inner}\n</tbody></table></div>'


def _figure(steps: list[Step], limit: float) -> str:
    """Draw what was spent over time as steps below the limit."""
    times = [datetime.datetime.fromisoformat(step.when).timestamp() for step in steps]
    finite = [min(step.spent, 2 * limit) for step in steps]
    span = max(times[-1] - times[0], 1.0)
    top = max(limit, *finite) * 1.08
    low = _HEIGHT - _BOTTOM

    def x(time: float) -> float:
        return round(_LEFT + (time - times[0]) / span * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(epsilon: float) -> float:
        return round(low - epsilon / top * (low - _TOP), 1)

    corners = list(_corners([*map(x, times), _WIDTH - _RIGHT], [*map(y, finite), y(finite[-1])]))
    path = " ".join(f"{across},{down}" for across, down in corners)
    dots = "".join(f'<circle class="dot" cx="{x(t)}" cy="{y(s)}" r="3.5"/>' for t, s in zip(
        times[1:], finite[1:], strict=True))  # fmt: skip
    ticks = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value)}" y2="{y(value)}"/>'
        f'<text x="{_LEFT - 8}" y="{y(value) + 4.5}" text-anchor="end">{value:g}</text>'
        for value in (0.0, limit / 2)
    )
    name = f"ε spent over time: {steps[-1].spent:.4g} of {limit:g}"
    right = _WIDTH - _RIGHT
    return f"""<figure><svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{name}">
{ticks}<line class="limit" x1="{_LEFT}" x2="{right}" y1="{y(limit)}" y2="{y(limit)}"/>
<text x="{_LEFT - 8}" y="{y(limit) + 4.5}" text-anchor="end">{limit:g}</text>
<text x="{right}" y="{y(limit) - 6}" text-anchor="end">limit</text>
<polygon class="area" points="{_LEFT},{low} {path} {right},{low}"/>
<polyline class="spent" points="{path}"/>{dots}
<text x="{_LEFT}" y="{low + 20}">{steps[0].when[:10]}</text>
<text x="{right}" y="{low + 20}" text-anchor="end">{steps[-1].when[:10]}</text>
<text x="{_LEFT}" y="{_HEIGHT - 6}">ε of all releases together, at the δ of the limit</text>
</svg><figcaption>Each dot is a release, or one that was returned because nothing was read. Fits of
equal size add less and less: together they cost less than the sum of their ε.</figcaption>
</figure>"""


def _corners(across: list[float], down: list[float]) -> Iterator[tuple[float, float]]:
    """Yield the corners of steps, each level held until the next point."""
    before = down[0]
    for place, level in zip(across, down, strict=True):
        yield place, before
        yield place, level
        before = level
