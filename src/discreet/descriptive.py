"""Table 1 of a study: counts, means, standard deviations, quantiles and levels, by group.

All of it comes from one noisy sum. Each row becomes a vector of indicators, numbers in [-1, 1] and
their squares, in the place of its group; its norm is at most a public number, and a person with
several rows has the total weight 1. What the table shows is computed from the noisy sum alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.column_kinds import ColumnType, by_name, check_columns, columns_of, is_table
from discreet.core import Budget, Gaussian
from discreet.core.questions import RowSum
from discreet.core.session import Session, bits_of
from discreet.design import Design, Group, unit_of_table
from discreet.errors import NotSupported, PrivacyError
from discreet.estimators.units import PrivacyUnits
from discreet.inference.covariance import quantile
from discreet.ledger import Dataset
from discreet.log import note
from discreet.table_one import QUANTILES, Description, Entry
from discreet.tables import Boolean, Categorical, Ignored, Numeric, Ordinal, Schema
from discreet.tables.columns import MISSING
from discreet.tables.csv_files import TextPart
from discreet.tables.draft import layout
from discreet.tables.libraries import table_part
from discreet.tables.reader import gathered
from discreet.validate import FloatArray, integer, number

__all__ = ["Description", "Entry", "describe"]

BINS = 40
"""Bins of a number between its bounds, by which quantiles are found."""

MOST_VALUES = 150
"""Values of a column of whole numbers that have a bin each."""

SMALLEST_COUNT = 3.0
"""Numbers of a group are shown where its noisy count is above this many deviations of its noise."""


def describe(
    table: Any,
    *,
    epsilon: float,
    delta: float = 1e-6,
    columns: Mapping[int | str, Any] | Schema | None = None,
    by: str | None = None,
    unit: str | None = None,
    level: float = 0.95,
    bins: int = BINS,
    relation: str = "add_remove",
    ledger: Dataset | None = None,
    random_state: Any = None,
) -> Description:
    """Describe the columns of a table within a budget: counts, means, quantiles, levels.

    Parameters
    ----------
    table : DataFrame, table, or path
        A pandas, polars or Arrow table; or files and folders as in `discreet.fit`, of which the
        columns that are described are read into memory.
    epsilon, delta, relation
        The budget, as of an estimator.
    columns : mapping or Schema
        What is public about the columns, as for estimators: (low, high) for numbers, a list of
        levels for texts. Columns that are not listed follow from their types; numbers need bounds.
        Those of text files have no types, and are left out unless they are listed.
    by : str, optional
        A column with listed levels, by which all others are described.
    unit : str, optional
        Column with the ids of people. Each person then has the total weight 1: counts are of
        people, and means are means of people's means.
    level : float
        Level of the intervals.
    bins : int
        Number of bins between the bounds of a number, by which quantiles are found.
    ledger : Dataset, optional
        Data set of a ledger that is charged.
    random_state : optional
        A seed, which protects nobody: for tests.

    Returns
    -------
    Description

    Notes
    -----
    *Privacy.* One release with Gaussian noise on the whole budget: the sum of vectors that depend
    on one row each, scaled down to a public norm, in which each person has the total weight 1
    (docs/proofs/unit.md). The kinds, bounds and levels of the columns are public.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import discreet
    >>> rng = np.random.default_rng(0)
    >>> visits = pd.DataFrame({"age": rng.uniform(20, 90, 5000), "ward": ["A", "B"] * 2500})
    >>> columns = {"age": (0, 110), "ward": ["A", "B"]}
    >>> found = discreet.describe(visits, columns=columns, by="ward", epsilon=1.0)
    >>> found.groups
    ('A', 'B', 'all')
    """
    budget = Budget(epsilon, delta, relation)
    if budget.pure:
        raise NotSupported("describe adds Gaussian noise, which needs delta > 0, for example 1e-6.")
    number("level", level, above=0.0, below=1.0, remedy="Usual is 0.95.")
    integer("bins", bins, least=4, most=1000)
    schema = columns if isinstance(columns, Schema) else None
    unit = unit if unit is not None or schema is None else schema.unit
    if is_table(table):
        _check_unit(unit, table_part(table).names)
        design = Design(schema) if schema is not None else _of_table(table, columns, unit)
    elif isinstance(table, np.ndarray) or sp.issparse(table):
        raise ValueError("describe takes a table with names of columns (pandas, polars or Arrow).")
    else:
        design = _of_source(table, columns, unit)
    if design is None:
        raise ValueError(_BOUNDS.format(name="a number"))
    plan = _Plan.of(design, by, unit, bins)
    if not is_table(table):
        table = gathered(table, replace(design.schema, unit=unit))
    groups = None if unit is None else unit_of_table(table, unit, None)
    encoded = design.encode(table)
    units = PrivacyUnits.of(encoded, groups, None, None)
    rows = units.rows(plan.vectors(encoded), np.zeros(encoded.shape[0]), row_norm=plan.norm)
    payer = None if ledger is None else ledger.noting(solver="describe")
    session = Session(budget, units.unit, ledger=payer, bits=bits_of(random_state))
    curator = session.curator(rows)
    total = curator.open("gdp")
    note("Description: ε = %g, %s, one %s.", epsilon, relation, units.unit)
    noisy = curator.ask(RowSum(curator.row_norm), Gaussian.sharing(float(total)))
    guarantee = session.account.guarantee(
        conditions=units.stated(()) if units.unit != "row" else (),
        public=(f"the number of {units.plural}", *design.public),
        secure=session.secure,
    )
    entries = plan.entries(noisy.values, noisy.deviation, level)
    entry = None if ledger is None else getattr(session.account.charge, "entry", None)
    return Description(entries, plan.groups, level, guarantee, units.plural, entry)


def _check_unit(unit: str | None, names: Sequence[Any]) -> None:
    """Refuse a unit that the table does not have: the promise would be for one row."""
    if unit is not None and unit not in names:
        raise PrivacyError(f"the table has no column {unit!r}, so nobody could be protected by it.")


def _of_table(table: Any, columns: Any, unit: str | None) -> Design | None:
    """Return the design of a table; the column of ids is not described."""
    declared = check_columns(columns)
    part = table_part(table)
    if unit is not None and unit in part.names:
        declared.setdefault(unit, Ignored("the unit"))
    found = Design.of(table, declared)
    if found is None:
        return None
    types = part.fields()
    return _with_whole(
        found,
        {str(name): str(types.field(name).type) for name in part.names if name in types.names},
    )


def _with_whole(design: Design, types: Mapping[str, str]) -> Design:
    """Return the design with columns of whole numbers marked, whose quantiles are whole."""
    whole = {
        name: replace(column, integer=True)
        for name, column in design.schema.columns.items()
        if isinstance(column, Numeric)
        and column.is_bounded
        and types.get(name, "").startswith(("int", "uint"))
        and float(column.low or 0.0).is_integer()
        and float(column.high or 0.0).is_integer()
    }
    return design.with_columns(whole) if whole else design


def _of_source(table: Any, columns: Any, unit: str | None) -> Design:
    """Return the design of files by their types and by what is declared; no record is read."""
    if isinstance(columns, Schema):
        return Design(replace(columns, target=None, extra="ignore"))
    found = layout(table)
    declared = by_name(check_columns(columns), found.names)
    _check_unit(unit, found.names)
    first = found.source.parts[0]
    fields = None if isinstance(first, TextPart) else first.fields()
    names = [name for name in found.names if name != unit]
    if fields is None:
        declared = {name: declared.get(name, Ignored("not declared")) for name in names}
    kinds = {name: None if fields is None else fields.field(name).type for name in names}
    typed = (ColumnType.of(table, name, kind) for name, kind in kinds.items())
    made = Design(Schema(columns_of(typed, declared), file=found.file, extra="ignore"))
    return _with_whole(made, {name: str(kind) for name, kind in kinds.items()})


_BOUNDS = (
    "{name} needs public bounds, by which its mean and quantiles are found. Declare them in "
    "columns, for example columns={{'age': (0, 110)}}."
)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Places of the entries of a row's vector: a block per group, with parts of each column."""

    described: tuple[Group, ...]
    by: Group | None
    bins: int

    @classmethod
    def of(cls, design: Design, by: str | None, unit: str | None, bins: int) -> _Plan:
        """Check the columns; nothing was read."""
        named = {group.name: group for group in design.groups if group.source != unit}
        if by is not None and by not in named:
            raise ValueError(f"by={by!r} is no column of the table.")
        first = None if by is None else named.pop(by)
        if first is not None and not _has_levels(first):
            raise ValueError(f"by={by!r} must have listed levels: declare them in columns.")
        for name, group in named.items():
            column = group.column
            if isinstance(column, Numeric) and not column.is_bounded:
                raise ValueError(_BOUNDS.format(name=repr(name)))
            if not (_has_levels(group) or isinstance(column, Numeric | Ordinal)):
                raise NotSupported(
                    f"{name!r} is a {column.kind} column, which describe does not take. List its "
                    "levels in columns, or leave it out of the table."
                )
        return cls(tuple(named.values()), first, bins)

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups that are shown."""
        return ("all",) if self.by is None else (*_levels(self.by), "all")

    def _size(self, group: Group) -> int:
        """Return the number of entries of a column."""
        return len(_levels(group)) if _has_levels(group) else self._bins(group) + 3

    def _bins(self, group: Group) -> int:
        """Return the number of bins of a number: of a few whole numbers, one for each."""
        values = _whole_values(group)
        return self.bins if values is None else values

    @property
    def norm(self) -> float:
        """Largest norm of a vector: a count, and one level or three numbers for each column."""
        square = 1.0 + sum(1.0 if _has_levels(each) else 3.0 for each in self.described)
        return float(np.sqrt(square)) * (1 + 2.0**-30)

    def vectors(self, encoded: Any) -> Any:
        """Return the vectors of rows; each depends on its own row."""
        n_rows = encoded.shape[0]
        blocks = [sp.csr_array(np.ones((n_rows, 1)))]
        for each in self.described:
            cells = _dense(encoded, each)
            own = _one_of(cells, each) if _has_levels(each) else self._number(cells, each)
            blocks.append(own)
        made = sp.csr_array(sp.hstack(blocks))
        if self.by is None:
            return made
        own = _one_of(_dense(encoded, self.by), self.by).toarray()
        parts = [sp.csr_array(made.multiply(own[:, [k]])) for k in range(own.shape[1])]
        return sp.csr_array(sp.hstack(parts))

    def _number(self, cells: FloatArray, group: Group) -> Any:
        """Return bins of a number, its value and square, and a mark if it is missing."""
        value = np.clip(cells[:, 0], 0.0, 1.0)
        missing = np.isnan(value) if cells.shape[1] == 1 else (cells[:, 1] > 0) | np.isnan(value)
        value = np.where(missing, 0.5, value)
        centred = np.where(missing, 0.0, 2.0 * value - 1.0)
        bins = self._bins(group)
        bin_of = np.minimum((value * bins).astype(np.intp), bins - 1)
        if _whole_values(group) is not None:
            bin_of = np.rint(value * (bins - 1)).astype(np.intp)
        made = np.zeros((len(value), bins + 3))
        made[np.arange(len(value)), bin_of] = 1.0
        made[missing, :bins] = 0.0
        made[:, bins] = centred
        made[:, bins + 1] = centred * centred
        made[:, bins + 2] = missing
        return sp.csr_array(made)

    def entries(self, values: FloatArray, noise: float, level: float) -> tuple[Entry, ...]:
        """Return the numbers of the table from the noisy sum; the last group is all groups."""
        width = 1 + sum(map(self._size, self.described))
        sums = values.reshape(-1, width)
        names = self.groups
        noises = [noise] * len(sums)
        if self.by is not None:
            sums = np.vstack([sums, sums.sum(axis=0)])
            noises.append(noise * float(np.sqrt(len(noises))))
        half = quantile(level)
        found: list[Entry] = []
        for name, row, own in zip(names, sums, noises, strict=True):
            count = float(row[0])
            found.append(Entry("n", None, name, "n", *_count(count, half * own)))
            if count < SMALLEST_COUNT * own:
                continue
            start = 1
            for each in self.described:
                part = row[start : start + self._size(each)]
                start += part.size
                about: Any = (each, name, part, count, own, half)
                found += _of_levels(*about) if _has_levels(each) else _of_number(*about)
        order = {"n": 0} | {each.name: k + 1 for k, each in enumerate(self.described)}
        return tuple(sorted(found, key=lambda each: order[each.column]))


def _has_levels(group: Group) -> bool:
    return isinstance(group.column, Categorical | Boolean) and not isinstance(group.column, Ordinal)


def _levels(group: Group) -> tuple[str, ...]:
    """Return the levels of a column, and what stands for cells that are none of them."""
    if isinstance(group.column, Boolean):
        return ("no", "yes", MISSING)
    return (*group.levels[: group.listed], "(other or missing)")


def _dense(encoded: Any, group: Group) -> FloatArray:
    cells = encoded[:, group.start : group.stop]
    sparse: bool = sp.issparse(cells)
    return np.asarray(cells.toarray() if sparse else cells, dtype=np.float64)


def _one_of(cells: FloatArray, group: Group) -> Any:
    """Return indicators of the levels, the last of which is for all other cells."""
    if isinstance(group.column, Boolean):
        missing = np.isnan(cells[:, 0]) | (cells[:, 1:] > 0).any(axis=1)
        yes = ~missing & (cells[:, 0] > 0.5)
        made = np.column_stack([~missing & ~yes, yes, missing])
    else:
        listed = cells[:, : group.listed] > 0.5
        made = np.column_stack([listed, ~listed.any(axis=1)])
    return sp.csr_array(made.astype(np.float64))


def _count(value: float, half: float) -> tuple[float, float, float]:
    """Return a noisy count with its interval, none of them below 0."""
    return max(value, 0.0), max(value - half, 0.0), max(value + half, 0.0)


def _of_levels(
    group: Group, name: str, part: FloatArray, count: float, noise: float, half: float
) -> list[Entry]:
    """Return counts and shares of levels."""
    found = []
    for level, value in zip(_levels(group), part, strict=True):
        share = min(max(float(value) / count, 0.0), 1.0)
        variance = share * (1 - share) / count + (noise / count) ** 2 * (1 + share * share)
        found.append(Entry(group.name, level, name, "n", *_count(float(value), half * noise)))
        error = half * float(np.sqrt(variance))
        ends = (max(share - error, 0.0), min(share + error, 1.0))
        found.append(Entry(group.name, level, name, "share", share, *ends))
    return found


def _of_number(
    group: Group, name: str, part: FloatArray, count: float, noise: float, half: float
) -> list[Entry]:
    """Return mean, standard deviation, quantiles and missing cells of a number."""
    column: Any = group.column
    bins = part.size - 3
    first, square, missing = (float(each) for each in part[bins:])
    found = [Entry(group.name, None, name, "missing", *_count(missing, half * noise))]
    known = count - max(missing, 0.0)
    if known < SMALLEST_COUNT * noise:
        return found
    mean = min(max(first / known, -1.0), 1.0)
    variance = min(max(square / known - mean * mean, (noise / known) ** 2), 1.0)
    error = float(np.sqrt(variance / known + (noise / known) ** 2 * (1 + 2 * mean * mean)))
    unit = _unit(column)

    def entry(statistic: str, at: float, low: float, high: float) -> Entry:
        return Entry(group.name, None, name, statistic, *(unit(each) for each in (at, low, high)))

    ends = (max(mean - half * error, -1.0), min(mean + half * error, 1.0))
    found.append(entry("mean", *((1 + each) / 2 for each in (mean, *ends))))
    deviation = float(np.sqrt(variance))
    # the variance of a noisy mean square less a squared mean; fourth moments as of normal numbers
    doubt = variance * np.sqrt(2.0 / known)
    doubt = np.hypot(doubt, noise / known * np.sqrt(1 + 4 * mean * mean + mean**4 * 2))
    error = float(doubt / (2 * deviation))
    span = (unit(1.0) - unit(0.0)) / 2
    ends = (max(deviation - half * error, 0.0), deviation + half * error)
    deviations = [span * each for each in (deviation, *ends)]
    found.append(Entry(group.name, None, name, "sd", *deviations))
    shares = np.append(0.0, np.cumsum(part[:bins])) / known
    shares = np.maximum.accumulate(np.clip(shares, 0.0, 1.0))
    whole = _whole_values(group) is not None
    for at in QUANTILES:
        before = _place(shares, at, whole=whole) * bins
        apart = np.sqrt(at * (1 - at) / known + (noise / known) ** 2 * (max(before, 1.0) + at * at))
        low, middle, high = (
            _place(shares, each, whole=whole) for each in (at - half * apart, at, at + half * apart)
        )
        found.append(entry(f"q{100 * at:.0f}", middle, low, high))
    return found


def _place(shares: FloatArray, at: float, *, whole: bool) -> float:
    """Return the place between the bounds below which a share of the cells is, from 0 to 1."""
    bins = shares.size - 1
    if not whole:
        return float(np.interp(at, shares, np.arange(bins + 1) / bins))
    return min(int(np.searchsorted(shares[1:], at)), bins - 1) / (bins - 1)


def _whole_values(group: Group) -> int | None:
    """Return the number of values of a column of a few whole numbers; None for others."""
    column = group.column
    if isinstance(column, Ordinal):
        return len(column.values)
    if not isinstance(column, Numeric) or not column.integer or column.scale != "linear":
        return None
    count = int(float(column.high or 0.0) - float(column.low or 0.0)) + 1
    return count if count <= MOST_VALUES else None


def _unit(column: Any) -> Any:
    """Return the function from [0, 1] to a column's own unit."""
    if isinstance(column, Ordinal):
        steps = len(column.values) - 1
        return lambda value: float(value) * steps
    return lambda value: float(np.ravel(column.decoded(np.array([value])))[0])
