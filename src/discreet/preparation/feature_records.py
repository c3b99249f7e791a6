"""Expansions of columns as plain data, for model files."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from discreet.preparation.features import EXPANSIONS, Expansion


def to_plain(expansion: Expansion | None) -> dict[str, Any] | None:
    """Return an expansion as plain data."""
    if expansion is None:
        return None
    values = {each.name: getattr(expansion, each.name) for each in fields(expansion)}  # type: ignore[arg-type]
    return {"kind": expansion.name, **{key: np.asarray(v).tolist() for key, v in values.items()}}


def from_plain(data: dict[str, Any] | None) -> Expansion | None:
    """Return the expansion that `to_plain` was called on; anything else is a ``ValueError``."""
    if data is None:
        return None
    settings = dict(data)
    kind = EXPANSIONS.get(settings.pop("kind", None))
    names = [] if kind is None else [each.name for each in fields(kind)]  # type: ignore[arg-type]
    if kind is None or set(settings) != set(names):
        raise ValueError("the features must be those of splines or fourier, with all entries.")
    return kind(**settings)
