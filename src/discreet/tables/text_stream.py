"""The bytes of a text file as the CSV parser wants them: unpacked, in UTF-8, with a known end."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import zlib
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from discreet.tables.schema import FileFormat

__all__ = ["LAST_CELL", "TextStream"]

LONGEST_HEADER = 1 << 22
"""Bytes after which the end of the first record is not looked for any more."""

LAST_CELL = "\x00"
"""Every cell of the record that is added at the end. No file can hold it: NUL bytes are refused."""

_HEAD = 1 << 16
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # starts like the mark of UTF-16, so it comes first
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_OTHER_FORMS = {
    "JSON": re.compile(r'\s*(\{\s*["}]|\[\s*[\[{"\]])'),
    "HTML or XML": re.compile(r"\s*<(!doctype|!--|\?xml|html|head|table)", re.IGNORECASE),
}


class TextStream:
    """A text file as Arrow reads it: unpacked, in UTF-8, without header, with a known last record.

    Parameters
    ----------
    path : Path
        The file, plain or packed by gzip, xz or bzip2 (told by its first bytes).
    file_format : FileFormat
        How its cells are written.
    drafting : bool
        Whether the schema is still to be written, so that advice must not point to it.

    Attributes
    ----------
    problem : str or None
        What is wrong with the file, once it is known; the stream then ends. Arrow reads in a thread
        of its own, so this is where errors are left for the caller.
    share : float
        Share of the file's bytes that have been read.
    seems : str or None
        What the file seems to be instead of a table, by its first letters; known once
        `first_record` was called.
    """

    def __init__(self, path: Path, file_format: FileFormat, *, drafting: bool = False) -> None:
        self._path = path
        self._drafting = drafting
        self._format = file_format
        self._encoding = codecs.lookup(file_format.encoding).name
        self._decoder = codecs.getincrementaldecoder(self._encoding)()
        self._raw = cast(BinaryIO, path.open("rb"))
        self._bytes = max(path.stat().st_size, 1)
        self._file = _unpacked(self._raw)
        self._at_start = True
        self._at_end = False
        self._pending = b""
        self.closing = b""
        self.closed = False
        self.problem: str | None = None
        self.share = 0.0
        self.seems: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._file.close()
        self._raw.close()

    def readable(self) -> bool:
        """It can be read (what Arrow asks of a file)."""
        return True

    def first_record(self) -> list[str] | None:
        """The fields of the first record; with a header, that record is then left out.

        An empty list means that there is none, None that a field is longer than any name.
        """
        text = self._text(_HEAD)
        self.seems = next((name for name, form in _OTHER_FORMS.items() if form.match(text)), None)
        fields, end = self._parsed(text)
        # A record that ends where the text ends may go on.
        while end == len(text) and (more := self._text(max(_HEAD, len(text)))):
            text += more
            fields, end = self._parsed(text) if len(text) <= LONGEST_HEADER else (None, 0)
        self._pending = self._encoded(text[end:] if self._format.header else text)
        return fields

    def _parsed(self, text: str) -> tuple[list[str] | None, int]:
        """The fields of the first record that is not blank, and where it ends."""
        lines = io.StringIO(text, newline="")
        quote = self._format.quote
        reader = csv.reader(
            lines,
            delimiter=self._format.delimiter,
            quotechar=quote or None,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
            skipinitialspace=self._format.header,
        )
        try:
            return next((record for record in reader if record), []), lines.tell()
        except csv.Error:
            return None, 0

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes of UTF-8; none at the end."""
        size = size if size > 0 else _HEAD
        if not self._pending and not self._at_end:
            self._pending = self._encoded(self._text(size))
            if not self._pending:
                self._at_end = True
                self._pending = b"" if self.problem else self.closing
        piece, self._pending = self._pending[:size], self._pending[size:]
        return piece

    def _encoded(self, text: str) -> bytes:
        """The text in UTF-8; half of a surrogate pair, which UTF-8 cannot hold, is a problem."""
        try:
            return text.encode()
        except UnicodeEncodeError:
            self.problem = f"its text is not valid in the encoding {self._format.encoding!r}."
            return b""

    def _text(self, size: int) -> str:
        """The next piece of the text, at most ``size`` bytes in UTF-8; empty at the end."""
        # A letter can take more bytes in UTF-8 than here, and some bytes of one may be left over.
        size = max(size - 4 if self._encoding == "utf-8" else size // 3, 1)
        text = ""
        while not text and self.problem is None:
            text, at_end = self._decoded(size)
            if at_end:
                break
        if self._at_start and text:
            self._at_start = False
            text = text.removeprefix("\ufeff")
        return text

    def _decoded(self, size: int) -> tuple[str, bool]:
        """The text of the next bytes, and whether they are the last ones; sets ``problem``."""
        wanted, text, piece = self._format.encoding, "", b""
        try:
            piece = self._file.read(size)
            if self._at_start and (marked := self._marked(piece)):
                self.problem = (
                    f"is text in {marked.upper()}, by its first bytes: "
                    f"{self._with_encoding(marked)}, or save it as {wanted.upper()}."
                )
                return "", True
            text = self._decoder.decode(piece, final=not piece)
            self.share = min(self._raw.tell() / self._bytes, 1.0)
        except UnicodeError:
            hint = f"if it is Latin-1, {self._with_encoding('latin-1')}, or save it as UTF-8"
            if self._encoding != "utf-8":
                hint = f"if it is UTF-8, {self._with_encoding('utf-8')}"
            self.problem = f"is not valid {wanted.upper()}; {hint}."
        except _DAMAGED:
            self.problem = "is cut off or damaged: it cannot be unpacked. Copy it again."
        if "\x00" in text:
            self.problem = (
                "has NUL bytes, which text does not have. If it was saved as UTF-16, "
                f"{self._with_encoding('utf-16')}; otherwise the file is damaged."
            )
        return ("", True) if self.problem else (text, not piece)

    def _marked(self, piece: bytes) -> str | None:
        """The encoding that the first bytes name, if it is another family than the one to use."""
        named = next((name for mark, name in _MARKS.items() if piece.startswith(mark)), None)
        return None if named is None or self._encoding.startswith(named) else named

    def _with_encoding(self, name: str) -> str:
        """How a caller says that the file has another encoding."""
        if self._drafting:
            return f'pass --encoding {name} (encoding="{name}" in Python)'
        return f'set encoding = "{name}" in [file]'


def _unpacked(raw: BinaryIO) -> BinaryIO:
    """The file as it is before packing, by its first bytes."""
    start = raw.read(10)
    raw.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if start.startswith(b"\xfd7zXZ\x00"):
        return cast(BinaryIO, lzma.LZMAFile(raw))
    if start.startswith(b"BZh") and start[4:] == b"1AY&SY":
        return cast(BinaryIO, bz2.BZ2File(raw))
    return raw
