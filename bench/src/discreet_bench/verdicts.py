"""Verdicts about the numbers that papers print and about what they claim.

Verdicts follow from intervals alone.

- **A printed number** is compared with the mean of our repeats. The interval of the difference is a
  95 % Student t interval. It counts the spread of our repeats for ours and, as papers print none,
  for theirs: s·√(1/k + 1/k'), with k' the paper's number of repeats, plus the rounding of the
  printed number.
- **A claim** that one line is better than another is decided by the 95 % interval of the paired
  difference over the repeats, corrected for overlapping training sets.
- **A second run** with other splits and noise is kept as its verdicts alone. A verdict that it does
  not confirm cannot be decided.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from scipy import stats

from discreet_bench.experiment import Claim, Experiment, Pick, Rate
from discreet_bench.experiments import EXPERIMENTS, dpagd
from discreet_bench.lines import METHODS, named, title_of
from discreet_bench.published import PUBLISHED, Published
from discreet_bench.released import sgd
from discreet_bench.runs import MEASURES, SHARES, read, settings_of
from discreet_bench.significance import OVERLAP, paired
from discreet_bench.solvers import defaults
from discreet_bench.statistics import best_settings, final

__all__ = [
    "AGREES",
    "UNDECIDED",
    "Again",
    "Comparison",
    "Decision",
    "changes",
    "claims",
    "judged",
    "numbers",
    "read_again",
    "retuned",
    "sentence",
    "settled",
    "slopes",
    "text_of",
    "write_again",
]

AGREES = "agrees"
DIFFERS = "differs"
UNDECIDED = "cannot be decided"
ELSEWHERE = "of another machine"
REPRODUCED = "reproduced"
CONTRADICTED = "contradicted"

LEVEL = 0.95
POINTS = 0.015
"""Half width of an interval of accuracies up to which a number can be said to agree."""

SHARE = 0.25
"""The same for other measures, as a share of the printed number."""

CLOSE = 0.25
"""The same for a power of n or d."""

FEWEST = 3
"""Repeats below which nothing is decided."""


@dataclass(frozen=True)
class Comparison:
    """A printed number beside ours.

    Attributes
    ----------
    entry
        The printed number.
    data
        The data set with its cut.
    line
        The line of ours that it is compared with.
    mean, half, repeats
        Our mean, half the width of its own 95 % interval, and the number of repeats.
    difference, error
        Ours less the paper's, and half the width of the interval of that.
    verdict
        `AGREES`, `DIFFERS`, `UNDECIDED`, or `ELSEWHERE` for seconds.
    changed
        The verdicts of both runs, where a second run has another one; else empty.
    """

    entry: Published
    data: str
    line: str
    mean: float
    half: float
    repeats: int
    difference: float
    error: float
    verdict: str
    changed: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies the printed number."""
        entry = self.entry
        return (
            entry.source, self.data, entry.loss, entry.epsilon, entry.method, entry.measure,
            entry.alpha, entry.at,
        )  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """One comparison of a claim.

    Attributes
    ----------
    claim, data, epsilon, alpha
        The claim, and the problem on which two lines are compared.
    better, than
        Titles of the lines.
    difference, low, high
        The lead of the line that is said to be better and its 95 % interval; positive where it is
        better, whichever way the measure goes.
    repeats
        Repeats that both lines have.
    verdict
        `REPRODUCED`, `CONTRADICTED` or `UNDECIDED`.
    changed
        As in `Comparison`.
    """

    claim: Claim
    data: str
    epsilon: float
    alpha: float
    better: str
    than: str
    difference: float
    low: float
    high: float
    repeats: int
    verdict: str
    changed: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies the comparison."""
        return self.claim.text, self.data, self.epsilon, self.alpha, self.than


def resolution(value: float) -> float:
    """Return half a unit of the last digit that is printed."""
    text = f"{value:.10g}"
    digits = len(text.partition(".")[2].partition("e")[0])
    return 0.5 * 10.0**-digits if "e" not in text else 0.5 * value


def compared(values: np.ndarray, entry: Published) -> tuple[float, float, float, float, str]:
    """Return mean, its half width, difference, its half width, and the verdict."""
    k = len(values)
    mean = float(values.mean())
    difference = mean - entry.value
    if k < FEWEST:
        return mean, math.nan, difference, math.nan, UNDECIDED
    deviation = float(values.std(ddof=1))
    factor = float(stats.t.ppf((1 + LEVEL) / 2, k - 1))
    half = factor * deviation / math.sqrt(k)
    error = factor * deviation * math.sqrt(1 / k + 1 / entry.repeats) + resolution(entry.value)
    if entry.measure == "seconds":
        return mean, half, difference, error, ELSEWHERE
    if abs(difference) > error:
        return mean, half, difference, error, DIFFERS
    narrow = POINTS if entry.measure in SHARES else SHARE * abs(entry.value)
    return mean, half, difference, error, AGREES if error <= narrow else UNDECIDED


def numbers(runs: pd.DataFrame, experiment: str) -> list[Comparison]:
    """Compare every number that a paper prints for an experiment with the runs.

    A number that the paper chose from a grid is compared with the best setting of the grid under
    published constants, where there is one, else with the method's own default under them.
    """
    mine = runs[runs["experiment"] == experiment]
    entries = [entry for entry in PUBLISHED if entry.experiment == experiment]
    found = [_computed(entry) for entry in entries if entry.measure == "epsilon_spent"]
    if mine.empty:
        return []
    for measure in dict.fromkeys(entry.measure for entry in entries):
        if measure == "epsilon_spent" or mine[measure].isna().all():
            continue
        shown = best_settings(mine, "accuracy" if measure in ("seconds",) else measure)
        ends = final(shown)
        for entry in entries:
            if entry.measure == measure:
                found += _of_entry(shown if entry.at is not None else ends, entry)
    return found


def _computed(entry: Published) -> Comparison:
    """Return the comparison of an ε that no data decide: that of one step of SGD-MA on Adult."""
    rows = dpagd.ROWS["adult"]
    value = sgd.claimed(dpagd.batch(rows) / (dpagd.TRAINING * rows), 1, dpagd.DELTA)
    difference = value - entry.value
    error = 2 * resolution(entry.value)  # the paper may have cut digits off
    verdict = AGREES if abs(difference) <= error else DIFFERS
    line = f"{entry.method}|published|as released|default"
    return Comparison(entry, "any", line, value, math.nan, 1, difference, error, verdict)


def _of_entry(shown: pd.DataFrame, entry: Published) -> Iterator[Comparison]:
    """Yield the comparison of one number on each data set of that name."""
    rows = shown[
        (shown["data"].str.split(" (", regex=False).str[0] == entry.data)
        & (shown["loss"] == entry.loss)
        & (shown["method"] == entry.method)
        & (shown["difference"] == "")
        & (shown["problem"] == "")
    ]
    for name in ("epsilon", "alpha", "at"):
        printed = getattr(entry, name)
        if printed is not None:
            rows = rows[np.isclose(rows[name], printed)]
    if entry.relation:
        rows = rows[rows["relation"] == entry.relation]
    elif not rows.empty:  # a baseline counts for every budget and relation: take one
        first = rows[["relation", "epsilon", "delta"]].iloc[0]
        rows = rows[(rows[["relation", "epsilon", "delta"]] == first).all(axis=1)]
    for data, part in rows.groupby("data", sort=False):
        chosen = _chosen(part)
        values = chosen[entry.measure].dropna().to_numpy()
        if len(values):
            line = str(chosen["line"].iloc[0])
            mean, half, difference, error, verdict = compared(values, entry)
            yield Comparison(
                entry, str(data), line, mean, half, len(values), difference, error, verdict
            )


def _chosen(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the line to compare: published constants, tuned where a grid was run."""
    published = rows[rows["calibration"] == "published"]
    rows = published if len(published) else rows[rows["calibration"] != "tight"]
    for tuning in ("grid", "default"):
        for variant in ("private", "as released", "not private"):
            part = rows[(rows["tuning"] == tuning) & (rows["variant"] == variant)]
            if len(part):
                return part
    return rows.iloc[:0]


