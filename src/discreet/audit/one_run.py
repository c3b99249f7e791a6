"""Auditing one fit: many canaries, each in or out by a coin, and guesses from what was released.

A large fit cannot be repeated thousands of times. But one table can hold thousands of canaries,
rows in directions of their own, and the fit protects the coin of each of them. After Steinke, Nasr
and Jagielski, "Privacy auditing with one (1) training run", 2023; what follows from the guesses is
in `discreet.audit.one_run_bounds`.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import ndtri
from sklearn.base import clone, is_regressor

from discreet.accounting.conversions import epsilon_from_mu
from discreet.audit.fits import counts_rows
from discreet.audit.one_run_bounds import (
    LARGEST_EPSILON,
    canaries_needed,
    check_numbers,
    one_run_bound,
    one_run_p_value,
    one_run_sharpness,
    usual_guesses,
)
from discreet.audit.pairs import two_steps
from discreet.audit.result import Audit, CurvePoint, Verdict
from discreet.audit.statistics import lower_rate, upper_rate
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.errors import PrivacyLeakWarning

__all__ = ["OneRunAudit", "audit_one_run", "one_run_bound", "one_run_p_value"]

FloatArray = NDArray[np.float64]

LEAST_LENGTH = 5.0
"""Of a canary, without ``data_norm``: its gradient is then longer than solvers clip to by default,
until the model knows it well."""

CURVE_POINTS = 120


@dataclass(frozen=True, kw_only=True)
class OneRunAudit(Audit):
    """What an audit of one fit found; ``trials`` counts canaries.

    Attributes
    ----------
    guesses, correct
        How many canaries were guessed, and how many of them rightly. The others were passed over.
    mu_bound, epsilon_if_gaussian
        These take each canary for a run of its own: the μ of Gaussian noise that is independent
        from canary to canary (an assumption).
    sharpness
        The true ε at which so many canaries would have refuted the promise, 9 times in 10, had
        the mechanism been a Gaussian of exactly that (ε, δ) on each of them (for δ = 0 a coin).
        It is larger than that of many runs: in one run every guess must be bought with a canary,
        and outputs that are rare but telling are few.
    """

    guesses: int
    correct: int

    def __str__(self) -> str:
        """One paragraph."""
        words = (
            f"{self.subject}: {self.verdict}. Promised: ε = {self.epsilon:g} at δ = "
            f"{self.delta:g} ({self.relation}). Certified: ε ≥ {self.epsilon_bound:.3g} with "
            f"confidence {100 * self.confidence:g} %, by one run with {self.trials:,} canaries: "
            f"of {self.guesses:,} guesses {self.correct:,} were right."
        )
        if self.verdict is Verdict.TOO_WEAK:
            if self.trials_needed is None:
                words += " No number of canaries would tell."
            else:
                words += f" About {self.trials_needed:,} canaries would tell."
        return words


def audit_one_run(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    relation: str | None = None,
    canaries: int = 1000,
    guesses: int | None = None,
    length: float | None = None,
    confidence: float = 0.999,
    sparse_table: bool = True,
    seed: int | None = None,
) -> OneRunAudit:
    """Audit one fit on a table to which canaries were added.

    Each canary is a row with a column of its own, so it is orthogonal to all other rows, and its
    weight is where a model shows it. Under add/remove a coin decides whether it is in, or in its
    place a row of zeros, which adds nothing to any gradient; as the number of rows is
    public, it stays. There is no intercept then, which such a row would move. Under replace the
    coin decides between the lowest and the highest label (or target). A canary's score is its
    weight times the sign of its label. Of the scores that lie farthest from their middle, high
    ones are guessed to be in (to have the higher label), low ones to be out.

    Parameters
    ----------
    estimator : object
        Any estimator with ``fit`` and, after it, ``coef_``; a clone of it is fitted, once.
    X : array or CSR matrix
        The rows that the canaries are added to.
    y : array
        Their labels or targets.
    epsilon, delta, relation
        The promise; by default the estimator's own settings.
    canaries : int
        How many.
    guesses : int, optional
        How many canaries are guessed. Default: two numbers are tried, all of them and as many as
        would certify most of a Gaussian of twice the promised ε (a function of public numbers);
        each of the two may err with half of the probability.
    length : float, optional
        Norm of a canary. Default: ``data_norm`` of the estimator; else 5 or twice the median
        norm of the rows, whichever is larger.
    confidence : float
        Of the certified bound.
    sparse_table : bool
        Whether the estimator is given a CSR matrix, or a dense array (canaries² numbers and more).
    seed : int, optional
        For tests: fixes the coins. By default they come from the operating system.

    Returns
    -------
    OneRunAudit
        With probability at least ``confidence`` its ``epsilon_bound`` is no larger than the true
        ε. Preparations that mix columns, or solvers that leave some out, make the attack weaker,
        not the bound wrong.

    Notes
    -----
    The audit looks at the rows and its result is not private: use rows that may be seen.

    Under add/remove the bound is on the ε between a canary and a row of zeros. For whatever adds
    up gradients or losses, that row is none. Whatever counts or compares rows (preparations, and
    so ``solver="auto"``; `newton`, `shrunk-gd`) takes it for a row like others: there the tables
    are two steps apart, and what is owed for two steps is what the audit tries to refute.
    """
    promise = _promise(estimator, epsilon, delta, relation)
    if promise[2] == "add_remove" and counts_rows(estimator):
        promise = (*two_steps(*promise[:2]), promise[2])
    check_numbers(promise[1], confidence)
    if canaries < 10:
        raise ValueError(f"canaries must be at least 10; got {canaries!r}.")
    if guesses is not None and not 1 <= guesses <= canaries:
        raise ValueError(f"guesses must be from 1 to canaries={canaries}; got {guesses!r}.")
    begun = time.perf_counter()
    if guesses is not None:
        numbers, each = [guesses], confidence
    else:  # what has no noise at all is seen best by guessing all
        each = 1 - (1 - confidence) / 2
        numbers = [canaries, usual_guesses(canaries, *promise[:2], each)]
    bits: Bits = SystemBits() if seed is None else SeededBits(seed)
    coins = (bits.words(canaries) >> np.uint64(63)).astype(bool)
    rows = sparse.csr_matrix(X, dtype=np.float64)
    size = _length(estimator, rows) if length is None else float(length)
    replace = promise[2] == "replace_one"
    model, labels, signs = _ready(estimator, np.asarray(y), canaries, replace=replace)
    present = np.ones(canaries) if replace else coins.astype(np.float64)
    added = labels[coins.astype(int), np.arange(canaries)] if replace else labels[0]
    table = sparse.block_diag([rows, sparse.diags(size * present)], format="csr")
    table.eliminate_zeros()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # about seeds and labels: a test
        model.fit(table if sparse_table else table.toarray(), np.concatenate([y, added]))
    scores = signs * _weights(model, rows.shape[1], canaries)
    bound, number, correct = max(
        (one_run_bound(canaries, k, hits, delta=promise[1], confidence=each), k, hits)
        for k, hits in ((k, _right(scores, coins, k)) for k in numbers)
    )
    mu = _mu_bound(scores, coins, confidence)
    if_gaussian = math.inf if mu else 0.0
    return OneRunAudit(
        subject=_name(estimator),
        pair="each canary with the lowest or the highest label"
        if replace
        else "each canary in, or a row of zeros",
        statistic="the weight of each canary's own column",
        epsilon=promise[0],
        delta=promise[1],
        relation=promise[2],
        epsilon_bound=bound,
        mu_bound=mu,
        epsilon_if_gaussian=epsilon_from_mu(mu, promise[1]) if promise[1] else if_gaussian,
        confidence=confidence,
        trials=canaries,
        sharpness=one_run_sharpness(canaries, numbers, *promise[:2], confidence),
        trials_needed=canaries_needed(*promise[:2], confidence),
        seconds=time.perf_counter() - begun,
        curve=_curve(scores, coins),
        guesses=number,
        correct=correct,
    )


def _promise(
    estimator: Any, epsilon: float | None, delta: float | None, relation: str | None
) -> tuple[float, float, str]:
    """What is promised, by the caller or by the estimator's settings."""
    epsilon = getattr(estimator, "epsilon", None) if epsilon is None else epsilon
    delta = getattr(estimator, "delta", None) if delta is None else delta
    relation = getattr(estimator, "relation", "add_remove") if relation is None else relation
    if epsilon is None or delta is None:
        raise ValueError("The estimator has no epsilon and delta: pass the promise to refute.")
    if not (math.isfinite(epsilon) and 0 < epsilon <= LARGEST_EPSILON):
        raise ValueError(f"epsilon must be above 0 and at most {LARGEST_EPSILON:g}; got {epsilon}.")
    if str(relation) not in ("add_remove", "replace_one"):
        raise ValueError(f"relation must be 'add_remove' or 'replace_one'; got {relation!r}.")
    return float(epsilon), float(delta), str(relation)


