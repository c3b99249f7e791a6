"""Text files of data sets as streams of columns, in the publishers' own forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from discreet.errors import TableError
from discreet.tables.cells import arrow
from discreet.tables.columns import Numeric, quoted
from discreet.tables.datasets.derivations import Derivation, raw_fields
from discreet.tables.datasets.entries import Entry
from discreet.tables.datasets.places import Found, open_found
from discreet.tables.schema import Schema

__all__ = ["batches"]

_BLOCK = 4 << 20


def batches(
    known: Entry, found: Found, schema: Schema, rule: Derivation
) -> Iterator[dict[str, Any]]:
    """The records of a file, block by block, as columns of the schema.

    Numbers come as float64 and everything else as text without the spaces around it.
    """
    with open_found(found) as stream:
        try:
            for batch in _records(known, found, schema, rule, stream):
                yield rule.derive(batch, found.file.split)
        except TableError as error:
            raise TableError(f"{found.path}: {error}") from None


def _records(
    known: Entry, found: Found, schema: Schema, rule: Derivation, stream: Any
) -> Iterator[dict[str, Any]]:
    pa = arrow()
    from pyarrow import compute as pc
    from pyarrow import csv

    fields = raw_fields(rule, schema)
    types = {name: _type(name, schema, rule) for name in fields}
    try:
        reader = csv.open_csv(
            pa.PythonFile(stream, "r"),
            csv.ReadOptions(
                use_threads=False,
                block_size=_BLOCK,
                skip_rows=found.file.skip,
                column_names=None if known.header else fields,
            ),
            csv.ParseOptions(
                delimiter=schema.file.delimiter, quote_char=schema.file.quote or False
            ),
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
    except pa.ArrowKeyError:
        raise TableError(f"the columns must be, among others, {quoted(fields)}.") from None
    except pa.ArrowInvalid as error:  # its text quotes cells
        raise TableError(_explained(str(error), fields)) from None


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
    return f"every record must have {len(fields)} cells."
