"""Affine maps of rows by public numbers: x becomes L·(s·x) − b.

s scales rows longer than a public norm down to it, L is the number 1, a diagonal or a matrix, b an
offset. The norm is that of D·x, where D has a power of two for the unit of each column.

The margin of a mapped row is linear in x, so weights are carried over to the table as it is stored
and sums are carried back: a sparse table stays sparse, and a large one is not written twice.

Proof: docs/proofs/affine.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from discreet.rows.bounds import gamma, norm_inflation
from discreet.validate import FloatArray


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous view that cannot be written: the one type kernels are compiled for."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


INVERSE_SLACK = 0.01
"""An inverse is used if its product with the matrix is as near to 1, as a sum of sizes."""


class Split(NamedTuple):
    """A map as a ``diagonal`` one, and a matrix ``basis`` that takes (y, 1) on to (v, 1).

    ``norm`` and ``inverse`` bound what the basis and its inverse do to a norm, ``error`` by how
    much the result is apart from the mapped row.
    """

    diagonal: AffineMap
    basis: FloatArray
    norm: float
    inverse: float
    error: float


@dataclass(frozen=True, eq=False)
class AffineMap:
    """The map x → L·(s·x) − b with s = min(1, row_norm/‖D·x‖).

    ``linear`` is L: the diagonal, as a vector, or a matrix; ``offset`` is b, and ``units`` is D,
    powers of two as a vector. Arrays without dimensions stand for L = 1 and D = 1. ``bound`` is a
    bound on ‖L/D‖·row_norm + ‖b‖, where ‖L‖ bounds what L and |L| do to a norm.
    """

    row_norm: float
    linear: FloatArray
    offset: FloatArray
    units: FloatArray = field(default_factory=lambda: np.ones(()))
    is_identity: bool = field(init=False)
    is_diagonal: bool = field(init=False)
    bound: float = field(init=False)

    def __post_init__(self) -> None:
        diagonal = self.linear.ndim == 1
        linear = self.linear / self.units
        size = np.abs(linear).max() if diagonal else np.linalg.norm(linear)
        total = float(size) * self.row_norm + float(np.linalg.norm(self.offset))
        if self.linear.ndim:
            object.__setattr__(self, "linear", read_only(self.linear))
            object.__setattr__(self, "offset", read_only(self.offset))
        object.__setattr__(self, "is_identity", self.linear.ndim == 0)
        object.__setattr__(self, "is_diagonal", diagonal)
        object.__setattr__(self, "bound", total * norm_inflation(self.linear.size))

    @cached_property
    def packed(self) -> tuple[FloatArray, float]:
        """Of a matrix: a triangle R with ‖L·x − b‖ = ‖R·(x, −1)‖, and what norms are lifted by.

        (L, b) = QR, up to rounding (docs/proofs/affine.md); rows of R are packed four by four, as
        the kernel takes them.
        """
        triangle: Any = np.linalg.qr(np.column_stack([self.linear, self.offset]), mode="r")
        size, width = triangle.shape
        filled = np.vstack([triangle, np.zeros((-size % 4, width))])
        packed = filled.reshape(-1, 4, width).transpose(0, 2, 1)
        return read_only(packed), norm_inflation(size)

    @cached_property
    def split(self) -> Split | None:
        """Of a matrix: the map as a diagonal one and a change of basis; None if it has no inverse.

        The diagonal has the norms of the columns of L, and takes their centre to 0.
        """
        diagonal = np.linalg.norm(self.linear, axis=0)
        if self.is_diagonal or self.linear.shape[0] != diagonal.size or not diagonal.all():
            return None
        matrix = self.linear / diagonal
        size = len(matrix) + 1
        basis, basis[:-1, :-1] = np.eye(size), matrix
        try:
            centre = np.linalg.solve(matrix, self.offset)
            basis[:-1, -1] = matrix @ centre - self.offset
            back = np.linalg.inv(basis)
        except np.linalg.LinAlgError:
            return None
        if not np.abs(back @ basis - np.eye(size)).sum() < INVERSE_SLACK:  # also if not finite
            return None
        norm, inverse = (float(np.linalg.norm(each, 2)) for each in (basis, back))
        longest = float(np.max(diagonal / self.units)) * self.row_norm + np.linalg.norm(centre)
        reach = float(np.linalg.norm(matrix) * longest) + self.bound
        near = type(self)(self.row_norm, diagonal, centre, self.units)
        lift = 1 + 2 * INVERSE_SLACK
        return Split(near, basis, lift * norm, lift * inverse, gamma(4 * (size + 16)) * reach)

    @classmethod
    def to_norm(cls, row_norm: float, n_features: int | None = None) -> Self:
        """Return the map that only scales longer rows down; ``n_features`` make it a start."""
        shape = () if n_features is None else n_features
        return cls(float(row_norm), np.ones(shape), np.zeros(shape))

    @classmethod
    def in_units(cls, units: FloatArray) -> Self:
        """Return the map that multiplies columns by powers of two, before rows have any norm."""
        return cls(np.inf, units, np.zeros(units.size), units)

    @property
    def start(self) -> Self:
        """The part of the map that comes before L: units, and the norm rows are scaled down to."""
        if not self.units.ndim:
            return type(self).to_norm(self.row_norm)
        return type(self)(self.row_norm, self.units, np.zeros(self.units.size), self.units)

    def starts(self, other: Self) -> bool:
        """Return whether this map is the start of another, and no more."""
        same = np.array_equal(self.units, other.units) and self.row_norm == other.row_norm
        alone = self.is_identity or (self.is_diagonal and bool((self.linear == self.units).all()))
        return same and alone and not self.offset.any()

    def then(self, by: FloatArray | float, shift: FloatArray | None = None) -> Self:
        """Return this map followed by another: y becomes A·y − shift.

        ``by`` is A: one number, a weight for each column, or a matrix.
        """
        matrix = np.asarray(by, dtype=np.float64)
        if matrix.ndim == 2:
            linear = matrix * self.linear if self.is_diagonal else matrix @ self.linear
            offset = matrix @ self.offset
        else:
            weights = np.broadcast_to(matrix, self.offset.shape)
            linear = weights * self.linear if self.is_diagonal else weights[:, None] * self.linear
            offset = weights * self.offset
        return replace(self, linear=linear, offset=offset if shift is None else offset + shift)

    def columns(self, index: NDArray[np.intp], factor: float) -> Self:
        """Return the map to some of the columns, times a factor."""
        units = self.units[index] if self.is_diagonal and self.units.ndim else self.units
        linear, offset = factor * self.linear[index], factor * self.offset[index]
        return type(self)(self.row_norm, linear, offset, units)

    def adjoint(self, weights: FloatArray) -> FloatArray:
        """Return weights and constants, (K, d + 1), that give stored rows the mapped margins."""
        slopes = weights[:, :-1]
        carried = slopes * self.linear if self.is_diagonal else slopes @ self.linear
        constants = weights[:, -1] - slopes @ self.offset
        return np.column_stack([carried, constants])

    def forward(self, sums: FloatArray) -> FloatArray:
        """Turn sums over stored rows and their factors, (K, d + 1), into sums over mapped rows."""
        slopes, totals = sums[:, :-1], sums[:, -1:]
        carried = slopes * self.linear if self.is_diagonal else slopes @ self.linear.T
        return np.hstack([carried - totals * self.offset, totals])
