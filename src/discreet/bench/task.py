"""The problem that every solver of the benchmark gets, and how what it returns is judged.

The budget, the relation and the loss belong to the problem: no solver chooses them. What a solver
says it spent is recomputed by another accountant, and a run that claims privacy and spent more than
the problem allows is an error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.bench import measures
from discreet.bench.data import Table
from discreet.bench.minimum import minimum
from discreet.bench.recompute import check, insist, recomputed_epsilon

__all__ = ["CHOICES", "Problem", "Result", "Splits", "Task", "delta_for"]

TEST_SHARE = 0.2
FOLDS = 5
CHOICES = {
    "test": ("80/20", "5-fold", "train"),
    "rows": ("encoded", "unit"),
    "relation": ("add_remove", "replace_one"),
    "loss": ("logistic", "huber-hinge", "hinge", "huber", "squared"),
}
"""Parameters of the objective that are one of a few words."""


def delta_for(rule: str | float, n_rows: int) -> float:
    """The δ of an objective: a number, or ``"1/n^2"`` for n training rows."""
    if rule == "1/n^2":
        return 1 / n_rows**2
    return float(rule)


def _one_of(name: str, given: str) -> None:
    if given not in CHOICES[name]:
        raise ValueError(f"{name} must be one of {', '.join(CHOICES[name])}; got {given!r}.")


class Splits:
    """Training and test rows, one pair a repeat, the same for every method.

    ``"80/20"``: a fifth of the rows at random. ``"5-fold"``: repeats 0 to 4 are the folds of one
    random order, 5 to 9 of another. ``"train"``: all rows in a new order, for
    studies of the training objective.
    """

    def __init__(self, kind: str) -> None:
        _one_of("test", kind)
        self.kind = kind

    def get_n_splits(self, **_: Any) -> int:
        """One, unless a number of repeats is asked for."""
        return 1

    def of(self, n: int, repeat: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places of the training rows and of the test rows."""
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
        """Numbers of repeats without end, as benchopt asks for them."""
        return itertools.count()


@dataclass(frozen=True)
class Problem:
    """What a solver gets.

    Attributes
    ----------
    X, y
        Training rows (dense or CSR), and class codes 0, 1, … or real targets.
    X_test
        Test rows, to be scored.
    n_classes
        Number of classes; 0 for a real target.
    epsilon, delta, relation
        What may be spent, and on which neighbours.
    loss, alpha, intercept
        The objective: its loss, penalty, and whether there is a constant term.
    bounds, max_norm, target_bounds
        Public: bounds of the columns (d, 2), of a row's norm, and of a real target.
    repeat
        Number of the split, and the seed of whatever else a method draws.
    """

    X: Any
    y: NDArray[Any]
    X_test: Any
    n_classes: int
    epsilon: float
    delta: float
    relation: str
    loss: str
    alpha: float
    intercept: bool
    bounds: NDArray[np.float64]
    max_norm: float
    target_bounds: tuple[float, float] | None
    repeat: int