def _length(estimator: Any, rows: sparse.csr_matrix) -> float:
    bound = getattr(estimator, "data_norm", None)
    if bound is not None:
        return float(bound)
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1))).ravel()
    return max(LEAST_LENGTH, 2 * float(np.median(norms))) if norms.size else LEAST_LENGTH


def _ready(
    estimator: Any, y: NDArray[Any], canaries: int, *, replace: bool
) -> tuple[Any, NDArray[Any], FloatArray]:
    """A clone to fit, two labels for each canary, and the sign of the pull of being "in".

    Under add/remove labels take turns, so that canaries do not upset the balance of classes, and
    a canary keeps its label when it is out, so that counts of labels do not change.
    """
    model, settings = clone(estimator), estimator.get_params(deep=False)
    if not replace and "fit_intercept" in settings:
        model.set_params(fit_intercept=False)
    if is_regressor(estimator):
        bounds = settings.get("target_bounds")
        low, high = (-1.0, 1.0) if bounds is None else bounds
    else:
        declared = settings.get("classes")
        classes = np.unique(y if declared is None else np.asarray(declared))
        if "classes" in settings:
            model.set_params(classes=classes)
        low, high = classes[0], classes[-1]
    ends = np.array([low, high])
    if replace:
        return model, np.repeat(ends[:, None], canaries, axis=1), np.ones(canaries)
    turns = np.arange(canaries) % 2
    return model, np.repeat(ends[turns][None, :], 2, axis=0), np.where(turns, 1.0, -1.0)


