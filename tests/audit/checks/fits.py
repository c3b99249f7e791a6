"""Fits of an estimator for a check, and their outputs."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .transcript import CHOICES, Transcript, describe, watching

__all__ = [
    "CheckResult",
    "Observation",
    "Table",
    "attributes",
    "fresh",
    "models_of_classes",
    "numbers",
    "observe",
    "observed",
    "places",
    "seen_twice",
]

Table = tuple[Any, Any]
"""X and y."""


@dataclass(frozen=True)
class CheckResult:
    """Result of one check.

    Attributes
    ----------
    check
        Name of the check.
    passed
        True if nothing is wrong.
    text
        Observation and, if the check failed, its consequence.
    """

    check: str
    passed: bool
    text: str

    def __str__(self) -> str:
        """Return one line."""
        return f"{'passed' if self.passed else 'FAILED'}: {self.check}: {self.text}"


def fresh(estimator: Any, **changes: Any) -> Any:
    """Return an unfitted copy with fresh noise and without a ledger.

    ``changes`` are set where the estimator, or one inside it (a pipeline's), has such a parameter.
    """
    copied = clone(estimator)
    settings = {"random_state": None, "ledger": None, "progress": None} | changes
    found = {name: places(copied, name) for name in settings}
    return copied.set_params(**{place: settings[name] for name in found for place in found[name]})


def places(estimator: Any, parameter: str) -> list[str]:
    """Return the names under which an estimator, and those inside it, have a parameter."""
    return [name for name in estimator.get_params() if name.split("__")[-1] == parameter]


def attributes(model: Any) -> dict[str, str]:
    """Return all fitted attributes of an estimator, as texts that can be compared."""
    left = {name: describe(value) for name, value in vars(model).items() if name.endswith("_")}
    for name, part in _parts(model):
        left |= {f"{name}.{inner}": text for inner, text in attributes(part).items()}
    return left


def _parts(model: Any) -> list[tuple[str, Any]]:
    """Return the fitted estimators inside a pipeline, or inside one that fits several."""
    steps = [(name, part) for name, part in getattr(model, "steps", ()) if hasattr(part, "fit")]
    several = vars(model).get("estimators_", ())
    return [*steps, *((f"estimators_[{k}]", part) for k, part in enumerate(several))]


def numbers(model: Any, names: tuple[str, ...] = ("coef_", "intercept_")) -> NDArray[np.float64]:
    """Return the named attributes, or else all fitted floating-point numbers, as one vector.

    Of a pipeline those of its last step; of one that fits several, those of all.
    """
    fitted, parts = vars(model), [part for _, part in _parts(model)]
    if parts:
        several = parts if "estimators_" in fitted else parts[-1:]
        return np.concatenate([numbers(part, names) for part in several])
    known = [name for name in names if name in fitted]
    known = known or sorted(name for name in fitted if name.endswith("_"))
    found = [np.asarray(fitted[name]) for name in known if _numeric(fitted[name])]
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no fitted numbers (coef_, or arrays whose name ends "
            "with '_'), so there is nothing to compare."
        )
    return np.concatenate([part.astype(np.float64).ravel() for part in found])


def models_of_classes(model: Any) -> NDArray[np.float64] | None:
    """Return the weights of each class, one per row; None if there are no such weights."""
    if getattr(model, "steps", None):
        return models_of_classes(model.steps[-1][1])
    if "estimators_" in vars(model):
        rows = [numbers(part) for part in model.estimators_]
        return np.array(rows) if len({row.size for row in rows}) == 1 else None
    weights = np.asarray(getattr(model, "coef_", 0.0), dtype=np.float64)
    if weights.ndim != 2:
        return None
    intercepts = np.asarray(getattr(model, "intercept_", 0.0), dtype=np.float64)
    return np.column_stack([weights, np.resize(intercepts, len(weights))])


def _numeric(value: Any) -> bool:
    return (
        isinstance(value, (float, np.ndarray, np.floating)) and np.asarray(value).dtype.kind in "f"
    )


@dataclass(frozen=True)
class Observation:
    """Output and randomness of one fit.

    Attributes
    ----------
    output
        A digest of its numbers; None if they may repeat by chance: all coefficients are zero, or
        the fit asked only for choices among a few candidates.
    words
        The random 64-bit words that it drew, where they could be recorded.
    """

    output: str | None
    words: NDArray[np.uint64]


def observe(estimator: Any, table: Table) -> Observation:
    """Fit ``estimator`` as it is and return the observation."""
    transcript = Transcript()
    with watching(transcript), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(*table)
    return observed(estimator, transcript)


def observed(model: Any, transcript: Transcript) -> Observation:
    """Return the observation of a fitted model and the transcript of its fit."""
    few = bool(transcript.questions) and transcript.questions <= CHOICES
    output = None
    if np.any(numbers(model, ("coef_",))) and not few:
        output = hashlib.sha256(numbers(model).tobytes()).hexdigest()
    words = np.concatenate([np.zeros(0, dtype=np.uint64), *transcript.words])
    return Observation(output, words)


def seen_twice(seen: list[Observation]) -> str | None:
    """Describe what is repeated in fits that must have nothing in common; None if nothing is.

    Two of m independent 64-bit words are equal with probability below m²/2⁶⁵: 4e-9 for half a
    million. Outputs with continuous noise on a grid are less likely still to come again.
    """
    words = np.concatenate([one.words for one in seen])
    repeated = words.size - np.unique(words).size
    if repeated:
        return f"{repeated} of {words.size} random words of the noise occurred more than once"
    outputs = [one.output for one in seen if one.output is not None]
    if len(set(outputs)) < len(outputs):
        return f"{len(outputs)} fits gave only {len(set(outputs))} different outputs"
    return None
