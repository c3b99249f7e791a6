"""A session: the budget, unit, ledger and noise of one fit, evaluation, draft or tuning.

Everything that releases numbers about rows starts here. A session makes its account and its noise
and hands out curators, so that nothing outside of this package opens an account or draws noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any, Final

import numpy as np

from discreet.accounting.budget import Budget
from discreet.core.account import Account, Chargeable, Unique
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.core.curator import Curator
from discreet.core.noise import Noise
from discreet.rows.rows import AskedRows
from discreet.rows.units import Unit


def bits_of(random_state: Any) -> Bits:
    """Return random bits: of the operating system, or of a seed, which protects nobody."""
    if random_state is None:
        return SystemBits()
    if isinstance(random_state, Integral):
        random_state = np.random.RandomState(int(random_state))
    if not isinstance(random_state, np.random.RandomState):
        raise ValueError(
            "random_state must be None, an integer or a numpy.random.RandomState; got "
            f"{type(random_state).__name__}."
        )
    return SeededBits(int(random_state.randint(0, 2**31 - 1)))


@dataclass(frozen=True)
class Stream:
    """A source of noise for one curator: whoever holds it cannot draw from it."""

    _bits: Bits


class Session(Unique):
    """The account and the noise of one release, and the curators that share them.

    Parameters
    ----------
    budget : Budget
        What may be spent.
    unit : {"row", "person"}
        Privacy unit that is promised; rows of another unit are refused.
    ledger : Chargeable, optional
        It is charged for the whole budget before the first filter opens.
    bits : Bits, optional
        Source of all randomness; bits of the operating system by default.

    Attributes
    ----------
    secure : bool
        True if the noise comes from the operating system, not from a seed.
    """

    _kind: type[Curator] = Curator

    def __init__(
        self,
        budget: Budget,
        unit: Unit = "row",
        *,
        ledger: Chargeable | None = None,
        bits: Bits | None = None,
    ) -> None:
        self.account = Account(budget, ledger, unit)
        self.bits: Final = SystemBits() if bits is None else bits
        self.secure = self.bits.secure

    def streams(self, count: int) -> list[Stream]:
        """Return ``count`` independent sources of noise, one for each curator to come."""
        return [Stream(bits) for bits in self.bits.spawn(count)]

    def curator(
        self,
        rows: AskedRows,
        stream: Stream | None = None,
        share: Fraction = Fraction(1),
        n_rows: int | None = None,
    ) -> Curator:
        """Return a curator of rows for a share of the budget, with a stream of its own.

        Privacy
        -------
        The rows were made with the unit of this session, or nothing is read. The account sees to it
        that all shares together are at most 1.
        """
        if stream is None:
            [stream] = self.streams(1)
        return self._kind(rows, self.account, Noise(stream._bits), share, n_rows)
