"""The settings of a model as plain data: numbers, texts, its solver and its preparation by name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from discreet.core import Budget
from discreet.errors import NotSupported
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.classifiers import LinearSVC, LogisticRegression
from discreet.preparation.steps import Bounds, Centre, Radius, Scale, Spread, Step, Whiten
from discreet.solvers import Solver, resolve
from discreet.validate import number

__all__ = [
    "NOT_SETTINGS",
    "StoredSolver",
    "are_texts",
    "check_keys",
    "check_settings",
    "plain_setting",
    "settings_from_plain",
    "settings_to_plain",
]

NOT_SETTINGS = ("accountant", "progress", "random_state")
"""Parameters of an estimator that belong to a process, not to a model."""

_STEPS: dict[str, type[Step]] = {
    step.name: step for step in (Bounds, Radius, Spread, Centre, Scale, Whiten)
}


@dataclasses.dataclass(frozen=True)
class StoredSolver(Solver):
    """A solver that a model file names but that cannot be made here.

    It is of a package that is not installed, or had a function among its settings. Prediction does
    not need it; a new fit does, and says so.
    """

    name: str  # type: ignore[misc]  # a solver's class has it; this one has it from the file
    settings: tuple[tuple[str, Any], ...] = ()
    left_out: tuple[str, ...] = ()

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Refuse to fit."""
        raise NotSupported(
            f"this model was read from a file that names the solver {self.name!r}, which cannot "
            "be made from it (its package is not installed, or a setting was a function). Set "
            "solver to fit again; predictions need none."
        )


def settings_to_plain(estimator: PrivateLinearModel) -> dict[str, Any]:
    """Everything that an estimator was told, but for what belongs to a process."""
    settings = estimator.get_params(deep=False)
    for name in NOT_SETTINGS:
        settings.pop(name, None)
    solver = settings.pop("solver")
    steps = settings.pop("preparation")
    if isinstance(steps, Step):
        steps = [steps]
    plain = {name: plain_setting(name, value) for name, value in sorted(settings.items())}
    plain["solver"] = solver if isinstance(solver, str) else _solver_to_plain(solver)
    plain["preparation"] = None if steps is None else [_step_to_plain(step) for step in steps]
    return plain


def plain_setting(name: str, value: Any) -> Any:
    """A setting as JSON can hold it; ValueError for what it cannot."""
    if value is None or isinstance(value, str | bool):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain_setting(name, item) for item in value]
    if hasattr(value, "__array__"):  # labels as a Series
        return plain_setting(name, np.asarray(value).tolist())
    raise ValueError(
        f"the setting {name} cannot be written to a file: {type(value).__name__} is neither text, "
        "a finite number nor a list of them."
    )


def _solver_to_plain(solver: Any) -> dict[str, Any]:
    if isinstance(solver, StoredSolver):
        settings, left_out = dict(solver.settings), list(solver.left_out)
    else:
        settings, left_out = {}, []
        for field in dataclasses.fields(solver):
            value = getattr(solver, field.name)
            if callable(value):
                left_out.append(field.name)
            else:
                settings[field.name] = plain_setting(field.name, value)
    return {"name": solver.name, "settings": settings, "left_out": left_out}


def _solver_from_plain(data: Any) -> str | Solver:
    if isinstance(data, str):
        return data
    check_keys("the solver", data, ["name", "settings", "left_out"])
    name, settings, left_out = data["name"], data["settings"], data["left_out"]
    if not (isinstance(name, str) and isinstance(settings, dict) and are_texts(left_out)):
        raise ValueError("the solver has entries of the wrong type.")
    settings = {key: _as_tuple(value) for key, value in settings.items()}
    stored = StoredSolver(name, tuple(settings.items()), tuple(left_out))
    if left_out:
        return stored
    try:
        return type(resolve(name))(**settings)
    except (ValueError, TypeError, ImportError):  # not installed, or another version of it
        return stored


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


def _step_to_plain(step: Any) -> dict[str, Any]:
    if _STEPS.get(getattr(step, "name", "")) is not type(step):
        raise TypeError(f"a step of the preparation cannot be saved: {type(step).__name__}.")
    fields = dataclasses.fields(step)
    plain = {field.name: plain_setting(field.name, getattr(step, field.name)) for field in fields}
    return {"step": step.name, **plain}


def _step_from_plain(data: Any) -> Step:
    if not isinstance(data, dict) or data.get("step") not in _STEPS:
        raise ValueError(f"each step of the preparation must be one of {', '.join(_STEPS)}.")
    kind = _STEPS[data["step"]]
    check_keys("a step", data, ["step", *(field.name for field in dataclasses.fields(kind))])
    return kind(**{key: value for key, value in data.items() if key != "step"})


def check_settings(estimator: Any) -> None:
    """Refuse settings with which no fit or prediction could run; the solver is not looked at."""
    Budget(estimator.epsilon, estimator.delta, estimator.relation)
    number("alpha", estimator.alpha, least=0.0, most=1e50)
    if estimator.data_norm is not None:
        number("data_norm", estimator.data_norm, least=1e-50, most=1e50)
    if not isinstance(estimator.fit_intercept, bool | np.bool_):
        raise ValueError("fit_intercept must be True or False.")
    estimator._loss()
    if isinstance(estimator, LogisticRegression | LinearSVC):
        estimator._declared_classes()
    else:
        estimator._target_units()


def settings_from_plain(settings: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of an estimator."""
    steps = settings["preparation"]
    if not (steps is None or isinstance(steps, list)):
        raise ValueError("the preparation must be a list of steps, or null.")
    read = dict(settings)
    read["solver"] = _solver_from_plain(settings["solver"])
    read["preparation"] = None if steps is None else [_step_from_plain(step) for step in steps]
    if isinstance(settings.get("target_bounds"), list):
        read["target_bounds"] = tuple(settings["target_bounds"])
    for name, value in read.items():
        if isinstance(value, dict):
            raise ValueError(f"the setting {name} is of the wrong type.")
    return read


def are_texts(values: Any) -> bool:
    """Whether this is a list of texts."""
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def check_keys(what: str, data: Any, keys: Iterable[str]) -> None:
    """Raise ``ValueError`` unless an object has exactly these entries."""
    if not isinstance(data, dict):
        raise ValueError(f"{what} must be an object.")
    missing, extra = sorted(set(keys) - set(data)), sorted(set(data) - set(keys))
    if missing or extra:
        raise ValueError(
            f"{what} has other entries than it should: missing {missing}, unknown {extra[:5]}."
        )
