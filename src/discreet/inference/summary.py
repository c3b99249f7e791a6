"""Table of coefficients with intervals: as text, as HTML, as a DataFrame, and as a forest plot.

Everything here is made of released numbers; nothing can read a row.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import chi2

from discreet.inference.covariance import Covariance, p_text, p_values, quantile
from discreet.validate import FloatArray

if TYPE_CHECKING:
    from discreet.figures import Figure

__all__ = ["Block", "Coefficients", "JointTest", "Summary", "Term", "forest_plot"]

WIDTH = 92
"""Columns of text."""

SMALLEST_BIAS = 0.005
"""Share of the variance from which on a bias is shown."""

LONGEST_NAME = 28
"""Characters of a column's name that are shown."""

INTERVAL_COLOUR = "#9aa7b5"
"""Colour of the interval in a forest plot."""

NOISE_COLOUR = "#1f4e79"
"""Colour of the part of the interval that the privacy noise has."""


@dataclass(frozen=True)
class Term:
    """A line of a table of coefficients.

    ``column`` is the column it is about, None for the intercept. ``level`` is the level of a
    category that is compared with ``reference``, or the mark of missing cells.
    """

    name: str
    column: str | None = None
    level: str | None = None
    reference: str | None = None


@dataclass(frozen=True)
class Block:
    """Lines of one column, with a heading if it has levels or no line."""

    column: str
    heading: str
    lines: range
    reference: str | None = None


