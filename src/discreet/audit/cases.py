"""What is attacked, and how: settings, tables and ways of running under which a solver shows most.

Few iterations show more than many: what is released at the end then says more of each noisy
answer. The code, the accounting and the composition of several answers are the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from discreet.audit.answers import mechanism_attacks
from discreet.audit.attack import Attack, Statistic
from discreet.audit.fits import Fits
from discreet.audit.pairs import Pair, own, two_steps, worst_cases
from discreet.audit.trials import (
    Blocks,
    Repeats,
    Setting,
    Single,
    scaled_bound,
    scaled_steps,
)
from discreet.errors import NotSupported, PrivacyError
from discreet.estimators import HuberRegressor, LinearSVC, LogisticRegression
from discreet.objectives import Huber, HuberHinge, Loss, Problem
from discreet.privacy import Budget, Relation
from discreet.privacy.bits import Bits, SeededBits, SystemBits
from discreet.solvers import (
    AGD,
    AMP,
    AMPHF,
    GD,
    RRPSGD,
    SGD,
    SGDMA,
    FrankWolfe,
    LaplaceSGD,
    Newton,
    ObjPert,
    OutPert,
    PermutationSGD,
    PrivGene,
    SGDAdv,
    ShrunkGD,
    Solver,
)

__all__ = ["attacks", "attacks_on_estimator", "subjects"]

Way = Literal["one by one", "side by side", "one result"]
Draw = Callable[[int, int], NDArray[Any]]

ANSWERS = "single answers"
DELTA = 1e-3
"""Promised by answers that are not pure, where δ = 0 is asked for."""

ROW_NORM = 1.0
LONG = 10.0
"""A length at which gradients are clipped, for estimators without ``data_norm``."""
STEEP = HuberHinge()
"""Its slope is as large as its bound over a wide range of margins."""

SMALL_STEP = 1e-3
"""With it weights stay near zero, where the slope of the loss is as large as it gets."""


@dataclass(frozen=True)
class Recipe:
    """One solver with settings under which an attack sees most, and a way to run it.

    Attributes
    ----------
    solver
        The settings.
    way
        How many trials are run at once.
    label
        What tells it from other settings of the same solver.
    loss, alpha, n_features
        The problem. Choices show most where there is little to choose from: in one column.
    """

    solver: Solver
    way: Way = "one by one"
    loss: Loss = STEEP
    alpha: float = 0.0
    n_features: int = 2
    label: str = ""

    def subject(self, name: str) -> str:
        """What is attacked, for people: the solver, and what is special about its settings."""
        calibration = getattr(self.solver, "calibration", "tight")
        special = [self.label, "" if calibration == "tight" else calibration]
        words = ", ".join(word for word in special if word)
        return f"{name} ({words})" if words else name


_SIGNS: dict[str, Any] = {
    "generations": 2,
    "population": 8,
    "mutation": 0.1,
    "last_mutation": 0.1,
    "objective_clip": 0.01,
}
"""With these, all that counts of a candidate is on which side of the last winner it lies."""

_RECIPES: dict[str, tuple[Recipe, ...]] = {
    "gd": (
        Recipe(GD(20, step_size=SMALL_STEP, momentum=0.0, averaging=0.0), "side by side"),
        Recipe(GD(20, step_size=SMALL_STEP), "side by side", label="momentum and averaging"),
    ),
    "sgd": (Recipe(SGD(step_size=SMALL_STEP, iterations=8, batch_size=3), "side by side"),),
    "sgd-adv": (
        Recipe(SGDAdv(step_size=SMALL_STEP, iterations=8, batch_size=3), "side by side"),
        Recipe(
            SGDAdv("published", step_size=SMALL_STEP, iterations=8, batch_size=3), "side by side"
        ),
    ),
    "sgd-ma": (
        Recipe(SGDMA(step_size=SMALL_STEP, iterations=8, batch_size=3), "side by side"),
        Recipe(
            SGDMA("published", step_size=SMALL_STEP, iterations=8, batch_size=3), "side by side"
        ),
    ),
    "objpert": (
        Recipe(ObjPert(), "side by side"),
        Recipe(ObjPert("published"), "side by side"),
    ),
    "amp": (Recipe(AMP(), "side by side"), Recipe(AMP("published"), "side by side")),
    "amp-hf": (Recipe(AMPHF(), "side by side"), Recipe(AMPHF("published"), "side by side")),
    "outpert": (
        Recipe(OutPert(), "one result", alpha=1.0),
        Recipe(OutPert("published"), "one result", alpha=1.0),
    ),
    "permutation-sgd": (
        Recipe(PermutationSGD(passes=2, batch_size=2, step_size=0.1)),
        Recipe(PermutationSGD("published", passes=2, batch_size=2, step_size=0.1)),
        Recipe(
            PermutationSGD(mode="strongly-convex", passes=2, batch_size=2),
            alpha=1.0,
            label="strongly convex",
        ),
    ),
    "rrpsgd": (
        Recipe(RRPSGD(max_rounds=6, step_size=0.1)),
        Recipe(RRPSGD("published", max_rounds=6, step_size=0.1)),
    ),
    "laplace-sgd": (
        Recipe(LaplaceSGD(batch_size=3, step_size=0.1)),
        Recipe(LaplaceSGD("published", batch_size=3, passes=2, step_size=0.1)),
    ),
    "frank-wolfe": (
        Recipe(FrankWolfe(iterations=2, radius=0.01), n_features=1),
        Recipe(FrankWolfe("published", iterations=2, radius=0.01), n_features=1),
    ),
    "privgene": (
        Recipe(PrivGene(**_SIGNS), n_features=1),
        Recipe(PrivGene("published", **_SIGNS), n_features=1),
    ),
    "agd": (
        Recipe(AGD(splits=1, n_steps=1, max_iterations=1, objective_clip=1.0), n_features=1),
        Recipe(
            AGD(splits=3, n_steps=1, objective_clip=1.0), n_features=1, label="with refinements"
        ),
        Recipe(
            AGD("published", splits=5, n_steps=1, max_iterations=2, objective_clip=1.0),
            n_features=1,
        ),
    ),
    "newton": (Recipe(Newton(iterations=1), loss=Huber(1.0)),),
    "shrunk-gd": (
        Recipe(ShrunkGD(iterations=2)),
        Recipe(ShrunkGD(iterations=1, first_share=1), label="one stage"),
    ),
}


def _pipelines(budget: Budget) -> dict[str, tuple[Any, ...]]:
    """Whole estimators: the automatic choice, preparations, several classes, regression."""
    settings: dict[str, Any] = {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": str(budget.relation),
    }
    return {
        "auto": (
            LogisticRegression(**settings, fit_intercept=False),
            LogisticRegression(**settings),
        ),
        "pipeline: automatic SVM": (LinearSVC(**settings, fit_intercept=False),),
        "pipeline: automatic regression": (
            HuberRegressor(**settings, target_bounds=(-1.0, 1.0), fit_intercept=False),
        ),
    }


def subjects() -> tuple[str, ...]:
    """All that can be attacked by name."""
    pipelines = _pipelines(Budget(1.0, 1e-5, Relation.ADD_REMOVE))
    return (*_RECIPES, *pipelines, "agd: trace", ANSWERS)


def attacks(
    subject: str | Solver | Any,
    *,
    epsilon: float,
    delta: float,
    relation: str | None = None,
    jobs: int = 1,
    seed: int | None = None,
) -> list[Attack]:
    """All attacks on a subject, the most telling first.

    Parameters
    ----------
    subject : str, Solver or estimator
        A name in `subjects`, a solver with settings of its own, or an estimator, whose own budget
        then counts.
    epsilon, delta : float
        What is promised.
    relation : str, optional
        One relation; by default all that the subject takes.
    jobs : int
        Processes for trials that are run one by one.
    seed : int, optional
        For tests: makes the noise repeatable. By default noise is what it is in use.
    """
    if jobs != 1 and seed is not None:
        raise ValueError("Repeatable trials run in one process: pass jobs=1 or no seed.")
    if hasattr(subject, "fit"):
        return attacks_on_estimator(subject, jobs=jobs, seed=seed)
    if subject == ANSWERS:
        bits = None if seed is None else SeededBits(seed)
        single = mechanism_attacks(epsilon=epsilon, delta=delta or DELTA, bits=bits)
        return [attack for attack in single if relation in (None, str(attack.relation))]
    found: list[Attack] = []
    for kind in [Relation.parse(relation)] if relation else list(Relation):
        budget = Budget(epsilon, delta, kind)
        if isinstance(subject, Solver):
            found += _on_solver(subject.name, Recipe(subject), budget, jobs, seed)
        elif subject == "agd: trace":
            found += [_of_trace(attack) for attack in _on_recipes("agd", budget, jobs, seed)]
        elif subject in _RECIPES:
            found += _on_recipes(subject, budget, jobs, seed)
        elif subject in (pipelines := _pipelines(budget)):
            for estimator in pipelines[subject]:
                found += attacks_on_estimator(estimator, name=subject, jobs=jobs, seed=seed)
        else:
            known = ", ".join(subjects())
            raise NotSupported(f"Nothing is known to attack in {subject!r}. Known: {known}.")
    if not found:
        raise NotSupported(
            f"{subject!r} takes none of these: epsilon={epsilon:g}, delta={delta:g}, "
            f"relation={relation or 'any'}. Try delta=1e-5."
        )
    return found


def attacks_on_estimator(
    estimator: Any,
    tables: tuple[Any, Any] | None = None,
    *,
    name: str | None = None,
    jobs: int = 1,
    seed: int | None = None,
) -> list[Attack]:
    """Attacks on an estimator with its own settings, on the built-in pairs or the caller's tables.

    Its promise is ``epsilon``, ``delta`` and ``relation``.
    """
    relation = Relation.parse(getattr(estimator, "relation", Relation.REPLACE_ONE))
    epsilon, delta = estimator.epsilon, getattr(estimator, "delta", 0.0)
    intercept = bool(getattr(estimator, "fit_intercept", False))
    label = name or type(estimator).__name__
    pairs = [] if tables is None else [own(tables, fit_intercept=intercept)]
    replaced = intercept or _counts_rows(estimator) or not all(map(_added, pairs))
    if relation is Relation.ADD_REMOVE and replaced:
        # no row can stand for a missing one: a replaced one is two steps away
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
        pairs = [pair for pair in pairs if pair.fit_intercept == intercept]
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


def _added(pair: Pair) -> bool:
    """Whether one of the two versions of the changed row is all zeros, as good as none."""
    return any(not np.any(row) for row in pair.changed)


def _counts_rows(estimator: Any) -> bool:
    """Whether a row of zeros differs from no row at all: where rows are counted or compared."""
    solver = getattr(estimator, "solver", None)
    name = getattr(solver, "name", solver)
    return name in ("auto", "shrunk-gd") or getattr(estimator, "preparation", None) is not None


def _on_recipes(name: str, budget: Budget, jobs: int, seed: int | None) -> list[Attack]:
    return [
        attack
        for recipe in _RECIPES[name]
        for attack in _on_solver(name, recipe, budget, jobs, seed)
    ]


def _on_solver(
    name: str, recipe: Recipe, budget: Budget, jobs: int, seed: int | None
) -> list[Attack]:
    """Attacks on one solver with fixed settings; none if it does not take the budget."""
    subject = recipe.subject(name)
    first = 0 if seed is None else seed + zlib.crc32(f"{subject} {budget.relation}".encode())
    bits: Iterator[Bits] = (
        SystemBits() if seed is None else SeededBits(first + k) for k in count()
    )
    found = []
    regression = recipe.loss.task == "regression"
    for pair in worst_cases(
        budget.relation, norm=ROW_NORM, n_features=recipe.n_features, regression=regression
    ):
        setting = Setting(
            recipe.solver, recipe.loss, recipe.alpha, ROW_NORM, budget, pair, next(bits)
        )
        if recipe.way == "side by side" and (pair.fit_intercept or budget.pure):
            setting, way = replace(setting, solver=_shorter(recipe.solver)), "one by one"
        else:
            way = recipe.way
        try:
            spends = setting.solver.prepare(setting.problem(), budget)
        except (NotSupported, PrivacyError):
            continue  # not for this relation or δ, or published constants that do not hold
        if spends != budget:
            continue
        draw: Draw
        if way == "side by side":
            draw = Blocks(setting, _widening(recipe.solver)).draw
        elif way == "one result":
            draw = Repeats(setting).draw
        else:
            draw = _parallel(Single(setting).draw, jobs)
        found.append(
            Attack(
                subject,
                pair.name,
                budget.epsilon,
                budget.delta,
                str(budget.relation),
                draw,
                _projection(pair),
                batched=way != "one by one",
            )
        )
    return found


def _widening(solver: Solver) -> Callable[[Any, int, Problem], Solver]:
    return scaled_bound if hasattr(solver, "gradient_bound") else scaled_steps


def _shorter(solver: Any) -> Solver:
    """The same solver with at most two iterations, where each fit is run alone."""
    if getattr(solver, "iterations", None) is None:
        return solver
    return replace(solver, iterations=min(2, solver.iterations))


def _projection(pair: Pair) -> dict[str, Statistic]:
    size, direction = pair.direction.size, pair.direction
    return {"the projection on the changed row": lambda outputs: outputs[:, :size] @ direction}


def _of_trace(attack: Attack) -> Attack:
    """An attack that sees the trace alone: when it stopped, what was chosen, what was refined."""
    weights = 2 if "intercept" in attack.pair else 1

    def draw(world: int, runs: int) -> NDArray[Any]:
        return attack.draw(world, runs)[:, weights:]

    return replace(attack, subject=f"{attack.subject}: trace", draw=draw, statistics={})


def _parallel(draw: Draw, jobs: int) -> Draw:
    """The same trials in several processes."""
    if jobs == 1:
        return draw

    def spread(world: int, runs: int) -> NDArray[Any]:
        parts = [runs // jobs + (k < runs % jobs) for k in range(jobs)]
        outputs = Parallel(n_jobs=jobs)(delayed(draw)(world, part) for part in parts if part)
        return np.concatenate(list(outputs))

    return spread
