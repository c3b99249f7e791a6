"""Tuning on a budget: the best of a random number of private runs, and nothing of the others.

Each run takes a setting from a public grid at random, fits with it, and measures with noise how
many of the rows it gets right. The run with the best score is released. How many runs there were
stays secret: the price of choosing rests on it. Papernot & Steinke, "Hyperparameter Tuning with
Rényi Differential Privacy" (ICLR 2022).

Proof: docs/proofs/tuning.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_random_state

from discreet.accounting import conversions
from discreet.core import Budget, Gaussian, Guarantee, Relation
from discreet.core.bits import Bits, SeededBits, SystemBits, uniform_index
from discreet.core.guarantee import Use
from discreet.core.noise import Noise
from discreet.errors import NotSupported, PrivacyError, PrivacyLeakWarning
from discreet.rows import as_rows
from discreet.solvers import resolve
from discreet.tuning.grids import Setting, check_tunable
from discreet.tuning.laws import Law, law_of
from discreet.tuning.selection import BestOfMany, TunedGuarantee, largest_rho

__all__ = ["Plan", "Tuned", "tune"]

Make = Callable[[Setting, Budget], Any]

SCORE_NOISE = 0.002
"""Wanted standard deviation of a score, as a share of the rows."""

LEAST_SHARE, MOST_SHARE = 0.02, 0.25
"""Bounds on the share of a run's budget that its score gets."""

MOST_RUNS = 5.0
"""Expected runs by default, if the grid has so many settings: Poisson gets dear beyond."""

_SLACK = 2.0**-30
"""By how much less than planned a fit is given, so that no rounding takes it above."""