def claims(runs: pd.DataFrame, experiment: Experiment) -> list[Decision]:
    """Decide every claim of an experiment on every problem that it is about."""
    mine = named(runs[runs["experiment"] == experiment.name])
    mine = mine[mine["difference"] == ""]
    if any(pick.tuning == "grid" for one in experiment.claims for pick in (one.better, *one.than)):
        mine = best_settings(mine)
    mine = final(mine)
    found: list[Decision] = []
    for claim in experiment.claims:
        found += _of_claim(mine, claim)
    return found


def _of_claim(mine: pd.DataFrame, claim: Claim) -> Iterator[Decision]:
    """Yield a decision per problem and line that the claim names."""
    if claim.data:
        mine = mine[mine["data"].str.split(" (", regex=False).str[0].isin(claim.data)]
    if claim.epsilons:
        close = np.isclose(mine["epsilon"].to_numpy()[:, None], list(claim.epsilons))
        mine = mine[close.any(axis=1)]
    smoothed = mine["loss"].replace("huber-hinge", "hinge")
    mixed = "hinge" in set(mine["loss"])
    keys = ["data", "relation", "alpha", *(() if _across(claim) else ("epsilon",))]
    mine = mine.assign(loss=smoothed if mixed else mine["loss"])
    for _, part in mine.groupby([*keys, "loss"], dropna=False, sort=False):
        first = _picked(part, claim.better, claim.measure)
        for pick in claim.than:
            second = _picked(part, pick, claim.measure)
            if first is None or second is None:
                continue
            yield _decided(claim, part, first, second)


