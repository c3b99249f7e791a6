"""Audit of one fit: many canaries, each included by a coin toss and guessed from the model.

A large fit cannot be repeated thousands of times, but one table can hold thousands of canaries,
mutually orthogonal rows, and the guarantee covers the coin of each. After Steinke, Nasr and
Jagielski, "Privacy auditing with one (1) training run", 2023; the bound on ε is in
`discreet.audit.statistics`.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import clone, is_regressor

from discreet.audit import statistics as stats
from discreet.audit.attack import CURVE_POINTS, epsilon_of_gaussian
from discreet.audit.pairs import group_of_two
from discreet.audit.result import Audit, CurvePoint, roc_curve
from discreet.audit.trials import compares_rows
from discreet.core import Relation
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.errors import PrivacyLeakWarning
from discreet.validate import FloatArray, integer, number, positive

# Least norm of a canary without ``data_norm``: its gradient then exceeds the default clips of the
# solvers until the model fits it well.
LEAST_NORM = 5.0


@dataclass(frozen=True, kw_only=True)
class OneRunAudit(Audit):
    """Result of an audit of one fit; ``trials`` counts canaries.

    Attributes
    ----------
    guesses, correct
        Number of canaries that were guessed, and of correct guesses. The attacker abstained on
        the others.
    mu_bound, epsilon_if_gaussian
        Bounds under the assumption that the noise is Gaussian and independent between canaries.
    sharpness
        The smallest true ε at which this many canaries would refute the guarantee, 9 times in 10,
        for a Gaussian mechanism of that (ε, δ) on each canary (randomised response for δ = 0). It
        is larger than that of repeated runs, because rare but informative outputs are few.
    """

    guesses: int
    correct: int

    noun = "canaries"

    def _evidence(self) -> str:
        return (
            f"one run with {self.trials:,} canaries: {self.correct:,} of {self.guesses:,} guesses "
            "were correct"
        )


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
    norm: float | None = None,
    confidence: float = 0.999,
    sparse_table: bool = True,
    seed: int | None = None,
) -> OneRunAudit:
    """Audit one fit on a table to which canaries are added.

    Each canary is a row with a column of its own, so it is orthogonal to all other rows and its
    column's weight reveals it. Under add/remove a coin decides between the canary and a row of
    zeros, which contributes nothing to any gradient and keeps the public number of rows; the model
    then has no intercept, which such a row would move. Under replace the coin decides between the
    lowest and the highest label (or target). The weights farthest from their centre, with the sign
    of the label, are guessed: high ones as included (or with the higher label), low ones as not.

    Parameters
    ----------
    estimator : object
        Any estimator with ``fit`` and ``coef_``; a clone of it is fitted once.
    X : array or CSR matrix
        Rows to which the canaries are added.
    y : array
        Their labels or targets.
    epsilon, delta, relation
        The guarantee; by default the estimator's own settings.
    canaries : int
        Number of canaries.
    guesses : int, optional
        Number of canaries that are guessed. Default: two numbers are tried, all canaries and the
        number that would certify most for a Gaussian of twice the stated ε (a function of public
        numbers), each with half of the error probability.
    norm : float, optional
        Norm of a canary. Default: ``data_norm`` of the estimator, or the larger of 5 and twice the
        median norm of the rows.
    confidence : float
        Confidence of the certified bound.
    sparse_table : bool
        Pass a CSR matrix to the estimator, not a dense array (which has canaries² entries or more).
    seed : int, optional
        Fix the coins, for tests. By default they come from the operating system.

    Returns
    -------
    OneRunAudit
        With probability at least ``confidence`` its ``epsilon_bound`` is not larger than the true
        ε. Preparations that mix columns, or solvers that omit some, make the attack weaker but not
        the bound wrong.

    Notes
    -----
    The result is not private with respect to ``X``: use rows that may be disclosed.

    Under add/remove, methods that count or rank rows (preparations, and so ``solver="auto"``;
    `newton`, `shrunk-gd`) treat a row of zeros as a row: there the tables are two steps apart, and
    the audit tries to refute the guarantee for two steps.
    """
    epsilon, delta, relation = _promise(estimator, epsilon, delta, relation)
    if relation == "add_remove" and compares_rows(estimator):
        epsilon, delta = group_of_two(epsilon, delta)
    number("confidence", confidence, least=0.5, below=1.0)
    canaries = integer("canaries", canaries, least=10)
    begun = time.perf_counter()
    numbers, each = _numbers_guessed(canaries, guesses, (epsilon, delta), confidence)
    bits: Bits = SystemBits() if seed is None else SeededBits(seed)
    coins = (bits.words(canaries) >> np.uint64(63)).astype(bool)
    rows = sparse.csr_matrix(X, dtype=np.float64)
    norm = _norm_of_canaries(estimator, rows) if norm is None else norm
    replace = relation == "replace_one"
    model, labels, signs = _ready(estimator, np.asarray(y), canaries, replace=replace)
    present = np.ones(canaries) if replace else coins.astype(np.float64)
    added = labels[coins.astype(int), np.arange(canaries)] if replace else labels[0]
    table = sparse.block_diag([rows, sparse.diags(float(norm) * present)], format="csr")
    table.eliminate_zeros()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # seeds and labels are intended
        model.fit(table if sparse_table else table.toarray(), np.concatenate([y, added]))
    scores = signs * _weights(model, rows.shape[1], canaries)
    bound, guessed, correct = max(
        (float(stats.one_run_bound(canaries, k, n, delta=delta, confidence=each)), k, n)
        for k, n in ((k, _right(scores, coins, k)) for k in numbers)
    )
    hits = (np.count_nonzero(scores[coins] > 0), np.count_nonzero(scores[~coins] > 0))
    ones = np.count_nonzero(coins)
    mu = float(stats.mu_bound(*hits, ones, canaries - ones, alpha=1 - confidence))
    other = "with the lowest or the highest label" if replace else "or a row of zeros"
    return OneRunAudit(
        subject=_subject(estimator),
        pair=f"each canary {other}",
        statistic="the weight of each canary's own column",
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        epsilon_bound=bound,
        mu_bound=mu,
        epsilon_if_gaussian=epsilon_of_gaussian(mu, delta),
        confidence=confidence,
        trials=canaries,
        sharpness=stats.one_run_sharpness(canaries, numbers, epsilon, delta, confidence),
        trials_needed=stats.canaries_needed(epsilon, delta, confidence),
        seconds=time.perf_counter() - begun,
        curve=_curve(scores, coins),
        guesses=guessed,
        correct=correct,
    )


def _subject(estimator: Any) -> str:
    """Return the name of the estimator, with that of its solver if it has one."""
    name = type(estimator).__name__
    solver = getattr(estimator, "solver", None)
    return name if solver is None else f"{name}, {getattr(solver, 'name', solver)}"


def _numbers_guessed(
    canaries: int, guesses: int | None, promise: tuple[float, float], confidence: float
) -> tuple[list[int], float]:
    """Return the numbers of canaries that are guessed, and the confidence of each bound."""
    if guesses is not None:
        return [integer("guesses", guesses, most=canaries)], confidence
    each = 1 - (1 - confidence) / 2
    # To guess all of them is best against too little noise.
    return [canaries, stats.planned_guesses(canaries, *promise, each)], each


def _norm_of_canaries(estimator: Any, rows: sparse.csr_matrix[np.float64]) -> float:
    """Return the default norm of a canary, by the estimator's bound or the norms of the rows."""
    declared = getattr(estimator, "data_norm", None)
    if declared is not None:
        return float(declared)
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)))
    return max(LEAST_NORM, 2 * float(np.median(norms))) if norms.size else LEAST_NORM


