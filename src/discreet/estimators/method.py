"""What a fit will do: checked settings, and the method, which public numbers determine.

`settle` makes `Settings` of an estimator before any data is there, `choose` makes a `Method` once
the size of the table is known. Nothing here reads a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from discreet.accounting.composition import Division
from discreet.accounting.planning import divide
from discreet.column_kinds import check_columns, number_columns
from discreet.core import Budget
from discreet.design import Design
from discreet.errors import NotSupported
from discreet.estimators import auto, familiar
from discreet.estimators import features as feature_rule
from discreet.estimators import pairs as pair_rule
from discreet.estimators.pair_columns import candidates
from discreet.estimators.units import Inputs
from discreet.inference import Inference
from discreet.inference.hessian import expected_error
from discreet.inference.rule import (
    EVEN_SHARE,
    check_inference,
    comes_along,
    lighter,
    pilot,
    reserved,
    sample_rate,
    whitened,
)
from discreet.inference.shares import SHARE
from discreet.ledger import Dataset, check_dataset
from discreet.objectives import L2, Loss, Problem
from discreet.preparation import Balance, Bounds, Step, Windows, check_steps
from discreet.preparation.features import Expansion, Splines
from discreet.preparation.steps import Mechanism
from discreet.preparation.windows import Numbers
from discreet.solvers import Progress, Solver, resolve
from discreet.validate import flag, function

_ADAPTIVE = frozenset({"pure", "zcdp", "gdp"})
"""Measures in which a solver's plan may depend on earlier releases of the same fit."""

ALPHA = 1e-4
"""Largest penalty of a fit whose intervals come along: they are of unpenalised coefficients."""

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