def _weights(model: Any, before: int, canaries: int) -> FloatArray:
    """The weight of each canary's column, towards the highest label."""
    weights = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    if weights.shape[1] != before + canaries:
        raise ValueError(
            f"coef_ must have one weight a column, {before + canaries} of them; got "
            f"{weights.shape[1]}. Audit the linear model itself, not a pipeline around it."
        )
    towards = weights[-1] if len(weights) == 1 else weights[-1] - weights[0]
    finite: FloatArray = np.nan_to_num(towards[before:])
    return finite


def _right(scores: FloatArray, coins: NDArray[np.bool_], guesses: int) -> int:
    """How many are right of so many guesses, of the scores that lie farthest from their middle.

    The middle is that between two clusters, so that what has no noise is told without error. Ties
    are decided by the order of the canaries. Nothing here depends on the coins but the count.
    """
    middle = float(np.mean(scores))
    for _ in range(20):
        above = scores > middle
        if above.all() or not above.any():
            break
        middle = 0.5 * float(scores[above].mean() + scores[~above].mean())
    guessed = np.argsort(-np.abs(scores - middle), kind="stable")[:guesses]
    return int(np.count_nonzero((scores > middle)[guessed] == coins[guessed]))


def _mu_bound(scores: FloatArray, coins: NDArray[np.bool_], confidence: float) -> float:
    """Φ⁻¹(p) − Φ⁻¹(q) for the event "above 0", as if each canary were a run of its own."""
    above, alpha = scores > 0, (1 - confidence) / 2
    ones, zeros = np.count_nonzero(coins), np.count_nonzero(~coins)
    if not ones or not zeros:
        return 0.0
    p = lower_rate(np.count_nonzero(above[coins]), ones, alpha)
    q = upper_rate(np.count_nonzero(above[~coins]), zeros, alpha)
    gap = float(ndtri(p) - ndtri(q)) if p > 0 and q < 1 else 0.0
    return max(gap, 0.0)


def _curve(scores: FloatArray, coins: NDArray[np.bool_]) -> tuple[CurvePoint, ...]:
    """The measured trade-off over all thresholds."""
    thresholds = np.unique(np.quantile(scores, np.linspace(0, 1, CURVE_POINTS)))
    if not 0 < np.count_nonzero(coins) < coins.size:
        return ()
    points = {
        (float(np.mean(scores[~coins] > at)), float(np.mean(scores[coins] > at)))
        for at in thresholds
    }
    return tuple(CurvePoint(*point) for point in sorted(points | {(0.0, 0.0), (1.0, 1.0)}))


def _name(estimator: Any) -> str:
    solver = getattr(estimator, "solver", None)
    if solver is None:
        return type(estimator).__name__
    return f"{type(estimator).__name__}, {getattr(solver, 'name', solver)}"
