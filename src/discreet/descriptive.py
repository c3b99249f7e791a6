"""Table 1 of a study: counts, means, standard deviations, quantiles and levels, by group.

All of it comes from one noisy sum. Each row becomes a vector of indicators, numbers in [-1, 1] and
their squares, in the place of its group; its norm is at most a public number, and a person with
several rows has the total weight 1. What the table shows is computed from the noisy sum alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from discreet.core import Budget, Gaussian, Guarantee
from discreet.core.questions import RowSum
from discreet.core.session import Session, bits_of
from discreet.design import Design, Group, check_columns, is_table, unit_of_table
from discreet.errors import NotSupported, PrivacyError
from discreet.estimators.units import PrivacyUnits
from discreet.inference.covariance import quantile
from discreet.ledger import Dataset
from discreet.log import note
from discreet.tables import Boolean, Categorical, Numeric, Ordinal, Schema
from discreet.tables.columns import MISSING
from discreet.validate import FloatArray, integer, number

__all__ = ["Description", "Entry", "describe"]

BINS = 40
"""Bins of a number between its bounds, by which quantiles are found."""

QUANTILES = (0.25, 0.5, 0.75)
"""Quantiles that are shown."""

SMALLEST_COUNT = 3.0
"""Numbers of a group are shown where its noisy count is above this many deviations of its noise."""


class Entry(NamedTuple):
    """A number of the table: what it is of, its estimate, and its interval.

    ``statistic`` is "n", "share", "missing", "mean", "sd" or a quantile such as "q50". Intervals of
    counts are for the privacy noise: the count itself is what is asked for. All others are for the
    noise and for another sample of people.
    """

    column: str
    level: str | None
    group: str
    statistic: str
    estimate: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Description:
    """Table 1: print it, show it in a notebook, or call `to_frame`, `to_html` or `to_latex`.

    Attributes
    ----------
    entries : tuple of Entry
        All numbers with their intervals.
    groups : tuple of str
        Groups of rows, the last of which is all of them.
    level : float
        Level of the intervals.
    guarantee : Guarantee
        What was promised.
    unit : str
        What is counted: "rows" or "people".
    ledger_entry : int or None
        Entry of the ledger that was charged, if there is one.
    """

    entries: tuple[Entry, ...]
    groups: tuple[str, ...]
    level: float
    guarantee: Guarantee
    unit: str
    ledger_entry: int | None = None

    def to_frame(self) -> Any:
        """Return one row per number as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.entries)

    def _lines(self) -> list[tuple[str, ...]]:
        """Return the lines of the table: a name, and a cell for each group."""
        found: dict[tuple[str, str | None], dict[str, dict[str, Entry]]] = {}
        for each in self.entries:
            of = found.setdefault((each.column, each.level), {})
            of.setdefault(each.group, {})[each.statistic] = each
        lines = []
        for (column, level), of in found.items():
            names = _names(column, level, {s for each in of.values() for s in each})
            cells = [_cells(of.get(group, {})) for group in self.groups]
            lines += [(name, *(each[k] for each in cells)) for k, name in enumerate(names)]
        return lines

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences below the table: the promise, the units and the meaning of the columns."""
        promise = f"ε = {self.guarantee.epsilon:g}, δ = {self.guarantee.delta:g}"
        percent = f"{100 * self.level:g}"
        return (
            f"({promise}) for one {self.guarantee.unit}. Counts are of {self.unit}, with privacy "
            "noise. "
            f"In brackets {percent} % intervals, for noise and sampling; those of counts are for "
            "noise alone.",
            "–: too few for the noise.",
        )

    def __str__(self) -> str:
        lines = [("", *self.groups), *self._lines()]
        widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
        shown = []
        for k, line in enumerate(lines):
            cells = [f"{line[0]:<{widths[0]}}"]
            cells += [f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True)]
            shown.append("  ".join(cells).rstrip())
            if k == 0:
                shown.append("-" * (sum(widths) + 2 * (len(widths) - 1)))
        return "\n".join([*shown, "", *self.notes])

    __repr__ = __str__

    def to_html(self) -> str:
        """Return the table as HTML."""
        heads = "".join(f"<th>{escape(name)}</th>" for name in ("", *self.groups))
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>"
            for line in self._lines()
        )
        notes = "".join(f"<p>{escape(text)}</p>" for text in self.notes)
        return f"<table class='discreet-table-1'><tr>{heads}</tr>{body}</table>{notes}"

    _repr_html_ = to_html

    def to_latex(self) -> str:
        """Return the table as LaTeX, for the package booktabs."""
        columns = "l" + "r" * len(self.groups)
        heads = " & ".join(["", *(_latex(name) for name in self.groups)])
        lines = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", f"{heads} \\\\", "\\midrule"]
        lines += [" & ".join(_latex(cell) for cell in line) + " \\\\" for line in self._lines()]
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


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
    table : DataFrame or table
        A pandas, polars or Arrow table.
    epsilon, delta, relation
        The budget, as of an estimator.
    columns : mapping or Schema
        What is public about the columns, as for estimators: (low, high) for numbers, a list of
        levels for texts. Columns that are not listed follow from their types; numbers need bounds.
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
    if not is_table(table):
        raise ValueError("describe takes a table with names of columns (pandas, polars or Arrow).")
    schema = columns if isinstance(columns, Schema) else None
    design = Design(schema) if schema is not None else Design.of(table, check_columns(columns))
    if design is None:
        raise ValueError(_BOUNDS.format(name="a number"))
    unit = unit if unit is not None or schema is None else schema.unit
    groups = None if unit is None else unit_of_table(table, unit, None)
    if unit is not None and groups is None:
        raise PrivacyError(f"the table has no column {unit!r}, so nobody could be protected by it.")
    plan = _Plan.of(design, by, unit, bins)
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
        return len(_levels(group)) if _has_levels(group) else self.bins + 3

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
            blocks.append(_one_of(cells, each) if _has_levels(each) else self._number(cells))
        made = sp.csr_array(sp.hstack(blocks))
        if self.by is None:
            return made
        own = _one_of(_dense(encoded, self.by), self.by).toarray()
        parts = [sp.csr_array(made.multiply(own[:, [k]])) for k in range(own.shape[1])]
        return sp.csr_array(sp.hstack(parts))

    def _number(self, cells: FloatArray) -> Any:
        """Return bins of a number, its value and square, and a mark if it is missing."""
        value = np.clip(cells[:, 0], 0.0, 1.0)
        missing = np.isnan(value) if cells.shape[1] == 1 else (cells[:, 1] > 0) | np.isnan(value)
        value = np.where(missing, 0.5, value)
        centred = np.where(missing, 0.0, 2.0 * value - 1.0)
        bin_of = np.minimum((value * self.bins).astype(np.intp), self.bins - 1)
        made = np.zeros((len(value), self.bins + 3))
        made[np.arange(len(value)), bin_of] = 1.0
        made[missing, : self.bins] = 0.0
        made[:, self.bins] = centred
        made[:, self.bins + 1] = centred * centred
        made[:, self.bins + 2] = missing
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
    for at in QUANTILES:
        places = np.arange(bins + 1) / bins
        before = float(np.interp(at, shares, places)) * bins
        apart = np.sqrt(at * (1 - at) / known + (noise / known) ** 2 * (max(before, 1.0) + at * at))
        low, middle, high = (
            float(np.interp(each, shares, places))
            for each in (at - half * apart, at, at + half * apart)
        )
        found.append(entry(f"q{100 * at:.0f}", middle, low, high))
    return found


def _unit(column: Any) -> Any:
    """Return the function from [0, 1] to a column's own unit."""
    if isinstance(column, Ordinal):
        steps = len(column.values) - 1
        return lambda value: float(value) * steps
    return lambda value: float(np.ravel(column.decoded(np.array([value])))[0])


