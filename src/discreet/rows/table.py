"""Tables: rows as they are stored, and loops over blocks of them.

A table knows nothing of targets, losses or clips. What it computes of a row depends on that row and
the arguments alone, to the last bit (docs/proofs/summation.md, part 1); only sums over rows may be
added up in any order within a block.
"""

# ruff: noqa: D102  some methods are documented in BaseTable

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
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

TILE_ENTRIES = 2**17
"""Entries of dense rows (1 MB) that are copied or mapped at a time: they stay in cache."""

Result = TypeVar("Result")


def threads() -> int:
    """Return the number of threads: OMP_NUM_THREADS if set (joblib sets it), else all cores."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def blocks(at: slice, height: int) -> Iterator[slice]:
    """Yield consecutive places of at most ``height`` rows."""
    for start in range(at.start, at.stop, height):
        yield slice(start, min(start + height, at.stop))


def in_parts(
    work: Callable[[slice], Result], n_rows: int, n_entries: int, block_rows: int
) -> list[Result]:
    """Call ``work(at)`` for consecutive parts of the rows; results in their order.

    Parts begin at multiples of ``block_rows`` and large tables have one per thread. Threads are
    started for one call and joined, which survives fork, nested threads and worker processes, where
    pools hang or crash. An exception in a part is raised here, after all parts have ended.
    """
    count = n_entries // ENTRIES_WORTH_A_THREAD
    count = min(threads(), count) if count > 1 else 1
    n_blocks = -(-n_rows // block_rows)
    if count == 1:
        return [work(slice(0, n_rows))]
    edges = [min(n_blocks * k // count * block_rows, n_rows) for k in range(count + 1)]
    results: dict[int, Result] = {}
    errors: list[BaseException] = []

    def run(k: int) -> None:
        try:
            results[k] = work(slice(edges[k], edges[k + 1]))
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

    Which numbers are added is fixed by the items' places. Values are overwritten.
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


class BaseTable:
    """Rows as they are stored, which must not change while the table is in use.

    ``n_entries`` are those that a pass reads, only to decide how many threads to use;
    ``block_rows`` the rows whose numbers are summed before blocks are: public; ``height`` the rows
    that are read at a time, at most.
    """

    dense: bool
    n_rows: int
    n_features: int
    n_entries: int
    dtype: np.dtype[Any]
    block_rows: int
    height: int

    def block(self, at: slice) -> tuple[Any, ...]:
        """Return rows as kernels take them (``kernels.py``)."""
        raise NotImplementedError

    def tile(self, at: slice) -> NDArray[Any]:
        """Return read-only, C-contiguous dense rows of float64, or of float32 if stored so."""
        raise NotImplementedError

    def values(self, at: slice, columns: Sequence[int]) -> FloatArray:
        """Return the entries of some columns, a row for each column."""
        raise NotImplementedError

    def column(self, index: int) -> FloatArray:
        """Return a column."""
        found: FloatArray = self.values(slice(0, self.n_rows), [index])[0]
        return found

    def each(self, work: Callable[[slice], Result], times: int = 1) -> list[Result]:
        """Call ``work(at)`` for places of rows, in parts; it reads the entries this many times."""
        parts = in_parts(
            lambda part: [work(at) for at in blocks(part, self.height)],
            self.n_rows,
            self.n_entries * times,
            BLOCK_ROWS,
        )
        return list(chain.from_iterable(parts))

    def norms(self, units: FloatArray | None = None) -> FloatArray:
        """Return upper bounds on the norms of rows; raise ValueError if an entry is not finite.

        With ``units``, factors of the columns that are powers of two, entries are finite, and norms
        that are not are infinite.
        """
        size, all_one, out = self.n_features, np.empty(0), np.empty(self.n_rows)
        factors = read_only(np.ones(size if self.dense else 0) if units is None else units)
        numbers = (all_one, factors, read_only(np.zeros(size)), norm_inflation(size))
        finite = self.each(lambda at: KERNELS.norms(self.block(at), *numbers, out[at]))
        if units is None and not all(finite):
            raise ValueError(BAD_NUMBERS)
        return out

    def squares(
        self, at: slice, scales: FloatArray, map: AffineMap, factors: FloatArray
    ) -> FloatArray:
        """Return Σ (κ·(L·(s·x) − b))² over rows, by column; L is a diagonal."""
        total = np.zeros(self.n_features)
        KERNELS.squares(self.block(at), scales, map.linear, map.offset, factors, total)
        if not self.dense:  # columns without an entry
            total += np.square(map.offset) * (factors @ factors)
        return total


class DenseTable(BaseTable):
    """Rows of a NumPy array of any layout: in memory, read-only or memory-mapped.

    Kernels read C-contiguous arrays in place, if ``as_stored``; others are copied in small tiles.
    """

    dense, block_rows = True, BLOCK_ROWS

    def __init__(self, X: NDArray[Any]) -> None:
        self.array = X.view()
        self.array.flags.writeable = False
        self.n_rows, self.n_features = X.shape
        self.n_entries, self.dtype = X.size, X.dtype
        self.as_stored = X.flags.aligned and X.flags.c_contiguous
        self.height = max(self.n_rows if self.as_stored else TILE_ENTRIES // X.shape[1], 1)

    def block(self, at: slice) -> tuple[Any, ...]:
        return (self.tile(at),)

    def tile(self, at: slice) -> NDArray[Any]:
        if self.as_stored:
            return self.array[at]
        return read_only(np.ascontiguousarray(self.array[at], dtype=np.float64))

    def mapped_norms(self, at: slice, scales: FloatArray, map: AffineMap, out: FloatArray) -> None:
        """Write bounds on the norms of L·(s·x) − b to out; L is a diagonal.

        The rounding of L·x is not covered (`RowData.bounds` does that).
        """
        numbers = (scales, map.linear, map.offset, norm_inflation(self.n_features))
        KERNELS.norms(self.block(at), *numbers, out)

    def values(self, at: slice, columns: Sequence[int]) -> FloatArray:
        return np.ascontiguousarray(self.array[at][:, list(columns)].T, dtype=np.float64)

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
