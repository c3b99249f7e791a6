"""Private tuning: the best of a random number of private runs, and nothing about the others.

Each run draws a setting from a public grid, fits with it, and counts with noise how many rows the
model predicts correctly. The run with the highest noisy count is released. The number of runs stays
secret: the privacy cost of the selection depends on that. Papernot & Steinke, "Hyperparameter
Tuning with Rényi Differential Privacy" (ICLR 2022).

Proof: docs/proofs/tuning.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_array, column_or_1d

from discreet.accounting import conversions
from discreet.core import Budget, Gaussian, Guarantee, Relation
from discreet.core.bits import Bits, uniform_index
from discreet.core.score_questions import CorrectCount
from discreet.core.session import Session, Stream, bits_of
from discreet.errors import NotSupported, PrivacyError, PrivacyLeakWarning
from discreet.estimators.engine import FITS
from discreet.estimators.scoring import classified_rows
from discreet.guarantee_file import Use
from discreet.ledger import Dataset, check_dataset
from discreet.log import note, unlogged
from discreet.rows import Unit, Units
from discreet.solvers import GD, Solver, resolve
from discreet.tuning.laws import BestOfMany, Law, largest_rho, law_of, recomputed_epsilon

Setting = dict[str, Any]
_Messages = list[tuple[str, type[Warning]]]

SCORE_NOISE = 0.002  # target standard deviation of a score, as a share of the number of rows
LEAST_SHARE = 0.02  # of a run's budget, for its score
MOST_SHARE = 0.25  # the same: most of the budget is for the fit
MOST_RUNS = 5.0  # expected by default: beyond it the Poisson law gets expensive
_SLACK = 2.0**-30  # a fit gets this share less than planned, so that no rounding exceeds the plan


def _grid(**values: tuple[Any, ...]) -> tuple[Setting, ...]:
    return tuple(dict(zip(values, choice, strict=True)) for choice in product(*values.values()))


GRIDS: dict[str, tuple[Setting, ...]] = {
    "agd": _grid(splits=(10, 30, 60), gradient_clip=(1.0, 3.0)),
    "gd": _grid(step_size=(1.0, 3.0, 10.0, 30.0), gradient_clip=(0.3, 1.0)),
    "frank-wolfe": _grid(radius=(1.0, 10.0, 20.0, 50.0), iterations=(50, 200)),
    "outpert": _grid(weight_norm=(0.3, 1.0, 3.0, 10.0, 30.0, 100.0)),
    "permutation-sgd": _grid(weight_norm=(0.3, 1.0, 3.0, 10.0, 30.0, 100.0)),
    "privgene": _grid(generations=(30, 100), mutation=(0.3, 1.0, 3.0)),
}
"""Grids of solvers: wide steps around the papers' values and the defaults."""

_TUNABLE = {"pure", "zcdp", "gdp"}
_WHY = {
    "approximate": "it is accounted as one (ε, δ) for all its steps, without a Rényi curve",
    "profile": "it is accounted by a δ for each ε, which does not bound its Rényi divergence",
}


def solver_grid(name: str) -> list[Setting]:
    """Return the grid of a solver in `GRIDS` as settings of an estimator: ``{"solver": …}``."""
    if name not in GRIDS:
        raise ValueError(f"there is a grid for {', '.join(GRIDS)}; got {name!r}. Pass your own.")
    solver: Any = resolve(name)
    return [{"solver": replace(solver, **setting)} for setting in GRIDS[name]]


def check_tunable(solver: Solver) -> None:
    """Raise `NotSupported` if a solver's runs have no bound in zCDP, which a selection needs."""
    if not solver.private:
        raise NotSupported(
            f"solver={solver.name!r} is not private, so it cannot be tuned privately."
        )
    for measure in solver.composes:
        if measure not in _TUNABLE:
            raise NotSupported(
                f"solver={solver.name!r} cannot be tuned privately: {_WHY[measure]}. The cost of "
                "selecting the best run is known for runs with a bound in zCDP or Gaussian DP. Use "
                "'agd', 'gd' or 'frank-wolfe'."
            )