def _names(column: str, level: str | None, statistics: set[str]) -> list[str]:
    """Return the names of the lines of a column or level."""
    if column == "n":
        return ["n"]
    if level is not None:
        return [f"{column} = {level}"]
    lines = [f"{column}: mean (SD)", f"{column}: median [quartiles]"]
    return [*lines, f"{column}: missing"]


def _cells(of: Mapping[str, Entry]) -> list[str]:
    """Return the cells of a group, one for each line of `_names`."""
    if "share" in of:
        share = of["share"]
        ends = f"[{100 * share.low:.1f}, {100 * share.high:.1f}]"
        return [f"{of['n'].estimate:,.0f} ({100 * share.estimate:.1f} %) {ends}"]
    if "n" in of:
        own = of["n"]
        return [f"{own.estimate:,.0f} [{own.low:,.0f}, {own.high:,.0f}]"]
    missing = of.get("missing")
    last = "–" if missing is None else f"{missing.estimate:,.0f}"
    if "mean" not in of:
        return ["–", "–", last]
    mean = of["mean"]
    sd = of["sd"]
    deviation = _text(sd.estimate) if sd.low > 0.0 else "–"
    first = f"{_text(mean.estimate)} ({deviation})"
    first += f" [{_text(mean.low)}, {_text(mean.high)}]"
    low, middle, high = (of[f"q{100 * at:.0f}"].estimate for at in QUANTILES)
    return [first, f"{_text(middle)} [{_text(low)}, {_text(high)}]", last]


def _text(value: float) -> str:
    return f"{value:.4g}"


def _latex(text: str) -> str:
    for old in "\\&%$#_{}":
        text = text.replace(old, f"\\{old}" if old != "\\" else r"\textbackslash ")
    return text.replace("–", "--")
