"""Blocks of rows on workers, and marks that tell whether a block still has the same rows.

A worker holds a block as `Held`: its content, and a mark, which is a keyed hash of the rows as they
came from their source. Every answer carries the mark. `Marks`, on the client, knows the marks of
all blocks and refuses an answer with any other: a block that a cluster lost and read again counts
only if it has the rows that it had. That each block counts exactly once in the answer to a question
is checked by `discreet.rows.partitions`.

Code on a worker raises nothing: the log of a worker, which shows errors with their arguments, is
not a place for rows. A failed task returns an answer that names the problem and shows no cell.

Proof: docs/proofs/partitions.md.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.errors import EngineError, PrivacyError
from discreet.rows.partitions import Block

Task = Callable[[Any], Any]  # a small function that can be pickled, of the content of a block

# A block that is derived counts as this part of the bytes that it was made of. It shares the table
# with up to as many others, but a cluster that took it for small would move it.
SHARED = 4


class Part(NamedTuple):
    """Handle of a block on the client: its id, and what its engine finds it by."""

    id: int
    value: Any


class Answer(NamedTuple):
    """Result of a task for one block, or the ``problem`` that prevented it."""

    id: int
    mark: bytes
    result: Any
    problem: str | None


@dataclass(frozen=True, eq=False, repr=False)
class Held:
    """A block on a worker.

    ``content`` is a `Block`, or what tasks made of it (private); ``size`` is the number of bytes of
    the source, whose mark it keeps. A block that is ``shared`` counts a part of them.
    """

    id: int
    mark: bytes
    content: Any
    size: int
    problem: str | None = None
    shared: int = 1

    @classmethod
    def read(cls, id: int, key: bytes, make: Callable[[], Block]) -> Held:
        """Hold what ``make`` returns, with its mark."""

        def made() -> Held:
            block = make()
            size = sum(array.nbytes for array in _arrays(block))
            return cls(id, mark_of(key, block), laid_out(block), size)

        held, problem = attempted(made)
        return held if problem is None else cls(id, b"", None, 0, problem)

    def numbered(self, id: int) -> Held:
        """Return the block under another id."""
        content = None if self.content is None else self.content._replace(id=id)
        return replace(self, id=id, content=content)

    def derived(self, task: Task) -> Held:
        """Hold what ``task`` makes of the content; it shares the table with this one."""
        if self.problem is not None:
            return self
        content, problem = attempted(lambda: task(self.content))
        return replace(self, content=content, shared=SHARED, problem=problem)

    def answer(self, task: Task) -> Answer:
        """Return the result of ``task`` for the content."""
        result, problem = None, self.problem
        if problem is None:
            result, problem = attempted(lambda: task(self.content))
        return Answer(self.id, self.mark, result, problem)

    def __sizeof__(self) -> int:
        return self.size // self.shared + 256

    def __repr__(self) -> str:
        return f"<block {self.id}>"  # a cluster may show it


@dataclass(eq=False)
class Marks:
    """The client's record of the blocks of a table, by their marks.

    ``key``, fresh for each table, makes marks of the same rows differ: one that is seen in the
    traffic or a log of a cluster says nothing of rows to somebody who has not got the key.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _known: dict[int, bytes] = field(default_factory=dict, repr=False)

    def open(self, answers: Iterable[Answer], again: Iterable[Answer] = ()) -> dict[int, Any]:
        """Take down the blocks that have rows; return the results of all, by id.

        Blocks that have rows are known by their ids' rank among these from now on. If blocks were
        read twice, ``again`` has the answers of the second reading; other marks are refused.
        """
        found = sorted(_sound(answers), key=lambda answer: answer.id)
        if len({answer.id for answer in found}) < len(found):
            raise PrivacyError("A block of rows was returned twice; nothing was released.")
        second = sorted(_sound(again), key=lambda answer: answer.id)
        if second and [each[:2] for each in second] != [each[:2] for each in found]:
            raise PrivacyError(
                "X, y and groups are read one by one, and a second reading gave other rows, or the "
                "same rows in another order: it is not known which target belongs to which row. "
                "Nothing was charged. Take X, y and groups from one dataframe, which is read once, "
                "or store the table first, as Parquet say."
            )
        filled = [answer for answer in found if answer.result]
        self._known = {id: answer.mark for id, answer in enumerate(filled)}
        return {answer.id: answer.result for answer in found}

    def accept(self, answers: Iterable[Answer]) -> list[tuple[int, Any]]:
        """Return (id, result) of each answer, or refuse all of them.

        *Privacy.* Each result was computed on the rows that the block had when it was opened.
        Whether there is one of each block is for `PartitionedRows` to check.
        """
        found = _sound(answers)
        if any(self._known.get(answer.id) != answer.mark for answer in found):
            raise PrivacyError(
                "A block of rows was lost, and reading it again from its source gave other rows. "
                "Nothing was released; what was charged stays spent. Store the table first, as "
                "Parquet say: reading a part of it twice must give the same rows in one order."
            )
        return [(answer.id, answer.result) for answer in found]


def count_rows(block: Block) -> int:
    """Return the number of rows of a block (private, but for the total)."""
    return int(block.X.shape[0])


def laid_out(block: Block) -> Block:
    """Return the block with arrays that kernels can read in place: aligned, dense rows in C order.

    An array that was sent by another worker begins at any byte of a message, and a table that was
    made of a dataframe is often stored by columns. Each question would copy their rows to tiles, so
    they are copied once.
    """
    table: Any = block.X
    sparse: bool = sp.issparse(table)
    if not sparse:
        table = np.require(table, requirements=("C", "A"))
    elif not all(part.flags.aligned for part in (table.data, table.indices, table.indptr)):
        table = table.copy()
    y = block.y
    if isinstance(y, np.ndarray):
        y = np.require(y, requirements="A")
    return block._replace(X=table, y=y)


def lost(engine: str, error: BaseException, advice: str = "") -> EngineError:
    """Return the error for a cluster that gave no answer; its own text could quote rows."""
    return EngineError(
        f"{engine} could not finish a question about the rows ({type(error).__name__}). Nothing "
        "of it was released; what was charged before stays spent. Usual reasons are workers that "
        f"were lost, or a source that cannot be read: see the log of the scheduler.{advice}"
    )


def mark_of(key: bytes, block: Block) -> bytes:
    """Return a keyed hash of rows, targets and units: of their types, shapes and values."""
    digest = hashlib.blake2b(key=key, digest_size=16)
    for array in _arrays(block):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        if array.dtype.hasobject:  # labels: Python's own texts for them
            digest.update(repr(array.tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.digest()


def _arrays(block: Block) -> list[NDArray[Any]]:
    table: Any = block.X
    y = np.asarray(block.y)
    parts = ("data", "indices", "indptr") if sp.issparse(table) else ()
    own = [] if block.units is None else [block.units.codes, block.units.hashes]
    return [*([getattr(table, name) for name in parts] or [table]), y, *own]


def _sound(answers: Iterable[Answer]) -> list[Answer]:
    found = list(answers)
    problems = sorted({answer.problem for answer in found if answer.problem is not None})
    if problems:  # how many blocks have which is private
        raise ValueError(problems[0])
    return found


def attempted(work: Callable[[], Any]) -> tuple[Any, str | None]:
    """Return (result, None), or (None, what went wrong) in words that show no cell."""
    try:
        return work(), None
    except Exception as error:  # of any library; the text of another one may quote a cell
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
        if where.startswith("discreet."):
            return None, str(error)
        return None, (
            f"A worker could not compute on a block of rows ({type(error).__name__}); the message "
            "is withheld, as it may quote a row."
        )
