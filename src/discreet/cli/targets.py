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

EPSILON, DELTA = 1.0, 1e-5
"""Default guarantee of a solver under attack."""


@dataclass(frozen=True)
class Plan:
    """The attacks to carry out, in this order, the promised guarantee, and a note to show first.

    ``left_out`` has the subjects that cannot be attacked, with the reason.
    """

    attacks: tuple[Attack, ...]
    epsilon: float
    delta: float
    left_out: dict[str, str] = field(default_factory=dict)
    note: str | None = None


def plan_for(
    target: str, epsilon: float | None, delta: float | None, relation: Relation | None, jobs: int
) -> Plan:
    """Return the attacks on a target; raise for all mistakes in the request, before any work."""
    from discreet.audit import most_telling
    from discreet.audit.cases import attacks, subjects
    from discreet.solvers import names, resolve

    known = subjects()
    chosen: list[Any] = [name for name in known if name == target or name.startswith(f"{target}: ")]
    if target == "all":
        chosen = list(known)
    if not chosen and target in names() and resolve(target).private:
        chosen = [resolve(target)]  # of another package
    if not chosen:
        given = {"--epsilon": epsilon, "--delta": delta, "--relation": relation}
        extra = [name for name, value in given.items() if value is not None]
        return _model_plan(target, extra, jobs)
    epsilon, delta = EPSILON if epsilon is None else epsilon, DELTA if delta is None else delta
    Budget(epsilon, delta, relation or Relation.ADD_REMOVE)  # raises for numbers out of range
    found: list[Attack] = []
    left_out: dict[str, str] = {}
    for subject in chosen:
        try:
            found += attacks(subject, epsilon=epsilon, delta=delta, relation=relation, jobs=jobs)
        except PrivacyError as error:
            left_out[str(getattr(subject, "name", subject))] = str(error)
    if not found:
        raise Problem(" ".join(left_out.values()), Exit.PRIVACY)
    if target == "all":  # all pairs of tables would take a day
        found = most_telling(found)
    return Plan(tuple(found), epsilon, delta, left_out)


def _model_plan(target: str, given: Sequence[str], jobs: int) -> Plan:
    from discreet.audit.cases import attacks
    from discreet.audit.pairs import two_steps

    path = Path(target)
    if not path.exists():
        raise Problem(_unknown(target))
    if given:
        raise Problem(f"{target} states its own guarantee; leave out {', '.join(given)}.")
    _, estimator = load_model(path)
    promise = estimator.guarantee_
    if not (promise.private and promise.secure):
        why = "it was fitted with a fixed seed" if promise.private else "it is not private"
        raise Problem(f"{target} has no guarantee that could be refuted: {why}.")
    estimator.check_settings()  # raises if the solver is not installed
    small = _for_small_tables(estimator)
    found = attacks(small, epsilon=promise.epsilon, delta=promise.delta, jobs=jobs)
    if not found:
        raise Problem(f"No attack on the settings of {target} is known.", Exit.PRIVACY)
    note = (
        f"The audit of {target} uses its settings (solver, budget, relation, loss, penalty and "
        "bounds) on small worst-case tables. It uses neither the rows that the model was trained "
        "on nor its weights."
    )
    aimed = []  # at the guarantee that the model states, whose ε may exceed the requested one
    for attack in found:
        epsilon, delta = promise.epsilon, promise.delta
        if attack.relation != promise.relation:  # one row removed and one added
            epsilon, delta = two_steps(epsilon, delta)
        subject = attack.subject.replace(type(small).__name__, path.name, 1)
        aimed.append(replace(attack, subject=subject, epsilon=epsilon, delta=delta))
    if any(attack.relation != promise.relation for attack in found):
        note += (
            f" With these settings no row can represent a missing one, as {promise.relation} would "
            "require, so the tables are two rows apart: for them the guarantee is twice the ε."
        )
    return Plan(tuple(aimed), promise.epsilon, promise.delta, note=note)


def _for_small_tables(estimator: Any) -> Any:
    """Return an estimator with the same settings for two columns and targets from −1 to 1."""
    import numpy as np
    from sklearn.base import clone

    from discreet.estimators.log_linear import LogLinearRegressor
    from discreet.preparation import Bounds

    small = clone(estimator)
    settings = small.get_params(deep=False)
    if "classes" in settings:
        small.set_params(classes=[-1, 1, *range(2, len(estimator.classes_))])
    if settings.get("target_bounds") is not None:  # the model itself is fitted from −1 to 1
        low = 0.1 if isinstance(small, LogLinearRegressor) else -1.0
        small.set_params(target_bounds=(low, 1.0))
    if "periods" in settings:
        ends = np.linspace(-0.5, 1.5, len(estimator.levels_))
        small.set_params(periods=ends.tolist())
    if settings["preparation"] is not None:
        steps = list(settings["preparation"])
        for k, step in enumerate(steps):
            if isinstance(step, Bounds):
                few = range(min(2, len(step.columns)))
                steps[k] = replace(step, columns=few, whole=())
        small.set_params(preparation=steps)
    return small


def _unknown(target: str) -> str:
    from discreet.audit.cases import subjects
    from discreet.solvers import names

    if target in names():
        return f"{target} has no guarantee that could be refuted: it is not private."
    if os.sep in target or Path(target).suffix:
        return f"{target}: no such model file."
    known = [*subjects(), "all"]
    near = difflib.get_close_matches(target, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known names: {', '.join(known)}."
    return f"{target!r} is neither a solver nor a model file that can be audited. {hint}"
