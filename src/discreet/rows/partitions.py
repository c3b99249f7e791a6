"""Rows in partitions that live elsewhere: the same questions, answered by adding up.

An `Engine` runs small tasks where the partitions are. A partition there is `Rows` with the public
size of the whole table, so the error bound of its sums is that of the total. The client never sees
a row. Proof: docs/proofs/summation.md, part 5, and docs/proofs/partitions.md.
"""

# ruff: noqa: D102  methods are documented in `discreet.rows.Rows`

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import NotSupported, PrivacyError
from discreet.rows.bounds import UNIT_ROUNDOFF
from discreet.rows.certified import perturbed_gradient
from discreet.rows.data import SOLVERS_OF_SUMS
from discreet.rows.moments import Counts
from discreet.rows.rows import Rows, Summed, as_rows
from discreet.rows.sums import Sum
from discreet.rows.table import tree_total
from discreet.rows.units import Unit
from discreet.validate import FloatArray

Handle = Any
"""A partition as its engine names it; nothing is asked of it."""


class Engine(Protocol):
    """Runs tasks where the partitions live. Tasks can be pickled, and what they return is small."""

    def map(self, task: Callable[[Any], Any], parts: Sequence[Handle]) -> Iterable[tuple[int, Any]]:
        """Call the task on each partition; return (id of the partition, result), in any order."""

    def derive(self, task: Callable[[Any], Any], parts: Sequence[Handle]) -> Sequence[Handle]:
        """Call the task on each partition; the results are new partitions, in the same order."""

    def release(self, parts: Sequence[Handle]) -> None:
        """Forget partitions that were derived."""


class Block(NamedTuple):
    """A partition before it is `Rows`: its id, from 0 on, a table, targets and weights or None.

    ``units`` is what an engine keeps to make weights of.
    """

    id: int
    X: Any
    y: Any
    weights: Any = None
    units: Any = None


class Partition(NamedTuple):
    """A partition where it lives. ``version`` names the derivation that made it."""

    id: int
    version: str
    rows: Rows


class Reply(NamedTuple):
    """A partition's answer, with what shows that it is the answer to this question."""

    id: int
    version: str
    ticket: str
    value: Any


@dataclass(frozen=True)
class Build:
    """Make `Rows` of a block: the arguments of `as_rows`, the public size that of all blocks."""

    version: str
    fit_intercept: bool
    row_norm: float | None
    public_size: int

    def __call__(self, block: Block) -> Partition:
        settings: Any = {"fit_intercept": self.fit_intercept, "row_norm": self.row_norm}
        settings |= {"weights": block.weights, "public_size": self.public_size}
        return Partition(block.id, self.version, as_rows(block.X, block.y, **settings))