@dataclass(frozen=True)
class JointTest:
    """Wald's test that some coefficients are all 0; NaN without an interval for any of them."""

    statistic: float
    df: int
    p: float

    @classmethod
    def of(cls, values: FloatArray, covariance: FloatArray) -> JointTest:
        """Test the coefficients that have a variance; combinations without one are left out."""
        known = np.isfinite(np.diag(covariance)) & (np.diag(covariance) > 0.0)
        if not known.any():
            return cls(np.nan, 0, np.nan)
        own = covariance[np.ix_(known, known)]
        scale = np.sqrt(np.diag(own))
        roots, vectors = np.linalg.eigh(own / np.outer(scale, scale))
        kept = roots > len(roots) * np.finfo(float).eps * roots.max()
        parts = (values[known] / scale) @ vectors[:, kept]
        statistic = float(np.sum(parts**2 / roots[kept]))
        df = int(kept.sum())
        return cls(statistic, df, float(chi2.sf(statistic, df)))

    def __str__(self) -> str:
        if not np.isfinite(self.statistic):
            return "no test: a coefficient in it has no interval"
        return f"chi2({self.df}) = {self.statistic:.2f}, {p_text(self.p)}"


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients of one model with what is known of their errors, the intercept first.

    ``label`` is the class that the model is for, if there are several models. ``noise_share`` and
    ``bias_share`` are the shares of privacy noise and of bounded bias in the variance. Errors are
    NaN where there is no interval, and ``reason`` says why. ``blocks`` has the lines by column, if
    columns are known, and ``covariance`` that of the lines, if there is one. ``marks`` name what
    was found against an interval: "tail" or "bound"; empty if nothing was.
    """

    terms: tuple[Term, ...]
    values: FloatArray
    errors: FloatArray
    noise_share: FloatArray
    bias_share: FloatArray
    reason: str
    label: str = ""
    blocks: tuple[Block, ...] = ()
    covariance: FloatArray | None = None
    marks: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        terms: tuple[Term, ...],
        matrix: sp.csr_array,
        weights: FloatArray,
        covariance: Covariance | None,
        *,
        reason: str = "",
        label: str = "",
        blocks: tuple[Block, ...] = (),
    ) -> Coefficients:
        """Collect coefficients and their errors.

        Each term is a combination of a model's weights (the intercept last): a row of the matrix.
        """
        values: FloatArray = np.asarray(matrix @ weights)
        whole = None
        marks: tuple[str, ...] = ("",) * len(values)
        if covariance is None:
            errors = noise = bias = np.full(len(values), np.nan)
        else:
            rows = matrix.toarray()
            parts = covariance.parts(rows)
            errors = parts.errors
            with np.errstate(invalid="ignore", divide="ignore"):
                noise = parts.noise / errors**2
                bias = parts.bias / errors**2
            reason = covariance.reason
            whole = covariance.of_combinations(rows)
            marks = covariance.marks(rows)
        return cls(terms, values, errors, noise, bias, reason, label, blocks, whole, marks)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the terms."""
        return tuple(term.name for term in self.terms)

    @property
    def tests(self) -> dict[str, JointTest]:
        """Joint tests of the levels of each category, by the name of its column."""
        found = {}
        for block in self.blocks:
            lines = [k for k in block.lines if self.terms[k].level is not None]
            if not block.heading or not lines:
                continue
            none = np.full((len(lines), len(lines)), np.nan)
            own = none if self.covariance is None else self.covariance[np.ix_(lines, lines)]
            found[block.column] = JointTest.of(self.values[lines], own)
        return found

    def z(self) -> FloatArray:
        """Return coefficients over their standard errors."""
        with np.errstate(invalid="ignore"):
            return self.values / self.errors

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the confidence intervals."""
        half = quantile(level) * self.errors
        return self.values - half, self.values + half


@dataclass(frozen=True)
class _Row:
    """A row of the printed table: a line with cells, or a heading with the text of a test."""

    name: str
    cells: tuple[str, ...] = ()
    text: str = ""
    inner: bool = False


@dataclass(frozen=True, eq=False)
class Summary:
    """Table of a model's coefficients; print it, show it in a notebook, or call `to_frame`.

    ``ratio`` is the name of exp(coefficient), such as "odds ratio", if that is shown.
    """

    title: str
    models: tuple[Coefficients, ...]
    footer: tuple[str, ...]
    level: float = 0.95
    ratio: str = ""

    @property
    def headings(self) -> tuple[str, ...]:
        """Names of the columns."""
        tail = (1 - self.level) / 2
        ends = (f"[{tail:.4g}", f"{1 - tail:.4g}]")
        ratios = (self.ratio, *ends) if self.ratio else ()
        bias = ("bias",) if self._biased else ()
        marked = ("check",) if self._marked else ()
        return ("coef", "std err", "z", "P>|z|", *ends, *ratios, "noise", *bias, *marked)

    @property
    def _marked(self) -> bool:
        """True if something was found against some interval."""
        return any(any(model.marks) for model in self.models)

    @property
    def _biased(self) -> bool:
        """True if some coefficient has a bias that is worth a column."""
        return any((model.bias_share >= SMALLEST_BIAS).any() for model in self.models)

    def _cells(self, model: Coefficients) -> list[tuple[str, ...]]:
        low, high = model.interval(self.level)
        z = model.z()
        p = p_values(z)
        rows = []
        for k in range(len(model.values)):
            error = _number(model.errors[k]) or "–"
            cells = [_number(model.values[k]), error, _fixed(z[k], 2)]
            cells += [_fixed(p[k], 3), _number(low[k]), _number(high[k])]
            if self.ratio:
                with np.errstate(over="ignore"):
                    ratios = np.exp([model.values[k], low[k], high[k]])
                shown = model.names[k] != "intercept"
                cells += [_number(each) if shown else "" for each in ratios]
            shares = [model.noise_share[k], model.bias_share[k]][: 2 if self._biased else 1]
            cells += ["" if np.isnan(share) else f"{100 * share:.0f} %" for share in shares]
            cells += [model.marks[k]] if self._marked else []
            rows.append(tuple(cells))
        return rows

    def _rows(self, model: Coefficients) -> list[_Row]:
        """Return the rows of a model's table, with a heading for each category."""
        cells = self._cells(model)
        if not model.blocks:
            return [_Row(name, own) for name, own in zip(model.names, cells, strict=True)]
        first = [k for k, term in enumerate(model.terms) if term.column is None]
        rows = [_Row(model.names[k], cells[k]) for k in first]
        tests = model.tests
        for block in model.blocks:
            if block.heading:
                test = tests.get(block.column)
                known = test is not None and np.isfinite(test.statistic)
                rows.append(_Row(block.heading, text=str(test) if known else ""))
            for k in block.lines:
                term = model.terms[k]
                inner = term.level is not None
                rows.append(_Row(term.level if term.level else term.name, cells[k], inner=inner))
        return rows

    def __str__(self) -> str:
        blocks = [self._rows(model) for model in self.models]
        lines_of = [row for block in blocks for row in block if row.cells]
        named = max((len(row.name) + 2 * row.inner for row in lines_of), default=0)
        named = min(max(named, 9), LONGEST_NAME)
        heads = self.headings
        across = (
            [
                max(len(head), *(len(row.cells[j]) for row in lines_of))
                for j, head in enumerate(heads)
            ]
            if lines_of
            else [len(head) for head in heads]
        )
        width = max(named + sum(across) + 2 * len(across), 60)
        lines = [self.title.center(width).rstrip(), "=" * width]
        for model, block in zip(self.models, blocks, strict=True):
            for k, row in enumerate([_Row(model.label, heads), *block]):
                lines.append(_line(row, named, across))
                if k == 0:
                    lines.append("-" * width)
        lines.append("=" * width)
        for note in self.footer:
            lines += textwrap.wrap(note, max(width, WIDTH), subsequent_indent="  ")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table as HTML, for notebooks."""
        body = []
        across = len(self.headings)
        for model in self.models:
            heads = "".join(f"<th>{escape(cell)}</th>" for cell in self.headings)
            body.append(f"<tr class='head'><th class='name'>{escape(model.label)}</th>{heads}</tr>")
            for row in self._rows(model):
                cells = "".join(f"<td>{escape(cell)}</td>" for cell in row.cells)
                if not row.cells:
                    cells = f"<td class='test' colspan='{across}'>{escape(row.text)}</td>"
                name = "name inner" if row.inner else "name"
                head = f"<th class='{name}' scope='row'>{escape(row.name)}</th>"
                body.append(f"<tr>{head}{cells}</tr>")
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.footer)
        return (
            f"<div class='discreet-summary'><style>{_STYLE}</style><table>"
            f"<caption>{escape(self.title)}</caption>{''.join(body)}</table><ul>{notes}</ul></div>"
        )

    def _numbers(self, model: Coefficients) -> dict[str, FloatArray]:
        """Return the columns of a model's table."""
        z = model.z()
        (low, high) = model.interval(self.level)
        numbers = {"coef": model.values, "std err": model.errors, "z": z, "p": p_values(z)}
        numbers |= {"low": low, "high": high}
        return numbers | {"noise share": model.noise_share, "bias share": model.bias_share}

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data; what is not given is None.

        Lines by column have the column, its level and the reference level, and ``tests`` has the
        joint test of each category.
        """
        models = []
        for model in self.models:
            numbers = self._numbers(model)
            about: list[dict[str, Any]] = [
                {"name": term.name} | (_about(term) if model.blocks else {}) for term in model.terms
            ]
            rows = [
                about[k] | {key.replace(" ", "_"): _finite(v[k]) for key, v in numbers.items()}
                for k in range(len(model.terms))
            ]
            found: dict[str, Any] = {
                "label": model.label,
                "coefficients": rows,
                "reason": model.reason,
            }
            if model.blocks:
                found["tests"] = [
                    {"column": column, "chi2": _finite(test.statistic), "df": test.df}
                    | {"p": _finite(test.p)}
                    for column, test in model.tests.items()
                ]
            models.append(found)
        return {"level": self.level, "models": models, "notes": list(self.footer)}

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per coefficient, by name (and class).

        Where lines are by column, it has the columns ``column``, ``level`` and ``reference``.
        """
        import pandas as pd

        frames = []
        for model in self.models:
            columns: dict[str, Any] = {}
            if model.blocks:
                about = [_about(term) for term in model.terms]
                columns = {key: [each[key] for each in about] for key in about[0]}
            numbers = self._numbers(model)
            columns |= numbers
            if self.ratio:
                start = self.ratio.partition(" ")[0]
                names = {"coef": self.ratio, "low": f"{start} low", "high": f"{start} high"}
                with np.errstate(over="ignore"):
                    columns |= {name: np.exp(numbers[key]) for key, name in names.items()}
            frames.append(pd.DataFrame(columns, index=list(model.names)))
        if len(frames) == 1:
            return frames[0]
        return pd.concat(frames, keys=[model.label for model in self.models])


