"""The parts of the page that need no script: privacy, cost, problems, how to do it again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import pandas as pd

from discreet.accounting.recompute import TOLERANCE
from discreet.card import listed, shown
from discreet_bench.lines import title_of
from discreet_bench.report.facts import Cost, Origin, Problem, Promise
from discreet_bench.runs import RELATIONS, VARIANTS

__all__ = ["cost_table", "problem_table", "promise_list", "reproduction", "text"]

_TAGS = {
    "private": "private",
    "hindsight": "runs are private, choosing among them was not",
    "released": "not private as released",
    "rival": "claim of that library, not recomputed",
    "baseline": "no privacy",
}
_MOST_GUARANTEES = 2
_MOST_PROBLEMS = 200


def text(words: object, most: int = 300) -> str:
    """Text from elsewhere, safe in a page."""
    return escape(shown(words, most))


def number(value: float, digits: int = 4) -> str:
    """A number as it is shown; a dash for none."""
    return f"{value:,.{digits}g}" if math.isfinite(value) else "–"


def promise_list(promises: Sequence[Promise]) -> str:
    """An entry for each line, closed until it is clicked on."""
    return "\n".join(_promise(promise) for promise in promises)


def _promise(promise: Promise) -> str:
    short = promise.kind in ("private", "hindsight") and bool(promise.spent["short"].any())
    words = _TAGS[promise.kind]
    if promise.kind == "private":
        known = promise.spent["epsilon_recomputed"].notna()
        words += ", recomputed" if known.all() else ", not all of it recomputed"
    if promise.kind == "released":
        words += _worst(promise)
    tags = [f'<span class="tag {promise.kind}">{words}</span>']
    if short:
        tags.append('<span class="tag short">spent more than allowed</span>')
    parts = [
        f"<details><summary><b>{text(promise.title)}</b> {' '.join(tags)}</summary>",
        f"<p>{escape(_kind_in_words(promise))}</p>",
    ]
    if promise.kind == "released":
        parts += [f'<p class="warning">{escape(line)}</p>' for line in _true_epsilons(promise)]
    if promise.kind != "baseline":
        parts.append(_spent(promise))
    few = promise.guarantees[:_MOST_GUARANTEES]
    if few:
        parts.append("<p>The guarantee in words" + (", for example:" if len(few) > 1 else ":"))
        parts.append("</p><ul>")
        parts += [f"<li>{text(words, 4000)}</li>" for words in few]
        parts.append("</ul>")
        rest = len(promise.guarantees) - len(few)
        if rest:
            parts.append(f'<p class="soft">{rest:,} more like these, with other numbers.</p>')
    return "\n".join([*parts, "</details>"])


def _kind_in_words(promise: Promise) -> str:
    tuning = {
        "default": "nothing was tuned",
        "grid": "the best of a grid of settings, found with the test rows, which is not private",
        "selected": "tuned privately, within the budget",
    }.get(promise.tuning, promise.tuning)
    calibration = promise.calibration or "the only one there is"
    variant = VARIANTS.get(promise.variant, promise.variant)
    return (
        f"Method: {shown(promise.method)}. Variant: {shown(promise.variant)} ({shown(variant)}). "
        f"Calibration of the noise: {shown(calibration)}. Tuning: {shown(tuning)}."
    )


def _worst(promise: Promise) -> str:
    """The true ε that is furthest from what was asked for."""
    ratios = promise.true_epsilons / promise.spent["epsilon"]
    if ratios.isna().all():
        return ": true ε unknown"
    row = promise.spent.loc[ratios.idxmax()]
    true = promise.true_epsilons[ratios.idxmax()]
    return f": true ε = {number(true)} where {number(row['epsilon'])} was asked for"


def _true_epsilons(promise: Promise) -> list[str]:
    rows = promise.spent.assign(true=promise.true_epsilons)
    lines = []
    for relation, of in rows.groupby("relation"):
        told = [
            f"{number(epsilon)} (asked for: {number(allowed)})"
            for allowed, epsilon in zip(of["epsilon"], of["true"], strict=True)
            if math.isfinite(epsilon)
        ]
        found = ", ".join(told) or "unknown"
        words = RELATIONS.get(relation, relation)
        lines.append(f"Not private as released: true ε = {found}; neighbours: {words}.")
    return lines


def _spent(promise: Promise) -> str:
    claimed = "claimed" if promise.kind == "rival" else "spent"
    heads = ["neighbours", "ε allowed", f"ε {claimed}", f"δ {claimed}", "ε recomputed"]
    rows = []
    for row in promise.spent.itertuples():
        recomputed = number(row.epsilon_recomputed)
        if not math.isfinite(row.epsilon_recomputed):
            recomputed = "not recomputed"
        if row.short:
            recomputed += " (more than allowed)"
        rows.append(
            [
                RELATIONS.get(row.relation, row.relation),
                number(row.epsilon),
                number(row.epsilon_spent),
                number(row.delta_spent, 2),
                recomputed,
            ]
        )
    caption = (
        "Largest values over all runs. ε is recomputed by an independent accountant, which rounds "
        f"upwards: by up to {100 * TOLERANCE:g} % more than allowed is taken for rounding."
    )
    return table(heads, rows, caption=caption, numeric=range(1, 5), label=promise.title)


def cost_table(costs: Mapping[tuple[str, str], Cost], order: Sequence[str]) -> str:
    """Medians of seconds and memory, methods down, data sets across."""
    data = sorted({name for _, name in costs})
    lines = [line for line in order if any((line, name) in costs for name in data)]
    seconds = [cost.seconds for cost in costs.values() if cost.seconds > 0]
    low, high = (min(seconds), max(seconds)) if seconds else (1.0, 1.0)
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in data)
    rows = []
    for line in lines:
        cells = "".join(_cost(costs.get((line, name)), low, high) for name in data)
        rows.append(f'<tr><th scope="row">{text(title_of(line))}</th>{cells}</tr>')
    caption = (
        "Seconds of a fit and growth of memory at its peak, medians over all runs of the data set. "
        "Bars are seconds and grow with their logarithm."
    )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Cost of each method">'
        f"<table><caption><span>{caption}</span></caption>"
        f'<thead><tr><th scope="col">method</th>{head}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cost(cost: Cost | None, low: float, high: float) -> str:
    if cost is None or not math.isfinite(cost.seconds):
        return '<td class="cost">–</td>'
    share = 1.0
    if high > low:
        share = math.log(max(cost.seconds, low) / low * 1.3) / math.log(high / low * 1.3)
    memory = f"{number(cost.peak_mb, 3)} MiB" if math.isfinite(cost.peak_mb) else ""
    return (
        f'<td class="cost">{number(cost.seconds, 3)} s'
        f'<span class="bar" style="width: {6.5 * share:.1f}rem"></span>'
        f'<span class="soft">{memory}</span></td>'
    )


def problem_table(problems: Sequence[Problem]) -> str:
    """Who refused or failed, where and why."""
    if not problems:
        return "<p>Every run has a result.</p>"
    rows = [
        [
            problem.title,
            shown(problem.words, 600),
            f"{problem.runs:,}",
            listed(problem.data),
            listed(problem.losses),
            listed(RELATIONS.get(name, name) for name in problem.relations),
            listed(f"{epsilon:g}" for epsilon in problem.epsilons),
        ]
        for problem in problems[:_MOST_PROBLEMS]
    ]
    heads = ["method", "why", "runs", "data", "loss", "neighbours", "ε"]
    caption = "Refusals are answers too: a method that cannot keep its promise should say so."
    if len(problems) > len(rows):
        caption += f" The first {len(rows)} of {len(problems):,} are shown."
    return table(heads, rows, caption=caption, numeric=[2], label="Refusals and failures")


def reproduction(origins: Sequence[Origin], commands: Mapping[str, str]) -> str:
    """For each experiment its command, seeds, versions and machine."""
    parts = []
    for origin in origins:
        command = commands.get(origin.experiment, "")
        parts.append(f"<h3>{text(origin.experiment)}</h3>")
        if command:
            parts.append(
                f'<pre tabindex="0" aria-label="Command"><code>{escape(command)}</code></pre>'
            )
        facts = {
            "runs": f"{origin.runs:,} in {origin.repeats} repeats",
            "seeds": listed(origin.seeds, 12) or "not recorded",
            "side by side": listed(origin.jobs) or "not recorded",
            "days (UTC)": " to ".join(dict.fromkeys(day for day in origin.days if day)),
            "versions": " | ".join(origin.versions),
            "machine": " | ".join(origin.machines),
        }
        parts.append(definitions(facts))
    return "\n".join(parts)


def definitions(facts: Mapping[str, str]) -> str:
    """Names with what they are, those that are empty left out."""
    items = (
        f"<dt>{escape(name)}</dt><dd>{text(told, 900)}</dd>" for name, told in facts.items() if told
    )
    return f'<dl class="short">{"".join(items)}</dl>'


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str,
    numeric: Sequence[int] | range,
    label: str,
) -> str:
    """A table in a box of its own, which scrolls if it must; all cells are text."""

    def of(column: int) -> str:
        return ' class="number"' if column in numeric else ' class="text"'

    head = "".join(f'<th scope="col"{of(j)}>{escape(cell)}</th>' for j, cell in enumerate(heads))
    body = []
    for first, *rest in rows:
        cells = "".join(f"<td{of(j)}>{escape(cell)}</td>" for j, cell in enumerate(rest, start=1))
        body.append(f'<tr><th scope="row">{text(first)}</th>{cells}</tr>')
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{text(label)}"><table>'
        f"<caption><span>{escape(caption)}</span></caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def wins(rows: pd.DataFrame) -> str:
    """How often each line is the best private one, as bars."""
    counts = rows["best"].value_counts()
    if counts.empty:
        return "<p>Nowhere did two private methods compete.</p>"
    items = (
        f'<li><span>{text(title_of(line))}</span><span><span class="bar" '
        f'style="width: {100 * count / counts.max():.0f}%"></span></span><span>{count}</span></li>'
        for line, count in counts.items()
    )
    return f'<ul class="bars">{"".join(items)}</ul>'
