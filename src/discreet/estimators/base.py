"""Base of all estimators: checks before reading, one account per fit, and the fit itself.

The order inside `fit` is part of the design: settings first (no data is read for a bad one), then
the shape and type of the data, then the account is opened, and only then does the curator read.
"""

from __future__ import annotations

import itertools
import multiprocessing
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from discreet import engines
from discreet.accounting.composition import Division, divide
from discreet.card import Card, card
from discreet.core import Account, Budget, Curator, Guarantee
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.core.noise import Noise
from discreet.errors import NotSupported, PrivacyLeakWarning
from discreet.estimators import auto, averaged, effects, familiar
from discreet.estimators import features as feature_rule
from discreet.estimators.inputs import Rule, check_table, check_target
from discreet.estimators.people import ClassWeights, People
from discreet.estimators.trace import Bar, Trace, plot_trace
from discreet.inference import Covariance, Evidence, Inference, Summary
from discreet.inference.measure import expected_error
from discreet.inference.rule import check_inference, lighter, pilot, reserved, sample_rate, whitened
from discreet.inference.summary import forest_plot
from discreet.ledger import Dataset, check_dataset
from discreet.log import note
from discreet.objectives import L2, Loss, Problem
from discreet.preparation import (
    Balance,
    FeatureMap,
    FittedBounds,
    FittedStep,
    Step,
    check_steps,
    pipeline,
)
from discreet.preparation.features import Expansion
from discreet.preparation.magnitude import DISTANT, FittedMagnitude
from discreet.preparation.steps import Mechanism
from discreet.preparation.support import without_noise
from discreet.solvers import Progress, Solution, Solver, resolve
from discreet.validate import FloatArray, flag, function, integer, number

if TYPE_CHECKING:
    from discreet.figures import Figure

_TABLES = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
"""Tables that are used as they are; scikit-learn converts others."""

_WORKERS = (
    "the rows are in blocks on workers of {}, which see them and are trusted with them, like the "
    "scheduler; noise was added on the client alone"
)

FITS = itertools.count()
"""Counts the fits of this process, so that a guarantee can say how many there were before."""


_ADAPTIVE = frozenset({"pure", "zcdp", "gdp"})
"""Measures in which a solver's plan may depend on earlier releases of the same fit."""


def _adapts(solver: Solver) -> bool:
    """Return whether the size of the objective may be a released number, not a public one."""
    return solver.takes_units and (not solver.private or _ADAPTIVE.issuperset(solver.composes))


_choose = lru_cache(maxsize=256)(auto.choose)
"""The rule, which sees public numbers alone: fits of the same numbers have the same choice."""


def _report(callbacks: Sequence[Callable[[Progress], None]], model: int, at: Progress) -> None:
    """Call functions with the index of the model."""
    for callback in callbacks:
        callback(replace(at, entry=replace(at.entry, model=model)))


