"""Rows of a measurement in a CSV file, and tables of them in a page of the documentation.

A measurement is a loop over fits. Each fit becomes a row, written at once, so that an interrupted
loop continues where it stopped; pages are made from the file alone.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

__all__ = ["append", "mean_and_deviation", "read", "replace_block", "table", "write"]

R = TypeVar("R")
_READERS: dict[str, Callable[[str], object]] = {"str": str, "int": int, "float": float}


def read(path: Path, kind: type[R]) -> list[R]:
    """Return the rows of a file as objects of a dataclass; none if there is no file.

    Fields are of type str, int or float.
    """
    if not path.exists():
        return []
    readers = {field.name: _READERS[str(field.type)] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    with path.open(newline="", encoding="utf-8") as file:
        return [
            kind(**{name: reader(line[name]) for name, reader in readers.items()})
            for line in csv.DictReader(file)
        ]


def append(path: Path, row: object) -> None:
    """Add a row to a file, which is made with a header if there is none."""
    _put(path, [row], new=not path.exists())


def write(path: Path, rows: Sequence[object]) -> None:
    """Write a file of rows anew."""
    path.unlink(missing_ok=True)
    _put(path, rows, new=True)


def _put(path: Path, rows: Sequence[object], *, new: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        for row in rows:
            cells = dataclasses.asdict(row)  # type: ignore[call-overload]
            line = csv.DictWriter(file, list(cells), lineterminator="\n")
            if new:
                line.writeheader()
                new = False
            line.writerow(
                {name: f"{c:.6g}" if isinstance(c, float) else c for name, c in cells.items()}
            )


def mean_and_deviation(values: Iterable[float], digits: int) -> str:
    """Return "mean ± standard deviation", one value as it is, or a dash if there are none."""
    found = np.array(list(values), dtype=np.float64)
    if len(found) < 2:
        return f"{found[0]:.{digits}f}" if len(found) else "–"
    return f"{found.mean():.{digits}f} ± {found.std(ddof=1):.{digits}f}"


def table(header: Sequence[str], lines: Iterable[Sequence[str]], text: int = 1) -> str:
    """Return a Markdown table; the first ``text`` columns are aligned to the left."""
    rule = ["---" if j < text else "---:" for j in range(len(header))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, rule, *lines))


def replace_block(page: Path, name: str, text: str) -> None:
    """Replace what a page has between ``<!-- name -->`` and ``<!-- end of name -->``."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found, rest = page.read_text("utf-8").partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page.name} has no {start} … {end}; add both lines where {name} go.")
    page.write_text(f"{before}{start}\n\n{text}\n\n{end}{after}", "utf-8")
