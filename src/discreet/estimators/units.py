"""What a fit gets: a checked table with its targets and privacy units (`Inputs`).

With ``groups`` the unit of privacy is a person with all of their rows, whose weights add up to at
most 1. `PrivacyUnits` says whose row each row is and makes rows of a table with these weights, so
that no caller passes them. Proof: docs/proofs/unit.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.core.bits import Bits
from discreet.engines import BlockTable
from discreet.errors import NotSupported
from discreet.rows import Rows, RowWeights, Unit, Units, as_rows, scaled_weights
from discreet.solvers import Solver
from discreet.validate import FloatArray, number

Rule = Callable[[NDArray[Any]], FloatArray]
"""A function that can be pickled, from targets as given to those of a model."""


@dataclass(frozen=True, eq=False)
class PrivacyUnits:
    """Units of a table's rows, and public factors of the rows' weights.

    Attributes
    ----------
    size
        Public number of units.
    units
        Whose row each row is; None if each row is a unit, or if blocks on workers know it.
    rows_per_unit
        A unit of fewer rows than this has a total weight in proportion to them.
    factors
        Public numbers from 0 to 1 that weights of rows are multiplied by.
    unit, plural
        Names of a unit and of several, for the guarantee.
    drawn, even
        True if one row was drawn for each unit; True if every unit has a total weight of 1 in the
        objective as well.
    public
        Statements of what is treated as public.
    nominal
        Weights that are cut where a unit has more than 1 of them; None for 1/max(m, k).
    condition
        Statement about the weights of a unit's rows, if it is not that of ``rows_per_unit``.
    """

    size: int
    units: Units | None = None
    rows_per_unit: int = 1
    factors: FloatArray | None = None
    unit: Unit = "row"
    plural: str = "rows"
    drawn: bool = False
    even: bool = True
    public: tuple[str, ...] = ()
    nominal: FloatArray | None = None
    condition: str = ""

    @classmethod
    def of(
        cls,
        X: Any,
        groups: Any,
        sample_weight: Any,
        rows_per_unit: int | None,
        weight_bound: float | None = None,
    ) -> Self:
        """Check what the caller says about the rows of X, before anything is read or spent.

        Sample weights are public, unless a public ``weight_bound`` is given: then they are
        protected with their rows, and those above it count as it.
        """
        n_rows = X.shape[0]
        named: Any = {"unit": "person", "plural": "people"}
        if isinstance(X, BlockTable):
            if sample_weight is not None or rows_per_unit not in (None, 1):
                what = "sample_weight" if sample_weight is not None else "rows_per_unit above 1"
                raise NotSupported(
                    f"{what} is for tables of this process, and these rows are on workers. Read "
                    "them with schema.open(files), which needs little memory."
                )
            if groups is not None:  # the blocks have the weights
                _check_count(n_rows)
                return cls(n_rows, **named)
        if weight_bound is not None and sample_weight is None:
            raise ValueError("weight_bound is for sample_weight, and fit got none. Pass both.")
        factors = None
        public: tuple[str, ...] = ()
        if sample_weight is not None:
            factors = scaled_weights(sample_weight, n_rows, weight_bound)
        if factors is not None:
            bounded = weight_bound is not None
            public = (
                "the bound on sample weights" if bounded else "the sample weights of the rows",
            )
        if groups is None:
            if rows_per_unit is not None:
                raise ValueError(
                    f"rows_per_unit={rows_per_unit} is for people with several rows, but fit got "
                    "no groups. Pass groups=ids; in a pipeline model__groups=ids, or enable "
                    "scikit-learn's metadata routing."
                )
            return cls(n_rows, factors=factors, even=factors is None, public=public)
        units = Units.of(groups, n_rows)
        _check_count(units.count)
        even = factors is None and rows_per_unit in (None, 1)
        own = (units, rows_per_unit or 1, factors)
        return cls(units.count, *own, even=even, public=public, **named)

    @property
    def grouped(self) -> bool:
        """True if rows share units, here or on workers."""
        return self.unit != "row" and not self.drawn

    def times(self, factors: FloatArray) -> Self:
        """Return the same rows with their weights multiplied by factors from 0 to 1."""
        old = self.factors
        return replace(self, factors=factors if old is None else old * factors, even=False)

    def draw(self, bits: Bits) -> tuple[NDArray[np.intp], Self]:
        """Draw one row of each unit at random; return their places, and the units of these rows.

        *Privacy.* Which row of a unit is drawn depends on random bits of that unit alone.
        """
        assert self.units is not None  # each row is a unit, and none is left to be drawn
        index = self.units.draw(bits)
        factors = None if self.factors is None else self.factors[index]
        return index, replace(self, units=None, factors=factors, drawn=True)

    def spread(self, index: NDArray[np.intp], condition: str) -> Self:
        """Return the units after rows have been repeated by ``index``."""
        each = Units(np.arange(self.size), self.size, self.unit)
        units = each if self.units is None else self.units
        factors = None if self.factors is None else self.factors[index]
        own = replace(units, codes=units.codes[index])
        return replace(self, units=own, factors=factors, condition=condition)

    def rows(
        self,
        table: Any,
        targets: Any,
        *,
        fit_intercept: bool = False,
        row_norm: float | None = None,
        factors: NDArray[np.bool_] | None = None,
        gaps: bool = False,
    ) -> Rows:
        """Return the rows of a table, with weights by which every unit has a total weight of 1.

        Rows where ``factors`` is False have the weight 0. With ``gaps`` entries may be missing.
        Blocks on workers have their own targets, which are None here, and their own weights.
        """
        settings: Any = {"fit_intercept": fit_intercept, "row_norm": row_norm}
        if targets is None:
            rows: Rows = table.rows(**settings)
            return rows
        weights: RowWeights | None = None
        if factors is not None:
            weights = self.times(factors.astype(np.float64)).model_weights()
        elif self.units is not None:
            weights = self.units.weights()
        elif self.unit != "row":
            weights = RowWeights(np.empty(0), self.size, self.unit)
        return as_rows(table, targets, weights=weights, gaps=gaps, **settings)

    def weigh(self, rows: Rows) -> Rows:
        """Return the rows with their weights in the objective."""
        weights = self.model_weights()
        return rows if weights is None else rows.with_weights(weights)

    def model_weights(self) -> RowWeights | None:
        """Return the weights of rows in the objective."""
        if self.units is not None and self.nominal is not None:
            factors = 1.0 if self.factors is None else self.factors
            return self.units.capped(self.nominal * factors)
        if self.units is not None:
            return self.units.weights(self.rows_per_unit, self.factors)
        if self.factors is None:
            return None
        return RowWeights.of(self.factors.copy(), self.size, unit=self.unit, grouped=False)

    def totals(self, codes: NDArray[Any], count: int) -> FloatArray:
        """Return the exact total weight of the rows of each class, for baselines: not private."""
        weights = self.model_weights()
        values = None if weights is None else weights.values
        return np.bincount(codes, values, minlength=count).astype(np.float64)

    def check_solver(self, solver: Solver, *, weighted: bool = False) -> None:
        """Refuse weights that a solver cannot take; ``weighted`` if classes have some."""
        if self.nominal is not None and not solver.takes_units:
            raise NotSupported(
                f"solver={solver.name!r} takes one row of each {self.unit}, and this model makes "
                "several that differ in weight. Use solver='gd'."
            )
        if self.rows_per_unit > 1 and not solver.takes_units:
            raise NotSupported(
                f"solver={solver.name!r} takes one row of each person; got "
                f"rows_per_unit={self.rows_per_unit}. Use solver='gd', or rows_per_unit=1."
            )
        if (self.factors is not None or weighted) and not solver.takes_weights:
            raise NotSupported(
                f"solver={solver.name!r} takes rows without weights only. Use solver='gd', or "
                "leave sample_weight, class_weight and exposure out."
            )

    def stated(self, conditions: tuple[str, ...]) -> tuple[str, ...]:
        """Return the conditions of a fit, of units instead of rows, with those of the unit."""
        each = f"of the rows made of each {self.unit}" if self.condition else "row of each person"
        own = f"one {each} was drawn at random before anything was read, and used alone"
        if not self.drawn:
            k = self.rows_per_unit
            count = "m" if k == 1 else f"max(m, {k})"
            own = f"each row of a person with m rows has the weight 1/{count}, or less"
            own = self.condition or own
        one = f"one {self.unit} can"
        return (own, *(text.replace("one row can", one) for text in conditions))


@dataclass(frozen=True, eq=False)
class Exposure:
    """Time, area or number at risk that each row's target was counted over: private, as the row.

    A count y over the exposure e has the mean e·exp(m). Its loss is e times that of the rate y/e,
    so the row becomes a rate with the weight min(e, bound)/bound, a number from 0 to 1 that depends
    on this row and on the public ``bound``. Without a bound, for losses of the rate alone, rows
    have no such weight.
    """

    values: Any
    bound: float | None

    def applied(
        self, X: Any, y: NDArray[Any] | None, units: PrivacyUnits
    ) -> tuple[FloatArray, PrivacyUnits]:
        """Return rates, and units whose rows are weighted by exposure."""
        if y is None:
            raise NotSupported(
                "exposure is for tables of this process, and these rows are on workers. Divide "
                "targets by it, where all rows may count the same."
            )
        given = np.asarray(self.values)
        if given.shape != (X.shape[0],) or given.dtype.kind not in "biuf":
            raise ValueError("exposure must be one-dimensional, with one number for each row of X.")
        values = given.astype(np.float64)
        if not (np.isfinite(values) & (values > 0)).all():
            raise ValueError("exposure must be finite numbers above 0; some are not.")
        with np.errstate(all="ignore"):  # a warning about one row would be about that row
            rates = np.asarray(y, dtype=np.float64) / values
            shares = values if self.bound is None else np.minimum(values / self.bound, 1.0)
        if self.bound is None:
            return rates, units
        weighted = units.times(shares)
        return rates, replace(weighted, public=(*units.public, "the bound on exposure"))


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """Weights of classes: public numbers, or None if they are to balance the classes.

    ``codes`` has the class of each row, as a number below ``count``.
    """

    codes: NDArray[Any]
    count: int
    values: FloatArray | None

    @classmethod
    def of(cls, setting: Any, classes: NDArray[Any], codes: NDArray[Any]) -> Self:
        """Return the weights that ``class_weight`` names."""
        if isinstance(setting, str):
            return cls(codes, len(classes), None)
        labels = classes.tolist()
        values = np.ones(len(labels))
        for label, value in setting.items():
            if label not in labels:
                raise ValueError(f"class_weight has {label!r}, which is not among the classes.")
            values[labels.index(label)] = value
        if not values.max() > 0:
            raise ValueError("class_weight must have a number above 0.")
        return cls(codes, len(labels), values)

    def take(self, index: NDArray[np.intp]) -> Self:
        """Return the weights for the named rows."""
        return replace(self, codes=self.codes[index])

    def factors(self, totals: FloatArray | None) -> FloatArray:
        """Return a number from 0 to 1 for each class, given (noisy) totals of their rows."""
        values = self.values
        if values is None:
            assert totals is not None  # balanced classes are always measured
            values = 1.0 / np.maximum(totals, 1.0)
        return np.asarray(np.minimum(values / values.max(), 1.0))

    @property
    def public(self) -> tuple[str, ...]:
        """Statement of what is treated as public."""
        return () if self.values is None else ("the weights of the classes",)


@dataclass(frozen=True, eq=False)
class Inputs:
    """A table that was checked, whose rows it has, and the models to fit to it.

    Attributes
    ----------
    X, y
        The table and what targets are made of; y is None where blocks of X have their own.
    rules
        For each model, the function from y, or from targets in blocks, to its targets.
    units, by_class
        Whose row each row is, and the weights of classes, if there are any.
    public
        Statements of what the estimator treats as public.
    names, booleans, design
        Names of the columns, if they have any, the columns that are known to be 0 or 1, and the
        design that made X of a table, if there is one.
    scale, centre
        Factor and constant that bring margins of the fit to units of predictions.
    ends
        Public bounds of scaled targets that are clipped to them, if they are.
    is_own
        True if X was made for this fit alone, which may overwrite it.
    """

    X: Any
    y: NDArray[Any] | None
    rules: tuple[Rule, ...]
    units: PrivacyUnits
    by_class: ClassWeights | None = None
    public: tuple[str, ...] = ()
    names: Sequence[str] | None = None
    booleans: tuple[int, ...] = ()
    design: Any = None
    scale: float = 1.0
    centre: float = 0.0
    ends: tuple[float, float] | None = None
    is_own: bool = False

    def labelled(self, rows: Rows, model: int) -> Rows:
        """Return the rows with the targets of a model; rows are made with those of the first."""
        rule = self.rules[model]
        if self.y is None:
            return rows.with_targets(rule)
        return rows if model == 0 else rows.with_targets(rule(self.y))

    def drawn(self, bits: Bits) -> Inputs:
        """Return one row of each unit, drawn at random."""
        assert self.y is not None  # rows on workers go to solvers that take units
        index, units = self.units.draw(bits)
        classes = None if self.by_class is None else self.by_class.take(index)
        return replace(self, X=self.X[index], y=self.y[index], units=units, by_class=classes)


def _check_count(n_units: int) -> None:
    if n_units < 2:
        raise ValueError(
            "groups names a single person; a model of one person protects nobody. Pass the id of "
            "each row's person."
        )


def check_class_weight(setting: Any) -> None:
    """Raise if ``class_weight`` is not "balanced" or a dict of public numbers."""
    if isinstance(setting, str) and setting == "balanced":
        return
    if not isinstance(setting, Mapping) or not setting:
        raise ValueError(
            "class_weight must be None, 'balanced' or a dict from labels to numbers of at least 0; "
            f"got {setting!r}."
        )
    for value in setting.values():
        number("class_weight", value, least=0.0, most=1e100)
