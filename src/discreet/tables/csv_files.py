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

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from discreet.errors import TableError
from discreet.tables.cells import arrow, without_markers
from discreet.tables.columns import Ignored, counted, quoted, strip
from discreet.tables.schema import Schema
from discreet.tables.text_stream import TextStream

__all__ = ["check_form", "cleaned", "columns_to_read", "text_batches"]

FIRST_BLOCK = 1 << 20
"""Bytes that Arrow parses at a time, as long as every record fits."""

LONGEST_RECORD = 1 << 26
"""Bytes beyond which a record is taken for a quote that is never closed."""

LAST_CELL = "\x00"
"""Every cell of the record that is added at the end. No file can hold it: NUL bytes are refused."""

_DELIMITERS = {",": '","', ";": '";"', "\t": '"\\t"', "|": '"|"', " ": '" "'}


def text_batches(
    path: Path,
    schema: Schema,
    *,
    target: bool,
    progress: Callable[[float], None] | None,
    drafting: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield the records of a text file block by block, as texts; see `discreet.tables.batches`."""
    block_size, done, shown = FIRST_BLOCK, 0, 0.0
    while True:
        with TextStream(path, schema.file, drafting=drafting) as stream:
            names, wanted = _layout(stream, path, schema, target)
            records = _Records(stream, path, schema, names, wanted, block_size)
            skip = done
            for batch in records:
                fresh = batch.slice(min(skip, batch.num_rows))
                skip -= batch.num_rows - fresh.num_rows
                if fresh.num_rows:
                    done += fresh.num_rows
                    shown = max(shown, stream.share)
                    if progress is not None:
                        progress(shown)
                    yield cleaned(fresh, wanted, schema, path)
        if not records.too_long:
            break
        # A record did not fit. From the start again, in larger blocks: records cannot be resumed.
        block_size *= 8
        if block_size > LONGEST_RECORD:
            raise TableError(
                f"{path}: a record is longer than {LONGEST_RECORD >> 20} MB; probably a quote is "
                'opened and never closed. Correct it, or set quote = "" in [file] if quotes mean '
                "nothing in this file."
            )
    if progress is not None and shown < 1.0:
        progress(1.0)
    if not done:
        where = " after its header" * schema.file.header
        raise TableError(f"{path}: has no records{where}. Choose the file that holds them.")


def cleaned(batch: Any, wanted: Sequence[str], schema: Schema, path: Path) -> dict[str, Any]:
    """Return the columns of a batch by name, missing cells as null."""
    return {
        name: without_markers(
            batch.column(name),
            schema.missing_markers(name),
            schema.file.quote,
            f"{path}: column {name!r}",
        )
        for name in wanted
    }


def _layout(
    stream: TextStream, path: Path, schema: Schema, target: bool
) -> tuple[list[str], list[str]]:
    """Return the columns of the file in order, and those to read."""
    first = stream.first_record()
    if stream.problem is not None:
        raise TableError(f"{path}: {stream.problem}")
    if first == []:
        raise TableError(f"{path}: is empty. Choose the file that holds the records.")
    if schema.file.header:
        if first is None:
            raise TableError(
                f"{path}: its first line is too long to be a header. If the file has none, set "
                "header = false in [file]; otherwise a quote in it is never closed."
            )
        known = set(schema.file_names)
        names = [field if field in known else strip(field) for field in first]
        if known.isdisjoint(names):
            check_form(stream, path)
        _check_delimiter(names, path, schema)
        return names, columns_to_read(names, schema, target=target, where=str(path))
    names = list(schema.file_names)
    if first is not None:
        if len({*names} & {strip(field) for field in first}) * 2 > len(names):
            raise TableError(
                f"{path}: the first line holds the names of the columns: write header = true under "
                "[file] in the schema, or take that line out of the file."
            )
        own = schema.target.column if schema.target is not None else None
        if not target and len(first) == len(names) - 1 and own in names:
            names.remove(own)
        if len(first) != len(names):
            check_form(stream, path)
            raise TableError(
                f"{path}: its first line has {counted(len(first), 'field')}, but the schema names "
                f"{counted(len(names), 'column')}. Name every column of the file in its order "
                '(kind = "ignored" for those that are not used) and check the delimiter in [file], '
                "or correct the file."
            )
    return names, columns_to_read(names, schema, target=target, where=str(path))


def check_form(stream: TextStream, path: Path) -> None:
    """Refuse a file that starts like another form than a table."""
    if stream.other_form is not None:
        raise TableError(
            f"{path}: seems to be {stream.other_form}, not a table. Convert it to CSV or Parquet."
        )


def _check_delimiter(names: Sequence[str], path: Path, schema: Schema) -> None:
    """Refuse a header that the delimiter does not split, and suggest one that does."""
    known = set(schema.file_names)
    if len(known) < 2 or len(names) > 1 or names[0] in known:
        return
    used = schema.file.delimiter
    hint = "Write the file's delimiter under [file], or save the file with this one."
    best, most = "", (0, 1)
    for mark in _DELIMITERS:
        fields = [strip(part).strip('"') for part in names[0].split(mark)]
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
        f"{path}: the header is one field when split at {_DELIMITERS.get(used, repr(used))}, but "
        f"the schema names {len(known)} columns. {hint}"
    )


def columns_to_read(found: Sequence[str], schema: Schema, *, target: bool, where: str) -> list[str]:
    """Check the names of a file's columns, and return those that have to be read, in its order.

    The target is needed and read if ``target``; ``where`` names the file in an error. Names are
    shown only if they are the schema's, or if most of the schema's names were found: otherwise the
    first line may be a record.
    """
    own = schema.target.column if schema.target is not None else None
    needed = [name for name, column in schema.columns.items() if not isinstance(column, Ignored)]
    if target:
        if own is None:
            raise TableError(
                f"{where}: the schema names no target. Add [target] to the schema, or read "
                "without it (target=False)."
            )
        needed.append(own)
    known = set(schema.file_names)
    present = set(found)
    problems = []
    if missing := [name for name in needed if name not in present]:
        problems.append(
            f"lacks columns of the schema: {quoted(missing)}. Add them to the file, or take them "
            "out of the schema."
        )
    if len(present & known) * 2 <= len(known) and missing:
        hint = "If the file has no header, set header = false in [file]."
        raise TableError(f"{where}: {problems[0]} {hint}")
    if extra := [name for name in dict.fromkeys(found) if name not in known]:
        problems.append(
            f"has columns that are not in the schema: {quoted(extra)}. Take them out of the file, "
            'or add them to the schema, with kind = "ignored" if they are not to be used.'
        )
    if len(present) < len(found):
        twice = [name for name in present if list(found).count(name) > 1]
        problems.append(f"has columns of the same name: {quoted(sorted(twice))}. Rename them.")
    if problems:
        raise TableError(f"{where}: {' It '.join(problems)}")
    wanted = set(needed)
    return [name for name in found if name in wanted]


class _Records:
    """Batches of a stream without the last record; ``too_long`` if a record did not fit a block."""

    def __init__(
        self,
        stream: TextStream,
        path: Path,
        schema: Schema,
        names: list[str],
        wanted: list[str],
        block_size: int,
    ) -> None:
        self.too_long = False
        self._stream = stream
        self._path = path
        self._uneven = False
        delimiter, quote = schema.file.delimiter, schema.file.quote
        if not (delimiter + quote).isascii():
            raise TableError(
                f"{path}: delimiter and quote in [file] must be ASCII characters; got "
                f"{delimiter!r} and {quote!r}."
            )
        arrow()
        import pyarrow as pa
        import pyarrow.csv

        stream.closing = f"\n{delimiter.join([LAST_CELL] * len(names))}\n".encode()
        self._options = {
            "read_options": pa.csv.ReadOptions(block_size=block_size, column_names=names),
            "parse_options": pa.csv.ParseOptions(
                delimiter=delimiter,
                quote_char=quote or False,
                newlines_in_values=bool(quote),
                invalid_row_handler=self._note_uneven,
            ),
            "convert_options": pa.csv.ConvertOptions(
                # Checked when the text was decoded.
                check_utf8=False,
                strings_can_be_null=False,
                include_columns=wanted,
                # Always texts; those that repeat are stored once per block.
                column_types={
                    name: pa.string()
                    if schema.holds_numbers(name)
                    else pa.dictionary(pa.int32(), pa.string())
                    for name in wanted
                },
            ),
        }

    def _note_uneven(self, row: Any) -> str:
        """Remember that a row has another number of fields, but nothing of the row."""
        self._uneven = True
        return "error"

    def __iter__(self) -> Iterator[Any]:
        pa = arrow()
        reader, held = None, None
        try:
            while True:
                batch, at_end, failed = None, False, False
                try:
                    if reader is None:
                        reader = pa.csv.open_csv(self._stream, **self._options)
                    batch = reader.read_next_batch()
                except StopIteration:
                    at_end = True
                except pa.ArrowInvalid:
                    failed = True  # what it says may quote the row
                self._check()
                if failed:
                    self.too_long = True
                    return
                if at_end:
                    break
                if batch is not None and batch.num_rows:
                    if held is not None:
                        yield held
                    held = batch
        finally:
            if reader is not None:
                reader.close()
        last = held.column(0)[held.num_rows - 1].as_py() if held is not None else None
        if held is None or last != LAST_CELL:
            raise TableError(
                f"{self._path}: ends inside a quoted cell. The file was cut off, or a quote is "
                "opened and never closed: copy it again, or correct it."
            )
        yield held.slice(0, held.num_rows - 1)

    def _check(self) -> None:
        """Raise the problem that the stream or the parser found."""
        if self._stream.problem is not None:
            raise TableError(f"{self._path}: {self._stream.problem}")
        if self._uneven:
            raise TableError(
                f"{self._path}: a row has another number of fields than the "
                "header. Quote cells that hold the delimiter (with no space before the quote), and "
                "check that the file was not cut off."
            )
