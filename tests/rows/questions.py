"""Every question that can be asked of rows, as functions of the rows alone."""

from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np

from discreet.core.questions import (
    CandidateLosses,
    ClassCounts,
    ColumnBounds,
    CornerGradient,
    CurvatureSum,
    EdgeCounts,
    ExponentCounts,
    Gradient,
    LineLosses,
    MedianNorm,
    MedianSlope,
    OuterSum,
    RowSum,
    ScoreSum,
    SquareSum,
    TargetMoment,
    TargetSum,
)
from discreet.objectives import Hinge, Huber, Logistic, MulticlassHinge, Softmax
from discreet.rows import AffineMap

STEPS = np.linspace(0, 2, 9)
HINGES = MulticlassHinge(3, Hinge())
MAPS = {
    "diagonal": AffineMap.to_norm(1.5, 5).then(1.0, np.linspace(0, 0.4, 5)).then(2.0),
    "matrix": AffineMap.to_norm(1.5, 5).then(np.linspace(-1, 1, 25).reshape(5, 5)),
}


def triangle(size):
    """Return the places of an upper triangle, row by row, and weights that keep its norm."""
    first, second = np.triu_indices(size)
    return first, second, np.where(first == second, 1.0, np.sqrt(2.0))


def weights_of(rows, count=1):
    return np.linspace(-1, 1, count * rows.n_parameters)


def along(rows):
    return np.cos(np.arange(rows.n_parameters))


def candidates(rows):
    return np.stack([weights_of(rows) / k for k in (1, 2, 3)])


def exact(rows, question):
    """Return the exact answer of rows, wherever they are."""
    return rows.answer([question])[0]


def line(rows, loss):
    return LineLosses(loss, weights_of(rows), along(rows), STEPS, 0.9, np.zeros(STEPS.size))


GENERAL = {
    "gradient": lambda r: exact(r, Gradient(Logistic(), weights_of(r), 0.7)),
    "remembered gradient": lambda r: [exact(r, Gradient(Hinge(), weights_of(r), 0.7))] * 2,
    "several outputs": lambda r: exact(r, Gradient(Softmax(3), weights_of(r, 3), 0.7)),
    "several hinges": lambda r: exact(r, Gradient(HINGES, weights_of(r, 3), 0.7)),
    "logistic line": lambda r: exact(r, line(r, Logistic())),
    "huber line": lambda r: exact(r, line(r, Huber(0.5))),
    "candidates": lambda r: exact(
        r, CandidateLosses(Logistic(), candidates(r), along(r), 0.4, np.zeros(3))
    ),
    "rows": lambda r: exact(r, RowSum(r.row_norm)),
    "squares": lambda r: exact(r, SquareSum(r.row_norm)),
    "short squares": lambda r: exact(r, SquareSum(r.row_norm, 0.3)),
    "outer": lambda r: exact(r, OuterSum(r.row_norm)),
    "xy": lambda r: exact(r, TargetMoment(1.1, 0.5, 0.25)),
    "y alone": lambda r: exact(r, TargetMoment(1.1, 0.5, 0.25, features=False)),
    "targets": lambda r: exact(r, TargetSum(0.8)),
    "classes": lambda r: exact(r, ClassCounts(2)),
    "exponents": lambda r: exact(r, ExponentCounts(r.n_features)),
    "largest": lambda r: exact(r, ExponentCounts(r.n_features, np.arange(r.n_features) != 1)),
    "score": lambda r: exact(r, ScoreSum(Logistic(), weights_of(r), 1.1)),
    "curvature": lambda r: exact(r, CurvatureSum(Logistic(), weights_of(r), 1.1)),
    "slopes": lambda r: exact(r, MedianSlope(Huber(0.5), weights_of(r))),
    "norms": lambda r: exact(r, MedianNorm()),
    "objective": lambda r: r.objective_sum(weights_of(r), Logistic()),
}
STORED = {
    "corner": lambda r: exact(
        r, CornerGradient(Huber(0.5), weights_of(r), 0.7, np.zeros(r.n_parameters))
    ),
    "column": lambda r: exact(r, ColumnBounds(2, 0.9)),
    "edges": lambda r: exact(r, EdgeCounts((0, 2), np.array([[-1.0, 0.0, 0.5]] * 2))),
    "hessian": lambda r: r.hessian_sum(weights_of(r), Logistic()) if r.dense else np.zeros(1),
    "hessians": lambda r: r.hessian_sum(weights_of(r, 3), Softmax(3)) if r.dense else np.zeros(1),
    "product": lambda r: r.hessian_product(weights_of(r), Logistic(), along(r)),
    "diagonal": lambda r: r.hessian_diagonal(weights_of(r, 3), Softmax(3)),
    "certified": lambda r: r.certified_sum(weights_of(r), None, Huber(0.5), 9.0),
}
EVERYTHING = GENERAL | STORED


def numbers(answer):
    """Return an answer as one array of numbers; counts in units of rows."""
    if isinstance(answer, list):
        return np.concatenate([numbers(part) for part in answer])
    if hasattr(answer, "unit"):
        return answer.values / answer.unit
    return np.ravel(getattr(answer, "values", answer))


def table(n, seed=0):
    """Return X, targets in {0, 1, 2} (labels, and numbers) and weights on the grid."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) * rng.choice([0.1, 1.0, 5.0], (n, 1))
    X[rng.random(X.shape) < 0.3] = 0.0
    weights = np.floor(rng.choice([0.0, 1.0, 1 / 3, 0.7, 2.0**-30], n) * 2**30) / 2**30
    return X, rng.integers(0, 3, n).astype(float), weights


class Threads:
    """An engine whose partitions are objects in this process; results come as they are ready."""

    def __init__(self, workers=1):
        self.workers = workers

    def map(self, task, parts):
        with ThreadPoolExecutor(self.workers) as pool:
            futures = {pool.submit(task, part): part.id for part in parts}
            return [(futures[future], future.result()) for future in as_completed(futures)]

    def derive(self, task, parts):
        return [task(part) for part in parts]

    def release(self, parts):
        """Nothing to do: partitions go when nobody holds them."""
