"""Tables: the block primitives that every place where rows live offers, and loops over parts.

A table knows nothing of targets, losses or clips. What it computes of a row depends on that row and
the arguments alone, to the last bit (docs/proofs/summation.md, part 1); only sums over rows may be
added up in any order within a block.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.objectives.compile import KernelModule
from discreet.rows.bounds import BLOCK_ROWS
from discreet.validate import FloatArray

__all__ = ["Batches", "Halves", "Piece", "Table", "add_up", "in_parts", "read_only", "threads"]

KERNELS = KernelModule("discreet.rows.kernels")
OUTPUT_KERNELS = KernelModule("discreet.rows.output_kernels")
ACCURATE_KERNELS = KernelModule("discreet.rows.accurate_kernels")

ENTRIES_WORTH_A_THREAD = 2**22
"""Entries of X (32 MB) that take long enough to be worth starting a thread for."""

BAD_NUMBERS = "X must be finite; it has NaN or infinite entries. Impute them or remove those rows."


Halves = tuple[FloatArray, FloatArray]
"""Numbers in twice the working precision: rounded, and the rest."""


class Piece(NamedTuple):
    """Rows start to stop of a table, in the form that its primitives take."""

    start: int
    stop: int
    data: Any


class Batches(NamedTuple):
    """Batches of rows for a descent, with a source that kernels can read in place.

    Attributes
    ----------
    updates
        Which of the descent's updates they are.
    source
        Arrays of a table: one array, or those of a CSR matrix and its number of columns.
    order
        Rows of the batches within the source.
    rows
        Rows of the source within the table.
    """

    updates: slice
    source: tuple[Any, ...]
    order: NDArray[np.int64]
    rows: slice | NDArray[np.int64]


class Table(ABC):
    """Rows of numbers, read in place.

    Attributes
    ----------
    dense : bool
        True if all entries are stored.
    n_rows, n_features : int
        Size.
    n_entries : int
        Entries that a pass reads (only to decide how many threads to use).
    block_rows : int
        Rows whose numbers are summed before the sum is added to a total: public.
    """

    dense: bool
    n_rows: int
    n_features: int
    n_entries: int
    block_rows: int = BLOCK_ROWS

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""

    @abstractmethod
    def norms(self) -> FloatArray:
        """Return upper bounds on the norms of rows; raise ValueError if an entry is not finite."""

    @abstractmethod
    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield rows start to stop in order, in pieces that are read from cache twice."""

    @abstractmethod
    def products(self, piece: Piece, vector: FloatArray, out: FloatArray) -> None:
        """Write piece @ vector to out."""

    @abstractmethod
    def add(self, piece: Piece, coefficients: FloatArray, total: FloatArray) -> None:
        """Add coefficients @ piece to total."""

    @abstractmethod
    def tiles(self, start: int, stop: int) -> Iterator[tuple[int, FloatArray]]:
        """Yield (first row, read-only C-contiguous dense rows) for rows start to stop."""

    @abstractmethod
    def output_products(self, weights: FloatArray) -> Callable[[int, int, FloatArray], None]:
        """Return a function that writes X[start:stop] @ weights.T to an array.

        The bits are those of `products` for one output after the other.
        """

    @abstractmethod
    def output_sum(self, start: int, factors: FloatArray) -> FloatArray:
        """Return factors.T @ X[start : start + len(factors)]."""

    @abstractmethod
    def accurate_products(self, start: int, stop: int, weights: Halves, out: Halves) -> None:
        """Write X[start:stop] @ weights to out, both as pairs of a rounded number and the rest."""

    @abstractmethod
    def square_sum(self, start: int, stop: int, scales: FloatArray) -> FloatArray:
        """Return Σ (scale·x)², column by column, over rows start to stop."""

    @abstractmethod
    def weighted_squares(self, factors: FloatArray) -> FloatArray:
        """Return Σ_i factors[i, k]·x_ij² as an array (k, j); its rounding is not bounded."""

    @abstractmethod
    def largest_entries(self) -> FloatArray:
        """Return the largest absolute entry of each row."""

    @abstractmethod
    def column(self, index: int) -> FloatArray:
        """Return a column as a new array."""

    @abstractmethod
    def take(self, index: NDArray[np.intp]) -> Self:
        """Return a table of the named rows."""

    @abstractmethod
    def columns(self, index: NDArray[np.intp]) -> Self:
        """Return a table of the named columns."""

    @abstractmethod
    def scaled(
        self, factors: FloatArray, *, largest: float | None = None, out: Any | None = None
    ) -> Any:
        """Return an array or CSR matrix of the rows, each times its factor.

        With ``largest``, in float64 and with entries cut to it; else in the type of the table,
        and written to ``out`` if that is given (dense tables only).
        """

    @abstractmethod
    def batches(self, order: NDArray[np.int64]) -> Iterator[Batches]:
        """Yield the batches whose rows ``order`` names, one batch per row of it."""

    def weighted_sum(self, start: int, coefficients: FloatArray) -> FloatArray:
        """Return coefficients @ X[start : start + coefficients.size]."""
        total = np.zeros(self.n_features)
        for piece in self.pieces(start, start + coefficients.size):
            self.add(piece, coefficients[piece.start - start : piece.stop - start], total)
        return total

    def check_columns(self, index: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return indices of columns that exist."""
        index = np.asarray(index, dtype=np.intp)
        if index.ndim != 1 or not index.size or index.min() < 0 or index.max() >= self.n_features:
            raise ValueError(f"columns must be a list of indices from 0 to {self.n_features - 1}.")
        return index


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous view that cannot be written: the one type kernels are compiled for."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


Result = TypeVar("Result")


def threads() -> int:
    """Return the number of threads: OMP_NUM_THREADS if set (joblib sets it), else all cores."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_parts(
    work: Callable[[int, int], Result], n_rows: int, n_entries: int, block_rows: int
) -> list[Result]:
    """Call ``work(start, stop)`` for consecutive parts of the rows; results in their order.

    Parts begin at multiples of ``block_rows`` and large tables have one per thread. Kernels release
    the interpreter lock, so plain threads are enough; they are started for one call and joined,
    which survives fork, nested threads and worker processes, where pools hang or crash. An
    exception in a part is raised here, after all parts have ended.
    """
    count = max(1, min(threads(), n_entries // ENTRIES_WORTH_A_THREAD))
    if count == 1:
        return [work(0, n_rows)]
    blocks = -(-n_rows // block_rows)
    edges = [min(blocks * k // count * block_rows, n_rows) for k in range(count + 1)]
    results: dict[int, Result] = {}
    errors: list[BaseException] = []

    def run(k: int) -> None:
        try:
            results[k] = work(edges[k], edges[k + 1])
        except BaseException as error:  # handed to the caller below
            errors.append(error)

    others = [threading.Thread(target=run, args=(k,)) for k in range(1, count)]
    for thread in others:
        thread.start()
    run(0)
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
    return [results[k] for k in range(count)]


def add_up(parts: list[FloatArray]) -> FloatArray:
    """Add up the sums of parts; this rounds no more than adding up their blocks one by one."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total
