"""One way to run a solver on a table, as an estimator does, and the tables of several files."""

import math
from fractions import Fraction

import numpy as np

from discreet.core import Account, Curator
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.objectives import L2, Logistic, Problem
from discreet.rows import as_rows

LOGISTIC = Logistic()


def solve(
    solver,
    budget,
    loss=LOGISTIC,
    data=None,
    *,
    seed=0,
    alpha=0.0,
    n_models=1,
    fits=None,
    row_norm=None,
    fit_intercept=True,
    progress=None,
):
    """Plan, then fit ``fits`` (by default all) of ``n_models`` models that share a budget.

    Returns the last solution, the guarantee and the last curator.
    """
    X, y = table(loss) if data is None else data
    rows = as_rows(X, y, fit_intercept=fit_intercept, row_norm=row_norm)
    problem = Problem(loss, L2(alpha), rows.n_rows, rows.n_features, fit_intercept, row_norm)
    plan = solver.plan(problem, budget, n_models)
    account = Account(plan.spends)
    for model in range(fits or n_models):
        noise = Noise(SeededBits(seed + model))
        curator = Curator(rows, account, noise, Fraction(1, n_models))
        solution = solver.solve(problem, curator, plan, progress)
    return solution, account.guarantee(secure=False), curator


def table(loss=LOGISTIC, n=3000, d=5, seed=0):
    """Uniform rows with labels, or targets for a loss of regression."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    score = X @ np.linspace(-2, 2, d) + 0.5
    if loss.task == "classification":
        return X, np.where(score + rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, score + 0.1 * rng.normal(size=n)


def bounded_table(loss=LOGISTIC, n=3000, d=5, seed=0):
    """Rows of norm at most 1 with labels, classes or targets."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, size=(n, d)) / math.sqrt(d)
    score = 3 * X @ np.linspace(-2, 2, d) + 0.5
    if loss.n_outputs > 1:
        y = np.clip(np.round(score + 0.3 * generator.standard_normal(n)), 0, loss.n_outputs - 1)
        return X, y
    if loss.task == "classification":
        return X, np.where(score + generator.logistic(size=n) > 0, 1.0, -1.0)
    return X, score + 0.1 * generator.standard_normal(n)


def projected_table(n=1000, d=5, seed=0):
    """Rows projected on the unit ball, with labels."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X @ np.linspace(-4, 4, d) + 0.5 + rng.logistic(size=n) > 0, 1.0, -1.0)


def excess(weights, data, loss=LOGISTIC, alpha=0.0, fit_intercept=True):
    """The objective at some weights, minus its minimum."""
    from scipy.optimize import minimize

    X, y = data
    full = np.column_stack([X, np.ones(len(X))]) if fit_intercept else np.asarray(X)

    def objective(vector):
        outputs = full @ vector.reshape(loss.n_outputs, -1).T
        margins = outputs if loss.n_outputs > 1 else outputs[:, 0]
        return loss.value(margins, y).mean() + alpha / 2 * vector @ vector

    best = minimize(objective, np.zeros(weights.size), method="BFGS").fun
    return objective(weights) - best
