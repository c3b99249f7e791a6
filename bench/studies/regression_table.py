"""What ``HuberRegressor`` and ``LinearRegression`` reach with nothing but a budget set.

    DISCREET_DATA=folder python -m bench.studies.regression_table [NAME …] [--repeats 20] [--seeds 10]

prints two tables for each data set. The first is table 3 of Zhang et al. 2017 with
``solver="auto"``: the error E F(w_priv) − F(ŵ) of Huber regression at δ = 0.001 under replace-one,
rows scaled to norm 1, the threshold of the loss 0.5 on a target brought to [-1, 1] by public
bounds. The paper tells neither, so errors are comparable within a column only.
The second is the coefficient of determination on held-out rows (80/20 splits, δ = 1/n² for n
training rows); private predictions are cut to the target's public bounds, the others are not.

Without a penalty (μ = 0) ``auto`` prepares the rows, so F is computed from predictions. With one it
works on the rows as they are, and F has the penalty on their weights.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from benchmarks import datasets
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression as PlainLinearRegression
from sklearn.model_selection import train_test_split

from discreet import HuberRegressor, LinearRegression
from discreet.objectives import Huber
from discreet_bench.measures import THRESHOLD
from discreet_bench.published import published

NAMES = ("wine-quality", "bike-sharing")
DELTA, EPSILONS, PENALTIES = 0.001, (0.1, 0.5, 1.0, 2.0), (0.5, 0.0)


class Task:
    """One data set with the objective that both methods minimise, and its true minimum."""

    def __init__(self, name: str) -> None:
        data = datasets.load(name)
        self.X, self.y = data.X, data.y
        self.bounds = data.target_bounds
        longer = np.maximum(np.linalg.norm(self.X, axis=1), 1.0)[:, None]
        self._rows = np.hstack([self.X / longer, np.ones((len(self.y), 1))])
        low, high = self.bounds
        self._target = (self.y - (low + high) / 2) / ((high - low) / 2)
        self._loss = Huber(THRESHOLD)

    def objective(self, weights: np.ndarray, mu: float) -> tuple[float, np.ndarray]:
        """F and its gradient."""
        margins = self._rows @ weights
        value = self._loss.value(margins, self._target).mean() + mu / 2 * weights @ weights
        slopes = self._loss.derivative(margins, self._target) / len(self._target)
        return float(value), self._rows.T @ slopes + mu * weights

    def minimum(self, mu: float) -> float:
        """F(ŵ), by L-BFGS and then Newton steps on the exact rows."""
        start = np.zeros(self._rows.shape[1])
        options = {"maxiter": 200}
        found = minimize(self.objective, start, (mu,), jac=True, method="L-BFGS-B", options=options)
        weights, value = found.x, float(found.fun)
        for _ in range(50):
            curvature = self._loss.second_derivative(self._rows @ weights, self._target)
            hessian = self._rows.T @ (self._rows * curvature[:, None]) / len(self._target)
            hessian += (mu + 1e-9) * np.eye(len(weights))  # without μ, one-hot columns add up to 1
            move = np.linalg.solve(hessian, self.objective(weights, mu)[1])
            tried = [weights - move / 2**halved for halved in range(20)]
            lower = (w for w in tried if self.objective(w, mu)[0] < value)
            weights, before = next(lower, weights), value
            value = self.objective(weights, mu)[0]
            if before - value < 1e-7:
                break
        return value


def excess(task: Task, epsilon: float, mu: float, least: float) -> float:
    """F at one private fit, minus its minimum."""
    low, high = task.bounds
    centre, half = (low + high) / 2, (high - low) / 2
    model = HuberRegressor(
        epsilon=epsilon,
        delta=DELTA,
        relation="replace_one",
        alpha=mu,
        data_norm=1.0,
        threshold=THRESHOLD,
        target_bounds=task.bounds,
    )
    model.fit(task.X, task.y)
    model.set_params(target_bounds=None)  # predictions of the linear model, not cut to the bounds
    predicted, target = (model.predict(task.X) - centre) / half, (task.y - centre) / half
    value = float(Huber(THRESHOLD).value(predicted, target).mean())
    if mu > 0:
        if model.preparation_:
            raise SystemExit("the rows were prepared: the penalty is not on their own weights.")
        weights = np.append(model.coef_, model.intercept_ - centre) / half
        value += mu / 2 * float(weights @ weights)
    return value - least


def errors(name: str, repeats: int) -> None:
    """Print the table of errors."""
    task = Task(name)
    n, d = task.X.shape
    print(f"\n### {name} ({n:,} × {d}): error, δ = {DELTA:g}, replace-one, {repeats} runs\n")
    print("| μ | ε | auto | of weights 0 | paper: outpert | paper: SGD |\n" + "|---:" * 6 + "|")
    for mu in PENALTIES:
        least = task.minimum(mu)
        nothing = task.objective(np.zeros(d + 1), mu)[0] - least
        for epsilon in EPSILONS:
            found = np.array([excess(task, epsilon, mu, least) for _ in range(repeats)])
            asked = ("outpert-table3", name, "huber", epsilon, "excess_objective")
            paper = published(*asked, alpha=mu)
            cell = f"{found.mean():.2g} ± {found.std():.1g} | {nothing:.2g}"
            theirs = f"{paper['outpert']:.4f} | {paper['sgd-adv']:.4f}"
            print(f"| {mu:g} | {epsilon:g} | {cell} | {theirs} |", flush=True)


def determinations(name: str, seeds: int) -> None:
    """Print the table of coefficients of determination."""
    data = datasets.load(name)
    models = {"least squares": LinearRegression, "Huber": HuberRegressor}
    relations = ("add_remove", "replace_one")
    heads = [f"{loss}, {relation}" for loss in models for relation in relations]
    print(f"\n### {name}: R² on held-out rows, δ = 1/n², {seeds} splits\n")
    print("| ε | " + " | ".join(heads) + " | not private | seconds |")
    print("|---:" * (len(heads) + 3) + "|")
    for epsilon in EPSILONS:
        scores: dict[str, list[float]] = {head: [] for head in (*heads, "plain", "seconds")}
        for seed in range(seeds):
            split = train_test_split(data.X, data.y, test_size=0.2, random_state=seed)
            train, test, y_train, y_test = split
            plain = PlainLinearRegression().fit(train, y_train)
            scores["plain"].append(plain.score(test, y_test))
            for loss, kind in models.items():
                for relation in relations:
                    start = time.perf_counter()
                    model = kind(
                        epsilon=epsilon,
                        delta=1 / len(y_train) ** 2,
                        relation=relation,
                        target_bounds=data.target_bounds,
                    )
                    model.fit(train, y_train)
                    scores["seconds"].append(time.perf_counter() - start)
                    scores[f"{loss}, {relation}"].append(model.score(test, y_test))
        cells = [f"{np.mean(v):.3f} ± {np.std(v):.3f}" for v in scores.values()]
        print(f"| {epsilon:g} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=list(NAMES))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.data:
        errors(name, arguments.repeats)
        determinations(name, arguments.seeds)


if __name__ == "__main__":
    main()
