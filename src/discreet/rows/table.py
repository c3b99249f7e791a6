"""Tables: the block primitives that every table offers, dense tables, and loops over blocks.

A table knows nothing of targets, losses or clips. What it computes of a row depends on that row and
the arguments alone, to the last bit (docs/proofs/summation.md, part 1); only sums over rows may be
added up in any order within a block.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.objectives.compile import KernelModule
from discreet.rows.affine import AffineMap, read_only
from discreet.rows.bounds import BLOCK_ROWS, norm_inflation
from discreet.validate import FloatArray

KERNELS = KernelModule("discreet.rows.kernels")
PRODUCT_KERNELS = KernelModule("discreet.rows.product_kernels")

ENTRIES_WORTH_A_THREAD = 2**22
"""Entries of X (32 MB) that take long enough to be worth starting a thread for."""

BAD_NUMBERS = "X must be finite; it has NaN or infinite entries. Impute them or remove those rows."

TILE_ENTRIES = 2**16
"""Entries of X (half a megabyte) that are converted at a time."""

NEAR_ENTRIES = 2**14
"""Entries of X whose gradients are computed at a time: they stay in the nearest caches."""

PIECE_ENTRIES = 2**17
"""Entries of X that are used at a time: few enough to be read from cache twice."""

WIDE_ROWS, WIDE_ENTRIES = 64, 2**18
"""Rows per tile of a wide table, as long as a tile has at most this many entries (2 MB)."""

Halves = tuple[FloatArray, FloatArray]
"""Numbers in twice the working precision: rounded, and the rest."""


class Piece(NamedTuple):
    """Rows start to stop of a table, in the form that its primitives take."""

    start: int
    stop: int
    data: Any


class Batches(NamedTuple):
    """Batches of rows for some updates of a descent, with a source that kernels read in place.

    ``source`` is one array, or those of a CSR matrix and its number of columns; ``order`` names
    rows of the batches within the source, ``rows`` those of the source within the table.
    """

    updates: slice
    source: tuple[Any, ...]
    order: NDArray[np.int64]
    rows: slice | NDArray[np.int64]


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


def check_columns(n_features: int, index: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return indices of columns that exist."""
    index = np.asarray(index, dtype=np.intp)
    if index.ndim != 1 or not index.size or index.min() < 0 or index.max() >= n_features:
        raise ValueError(f"columns must be a list of indices from 0 to {n_features - 1}.")
    return index


