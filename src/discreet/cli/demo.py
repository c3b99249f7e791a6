"""A minute with discreet, to see what a privacy budget buys.

Trains private logistic regression at several budgets on generated data, next to a model without
privacy and to always answering with the commoner class, and draws the accuracies. Run it with
``make demo`` or ``discreet demo``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.linear_model import LogisticRegression as PlainLogisticRegression
from sklearn.model_selection import train_test_split

from discreet import LogisticRegression
from discreet.tables import synthetic_low

EPSILONS = (0.1, 0.3, 1.0, 3.0)
DELTA = 1e-6


@dataclass
class Run:
    """One private model of the demo."""

    epsilon: float
    model: LogisticRegression
    accuracy: float
    seconds: float


def train(console: Console, X: Any, y: Any, X_test: Any, y_test: Any) -> list[Run]:
    """Train one model per budget, showing how much of each budget is spent."""
    runs = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} % of the budget spent"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bars:
        for epsilon in EPSILONS:
            bar = bars.add_task(f"ε = {epsilon:g}", total=1.0)
            model = LogisticRegression(
                epsilon=epsilon,
                delta=DELTA,
                classes=[0, 1],
                progress=lambda at, bar=bar: bars.update(bar, completed=at.spent_share),
            )
            start = time.perf_counter()
            model.fit(X, y)
            seconds = time.perf_counter() - start
            bars.update(bar, completed=1.0)
            runs.append(Run(epsilon, model, model.score(X_test, y_test), seconds))
    return runs


def report(console: Console, runs: list[Run], plain: float, majority: float) -> None:
    """Print what each budget bought."""
    table = Table(title="Accuracy on 2,000 rows that no model saw")
    table.add_column("model")
    table.add_column("accuracy", justify="right")
    table.add_column("seconds", justify="right")
    table.add_row("always the commoner class", f"{majority:.1%}", "")
    for run in runs:
        table.add_row(
            f"private, ε = {run.epsilon:g}",
            f"{run.accuracy:.1%}",
            f"{run.seconds:.2f}",
        )
    table.add_row("scikit-learn, no privacy", f"{plain:.1%}", "")
    console.print(table)
    console.print(
        f"A smaller ε is a stronger promise (δ = {DELTA:g} throughout): whoever sees the model can "
        "hardly tell whether any one row was in the data."
    )
    console.print(f"\n[bold]model.guarantee_[/bold] at ε = {runs[-1].epsilon:g}:")
    console.print(str(runs[-1].model.guarantee_), highlight=False)


def draw(runs: list[Run], plain: float, majority: float, path: Path) -> None:
    """Draw what each budget bought, between knowing nothing and having no privacy."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 4.0))
    epsilons = [run.epsilon for run in runs]
    accuracies = [100 * run.accuracy for run in runs]
    axis.axhline(100 * plain, color="#009E73", linestyle="--", label="scikit-learn, no privacy")
    axis.plot(epsilons, accuracies, "o-", color="#0072B2", label="discreet, private")
    axis.axhline(100 * majority, color="#555555", linestyle=":", label="always the commoner class")
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
    """Run the demo and save its figure."""
    console = Console()
    console.print(
        "Synthetic-L: 10,000 rows, 20 features uniform in [-1, 1]; the label is the sign of a "
        "hidden linear score, 5 % of labels are flipped."
    )
    X, y = synthetic_low()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    with console.status("compiling kernels (once per installation)"):
        LogisticRegression(classes=[0, 1]).fit(X[:100], y[:100])
    runs = train(console, X, y, X_test, y_test)
    plain = PlainLogisticRegression().fit(X, y).score(X_test, y_test)
    majority = float(np.mean(y_test == np.bincount(y).argmax()))
    report(console, runs, plain, majority)
    draw(runs, plain, majority, figure)
    console.print(f"\nFigure: {figure}")