@dataclass(frozen=True)
class Plan:
    """How a budget is spent on tuning: all of it follows from public numbers.

    Attributes
    ----------
    budget
        What the whole of it keeps.
    law
        The distribution of the number of runs.
    rho
        What one run may cost in zCDP: that of its fit and of its score.
    rho_fit
        The part of the fit.
    score
        What releases the number of right answers, which one row moves by at most 1.
    """

    budget: Budget
    law: Law
    rho: float
    rho_fit: float
    score: Gaussian

    @classmethod
    def of(cls, budget: Budget, law: Law, n_rows: int) -> Plan:
        """The plan for a table of this size.

        A score gets what it needs for noise of 0.002 of the rows, but between 2 % and 25 % of a
        run's budget.
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

    def __post_init__(self) -> None:
        """Refuse a plan that does not keep its budget."""
        epsilon = self.law.epsilon(self.rho, self.budget.delta)
        if not (epsilon <= self.budget.epsilon and self.rho_fit + self.score.loss.rho <= self.rho):
            raise PrivacyError(
                f"a plan of ρ = {self.rho:g} a run costs ε = {epsilon:g}; the budget is "
                f"{self.budget.epsilon:g}, and fit and score must share ρ."
            )

    def fit_budget(self, measures: Sequence[str]) -> Budget:
        """The (ε, δ) that an estimator turns back into the ρ of a fit, or a hair less.

        A solver of several measures is given the one in Gaussian DP, which is the smallest.
        """
        rho, delta = self.rho_fit * (1 - _SLACK), self.budget.delta
        if set(measures) == {"zcdp"}:
            epsilon = conversions.epsilon_from_rho(rho, delta)
        else:
            epsilon = conversions.epsilon_from_mu(math.sqrt(2 * rho), delta)
        return replace(self.budget, epsilon=epsilon)

    def check(self, guarantee: Guarantee) -> None:
        """Insist that a fit has cost no more than planned.

        Raises
        ------
        PrivacyError
            If it has, or if its cost in zCDP is not known. Nothing was released then.
        """
        spent = {
            "zcdp": lambda: guarantee.rho,
            "gdp": lambda: conversions.rho_from_mu(guarantee.mu or 0.0),
            "pure": lambda: conversions.rho_from_pure(guarantee.epsilon),
        }.get(guarantee.measure or "", lambda: None)()
        if guarantee.relation is not self.budget.relation or spent is None:
            raise PrivacyError(
                f"a fit is accounted as {guarantee.measure!r} under {str(guarantee.relation)!r}; "
                f"tuning needs zCDP or Gaussian DP under {str(self.budget.relation)!r}."
            )
        if spent * (1 + 2.0**-40) > self.rho_fit:
            raise PrivacyError(
                f"a fit has cost ρ = {spent:.6g}, but {self.rho_fit:.6g} was planned for it. "
                "Nothing was released. With very few steps some solvers count in pure privacy, "
                "which costs more here: give them more steps."
            )


@dataclass(frozen=True)
class Tuned:
    """What tuning releases.

    Attributes
    ----------
    model
        The fitted estimator of the best run; its ``guarantee_`` is that of the whole.
    setting
        Its setting.
    guarantee
        The promise for model and setting together.
    runs
        How many runs there were, in test mode only: the promise does not cover that number.
    """

    model: Any
    setting: Setting
    guarantee: TunedGuarantee
    runs: int | None


def tune(
    X: Any,
    y: Any,
    *,
    grid: Sequence[Setting],
    make: Make,
    epsilon: float,
    delta: float,
    relation: str | Relation,
    expected_runs: float | None = None,
    law: str = "poisson",
    random_state: Any = None,
) -> Tuned:
    """Fit a classifier with a privately chosen setting.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_samples, n_features)
        Rows.
    y : array of shape (n_samples,)
        Labels.
    grid : sequence of dict
        The settings to choose among (public).
    make : callable
        Makes an unfitted estimator from a setting and a `Budget`, which it must pass on as epsilon,
        delta and relation. It is called for each setting before a row is read, to check it.
    epsilon, delta, relation
        The promise for all of it.
    expected_runs : float, optional
        E[K], from 1.05 to 1000. By default as many as there are settings, but at most 5.
    law : {"poisson", "logarithmic", "geometric"}
        The distribution of the number of runs K ≥ 1. The logarithmic one is cheapest for 5 runs
        or more, but every third time there is one run only.
    random_state : int or RandomState, optional
        For tests only: fixes all noise, and with it gives up all privacy.

    Returns
    -------
    Tuned

    Privacy
    -------
    Model and setting are (ε, δ)-DP under ``relation``. The number of runs is not covered: do not
    publish it, nor how long the call took, nor the ``earlier_fits`` of a later guarantee. Public:
    the number of rows, the grid, the law, and what each fit takes as public.
    """
    budget = Budget(epsilon, delta, Relation.parse(relation))
    grid = _check_grid(grid)
    mean = min(float(len(grid)), MOST_RUNS) if expected_runs is None else expected_runs
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False)
    labels = np.asarray(y)
    plan = Plan.of(budget, law_of(law, mean), X.shape[0])
    budgets = [_checked_budget(make, setting, plan) for setting in grid]
    bits = _bits(random_state)
    best: tuple[float, Any, Setting] | None = None
    earlier_fits = 0
    rows: dict[float | None, Any] = {}
    runs = plan.law.draw(bits)
    for run, stream in enumerate(bits.spawn(runs)):
        drawn = int(uniform_index(1, len(grid), stream)[0])
        model = make(dict(grid[drawn]), budgets[drawn])
        guarantee = _fit(model, X, y, stream)
        plan.check(guarantee)
        if model.row_norm_ not in rows:
            zeros = np.zeros(X.shape[0])
            rows[model.row_norm_] = as_rows(X, zeros, fit_intercept=False, row_norm=model.row_norm_)
        score = _noisy_score(plan.score, _correct(model, rows[model.row_norm_], labels), stream)
        if run == 0:
            earlier_fits = guarantee.earlier_fits
        if best is None or score > best[0]:
            best = score, model, grid[drawn]
    assert best is not None  # there is at least one run
    _, model, setting = best
    # The winner's own guarantee is for one run, and would tell which of them it was.
    model.guarantee_ = _guarantee(plan, model.guarantee_, len(grid), bits.secure, earlier_fits)
    return Tuned(model, dict(setting), model.guarantee_, None if bits.secure else runs)


def _check_grid(grid: Sequence[Setting]) -> list[Setting]:
    settings = [dict(setting) for setting in grid]
    if len(settings) < 2:
        raise ValueError(
            f"the grid must have two settings or more; got {len(settings)}. With one there is "
            "nothing to tune: fit it."
        )
    return settings


def _checked_budget(make: Make, setting: Setting, plan: Plan) -> Budget:
    """What fits with this setting are given; refuses what has no proof, before a row is read."""
    _, solver = _candidate(make, setting, plan.budget)
    check_tunable(solver)
    budget = plan.fit_budget(solver.composes)
    model, _ = _candidate(make, setting, budget)
    model.check_settings()
    return budget


def _candidate(make: Make, setting: Setting, budget: Budget) -> tuple[Any, Any]:
    """An estimator that would run, and its solver."""
    model = make(dict(setting), budget)
    given = (model.epsilon, model.delta, str(model.relation))
    if given != (budget.epsilon, budget.delta, str(budget.relation)):
        raise PrivacyError(
            f"make must pass on the budget that it is given, ε = {budget.epsilon:g}, δ = "
            f"{budget.delta:g}, {str(budget.relation)!r}; the estimator has {given}."
        )
    if model.accountant is not None or model.progress is not None:
        raise PrivacyError(
            "estimators to be tuned must have accountant=None and progress=None: both would see "
            "the runs that are not released, and how many they are."
        )
    if model.random_state is not None:
        raise PrivacyError("estimators to be tuned must have random_state=None; give it to tune.")
    if model.preparation or model.solver == "auto":
        raise NotSupported(
            "estimators with a preparation of the rows (solver='auto' has one) cannot be tuned "
            "here: their predictions are not computed row by row, so one row could move the score "
            "by more than 1. Pass preparation=None and name a solver."
        )
    return model, resolve(model.solver)


def _bits(random_state: Any) -> Bits:
    if random_state is None:
        return SystemBits()
    warnings.warn(
        "random_state fixes the noise, so this tuning protects nobody: test mode, not private. "
        "Leave random_state=None for real data.",
        PrivacyLeakWarning,
        stacklevel=3,
    )
    return SeededBits(int(check_random_state(random_state).randint(0, 2**31 - 1)))


def _fit(model: Any, X: Any, y: Any, bits: Bits) -> Guarantee:
    if bits.secure:
        return model.fit(X, y).guarantee_
    model.random_state = int(bits.words(1)[0] >> np.uint64(33))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # tune has said so
        return model.fit(X, y).guarantee_


def _correct(model: Any, rows: Any, labels: NDArray[Any]) -> int:
    """How many rows the model gets right: private.

    A row's margin is computed from the row and the weights alone, bit for bit, so another row
    cannot tip it.
    """
    scores = np.column_stack([rows.margins(weights) for weights in model.coef_]) + model.intercept_
    chosen = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return int(np.count_nonzero(model.classes_[chosen] == labels))


def _noisy_score(mechanism: Gaussian, correct: int, bits: Bits) -> float:
    """The number of right answers with noise; one row more, less or replaced moves it by 1."""
    noisy, _ = mechanism.release(
        np.array([float(correct)]), sensitivity=1.0, magnitude=2.0**40, noise=Noise(bits)
    )
    return float(noisy[0])


def _guarantee(
    plan: Plan, fit: Guarantee, settings: int, secure: bool, earlier_fits: int
) -> TunedGuarantee:
    mechanism = BestOfMany(plan.rho, plan.law.mean, plan.law.shape)
    share = plan.rho_fit / plan.rho
    return TunedGuarantee(
        epsilon=plan.budget.epsilon,
        delta=plan.budget.delta,
        relation=plan.budget.relation,
        measure="approximate",
        rho=None,
        mu=None,
        conditions=(
            f"the best of a secret, random number of runs ({plan.law!r}, {plan.law.mean:.4g} on "
            f"average) was released and nothing of the others, each {plan.rho:.6g}-zCDP with its "
            "score",
            "a score is the number of rows that the model gets right, with Gaussian noise of "
            f"standard deviation {plan.score.noise_multiplier:.6g}; one row moves it by at most 1",
            *fit.conditions,
        ),
        public=(*fit.public, f"the grid of {settings} settings"),
        secure=secure,
        mechanisms=(Use(mechanism, 1),),
        earlier_fits=earlier_fits,
        split=(("model", share), ("score", 1 - share)),
        unit=fit.unit,
    )
