"""Private tuning: the best of a random number of private runs, and nothing about the others.

Each run draws a setting from a public grid, fits with it, and counts with noise how many rows the
model predicts correctly. The run with the highest noisy count is released. The number of runs stays
secret: the privacy cost of the selection depends on that. Papernot & Steinke, "Hyperparameter
Tuning with Rényi Differential Privacy" (ICLR 2022).

Proof: docs/proofs/tuning.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_array, column_or_1d

from discreet.core import Budget, Guarantee, Relation
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
from discreet.solvers import GD, resolve
from discreet.tuning.candidates import (
    MOST_RUNS,
    Setting,
    check_tunable,
    fit_budget,
    law_of,
    planned,
    settings_of,
)
from discreet.tuning.laws import BestOfMany
from discreet.tuning.recompute import TunedGuarantee
from discreet.tuning.runs import RunBudget

_Messages = list[tuple[str, type[Warning]]]


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
    settings = settings_of(estimator, grid)
    mean = min(float(len(settings)), MOST_RUNS) if expected_runs is None else expected_runs
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False)
    y = column_or_1d(y, warn=True)
    size = X.shape[0]
    unit: Unit = "row"
    if groups is not None:
        size = Units.of(groups, size).count
        unit = "person"
    run = planned(budget, law_of(law, mean), size)
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
    model.set_params(epsilon=fit_budget(run, solver.composes).epsilon)
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
