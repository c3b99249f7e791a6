"""A table of results as plain data, and as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from math import isfinite

from discreet_bench.runs import SHARES

__all__ = ["Block", "Cell", "Column", "Row", "Table", "as_csv"]


@dataclass(frozen=True)
class Column:
    """What the cells of a column are about: a data set, and the value of what varies."""

    data: str
    heading: str  # such as "ε = 0.1"


@dataclass(frozen=True)
class Cell:
    """One line on one problem.

    Attributes
    ----------
    mean, sd, low, high, repeats
        As in `discreet_bench.statistics.summary`; NaN where there is nothing.
    failed
        Runs without a result.
    problem
        Why, in a few words.
    paper
        What the paper prints; None if nothing.
    best
        Whether it is the best of those that are private from end to end.
    """

    mean: float = float("nan")
    sd: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    repeats: int = 0
    failed: int = 0
    problem: str = ""
    paper: float | None = None
    best: bool = False


@dataclass(frozen=True)
class Row:
    """A line: its key (empty for a method that was not run), title, marks and cells."""

    line: str
    title: str
    marks: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Block:
    """A part of a table that fits a page: what it is about, and notes to stand below it.

    Where ``turned``, the lines are printed across and what varies down the page.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    turned: bool = False

    @property
    def data(self) -> tuple[str, ...]:
        """The data sets, each once; a single one is told by the caption, not by the headings."""
        return tuple(dict.fromkeys(column.data for column in self.columns))

    def headings(self) -> list[str]:
        """What stands over each column, or before each row of a block that is turned."""
        if len(self.data) == 1:
            return [column.heading for column in self.columns]
        return [f"{column.data}, {column.heading}" for column in self.columns]


@dataclass(frozen=True)
class Table:
    """The results of an experiment by one measure."""

    experiment: str
    measure: str
    blocks: tuple[Block, ...]

    def markdown(self) -> str:
        """As Markdown: the best private value in bold, notes as a list below."""
        return "\n".join(_markdown_block(block, self.measure) for block in self.blocks)

    def csv(self) -> str:
        """As CSV: one line for each cell that holds something, numbers in full."""
        return as_csv(self)

    def csv_rows(self) -> list[list[object]]:
        """The lines of the CSV file, without its head."""
        return [
            [
                self.experiment, self.measure, block.caption, column.data, column.heading, row.line,
                row.title, _number(cell.mean), _number(cell.sd), _number(cell.low),
                _number(cell.high), cell.repeats, cell.failed, cell.problem,
                "" if cell.paper is None else repr(cell.paper), int(cell.best),
            ]
            for block in self.blocks
            for row in block.rows
            for column, cell in zip(block.columns, row.cells, strict=True)
            if cell.repeats or cell.failed or cell.paper is not None
        ]  # fmt: skip

    def latex(self) -> str:
        """As LaTeX tables, which need the packages booktabs and amsmath."""
        return "\n".join(_latex_block(block, self.measure) for block in self.blocks)


CSV_COLUMNS = (
    "experiment", "measure", "caption", "data", "column", "line", "title", "mean", "sd", "low",
    "high", "repeats", "failed", "problem", "paper", "best",
)  # fmt: skip
"""Head of the CSV file."""


