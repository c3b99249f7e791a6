"""Summary of kept runs in Markdown: time, guarantees, the default's rank, and published numbers.

    python -m discreet_bench.summary bench/results --write docs/results.md

prints the tables of docs/results.md, or writes them between its markers. Text around them is
written by hand.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from discreet_bench.lines import METHODS, honest, named, order_of, title_of
from discreet_bench.promise import TOLERANCE
from discreet_bench.published import PUBLISHED, Published
from discreet_bench.runs import SHARES, read
from discreet_bench.solvers import ALIASES
from discreet_bench.statistics import best_settings, final, leaderboard, method_of

__all__ = [
    "comparisons",
    "guarantees",
    "main",
    "methods_table",
    "published_table",
    "rank_text",
    "states",
    "times_table",
]

COMPARED = ("auto-table", "amp-fig", "dpagd-fig2", "dpagd-fig3", "dpagd-fig4", "outpert-table3")
"""Experiments, or beginnings of their names, in which methods compete with the default."""

LEARNED = 0.02
"""Accuracy of the best private method above that of the most frequent class, where something can be
learned; below, the best of many methods is the best guess."""

MOST_BEHIND = 20
"""Comparisons that are listed in which the default is not the best."""


def comparisons(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a leaderboard of all problems, each once, however many experiments share it.

    Accuracy decides, R² for a real target. Problems are told apart by data set, loss, relation, ε,
    δ and penalty; the Huber hinge counts as the hinge where a paper replaces one by the other.
    p-values are corrected over all problems with the same measure.
    """
    runs = runs[runs["experiment"].str.startswith(COMPARED)]
    smoothed = runs["experiment"].isin(["dpagd-fig3", "dpagd-fig4"]) & runs["loss"].str.contains(
        "hinge"
    )
    runs = runs.assign(loss=runs["loss"].mask(smoothed, "hinge"), experiment="all")
    key = [
        "data", "loss", "alpha", "epsilon", "delta", "relation", "repeat", "method", "calibration",
        "variant", "tuning", "setting",
    ]  # fmt: skip
    runs = runs.drop_duplicates(key, keep="last", ignore_index=True)
    boards = []
    for measure, part in (("accuracy", runs["classes"] != 0), ("r2", runs["classes"] == 0)):
        if part.any():
            boards.append(leaderboard(runs[part], measure).assign(measure=measure))
    if not boards:
        return pd.DataFrame(columns=["auto_mean", "auto_margin"])
    board = pd.concat(boards, ignore_index=True)
    return board[board["auto_mean"].notna() & board["auto_margin"].notna()]


def rank_text(board: pd.DataFrame) -> str:
    """State how often the default is the best private method, and where it is not."""
    if board.empty:
        return "No comparison has both the default and another private method."
    first = board["best"].map(method_of) == "auto"
    behind = board[~first].sort_values("auto_margin")
    shares = board[board["measure"].isin(SHARES)]
    text = [
        f"The default is the best private method in {first.sum()} of {len(board)} comparisons "
        f"({first.mean():.1%}), and significantly worse than another in "
        f"{int(board['auto_significant'].sum())}.",
        f"Where accuracy is compared, its lead over the best other method is "
        f"{100 * shares['auto_margin'].median():.1f} points in the median.",
    ]
    learned = ~(board["best_mean"] < board["majority_mean"] + LEARNED)
    if not learned.all():
        text.append(
            f"In {learned.sum()} of them the best private method is at least {100 * LEARNED:g} "
            f"points above the most frequent class, and the default is the best in "
            f"{(first & learned).sum()} of these ({first[learned].mean():.1%})."
        )
    counts = first.groupby(board["epsilon"]).agg(["sum", "count"])
    by = [f"{won} of {all_} at {epsilon:g}" for epsilon, won, all_ in counts.itertuples()]
    text.append(f"By ε: {', '.join(by)}.")
    lines = [*_wrapped(" ".join(text)), ""]
    if behind.empty:
        return "\n".join(lines)
    lines += [
        "| data | loss | relation | ε | the default | the best | behind by | p (Holm) |",
        "|---|---|---|---:|---:|---|---:|---:|",
    ]
    for row in behind.head(MOST_BEHIND).to_dict("records"):
        scale = 100 if row["measure"] in SHARES else 1
        best = f"{title_of(row['best'])} {scale * row['best_mean']:.2f}"
        p = "–" if np.isnan(row["auto_p_value"]) else f"{row['auto_p_value']:.2g}"
        lines.append(
            f"| {row['data']} | {row['loss']} | {row['relation']} | {row['epsilon']:g} | "
            f"{scale * row['auto_mean']:.2f} | {best} | {-scale * row['auto_margin']:.2f} | {p} |"
        )
    if len(behind) > MOST_BEHIND:
        lines += ["", f"{len(behind) - MOST_BEHIND} more are closer."]
    return "\n".join(lines)


