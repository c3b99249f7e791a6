"""The problem that every solver of the benchmark gets, and how what it returns is judged.

The budget, the relation and the loss belong to the problem: no solver chooses them. What a solver
says it spent is recomputed by another accountant, and a run that claims privacy and spent more than
the problem allows is an error.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.errors import PrivacyError
from discreet_bench import measures
from discreet_bench.choices import one_of
from discreet_bench.data import Table
from discreet_bench.minimum import minimum
from discreet_bench.problem import Problem, Result
from discreet_bench.progress import JOBS
from discreet_bench.promise import OVERSPENT, promise
from discreet_bench.splits import Splits

__all__ = ["Task", "delta_for", "shortened"]

_minima: dict[tuple[Any, ...], float] = {}
"""Least objectives that this process has found: methods and budgets share them."""


def delta_for(rule: str | float, n_rows: int) -> float:
    """The δ of an objective: a number, or ``"1/n^2"`` for n training rows."""
    if rule == "1/n^2":
        return 1 / n_rows**2
    return float(rule)


class Task:
    """A data set with an objective: gives out problems and judges results."""

    def __init__(
        self,
        table: Table,
        *,
        epsilon: float,
        delta: str | float,
        relation: str,
        loss: str,
        alpha: float,
        test: str,
        rows: str,
        intercept: bool,
    ) -> None:
        for name, given in (("rows", rows), ("relation", relation), ("loss", loss)):
            one_of(name, given)
        self.table, self.epsilon, self.relation = table, float(epsilon), relation
        self.delta, self.loss, self.alpha = delta, loss, float(alpha)
        self.rows, self.intercept = rows, bool(intercept)
        self.splits = Splits(test)

    def unfit(self) -> str | None:
        """Why the objective makes no sense on the data, or None."""
        real = self.table.n_classes == 0
        if real != (self.loss in ("huber", "squared")):
            kind = "a real target" if real else "classes"
            return f"{self.table.name} has {kind}, which the loss {self.loss!r} is not for"
        return None

    def problem(self, repeat: int) -> Problem:
        """The problem of one repeat."""
        train, test = self.splits.of(len(self.table.y), repeat)
        X, norm = self.table.X, self.table.max_norm
        X_train, X_test = X[train], X[test]
        if self.rows == "unit":
            X_train, X_test, norm = shortened(X_train, 1.0), shortened(X_test, 1.0), min(norm, 1.0)
        self._y_test = self.table.y[test]
        self.last = Problem(
            X=X_train,
            y=self.table.y[train],
            X_test=X_test,
            n_classes=self.table.n_classes,
            epsilon=self.epsilon,
            delta=delta_for(self.delta, len(train)),
            relation=self.relation,
            loss=self.loss,
            alpha=self.alpha,
            intercept=self.intercept,
            bounds=self.table.bounds,
            max_norm=norm,
            target_bounds=self.table.target_bounds,
            repeat=repeat,
        )
        return self.last

    def judged(self, result: Result) -> list[dict[str, Any]]:
        """Lines of the runs for a result of the last problem.

        A run that claims privacy and spent more than the problem allows has no measures: its
        problem begins with `OVERSPENT`.
        """
        problem = self.last
        n, d = problem.X.shape
        line: dict[str, Any] = {
            "data": self.table.name,
            "n": n,
            "d": d,
            "classes": problem.n_classes,
            "delta": problem.delta,
            "seed": problem.repeat,
            "jobs": int(os.environ.get(JOBS, "1")),
            "calibration": result.calibration,
            "tuning": result.tuning,
            "at": result.at,
            "fit_seconds": result.seconds,
            "peak_mb": result.peak_mb,
            "problem": result.problem,
        }
        try:
            line |= promise(result, problem)
        except PrivacyError as error:
            return [line | {"variant": "not private", "problem": f"{OVERSPENT}{error}"}]
        if result.problem:
            return [line]
        if result.iterates:
            return [line | self._station(station) for station in result.iterates]
        line |= self._measured(result)
        return [line]

    def _measured(self, result: Result) -> dict[str, Any]:
        problem, scores = self.last, np.asarray(result.scores, dtype=np.float64)
        if problem.n_classes == 0:
            found: dict[str, Any] = dict(measures.regression(scores, self._y_test))
        else:
            found = dict(measures.classification(scores, self._y_test, result.probabilities))
        if result.train_scores is not None and result.weights is not None:
            margins, weights = self._in_units(result.train_scores, result.weights)
            found |= self._objective(margins, weights, result.row_norm)
        return found

    def _station(self, station: dict[str, Any]) -> dict[str, Any]:
        """A line for weights on the way."""
        problem, weights = self.last, np.asarray(station["weights"], dtype=np.float64)
        columns, constant = (weights[:-1], weights[-1]) if self.intercept else (weights, 0.0)
        target = self._target()
        slope = measures.gradient(
            measures.loss_of(self.loss), problem.X, target, weights, self.alpha, self.intercept
        )
        found = self._objective(problem.X @ columns + constant, weights)
        found |= measures.classification(problem.X_test @ columns + constant, self._y_test)
        return found | {
            "at": station["at"],
            "gradient_norm": float(np.linalg.norm(slope)),
            "noisy_gradient_norm": station.get("noisy_gradient_norm", math.nan),
        }

    def _objective(
        self, margins: NDArray[Any], weights: NDArray[Any], row_norm: float | None = None
    ) -> dict[str, float]:
        """The objective on rows as the model sees them, and its excess over the least on them."""
        value = measures.objective(self.loss, margins, self._target(), weights, self.alpha)
        return {"objective": value, "excess_objective": value - self._minimum(row_norm)}

    def _target(self) -> NDArray[np.float64]:
        """Labels -1 and +1, or targets brought to [-1, 1]."""
        y = self.last.y
        if self.table.target_bounds is None:
            return np.where(y == 1, 1.0, -1.0)
        low, high = self.table.target_bounds
        return (y - (low + high) / 2) / ((high - low) / 2)

    def _in_units(
        self, scores: NDArray[Any], weights: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scores and weights in the units of the target that was brought to [-1, 1]."""
        if self.table.target_bounds is None:
            return scores, weights
        low, high = self.table.target_bounds
        centre, half = (low + high) / 2, (high - low) / 2
        weights = weights.copy()
        if self.intercept:
            weights[-1] -= centre
        return (scores - centre) / half, weights / half

    def _minimum(self, row_norm: float | None) -> float:
        """The least that the objective can be on these training rows, scaled down or not."""
        split = (self.table.name, self.splits.kind, self.last.repeat)
        key = (*split, self.loss, self.alpha, self.rows, self.intercept, row_norm)
        if key not in _minima:
            X = self.last.X if row_norm is None else shortened(self.last.X, row_norm)
            _minima[key] = minimum(self.loss, X, self._target(), self.alpha, self.intercept)
        return _minima[key]


def shortened(X: Any, norm: float) -> Any:
    """Rows scaled down to a norm where they are longer."""
    if sp.issparse(X):
        lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(norm / np.maximum(lengths, norm)) @ X)
    return X * (norm / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), norm))
