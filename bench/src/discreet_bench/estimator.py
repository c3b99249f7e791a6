"""Solvers of the benchmark that fit this library's estimators.

A solver of the library, or of a package that adds one by entry point, is in the benchmark without
further code. One that is not installed, or a variant of one, is a file for ``--solver-file``::

    from discreet_bench.estimator import EstimatorSolver, parameters_of

    class Solver(EstimatorSolver):
        name = "mine"
        solver = "agd"  # or an object: solver = MyMethod()
        parameters = parameters_of("agd")

Any other method derives from benchopt's ``BaseSolver`` and returns from ``get_result`` the fields
of `discreet_bench.problem.Result`.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from typing import Any, ClassVar

import numpy as np
from benchopt import BaseSolver

from discreet import HuberRegressor, LinearRegression, LinearSVC, LogisticRegression, PrivacyError
from discreet.errors import NotSupported
from discreet.solvers import Solver as AnySolver
from discreet.solvers import resolve
from discreet.tuning import GRIDS, check_tunable, solver_grid, tune
from discreet_bench.data import scaled_down
from discreet_bench.measures import THRESHOLD, peak_memory
from discreet_bench.problem import Problem, Result

__all__ = ["EstimatorSolver", "Tuned", "in_a_cell", "parameters_of"]

WARM_UP_ROWS = 200
_warm: set[tuple[Any, ...]] = set()
"""Kernels that this process has compiled already."""


def parameters_of(solver: str | AnySolver, **more: Any) -> dict[str, list[Any]]:
    """Return the parameters of a solver, by name or as an object, for benchopt.

    Besides the solver's own there are ``alpha`` (the penalty; None is the objective's), ``norm``
    (rows, also those that are predicted, are scaled down to it; None leaves them) and, where there
    are batches, ``share`` (the batch as a share of the rows).
    """
    own = {} if solver == "auto" else dict(vars(resolve(solver)))
    own.pop("unsafe", None)
    ours: dict[str, Any] = {"alpha": None, "norm": 1.0}
    if "batch_size" in own:
        ours["share"] = None
    return {name: [value] for name, value in {**own, **ours, **more}.items()}


def in_a_cell(error: Exception) -> str:
    """Shorten an error to fit a cell: the true ε if published constants were refused."""
    text = " ".join(str(error).split()) or type(error).__name__
    true = re.search(r"they are \(([^,]+),", text)
    if isinstance(error, PrivacyError) and true:
        return f"refused: true ε = {true[1]}"
    sentence = re.split(r"(?<=[.!?])\s", text)[0]
    return f"{type(error).__name__}: {sentence}"


class EstimatorSolver(BaseSolver):
    """Fit a model of this library with one of its solvers.

    Attributes
    ----------
    solver : str or Solver
        The solver's name, if it is not that of the class, or a solver of the library's kind.
    fixed : dict
        Settings of the solver that define the method.
    """

    sampling_strategy = "run_once"
    solver: ClassVar[str | AnySolver] = ""
    fixed: ClassVar[dict[str, Any]] = {}
    requirements: ClassVar[list[str]] = []

    def skip(self, **objective: Any) -> tuple[bool, str | None]:
        """Skip relations that the method has no proof for."""
        problem = Problem(**objective)
        kind = self._kind()
        relations = [str(relation) for relation in kind.relations]
        if problem.relation not in relations:
            return True, f"proved for {' and '.join(relations)} only"
        return False, None

    def set_objective(self, **objective: Any) -> None:
        """Take the problem, with rows scaled down to ``norm`` for the fit and for predictions.

        The papers scale all rows before anything else; a model that was fitted on scaled rows and
        predicts rows as they are would be judged on other data than theirs.
        """
        problem, norm = Problem(**objective), getattr(self, "norm", None)
        if norm is not None:
            scaled = {name: scaled_down(getattr(problem, name), norm) for name in ("X", "X_test")}
            problem = dataclasses.replace(problem, **scaled)
        self.problem = problem

    def warm_up(self) -> None:
        """Compile the kernels once per process, outside the timed run."""
        problem = self.problem
        key = (self.name, problem.loss, problem.n_classes, type(problem.X).__name__)
        if key in _warm:
            return
        _warm.add(key)
        few = np.unique(problem.y, return_index=True)[1][:50]
        rows = np.union1d(few, np.arange(min(WARM_UP_ROWS, len(problem.y))))
        try:
            self._fit(problem.X[rows], problem.y[rows])
        except Exception:  # the run itself will meet the same error and report it
            return

    def run(self, _: Any) -> None:
        """Fit; an error becomes the run's result, so that a table can show it."""
        problem = self.problem
        self.model: Any = None
        self.error = ""
        with peak_memory() as peak:
            try:
                self.model = self._fit(*self._rows_seen(problem.X, problem.y))
            except Exception as error:
                self.error = in_a_cell(error)
        self.peak = peak.mebibytes

    def get_result(self) -> dict[str, Any]:
        """Return what the objective evaluates."""
        if self.model is None:
            failed = Result(problem=self.error, calibration=self._calibration(), variant="private")
            return failed.as_dict()
        return Result.of_model(
            self.model,
            self.problem,
            peak_mb=self.peak,
            calibration=self._calibration(),
            published=self._calibration() == "published",
            at=self._at(),
        ).as_dict()

    def _rows_seen(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the rows to fit: all, those of the first updates, or one mini-batch.

        A mini-batch of about ``batch_rows`` rows has each row with the same probability, drawn
        without looking at it, so that the guarantee holds for all rows; it is not made smaller.
        """
        updates, batch_rows = getattr(self, "updates", None), getattr(self, "batch_rows", None)
        if batch_rows is not None:
            chances = np.random.default_rng([self.problem.repeat, len(y)]).random(len(y))
            kept = np.flatnonzero(chances < batch_rows / len(y))
            return X[kept], y[kept]
        if updates is None:
            return X, y
        first = int(updates * self.batch_size)
        if first > len(y):
            raise ValueError(
                f"updates={updates} of {self.batch_size} rows need {first:,} rows; there are "
                f"{len(y):,}."
            )
        return X[:first], y[:first]

    def _at(self) -> float:
        updates = getattr(self, "updates", None)
        return float("nan") if updates is None else float(updates)

    def _kind(self) -> AnySolver:
        name = self.solver or self.name
        return resolve("gd") if name == "auto" else resolve(name)

    def _calibration(self) -> str:
        return str(getattr(self, "calibration", ""))

    def _solver(self, n_rows: int) -> str | AnySolver:
        """Return the solver object with the settings of this run."""
        if (self.solver or self.name) == "auto":
            return "auto"
        kind = self._kind()
        known = {field.name for field in dataclasses.fields(kind) if field.init}
        settings = {k: v for k, v in self._parameters.items() if k in known}
        settings |= self.fixed
        if self._calibration() == "published" and "unsafe" in known:
            settings["unsafe"] = True  # the guarantee has the true ε, and the run is marked
        if getattr(self, "share", None) is not None:
            settings["batch_size"] = max(1, round(self.share * n_rows))
        return dataclasses.replace(kind, **settings)

    def _fit(self, X: Any, y: Any) -> Any:
        problem = self.problem
        alpha = problem.alpha if self.alpha is None else self.alpha
        shared = {
            "epsilon": problem.epsilon,
            "delta": problem.delta,
            "relation": problem.relation,
            "solver": self._solver(len(y)),
            "alpha": alpha,
            "data_norm": self.norm,
            # a model of the most frequent class is an intercept
            "fit_intercept": problem.intercept or self.name == "majority",
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._estimator(problem, shared).fit(X, y)

    def _estimator(self, problem: Problem, shared: dict[str, Any]) -> Any:
        if problem.loss == "huber":
            bounds = problem.target_bounds
            return HuberRegressor(threshold=THRESHOLD, target_bounds=bounds, **shared)
        if problem.loss == "squared":
            return LinearRegression(target_bounds=problem.target_bounds, **shared)
        shared["classes"] = np.arange(problem.n_classes)
        if problem.loss == "logistic":
            return LogisticRegression(**shared)
        name = "huber" if problem.loss == "huber-hinge" else problem.loss
        return LinearSVC(loss=name, **shared)


class Tuned(EstimatorSolver):
    """The best of a secret number of private runs, each with a setting drawn from a grid.

    ``base`` is the method that is tuned, all of it on one budget. Time is that of all runs.
    """

    name = "tuned"
    parameters: ClassVar[dict[str, list[Any]]] = {
        "base": ["agd"],
        "expected_runs": [None],
        "law": ["poisson"],
        "alpha": [None],
        "norm": [1.0],
    }

    def skip(self, **objective: Any) -> tuple[bool, str | None]:
        """Skip methods without a grid or without a proof, and real targets."""
        try:
            check_tunable(resolve(self.base))
        except NotSupported as error:
            return True, str(error)
        if self.base not in GRIDS:
            return True, f"no grid for {self.base!r}; there is one for {', '.join(GRIDS)}"
        if objective["n_classes"] == 0:
            return True, "scores are counts of right answers, so targets must be classes"
        return super().skip(**objective)

    def get_result(self) -> dict[str, Any]:
        """Return what the objective evaluates, marked as tuned privately."""
        return super().get_result() | {"tuning": "selected"}

    def _kind(self) -> AnySolver:
        return resolve(self.base)

    def _fit(self, X: Any, y: Any) -> Any:
        problem = self.problem
        estimator = self._estimator(
            problem,
            {
                "epsilon": problem.epsilon,
                "delta": problem.delta,
                "relation": problem.relation,
                "solver": self.base,
                "alpha": problem.alpha if self.alpha is None else self.alpha,
                "data_norm": self.norm,
                "fit_intercept": problem.intercept,
            },
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tune(
                estimator,
                X,
                y,
                grid=solver_grid(self.base),
                expected_runs=self.expected_runs,
                law=self.law,
            ).model
