"""Text files as streams of records: one pass, bounded memory, nothing guessed from the cells.

Arrow splits the text into cells and leaves them as texts, so no type depends on the rows.
`TextStream` reads and removes the header, and adds a last record that cannot occur in a file: if it
does not come out at the end, a quote was still open and the file was cut off. Arrow's own messages
quote rows; the problem is known without them.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from discreet.tables.alignment import Records
from discreet.tables.columns import SPACES
from discreet.tables.encoder import trimmed
from discreet.tables.messages import Refusal, arrow, joined
from discreet.tables.parts import Request, Stamp, columns_to_read
from discreet.tables.schema import FileFormat, Schema

LONGEST_HEADER = 1 << 22
"""Letters after which the end of the first record is not searched for."""

EMPTY = "is empty. Choose the file that holds the records."
"""Refusal of a file without a first line."""

_SET_ENCODING = {  # what to do about an encoding: with a schema, and while one is drafted
    False: 'set encoding = "{name:plain}" in [file]',
    True: 'pass --encoding {name:plain} (encoding="{name:plain}" in Python)',
}
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # starts like the mark of UTF-16, so it comes first
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_OTHER_FORMS = {
    "seems to be JSON, not a table. Convert it to CSV or Parquet.": re.compile(
        r'\s*(\{\s*["}]|\[\s*[\[{"\]])'
    ),
    "seems to be HTML or XML, not a table. Convert it to CSV or Parquet.": re.compile(
        r"\s*<(!doctype|!--|\?xml|html|head|table)", re.IGNORECASE
    ),
}


_SPACES_IN_NUMBERS = " \u00a0\u202f"  # plain, and those that keep a number on one line
_CONTROLS = re.compile("[\x80-\x9f]")  # no text has these, but Windows-1252 has letters there


class TextStream(io.RawIOBase):
    """A text file in the form that Arrow reads: unpacked, UTF-8, no header, a known last record.

    Arrow reads in a thread of its own, so a ``problem`` with the file ends the stream and is left
    for the caller. ``share`` is the share of the file's bytes that have been read, ``closing`` is
    added at the end. While ``drafting`` a schema, advice must not refer to it.
    """

    def __init__(self, path: Path, file_format: FileFormat, *, drafting: bool = False) -> None:
        self._format = file_format
        self._drafting = drafting
        self._encoding = codecs.lookup(file_format.encoding).name
        self._raw = path.open("rb")
        self._bytes = max(path.stat().st_size, 1)
        unpacked = io.BufferedReader(_unpacked(self._raw), 1 << 16)
        self._text = io.TextIOWrapper(unpacked, self._encoding, newline="")
        self._pending = b""
        self._at_end = False
        self.closing = b""
        self.share = 0.0
        self.problem: Refusal | None = None
        self._start: bytes = self._guarded(lambda: unpacked.peek(1)) or b""
        marked = next((name for mark, name in _MARKS.items() if self._start.startswith(mark)), None)
        if marked is not None and not self._encoding.startswith(marked):
            self.problem = Refusal(
                "is text in {name:upper}, by its first bytes: "
                + _SET_ENCODING[drafting]
                + ", or save it as {encoding:upper}.",
                name=marked,
                encoding=file_format.encoding,
            )

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._raw.close()

    def readable(self) -> bool:
        """Return True, as Arrow asks of a file."""
        return True

    def check(self) -> None:
        """Raise the problem, if there is one."""
        if self.problem is not None:
            raise self.problem

    def check_form(self) -> None:
        """Refuse a file that starts like another form than a table."""
        text = self._start.decode(self._encoding, "replace").removeprefix("\ufeff")
        for problem, form in _OTHER_FORMS.items():
            if form.match(text):
                raise Refusal(problem)

    def first_record(self) -> list[str] | None:
        """Return the fields of the first record, and take it out if it is a header.

        An empty list means that there is no record, None that it is longer than any header.
        """
        seen: list[str] = []

        def lines() -> Iterator[str]:
            letters = 0
            while line := self._guarded(lambda: self._text.readline(LONGEST_HEADER)):
                letters += len(line)
                seen.append(line if seen else line.removeprefix("\ufeff"))
                if letters >= LONGEST_HEADER:
                    raise csv.Error
                yield seen[-1]

        quote = self._format.quote
        reader = csv.reader(
            lines(),
            delimiter=self._format.delimiter,
            quotechar=quote or None,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
            skipinitialspace=self._format.header,
        )
        fields: list[str] | None = None
        with suppress(csv.Error):
            fields = next((record for record in reader if record), [])
        if not self._format.header:
            self._pending = self._encoded("".join(seen))
        return fields

    def read(self, size: int = -1) -> bytes:
        """Return ``size`` bytes of UTF-8, fewer at the end, and then none."""
        size = size if size > 0 else 1 << 16
        while len(self._pending) < size and not self._at_end:
            text = self._guarded(lambda: self._text.read(size - len(self._pending))) or ""
            self._pending += self._encoded(text)
            if self.problem is not None or not text:
                self._at_end = True
                self._pending = b"" if self.problem else self._pending + self.closing
        piece = self._pending[:size]
        self._pending = self._pending[size:]
        return piece

    def _guarded(self, read: Callable[[], Any]) -> Any:
        """Read bytes or text; return None and set ``problem`` if that fails."""
        if self.problem is not None:
            return None
        found = None
        try:
            found = read()
            self.share = min(self._raw.tell() / self._bytes, 1.0)
        except UnicodeError:
            self.problem = self._not_valid()
        except (EOFError, OSError, zlib.error, lzma.LZMAError):
            self.problem = Refusal("is cut off or damaged: it cannot be unpacked. Copy it again.")
        if isinstance(found, str) and self._encoding == "iso8859-1" and _CONTROLS.search(found):
            self.problem = Refusal(
                "has characters that are none in {encoding:upper}; it is probably Windows-1252: "
                + _SET_ENCODING[self._drafting]
                + ".",
                encoding=self._format.encoding,
                name="cp1252",
            )
        if isinstance(found, str) and "\x00" in found:
            self.problem = Refusal(
                "has NUL bytes, which text does not have. If it was saved as UTF-16, "
                + _SET_ENCODING[self._drafting]
                + "; otherwise the file is damaged.",
                name="utf-16",
            )
        return found if self.problem is None else None

    def _not_valid(self) -> Refusal:
        """Return the refusal of text that cannot be decoded."""
        advice = _SET_ENCODING[self._drafting]
        encoding = self._format.encoding
        if self._encoding == "utf-8":
            return Refusal(
                "is not valid {encoding:upper}; if a program on Windows wrote it, "
                + advice
                + ", or save it as UTF-8.",
                encoding=encoding,
                name="cp1252",
            )
        return Refusal(
            "is not valid {encoding:upper}; if it is UTF-8, " + advice + ".",
            encoding=encoding,
            name="utf-8",
        )

    def _encoded(self, text: str) -> bytes:
        """Encode text as UTF-8; half of a surrogate pair, which has no UTF-8, is a problem."""
        try:
            return text.encode()
        except UnicodeEncodeError:
            self.problem = Refusal(
                "its text is not valid in the encoding {encoding}.", encoding=self._format.encoding
            )
            return b""


def _unpacked(raw: BinaryIO) -> Any:
    """Return the file as it was before packing, recognised by its first bytes."""
    start = raw.read(10)
    raw.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)
    if start.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(raw)
    if start.startswith(b"BZh") and start[4:] == b"1AY&SY":
        return bz2.BZ2File(raw)
    return raw


FIRST_BLOCK = 1 << 20
"""Bytes that Arrow parses at a time, as long as every record fits."""

LONGEST_RECORD = 1 << 26
"""Bytes beyond which a record is taken for a quote that is never closed."""

LAST_CELL = "\x00"
"""Every cell of the record that is added at the end. No file can hold it: NUL is refused."""

_OTHER_DELIMITER = (
    "It has {fields} fields when split at MARK: write delimiter = MARK under [file], or save the "
    "file with the schema's delimiter."
)
_DELIMITERS = {  # what to do about a header that one of them splits
    mark: _OTHER_DELIMITER.replace("MARK", shown)
    for mark, shown in {",": '","', ";": '";"', "\t": '"\\t"', "|": '"|"', " ": '" "'}.items()
}


class _RecordTooLong(Exception):
    """A record does not fit in a block."""


@dataclass(frozen=True)
class TextPart:
    """A part of a source that is a text file. Its names and its form depend on the schema."""

    place: Path
    stamps: tuple[Stamp, ...]
    names: tuple[str, ...] = ()
    n_rows: int | None = None

    def check(self, request: Request) -> dict[str, str]:
        """Check the names of the columns; text has no types."""
        with TextStream(self.place, request.schema.file, drafting=request.drafting) as stream:
            columns_to_read(_names(stream, request.schema, request.target), request)
        return {}

    def records(self, request: Request) -> Iterator[Records]:
        """Yield the records block by block, as texts."""
        block_size = FIRST_BLOCK
        done = 0
        shown = 0.0
        complete = False
        while not complete:
            with (
                TextStream(self.place, request.schema.file, drafting=request.drafting) as stream,
                suppress(_RecordTooLong),
            ):
                skip = done
                for batch in _Parser(stream, request, block_size).batches():
                    fresh = batch.slice(min(skip, batch.num_rows))
                    skip -= batch.num_rows - fresh.num_rows
                    if fresh.num_rows:
                        _check_quotes(fresh, request)
                        fresh = _with_plain_numbers(fresh, request.schema.file)
                        done += fresh.num_rows
                        shown = max(shown, stream.share)
                        yield Records(fresh, self.place, shown)
                complete = True
            # A record did not fit. The file is read anew, in larger blocks.
            block_size *= 8
            if not complete and block_size > LONGEST_RECORD:
                raise Refusal(
                    "a record is longer than {most} MB; probably a quote is opened and never "
                    'closed. Correct it, or set quote = "" in [file] if quotes mean nothing in '
                    "this file.",
                    most=LONGEST_RECORD >> 20,
                )


def _check_quotes(batch: Any, request: Request) -> None:
    """Refuse a quote after a space, which becomes part of the cell."""
    quote = request.schema.file.quote
    compute = arrow().compute
    for name in request.needed if quote else ():
        cells = batch.column(name)
        if hasattr(cells, "dictionary"):
            texts = cells.dictionary
            starts = compute.starts_with(trimmed(texts), quote)
            if compute.any(compute.and_(starts, compute.starts_with(texts, " "))).as_py():
                raise Refusal(
                    "column {name} has spaces before a quote, so that the quote becomes part of "
                    "the cell. Remove the spaces between delimiter and quote.",
                    name=name,
                )


def _with_plain_numbers(batch: Any, file: FileFormat) -> Any:
    """Return cells that are numbers in the form of the file as numbers with a decimal point.

    Other cells stay as they are. Each cell is changed by its own content.
    """
    if file.decimal == "." and not file.thousands:
        return batch
    pa = arrow()
    grouped = f"[{_SPACES_IN_NUMBERS}]" if file.thousands == " " else re.escape(file.thousands)
    whole = rf"(\d{{1,3}}({grouped}\d{{3}})+|\d+)" if file.thousands else r"\d+"
    number = rf"^\s*[+-]?{whole}({re.escape(file.decimal)}\d*)?(e[+-]?\d+)?\s*$"

    def plain(texts: Any) -> Any:
        compute = pa.compute
        is_number = compute.match_substring_regex(texts, f"(?i){number}")
        made = texts
        if file.thousands:
            made = compute.replace_substring_regex(made, grouped, "")
        made = compute.replace_substring(made, file.decimal, ".")
        return compute.if_else(is_number, made, texts)

    made = []
    for cells in batch.columns:
        if hasattr(cells, "dictionary"):
            # Two texts can become one number: distinct cells are distinct again.
            cells = plain(cells.dictionary).take(cells.indices).dictionary_encode()
        else:
            cells = plain(cells)
        made.append(cells)
    return pa.RecordBatch.from_arrays(made, names=batch.schema.names)


def _names(stream: TextStream, schema: Schema, target: bool) -> list[str]:
    first = stream.first_record()
    stream.check()
    if first == []:
        raise Refusal(EMPTY)
    known = set(schema.file_names)
    if schema.file.header:
        if first is None:
            raise Refusal(
                "its first line is too long to be a header. If the file has none, set header = "
                "false in [file]; otherwise a quote in it is never closed."
            )
        names = [field if field in known else field.strip(SPACES) for field in first]
        if known.isdisjoint(names):
            stream.check_form()
        if len(names) == 1 and len(known) > 1 and names[0] not in known:
            _refuse_delimiter(names[0], schema)
        return names
    names = list(schema.file_names)
    if first is None:
        return names
    if len(known & {field.strip(SPACES) for field in first}) * 2 > len(names):
        raise Refusal(
            "the first line holds the names of the columns: write header = true under [file] in "
            "the schema, or take that line out of the file."
        )
    own = schema.target.column if schema.target is not None else None
    if not target and len(first) == len(names) - 1 and own in names:
        names.remove(own)
    if len(first) != len(names):
        stream.check_form()
        raise Refusal(
            "its first line has {fields:field}, but the schema names {columns:column}. Name every "
            'column of the file in its order (kind = "ignored" for those that are not used) and '
            "check the delimiter in [file], or correct the file.",
            fields=len(first),
            columns=len(names),
        )
    return names


def _refuse_delimiter(header: str, schema: Schema) -> None:
    """Refuse a header that the delimiter does not split, and suggest one that does."""
    known = set(schema.file_names)
    used = schema.file.delimiter
    best = ""
    most = (0, 1)
    for mark in _DELIMITERS:
        fields = [part.strip(SPACES).strip('"') for part in header.split(mark)]
        found = len(known.intersection(fields))
        # A space may well be part of a name.
        if mark != used and (mark != " " or found > 1) and (found, len(fields)) > most:
            most = (found, len(fields))
            best = mark
    start = Refusal(
        "the header is one field when split at {used}, but the schema names {columns} columns.",
        used=used,
        columns=len(known),
    )
    if not best:
        advice = "Write the file's delimiter under [file], or save the file with this one."
        raise joined([start, Refusal(advice)], " ")
    raise joined([start, Refusal(_DELIMITERS[best], fields=most[1])], " ")


class _Parser:
    """Arrow's parser on a stream, whose last record was added."""

    def __init__(self, stream: TextStream, request: Request, block_size: int) -> None:
        file = request.schema.file
        names = _names(stream, request.schema, request.target)
        wanted = columns_to_read(names, request)
        if not (file.delimiter + file.quote).isascii():
            raise Refusal(
                "delimiter and quote in [file] must be ASCII characters; got {delimiter} and "
                "{quote}.",
                delimiter=file.delimiter,
                quote=file.quote,
            )
        stream.closing = f"\n{file.delimiter.join([LAST_CELL] * len(names))}\n".encode()
        self._stream = stream
        self._uneven = False
        self._failed = False
        pa = arrow()
        from pyarrow import csv

        is_number = request.schema.holds_numbers
        coded = {name for name in request.needed if not is_number(name)}
        repeating = pa.dictionary(pa.int32(), pa.string())  # stored once per block
        self._options: dict[str, Any] = {
            "read_options": csv.ReadOptions(block_size=block_size, column_names=names),
            "parse_options": csv.ParseOptions(
                delimiter=file.delimiter,
                quote_char=file.quote or False,
                newlines_in_values=bool(file.quote),
                invalid_row_handler=self._note_uneven,
            ),
            "convert_options": csv.ConvertOptions(
                check_utf8=False,  # checked when the text was decoded
                strings_can_be_null=False,
                include_columns=wanted,
                column_types={name: repeating if name in coded else pa.string() for name in wanted},
            ),
        }

    def _note_uneven(self, row: Any) -> str:
        """Remember that a row has another number of fields, but nothing of the row."""
        self._uneven = True
        return "error"

    def batches(self) -> Iterator[Any]:
        """Yield the batches without the last record."""
        held = None
        for batch in self._all():
            if held is not None:
                yield held
            held = batch
        if self._failed:
            raise _RecordTooLong
        if held is None or held.column(0)[held.num_rows - 1].as_py() != LAST_CELL:
            raise Refusal(
                "ends inside a quoted cell. The file was cut off, or a quote is opened and never "
                "closed: copy it again, or correct it."
            )
        yield held.slice(0, held.num_rows - 1)

    def _all(self) -> Iterator[Any]:
        """Yield the batches that have records, until the end or until Arrow fails."""
        pa = arrow()
        from pyarrow import csv

        reader = None
        try:
            while True:
                batch = None
                try:
                    if reader is None:
                        reader = csv.open_csv(self._stream, **self._options)
                    batch = next(reader, None)
                except pa.ArrowInvalid:
                    self._failed = True  # what it says may quote the row
                self._stream.check()
                if self._uneven:
                    raise Refusal(
                        "a row has another number of fields than the header. Quote cells that hold "
                        "the delimiter (with no space before the quote), and check that the file "
                        "was not cut off."
                    )
                if batch is None:
                    return
                if batch.num_rows:
                    yield batch
        finally:
            if reader is not None:
                reader.close()
