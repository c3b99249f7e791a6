"""Text files as streams of records: one pass, bounded memory, nothing guessed from the cells.

Arrow splits the text into cells and leaves them as texts, so no type depends on the rows. Errors
that it would not notice (a quote that is never closed, a name that occurs twice in the header) or
would report with the cell in question are caught around it:

* The header is read and removed by `TextStream`.
* A last record that cannot occur in a file is added. If it does not come out at the end, a quote
  was still open and the file was cut off.
* Arrow's own messages quote rows. They are never shown; the problem is known without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from discreet.errors import TableError
from discreet.tables.cells import arrow
from discreet.tables.columns import counted, strip
from discreet.tables.matching import Piece, Request, columns_to_read
from discreet.tables.schema import Schema
from discreet.tables.text_stream import TextStream

FIRST_BLOCK = 1 << 20  # bytes that Arrow parses at a time, as long as every record fits
LONGEST_RECORD = 1 << 26  # bytes beyond which a record is taken for a quote that is never closed

# Every cell of the record that is added at the end. No file can hold it: NUL bytes are refused.
LAST_CELL = "\x00"

_DELIMITERS = {",": '","', ";": '";"', "\t": '"\\t"', "|": '"|"', " ": '" "'}


class _RecordTooLong(Exception):
    """A record does not fit in a block."""


def text_pieces(path: Path, request: Request, *, may_be_empty: bool = False) -> Iterator[Piece]:
    """Yield the records of a text file block by block, as texts."""
    schema = request.schema
    block_size, done, shown, complete = FIRST_BLOCK, 0, 0.0, False
    while not complete:
        with (
            TextStream(path, schema.file, drafting=request.drafting) as stream,
            suppress(_RecordTooLong),
        ):
            names = _names(stream, schema, request.target)
            wanted = columns_to_read(names, request)
            skip = done
            for batch in _records(stream, request, names, wanted, block_size):
                fresh = batch.slice(min(skip, batch.num_rows))
                skip -= batch.num_rows - fresh.num_rows
                if fresh.num_rows:
                    done += fresh.num_rows
                    shown = max(shown, stream.share)
                    yield request.piece(fresh, shown, text=True)
            complete = True
        # A record did not fit. From the start again, in larger blocks: records cannot be resumed.
        block_size *= 8
        if not complete and block_size > LONGEST_RECORD:
            raise TableError(
                f"a record is longer than {LONGEST_RECORD >> 20} MB; probably a quote is opened "
                'and never closed. Correct it, or set quote = "" in [file] if quotes mean nothing '
                "in this file."
            )
    if not done and not may_be_empty:
        where = " after its header" * schema.file.header
        raise TableError(f"has no records{where}. Choose the file that holds them.")


def check_header(path: Path, request: Request) -> None:
    """Check the names of a file's columns; no record is read."""
    with TextStream(path, request.schema.file, drafting=request.drafting) as stream:
        columns_to_read(_names(stream, request.schema, request.target), request)


def _names(stream: TextStream, schema: Schema, target: bool) -> list[str]:
    """Return the names of the columns of a file, in order."""
    first = stream.first_record()
    stream.check()
    if first == []:
        raise TableError("is empty. Choose the file that holds the records.")
    known = set(schema.file_names)
    if schema.file.header:
        if first is None:
            raise TableError(
                "its first line is too long to be a header. If the file has none, set header = "
                "false in [file]; otherwise a quote in it is never closed."
            )
        names = [field if field in known else strip(field) for field in first]
        if known.isdisjoint(names):
            stream.check_form()
        if len(names) == 1 and len(known) > 1 and names[0] not in known:
            _refuse_delimiter(names[0], schema)
        return names
    names = list(schema.file_names)
    if first is None:
        return names
    if len(known & {strip(field) for field in first}) * 2 > len(names):
        raise TableError(
            "the first line holds the names of the columns: write header = true under [file] in "
            "the schema, or take that line out of the file."
        )
    own = schema.target.column if schema.target is not None else None
    if not target and len(first) == len(names) - 1 and own in names:
        names.remove(own)
    if len(first) != len(names):
        stream.check_form()
        raise TableError(
            f"its first line has {counted(len(first), 'field')}, but the schema names "
            f"{counted(len(names), 'column')}. Name every column of the file in its order "
            '(kind = "ignored" for those that are not used) and check the delimiter in [file], '
            "or correct the file."
        )
    return names


