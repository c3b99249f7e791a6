"""The report of a benchmark as one HTML file that can be sent to anyone."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

import pandas as pd

from discreet.page import document
from discreet_bench.lines import honest, named
from discreet_bench.report.board import Answer, answer, board, difference
from discreet_bench.report.content import TITLES, content, ordered
from discreet_bench.report.facts import Origin, costs, origins, problems, promises
from discreet_bench.report.sections import (
    cost_table,
    definitions,
    problem_table,
    promise_list,
    reproduction,
    text,
    wins,
)

__all__ = ["report"]

_SCRIPTS = ("chart.js", "report.js", "leaderboard.js")
_SECTIONS = {
    "leaderboard": "Who is best where",
    "curves": "Curves",
    "privacy": "What each method promises",
    "cost": "Time and memory",
    "problems": "Refusals and failures",
    "reproduce": "How to get these numbers",
}


def report(runs: pd.DataFrame, *, title: str, commands: Mapping[str, str]) -> str:
    """Runs as one HTML page: an answer, a leaderboard, curves, promises, cost and origin.

    Parameters
    ----------
    runs : DataFrame
        Runs as `discreet_bench.runs.read` gives them; at least one.
    title : str
        Heading of the page.
    commands : mapping
        For each experiment the command that makes its runs again.

    Returns
    -------
    str
        The page. It loads nothing from anywhere, and all that stands in the runs (names, problems,
        guarantees) is shown as text, whatever characters it holds. It holds means, deviations and
        counts, not the runs themselves.
    """
    if runs.empty:
        raise ValueError("there are no runs to report: run an experiment first.")
    runs = named(runs).reset_index(drop=True)
    rows = board(runs)
    order = ordered(runs["line"])
    answers, told = answer(rows), origins(runs)
    parts = [
        '<a class="skip" href="#leaderboard">Skip to the results</a>',
        _opening(title, runs, answers, told),
        _navigation(),
        "<main>",
        _section("leaderboard", _leaderboard(rows, answers, _NOTHING[_private(runs)])),
        _section("curves", _CURVES),
        _section("privacy", _PROMISES + promise_list(promises(runs, order))),
        _section("cost", cost_table(costs(runs), order)),
        _section("problems", problem_table(problems(runs))),
        _section("reproduce", reproduction(told, commands)),
        "</main>",
        "<footer><p>Written by discreet's benchmark. This page loads nothing from elsewhere."
        "</p></footer>",
        f'<script type="application/json" id="data">{_json(content(runs, rows))}</script>',
    ]
    here = files("discreet_bench.report")
    script = "\n".join(here.joinpath(name).read_text("utf-8") for name in _SCRIPTS)
    style = here.joinpath("report.css").read_text("utf-8")
    return document(title, "\n".join(parts), style=style, script=script)


def _json(data: object) -> str:
    """JSON that cannot end the script element that it stands in, nor open a comment."""
    packed = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return packed.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _section(name: str, inside: str) -> str:
    return (
        f'<section id="{name}" aria-labelledby="{name}-heading">'
        f'<h2 id="{name}-heading">{_SECTIONS[name]}</h2>\n{inside}\n</section>'
    )


def _navigation() -> str:
    links = (f'<li><a href="#{name}">{words}</a></li>' for name, words in _SECTIONS.items())
    return f'<nav aria-label="Parts of this page"><ul>{"".join(links)}</ul></nav>'


def _opening(
    title: str, runs: pd.DataFrame, answers: Sequence[Answer], told: Sequence[Origin]
) -> str:
    if answers:
        words = " ".join(
            (f"By {TITLES[one.measure]}: " if len(answers) > 1 else "") + one.in_words()
            for one in answers
        )
    else:
        words = f"{_NOTHING[_private(runs)]}, so there is nothing to compare."
    days = sorted(day for origin in told for day in origin.days if day)
    failed = int((runs["problem"] != "").sum())
    facts = {
        "runs": f"{len(runs):,} ({failed:,} without a result) of "
        f"{runs['method'].nunique()} methods on {runs['data'].nunique()} data sets",
        "date": " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "not recorded",
        "machine": " | ".join(dict.fromkeys(m for origin in told for m in origin.machines)),
        "versions": " | ".join(dict.fromkeys(v for origin in told for v in origin.versions)),
    }
    return "\n".join(
        [
            "<header>",
            f"<h1>{text(title)}</h1>",
            f'<p class="lead">{text(words, 3000)}</p>',
            *(_tiles(one) for one in answers[:1] if one.compared),
            definitions(facts),
            "</header>",
        ]
    )


def _tiles(one: Answer) -> str:
    tiles = [
        (f"{one.first} of {one.compared}", "comparisons in which discreet's default is the best"),
        (f"{one.clear}", "of these leads are significant"),
    ]
    for value, words in (
        (one.lead, "median lead over the runner-up, where it is the best"),
        (one.behind, "median distance to the best, where it is not"),
        (one.price, "median distance to the model without privacy"),
    ):
        if math.isfinite(value):
            size, unit = difference(value, one.measure).split(" ", 1)
            tiles.append((size, f"{unit}: {words}"))
    items = (f"<li><b>{escape(size)}</b><span>{escape(words)}</span></li>" for size, words in tiles)
    return f'<ul class="tiles">{"".join(items)}</ul>'


_NOTHING = {
    False: "No private method has a result",
    True: "These runs show how methods go on their way, or sweeps of settings, not who wins",
}
"""Why there is no leaderboard, by whether a private method has a result."""


def _private(runs: pd.DataFrame) -> bool:
    """Whether a private method has a result."""
    return bool(((runs["problem"] == "") & runs["line"].map(honest).astype(bool)).any())


def _leaderboard(rows: pd.DataFrame, answers: Sequence[Answer], nothing: str) -> str:
    if rows.empty:
        return f"<p>{nothing}.</p>"
    measure = answers[0].measure
    return (
        f"<h3>How often each is the best private method, by {TITLES[measure]}</h3>"
        + wins(rows[(rows["measure"] == measure) & rows["runner_up"].notna()])
        + _BOARD
    )


def _select(name: str, words: str, *, optional: bool = False) -> str:
    more = ' data-optional="yes"' if optional else ""
    return f'<label>{words}<select id="{name}"{more}></select></label>'


_NO_SCRIPT = "<noscript><p>This part needs a script, which is switched off here.</p></noscript>"

_BOARD = f"""<h3>Each comparison</h3>
<p>Only what is private from end to end competes: methods that were tuned with hindsight, released
code that breaks its promise, and other libraries whose claims nobody recomputed do not. A lead is
significant if a paired test over the splits, corrected for all comparisons of the experiment,
leaves less than 5 % to chance.</p>
<div class="controls" role="group" aria-label="Filter">
{_select("board-measure", "measure")}
{_select("board-experiment", "experiment")}
{_select("board-data", "data set")}
{_select("board-relation", "neighbours")}
<span id="board-count" class="soft" role="status"></span>
</div>
<div id="board" class="wide" tabindex="0" role="region" aria-label="Leaderboard">
{_NO_SCRIPT}</div>"""

_CURVES = f"""<div class="controls" role="group" aria-label="What to draw">
{_select("experiment", "experiment")}
{_select("data-set", "data set")}
{_select("loss", "loss", optional=True)}
{_select("relation", "neighbours")}
{_select("facet", "at", optional=True)}
{_select("measure", "measure")}
</div>
<p id="question" class="soft"></p>
<div class="controls">
<div class="buttons" role="group" aria-label="Scales">
<button type="button" id="log-x" aria-pressed="true">log scale along</button>
<button type="button" id="log-y" aria-pressed="false">log scale up</button>
</div>
<div class="buttons" role="group" aria-label="Methods shown">
<button type="button" id="only-private">only private</button>
<button type="button" id="all">all</button>
<button type="button" id="none">none</button>
</div>
</div>
<div class="with-legend">
<div>
<div id="chart" tabindex="0" role="group" aria-label="Chart" aria-describedby="chart-help">
<div id="chart-picture">{_NO_SCRIPT}</div>
<div id="tip" role="status" aria-live="polite" hidden></div>
</div>
<p id="chart-help" class="soft">Point at or tap a mark for its numbers; on the keyboard, arrow keys
left and right go along a line, up and down between lines. Filled marks are private
from end to end, hollow ones are not. Bands are 95 % intervals of the mean.
<span id="stars" hidden>Stars are numbers as published.</span> <span id="lost"></span></p>
</div>
<div id="legend" role="group" aria-label="Methods: switch lines on and off"></div>
</div>
<details id="notes" hidden><summary>What differs from the source</summary><ul></ul></details>
<details><summary>The same numbers as a table</summary>
<div id="numbers" class="wide" tabindex="0" role="region" aria-label="Numbers of the chart"></div>
</details>"""

_PROMISES = """<p>What was allowed, what was spent, and what an independent accountant makes of it.
Click on a method to read its guarantee.</p>
"""
