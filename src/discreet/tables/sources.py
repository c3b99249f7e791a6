"""Sources of records: files, folders and tables of other libraries, as streams of Arrow batches.

A `Source` is one table in one or more parts, each a file or a table in memory. Its records come
block by block, never all at once. Files are recorded when they are listed; one that has changed or
disappeared by the time it is read, or while it is read, is refused.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from discreet.errors import TableError
from discreet.tables.cells import arrow, guarded
from discreet.tables.columns import quoted
from discreet.tables.matching import Piece, Request, naming
from discreet.tables.parts import DAMAGED, ArrowPart, Part, Stamp, TextPart, table_part

FileKind = Literal["text", "parquet", "feather"]

_MAGIC: dict[bytes, FileKind] = {b"PAR1": "parquet", b"ARRO": "feather"}
_SUFFIXES = {".parquet": "Parquet", ".pq": "Parquet", ".feather": "Feather", ".arrow": "Arrow"}
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

    def check(self, request: Request) -> None:
        """Refuse parts that do not match the schema or each other, before a record is read."""
        first: dict[str, tuple[str, str]] = {}
        for part in self.parts:
            with naming(part.where):
                for name, held in part.check(request).items():
                    before, where = first.setdefault(name, (held, part.where))
                    if "nothing" in (before, held):
                        first[name] = (held, part.where) if before == "nothing" else (before, where)
                    elif held != before:
                        raise TableError(
                            f"column {name!r} holds {held} here, but {before} in {where}. Store it "
                            "with one type in all files."
                        )

    def pieces(
        self, request: Request, *, may_be_empty: bool = False
    ) -> Generator[Piece, None, None]:
        """Yield the records of all parts, block by block.

        A part that does not match the schema in its form or its columns, or has changed, is
        refused. Cells are checked when they are encoded.
        """
        _check_files(self.files)
        self.check(request)
        sizes = [max(sum(stamp.size for stamp in part.stamps), 1) for part in self.parts]
        before, empty = 0, True
        for part, size in zip(self.parts, sizes, strict=True):
            _check_files(part.stamps)
            with naming(part.where):
                for piece in part.pieces(request):
                    empty = False
                    share = (before + size * piece.share) / sum(sizes)
                    yield piece._replace(where=part.where, share=min(share, 1.0))
            _check_files(part.stamps)
            before += size
        if empty and not may_be_empty:
            with naming(self.parts[0].where):
                rest = f", and {len(self.parts) - 1} more likewise" * (len(self.parts) > 1)
                raise TableError(f"has no records{rest}. Choose the file that holds them.")


def _check_files(stamps: Iterable[Stamp]) -> None:
    for stamp in stamps:
        with naming(stamp.path):
            stamp.check()


def source(data: Any) -> Source:
    """Recognise a source of records, any that `Schema.open` takes; no record is read."""
    arrow()
    if isinstance(data, Source):
        return data
    if isinstance(data, (str, os.PathLike)):
        return Source(_file_parts([data]))
    if isinstance(data, (list, tuple)) and all(isinstance(d, (str, os.PathLike)) for d in data):
        return Source(_file_parts(data))
    return Source((table_part(data),))


def file_kind(path: Path) -> FileKind:
    """Tell files apart by their first bytes; refuse what is neither text nor a known form."""
    problem, start = None, b""
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        problem = f"cannot be opened ({error.strerror})."
    problem = problem or _NOT_TABLES.get(start)
    named = _SUFFIXES.get(path.suffix.lower())
    if not problem and start not in _MAGIC and named:
        problem = f"is no {named} file, or was cut off. Copy it again."
    if problem:
        raise TableError(problem)
    return _MAGIC.get(start, "text")


def _listed(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files that a path, a folder or a pattern means."""
    text, found = os.fspath(path), Path(path)
    if "://" in text:
        raise TableError("is an address. Open it with pyarrow.dataset.dataset, and pass that.")
    if found.is_dir():
        files, folders = list[Path](), list[Path]()
        for each in sorted(found.iterdir()):
            if not each.name.startswith((".", "_")):  # notes that other programs leave
                (folders if each.is_dir() else files).append(each)
        if folders:
            raise TableError(
                f"holds folders ({quoted(each.name for each in folders)}), whose names may be data."
                " Open it with pyarrow.dataset.dataset, and pass that, or list the files."
            )
        if not files:
            raise TableError("is a folder without files. Choose the one that holds the records.")
        return files
    if glob.has_magic(text) and not found.exists():
        matches = map(Path, sorted(glob.glob(text, recursive=True)))
        files = [each for each in matches if not each.is_dir()]
        if not files:
            raise TableError("no file matches this pattern. Check it.")
        return files
    return [found]


def _file_parts(paths: Iterable[str | os.PathLike[str]]) -> tuple[Part, ...]:
    files: list[Path] = []
    for path in paths:
        with naming(path):
            files += _listed(path)
    if not files:
        raise TableError("the list of files is empty; name one at least.")
    parts: list[Part] = []
    kinds: dict[FileKind, Path] = {}
    seen: dict[tuple[int, int], Path] = {}
    for path in files:
        with naming(path):
            stamp, kind = Stamp.of(path), file_kind(path)
            kinds.setdefault(kind, path)
            if len(kinds) > 1:
                first, other = kinds.items()
                raise TableError(
                    f"is {other[0]}, but {first[1]} is {first[0]}. Choose files of one kind."
                )
            same = seen.setdefault((stamp.device, stamp.inode), path)
            if same is not path:
                # A person's row would count twice, which no guarantee for one row covers.
                raise TableError(f"is the same file as {same}. List each file once.")
            if kind == "text":
                parts.append(TextPart(path, (stamp,)))
            else:
                parts.append((_parquet if kind == "parquet" else _feather)(path, stamp))
    return tuple(parts)


def opened_parquet(path: Path, texts: Iterable[str] = ()) -> Any:
    """Open a Parquet file; Arrow's own error could quote its content.

    Columns in ``texts`` are read as dictionaries.
    """
    import pyarrow.parquet as pq

    # Buffered: columns are read piece by piece, not a whole group of rows at once.
    options = {"buffer_size": 1 << 18, "pre_buffer": False, "read_dictionary": list(texts)}
    return guarded(lambda: pq.ParquetFile(path, **options), DAMAGED)


def _parquet(path: Path, stamp: Stamp) -> ArrowPart:
    with opened_parquet(path) as file:
        fields, n_rows = file.schema_arrow, file.metadata.num_rows

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        is_text, is_number = arrow().types.is_string, request.schema.holds_numbers
        names = [name for name in request.needed if is_text(fields.field(name).type)]
        texts = [name for name in names if not is_number(name)]
        with opened_parquet(path, texts) as file:
            yield from file.iter_batches(request.block_rows, columns=wanted, use_threads=False)

    return ArrowPart.of(os.fspath(path), fields, stream, n_rows, (stamp,))


def _feather(path: Path, stamp: Stamp) -> ArrowPart:
    from pyarrow import OSFile, ipc

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        places = [fields.get_field_index(name) for name in wanted]
        with OSFile(os.fspath(path)) as file:
            reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=places))
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)

    with guarded(lambda: OSFile(os.fspath(path)), DAMAGED) as file:
        fields = guarded(lambda: ipc.open_file(file).schema, DAMAGED)
    return ArrowPart.of(os.fspath(path), fields, stream, None, (stamp,))
