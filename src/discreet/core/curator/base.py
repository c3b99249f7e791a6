"""The curator: the only code that sees rows, and it charges before it looks.

A solver asks; the curator checks the question (nothing is spent on a bad one), charges the filter,
computes on the rows, adds noise, and hands back the noisy answer alone. Exact values stay in
attributes that start with an underscore and never appear in an answer, an error or a log line.

Proofs: docs/proofs/curator.md, and the page of each mechanism.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Self

import numpy as np

from discreet.accounting.budget import Measure, Relation
from discreet.accounting.conversions import Conversion
from discreet.core.account import Account
from discreet.core.curator.checks import finite
from discreet.core.curator.protocols import FloatArray, Rows
from discreet.core.filters import PlannedStep, PrivacyFilter, Unique
from discreet.core.noise import Noise
from discreet.errors import PrivacyError

__all__ = ["CuratorBase"]


class CuratorBase(Unique):
    """What every question rests on: the rows, the noise, and a filter that is charged first.

    Its parameters are those of `discreet.core.curator.Curator`.
    """

    def __init__(
        self, rows: Rows, account: Account, noise: Noise, share: Fraction = Fraction(1)
    ) -> None:
        self._rows = rows
        self._account = account
        self._noise = noise
        self._share = share
        self._n_rows = rows.n_rows
        self._filter: PrivacyFilter | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows of the whole table (public; that of a sample of it is not)."""
        return self._n_rows

    @property
    def n_parameters(self) -> int:
        """Number of weights (public)."""
        return self._rows.n_parameters

    @property
    def relation(self) -> Relation:
        """The relation that every answer is protected under."""
        return self._account.budget.relation

    @property
    def n_models(self) -> int:
        """Among how many models the fit's budget is shared; this curator serves one of them."""
        return int(1 / self._share)

    @property
    def spent_share(self) -> float:
        """Share of this curator's budget that is spent; a function of earlier answers only."""
        return self._open_filter.spent_share

    @property
    def _open_filter(self) -> PrivacyFilter:
        if self._filter is None:
            raise PrivacyError("Call curator.open(measure) before asking for private answers.")
        return self._filter

    def open(self, measure: Measure, conversion: Conversion = "tight") -> float:
        """Choose, once, the measure to compose in; returns this curator's total in its unit."""
        self._refuse_open()
        self._filter = self._account.open(measure, conversion, self._share)
        return float(self._filter.total)

    def open_plan(self, step: PlannedStep, count: int) -> None:
        """Spend this curator's budget on at most ``count`` uses of one mechanism, nothing else.

        For mechanisms that only compose well as a whole (amplification by sampling): the account
        checks that all models' steps together keep the budget before it opens.
        """
        self._refuse_open()
        self._filter = self._account.open_plan(step, count, self._share)

    def _refuse_open(self) -> None:
        if self._filter is not None:
            raise PrivacyError("This curator's budget is already open.")

    def sample(self, rate: float) -> Self:
        """A curator for a fresh Poisson sample of the rows, on the same budget.

        Privacy
        -------
        No amplification is claimed: whatever the sample, a row is in it at most once, so every
        answer has the sensitivity it has on all rows. The sample is drawn independently of the
        rows' values, so its randomness needs no protection; its size stays inside.
        """
        if not 0 < rate <= 1:
            raise ValueError(f"rate must be in (0, 1]; got {rate!r}.")
        filter_ = self._open_filter
        part = type(self)(
            self._rows.sample(rate, self.generator()), self._account, self._noise, self._share
        )
        part._filter = filter_
        part._n_rows = self._n_rows
        return part

    def generator(self) -> np.random.Generator:
        """A fresh generator for randomness that nobody's privacy rests on, such as proposals.

        It is seeded from the curator's bits, so a fit with a fixed seed repeats it.
        """
        return np.random.default_rng([int(word) for word in self._noise.bits.words(4)])

    def _vector(self, name: str, value: FloatArray, n_outputs: int = 1) -> FloatArray:
        vector = finite(name, value)
        size = n_outputs * self.n_parameters
        if vector.shape != (size,):
            raise ValueError(f"{name} must have shape ({size},); got {vector.shape}.")
        return vector
