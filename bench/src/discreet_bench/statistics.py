"""Statistics of runs: means and intervals, leaders, and changes between two files.

Runs are grouped by the experiment, the columns of `discreet_bench.runs.CELL`, δ and the penalty of
the objective (`PROBLEM`): another penalty is another objective, another δ another guarantee. Of
several checkpoints of a run the last one counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from discreet_bench.lines import honest, named
from discreet_bench.runs import CELL, MEASURES, settings_of
from discreet_bench.significance import OVERLAP, Difference, apart, holm, interval, paired

__all__ = [
    "CHECKPOINT",
    "PROBLEM",
    "best_settings",
    "compare",
    "final",
    "incomplete",
    "leaderboard",
    "method_of",
    "ranked",
    "summary",
    "with_parameter",
]

PROBLEM = ["experiment", *CELL, "delta", "alpha"]
"""Columns that identify a problem of an experiment."""

CHECKPOINT = "updates"
"""Parameter with the number of updates of a checkpoint; it is not a setting."""

_NOT_OF_SPLITS = ("seconds", "peak_mb", "epsilon_spent")  # independent, whatever the training rows


def method_of(line: str) -> str:
    """Return the method of a line; the released code of a method is the same method."""
    return line.split("|")[0].removesuffix("-released")


def final(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the last of several checkpoints of a run."""
    if runs["at"].isna().all():
        return runs
    runs = _with_line(runs)
    runs = runs.assign(_setting=_whole_run(runs["setting"]))
    keys = [*PROBLEM, "line", "_setting", "repeat", "seed"]
    when = runs["at"].fillna(np.inf)  # a row without a number is the run's end
    last = when.groupby([runs[key] for key in keys], dropna=False).transform("max")
    return runs[when == last].drop(columns="_setting")


def with_parameter(runs: pd.DataFrame, name: str) -> pd.DataFrame:
    """Add a column for a solver's parameter.

    Where it was not set, it is the solver's default, and missing for methods that do not have it.
    A name that is a column already is left as it is.
    """
    if name in runs:
        return runs
    from discreet_bench.solvers import defaults

    kinds = runs[["method", "setting"]].drop_duplicates()
    kinds[name] = [
        settings_of(setting).get(name, defaults(method).get(name))
        for method, setting in zip(kinds["method"], kinds["setting"], strict=True)
    ]
    found = runs[["method", "setting"]].merge(kinds, how="left", on=["method", "setting"])
    return runs.assign(**{name: found[name].to_numpy()})


def best_settings(runs: pd.DataFrame, measure: str = "accuracy") -> pd.DataFrame:
    """Keep the best setting of each line that is a grid, and all other lines.

    Choosing this way looks at the test rows, so what is left of a grid is not private.

    Parameters
    ----------
    runs : DataFrame
        Runs, as `discreet_bench.runs.read` gives them.
    measure : str
        Measure that decides. Problems without it, such as accuracy for a real target, go by the
        objective.

    Returns
    -------
    DataFrame
        With a column ``line``. A setting with fewer results than another of its line is never
        chosen; among equal means the first in alphabetical order is. If no setting has a result,
        the first one stays, to show why.
    """
    runs = _with_line(runs)
    grid = (runs["tuning"] == "grid").to_numpy()
    if not grid.any():
        return runs
    keys = [*PROBLEM, "line"]
    tried = runs.assign(_setting=_whole_run(runs["setting"]))
    ends = final(tried[grid])
    ends = ends.assign(_setting=_whole_run(ends["setting"]), _score=_score(ends, measure))
    settings = ends.groupby([*keys, "_setting"], dropna=False)["_score"].agg(["count", "mean"])
    order = ["count", "mean", "_setting"]  # a missing mean comes last
    settings = settings.reset_index().sort_values(order, ascending=[False, False, True])
    chosen = settings.groupby(keys, dropna=False, sort=False).head(1)[[*keys, "_setting"]]
    kept = tried[[*keys, "_setting"]].merge(chosen.assign(_kept=True), how="left")["_kept"]
    return runs[~grid | kept.notna().to_numpy()]


