"""The page docs/results.md, made from kept runs: claims, printed numbers, tables and times.

Every number has a 95 % interval over the repeats, and every verdict follows from intervals
(`discreet_bench.verdicts`). No sentence about agreement is written by hand.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType

import numpy as np
import pandas as pd

from discreet_bench import summary, verdicts
from discreet_bench.experiment import Experiment
from discreet_bench.experiments import EXPERIMENTS
from discreet_bench.lines import honest, order_of, title_of
from discreet_bench.published import PUBLISHED
from discreet_bench.runs import RELATIONS, SHARES, number_text, title_of_column
from discreet_bench.significance import interval
from discreet_bench.statistics import best_settings, final, with_parameter

__all__ = [
    "again_table",
    "claims_table",
    "experiment_tables",
    "numbers_table",
    "page",
    "protocol_table",
    "rates_table",
    "retuned_table",
    "tally_table",
]

OPENING = """# Results

Results of the benchmark on the data of the papers, made by one command from the runs in
[`bench/results/runs.parquet`](../bench/results/runs.parquet):

    python -m discreet_bench.summary bench/results --write docs/results.md

Nothing on this page is written by hand but these first lines.

- **Numbers** are means over repeats ± half of a 95 % Student t interval.
- **A number that a paper prints** *agrees* if it lies within the interval of the difference and
  this is at most 1.5 points of accuracy, or a quarter of the printed number, wide on either side;
  it *differs* if it lies outside; else nothing *can be decided*. The interval counts the spread of
  our repeats for the paper's as well, since papers print none.
- **A claim** that one method is better than another is *reproduced*, *contradicted*, or *cannot be
  decided*, by the 95 % interval of the paired difference over the splits, corrected for overlapping
  training sets.
