"""A private fit in five steps, each a record: Settings → Method → Prepared → Fitted → Statement.

- `settle` checks the caller's settings before any data is there: `Settings`.
- `choose` fixes the steps, the solver and the division of the budget by public numbers: `Method`.
- `prepare` opens shares of the budget and transforms rows: `discreet.preparation.Prepared`.
- `train` solves for the weights of each model: `Fitted`, released numbers alone.
- `state` says what was promised and what that rests on: `Statement`.

`fit` runs them in this order. Estimators are shells around it: they name a loss, turn y into
targets and keep what comes back as attributes. The order is part of the design: no data is read
for a bad setting, the account is opened before a row is read, and only curators read rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from discreet.accounting.composition import Division, divide
from discreet.core import Account, Budget, Curator, Guarantee
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.core.noise import Noise
from discreet.errors import NotSupported
from discreet.estimators import auto, familiar
from discreet.estimators import features as feature_rule
from discreet.estimators.inputs import Rule
from discreet.estimators.trace import Bar, Trace
from discreet.estimators.units import ClassWeights, PrivacyUnits, UnitRows
from discreet.inference import Covariance, Evidence, Inference
from discreet.inference.measure import expected_error
from discreet.inference.rule import check_inference, lighter, pilot, reserved, sample_rate, whitened
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
from discreet.preparation.pipeline import Prepared
from discreet.preparation.steps import Mechanism
from discreet.preparation.support import without_noise
from discreet.rows import AffineMap, Rows
from discreet.solvers import Progress, Solution, Solver, resolve
from discreet.validate import FloatArray, flag, function

FITS = itertools.count()
"""Counts the fits of this process, so that a guarantee can say how many there were before."""

PUBLIC = (
    "the number and order of columns, and how the table is stored",
    "that all rows are valid (finite numbers, known labels)",
)
"""What every fit treats as public, beside the number of units."""

WORKERS = (
    "the rows are in blocks on workers of {}, which see them and are trusted with them, like the "
    "scheduler; noise was added on the client alone"
)

DIVIDED = "the budget was divided between preparation and model before a row was read"

_ADAPTIVE = frozenset({"pure", "zcdp", "gdp"})
"""Measures in which a solver's plan may depend on earlier releases of the same fit."""

_rule = lru_cache(maxsize=256)(auto.choose)
"""The rule, which sees public numbers alone: fits of the same numbers have the same choice."""


@dataclass(frozen=True, eq=False)
class Process:
    """Settings of a fit that belong to this process, not to the model.

    ``chosen`` is False if nobody gave an ε. ``ledger`` is the data set to charge, whose entry has
    these ``details``. ``counted_before`` is the number of earlier fits, if a tuning counted them.
    """

    random_state: Any = None
    chosen: bool = True
    ledger: Dataset | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[Progress], None] | None = None
    verbose: bool = False
    counted_before: int | None = None

    def bits(self) -> Bits:
        """Return the source of random bits: that of the operating system, or a seeded one."""
        if self.random_state is None:
            return SystemBits()
        return SeededBits(int(check_random_state(self.random_state).randint(0, 2**31 - 1)))


@dataclass(frozen=True, eq=False)
class Settings:
    """Checked settings of a fit: all that is known before the table is.

    ``method`` is None if the rule of ``solver="auto"`` has yet to choose it by the table's size,
    ``kind`` the class of the estimator. The intercept of a ``shifted`` loss has no interval.
    """

    kind: type
    budget: Budget
    loss: Loss
    penalty: L2
    fit_intercept: bool
    data_norm: float | None
    steps: tuple[Step, ...]
    method: Method | None
    features: str = "auto"
    numeric: Any = None
    inference: bool = False
    shifted: bool = False
    process: Process = field(default_factory=Process)

    def problem(self, n_rows: int, n_features: int, row_norm: float | None) -> Problem:
        """Return the problem for a table of this size."""
        size = {"n_rows": n_rows, "n_features": n_features}
        return Problem(
            self.loss, self.penalty, **size, fit_intercept=self.fit_intercept, row_norm=row_norm
        )