def as_csv(*tables: Table) -> str:
    """Several tables as one CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows(row for table in tables for row in table.csv_rows())
    return text.getvalue()


def _number(value: float) -> str:
    return repr(float(value)) if isfinite(value) else ""


def _shown(value: float, measure: str, digits: int) -> str:
    """A value as people read it: shares in percent, others with so many significant digits."""
    if measure in SHARES:
        return f"{100 * value:.{max(digits - 1, 1)}f}"
    text = f"{value:#.{digits}g}" if 1e-3 <= abs(value) < 10**digits else f"{value:.{digits}g}"
    return re.sub(r"e([+-])0*(\d)", lambda e: f"e{e[1].strip('+')}{e[2]}", text).rstrip(".")


def _value(cell: Cell, measure: str) -> str:
    """Mean and standard deviation; one run has no spread."""
    text = _shown(cell.mean, measure, 3)
    if isfinite(cell.sd):
        spread = f"{100 * cell.sd:.2f}" if measure in SHARES else _shown(cell.sd, measure, 2)
        text += f" ± {spread}"
    return text


def _content(cell: Cell, measure: str, bold: Callable[[str], str]) -> str:
    parts = []
    if cell.repeats:
        value = _value(cell, measure)
        parts.append(bold(value) if cell.best else value)
        if cell.failed:
            parts.append(f"({cell.failed} of {cell.failed + cell.repeats} failed)")
    elif cell.failed:
        parts.append(cell.problem or "failed")
    if cell.paper is not None:
        paper = f"{100 * cell.paper:.1f}" if measure in SHARES else f"{cell.paper:g}"
        parts.append(f"(paper: {paper})" if parts else f"paper: {paper}")
    return " ".join(parts)


def _markdown_block(block: Block, measure: str) -> str:
    heads = ["method", *map(_markdown, block.headings())]
    rows = [
        [
            _markdown(row.title) + _raised(row.marks),
            *(
                _content(_escaped(cell, _markdown), measure, lambda text: f"**{text}**")
                for cell in row.cells
            ),
        ]
        for row in block.rows
    ]
    heads, rows = _turned(heads, rows) if block.turned else (heads, rows)
    lines = [f"**{_markdown(block.caption)}**", "", _piped(heads)]
    lines.append("|---|" + "---:|" * (len(heads) - 1))
    lines += map(_piped, rows)
    lines += ["", *(f"- {_markdown(note)}" for note in block.notes), ""]
    return "\n".join(lines)


def _turned(heads: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Rows as columns; the corner, which names the lines, is then empty."""
    first, *rest = (list(column) for column in zip(heads, *rows, strict=True))
    return ["", *first[1:]], rest


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _raised(marks: str) -> str:
    return f" {marks}" if marks else ""


def _escaped(cell: Cell, escape: Callable[[str], str]) -> Cell:
    return Cell(**{**cell.__dict__, "problem": escape(cell.problem)})


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "ε": r"$\varepsilon$", "δ": r"$\delta$", "α": r"$\alpha$", "μ": r"$\mu$", "ρ": r"$\rho$",
    "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "²": r"$^2$", "…": r"\dots{}",
    "†": r"\dag{}", "‡": r"\ddag{}", "§": r"\S{}", "¶": r"\P{}", "–": "--", "—": "---",
    "<": r"$<$", ">": r"$>$", "|": r"$|$", "−": r"$-$", "’": "'", "“": "``", "”": "''",
}  # fmt: skip
_LATEX_TABLE = str.maketrans(_LATEX)


def _latex(text: str) -> str:
    """Text with LaTeX's own characters escaped; letters it may not have become question marks."""
    escaped = " ".join(text.split()).translate(_LATEX_TABLE)
    return "".join(letter if ord(letter) < 0x180 else "?" for letter in escaped)


def _latex_block(block: Block, measure: str) -> str:
    grouped = len(block.data) > 1 and not block.turned
    texts = [c.heading for c in block.columns] if grouped else block.headings()
    heads = ["method", *map(_latex, texts)]
    rows = []
    for row in block.rows:
        marks = f"$^{{\\text{{{_latex(row.marks)}}}}}$" if row.marks else ""
        cells = [_latex_cell(cell, measure) for cell in row.cells]
        rows.append([_latex(row.title) + marks, *cells])
    heads, rows = _turned(heads, rows) if block.turned else (heads, rows)
    lines = [
        r"\begin{table}",
        r"\centering",
        f"\\caption{{{_latex(block.caption)}}}",
        f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
        r"\toprule",
        *(_latex_groups(block) if grouped else ()),
        " & ".join(heads) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
    ]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [f"\n\\smallskip\\footnotesize {_latex(note)}" for note in block.notes]
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_groups(block: Block) -> list[str]:
    """The data sets over their columns."""
    groups = [(data, len(list(same))) for data, same in groupby(c.data for c in block.columns)]
    above = [f"\\multicolumn{{{size}}}{{c}}{{{_latex(data)}}}" for data, size in groups]
    rules, start = [], 2
    for _, size in groups:
        rules.append(f"\\cmidrule(lr){{{start}-{start + size - 1}}}")
        start += size
    return [" & ".join(["", *above]) + r" \\", " ".join(rules)]


def _latex_cell(cell: Cell, measure: str) -> str:
    # Bold is put around marked text after escaping, so that its braces survive.
    text = _latex(_content(cell, measure, lambda value: f"\x02{value}\x03"))
    return text.replace("\x02", r"\textbf{").replace("\x03", "}")
