"""A private fit in five steps, each a record: Settings → Method → Prepared → Fitted → Statement.

- `settle` checks the caller's settings before any data is there: `Settings`.
- `choose` fixes the steps, the solver and the division of the budget by public numbers: `Method`.
- `prepare` opens shares of the budget and transforms rows: `Prepared` of the preparation.
- `train` solves for the weights of each model: `Fitted`, released numbers alone.
- `state` says what was promised and what that rests on: `Statement`.

`fit` runs them in this order. Levels of columns that a design has yet to find come first: they are
released within a part of the budget, and the method is chosen by them, for the rest of it.
Estimators are shells around it: they name a loss, turn y into targets and keep what comes back as
attributes. The order is part of the design: no data is read for a bad setting, the account is
opened before a row is read, and only curators read rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import Budget, Guarantee
from discreet.core.bits import Bits
from discreet.core.session import Session, Stream, bits_of
from discreet.errors import NotSupported
from discreet.estimators import discovery, familiar, refinement
from discreet.estimators.method import Method, Settings, choose, decided
from discreet.estimators.pair_terms import PairSearch, PairTerms
from discreet.estimators.pairs import TOO_SMALL, First, PairRule, PairSide
from discreet.estimators.refinement import Refined
from discreet.estimators.trace import Bar, Trace
from discreet.estimators.units import Inputs
from discreet.inference import Covariance
from discreet.log import note
from discreet.objectives import Problem
from discreet.preparation import (
    Bounds,
    FeatureMap,
    FittedBounds,
    FittedStep,
    Step,
    Windows,
    pipeline,
)
from discreet.preparation.pipeline import Prepared
from discreet.preparation.support import without_noise
from discreet.rows import AffineMap
from discreet.solvers import Progress, Solution
from discreet.validate import FloatArray

FITS = itertools.count()
"""Counts the fits of this process, so that a guarantee can say how many there were before."""

PUBLIC = (
    "the number and order of columns, and how the table is stored",
    "that all rows are valid (finite numbers, known labels)",
)
"""What every fit treats as public, in addition to the number of units."""

WORKERS = (
    "the rows are in blocks on workers of {}, which see them and are trusted with them, like the "
    "scheduler; noise was added on the client alone"
)

AGAIN = "the model was fitted twice, each time with half of the budget of the models, and averaged"

DIVIDED = "the budget was divided between preparation and model before a row was read"

DIVIDED_LATER = (
    "the part of the budget for levels was fixed before a row was read; the rest was divided "
    "between preparation and model once the levels were known, in Gaussian DP"
)


@dataclass(frozen=True, eq=False)
class Run:
    """A fit with an open account: who pays, where its noise comes from, and who watches.

    ``problem`` and ``plan`` are those that public numbers give; ``outside`` names what steps of a
    pipeline learned outside the budget, ``levels`` is the part of the budget that found levels of
    columns, if there is one. Each part of the method has its own noise. ``watchers`` are called
    after each iteration of a solver; ``bar`` is one of them, if there is a bar.
    """

    settings: Settings
    method: Method
    inputs: Inputs
    problem: Problem
    plan: Any
    session: Session
    earlier_fits: int
    outside: tuple[str, ...]
    levels: discovery.LevelBudget | None
    streams: Sequence[Stream]
    bar: Bar | None
    watchers: tuple[Callable[[Progress], None], ...]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Released numbers of a fit. All of them but the last six are attributes of an estimator.

    ``coef`` and ``intercept`` belong to the features of X and to units of predictions, one row per
    linear model, the prepared ones to prepared rows. ``solution``, ``steps`` and ``problem`` are
    those of the first model. ``design`` has all levels that were found.
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
    design: Any
    pairs: PairTerms | None = None
    searched: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Statement:
    """What a fit promises, and its entry in the ledger, if a ledger was charged."""

    guarantee: Guarantee
    ledger_entry: int | None


@dataclass(frozen=True, eq=False)
class Opened:
    """The session of a fit, what steps outside of it learned, and the number of earlier fits."""

    session: Session
    outside: tuple[str, ...]
    earlier_fits: int
    levels: discovery.LevelBudget | None = None


def fit(settings: Settings, inputs: Inputs) -> tuple[Fitted, Statement]:
    """Fit linear models on one budget."""
    opened: Opened | None = None
    bar: Bar | None = None
    try:
        if inputs.design is not None and inputs.design.discovered:
            levels, rest = discovery.planned(settings, inputs)
            opened = _open(settings, inputs, settings.budget)
            inputs = discovery.find(levels, inputs, opened.session)
            opened = replace(opened, levels=levels)
            settings = rest
        if settings.inference == "auto":
            settings, inputs = decided(settings, inputs)
        run = begin(settings, choose(settings, inputs), inputs, opened)
        bar = run.bar
        opened = Opened(run.session, run.outside, run.earlier_fits, run.levels)
        prepared, problem = prepare(run)
        fitted = train(run, prepared, problem)
    except BaseException:
        if opened is not None:
            opened.session.account.abandon()
        if bar is not None:
            bar.stop()
        raise
    if bar is not None:
        bar.finish()
    return fitted, state(run, fitted)


def _open(
    settings: Settings,
    inputs: Inputs,
    whole: Budget,
    method: Method | None = None,
    bits: Bits | None = None,
) -> Opened:
    """Warn of what the caller should know, and open the account; the method may be unknown yet."""
    process = settings.process
    units = inputs.units
    outside = familiar.warn_of_fit(settings.kind, whole, units, process)
    earlier_fits = next(FITS) if process.counted_before is None else process.counted_before
    payer = process.ledger
    if payer is not None:
        known = settings.method if method is None else method
        solver = "auto" if known is None else known.solver.name
        payer = payer.noting(estimator=settings.kind.__name__, solver=solver, **process.details)
    bits = bits_of(process.random_state) if bits is None else bits
    make = Session if inputs.y is not None else getattr(inputs.X, "session", Session)
    return Opened(make(whole, units.unit, ledger=payer, bits=bits), outside, earlier_fits)


def begin(settings: Settings, method: Method, inputs: Inputs, opened: Opened | None = None) -> Run:
    """Plan the models, and open the account unless levels were found with it before."""
    process = settings.process
    if inputs.design is not None:
        inputs.design.check_gaps(inputs.X, _windows(method))
    bits = bits_of(process.random_state) if opened is None else opened.session.bits
    if inputs.units.units is not None and not method.solver.takes_units:
        inputs = inputs.drawn(bits)
    units = inputs.units
    needed = method.solver.needs_row_bound
    norm = pipeline.model_norm(method.steps, settings.data_norm, needed=needed)
    problem = settings.problem(units.size, method.width, norm)
    plan = method.solver.plan(problem, method.models, method.count(len(inputs.rules)))
    whole = plan.spends if method.division is None else settings.budget
    if opened is None:
        opened = _open(settings, inputs, whole, method, bits)
    elif whole != settings.budget:
        discovery.refuse_unsafe(method.solver)
    session = opened.session
    whole = session.account.budget
    name = settings.kind.__name__
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
        session=session,
        earlier_fits=opened.earlier_fits,
        outside=opened.outside,
        levels=opened.levels,
        streams=session.streams(len(method.mechanisms)),
        bar=bar,
        watchers=tuple(each for each in (process.progress, bar) if each is not None),
    )


def _windows(method: Method) -> Sequence[int]:
    """Return the columns that the method has windows or bounds for."""
    first = method.steps[0] if method.steps else None
    return first.columns if isinstance(first, Bounds | Windows) and first.takes_gaps else ()


def prepare(run: Run) -> tuple[Prepared, Problem]:
    """Open the shares of the preparation; transform and weigh the rows.

    Returns the problem with it, whose size is a released number where rows have weights.
    """
    method = run.method
    inputs = run.inputs
    problem = run.problem
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
        overwrites=run.inputs.is_own and method.pairs is None,
    )
    recipe.check_table(inputs.X, problem.n_features)
    if method.division is not None:
        run.session.account.reserve(method.division)
    X = inputs.X
    if inputs.design is not None:
        X = inputs.design.with_middles(X, _windows(method), overwrite=recipe.overwrites)
    targets = None if inputs.y is None else inputs.rules[0](inputs.y)
    make = partial(inputs.units.rows, targets=targets)
    prepared = pipeline.transform(recipe, X, make, run.session, run.streams, problem)
    if not method.inference:
        prepared = replace(prepared, sample=None)  # memory for the models
    return (prepared, problem) if inputs.units.even else _weighed(run, prepared)


def _weighed(run: Run, prepared: Prepared) -> tuple[Prepared, Problem]:
    """Give rows the weights of the objective; in steps every unit has a total weight of 1."""
    method = run.method
    units = run.inputs.units
    by_class = run.inputs.by_class
    rows = prepared.rows
    problem = run.problem
    totals = None
    codes = np.zeros(rows.n_rows, dtype=np.int8) if by_class is None else by_class.codes
    count = 1 if by_class is None else by_class.count
    if method.balance is not None:
        part = len(method.steps)
        coded = units.weigh(rows).with_targets(codes)
        mechanism: Any = method.mechanisms[part]
        totals = method.balance.measure(
            coded, count, run.session, part, mechanism, run.streams[part]
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
    method = run.method
    inputs = run.inputs
    n_models = method.count(len(inputs.rules))
    side = None if method.pairs is None else _open_pairs(run, method.pairs, prepared)
    opened = refinement.opened(run, prepared) if method.inference else []
    sampled = bool(opened) and run.settings.inference is True
    rows, solved = prepared.sampled_rows(problem) if sampled else (prepared.rows, problem)
    size = None if prepared.sample is None or not sampled else prepared.size
    plan = run.plan
    if solved is not run.problem:  # its size was measured, or that of a sample was drawn
        plan = method.solver.plan(solved, method.models, n_models)
    made = 0 if method.expansion is None else method.expansion.count
    solutions: list[Solution] = []
    evidence: list[Refined] = []
    dropped = []
    streams = run.session.streams(n_models)

    def solve(model: int, stream: Stream) -> Solution:
        # targets are made when needed: those of many classes would outgrow a narrow table
        part = inputs.labelled(rows, model)
        curator = run.session.curator(part, stream, Fraction(1, n_models), size)
        report = partial(_report, run.watchers, model) if run.watchers else None
        return method.solver.solve(solved, curator, plan, report)

    for model in range(len(inputs.rules)):
        solution = solve(model, streams[model])
        if opened:
            solution, found = opened[model].refined(run, prepared, problem, solution)
            evidence.append(found)
        solution, without = without_noise(solution, prepared, problem, made)
        dropped.append(without)
        solutions.append(solution)
    fitted = _carried(run, prepared, problem, solutions, evidence, np.all(dropped, axis=0))
    if side is None:
        if method.pairs is None:
            return fitted
        reason = TOO_SMALL.format(signal=method.pairs.signal, least=method.pairs.least)
        return replace(fitted, pairs=PairTerms(search=PairSearch(reason=reason)))
    kind: Any = run.settings.kind
    first = First(
        coef=fitted.coef,
        intercept=fitted.intercept,
        features=fitted.features,
        deviation=fitted.deviation,
        problem=problem,
        log_odds=kind.log_odds(fitted),
    )
    terms, once_more = side.second(first, streams[-1], partial(solve, 0, streams[-1]))
    if once_more is not None:
        averaged, without = without_noise(
            _averaged(solutions[0], once_more), prepared, problem, made
        )
        fitted = _carried(run, prepared, problem, [averaged], evidence, without)
        return replace(fitted, pairs=terms, searched=(*side.conditions, AGAIN))
    return replace(fitted, pairs=terms, searched=side.conditions)


def _averaged(first: Solution, second: Solution) -> Solution:
    """Return the mean of two solutions of one problem, each with half of the budget."""
    free = first.free_noise
    return replace(
        first,
        weights=(first.weights + second.weights) / 2,
        deviation=None if first.deviation is None else first.deviation / math.sqrt(2),
        free_noise=None if free is None else free / math.sqrt(2),
        kept=(first.kept + second.kept) / 2,
    )


def _open_pairs(run: Run, rule: PairRule, prepared: Prepared) -> PairSide | None:
    """Open what was reserved for the search for pairs; None if nothing was."""
    if not rule.parts:
        return None
    first = len(run.method.mechanisms) - len(rule.parts)
    mechanisms = run.method.mechanisms[first:]
    streams = run.streams[first:]
    own: Any = (run.session, streams, run.inputs, prepared.fitted, first)
    return PairSide(rule, mechanisms, *own)


def _report(watchers: Sequence[Callable[[Progress], None]], model: int, at: Progress) -> None:
    """Pass the state of a running solver on, with the number of its model."""
    for watcher in watchers:
        watcher(replace(at, entry=replace(at.entry, model=model)))


def _carried(
    run: Run,
    prepared: Prepared,
    problem: Problem,
    solutions: Sequence[Solution],
    evidence: Sequence[Refined],
    dropped: NDArray[np.bool_],
) -> Fitted:
    """Carry weights of prepared rows through the map of the preparation, without its clips.

    Weights of the features that were ``dropped`` are exactly 0, not up to rounding.
    """
    method = run.method
    inputs = run.inputs
    first = solutions[0]
    weights = np.array([solution.weights for solution in solutions])
    weights = weights.reshape(-1, problem.n_features + int(problem.fit_intercept))
    slopes = weights[:, : problem.n_features] * inputs.scale
    constants = np.zeros(len(weights))
    if problem.fit_intercept:
        constants = weights[:, -1]
    constants = constants * inputs.scale + inputs.centre
    affine = prepared.affine or AffineMap.to_norm(np.inf, problem.n_features)
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
        covariances=tuple(each.covariance(run, problem) for each in evidence),
        features=FeatureMap(next(bounds, None), method.expansion),
        preparation=prepared.fitted,
        solver=method.solver.name,
        row_norm=problem.row_norm,
        size=inputs.units.size,
        trace=Trace(entries),
        solution=first,
        steps=method.steps,
        problem=problem,
        design=inputs.design,
    )


def state(run: Run, fitted: Fitted) -> Statement:
    """State what was promised, what that rests on, and what was treated as public."""
    settings = run.settings
    method = run.method
    inputs = run.inputs
    units = inputs.units
    conditions: tuple[str, ...] = ()
    if run.levels is not None:
        conditions += run.levels.conditions(units.unit)
    if method.balance is not None:
        conditions += (method.balance.condition,)
    if method.division is not None:
        divided = DIVIDED if run.levels is None else DIVIDED_LATER
        conditions += (*(step.condition for step in fitted.preparation), divided)
    if method.inference:
        conditions += (method.inference[0].condition,)
    conditions += fitted.solution.conditions
    conditions += fitted.searched
    if inputs.y is None:
        conditions += (getattr(inputs.X, "condition", WORKERS.format(inputs.X.place)),)
    if units.unit != "row" or units.condition:
        conditions = units.stated(conditions)
    if run.plan.spends.epsilon > method.models.epsilon:
        conditions += (
            f"ε = {method.models.epsilon:g} was asked for, but the published constants give "
            "less privacy than that (unsafe=True)",
        )
    public = (f"the number of {units.plural}", *PUBLIC, *inputs.public, *run.outside)
    if settings.data_norm is not None:
        public += (f"the bound {settings.data_norm:g} on a row's norm",)
    public += units.public
    if inputs.by_class is not None:
        public += inputs.by_class.public
    if method.expansion is not None:
        public += ("the features: their columns, public bounds and number",)
    guarantee = run.session.account.guarantee(
        conditions=conditions,
        public=public,
        secure=run.session.secure,
        earlier_fits=run.earlier_fits,
        rows_per_unit=units.rows_per_unit,
        n_units=units.size,
    )
    entry = (
        None
        if settings.process.ledger is None
        else getattr(run.session.account.charge, "entry", None)
    )
    return Statement(guarantee, entry)