@dataclass(frozen=True, eq=False)
class Inputs:
    """A table that was checked, whose rows it has, and the models to fit to it.

    Attributes
    ----------
    X, y
        The table and what targets are made of; y is None where blocks of X have their own.
    rules
        For each model, the function from y, or from targets in blocks, to its targets.
    units, by_class
        Whose row each row is, and the weights of classes, if there are any.
    public
        Statements of what the estimator treats as public.
    names, booleans
        Names of the columns, if they have any, and the columns that are stored as booleans.
    scale, centre
        Factor and constant that bring margins of the fit to units of predictions.
    """

    X: Any
    y: NDArray[Any] | None
    rules: tuple[Rule, ...]
    units: PrivacyUnits
    by_class: ClassWeights | None = None
    public: tuple[str, ...] = ()
    names: Sequence[str] | None = None
    booleans: tuple[int, ...] = ()
    scale: float = 1.0
    centre: float = 0.0

    @property
    def uneven(self) -> bool:
        """True if units may have a total weight other than 1 in the objective."""
        return not self.units.even or self.by_class is not None

    def labelled(self, rows: Rows, model: int) -> Rows:
        """Return the rows with the targets of a model; rows are made with those of the first."""
        rule = self.rules[model]
        if self.y is None:
            return rows.with_targets(rule)
        return rows if model == 0 else rows.with_targets(rule(self.y))

    def drawn(self, bits: Bits) -> Inputs:
        """Return one row of each unit, drawn at random."""
        assert self.y is not None  # rows on workers go to solvers that take units
        index, units = self.units.draw(bits)
        classes = None if self.by_class is None else self.by_class.take(index)
        return replace(self, X=self.X[index], y=self.y[index], units=units, by_class=classes)


@dataclass(frozen=True)
class Method:
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

    @classmethod
    def divided(
        cls,
        budget: Budget,
        steps: tuple[Step, ...],
        solver: Solver,
        balance: Balance | None = None,
        inference: tuple[Inference, ...] = (),
    ) -> Method:
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
            return cls(steps, solver, budget)
        division = divide(budget, [(part.name, part.share) for part in parts], solver.composes)
        mechanisms = tuple(
            part.mechanism(division.measure, division.total_of(index))
            for index, part in enumerate(parts)
        )
        return cls(steps, solver, budget, division, mechanisms, balance, inference)

    @property
    def models(self) -> Budget:
        """Budget of all models."""
        return self.budget if self.division is None else self.division.models

    @property
    def adapts(self) -> bool:
        """True if the size of the objective may be a released number, not a public one."""
        solver = self.solver
        return solver.takes_units and (not solver.private or _ADAPTIVE.issuperset(solver.composes))


@dataclass(frozen=True, eq=False)
class Run:
    """A fit with an open account: who pays, where its noise comes from, and who watches.

    ``problem`` and ``plan`` are those that public numbers give; ``outside`` names what steps of a
    pipeline learned outside the budget. Each part of the method has its own noise.
    """

    settings: Settings
    method: Method
    inputs: Inputs
    problem: Problem
    plan: Any
    account: Account
    bits: Bits
    earlier_fits: int
    outside: tuple[str, ...]
    noises: Sequence[Noise]
    bar: Bar | None

    def watch(self, model: int) -> Callable[[Progress], None] | None:
        """Return the callback of a model's solver, if anybody watches."""
        callbacks = [each for each in (self.settings.process.progress, self.bar) if each]
        if not callbacks:
            return None

        def report(at: Progress) -> None:
            for callback in callbacks:
                callback(replace(at, entry=replace(at.entry, model=model)))

        return report


@dataclass(frozen=True, eq=False)
class Fitted:
    """Released numbers of a fit. All of them but the last three are attributes of an estimator.

    ``coef`` and ``intercept`` belong to the features of X and to units of predictions, one row per
    linear model, the prepared ones to prepared rows. ``solution``, ``steps`` and ``problem`` are
    those of the first model.
    """

    coef: FloatArray
    intercept: FloatArray
    prepared_coef: FloatArray
    prepared_intercept: FloatArray
    deviation: float | None
    covariances: tuple[Covariance, ...]
    features: FeatureMap
    preparation: tuple[FittedStep, ...]
    solver: str
    row_norm: float | None
    size: int
    trace: Trace
    solution: Solution
    steps: tuple[Step, ...]
    problem: Problem


