"""Marks and notes of a table: what a reader must know to trust a number, and no more."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from discreet_bench.lines import METHODS, title_of
from discreet_bench.published import Published

__all__ = ["marks_of", "notes_of", "short"]

_TUNED, _RELEASED, _PLAIN, _RIVAL = "†", "‡", "§", "¶"
_MEANING = {
    _TUNED: "Tuned with hindsight on the test rows: not private.",
    _PLAIN: "No privacy: a baseline.",
    _RIVAL: "Another library; its claim was not recomputed.",
}
_MARKS = {"as released": _RELEASED, "not private": _PLAIN, "rival": _RIVAL}
_LONGEST = 48
_MOST_LISTED = 3


def marks_of(line: str) -> str:
    """The marks that a line must carry wherever it is shown."""
    _, _, variant, tuning = line.split("|")
    return _MARKS.get(variant, "") + (_TUNED if tuning == "grid" else "")


def short(problem: str) -> str:
    """Why there is no result, in few enough words for a cell."""
    true = re.search(r"they are \(([^,]+),", problem)
    if true:
        return f"refused: true ε = {true[1]}"
    words = " ".join(problem.split())
    sentence = re.split(r"(?<=[.!?])\s", words)[0].removesuffix(".")
    if len(sentence) <= _LONGEST:
        return sentence
    return sentence[:_LONGEST].rsplit(" ", 1)[0].rstrip(" ,;:") + " …"


def notes_of(
    runs: pd.DataFrame,
    found: pd.DataFrame,
    columns: pd.DataFrame,
    printed: dict[int, tuple[Published, ...]],
) -> tuple[str, ...]:
    """The notes below a block.

    Parameters
    ----------
    runs
        The runs of the block.
    found
        Their summary, with ``column`` and ``best``.
    columns
        The columns, with ``data`` and ``heading``.
    printed
        What papers print for each column.
    """
    notes = []
    repeats = found.loc[found["repeats"] > 0, "repeats"]
    if len(repeats):
        least, most = repeats.min(), repeats.max()
        number = f"{most}" if least == most else f"{least} to {most}"
        notes.append(
            "One repeat." if most == 1 else f"Mean ± standard deviation of {number} repeats."
        )
    deltas = runs.drop_duplicates(["data", "delta"]).dropna(subset="delta")
    if len(deltas):
        each = [f"{row.delta:.2g} ({row.data})" for row in deltas.itertuples()]
        one = f"{deltas['delta'].iloc[0]:.2g}"
        notes.append("δ = " + (one if deltas["delta"].nunique() == 1 else ", ".join(each)) + ".")
    if found["best"].any():
        notes.append("Bold: the best of the lines that are private from end to end.")
    lines = list(dict.fromkeys(found["line"]))
    used = "".join(marks_of(line) for line in lines)
    notes += [f"{mark} {text}" for mark, text in _MEANING.items() if mark in used]
    notes += [_released(runs, line) for line in lines if _RELEASED in marks_of(line)]
    notes += _papers(printed)
    notes += _problems(found, columns)
    return tuple(notes)


def _released(runs: pd.DataFrame, line: str) -> str:
    """The true ε of a line that is not private as released."""
    mine = runs[runs["line"] == line]
    true = mine["epsilon_recomputed"].fillna(mine["epsilon_spent"])
    cells = mine.assign(_true=true).groupby(["data", "epsilon"], sort=False)["_true"].max()
    worse = cells[cells > cells.index.get_level_values("epsilon")]
    name = f"{_RELEASED} {title_of(line).split(',')[0]}: not private as released"
    if worse.empty:
        return f"{name}; its true ε is not known."
    if len(worse) <= _MOST_LISTED:
        each = [f"{value:.3g} where {e:g} was claimed ({d})" for (d, e), value in worse.items()]
        return f"{name}: true ε = {', '.join(each)}."
    times = worse.to_numpy() / worse.index.get_level_values("epsilon").to_numpy()
    if not np.isfinite(times).all():
        return f"{name}: no ε holds in {np.isinf(times).sum()} of {len(times)} cells."
    return f"{name}: true ε is {times.min():.3g} to {times.max():.3g} times what was claimed."


def _papers(printed: dict[int, tuple[Published, ...]]) -> list[str]:
    """Where printed numbers come from, and how they were made."""
    methods: dict[tuple[str, str], dict[str, None]] = {}
    for numbers in printed.values():
        for number in numbers:
            title = METHODS[number.method].title
            methods.setdefault((number.source, number.note), {})[title] = None
    return [
        f"paper: {source} ({', '.join(titles)}: {note})."
        for (source, note), titles in methods.items()
    ]


def _problems(found: pd.DataFrame, columns: pd.DataFrame) -> list[str]:
    """Problems that are too long for a cell, in full, with where they occurred."""
    failed = found[found["problem"] != ""]
    long = failed[failed["problem"].map(short).astype(str).str.endswith("…")]
    notes = []
    for (line, problem), group in long.groupby(["line", "problem"], sort=False):
        first = columns.iloc[int(group["column"].iloc[0])]
        place = f"{first['data']}, {first['heading']}"
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        words = " ".join(problem.split())
        notes.append(f"{title_of(line).split(',')[0]} ({place}{more}): {words}")
    return notes