def _refuse_delimiter(header: str, schema: Schema) -> None:
    """Refuse a header that the delimiter does not split, and suggest one that does."""
    known, used = set(schema.file_names), schema.file.delimiter
    hint = "Write the file's delimiter under [file], or save the file with this one."
    best, most = "", (0, 1)
    for mark in _DELIMITERS:
        fields = [strip(part).strip('"') for part in header.split(mark)]
        found = len(known.intersection(fields))
        # A space may well be part of a name.
        if mark != used and (mark != " " or found > 1) and (found, len(fields)) > most:
            best, most = mark, (found, len(fields))
    if most[1] > 1:
        hint = (
            f"It has {most[1]} fields when split at {_DELIMITERS[best]}: write delimiter = "
            f"{_DELIMITERS[best]} under [file], or save the file with the schema's delimiter."
        )
    raise TableError(
        f"the header is one field when split at {_DELIMITERS.get(used, repr(used))}, but the "
        f"schema names {len(known)} columns. {hint}"
    )


def _records(
    stream: TextStream, request: Request, names: list[str], wanted: list[str], block_size: int
) -> Iterator[Any]:
    """Yield the batches of a stream without the last record."""
    schema, coded = request.schema, set(request.needed)
    delimiter, quote = schema.file.delimiter, schema.file.quote
    if not (delimiter + quote).isascii():
        raise TableError(
            f"delimiter and quote in [file] must be ASCII characters; got {delimiter!r} and "
            f"{quote!r}."
        )
    pa = arrow()
    from pyarrow import csv

    uneven = False

    def note_uneven(row: Any) -> str:
        """Remember that a row has another number of fields, but nothing of the row."""
        nonlocal uneven
        uneven = True
        return "error"

    stream.closing = f"\n{delimiter.join([LAST_CELL] * len(names))}\n".encode()
    options = {
        "read_options": csv.ReadOptions(block_size=block_size, column_names=names),
        "parse_options": csv.ParseOptions(
            delimiter=delimiter,
            quote_char=quote or False,
            newlines_in_values=bool(quote),
            invalid_row_handler=note_uneven,
        ),
        "convert_options": csv.ConvertOptions(
            check_utf8=False,  # checked when the text was decoded
            strings_can_be_null=False,
            include_columns=wanted,
            # Always texts; those that repeat are stored once per block.
            column_types={
                name: pa.dictionary(pa.int32(), pa.string())
                if name in coded and not schema.holds_numbers(name)
                else pa.string()
                for name in wanted
            },
        ),
    }
    reader, held, failed = None, None, False
    try:
        while True:
            batch = None
            try:
                if reader is None:
                    reader = csv.open_csv(stream, **options)
                batch = next(reader, None)
            except pa.ArrowInvalid:
                failed = True  # what it says may quote the row
            stream.check()
            if uneven:
                raise TableError(
                    "a row has another number of fields than the header. Quote cells that hold the "
                    "delimiter (with no space before the quote), and check that the file was not "
                    "cut off."
                )
            if batch is None:
                break
            if batch.num_rows:
                if held is not None:
                    yield held
                held = batch
    finally:
        if reader is not None:
            reader.close()
    if failed:
        raise _RecordTooLong
    if held is None or held.column(0)[held.num_rows - 1].as_py() != LAST_CELL:
        raise TableError(
            "ends inside a quoted cell. The file was cut off, or a quote is opened and never "
            "closed: copy it again, or correct it."
        )
    yield held.slice(0, held.num_rows - 1)
