"""Columns that a schema needs of a source, and checks of them before a record is read.

Every error names the file, the column where there is one, and the rule; none shows a cell, a row's
number or how many rows break a rule.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from discreet.errors import TableError
from discreet.tables.cells import family, without_markers
from discreet.tables.columns import quoted, repeated
from discreet.tables.schema import Schema

BLOCK_CELLS = 1 << 23  # cells, read or encoded, of a block of records
MOST_ROWS, FEWEST_ROWS = 1 << 16, 1 << 8


class Piece(NamedTuple):
    """A block of records: cells by column, columns passed through, share of the source so far."""

    columns: dict[str, Any]
    extra: dict[str, Any]
    share: float
    where: str = ""


@dataclass(frozen=True)
class Request:
    """Columns that are read: those that the schema uses, target and unit if asked for, extra ones.

    While ``drafting`` a schema, advice must not refer to it.
    """

    schema: Schema
    target: bool
    extra: tuple[str, ...] = ()
    drafting: bool = False
    unit: bool = False

    @property
    def needed(self) -> list[str]:
        """Names of the columns that are encoded."""
        target, unit = self.schema.target, self.schema.unit
        names = list(self.schema.used)
        if target is not None and self.target:
            names.append(target.column)
        if unit is not None and self.unit:
            names.append(unit)
        return names

    @property
    def block_rows(self) -> int:
        """Number of records in a block, so that its memory does not grow with the columns."""
        cells = max(len(self.needed) + len(self.extra), self.schema.width)
        return min(max(BLOCK_CELLS // cells, FEWEST_ROWS), MOST_ROWS)

    def piece(self, batch: Any, share: float, *, text: bool = False) -> Piece:
        """Return the asked columns of a batch, missing cells as null; extra ones as they are."""
        # In a table with types a quote is a letter like any other.
        quote = self.schema.file.quote if text else ""
        columns = {
            name: without_markers(
                batch.column(name), self.schema.missing_markers(name), quote, f"column {name!r}"
            )
            for name in self.needed
        }
        return Piece(columns, {name: batch.column(name) for name in self.extra}, share)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the name of a file before the text of a `TableError`."""
    try:
        yield
    except TableError as error:
        error.args = (f"{os.fspath(path)}: {error}",)
        raise


def columns_to_read(found: Sequence[str], request: Request) -> list[str]:
    """Check the names of a table's columns, and return those that have to be read, in its order.

    Names are shown only if they are the schema's or asked for, or if most of the schema's names
    were found: otherwise the first line may be a record.
    """
    needed, schema = request.needed, request.schema
    if request.target and schema.target is None:
        raise TableError(
            "the schema names no target. Add [target] to the schema, or read without it "
            "(target=False)."
        )
    known, present = set(schema.file_names), set(found)
    problems = []
    if missing := [name for name in needed if name not in present]:
        problems.append(
            f"lacks columns of the schema: {quoted(missing)}. Add them to the file, or take them "
            "out of the schema."
        )
    if len(known & present) * 2 <= len(known) and missing:
        hint = "If the file has no header, set header = false in [file]."
        raise TableError(f"{problems[0]} {hint}")
    if absent := [name for name in request.extra if name not in present]:
        problems.append(f"lacks columns that were asked for: {quoted(absent)}. Check their names.")
    known.update(request.extra)
    extra = [name for name in dict.fromkeys(found) if name not in known]
    if extra and schema.extra == "refuse":
        problems.append(
            f"has columns that are not in the schema: {quoted(extra)}. Add them to the schema, "
            'with kind = "ignored" if they are not to be used, or write extra = "ignore" at its '
            "top (--ignore-extra) to leave out all such columns."
        )
    if twice := repeated(found):
        problems.append(f"has columns of the same name: {quoted(sorted(twice))}. Rename them.")
    if problems:
        raise TableError(" It ".join(problems))
    wanted = {*needed, *request.extra}
    return [name for name in found if name in wanted]


def check_types(fields: Any, request: Request) -> dict[str, str]:
    """Refuse columns whose cells are of a type that the schema's kind cannot hold.

    Returns what the cells of each column are: numbers, texts, truth values, times or nothing.
    Widths do not matter, because the schema says what a cell means.
    """
    families, problems = {}, []
    for name in request.needed:
        kind = fields.field(name).type
        families[name] = family(kind)
        is_time = families[name] == "times" and request.schema.holds_numbers(name)
        if is_time or families[name] == "other":
            # Names inside a nested type can be data.
            problems.append(f"column {name!r} is of type {str(kind).partition('<')[0]}")
    if problems:
        raise TableError(
            f"{'; '.join(problems)}. A column must hold numbers, or texts and what can be written "
            'as one: convert it in the file, or set kind = "ignored" in the schema.'
        )
    return families
