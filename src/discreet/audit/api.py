"""`audit`: attack an estimator, a solver, or any function that claims to be private."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from discreet.audit import cases
from discreet.audit.attack import Attack, run
from discreet.audit.result import Audit
from discreet.validate import integer

__all__ = ["audit"]

SCREENING_SHARE = 0.1
"""Share of all trials that select the pair of tables."""

FEWEST_SCREENED = 200
"""Least number of these trials per pair; fewer pairs are tried if there are not enough."""


def audit(
    target: Any,
    neighbours: tuple[Any, Any] | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    relation: str | None = None,
    trials: int = 100_000,
    confidence: float = 0.999,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Try to refute a guarantee of differential privacy.

    Parameters
    ----------
    target : estimator, str, Solver or callable
        An unfitted estimator, whose ``epsilon``, ``delta`` and ``relation`` are the guarantee. A
        solver, or its name (``discreet.audit.subjects()``). Or a mechanism: a function
        ``mechanism(table, count)`` that returns the outputs of ``count`` independent runs on a
        table, as an array with one row per run.
    neighbours : pair, optional
        Two neighbouring tables: ``((X, y), (X', y'))`` of the same shape for an estimator, any
        argument of the function for a mechanism. Default: all built-in worst cases for linear
        models.
    epsilon, delta : float
        The guarantee of a solver (default 1 and 1e-5) or of a mechanism (required).
    relation : {"add_remove", "replace_one"}, optional
        Neighbouring relation of a solver; by default all relations that it supports. For a
        mechanism it only appears in the result.
    trials : int
        Number of runs; docs/audit.md has a table of how many a guarantee needs. A run of a whole
        estimator takes 5 to 30 ms.
    confidence : float
        Probability that the certified bound holds.
    jobs : int
        Processes for runs that are made one by one.
    progress : callable, optional
        Called with (runs done, number of runs) during the main part.

    Returns
    -------
    Audit
        A lower bound on the true ε and a verdict: refuted, consistent or too weak to tell. An
        audit cannot prove that a guarantee holds.

    Notes
    -----
    With several pairs of tables, a tenth of the trials select the pair that reveals most. Those
    runs are discarded, so the bound is for a pair and an event that were fixed beforehand. If only
    some pairs allow many runs at once, only those are tried; ``discreet audit`` tries all pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet.audit import audit
    >>> generator = np.random.default_rng(0)
    >>> def mean_age(table, count):  # Laplace noise for ages between 0 and 10
    ...     return np.mean(table) + generator.laplace(scale=10 / len(table), size=(count, 1))
    >>> result = audit(mean_age, (np.zeros(5), np.array([100.0, 0, 0, 0, 0])), epsilon=1, delta=0)
    >>> str(result.verdict)
    'refuted'
    """
    trials = integer("trials", trials, least=100, most=10**12)
    if neighbours is not None and len(neighbours) != 2:
        raise ValueError(f"neighbours must be two tables; got {len(neighbours)}.")
    attacks = _attacks(target, neighbours, epsilon, delta, relation, jobs)
    attacks = [attack for attack in attacks if attack.batched] or attacks
    attacks = attacks[: max(1, trials // (2 * FEWEST_SCREENED))]  # the strongest come first
    if len(attacks) == 1:
        return run(attacks[0], trials=trials, confidence=confidence, progress=progress)
    each = max(FEWEST_SCREENED, int(SCREENING_SHARE * trials / len(attacks)))
    screened = [run(attack, trials=each, confidence=confidence) for attack in attacks]
    best = max(range(len(attacks)), key=lambda k: _separation(screened[k]))
    left = trials - each * len(attacks)
    result = run(attacks[best], trials=left, confidence=confidence, progress=progress)
    return replace(
        result,
        trials=result.trials + sum(one.trials for one in screened),
        seconds=result.seconds + sum(one.seconds for one in screened),
    )


def _separation(screened: Audit) -> tuple[float, float]:
    """Return how well a few runs separate the two tables, relative to the stated ε."""
    widest = max(point.tpr - point.fpr for point in screened.curve)
    return screened.epsilon_bound / screened.epsilon, widest


def _attacks(
    target: Any,
    neighbours: tuple[Any, Any] | None,
    epsilon: float | None,
    delta: float | None,
    relation: str | None,
    jobs: int,
) -> list[Attack]:
    if isinstance(target, type):
        raise TypeError(f"Pass an instance with its settings, such as {target.__name__}(...).")
    if hasattr(target, "fit"):
        if epsilon is not None or delta is not None or relation is not None:
            raise ValueError(
                "An estimator has its own guarantee: set epsilon, delta and relation there."
            )
        if neighbours is not None and any(len(table) != 2 for table in neighbours):
            raise ValueError("The tables of an estimator are pairs: neighbours=((X, y), (X', y')).")
        return cases.attacks_on_estimator(target, neighbours, jobs=jobs)
    if isinstance(target, str) or hasattr(target, "solve"):
        if neighbours is not None:
            raise ValueError(
                "neighbours is for estimators and functions, not for a solver: pass for example "
                "LogisticRegression(solver=...) as the target."
            )
        epsilon, delta = 1.0 if epsilon is None else epsilon, 1e-5 if delta is None else delta
        return cases.attacks(target, epsilon=epsilon, delta=delta, relation=relation, jobs=jobs)
    if not callable(target):
        raise TypeError(
            f"Cannot audit a {type(target).__name__}: pass an estimator, a solver or a function."
        )
    if neighbours is None or epsilon is None or delta is None:
        raise ValueError("A function needs neighbours=(table, other), epsilon and delta.")
    tables = neighbours
    return [
        Attack(
            getattr(target, "__name__", type(target).__name__),
            "the caller's tables",
            epsilon,
            delta,
            relation or "as given",
            lambda world, count: target(tables[world], count),
        )
    ]
