"""Steps that choose among public candidates (`Bounds`, `Radius`, `Spread`), and what a step is.

A `Step` is a setting: its share of the budget and what it asks the curator for. A `FittedStep`
holds the numbers that were released, and the affine map that they stand for: what becomes of a row
in a fit depends on that row and the released numbers.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.accounting import conversions
from discreet.accounting.budget import Measure
from discreet.core import Curator, ExponentialMechanism, Gaussian, L2Norm
from discreet.core.questions import ColumnBounds, MedianNorm
from discreet.declared import flag
from discreet.rows import AffineMap
from discreet.validate import FloatArray, check_fields, integer, number, positive, vector

Mechanism = ExponentialMechanism | Gaussian | L2Norm
AnyStep = TypeVar("AnyStep", bound="Step | FittedStep")

LEAST_SPREAD = 1e-6
"""Share of their norm that rows are assumed to keep at least when a mean is subtracted."""

RADII = (1e-21, 1e21)
"""Range of a radius: beyond it single precision would overflow."""


@dataclass(frozen=True)
class RowNorms:
    """Public knowledge of the norm of rows between two steps of a preparation.

    Norms are infinite before anything is known of them.

    Attributes
    ----------
    clip
        Norm that rows are clipped to in the next moment that is asked for.
    typical
        Upper bound on the root of the rows' mean squared norm, as far as is known.
    target
        Root mean squared norm that `Whiten` brings rows to.
    raw
        True until a step has clipped the rows. The next step that transforms them then clips them
        first; later steps clip rows in their moments only.
    dense, constant
        Columns that had a small number of zeros, and columns that were nearly constant, where that
        was measured.
    mean_noise
        Deviation of the noise in each column's mean, which was subtracted last.
    median
        Approximate median norm of the rows; 0 if it is not known.
    sizes
        Sizes of the columns that `Largest` detected, NaN for others.
    in_units
        True if `Magnitude` brought columns to entries of about 1 at most.
    resolved, indicators
        Columns whose unit `Magnitude` detected, and columns in which it detected no entry but 0 and
        ±1.
    moment
        Noisy second moment of the columns that `Whiten` was given, over the deviation of its noise.
    """

    clip: float
    typical: float
    target: float
    raw: bool = False
    dense: NDArray[np.bool_] | None = None
    constant: NDArray[np.bool_] | None = None
    mean_noise: float = 0.0
    median: float = 0.0
    sizes: FloatArray | None = None
    in_units: bool = False
    resolved: NDArray[np.bool_] | None = None
    indicators: NDArray[np.bool_] | None = None
    moment: FloatArray | None = None

    @classmethod
    def raw_up_to(cls, norm: float) -> RowNorms:
        """Return what a public bound on the norm says of rows that no step has clipped."""
        return cls(float(norm), float(norm), float(norm), raw=True)


Known = RowNorms | None

STEPS: dict[str, type[Step]] = {}
"""Classes of steps by name."""

FITTED_STEPS: dict[str, type[FittedStep]] = {}
"""Classes of fitted steps by name."""


class Step:
    """Base class of steps: frozen dataclasses with a share of the budget.

    A step is ``dense`` if it makes a dense table of a sparse one, and ``bounded`` if it needs a
    public bound on the norm of the rows it reads. ``selections`` is its number of selections among
    public candidates; 0 for a step that asks for one sum. ``limits`` has the range of each setting
    that is a number, ``flags`` the names of those that are not; ``widest`` is the largest number of
    columns, if there is one.
    """

    share: float
    name: ClassVar[str]
    dense: ClassVar[bool] = False
    bounded: ClassVar[bool] = True
    selections: int = 0
    limits: ClassVar[dict[str, tuple[float, float]]] = {}
    flags: ClassVar[tuple[str, ...]] = ()
    widest: ClassVar[int | None] = None

    def __init_subclass__(cls) -> None:
        STEPS[cls.name] = cls

    def __post_init__(self) -> None:
        for name, (least, most) in {"share": (1e-6, 1 - 1e-6), **self.limits}.items():
            check_fields(self, number, name, least=least, most=most)
        check_fields(self, flag, *self.flags)

    def mechanism(self, measure: Measure, total: Fraction) -> Mechanism:
        """Return the mechanism whose uses in this step cost at most ``total``, and nearly all.

        The cost of a mechanism is rounded up, so slightly less than ``total`` is asked for.
        """
        if not self.selections:
            if measure == "gdp":
                return Gaussian.sharing(float(total))
            amount = float(total) * (1 - 2.0**-40)
            return Gaussian.from_rho(amount) if measure == "zcdp" else L2Norm(amount)
        each = float(total / self.selections) * (1 - 2.0**-36)
        if measure == "zcdp":
            each = math.sqrt(8 * each)
        elif measure != "pure":
            each = conversions.bounded_range_from_mu(math.sqrt(each))
        return ExponentialMechanism(each, monotone=False)

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedStep, Known]:
        """Ask the curator for what the step needs, with the budget that was opened for it.

        ``mechanism`` is what `mechanism` returned for that budget, ``norms`` what is known of the
        norm of the rows. Returns the released numbers, and what is known of transformed rows.
        """
        raise NotImplementedError


class FittedStep:
    """Base class of fitted steps: frozen dataclasses of released numbers.

    ``condition_text`` says what the privacy of the step rests on, with names of fields in braces.
    ``checks`` has the check of each field, a function of its name and value. Rows are multiplied by
    the field that ``multiplies`` names, of one entry or row per column, or that of ``subtracts`` is
    subtracted from them; a step that names neither leaves them as they are.
    """

    name: ClassVar[str]
    condition_text: ClassVar[str]
    checks: ClassVar[dict[str, Callable[[str, Any], Any]]] = {}
    multiplies: ClassVar[str] = ""
    subtracts: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "name"):
            FITTED_STEPS[cls.name] = cls

    def __post_init__(self) -> None:
        for name, check in self.checks.items():
            check_fields(self, check, name)

    def affine_map(self, before: AffineMap | None, n_features: int) -> AffineMap | None:
        """Return the map that does what ``before`` and then this step do, if there is one.

        The first step of a map clips rows to its ``row_norm``, if it has one.
        """
        if not self.multiplies and not self.subtracts:
            return before
        start = before or AffineMap.to_norm(getattr(self, "row_norm", math.inf), n_features)
        if self.subtracts:
            return start.then(1.0, getattr(self, self.subtracts))
        return start.then(getattr(self, self.multiplies))

    def accepts(self, n_features: int) -> bool:
        """Return whether the step can be applied to a table of this width."""
        by = self.multiplies or self.subtracts
        return not by or len(getattr(self, by)) == n_features

    @property
    def condition(self) -> str:
        """Statement of what the privacy of the step rests on."""
        return self.condition_text.format_map(vars(self))


def to_dict(step: Step | FittedStep) -> dict[str, Any]:
    """Return a step, or a fitted one, as plain data."""
    plain: dict[str, Any] = {"step": step.name}
    for field in fields(step):  # type: ignore[arg-type]  # subclasses are dataclasses
        value = getattr(step, field.name)
        plain[field.name] = np.asarray(value).tolist() if np.iterable(value) else value
    return plain


def from_dict(data: Any, kinds: Mapping[str, type[AnyStep]]) -> AnyStep:
    """Return the step that `to_dict` was called on; anything else is a ``ValueError``.

    ``kinds`` has the classes that are allowed, by name.
    """
    name = data.get("step") if isinstance(data, dict) else None
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"a step must be one of {', '.join(kinds)}; got {name!r}.")
    entries = [field.name for field in fields(kinds[name])]  # type: ignore[arg-type]
    if set(data) != {"step", *entries}:
        raise ValueError(f"the step {name!r} has exactly the entries: step, {', '.join(entries)}.")
    return kinds[name](**{key: data[key] for key in entries})


@dataclass(frozen=True)
class Bounds(Step):
    """Bring columns without public bounds to [0, 1], by bounds that are chosen privately.

    Each of the columns becomes clip((x − low)/(high − low), 0, 1), where low and high are round
    numbers between which about ``coverage`` of its values lie.

    Parameters
    ----------
    columns : sequence of int
        Columns of X, counted from 0.
    share : float
        Share of the budget, for all of the columns together.
    coverage : float
        Share of a column's values that should lie within its bounds.
    whole : sequence of int
        Those of the columns that hold whole numbers, such as counts: so are their bounds.

    Notes
    -----
    *Privacy.* Two private selections per column among public candidates. The chosen bounds are
    released.
    """

    columns: Sequence[int]
    share: float = 0.1
    coverage: float = 0.98
    whole: Sequence[int] = ()
    name: ClassVar[str] = "bounds"
    bounded: ClassVar[bool] = False
    limits: ClassVar[dict[str, tuple[float, float]]] = {"coverage": (0.5, 0.9999)}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", distinct(self.columns))
        object.__setattr__(self, "selections", 2 * len(self.columns))
        object.__setattr__(self, "whole", distinct(self.whole) if len(self.whole) else ())
        if not set(self.whole) <= set(self.columns):
            raise ValueError(f"whole must name some of the columns; got {list(self.whole)}.")

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedBounds, Known]:
        """Ask for both bounds of each column."""
        pairs = [
            curator.ask(ColumnBounds(j, self.coverage, j in self.whole), mechanism)
            for j in self.columns
        ]
        low, high = np.array(pairs, dtype=np.float64).T
        return FittedBounds(tuple(self.columns), low, high), norms


@dataclass(frozen=True, eq=False)
class FittedBounds(FittedStep):
    """Columns and their bounds: x becomes clip((x − low)/(high − low), 0, 1)."""

    columns: tuple[int, ...]
    low: FloatArray
    high: FloatArray
    name: ClassVar[str] = "bounds"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", distinct(self.columns))
        check_fields(self, vector, "low", "high", size=len(self.columns))
        if not (self.low < self.high).all():
            raise ValueError("bounds of a column must have low < high.")

    @property
    def condition(self) -> str:
        """Statement of what the privacy of the step rests on."""
        return (
            f"bounds of {len(self.columns)} columns were chosen privately among public round "
            "numbers, and values cut to them"
        )

    def accepts(self, n_features: int) -> bool:
        """Return whether the table has all of the columns."""
        return max(self.columns) < n_features

    def apply(self, X: Any) -> Any:
        """Return a table with the columns in [0, 1]; a sparse table stays sparse."""
        if sp.issparse(X):
            return self._apply_sparse(X)
        out = np.array(X, order="C")
        for at, column in enumerate(self.columns):
            out[:, column] = self._scaled(at, X[:, column])
        return out

    def _scaled(self, at: int, values: NDArray[Any]) -> FloatArray:
        low, high = self.low[at], self.high[at]
        with np.errstate(over="ignore"):
            scaled: FloatArray = (np.asarray(values, dtype=np.float64) - low) / (high - low)
        return np.clip(scaled, 0.0, 1.0, out=scaled)

    def _apply_sparse(self, X: Any) -> Any:
        """Replace the columns. Zeros may change, so the columns are made dense on the way."""
        kept = X.tocsr(copy=True)
        ours = np.zeros(X.shape[1], dtype=bool)
        ours[list(self.columns)] = True
        kept.data[ours[kept.indices]] = 0
        kept.eliminate_zeros()
        dense = np.empty((X.shape[0], len(self.columns)), dtype=X.dtype)
        for at, column in enumerate(self.columns):
            dense[:, at] = self._scaled(at, np.asarray(X[:, [column]].toarray())[:, 0])
        new = sp.csr_array(dense)
        new = sp.csr_array(
            (new.data, np.array(self.columns, dtype=new.indices.dtype)[new.indices], new.indptr),
            shape=X.shape,
        )
        total = sp.csr_array(kept) + new
        total.sort_indices()
        return total.astype(X.dtype, copy=False)


@dataclass(frozen=True)
class Radius(Step):
    """Bring rows to a common norm: x becomes x/max(R, ‖x‖), of norm at most 1.

    R is ``factor`` times about the median of the rows' norms. No public bound on the norm is
    needed; if ``data_norm`` is given, R is at most that. Sparse tables stay sparse.

    Parameters
    ----------
    share : float
        Share of the budget.
    factor : float
        R over the median norm. Rows of a norm above R are clipped to R.
    moment_clip : float
        Norm that rows are clipped to in the next moment, over R.

    Notes
    -----
    *Privacy.* One private selection among public candidates. The chosen radius is released.
    """

    share: float = 0.01
    factor: float = 1.1
    moment_clip: float = 1.0
    name: ClassVar[str] = "radius"
    bounded: ClassVar[bool] = False
    selections = 1
    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "factor": (0.1, 100.0),
        "moment_clip": (1e-3, 1.0),
    }

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedRadius, RowNorms]:
        """Ask for the median norm; rows have norm at most 1 afterwards."""
        bounded = norms and norms.raw and math.isfinite(norms.clip)
        largest = norms.clip if norms and bounded else None
        radius = self.factor * curator.ask(MedianNorm(largest), mechanism)
        fitted = FittedRadius(radius if largest is None else min(radius, largest))
        # a bound on the norm of rows changes R, not the norm that moments clip to
        clip = min(self.moment_clip * radius / fitted.radius, 1.0)
        known = RowNorms(clip, clip, 1.0, median=radius / self.factor / fitted.radius)
        if norms:
            known = replace(known, dense=norms.dense, indicators=norms.indicators)
        return fitted, known


@dataclass(frozen=True, eq=False)
class FittedRadius(FittedStep):
    """A radius: a row x becomes x/max(radius, ‖x‖), of norm at most 1."""

    radius: float
    name: ClassVar[str] = "radius"
    checks: ClassVar = {"radius": partial(number, least=RADII[0], most=RADII[1])}
    condition_text: ClassVar[str] = (
        "the radius {radius:.4g} was chosen privately by the median norm of the rows, among public "
        "candidates; rows were clipped to it and divided by it"
    )

    def affine_map(self, before: AffineMap | None, n_features: int) -> AffineMap | None:
        """Return the map if no step before it clips: it depends on the norms of the rows."""
        start = before or AffineMap.to_norm(math.inf, n_features)
        if math.isfinite(start.row_norm):
            return None
        return replace(start, row_norm=self.radius).then(1.0 / self.radius)


@dataclass(frozen=True)
class Spread(Step):
    """Measure the norm of the rows as they are now, so that later moments can clip them closer.

    Rows stay as they are. After `Centre` their norm may be much smaller than before: a column of
    years has a large mean and a small spread. Moments of rows that are clipped to their actual
    norm have less noise, so a second `Centre` finds the mean more precisely.

    Parameters
    ----------
    share : float
        Share of the budget.
    factor : float
        Norm that rows are clipped to, over their median norm.

    Notes
    -----
    *Privacy.* One private selection among public candidates. The chosen norm is released.
    """

    share: float = 0.01
    factor: float = 1.5
    name: ClassVar[str] = "spread"
    selections = 1
    limits: ClassVar[dict[str, tuple[float, float]]] = {"factor": (0.1, 10.0)}

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedSpread, RowNorms]:
        """Ask for the median norm; later moments clip rows to a multiple of it.

        It is kept within what rows can have, and above what would let transformed rows overflow.
        """
        assert norms is not None  # `check_steps` demands a bound before this step
        fitted = FittedSpread(self.factor * curator.ask(MedianNorm(), mechanism))
        # a mean that was subtracted may have added to the norm
        most = norms.clip if norms.raw else 2 * norms.clip
        norm = min(max(fitted.norm, LEAST_SPREAD * norms.clip), most)
        return fitted, replace(norms, clip=norm, typical=norm, median=norm / self.factor)


@dataclass(frozen=True, eq=False)
class FittedSpread(FittedStep):
    """A norm that rows are clipped to in the moments of later steps. Rows stay as they are."""

    norm: float
    name: ClassVar[str] = "spread"
    checks: ClassVar = {"norm": positive}
    condition_text: ClassVar[str] = (
        "the norm {norm:.4g} was chosen privately by the median norm of the rows, among public "
        "candidates, and later moments clip rows to it"
    )


def distinct(columns: Any) -> tuple[int, ...]:
    """Return numbers of columns, each once."""
    given = tuple(columns) if np.iterable(columns) else ()
    numbers = tuple(integer("columns", column, least=0) for column in given)
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(
            "columns must name at least one column of X by its number, counted from 0, each once; "
            f"got {columns!r}."
        )
    return numbers
