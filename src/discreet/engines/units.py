"""Privacy units of rows on workers: each unit counts once, and no id leaves a worker.

A worker keeps, for each block, the unit of each row as a number and a keyed hash of each unit's id.
The client gets hashes with numbers of rows, adds up those of units that have rows in several
blocks, and sends their totals back; a worker gives each row of a unit of m rows the weight 1/m.

Proof: docs/proofs/partitions.md, part 7.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from numbers import Number
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from discreet.rows import Units
from discreet.rows.partitions import Block
from discreet.rows.units import MIXED

Hashes = NDArray[np.void]  # hashes of 16 bytes, which can be compared and sorted
_HASH = np.dtype([("first", "<u8"), ("last", "<u8")])


class UnitsOfBlock(NamedTuple):
    """Whose row each row of a block is: a number below ``len(hashes)``; and the kind of the ids."""

    codes: NDArray[np.int32]
    hashes: Hashes
    kind: str

    @classmethod
    def of(cls, ids: Any, n_rows: int, key: bytes) -> Self:
        """Return the units that ids name, one for each row."""
        found, values = Units.of(ids, n_rows), ids if isinstance(ids, list) else ids.tolist()
        first = np.zeros(found.count, dtype=np.intp)
        first[found.codes[::-1]] = np.arange(n_rows - 1, -1, -1)
        return cls.named(found.codes, [values[at] for at in first.tolist()], key)

    @classmethod
    def named(cls, codes: NDArray[Any], ids: Sequence[Any], key: bytes) -> Self:
        """Return the units that have these numbers and, in their order, these ids."""
        named = [_named(value) for value in ids]
        if len({kind for kind, _ in named}) > 1:
            raise ValueError(MIXED)
        made = b"".join(
            hashlib.blake2b(text, key=key, digest_size=_HASH.itemsize).digest() for _, text in named
        )
        kind = named[0][0] if named else ""
        return cls(codes.astype(np.int32, copy=False), np.frombuffer(made, dtype=_HASH), kind)


class Sizes(NamedTuple):
    """Numbers of rows of the units of a block (private), with the ticket of the question."""

    ticket: str
    kind: str
    hashes: Hashes
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Totals:
    """Number of units (public), and the sizes of those that have rows in several blocks."""

    count: int
    hashes: Hashes
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, found: Iterable[Sizes]) -> Self:
        """Add up what all blocks told, one answer each."""
        answers = list(found)
        if len({answer.kind for answer in answers}) > 1:
            raise ValueError(MIXED)
        hashes, places = np.unique(
            np.concatenate([answer.hashes for answer in answers]), return_inverse=True
        )
        rows = np.zeros(len(hashes), dtype=np.int64)
        np.add.at(rows, places, np.concatenate([answer.rows for answer in answers]))
        several = np.bincount(places, minlength=len(hashes)) > 1
        return cls(len(hashes), hashes[several], rows[several])


def sizes_of(ticket: str, block: Block) -> Sizes:
    """Count the rows of each unit of a block; runs on a worker."""
    codes, hashes, kind = block.units
    return Sizes(ticket, kind, hashes, np.bincount(codes, minlength=len(hashes)))


def weighed(totals: Totals, block: Block) -> Block:
    """Give each row of a unit of m rows, in all blocks, the weight 1/m; runs on a worker."""
    codes, hashes, _ = block.units
    rows = np.bincount(codes, minlength=len(hashes))
    if len(totals.hashes):
        at = np.minimum(np.searchsorted(totals.hashes, hashes), len(totals.hashes) - 1)
        rows = np.where(totals.hashes[at] == hashes, totals.rows[at], rows)
    return block._replace(weights=(1.0 / rows)[codes], units=None)


def _named(value: Any) -> tuple[str, bytes]:
    """Return the kind of an id and a text that equal ids of one kind share."""
    if isinstance(value, str):
        return "text", value.encode("utf-8", "surrogatepass")
    if isinstance(value, Number) and not isinstance(value, complex):
        real: Any = value
        whole = int(real)
        return "number", str(whole if whole == real else repr(float(real))).encode()
    if isinstance(value, bytes):
        return "bytes", value
    if isinstance(value, date):  # and time
        return type(value).__name__, value.isoformat().encode()
    raise ValueError("ids of rows on workers must be numbers, texts or dates.")
