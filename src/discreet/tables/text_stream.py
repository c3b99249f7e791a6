"""Text files as the bytes that Arrow's CSV parser needs: unpacked, UTF-8, with a known end."""

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
from pathlib import Path
from typing import Any, BinaryIO

from discreet.errors import TableError
from discreet.tables.schema import FileFormat

LONGEST_HEADER = 1 << 22  # letters after which the end of the first record is not searched for

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
        self.closing, self.share = b"", 0.0
        self.problem: str | None = None
        self._start: bytes = self._guarded(lambda: unpacked.peek(1)) or b""
        marked = next((name for mark, name in _MARKS.items() if self._start.startswith(mark)), None)
        if marked is not None and not self._encoding.startswith(marked):
            self.problem = (
                f"is text in {marked.upper()}, by its first bytes: {self._with_encoding(marked)}, "
                f"or save it as {file_format.encoding.upper()}."
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
            raise TableError(self.problem)

    def check_form(self) -> None:
        """Refuse a file that starts like another form than a table."""
        text = self._start.decode(self._encoding, "replace").removeprefix("\ufeff")
        for name, form in _OTHER_FORMS.items():
            if form.match(text):
                raise TableError(f"seems to be {name}, not a table. Convert it to CSV or Parquet.")

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
        piece, self._pending = self._pending[:size], self._pending[size:]
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
            hint = f"if it is Latin-1, {self._with_encoding('latin-1')}, or save it as UTF-8"
            if self._encoding != "utf-8":
                hint = f"if it is UTF-8, {self._with_encoding('utf-8')}"
            self.problem = f"is not valid {self._format.encoding.upper()}; {hint}."
        except _DAMAGED:
            self.problem = "is cut off or damaged: it cannot be unpacked. Copy it again."
        if isinstance(found, str) and "\x00" in found:
            self.problem = (
                "has NUL bytes, which text does not have. If it was saved as UTF-16, "
                f"{self._with_encoding('utf-16')}; otherwise the file is damaged."
            )
        return found if self.problem is None else None

    def _encoded(self, text: str) -> bytes:
        """Encode text as UTF-8; half of a surrogate pair, which has no UTF-8, is a problem."""
        try:
            return text.encode()
        except UnicodeEncodeError:
            self.problem = f"its text is not valid in the encoding {self._format.encoding!r}."
            return b""

    def _with_encoding(self, name: str) -> str:
        """Tell the caller where to set another encoding."""
        if self._drafting:
            return f'pass --encoding {name} (encoding="{name}" in Python)'
        return f'set encoding = "{name}" in [file]'


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