@dataclass(frozen=True)
class Result:
    """What a solver returns.

    Attributes
    ----------
    scores
        Of the test rows: (n,) for two classes (positive for the second) or a real target, else
        (n, K).
    probabilities
        (n, K), where the model has them.
    train_scores, weights
        Scores of the training rows and all weights, the intercept last, for the objective; of two
        classes or a real target.
    guarantee
        A `discreet.privacy.Guarantee`, or an object with ``epsilon``, ``delta`` and
        ``recomputed_epsilon()``; None where there is none.
    published
        Whether the method's published constants were used, whatever they cost.
    variant
        Kind of run (`discreet.bench.runs.VARIANTS`) where there is no guarantee to tell it.
    claim, epsilon_spent
        What is known of the promise where there is no guarantee.
    calibration, tuning
        As in `discreet.bench.runs.COLUMNS`.
    iterates
        Stations on the way: dicts with ``at``, ``weights`` and, if known,
        ``noisy_gradient_norm``; each becomes a line of its own.
    at
        Updates done, where the run is one station of a curve.
    seconds, peak_mb
        Where the method measured them itself.
    problem
        Why there is no result.
    """

    scores: NDArray[Any] | None = None
    probabilities: NDArray[Any] | None = None
    train_scores: NDArray[Any] | None = None
    weights: NDArray[Any] | None = None
    guarantee: Any = None
    published: bool = False
    variant: str = "private"
    claim: str = ""
    epsilon_spent: float = math.nan
    calibration: str = ""
    tuning: str = ""
    iterates: list[dict[str, Any]] = field(default_factory=list)
    at: float = math.nan
    seconds: float = math.nan
    peak_mb: float = math.nan
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For benchopt."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @classmethod
    def of_model(cls, model: Any, problem: Problem, **more: Any) -> Result:
        """What a fitted estimator of this library has to say."""
        real = problem.n_classes == 0
        score = model.predict if real else model.decision_function
        found: dict[str, Any] = {"scores": score(problem.X_test), "guarantee": model.guarantee_}
        if hasattr(model, "predict_proba"):
            found["probabilities"] = model.predict_proba(problem.X_test)
        if problem.n_classes <= 2:
            found["train_scores"] = score(problem.X)
            weights = np.ravel(model.coef_)
            if problem.intercept:
                weights = np.append(weights, model.intercept_)
            found["weights"] = weights
        return cls(**found, **more)


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
            _one_of(name, given)
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
            X_train, X_test, norm = _shortened(X_train), _shortened(X_test), min(norm, 1.0)
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

        Raises
        ------
        PrivacyError
            If the run claims privacy and spent more than the problem allows.
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
            "calibration": result.calibration,
            "tuning": result.tuning,
            "at": result.at,
            "fit_seconds": result.seconds,
            "peak_mb": result.peak_mb,
            "problem": result.problem,
            **self._promise(result),
        }
        if result.problem:
            return [line]
        if result.iterates:
            return [line | self._station(station) for station in result.iterates]
        line |= self._measured(result)
        return [line]

    def _promise(self, result: Result) -> dict[str, Any]:
        """What was spent, checked; and what kind of run it is."""
        guarantee, problem = result.guarantee, self.last
        found = {
            "variant": result.variant,
            "epsilon_spent": result.epsilon_spent,
            "delta_spent": math.nan,
            "epsilon_recomputed": math.nan,
            "guarantee": result.claim,
        }
        if guarantee is None:
            if result.published:
                found["variant"] = "private"  # it failed before it spent anything
            return found
        found |= {
            "epsilon_spent": guarantee.epsilon,
            "delta_spent": guarantee.delta,
            "guarantee": str(guarantee) if problem.repeat == 0 else "",
        }
        if not getattr(guarantee, "private", True):
            return found | {"variant": "not private"}
        if result.published and guarantee.epsilon > problem.epsilon * (1 + 1e-9):
            found |= {"variant": "as released", "epsilon_recomputed": recomputed_epsilon(guarantee)}
            return found
        own = getattr(guarantee, "recomputed_epsilon", None)
        if own is None:
            recomputed = check(guarantee, problem.epsilon, problem.delta)
        else:
            recomputed = own()
            stated = (guarantee.epsilon, guarantee.delta)
            insist(stated, recomputed, problem.epsilon, problem.delta)
        return found | {"variant": "private", "epsilon_recomputed": recomputed}

    def _measured(self, result: Result) -> dict[str, Any]:
        problem, scores = self.last, np.asarray(result.scores, dtype=np.float64)
        if problem.n_classes == 0:
            found: dict[str, Any] = dict(measures.regression(scores, self._y_test))
        else:
            found = dict(measures.classification(scores, self._y_test, result.probabilities))
        if result.train_scores is not None and result.weights is not None:
            margins, weights = self._in_units(result.train_scores, result.weights)
            found |= self._objective(margins, weights)
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

    def _objective(self, margins: NDArray[Any], weights: NDArray[Any]) -> dict[str, float]:
        value = measures.objective(self.loss, margins, self._target(), weights, self.alpha)
        return {"objective": value, "excess_objective": value - self._minimum()}

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

    def _minimum(self) -> float:
        """The least that the objective can be on these training rows."""
        key = (self.table.name, self.splits.kind, self.last.repeat, self.loss, self.alpha,
               self.rows, self.intercept)  # fmt: skip
        return _least(key, _Kept(self))

    def least(self) -> float:
        """Find that minimum, by L-BFGS without privacy."""
        problem = self.last
        return minimum(self.loss, problem.X, self._target(), self.alpha, self.intercept)


class _Kept:
    """Carries a task past a cache that must not compare it."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept)


@lru_cache(maxsize=512)
def _least(_: tuple[Any, ...], kept: _Kept) -> float:
    return kept.task.least()


def _shortened(X: Any) -> Any:
    """Rows scaled down to norm 1 where they are longer."""
    if sp.issparse(X):
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(1 / np.maximum(norms, 1.0)) @ X)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
