"""Output perturbation against private SGD: table 3 of Zhang et al. 2017, measured again.

    DISCREET_DATA=folder python -m benchmarks.outpert_table --data bank wine-quality --repeats 10

Zhang, Zheng, Mou & Wang, "Efficient Private ERM for Smooth Objectives" (IJCAI 2017), compare
gradient descent with output perturbation with the private SGD of Bassily et al. 2014 by the
minimisation error E F(w_priv) − F(ŵ) and the time: δ = 0.001, replace-one, logistic regression on
three data sets and Huber regression on two, without a penalty and with one (μ). What is not in the
paper, and so may differ: the scaling of rows (here: to norm 1), the threshold of the Huber loss and
the units of its target (here: 0.5, on a target brought to [-1, 1] by public bounds), and the
constant of T. Errors of regressions are therefore comparable within a column only.

The SGD takes mini-batches of 50 rows. Its T = n²/50 (n²/m updates of m rows) would be 41 million
updates on bank; `--sgd-passes` sets T as a multiple of n/50, `--sgd-iterations` sets it outright.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import warnings

import numpy as np
from scipy.optimize import minimize

from benchmarks import datasets
from benchmarks.methods import in_a_cell
from discreet import HuberRegressor, LogisticRegression
from discreet.objectives import Huber, Logistic
from discreet.solvers import Solver, resolve

DELTA = 0.001
EPSILONS = (0.1, 0.5, 1.0, 2.0)
CALIBRATIONS = ("published", "tight")
BATCH = 50
THRESHOLD = 0.5

# Table 3: for each data set and μ, at ε = 0.1, 0.5, 1, 2, the errors of the paper's method and of
# SGD, and their CPU seconds.
PAPER: dict[str, dict[float, tuple[tuple[float, ...], ...]]] = {
    "bank": {
        0.0: (
            (0.3983, 0.2231, 0.1459, 0.0838),
            (2.2552, 1.4585, 1.0203, 0.7824),
            (12.613, 36.796, 58.305, 92.501),
            (518.67, 519.33, 519.02, 518.27),
        ),
        0.1: (
            (0.2566, 0.0106, 0.0025, 0.0005),
            (0.4829, 0.4090, 0.3387, 0.2475),
            (20.483, 40.541, 49.311, 57.947),
            (518.03, 519.44, 516.73, 520.17),
        ),
    },
    "adult": {
        0.0: (
            (0.0499, 0.0208, 0.0122, 0.0065),
            (0.6229, 0.6081, 0.4781, 0.3691),
            (23.813, 69.536, 110.20, 175.01),
            (250.50, 254.14, 254.18, 253.72),
        ),
        0.1: (
            (3.2039, 0.1287, 0.0309, 0.0080),
            (5.2166, 5.1532, 5.1148, 5.1009),
            (112.09, 193.98, 229.23, 264.23),
            (256.70, 255.36, 255.69, 257.23),
        ),
    },
    "credit-default": {
        0.0: (
            (0.0293, 0.0102, 0.0053, 0.0024),
            (0.4106, 0.4220, 0.3140, 0.2708),
            (4.9595, 14.591, 22.983, 36.721),
            (190.30, 190.89, 188.67, 188.86),
        ),
        0.1: (
            (0.3643, 0.0141, 0.0035, 0.0008),
            (1.3271, 1.2973, 1.2792, 1.2501),
            (13.664, 22.012, 25.743, 29.256),
            (190.36, 189.97, 188.81, 187.97),
        ),
    },
    "wine-quality": {
        0.0: (
            (0.6061, 0.2487, 0.1713, 0.1110),
            (6.1755, 4.1900, 3.0972, 1.3609),
            (0.1672, 0.4328, 0.7469, 1.1719),
            (6.3859, 6.3828, 6.4234, 6.3016),
        ),
        0.5: (
            (1.0842, 0.0364, 0.0101, 0.0024),
            (8.2900, 7.9584, 6.5471, 5.3811),
            (0.0922, 0.1437, 0.1891, 0.1812),
            (6.4328, 6.3625, 6.5391, 6.4484),
        ),
    },
    "bike-sharing": {
        0.0: (
            (5.4659, 4.0404, 3.2768, 2.4081),
            (35.279, 30.822, 27.196, 23.865),
            (0.1531, 0.4375, 0.6922, 1.1766),
            (6.4953, 6.2375, 6.2734, 6.3969),
        ),
        0.5: (
            (0.0555, 0.0301, 0.0242, 0.0232),
            (3.0770, 3.0448, 2.1792, 1.0406),
            (0.1031, 0.1578, 0.1625, 0.1984),
            (6.5766, 6.5094, 6.4094, 6.3625),
        ),
    },
}
ROWS = {"adult": 32_561}  # the paper takes the training file only, which comes first


class Task:
    """One data set with the objective that both methods minimise, and its true minimum."""

    def __init__(self, name: str) -> None:
        data = datasets.load(name)
        self.X, self.y = data.X[: ROWS.get(name)], data.y[: ROWS.get(name)]
        self.bounds = data.target_bounds
        longer = np.maximum(np.linalg.norm(self.X, axis=1), 1.0)[:, None]
        self._rows = np.hstack([self.X / longer, np.ones((len(self.y), 1))])
        self._target, self._loss = self.y, Logistic()
        if self.bounds:
            self._centre, self._half = sum(self.bounds) / 2, (self.bounds[1] - self.bounds[0]) / 2
            self._target = (self.y - self._centre) / self._half
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

    def fit(self, solver: Solver, epsilon: float, mu: float) -> tuple[float, float]:
        """F at the private weights, and seconds."""
        settings = {
            "epsilon": epsilon,
            "delta": DELTA,
            "relation": "replace_one",
            "alpha": mu,
            "data_norm": 1.0,
            "solver": solver,
        }
        if self.bounds:
            model = HuberRegressor(threshold=THRESHOLD, target_bounds=self.bounds, **settings)
        else:
            model = LogisticRegression(classes=[-1, 1], **settings)
        start = time.perf_counter()
        model.fit(self.X, self.y)
        seconds = time.perf_counter() - start
        weights = np.append(model.coef_, model.intercept_)
        if self.bounds:
            weights[-1] -= self._centre
            weights /= self._half
        return self.objective(weights, mu)[0], seconds


def solvers(n: int, arguments: argparse.Namespace) -> dict[str, Solver]:
    """The methods to compare: each with both calibrations."""
    iterations = arguments.sgd_iterations or max(1, round(arguments.sgd_passes * n / BATCH))
    outpert = resolve("outpert")
    if arguments.weight_norm:
        outpert = dataclasses.replace(outpert, weight_norm=arguments.weight_norm)
    found: dict[str, Solver] = {}
    for calibration in CALIBRATIONS:
        found[f"outpert {calibration}"] = dataclasses.replace(outpert, calibration=calibration)
        if arguments.without_sgd:
            continue
        found[f"SGD {calibration}"] = dataclasses.replace(
            resolve("sgd-adv"), calibration=calibration, batch_size=BATCH, iterations=iterations
        )
    return found


def measure(
    task: Task, solver: Solver, epsilon: float, mu: float, least: float, repeats: int
) -> tuple[str, float, float]:
    """A cell, the mean error and the mean seconds; NaN where the solver refuses."""
    try:
        runs = np.array([task.fit(solver, epsilon, mu) for _ in range(repeats)])
    except Exception as error:  # one that fails must not end the comparison
        return in_a_cell(error), np.nan, np.nan
    errors, seconds = runs[:, 0] - least, runs[:, 1].mean()
    return f"{errors.mean():.2g} ± {errors.std():.1g} ({seconds:.2f} s)", errors.mean(), seconds


def winner(values: dict[str, tuple[str, float, float]], calibration: str) -> str:
    """Who has the smaller error and who is faster, with one calibration."""
    ours, theirs = values[f"outpert {calibration}"], values.get(f"SGD {calibration}")
    if theirs is None or not np.isfinite([ours[1], theirs[1]]).all():
        return "–"
    return " / ".join("outpert" if ours[i] < theirs[i] else "SGD" for i in (1, 2))


def main() -> None:
    """Read the command line and print one table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(PAPER), choices=PAPER)
    parser.add_argument("--epsilon", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--sgd-passes", type=float, default=50.0)
    parser.add_argument("--sgd-iterations", type=int)
    parser.add_argument("--without-sgd", action="store_true")
    parser.add_argument("--weight-norm", type=float, help="outpert's guess of ‖ŵ‖, for its T")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    tally: list[str] = []
    for name in arguments.data:
        task = Task(name)
        n, d = task.X.shape
        methods = solvers(n, arguments)
        print(f"\n### {name} ({n:,} × {d}), δ = {DELTA:g}, {arguments.repeats} runs\n")
        print("Error (seconds a fit); the paper's: outpert, SGD. Winner: by error / by time.")
        for key in methods:
            if key.startswith("SGD tight"):
                print(f"SGD: {methods[key].iterations:,} updates of {BATCH} rows.")
        heads = ["μ", "ε", *methods, "paper: outpert", "paper: SGD"]
        heads += [f"winner, {calibration}" for calibration in CALIBRATIONS]
        print("\n| " + " | ".join(heads) + " |\n" + "|---:" * len(heads) + "|", flush=True)
        for mu, paper in PAPER[name].items():
            least = task.minimum(mu)
            for epsilon in arguments.epsilon:
                values = {
                    key: measure(task, solver, epsilon, mu, least, arguments.repeats)
                    for key, solver in methods.items()
                }
                cells = [f"{mu:g}", f"{epsilon:g}", *(cell for cell, _, _ in values.values())]
                if epsilon in EPSILONS:
                    at = EPSILONS.index(epsilon)
                    cells += [f"{paper[i][at]:.4f} ({paper[i + 2][at]:g} s)" for i in (0, 1)]
                else:
                    cells += ["", ""]
                winners = [winner(values, calibration) for calibration in CALIBRATIONS]
                tally.extend(winners)
                print("| " + " | ".join([*cells, *winners]) + " |", flush=True)
    decided = [names.split(" / ") for names in tally if names != "–"]
    for what, side in (("error", 0), ("time", 1)):
        won = sum(names[side] == "outpert" for names in decided)
        print(f"\nBy {what}, outpert wins {won} of {len(decided)} comparisons with SGD.")


if __name__ == "__main__":
    main()
