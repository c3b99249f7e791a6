"""Sources of records: files, folders and tables of other libraries, as streams of Arrow batches.

A `Source` is one table in one or more parts, each a file or a table in memory. Its records come
block by block, never all at once. Files are recorded when they are listed; one that has changed or
disappeared by the time it is read, or while it is read, is refused.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from discreet.tables.alignment import Records
from discreet.tables.csv_files import TextPart
from discreet.tables.libraries import table_part
from discreet.tables.messages import Place, Refusal, arrow, door, instead
from discreet.tables.parts import DAMAGED, ArrowPart, Request, Stamp

Part: TypeAlias = TextPart | ArrowPart

FileKind = Literal["text", "parquet", "feather"]

_MAGIC: dict[bytes, FileKind] = {b"PAR1": "parquet", b"ARRO": "feather"}
_NO_PARQUET = "is no Parquet file, or was cut off. Copy it again."
_NO_FEATHER = "is no Feather file, or was cut off. Copy it again."
_SUFFIXES = {  # problems with a file whose first bytes are not those of its suffix
    ".parquet": _NO_PARQUET,
    ".pq": _NO_PARQUET,
    ".feather": _NO_FEATHER,
    ".arrow": _NO_FEATHER,
}
_NOT_TABLES = {  # problems with a file, by its first bytes
    b"": "is empty. Choose the file that holds the records.",
    b"PK\x03\x04": "is a zip archive or an Excel workbook. Unpack it, or save the sheet as CSV.",
    b"\xd0\xcf\x11\xe0": "is an old Excel workbook (.xls). Save the sheet as CSV.",
    b"FEA1": "is a Feather file of version 1. Save it again as version 2, or as Parquet.",
}


@dataclass(frozen=True)
class Source:
    """A table in parts, which are files or tables in order; made by `source`."""

    parts: tuple[Part, ...]

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known without reading them."""
        known = [part.n_rows for part in self.parts if part.n_rows is not None]
        return sum(known) if len(known) == len(self.parts) else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the first part; none for text files."""
        return self.parts[0].names

    @property
    def files(self) -> tuple[Stamp, ...]:
        """The files that the source is read from."""
        return tuple(stamp for part in self.parts for stamp in part.stamps)

    def door(self, request: Request, place: Place = None) -> AbstractContextManager[None]:
        """Return a door for code that reads cells of this source.

        Messages may show the names of the schema, and those of columns that have types: no cell is
        among them. Of a text file no name is known here.
        """
        names = {name for part in self.parts for name in part.names}
        file = request.schema.file
        words = {*names, *request.extra, file.encoding, file.delimiter, file.quote}
        return door(request.schema.file_names, words, place)

    def check(self, request: Request) -> None:
        """Refuse parts that do not match the schema or each other, before a record is read."""
        first: dict[str, tuple[str, Place]] = {}
        for part in self.parts:
            with instead(place=part.place):
                for name, held in part.check(request).items():
                    before, place = first.setdefault(name, (held, part.place))
                    if before == "nothing":
                        first[name] = (held, part.place)
                    elif held not in ("nothing", before):
                        raise Refusal(
                            "column {name} holds {held:plain} here, but {before:plain} in {place}. "
                            "Store it with one type in all files.",
                            name=name,
                            held=held,
                            before=before,
                            place=place,
                        )

    def records(
        self, request: Request, *, may_be_empty: bool = False
    ) -> Generator[Records, None, None]:
        """Yield the records of all parts, block by block; to be called behind a `door`.

        A part that does not match the schema in its form or its columns, or has changed, is
        refused. Cells are checked when they are encoded.
        """
        for stamp in self.files:
            stamp.check()
        self.check(request)
        sizes = [max(sum(stamp.size for stamp in part.stamps), 1) for part in self.parts]
        before = 0
        empty = True
        for part, size in zip(self.parts, sizes, strict=True):
            for stamp in part.stamps:
                stamp.check()
            with instead(place=part.place):
                for block in part.records(request):
                    empty = False
                    share = min((before + size * block.share) / sum(sizes), 1.0)
                    yield block._replace(share=share)
            for stamp in part.stamps:
                stamp.check()
            before += size
        if empty and not may_be_empty:
            with instead(place=self.parts[0].place):
                self._refuse_empty()

    def _refuse_empty(self) -> NoReturn:
        if len(self.parts) == 1:
            raise Refusal("has no records. Choose the file that holds them.")
        raise Refusal(
            "has no records, and {more} more likewise. Choose the file that holds them.",
            more=len(self.parts) - 1,
        )


def source(data: Any) -> Source:
    """Recognise a source of records, any that `Schema.open` takes; no record is read."""
    arrow()
    if isinstance(data, Source):
        return data
    with door(None):
        if isinstance(data, (str, os.PathLike)):
            return Source(_file_parts([data]))
        if isinstance(data, (list, tuple)) and all(isinstance(d, (str, os.PathLike)) for d in data):
            return Source(_file_parts(data))
        return Source((table_part(data),))


def file_kind(path: Path) -> FileKind:
    """Tell files apart by their first bytes; refuse what is neither text nor a known form."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise Refusal("cannot be opened ({error}).", error=error) from None
    if start in _NOT_TABLES:
        raise Refusal(_NOT_TABLES[start])
    suffix = path.suffix.lower()
    if start not in _MAGIC and suffix in _SUFFIXES:
        raise Refusal(_SUFFIXES[suffix])
    return _MAGIC.get(start, "text")


