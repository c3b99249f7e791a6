"""Code that the released methods share: sums over rows, their result, and their solver."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from benchopt import BaseSolver
from numpy.typing import NDArray
from scipy import sparse

from discreet.objectives import Hinge, HuberHinge, Logistic, Loss
from discreet.validate import FloatArray
from discreet_bench.estimator import in_a_cell
from discreet_bench.measures import peak_memory
from discreet_bench.problem import Problem, Result

__all__ = [
    "Mistake",
    "Released",
    "ReleasedSolver",
    "Rows",
    "gaussian_factor",
    "loss_named",
    "one_byte",
    "rows_of",
]

SEEDS = 256
"""Number of different seeds of code that seeds its noise with one byte."""

_LOSSES: dict[str, Loss] = {"logistic": Logistic(), "huber-hinge": HuberHinge(), "hinge": Hinge()}


def loss_named(name: str, allowed: tuple[str, ...]) -> Loss:
    """Return the loss, if the method takes it."""
    if name not in allowed:
        raise ValueError(
            f"loss={name!r} is not one this method takes. Use one of {', '.join(allowed)}."
        )
    return _LOSSES[name]


@dataclass(frozen=True)
class Rows:
    """Rows, each scaled by a number of its own, with a last column of ones for the intercept.

    The ones are scaled with their rows unless ``plain_ones``. Scaling a row together with its one
    leaves the sign of its margin as it is, so weights learnt from scaled rows classify rows as they
    came.
    """

    X: Any
    scale: FloatArray
    intercept: bool = True
    plain_ones: bool = False

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def size(self) -> int:
        """Number of weights."""
        return int(self.X.shape[1]) + int(self.intercept)

    @property
    def ones(self) -> FloatArray:
        """The last column, where there is an intercept."""
        return np.ones(self.count) if self.plain_ones else self.scale

    def norms(self) -> FloatArray:
        """Return the norm of each row, its one included."""
        squares = (self.scale * _lengths(self.X)) ** 2
        return np.sqrt(squares + self.ones**2) if self.intercept else np.sqrt(squares)

    def margins(self, weights: FloatArray) -> FloatArray:
        """Return the products of rows and weights."""
        if not self.intercept:
            return self.scale * (self.X @ weights)
        return self.scale * (self.X @ weights[:-1]) + self.ones * weights[-1]

    def combine(self, factors: FloatArray) -> FloatArray:
        """Return the sum of rows times factors."""
        total = self.X.T @ (self.scale * factors)
        return np.append(total, self.ones @ factors) if self.intercept else np.asarray(total)

    def take(self, which: NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        return Rows(self.X[which], self.scale[which], self.intercept, self.plain_ones)


def rows_of(
    X: Any,
    *,
    intercept: bool = True,
    longest: float | None = None,
    features: float | None = None,
) -> Rows:
    """Return rows as they are, scaled down to norm ``longest``, or with features of one norm.

    ``longest`` bounds the norm of a row with its one. ``features`` is the norm that every row gets
    before the one is added; rows of zeros stay as they are.
    """
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    lengths = _lengths(X)
    if features is not None:
        scale = features / np.where(lengths > 0, lengths, features)
        return Rows(X, scale, intercept, plain_ones=True)
    scale = np.ones(X.shape[0])
    if longest is not None:
        whole = np.sqrt(lengths**2 + 1.0) if intercept else lengths
        scale = np.minimum(1.0, longest / np.maximum(whole, 1e-300))
    return Rows(X, scale, intercept)


def one_byte(seed: int) -> np.random.Generator:
    """Return a generator of one of 256 streams, as code that seeds its noise with one byte."""
    return np.random.default_rng(int(np.random.default_rng(seed).integers(SEEDS)))


def gaussian_factor(delta: float) -> float:
    """Return the Gaussian constant of Iyengar et al., lemma III.1: σ = (Δ/ε)·(1 + √(2 ln(1/δ)))."""
    return float(1 + np.sqrt(2 * np.log(1 / delta)))


def _lengths(X: Any) -> FloatArray:
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    else:
        squares = np.einsum("ij,ij->i", X, X)
    return np.sqrt(squares)


class Mistake(NamedTuple):
    """A mistake of released code, and its effect on ε."""

    what: str
    effect: str


@dataclass(frozen=True)
class Released:
    """Weights of a released method, and their true ε.

    Attributes
    ----------
    weights
        One per column, the intercept last.
    true_epsilon
        The ε of the run at the requested δ, or a lower bound on it from a pair of neighbours;
        ``inf`` if no ε is true, ``None`` if it is not known.
    why
        The error, in a sentence or two.
    verdict
        The conclusion, in capitals.
    """

    weights: NDArray[np.float64]
    true_epsilon: float | None
    why: str
    verdict: str = "NOT PRIVATE"

    def claim(self, epsilon: float) -> str:
        """State the claim, the truth and the reason, for a report."""
        if self.true_epsilon is None:
            true = "the true ε is not known"
        elif np.isinf(self.true_epsilon):
            true = "no finite ε is true"
        else:
            true = f"the true ε is at least {self.true_epsilon:.3g}"
        return f"{self.verdict}. Claimed ε = {epsilon:g}; {true}. {self.why}"


class ReleasedSolver(BaseSolver):
    """Run ``method``, one of the modules next to this one; several classes one against the rest.

    With K > 2 classes each model gets ε/K and δ/K, as in the papers. An error in a run is the
    ``problem`` of its result.
    """

    sampling_strategy = "run_once"
    requirements: ClassVar[list[str]] = []
    method: ClassVar[ModuleType]

    def skip(self, **objective: Any) -> tuple[bool, str | None]:
        """Skip losses that the method does not take, and relations that its claim is not about."""
        problem = Problem(**objective)
        if problem.loss not in self.method.LOSSES:
            return True, f"takes {', '.join(self.method.LOSSES)}, not {problem.loss}"
        if problem.relation != self.method.RELATION:
            return True, f"its claim is for {self.method.RELATION}, not {problem.relation}"
        if not problem.intercept and self.method.INTERCEPT:
            return True, "always has an intercept"
        return False, None

    def set_objective(self, **objective: Any) -> None:
        """Keep the problem."""
        self.problem = Problem(**objective)

    def run(self, _: Any) -> None:
        """Fit one model, or one per class; an error becomes the run's result."""
        self.models: list[Released] = []
        self.error = ""
        with peak_memory() as peak:
            try:
                self.models = self._fit()
            except Exception as error:
                self.error = in_a_cell(error)
        self.peak = peak.mebibytes

    def get_result(self) -> dict[str, Any]:
        """Return what the objective evaluates."""
        if not self.models:
            return Result(variant="as released", problem=self.error).as_dict()
        problem = self.problem
        weights = np.array([model.weights for model in self.models])
        found: dict[str, Any] = {"scores": self._scores(problem.X_test, weights)}
        if problem.n_classes == 2:
            found |= {"train_scores": self._scores(problem.X, weights), "weights": weights[0]}
        return Result(
            **found,
            variant="as released",
            claim=self._claim(),
            epsilon_spent=self._spent(),
            peak_mb=self.peak,
        ).as_dict()

    def _fit(self) -> list[Released]:
        problem = self.problem
        codes = [1] if problem.n_classes == 2 else range(problem.n_classes)
        settings = {name: getattr(self, name) for name in self.parameters}
        return [
            self.method.fit(
                problem.X,
                np.where(problem.y == code, 1.0, -1.0),
                epsilon=problem.epsilon / len(codes),
                delta=problem.delta / len(codes),
                loss=problem.loss,
                intercept=problem.intercept,
                seed=_seed_of(problem.repeat, code),
                **settings,
            )
            for code in codes
        ]

    def _spent(self) -> float:
        """Return the sum of the models' ε, as the papers add them; nan if it is not known."""
        spent = [model.true_epsilon for model in self.models]
        return math.nan if None in spent else float(sum(e for e in spent if e is not None))

    def _scores(self, X: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return margins of rows that are scaled as for the fit: (rows,), or (rows, models)."""
        rows = self.method.prepared(X, intercept=self.problem.intercept)
        scores = np.column_stack([rows.margins(one) for one in weights])
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _claim(self) -> str:
        first, epsilon = self.models[0], self.problem.epsilon
        if len(self.models) == 1:
            return first.claim(epsilon)
        each = first.claim(epsilon / len(self.models))
        return f"{len(self.models)} models, one per class, of which the first: {each}"


def _seed_of(repeat: int, code: int) -> int:
    """Return a seed per model."""
    return int(np.random.SeedSequence([repeat, code]).generate_state(1)[0])
