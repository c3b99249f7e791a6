"""Measure the default and other libraries on the same splits and budgets.

    python -m discreet_bench.rivals --seeds 5                    # measure what is missing
    python -m discreet_bench.rivals --again discreet             # measure the default anew
    python -m discreet_bench.rivals --seeds 0 --page docs/rivals.md   # tables from the rows alone

Splits are 80/20 and seeded. All methods get the same encoded table and the same public bounds; δ is
1/n² for n training rows. The noise of the default is not seeded.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, roc_auc_score

from discreet import LogisticRegression
from discreet_bench.auto import Split
from discreet_bench.promise import check
from discreet_bench.records import (
    append,
    mean_and_deviation,
    read,
    replace_block,
    table,
    write,
)
from discreet_bench.rivals.environments import RIVALS, install
from discreet_bench.rivals.solver import fit_budgets, recomputed_epsilon
from discreet_bench.tabular import Tabular, tabular

__all__ = ["EPSILONS", "METHODS", "TABLES", "Run", "main", "measure", "tables"]

EPSILONS = (0.1, 0.3, 1.0, 3.0)
TABLES = ("adult", "bank", "kddcup99", "hospital-visits", "credit-default")
OWN = "discreet"
METHODS = {
    (OWN, "add_remove"): "discreet",
    ("dp-ebm", "add_remove"): "DP-EBM",
    ("opacus", "add_remove"): "Opacus",
    (OWN, "replace_one"): "discreet",
    ("diffprivlib", "replace_one"): "diffprivlib",
    ("scikit-learn", ""): "logistic regression, not private",
    ("gradient-boosting", ""): "gradient boosting, not private",
    ("majority", ""): "most frequent class",
}
"""Names of methods by library and relation, in the order of the tables."""

WORDS = {"add_remove": "add/remove", "replace_one": "replace-one", "": "–"}
RELATIONS = ("add_remove", "replace_one")


@dataclass(frozen=True)
class Run:
    """One fit: accuracy in %, and the claim with what recomputing it gave (NaN if nothing did).

    ``epsilon`` is infinite without privacy. ``problem`` says why there is no score.
    """

    table: str
    method: str
    relation: str
    epsilon: float
    seed: int
    delta: float
    accuracy: float
    auc: float
    seconds: float
    claimed: float
    recomputed: float
    problem: str = ""

    @property
    def key(self) -> tuple[str, str, str, float, int]:
        """Return what tells a fit from the others."""
        return (self.table, self.method, self.relation, self.epsilon, self.seed)


def _scored(run: Run, y: NDArray[np.int64], chances: NDArray[np.float64]) -> Run:
    return replace(
        run,
        accuracy=100 * float(accuracy_score(y, chances[:, 1] > 0.5)),
        auc=float(roc_auc_score(y, chances[:, 1])),
    )


def _default(runs: Sequence[Run], data: Tabular, split: Split) -> Iterator[Run]:
    """Fit the default, which knows the bounds of numeric columns as DP-EBM does."""
    for run in runs:
        model = LogisticRegression(
            run.epsilon, run.delta, relation=run.relation, classes=[0, 1], columns=data.numeric
        )
        start = time.perf_counter()
        model.fit(split.X, split.y)
        seconds = time.perf_counter() - start
        recomputed = check(model.guarantee_, run.epsilon, run.delta)
        claimed = float(model.guarantee_.epsilon)
        found = replace(run, seconds=seconds, claimed=claimed, recomputed=recomputed)
        yield _scored(found, split.y_test, model.predict_proba(split.X_test))


def _majority(runs: Sequence[Run], data: Tabular, split: Split) -> Iterator[Run]:
    share = np.full((len(split.y_test), 2), split.y.mean())
    for run in runs:
        yield _scored(replace(run, seconds=0.0), split.y_test, share)


def _rival(runs: Sequence[Run], data: Tabular, split: Split) -> Iterator[Run]:
    """Fit another library in its own process; a refusal becomes the run's problem."""
    method, relation = runs[0].method, runs[0].relation
    try:
        answers = fit_budgets(
            method,
            split.X,
            split.y,
            split.X_test,
            epsilons=[run.epsilon if RIVALS[method].private else 1.0 for run in runs],
            delta=runs[0].delta,
            relation=relation or RELATIONS[0],
            bounds=np.tile([0.0, 1.0], (split.X.shape[1], 1)),
            max_norm=data.max_norm,
            groups=data.groups,
            classes=2,
            seed=runs[0].seed,
            timeout=3600.0,
        )
    except (RuntimeError, TimeoutError) as error:
        if len(runs) == 1:
            yield replace(runs[0], problem=str(error).splitlines()[0])
        else:  # one refused: find out which
            for run in runs:
                yield from _rival([run], data, split)
        return
    for run, answer in zip(runs, answers, strict=True):
        claimed = answer.claim.epsilon
        found = replace(
            run,
            seconds=answer.seconds,
            claimed=math.nan if claimed is None else claimed,
            recomputed=recomputed_epsilon(answer.claim),
        )
        yield _scored(found, split.y_test, answer.scores)


