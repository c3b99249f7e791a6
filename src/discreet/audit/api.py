"""One function to audit anything: an estimator, a solver, or a mechanism of the caller's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from discreet.audit import cases
from discreet.audit.attack import Attack, run
from discreet.audit.result import Audit

__all__ = ["audit"]

SCOUTING_SHARE = 0.1
"""Share of all trials that looks for the pair of tables that shows most."""

FEWEST_SCOUTED = 200
"""Runs on each pair, of which there are fewer if there would be too few."""


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
    """Try to refute a promise of differential privacy.

    Parameters
    ----------
    target : estimator, str, Solver or callable
        An estimator, unfitted: its own ``epsilon``, ``delta`` and ``relation`` are the promise. A
        solver, or the name of one (``discreet.audit.subjects()``). Or a mechanism: a function
        ``mechanism(table, count)`` that returns the outputs of ``count`` independent runs on a
        table, as an array of one row a run.
    neighbours : pair, optional
        Two neighbouring tables: ``((X, y), (X', y'))`` of the same shape for an estimator, whatever
        the function takes for a mechanism. By default all built-in worst cases for linear models.
    epsilon, delta : float
        The promise of a solver (by default 1 and 1e-5) or of a mechanism (needed).
    relation : {"add_remove", "replace_one"}, optional
        Which tables of a solver are neighbours; by default both relations are tried that it takes.
        For a mechanism it is a word in the result.
    trials : int
        Runs in all; docs/audit.md has a table of how many a promise needs. Whole estimators take
        5 to 30 ms a run.
    confidence : float
        Probability that the certified bound holds.
    jobs : int
        Processes for runs that come one by one.
    progress : callable, optional
        Called with (runs done, runs in all) during the main part.

    Returns
    -------
    Audit
        A lower bound on the true ε and a verdict: refuted, consistent or too weak to tell. No audit
        can show that a promise is kept.

    Notes
    -----
    With several pairs of tables, a tenth of the trials finds the one that shows most; those runs
    are then forgotten, so the bound is one for a pair and an event that were fixed beforehand.
    Where many runs can be had at once on some pairs only, those are the ones that are tried;
    ``discreet audit`` goes through all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet.audit import audit
    >>> generator = np.random.default_rng(0)
    >>> def mean_age(table, count):  # Laplace noise for an age between 0 and 10
    ...     return np.mean(table) + generator.laplace(scale=10 / len(table), size=(count, 1))
    >>> found = audit(mean_age, (np.zeros(5), np.array([100.0, 0, 0, 0, 0])), epsilon=1, delta=0)
    >>> str(found.verdict)
    'refuted'
    """
    if trials != int(trials):
        raise ValueError(f"trials must be a whole number; got {trials!r}.")
    trials = int(trials)
    if neighbours is not None and len(neighbours) != 2:
        raise ValueError(f"neighbours must be two tables; got {len(neighbours)} of them.")
    attacks = _attacks(target, neighbours, epsilon, delta, relation, jobs)
    attacks = [attack for attack in attacks if attack.batched] or attacks
    attacks = attacks[: max(1, trials // (2 * FEWEST_SCOUTED))]  # the most telling come first
    if len(attacks) == 1:
        return run(attacks[0], trials=trials, confidence=confidence, progress=progress)
    each = max(FEWEST_SCOUTED, int(SCOUTING_SHARE * trials / len(attacks)))
    scouted = [run(attack, trials=each, confidence=confidence) for attack in attacks]
    best = max(range(len(attacks)), key=lambda k: _told_apart(scouted[k]))
    left = trials - each * len(attacks)
    found = run(attacks[best], trials=left, confidence=confidence, progress=progress)
    return replace(
        found,
        trials=found.trials + sum(one.trials for one in scouted),
        seconds=found.seconds + sum(one.seconds for one in scouted),
    )


def _told_apart(scouted: Audit) -> tuple[float, float]:
    """How well a few runs told the worlds apart, relative to what was promised."""
    widest = max(point.tpr - point.fpr for point in scouted.curve)
    return scouted.epsilon_bound / scouted.epsilon, widest


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
                "An estimator carries its own promise: set epsilon, delta and relation on it."
            )
        if neighbours is not None and any(len(table) != 2 for table in neighbours):
            raise ValueError("Tables of an estimator are pairs: neighbours=((X, y), (X', y')).")
        return cases.attacks_on_estimator(target, neighbours, jobs=jobs)
    if isinstance(target, str) or hasattr(target, "solve"):
        if neighbours is not None:
            raise ValueError(
                "Tables of your own are for estimators: pass for example "
                "LogisticRegression(solver=...) as the target."
            )
        epsilon, delta = 1.0 if epsilon is None else epsilon, 1e-5 if delta is None else delta
        return cases.attacks(target, epsilon=epsilon, delta=delta, relation=relation, jobs=jobs)
    if not callable(target):
        raise TypeError(f"Cannot audit a {type(target).__name__}: see help(discreet.audit.audit).")
    if neighbours is None or epsilon is None or delta is None:
        raise ValueError("A mechanism needs neighbours=(table, other), epsilon and delta.")
    tables = neighbours
    return [
        Attack(
            getattr(target, "__name__", type(target).__name__),
            "the caller's tables",
            epsilon,
            delta,
            relation or "as the caller says",
            lambda world, count: target(tables[world], count),
        )
    ]
