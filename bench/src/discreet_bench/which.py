"""The page docs/which-method.md: which private method is the best at which size and budget.

    python -m discreet_bench.which bench/results --write docs/which-method.md

makes it from kept runs: methods with defaults and the least noise, one line per problem, the
winner, and the 95 % interval of its lead over the next best method.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from discreet_bench.lines import honest, named, title_of
from discreet_bench.runs import RELATIONS, read
from discreet_bench.significance import interval, paired
from discreet_bench.statistics import method_of

__all__ = ["main", "page", "winners"]

OPENING = """# Which method when

Each row is a problem of the benchmark: its training rows n and columns d, loss, relation and ε. The
winner is the private method of the papers with the highest accuracy over the repeats, with its
defaults and the least noise that a sound accountant allows. Its lead over the next best is a 95 %
interval of the paired difference over the splits; "open" means that it includes zero. The last
column has this library's default, which chooses by public numbers and is what to use if you do not
want to choose.

This page is made from [`bench/results/runs.parquet`](../bench/results/runs.parquet):

    python -m discreet_bench.which bench/results --write docs/which-method.md

"""

LEARNED = 0.01
"""Accuracy above the most frequent class from which a problem is said to be learned."""

CELL = ["data", "loss", "relation", "epsilon"]

EXPERIMENTS = ("auto-table", "dpagd-fig2", "dpagd-fig3", "dpagd-fig4", "amp-fig2", "amp-fig4")
"""Experiments that test on rows that were not fitted; of those that share a problem, the one with
the most methods counts."""


def winners(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the best and the next best method of each problem, and the lead.

    Columns: those of a cell, ``n``, ``d``, ``winner``, ``mean``, ``half`` (of its interval),
    ``second``, ``lead``, ``low``, ``high``, ``default`` and ``learned``.
    """
    runs = named(runs[runs["experiment"].isin(EXPERIMENTS)])
    runs = runs[
        runs["line"].map(honest).astype(bool)
        & (runs["tuning"] == "default")
        & (runs["calibration"] != "published")
        & (runs["difference"] == "")
        & (runs["problem"] == "")
        & runs["accuracy"].notna()
        & runs["at"].isna()
        | (runs["method"] == "majority")
    ]
    found = []
    for cell, shared in runs.groupby(CELL, sort=False):
        most = shared.groupby("experiment", sort=False)["method"].nunique().idxmax()
        row = _winner(shared[shared["experiment"] == most])
        if row:
            found.append(dict(zip(CELL, cell, strict=True)) | row)
    return pd.DataFrame(found)


def _winner(part: pd.DataFrame) -> dict[str, object]:
    """Return the winner of one problem; nothing if fewer than two methods compete."""
    private = part[part["method"] != "majority"]
    table = private.pivot_table(values="accuracy", index="repeat", columns="line")
    own = [line for line in table if method_of(line) == "auto"]
    others = [line for line in table if method_of(line) != "auto" and table[line].count() > 1]
    means = table[others].mean().sort_values(ascending=False)
    if len(means) < 2:
        return {}
    first, second = means.index[:2]
    lead = paired(table[second].to_numpy(), table[first].to_numpy())
    values = table[first].dropna()
    half = interval(np.array([values.std(ddof=1)]), np.array([len(values)]))[0]
    constant = part.loc[part["method"] == "majority", "accuracy"].mean()
    best = max(float(means.iloc[0]), float(table[own].mean().max()) if own else 0.0)
    return {
        "n": int(part["n"].median()),
        "d": int(part["d"].median()),
        "winner": first,
        "mean": float(means.iloc[0]),
        "half": float(half),
        "second": second,
        "lead": lead.mean,
        "low": lead.low,
        "high": lead.high,
        "default": float(table[own[0]].mean()) if own else float("nan"),
        "learned": not best < constant + LEARNED,
    }


def page(runs: pd.DataFrame) -> str:
    """Return the page: a table per loss and relation, by n and ε."""
    found = winners(runs)
    parts = [OPENING.rstrip() + "\n"]
    if found.empty:
        return parts[0] + "\nNo runs to compare.\n"
    order = found.sort_values(["loss", "relation", "n", "data", "epsilon"])
    for (loss, relation), part in order.groupby(["loss", "relation"], sort=False):
        parts.append(f"## Loss {loss}, {RELATIONS.get(str(relation), relation)}\n")
        parts.append(_table(part))
    parts.append("## Wins\n")
    learned = found[found["learned"]]
    counts = learned["winner"].map(lambda line: title_of(str(line))).value_counts()
    lines = ["| method | wins where something can be learned |", "|---|---:|"]
    lines += [f"| {name} | {count} |" for name, count in counts.items()]
    ahead = int((learned["default"] >= learned["mean"]).sum())
    parts.append("\n".join(lines) + "\n")
    parts.append(
        f"The default is at least as accurate as the winner in {ahead} of {len(learned)} problems "
        "in\nwhich something can be learned.\n"
    )
    return "\n".join(parts)


def _table(part: pd.DataFrame) -> str:
    lines = [
        "| data | n | d | ε | winner | accuracy, % | lead over the next | default |",
        "|---|---:|---:|---:|---|---:|---|---:|",
    ]
    for row in part.itertuples():
        data = str(row.data).split(" (")[0]
        if not row.learned:
            lines.append(
                f"| {data} | {row.n:,} | {row.d:,} | {row.epsilon:.3g} | nothing is learned | "
                f"{100 * row.mean:.1f} |  | {_percent(row.default)} |"
            )
            continue
        half = (row.high - row.low) / 2
        lead = f"{100 * row.lead:.1f} ± {100 * half:.1f} ({title_of(row.second)})"
        if not row.low > 0:
            lead += ", open"
        lines.append(
            f"| {data} | {row.n:,} | {row.d:,} | {row.epsilon:.3g} | {title_of(row.winner)} | "
            f"{100 * row.mean:.1f} ± {100 * row.half:.1f} | {lead} | {_percent(row.default)} |"
        )
    return "\n".join(lines) + "\n"


def _percent(value: float) -> str:
    return "–" if value != value else f"{100 * value:.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: print the page, or write it."""
    parser = argparse.ArgumentParser(description="Make the page of winners from kept runs.")
    parser.add_argument("folder", type=Path, help="folder with runs.parquet")
    parser.add_argument("--write", type=Path, help="page that is written")
    asked = parser.parse_args(arguments)
    made = page(read(asked.folder / "runs.parquet"))
    if asked.write:
        asked.write.write_text(made, "utf-8")
    else:
        print(made)


if __name__ == "__main__":
    main()