def summary(
    runs: pd.DataFrame,
    measures: Sequence[str] = tuple(MEASURES),
    by: Sequence[str] = ("setting", "at"),
) -> pd.DataFrame:
    """Return mean, standard deviation and 95 % confidence interval of measures over the repeats.

    Parameters
    ----------
    runs : DataFrame
        Runs. To see each grid at its best only, pass them through `best_settings` first.
    measures : sequence of str
        Columns of the runs.
    by : sequence of str
        Columns or solvers' parameters that make groups besides problem and line.

    Returns
    -------
    DataFrame
        A row for each group and measure that has a value or a failure: the columns of `PROBLEM`,
        ``line``, those of ``by``, ``measure``, ``mean``, ``sd`` (divided by repeats - 1),
        ``repeats`` that have a value, ``low`` and ``high`` of the interval (Student's t; missing
        for a single repeat), ``failed`` runs and their commonest ``problem``. The interval is about
        new splits of the same rows and new noise, not about other data.
    """
    runs = _with_line(runs)
    for name in by:
        runs = with_parameter(runs, name)
    keys = [*PROBLEM, "line", *by]
    measures = list(measures)
    values = runs[[*keys, *measures]].melt(keys, measures, "measure", "_value")
    grouped = values.groupby([*keys, "measure"], dropna=False, sort=False)["_value"]
    found = grouped.agg(mean="mean", sd="std", repeats="count").reset_index()
    half = interval(found["sd"].to_numpy(), found["repeats"].to_numpy())
    found = found.assign(low=found["mean"] - half, high=found["mean"] + half)
    found = found.merge(_failures(runs, keys), how="left", on=keys)
    found["failed"] = found["failed"].fillna(0).astype(int)
    found["problem"] = found["problem"].fillna("")
    return found[(found["repeats"] > 0) | (found["failed"] > 0)].reset_index(drop=True)


def incomplete(found: pd.DataFrame) -> pd.Series:
    """Mark rows that have failures, or fewer repeats than another."""
    return (found["failed"] > 0) | (found["repeats"] < found["repeats"].max())


