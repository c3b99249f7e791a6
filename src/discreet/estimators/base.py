"""What all estimators share: checking before reading, one account a fit, and the fit itself.

The order inside `fit` is part of the design: settings first (no data is read for a bad one), then
the shape and type of the data, then the account is opened, and only then does the curator look.
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
from discreet.estimators.columns import check_table, check_target
from discreet.objectives import L2, Loss, Problem
from discreet.preparation import pipeline as preparing
from discreet.preparation.fitted_step import FittedStep
from discreet.rows import Checked, as_rows, check_targets
from discreet.solvers import Progress, Solution, Solver, TraceEntry, resolve
from discreet.solvers.settings import functions, number

__all__ = ["PrivateLinearModel"]

FloatArray = NDArray[np.float64]

_FITS = itertools.count()
"""Counts the fits of this process, so that a guarantee can say how many there were before."""


@dataclass(frozen=True)
class _Settings:
    """The checked settings of a fit: ``budget`` is that of all of it, ``models`` of the models."""

    budget: Budget
    models: Budget
    steps: tuple[preparing.Step, ...]
    solver: Solver
    loss: Loss
    penalty: L2


class PrivateLinearModel(BaseEstimator):
    """Base class: settings, checks, and the private fit of one or several linear models."""

    epsilon: float
    delta: float
    relation: str
    solver: str | Solver
    alpha: float
    data_norm: float | None
    fit_intercept: bool
    preparation: Sequence[preparing.Step] | None
    random_state: Any
    accountant: Accountant | None
    progress: Callable[[Progress], None] | None

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
        """The row loss that the estimator's settings name."""
        raise NotImplementedError

    def check_settings(self) -> None:
        """Raise if a setting is wrong, as `fit` would, without any data."""
        self._settings()

    def _settings(self) -> _Settings:
        """Check every setting; nothing has been read yet."""
        budget = Budget(self.epsilon, self.delta, self.relation)
        solver = resolve(self.solver)
        if self.solver == "auto" and budget.pure:
            raise NotSupported(
                "solver='auto' needs delta > 0; got delta=0. Give a delta well below 1/n, for "
                "example 1e-6, or choose a solver with a pure guarantee: 'objpert', 'outpert', "
                "'frank-wolfe' or 'laplace-sgd'."
            )
        loss = self._loss()
        steps = preparing.check_steps(self.preparation, self.data_norm)
        models = self._models_budget(budget, solver, steps)
        solver.check(loss, models)
        alpha = number("alpha", self.alpha, least=0.0)
        if self.data_norm is not None:
            number("data_norm", self.data_norm, optional=True)
        functions(self, "progress")
        if self.random_state is not None:
            check_random_state(self.random_state)
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise ValueError(f"fit_intercept must be True or False; got {self.fit_intercept!r}.")
        if self.accountant is not None and not isinstance(self.accountant, Accountant):
            raise ValueError(f"accountant must be an Accountant or None; got {self.accountant!r}.")
        return _Settings(budget, models, steps, solver, loss, L2(alpha))

    @staticmethod
    def _models_budget(budget: Budget, solver: Solver, steps: tuple[preparing.Step, ...]) -> Budget:
        """What a preparation leaves to the models."""
        if not steps:
            return budget
        if not solver.private:
            raise NotSupported(
                f"solver={solver.name!r} protects nobody, so a private preparation makes no sense "
                "with it. Pass preparation=None, or use a private solver."
            )
        trial = Account(budget)  # nobody is charged for it
        models = trial.reserve(preparing.shares(steps), solver.composes)
        for part, step in enumerate(steps):
            opened = trial.open_reserved(part)
            step.mechanism(opened.measure, opened.total)
        return models

    def _choose(self, settings: _Settings, X: Any) -> _Settings:
        """Let the rule of ``solver="auto"`` decide, now that the size of the table is known."""
        if self.solver != "auto":
            return settings
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
        preparing.check_steps(choice.steps, self.data_norm)
        models = self._models_budget(settings.budget, choice.solver, choice.steps)
        return replace(settings, solver=choice.solver, steps=choice.steps, models=models)

    def _read(self, X: Any, y: Any, *, numbers: bool) -> tuple[Any, NDArray[Any]]:
        """Bring X and y into shape; X is checked for NaN where the rows are made.

        Forgets an earlier fit first: if this one fails, no half of each is left.
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
        """Bring rows to predict on into shape."""
        check_table(X)
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )

    def _fit_models(
        self,
        settings: _Settings,
        X: Any,
        target_of: Callable[[int], FloatArray],
        models: int,
        public: tuple[str, ...],
    ) -> FloatArray:
        """Fit ``models`` linear models on one budget; returns weights of shape (models, p).

        Targets are made when needed: for many classes they would outgrow a narrow table.
        """
        problem = Problem(
            loss=settings.loss,
            penalty=settings.penalty,
            n_rows=X.shape[0],
            n_features=X.shape[1],
            fit_intercept=self.fit_intercept,
            row_norm=self._row_norm(settings),
        )
        asked, steps = settings.models, settings.steps
        spends = settings.solver.plan(problem, asked, models)
        if steps and spends != asked:
            raise NotSupported(
                f"solver={settings.solver.name!r} would spend more than it was given "
                "(unsafe=True); a preparation cannot be accounted for together with that. Pass "
                "preparation=None."
            )
        copy = problem.row_norm is not None or not settings.solver.takes_transformed_rows
        preparing.check_table(steps, X, copy=copy)
        # before a preparation spends anything; all rows share them
        targets = Checked(check_targets(target_of(0), X.shape[0]))
        if not steps:
            rows = as_rows(X, targets, fit_intercept=self.fit_intercept, row_norm=problem.row_norm)
        self._warn_about_delta(settings.budget, X.shape[0])
        self._warn_about_workers()
        bits = self._bits()
        earlier_fits = next(_FITS)
        account = Account(settings.budget if steps else spends, self.accountant)
        fitted: tuple[FittedStep, ...] = ()
        if steps:
            account.reserve(preparing.shares(steps), settings.solver.composes)
            noises = [Noise(stream) for stream in bits.spawn(len(steps))]
            done = preparing.transform(
                steps, X, targets, self.data_norm, account, noises, copy=copy
            )
            fitted = done.steps
            rows = done.rows(fit_intercept=self.fit_intercept, row_norm=problem.row_norm)
            del done
        del targets
        solutions = []
        for model, stream in enumerate(bits.spawn(models)):
            part = rows if model == 0 else rows.with_targets(target_of(model))
            curator = Curator(part, account, Noise(stream), Fraction(1, models))
            progress = self._progress_of(model)
            solutions.append(settings.solver.solve(problem, curator, asked, progress))
        if self.data_norm is not None:
            public = (*public, f"the bound {self.data_norm:g} on a row's norm")
        conditions = (*preparing.conditions(fitted), *solutions[0].conditions)
        if spends.epsilon > asked.epsilon:
            conditions += (
                f"ε = {asked.epsilon:g} was asked for, but the published constants give less "
                "privacy than that (unsafe=True)",
            )
        self.guarantee_ = account.guarantee(
            conditions=conditions,
            public=(*self._public, *public),
            secure=bits.secure,
            earlier_fits=earlier_fits,
        )
        self.preparation_ = fitted
        self.solver_ = settings.solver.name
        self.row_norm_ = problem.row_norm
        self._note(solutions[0], preparing.usual_norm(steps))
        self.trace_ = tuple(
            replace(entry, model=model)
            for model, solution in enumerate(solutions)
            for entry in solution.trace
        )
        return np.array([solution.weights for solution in solutions])

    def _note(self, solution: Solution, norm: float | None) -> None:
        """Keep what predictions need of a solution, whose rows have this usual norm if known."""

    def _row_norm(self, settings: _Settings) -> float | None:
        """The norm that longer rows are scaled down to in the model, after the preparation.

        ``data_norm``, unless a step sets the length of rows; then only solvers that need a bound
        get one, and gradients are clipped by the others.
        """
        set_by_step = any(isinstance(s, preparing.Radius | preparing.Scale) for s in settings.steps)
        if set_by_step and not settings.solver.needs_row_bound:
            return None
        return preparing.model_norm(settings.steps, self.data_norm)

    def _progress_of(self, model: int) -> Callable[[Progress], None] | None:
        """The caller's progress callback, told which model it hears of."""
        callback = self.progress
        if callback is None:
            return None
        return lambda at: callback(replace(at, entry=replace(at.entry, model=model)))

    def _bits(self) -> Bits:
        if self.random_state is None:
            return SystemBits()
        warnings.warn(
            "random_state fixes the noise, so this fit protects nobody: test mode, not private. "
            "Leave random_state=None for real data.",
            PrivacyLeakWarning,
            stacklevel=4,
        )
        state = check_random_state(self.random_state)
        return SeededBits(int(state.randint(0, 2**31 - 1)))

    def _warn_about_workers(self) -> None:
        """Fits in worker processes are out of sight of whoever reads the last one's guarantee."""
        if self.accountant is None and multiprocessing.parent_process() is not None:
            warnings.warn(
                "This fit runs in a worker process, and no accountant counts it. The fits of a "
                "search add up: pass accountant=Accountant() and use joblib's threading backend.",
                PrivacyLeakWarning,
                stacklevel=4,
            )

    @staticmethod
    def _warn_about_delta(budget: Budget, n_rows: int) -> None:
        if budget.delta * n_rows >= 1:
            warnings.warn(
                f"delta={budget.delta:g} is at least 1/n = {1 / n_rows:g}: a mechanism could "
                "publish a whole row and keep such a promise. Use a delta well below 1/n.",
                UserWarning,
                stacklevel=4,
            )

    def _split_intercept(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights of shape (models, p) as coefficients and intercepts."""
        if self.fit_intercept:
            return weights[:, :-1].copy(), weights[:, -1].copy()
        return weights, np.zeros(len(weights))

    def _margins(self, X: Any, coefficients: FloatArray, intercepts: FloatArray) -> FloatArray:
        """Scores of shape (rows, models); rows are prepared and scaled as they were in fit."""
        steps = getattr(self, "preparation_", ())
        if self.row_norm_ is None:
            products = preparing.products(steps, X, coefficients)
        else:
            blocks = preparing.moved_blocks(steps, X)
            products = np.concatenate([self._products(block, coefficients) for block in blocks])
        return products + intercepts

    def _products(self, X: Any, coefficients: FloatArray) -> FloatArray:
        """Products of rows, scaled down to the norm they had in the fit, with coefficients."""
        products = np.asarray(X @ coefficients.T, dtype=np.float64)
        norms = as_rows(X, np.zeros(X.shape[0]), fit_intercept=False).norms()
        products *= self.row_norm_ / np.maximum(norms, self.row_norm_)[:, None]
        return products

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what to expect: sparse input works, tiny samples fit poorly."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
