"""Base of all estimators: checks before reading, one account per fit, and the fit itself.

The order inside `fit` is part of the design: settings first (no data is read for a bad one), then
the shape and type of the data, then the account is opened, and only then does the curator read.
"""

from __future__ import annotations

import itertools
import multiprocessing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from discreet.core import Account, Accountant, Budget, Curator, Guarantee
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.core.noise import Noise
from discreet.errors import NotSupported, PrivacyLeakWarning
from discreet.estimators import auto, effects
from discreet.estimators import features as feature_rule
from discreet.estimators.inputs import check_table, check_target
from discreet.objectives import L2, Loss, Problem
from discreet.preparation import FeatureMap, FittedBounds, FittedStep, Step, check_steps, pipeline
from discreet.preparation.features import Expansion
from discreet.solvers import Progress, Solution, Solver, TraceEntry, resolve
from discreet.validate import FloatArray, flag, function, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PrivateLinearModel"]

_TABLES = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
"""Tables that are used as they are; scikit-learn converts others."""

_FITS = itertools.count()
"""Counts the fits of this process, so that a guarantee can say how many there were before."""


def _report(callback: Callable[[Progress], None], model: int, at: Progress) -> None:
    """Call the caller's function with the index of the model."""
    callback(replace(at, entry=replace(at.entry, model=model)))


@dataclass(frozen=True)
class _Method:
    """A preparation with the mechanism of each step, a solver, and the budget of its models.

    The solver sees ``width`` features: the columns of X, or those that ``expansion`` makes of them.
    """

    steps: tuple[Step, ...]
    mechanisms: tuple[Any, ...]
    solver: Solver
    models: Budget
    expansion: Expansion | None = None
    width: int = 0


@dataclass(frozen=True)
class _Settings:
    """Checked settings of a fit: the budget of all of it, the objective and the caller's steps.

    ``method`` is None if the rule of ``solver="auto"`` has yet to choose it by the table's size.
    """

    budget: Budget
    loss: Loss
    penalty: L2
    steps: tuple[Step, ...]
    method: _Method | None