def _across(claim: Claim) -> bool:
    """Tell whether a claim compares different budgets."""
    return any(pick.epsilon is not None for pick in (claim.better, *claim.than))


def _picked(part: pd.DataFrame, pick: Pick, measure: str) -> tuple[str, pd.Series] | None:
    """Return the title of a line and its values per repeat, or None if it was not run."""
    rows = part[
        (part["method"] == pick.method) & (part["tuning"] == pick.tuning) & (part["problem"] == "")
    ]
    if pick.calibration:
        rows = rows[rows["calibration"] == pick.calibration]
    if pick.epsilon is not None:
        rows = rows[np.isclose(rows["epsilon"], pick.epsilon)]
    several = pick.tuning == "default" and rows["setting"].nunique() > 1
    if len(rows) and (pick.setting or several):
        own = defaults(pick.method)
        wanted = pick.setting or _fewest(rows)
        kept = [
            all(
                settings_of(text).get(name, own.get(name)) == value
                for name, value in wanted.items()
            )
            for text in rows["setting"]
        ]
        rows = rows[kept]
    if rows.empty or rows[measure].isna().all():
        return None
    words = [f"{name} = {value}" for name, value in pick.setting.items()]
    if pick.epsilon is not None:
        words.append(f"ε = {pick.epsilon:g}")
    title = title_of(str(rows["line"].iloc[0]))
    values = rows.groupby("repeat")[measure].mean()
    return ", ".join([title, *words]), values


def _fewest(rows: pd.DataFrame) -> dict[str, object]:
    """Return the setting of a pick without one: schedule and step at their defaults."""
    method = str(rows["method"].iloc[0])
    return {name: value for name, value in defaults(method).items() if name == "schedule"}


