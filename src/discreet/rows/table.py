"""Tables: rows as they are stored, and loops over blocks of them.

A table knows nothing of targets, losses or clips. What it computes of a row depends on that row and
the arguments alone, to the last bit (docs/proofs/summation.md, part 1); only sums over rows may be
added up in any order within a block. `DenseTable` documents what every table offers.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.objectives.compile import KernelModule
from discreet.rows.affine import AffineMap, read_only
from discreet.rows.bounds import BLOCK_ROWS, norm_inflation
from discreet.validate import FloatArray

KERNELS = KernelModule("discreet.rows.kernels")
LOSS_KERNELS = KernelModule("discreet.rows.loss_kernels")
PRODUCT_KERNELS = KernelModule("discreet.rows.product_kernels")

ENTRIES_WORTH_A_THREAD = 2**22
"""Entries of X (32 MB) that take long enough to be worth starting a thread for."""

BAD_NUMBERS = "X must be finite; it has NaN or infinite entries. Impute them or remove those rows."

TILE_ENTRIES = 2**16
"""Entries of X (half a megabyte) that are converted at a time."""

WIDE_ROWS, WIDE_ENTRIES = 64, 2**18
"""Rows per tile of a wide table, as long as a tile has at most this many entries (2 MB)."""

Piece = tuple[slice, tuple[Any, ...]]
"""The places of some rows, and the rows as kernels take them (``kernels.py``)."""

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
    count = n_entries // ENTRIES_WORTH_A_THREAD
    count = min(threads(), count) if count > 1 else 1
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


Node = tuple[int, int, FloatArray]
"""(level, place, values): the sum of items place·2^level to (place + 1)·2^level − 1."""


def joined(nodes: Iterable[Node]) -> list[Node]:
    """Add up consecutive nodes that are the halves of one, as far as possible; left ones first.

    Which numbers are added is fixed by the items' places, whatever nodes they come in. Values are
    overwritten.
    """
    forest: list[Node] = []
    for level, place, values in nodes:
        while place % 2 and forest and forest[-1][0] == level:  # its left neighbour
            left = forest.pop()[2]
            left += values
            level, place, values = level + 1, place // 2, left
        forest.append((level, place, values))
    return forest


def tree_total(nodes: Iterable[Node]) -> FloatArray:
    """Add up consecutive nodes from item 0, pairwise; their values are overwritten."""
    forest = joined(nodes)
    total = forest.pop()[2]
    while forest:
        total = forest.pop()[2] + total
    return total


def sum_blocks(
    block_sum: Callable[[int, int], FloatArray],
    shape: int | tuple[int, ...],
    n_rows: int,
    n_entries: int,
    block_rows: int,
) -> FloatArray:
    """Add up ``block_sum(start, stop)`` over blocks of rows, pairwise, in parts.

    One binary tree over all blocks, whatever the threads: the same bits (summation.md, part 3).
    """
    if not n_rows:
        return np.zeros(shape)
    parts = in_parts(
        lambda first, last: joined(
            (0, start // block_rows, block_sum(start, min(start + block_rows, last)))
            for start in range(first, last, block_rows)
        ),
        n_rows,
        n_entries,
        block_rows,
    )
    return tree_total(chain.from_iterable(parts))


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """Keep BLAS to one thread, where that can be asked for: its own wait for each other."""
    controller = _controller()
    if controller is None:
        return contextlib.nullcontext()
    limited: contextlib.AbstractContextManager[Any] = controller.limit(limits=1, user_api="blas")
    return limited


@functools.cache  # finding the libraries reads the whole memory map of the process: 2 ms
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  brings a BLAS of its own, which is to be found, too

    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()


class DenseTable:
    """Rows of a NumPy array of any layout: in memory, read-only or memory-mapped.

    The array is not copied and must not change while it is in use. Kernels read C-contiguous arrays
    of float32 or float64 in place if ``as_stored``, and F-contiguous ones of float64 by column;
    others are copied in small tiles. ``n_entries`` are those that a pass reads (only to decide how
    many threads to use), and ``block_rows`` the rows whose numbers are summed before blocks are:
    public.
    """

    dense, block_rows = True, BLOCK_ROWS
    n_rows: int
    n_features: int

    def __init__(self, X: NDArray[Any]) -> None:
        self.array = X.view()
        self.array.flags.writeable = False
        self.n_rows, self.n_features = X.shape
        self.n_entries, self.dtype = X.size, X.dtype
        self.as_stored = X.flags.aligned and X.flags.c_contiguous
        double = X.dtype == np.float64 and X.flags.aligned
        self._by_row = double and self.as_stored
        self._by_column = double and X.flags.f_contiguous and not self.as_stored
        columns = max(1, X.shape[1])
        self._height = max(1, TILE_ENTRIES // columns, min(WIDE_ROWS, WIDE_ENTRIES // columns))

    def tiles(
        self, start: int, stop: int, *, single: bool = False
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, read-only C-contiguous dense rows) for rows start to stop.

        They are of float64; with ``single``, rows of float32 may be as they are stored.
        """
        if self._by_row or (single and self.as_stored):
            yield start, self.array[start:stop]
            return
        buffer = np.empty((min(self._height, stop - start), self.n_features))
        for first in range(start, stop, self._height):
            tile = buffer[: min(self._height, stop - first)]
            np.copyto(tile, self.array[first : first + len(tile)])
            yield first, read_only(tile)

    def pieces(self, start: int, stop: int, *, by_column: bool = True) -> Iterator[Piece]:
        """Yield rows start to stop as kernels take them.

        Arrays of columns are for `products`, `add` and `gradient` only.
        """
        if self._by_column and by_column:
            yield slice(start, stop), (self.array.T, start)
            return
        for row, tile in self.tiles(start, stop, single=True):
            yield slice(row, row + len(tile)), (tile,)

    def norms(self, units: FloatArray | None = None) -> FloatArray:
        """Return upper bounds on the norms of rows; raise ValueError if an entry is not finite.

        With ``units``, factors of the columns that are powers of two, entries are finite, and norms
        that are not are infinite.
        """
        out, map = np.empty(self.n_rows), AffineMap.to_norm(np.inf, self.n_features)
        map = map if units is None else map.scaled(units)
        finite = in_parts(
            lambda first, last: self.mapped_norms(first, np.empty(0), map, out[first:last]),
            self.n_rows,
            self.n_entries,
            self.block_rows,
        )
        if units is None and not all(finite):
            raise ValueError(BAD_NUMBERS)
        return out

    def mapped_norms(self, start: int, scales: FloatArray, map: AffineMap, out: FloatArray) -> bool:
        """Write bounds on the norms of L·(s·x) − b of rows start and on to out; L is a diagonal.

        ``scales`` may have no entries. Return whether the entries are finite. The rounding of L·x
        is not covered (`RowData.bounds` does that).
        """
        finite, numbers = True, (map.linear, map.offset, norm_inflation(self.n_features))
        for row, tile in self.tiles(start, start + out.size, single=True):
            at = slice(row - start, row - start + len(tile))
            finite &= KERNELS.dense_norms(tile, scales[at], *numbers, out[at])
        return finite

    def mapped_squares(
        self, start: int, scales: FloatArray, map: AffineMap, factors: FloatArray
    ) -> FloatArray:
        """Return Σ (κ·(L·(s·x) − b))² over rows start and on, by column; L is a diagonal."""
        total = np.zeros(self.n_features)
        for row, tile in self.tiles(start, start + factors.size, single=True):
            at = slice(row - start, row - start + len(tile))
            KERNELS.dense_squares(tile, scales[at], map.linear, map.offset, factors[at], total)
        return total

    def column(self, index: int) -> FloatArray:
        """Return a column."""
        return self.array[:, index].astype(np.float64)

    def take(self, index: NDArray[np.intp]) -> Self:
        """Return a table of the named rows."""
        return type(self)(self.array[index])

    def columns(self, index: NDArray[np.intp]) -> Self:
        """Return a table of the named columns."""
        return type(self)(np.ascontiguousarray(self.array[:, index]))

    def scaled(
        self, factors: FloatArray, *, largest: float | None = None, out: Any | None = None
    ) -> NDArray[Any]:
        """Return an array or CSR matrix of the rows, each times its factor.

        With ``largest``, in float64 and with entries cut to it; else in the type of the table,
        and written to ``out`` if that is given (dense tables only).
        """
        if largest is not None:
            values = self.array.astype(np.float64)
            values *= factors[:, None]
            return np.clip(values, -largest, largest, out=values)
        out = np.empty(self.array.shape, dtype=self.dtype) if out is None else out
        np.multiply(self.array, factors[:, None], out=out, casting="same_kind")
        return out