@dataclass(eq=False, repr=False)
class PrivateLinearModel(BaseEstimator):
    """Base class: settings, checks, and the private fit of one or several linear models."""

    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    relation: str = "add_remove"
    solver: str | Solver = "auto"
    alpha: float = 1e-4
    data_norm: float | None = None
    fit_intercept: bool = True
    preparation: Sequence[Step] | None = None
    features: str = "auto"
    numeric: Sequence[int | str] | Mapping[int | str, Any] | None = None
    random_state: Any = None
    accountant: Accountant | None = None
    progress: Callable[[Progress], None] | None = None

    coef_: FloatArray = field(init=False)
    features_: FeatureMap = field(init=False)
    prepared_coef_: FloatArray = field(init=False)
    prepared_intercept_: FloatArray = field(init=False)
    deviation_: float | None = field(init=False)
    guarantee_: Guarantee = field(init=False)
    trace_: tuple[TraceEntry, ...] = field(init=False)
    preparation_: tuple[FittedStep, ...] = field(init=False)
    solver_: str = field(init=False)
    row_norm_: float | None = field(init=False)

    _booleans: tuple[int, ...] = field(init=False)
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
        if self.numeric is not None or self.features != "auto":
            feature_rule.declared(self.features, self.numeric)
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
            if budget.pure:
                raise NotSupported(
                    "solver='auto' needs delta > 0; got delta=0. Give a delta well below 1/n, for "
                    "example 1e-6, or choose a solver with a pure guarantee: 'objpert', 'outpert', "
                    "'frank-wolfe' or 'laplace-sgd'."
                )
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
        plan = feature_rule.choose(
            self.features,
            self.numeric,
            names=getattr(self, "feature_names_in_", None),
            n_rows=X.shape[0],
            n_features=X.shape[1],
            budget=settings.budget,
            given=settings.steps,
            booleans=self._booleans,
        )
        steps = settings.steps if plan.bounds is None else (plan.bounds, *settings.steps)
        if settings.method is not None:
            method = settings.method
            if plan.bounds is not None:
                steps = check_steps(steps, self.data_norm)
                method = self._divide(settings.budget, steps, method.solver)
            return replace(method, expansion=plan.expansion, width=plan.width)
        choice = auto.choose(
            n_rows=X.shape[0],
            n_features=plan.width,
            loss=settings.loss,
            budget=settings.budget,
            given=steps,
            alpha=settings.penalty.alpha,
            data_norm=self.data_norm,
            fit_intercept=self.fit_intercept,
        )
        steps = check_steps(choice.steps, self.data_norm)
        method = self._divide(settings.budget, steps, choice.solver)
        return replace(method, expansion=plan.expansion, width=plan.width)

    def _read(self, X: Any, y: Any, *, numbers: bool) -> tuple[Any, NDArray[Any]]:
        """Convert X and y to arrays; X is checked for NaN where the rows are made."""
        # if this fit fails, no mixture with attributes of an earlier one is left
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self._booleans = check_table(X)
        check_target(y, numbers=numbers)
        with np.errstate(all="ignore"):  # a warning about one row would be about that row
            return validate_data(self, X, y, y_numeric=numbers, ensure_all_finite=False, **_TABLES)

    def _read_new(self, X: Any) -> Any:
        """Convert rows to predict on to an array."""
        check_table(X)
        return validate_data(self, X, reset=False, **_TABLES)

    def _fit_models(
        self,
        settings: _Settings,
        method: _Method,
        X: Any,
        targets: Iterator[FloatArray],
        n_models: int,
        public: tuple[str, ...],
    ) -> FloatArray:
        """Fit ``n_models`` linear models on one budget; returns weights of shape (n_models, p).

        ``targets`` makes those of one model after the other: of many classes they would outgrow a
        narrow table.
        """
        problem = Problem(
            loss=settings.loss,
            penalty=settings.penalty,
            n_rows=X.shape[0],
            n_features=method.width,
            fit_intercept=self.fit_intercept,
            row_norm=pipeline.model_norm(
                method.steps, self.data_norm, needed=method.solver.needs_row_bound
            ),
        )
        spends = method.solver.plan(problem, method.models, n_models).spends
        self._warn(settings.budget, X.shape[0])
        bits: Bits = SystemBits()
        if self.random_state is not None:
            seed = check_random_state(self.random_state).randint(0, 2**31 - 1)
            bits = SeededBits(int(seed))
        earlier_fits = next(_FITS)
        account = Account(settings.budget if method.steps else spends, self.accountant)
        rows, fitted = self._prepare(method, problem, spends, X, next(targets), account, bits)
        solutions = []
        for model, stream in enumerate(bits.spawn(n_models)):
            part = rows if model == 0 else rows.with_targets(next(targets))
            curator = Curator(part, account, Noise(stream), Fraction(1, n_models))
            progress = None if self.progress is None else partial(_report, self.progress, model)
            solutions.append(method.solver.solve(problem, curator, method.models, progress))
        if self.data_norm is not None:
            public = (*public, f"the bound {self.data_norm:g} on a row's norm")
        if method.expansion is not None:
            public = (*public, "the features: their columns, public bounds and number")
        divided = "the budget was divided between preparation and model before a row was read"
        of_steps = (*(step.condition for step in fitted), divided) if fitted else ()
        conditions = (*of_steps, *solutions[0].conditions)
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
        bounds = (step for step in fitted if isinstance(step, FittedBounds))
        self.features_ = FeatureMap(next(bounds, None), method.expansion)
        self.solver_ = method.solver.name
        self.row_norm_ = problem.row_norm
        self.deviation_ = solutions[0].deviation
        self._note(solutions[0], method.steps)
        self.trace_ = tuple(
            replace(entry, model=model)
            for model, solution in enumerate(solutions)
            for entry in solution.trace
        )
        return np.array([solution.weights for solution in solutions])

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
        copy = pipeline.check_table(steps, X, problem.n_features, copy=copy)
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
            problem=problem,
            expansion=method.expansion,
        )

    def _note(self, solution: Solution, steps: tuple[Step, ...]) -> None:
        """Keep what predictions need to know of a solution on rows after these steps."""

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

    def _set_weights(
        self, weights: FloatArray, scale: float = 1.0, centre: float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Keep the weights of prepared rows, (n_models, p), times ``scale`` plus ``centre``.

        Returns coefficients and intercepts on the features of X: released numbers carried through
        the affine map of the preparation, without its clips.
        """
        constants = weights[:, -1] if self.fit_intercept else np.zeros(len(weights))
        slopes = weights[:, :-1] if self.fit_intercept else weights
        slopes, constants = slopes * scale, constants * scale + centre
        self.prepared_coef_, self.prepared_intercept_ = slopes, constants
        if self.deviation_ is not None:
            self.deviation_ *= scale
        affine = pipeline.unclipped_map(self.preparation_, slopes.shape[1])
        carried = affine.adjoint(np.column_stack([slopes, constants]))
        return np.ascontiguousarray(carried[:, :-1]), carried[:, -1].copy()

    def plot_effects(
        self, names: Sequence[str] | None = None, units: effects.Units | None = None
    ) -> Figure:
        """Draw the effect of each column on the score, with a band of 95 % of the known noise.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the columns of X, if it was fitted without. Columns called
            ``column=category`` are drawn as categories of one column.
        units : mapping, optional
            Functions that bring numbers in X to a column's own units, by its name.

        Returns
        -------
        matplotlib.figure.Figure
            Save it with ``figure.savefig("effects.png")``. It shows released numbers only.
        """
        return effects.plot_effects(self, names, units)

    def _margins(self, X: Any, *, by_row: bool = False) -> FloatArray:
        """Return scores of shape (n_rows, n_models), linear in the features of X.

        With ``by_row``, each score depends on its row and the model alone, to the last bit.
        """
        weights, constants = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        return pipeline.linear_scores(self.features_, X, weights, constants, by_row=by_row)
