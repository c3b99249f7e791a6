"""Every solver on the same splits: accuracy, training objective and time, as Markdown tables.

    DISCREET_DATA=folder python -m benchmarks.methods --data adult bank --epsilon 0.1 1 --repeats 10

Splits are 80/20 with seeds 0, 1, …; δ = 1/n² for n training rows, α = 1e-4, secure noise. Each
solver runs under the relation of its own paper's proof unless ``--relation`` says otherwise, and
with both calibrations. Published constants that do not keep their promise are refused: the cell
then has the true ε (``--unsafe`` runs them all the same, as old figures were made).

Rows are scaled to norm 1 one by one if longer (``data_norm=1``). The encodings have rows longer
than 1, so this puts nearly every row on the unit sphere: noise is scaled to the longest possible
row, and this way every row is as long as that. ``--unit-rows`` instead divides the table by its
public maximal norm, which keeps the proportions between rows and clips none of them, but leaves
most rows shorter than the noise pays for.

The objective, the mean loss of the training rows plus α/2·‖w‖², is read off without privacy: this
is for studying methods, not for protecting anybody.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks import datasets
from discreet import LinearSVC, LogisticRegression, PrivacyError
from discreet.solvers import Solver, names, resolve

ALPHA = 1e-4
MODELS = {"logistic": LogisticRegression, "huber": LinearSVC}

# Iyengar et al. 2019, "Towards Practical Differentially Private Convex Optimization": Adult,
# ε = 0.1, accuracy in percent for (logistic, Huber SVM). The private ones but H-F AMP are the best
# of a grid, chosen without privacy.
PUBLISHED: dict[str, tuple[float, float]] = {
    "nonprivate": (84.8, 84.8),
    "amp": (79.1, 79.6),
    "amp-hf": (78.7, 77.5),
    "sgd": (78.5, 79.0),
    "permutation-sgd": (77.4, 76.5),
    "permutation-sgd, strongly-convex": (77.2, 76.0),
    "frank-wolfe": (76.9, 77.8),
}
# Solvers that are two methods of that paper in one: a further setting to try.
FURTHER = {"permutation-sgd": {"mode": "strongly-convex"}}
# Solvers whose clipping is by the largest entry, which is at most 1 as encoded.
BY_ENTRIES = ("frank-wolfe",)
# Where the promise itself rests on the penalty, one from that paper's grid.
STRONGER = {"permutation-sgd, strongly-convex": 1e-2}


def published_accuracy(data: str, loss: str, epsilon: float, solver: str) -> str:
    """What the benchmark paper reports for the method, if it does."""
    found = PUBLISHED.get(solver)
    if data != "adult" or epsilon != 0.1 or found is None:
        return ""
    return f"{found[0 if loss == 'logistic' else 1]:.1f}"


def variants(name: str, unsafe: bool) -> list[tuple[str, str, Solver]]:
    """What to call it, the calibration and the solver: once a calibration, if it has them."""
    solver = resolve(name)
    fields = {field.name for field in dataclasses.fields(solver)}
    if "calibration" not in fields:
        return [(name, "", solver)]
    kinds = {name: solver}
    if name in FURTHER:
        further = FURTHER[name]
        kinds[", ".join([name, *further.values()])] = dataclasses.replace(solver, **further)
    released = {"unsafe": True} if unsafe and "unsafe" in fields else {}
    return [
        (title, calibration, dataclasses.replace(kind, calibration=calibration, **settings))
        for title, kind in kinds.items()
        for calibration, settings in (("tight", {}), ("published", released))
    ]


def in_a_cell(error: Exception) -> str:
    """The true ε if published constants were refused, else the first sentence of the error."""
    text = " ".join(str(error).split()) or type(error).__name__
    true = re.search(r"they are \(([^,]+),", text)
    if isinstance(error, PrivacyError) and true:
        return f"refused: true ε = {true[1]}"
    sentence = re.split(r"(?<=[.!?])\s", text)[0]
    return f"{type(error).__name__}: {sentence}".replace("|", "/")


def fit_once(
    data: datasets.Data,
    loss: str,
    epsilon: float,
    seed: int,
    solver: Solver,
    relation: str,
    alpha: float,
) -> dict[str, float]:
    """One split and one fit; the objective is that of `ALPHA` for all."""
    train, test, y_train, y_test = train_test_split(
        data.X, data.y, test_size=0.2, random_state=seed
    )
    model = MODELS[loss](
        epsilon=epsilon,
        delta=1 / len(train) ** 2,
        relation=relation,
        solver=solver,
        alpha=alpha,
        data_norm=None if solver.name in BY_ENTRIES else 1.0,
        classes=[-1, 1],
    )
    start = time.perf_counter()
    model.fit(train, y_train)
    seconds = time.perf_counter() - start
    weights = np.append(model.coef_, model.intercept_)
    losses = model._loss().value(model.decision_function(train), y_train)
    return {
        "seed": seed,
        "accuracy": 100 * float(model.score(test, y_test)),
        "objective": float(losses.mean() + ALPHA / 2 * weights @ weights),
        "seconds": seconds,
        "true_epsilon": float(model.guarantee_.epsilon),
    }


def study(
    data: datasets.Data,
    loss: str,
    epsilon: float,
    repeats: int,
    solver: Solver,
    relation: str,
    alpha: float,
) -> tuple[list[dict[str, float]], str]:
    """All repeats of one solver; those before an error are kept, and what the error said."""
    runs: list[dict[str, float]] = []
    try:
        for seed in range(repeats):
            runs.append(fit_once(data, loss, epsilon, seed, solver, relation, alpha))
    except Exception as error:  # a solver that fails must not end the comparison
        return runs, in_a_cell(error)
    return runs, ""


def spread(runs: list[dict[str, float]], key: str, digits: int) -> str:
    """Mean ± standard deviation."""
    values = [run[key] for run in runs]
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"


def table(
    name: str, data: datasets.Data, loss: str, epsilon: float, arguments: argparse.Namespace
) -> list[dict[str, object]]:
    """Print one table, a line as soon as it is known; returns what was measured."""
    n, d = data.X.shape
    print(f"\n### {name} ({n:,} × {d}), {loss}, ε = {epsilon:g}, {arguments.repeats} splits\n")
    print("| solver | calibration | relation | accuracy, % | objective | s a fit | published, % |")
    print("|---|---|---|---:|---:|---:|---:|", flush=True)
    results: list[dict[str, object]] = []
    for solver_name in arguments.solvers:
        for title, calibration, solver in variants(solver_name, arguments.unsafe):
            relation = arguments.relation or str(type(solver).relations[0])
            alpha = STRONGER.get(title, ALPHA)
            runs, problem = study(data, loss, epsilon, arguments.repeats, solver, relation, alpha)
            cells = [title, calibration, relation if solver.private else "not private"]
            if problem:
                cells += [problem, "", ""]
            else:
                cells += [spread(runs, "accuracy", 1), spread(runs, "objective", 4)]
                cells += [f"{np.median([run['seconds'] for run in runs]):.2f}"]
                true = runs[0]["true_epsilon"]
                if np.isfinite(true) and true > epsilon * (1 + 1e-6):
                    cells[1] += f" (true ε = {true:.4g})"
            cells.append(published_accuracy(name, loss, epsilon, title))
            print("| " + " | ".join(cells) + " |", flush=True)
            results.append(
                {
                    "data": name,
                    "loss": loss,
                    "epsilon": epsilon,
                    "solver": title,
                    "calibration": calibration,
                    "relation": relation,
                    "unit_rows": arguments.unit_rows,
                    "problem": problem,
                    "runs": runs,
                }
            )
    return results


def main() -> None:
    """Read the command line and print a table for each data set, loss and ε."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["adult"], choices=datasets.NAMES)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0])
    parser.add_argument("--loss", nargs="+", default=["logistic"], choices=MODELS)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument(
        "--solvers", nargs="+", default=[x for x in names() if x not in ("auto", "newton")]
    )
    parser.add_argument("--relation", choices=["add_remove", "replace_one"])
    parser.add_argument("--unsafe", action="store_true", help="run published constants as released")
    parser.add_argument(
        "--unit-rows", action="store_true", help="divide X by its public maximal norm"
    )
    parser.add_argument("--json", type=Path, help="keep every fit in this file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for unknown in set(arguments.solvers) - set(names()):
        parser.error(f"unknown solver {unknown!r}; known: {', '.join(names())}")
    results: list[dict[str, object]] = []
    for name in arguments.data:
        data = datasets.load(name)
        if data.target_bounds is not None:
            parser.error(f"{name} is a regression: use benchmarks.outpert_table")
        if arguments.unit_rows:
            data = data._replace(X=data.X / data.max_norm)
        for loss in arguments.loss:
            for epsilon in arguments.epsilon:
                results += table(name, data, loss, epsilon, arguments)
                if arguments.json:
                    arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
