"""Table 1 of a study as it is shown: text, HTML, LaTeX and a data frame.

Numbers come from `discreet.describe`. A column is a heading with its levels or statistics below it,
as papers have it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from discreet.core import Guarantee
from discreet.tables.columns import MISSING

__all__ = ["QUANTILES", "Description", "Entry"]

QUANTILES = (0.25, 0.5, 0.75)
"""Quantiles that are shown."""


class Line(NamedTuple):
    """A line of the table: a heading without cells, or a name with a cell for each group."""

    name: str
    inner: bool
    cells: tuple[str, ...]


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

    def _lines(self) -> list[Line]:
        """Return the lines of the table, each column with a heading."""
        found: dict[tuple[str, str | None], dict[str, dict[str, Entry]]] = {}
        for each in self.entries:
            of = found.setdefault((each.column, each.level), {})
            of.setdefault(each.group, {})[each.statistic] = each
        lines: list[Line] = []
        last = ""
        for (column, level), of in found.items():
            if level in ASIDE and not _is_seen(of.values(), "n"):
                continue
            cells = [_cells(of.get(group, {})) for group in self.shown]
            if column == "n":
                lines.append(Line("n", False, tuple(each[0] for each in cells)))
                continue
            if column != last:
                heading = column if level is None else f"{column}, n (%)"
                lines.append(Line(heading, False, ()))
            last = column
            names: tuple[str, ...] = (str(level),)
            if level is None:
                names = STATISTICS if _is_seen(of.values(), "missing") else STATISTICS[:2]
            lines += [
                Line(name, True, tuple(each[k] for each in cells)) for k, name in enumerate(names)
            ]
        return lines

    @property
    def shown(self) -> tuple[str, ...]:
        """Groups that are shown: all but one of other cells that noise does not tell from none."""
        counts = {each.group: each.low for each in self.entries if each.column == "n"}
        return tuple(name for name in self.groups if name not in ASIDE or counts[name] > 0.0)

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
            "–: too few for the noise. Missing and other cells are shown where there are more "
            "than noise explains.",
        )

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def text(self, width: int | None = None) -> str:
        """Return the table as text; groups that are beyond a width are below the others."""
        lines = [Line("", False, self.shown), *self._lines()]
        names = [("  " if line.inner else "") + line.name for line in lines]
        first = max(map(len, names))
        sizes = [
            max(len(line.cells[k]) for line in lines if line.cells) for k in range(len(self.shown))
        ]
        parts = []
        for group in _folded(sizes, None if width is None else width - first):
            rule = "-" * (first + sum(sizes[k] + 2 for k in group))
            shown = []
            for name, line in zip(names, lines, strict=True):
                cells = (f"  {line.cells[k]:>{sizes[k]}}" for k in group if line.cells)
                shown.append(f"{name:<{first}}{''.join(cells)}".rstrip())
            parts.append("\n".join([shown[0], rule, *shown[1:]]))
        notes = self.notes
        if width is not None:
            notes = tuple(textwrap.fill(note, width) for note in notes)
        return "\n".join(["\n\n".join(parts), "", *notes])

    def to_html(self) -> str:
        """Return the table as HTML, with its style."""
        heads = "".join(f"<th scope='col'>{escape(name)}</th>" for name in self.shown)
        body = []
        for line in self._lines():
            kind = " class='inner'" if line.inner else ""
            cells = line.cells or ("",) * len(self.shown)
            filled = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            body.append(f"<tr><th scope='row'{kind}>{escape(line.name)}</th>{filled}</tr>")
        notes = "".join(f"<p>{escape(text)}</p>" for text in self.notes)
        return (
            f"<style>{_STYLE}</style><div class='discreet-table-1'><table>"
            f"<tr class='head'><th></th>{heads}</tr>{''.join(body)}</table>{notes}</div>"
        )

    _repr_html_ = to_html

    def to_latex(self) -> str:
        """Return the table as LaTeX, for the package booktabs."""
        columns = "l" + "r" * len(self.shown)
        heads = " & ".join(["", *(_latex(name) for name in self.shown)])
        shown = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", f"{heads} \\\\", "\\midrule"]
        for line in self._lines():
            name = ("\\quad " if line.inner else "") + _latex(line.name)
            cells = line.cells or ("",) * len(self.shown)
            shown.append(" & ".join([name, *map(_latex, cells)]) + " \\\\")
        return "\n".join([*shown, "\\bottomrule", "\\end{tabular}"])


SEEN = 1.5
"""So many half intervals above 0 a count is more than noise explains: three of its deviations for
intervals of 95 %, as tables have many counts."""

STATISTICS = ("mean (SD)", "median [quartiles]", "missing")
"""Lines of a number."""

ASIDE = ("(other or missing)", MISSING)
"""Levels of cells that are none of those that were declared."""

_STYLE = """
.discreet-table-1{font:13px/1.45 system-ui,sans-serif;color:#1c2733;overflow-x:auto}
.discreet-table-1 table{border-collapse:collapse;font-variant-numeric:tabular-nums;
  border-top:2px solid #1c2733;border-bottom:2px solid #1c2733}
.discreet-table-1 td,.discreet-table-1 th{padding:.15rem .5rem;text-align:right;border:0;
  white-space:nowrap;font-weight:400}
.discreet-table-1 th[scope=row]{text-align:left}
.discreet-table-1 th.inner{padding-left:1.6rem}
.discreet-table-1 tr.head th{border-bottom:1px solid #1c2733;font-weight:600}
.discreet-table-1 p{margin:.4rem 0 0;font-size:12.5px;color:#44525f}
"""


def _folded(sizes: Sequence[int], room: int | None) -> Iterator[list[int]]:
    """Yield numbers of the groups that fit beside each other, at least one at a time."""
    own: list[int] = []
    used = 0
    for k, size in enumerate(sizes):
        if own and room is not None and used + size + 2 > room:
            yield own
            own = []
            used = 0
        own.append(k)
        used += size + 2
    yield own


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
    digits = _digits(mean)
    deviation = f"{sd.estimate:,.{digits}f}" if sd.low > 0.0 else "–"
    first = f"{mean.estimate:,.{digits}f} ({deviation})"
    first += f" [{mean.low:,.{digits}f}, {mean.high:,.{digits}f}]"
    places = [of[f"q{100 * at:.0f}"] for at in QUANTILES]
    whole = all(each.estimate.is_integer() for each in places)
    digits = 0 if whole else _digits(places[1])
    low, middle, high = (f"{each.estimate:,.{digits}f}" for each in places)
    return [first, f"{middle} [{low}, {high}]", last]


def _is_seen(of: Iterable[Mapping[str, Entry]], statistic: str) -> bool:
    """Return whether a count is more than noise explains in any group."""
    counts = [each[statistic] for each in of if statistic in each]
    return any(each.estimate > SEEN * (each.high - each.estimate) for each in counts)


def _digits(of: Entry) -> int:
    """Return the decimals of a number: two digits of half of its interval, at most 4."""
    half = (of.high - of.low) / 2
    return 0 if half <= 0.0 else min(max(1 - math.floor(math.log10(half)), 0), 4)


def _latex(text: str) -> str:
    for old in "\\&%$#_{}":
        text = text.replace(old, f"\\{old}" if old != "\\" else r"\textbackslash ")
    return text.replace("–", "--")