def measure(
    name: str, seeds: int, epsilons: Sequence[float], methods: Sequence[str], done: set[object]
) -> Iterator[Run]:
    """Yield the fits of a table that are not among those done."""
    data = tabular(name)
    if sp.issparse(data.X):
        data = replace(data, X=data.X.toarray())
    ways: dict[str, Callable[..., Iterator[Run]]] = {OWN: _default, "majority": _majority}
    nothing = (math.nan,) * 5
    for seed in range(seeds):
        split = Split.of(data, seed)
        delta = len(split.y) ** -2.0
        for method, relation in METHODS:
            runs = [
                Run(name, method, relation, epsilon, seed, delta, *nothing)
                for epsilon in (epsilons if relation else (math.inf,))
            ]
            missing = [run for run in runs if run.key not in done]
            if method in methods and missing:
                yield from ways.get(method, _rival)(missing, data, split)


def _cells(runs: Sequence[Run], key: tuple[str, str], score: str, digits: int) -> list[str]:
    """Return a cell per ε; one value in all cells if there is no ε."""
    cells = []
    for epsilon in EPSILONS:
        wanted = epsilon if key[1] else math.inf
        found = [r for r in runs if (r.method, r.relation) == key and r.epsilon == wanted]
        scores = [getattr(run, score) for run in found if not run.problem]
        cells.append(mean_and_deviation(scores, digits) if scores or not found else "refused")
    return cells


def _best(runs: Sequence[Run], relation: str, epsilon: float, score: str) -> str:
    """Return the private method with the best mean under a relation."""
    means = {}
    for method, kind in METHODS:
        found = [r for r in runs if (r.method, r.relation, r.epsilon) == (method, kind, epsilon)]
        scores = [getattr(run, score) for run in found if not run.problem]
        if kind == relation and scores:
            means[method] = float(np.mean(scores))
    return max(means, key=lambda method: means[method]) if means else ""


def tables(runs: Sequence[Run], score: str, digits: int) -> str:
    """Return a Markdown table of a score, the best private one of each relation in bold."""
    header = ["data", "relation", "method", *(f"ε = {e:g}" for e in EPSILONS)]
    lines = []
    for name in TABLES:
        of_table = [run for run in runs if run.table == name]
        for key, label in METHODS.items():
            if key[0] == "majority" and score == "auc":
                continue
            cells = _cells(of_table, key, score, digits)
            best = [key[1] and _best(of_table, key[1], e, score) == key[0] for e in EPSILONS]
            shown = [f"**{c}**" if top else c for c, top in zip(cells, best, strict=True)]
            lines.append([name, WORDS[key[1]], label, *shown])
    return table(header, lines, text=3)


