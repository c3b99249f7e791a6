"""The default estimator against the best of all published methods, tuned with hindsight.

    DISCREET_DATA=folder python -m bench.studies.auto_grid seeds --out seeds.csv [--minutes 100]
    DISCREET_DATA=folder python -m bench.studies.auto_grid auto --out auto.csv
    python -m bench.studies.auto_grid report --out seeds.csv auto.csv

A cell is a data set and an ε; splits are 80/20 with seeds 0, 1, 2 (ten for tiny tables), δ = 1/n²
for n training rows. ``auto`` fits ``LogisticRegression(epsilon, delta)`` with nothing else set.
``seeds`` looks for the best that any published method reaches, made private (tight calibration) but
**tuned with hindsight on the test rows, which is not private**. ``report`` compares them.

The search: every method starts from one setting, on rows scaled to norm 1 and as encoded (with the
schema's public maximal norm), with the logistic and the Huber hinge loss: a fit on split 0 each.
From the best of the three best methods it climbs to neighbouring values. The best settings get a
fit on another split, the best of these a third and a fourth; the two best of all are fitted on all
splits with fresh noise (unless a fit takes over 20 s), so that the mean is not that of the lucky.
At ε = 0.1 and 1 every method takes part; elsewhere those at most 3 points behind at the nearest
smaller or larger ε, after the best settings found there. What takes too long is given up, and said.
A fit is a line of the file and not run again: take a new file when the code has changed.

Noise is seeded by the setting, to be repeatable; its distribution and speed are those of secure
noise, with which ``auto`` runs. ``sgd-ma`` with tight calibration is ``sgd`` and not run twice;
``sgd-adv`` has other batches. Methods with a proof under replace-one only run under it, at the same
ε: the table says so. ``majority`` is not private; it is what no learning at all would reach.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import signal
import warnings
import zlib
from collections import Counter, namedtuple
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from bench.studies.auto_table import table_of
from discreet import LinearSVC, LogisticRegression
from discreet.solvers import resolve
from discreet_bench.datasets import load
from discreet_bench.solver import in_a_cell

NAMES = ["adult", "bank", "kddcup99", "covertype", "mnist", "credit-default", "banknote",
         "occupancy", "reuters", "synthetic-l", "synthetic-h"]  # fmt: skip
MODELS = {"logistic": LogisticRegression, "huber": LinearSVC}
BY_ENTRIES = ("frank-wolfe",)  # rows are clipped by their largest entry, not their norm
EPSILONS = (0.1, 1.0, 0.05, 0.2, 0.4, 0.8, 1.6)  # in the order of the search
ANCHORS = EPSILONS[:2]  # where every method takes part
SPLITS, SMALL, MORE_SPLITS, COVERTYPE_ROWS = 3, 2000, 10, 100_000  # more splits for small tables
TOLERANCE, LOSING = 0.3, 3.0  # points below: of the default; of a method not looked at further
CAP, JOINT_CAP = 15.0, 120.0  # processor seconds a fit; of one model for all of many classes
LONG = 20.0  # seconds of a fit that is not repeated
CARRIED, CLIMBED, ROUNDS, HALVES, FINALISTS = 6, 3, 4, (16, 8, 4), 2  # how many, at each stage
WEIGHTS = {"mnist": 6.0, "covertype": 2.0}  # how much of the time a cell gets, where not 1

# Values of each setting in order, and where the search starts. `share` is the batch as a share of
# the rows; None is the solver's own rule.
_PENALTIES, _NORMS = (0.0, 1e-4, 1e-3, 1e-2), (1.0, 3.0, 10.0, 30.0, 100.0)
_SHARES, _LOSSES, _ROWS = (None, 0.01, 0.1), ("logistic", "huber"), ("unit", "encoded")
Axes = dict[str, tuple[tuple[Any, ...], Any]]
# fmt: off
_SGD: Axes = {"step_size": ((0.3, 1.0, 3.0, None, 10.0, 30.0), None),
              "iterations": ((30, 100, None, 1000), None),
              "gradient_clip": ((0.1, 0.3, 1.0, 3.0), 1.0), "share": ((None, 0.1, 1.0), None)}
METHODS: dict[str, Axes] = {
    "majority": {}, "sgd": _SGD,
    "objpert": {"noise_reach": ((2.5, 5.0, 10.0, 20.0, 40.0, 80.0), 20.0)},
    "permutation-sgd": {
        "weight_norm": (_NORMS, 10.0), "passes": ((1, 3, 10, 30), 3), "share": (_SHARES, None)},
    "outpert": {"weight_norm": (_NORMS, 10.0), "alpha": (_PENALTIES, 0.0)},
    "agd": {"splits": ((5, 10, 20, 60), 20), "gradient_clip": ((0.3, 1.0, 3.0), 1.0),
            "alpha": (_PENALTIES, 1e-4)},
    "sgd-adv": _SGD, "amp-hf": {"alpha": (_PENALTIES, 0.0)},
    "amp": {"objective_fraction": ((0.5, 0.8, 0.9, 0.95, 0.99), 0.9), "alpha": (_PENALTIES, 0.0)},
    "permutation-sgd, strongly-convex": {"alpha": ((1e-4, 1e-3, 1e-2, 0.1), 1e-2),
        "passes": ((3, 10, 30), 10), "share": ((None, 0.1), None)},
    "frank-wolfe": {"radius": ((3.0, 10.0, 20.0, 50.0, 150.0), 20.0),
                    "iterations": ((10, 30, None, 100, 300), None)},
    "laplace-sgd": {"step_size": ((0.1, 0.3, 1.0, 3.0, 10.0), 3.0),
                    "averaging": ((False, True), True), "passes": ((1, 3), 1)},
    "privgene": {"generations": ((10, 30, None, 100), None), "mutation": ((0.3, 1.0, 3.0), 1.0)},
    "rrpsgd": {"max_rounds": ((2000, 20_000, None), 20_000)},
}
VARIANTS: Axes = {"loss": (_LOSSES, "logistic"), "rows": (_ROWS, "unit")}
# fmt: on
written = partial(json.dumps, sort_keys=True)  # a setting as it stands in the file
Runs = dict[str, dict[int, float]]  # of each setting, its accuracy on each split
# A line of the file; `under` is the relation it was accounted under, `note` says why it failed.
Fit = namedtuple(
    "Fit", "data epsilon relation stage method setting split under accuracy seconds note",
    defaults=("", math.nan, 0.0, ""))  # fmt: skip


class Log:
    """The fits so far, from files; new ones are appended to the first of them."""

    def __init__(self, *paths: Path) -> None:
        self.fits: list[Fit] = []
        self._path = paths[0]
        kinds = {**dict.fromkeys(("epsilon", "accuracy", "seconds"), float), "split": int}
        for path in (path for path in paths if path.exists()):
            with path.open(newline="") as file:
                rows = list(csv.DictReader(file))
            self.fits += [Fit(**{k: kinds.get(k, str)(v) for k, v in row.items()}) for row in rows]

    def add(self, fit: Fit) -> Fit:
        """Keep a fit."""
        self.fits.append(fit)
        with self._path.open("a", newline="") as file:
            csv.writer(file).writerows([fit] if file.tell() else [Fit._fields, fit])
        return fit

    def select(self, **wanted: Any) -> list[Fit]:
        """The fits that have these values."""
        return [x for x in self.fits if all(getattr(x, key) == v for key, v in wanted.items())]

    def runs(self, **wanted: Any) -> Runs:
        """The accuracies on each split of every setting that could be fitted."""
        found: Runs = {}
        for fit in (fit for fit in self.select(**wanted) if math.isfinite(fit.accuracy)):
            found.setdefault(fit.setting, {})[fit.split] = fit.accuracy
        return found


def ranked(runs: Runs, least: int = 0) -> list[str]:
    """Settings by mean accuracy; those fitted on ``least`` splits before the others."""
    return sorted(runs, key=lambda text: (-min(len(runs[text]), least), -mean(runs[text])))


def mean(run: dict[int, float]) -> float:
    return float(np.mean(list(run.values())))


class Table:
    """An encoded data set, its splits, and the public bound on its rows' norms."""

    def __init__(self, name: str, X: Any, y: Any, max_norm: float) -> None:
        self.name, self.X, self.y, self.max_norm = name, X, y, max_norm
        self.labels = np.unique(y)
        self.splits: dict[int, Any] = {}
        self.n_splits = SPLITS if len(y) >= SMALL else MORE_SPLITS

    @classmethod
    def read(cls, name: str) -> Table:
        """As `bench.studies.auto_table` cuts it; Covertype is cut as well."""
        X, y = table_of(name)
        if name == "covertype":
            kept = np.random.default_rng(0).permutation(len(y))[:COVERTYPE_ROWS]
            X, y = X[kept], y[kept]
        return cls(name, X, y, float(load(name).max_norm or math.inf))

    def split(self, seed: int) -> Any:
        """Training rows, test rows and their labels; kept until ``splits`` is cleared."""
        if seed not in self.splits:
            self.splits[seed] = train_test_split(self.X, self.y, test_size=0.2, random_state=seed)
        return self.splits[seed]