class DenseTable:
    """Rows of a NumPy array of any layout: in memory, read-only or memory-mapped.

    The array is not copied and must not change while it is in use. Layouts other than C and F are
    read in small tiles. ``n_entries`` are those that a pass reads (only to decide how many threads
    to use), and ``block_rows`` the rows whose numbers are summed before blocks are: public. If
    ``as_stored``, kernels read rows in place.
    """

    dense, block_rows = True, BLOCK_ROWS
    n_rows: int
    n_features: int

    def __init__(self, X: NDArray[Any]) -> None:
        self.array = X.view()
        self.array.flags.writeable = False
        self.n_rows, self.n_features = X.shape
        self.n_entries, self.dtype = X.size, X.dtype
        double = X.dtype == np.float64 and X.flags.aligned
        self._by_row = double and X.flags.c_contiguous
        self.as_stored = X.flags.aligned and X.flags.c_contiguous  # kernels take single precision
        self._by_column = double and X.flags.f_contiguous and not X.flags.c_contiguous
        columns = max(1, X.shape[1])
        self._height = max(1, TILE_ENTRIES // columns, min(WIDE_ROWS, WIDE_ENTRIES // columns))

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
        """Write bounds on the norms of L·(s·x) − b of rows start and on to out.

        ``scales`` may have no entries. Return whether the entries are finite. The rounding of L·x
        is not covered (`RowData.bounds` does that).
        """
        finite, inflation = True, norm_inflation(len(map.offset))
        for row, tile in self.tiles(start, start + out.size, single=True):
            at = slice(row - start, row - start + len(tile))
            if map.is_diagonal:
                numbers = (scales[at], map.linear, map.offset, inflation)
                finite &= KERNELS.dense_norms(tile, *numbers, out[at])
            else:
                PRODUCT_KERNELS.triangle_norms(tile, scales[at], *map.packed, out[at])
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

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield rows start to stop in order, in pieces that are read from cache twice."""
        if self._by_column:
            yield Piece(start, stop, self.array[start:stop])
        elif self.as_stored:
            height = max(1, PIECE_ENTRIES // self.n_features)
            for first in range(start, stop, height):
                last = min(first + height, stop)
                yield Piece(first, last, self.array[first:last])
        else:
            for first, tile in self.tiles(start, stop):
                yield Piece(first, first + len(tile), tile)

    def products(self, piece: Piece, vector: FloatArray, out: FloatArray) -> None:
        """Write piece @ vector to out."""
        if self._by_column:
            KERNELS.column_products(piece.data, vector, out)
        else:
            KERNELS.dense_products(piece.data, vector, out)

    def add(self, piece: Piece, coefficients: FloatArray, total: FloatArray) -> None:
        """Add coefficients @ piece to total."""
        if self._by_column:
            KERNELS.column_add(self.array.T, piece.start, coefficients, total)
        else:
            KERNELS.dense_add(piece.data, coefficients, total)

    def output_products(self, start: int, stop: int, weights: FloatArray, out: FloatArray) -> None:
        """Write X[start:stop] @ weights.T to out, with the bits of `products` for each output."""
        missing = -len(weights) % PRODUCT_KERNELS.TOGETHER
        padded = np.zeros((len(weights) + missing, self.n_features))
        padded[: len(weights)] = weights
        for first, tile in self.tiles(start, stop):
            here = out[first - start : first - start + len(tile)]
            PRODUCT_KERNELS.dense_output_products(tile, padded, here)

    def output_sum(self, start: int, factors: FloatArray) -> FloatArray:
        """Return factors.T @ X[start : start + len(factors)]."""
        total = np.zeros((factors.shape[1], self.n_features))
        for first, tile in self.tiles(start, start + len(factors)):
            here = factors[first - start : first - start + len(tile)]
            PRODUCT_KERNELS.dense_output_add(tile, here, total)
        return total

    def accurate_products(self, start: int, stop: int, weights: Halves, out: Halves) -> None:
        """Write X[start:stop] @ weights to out, both as pairs of a rounded number and the rest."""
        for first, tile in self.tiles(start, stop):
            at = slice(first - start, first - start + len(tile))
            parts = (out[0][at], out[1][at])
            PRODUCT_KERNELS.accurate_dense_products(tile, *weights, *parts)

    def weighted_squares(self, factors: FloatArray) -> FloatArray:
        """Return Σ_i factors[i, k]·x_ij² as an array (k, j); its rounding is not bounded."""
        total = np.zeros((factors.shape[1], self.n_features))
        for start in range(0, self.n_rows, BLOCK_ROWS):
            for first, tile in self.tiles(start, min(start + BLOCK_ROWS, self.n_rows)):
                total += factors[first : first + len(tile)].T @ (tile * tile)
        return total

    def largest_entries(self) -> FloatArray:
        """Return the largest absolute entry of each row."""
        out = np.empty(self.n_rows)
        for start, tile in self.tiles(0, self.n_rows):
            KERNELS.dense_largest(tile, out[start : start + len(tile)])
        return out

    def column(self, index: int, start: int, stop: int) -> FloatArray:
        """Return rows start to stop of a column."""
        return self.array[start:stop, index].astype(np.float64)

    def take(self, index: NDArray[np.intp]) -> Self:
        """Return a table of the named rows."""
        return type(self)(self.array[index])

    def columns(self, index: NDArray[np.intp]) -> Self:
        """Return a table of the named columns."""
        return type(self)(
            np.ascontiguousarray(self.array[:, check_columns(self.n_features, index)])
        )

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
        if out is None:
            out = np.empty(self.array.shape, dtype=self.dtype)
        written: NDArray[Any] = np.multiply(
            self.array, factors[:, None], out=out, casting="same_kind"
        )
        return written

    def batches(self, order: NDArray[np.int64]) -> Iterator[Batches]:
        """Yield the batches whose rows ``order`` names, one batch per row of it."""
        everything = slice(None)
        if self._by_row:
            yield Batches(everything, (self.array,), order, everything)
            return
        height = max(1, PIECE_ENTRIES // max(1, order.shape[1] * self.n_features))
        for first in range(0, len(order), height):
            part = order[first : first + height]
            tile = read_only(np.ascontiguousarray(self.array[part.ravel()], dtype=np.float64))
            index = np.arange(part.size, dtype=np.int64).reshape(part.shape)
            yield Batches(slice(first, first + height), (tile,), index, part.ravel())
