"""DP-AGD on Adult: accuracy and objective over ε, and where its gradients get lost in noise.

    DISCREET_DATA=folder python -m benchmarks.agd_adult accuracy --repeats 10
    DISCREET_DATA=folder python -m benchmarks.agd_adult gradients

``folder`` holds ``adult/adult.data.xz`` and ``adult/adult.test.xz``. Splits are 80/20, δ = 1e-8.
The objective is the mean loss on the training rows plus the penalty: reading it off is not
private, so this is for studying the method, not for protecting anybody.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import train_test_split

from benchmarks import adult
from discreet import AGD, LinearSVC, LogisticRegression
from discreet.objectives import Hinge, Logistic
from discreet.rows import as_rows

EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
DELTA = 1e-8
MODELS = {
    "logistic": (LogisticRegression(), Logistic()),
    "hinge": (LinearSVC(loss="hinge"), Hinge()),
}


def accuracy(X: np.ndarray, y: np.ndarray, repeats: int, relation: str) -> None:
    """Mean accuracy (%) and final objective for each ε, loss and calibration."""
    console = Console(width=140)
    shown = Table(
        title=f"Adult, {relation}, δ = {DELTA:g}, mean ± standard deviation of {repeats} runs"
    )
    shown.add_column("loss")
    shown.add_column("calibration")
    for epsilon in EPSILONS:
        shown.add_column(f"ε = {epsilon:g}", justify="right")
    shown.add_column("s a fit", justify="right")
    for name, (model, loss) in MODELS.items():
        for calibration in ("published", "tight"):
            cells, seconds = [], []
            for epsilon in EPSILONS:
                results = []
                for repeat in range(repeats):
                    train, test, y_train, y_test = train_test_split(
                        X, y, test_size=0.2, random_state=repeat
                    )
                    model.set_params(
                        epsilon=epsilon,
                        delta=DELTA,
                        relation=relation,
                        classes=[0, 1],
                        solver=AGD(calibration=calibration),
                    )
                    start = time.perf_counter()
                    model.fit(train, y_train)
                    seconds.append(time.perf_counter() - start)
                    margins = model.decision_function(train)
                    weights = np.append(model.coef_, model.intercept_)
                    objective = loss.value(margins, 2.0 * y_train - 1).mean()
                    objective += model.alpha / 2 * weights @ weights
                    results.append((100 * model.score(test, y_test), objective))
                mean, spread = np.mean(results, axis=0), np.std(results, axis=0)
                cells.append(f"{mean[0]:.1f} ± {spread[0]:.1f}\n{mean[1]:.3f} ± {spread[1]:.3f}")
            shown.add_row(name, calibration, *cells, f"{np.median(seconds):.2f}")
            shown.add_section()
    console.print(shown)


def gradients(X: np.ndarray, y: np.ndarray, epsilon: float) -> None:
    """True and noisy gradient norms per iteration, as in Table 1 of Lee & Kifer 2018.

    A diagnostic in test mode: it shows exact gradients, which is why the seed is fixed and
    nothing here is private.
    """
    train, _, y_train, _ = train_test_split(X, y, test_size=0.2, random_state=0)
    seen: list = []
    model = LogisticRegression(
        epsilon=epsilon,
        delta=DELTA,
        classes=[0, 1],
        random_state=0,
        solver=AGD(calibration="published", splits=60, max_iterations=11),
        progress=seen.append,
    )
    model.fit(train, y_train)
    rows = as_rows(train, 2.0 * y_train - 1)
    n = rows.n_rows
    clip = 3.0
    shown = Table(title=f"Adult, published, ε = {epsilon:g} (test mode, not private)")
    for column in ("t", "‖∇f‖", "‖∇f + Y‖", "√E‖Y‖²", "f(w)", "step", "refinements"):
        shown.add_column(column, justify="right")
    weights = np.zeros(rows.n_parameters)
    for t, at in enumerate(seen):
        exact = np.linalg.norm(rows.gradient_sum(weights, Logistic(), clip).values) / n
        noise = clip / np.sqrt(2 * at.entry.rho_gradient) * np.sqrt(rows.n_parameters) / n
        objective = Logistic().value(rows.margins(weights), 2.0 * y_train - 1).mean()
        shown.add_row(
            str(t),
            f"{exact:.5f}",
            f"{at.entry.gradient_norm:.5f}",
            f"{noise:.5f}",
            f"{objective:.5f}",
            f"{at.entry.step:.2f}",
            str(at.entry.refinements),
        )
        weights = at.weights
    Console(width=110).print(shown)


def main() -> None:
    """Read the command line and run one study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=["accuracy", "gradients"])
    parser.add_argument("--data", type=Path, default=os.environ.get("DISCREET_DATA"))
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--relation", default="add_remove")
    parser.add_argument(
        "--epsilon",
        type=float,
        default=1.156,
        help="for gradients; the default has the noise of Table 1",
    )
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("say where the data is: --data FOLDER or DISCREET_DATA=FOLDER")
    warnings.simplefilter("ignore")
    X, y = adult.load(Path(arguments.data))
    if arguments.study == "accuracy":
        accuracy(X, y, arguments.repeats, arguments.relation)
    else:
        gradients(X, y, arguments.epsilon)


if __name__ == "__main__":
    main()
