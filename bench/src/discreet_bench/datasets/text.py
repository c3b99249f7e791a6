"""Text files of data sets as streams of columns, in the publishers' own forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from discreet.errors import TableError
from discreet.tables.cells import arrow
from discreet.tables.columns import Numeric, counted, quoted
from discreet.tables.schema import Schema
from discreet_bench.datasets.derivations import Derivation, raw_fields
from discreet_bench.datasets.entries import Entry
from discreet_bench.datasets.places import Found, open_found

__all__ = ["batches"]

_BLOCK = 4 << 20

Batch: TypeAlias = dict[str, Any]


def batches(
    known: Entry, found: Found, schema: Schema, rule: Derivation
) -> Iterator[dict[str, Any]]:
    """The records of a file, block by block, as columns of the schema.

    Numbers come as float64 and everything else as text without the spaces around it.
    """
    with open_found(found) as stream:
        records = _records(known, found, schema, rule, stream)
        while True:
            batch, problem = _next(records, raw_fields(rule, schema))
            if problem is None and batch is not None:
                batch, problem = _derived(rule, batch, found.file.split)
            if problem is not None:  # raised here, so that it keeps nothing of Arrow's errors
                named = problem.startswith(str(found.path))
                raise TableError(problem if named else f"{found.path}: {problem}")
            if batch is None:
                return
            yield batch


def _next(records: Iterator[Batch], fields: list[str]) -> tuple[Batch | None, str | None]:
    """The next batch (None at the end), or what is wrong with the file."""
    pa = arrow()
    try:
        return next(records, None), None
    except TableError as error:
        return None, str(error)
    except pa.ArrowKeyError:
        return None, f"the columns must be, among others, {quoted(fields)}."
    except pa.ArrowInvalid as error:  # its text quotes cells
        return None, _explained(str(error), fields)


def _derived(rule: Derivation, batch: Batch, split: str) -> tuple[Batch | None, str | None]:
    """The columns of the schema, or what is wrong with those of the file."""
    try:
        return rule.derive(batch, split), None
    except TableError as error:
        return None, str(error)


def _records(
    known: Entry, found: Found, schema: Schema, rule: Derivation, stream: Any
) -> Iterator[Batch]:
    """The columns as the file has them; errors are Arrow's own, which quote cells."""
    pa = arrow()
    from pyarrow import compute as pc
    from pyarrow import csv

    fields = raw_fields(rule, schema)
    types = {name: _type(name, schema, rule) for name in fields}
    reader = csv.open_csv(
        pa.PythonFile(stream, "r"),
        csv.ReadOptions(
            use_threads=False,
            block_size=_BLOCK,
            skip_rows=found.file.skip,
            column_names=None if known.header else fields,
        ),
        csv.ParseOptions(delimiter=schema.file.delimiter, quote_char=schema.file.quote or False),
        csv.ConvertOptions(
            check_utf8=False,
            column_types={name: pa.type_for_alias(kind) for name, kind in types.items()},
            null_values=["", "NA", "nan"],
            strings_can_be_null=False,
            include_columns=fields if known.extra else [],
            include_missing_columns=False,
        ),
    )
    names = reader.schema.names
    if set(names) != set(fields) or len(names) != len(fields):
        raise TableError(f"the columns must be {quoted(fields)}.")
    for batch in reader:
        yield {
            name: pc.utf8_trim_whitespace(batch.column(name))
            if types[name] == "string"
            else batch.column(name)
            for name in fields
        }


def _type(name: str, schema: Schema, rule: Derivation) -> str:
    """The Arrow type of a column of a file."""
    extra = {**rule.before, **rule.after}
    if name in extra:
        return extra[name]
    numeric = isinstance(schema.columns.get(name), Numeric)
    if schema.target is not None and name == schema.target.column:
        numeric = not schema.target.is_classification
    return "double" if numeric else "string"


def _explained(message: str, fields: list[str]) -> str:
    """What went wrong, without the cells that Arrow quotes."""
    place = re.search(r"CSV column #(\d+)", message)
    if place and int(place.group(1)) < len(fields):
        return f"column {fields[int(place.group(1))]!r}: a cell is not a number."
    if "Empty CSV" in message:
        return "the file is empty."
    return f"every record must have {counted(len(fields), 'cell')}."