@dataclass(frozen=True)
class RunBudget:
    """Budget of each run of a tuning, for its fit and its score, by public numbers only.

    ``rho`` is the zCDP cost of one run, ``rho_fit`` that of its fit. ``score`` releases the number
    of correct predictions, of sensitivity 1, with the rest.
    """

    budget: Budget
    law: Law
    rho: float
    rho_fit: float
    score: Gaussian

    @classmethod
    def of(cls, budget: Budget, law: Law, n_rows: int) -> RunBudget:
        """Return the budget of a run on a table of this size.

        `SCORE_NOISE` decides on the share of the score.
        """
        if budget.pure:
            raise NotSupported(
                "tuning needs delta > 0; got delta=0. Give a delta well below 1/n, such as 1e-6."
            )
        rho = largest_rho(law, budget)
        wanted = 0.5 / (SCORE_NOISE * n_rows) ** 2
        share = min(max(wanted / rho, LEAST_SHARE), MOST_SHARE)
        score = Gaussian.from_rho(share * rho * (1 - _SLACK))
        return cls(budget, law, rho, (1 - share) * rho, score)

    @property
    def score_budget(self) -> Budget:
        """Budget of the curator that a score is asked of: the ρ of a run without that of its fit.

        It is slightly less, so that no rounding exceeds the plan. The published conversion is used,
        both ways, as its inverse is accurate for every ρ.
        """
        rho = (self.rho - self.rho_fit) * (1 - _SLACK / 2)
        epsilon = conversions.epsilon_from_rho(rho, self.budget.delta, "published")
        return replace(self.budget, epsilon=epsilon)

    def __post_init__(self) -> None:
        """Check that all runs together keep the budget."""
        epsilon = self.law.epsilon(self.rho, self.budget.delta)
        shared = self.rho_fit + self.score.loss.rho <= self.rho
        if shared:  # so does the filter of the score
            total = float(self.score_budget.total("zcdp", "published"))
            shared = self.score.loss.rho <= total <= self.rho - self.rho_fit
        if not (epsilon <= self.budget.epsilon and shared):
            raise PrivacyError(
                f"runs of ρ = {self.rho:g} each cost ε = {epsilon:g}; the budget is "
                f"{self.budget.epsilon:g}, and fit and score must share ρ."
            )

    def fit_budget(self, measures: Sequence[str]) -> Budget:
        """Return the (ε, δ) that an estimator converts to the ρ of a fit, or slightly less.

        A solver of several measures gets the one in Gaussian DP, which is the smallest.
        """
        rho = self.rho_fit * (1 - _SLACK)
        delta = self.budget.delta
        if set(measures) == {"zcdp"}:
            epsilon = conversions.epsilon_from_rho(rho, delta)
        else:
            epsilon = conversions.epsilon_from_mu(math.sqrt(2 * rho), delta)
        return replace(self.budget, epsilon=epsilon)

    def check(self, guarantee: Guarantee) -> None:
        """Raise if a fit has cost more than planned, or if its cost in zCDP is not known."""
        spent: float | None = None
        if guarantee.measure == "zcdp":
            spent = guarantee.rho
        elif guarantee.measure == "gdp":
            spent = conversions.rho_from_mu(guarantee.mu or 0.0)
        elif guarantee.measure == "pure":
            spent = conversions.rho_from_pure(guarantee.epsilon)
        if guarantee.relation is not self.budget.relation or spent is None:
            raise PrivacyError(
                f"a fit is accounted as {guarantee.measure!r} under {str(guarantee.relation)!r}; "
                f"tuning needs zCDP or Gaussian DP under {str(self.budget.relation)!r}."
            )
        if spent * (1 + 2.0**-40) > self.rho_fit:
            raise PrivacyError(
                f"a fit has cost ρ = {spent:.6g}; its planned cost is {self.rho_fit:.6g}. Nothing "
                "was released. With very few steps some solvers compose in pure privacy, which "
                "costs more here: give them more steps."
            )


class TunedGuarantee(Guarantee):
    """The guarantee of a tuning: for the best of K runs."""

    def recompute(self) -> float:
        """Return the ε at the guarantee's δ that `recomputed_epsilon` finds for the selection."""
        ((mechanism, count),) = [(use.mechanism, use.count) for use in self.mechanisms]
        if count != 1 or not isinstance(mechanism, BestOfMany):
            raise PrivacyError("this guarantee is not that of one selection among runs.")
        return recomputed_epsilon(mechanism, self.delta)


@dataclass(frozen=True)
class Tuned:
    """The fitted estimator of the best run, its setting, and the guarantee for both together.

    The estimator's ``guarantee_`` is that of the whole tuning, too. ``runs`` is the number of runs
    in test mode, else None: the guarantee does not cover this number.
    """

    model: Any
    setting: Setting
    guarantee: TunedGuarantee
    runs: int | None


