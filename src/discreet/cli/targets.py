"""Targets of ``discreet audit``: solvers by name, and models in files."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.cli.exits import Exit, Problem
from discreet.cli.options import load_model
from discreet.core import Budget, Relation
from discreet.errors import PrivacyError

if TYPE_CHECKING:
    from discreet.audit import Attack

__all__ = ["DELTA", "EPSILON", "Plan", "plan_for"]

EPSILON, DELTA = 1.0, 1e-5  # default guarantee of a solver that is attacked


@dataclass(frozen=True)
class Plan:
    """Attacks on a guarantee of ε and δ, targets left out with the reason, and a note."""

    attacks: tuple[Attack, ...]
    epsilon: float
    delta: float
    left_out: dict[str, str] = field(default_factory=dict)
    note: str | None = None


def plan_for(
    target: str, epsilon: float | None, delta: float | None, relation: Relation | None, jobs: int
) -> Plan:
    """Choose the attacks on a target; everything wrong with the request is found here."""
    from discreet.audit.attack import most_telling
    from discreet.audit.cases import attacks, subjects
    from discreet.solvers import names, resolve

    known = subjects()
    chosen: list[Any] = [name for name in known if name == target or name.startswith(f"{target}: ")]
    if target == "all":
        chosen = list(known)
    if not chosen and target in names() and resolve(target).private:
        chosen = [resolve(target)]  # of another package, perhaps
    if not chosen:
        given = {"--epsilon": epsilon, "--delta": delta, "--relation": relation}
        extra = [name for name, value in given.items() if value is not None]
        return _model_plan(target, extra, jobs)
    budget = Budget(
        EPSILON if epsilon is None else epsilon,
        DELTA if delta is None else delta,
        Relation.ADD_REMOVE if relation is None else relation,
    )
    promised = {"epsilon": budget.epsilon, "delta": budget.delta}
    found: list[Attack] = []
    left_out: dict[str, str] = {}
    for subject in chosen:
        try:
            found += attacks(subject, **promised, relation=relation, jobs=jobs)
        except PrivacyError as error:
            left_out[str(getattr(subject, "name", subject))] = str(error)
    if not found:
        raise Problem(Exit.PRIVACY, " ".join(left_out.values()))
    if target == "all":  # all tables would take a day
        found = most_telling(found)
    return Plan(tuple(found), budget.epsilon, budget.delta, left_out)


def _model_plan(target: str, given: Sequence[str], jobs: int) -> Plan:
    from discreet.audit.cases import attacks
    from discreet.audit.pairs import two_steps

    path = Path(target)
    if not path.exists():
        raise Problem(Exit.USAGE, _unknown(target))
    if given:
        raise Problem(
            Exit.USAGE, f"{target} is audited for its own guarantee; leave out {', '.join(given)}."
        )
    _, estimator = load_model(path)
    promise = estimator.guarantee_
    if not (promise.private and promise.secure):
        why = "it was made with a fixed seed" if promise.private else "it is not private"
        raise Problem(Exit.USAGE, f"{target} has no guarantee, so nothing can be refuted: {why}.")
    estimator.check_settings()  # a solver that is not installed cannot be run
    small = _for_small_tables(estimator)
    found = attacks(small, epsilon=promise.epsilon, delta=promise.delta, jobs=jobs)
    if not found:
        raise Problem(Exit.PRIVACY, f"No attack on the settings of {target} is known.")
    note = (
        f"{target} is audited by its settings: solver, budget, relation, loss, penalty and "
        "bounds, on small worst-case data sets. The audit sees neither the rows that "
        "the model was trained on nor its weights."
    )
    if any(attack.relation != promise.relation for attack in found):
        note += (
            f" With these settings no row can take the part of a missing one, which "
            f"{promise.relation} needs, so data sets two steps apart are used: the guarantee for "
            "them has twice the ε."
        )
    owed = []
    for attack in found:
        # The stated guarantee may be larger than the one requested. A replaced row is one removed
        # and one added: under add/remove that is two steps.
        epsilon, delta = promise.epsilon, promise.delta
        if attack.relation != promise.relation:
            epsilon, delta = two_steps(epsilon, delta)
        subject = attack.subject.replace(type(small).__name__, path.name, 1)
        owed.append(replace(attack, subject=subject, epsilon=epsilon, delta=delta))
    return Plan(tuple(owed), promise.epsilon, promise.delta, note=note)


def _for_small_tables(estimator: Any) -> Any:
    """Return a model with the same settings for two columns and targets from −1 to 1."""
    from sklearn.base import clone

    from discreet.preparation import Bounds

    small = clone(estimator)
    settings = small.get_params(deep=False)
    if "classes" in settings:
        small.set_params(classes=[-1, 1, *range(2, len(estimator.classes_))])
    if settings.get("target_bounds") is not None:  # the model itself is fitted from −1 to 1
        small.set_params(target_bounds=(-1.0, 1.0))
    if settings["preparation"] is not None:
        steps = [
            replace(step, columns=range(min(2, len(step.columns))))
            if isinstance(step, Bounds)
            else step
            for step in settings["preparation"]
        ]
        small.set_params(preparation=steps)
    return small


def _unknown(target: str) -> str:
    from discreet.audit.cases import subjects
    from discreet.solvers import names

    if target in names():
        return f"{target} has no guarantee, so nothing can be refuted."
    if os.sep in target or Path(target).suffix:
        return f"{target}: there is no such model file."
    known = [*subjects(), "all"]
    near = difflib.get_close_matches(target, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(known)}."
    return f"{target!r} is neither a solver that can be audited nor a model file. {hint}"