def _promise(
    estimator: Any, epsilon: float | None, delta: float | None, relation: str | None
) -> tuple[float, float, str]:
    """Return the guarantee, from the caller or from the estimator's settings."""
    epsilon = getattr(estimator, "epsilon", None) if epsilon is None else epsilon
    delta = getattr(estimator, "delta", None) if delta is None else delta
    relation = getattr(estimator, "relation", "add_remove") if relation is None else relation
    if epsilon is None or delta is None:
        raise ValueError(
            f"{type(estimator).__name__} has no epsilon and delta: pass the guarantee to refute."
        )
    return (
        positive("epsilon", epsilon, most=stats.LARGEST_EPSILON),
        number("delta", delta, least=0.0, below=1.0),
        str(Relation(relation)),
    )


def _ready(
    estimator: Any, y: NDArray[Any], canaries: int, *, replace: bool
) -> tuple[Any, NDArray[Any], FloatArray]:
    """Return a clone to fit, two labels per canary, and the sign of each canary's effect.

    Under add/remove labels alternate, so that canaries keep the balance of classes, and a canary
    that is left out keeps its label, so that label counts do not change.
    """
    model = clone(estimator)
    settings = estimator.get_params(deep=False)
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
        low = classes[0]
        high = classes[-1]
    ends = np.array([low, high])
    if replace:
        return model, np.repeat(ends[:, None], canaries, axis=1), np.ones(canaries)
    turns = np.arange(canaries) % 2
    return model, np.repeat(ends[turns][None, :], 2, axis=0), np.where(turns, 1.0, -1.0)


def _weights(model: Any, before: int, canaries: int) -> FloatArray:
    """Return the weight of each canary's column, in favour of the highest label."""
    weights = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    if weights.shape[1] != before + canaries:
        raise ValueError(
            f"coef_ must have one weight per column, {before + canaries} in all; got "
            f"{weights.shape[1]}. Audit the linear model itself, not a pipeline around it."
        )
    towards = weights[-1] if len(weights) == 1 else weights[-1] - weights[0]
    return np.asarray(np.nan_to_num(towards[before:]))


def _right(scores: FloatArray, coins: NDArray[np.bool_], guesses: int) -> int:
    """Count the correct guesses among the scores that lie farthest from their centre.

    The centre is the midpoint of two clusters, so that scores without noise are separated exactly.
    Ties are broken by the order of the canaries. Only the count depends on the coins.
    """
    middle = float(np.mean(scores))
    for _ in range(20):
        above = scores > middle
        if above.all() or not above.any():
            break
        middle = 0.5 * float(scores[above].mean() + scores[~above].mean())
    guessed = np.argsort(-np.abs(scores - middle), kind="stable")[:guesses]
    return int(np.count_nonzero((scores > middle)[guessed] == coins[guessed]))


def _curve(scores: FloatArray, coins: NDArray[np.bool_]) -> tuple[CurvePoint, ...]:
    """Return the ROC curve over all thresholds."""
    thresholds = np.unique(np.quantile(scores, np.linspace(0, 1, CURVE_POINTS)))
    if not 0 < np.count_nonzero(coins) < coins.size:
        return ()
    return roc_curve(
        (float(np.mean(scores[~coins] > at)), float(np.mean(scores[coins] > at)))
        for at in thresholds
    )
