"""A zoo of planted bugs: mechanisms that claim more privacy than they give, and repaired twins.

Each was found in published code, in papers, or is the kind of mistake that ordinary code makes. A
bug and its twin differ in nothing but the mistake: they have the same promise, pair, statistics and
number of trials.
"""

from . import (
    accounting,
    noise,
    optimisers,
    pairs,
    preparation,
    randomness,
    sampling,
    selection,
    sensitivity,
    vector_noise,
)
from .planting import Bug

__all__ = ["ZOO", "Bug"]

KINDS = (
    selection,
    vector_noise,
    noise,
    randomness,
    sampling,
    accounting,
    sensitivity,
    preparation,
    optimisers,
    pairs,
)

ZOO: tuple[Bug, ...] = tuple(
    value for kind in KINDS for value in vars(kind).values() if isinstance(value, Bug)
)
"""All bugs, by kind, in the order in which they are written."""
