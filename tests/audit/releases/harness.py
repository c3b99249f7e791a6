"""A harness for single answers: one question, asked of the real code again and again.

A budget that is never exhausted stands behind the curator, so that one of them answers all trials.
What rows add up to is computed once a table: it has no randomness. Questions about sums over rows
and columns are asked of a table in which the changed row stands many times, each copy with columns
of its own: a row lies in one copy and noise is drawn for each column, so one answer is as many
trials as there are copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.accounting.conversions import mu_from_epsilon
from discreet.audit.attack import Attack, Statistic
from discreet.core import Account, Budget, Curator, Relation
from discreet.core.bits import Bits
from discreet.rows import as_rows
from tests.audit.internals import Noise

__all__ = ["BEYOND", "COPIES", "Ask", "FloatArray", "Harness", "Table"]
__all__ += ["against", "changed", "copied", "projection"]

FloatArray = NDArray[np.float64]
Table = tuple[Any, FloatArray]
Ask = Callable[[Curator], FloatArray]

ENDLESS = 1e9
"""The ε behind a curator: what is attacked is a single answer, again and again."""

COPIES = 500
"""Copies of the changed row that one answer about sums is asked for."""

BEYOND = 5.0
"""How many times longer than the clip a row is: that clips are kept is a part of the promise."""


class _Remembered:
    """Rows that compute each of their sums once: asked again, they would say the same."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self._known: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._rows, name)
        if not name.endswith(("_sum", "_losses", "_gradient", "norms")):
            return found

        def remembered(*arguments: Any, **settings: Any) -> Any:
            # every draw asks one question with the same arguments
            if name not in self._known:
                self._known[name] = found(*arguments, **settings)
            return self._known[name]

        return remembered


@dataclass(frozen=True)
class Harness:
    """The promise that answers are made to give, and where noise comes from."""

    epsilon: float
    delta: float
    bits: Bits

    @property
    def mu(self) -> float:
        """The μ of Gaussian answers that promise just that."""
        return mu_from_epsilon(self.epsilon, self.delta)

    def noise(self) -> Noise:
        """Noise of a stream of its own."""
        return Noise(self.bits.spawn(1)[0])

    def curator(
        self, table: Table, relation: Relation, *, norm: float | None = None, remember: bool = True
    ) -> Curator:
        """A curator that can be asked as often as one likes."""
        X, y = table
        rows: Any = as_rows(X, y, fit_intercept=False, row_norm=norm)
        account = Account(Budget(ENDLESS, 1e-6, relation))
        return Curator(_Remembered(rows) if remember else rows, account, self.noise())

    def attack(
        self,
        subject: str,
        pair: str,
        relation: Relation,
        draw: Callable[[int, int], FloatArray],
        *,
        pure: bool = True,
        learn: bool = False,
        epsilon: float | None = None,
        **statistics: Statistic,
    ) -> Attack:
        """An attack on what the harness promises: at δ = 0 if it is pure."""
        named = {name.replace("_", " "): statistic for name, statistic in statistics.items()}
        return Attack(
            subject=subject,
            pair=pair,
            epsilon=self.epsilon if epsilon is None else epsilon,
            delta=0.0 if pure else self.delta,
            relation=relation,
            draw=draw,
            statistics=named,
            learn=learn,
        )

    def asking(
        self,
        tables: tuple[Table, Table],
        relation: Relation,
        ask: Ask,
        *,
        copies: int = 1,
        norm: float | None = None,
    ) -> Callable[[int, int], FloatArray]:
        """Draw by asking a curator until there are enough trials; some answers hold many."""

        def draw(world: int, count: int) -> FloatArray:
            curator = self.curator(tables[world], relation, norm=norm)
            curator.open("gdp")
            answers = [np.reshape(ask(curator), (copies, -1)) for _ in range(-(-count // copies))]
            return np.concatenate(answers)[:count]

        return draw


def projection(direction: FloatArray) -> Statistic:
    """How far an output lies in a direction."""
    return lambda outputs: outputs @ direction


def changed(relation: Relation, row: FloatArray, other: FloatArray | None = None) -> FloatArray:
    """The row of world 0: nothing under add/remove, else the other one, or the same turned."""
    if relation is Relation.ADD_REMOVE:
        return np.zeros_like(row)
    return -row if other is None else other


def copied(row: FloatArray, copies: int) -> Table:
    """A table in which a row stands many times, each copy with columns of its own."""
    return sp.csr_array(sp.kron(sp.eye(copies), row[None, :])), np.ones(copies)


def against(relation: Relation) -> str:
    """What stands in a row's place in world 0, in words."""
    return "or none" if relation is Relation.ADD_REMOVE else "or the same turned round"
