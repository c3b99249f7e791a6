"""Built-in attacks on solvers and estimators, by name or as an object."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import RegressorMixin

from discreet.audit.attack import Attack, Statistic
from discreet.audit.pairs import Pair, own, two_steps, worst_cases
from discreet.audit.recipes import LONG, RECIPES, Recipe, pipelines
from discreet.audit.trials import (
    Fits,
    Repeats,
    Setting,
    SideBySide,
    Single,
    Way,
    compares_rows,
    fastest_way,
)
from discreet.core import Budget, Relation
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.errors import NotSupported, PrivacyError
from discreet.estimators.base import PrivateLinearModel
from discreet.solvers import Solver
from discreet.validate import FloatArray

__all__ = ["attacks", "attacks_on_estimator", "subjects"]

Draw = Callable[[int, int], FloatArray]


def subjects() -> tuple[str, ...]:
    """Return the names of everything that can be attacked by name."""
    whole = pipelines(Budget(1.0, 1e-5, Relation.ADD_REMOVE))
    return (*RECIPES, *whole, "agd: trace")


def attacks(
    subject: str | Solver | Any,
    *,
    epsilon: float,
    delta: float,
    relation: str | None = None,
    jobs: int = 1,
    seed: int | None = None,
) -> list[Attack]:
    """Return all attacks on a subject, the strongest first.

    Parameters
    ----------
    subject : str, Solver or estimator
        A name in `subjects`, a solver with its own settings, or an estimator, whose own budget
        is then used.
    epsilon, delta : float
        The stated guarantee.
    relation : str, optional
        One relation; by default all that the subject supports.
    jobs : int
        Processes for trials that are run one by one.
    seed : int, optional
        Make the noise repeatable, for tests. By default it is that of an ordinary fit.
    """
    if jobs != 1 and seed is not None:
        raise ValueError("Repeatable trials run in one process: pass jobs=1 or no seed.")
    if hasattr(subject, "fit"):
        return attacks_on_estimator(subject, jobs=jobs, seed=seed)
    found: list[Attack] = []
    for kind in [Relation.parse(relation)] if relation else list(Relation):
        budget = Budget(epsilon, delta, kind)
        if isinstance(subject, Solver):
            usual = RECIPES.get(subject.name, (Recipe(subject),))[0]
            recipe = replace(usual, solver=subject, way=None)
            found += _on_solver(subject.name, recipe, budget, jobs, seed)
        elif subject == "agd: trace":
            found += [_of_trace(attack) for attack in _on_recipes("agd", budget, jobs, seed)]
        elif subject in RECIPES:
            found += _on_recipes(subject, budget, jobs, seed)
        elif subject in (whole := pipelines(budget)):
            for estimator in whole[subject]:
                found += attacks_on_estimator(estimator, name=subject, jobs=jobs, seed=seed)
        else:
            known = ", ".join(subjects())
            raise NotSupported(f"No attack on {subject!r} is known. Known subjects: {known}.")
    if not found:
        raise NotSupported(
            f"{subject!r} does not support epsilon={epsilon:g}, delta={delta:g}, "
            f"relation={relation or 'any'}. Its relations and conditions: "
            f"discreet.solvers.describe({subject!r})."
        )
    return _interleaved(found)


def _interleaved(found: list[Attack]) -> list[Attack]:
    """Sort attacks: the strongest pair of every setting and relation, then the second ones, …."""
    turns: dict[tuple[str, str], int] = {}
    ranked = []
    for attack in found:
        key = (attack.subject, attack.relation)
        turns[key] = turns.get(key, 0) + 1
        ranked.append((turns[key], attack))
    return [attack for _, attack in sorted(ranked, key=lambda item: item[0])]


def attacks_on_estimator(
    estimator: Any,
    tables: tuple[Any, Any] | None = None,
    *,
    name: str | None = None,
    jobs: int = 1,
    seed: int | None = None,
) -> list[Attack]:
    """Return attacks on an estimator, on the built-in pairs or on the caller's tables.

    The guarantee under attack is its own ``epsilon``, ``delta`` and ``relation``.
    """
    if hasattr(estimator, "check_settings"):
        estimator.check_settings()
    if isinstance(estimator, PrivateLinearModel) and estimator.random_state is not None:
        raise ValueError(
            f"random_state={estimator.random_state!r} fixes the noise, so there is no guarantee to "
            "audit. Pass random_state=None."
        )
    if not hasattr(estimator, "epsilon"):
        raise ValueError(
            f"{type(estimator).__name__} has no epsilon, so it states no guarantee. Audit the "
            "private step of a pipeline, or a function with epsilon=… and delta=…."
        )
    relation = Relation.parse(getattr(estimator, "relation", Relation.REPLACE_ONE))
    epsilon, delta = estimator.epsilon, getattr(estimator, "delta", 0.0)
    intercept = bool(getattr(estimator, "fit_intercept", False))
    label = name or type(estimator).__name__
    pairs = [] if tables is None else [own(tables, fit_intercept=intercept)]
    replaced = intercept or compares_rows(estimator) or not all(map(_added, pairs))
    if relation is Relation.ADD_REMOVE and replaced:
        # No row can represent a missing one, and a replaced row is two steps away.
        relation, label = Relation.REPLACE_ONE, f"{label} (two rows apart)"
        epsilon, delta = two_steps(epsilon, delta)
    if tables is None:
        norm = getattr(estimator, "data_norm", None) or LONG
        pairs = worst_cases(
            relation,
            norm=norm,
            n_rows=20,
            same_height=True,
            regression=isinstance(estimator, RegressorMixin),
        )
        pairs = [
            _with_classes(pair, getattr(estimator, "classes", None))
            for pair in pairs
            if pair.fit_intercept == intercept
        ]
    return [
        Attack(
            label,
            pair.name,
            epsilon,
            delta,
            str(relation),
            _parallel(Fits(estimator, pair, None if seed is None else count(seed)).draw, jobs),
            _projection(pair),
        )
        for pair in pairs
    ]


def _with_classes(pair: Pair, classes: Any) -> Pair:
    """Return the pair with the first and the last class in place of −1 and 1."""
    if classes is None:
        return pair
    ends = np.asarray(classes)[[0, -1]]
    (X, y), (other, other_y) = pair.tables
    return replace(
        pair,
        tables=((X, ends[(y + 1).astype(int) // 2]), (other, ends[(other_y + 1).astype(int) // 2])),
    )


def _added(pair: Pair) -> bool:
    """Return True if one version of the changed row is all zeros, with the other's label."""
    (row, label), (other, other_label) = pair.changed
    return label == other_label and not (np.any(row) and np.any(other))


