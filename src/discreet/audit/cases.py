"""`audit`, and the built-in attacks on solvers and estimators, by name or as an object."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import RegressorMixin

from discreet.audit.attack import Attack, Statistic, run
from discreet.audit.pairs import OWN, Pair, group_of_two, own, worst_cases, worst_people
from discreet.audit.recipes import LONG, PEOPLE, RECIPES, Recipe, pipelines
from discreet.audit.result import Audit
from discreet.audit.trials import WAYS, Setting, Way, compares_rows, fastest_way, fits
from discreet.core import Budget, Relation
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.errors import NotSupported, PrivacyError
from discreet.estimators.base import PrivateLinearModel
from discreet.solvers import Solver
from discreet.validate import FloatArray, integer

Draw = Callable[[int, int], FloatArray]
TRACE = "agd: trace"  # subject of attacks that see the trace of a fit and not its weights

SCREENING_SHARE = 0.1  # of all trials, to select the pair of tables
FEWEST_SCREENED = 200  # of these trials per pair; fewer pairs are tried if there are not enough


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
    found = _attacks_on(target, neighbours, (epsilon, delta, relation), jobs)
    found = [attack for attack in found if attack.batched] or found
    found = found[: max(1, trials // (2 * FEWEST_SCREENED))]  # the strongest come first
    if len(found) == 1:
        return run(found[0], trials=trials, confidence=confidence, progress=progress)
    each = max(FEWEST_SCREENED, int(SCREENING_SHARE * trials / len(found)))
    screened = [run(attack, trials=each, confidence=confidence) for attack in found]

    def separation(k: int) -> tuple[float, float]:
        widest = max(point.tpr - point.fpr for point in screened[k].curve)
        return screened[k].epsilon_bound / screened[k].epsilon, widest

    best = found[max(range(len(found)), key=separation)]
    left = trials - each * len(found)
    result = run(best, trials=left, confidence=confidence, progress=progress)
    return replace(
        result,
        trials=result.trials + sum(one.trials for one in screened),
        seconds=result.seconds + sum(one.seconds for one in screened),
    )


def _attacks_on(
    target: Any,
    neighbours: tuple[Any, Any] | None,
    promise: tuple[float | None, float | None, str | None],
    jobs: int,
) -> list[Attack]:
    """Return the attacks of `audit`; raise for all mistakes in the request."""
    if neighbours is not None and len(neighbours) != 2:
        raise ValueError(f"neighbours must be two tables; got {len(neighbours)}.")
    epsilon, delta, relation = promise
    if isinstance(target, type):
        raise TypeError(f"Pass an instance with its settings, such as {target.__name__}(...).")
    if hasattr(target, "fit"):
        if promise != (None, None, None):
            raise ValueError(
                "An estimator has its own guarantee: set epsilon, delta and relation there."
            )
        if neighbours is not None and any(len(table) != 2 for table in neighbours):
            raise ValueError("The tables of an estimator are pairs: neighbours=((X, y), (X', y')).")
        return attacks_on_estimator(target, neighbours, jobs=jobs)
    if isinstance(target, str) or hasattr(target, "solve"):
        if neighbours is not None:
            raise ValueError(
                "neighbours is for estimators and functions, not for a solver: pass for example "
                "LogisticRegression(solver=...) as the target."
            )
        epsilon = 1.0 if epsilon is None else epsilon
        delta = 1e-5 if delta is None else delta
        return attacks(target, epsilon=epsilon, delta=delta, relation=relation, jobs=jobs)
    if not callable(target):
        raise TypeError(
            f"Cannot audit a {type(target).__name__}: pass an estimator, a solver or a function."
        )
    if neighbours is None or epsilon is None or delta is None:
        raise ValueError("A function needs neighbours=(table, other), epsilon and delta.")
    tables = neighbours
    name = getattr(target, "__name__", type(target).__name__)

    def draw(world: int, runs: int) -> FloatArray:
        return np.asarray(target(tables[world], runs))

    return [Attack(name, OWN, epsilon, delta, relation or "as given", draw)]


def subjects() -> tuple[str, ...]:
    """Return the names of everything that can be attacked by name."""
    whole = pipelines(Budget(1.0, 1e-5, Relation.ADD_REMOVE))
    people = (f"{name}{PEOPLE}" for name, found in RECIPES.items() if found[0].solver.takes_units)
    return (*RECIPES, *whole, TRACE, *people)


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

    The subject is a name in `subjects`, a solver with its own settings, or an estimator, whose own
    guarantee is then used. Without ``relation`` all that it supports are attacked. ``jobs`` is the
    number of processes for trials that are run one by one; with a ``seed`` noise is repeatable.
    """
    if jobs != 1 and seed is not None:
        raise ValueError("Repeatable trials run in one process: pass jobs=1 or no seed.")
    if hasattr(subject, "fit"):
        return attacks_on_estimator(subject, jobs=jobs, seed=seed)
    found: list[Attack] = []
    for kind in [Relation(relation)] if relation else list(Relation):
        budget = Budget(epsilon, delta, kind)
        if isinstance(subject, Solver):
            default = RECIPES.get(subject.name, (Recipe(subject),))[0]
            recipe = replace(default, solver=subject, way=None)
            found += _on_solver(subject.name, recipe, budget, jobs, seed)
            continue
        if subject not in subjects():
            known = ", ".join(subjects())
            raise NotSupported(f"No attack on {subject!r} is known. Known subjects: {known}.")
        name = subject.partition(": ")[0]
        people = subject.endswith(PEOPLE)
        for recipe in RECIPES.get(name, ()):
            of_weights = _on_solver(name, recipe, budget, jobs, seed, people=people)
            found += map(_of_trace, of_weights) if subject == TRACE else of_weights
        for estimator in pipelines(budget).get(subject, ()):
            options: Any = {"name": subject, "jobs": jobs, "seed": seed, "people": people}
            found += attacks_on_estimator(estimator, **options)
    if not found:
        raise NotSupported(
            f"{subject!r} does not support epsilon={epsilon:g}, delta={delta:g}, "
            f"relation={relation or 'any'}. Its relations and conditions: "
            f"discreet.solvers.describe({subject!r})."
        )
    # First the strongest pair of every setting and relation, then the second ones, and so on.
    turns: defaultdict[tuple[str, str], Iterator[int]] = defaultdict(count)
    return sorted(found, key=lambda attack: next(turns[attack.subject, attack.relation]))