def scored(model: Any, table: Table, fit: Fit, cap: float = 1e6) -> Fit:
    """Fit a model on a split; ``cap`` is in seconds of this process, as others may run."""
    train, test, y_train, y_test = table.split(fit.split)

    def give_up(*_: Any) -> None:
        raise TimeoutError(f"over {cap:g} s")

    start, note, accuracy = process_time(), "", math.nan
    signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, cap)
    try:
        model.fit(train, y_train)
        accuracy = 100 * float(np.mean(model.predict(test) == y_test))
    except Exception as error:  # a published method that fails must not end the comparison
        if fit.stage == "auto":
            raise
        note = str(error) if isinstance(error, TimeoutError) else in_a_cell(error)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return fit._replace(accuracy=accuracy, seconds=process_time() - start, note=note)


def method_of(text: str) -> str:
    return str(json.loads(text)["method"])


def tried(table: Table, fit: Fit) -> Fit:
    """One setting on one split."""
    setting, n_rows = json.loads(fit.setting), len(table.split(fit.split)[2])
    name, _, mode = setting.pop("method").partition(", ")
    loss, rows, alpha = setting.pop("loss"), setting.pop("rows"), setting.pop("alpha", 0.0)
    share, modes = setting.pop("share", None), {"mode": mode} if mode else {}
    batch = {} if share is None else {"batch_size": max(1, round(share * n_rows))}
    solver = replace(resolve(name), **setting, **modes, **batch)  # type: ignore[type-var]
    under = fit.relation if fit.relation in solver.relations else str(solver.relations[0])
    seed = zlib.crc32(repr(fit).encode()) % 2**31
    norm = 1.0 if rows == "unit" else None if name in BY_ENTRIES else table.max_norm
    model = MODELS[loss](fit.epsilon, 1 / n_rows**2, relation=under, solver=solver, alpha=alpha,
                         data_norm=norm, classes=table.labels, random_state=seed)  # fmt: skip
    cap = JOINT_CAP if solver.takes_outputs and len(table.labels) > 2 else CAP
    return scored(model, table, fit._replace(under=under), cap)


