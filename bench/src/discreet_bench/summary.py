"""Summary of kept runs in Markdown: time, states of the code, guarantees, the default's rank.

    python -m discreet_bench.summary bench/results --write docs/results.md

prints the page of kept runs (`discreet_bench.results`), or writes it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from discreet_bench.lines import named, title_of
from discreet_bench.promise import TOLERANCE
from discreet_bench.runs import SHARES, read
from discreet_bench.statistics import leaderboard, method_of

__all__ = [
    "comparisons",
    "guarantees",
    "main",
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
    by = [f"{won} of {all_} at {epsilon:.3g}" for epsilon, won, all_ in counts.itertuples()]
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
            f"| {row['data']} | {row['loss']} | {row['relation']} | {row['epsilon']:.3g} | "
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
            f"published constants or released code that break the promise, and are marked; in "
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


def _wrapped(text: str, width: int = 100) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: print the page of kept runs, or write it."""
    from discreet_bench.results import page
    from discreet_bench.verdicts import read_again

    parser = argparse.ArgumentParser(description="Summarise kept runs of the benchmark.")
    parser.add_argument("folder", type=Path, help="folder with runs.parquet and times.csv")
    parser.add_argument("--write", type=Path, help="page that is written")
    asked = parser.parse_args(arguments)
    runs = named(read(asked.folder / "runs.parquet"))
    times = pd.read_csv(asked.folder / "times.csv", keep_default_na=False)
    figures = sorted(path.name for path in asked.folder.glob("*.svg"))
    made = page(runs, times, figures, read_again(asked.folder / "again.csv"))
    if asked.write:
        asked.write.write_text(made, "utf-8")
    else:
        print(made)


if __name__ == "__main__":
    main()