def attacks_on_estimator(
    estimator: Any,
    tables: tuple[Any, Any] | None = None,
    *,
    name: str | None = None,
    jobs: int = 1,
    seed: int | None = None,
    people: bool = False,
) -> list[Attack]:
    """Return attacks on an estimator, on the built-in pairs or on the caller's tables.

    The guarantee under attack is its own ``epsilon``, ``delta`` and ``relation``; with ``people``
    it is for one person with all of their rows.
    """
    _check_audited(estimator)
    relation = Relation(getattr(estimator, "relation", Relation.REPLACE_ONE))
    epsilon = estimator.epsilon
    delta = getattr(estimator, "delta", 0.0)
    intercept = bool(getattr(estimator, "fit_intercept", False))
    label = name or type(estimator).__name__
    given = [] if tables is None else [own(tables, fit_intercept=intercept)]
    replaced = intercept or compares_rows(estimator) or not all(map(_added, given))
    if relation is Relation.ADD_REMOVE and replaced:
        # No row can represent a missing one, and a replaced row is two steps away.
        apart = "two people apart" if people else "two rows apart"
        relation = Relation.REPLACE_ONE
        label = f"{label} ({apart})"
        epsilon, delta = group_of_two(epsilon, delta)
    found = []
    for pair in given or _built_in_pairs(estimator, relation, people=people):
        seeds = None if seed is None else count(seed)
        draw = _parallel(partial(fits, estimator, pair, seeds), jobs)
        promise = (epsilon, delta, str(relation))
        found.append(Attack(label, pair.name, *promise, draw, _projection(pair)))
    return found


def _check_audited(estimator: Any) -> None:
    """Refuse an estimator that states no guarantee, or whose noise is fixed."""
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


def _built_in_pairs(estimator: Any, relation: Relation, *, people: bool) -> list[Pair]:
    """Return the built-in pairs with the estimator's kind of labels and its intercept."""
    norm = getattr(estimator, "data_norm", None) or LONG
    targets = isinstance(estimator, RegressorMixin)
    cases = worst_people if people else worst_cases
    known = cases(relation, norm=norm, n_units=20, regression=targets, same_height=True)
    intercept = bool(getattr(estimator, "fit_intercept", False))
    pairs = [pair for pair in known if pair.fit_intercept == intercept]
    classes = getattr(estimator, "classes", None)
    if classes is None:
        return pairs
    return [_with_labels(pair, np.asarray(classes)[[0, -1]]) for pair in pairs]


def _with_labels(pair: Pair, ends: Any) -> Pair:
    """Return the pair with these labels in place of −1 and 1."""
    first, second = ((X, ends[(y + 1).astype(int) // 2]) for X, y in pair.tables)
    return replace(pair, tables=(first, second))


def _added(pair: Pair) -> bool:
    """Return True if one version of the changed row is all zeros, with the other's label."""
    (row, label), (other, other_label) = pair.changed
    return label == other_label and not (np.any(row) and np.any(other))


def _on_solver(
    name: str, recipe: Recipe, budget: Budget, jobs: int, seed: int | None, *, people: bool = False
) -> list[Attack]:
    """Return attacks on one solver with fixed settings; none if it does not support the budget."""
    subject = recipe.subject(name) + PEOPLE * people
    first = 0 if seed is None else seed + zlib.crc32(f"{subject} {budget.relation}".encode())
    bits: Iterator[Bits] = (
        SystemBits() if seed is None else SeededBits(first + k) for k in count()
    )
    found = []
    known = recipe.way
    norm = recipe.row_norm or LONG
    targets = recipe.loss.task == "regression"
    size = recipe.n_features
    cases = worst_people if people else worst_cases
    for pair in cases(budget.relation, norm=norm, n_features=size, regression=targets):
        setting = Setting(
            recipe.solver, recipe.loss, recipe.alpha, recipe.row_norm, budget, pair, next(bits)
        )
        shared = pair.fit_intercept or budget.pure  # by all copies: an intercept, a norm of noise
        iterations = getattr(recipe.solver, "iterations", None)
        if recipe.way == "side by side" and shared and iterations is not None:
            method: Any = recipe.solver
            short = replace(method, iterations=min(2, iterations))  # these fits are run one by one
            setting = replace(setting, solver=short)
        try:
            spends = setting.plan().spends
        except (NotSupported, PrivacyError):
            continue  # not for this relation or δ, or published constants that do not hold
        if spends != budget:
            continue
        if known is None and not pair.fit_intercept:
            known = fastest_way(setting)
        way: Way = known or "one by one"
        if way == "side by side" and shared:
            way = "one by one"
        batched = way != "one by one"
        together = partial(WAYS[way], setting)
        draw = together if batched else _parallel(together, jobs)
        promise = (budget.epsilon, budget.delta, str(budget.relation))
        found.append(Attack(subject, pair.name, *promise, draw, _projection(pair), batched=batched))
    return found


def _projection(pair: Pair) -> dict[str, Statistic]:
    size = pair.direction.size
    direction = pair.direction
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