def guarantees(runs: pd.DataFrame) -> str:
    """Count private runs, those whose ε was recomputed, and runs that spent more than allowed."""
    done = runs[runs["problem"] == ""]
    private = done[done["variant"] == "private"]
    recomputed = private["epsilon_recomputed"].notna()
    kept = private["epsilon_recomputed"] <= (1 + TOLERANCE) * private["epsilon"]
    refused = runs["problem"].str.startswith(("refused", "NotSupported"))
    overspent = runs["problem"].str.startswith("spent too much")
    return "\n".join(
        _wrapped(
            f"Of {len(runs):,} lines, {len(private):,} are private. The ε of "
            f"{int(recomputed.sum()):,} of these was recomputed, and {int(kept.sum()):,} keep what "
            f"the objective allows. {int((done['variant'] == 'as released').sum()):,} lines have "
            f"published constants or public code that break the promise, and are marked; in "
            f"{int(refused.sum()):,} the library refused to run published constants. "
            f"{int(overspent.sum()):,} runs spent more than they were allowed."
        )
    )


def times_table(times: pd.DataFrame, runs: pd.DataFrame) -> str:
    """Return the time that each experiment took, with all its parts, and the lines that it has."""
    lines = [
        "| experiment | lines | runs made | seconds | processor seconds | left out |",
        "|---|---:|---:|---:|---:|---|",
    ]
    sums = ["made", "seconds", "processor_seconds"]
    for name, part in times.groupby("experiment", sort=False):
        numbers = [int((runs["experiment"] == name).sum()), *part[sums].sum()]
        missing = "; ".join(part["left_out"].drop_duplicates())
        lines.append(f"| {name} | " + " | ".join(f"{x:,}" for x in numbers) + f" | {missing} |")
    total = [int(runs["experiment"].isin(times["experiment"]).sum()), *times[sums].sum()]
    lines.append("| all | " + " | ".join(f"{value:,}" for value in total) + " | |")
    return "\n".join(lines)


def states(runs: pd.DataFrame) -> str:
    """Return a table of the states of the code that made the runs."""
    lines = [
        "| code | made on | lines | lines of the default | experiments |",
        "|---|---|---:|---:|---|",
    ]
    dates = runs["when"].str[:10]
    order = runs.assign(date=dates).groupby("code")["date"].max().sort_values(kind="stable")
    for code in order.index:
        part = runs[runs["code"] == code]
        days = " to ".join(dict.fromkeys([dates[part.index].min(), dates[part.index].max()]))
        own = int((part["method"] == "auto").sum())
        names = ", ".join(dict.fromkeys(part["experiment"]))
        lines.append(
            f"| {f'`{code}`' if code else 'not recorded'} | {days} | {len(part):,} | {own:,} | "
            f"{names} |"
        )
    return "\n".join(lines)