@dataclass(frozen=True, eq=False)
class Settings:
    """Checked settings of a fit: all that is known before the table is.

    ``method`` is None if the rule of ``solver="auto"`` has yet to choose it by the table's size,
    ``kind`` the class of the estimator. The intercept of a ``shifted`` loss has no interval.
    ``cov_type`` is the kind of errors that was asked for. ``inference`` is "auto" where intervals
    come with the predictions if public numbers allow it (`decided`), True where they come first.
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
    columns: Any = None
    inference: bool | str = "auto"
    shifted: bool = False
    cov_type: str | None = None
    process: Process = field(default_factory=Process)

    def problem(self, n_rows: int, n_features: int, row_norm: float | None) -> Problem:
        """Return the problem for a table of this size."""
        size = {"n_rows": n_rows, "n_features": n_features}
        return Problem(
            self.loss, self.penalty, **size, fit_intercept=self.fit_intercept, row_norm=row_norm
        )


@dataclass(frozen=True)
class Method:
    """A preparation with the mechanism of each step, a solver, and their parts of the budget.

    ``models`` is the budget of all models. ``division`` is None if that is the whole budget; else
    ``mechanisms`` are made from it.
    There is one for each step, one for the ``balance`` of the classes, if it is measured, and one
    for the ``inference`` about each model. The solver sees ``width`` features: the columns of X, or
    those that ``expansion`` makes of them. Steps see a sample of the rows at ``rate``. The search
    for ``pairs`` has the last mechanisms, and the models are then two.
    """

    steps: tuple[Step, ...]
    solver: Solver
    models: Budget
    division: Division | None = None
    mechanisms: tuple[Mechanism, ...] = ()
    balance: Balance | None = None
    inference: tuple[Inference, ...] = ()
    expansion: Expansion | None = None
    width: int = 0
    rate: float = 1.0
    pairs: pair_rule.PairRule | None = None

    @classmethod
    def divided(
        cls,
        budget: Budget,
        steps: tuple[Step, ...],
        solver: Solver,
        balance: Balance | None = None,
        inference: tuple[Inference, ...] = (),
        pairing: pair_rule.PairRule | None = None,
    ) -> Method:
        """Divide the budget between a preparation and a solver, before anything is read.

        A budget too extreme for a step is a ``ValueError``.
        """
        if steps and not solver.private:
            raise NotSupported(
                f"solver={solver.name!r} protects nobody, so a private preparation makes no sense "
                "with it. Pass preparation=None, or use a private solver."
            )
        parts: tuple[Any, ...] = (*steps, *(() if balance is None else (balance,)), *inference)
        parts += () if pairing is None else pairing.parts
        if not parts:
            return cls(steps, solver, budget, pairs=pairing)
        division = divide(budget, [(part.name, part.share) for part in parts], solver.composes)
        mechanisms = tuple(
            part.mechanism(division.measure, division.total_of(index))
            for index, part in enumerate(parts)
        )
        own = cls(steps, solver, division.models, division, mechanisms, balance, inference)
        return replace(own, pairs=pairing)

    def count(self, models: int) -> int:
        """Return the number of models that share the budget, of so many that there are targets."""
        return models * (1 if self.pairs is None else self.pairs.models)

    @property
    def adapts(self) -> bool:
        """True if the size of the objective may be a released number, not a public one."""
        solver = self.solver
        return solver.takes_units and (not solver.private or _ADAPTIVE.issuperset(solver.composes))


def settle(model: Any) -> Settings:
    """Check every setting of an estimator before any data is read."""
    budget, loss, penalty = model._objective()
    model.check_formula()
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
    if model.features == "pairs":
        pair_rule.check_settings(loss, budget, None if method is None else method.solver, model)
    process = Process(
        random_state=model.random_state,
        chosen=model.epsilon is not familiar.UNCHOSEN,
        ledger=model.ledger,
        details={} if model.ledger is None else _details(model),
        progress=model.progress,
        verbose=bool(model.verbose),
        counted_before=model.counted_before,
    )
    own: Any = {"features": model.features, "columns": model.columns, "process": process}
    inference = model.inference
    if inference == "auto" and not (model._has_intervals and model._robust_errors):
        inference = False
    own |= {"inference": inference, "shifted": model._shifted_intercept}
    own |= {"cov_type": model.cov_type if model._robust_errors else "model"}
    norm = model.data_norm
    if norm is None and not steps and method is not None:
        norm = method.solver.default_row_norm
    return Settings(
        type(model), budget, loss, penalty, model.fit_intercept, norm, steps, method, **own
    )


def _details(model: Any) -> dict[str, Any]:
    """Return the settings of an estimator that the entry of a ledger has."""
    left_out = ("ledger", "progress", "verbose", "random_state", "classes", "solver", "schema")
    given = model.get_params(deep=False).items()
    return {name: value for name, value in given if name not in left_out and value is not None}


def choose(settings: Settings, inputs: Inputs) -> Method:
    """Return the method of the settings, or choose one now that the table's size is known.

    A part of the budget is reserved for inference about each model. Weights that do not add up to
    the units are measured always for balanced classes, else for solvers whose plan may depend on
    them.
    """
    units = inputs.units
    made = _features(settings, inputs)
    if made.bounds is not None and inputs.design is not None:
        made = replace(made, bounds=_with_others(made.bounds, inputs.design))
    steps = settings.steps if made.bounds is None else (made.bounds, *settings.steps)
    method = settings.method
    rate = 1.0
    if method is None:
        steps, solver, rate = _by_rule(settings, inputs, made, steps)
        method = Method.divided(settings.budget, check_steps(steps, settings.data_norm), solver)
    elif made.bounds is not None:
        steps = check_steps(steps, settings.data_norm)
        method = Method.divided(settings.budget, steps, method.solver)
    solver = method.solver
    balance = None
    if not units.even:
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
        counts = (units.size, size, settings.budget, len(inputs.rules))
        share = SHARE if settings.inference is True else EVEN_SHARE
        inference = reserved(*counts, left, share)
    pairing = _pairing(settings, inputs, solver) if settings.features == "pairs" else None
    if any((balance, inference, pairing)):
        method = Method.divided(settings.budget, method.steps, solver, balance, inference, pairing)
        solver.check(settings.loss, method.models, method.count(len(inputs.rules)))
    return replace(method, expansion=made.expansion, width=made.width, rate=rate)


def decided(settings: Settings, inputs: Inputs) -> tuple[Settings, Inputs]:
    """Decide by public numbers whether intervals come with a fit that leaves this to the rule.

    The indicators of reference levels are left out then: with one of each level neither levels nor
    intercept would be determined.
    """
    design = None if inputs.design is None else inputs.design.for_inference()
    width = inputs.X.shape[1] if design is None else design.width
    counts = (inputs.units.size, width + int(settings.fit_intercept))
    if not (_may_infer(settings, inputs) and comes_along(*counts, settings.budget, settings.loss)):
        return replace(settings, inference=False), inputs
    if design is None:
        return settings, inputs
    contrasted = inputs.design.contrasted(inputs.X, overwrite=inputs.is_own)
    own: Any = {"X": contrasted, "design": design}
    own |= {"names": design.feature_names, "booleans": design.indicators}
    return settings, replace(inputs, **own)


def _may_infer(settings: Settings, inputs: Inputs) -> bool:
    """Return whether the coefficients of a fit are parameters that second-order steps estimate.

    They are those of one linear model that the rule chooses the solver for, whose penalty is no
    larger than the default, and whose units have the same weight. All rows of a unit are in one
    place, as its scores are squared after they are summed.
    """
    units = inputs.units
    if units.grouped and units.units is None and not inputs.X.whole_units:
        return False
    linear = settings.features in ("auto", "linear") and not settings.steps
    alone = len(inputs.rules) == 1 and settings.loss.n_outputs == 1 and inputs.units.even
    unpenalised = settings.penalty.alpha <= ALPHA and settings.data_norm is None
    if not (settings.method is None and linear and alone and unpenalised):
        return False
    return inputs.by_class is None and _features(settings, inputs) == feature_rule.FeatureChoice(
        inputs.X.shape[1]
    )


def _features(settings: Settings, inputs: Inputs) -> feature_rule.FeatureChoice:
    """Return the features of the model, by public numbers."""
    made = feature_rule.FeatureChoice(inputs.X.shape[1])
    numeric = None
    if inputs.design is not None:
        numeric = inputs.design.schema.numeric
    elif settings.columns is not None:
        numeric = number_columns(check_columns(settings.columns))
    declared = numeric is not None or settings.features != "auto"
    if not declared or settings.features == "linear":
        return made
    return feature_rule.choose(
        settings.features,
        numeric,
        feature_rule.TableFacts(inputs.units.size, made.width, inputs.names, inputs.booleans),
        settings.budget,
        given=settings.steps,
        regression=settings.loss.task == "regression",
    )


def _with_others(bounds: Bounds, design: Design) -> Bounds:
    """Return bounds of curves and of all other columns that accept any cell.

    There are no windows then, and a gap needs either.
    """
    columns = tuple(dict.fromkeys((*bounds.columns, *design.accepting_any)))
    return replace(bounds, columns=columns, takes_gaps=True)


def _pairing(settings: Settings, inputs: Inputs, solver: Solver) -> pair_rule.PairRule:
    """Return the plan of the search for pairs of columns."""
    pair_rule.check_solver(solver)
    columns = candidates(inputs, settings.columns)
    return pair_rule.rule(columns, inputs.units.size, settings.loss, settings.budget)


def _windows(design: Design, curves: tuple[int, ...]) -> Windows | None:
    """Return the step that brings the numbers of a design to windows; its share is the rule's.

    Columns with curves are left as they are; None if there are no others.
    """
    numbers = {at: column for at, column in design.numbers.items() if at not in curves}
    if not numbers:
        return None
    bounded = tuple(column.is_bounded for column in numbers.values())
    step = tuple(1.0 if each.integer and not each.is_bounded else 0.0 for each in numbers.values())
    known = Numbers(bounded, step)
    return Windows(tuple(numbers), known, others=len(design.groups) - len(numbers))


def _by_rule(
    settings: Settings, inputs: Inputs, made: feature_rule.FeatureChoice, given: tuple[Step, ...]
) -> tuple[tuple[Step, ...], Solver, float]:
    """Choose steps, solver and the rate of the rows that steps see, adapted for inference."""
    n_rows = inputs.units.size
    budget = settings.budget
    problem = settings.problem(n_rows, made.width, settings.data_norm)
    windows = None
    first = settings.inference is True
    splines = made.expansion is None or isinstance(made.expansion, Splines)
    # Gaps that nobody may be told of, by a refusal, are in the middle of windows.
    needed = not first or (inputs.design is not None and bool(inputs.design.accepting_any))
    if inputs.design is not None and not given and splines and needed:
        curves = () if made.expansion is None else made.expansion.columns
        windows = _windows(inputs.design, curves)
        if windows is None:  # levels and curves alone, whose unit is known
            made = replace(made, known=made.width)
    choice = _rule(problem, budget, given, made.known, windows)
    if not first:
        return *choice, 1.0
    steps = whitened(choice.steps, n_rows, made.width, budget)
    error = expected_error(n_rows, problem.n_parameters, budget)
    solver = pilot(choice.solver, settings.loss, error)
    rate = 1.0
    alone = inputs.units.unit == "row" and inputs.units.even and len(inputs.rules) == 1
    if alone and not settings.loss.curves_unevenly:
        rate = sample_rate(steps, n_rows, problem.n_parameters, budget)
    signal = rate * n_rows * budget.to_gdp().mu
    steps = lighter(steps, signal, made.width, budget.relation.rows_changed)
    return steps, solver, rate
