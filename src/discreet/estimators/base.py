"""Base of all estimators: checks before reading, one account per fit, and the fit itself.

The order inside `fit` is part of the design: settings first (no data is read for a bad one), then
the shape and type of the data, then the account is opened, and only then does the curator read.
"""

from __future__ import annotations

import itertools
import multiprocessing
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from discreet.core import Account, Accountant, Budget, Curator, Guarantee
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.core.noise import Noise
from discreet.errors import NotSupported, PrivacyLeakWarning
from discreet.estimators import auto
from discreet.estimators.inputs import check_table, check_target
from discreet.objectives import L2, Loss, Problem
from discreet.preparation import FittedStep, Radius, Scale, Step, check_steps, pipeline
from discreet.solvers import Progress, Solution, Solver, TraceEntry, resolve
from discreet.validate import FloatArray, flag, function, number

__all__ = ["PrivateLinearModel"]

_FITS = itertools.count()
"""Counts the fits of this process, so that a guarantee can say how many there were before."""


@dataclass(frozen=True)
class _Method:
    """A preparation and a solver, with the budget divided between them.

    Attributes
    ----------
    steps, mechanisms
        The preparation, and the mechanism that each step uses.
    solver, models
        The solver, and the budget that is left to its models.
    """

    steps: tuple[Step, ...]
    mechanisms: tuple[Any, ...]
    solver: Solver
    models: Budget


@dataclass(frozen=True)
class _Settings:
    """Checked settings of a fit.

    Attributes
    ----------
    budget
        Budget of the whole fit.
    loss, penalty
        The objective.
    steps
        The preparation that the caller asks for.
    method
        None if the rule of ``solver="auto"`` has yet to choose it by the size of the table.
    """

    budget: Budget
    loss: Loss
    penalty: L2
    steps: tuple[Step, ...]
    method: _Method | None


