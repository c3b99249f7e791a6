"""Who is best where: the leaderboard's rows, and the answer in words that they give."""

from __future__ import annotations

import math

import pandas as pd

from discreet_bench.lines import title_of
from discreet_bench.report.curves import COSTS, in_words
from discreet_bench.runs import MEASURES, RELATIONS, settings_of
from discreet_bench.statistics import PROBLEM, best_settings, final, leaderboard, method_of

__all__ = ["Answer", "answer", "board", "difference"]

UNITS = {
    "accuracy": ("points of accuracy", 100.0),
    "balanced_accuracy": ("points of balanced accuracy", 100.0),
    "r2": ("of R²", 1.0),
}
"""How a difference is put in words, and by what it is multiplied."""


def board(runs: pd.DataFrame) -> pd.DataFrame:
    """The leaderboards of all measures of quality, one under the other.

    Parameters
    ----------
    runs : DataFrame
        Runs with the column ``line``.

    Returns
    -------
    DataFrame
        The rows of `discreet_bench.statistics.leaderboard`, with the ``measure``, the mean of the
        best model without privacy (``baseline``), and the ``setting`` of the best method tuned
        with hindsight, in words.
    """
    plain = runs[(runs["variant"] == "not private") & (runs["method"] != "majority")]
    grids = runs[(runs["variant"] == "private") & (runs["tuning"] == "grid")]
    parts = []
    for measure in MEASURES:
        if measure in COSTS or runs[measure].isna().all():
            continue
        rows = leaderboard(runs, measure).assign(measure=measure)
        if rows.empty:  # only baselines have it, or only runs that are looked at on their way
            continue
        rows = rows.merge(_baseline(plain, measure), how="left", on=PROBLEM)
        parts.append(rows.merge(_settings(grids, measure), how="left", on=[*PROBLEM, "hindsight"]))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _baseline(runs: pd.DataFrame, measure: str) -> pd.DataFrame:
    means = final(runs).groupby([*PROBLEM, "line", "setting"], dropna=False)[measure].mean()
    best = means.groupby(PROBLEM, dropna=False).agg("max" if MEASURES[measure] else "min")
    return best.rename("baseline").reset_index()


def _settings(grids: pd.DataFrame, measure: str) -> pd.DataFrame:
    chosen = best_settings(grids, measure)[[*PROBLEM, "line", "setting"]].drop_duplicates()
    words = {text: in_words(settings_of(text)) for text in chosen["setting"].unique()}
    chosen["setting"] = chosen["setting"].map(words).astype(object)
    return chosen.rename(columns={"line": "hindsight"})


class Answer:
    """What the leaderboard of one measure says about discreet's default.

    Attributes
    ----------
    measure : str
    compared, first : int
        Comparisons in which the default and another private method took part, and those in which
        the default came first.
    clear : int
        Of the latter, those in which the lead is significant.
    lead, behind, price : float
        Medians: the lead where it is first, the distance to the best where it is not, and the
        distance to the model without privacy, in the units of the measure; NaN if there is none.
    furthest : float
        The largest distance to the best.
    worse, lost : int
        Comparisons in which another private method is better, and those of them in which it is
        significantly so.
    others : Series
        The lines that come first elsewhere, and how often.
    worst : Series or None
        The row in which the default is furthest behind.
    """

    def __init__(self, rows: pd.DataFrame, measure: str) -> None:
        sign = 1.0 if MEASURES[measure] else -1.0
        rows = rows[rows["auto_mean"].notna() & rows["runner_up"].notna()]
        won = rows["best"].map(method_of) == "auto"
        gaps = -rows["auto_margin"]
        self.measure = measure
        self.compared, self.first = len(rows), int(won.sum())
        self.clear = int((won & rows["significant"].astype(bool)).sum())
        self.worse = self.compared - self.first
        self.lost = int(rows["auto_significant"].astype(bool).sum())
        self.lead = float(rows.loc[won, "margin"].median())
        self.behind = float(gaps[~won].median())
        self.price = float((sign * (rows["baseline"] - rows["auto_mean"])).median())
        self.others = rows.loc[~won, "best"].value_counts()
        self.worst = rows.loc[gaps[~won].idxmax()] if (~won).any() else None
        self.furthest = float(gaps[~won].max())

    def in_words(self) -> str:
        """The answer in a few sentences."""
        if not self.compared:
            return "No comparison has both discreet's default and another private method in it."

        def short(value: float) -> str:
            return difference(value, self.measure).split(" of ")[0]

        told = (
            f"discreet's default is the best private method in {self.first} of {self.compared} "
            "comparisons"
        )
        if self.first:
            told += (
                f", by {difference(self.lead, self.measure)} over the runner-up in the median; "
                f"{self.clear or 'none'} of these leads {'is' if self.clear == 1 else 'are'} "
                "significant"
            )
        told += "."
        if self.worst is not None:
            names = [f"{title_of(line)} ({count})" for line, count in self.others.items()]
            listed = ", ".join(names[:5]) + (", and others" if len(names) > 5 else "")
            row = self.worst
            behind = short(self.behind)
            if self.worse > 1:
                behind = f"{behind} behind in the median, and {short(self.furthest)} at most"
            else:
                behind = f"{behind} behind"
            told += (
                f" It is worse in {self.worse}, significantly in {self.lost or 'none'}: {behind} "
                f"({row['data']}, {row['loss']} loss, ε = {row['epsilon']:g}, "
                f"{RELATIONS.get(row['relation'], row['relation'])}). There the best is {listed}."
            )
        if math.isfinite(self.price):
            side = "worse" if self.price >= 0 else "better"
            told += (
                f" In the median the default is {short(abs(self.price))} {side} "
                "than the model without privacy."
            )
        return told + " A comparison is a data set, ε, relation and loss within an experiment."


def answer(rows: pd.DataFrame) -> list[Answer]:
    """The answer by accuracy, and by R² for real targets; the first measure there is, else."""
    if rows.empty:
        return []
    there = [name for name in ("accuracy", "r2") if (rows["measure"] == name).any()]
    chosen = there or [str(rows["measure"].iloc[0])]
    return [Answer(rows[rows["measure"] == name], name) for name in chosen]


def difference(value: float, measure: str) -> str:
    """A difference of a measure, in words."""
    unit, scale = UNITS.get(measure, (f"of {measure.replace('_', ' ')}", 1.0))
    digits = ".2f" if scale == 100 else ".2g"
    return f"{scale * value:{digits}} {unit}" if math.isfinite(value) else "–"