- **A verdict that a second run does not confirm** cannot be decided; both verdicts are given. The
  second run has other splits and other noise ([which experiments](#a-second-run)).
- **Published constants** are the papers' own noise; *least noise* is what a sound accountant
  allows. Methods marked "not private" do not keep the ε of their row.

[benchmark.md](benchmark.md) describes the forms of an experiment and how runs are made. Figures and
tables of all experiments: `discreet bench report bench/results/runs.parquet -o out/report.html`.
"""

_PAPERS = {
    "Lee & Kifer 2018": "Lee & Kifer 2018: DP-AGD",
    "Iyengar et al. 2019": "Iyengar et al. 2019: AMP and its benchmark",
    "Zhang et al. 2017": "Zhang et al. 2017: output perturbation and RRPSGD",
    "Hardwarsing 2018": "Hardwarsing 2018: Laplace SGD",
    "this library": "All methods of this library",
}
"""Headings of the papers, by the beginning of an experiment's source."""

MOST_DECISIONS = 60
"""Comparisons of a claim that are listed one by one."""


def page(
    runs: pd.DataFrame,
    times: pd.DataFrame,
    figures: Sequence[str] = (),
    again: verdicts.Again = MappingProxyType({}),
) -> str:
    """Return the page of all kept runs.

    ``figures`` are names of SVG files beside them, ``again`` the verdicts of a second run.
    """
    kept = runs[runs["form"] == "paper"]
    parts = [OPENING, "## Claims of the papers\n", claims_table(kept, again)]
    parts += ["## Printed numbers\n", tally_table(kept, again)]
    for beginning, heading in _PAPERS.items():
        own = [one for one in EXPERIMENTS.values() if one.source.startswith(beginning)]
        parts += [f"## {heading}\n", *(_section(kept, one, figures, again) for one in own)]
    parts += [
        "## A second run\n",
        again_table(kept, again),
        "## Runs and time\n",
        "Times are those of one process on a machine that other programs used, too.\n",
        summary.times_table(times, runs) + "\n",
        "Every line has a short hash of all code and versions that decide a result.\n",
        summary.states(runs) + "\n",
        "### Guarantees\n",
        summary.guarantees(runs) + "\n",
        "### Rank of the default\n",
        "A comparison is a data set, loss, relation and ε on which the default and at least one",
        "other private method ran, in any experiment and form. p-values are those of a paired test",
        "over the splits, corrected for all comparisons.\n",
        summary.rank_text(summary.comparisons(runs)) + "\n",
        *_older(runs),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _older(runs: pd.DataFrame) -> Iterator[str]:
    """Say which experiments have lines of an older, smaller form."""
    old = [
        name
        for name in EXPERIMENTS
        if ((runs["experiment"] == name) & (runs["form"] != "paper")).any()
    ]
    if old:
        yield "### Lines of an older form\n"
        yield _wrapped(
            "These experiments have lines of an older form, of fewer rows, budgets and repeats, on "
            "data sets that have none of the paper form. They count for the rank of the default "
            "and in [which method when](which-method.md), and are not compared with papers: "
            f"{', '.join(f'`{name}`' for name in old)}."
        )


def claims_table(runs: pd.DataFrame, again: verdicts.Again) -> str:
    """Return all claims with their verdicts."""
    lines = ["| experiment | claim | verdict |", "|---|---|---|"]
    for experiment in EXPERIMENTS.values():
        found = verdicts.claims(runs, experiment)
        decisions = verdicts.settled(found, experiment.name, again)
        for claim in experiment.claims:
            own = [one for one in decisions if one.claim is claim]
            verdict = verdicts.sentence(own)
            lines.append(
                f"| [`{experiment.name}`](#{experiment.name}) | {claim.text} | {verdict} |"
            )
    return "\n".join(lines) + "\n"


def tally_table(runs: pd.DataFrame, again: verdicts.Again) -> str:
    """Return the counts of verdicts about printed numbers, by experiment and measure."""
    lines = [
        "| experiment | measure | numbers | agree | differ | cannot be decided | not run |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    columns = (verdicts.AGREES, verdicts.DIFFERS, verdicts.UNDECIDED)
    for name in EXPERIMENTS:
        printed = Counter(one.measure for one in PUBLISHED if one.experiment == name)
        found = verdicts.settled(verdicts.numbers(runs, name), name, again)
        for measure, count in printed.items():
            mine = [one for one in found if one.entry.measure == measure]
            title = title_of_column(measure)
            if any(one.verdict == verdicts.ELSEWHERE for one in mine):
                title += ", of another machine and not compared"
            counts = [sum(one.verdict == word for one in mine) for word in columns]
            ran = len({one.entry for one in mine})
            cells = [f"[`{name}`](#{name})", title, count, *counts, count - ran]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def again_table(runs: pd.DataFrame, again: verdicts.Again) -> str:
    """Return how many verdicts of each experiment a second run changes, and which."""
    table = verdicts.changes(runs, again)
    if table.empty:
        return "There is none yet.\n"
    table = table.assign(changed=table["first"] != table["second"])
    lines = ["| experiment | verdicts | changed |", "|---|---:|---:|"]
    for name, part in table.groupby("experiment", sort=False):
        lines.append(f"| `{name}` | {len(part)} | {int(part['changed'].sum())} |")
    share = 100 * float(table["changed"].mean())
    lines += [
        f"| all | {len(table)} | {int(table['changed'].sum())} ({share:.1f} %) |",
        "",
        "| experiment | what | first run | second run |",
        "|---|---|---|---|",
    ]
    for row in table[table["changed"]].itertuples():
        what = str(row.what).replace(" · None", "").replace(" · nan", "")
        lines.append(f"| `{row.experiment}` | {what} | {row.first} | {row.second} |")
    return "\n".join(lines) + "\n"


def _figures_of(name: str, figures: Sequence[str]) -> list[str]:
    """Return the figures of an experiment without those of variants."""
    longer = [other for other in EXPERIMENTS if other.startswith(f"{name}-")]
    return [
        file
        for file in figures
        if file.removesuffix(".svg") == name or file.startswith(f"{name}-")
        if not file.endswith("-variants.svg") and not file.startswith(tuple(longer))
    ]


def _section(
    runs: pd.DataFrame, experiment: Experiment, figures: Sequence[str], again: verdicts.Again
) -> str:
    """Return the section of one experiment."""
    mine = runs[runs["experiment"] == experiment.name]
    parts = [
        f"### {experiment.name}\n",
        _wrapped(f"**{experiment.title}** ({experiment.source}). {experiment.question}"),
    ]
    if mine.empty:
        parts.append(
            "Not run in the paper form yet:\n\n"
            f"    discreet bench run {experiment.name} --paper \\\n"
            "        --into bench/results/runs.parquet\n"
        )
        return "\n".join(parts)
    planned = dict.fromkeys(name for plan in experiment.paper for name in plan.data)
    there = set(mine["data"].str.split(" (", regex=False).str[0])
    missing = [name for name in planned if name not in there]
    if missing:
        parts.append(_wrapped(f"Without lines so far: {', '.join(missing)}."))
    parts.append(protocol_table(experiment))
    parts += [_wrapped(note, bullet=True) for note in experiment.notes]
    if experiment.notes:
        parts.append("")
    decisions = verdicts.settled(verdicts.claims(mine, experiment), experiment.name, again)
    for claim in experiment.claims:
        own = [one for one in decisions if one.claim is claim]
        parts.append(_wrapped(f"**Claim:** {claim.text} **Verdict: {verdicts.sentence(own)}.**"))
        parts.append(_decisions_table(own))
    printed = numbers_table(mine, experiment.name, again)
    if printed:
        parts += ["**Printed numbers.**\n", printed]
    rates = rates_table(mine, experiment)
    if rates:
        parts.append(rates)
    by_training = retuned_table(mine, experiment.name)
    if by_training:
        parts.append(by_training)
    parts += list(experiment_tables(mine, experiment))
    parts += [
        f"![{experiment.title}](../bench/results/{file})\n"
        for file in _figures_of(experiment.name, figures)
    ]
    return "\n".join(parts)


def protocol_table(experiment: Experiment) -> str:
    """Return where the experiment departs from the paper, and what further lines have."""
    differing = [item for item in experiment.protocol if item.differs]
    same = [item.name for item in experiment.protocol if not item.differs]
    parts = []
    if same:
        parts.append(_wrapped(f"As in the paper: {', '.join(same)}."))
    if differing:
        parts += ["| difference | paper | here | why |", "|---|---|---|---|"]
        parts += [f"| {i.name} | {i.paper} | {i.here} | {i.why} |" for i in differing]
        parts.append("")
    further = [f"*{item.name}*: {item.also}" for item in experiment.protocol if item.also]
    if further:
        parts.append(_wrapped(f"Further lines: {'; '.join(further)}."))
    return "\n".join(parts)


def _decisions_table(decisions: Sequence[verdicts.Decision]) -> str:
    """Return the comparisons of a claim, unless there are too many."""
    if not 0 < len(decisions) <= MOST_DECISIONS:
        return ""
    several = len({one.alpha for one in decisions}) > 1
    lines = [
        "| data | ε | compared with | lead | repeats | verdict |",
        "|---|---:|---|---:|---:|---|",
    ]
    for one in decisions:
        measure = one.claim.measure
        half = (one.high - one.low) / 2
        data = f"{one.data}, penalty {one.alpha:g}" if several else one.data
        epsilon = "" if math.isnan(one.epsilon) else f"{one.epsilon:.3g}"
        lead = _with_error(one.difference, half, measure, signed=True)
        verdict = f"{one.verdict} ({one.changed})" if one.changed else one.verdict
        lines.append(f"| {data} | {epsilon} | {one.than} | {lead} | {one.repeats} | {verdict} |")
    return "\n".join(lines) + "\n"


def numbers_table(runs: pd.DataFrame, experiment: str, again: verdicts.Again) -> str:
    """Return the numbers that a paper prints beside ours, with verdicts; empty if it has none."""
    found = verdicts.settled(verdicts.numbers(runs, experiment), experiment, again)
    if not found:
        return ""
    tally = Counter(one.verdict for one in found)
    times = tally[verdicts.ELSEWHERE]
    text = (
        f"Of {len(found) - times} numbers, {tally[verdicts.AGREES]} agree, "
        f"{tally[verdicts.DIFFERS]} differ, and {tally[verdicts.UNDECIDED]} cannot be decided."
    )
    if times:
        text += f" {times} are times of another machine, which are not compared."
    text = _wrapped(text)
    lines = [
        "| data | what | ε | paper | ours | repeats | verdict | least noise |",
        "|---|---|---:|---:|---:|---:|---|---:|",
    ]
    tight = _tight(runs)
    for one in found:
        entry = one.entry
        what = verdicts.method_title(entry)
        if entry.measure != "accuracy":
            what += f", {title_of_column(entry.measure).lower()}"
        if entry.at is not None:
            what += f", update {entry.at:.0f}"
        if one.line.split("|")[3] == "grid":
            what += " (best of the grid)"
        data = one.data if entry.alpha is None else f"{one.data}, penalty {entry.alpha:g}"
        cells = [
            data,
            what,
            "" if entry.epsilon is None else f"{entry.epsilon:g}",
            _number(entry.value, entry.measure),
            _with_error(one.mean, one.half, entry.measure),
            str(one.repeats),
            _verdict_text(one),
            _tight_cell(tight, one),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([text, *lines]) + "\n"


def rates_table(runs: pd.DataFrame, experiment: Experiment) -> str:
    """Return the rates of theorems beside measured ones; empty if there are none."""
    found = verdicts.slopes(runs, experiment)
    if not found:
        return ""
    lines = ["| rate | theorem | measured | points | verdict |", "|---|---:|---:|---:|---|"]
    for one in found:
        verdict = one.verdict
        if verdict == verdicts.DIFFERS:
            verdict = f"differs by {one.power - one.rate.power:+.2f} ± {one.half:.2f}"
        lines.append(
            f"| {one.rate.text} | {one.rate.power:.2f} | {one.power:.2f} ± {one.half:.2f} | "
            f"{one.points} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def retuned_table(runs: pd.DataFrame, experiment: str) -> str:
    """Return what it costs to choose settings by training rows; empty if no grid was run."""
    found = verdicts.retuned(runs, experiment)
    if not found:
        return ""
    lines = [
        "**Settings chosen by training rows** instead of test rows: change of test accuracy.",
        "",
        "| data | method | change | repeats |",
        "|---|---|---:|---:|",
    ]
    for one in found:
        change = _with_error(one.difference, (one.high - one.low) / 2, "accuracy", signed=True)
        lines.append(f"| {one.data} | {title_of(one.line)} | {change} | {one.repeats} |")
    return "\n".join(lines) + "\n"


def _verdict_text(one: verdicts.Comparison) -> str:
    measure = one.entry.measure
    if one.verdict in (verdicts.AGREES, verdicts.ELSEWHERE):
        return one.verdict
    apart = _with_error(one.difference, one.error, measure, signed=True)
    if one.verdict == verdicts.DIFFERS:
        return f"differs by {apart}"
    if one.changed:
        return f"{verdicts.UNDECIDED} ({apart}; {one.changed})"
    return f"{verdicts.UNDECIDED} ({apart})"


def _tight(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with the least noise and defaults."""
    return runs[
        (runs["calibration"] == "tight")
        & (runs["tuning"] == "default")
        & (runs["difference"] == "")
        & (runs["problem"] == "")
    ]


def _tight_cell(tight: pd.DataFrame, one: verdicts.Comparison) -> str:
    """Return the mean of the method of a printed number with the least noise."""
    entry = one.entry
    if entry.epsilon is None or entry.at is not None:
        return ""
    method = "sgd" if entry.method in ("sgd-adv", "sgd-ma") else entry.method
    rows = tight[
        (tight["method"] == method)
        & (tight["data"] == one.data)
        & np.isclose(tight["epsilon"], entry.epsilon)
    ]
    if entry.alpha is not None:
        rows = rows[np.isclose(rows["alpha"], entry.alpha)]
    return _cell(rows[entry.measure], entry.measure)


def experiment_tables(runs: pd.DataFrame, experiment: Experiment) -> Iterator[str]:
    """Yield a table per data set and problem: lines as rows, budgets as columns."""
    measure = experiment.panels.measures[0]
    x = experiment.panels.x
    shown = final(best_settings(runs, measure))
    extra = [
        name
        for name in (*experiment.panels.lines, x)
        if name not in ("epsilon", "at", "alpha", "n", "d")
    ]
    for name in extra:
        shown = with_parameter(shown, name)
    shown = shown.assign(row=[_row_title(row, extra) for row in shown.to_dict("records")])
    shown = shown.assign(loss=shown["loss"].replace("huber-hinge", "hinge") if "hinge" in set(
        shown["loss"]) else shown["loss"])  # fmt: skip
    keys = ["data", "loss", "relation", "alpha"]
    for (data, loss, relation, alpha), part in shown.groupby(keys, sort=False, dropna=False):
        if part[measure].isna().all():
            continue
        caption = f"{data}: {title_of_column(measure).lower()}, {loss}"
        caption += f", {RELATIONS.get(str(relation), relation)}"
        if shown["alpha"].nunique() > 1:
            caption += f", penalty {alpha:g}"
        yield f"**{caption}**\n"
        yield _budgets_table(part, measure)


def _row_title(row: dict[str, object], extra: Iterable[str]) -> str:
    words = [title_of(str(row["line"]))]
    for name in extra:
        value = row.get(name)
        if value is not None and value == value:
            words.append(f"{title_of_column(name).lower()} {number_text(value)}")
    return ", ".join(words)


def _budgets_table(part: pd.DataFrame, measure: str) -> str:
    """Return a table with a row per line and a column per ε; the best private line is bold."""
    epsilons = sorted(part["epsilon"].unique())
    titles = set(zip(part["line"], part["row"], strict=True))
    order = sorted(titles, key=lambda pair: (order_of(pair[0]), _numbered(pair[1])))
    rows = list(dict.fromkeys(row for _, row in order))
    lines = [
        "| method | " + " | ".join(f"ε = {epsilon:.3g}" for epsilon in epsilons) + " | repeats |",
        "|---|" + "---:|" * (len(epsilons) + 1),
    ]
    means = part[part["line"].map(honest).astype(bool)].pivot_table(
        values=measure, index="row", columns="epsilon"
    )
    better = means.max() if measure in (*SHARES, "auc", "r2") else means.min()
    for row in rows:
        mine = part[part["row"] == row]
        cells = []
        for epsilon in epsilons:
            values = mine.loc[mine["epsilon"] == epsilon]
            text = _cell(values[measure], measure)
            if not text and len(values):
                text = "refused"
            best = row in means.index and means[epsilon].get(row) == better.get(epsilon)
            cells.append(f"**{text}**" if best and text else text or "–")
        counts = mine.groupby("epsilon")[measure].count()
        few, many = int(counts.min()), int(counts.max())
        repeats = f"{few}" if few == many else f"{few}–{many}"
        lines.append(f"| {row} | " + " | ".join(cells) + f" | {repeats} |")
    return "\n".join(lines) + "\n"


def _numbered(title: str) -> list[tuple[float, str]]:
    """Return a key that sorts titles by the numbers in them: 5 before 10."""
    parts = re.split(r"(\d[\d,.]*)", title)
    return [
        (float(part.strip(",.").replace(",", "")) if place % 2 else 0.0, part)
        for place, part in enumerate(parts)
    ]


def _cell(values: pd.Series, measure: str) -> str:
    """Return mean ± half width of repeats, or nothing."""
    found = values.dropna().to_numpy()
    if not len(found):
        return ""
    deviation = found.std(ddof=1) if len(found) > 1 else math.nan
    half = float(interval(np.array([deviation]), np.array([len(found)]))[0])
    return _with_error(float(found.mean()), half, measure)


def _with_error(mean: float, half: float, measure: str, *, signed: bool = False) -> str:
    """Return "mean ± half" in the digits of a measure."""
    sign = "+" if signed else ""
    if measure in SHARES:
        text = f"{100 * mean:{sign}.1f}"
        return text if math.isnan(half) else f"{text} ± {100 * half:.1f}"
    text = f"{mean:{sign}.3g}"
    return text if math.isnan(half) else f"{text} ± {half:.2g}"


def _wrapped(text: str, *, bullet: bool = False) -> str:
    """Return text in lines of at most 100 characters, with an empty line after a paragraph."""
    if bullet:
        return textwrap.fill(text, 100, initial_indent="- ", subsequent_indent="  ")
    return textwrap.fill(text, 100) + "\n"


def _number(value: float, measure: str) -> str:
    return f"{100 * value:.1f}" if measure in SHARES else f"{value:.4g}"