def _line(row: _Row, named: int, across: Sequence[int]) -> str:
    """Return a row as text; a heading takes as much room as it needs."""
    if not row.cells:
        return f"{row.name:<{named}}  {row.text}".rstrip()
    cells = "".join(f"  {cell:>{size}}" for cell, size in zip(row.cells, across, strict=True))
    name = _short("  " + row.name) if row.inner else _short(row.name)
    return f"{name:<{named}}{cells}".rstrip()


def _about(term: Term) -> dict[str, str | None]:
    return {"column": term.column, "level": term.level, "reference": term.reference}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _number(value: float) -> str:
    """Return a number of four significant digits, or nothing."""
    if not np.isfinite(value):
        return ""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        digits = 4 if abs(value) < 10 else 3 if abs(value) < 100 else 1
        return f"{value:.{digits}f}"
    return f"{value:.3e}"


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else ""


_STYLE = """
.discreet-summary{font:14px/1.45 system-ui,sans-serif;color:#1c2733;overflow-x:auto}
.discreet-summary table{border-collapse:collapse;font-variant-numeric:tabular-nums;
  border-top:2px solid #1c2733;border-bottom:2px solid #1c2733}
.discreet-summary caption{font-weight:600;text-align:left;padding:.3rem .6rem}
.discreet-summary td,.discreet-summary th{padding:.15rem .55rem;text-align:right;border:0;
  white-space:nowrap}
.discreet-summary th.name{text-align:left;font-weight:400}
.discreet-summary th.inner{padding-left:1.8rem}
.discreet-summary td.test{text-align:left;color:#44525f}
.discreet-summary tr.head th{border-bottom:1px solid #1c2733;font-weight:600}
.discreet-summary tr:nth-of-type(odd){background:#f4f6f8}
.discreet-summary tr.head{background:#fff}
.discreet-summary ul{max-width:64rem;margin:.5rem 0 0;padding:0 0 0 1.3rem;font-size:12.5px;
  color:#44525f}
"""


