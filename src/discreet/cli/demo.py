"""A minute with discreet, to see what a privacy budget buys.

Trains private logistic regression at several budgets on generated data, next to DP-AGD, to a model
without privacy and to always answering with the commoner class; draws the accuracies, and makes the
page that the benchmark makes. Run it with
``make demo`` or ``discreet demo``.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from discreet import LogisticRegression
from discreet.errors import PrivacyLeakWarning
from discreet.files import replacing
from discreet_bench.data import generated
from discreet_bench.problem import Problem, Result
from discreet_bench.report import report as write_report
from discreet_bench.synthetic import synthetic_low
from discreet_bench.task import Task
from discreet_bench.tidy import stamped

EPSILONS = (0.1, 0.3, 1.0, 3.0)
DELTA = 1e-6
REPEATS = 3
METHODS = ("auto", "agd", "nonprivate", "majority")
OBJECTIVE: dict[str, Any] = {
    "delta": DELTA,
    "relation": "add_remove",
    "loss": "logistic",
    "alpha": 1e-4,
    "test": "80/20",
    "rows": "encoded",
    "intercept": True,
}


@dataclass
class Run:
    """One model of the demo: which method, at which budget, and what became of it."""

    method: str
    epsilon: float
    repeat: int
    model: Any
    seconds: float
    line: dict[str, Any]

    @property
    def accuracy(self) -> float:
        """On rows that the model did not see."""
        return float(self.line["accuracy"])


def train(console: Console) -> list[Run]:
    """Train private models at each budget, showing how much is spent, and two that are not."""
    table = generated("synthetic-l", None, None, 0)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} % of the budget spent"),
        TimeElapsedColumn(),
    )
    runs = []
    with Progress(*columns, console=console) as bars:
        for epsilon in EPSILONS:
            task = Task(table, epsilon=epsilon, **OBJECTIVE)
            bar = bars.add_task(f"ε = {epsilon:g}", total=float(REPEATS))
            for repeat in range(REPEATS):
                problem = task.problem(repeat)

                def told(at: Any, bar: Any = bar, before: int = repeat) -> None:
                    bars.update(bar, completed=before + at.spent_share)

                for method in METHODS:
                    runs.append(fitted(task, problem, method, told if method == "auto" else None))
                bars.update(bar, completed=repeat + 1)
    return runs


def fitted(task: Task, problem: Problem, method: str, progress: Any) -> Run:
    """Fit one model and have it judged as in the benchmark: its guarantee is recomputed."""
    model = LogisticRegression(
        epsilon=problem.epsilon,
        delta=problem.delta,
        solver=method,
        classes=[0, 1],
        progress=progress,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # two are baselines, and say so
        start = time.perf_counter()
        model.fit(problem.X, problem.y)
        seconds = time.perf_counter() - start
    (line,) = task.judged(Result.of_model(model, problem))
    return Run(method, problem.epsilon, problem.repeat, model, seconds, line)


def accuracy_of(runs: list[Run], method: str, epsilon: float | None = None) -> float:
    """Mean over the splits."""
    return float(
        np.mean([x.accuracy for x in runs if x.method == method and epsilon in (None, x.epsilon)])
    )


def page(runs: list[Run], path: Path) -> None:
    """Make the page that the benchmark makes, of this small run."""
    frame = pd.DataFrame([run.line for run in runs]).assign(
        experiment="demo",
        loss="logistic",
        alpha=OBJECTIVE["alpha"],
        relation=OBJECTIVE["relation"],
        epsilon=[run.epsilon for run in runs],
        repeat=[run.repeat for run in runs],
        method=[run.method for run in runs],
        tuning="default",
        setting="{}",
        seconds=[run.seconds for run in runs],
        when=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    text = write_report(
        stamped(frame), title="What a privacy budget buys", commands={"demo": "discreet demo"}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(text)


def report(console: Console, runs: list[Run]) -> None:
    """Print what each budget bought."""
    table = Table(title=f"Accuracy on 2,000 rows that no model saw (mean of {REPEATS} splits)")
    table.add_column("model")
    table.add_column("accuracy", justify="right")
    table.add_column("seconds", justify="right")
    table.add_row("always the commoner class", f"{accuracy_of(runs, 'majority'):.1%}", "")
    for epsilon in EPSILONS:
        seconds = [run.seconds for run in runs if (run.method, run.epsilon) == ("auto", epsilon)]
        table.add_row(
            f"private, ε = {epsilon:g}",
            f"{accuracy_of(runs, 'auto', epsilon):.1%}",
            f"{np.median(seconds):.2f}",
        )
    table.add_row("no privacy", f"{accuracy_of(runs, 'nonprivate'):.1%}", "")
    console.print(table)
    console.print(
        f"A smaller ε is a stronger promise (δ = {DELTA:g} throughout): whoever sees the model can "
        "hardly tell whether any one row was in the data."
    )
    last = [run for run in runs if run.method == "auto"][-1]
    console.print(f"\n[bold]model.guarantee_[/bold] at ε = {last.epsilon:g}:")
    console.print(str(last.model.guarantee_), highlight=False)


def draw(runs: list[Run], path: Path) -> None:
    """Draw what each budget bought, between knowing nothing and having no privacy."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 4.0))
    epsilons = list(EPSILONS)
    accuracies = [100 * accuracy_of(runs, "auto", epsilon) for epsilon in epsilons]
    plain, majority = (100 * accuracy_of(runs, method) for method in ("nonprivate", "majority"))
    axis.axhline(plain, color="#009E73", linestyle="--", label="no privacy")
    axis.plot(epsilons, accuracies, "o-", color="#0072B2", label="discreet, private")
    axis.axhline(majority, color="#555555", linestyle=":", label="always the commoner class")
    for epsilon, accuracy in zip(epsilons, accuracies, strict=True):
        axis.annotate(
            f"{accuracy:.1f}",
            (epsilon, accuracy),
            xytext=(0, -14),
            textcoords="offset points",
            ha="center",
        )
    axis.set_xscale("log")
    axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axis.minorticks_off()
    axis.set_xlabel(f"ε (a smaller ε is a stronger promise; δ = {DELTA:g})")
    axis.set_ylabel("accuracy on new rows (%)")
    axis.set_title("What a privacy budget buys")
    axis.legend(loc="center right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def show(figure: Path) -> None:
    """Run the demo, and save its figure and the page of its runs beside it."""
    console = Console()
    console.print(
        "Synthetic-L: 10,000 rows, 20 features uniform in [-1, 1]; the label is the sign of a "
        "hidden linear score, 5 % of labels are flipped."
    )
    X, y = synthetic_low(200)
    with console.status("compiling kernels (once per installation)"):
        for method in METHODS[:2]:
            LogisticRegression(classes=[0, 1], solver=method).fit(X, y)
    runs = train(console)
    report(console, runs)
    draw(runs, figure)
    beside = figure.with_suffix(".html")
    page(runs, beside)
    console.print(f"\nFigure: {figure}\nReport: {beside} (open it in a browser)")
