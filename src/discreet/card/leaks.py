"""Steps of a pipeline that learned from the exact rows, outside any budget.

A pipeline of scikit-learn may fit a scaler, an imputer or an encoder to the same rows as a private
model. The model's guarantee says nothing about what these steps learned. They are found here by
their settings and kinds; nothing reads a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

_BLIND = frozenset(
    {
        "GaussianRandomProjection", "SparseRandomProjection", "RBFSampler", "SkewedChi2Sampler",
        "PolynomialCountSketch", "PolynomialFeatures", "AdditiveChi2Sampler", "MinHashEncoder",
    }
)  # fmt: skip
"""Steps of scikit-learn and skrub whose fit uses the shape of X alone."""

_SELECTORS = frozenset({"SelectCols", "DropCols"})
"""Steps of skrub that choose columns: by their names, or by a rule that may depend on cells."""

_APPLIERS = frozenset({"ApplyToCols", "ApplyToFrame", "ApplyToEachCol", "ApplyToSubFrame"})
"""Steps of skrub that fit copies of a transformer to columns."""

_ENCODERS = frozenset({"OneHotEncoder", "OrdinalEncoder"})
"""Steps that learn nothing but categories, which may be given."""


def leaky_steps(pipeline: Any) -> Iterator[Any]:
    """Yield the steps before the model of a fitted pipeline that learned from the exact rows."""
    if isinstance(pipeline, Pipeline) and pipeline.steps:
        for _, step in pipeline.steps[:-1]:
            yield from _leaky(step)
        yield from leaky_steps(pipeline.steps[-1][1])


def steps_of(step: Any) -> Iterator[Any]:
    """Yield a step and all steps inside of it; those of a column transformer as they were fitted.

    A fitted pipeline is a step, too.
    """
    yield step
    for _, inner in _parts(step) or ():
        yield from steps_of(inner)


def _leaky(step: Any) -> Iterator[Any]:
    """Yield a step, or those inside of it, if they learned from the exact rows."""
    if step is None or isinstance(step, str):
        return
    parts = _parts(step)
    if parts is not None:
        for _, inner in parts:
            yield from _leaky(inner)
    elif not _learns_nothing(step):
        yield step


def _parts(step: Any) -> list[tuple[str, Any]] | None:
    """Return names and steps inside of a step; None if it is a single one."""
    if isinstance(step, Pipeline):
        return list(step.steps)
    if isinstance(step, FeatureUnion):
        return list(step.transformer_list)
    if isinstance(step, ColumnTransformer):  # which fits copies
        return [part[:2] for part in getattr(step, "transformers_", step.transformers)]
    if type(step).__name__ in _APPLIERS and hasattr(step, "transformer"):
        fitted = getattr(step, "transformers_", None)
        return list(fitted.items()) if fitted else [("", step.transformer)]
    return None


def _learns_nothing(step: Any) -> bool:
    """Return whether a step is private, or does not depend on the values of rows."""
    paid = hasattr(step, "guarantee_") or getattr(step, "within_budget", False)
    if paid or type(step).__name__ in _BLIND or not get_tags(step).requires_fit:
        return True
    settings = step.get_params(deep=False) if hasattr(step, "get_params") else {}
    if type(step).__name__ in _ENCODERS:
        given = settings.get("categories", "auto")
        rare = (settings.get("min_frequency"), settings.get("max_categories"))
        return not isinstance(given, str) and rare == (None, None)
    if type(step).__name__ in _SELECTORS:
        chosen = settings.get("cols")
        names = [chosen] if isinstance(chosen, str) else chosen
        return isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    constant = settings.get("strategy") == "constant" and not settings.get("add_indicator")
    return constant or np.ndim(settings.get("knots", "")) == 2