def forest_plot(summary: Summary) -> Figure:
    """Draw each coefficient with its interval: all of it, and the privacy noise alone inside.

    The axis is in units of the coefficients, and the intercept is left out. Coefficients without an
    interval are drawn hollow. Numbers in units of their own have coefficients of any size: they
    are drawn per 10, 100 and so on, as their names say, so that all are seen.
    """
    from discreet.figures import Figure

    models = summary.models
    longest = max(len(model.terms) for model in models)
    figure = Figure(figsize=(6.4 * len(models), 0.27 * longest + 1.7), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(models), sharey=True, squeeze=False)).ravel()
    for panel, model in zip(panels, models, strict=True):
        kept = [k for k, name in enumerate(model.names) if name != "intercept"]
        at = np.arange(len(kept))
        factors = _factors(model, summary.level)[kept]
        values = factors * model.values[kept]
        errors = factors * quantile(summary.level) * model.errors[kept]
        noise = errors * np.sqrt(model.noise_share[kept])
        given = np.isfinite(errors)
        panel.axvline(0.0, color="0.6", lw=0.8)
        for half, width, colour in ((errors, 5, INTERVAL_COLOUR), (noise, 1.6, NOISE_COLOUR)):
            line: Any = {"xerr": half[given], "lw": width, "color": colour, "capsize": 0}
            panel.errorbar(values[given], at[given], fmt="none", **line)
        panel.plot(values[given], at[given], "o", ms=4, color=NOISE_COLOUR)
        panel.plot(values[~given], at[~given], "o", ms=4, mfc="white", color="0.6")
        labels = [_label(model.terms[k], factor) for k, factor in zip(kept, factors, strict=True)]
        panel.set_yticks(at, labels, fontsize=8)
        panel.set_ylim(len(kept) - 0.4, -0.6)
        panel.tick_params(axis="x", labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_xlabel("coefficient" + (f" ({model.label})" if model.label else ""), fontsize=9)
    figure.suptitle(
        f"{summary.title}: {100 * summary.level:g} % intervals\n"
        "(thick: all; thin and dark: privacy noise alone; hollow: no interval)",
        fontsize=9,
    )
    return figure


def _factors(model: Coefficients, level: float) -> FloatArray:
    """Return powers of ten that coefficients of numbers are drawn with, so that all are seen."""
    factors = np.ones(len(model.terms))
    if not model.blocks:
        return factors
    low, high = model.interval(level)
    ends = np.fmax(np.abs(model.values), np.fmax(np.abs(low), np.abs(high)))
    plain = [k for k, term in enumerate(model.terms) if term.column and term.level is None]
    others = [k for k, term in enumerate(model.terms) if term.level is not None]
    most = float(np.max(ends[others or plain], initial=0.0))
    for k in plain:
        if 0.0 < ends[k] < most:
            factors[k] = 10.0 ** max(0, math.floor(math.log10(most / ends[k])))
    return factors


def _label(term: Term, factor: float) -> str:
    """Return the name of a coefficient in a figure."""
    if term.level is None or term.reference is None:
        return _short(term.name) + (f" (per {factor:g})" if factor > 1.0 else "")
    return _short(f"{term.column}: {term.level}")