class Search:
    """The search for the best setting of all methods in one cell, within an allowance of time."""

    def __init__(self, log: Log, table: Table, epsilon: float, relation: str, time: float) -> None:
        self.log, self.table, self.epsilon = log, table, epsilon
        self.all = {"data": table.name, "relation": relation}  # all cells of the data set
        self.cell: dict[str, Any] = {**self.all, "epsilon": epsilon}
        self._begun, self._allowed = monotonic(), time
        self._known = {(x.stage, x.setting, x.split): x for x in log.select(**self.cell)}
        bounds = _ROWS if table.max_norm > 1 else _ROWS[:1]  # else the same rows
        self._variants: Axes = {**VARIANTS, "rows": (bounds, "unit")}
        self.skipped: Counter[str] = Counter()

    def run(self) -> None:
        """Start, climb, halve, and fit the finalists again."""
        self._try([written({"method": "majority", "loss": "logistic", "rows": "unit"})], math.inf)
        self._try(self._starts(), 0.5)
        for _ in range(ROUNDS):
            if not self._try(self._around(), 0.7):
                break
        for split, kept in enumerate(HALVES, start=1):
            for text in ranked(self._runs(), split)[:kept]:
                self._fit(text, split, 0.9)
        for place, text in enumerate(ranked(self._runs(), len(HALVES) + 1)[:FINALISTS]):
            for split in range(self.table.n_splits):
                known = self._known.get(("screen", text, split))
                if known and known.seconds > LONG and ("final", text, split) not in self._known:
                    self._keep(known._replace(stage="final"))
                self._fit(text, split, 1.5 if place + split else math.inf, "final")

    def _keep(self, fit: Fit) -> None:
        self._known[fit.stage, fit.setting, fit.split] = self.log.add(fit)
        if fit.note:
            self.skipped[f"{fit.method}: {fit.note}"] += 1

    def _runs(self) -> Runs:
        return self.log.runs(**self.cell, stage="screen")

    def _fit(self, text: str, split: int, share: float, stage: str = "screen") -> bool:
        """Fit a setting if it is new and there is time; whether it was fitted."""
        method, known = method_of(text), (stage, text, split)
        if known in self._known:
            return False
        fits = self.log.select(**self.all, method=method)
        slow = {fit.setting for fit in fits if fit.note.startswith("over")}
        if text in slow or (slow and not any(math.isfinite(fit.accuracy) for fit in fits)):
            self.skipped[f"{method}: it was too slow before"] += 1
        elif monotonic() - self._begun > share * self._allowed:
            self.skipped["the cell's time was over"] += 1
        else:
            fit = Fit(**self.cell, stage=stage, method=method, setting=text, split=split)
            self._keep(tried(self.table, fit))
        return known in self._known

    def _try(self, texts: Iterable[str], share: float) -> int:
        return sum([self._fit(text, 0, share) for text in dict.fromkeys(texts)])

    def _starts(self) -> list[str]:
        """The best of the neighbouring cells, then every method that does not lose there."""
        near: list[Runs] = []
        if self.epsilon not in ANCHORS:
            others = sorted({fit.epsilon for fit in self.log.select(**self.all, stage="screen")})
            below = [other for other in others if other < self.epsilon][-1:]
            above = [other for other in others if other > self.epsilon][:1]
            near = [self.log.runs(**self.all, epsilon=e, stage="screen") for e in below + above]
        losses, bounds = (values for values, _ in self._variants.values())
        return [text for runs in near for text in ranked(runs, len(HALVES) + 1)[:CARRIED]] + [
            written({"method": name, "loss": loss, "rows": rows} | {a: axes[a][1] for a in axes})
            for loss, rows in itertools.product(losses, bounds)
            for name, axes in METHODS.items()
            if name != "majority" and not loses(name, near)
        ]

    def _around(self) -> list[str]:
        """Settings one step along one axis from the best setting of each of the best methods."""
        leaders: dict[str, str] = {}
        for text in ranked(self._runs()):
            leaders.setdefault(method_of(text), text)
        leaders.pop("majority", None)
        found: list[str] = []
        for name, text in list(leaders.items())[:CLIMBED]:
            setting = json.loads(text)
            for axis, (values, _) in {**METHODS[name], **self._variants}.items():
                place = values.index(setting[axis])
                steps = values[max(place - 1, 0) : place] + values[place + 1 : place + 2]
                found += [written({**setting, axis: value}) for value in steps]
        return found


