"""Measure the default: scores, shares of what can be learned, and regret against another rule.

    python -m discreet_bench.default --rule new --against base --splits 5
    python -m discreet_bench.default --rule new --ablate whiten
    python -m discreet_bench.default --rule new --sensitivity PRECISION
    python -m discreet_bench.default --page  # table of docs/auto.md from bench/results/default.csv

A *rule* is a name for the code that fits. The code of another commit is measured by the same
command with ``PYTHONPATH`` at its sources, and ``--rule`` to name it; ``--against`` compares two
rules that were measured. Every fit is a row of a CSV file, so a run that was interrupted continues.

Tables (`real_tables`, `generated`) are divided by seeds, 80/20, so that all rules see the same
splits. A *share* is (private − trivial)/(non-private − trivial): trivial is 0.5 for AUC, the
frequencies' log loss and accuracy, and 0 for R²; non-private is scikit-learn's ridge or logistic
regression on the same columns, standardised. A *regret* is the loss of a score against another
rule on the same splits. Intervals have 95 %: of one table by Student's t over its splits, of
several tables by the root of their squared standard errors, as the tables are fixed.
"""

from __future__ import annotations

import argparse
import importlib
import math
import pkgutil
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import stats
from sklearn import linear_model
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

import discreet
from discreet import LinearRegression, LogisticRegression
from discreet.estimators import method
from discreet_bench import own_tables, records
from discreet_bench.tabular import TABLES, tabular

__all__ = ["SCORES", "Table", "ablated", "changed", "generated", "main", "measure", "regret"]

EPSILONS = (0.1, 0.3, 1.0)
LARGEST = 20_000
"""Training rows that are used of a table, unless told otherwise."""

SCORES = {"AUC": 1.0, "accuracy": 1.0, "log loss": -1.0, "R²": 1.0}
"""Scores, and the sign with which more is better."""

BEARABLE = {"AUC": (0.001, 0.003), "accuracy": (0.1, 0.3), "log loss": (0.005, 0.01)}
BEARABLE |= {"R²": (0.005, 0.01)}
"""Largest mean regret over tables, and largest regret of one table beyond its noise."""

FILE = Path("out/bench/default.csv")

KEPT = Path(__file__).parents[2] / "results" / "default.csv"
"""Fits that the tables of the documentation are made of."""

PAGE = Path(__file__).parents[3] / "docs" / "auto.md"

RAW = ("adult-raw", "bank-raw", "credit-default-raw")
ARRAYS = ("adult", "bank", "credit-default", "occupancy", "banknote", "kddcup99", "covertype")
ARRAYS += ("wine-quality", "bike-sharing", "elevators", "protein", "pol", "parkinsons", "concrete")
ARRAYS += ("mnist", "reuters", "plane")


