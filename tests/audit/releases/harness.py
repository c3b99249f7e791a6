"""A harness for single releases: one question, asked of the real code many times.

The curator has a budget that is never exhausted, so that one curator serves all trials. Exact sums
over rows are computed once per table. Questions about sums over rows and columns are asked of a
table with many copies of the changed row, each in columns of its own: a row is in one copy and
noise is independent per column, so one release is one trial per copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from discreet.tables.cell_rows import CellRows
from discreet.tables.schema import Schema
from discreet.tables.source import source
from tests.audit.checks.transcript import describe
from tests.audit.internals import Noise

__all__ = ["BEYOND", "COPIES", "UNLIMITED", "Ask", "FloatArray", "Harness", "Table"]
__all__ += ["against", "changed", "copied", "projection"]

FloatArray = NDArray[np.float64]
Table = tuple[Any, FloatArray]
Ask = Callable[[Curator], FloatArray]

UNLIMITED = 1e9
"""The ε of the curator's budget, which many releases share."""

COPIES = 500
"""Copies of the changed row in one release of a sum."""

BEYOND = 5.0
"""Norm of a row, in units of the clip: the guarantee covers the clipping."""


class _CachedRows:
    """Rows that answer each question once, and repeat the exact answer after that."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self._known: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        """Return the exact answers, in order."""
        texts = [describe(question) for question in questions]
        new = [at for at, text in enumerate(texts) if text not in self._known]
        for at, exact in zip(new, self._rows.answer([questions[at] for at in new]), strict=True):
            self._known[texts[at]] = exact
        return [self._known[text] for text in texts]


@dataclass(frozen=True)
class Harness:
    """The guarantee of each release, and the source of noise."""

    epsilon: float
    delta: float
    bits: Bits

    @property
    def mu(self) -> float:
        """Return the μ of Gaussian releases with this guarantee."""
        return mu_from_epsilon(self.epsilon, self.delta)

    def noise(self) -> Noise:
        """Return noise from a new stream."""
        return Noise(self.bits.spawn(1)[0])

    def curator(
        self, table: Table, relation: Relation, *, norm: float | None = None, remember: bool = True
    ) -> Curator:
        """Return a curator that can be asked any number of questions."""
        X, y = table
        rows: Any = as_rows(X, y, fit_intercept=False, row_norm=norm)
        account = Account(Budget(UNLIMITED, 1e-6, relation))
        return Curator(_CachedRows(rows) if remember else rows, account, self.noise())

    def curator_of_cells(self, cells: NDArray[Any], relation: Relation) -> Curator:
        """Return such a curator for a column ``a`` of cells; an exact answer is computed once."""
        rows: Any = CellRows(source({"a": cells}), Schema, None, self.bits)
        account = Account(Budget(UNLIMITED, 0.1, relation))
        curator = Curator(_CachedRows(rows), account, self.noise())
        curator.open("approximate")
        return curator

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
        """Return an attack on the harness's guarantee, at δ = 0 if it is pure."""
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
        """Return a function that asks a curator until there are enough trials."""

        def draw(world: int, count: int) -> FloatArray:
            curator = self.curator(tables[world], relation, norm=norm)
            curator.open("gdp")
            answers = [np.reshape(ask(curator), (copies, -1)) for _ in range(-(-count // copies))]
            return np.concatenate(answers)[:count]

        return draw


def projection(direction: FloatArray) -> Statistic:
    """Return the statistic that projects an output on a direction."""
    return lambda outputs: outputs @ direction


def changed(relation: Relation, row: FloatArray, other: FloatArray | None = None) -> FloatArray:
    """Return the row of world 0: zeros under add/remove, else the other row or the negated one."""
    if relation is Relation.ADD_REMOVE:
        return np.zeros_like(row)
    return -row if other is None else other


def copied(row: FloatArray, copies: int) -> Table:
    """Return a table with many copies of a row, each in columns of its own."""
    return sp.csr_array(sp.kron(sp.eye(copies), row[None, :])), np.ones(copies)


def against(relation: Relation) -> str:
    """Describe what replaces a row in world 0."""
    return "or none" if relation is Relation.ADD_REMOVE else "or its negative"