def loses(method: str, near: list[Runs]) -> bool:
    """Whether a method is far behind in all the neighbouring cells where it was tried."""
    own = [[mean(runs[text]) for text in runs if method_of(text) == method] for runs in near]
    top = [max(map(mean, runs.values()), default=0.0) for runs in near]
    behind = [best - max(means) for best, means in zip(top, own, strict=True) if means]
    return bool(behind) and min(behind) > LOSING


def search(tables: list[Table], log: Log, relation: str, seconds: float) -> Iterator[str]:
    """Search all cells, each with its share of what time is left; says what each came to."""
    cells = list(itertools.product(EPSILONS, tables))
    weights = [WEIGHTS.get(table.name, 1.0) * (1 + (e in ANCHORS)) for e, table in cells]
    end = monotonic() + seconds
    for place, (epsilon, table) in enumerate(cells):
        left = end - monotonic()
        if left <= 0:
            yield f"The time is over: {len(cells) - place} of {len(cells)} cells were not begun."
            return
        due = left * weights[place] / sum(weights[place:])
        looking = Search(log, table, epsilon, relation, due)
        looking.run()
        table.splits.clear()
        words, runs = best_of(log, **looking.cell)
        yield f"{table.name}, ε = {epsilon:g}: {spread(runs)} by {words}"
        yield from (f"    left out {times}: {why}" for why, times in looking.skipped.items())