def _decided(
    claim: Claim, part: pd.DataFrame, first: tuple[str, pd.Series], second: tuple[str, pd.Series]
) -> Decision:
    """Decide one comparison by the interval of the paired difference."""
    both = pd.concat([first[1], second[1]], axis=1, keys=["first", "second"]).dropna()
    sign = 1.0 if MEASURES[claim.measure] else -1.0
    overlap = OVERLAP if claim.measure == "accuracy" else 0.0
    found = paired(sign * both["second"].to_numpy(), sign * both["first"].to_numpy(), overlap)
    verdict = UNDECIDED
    if found.repeats >= FEWEST and math.isfinite(found.low):
        if found.low > 0:
            verdict = REPRODUCED
        elif found.high < 0:
            verdict = CONTRADICTED
    return Decision(
        claim=claim,
        data=str(part["data"].iloc[0]),
        epsilon=math.nan if _across(claim) else float(part["epsilon"].iloc[0]),
        alpha=float(part["alpha"].iloc[0]),
        better=first[0],
        than=second[0],
        difference=found.mean,
        low=found.low,
        high=found.high,
        repeats=found.repeats,
        verdict=verdict,
    )


@dataclass(frozen=True)
class Slope:
    """A measured power of n or d beside that of a theorem, with its 95 % interval."""

    rate: Rate
    power: float
    half: float
    points: int
    repeats: int
    verdict: str


def slopes(runs: pd.DataFrame, experiment: Experiment) -> list[Slope]:
    """Measure the rates of an experiment: a least-squares line through logarithms per repeat."""
    mine = named(runs[runs["experiment"] == experiment.name])
    found = []
    for rate in experiment.rates:
        rows = mine[
            (mine["method"] == rate.pick.method)
            & (mine["calibration"] == rate.pick.calibration)
            & np.isclose(mine["alpha"], rate.alpha)
            & (mine[rate.measure] > 0)
        ]
        other = "d" if rate.x == "n" else "n"
        fixed = rows.groupby(other)[rate.x].nunique()
        if fixed.empty or fixed.max() < FEWEST:
            continue
        rows = rows[rows[other] == fixed.idxmax()]
        table = rows.pivot_table(values=rate.measure, index="repeat", columns=rate.x).dropna()
        if len(table) < FEWEST:
            continue
        x = np.log(table.columns.to_numpy(dtype=float))
        powers = np.polyfit(x, np.log(table.to_numpy()).T, 1)[0]
        factor = float(stats.t.ppf((1 + LEVEL) / 2, len(powers) - 1))
        half = factor * float(powers.std(ddof=1)) / math.sqrt(len(powers))
        power = float(powers.mean())
        apart = abs(power - rate.power)
        verdict = DIFFERS if apart > half else AGREES if half <= CLOSE else UNDECIDED
        found.append(Slope(rate, power, half, len(x), len(powers), verdict))
    return found


@dataclass(frozen=True)
class Retuned:
    """A grid whose setting is chosen by training rows: what that costs on the test rows.

    ``difference`` is the test accuracy of the setting that is the best on training rows, less that
    of the setting that is the best on test rows; ``low`` and ``high`` are its 95 % interval.
    """

    data: str
    line: str
    difference: float
    low: float
    high: float
    repeats: int


def retuned(runs: pd.DataFrame, experiment: str) -> list[Retuned]:
    """Compare the choice of settings by training rows with the choice by test rows."""
    mine = named(runs[(runs["experiment"] == experiment) & (runs["tuning"] == "grid")])
    if mine.empty or mine["train_accuracy"].isna().all():
        return []
    chosen = [best_settings(mine, measure) for measure in ("accuracy", "train_accuracy")]
    found = []
    for (data, line), by_test in chosen[0].groupby(["data", "line"], sort=False):
        by_train = chosen[1][(chosen[1]["data"] == data) & (chosen[1]["line"] == line)]
        values = [part.groupby("repeat")["accuracy"].mean() for part in (by_test, by_train)]
        both = pd.concat(values, axis=1, keys=["test", "train"]).dropna()
        lead = paired(both["test"].to_numpy(), both["train"].to_numpy())
        found.append(Retuned(str(data), str(line), lead.mean, lead.low, lead.high, lead.repeats))
    return found