def tune(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    grid: Sequence[Mapping[str, Any]] | None = None,
    expected_runs: float | None = None,
    law: str = "poisson",
    ledger: Dataset | None = None,
    random_state: Any = None,
) -> Tuned:
    """Fit a classifier with a privately selected setting, all on the estimator's budget.

    Parameters
    ----------
    estimator : classifier of discreet
        An unfitted model with the budget of the whole tuning (epsilon, delta, relation), without
        ledger, progress callback and random state. With a preparation, its solver must be
        "auto" or compose in one measure, as "gd" and "agd" do.
    X : array or CSR matrix of shape (n_samples, n_features)
        Rows.
    y : array of shape (n_samples,)
        Labels.
    groups : sequence of ids, optional
        Whose row each row is, as in `fit` of the estimator: fits and scores then count each person
        once, and the guarantee is for people.
    grid : sequence of dict, optional
        Public settings to select from: parameters of the estimator, such as
        ``{"alpha": 1e-3, "solver": GD(step_size=3.0)}``. By default `solver_grid` of its solver.
    expected_runs : float, optional
        E[K], from 1.05 to 1000. By default the number of settings, but at most 5.
    law : {"poisson", "logarithmic", "geometric"}
        The distribution of the number of runs K ≥ 1. The logarithmic one is cheapest for 5 runs or
        more, but one time in three there is a single run.
    ledger : Dataset, optional
        Data set of a ledger; it is charged once, with (ε, δ) for a row, or with groups for a
        person, before the first run.
    random_state : int or RandomState, optional
        For tests only: makes the noise predictable, so nothing is protected.

    Returns
    -------
    Tuned

    Notes
    -----
    *Privacy.* Model and setting are (ε, δ)-DP under the estimator's relation. The number of runs is
    not covered: do not publish it or the duration of the call. ``earlier_fits`` of later guarantees
    counts the whole tuning as one fit. Public: the number of rows (with groups, of people), the
    grid, the law, and what each fit treats as public.
    """
    if not (is_classifier(estimator) and hasattr(estimator, "check_settings")):
        raise NotSupported(
            "tune selects among classifiers of discreet, by the number of correct predictions; got "
            f"{type(estimator).__name__}. Transform rows before tuning instead of in a pipeline."
        )
    budget = Budget(estimator.epsilon, estimator.delta, Relation(estimator.relation))
    settings = _settings(estimator, grid)
    mean = min(float(len(settings)), MOST_RUNS) if expected_runs is None else expected_runs
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False)
    y = column_or_1d(y, warn=True)
    size = X.shape[0]
    unit: Unit = "row"
    if groups is not None:
        size = Units.of(groups, size).count
        unit = "person"
    run = RunBudget.of(budget, law_of(law, mean), size)
    candidates = [_candidate(estimator, setting, run) for setting in settings]
    bits = _bits(random_state)
    check_dataset(ledger)
    payer = None if ledger is None else ledger.noting(solver="tuning")
    session = Session(budget, unit, ledger=payer, bits=bits)
    session.account.open("approximate")  # charged for all runs together
    note("Tuning: ε = %g, δ = %g, %s.", budget.epsilon, budget.delta, budget.relation)
    best: tuple[float, Any, Setting, _Messages] | None = None
    earlier_fits = next(FITS)  # one number for all runs
    runs = run.law.draw(bits)
    for stream in bits.spawn(runs):
        drawn = int(uniform_index(1, len(settings), stream)[0])
        model = clone(candidates[drawn])
        model.counted_before = earlier_fits
        guarantee, messages = _fit(model, X, y, groups, stream)
        del model.counted_before
        run.check(guarantee)
        scoring = Session(run.score_budget, unit, bits=stream)
        curator = scoring.curator(classified_rows(model, X, y, groups), Stream(stream))
        curator.open("zcdp", "published")
        score = float(curator.ask(CorrectCount(), run.score).values[0])
        if best is None or score > best[0]:
            best = score, model, settings[drawn], messages
    assert best is not None  # there is at least one run
    _, model, setting, messages = best
    for text, category in messages:
        warnings.warn(text, category, stacklevel=2)
    # The winner's own guarantee is for one run, and would reveal which run it was.
    model.guarantee_ = _guarantee(run, model.guarantee_, len(settings), bits.secure)
    session.account.confirm()
    return Tuned(model, dict(setting), model.guarantee_, None if bits.secure else runs)


