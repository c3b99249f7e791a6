"""The privacy promise of a fit, as plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Self

from discreet.accounting import recompute
from discreet.accounting.budget import Measure, Relation
from discreet.accounting.objective_perturbation import ObjectivePerturbation
from discreet.accounting.subsampling import SampledGaussian
from discreet.core.mechanisms import (
    ExponentialMechanism,
    Gaussian,
    L2Norm,
    Laplace,
    LaplaceNoisyMax,
    PermuteAndFlip,
)
from discreet.guarantee_file import SECURE, TEST_MODE, Use, from_plain, to_plain
from discreet.page import note
from discreet.statement import details, sentences, steps_outside

_ADDITIVE = (Gaussian, L2Norm, Laplace, ObjectivePerturbation, SampledGaussian)
_SELECTIONS = (ExponentialMechanism, LaplaceNoisyMax, PermuteAndFlip)
_MECHANISMS: dict[str, Any] = {kind.name: kind for kind in (*_ADDITIVE, *_SELECTIONS)}
"""Mechanisms that `Guarantee.from_dict` can build again by name."""


@dataclass(frozen=True)
class Guarantee:
    """The privacy promise of one fit; ``print`` states it, `explain` has the details.

    Attributes
    ----------
    epsilon, delta, relation
        The promise: (ε, δ)-differential privacy under this relation.
    measure, rho, mu
        How it was composed, and the total in that measure (ρ of zCDP or μ of Gaussian DP). When
        answers decide how the budget is spent, this total is what holds, not what was used of it.
    conditions
        What the proof rests on.
    public
        What was treated as known to everybody and is not protected.
    secure
        False if a seed was fixed: then the noise is predictable and nothing is protected.
    mechanisms
        What was run and how often; `event` is the same for `dp_accounting`.
    earlier_fits
        Number of fits in this process before it. If they used the same people, their promises add
        up with this one.
    split
        How the budget was shared out: (part, share), in the measure that composes. Empty if all of
        it went into the model.
    unit, rows_per_unit
        The privacy unit: what neighbouring data sets differ in. ``"row"``, or ``"person"`` with all
        of their rows; ``rows_per_unit`` is the number of rows from which a person counts fully.
    n_units
        Number of units in the fit, which is public; None if it was not noted.

    Privacy
    -------
    Holds for this one fit. Further fits on the same people add to it: count them with a `Ledger`.
    """

    epsilon: float
    delta: float
    relation: Relation
    measure: Measure | None
    rho: float | None
    mu: float | None
    conditions: tuple[str, ...]
    public: tuple[str, ...]
    secure: bool
    mechanisms: tuple[Use, ...]
    earlier_fits: int = 0
    split: tuple[tuple[str, float], ...] = ()
    unit: str = "row"
    rows_per_unit: int = 1
    n_units: int | None = None

    @property
    def private(self) -> bool:
        """False for a baseline that was computed without protection (ε is then infinite)."""
        return math.isfinite(self.epsilon)

    @property
    def numeric(self) -> str:
        """Source of the noise: how it is computed, and from which bits."""
        return SECURE if self.secure else TEST_MODE

    @property
    def event(self) -> Any:
        """The mechanisms as a `dp_accounting` event; how to use it: docs/proofs/recompute.md."""
        return recompute.event(self)

    def recompute(self) -> float:
        """Return the ε at this δ that an independent accountant finds for the mechanisms.

        The accountant is dp-accounting, or, where it has no such mechanism, a formula that is
        written independently of the one that the fit was calibrated with.
        """
        return recompute.recomputed_epsilon(self)

    def __str__(self) -> str:
        """State the promise in two sentences."""
        return sentences(self)

    def _repr_html_(self) -> str:
        held = self.private and self.secure
        title = f"ε = {self.epsilon:g}, δ = {self.delta:g}" if held else "Not private"
        leaks = held and bool(steps_outside(self))
        title += ", and parts outside the budget" if leaks else ""
        more = f"<pre>{escape(self.explain())}</pre>"
        return note(title, str(self), more=more, alarm=leaks or not held)

    def explain(self) -> str:
        """Return the promise with its details: composition, conditions, public facts, noise."""
        return details(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as data that JSON can hold."""
        return to_plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the result of `to_dict`; a ``ValueError`` says what is wrong with anything else.

        Mechanisms of discreet are built again, so that `event` works; others are kept as
        `Recorded`. Nothing is proven by reading: the numbers are as good as their source.
        """
        return cls(**from_plain(data, _MECHANISMS))

    def to_json(self, indent: int | None = 2) -> str:
        """Return all of it as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)
