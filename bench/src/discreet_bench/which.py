"""The page docs/which-method.md: which private method is the best at which size and budget.

    python -m discreet_bench.which bench/results --write docs/which-method.md

makes it from kept runs: methods with defaults and the least noise, one line per problem, the
winner, and the 95 % interval of its lead over the next best method.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
want to choose. ± are 95 % intervals of means over repeats.

This page is made from [`bench/results/runs.parquet`](../bench/results/runs.parquet):

    python -m discreet_bench.which bench/results --write docs/which-method.md

"""

BUDGETS = ((0.0, 0.05), (0.05, 0.2), (0.2, 1.0), (1.0, math.inf))
"""Ranges of ε in the first table, without their lower and with their upper end."""

WIDE = 150
"""Columns from which a table counts as wide in the first table."""

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
    default = table[own[0]] if own else pd.Series(dtype=float)
    constant = part.loc[part["method"] == "majority", "accuracy"].mean()
    best = max(float(means.iloc[0]), float(table[own].mean().max()) if own else 0.0)
    return {
        "n": int(part["n"].median()),
        "d": int(part["d"].median()),
        "winner": first,
        "mean": float(means.iloc[0]),
        "half": _half(table[first]),
        "second": second,
        "lead": lead.mean,
        "low": lead.low,
        "high": lead.high,
        "default": float(default.mean()),
        "default_half": _half(default),
        "learned": not best < constant + LEARNED,
    }


def _half(values: pd.Series) -> float:
    """Return half the width of the 95 % interval of a mean; NaN for fewer than two values."""
    kept = values.dropna()
    if len(kept) < 2:
        return math.nan
    return float(interval(np.array([kept.std(ddof=1)]), np.array([len(kept)]))[0])


def page(runs: pd.DataFrame) -> str:
    """Return the page: a table per loss and relation, by n and ε."""
    found = winners(runs)
    parts = [OPENING.rstrip() + "\n"]
    if found.empty:
        return parts[0] + "\nNo runs to compare.\n"
    parts += ["## In short\n", _short(found), _wins(found)]
    order = found.sort_values(["loss", "relation", "n", "data", "epsilon"])
    for (loss, relation), part in order.groupby(["loss", "relation"], sort=False):
        parts.append(f"## Loss {loss}, {RELATIONS.get(str(relation), relation)}\n")
        parts.append(_table(part))
    return "\n".join(parts)


def _short(found: pd.DataFrame) -> str:
    """Return the methods that win most often, by size and budget."""
    lines = [
        "| columns | ε | problems | nothing is learned | wins | default at least as accurate |",
        "|---|---|---:|---:|---|---:|",
    ]
    for wide, columns in ((False, f"up to {WIDE}"), (True, f"more than {WIDE}")):
        for low, high in BUDGETS:
            part = found[
                ((found["d"] > WIDE) == wide)
                & (found["epsilon"] > low)
                & (found["epsilon"] <= high)
            ]
            if part.empty:
                continue
            learned = part[part["learned"]]
            ahead = int((learned["default"] >= learned["mean"]).sum())
            asked = f"up to {high:g}" if low == 0 else f"above {low:g}"
            asked += "" if low == 0 or math.isinf(high) else f", up to {high:g}"
            lines.append(
                f"| {columns} | {asked} | {len(part)} | {len(part) - len(learned)} | "
                f"{_most(learned)} | {ahead} of {len(learned)} |"
            )
    return "\n".join(lines) + "\n"


def _most(learned: pd.DataFrame, count: int = 3) -> str:
    """Return the methods with the most wins, and how many of these are not open."""
    names = learned["winner"].map(lambda line: title_of(str(line)))
    clear = names[learned["low"] > 0].value_counts()
    words = [
        f"{name} {wins} ({clear.get(name, 0)} clear)"
        for name, wins in names.value_counts().head(count).items()
    ]
    return ", ".join(words) or "–"


def _wins(found: pd.DataFrame) -> str:
    """Return the number of wins of each method."""
    learned = found[found["learned"]]
    counts = learned["winner"].map(lambda line: title_of(str(line))).value_counts()
    lines = ["| method | wins where something can be learned |", "|---|---:|"]
    lines += [f"| {name} | {count} |" for name, count in counts.items()]
    return "\n".join(lines) + "\n"


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
                f"{100 * row.mean:.1f} ± {100 * row.half:.1f} |  | {_default(row)} |"
            )
            continue
        half = (row.high - row.low) / 2
        lead = f"{100 * row.lead:.1f} ± {100 * half:.1f} ({title_of(row.second)})"
        if not row.low > 0:
            lead += ", open"
        lines.append(
            f"| {data} | {row.n:,} | {row.d:,} | {row.epsilon:.3g} | {title_of(row.winner)} | "
            f"{100 * row.mean:.1f} ± {100 * row.half:.1f} | {lead} | {_default(row)} |"
        )
    return "\n".join(lines) + "\n"


def _default(row: Any) -> str:
    if math.isnan(row.default):
        return "–"
    text = f"{100 * row.default:.1f}"
    return text if math.isnan(row.default_half) else f"{text} ± {100 * row.default_half:.1f}"


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