@dataclass(frozen=True, eq=False)
class Statement:
    """What a fit promises, and the ledger's number of it, if a ledger counts it."""

    guarantee: Guarantee
    ledger_entry: int | None


def fit(settings: Settings, inputs: Inputs) -> tuple[Fitted, Statement]:
    """Fit linear models on one budget."""
    method = choose(settings, inputs)
    run = begin(settings, method, inputs)
    try:
        prepared, problem = prepare(run)
        fitted = train(run, prepared, problem)
    except BaseException:
        run.account.abandon()
        if run.bar is not None:
            run.bar.stop()
        raise
    if run.bar is not None:
        run.bar.finish()
    return fitted, state(run, fitted)


def settle(model: Any) -> Settings:
    """Check every setting of an estimator before any data is read."""
    budget, loss, penalty = model._objective()
    if model.progress is not None:
        function("progress", model.progress)
    if not isinstance(model.verbose, int | np.integer):
        flag("verbose", model.verbose)
    if model.random_state is not None:
        check_random_state(model.random_state)
    if model.ledger is not None:
        check_dataset(model.ledger)
    steps = check_steps(model.preparation, model.data_norm)
    method = None
    if not (isinstance(model.solver, str) and model.solver == "auto"):
        method = Method.divided(budget, steps, resolve(model.solver))
        method.solver.check(loss, method.models)
    elif budget.pure:
        raise NotSupported(
            "solver='auto' needs delta > 0; got delta=0. Give a delta well below 1/n, for "
            "example 1e-6, or choose a solver with a pure guarantee: 'objpert', 'outpert', "
            "'frank-wolfe' or 'laplace-sgd'."
        )
    process = Process(
        random_state=model.random_state,
        chosen=model.epsilon is not familiar.UNCHOSEN,
        ledger=model.ledger,
        details={} if model.ledger is None else _details(model),
        progress=model.progress,
        verbose=bool(model.verbose),
        counted_before=model.counted_before,
    )
    own: Any = {"features": model.features, "numeric": model.numeric, "process": process}
    own |= {"inference": model.inference, "shifted": model._shifted_intercept}
    norm = model.data_norm
    return Settings(
        type(model), budget, loss, penalty, model.fit_intercept, norm, steps, method, **own
    )


def _details(model: Any) -> dict[str, Any]:
    """Return the settings of an estimator that the entry of a ledger has."""
    left_out = ("ledger", "progress", "verbose", "random_state", "classes", "solver")
    given = model.get_params(deep=False).items()
    return {name: value for name, value in given if name not in left_out and value is not None}


def choose(settings: Settings, inputs: Inputs) -> Method:
    """Return the method of the settings, or choose one now that the table's size is known.

    A part of the budget is reserved for inference about each model. Weights that do not add up to
    the units are measured always for balanced classes, else for solvers whose plan may depend on
    them.
    """
    units = inputs.units
    made = feature_rule.FeatureChoice(inputs.X.shape[1])
    declared = settings.numeric is not None or settings.features != "auto"
    if declared and settings.features != "linear":
        made = feature_rule.choose(
            settings.features,
            settings.numeric,
            feature_rule.TableFacts(units.size, made.width, inputs.names, inputs.booleans),
            settings.budget,
            given=settings.steps,
            regression=settings.loss.task == "regression",
        )
    steps = settings.steps if made.bounds is None else (made.bounds, *settings.steps)
    method, rate = settings.method, 1.0
    if method is None:
        steps, solver, rate = _by_rule(settings, inputs, made, steps)
        method = Method.divided(settings.budget, check_steps(steps, settings.data_norm), solver)
    elif made.bounds is not None:
        steps = check_steps(steps, settings.data_norm)
        method = Method.divided(settings.budget, steps, method.solver)
    solver, balance = method.solver, None
    if inputs.uneven:
        units.check_solver(solver, weighted=inputs.by_class is not None)
        balanced = inputs.by_class is not None and inputs.by_class.values is None
        if solver.private and (balanced or method.adapts):
            balance = Balance.of(settings.budget, units.size, solver.composes)
    inference: tuple[Inference, ...] = ()
    if settings.inference:
        check_inference(solver, made.expansion)
        size = made.width + int(settings.fit_intercept)
        taken = (*method.steps, *(() if balance is None else (balance,)))
        left = 1.0 - sum(part.share for part in taken)
        inference = reserved(units.size, size, settings.budget, len(inputs.rules), left)
    if balance is not None or inference:
        method = Method.divided(settings.budget, method.steps, solver, balance, inference)
        solver.check(settings.loss, method.models)
    return replace(method, expansion=made.expansion, width=made.width, rate=rate)


