"""Named data sets, encoded by what is public about them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.errors import TableError
from discreet.tables.cells import arrow
from discreet.tables.columns import nearest
from discreet.tables.encoding import Encoder, GrowingArray, GrowingRows
from discreet.tables.schema import Schema
from discreet_bench import synthetic
from discreet_bench.datasets import arrays, text
from discreet_bench.datasets.derivations import derivation, raw_fields
from discreet_bench.datasets.entries import WHOLE, Entry, entry
from discreet_bench.datasets.entries import schema as schema_of
from discreet_bench.datasets.sources import Obtained, obtain

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DataSet", "load", "table"]

Progress = Callable[[float], None]

_ARRAYS: dict[str, Callable[..., arrays.ArrayPart]] = {
    "idx": arrays.idx,
    "gisette": arrays.gisette,
    "svmlight": arrays.svmlight,
    "rcv1": arrays.rcv1,
}
_GENERATED: dict[str, Callable[..., Any]] = {
    "synthetic-l": synthetic.synthetic_low,
    "synthetic-h": synthetic.synthetic_high,
    "sphere": synthetic.sphere,
}


@dataclass(frozen=True)
class DataSet:
    """A data set that is ready for a fit.

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
        What the columns are; None where they have no names and no bounds of their own.
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
    progress: Progress | None = None,
    sparse: bool | Literal["auto"] = "auto",
    dtype: str = "float32",
    check: bool = True,
) -> DataSet:
    """Load a data set by name.

    It is looked for in ``data_dir`` (or the folder that DISCREET_DATA names), then in the cache
    (DISCREET_CACHE, or the user's folder for caches), in a folder of its name each; files may be
    packed. If it is in neither it is downloaded, by scikit-learn where that knows it and from its
    publisher otherwise.

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
    progress : callable, optional
        Called with the share of the publisher's files that has come, from 0 to 1.
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
        If it cannot be had; the text says where to get it and where to put it.
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
    rule = derivation(known.derivation)
    fields = raw_fields(rule, public) if known.format == "text" and public else ()
    with obtain(
        known,
        split,
        fields=fields,
        data_dir=data_dir,
        cache=cache,
        may_download=download,
        progress=progress,
    ) as source:
        if known.format == "text" and public:
            parts = [_encoded(known, part, public, source, sparse, dtype) for part in splits]
        else:
            parts = [_array(known, part, source, dtype) for part in splits]
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
    progress: Progress | None = None,
) -> pa.Table:
    """The cells of a data set before they are encoded: numbers as float64, all else as text.

    Its columns are those of the data set's schema, target included, so it can be encoded with
    ``load(name).schema.transformer()``, or written to a file for ``discreet.tables.read``.

    Parameters
    ----------
    name : str
        A data set that is a table.
    split, data_dir, cache, download, progress
        As in `load`.

    Returns
    -------
    pyarrow.Table
    """
    known, schema = entry(name), schema_of(name)
    _check_arguments(known, split, "float32", None)
    if known.format != "text" or schema is None:
        raise ValueError(f"{name!r} is not a table with named columns; use load({name!r}).")
    pa = arrow()
    rule = derivation(known.derivation)
    splits = [split] if split else list(known.splits)
    with obtain(
        known,
        split,
        fields=raw_fields(rule, schema),
        data_dir=data_dir,
        cache=cache,
        may_download=download,
        progress=progress,
    ) as source:
        batches = [
            pa.table({key: batch[key] for key in schema.file_names if key in batch})
            for part in splits
            for batch in _batches(known, part, schema, source)
        ]
    return pa.concat_tables(batches)


def _check_arguments(known: Entry, split: str | None, dtype: str, schema: Schema | None) -> None:
    """Refuse what makes no sense, before anything is read or downloaded."""
    if split is not None and split not in known.splits:
        raise ValueError(f"{known.name!r} has no part {split!r}; {nearest(split, known.splits)}")
    if dtype not in ("float32", "float64"):
        raise ValueError(f'dtype must be "float32" or "float64"; got {dtype!r}.')
    if schema is not None and known.format != "text":
        raise ValueError(f"{known.name!r} is not a table, so it cannot be given another schema.")


def _batches(
    known: Entry, split: str, schema: Schema, source: Obtained
) -> Iterator[dict[str, Any]]:
    """The cells of one part, as columns of the schema."""
    rule = derivation(known.derivation)
    if source.fetched is None:
        for found in source.files:
            if found.file.split == split:
                yield from text.batches(known, found, schema, rule)
        return
    chosen = _rows_of(known, split)
    yield rule.derive({key: values[chosen] for key, values in source.fetched.items()}, split)


def _rows_of(known: Entry, split: str) -> slice:
    """Which rows of the whole data set a part is."""
    sizes = list(known.rows.values())
    place = known.splits.index(split)
    start = sum(sizes[:place])
    return slice(start, None if place == len(sizes) - 1 else start + sizes[place])


def _encoded(
    known: Entry,
    split: str,
    schema: Schema,
    source: Obtained,
    sparse: bool | Literal["auto"],
    dtype: str,
) -> tuple[Any, NDArray[Any]]:
    """One part of a table, encoded block by block."""
    if schema.target is None:
        raise ValueError("the schema must name a target.")
    is_sparse = schema.is_wide if sparse == "auto" else bool(sparse)
    encoder = Encoder(schema, sparse=is_sparse, dtype=dtype)
    rows = GrowingRows(schema.width, sparse=is_sparse, dtype=dtype)
    targets: GrowingArray | None = None
    for batch in _batches(known, split, schema, source):
        y = encoder.encode_target(batch[schema.target.column])
        targets = targets or GrowingArray(y.dtype)
        targets.append(y)
        rows.append(encoder.encode(batch))
    if targets is None:
        raise TableError(f"the data set {known.name!r} has no rows in part {split!r}.")
    return rows.finish(), targets.finish()


def _array(known: Entry, split: str, source: Obtained, dtype: str) -> tuple[Any, NDArray[Any]]:
    """One part of an array, scaled by its public bounds."""
    if source.fetched is None:
        files = [found for found in source.files if found.file.split in (split, WHOLE)]
        rows, codes = _ARRAYS[known.format](known, files)
    else:
        chosen = _rows_of(known, split)
        rows, codes = source.fetched[0][chosen], source.fetched[1][chosen]
    features = known.features
    if sp.issparse(rows):
        return sp.csr_array(rows, dtype=dtype), codes
    X = np.array(rows, dtype=dtype)
    if features is not None and features.low is not None and features.high is not None:
        np.clip(X, features.low, features.high, out=X)
        X -= features.low
        X /= features.high - features.low
    return X, codes


def _data_set(
    known: Entry,
    schema: Schema | None,
    splits: list[str],
    parts: list[tuple[Any, NDArray[Any]]],
    *,
    sparse: bool | Literal["auto"],
) -> DataSet:
    """All parts together."""
    ends = np.cumsum([0, *(len(y) for _, y in parts)]).tolist()
    X: Any = parts[0][0]
    if len(parts) > 1:
        blocks = [rows for rows, _ in parts]
        X = sp.vstack(blocks, format="csr") if sp.issparse(X) else np.concatenate(blocks)
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
    """Refuse a copy that does not have the publisher's numbers of rows and labels."""
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