def _listed(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files that a path, a folder or a pattern means."""
    text = os.fspath(path)
    found = Path(path)
    if "://" in text:
        raise Refusal(
            "is an address, not a path. Open it with pyarrow.dataset.dataset, and pass that."
        )
    if found.is_dir():
        files = list[Path]()
        folders = list[str]()
        for each in sorted(found.iterdir()):
            if each.name.startswith((".", "_")):  # notes that other programs leave
                continue
            if each.is_dir():
                folders.append(each.name)
            else:
                files.append(each)
        if folders:
            raise Refusal(
                "holds folders ({names}), whose names may be data. Open it with "
                "pyarrow.dataset.dataset, and pass that, or list the files.",
                names=folders,
            )
        if not files:
            raise Refusal("is a folder without files. Choose the one that holds the records.")
        return files
    if glob.has_magic(text) and not found.exists():
        matches = map(Path, sorted(glob.glob(text, recursive=True)))
        files = [each for each in matches if not each.is_dir()]
        if not files:
            raise Refusal("no file matches this pattern. Check it.")
        return files
    return [found]


def _file_parts(paths: Iterable[str | os.PathLike[str]]) -> tuple[Part, ...]:
    files: list[Path] = []
    for path in paths:
        with instead(place=Path(path)):
            files += _listed(path)
    if not files:
        raise Refusal("the list of files is empty; name one at least.")
    parts: list[Part] = []
    kinds: dict[FileKind, Path] = {}
    seen: dict[tuple[int, int], Path] = {}
    for path in files:
        with instead(place=path):
            stamp = Stamp.of(path)
            kind = file_kind(path)
            kinds.setdefault(kind, path)
            if len(kinds) > 1:
                first = next(iter(kinds))
                raise Refusal(
                    "is {kind:plain}, but {other} is {first:plain}. Choose files of one kind.",
                    kind=kind,
                    first=first,
                    other=kinds[first],
                )
            same = seen.setdefault((stamp.device, stamp.inode), path)
            if same is not path:
                # A person's row would count twice, which no guarantee for one row covers.
                raise Refusal("is the same file as {path}. List each file once.", path=same)
            if kind == "text":
                parts.append(TextPart(path, (stamp,)))
            else:
                parts.append((_parquet if kind == "parquet" else _feather)(path, stamp))
    return tuple(parts)


def opened_parquet(path: Path, texts: Iterable[str] = ()) -> Any:
    """Open a Parquet file; columns in ``texts`` are read as dictionaries."""
    import pyarrow.parquet as pq

    # Buffered: columns are read piece by piece, not a whole group of rows at once.
    options = {"buffer_size": 1 << 18, "pre_buffer": False, "read_dictionary": list(texts)}
    with instead(DAMAGED):
        return pq.ParquetFile(path, **options)


def _parquet(path: Path, stamp: Stamp) -> ArrowPart:
    with opened_parquet(path) as file:
        fields = file.schema_arrow
        n_rows = file.metadata.num_rows

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        is_text = arrow().types.is_string
        is_number = request.schema.holds_numbers
        names = [name for name in request.needed if is_text(fields.field(name).type)]
        texts = [name for name in names if not is_number(name)]
        with opened_parquet(path, texts) as file:
            yield from file.iter_batches(request.block_rows, columns=wanted, use_threads=False)

    return ArrowPart.of(path, fields, stream, n_rows, (stamp,))


def _feather(path: Path, stamp: Stamp) -> ArrowPart:
    from pyarrow import OSFile, ipc

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        places = [fields.get_field_index(name) for name in wanted]
        with OSFile(os.fspath(path)) as file:
            reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=places))
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)

    with instead(DAMAGED), OSFile(os.fspath(path)) as file:
        fields = ipc.open_file(file).schema
    return ArrowPart.of(path, fields, stream, None, (stamp,))
