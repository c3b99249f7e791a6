"""Arrays that grow block by block, without a second copy of what is already there.

``numpy.concatenate`` of blocks needs room for everything twice. A large array that is resized in
place moves by its page table instead, so the peak stays near the size of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

__all__ = ["GrowingArray", "GrowingRows"]

_LEAST_STEP = 1.02
"""An array that has to grow does so by this factor at least, not at each block anew."""

_RESERVE = 1.005
"""Room beyond what the share of the file read so far promises."""

LARGEST_SMALL_INDEX = int(np.iinfo(np.int32).max)
"""Entries beyond which where a row starts no longer fits 32 bits."""


class GrowingArray:
    """A one-dimensional array to which blocks are added.

    Parameters
    ----------
    dtype : dtype
        Type of its numbers.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._array: NDArray[Any] = np.empty(0, dtype=dtype)
        self.size = 0

    def append(self, block: NDArray[Any], share: float | None = None) -> None:
        """Add a block at the end.

        Parameters
        ----------
        block : ndarray
            Numbers to add; flattened if it has more dimensions.
        share : float, optional
            Which share of all numbers there will be once this block is added. New room is touched
            when it is made, so a good guess keeps memory at what is needed.
        """
        needed = self.size + block.size
        if needed > self._array.size:
            guess = 2 * needed if not share else min(2 * needed, int(needed / share * _RESERVE) + 1)
            # Nothing else refers to the array before `finish`, so it may move.
            self._array.resize(max(guess, int(needed * _LEAST_STEP)), refcheck=False)
        self._array[self.size : needed] = block.reshape(-1)
        self.size = needed

    def widen(self, dtype: DTypeLike) -> None:
        """Go on with numbers of another type."""
        self._array = self._array.astype(dtype, copy=False)

    def finish(self) -> NDArray[Any]:
        """The array, cut to its size. Nothing can be added any more."""
        array, self._array = self._array, np.empty(0, dtype=self._array.dtype)
        array.resize(self.size, refcheck=False)
        return array


class GrowingRows:
    """A dense or CSR matrix to which blocks of rows are added.

    Parameters
    ----------
    width : int
        Number of columns.
    sparse : bool
        CSR, or a dense array.
    dtype : dtype
        Type of its numbers.
    """

    def __init__(self, width: int, *, sparse: bool, dtype: DTypeLike) -> None:
        self._width = width
        self._sparse = sparse
        self._data = GrowingArray(dtype)
        self._indices = GrowingArray(np.int32)
        self._starts = GrowingArray(np.int32)
        self.n_rows = 0

    def append(self, block: Any, share: float | None = None) -> None:
        """Add a block of rows, dense or CSR as the matrix is; ``share`` as in `GrowingArray`."""
        self.n_rows += block.shape[0]
        if not self._sparse:
            self._data.append(block, share)
            return
        if self._data.size + block.data.size > LARGEST_SMALL_INDEX:
            self._starts.widen(np.int64)
        self._starts.append(block.indptr[:-1].astype(np.int64) + self._data.size, share)
        self._data.append(block.data, share)
        self._indices.append(block.indices, share)

    def finish(self) -> NDArray[Any] | sp.csr_array:
        """The matrix. Nothing can be added any more."""
        shape = (self.n_rows, self._width)
        if not self._sparse:
            return self._data.finish().reshape(shape)
        self._starts.append(np.array([self._data.size]), 1.0)
        parts = (self._data.finish(), self._indices.finish(), self._starts.finish())
        return sp.csr_array(parts, shape=shape)
