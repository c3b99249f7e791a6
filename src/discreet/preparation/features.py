"""Features: the columns that a model is linear in, as a map from X by public and released numbers.

Without anything else the features are the columns of X. `Splines` makes the model additive, with a
smooth effect of each of its columns, and `Fourier` approximates a Gaussian kernel. Both expand
columns with bounds, public ones or those that `Bounds` chose privately. The features of a row
depend on that row and the map alone, to the last bit, so neighbouring tables stay neighbouring.

Proof: docs/proofs/features.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.objectives.compile import KernelModule
from discreet.preparation.bounds import FittedBounds, distinct
from discreet.rows.bounds import FOURIER_COLUMNS, FOURIER_GRID, FREQUENCY_GRID, LARGEST_FREQUENCY
from discreet.validate import FloatArray, check_fields, integer, vector

__all__ = ["EXPANSIONS", "Expansion", "FeatureMap", "Fourier", "Splines"]

KERNELS = KernelModule("discreet.preparation.feature_kernels")

BLOCK_ENTRIES = 2**18
"""Entries of features that are made at a time."""

DEGREES = {"smooth": 3, "bins": 0}
"""Degree of the splines by the name of their shape."""


class Expansion:
    """Base class of expansions: frozen dataclasses that replace some columns by features of them.

    Features are the other columns of X, in their order, then those that the expansion makes.
    ``count`` is the number of the latter. Numbers are clipped to ``low`` and ``high``.
    """

    columns: tuple[int, ...]
    low: FloatArray
    high: FloatArray
    name: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", distinct(self.columns))
        check_fields(self, vector, "low", "high", size=len(self.columns))
        with np.errstate(over="ignore"):
            spans = self.high - self.low
        if not (np.isfinite(spans) & (spans > 0)).all():
            raise ValueError(
                "bounds of a column must have low < high, not too far apart for floating point "
                "numbers. Pass (low, high) in this order."
            )

    @property
    def count(self) -> int:
        """Number of features that the expansion makes."""
        raise NotImplementedError

    def fill(self, values: NDArray[Any], first: int, out: NDArray[Any]) -> None:
        """Write the features of the columns, one row each, to out from column ``first`` on."""
        raise NotImplementedError

    def made_names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the features that it makes of columns of these names."""
        raise NotImplementedError

    def kept(self, n_features: int) -> NDArray[np.intp]:
        """Return the columns that stay as they are."""
        return np.setdiff1d(np.arange(n_features), np.array(self.columns))

    def transform(self, X: Any) -> Any:
        """Return the features of rows, in a new table.

        It is CSR if X is sparse and has more columns that stay than there are new ones, else dense.
        """
        kept = self.kept(X.shape[1])
        columns = list(self.columns)
        sparse = bool(sp.issparse(X))
        if sparse and kept.size > self.count:
            values = np.asarray(X[:, columns].toarray())
            made = np.zeros((X.shape[0], self.count), dtype=X.dtype)
            self.fill(values, 0, made)
            parts = [sp.csr_array(X[:, kept]), sp.csr_array(made)]
            return sp.csr_array(sp.hstack(parts, format="csr"))
        out = np.zeros((X.shape[0], kept.size + self.count), dtype=X.dtype)
        height = max(1, BLOCK_ENTRIES // out.shape[1])
        for start in range(0, len(out), height):
            rows = X[start : start + height]
            rows = rows.toarray() if sparse else rows
            part = out[start : start + height]
            part[:, : kept.size] = rows[:, kept]
            self.fill(np.ascontiguousarray(rows[:, columns]), kept.size, part)
        return out


@dataclass(frozen=True, eq=False)
class Splines(Expansion):
    """B-splines of single columns: a model that is linear in them is additive in the columns.

    Column j becomes ``pieces[j] + degrees[j]`` B-splines on uniform knots between its bounds. They
    are at least 0 and add up to 1. Degree 3 is smooth; degree 0 is one indicator per bin.

    Parameters
    ----------
    columns : sequence of int
        Columns of X, counted from 0.
    low, high : array of shape (n_columns,)
        Their bounds.
    pieces, degrees : sequence of int
        Number of pieces and degree of each column's splines.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet.preparation import Splines
    >>> Splines([1], [0.0], [10.0], [2], [0]).transform(np.array([[5.0, 3.0], [6.0, 8.0]]))
    array([[5., 1., 0.],
           [6., 0., 1.]])
    """

    columns: tuple[int, ...]
    low: FloatArray
    high: FloatArray
    pieces: tuple[int, ...]
    degrees: tuple[int, ...]
    name: ClassVar[str] = "splines"

    def __post_init__(self) -> None:
        super().__post_init__()
        for field, least, most in (("pieces", 1, 1000), ("degrees", 0, 3)):
            given = tuple(integer(field, each, least=least, most=most) for each in self._of(field))
            object.__setattr__(self, field, given)

    def _of(self, field: str) -> Sequence[int]:
        values: Sequence[int] = getattr(self, field)
        if not np.iterable(values) or len(values) != len(self.columns):
            raise ValueError(f"{field} must have one number per column, {len(self.columns)}.")
        return values

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of splines of each column."""
        return tuple(p + d for p, d in zip(self.pieces, self.degrees, strict=True))

    @property
    def count(self) -> int:
        """Number of features that the expansion makes."""
        return sum(self.widths)

    def fill(self, values: NDArray[Any], first: int, out: NDArray[Any]) -> None:
        """Write the splines of the columns to out, which is 0, from column ``first`` on."""
        at = first
        for j, width in enumerate(self.widths):
            cells = np.ascontiguousarray(values[:, j], dtype=np.float64)
            settings = (self.low[j], self.high[j], self.pieces[j], self.degrees[j])
            KERNELS.spline_rows(cells, *settings, at, out)
            at += width

    def made_names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the splines: those of their columns with a number."""
        return [
            f"{name}_{'sp' if degree else 'bin'}_{k}"
            for name, width, degree in zip(names, self.widths, self.degrees, strict=True)
            for k in range(width)
        ]


@dataclass(frozen=True, eq=False)
class Fourier(Expansion):
    """Random Fourier features: cosines of public random combinations of columns.

    The features are √(2/m)·cos(2π(f_k·z + p_k)), k = 1, …, m, of the columns z brought to [0, 1].
    With frequencies f_k from a Gaussian, their products approximate the kernel exp(−γ‖z − z'‖²)
    (Rahimi and Recht 2007). The columns in [0, 1] themselves are features, too.

    Parameters
    ----------
    columns : sequence of int
        Columns of X, counted from 0.
    low, high : array of shape (n_columns,)
        Their bounds.
    frequencies : array of shape (m, n_columns)
        f, in turns. Rounded to a grid, so that products of rows with them are exact.
    phases : array of shape (m,)
        p, in turns.

    Notes
    -----
    *Privacy.* Frequencies are drawn from a public seed, never from rows.
    """

    columns: tuple[int, ...]
    low: FloatArray
    high: FloatArray
    frequencies: FloatArray
    phases: FloatArray
    name: ClassVar[str] = "fourier"

    def __post_init__(self) -> None:
        super().__post_init__()
        frequencies = np.array(self.frequencies, dtype=np.float64, ndmin=2)
        wide = len(self.columns)
        if frequencies.shape[1] != wide or not np.isfinite(frequencies).all():
            raise ValueError(f"frequencies must be rows of {wide} finite numbers.")
        if wide > FOURIER_COLUMNS:
            raise ValueError(
                f"at most {FOURIER_COLUMNS} columns have Fourier features; got {wide}. Name fewer "
                "columns in columns."
            )
        frequencies = np.clip(frequencies, -LARGEST_FREQUENCY, LARGEST_FREQUENCY)
        frequencies = np.rint(frequencies * FREQUENCY_GRID) / FREQUENCY_GRID
        object.__setattr__(self, "frequencies", frequencies)
        check_fields(self, vector, "phases", size=len(frequencies))
        phases = np.rint((self.phases - np.floor(self.phases)) * FREQUENCY_GRID) / FREQUENCY_GRID
        object.__setattr__(self, "phases", phases)

    @classmethod
    def draw(
        cls,
        columns: Sequence[int],
        low: FloatArray,
        high: FloatArray,
        *,
        count: int,
        gamma: float,
        seed: int,
    ) -> Self:
        """Draw frequencies for the kernel exp(−γ‖z − z'‖²) from a public seed.

        Frequencies of one block are orthogonal, which approximates the kernel better than
        independent ones (Yu et al. 2016).
        """
        rng = np.random.default_rng(seed)
        wide = len(columns)
        blocks = []
        for _ in range(-(-count // wide)):
            directions, _ = np.linalg.qr(rng.normal(size=(wide, wide)))
            blocks.append(directions.T * np.sqrt(rng.chisquare(wide, size=(wide, 1))))
        frequencies = np.vstack(blocks)[:count] * (math.sqrt(2 * gamma) / (2 * math.pi))
        return cls(tuple(columns), low, high, frequencies, rng.random(count))

    @property
    def count(self) -> int:
        """Number of features that the expansion makes."""
        return len(self.phases) + len(self.columns)

    def fill(self, values: NDArray[Any], first: int, out: NDArray[Any]) -> None:
        """Write the columns in [0, 1], then the cosines, to out from column ``first`` on.

        Numbers in [0, 1] and frequencies are multiples of powers of 2, so their products and sums
        are exact: BLAS cannot round a row by its position.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (values.astype(np.float64) - self.low) / (self.high - self.low)
            # infinite numbers become NaN, which rows refuse, instead of an end of the interval
            scaled = np.clip(scaled, 0.0, 1.0) + 0.0 * values
            grid = np.rint(scaled * FOURIER_GRID) / FOURIER_GRID
            turns = grid @ self.frequencies.T + self.phases
        at = first + len(self.columns)
        out[:, first:at] = scaled
        KERNELS.cosine_rows(turns, math.sqrt(2 / len(self.phases)), at, out)

    def made_names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the columns, then numbered cosines."""
        return [*names, *(f"cos_{k}" for k in range(len(self.phases)))]


EXPANSIONS: Mapping[str, type[Expansion]] = {kind.name: kind for kind in (Splines, Fourier)}
"""Classes of expansions by name."""


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Map from rows of X to the features that ``coef_`` belongs to.

    ``decision_function(X)`` is ``features_.transform(X) @ coef_.T + intercept_``. The features of a
    row depend on that row and on public or released numbers alone.

    Parameters
    ----------
    bounds : FittedBounds, optional
        Columns that are brought to [0, 1] first, by privately chosen bounds.
    expansion : Expansion, optional
        Columns that are replaced by features then.
    """

    bounds: FittedBounds | None = None
    expansion: Expansion | None = None

    def width(self, n_features: int) -> int:
        """Return the number of features of a table with this many columns."""
        if self.expansion is None:
            return n_features
        return n_features - len(self.expansion.columns) + self.expansion.count

    def transform(self, X: Any) -> Any:
        """Return the features of rows: X itself if they are its columns, else a new table."""
        bounded = X if self.bounds is None else self.bounds.apply(X)
        return bounded if self.expansion is None else self.expansion.transform(bounded)

    def names(self, columns: Sequence[str]) -> list[str]:
        """Return the names of the features, from those of the columns of X."""
        if self.expansion is None:
            return list(columns)
        kept = [columns[j] for j in self.expansion.kept(len(columns))]
        return kept + self.expansion.made_names([columns[j] for j in self.expansion.columns])
