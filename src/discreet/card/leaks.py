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
        "PolynomialCountSketch", "PolynomialFeatures", "AdditiveChi2Sampler",
    }
)  # fmt: skip
"""Steps of scikit-learn whose fit uses the shape of X alone."""

_ENCODERS = frozenset({"OneHotEncoder", "OrdinalEncoder"})
"""Steps that learn nothing but categories, which may be given."""


def leaky_steps(pipeline: Any) -> Iterator[Any]:
    """Yield the steps before the model of a fitted pipeline that learned from the exact rows."""
    if isinstance(pipeline, Pipeline) and pipeline.steps:
        for _, step in pipeline.steps[:-1]:
            yield from _leaky(step)
        yield from leaky_steps(pipeline.steps[-1][1])


def _leaky(step: Any) -> Iterator[Any]:
    """Yield a step, or those inside of it, if they learned from the exact rows."""
    if step is None or isinstance(step, str):
        return
    parts: Any = None
    if isinstance(step, Pipeline):
        parts = step.steps
    elif isinstance(step, FeatureUnion):
        parts = step.transformer_list
    elif isinstance(step, ColumnTransformer):  # which fits copies
        parts = getattr(step, "transformers_", step.transformers)
    if parts is not None:
        for part in parts:
            yield from _leaky(part[1])
    elif not _learns_nothing(step):
        yield step


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
    constant = settings.get("strategy") == "constant" and not settings.get("add_indicator")
    return constant or np.ndim(settings.get("knots", "")) == 2
