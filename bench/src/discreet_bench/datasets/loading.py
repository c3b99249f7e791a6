"""Named data sets, described, and encoded by their public schemas."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.errors import TableError
from discreet.tables import Schema
from discreet.tables.encoder import Encoder
from discreet_bench import synthetic
from discreet_bench.datasets import arrays, text
from discreet_bench.datasets.catalogue import WHOLE, Entry, entry, nearest
from discreet_bench.datasets.catalogue import schema as schema_of
from discreet_bench.datasets.sources import Found, obtain, where

__all__ = ["DataSet", "Description", "describe", "load", "table"]

_ARRAYS: dict[str, Callable[..., arrays.ArrayPart]] = {
    "idx": arrays.idx,
    "gisette": arrays.gisette,
    "numbers": arrays.numbers,
    "svmlight": arrays.svmlight,
    "rcv1": arrays.rcv1,
}
_GENERATED: dict[str, Callable[..., Any]] = {
    "synthetic-l": synthetic.synthetic_low,
    "synthetic-h": synthetic.synthetic_high,
    "plane": synthetic.plane,
    "sphere": synthetic.sphere,
}


@dataclass(frozen=True)
class Description:
    """Public facts about a data set; ``str`` gives a page of text.

    Attributes
    ----------
    name, title, about, task
        Name, title, content and the kind of target.
    rows, features
        Size after encoding; the rows of the paper where the publisher makes extracts to order.
    papers, source, licence, citation, differs
        Papers that used it, origin, and how the encoding differs from the papers'.
    available
        Whether it can be loaded without a download.
    place
        The folder that holds its files, "generated", "download" or "by hand".
    """

    name: str
    title: str
    about: str
    task: str
    rows: int
    features: int
    papers: tuple[str, ...]
    source: str
    licence: str
    citation: str
    differs: str
    available: bool
    place: str

    def __str__(self) -> str:
        used = ", ".join(self.papers) or "no paper"
        return (
            f"{self.name}: {self.title}\n"
            f"  {self.about}\n"
            f"  {self.rows:,} rows × {self.features:,} columns, {self.task}; used by {used}\n"
            f"  source: {self.source}\n"
            f"  licence: {self.licence}\n"
            f"  cite: {self.citation}\n"
            f"  {self.differs}\n"
            f"  {'on this machine' if self.available else 'to get it'}: {self.place}"
        )


def describe(name: str, *, data_dir: str | os.PathLike[str] | None = None) -> Description:
    """Describe a data set without reading it.

    Parameters
    ----------
    name : str
        One of `names`.
    data_dir : path, optional
        A folder to look in, as for `load`.
    """
    known, schema = entry(name), schema_of(name)
    width = schema.width if schema else known.features.count if known.features else 0
    place = where(known, data_dir)
    return Description(
        name=name,
        title=known.title,
        about=known.about,
        task=known.task,
        rows=sum(known.rows.values()) or known.rows_in_paper,
        features=width,
        papers=known.papers,
        source=known.source,
        licence=known.licence,
        citation=known.citation,
        differs=known.differs,
        available=place not in ("download", "by hand"),
        place=place,
    )


@dataclass(frozen=True)
class DataSet:
    """Encoded rows and targets of a data set.

    Attributes
    ----------
    name : str
        Its name.
    X : ndarray or csr_array
        Encoded rows. Nothing in them but the row itself comes from the data: bounds and lists are
        public.
    y : ndarray
        Places in ``labels``, or the numbers of a numeric target.
    labels : tuple of str
        The classes, sorted; empty for a numeric target.
    target_bounds : (float, float) or None
        Public bounds of a numeric target.
    max_norm : float or None
        Public bound on the norm of every row, up to the rounding of ``dtype``.
    schema : Schema or None
        Names and bounds of the columns; None where they have none.
    splits : mapping of str to slice
        The rows of each part, if the publisher has parts ("train", "test", …); otherwise empty.
    """

    name: str
    X: NDArray[Any] | sp.csr_array
    y: NDArray[Any]
    labels: tuple[str, ...]
    target_bounds: tuple[float, float] | None
    max_norm: float | None
    schema: Schema | None
    splits: Mapping[str, slice]

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"<DataSet {self.name}: {n:,} × {d:,}>"


def load(
    name: str,
    *,
    split: str | None = None,
    schema: Schema | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    cache: bool = True,
    download: bool = True,
    sparse: bool | Literal["auto"] = "auto",
    dtype: str = "float32",
    check: bool = True,
) -> DataSet:
    """Load a data set by name.

    Its files are searched in ``data_dir`` (or the folder that DISCREET_DATA names), then in the
    cache (DISCREET_CACHE, or the user's cache folder), in a folder of the data set's name; they may
    be compressed. Files in neither are downloaded from the publisher.

    Parameters
    ----------
    name : str
        One of `discreet_bench.datasets.names`.
    split : str, optional
        Only this part of it ("train", "test", …). By default all parts, one after the other.
    schema : Schema, optional
        Another encoding than the public schema that comes with the data set; for tables only.
    data_dir : path, optional
        The folder that holds a folder for each data set.
    cache : bool
        Whether to keep what is downloaded.
    download : bool
        Whether to download what is not found.
    sparse : bool or "auto"
        Whether X is a CSR array; "auto" if that is smaller, a matter of the schema alone.
    dtype : {"float32", "float64"}
        Type of the encoded numbers.
    check : bool
        Whether to compare the numbers of rows and labels with the publisher's.

    Returns
    -------
    DataSet

    Raises
    ------
    FileNotFoundError
        If a file is missing; the text says where to get it and where to put it.
    TableError
        If a file is not what it should be.

    Warns
    -----
    UserWarning
        If a file is not the publisher's, by its checksum.

    Notes
    -----
    *Privacy.* These data are public. They are encoded as private ones should be, by public bounds
    and lists, so that what is measured on them holds for private ones.
    """
    known = entry(name)
    _check_arguments(known, split, dtype, schema)
    if known.format == "generated":
        X, y = _GENERATED[name]()
        parts = [(X.astype(dtype), y.astype(np.int8))]
        return _data_set(known, None, [WHOLE], parts, sparse=sparse)
    splits = [split] if split else list(known.splits)
    public = schema or schema_of(name)
    with obtain(known, split, data_dir=data_dir, cache=cache, download=download) as files:
        if known.format == "text" and public:
            parts = [_encoded(known, part, public, files, sparse, dtype) for part in splits]
        else:
            parts = [_array(known, part, files, dtype) for part in splits]
    result = _data_set(known, public, splits, parts, sparse=sparse)
    if check:
        _check_counts(known, result, splits)
    return result


def table(
    name: str,
    *,
    split: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    cache: bool = True,
    download: bool = True,
) -> pa.Table:
    """Return the cells of a data set before encoding: numbers as float64, the rest as text.

    Its columns are those of the data set's schema, target included, so it can be encoded with
    ``load(name).schema.transformer()``, or written to a file for ``discreet.tables.read``.

    Parameters
    ----------
    name : str
        A data set that is a table.
    split, data_dir, cache, download
        As in `load`.

    Returns
    -------
    pyarrow.Table
    """
    known, schema = entry(name), schema_of(name)
    _check_arguments(known, split, "float32", None)
    if known.format != "text" or schema is None:
        raise ValueError(f"{name!r} is not a table with named columns; use load({name!r}).")
    splits = [split] if split else list(known.splits)
    with obtain(known, split, data_dir=data_dir, cache=cache, download=download) as files:
        batches = [
            pa.table({key: batch[key] for key in schema.file_names if key in batch})
            for part in splits
            for batch in _batches(known, part, schema, files)
        ]
    return pa.concat_tables(batches)


def _check_arguments(known: Entry, split: str | None, dtype: str, schema: Schema | None) -> None:
    """Refuse arguments that do not fit, before anything is read or downloaded."""
    if split is not None and split not in known.splits:
        raise ValueError(f"{known.name!r} has no part {split!r}; {nearest(split, known.splits)}")
    if dtype not in ("float32", "float64"):
        raise ValueError(f'dtype must be "float32" or "float64"; got {dtype!r}.')
    if schema is not None and known.format != "text":
        raise ValueError(f"{known.name!r} is not a table, so it cannot be given another schema.")


def _batches(
    known: Entry, split: str, schema: Schema, files: Sequence[Found]
) -> Iterator[dict[str, Any]]:
    """Yield the cells of one part, as columns of the schema."""
    rule = text.DERIVATIONS[known.derivation]
    for found in files:
        if found.file.split == split:
            yield from text.batches(known, found, schema, rule)


def _encoded(
    known: Entry,
    split: str,
    schema: Schema,
    files: Sequence[Found],
    sparse: bool | Literal["auto"],
    dtype: str,
) -> tuple[Any, NDArray[Any]]:
    """Encode one part of a table, block by block."""
    if schema.target is None:
        raise ValueError("the schema must name a target.")
    encoder = Encoder(
        schema, sparse=schema.is_wide if sparse == "auto" else bool(sparse), dtype=dtype
    )
    blocks, targets = [], []
    for batch in _batches(known, split, schema, files):
        targets.append(encoder.encode_target(batch[schema.target.column]))
        blocks.append(encoder.encode(batch))
    if not blocks:
        raise TableError(f"the data set {known.name!r} has no rows in part {split!r}.")
    return _stacked(blocks), np.concatenate(targets)


def _array(
    known: Entry, split: str, files: Sequence[Found], dtype: str
) -> tuple[Any, NDArray[Any]]:
    """Read one part of an array and scale it by its public bounds."""
    chosen = [found for found in files if found.file.split in (split, WHOLE)]
    rows, codes = _ARRAYS[known.format](known, chosen)
    features = known.features
    if sp.issparse(rows):
        return sp.csr_array(rows, dtype=dtype), codes
    X = np.array(rows, dtype=dtype)
    if features is not None and features.low is not None and features.high is not None:
        np.clip(X, features.low, features.high, out=X)
        X -= features.low
        X /= features.high - features.low
    return X, codes


def _stacked(blocks: Sequence[Any]) -> Any:
    if len(blocks) == 1:
        return blocks[0]
    if sp.issparse(blocks[0]):
        return sp.csr_array(sp.vstack(blocks, format="csr"))
    return np.concatenate(blocks)


def _data_set(
    known: Entry,
    schema: Schema | None,
    splits: list[str],
    parts: list[tuple[Any, NDArray[Any]]],
    *,
    sparse: bool | Literal["auto"],
) -> DataSet:
    """Put all parts together."""
    ends = np.cumsum([0, *(len(y) for _, y in parts)]).tolist()
    X = _stacked([rows for rows, _ in parts])
    if sparse != "auto" and bool(sparse) != sp.issparse(X):
        X = sp.csr_array(X) if sparse else X.toarray()
    target = None if schema is None else schema.target
    bounds = None
    if target is not None and target.low is not None and target.high is not None:
        bounds = (target.low, target.high)
    bounded = schema is not None and not schema.unbounded
    return DataSet(
        name=known.name,
        X=X,
        y=np.concatenate([y for _, y in parts]),
        labels=known.labels if target is None else target.labels,
        target_bounds=bounds,
        max_norm=schema.max_norm if schema is not None and bounded else known.max_norm,
        schema=schema,
        splits={
            part: slice(ends[place], ends[place + 1])
            for place, part in enumerate(splits)
            if part != WHOLE
        },
    )


def _check_counts(known: Entry, result: DataSet, splits: list[str]) -> None:
    """Refuse a copy whose numbers of rows and labels are not the publisher's."""
    whole = {WHOLE: slice(None)} if len(splits) == len(known.splits) else {}
    for split, rows in {**whole, **result.splits}.items():
        y = result.y[rows]
        if split in known.rows and len(y) != known.rows[split]:
            raise TableError(
                f"the data set {known.name!r} must have {known.rows[split]:,} rows"
                f"{'' if split == WHOLE else f' in part {split!r}'}; this copy has {len(y):,}. Get "
                "it again, or load what there is with check=False."
            )
        counts = known.counts.get(split)
        if counts and set(counts) == set(result.labels):
            found = np.bincount(y, minlength=len(counts)).tolist()
            if found != [counts[label] for label in result.labels]:
                raise TableError(
                    f"the labels of the data set {known.name!r} do not occur as often as in the "
                    "publisher's; get it again, or load what there is with check=False."
                )