def _by_rule(
    settings: Settings, inputs: Inputs, made: feature_rule.FeatureChoice, given: tuple[Step, ...]
) -> auto.Choice:
    """Choose steps and solver by the rule of ``solver="auto"``, adapted for inference."""
    n_rows, budget, by_row = inputs.units.size, settings.budget, inputs.units.unit == "row"
    problem = settings.problem(n_rows, made.width, settings.data_norm)
    choice = _rule(problem, budget, given, made.known, by_row and not settings.inference)
    if not settings.inference:
        return choice
    steps = whitened(choice.steps, n_rows, made.width, budget)
    error = expected_error(n_rows, problem.n_parameters, budget)
    solver, rate = pilot(choice.solver, settings.loss, error), choice.rate
    alone = by_row and not inputs.uneven and len(inputs.rules) == 1
    if alone and not settings.loss.curves_unevenly:
        rate = sample_rate(steps, n_rows, problem.n_parameters, budget)
    signal = rate * n_rows * budget.to_gdp().mu
    steps = lighter(steps, signal, made.width, budget.relation.rows_changed)
    return auto.Choice(steps, solver, rate)


def begin(settings: Settings, method: Method, inputs: Inputs) -> Run:
    """Plan the models, warn of what the caller should know, and open the account."""
    bits = settings.process.bits()
    if inputs.units.units is not None and not method.solver.takes_units:
        inputs = inputs.drawn(bits)
    units, process = inputs.units, settings.process
    needed = method.solver.needs_row_bound
    norm = pipeline.model_norm(method.steps, settings.data_norm, needed=needed)
    problem = settings.problem(units.size, method.width, norm)
    plan = method.solver.plan(problem, method.models, len(inputs.rules))
    outside = familiar.warn_of_fit(settings.kind, settings.budget, units, process)
    earlier_fits = next(FITS) if process.counted_before is None else process.counted_before
    whole = plan.spends if method.division is None else settings.budget
    name, payer = settings.kind.__name__, process.ledger
    if payer is not None:
        payer = payer.noting(estimator=name, solver=method.solver.name, **process.details)
    stated = f"ε = {whole.epsilon:g}, δ = {whole.delta:g}, {whole.relation}, one {units.unit}"
    stated = stated if method.solver.private else "NOT PRIVATE"
    note("Fit of %s by %s: %s.", name, method.solver.name, stated)
    bar = None
    if process.verbose:
        bar = Bar(name, len(inputs.rules), sum(step.share for step in method.steps))
    return Run(
        settings=settings,
        method=method,
        inputs=inputs,
        problem=problem,
        plan=plan,
        account=Account(whole, payer, units.unit),
        bits=bits,
        earlier_fits=earlier_fits,
        outside=outside,
        noises=[Noise(stream) for stream in bits.spawn(len(method.mechanisms))],
        bar=bar,
    )