@dataclass(frozen=True)
class _Method:
    """A preparation with the mechanism of each step, a solver, and their parts of the budget.

    ``division`` is None if the models have all of the budget; else ``mechanisms`` are made from it.
    There is one for each step, one for the ``balance`` of the classes, if it is measured, and one
    for the ``inference`` about each model. The solver sees ``width`` features: the columns of X, or
    those that ``expansion`` makes of them. Steps see a sample of the rows at ``rate``.
    """

    steps: tuple[Step, ...]
    solver: Solver
    budget: Budget
    division: Division | None = None
    mechanisms: tuple[Mechanism, ...] = ()
    balance: Balance | None = None
    inference: tuple[Inference, ...] = ()
    expansion: Expansion | None = None
    width: int = 0
    rate: float = 1.0

    @property
    def models(self) -> Budget:
        """Budget of all models."""
        return self.budget if self.division is None else self.division.models


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

    epsilon: float = familiar.UNCHOSEN
    delta: float = 1e-6
    _: KW_ONLY
    relation: str = "add_remove"
    solver: str | Solver = "auto"
    alpha: float = 1e-4
    data_norm: float | None = None
    fit_intercept: bool = True
    preparation: Sequence[Step] | None = None
    rows_per_unit: int | None = None
    features: str = "auto"
    numeric: Sequence[int | str] | Mapping[int | str, Any] | None = None
    inference: bool = False
    random_state: Any = None
    ledger: Dataset | None = None
    progress: Callable[[Progress], None] | None = None
    verbose: bool | int = False

    coef_: FloatArray = field(init=False)
    features_: FeatureMap = field(init=False)
    prepared_coef_: FloatArray = field(init=False)
    prepared_intercept_: FloatArray = field(init=False)
    deviation_: float | None = field(init=False)
    guarantee_: Guarantee = field(init=False)
    trace_: Trace = field(init=False)
    preparation_: tuple[FittedStep, ...] = field(init=False)
    solver_: str = field(init=False)
    row_norm_: float | None = field(init=False)
    ledger_entry_: int | None = field(init=False)
    covariances_: tuple[Covariance, ...] = field(init=False)
    size_: int = field(init=False)

    # fit gets both from pipelines and searches of scikit-learn, if metadata routing is enabled
    __metadata_request__fit: ClassVar = {"groups": True, "sample_weight": True}

    counted_before: ClassVar[int | None] = None
    """Number of fits before this one, if a tuning has counted it: its own fits share a number."""

    _has_intervals: ClassVar[bool] = False
    _shifted_intercept: ClassVar[bool] = False
    _errors_need: ClassVar[tuple[str, ...]] = ()
    _booleans: tuple[int, ...] = field(init=False)
    _evidence: tuple[Evidence, ...] = field(init=False)
    _public: ClassVar[tuple[str, ...]] = (
        "the number and order of columns, and how the table is stored",
        "that all rows are valid (finite numbers, known labels)",
    )

    def _loss(self) -> Loss:
        """Return the row loss that the estimator's settings name."""
        raise NotImplementedError

    def _clipped(self) -> tuple[str, ...]:
        """State how targets are clipped; texts depend on settings alone, whatever the rows are."""
        return ()

    def _unchecked(self) -> tuple[str, ...]:
        """State what a fit does not check in the targets, as the answer would be about rows."""
        return ()

    def set_params(self, **params: Any) -> Self:
        """Set parameters; keywords of other libraries are refused with what to use instead."""
        names = [name.partition("__")[0] for name in params]
        familiar.refuse(type(self).__name__, names, self._get_param_names(), ValueError)
        return super().set_params(**params)

    def check_settings(self) -> None:
        """Raise if a setting is wrong, as `fit` would, without any data."""
        self._settings()

    def _objective(self) -> tuple[Budget, Loss, L2]:
        """Check the settings that do not depend on the solver; return budget, loss and penalty."""
        budget = Budget(self.epsilon, self.delta, self.relation)
        alpha = number("alpha", self.alpha, least=0.0, most=1e50)
        if self.data_norm is not None:
            number("data_norm", self.data_norm, least=1e-50, most=1e50)
        flag("inference", self.inference)
        if self.inference and not self._has_intervals:
            raise NotSupported(
                f"{type(self).__name__} has no intervals: its coefficients estimate no parameter "
                "of a distribution. Leave inference=False, or use LogisticRegression."
            )
        if not isinstance(self.fit_intercept, np.bool_):
            flag("fit_intercept", self.fit_intercept)
        if self.rows_per_unit is not None:
            remedy = "1 makes each person count once."
            integer("rows_per_unit", self.rows_per_unit, most=2**30, remedy=remedy)
        if self.numeric is not None or self.features != "auto":
            feature_rule.declared(self.features, self.numeric)
        return budget, self._loss(), L2(alpha)

    def _settings(self) -> _Settings:
        """Check every setting before any data is read."""
        budget, loss, penalty = self._objective()
        if self.progress is not None:
            function("progress", self.progress)
        if not isinstance(self.verbose, int | np.integer):
            flag("verbose", self.verbose)
        if self.random_state is not None:
            check_random_state(self.random_state)
        if self.ledger is not None:
            check_dataset(self.ledger)
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
    def _divide(
        budget: Budget,
        steps: tuple[Step, ...],
        solver: Solver,
        balance: Balance | None = None,
        inference: tuple[Inference, ...] = (),
    ) -> _Method:
        """Divide the budget between a preparation and a solver, before anything is read.

        A budget too extreme for a step is a ``ValueError``.
        """
        if steps and not solver.private:
            raise NotSupported(
                f"solver={solver.name!r} protects nobody, so a private preparation makes no sense "
                "with it. Pass preparation=None, or use a private solver."
            )
        parts = (*steps, *(() if balance is None else (balance,)), *inference)
        if not parts:
            return _Method(steps, solver, budget)
        division = divide(budget, [(part.name, part.share) for part in parts], solver.composes)
        mechanisms = tuple(
            part.mechanism(division.measure, division.total_of(index))
            for index, part in enumerate(parts)
        )
        return _Method(steps, solver, budget, division, mechanisms, balance, inference)

    def _method(
        self,
        settings: _Settings,
        X: Any,
        people: People,
        by_class: ClassWeights | None = None,
        n_models: int = 1,
    ) -> _Method:
        """Return the method of the settings, or choose one now that the table's size is known."""
        plan = feature_rule.Plan(X.shape[1])
        if self.features != "linear" and not (self.features == "auto" and self.numeric is None):
            plan = feature_rule.choose(
                self.features,
                self.numeric,
                names=getattr(self, "feature_names_in_", None),
                n_rows=people.size,
                n_features=X.shape[1],
                budget=settings.budget,
                given=settings.steps,
                booleans=self._booleans,
                regression=settings.loss.task == "regression",
            )
        steps = settings.steps if plan.bounds is None else (plan.bounds, *settings.steps)
        rate = 1.0
        if settings.method is None:
            steps, solver, rate = _choose(
                n_rows=people.size,
                n_features=plan.width,
                loss=settings.loss,
                budget=settings.budget,
                given=steps,
                alpha=settings.penalty.alpha,
                data_norm=self.data_norm,
                fit_intercept=self.fit_intercept,
                n_known=plan.known,
                may_sample=people.unit == "row" and not self.inference,
            )
            if self.inference:
                size = plan.width + int(self.fit_intercept)
                error = expected_error(people.size, size, settings.budget)
                steps = whitened(steps, people.size, plan.width, settings.budget)
                solver = pilot(solver, settings.loss, error)
                alone = people.unit == "row" and people.even and by_class is None and n_models == 1
                if alone and not settings.loss.curves_unevenly:
                    rate = sample_rate(steps, people.size, size, settings.budget)
                signal = rate * people.size * settings.budget.to_gdp().mu
                changed = settings.budget.relation.rows_changed
                steps = lighter(steps, signal, plan.width, changed)
            steps = check_steps(steps, self.data_norm)
            method = self._divide(settings.budget, steps, solver)
        elif plan.bounds is None:
            method = settings.method
        else:
            steps = check_steps(steps, self.data_norm)
            method = self._divide(settings.budget, steps, settings.method.solver)
        if not people.even or by_class is not None or self.inference:
            method = self._measured(method, settings, plan, people, by_class, n_models)
        return replace(method, expansion=plan.expansion, width=plan.width, rate=rate)

    def _measured(
        self,
        method: _Method,
        settings: _Settings,
        plan: feature_rule.Plan,
        people: People,
        by_class: ClassWeights | None,
        n_models: int,
    ) -> _Method:
        """Reserve a part for what the rows weigh, and one for inference about each model.

        Weights that do not add up to the units are measured always for balanced classes, else for
        solvers whose plan may depend on them.
        """
        balance, inference, solver = None, (), method.solver
        if not people.even or by_class is not None:
            people.check_solver(solver, weighted=by_class is not None)
            balanced = by_class is not None and by_class.values is None
            if solver.private and (balanced or _adapts(solver)):
                balance = Balance.of(settings.budget, people.size, solver.composes)
        if self.inference:
            check_inference(solver, plan.expansion)
            size = plan.width + int(self.fit_intercept)
            taken = (*method.steps, *(() if balance is None else (balance,)))
            left = 1.0 - sum(part.share for part in taken)
            inference = reserved(people.size, size, settings.budget, n_models, left)
        if balance is None and not inference:
            return method
        divided = self._divide(settings.budget, method.steps, solver, balance, inference)
        divided.solver.check(settings.loss, divided.models)
        return divided

    def _read(
        self, X: Any, y: Any, settings: _Settings, *, numbers: bool, groups: Any = None
    ) -> tuple[Any, NDArray[Any] | None]:
        """Convert X and y to arrays; X is checked for NaN where the rows are made.

        Rows that are elsewhere are read into blocks there, which hold the targets: y is then None.
        """
        # if this fit fails, no mixture with attributes of an earlier one is left
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        if not isinstance(X, np.ndarray) and engines.is_lazy(X):
            if settings.method is not None and not settings.method.solver.takes_blocks:
                raise NotSupported(
                    f"solver={settings.method.solver.name!r} needs single rows or their order, and "
                    "these rows are in blocks on workers. Use a solver that asks for sums over all "
                    "rows, such as 'auto', 'gd', 'agd', 'newton', 'objpert' or 'outpert'."
                )
            method = settings.method
            if groups is not None and method is not None and not method.solver.takes_units:
                raise NotSupported(
                    f"solver={method.solver.name!r} takes one row of each person, and these rows "
                    "are on workers. Use 'auto', 'gd', 'agd' or 'newton'."
                )
            self._booleans = check_table(header := engines.header_of(X))
            validate_data(self, header, skip_check_array=True)
            table = engines.open_table(X, y, groups)
            if not table.shape[0]:  # as scikit-learn says of one in memory
                raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
            return table, None
        self._booleans = check_table(X)
        check_target(y, numbers=numbers)
        with np.errstate(all="ignore"):  # a warning about one row would be about that row
            return validate_data(self, X, y, y_numeric=numbers, ensure_all_finite=False, **_TABLES)

    def _read_new(self, X: Any) -> Any:
        """Convert rows to predict on to an array."""
        if engines.is_lazy(X):
            raise TypeError(
                f"A {type(X).__name__} is not loaded here; compute it first (X.compute()), if its "
                "rows fit in memory."
            )
        check_table(X)
        return validate_data(self, X, reset=False, **_TABLES)

    def _fit_models(
        self,
        settings: _Settings,
        method: _Method,
        X: Any,
        y: NDArray[Any] | None,
        rules: Sequence[Rule],
        public: tuple[str, ...],
        people: People,
        by_class: ClassWeights | None = None,
    ) -> FloatArray:
        """Fit linear models on one budget; returns weights of shape (n_models, p).

        The targets of each model are what its rule makes of y, or of the targets in blocks of X.
        """
        n_models = len(rules)
        bits: Bits = SystemBits()
        if self.random_state is not None:
            seed = check_random_state(self.random_state).randint(0, 2**31 - 1)
            bits = SeededBits(int(seed))
        if people.units is not None and not method.solver.takes_units:
            assert y is not None  # checked where rows on workers were read
            index = people.units.draw(bits)
            X, y, people = X[index], y[index], people.take(index)
            by_class = None if by_class is None else by_class.take(index)
        problem = Problem(
            loss=settings.loss,
            penalty=settings.penalty,
            n_rows=people.size,
            n_features=method.width,
            fit_intercept=self.fit_intercept,
            row_norm=pipeline.model_norm(
                method.steps, self.data_norm, needed=method.solver.needs_row_bound
            ),
        )
        planned, plan = problem, method.solver.plan(problem, method.models, n_models)
        spends = plan.spends
        public = (*public, *self._warn(settings.budget, people))
        earlier_fits = next(FITS) if self.counted_before is None else self.counted_before
        whole = spends if method.division is None else settings.budget
        payer = None if self.ledger is None else self._payer(self.ledger, method.solver)
        account = Account(whole, payer, people.unit)
        stated = f"ε = {whole.epsilon:g}, δ = {whole.delta:g}, {whole.relation}, one {people.unit}"
        if not method.solver.private:
            stated = "NOT PRIVATE"
        note("Fit of %s by %s: %s.", type(self).__name__, method.solver.name, stated)
        solutions, evidence, dropped = [], [], []
        bar = None
        if self.verbose:
            shares = sum(step.share for step in method.steps)
            bar = Bar(type(self).__name__, n_models, shares)
        watching = [each for each in (self.progress, bar) if each is not None]
        try:
            first = None if y is None else rules[0](y)
            prepared, problem, noises = self._prepare(
                method, problem, spends, X, first, account, bits, people, by_class
            )
            rows, fitted, size = prepared.rows, prepared.fitted, None
            opened, solved = [], problem
            if method.inference:
                opened = self._open_inference(method, X, y, rules, prepared, account, noises)
                rows, solved = prepared.sampled_rows(problem)
                size = None if prepared.sample is None else prepared.size
            if solved is not planned:  # its size was measured, or that of a sample was drawn
                plan = method.solver.plan(solved, method.models, n_models)
            for model, stream in enumerate(bits.spawn(n_models)):
                # made when needed: targets of many classes would outgrow a narrow table
                rule = rules[model]
                if y is None:
                    part = rows.with_targets(rule)
                else:
                    part = rows if model == 0 else rows.with_targets(rule(y))
                curator = Curator(part, account, Noise(stream), Fraction(1, n_models), size)
                progress = partial(_report, watching, model) if watching else None
                solution = method.solver.solve(solved, curator, plan, progress)
                if opened:
                    uneven = not people.even or by_class is not None or people.grouped
                    about: Any = {"weighted": uneven, "mapped": prepared.start is not None}
                    found = Inference.measure(*opened[model], problem, solution.weights, **about)
                    evidence.append(found)
                    if not found.reason:  # else the fitted weights are better
                        known = {"clip": None, "deviation": None}
                        solution = replace(solution, weights=found.weights, **known)
                        solution = replace(solution, free_noise=None)
                made = 0 if method.expansion is None else method.expansion.count
                solution, without = without_noise(solution, prepared, problem, made)
                dropped.append(without)
                solutions.append(solution)
        except BaseException:
            account.abandon()
            if bar is not None:
                bar.stop()
            raise
        if bar is not None:
            bar.finish()
        if self.data_norm is not None:
            public = (*public, f"the bound {self.data_norm:g} on a row's norm")
        public = (*public, *people.public)
        if by_class is not None:
            public = (*public, *by_class.public)
        if method.expansion is not None:
            public = (*public, "the features: their columns, public bounds and number")
        divided = "the budget was divided between preparation and model before a row was read"
        of_steps = (*(step.condition for step in fitted), divided) if method.division else ()
        if method.balance is not None:
            of_steps = (method.balance.condition, *of_steps)
        if method.inference:
            of_steps = (*of_steps, method.inference[0].condition)
        conditions = (*of_steps, *solutions[0].conditions)
        if y is None:
            conditions += (_WORKERS.format(X.place),)
        if people.unit != "row" or people.condition:
            conditions = people.stated(conditions)
        if spends.epsilon > method.models.epsilon:
            conditions += (
                f"ε = {method.models.epsilon:g} was asked for, but the published constants give "
                "less privacy than that (unsafe=True)",
            )
        self.guarantee_ = account.guarantee(
            conditions=conditions,
            public=(f"the number of {people.plural}", *self._public, *public),
            secure=bits.secure,
            earlier_fits=earlier_fits,
            rows_per_unit=people.rows_per_unit,
            n_units=people.size,
        )
        self.ledger_entry_ = None if payer is None else getattr(account.charge, "entry", None)
        self.preparation_ = fitted
        bounds = (step for step in fitted if isinstance(step, FittedBounds))
        self.features_ = FeatureMap(next(bounds, None), method.expansion)
        self.solver_ = method.solver.name
        self.row_norm_ = problem.row_norm
        self.deviation_ = solutions[0].deviation
        self._evidence, self.size_ = tuple(evidence), people.size
        self._dropped = np.all(dropped, axis=0)
        self._warn_of_units()
        self._note(solutions[0], method.steps, problem)
        self.trace_ = Trace(
            replace(entry, model=model)
            for model, solution in enumerate(solutions)
            for entry in solution.trace
        )
        return np.array([solution.weights for solution in solutions])

    def _payer(self, ledger: Dataset, solver: Solver) -> Dataset:
        """Return the data set to charge, with what its entry says about the fit."""
        left_out = ("ledger", "progress", "verbose", "random_state", "classes", "solver")
        settings = {k: v for k, v in self.get_params(deep=False).items() if k not in left_out}
        kind = {"estimator": type(self).__name__, "solver": solver.name}
        return ledger.noting(**kind, **{k: v for k, v in settings.items() if v is not None})

    def _open_inference(
        self,
        method: _Method,
        X: Any,
        y: NDArray[Any] | None,
        rules: Sequence[Rule],
        prepared: pipeline.Prepared,
        account: Account,
        noises: Sequence[Noise],
    ) -> list[tuple[Curator, Curator | None, float]]:
        """Open what was reserved for inference: curators and their μ² for each model.

        It must be open before the models. Its rows have the weights of the model's. The second
        curator is for the rows that the preparation saw, if it did not see all.
        """
        opened = []
        first = len(method.mechanisms) - len(method.inference)
        for model in range(len(method.inference)):
            known = y is None or (model == 0 and prepared.start is not None)
            far, few = pipeline.distant_rows(
                prepared,
                X,
                None if known else rules[model](y),
                fit_intercept=self.fit_intercept,
                data_norm=self.data_norm,
                weights=None if y is None else prepared.rows.row_weights,
            )
            if y is None:
                far = far.with_targets(rules[model])
                few = None if few is None else few.with_targets(rules[model])
            curator = Curator(far, account, noises[first + model])
            _, total = curator.open_reserved(first + model)
            drawn = None if few is None else curator.on_sample(few, prepared.size)
            opened.append((curator, drawn, float(total)))
        return opened

    def _prepare(
        self,
        method: _Method,
        problem: Problem,
        spends: Budget,
        X: Any,
        targets: FloatArray | None,
        account: Account,
        bits: Bits,
        people: People,
        by_class: ClassWeights | None,
    ) -> tuple[pipeline.Prepared, Problem, Sequence[Noise]]:
        """Reserve the shares of the steps and of the balance; transform and weigh the rows.

        Steps see rows with weights by which every unit counts once, the model those of the caller.
        """
        steps, balance = method.steps, method.balance
        if method.division is not None and spends != method.models:
            raise NotSupported(
                f"solver={method.solver.name!r} would spend more than it was given (unsafe=True); "
                "a preparation cannot be accounted for together with that. Pass preparation=None."
            )
        copy = problem.row_norm is not None or not method.solver.takes_transformed_rows
        copy = pipeline.check_table(steps, X, problem.n_features, copy=copy)
        if method.division is not None:
            account.reserve(method.division)
        noises = [Noise(stream) for stream in bits.spawn(len(method.mechanisms))]
        prepared = pipeline.transform(
            steps,
            method.mechanisms[: len(steps)],
            X,
            targets,
            account,
            noises,
            copy=copy,
            data_norm=self.data_norm,
            problem=problem,
            weights=people.unit_weights(),
            expansion=method.expansion,
            rate=method.rate,
        )
        if people.even and by_class is None:
            return prepared, problem, noises
        rows = prepared.rows
        codes = np.zeros(rows.n_rows, dtype=np.int8) if by_class is None else by_class.codes
        count = 1 if by_class is None else by_class.count
        totals, weights = None, people.model_weights()
        if balance is not None:
            part, mechanism = len(steps), method.mechanisms[len(steps)]
            coded = (rows if weights is None else rows.with_weights(weights)).with_targets(codes)
            totals = balance.measure(coded, count, account, part, mechanism, noises[part])
        elif not method.solver.private:
            totals = people.totals(codes, count)
        factors = np.ones(1) if by_class is None else by_class.factors(totals)
        if totals is not None and _adapts(method.solver):
            size = round(float(totals @ factors))
            problem = replace(problem, n_rows=min(max(1, size), people.size))
        if by_class is not None:
            people = people.times(factors[codes])
        weighted = rows.with_weights(people.model_weights())
        return replace(prepared, rows=weighted), problem, noises

    def _note(self, solution: Solution, steps: tuple[Step, ...], problem: Problem) -> None:
        """Keep what predictions need to know of a solution on rows after these steps."""

    def _warn(self, budget: Budget, people: People) -> tuple[str, ...]:
        """Warn about settings under which the guarantee says less than it seems to.

        Returns what it has to say about steps of a pipeline that it does not cover.
        """
        if self.epsilon is familiar.UNCHOSEN:
            familiar.warn_of_unchosen()
        outside = familiar.warn_of_callers(type(self), grouped=people.unit != "row")
        if budget.delta * people.size >= 1:
            whole = "a whole row" if people.unit == "row" else "all rows of a person"
            warnings.warn(
                f"delta={budget.delta:g} is at least 1/n = {1 / people.size:g}: a mechanism could "
                f"publish {whole} and keep such a promise. Use a delta well below 1/n.",
                UserWarning,
                stacklevel=4,
            )
        if self.ledger is None and multiprocessing.parent_process() is not None:
            warnings.warn(
                "This fit runs in a worker process, and no ledger counts it. The fits of a search "
                "add up: pass ledger=Ledger('visits.sqlite').open('visits').",
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
        return outside

    def _warn_of_units(self) -> None:
        """Warn of columns whose released unit is far from that of the others."""
        width = self.features_.width(self.n_features_in_)
        columns = getattr(self, "feature_names_in_", range(self.n_features_in_))
        names = self.features_.names([str(name) for name in columns])
        for step in self.preparation_:
            if isinstance(step, FittedMagnitude) and len(step.factors) == width:
                distant = step.distant()
                if distant.size:
                    listed = ", ".join(names[j] for j in distant[:5])
                    warnings.warn(
                        f"The unit of {listed} was measured to be more than 2^{DISTANT} times "
                        "larger or smaller than that of other columns. If that is not so, scale "
                        "the columns by public numbers before the fit.",
                        UserWarning,
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
        if self.deviation_ is not None and not slopes.any():
            warnings.warn(
                "All coefficients are 0: at this budget nothing stands out from noise, and the "
                "model is a constant. Use more rows, a larger epsilon or fewer columns.",
                UserWarning,
                stacklevel=3,
            )
        slopes, constants = slopes * scale, constants * scale + centre
        self.prepared_coef_, self.prepared_intercept_ = slopes, constants
        if self.deviation_ is not None:
            self.deviation_ *= scale
        affine = pipeline.unclipped_map(self.preparation_, slopes.shape[1])
        about = {"intercept": self.fit_intercept, "shifted": self._shifted_intercept}
        self.covariances_ = tuple(
            Covariance.of(found, affine, scale=scale, **about) for found in self._evidence
        )
        carried = affine.adjoint(np.column_stack([slopes, constants]))
        carried[:, :-1][:, self._dropped] = 0.0  # exactly, not up to rounding
        del self._evidence, self._dropped
        return np.ascontiguousarray(carried[:, :-1]), carried[:, -1].copy()

    def plot_trace(self) -> Figure:
        """Draw the numbers of the trace against the iteration: a figure of released numbers."""
        return plot_trace(self)

    def card(self, **details: Any) -> Card:
        """Return the privacy card of the fit, which notebooks display; see `discreet.card.card`."""
        check_is_fitted(self, "coef_")
        return card(self, **details)

    def summary(
        self, level: float = 0.95, *, odds_ratios: bool = False, names: Sequence[str] | None = None
    ) -> Summary:
        """Return the table of coefficients with standard errors, p-values and intervals.

        It is text when printed, HTML in a notebook, and ``to_frame()`` is for pandas. It is made of
        released numbers: nothing is spent. docs/inference.md explains its columns.

        Parameters
        ----------
        level : float
            Confidence level of the intervals.
        odds_ratios : bool
            Whether to add exp(coefficient) and its interval; for logistic models.
        names : sequence of str, optional
            Names of the columns of X, if it was fitted without.
        """
        return effects.summary(self, level, odds_ratios=odds_ratios, names=names)

    def conf_int(self, level: float = 0.95) -> FloatArray:
        """Return confidence intervals of the coefficients, intercept first, as rows (low, high).

        Rows are NaN where an interval cannot be trusted. Several models have one table each.
        """
        return effects.conf_int(self, level)

    @property
    def cov_params_(self) -> FloatArray:
        """Covariance of the coefficients, intercept first; NaN where it cannot be trusted."""
        return effects.cov_params(self)

    @property
    def standard_errors_(self) -> FloatArray:
        """Standard errors of the coefficients, intercept first; NaN where there are none."""
        return effects.standard_errors(self)

    def select_coefficients(self, rule: str = "universal", *, level: float = 0.1) -> Self:
        """Return a copy of the model in which coefficients that could be noise are 0.

        For models with ``inference=True``, by their known standard errors: nothing is spent. The
        copy has no intervals, as it was selected by the same numbers; docs/inference.md says what
        it does to the others.

        Parameters
        ----------
        rule : {"universal", "fdr"}
            Keep coefficients above √(2·log d) standard errors, for d columns; or those whose
            p-values Benjamini and Hochberg's method finds at a false discovery rate.
        level : float
            The false discovery rate.
        """
        copied: Self = effects.selected(self, rule, level)
        return copied

    def plot_coefficients(self, level: float = 0.95, names: Sequence[str] | None = None) -> Figure:
        """Draw the coefficients with their intervals: a forest plot of released numbers."""
        return forest_plot(self.summary(level, names=names))

    def plot_effects(
        self, names: Sequence[str] | None = None, units: effects.Units | None = None
    ) -> Figure:
        """Draw the effect of each column on the score, with a band of 95 % of the known noise.

        The figure shows released numbers only. ``names`` are those of the columns of X, if it was
        fitted without; columns called ``column=category`` are drawn as categories of one column.
        ``units`` are functions that bring numbers in X to a column's own units, by its name.
        """
        return effects.plot_effects(self, names, units)

    def _margins(self, X: Any, *, by_row: bool = False) -> FloatArray:
        """Return scores of shape (n_rows, n_models), linear in the features of X.

        With ``by_row``, each score depends on its row and the model alone, to the last bit. Nothing
        is said of such rows, which may be private.
        """
        if not by_row:
            averaged.warn(self, X)
        weights, constants = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        return pipeline.linear_scores(self.features_, X, weights, constants, by_row=by_row)