def sentence(decisions: Sequence[Decision]) -> str:
    """State whether a claim was reproduced, from its decisions alone."""
    count = len(decisions)
    if not count:
        return "not run"
    tally = {
        word: sum(one.verdict == word for one in decisions)
        for word in (REPRODUCED, CONTRADICTED, UNDECIDED)
    }
    for word, number in tally.items():
        if number == count:
            return word if count == 1 else f"{word} in all {count} comparisons"
    parts = [f"{word} in {number}" for word, number in tally.items() if number]
    return f"{', '.join(parts)} of {count} comparisons"


Again = Mapping[tuple[str, str], str]
"""Verdicts of a second run, by experiment and `text_of` what is judged."""

_AGAIN = ["experiment", "what", "verdict"]

Judged = TypeVar("Judged", Comparison, Decision)


def text_of(key: tuple[object, ...]) -> str:
    """Return the key of a comparison or of a decision as text."""
    return " · ".join(map(str, key))


def settled(found: Sequence[Judged], experiment: str, again: Again) -> list[Judged]:
    """Return verdicts without those that a second run does not confirm."""
    kept = []
    for one in found:
        second = again.get((experiment, text_of(one.key)), one.verdict)
        if second != one.verdict:
            one = replace(one, verdict=UNDECIDED, changed=f"{one.verdict}, then {second}")
        kept.append(one)
    return kept


def judged(runs: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return the verdicts of runs; times of another machine have none."""
    found: dict[tuple[str, str], str] = {}
    for experiment in EXPERIMENTS.values():
        both: list[Comparison | Decision] = [*numbers(named(runs), experiment.name)]
        both += claims(runs, experiment)
        for one in both:
            if one.verdict != ELSEWHERE:
                found[experiment.name, text_of(one.key)] = one.verdict
    return found


def read_again(path: Path) -> dict[tuple[str, str], str]:
    """Read the verdicts of a second run; there are none without the file."""
    if not path.exists():
        return {}
    table = pd.read_csv(path, keep_default_na=False)
    return {(row.experiment, row.what): row.verdict for row in table.itertuples()}


def write_again(path: Path, verdicts: Again) -> None:
    """Write the verdicts of a second run."""
    rows = [(*key, verdict) for key, verdict in verdicts.items()]
    pd.DataFrame(rows, columns=_AGAIN).to_csv(path, index=False, lineterminator="\n")


def changes(first: pd.DataFrame, second: Again) -> pd.DataFrame:
    """Return the verdicts of two runs side by side, for what both have."""
    rows = [(*key, one, second[key]) for key, one in judged(first).items() if key in second]
    return pd.DataFrame(rows, columns=["experiment", "what", "first", "second"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the verdicts that differ between two sets of runs, and their share."""
    parser = argparse.ArgumentParser(description="Compare the verdicts of two sets of runs.")
    parser.add_argument("first", type=Path, help="a file of runs")
    parser.add_argument(
        "second", type=Path, nargs="+", help="files of the same experiments with another --seed"
    )
    parser.add_argument("--write", type=Path, help="file for the verdicts of the second set")
    asked = parser.parse_args(arguments)
    second = judged(read(*asked.second))
    found = changes(read(asked.first), second)
    changed = found[found["first"] != found["second"]]
    for row in changed.itertuples():
        print(f"{row.experiment}: {row.what}: {row.first} → {row.second}")
    share = len(changed) / max(1, len(found))
    print(f"{len(changed)} of {len(found)} verdicts differ ({share:.1%}).")
    if asked.write:
        write_again(asked.write, second)


def method_title(entry: Published) -> str:
    """Return the title of the method of a printed number."""
    return METHODS[entry.method].title


if __name__ == "__main__":
    main()