def prepare(run: Run) -> tuple[Prepared, Problem]:
    """Open the shares of the preparation; transform and weigh the rows.

    Returns the problem with it, whose size is a released number where rows have weights.
    """
    method, inputs, problem = run.method, run.inputs, run.problem
    if method.division is not None and run.plan.spends != method.models:
        raise NotSupported(
            f"solver={method.solver.name!r} would spend more than it was given (unsafe=True); "
            "a preparation cannot be accounted for together with that. Pass preparation=None."
        )
    recipe = pipeline.Recipe(
        steps=method.steps,
        mechanisms=method.mechanisms[: len(method.steps)],
        expansion=method.expansion,
        data_norm=run.settings.data_norm,
        rate=method.rate,
        writes=problem.row_norm is not None or not method.solver.takes_transformed_rows,
    )
    recipe.check_table(inputs.X, problem.n_features)
    if method.division is not None:
        run.account.reserve(method.division)
    targets = None if inputs.y is None else inputs.rules[0](inputs.y)
    maker = UnitRows(inputs.units, targets)
    prepared = pipeline.transform(recipe, inputs.X, maker, run.account, run.noises, problem)
    return _weighed(run, prepared) if inputs.uneven else (prepared, problem)


def _weighed(run: Run, prepared: Prepared) -> tuple[Prepared, Problem]:
    """Give rows the weights of the objective; steps see rows by which every unit counts once."""
    method, units, by_class = run.method, run.inputs.units, run.inputs.by_class
    rows, problem, totals = prepared.rows, run.problem, None
    codes = np.zeros(rows.n_rows, dtype=np.int8) if by_class is None else by_class.codes
    count = 1 if by_class is None else by_class.count
    if method.balance is not None:
        part = len(method.steps)
        coded = units.weigh(rows).with_targets(codes)
        mechanism: Any = method.mechanisms[part]
        totals = method.balance.measure(
            coded, count, run.account, part, mechanism, run.noises[part]
        )
    elif not method.solver.private:
        totals = units.totals(codes, count)
    factors = np.ones(1) if by_class is None else by_class.factors(totals)
    if totals is not None and method.adapts:
        size = round(float(totals @ factors))
        problem = replace(problem, n_rows=min(max(1, size), units.size))
    units = units if by_class is None else units.times(factors[codes])
    return replace(prepared, rows=units.weigh(rows)), problem


def train(run: Run, prepared: Prepared, problem: Problem) -> Fitted:
    """Solve for the weights of each model, and measure their covariances if that was reserved."""
    method, inputs = run.method, run.inputs
    n_models = len(inputs.rules)
    opened = _open_inference(run, prepared)
    rows, solved = prepared.sampled_rows(problem) if opened else (prepared.rows, problem)
    size = None if prepared.sample is None or not opened else prepared.size
    plan = run.plan
    if solved is not run.problem:  # its size was measured, or that of a sample was drawn
        plan = method.solver.plan(solved, method.models, n_models)
    made = 0 if method.expansion is None else method.expansion.count
    weighted = inputs.uneven or inputs.units.grouped
    solutions: list[Solution] = []
    evidence: list[Evidence] = []
    dropped = []
    for model, stream in enumerate(run.bits.spawn(n_models)):
        # targets are made when needed: those of many classes would outgrow a narrow table
        part = inputs.labelled(rows, model)
        curator = Curator(part, run.account, Noise(stream), Fraction(1, n_models), size)
        solution = method.solver.solve(solved, curator, plan, run.watch(model))
        if opened:
            about: Any = {"weighted": weighted, "mapped": prepared.mapped}
            found = Inference.measure(*opened[model], problem, solution.weights, **about)
            evidence.append(found)
            if not found.reason:  # else the fitted weights are better
                known: Any = {"clip": None, "deviation": None, "free_noise": None}
                solution = replace(solution, weights=found.weights, **known)
        solution, without = without_noise(solution, prepared, problem, made)
        dropped.append(without)
        solutions.append(solution)
    return _carried(run, prepared, problem, solutions, evidence, np.all(dropped, axis=0))


def _open_inference(run: Run, prepared: Prepared) -> list[tuple[Curator, Curator | None, float]]:
    """Open what was reserved for inference: curators and their μ² for each model.

    It must be open before the models. Its rows have the weights of the model's. The second
    curator is for the rows that the preparation saw, if it did not see all.
    """
    method, inputs, opened = run.method, run.inputs, []
    first = len(method.mechanisms) - len(method.inference)
    for model in range(len(method.inference)):

        def change(rows: Rows, model: int = model) -> Rows:
            labelled = inputs.labelled(rows, model)
            if inputs.y is None or rows is prepared.rows:
                return labelled
            return labelled.with_weights(prepared.rows.row_weights)

        distant, few = prepared.distant_rows(change)
        if few is not None:
            few = inputs.labelled(few, model)
        curator = Curator(distant, run.account, run.noises[first + model])
        _, total = curator.open_reserved(first + model)
        drawn = None if few is None else curator.on_sample(few, prepared.size)
        opened.append((curator, drawn, float(total)))
    return opened