def _settings(estimator: Any, grid: Sequence[Mapping[str, Any]] | None) -> list[Setting]:
    """Return the settings as dicts; they leave the budget alone."""
    if grid is None:
        solver = estimator.solver
        grid = solver_grid(solver if isinstance(solver, str) else solver.name)
    settings = [dict(setting) for setting in grid]
    if len(settings) < 2:
        raise ValueError(
            f"the grid must have two settings or more; got {len(settings)}. With a single setting "
            "there is nothing to tune: fit it."
        )
    for setting in settings:
        reserved = sorted({"epsilon", "delta", "relation", "random_state"} & set(setting))
        if reserved:
            raise PrivacyError(
                f"a setting of the grid may not change the budget; got {reserved}. Set epsilon, "
                "delta and relation on the estimator and random_state in tune."
            )
    return settings


def _candidate(estimator: Any, setting: Setting, run: RunBudget) -> Any:
    """Return an unfitted estimator with the budget of one fit; refuse what has no proof."""
    model = clone(estimator).set_params(**setting)
    if model.ledger is not None or model.progress is not None or model.verbose:
        raise PrivacyError(
            "estimators to be tuned must have ledger=None, progress=None and verbose=False: all "
            "would see the runs that are not released, and their number. Give the ledger to tune."
        )
    if model.random_state is not None:
        raise PrivacyError("estimators to be tuned must have random_state=None; give it to tune.")
    # for classifiers, the rule of "auto" chooses GD or ShrunkGD, which compose in the same measure
    solver = GD() if model.solver == "auto" else resolve(model.solver)
    check_tunable(solver)
    prepared = model.preparation or (model.columns is not None and model.features != "linear")
    if prepared and len(solver.composes) > 1:
        raise NotSupported(
            f"solver={solver.name!r} cannot be tuned with a preparation: their cost in zCDP is not "
            "known before the fit. Pass preparation=None, or use 'gd' or 'agd'."
        )
    model.set_params(epsilon=run.fit_budget(solver.composes).epsilon)
    model.check_settings()
    return model


def _bits(random_state: Any) -> Bits:
    if random_state is None:
        return bits_of(None)
    warnings.warn(
        "random_state fixes the noise, so this tuning protects nobody: test mode, not private. "
        "Leave random_state=None for real data.",
        PrivacyLeakWarning,
        stacklevel=3,
    )
    return bits_of(random_state)


def _fit(model: Any, X: Any, y: Any, groups: Any, bits: Bits) -> tuple[Guarantee, _Messages]:
    """Fit, and return the guarantee and the distinct warnings of this run.

    Warnings and the log are held back: one per run would reveal the number of runs. `tune` issues
    the warnings of the released run, which depend on its setting and on public numbers.
    """
    if not bits.secure:
        model.random_state = int(bits.words(1)[0] >> np.uint64(33))
    with warnings.catch_warnings(record=True) as caught, unlogged():
        warnings.simplefilter("always")
        own = {} if groups is None else {"groups": groups}
        guarantee = model.fit(X, y, **own).guarantee_
    messages = dict.fromkeys((str(item.message), item.category) for item in caught)
    if not bits.secure:  # tune has warned about the fixed seed
        return guarantee, [item for item in messages if item[1] is not PrivacyLeakWarning]
    return guarantee, list(messages)


def _guarantee(run: RunBudget, fit: Guarantee, settings: int, secure: bool) -> TunedGuarantee:
    mechanism = BestOfMany(run.rho, run.law.mean, run.law.shape)
    share = run.rho_fit / run.rho
    return TunedGuarantee(
        epsilon=run.budget.epsilon,
        delta=run.budget.delta,
        relation=run.budget.relation,
        measure="approximate",
        rho=None,
        mu=None,
        conditions=(
            f"the best of a secret, random number of runs ({run.law!r}, {run.law.mean:.4g} on "
            f"average) was released and nothing about the others; each run is {run.rho:.6g}-zCDP "
            "with its score",
            "a score is the number of correct predictions, with Gaussian noise of standard "
            f"deviation {run.score.noise_multiplier:.6g}; one {fit.unit} changes it by at most 1",
            *fit.conditions,
        ),
        public=(*fit.public, f"the grid of {settings} settings"),
        secure=secure,
        mechanisms=(Use(mechanism, 1),),
        earlier_fits=fit.earlier_fits,
        split=(("model", share), ("score", 1 - share)),
        unit=fit.unit,
        rows_per_unit=fit.rows_per_unit,
    )
