"""From scores to probabilities: undoing what clipping and noise do to them.

All of it is computed from the released model and public numbers: post-processing, nothing private.
docs/auto.md has the reasons and what it gains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["Link"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Link:
    """How scores of a logistic model with clipped gradients become probabilities.

    A row whose gradient was clipped pulled with a slope of at most c instead of 1 − σ(m) or σ(m),
    m being its score. Where these pulls balance, the chance of the second class is

        p = min(σ, c) / (min(σ, c) + min(1 − σ, c)),

    not σ: clipping makes scores too sure. Noise of variance v in a score does so, too; averaged
    over it, a score counts m/√(1 + πv/8) (MacKay 1992).

    Attributes
    ----------
    slope
        c for a row of usual length; below 1/2 it counts as 1/2, so that p grows with m everywhere.
    noise
        v for such a row.
    """

    slope: float = 1.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no fit could have."""
        for name, least in (("slope", 1e-12), ("noise", 0.0)):
            value = getattr(self, name)
            number = isinstance(value, float | int) and not isinstance(value, bool)
            if not (number and least <= value < math.inf):
                raise ValueError(f"the {name} of a link must be a finite number >= {least:g}.")
            object.__setattr__(self, name, float(value))

    @classmethod
    def of(cls, clip: float, deviation: float, norm: float) -> Self:
        """The link for rows of a usual norm, gradients clipped to ``clip``, and noisy weights."""
        length = math.hypot(norm, 1.0)
        return cls(min(1.0, clip / length), (deviation * length) ** 2)

    def positive(self, scores: FloatArray) -> FloatArray:
        """The probability of the second class."""
        shrunk = scores / math.sqrt(1 + math.pi * self.noise / 8)
        most = max(self.slope, 0.5)
        second, first = np.minimum(expit(shrunk), most), np.minimum(expit(-shrunk), most)
        return second / (second + first)

    def to_dict(self) -> dict[str, float]:
        """All of it as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The link that `to_dict` was called on; anything else is a ``ValueError``."""
        if not isinstance(data, Mapping) or set(data) != {"slope", "noise"}:
            raise ValueError("a link has exactly the entries: slope, noise.")
        return cls(**data)