def defaults(table: Table, log: Log, relation: str) -> None:
    """Fit the default estimator in all cells of a data set."""
    for epsilon, split in itertools.product(EPSILONS, range(table.n_splits)):
        fit = Fit(table.name, epsilon, relation, "auto", "auto", "{}", split, relation)
        if not any(known[:7] == fit[:7] for known in log.fits):
            delta = 1 / len(table.split(split)[2]) ** 2
            model = LogisticRegression(epsilon, delta, relation=relation, classes=table.labels)
            log.add(scored(model, table, fit))


def best_of(log: Log, **cell: Any) -> tuple[str, dict[int, float]]:
    """The best of the finalists of a cell in words, and its accuracy on each split."""
    runs = log.runs(**cell, stage="final")
    if not runs:
        return "–", {}
    best = ranked(runs, max(map(len, runs.values())))[0]
    under = log.select(**cell, stage="final", setting=best)[0].under
    setting, proof = json.loads(best), "" if under == cell["relation"] else f" under {under}"
    words = f"{setting.pop('method')}{proof}"
    settings = (f"{key}={'own' if value is None else value}" for key, value in setting.items())
    return f"{words} ({', '.join(settings)})", runs[best]


def report(log: Log, relation: str) -> Iterator[str]:
    """The table in Markdown, line by line, then the cells that fail."""
    yield f"Relation {relation}; the best is **tuned with hindsight, not private**.\n"
    yield "| data | ε | auto | best of the published | accuracy | splits | tried | difference | |"
    yield "|---|---:|---:|---|---:|---:|---:|---:|---|"
    failing, names = [], dict.fromkeys([*NAMES, *(fit.data for fit in log.fits)])
    for name, epsilon in itertools.product(names, sorted(EPSILONS)):
        cell = {"data": name, "epsilon": epsilon, "relation": relation}
        auto = log.runs(**cell, stage="auto").get("{}", {})
        words, runs = best_of(log, **cell)
        common = auto.keys() & runs.keys()
        points = np.mean([auto[split] - runs[split] for split in common]) if common else math.nan
        tried = f"{len(runs)} | {len(log.runs(**cell, stage='screen'))}"
        shown = [name, f"{epsilon:g}", spread(auto), words, spread(runs), tried]
        shown += [f"{points:+.2f}" if common else "–", "below" if points < -TOLERANCE else ""]
        if shown[-1]:
            failing.append(f"- {name}, ε = {epsilon:g}: {points:+.2f} to {words}")
        if auto or runs:
            yield "| " + " | ".join(shown) + " |"
    yield f"\nMore than {TOLERANCE} points below in {len(failing)} cells:\n"
    yield from failing


def spread(run: dict[int, float]) -> str:
    return f"{mean(run):.2f} ± {np.std(list(run.values())):.2f}" if run else "–"


def main() -> None:
    """Read the command line and do one of the three."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["seeds", "auto", "report"])
    parser.add_argument("--out", nargs="+", type=Path, required=True, help="files of fits")
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--relation", choices=["add_remove", "replace_one"], default="add_remove")
    parser.add_argument("--minutes", type=float, default=100.0)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    log = Log(*asked.out)
    lines = report(log, asked.relation)  # begins when it is asked for a line
    if asked.command == "seeds":
        lines = search(list(map(Table.read, asked.data)), log, asked.relation, 60 * asked.minutes)
    elif asked.command == "auto":
        for name in asked.data:
            defaults(Table.read(name), log, asked.relation)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