def _carried(
    run: Run,
    prepared: Prepared,
    problem: Problem,
    solutions: Sequence[Solution],
    evidence: Sequence[Evidence],
    dropped: NDArray[np.bool_],
) -> Fitted:
    """Carry weights of prepared rows through the map of the preparation, without its clips.

    Weights of the features that were ``dropped`` are exactly 0, not up to rounding.
    """
    method, inputs, first = run.method, run.inputs, solutions[0]
    weights = np.array([solution.weights for solution in solutions])
    weights = weights.reshape(-1, problem.n_features + int(problem.fit_intercept))
    slopes = weights[:, : problem.n_features] * inputs.scale
    constants = np.zeros(len(weights))
    if problem.fit_intercept:
        constants = weights[:, -1]
    constants = constants * inputs.scale + inputs.centre
    affine = prepared.affine or AffineMap.to_norm(np.inf, problem.n_features)
    about: Any = {"intercept": problem.fit_intercept, "shifted": run.settings.shifted}
    covariances = (Covariance.of(each, affine, scale=inputs.scale, **about) for each in evidence)
    carried = affine.adjoint(np.column_stack([slopes, constants]))
    carried[:, :-1][:, dropped] = 0.0
    bounds = (step for step in prepared.fitted if isinstance(step, FittedBounds))
    entries = (
        replace(entry, model=model)
        for model, solution in enumerate(solutions)
        for entry in solution.trace
    )
    return Fitted(
        coef=np.ascontiguousarray(carried[:, :-1]),
        intercept=carried[:, -1].copy(),
        prepared_coef=slopes,
        prepared_intercept=constants,
        deviation=None if first.deviation is None else first.deviation * inputs.scale,
        covariances=tuple(covariances),
        features=FeatureMap(next(bounds, None), method.expansion),
        preparation=prepared.fitted,
        solver=method.solver.name,
        row_norm=problem.row_norm,
        size=inputs.units.size,
        trace=Trace(entries),
        solution=first,
        steps=method.steps,
        problem=problem,
    )


def state(run: Run, fitted: Fitted) -> Statement:
    """State what was promised, what that rests on, and what was treated as public."""
    settings, method, inputs = run.settings, run.method, run.inputs
    units = inputs.units
    public = (f"the number of {units.plural}", *PUBLIC, *inputs.public, *run.outside)
    if settings.data_norm is not None:
        public += (f"the bound {settings.data_norm:g} on a row's norm",)
    public += units.public
    if inputs.by_class is not None:
        public += inputs.by_class.public
    if method.expansion is not None:
        public += ("the features: their columns, public bounds and number",)
    conditions: tuple[str, ...] = ()
    if method.balance is not None:
        conditions += (method.balance.condition,)
    if method.division is not None:
        conditions += (*(step.condition for step in fitted.preparation), DIVIDED)
    if method.inference:
        conditions += (method.inference[0].condition,)
    conditions += fitted.solution.conditions
    if inputs.y is None:
        conditions += (WORKERS.format(inputs.X.place),)
    if units.unit != "row" or units.condition:
        conditions = units.stated(conditions)
    if run.plan.spends.epsilon > method.models.epsilon:
        conditions += (
            f"ε = {method.models.epsilon:g} was asked for, but the published constants give "
            "less privacy than that (unsafe=True)",
        )
    guarantee = run.account.guarantee(
        conditions=conditions,
        public=public,
        secure=run.bits.secure,
        earlier_fits=run.earlier_fits,
        rows_per_unit=units.rows_per_unit,
        n_units=units.size,
    )
    entry = None if settings.process.ledger is None else getattr(run.account.charge, "entry", None)
    return Statement(guarantee, entry)