def _on_recipes(name: str, budget: Budget, jobs: int, seed: int | None) -> list[Attack]:
    return [
        attack
        for recipe in RECIPES[name]
        for attack in _on_solver(name, recipe, budget, jobs, seed)
    ]


def _on_solver(
    name: str, recipe: Recipe, budget: Budget, jobs: int, seed: int | None
) -> list[Attack]:
    """Return attacks on one solver with fixed settings; none if it does not support the budget."""
    subject = recipe.subject(name)
    first = 0 if seed is None else seed + zlib.crc32(f"{subject} {budget.relation}".encode())
    bits: Iterator[Bits] = (
        SystemBits() if seed is None else SeededBits(first + k) for k in count()
    )
    found = []
    known = recipe.way
    for pair in worst_cases(
        budget.relation,
        norm=recipe.row_norm or LONG,
        n_features=recipe.n_features,
        regression=recipe.loss.task == "regression",
    ):
        setting = Setting(
            recipe.solver, recipe.loss, recipe.alpha, recipe.row_norm, budget, pair, next(bits)
        )
        shared = pair.fit_intercept or budget.pure  # by all copies: an intercept, a norm of noise
        if recipe.way == "side by side" and shared:
            setting = replace(setting, solver=_shortened(recipe.solver))
        try:
            spends = setting.solver.plan(setting.problem(), budget)
        except (NotSupported, PrivacyError):
            continue  # not for this relation or δ, or published constants that do not hold
        if spends != budget:
            continue
        if known is None and not pair.fit_intercept:
            known = fastest_way(setting)
        way: Way = known or "one by one"
        if way == "side by side" and shared:
            way = "one by one"
        found.append(
            Attack(
                subject,
                pair.name,
                budget.epsilon,
                budget.delta,
                str(budget.relation),
                _trials(setting, way, jobs),
                _projection(pair),
                batched=way != "one by one",
            )
        )
    return found


def _trials(setting: Setting, way: Way, jobs: int) -> Draw:
    if way == "side by side":
        return SideBySide(setting).draw
    if way == "one result":
        return Repeats(setting).draw
    return _parallel(Single(setting).draw, jobs)


def _shortened(solver: Any) -> Solver:
    """Return the solver with at most two iterations, for fits that are run one by one."""
    if getattr(solver, "iterations", None) is None:
        return solver
    return replace(solver, iterations=min(2, solver.iterations))


def _projection(pair: Pair) -> dict[str, Statistic]:
    size, direction = pair.direction.size, pair.direction
    return {"the projection on the changed row": lambda outputs: outputs[:, :size] @ direction}


def _of_trace(attack: Attack) -> Attack:
    """Return an attack that sees the trace alone: stopping time, choices, refinements."""
    weights = 2 if "intercept" in attack.pair else 1

    def draw(world: int, runs: int) -> FloatArray:
        return attack.draw(world, runs)[:, weights:]

    return replace(attack, subject=f"{attack.subject}: trace", draw=draw, statistics={})


def _parallel(draw: Draw, jobs: int) -> Draw:
    """Return a function that draws the same trials in several processes."""
    if jobs == 1:
        return draw

    def distributed(world: int, runs: int) -> FloatArray:
        parts = [runs // jobs + (k < runs % jobs) for k in range(jobs)]
        outputs = Parallel(n_jobs=jobs)(delayed(draw)(world, part) for part in parts if part)
        return np.concatenate(list(outputs))

    return distributed