def losses(runs: Sequence[Run], score: str, digits: int) -> tuple[int, int, str]:
    """Return the cells where the default is best, all cells, and a list of the others."""
    own = {(r.table, r.relation, r.epsilon) for r in runs if r.method == OWN}
    cells = [c for c in product(TABLES, RELATIONS, EPSILONS) if c in own]
    others = []
    for name, relation, epsilon in cells:
        found = [r for r in runs if (r.table, r.epsilon) == (name, epsilon)]
        best = _best(found, relation, epsilon, score)
        if best == OWN:
            continue
        mine, theirs = (
            {r.seed: getattr(r, score) for r in found if (r.method, r.relation) == (m, relation)}
            for m in (OWN, best)
        )
        leads = (theirs[s] - mine[s] for s in mine.keys() & theirs.keys())
        gap = mean_and_deviation(leads, digits)
        label = METHODS[best, relation]
        others.append(f"- {name}, ε = {epsilon:g}, {WORDS[relation]}: {label} leads by {gap}.")
    return len(cells) - len(others), len(cells), "\n".join(others)


def _verdict(runs: Sequence[Run], score: str, digits: int) -> str:
    won, cells, others = losses(runs, score, digits)
    text = f"The default is the best private method in {won} of {cells} cells."
    return f"{text} The others:\n\n{others}" if others else text


def costs(runs: Sequence[Run]) -> str:
    """Return a Markdown table of seconds and of recomputed claims, and the number of splits."""
    lines = []
    for key, label in METHODS.items():
        found = [r for r in runs if (r.method, r.relation) == key and not r.problem]
        if not found or key[0] == "majority":
            continue
        seconds = [
            min((r.seconds for r in found if r.table == name), default=math.nan) for name in TABLES
        ]
        shares = [r.recomputed / r.epsilon for r in found if math.isfinite(r.recomputed)]
        range_ = f"{min(shares):.3f} to {max(shares):.3f}" if shares else "–"
        lines.append([label, WORDS[key[1]], *(f"{s:.1f}" for s in seconds), range_])
    header = ["method", "relation", *TABLES, "recomputed ε / ε"]
    counts = [len({run.seed for run in runs if run.table == name}) for name in TABLES]
    splits = ", ".join(f"{name} {count}" for name, count in zip(TABLES, counts, strict=True))
    return f"{table(header, lines, text=2)}\n\nSplits that were measured: {splits}."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: measure what is missing, then fill a page if one is named."""
    known = list(dict.fromkeys(method for method, _ in METHODS))
    parser = argparse.ArgumentParser(description="Compare the default with other libraries.")
    parser.add_argument("--tables", default=",".join(TABLES), help="names, separated by commas")
    parser.add_argument("--epsilons", default=",".join(f"{each:g}" for each in EPSILONS))
    parser.add_argument("--methods", default=",".join(known))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--again", default="", help="methods whose rows are measured anew")
    parser.add_argument("--rows", type=Path, default=Path("bench/results/rivals.csv"))
    parser.add_argument("--page", type=Path, help="page whose tables are replaced")
    asked = parser.parse_args(arguments)
    methods = asked.methods.split(",")
    runs = read(asked.rows, Run)
    if asked.again:
        runs = [run for run in runs if run.method not in asked.again.split(",")]
        write(asked.rows, runs)
    for method in RIVALS.keys() & set(methods) if asked.seeds else ():
        if (reason := install(RIVALS[method])) is not None:
            print(f"{method} is left out: {reason}")
            methods.remove(method)
    warnings.simplefilter("ignore")
    epsilons = [float(each) for each in asked.epsilons.split(",")]
    done: set[object] = {run.key for run in runs}
    for name in asked.tables.split(",") if asked.seeds else ():
        for run in measure(name, asked.seeds, epsilons, methods, done):
            append(asked.rows, run)
            runs.append(run)
            shown = run.problem or f"{run.accuracy:.2f} % {run.auc:.4f} {run.seconds:.1f} s"
            print(f"{'  '.join(str(part) for part in run.key)}  {shown}", flush=True)
    if asked.page:
        for score, digits in (("accuracy", 2), ("auc", 4)):
            text = f"{tables(runs, score, digits)}\n\n{_verdict(runs, score, digits)}"
            replace_block(asked.page, f"{score} table", text)
        replace_block(asked.page, "cost table", costs(runs))


if __name__ == "__main__":
    main()