@dataclass(frozen=True)
class Ask:
    """Call a method of the rows, or read an attribute: an answer with this ticket."""

    ticket: str
    name: str
    arguments: tuple[Any, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    def __call__(self, part: Partition) -> Reply:
        value = getattr(part.rows, self.name)
        if callable(value):
            value = value(*self.arguments, **self.settings)
        return Reply(part.id, part.version, self.ticket, value)


@dataclass(frozen=True)
class Answer:
    """Answer questions about the rows of a partition: a list, with this ticket."""

    ticket: str
    questions: tuple[Summed, ...]

    def __call__(self, part: Partition) -> Reply:
        return Reply(part.id, part.version, self.ticket, part.rows.answer(self.questions))


@dataclass(frozen=True)
class Derive:
    """Make a partition of the rows that a method returns, with the ticket as its version."""

    ask: Ask

    def __call__(self, part: Partition) -> Partition:
        reply = self.ask(part)
        return Partition(part.id, reply.ticket, reply.value)


@dataclass(frozen=True)
class Take:
    """Make a partition of the named rows of each, by its id, with the ticket as its version."""

    ticket: str
    index: Sequence[NDArray[np.intp]]

    def __call__(self, part: Partition) -> Partition:
        return Partition(part.id, self.ticket, part.rows.take(self.index[part.id]))


def _pairwise(values: Sequence[FloatArray]) -> FloatArray:
    """Add up the partitions' values pairwise, in the order of their ids."""
    return tree_total((0, id, np.array(value)) for id, value in enumerate(values))


def _agreed(what: str, values: Sequence[Any]) -> Any:
    """Return the value that all partitions gave."""
    if any(value != values[0] for value in values):
        raise PrivacyError(f"Partitions disagree on {what}; nothing was released.")
    return values[0]


def _sum(answers: list[Sum]) -> Sum:
    """Add up sums; the bound of each is that of the total."""
    error = _agreed("error bounds", [answer.error for answer in answers])
    return Sum(_pairwise([answer.values for answer in answers]), error)


def _counts(answers: list[Counts]) -> Counts:
    """Add up counts, exactly, in the finest unit: rows without weights count 1."""
    unit = max(answer.unit for answer in answers)
    values = np.array([answer.values * (unit // answer.unit) for answer in answers])
    return Counts(values.sum(axis=0), unit)


def added(answers: list[Any]) -> Sum | Counts:
    """Add up the partitions' answers to one question."""
    if all(isinstance(answer, Counts) for answer in answers):
        return _counts(answers)
    return _sum(answers)


Combined = TypeVar("Combined")


def _asked(name: str, combine: Callable[[list[Any]], Combined]) -> Callable[..., Combined]:
    """Return the method that asks all partitions and combines their answers."""

    def ask(self: PartitionedRows, *arguments: Any, **settings: Any) -> Combined:
        return combine(self.answers(name, *arguments, **settings))

    return ask


def _derived(name: str) -> Callable[..., PartitionedRows]:
    """Return the method that makes other rows of every partition, by a method of `Rows`."""

    def ask(self: PartitionedRows, *arguments: Any, **settings: Any) -> PartitionedRows:
        task = Ask(secrets.token_hex(8), name, arguments, settings)
        return self.derive(Derive(task), task.ticket)

    return ask


def _refused(what: str) -> Callable[..., NoReturn]:
    """Return the method that refuses what needs single rows."""

    def ask(self: PartitionedRows, *arguments: Any, **settings: Any) -> NoReturn:
        raise NotSupported(f"{what} of a table in partitions is not supported. {SOLVERS_OF_SUMS}")

    return ask


@dataclass(frozen=True, eq=False)
class PartitionedRows:
    """Rows in partitions; made by `partitioned_rows`. Answers are those of `Rows`, added up.

    `with_targets` takes a picklable function from a partition's own targets to others. What needs
    single rows, or their order, is refused.
    """

    engine: Engine
    parts: Sequence[Handle]
    version: str
    public_size: int = 0
    row_norm: float | None = None
    fit_intercept: bool = True
    n_features: int = 0
    n_parameters: int = 0
    dense: bool = True
    unit: Unit = "row"

    objective_sum = _asked("objective_sum", lambda answers: float(_pairwise(answers)))
    hessian_sum = _asked("hessian_sum", _pairwise)
    hessian_product = _asked("hessian_product", _pairwise)
    hessian_diagonal = _asked("hessian_diagonal", _pairwise)
    certified_sum = _asked("certified_sum", _sum)
    perturbed_gradient = perturbed_gradient

    with_targets = _derived("with_targets")
    with_row_norm = _derived("with_row_norm")
    with_units = _derived("with_units")
    transformed = _derived("transformed")
    columns = _derived("columns")
    within_reach = _derived("within_reach")

    check_batches = _refused("Batches of rows")
    check_sampling = _refused("Samples of units")
    batch_error = _refused("Batches of rows")
    descend = _refused("Descent by batches")
    take = _refused("A choice of rows")
    take_units = _refused("A choice of units")

    @property
    def n_rows(self) -> int:
        return self.public_size

    @property
    def n_units(self) -> int:
        return self.public_size

    @property
    def grouped(self) -> bool:
        return any(self.answers("grouped"))

    def sample(self, rate: float, generator: np.random.Generator) -> PartitionedRows:
        """Draw the Poisson sample that `Rows.sample` draws of the same rows in one table."""
        if self.grouped:
            raise NotSupported(
                f"A sample of units in partitions is not supported. {SOLVERS_OF_SUMS}"
            )
        ends = np.cumsum(self.answers("n_rows"))
        drawn = generator.random(ends[-1]) + UNIT_ROUNDOFF <= rate
        index = [np.flatnonzero(part) for part in np.split(drawn, ends[:-1])]
        task = Take(secrets.token_hex(8), index)
        return self.derive(task, task.ticket)

    def release(self) -> None:
        """Let the engine forget these partitions."""
        self.engine.release(self.parts)

    def derive(self, task: Callable[[Any], Partition], version: str) -> PartitionedRows:
        """Make other partitions; what is public about them must agree."""
        new = replace(self, parts=self.engine.derive(task, self.parts), version=version)
        return replace(new, **_agreed("what is public", new.answers("public_facts")))

    def answer(self, questions: Sequence[Summed]) -> list[Any]:
        """Return the exact answer to each question: those of the partitions, added up."""
        found = self._replies(Answer(secrets.token_hex(8), tuple(questions)))
        return [added([part[at] for part in found]) for at in range(len(questions))]

    def answers(self, name: str, *arguments: Any, **settings: Any) -> list[Any]:
        """Ask every partition; return one answer of each, in the order of their ids."""
        return self._replies(Ask(secrets.token_hex(8), name, arguments, settings))

    def _replies(self, task: Ask | Answer) -> list[Any]:
        """Run a task on every partition; return the value of each, in the order of their ids.

        *Privacy.* An answer that is missing, repeated, or of another partition, derivation or
        question would break the sensitivity of a sum: then nothing is returned.
        """
        ids = range(len(self.parts))
        found: dict[int, Any] = {}
        for id, reply in self.engine.map(task, self.parts):
            if not isinstance(reply, Reply) or reply[:3] != (id, self.version, task.ticket):
                raise PrivacyError("A partition's answer is not to this question.")
            if id in found or id not in ids:
                raise PrivacyError("A partition answered twice, or is not of this table.")
            found[id] = reply.value
        if len(found) != len(ids):
            raise PrivacyError("A partition did not answer; nothing was released.")
        return [found[id] for id in ids]


def partitioned_rows(
    engine: Engine,
    blocks: Sequence[Handle],
    *,
    public_size: int,
    fit_intercept: bool = True,
    row_norm: float | None = None,
) -> PartitionedRows:
    """Make rows of what an engine holds, each a `Block`, whose ids are 0, 1, … in order.

    Settings are those of `as_rows`; the public size is that of the whole table.
    """
    if not len(blocks):
        raise ValueError("a table in partitions needs at least one partition.")
    task = Build(secrets.token_hex(8), fit_intercept, row_norm, public_size)
    rows = PartitionedRows(engine, blocks, task.version).derive(task, task.version)
    if sum(rows.answers("total_weight")) > public_size * (1 + 1e-9):
        raise PrivacyError("The rows of all partitions are more than public_size.")
    return rows