class PrivateLinearModel(BaseEstimator):
    """Base class: settings, checks, and the private fit of one or several linear models."""

    epsilon: float
    delta: float
    relation: str
    solver: str | Solver
    alpha: float
    data_norm: float | None
    fit_intercept: bool
    preparation: Sequence[Step] | None
    random_state: Any
    accountant: Accountant | None
    progress: Callable[[Progress], None] | None

    coef_: FloatArray
    guarantee_: Guarantee
    trace_: tuple[TraceEntry, ...]
    preparation_: tuple[FittedStep, ...]
    solver_: str
    row_norm_: float | None

    _public: ClassVar[tuple[str, ...]] = (
        "the number of rows",
        "the number and order of columns, and how the table is stored",
        "that all rows are valid (finite numbers, known labels)",
    )

    def _loss(self) -> Loss:
        """Return the row loss that the estimator's settings name."""
        raise NotImplementedError

    def check_settings(self) -> None:
        """Raise if a setting is wrong, as `fit` would, without any data."""
        self._settings()

    def _objective(self) -> tuple[Budget, Loss, L2]:
        """Check the settings that do not depend on the solver; return budget, loss and penalty."""
        budget = Budget(self.epsilon, self.delta, self.relation)
        alpha = number("alpha", self.alpha, least=0.0, most=1e50)
        if self.data_norm is not None:
            number("data_norm", self.data_norm, least=1e-50, most=1e50)
        if not isinstance(self.fit_intercept, np.bool_):
            flag("fit_intercept", self.fit_intercept)
        return budget, self._loss(), L2(alpha)

    def _settings(self) -> _Settings:
        """Check every setting before any data is read."""
        budget, loss, penalty = self._objective()
        if self.progress is not None:
            function("progress", self.progress)
        if self.random_state is not None:
            check_random_state(self.random_state)
        if self.accountant is not None and not isinstance(self.accountant, Accountant):
            raise ValueError(f"accountant must be an Accountant or None; got {self.accountant!r}.")
        steps = check_steps(self.preparation, self.data_norm)
        if isinstance(self.solver, str) and self.solver == "auto":
            auto.check(budget)
            method = None
        else:
            method = self._divide(budget, steps, resolve(self.solver))
            method.solver.check(loss, method.models)
        return _Settings(budget, loss, penalty, steps, method)

    @staticmethod
    def _divide(budget: Budget, steps: tuple[Step, ...], solver: Solver) -> _Method:
        """Divide the budget between a preparation and a solver: once per fit."""
        if steps and not solver.private:
            raise NotSupported(
                f"solver={solver.name!r} protects nobody, so a private preparation makes no sense "
                "with it. Pass preparation=None, or use a private solver."
            )
        models, mechanisms = pipeline.divide_budget(steps, budget, solver.composes)
        return _Method(steps, mechanisms, solver, models)

    def _method(self, settings: _Settings, X: Any) -> _Method:
        """Return the method of the settings, or choose one now that the table's size is known."""
        if settings.method is not None:
            return settings.method
        choice = auto.choose(
            n_rows=X.shape[0],
            n_features=X.shape[1],
            loss=settings.loss,
            budget=settings.budget,
            given=settings.steps,
            alpha=settings.penalty.alpha,
            data_norm=self.data_norm,
            fit_intercept=self.fit_intercept,
        )
        steps = check_steps(choice.steps, self.data_norm)
        return self._divide(settings.budget, steps, choice.solver)

    def _read(self, X: Any, y: Any, *, numbers: bool) -> tuple[Any, NDArray[Any]]:
        """Convert X and y to arrays; X is checked for NaN where the rows are made.

        Deletes the attributes of an earlier fit first: if this one fails, no mixture is left.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        check_table(X)
        check_target(y, numbers=numbers)
        with np.errstate(all="ignore"):  # a warning about one row would be about that row
            X, y = validate_data(
                self,
                X,
                y,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                y_numeric=numbers,
            )
        return X, y

    def _read_new(self, X: Any) -> Any:
        """Convert rows to predict on to an array."""
        check_table(X)
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )

    def _fit_models(
        self,
        settings: _Settings,
        method: _Method,
        X: Any,
        target_of: Callable[[int], FloatArray],
        n_models: int,
        public: tuple[str, ...],
    ) -> FloatArray:
        """Fit ``n_models`` linear models on one budget; returns weights of shape (n_models, p).

        Targets are made when needed: for many classes they would outgrow a narrow table.
        """
        problem = self._problem(settings, method, X)
        spends = method.solver.plan(problem, method.models, n_models)
        self._warn(settings.budget, X.shape[0])
        bits = SystemBits() if self.random_state is None else self._seeded_bits()
        earlier_fits = next(_FITS)
        account = Account(settings.budget if method.steps else spends, self.accountant)
        rows, fitted = self._prepare(method, problem, spends, X, target_of(0), account, bits)
        solutions = []
        for model, stream in enumerate(bits.spawn(n_models)):
            part = rows if model == 0 else rows.with_targets(target_of(model))
            curator = Curator(part, account, Noise(stream), Fraction(1, n_models))
            progress = self._progress_of(model)
            solutions.append(method.solver.solve(problem, curator, method.models, progress))
        if self.data_norm is not None:
            public = (*public, f"the bound {self.data_norm:g} on a row's norm")
        conditions = (*pipeline.conditions(fitted), *solutions[0].conditions)
        if spends.epsilon > method.models.epsilon:
            conditions += (
                f"ε = {method.models.epsilon:g} was asked for, but the published constants give "
                "less privacy than that (unsafe=True)",
            )
        self.guarantee_ = account.guarantee(
            conditions=conditions,
            public=(*self._public, *public),
            secure=bits.secure,
            earlier_fits=earlier_fits,
        )
        self.preparation_ = fitted
        self.solver_ = method.solver.name
        self.row_norm_ = problem.row_norm
        self._note(solutions[0], pipeline.typical_norm(method.steps))
        self.trace_ = tuple(
            replace(entry, model=model)
            for model, solution in enumerate(solutions)
            for entry in solution.trace
        )
        return np.array([solution.weights for solution in solutions])

    def _problem(self, settings: _Settings, method: _Method, X: Any) -> Problem:
        """Return the objective for a table of this size.

        Rows are clipped to ``data_norm``, unless a step sets their norm: then only for solvers that
        need a bound, as the others clip gradients.
        """
        row_norm = pipeline.model_norm(method.steps, self.data_norm)
        set_by_step = any(isinstance(step, Radius | Scale) for step in method.steps)
        if set_by_step and not method.solver.needs_row_bound:
            row_norm = None
        return Problem(
            loss=settings.loss,
            penalty=settings.penalty,
            n_rows=X.shape[0],
            n_features=X.shape[1],
            fit_intercept=self.fit_intercept,
            row_norm=row_norm,
        )

    def _prepare(
        self,
        method: _Method,
        problem: Problem,
        spends: Budget,
        X: Any,
        targets: FloatArray,
        account: Account,
        bits: Bits,
    ) -> tuple[Any, tuple[FittedStep, ...]]:
        """Reserve the steps' shares of the budget and transform the rows."""
        steps = method.steps
        if steps and spends != method.models:
            raise NotSupported(
                f"solver={method.solver.name!r} would spend more than it was given (unsafe=True); "
                "a preparation cannot be accounted for together with that. Pass preparation=None."
            )
        copy = problem.row_norm is not None or not method.solver.takes_transformed_rows
        pipeline.check_table(steps, X, copy=copy)
        if steps:
            account.reserve([(step.name, step.share) for step in steps], method.solver.composes)
        return pipeline.transform(
            steps,
            method.mechanisms,
            X,
            targets,
            account,
            [Noise(stream) for stream in bits.spawn(len(steps))],
            copy=copy,
            data_norm=self.data_norm,
            fit_intercept=self.fit_intercept,
            row_norm=problem.row_norm,
        )

    def _note(self, solution: Solution, norm: float | None) -> None:
        """Keep what predictions need of a solution on rows of this typical norm, if known."""

    def _progress_of(self, model: int) -> Callable[[Progress], None] | None:
        """Wrap the progress callback so that it reports the model's index."""
        callback = self.progress
        if callback is None:
            return None
        return lambda at: callback(replace(at, entry=replace(at.entry, model=model)))

    def _seeded_bits(self) -> SeededBits:
        """Return the predictable bits of a fit in test mode."""
        state = check_random_state(self.random_state)
        return SeededBits(int(state.randint(0, 2**31 - 1)))

    def _warn(self, budget: Budget, n_rows: int) -> None:
        """Warn about settings under which the guarantee says less than it seems to."""
        if budget.delta * n_rows >= 1:
            warnings.warn(
                f"delta={budget.delta:g} is at least 1/n = {1 / n_rows:g}: a mechanism could "
                "publish a whole row and keep such a promise. Use a delta well below 1/n.",
                UserWarning,
                stacklevel=4,
            )
        if self.accountant is None and multiprocessing.parent_process() is not None:
            warnings.warn(
                "This fit runs in a worker process, and no accountant counts it. The fits of a "
                "search add up: pass accountant=Accountant() and use joblib's threading backend.",
                PrivacyLeakWarning,
                stacklevel=4,
            )
        if self.random_state is not None:
            warnings.warn(
                "random_state fixes the noise, so this fit protects nobody: test mode, not "
                "private. Leave random_state=None for real data.",
                PrivacyLeakWarning,
                stacklevel=4,
            )

    def _split_intercept(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Split weights of shape (n_models, p) into coefficients and intercepts."""
        if self.fit_intercept:
            return weights[:, :-1].copy(), weights[:, -1].copy()
        return weights, np.zeros(len(weights))

    def _margins(self, X: Any, *, by_row: bool = False) -> FloatArray:
        """Return scores of shape (n_rows, n_models); rows are transformed as they were in fit.

        With ``by_row``, each score depends on its row and the model alone, to the last bit.
        """
        coefficients = np.atleast_2d(self.coef_)
        products = pipeline.margins(
            self.preparation_, X, coefficients, self.row_norm_, by_row=by_row
        )
        return products + self.intercept_

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: sparse input works."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
