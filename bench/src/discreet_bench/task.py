"""The problem that every solver of the benchmark gets, and the judgement of its result.

Budget, relation and loss belong to the problem: no solver chooses them. The guarantee of a run is
recomputed by another accountant, and a run that claims privacy and spent more than the problem
allows is an error.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.recompute import recomputed_epsilon
from discreet.errors import PrivacyError
from discreet.tuning import TunedGuarantee
from discreet_bench import measures
from discreet_bench.data import Table, scaled_down
from discreet_bench.problem import Problem, Result, one_of
from discreet_bench.promise import check, insist

__all__ = ["JOBS", "OVERSPENT", "SEED", "Splits", "Task", "delta_for", "promise"]

JOBS = "DISCREET_BENCH_JOBS"
"""Environment variable with the number of processes that run side by side."""

SEED = "DISCREET_BENCH_SEED"
"""Environment variable with a number; another one makes other splits and other draws."""

APART = 100_000
"""Distance between the first repeats of two seeds; a multiple of the number of folds."""

OVERSPENT = "spent too much: "
"""Start of the problem of a run that claims privacy and spent more than allowed."""

TEST_SHARE = 0.2
FOLDS = 5

_minima: dict[tuple[Any, ...], float] = {}
"""Minima that this process has computed: methods and budgets share them."""


def delta_for(rule: str | float, n_rows: int) -> float:
    """Return the δ of an objective: a number, or ``"1/n^2"`` for n training rows."""
    if rule == "1/n^2":
        return 1 / n_rows**2
    return float(rule)


def drawn_columns(count: int, kept: int, repeat: int) -> NDArray[np.int64]:
    """Return the columns that a repeat draws at random, in order."""
    order = np.random.default_rng([repeat, count]).permutation(count)
    return np.sort(order[:kept])


class Task:
    """A data set with an objective: makes problems and judges results."""

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
        """Return why the objective makes no sense on the data, or None."""
        real = self.table.n_classes == 0
        if real != (self.loss in ("huber", "squared")):
            kind = "a real target" if real else "classes"
            return f"{self.table.name} has {kind}, which the loss {self.loss!r} is not for"
        return None

    def problem(self, repeat: int) -> Problem:
        """Return the problem of one repeat."""
        repeat += APART * int(os.environ.get(SEED, "0"))
        train, test = self.splits.of(len(self.table.y), repeat)
        X = self.table.X
        norm = self.table.max_norm
        bounds = self.table.bounds
        if self.table.drawn is not None:
            columns = drawn_columns(X.shape[1], self.table.drawn, repeat)
            X = np.ascontiguousarray(X[:, columns])
            bounds = bounds[columns]
        X_train, X_test = X[train], X[test]
        if self.rows == "unit":
            X_train, X_test, norm = (
                scaled_down(X_train, 1.0),
                scaled_down(X_test, 1.0),
                min(norm, 1.0),
            )
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
            bounds=bounds,
            max_norm=norm,
            target_bounds=self.table.target_bounds,
            repeat=repeat,
        )
        return self.last

    def judged(self, result: Result) -> list[dict[str, Any]]:
        """Return lines of the runs for a result of the last problem.

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
        if wrong := self._misshapen(result):
            return [line | {"problem": f"ValueError: {wrong}"}]
        if result.iterates:
            return [line | self._checkpoint(point) for point in result.iterates]
        line |= self._measured(result)
        return [line]

    def _measured(self, result: Result) -> dict[str, Any]:
        problem, scores = self.last, np.asarray(result.scores, dtype=np.float64)
        if problem.n_classes == 0:
            found: dict[str, Any] = dict(measures.regression(scores, self._y_test))
        else:
            found = dict(measures.classification(scores, self._y_test, result.probabilities))
        if result.train_scores is not None and result.weights is not None:
            if self.last.n_classes == 2:
                right = (np.asarray(result.train_scores) > 0) == (self.last.y == 1)
                found["train_accuracy"] = float(right.mean())
            margins, weights = self._in_units(result.train_scores, result.weights)
            found |= self._objective(margins, weights, result.row_norm)
        return found

    def _misshapen(self, result: Result) -> str:
        """Return what is wrong with the scores of a result, in a sentence, or nothing."""
        if result.scores is None:
            return "" if result.iterates else "the method returned no scores of the test rows."
        n_test = self.last.X_test.shape[0]
        shape: tuple[int, ...] = (n_test,)
        if self.last.n_classes > 2:
            shape = (n_test, self.last.n_classes)
        found = np.shape(result.scores)
        return "" if found == shape else f"scores have the shape {found}; {shape} is needed."

    def _checkpoint(self, point: dict[str, Any]) -> dict[str, Any]:
        """Return a line for the weights of a checkpoint."""
        problem, weights = self.last, np.asarray(point["weights"], dtype=np.float64)
        columns, constant = (weights[:-1], weights[-1]) if self.intercept else (weights, 0.0)
        target = self._target()
        slope = measures.gradient(
            measures.loss_of(self.loss), problem.X, target, weights, self.alpha, self.intercept
        )
        found = self._objective(problem.X @ columns + constant, weights)
        found |= measures.classification(problem.X_test @ columns + constant, self._y_test)
        return found | {
            "at": point["at"],
            "gradient_norm": float(np.linalg.norm(slope)),
            "noisy_gradient_norm": point.get("noisy_gradient_norm", math.nan),
        }

    def _objective(
        self, margins: NDArray[Any], weights: NDArray[Any], row_norm: float | None = None
    ) -> dict[str, float]:
        """Return the objective on rows as the model sees them, and its excess over the minimum.

        A loss that is not convex has the squared norm of its gradient instead of an excess.
        """
        value = measures.objective(self.loss, margins, self._target(), weights, self.alpha)
        loss = measures.loss_of(self.loss)
        if not loss.convex:
            X = self.last.X if row_norm is None else scaled_down(self.last.X, row_norm)
            slope = measures.gradient(loss, X, self._target(), weights, self.alpha, self.intercept)
            return {"objective": value, "squared_gradient": float(slope @ slope)}
        return {"objective": value, "excess_objective": value - self._minimum(row_norm)}

    def _target(self) -> NDArray[np.float64]:
        """Return labels -1 and +1, or targets scaled to [-1, 1]."""
        y = self.last.y
        if self.table.target_bounds is None:
            return np.where(y == 1, 1.0, -1.0)
        low, high = self.table.target_bounds
        return (y - (low + high) / 2) / ((high - low) / 2)

    def _in_units(
        self, scores: NDArray[Any], weights: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return scores and weights in the units of the target that was scaled to [-1, 1]."""
        if self.table.target_bounds is None:
            return scores, weights
        low, high = self.table.target_bounds
        centre, half = (low + high) / 2, (high - low) / 2
        weights = weights.copy()
        if self.intercept:
            weights[-1] -= centre
        return (scores - centre) / half, weights / half

    def _minimum(self, row_norm: float | None) -> float:
        """Return the minimum of the objective on these training rows, scaled down or not."""
        split = (self.table.name, self.splits.kind, self.last.repeat)
        key = (*split, self.loss, self.alpha, self.rows, self.intercept, row_norm)
        if key not in _minima:
            X = self.last.X if row_norm is None else scaled_down(self.last.X, row_norm)
            _minima[key] = measures.minimum(
                self.loss, X, self._target(), self.alpha, self.intercept
            )
        return _minima[key]


class Splits:
    """Training and test rows, one pair per repeat, the same for every method.

    ``"80/20"``: a fifth of the rows at random. ``"5-fold"``: repeats 0 to 4 are the folds of one
    random order, 5 to 9 of another. ``"train"``: all rows in a new order, for
    studies of the training objective.
    """

    def __init__(self, kind: str) -> None:
        one_of("test", kind)
        self.kind = kind

    def get_n_splits(self, **_: Any) -> int:
        """Return 1: the default number of repeats."""
        return 1

    def of(self, n: int, repeat: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the training rows and of the test rows."""
        if self.kind == "5-fold":
            order = np.random.default_rng(repeat // FOLDS).permutation(n)
            parts = np.array_split(order, FOLDS)
            fold = parts.pop(repeat % FOLDS)
            return np.concatenate(parts), fold
        order = np.random.default_rng(repeat).permutation(n)
        if self.kind == "train":
            return order, order
        n_test = math.ceil(TEST_SHARE * n)
        return order[n_test:], order[:n_test]

    def split(self) -> Iterator[int]:
        """Count repeats without end, as benchopt asks for them."""
        return itertools.count()


def promise(result: Result, problem: Problem) -> dict[str, Any]:
    """Check what a run spent and classify it; returns columns of `discreet_bench.runs`.

    Only a guarantee that is recomputed here makes a run private.

    Raises
    ------
    PrivacyError
        If the run claims privacy and has no guarantee, one for other neighbours, or one that
        allows more than the problem does.
    """
    guarantee = result.guarantee
    found: dict[str, Any] = {
        "variant": result.variant,
        "epsilon_spent": result.epsilon_spent,
        "delta_spent": math.nan,
        "epsilon_recomputed": math.nan,
        "guarantee": result.claim,
    }
    if guarantee is None:
        if result.variant == "private" and not result.problem:
            raise PrivacyError("the run claims privacy without a guarantee to recompute.")
        return found
    found |= {
        "epsilon_spent": guarantee.epsilon,
        "delta_spent": guarantee.delta,
        "guarantee": str(guarantee) if problem.repeat == 0 else "",
    }
    if not (guarantee.private and guarantee.secure):
        return found | {"variant": "not private"}
    if str(guarantee.relation) != problem.relation:
        raise PrivacyError(
            f"the guarantee is for {str(guarantee.relation)!r}; the objective asks for "
            f"{problem.relation!r}."
        )
    if result.published and guarantee.epsilon > problem.epsilon * (1 + 1e-9):
        spent = recomputed_epsilon(guarantee)
        return found | {"variant": "as released", "epsilon_recomputed": spent}
    if isinstance(guarantee, TunedGuarantee):
        recomputed = guarantee.recompute()
        insist((guarantee.epsilon, guarantee.delta), recomputed, problem.epsilon, problem.delta)
    else:
        recomputed = check(guarantee, problem.epsilon, problem.delta)
    return found | {"variant": "private", "epsilon_recomputed": recomputed}