def published_table(runs: pd.DataFrame, experiment: str) -> str:
    """Return the numbers that a paper prints beside ours, at the same ε and penalty.

    Columns: the paper's number; ours with the paper's constants, with the least noise, and with
    the best setting of a coarse grid, in hindsight. A cell is empty where nothing was run.
    """
    mine = runs[runs["experiment"] == experiment]
    measures = list(dict.fromkeys(e.measure for e in PUBLISHED if e.experiment == experiment))
    lines = [
        "| data | ε | method | paper | published constants | tight | tuned with hindsight |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for measure in measures:
        if measure == "seconds" or mine.empty:
            continue
        shown = final(best_settings(mine, measure))
        for entry in (e for e in PUBLISHED if e.experiment == experiment):
            if entry.measure == measure and entry.at is None:
                lines += _compared(shown, entry)
    return "\n".join(lines)


def methods_table(
    runs: pd.DataFrame, experiment: str, relation: str, epsilons: Sequence[float] = ()
) -> str:
    """Return the accuracy of all lines on all data sets, the best private one in bold.

    Parameters
    ----------
    runs : DataFrame
        Runs, of which those of the experiment and the relation count; the Huber hinge counts as
        the hinge.
    experiment, relation
        As in the runs.
    epsilons : sequence of float
        Budgets to show; all if there are none.
    """
    mine = runs[(runs["experiment"] == experiment) & (runs["relation"] == relation)]
    if epsilons:
        mine = mine[np.isclose(mine["epsilon"].to_numpy()[:, None], list(epsilons)).any(axis=1)]
    if mine.empty:
        return "Not run."
    shown = best_settings(mine)
    shown = shown.assign(loss=shown["loss"].replace("huber-hinge", "hinge"))
    means = shown.pivot_table(
        values="accuracy", index="line", columns=["loss", "data", "epsilon"], sort=False
    )
    order = [list(dict.fromkeys(shown[name])) for name in ("loss", "data")]
    means = means[
        sorted(means.columns, key=lambda c: (order[1].index(c[1]), order[0].index(c[0]), c[2]))
    ]
    names = [data.split(" (")[0] for _, data, _ in means.columns]
    if means.columns.get_level_values("loss").nunique() > 1:
        losses = means.columns.get_level_values("loss")
        names = [f"{name}, {loss}" for name, loss in zip(names, losses, strict=True)]
    means = means.loc[sorted(means.index, key=order_of)]
    private = means[[honest(line) for line in means.index]].max()
    heads = [
        f"{epsilon:g}"
        if place and names[place - 1] == names[place]
        else f"{names[place]} {epsilon:g}"
        for place, (_, _, epsilon) in enumerate(means.columns)
    ]
    lines = ["| method | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for line, row in means.iterrows():
        cells = []
        for value, best in zip(row, private, strict=True):
            text = "–" if np.isnan(value) else f"{100 * value:.1f}"
            cells.append(f"**{text}**" if honest(str(line)) and value == best else text)
        lines.append(f"| {title_of(str(line))} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _compared(shown: pd.DataFrame, entry: Published) -> Iterator[str]:
    """Yield the line of one printed number for each data set of that name that was run.

    SGD with the tight calibration is one method, whichever paper's published noise it replaces.
    """
    one_sgd = (shown["method"] == "sgd") & (shown["calibration"] == "tight")
    rows = shown[
        (shown["data"].str.split(" (", regex=False).str[0] == entry.data)
        & (shown["loss"] == entry.loss)
        & ((shown["method"] == entry.method) | (one_sgd & (entry.method in ALIASES)))
    ]
    if entry.relation:
        rows = rows[rows["relation"] == entry.relation]
    if entry.epsilon is not None:
        rows = rows[np.isclose(rows["epsilon"], entry.epsilon)]
    if entry.alpha is not None:
        rows = rows[np.isclose(rows["alpha"], entry.alpha)]
    for data, part in rows.groupby("data", sort=False):
        grid, published = part["tuning"] == "grid", part["calibration"] == "published"
        default = part["tuning"] == "default"
        cells = [
            _mean(part[default & published], entry.measure),
            _mean(part[default & ~published], entry.measure),
            _mean(part[grid & ~published], entry.measure),
        ]
        name = data if entry.alpha is None else f"{data}, penalty {entry.alpha:g}"
        epsilon = "–" if entry.epsilon is None else f"{entry.epsilon:g}"
        paper = _number(entry.value, entry.measure)
        yield f"| {name} | {epsilon} | {METHODS[entry.method].title} | {paper} | " + (
            " | ".join(cells) + " |"
        )


def _mean(rows: pd.DataFrame, measure: str) -> str:
    values = rows[measure].dropna()
    if values.empty:
        refused = rows["problem"].ne("").any() if len(rows) else False
        return "refused" if refused else ""
    text = _number(values.mean(), measure)
    return f"{text} ‡" if (rows["variant"] == "as released").any() else text


def _number(value: float, measure: str) -> str:
    return f"{100 * value:.1f}" if measure in SHARES else f"{value:.3g}"


def _wrapped(text: str, width: int = 100) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


METHODS_TABLES: dict[str, tuple[str, tuple[float, ...]]] = {
    "auto-table": ("replace_one", (0.1, 1.0)),
    "amp-fig4": ("replace_one", (0.1, 1.0)),
    "dpagd-fig2": ("add_remove", ()),
    "dpagd-fig3": ("add_remove", ()),
    "dpagd-fig4": ("add_remove", ()),
}
"""Experiments whose lines are shown in one table: the relation, and the ε if not all."""

SECTIONS = (
    "times", "states", "guarantees", "rank", "amp-fig1", "amp-fig3", "outpert-table3",
    *METHODS_TABLES,
)  # fmt: skip
"""Names of the parts between markers of docs/results.md."""


def section(name: str, runs: pd.DataFrame, times: pd.DataFrame) -> str:
    """Return one part of the page; the rank is that in experiments whose time is known."""
    if name == "times":
        return times_table(times, runs)
    if name == "states":
        return states(runs)
    if name == "guarantees":
        return guarantees(runs)
    if name == "rank":
        return rank_text(comparisons(runs[runs["experiment"].isin(times["experiment"])]))
    if name in METHODS_TABLES:
        return methods_table(runs, name, *METHODS_TABLES[name])
    return published_table(runs, name)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: print the parts, or write them between the markers of a page."""
    parser = argparse.ArgumentParser(description="Summarise kept runs of the benchmark.")
    parser.add_argument("folder", type=Path, help="folder with runs.parquet and times.csv")
    parser.add_argument("--write", type=Path, help="page whose marked parts are replaced")
    asked = parser.parse_args(arguments)
    runs = named(read(asked.folder / "runs.parquet"))
    times = pd.read_csv(asked.folder / "times.csv", keep_default_na=False)
    text = asked.write.read_text("utf-8") if asked.write else ""
    for name in SECTIONS:
        made = section(name, runs, times)
        if not asked.write:
            print(f"\n## {name}\n\n{made}")
            continue
        marked = re.compile(rf"(<!-- made: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = marked.sub(lambda found, made=made: f"{found[1]}\n{made}\n\n{found[2]}", text)
    if asked.write:
        asked.write.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