def ranked(found: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Sort rows with ``mean``, ``repeats`` and ``failed`` from best to worst; incomplete ones last.

    A method without a result on some splits does not win by its luck on the others. Pass only the
    lines that compete: the largest number of repeats counts as complete.
    """
    found = found[found["mean"].notna()]
    places = np.lexsort([-_sign(measure) * found["mean"], incomplete(found)])
    return found.iloc[places]


def leaderboard(runs: pd.DataFrame, measure: str = "accuracy") -> pd.DataFrame:
    """Return the best method per problem, its lead, and the significance of the lead.

    Parameters
    ----------
    runs : DataFrame
        Runs. Grids count with their best setting, by `best_settings`. Experiments with
        checkpoints are left out, and so are lines of tuning ``default`` with several settings on
        one problem, which are a sweep.
    measure : str
        One of `discreet_bench.runs.MEASURES`.

    Returns
    -------
    DataFrame
        A row for each problem in which a line that is private from end to end has a result:

        - ``best``, ``best_mean``, ``repeats``: the best of these lines;
        - ``runner_up``, ``runner_up_mean``, ``margin``: the best of them by another method, and
          the mean lead over it on the repeats that both have. Margins are positive where the first
          is better, whichever way the measure goes;
        - ``p_value``, ``adjusted``, ``significant``: a paired t test with the variance of Nadeau
          and Bengio, Holm's correction over the problems of the experiment, and whether the
          corrected one is below 0.05. Missing where fewer than two repeats are shared;
        - ``best_of_all``, ``best_of_all_mean``: among all lines, private or not;
        - ``auto_mean``, ``auto_margin``: of this library's default, against the best private line
          of another method;
        - ``auto_p_value``, ``auto_significant``: of that comparison, where the default is not the
          best. Holm's correction is over all problems of the experiment, those that the default
          wins among them;
        - ``hindsight``, ``hindsight_mean``, ``auto_margin_hindsight``: the best private method
          tuned with hindsight, and the default's margin over it;
        - ``majority_mean``: of the most frequent class, which uses no column.
    """
    values = _per_repeat(best_settings(_competing(runs), measure), measure)
    rows = []
    for problem, cell in values.groupby(PROBLEM, dropna=False):
        row = _leaders(cell, measure)
        if row:
            rows.append(dict(zip(PROBLEM, problem, strict=True)) | row)
    board = pd.DataFrame(rows, columns=[*PROBLEM, *_LEADERS])
    groups = board.groupby("experiment")
    for name, adjusted in (("p_value", "adjusted"), ("auto_p_value", "auto_p_value")):
        board[adjusted] = groups[name].transform(lambda p: holm(p.to_numpy(dtype=float)))
    first = board["best"].map(method_of) == "auto"
    board["auto_p_value"] = board["auto_p_value"].mask(first)
    board["significant"] = board["adjusted"] < 0.05
    board["auto_significant"] = board["auto_p_value"] < 0.05
    return board


def _competing(runs: pd.DataFrame) -> pd.DataFrame:
    """Leave out experiments with checkpoints, and sweeps."""
    runs = _with_line(runs)
    curve = runs["at"].notna().groupby(runs["experiment"]).transform("any")
    runs = runs[~curve.astype(bool)]
    settings = runs.groupby([*PROBLEM, "line"], dropna=False)["setting"].transform("nunique")
    return runs[~((runs["tuning"] == "default") & (settings > 1))]


_LEADERS = (
    "best", "best_mean", "repeats", "runner_up", "runner_up_mean", "margin", "p_value", "adjusted",
    "significant", "best_of_all", "best_of_all_mean", "auto_mean", "auto_margin", "auto_p_value",
    "auto_significant", "hindsight", "hindsight_mean", "auto_margin_hindsight", "majority_mean",
)  # fmt: skip


def _leaders(cell: pd.DataFrame, measure: str) -> dict[str, object]:
    """Find the leaders of one problem, from a value per line and repeat."""
    found = cell.groupby("line").agg(
        mean=("value", "mean"), repeats=("value", "count"), failed=("failed", "sum")
    )
    order = ranked(found, measure)
    private = list(ranked(found[found.index.map(honest).astype(bool)], measure).index)
    if not private:
        return {}
    table = _sign(measure) * cell.groupby(["repeat", "line"])["value"].mean().unstack()

    def mean(line: str | None) -> float:
        return float(order["mean"].get(line, np.nan))

    def lead(line: str | None, over: str | None) -> Difference:
        if line is None or over is None:
            return Difference(np.nan, np.nan, np.nan, np.nan, 0)
        found = paired(table[over].to_numpy(), table[line].to_numpy(), _overlap(measure))
        if found.repeats == 0:  # no common split
            return found._replace(mean=_sign(measure) * (mean(line) - mean(over)))
        return found

    best = private[0]
    runner_up = _first(line for line in private if method_of(line) != method_of(best))
    auto = _first(line for line in private if method_of(line) == "auto")
    other = _first(line for line in private if method_of(line) != "auto")
    tuned = (line for line in order.index if "|private|grid" in line)
    hindsight = _first(line for line in tuned if method_of(line) != "auto")
    ahead, default = lead(best, runner_up), lead(auto, other)
    return {
        "best": best,
        "best_mean": mean(best),
        "repeats": int(order["repeats"][best]),
        "runner_up": runner_up,
        "runner_up_mean": mean(runner_up),
        "margin": ahead.mean,
        "p_value": ahead.p_value,
        "best_of_all": order.index[0],
        "best_of_all_mean": mean(order.index[0]),
        "auto_mean": mean(auto),
        "auto_margin": default.mean,
        "auto_p_value": default.p_value,
        "hindsight": hindsight,
        "hindsight_mean": mean(hindsight),
        "auto_margin_hindsight": lead(auto, hindsight).mean,
        "majority_mean": mean(
            _first(line for line in order.index if method_of(line) == "majority")
        ),
    }


def compare(
    before: pd.DataFrame,
    after: pd.DataFrame,
    measure: str = "accuracy",
    overlap: float | None = None,
) -> pd.DataFrame:
    """Compare two files of runs, line by line.

    Parameters
    ----------
    before, after : DataFrame
        Runs. Grids count with their best setting; several settings of another line are averaged.
    measure : str
        One of `discreet_bench.runs.MEASURES`.
    overlap : float, optional
        Test rows per training row, 0 if repeats share no rows. Default: that of splits.

    Returns
    -------
    DataFrame
        A row for each problem and line of either file: ``before`` and ``after`` (means),
        ``difference``, ``low`` and ``high`` (95 % confidence interval), ``repeats`` that it rests
        on, whether they were ``paired``, ``verdict``, and the ``problem`` of runs that fail now.
        Repeats are paired if two or more have the same number, seed and training rows in both
        files; then their overlap is allowed for as in `leaderboard`. The verdict is ``better`` or
        ``worse`` if the interval excludes zero or a line began to work or fail, else ``same``;
        ``unclear`` if there is a difference but no interval; ``new`` or ``gone`` if a file lacks
        the line. Of lines that did not change, one in twenty at most is expected to be called
        better or worse.
    """
    overlap = _overlap(measure) if overlap is None else overlap
    keys = [*PROBLEM, "line"]
    sides = [_per_repeat(best_settings(runs, measure), measure) for runs in (before, after)]
    both = sides[0].merge(
        sides[1], how="outer", on=[*keys, "n", "repeat", "seed"], suffixes=("_before", "_after")
    )
    rows = [
        dict(zip(keys, key, strict=True)) | _change(group, measure, overlap)
        for key, group in both.groupby(keys, dropna=False)
    ]
    return pd.DataFrame(rows, columns=[*keys, *_CHANGE])


_CHANGE = (
    "before", "after", "difference", "low", "high", "repeats", "paired", "verdict", "problem",
)  # fmt: skip


def _change(group: pd.DataFrame, measure: str, overlap: float) -> dict[str, object]:
    first, second = (group[f"value_{side}"].to_numpy() for side in ("before", "after"))
    shared = int((np.isfinite(first) & np.isfinite(second)).sum())
    pairs = shared > 1 or (shared == 1 and len(group) == 1)
    found = paired(first, second, overlap) if pairs else apart(first, second)
    in_before, in_after = (group[f"failed_{side}"].notna().any() for side in ("before", "after"))
    if not in_after or not in_before:
        verdict = "new" if in_after else "gone"
    elif np.isfinite(found.mean):
        verdict = _verdict(found, measure)
    elif np.isfinite(first).any() == np.isfinite(second).any():
        verdict = "same"  # failed then and fails now
    else:
        verdict = "better" if np.isfinite(second).any() else "worse"
    problems = group["problem_after"].dropna()
    problems = problems[problems != ""]
    return {
        "before": _mean(first),
        "after": _mean(second),
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        "repeats": found.repeats,
        "paired": pairs,
        "verdict": verdict,
        "problem": "" if problems.empty else problems.mode().iloc[0],
    }


def _verdict(found: Difference, measure: str) -> str:
    if not np.isfinite(found.low):
        return "same" if found.mean == 0 else "unclear"
    if found.low <= 0 <= found.high or found.p_value == 1:
        return "same"
    return "better" if found.mean * _sign(measure) > 0 else "worse"


def _with_line(runs: pd.DataFrame) -> pd.DataFrame:
    return runs if "line" in runs else named(runs)


def _whole_run(settings: pd.Series) -> pd.Series:
    """Remove the number of updates of a checkpoint from settings."""
    looks = [text for text in settings.unique() if f'"{CHECKPOINT}"' in text]
    whole = {text: settings_of(text) for text in looks}
    names = {
        text: json.dumps({k: v for k, v in given.items() if k != CHECKPOINT})
        for text, given in whole.items()
    }
    return settings.replace(names) if names else settings


def _sign(measure: str) -> int:
    return 1 if MEASURES.get(measure, False) else -1


def _overlap(measure: str) -> float:
    return 0.0 if measure in _NOT_OF_SPLITS else OVERLAP


def _first(lines: Iterator[str]) -> str | None:
    return next(lines, None)


def _mean(values: np.ndarray) -> float:
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else float("nan")


def _score(runs: pd.DataFrame, measure: str) -> pd.Series:
    """Return the measure, signed so that more is better; the objective where it is missing."""
    has = runs[measure].notna().groupby([runs[key] for key in PROBLEM], dropna=False)
    fallback = _sign("objective") * runs["objective"]
    return (_sign(measure) * runs[measure]).where(has.transform("any"), fallback)


def _per_repeat(runs: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return value, failures and reason per problem, line, size, repeat and seed."""
    runs = final(_with_line(runs))
    keys = [*PROBLEM, "line", "n", "repeat", "seed"]
    runs = runs.assign(_failed=runs["problem"].ne("").astype(int))
    return (
        runs.groupby(keys, dropna=False)
        .agg(value=(measure, "mean"), failed=("_failed", "sum"), problem=("problem", "max"))
        .reset_index()
    )


def _failures(runs: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Count failed runs per group, with the most frequent reason."""
    failed = runs[runs["problem"] != ""]
    reasons = failed.groupby([*keys, "problem"], dropna=False).size().rename("_times").reset_index()
    reasons = reasons.sort_values(["_times", "problem"], ascending=[False, True], kind="stable")
    grouped = reasons.groupby(keys, dropna=False, sort=False)
    return grouped.agg(failed=("_times", "sum"), problem=("problem", "first")).reset_index()