@dataclass(frozen=True)
class Table:
    """Rows and targets; ``bounds`` of a target that is a number, and what columns declare."""

    name: str
    X: Any
    y: NDArray[Any]
    bounds: tuple[float, float] | None = None
    columns: Any = None
    encoded: Any = None
    """The columns as numbers, for models without privacy; X itself by default."""

    def split(self, seed: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return positions of training and test rows."""
        order = np.random.default_rng(1000 + seed).permutation(len(self.y))
        test, train = np.split(order, [len(order) // 5])
        return train[:rows], test[:LARGEST]

    def model(self, epsilon: float, n_rows: int, seed: int) -> Any:
        """Return the estimator with its default settings."""
        given: dict[str, Any] = {"columns": self.columns, "random_state": seed}
        if self.bounds is not None:
            return LinearRegression(epsilon, n_rows**-2.0, target_bounds=self.bounds, **given)
        return LogisticRegression(epsilon, n_rows**-2.0, classes=np.unique(self.y), **given)

    def plain(self, train: Any, test: Any) -> dict[str, float]:
        """Return the scores of a model without privacy."""
        X = self.X if self.encoded is None else self.encoded
        scaler = StandardScaler(with_mean=not sp.issparse(X)).fit(X[train])
        model: Any = linear_model.Ridge(1.0)
        if self.bounds is None:
            model = linear_model.LogisticRegression(max_iter=300)
        model.fit(scaler.transform(X[train]), self.y[train])
        return self.scores(model, scaler.transform(X[test]), self.y[test])

    def trivial(self, train: Any, test: Any) -> dict[str, float]:
        """Return the scores of a model that no column enters."""
        if self.bounds is not None:
            return {"R²": 0.0}
        labels, counts = np.unique(self.y[train], return_counts=True)
        chances = np.tile(counts / counts.sum(), (len(test), 1))
        most = 100 * float(np.mean(self.y[test] == labels[counts.argmax()]))
        loss = float(log_loss(self.y[test], chances, labels=labels))
        return {"accuracy": most, "log loss": loss, "AUC": 0.5}

    def scores(self, model: Any, X: Any, y: NDArray[Any]) -> dict[str, float]:
        """Return the scores of a model on test rows."""
        if self.bounds is not None:
            return {"R²": float(r2_score(y, np.clip(model.predict(X), *self.bounds)))}
        chances = model.predict_proba(X)
        labels = model.classes_[chances.argmax(axis=1)]
        found = {"accuracy": 100 * float(accuracy_score(y, labels))}
        if chances.shape[1] == 2:
            found["AUC"] = float(roc_auc_score(y, chances[:, 1]))
        found["log loss"] = float(log_loss(y, np.clip(chances, 1e-15, 1), labels=model.classes_))
        return found


@dataclass(frozen=True)
class Fit:
    """One score of one fit, with those of the trivial model and of one without privacy."""

    rule: str
    table: str
    rows: int
    epsilon: float
    split: int
    score: str
    value: float
    trivial: float
    plain: float
    seconds: float


# ---- tables


def real_tables() -> dict[str, Callable[[], Table]]:
    """Return the tables of files: typed tables by kind and as arrays, arrays, and raw arrays."""
    found: dict[str, Callable[[], Table]] = {}
    for name in own_tables.TABLES:
        found[name] = lambda name=name: _own(name, typed=True)  # type: ignore[misc]
        found[f"{name}-array"] = lambda name=name: _own(name, typed=False)  # type: ignore[misc]
    for name in (*ARRAYS, *RAW, *TABLES):
        found.setdefault(name, lambda name=name: _array(name))  # type: ignore[misc]
    return found


def _own(name: str, *, typed: bool) -> Table:
    frame, y, bounds = own_tables.read(name)
    X = own_tables.encoded(frame)
    if typed:
        return Table(name, frame, y, bounds, own_tables.levels(frame) or None, X)
    return Table(f"{name}-array", X, y, bounds)


def _array(name: str) -> Table:
    table = tabular(name)
    return Table(name, table.X, table.y, table.bounds)


def generated(seed: int) -> Table:
    """Return a table drawn from the prior over tables; the seed says which.

    Of 2,000 to 20,000 rows. Columns are normal, log-normal (a long tail), indicators, or numbers
    that most rows lack, in units of 10^−6 to 10^6 or all of one, far from 0 or not; correlated or
    not. Targets are numbers, two or more classes, and a line explains 0.1 to 0.9 of them.
    """
    rng = np.random.default_rng([35, seed])
    n = round(float(np.exp(rng.uniform(math.log(2_500), math.log(25_000)))))
    d = round(float(np.exp(rng.uniform(math.log(4), math.log(120)))))
    kinds = rng.choice(4, d, p=rng.dirichlet([1.0, 0.7, 0.7, 0.4]))
    common = rng.uniform(0, 0.8) * rng.integers(2)
    Z = math.sqrt(1 - common) * rng.normal(size=(n, d))
    Z += math.sqrt(common) * rng.normal(size=(n, 1)) * rng.choice([-1.0, 1.0], d)
    X = Z.copy()
    tail = rng.uniform(0.5, 1.5)
    X[:, kinds == 1] = np.exp(tail * Z[:, kinds == 1])
    cut = rng.uniform(0, 2.2, d)
    X[:, kinds == 2] = (cut < Z)[:, kinds == 2]
    X[:, kinds == 3] = (np.where(cut < Z, np.exp(Z), 0.0))[:, kinds == 3]
    used = rng.random(d) < rng.choice([0.2, 1.0])
    used[rng.integers(d)] = True
    standard = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    several = int(rng.choice([0, 0, 2, 2, 3, 6]))
    weights = rng.normal(size=(d, max(several - 1, 1))) * used[:, None]
    signal = np.clip(standard, -4, 4) @ weights
    signal /= signal.std(axis=0)
    explained = rng.uniform(0.1, 0.9)
    noise = rng.normal(size=signal.shape)
    target = math.sqrt(explained) * signal + math.sqrt(1 - explained) * noise
    if rng.integers(2):
        numbers = kinds != 2
        X[:, numbers] *= 10.0 ** rng.uniform(-6, 6, numbers.sum())
        far = numbers & (kinds == 0) & (rng.random(d) < 0.2)
        X[:, far] += 10.0 ** rng.uniform(0, 2) * X[:, far].std(axis=0)
    name = f"generated-{seed}"
    if several == 0:
        bounds = (-4.0, 4.0)
        return Table(name, X, np.clip(target[:, 0], *bounds), bounds)
    if several == 2:
        y = target[:, 0] > rng.choice([0.0, 0.8, 1.6])
    else:
        y = np.column_stack([target, np.zeros(n)]).argmax(axis=1)
    return Table(name, X, y.astype(np.int64))


def table_of(name: str) -> Table:
    """Return a table by name; ``generated-7`` is drawn by the seed 7."""
    kind, _, seed = name.rpartition("-")
    return generated(int(seed)) if kind == "generated" else real_tables()[name]()


# ---- fits


def measure(
    rule: str, names: Iterable[str], epsilons: Sequence[float], splits: int, rows: int, path: Path
) -> None:
    """Fit what the file does not have yet, and add it to the file."""
    before = records.read(path, Fit)
    done = {(fit.rule, fit.table, fit.epsilon, fit.split) for fit in before}
    known = {(f.table, f.rows, f.split, f.score): f.plain for f in before}
    for name in names:
        cells = [(seed, at) for seed in range(splits) for at in epsilons]
        cells = [(seed, at) for seed, at in cells if (rule, name, at, seed) not in done]
        if not cells:
            continue
        table = table_of(name)
        plain: dict[int, dict[str, float]] = {}
        for seed, epsilon in cells:
            train, test = table.split(seed, rows)
            trivial = table.trivial(train, test)
            had = {s: known.get((name, len(train), seed, s)) for s in trivial}
            if seed not in plain:
                kept = {score: value for score, value in had.items() if value is not None}
                plain[seed] = kept or table.plain(train, test)
            start = time.process_time()
            model = table.model(epsilon, len(train), seed).fit(
                _rows(table.X, train), table.y[train]
            )
            seconds = time.process_time() - start
            for score, value in table.scores(model, _rows(table.X, test), table.y[test]).items():
                about = (rule, name, len(train), epsilon, seed, score, value)
                row = Fit(*about, trivial[score], plain[seed][score], seconds)
                records.append(path, row)


def _rows(X: Any, at: NDArray[np.int64]) -> Any:
    return X.iloc[at] if isinstance(X, pd.DataFrame) else X[at]


@contextmanager
def ablated(step: str) -> Iterator[None]:
    """Leave a step of the preparation out of every choice of the rule."""
    rule = method._rule

    def without(*given: Any, **settings: Any) -> Any:
        choice = rule(*given, **settings)
        return choice._replace(steps=tuple(each for each in choice.steps if each.name != step))

    with mock.patch.object(method, "_rule", without):
        yield


@contextmanager
def changed(number: str, factor: float) -> Iterator[None]:
    """Multiply a tuned number by a factor, in all modules that have it by this name."""
    method._rule.cache_clear()
    found = False
    with ExitStack() as stack:
        for info in pkgutil.walk_packages(discreet.__path__, "discreet."):
            if not info.name.startswith(PACKAGES):
                continue
            module = importlib.import_module(info.name)
            value = getattr(module, number, None)
            if value is not None:
                found = True
                stack.enter_context(mock.patch.object(module, number, _times(value, factor)))
        if not found:
            raise SystemExit(f"no module of the default has the number {number}.")
        yield
    method._rule.cache_clear()


PACKAGES = ("discreet.estimators", "discreet.preparation", "discreet.solvers")


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_times(each, factor) for each in value)
    return max(round(value * factor), 1) if isinstance(value, int) else value * factor


# ---- results


class Interval(NamedTuple):
    """A mean with half of its interval's width, and the standard error."""

    mean: float
    half: float
    error: float


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of the splits of one table with a 95 % interval by Student's t."""
    count = len(values)
    if count < 2:
        return Interval(float(np.mean(values)), math.nan, math.nan)
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    return Interval(float(np.mean(values)), float(stats.t.ppf(0.975, count - 1)) * error, error)


def pooled(parts: Sequence[Interval]) -> Interval:
    """Return the mean over tables, whose errors are independent."""
    error = math.sqrt(float(np.nansum([part.error**2 for part in parts]))) / len(parts)
    return Interval(float(np.mean([part.mean for part in parts])), 1.96 * error, error)


Cells = dict[tuple[str, float, str], dict[int, Fit]]
"""Fits by table, ε and score, then by split."""


def cells_of(fits: Iterable[Fit], rule: str) -> Cells:
    """Return the fits of one rule."""
    found: Cells = defaultdict(dict)
    for fit in fits:
        if fit.rule == rule:
            found[fit.table, fit.epsilon, fit.score][fit.split] = fit
    return found


def regret(fits: Iterable[Fit], rule: str, against: str) -> dict[tuple[str, float, str], Interval]:
    """Return the loss of a rule against another by table, ε and score, on their common splits."""
    fits = list(fits)
    own, other = cells_of(fits, rule), cells_of(fits, against)
    found = {}
    for key in own:
        both = sorted(own[key].keys() & other.get(key, {}).keys())
        if both:
            sign = SCORES[key[2]]
            found[key] = interval([sign * (other[key][s].value - own[key][s].value) for s in both])
    return found


def shares(fits: Iterable[Fit], rule: str) -> dict[tuple[str, float, str], Interval]:
    """Return what a rule learned of what can be learned, by table, ε and score."""
    found = {}
    for key, splits in cells_of(fits, rule).items():
        every = list(splits.values())
        room = float(np.mean([fit.plain - fit.trivial for fit in every]))
        if abs(room) > 1e-3:
            found[key] = interval([(fit.value - fit.trivial) / room for fit in every])
    return found


def print_regret(found: dict[tuple[str, float, str], Interval]) -> None:
    """Print mean and worst regrets by ε and score, and the tables beyond the bars."""
    print("| ε | score | tables | mean regret | largest | table | beyond the bar |")
    print("|---:|---|---:|---:|---:|---|---|")
    for epsilon, score in sorted({(key[1], key[2]) for key in found}):
        parts = {key[0]: at for key, at in found.items() if key[1:] == (epsilon, score)}
        mean = pooled(list(parts.values()))
        worst = max(parts, key=lambda name: parts[name].mean)
        bar = BEARABLE[score][1]
        bad = [name for name, at in parts.items() if at.mean > max(bar, 3 * _zero(at.error))]
        texts = [f"{mean.mean:.4f} ± {mean.half:.4f}", f"{parts[worst].mean:.4f}", worst]
        texts[1] += f" ± {parts[worst].half:.4f}"
        print(f"| {epsilon:g} | {score} | {len(parts)} | {' | '.join(texts)} | {', '.join(bad)} |")


def _zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def shares_table(found: dict[tuple[str, float, str], Interval]) -> str:
    """Return shares of what can be learned: a row per table and score, a column per ε."""
    epsilons = sorted({key[1] for key in found})
    lines = ["| table | score | " + " | ".join(f"ε = {at:g}" for at in epsilons) + " |"]
    lines.append("|---|---|" + "---:|" * len(epsilons))
    for name, score in sorted({(key[0], key[2]) for key in found}):
        texts = []
        for epsilon in epsilons:
            at = found.get((name, epsilon, score))
            texts.append("" if at is None else f"{at.mean:.2f} ± {at.half:.2f}")
        lines.append(f"| {name} | {score} | {' | '.join(texts)} |")
    return "\n".join(lines)


def print_shares(found: dict[tuple[str, float, str], Interval]) -> None:
    """Print the shares, and their median and least by ε and score."""
    print(shares_table(found))
    for epsilon in sorted({key[1] for key in found}):
        for score in SCORES:
            own = [at.mean for key, at in found.items() if key[1:] == (epsilon, score)]
            if own:
                middle, least = float(np.median(own)), min(own)
                print(f"- ε = {epsilon:g}, {score}: median {middle:.2f}, least {least:.2f}")


def page_shares() -> str:
    """Return the table of docs/auto.md: shares of the own tables by the kept fits."""
    fits = [fit for fit in records.read(KEPT, Fit) if fit.table in own_tables.TABLES]
    return shares_table(shares(fits, "default"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rule", default="default", help="name of the code that is measured")
    parser.add_argument("--against", help="compare with this rule, measured before")
    parser.add_argument("--tables", help="names, divided by commas; default: all that there are")
    parser.add_argument("--generated", type=int, default=12, help="number of generated tables")
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=LARGEST, help="largest number of rows of a fit")
    parser.add_argument("--ablate", help="measure without this step, such as whiten")
    parser.add_argument("--sensitivity", help="measure with this number halved and doubled")
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--shares", action="store_true", help="print shares as well")
    parser.add_argument("--page", action="store_true", help="write the table of docs/auto.md")
    asked = parser.parse_args(arguments)
    if asked.page:
        records.replace_block(PAGE, "shares", page_shares())
        return
    names = asked.tables.split(",") if asked.tables else [*own_tables.TABLES, *RAW, *ARRAYS]
    if not asked.tables:
        names += [f"generated-{seed}" for seed in range(asked.generated)]
    epsilons = tuple(float(at) for at in asked.epsilons.split(","))
    settings = (names, epsilons, asked.splits, asked.rows, asked.file)
    warnings.simplefilter("ignore")  # seeded noise and labels are intended
    measure(asked.rule, *settings)
    others = []
    if asked.ablate:
        others.append(f"{asked.rule} without {asked.ablate}")
        with ablated(asked.ablate):
            measure(others[-1], *settings)
    for factor in (0.5, 2.0) if asked.sensitivity else ():
        others.append(f"{asked.rule}, {asked.sensitivity} × {factor:g}")
        with changed(asked.sensitivity, factor):
            measure(others[-1], *settings)
    fits = [f for f in records.read(asked.file, Fit) if f.table in names and f.epsilon in epsilons]
    pairs = [(other, asked.rule) for other in others]
    if asked.against:
        pairs.append((asked.rule, asked.against))
    for rule, against in pairs:
        print(f"\nRegret of {rule} against {against}\n")
        print_regret(regret(fits, rule, against))
    if asked.shares or not pairs:
        print(f"\nShares of what can be learned, {asked.rule}\n")
        print_shares(shares(fits, asked.rule))


if __name__ == "__main__":
    main()
