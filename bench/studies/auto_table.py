"""What ``LogisticRegression(epsilon=…, delta=…)`` reaches with nothing else set.

    DISCREET_DATA=folder python -m bench.studies.auto_table [NAME …] [--seeds 10]

prints accuracy (mean ± standard deviation over splits 80/20), area under the curve for two classes,
and the time of a fit next to that of scikit-learn's own, without privacy, in the same run, with the
share of it that drawing noise took. δ is 1/n² for n training rows, unless the table says
otherwise. Aims are what each should reach.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression as PlainLogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from discreet import LogisticRegression
from discreet.core.mechanisms import Gaussian
from discreet_bench.datasets import load

KDD_ROWS, MNIST_ROWS = 70_000, 65_000


@dataclass(frozen=True)
class Case:
    """One row of the table: a data set, a budget, and what must be reached."""

    data: str
    epsilon: float
    relation: str = "add_remove"
    accuracy: float | None = None
    auc: float | None = None
    delta: float | None = None


CASES = (
    Case("adult", 0.1, accuracy=81.8),
    Case("adult", 0.1, "replace_one", accuracy=80.8),
    Case("adult", 1.0, accuracy=83.9),
    Case("kddcup99", 0.1, accuracy=99.0),
    Case("mnist", 1.0, accuracy=89.7),
    Case("mnist", 1.0, "replace_one", accuracy=88.2),
    Case("mnist", 0.1, accuracy=83.0),
    Case("covertype", 1.0, accuracy=71.0),
    Case("bank", 0.1, accuracy=89.2, auc=0.84, delta=1e-8),
    Case("bank", 1.0, accuracy=90.1, auc=0.90, delta=1e-8),
    Case("reuters", 1.0, auc=0.90),
    Case("synthetic-h", 1.0, "replace_one"),
)


def table_of(name: str) -> tuple[Any, Any]:
    """The encoded rows and codes of a data set, cut to the size the literature uses."""
    data = load(name, dtype="float32")
    X, y = data.X, data.y
    size = {"kddcup99": KDD_ROWS, "mnist": MNIST_ROWS}.get(name, len(y))
    if size < len(y):
        order = np.arange(len(y))
        if name == "kddcup99":
            order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order[:size]], y[order[:size]]
    if sp.issparse(X) and X.shape[1] <= 1000:
        X = X.toarray()
    return X, y


def run(case: Case, X: Any, y: Any, seeds: int) -> dict[str, np.ndarray]:
    """Accuracy, area under the curve and seconds for each split."""
    labels = np.unique(y)
    found: dict[str, list[float]] = {"accuracy": [], "auc": [], "seconds": [], "noise": []}
    for seed in range(seeds):
        train, test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
        delta = case.delta or 1 / len(y_train) ** 2
        model = LogisticRegression(
            epsilon=case.epsilon, delta=delta, relation=case.relation, classes=labels
        )
        with timed_noise() as noise:
            start = time.perf_counter()
            model.fit(train, y_train)
            found["seconds"].append(time.perf_counter() - start)
        found["noise"].append(sum(noise))
        scores = model.decision_function(test)
        predicted = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
        found["accuracy"].append(100 * float(np.mean(labels[predicted.astype(int)] == y_test)))
        area = roc_auc_score(y_test, scores) if scores.ndim == 1 else np.nan
        found["auc"].append(float(area))
    return {name: np.array(values) for name, values in found.items()}


@contextmanager
def timed_noise() -> Iterator[list[float]]:
    """Note how long each release with Gaussian noise takes (its noise, and putting it on)."""
    seconds: list[float] = []
    release = Gaussian.release

    def timed(self: Gaussian, *arguments: Any, **settings: Any) -> Any:
        start = time.perf_counter()
        released = release(self, *arguments, **settings)
        seconds.append(time.perf_counter() - start)
        return released

    with patch.object(Gaussian, "release", timed):
        yield seconds


def plain_seconds(X: Any, y: Any) -> float:
    """How long scikit-learn's fit takes on the same matrix, to its default tolerance.

    The median of five fits; one, if it takes more than two seconds.
    """
    train, _, y_train, _ = train_test_split(X, y, test_size=0.2, random_state=0)
    seconds: list[float] = []
    while len(seconds) < 5 and (not seconds or seconds[0] < 2):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where 100 iterations are not enough, that is its time
            PlainLogisticRegression().fit(train, y_train)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def lines(names: list[str], seeds: int) -> Iterator[str]:
    """The table, line by line."""
    yield (
        "| data | ε | relation | accuracy | aim | AUC | aim | seconds | of scikit-learn's | noise |"
    )
    yield "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|"
    for name in dict.fromkeys(case.data for case in CASES):
        if names and name not in names:
            continue
        X, y = table_of(name)
        plain = plain_seconds(X, y)
        for case in (case for case in CASES if case.data == name):
            found = run(case, X, y, seeds)
            accuracy, auc = found["accuracy"], found["auc"]
            seconds = float(np.median(found["seconds"]))
            noise = float(np.median(found["noise"] / found["seconds"]))
            shown = "" if np.isnan(auc).any() else f"{auc.mean():.3f} ± {auc.std():.3f}"
            yield (
                f"| {name} | {case.epsilon:g} | {case.relation} | {accuracy.mean():.2f} ± "
                f"{accuracy.std():.2f} | {case.accuracy or ''} | {shown} | {case.auc or ''} | "
                f"{seconds:.2f} | {seconds / plain:.2f} | {100 * noise:.0f} % |"
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="data sets; all of them by default")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    for line in lines(arguments.names, arguments.seeds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
