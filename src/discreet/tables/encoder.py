"""Encoding of rows: the features of a row depend on its own cells and the schema only.

Every function here converts one cell at a time, or one distinct cell, and writes the result at the
place of that cell. The rules that it follows are made of the schema (`discreet.tables.cell_rules`).

A sparse row has exactly one entry per group, with a stored 0 where a number is 0 or a text is not
encoded. So the size of the result is public too. Proof: docs/proofs/cells.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from discreet.tables import cell_rules
from discreet.tables.cell_rules import MISSING, NUMBER, OTHER_TYPE, UNLISTED, Rule
from discreet.tables.columns import SPACES, Date, Discovered
from discreet.tables.dates import Moments, moments
from discreet.tables.messages import Refusal, arrow, instead, quoted
from discreet.tables.schema import Schema
from discreet.validate import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

Entries: TypeAlias = tuple[Any, Any]
"""Entries of one group: the column that each row fills, and the number (arrays, or scalars)."""


@dataclass(frozen=True)
class Space:
    """Memory for encoded rows: all entries of dense rows, or those of sparse ones and their places.

    ``data`` and ``indices`` have a row for each record; ``indices`` is None for dense rows.
    """

    data: NDArray[Any]
    indices: NDArray[Any] | None
    width: int

    def cut(self, start: int, stop: int | None = None) -> Space:
        """Return the memory of some of the rows."""
        indices = None if self.indices is None else self.indices[start:stop]
        return Space(self.data[start:stop], indices, self.width)

    def rows(self) -> NDArray[Any] | sp.csr_array:
        """Return the rows, once they are written, in the same memory."""
        if self.indices is None:
            return self.data
        n_rows, each = self.data.shape
        starts = np.arange(0, n_rows * each + 1, each, dtype=self.indices.dtype)
        parts = (self.data.reshape(-1), self.indices.reshape(-1), starts)
        made = sp.csr_array(parts, shape=(n_rows, self.width))
        made.has_sorted_indices = True
        made.has_canonical_format = True
        return made


class Encoder:
    """Encoder of batches of records by a schema, as a dense array or a CSR one.

    Notes
    -----
    *Privacy.* Each row is encoded by itself, by a public rule, so neighbouring tables become
    neighbouring tables. A cell that breaks the schema raises a `TableError` which names the column
    and the rule, and neither the cell nor the row. Numbers stay within [0, 1] in either ``dtype``.
    """

    def __init__(
        self, schema: Schema, sparse: bool | str = False, dtype: DTypeLike = "float32"
    ) -> None:
        if sparse != "auto" and not isinstance(sparse, (bool, np.bool_)):
            raise ValueError(f'sparse must be True, False or "auto"; got {sparse!r}.')
        if dtype not in ("float32", "float64", np.float32, np.float64):
            raise ValueError(f'dtype must be "float32" or "float64"; got {dtype!r}.')
        if unknown := [name for name, c in schema.used.items() if isinstance(c, Discovered)]:
            raise ValueError(
                f"the levels of {quoted(unknown)} are to be found by a fit, so rows cannot be "
                "encoded before: pass columns={…: discover()} to an estimator, or list the levels."
            )
        self.schema = schema
        self.sparse = schema.is_wide if sparse == "auto" else bool(sparse)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        target = cell_rules.target_rule(schema)
        self._target = None if target is None else ColumnEncoder(target)
        self._groups = [
            ColumnEncoder(cell_rules.column_rule(name, piece.column, schema.file.missing))
            for name, piece in schema.pieces
        ]
        widths = [piece.column.width for _, piece in schema.pieces]
        self._starts = np.cumsum([0, *widths[:-1]]).tolist()

    def target_dtype(self, as_labels: bool) -> np.dtype[Any]:
        """Return the type of an encoded target: labels or their codes, or numbers."""
        target = self.schema.target
        if self._target is None or target is None or self._target.rule.of_numbers:
            return np.dtype(np.float64)
        return np.array(target.labels).dtype if as_labels else self._target.rule.places.dtype

    def space(self, n_rows: int) -> Space:
        """Return memory for rows; nothing is written to it."""
        width = self.schema.width
        if not self.sparse:
            return Space(np.empty((n_rows, width), self.dtype), None, width)
        each = len(self._groups)
        index = np.int32 if max(n_rows * each, width) < 2**31 else np.int64
        return Space(np.empty((n_rows, each), self.dtype), np.empty((n_rows, each), index), width)

    def encode(
        self, batch: Mapping[str, Any], out: Space | None = None
    ) -> NDArray[Any] | sp.csr_array:
        """Encode one batch of Arrow columns, by name, as rows of ``schema.width`` numbers.

        Rows are written to the first rows of ``out``, if it has enough of them.
        """
        names = list(self.schema.used)
        if absent := [name for name in names if name not in batch]:
            raise Refusal("the table has no column {names}.", names=absent)
        n_rows = len(batch[names[0]])
        if other := [name for name in names if len(batch[name]) != n_rows]:
            raise Refusal(
                "all columns of a table must be of one length; check {names} and {first}.",
                names=other,
                first=names[0],
            )
        out = self.space(n_rows) if out is None or len(out.data) < n_rows else out.cut(0, n_rows)
        self._write(batch, out)
        return out.rows()

    def encode_target(self, cells: Any) -> NDArray[Any]:
        """Encode the target's cells: codes into ``schema.target.labels``, or clipped numbers."""
        if self._target is None:
            raise Refusal("the schema names no target; give it one with schema.with_target(…).")
        rule = self._target.rule
        if not rule.of_numbers:
            return np.asarray(rule.places[self._target.codes(cells)])
        found, absent = self._target.numbers(cells)
        if not rule.column.bounded:
            return found
        low = rule.column.low
        high = rule.column.high
        found = np.clip(found, low, high)
        found[absent] = low + (high - low) / 2
        return found

    def _cells(self, columns: Mapping[str, Any]) -> Iterator[tuple[ColumnEncoder, Any]]:
        """Yield the encoder of each group with its cells; those of dates are numbers or codes."""
        moments_of: dict[str, Moments] = {}
        for group, (name, piece) in zip(self._groups, self.schema.pieces, strict=True):
            declared = self.schema.columns[name]
            cells = columns[name]
            if isinstance(declared, Date):
                if name not in moments_of:
                    read = dates(cells, declared, group.rule.markers)
                    if read is None:
                        raise group.rule.refusal("not a date")
                    moments_of[name] = read
                found = moments_of[name]
                is_trend = piece.part == "trend"
                cells = found.numbers(declared.per) if is_trend else found.levels(piece.part)
            yield group, cells

    def _write(self, columns: Mapping[str, Any], out: Space) -> None:
        """Write the entries of rows to their memory, column by column."""
        n_rows = len(out.data)
        if out.indices is not None:
            for i, (group, cells) in enumerate(self._cells(columns)):
                places, out.data[:, i] = group.entries(cells, self.dtype)
                np.add(places, self._starts[i], out=out.indices[:, i], casting="same_kind")
            return
        if self.schema.width > len(self._groups):  # otherwise every column is written in full
            out.data.fill(0)
        flat = out.data.reshape(-1)
        rows = np.arange(n_rows, dtype=np.int64) * self.schema.width
        for start, (group, cells) in zip(self._starts, self._cells(columns), strict=True):
            places, values = group.entries(cells, self.dtype)
            if np.ndim(places) == 0:
                out.data[:, start + places] = values
            else:
                flat[rows + (places + start)] = values


@dataclass
class ColumnEncoder:
    """Encoder of the cells of one column by its rule; it keeps the codes of the last block."""

    rule: Rule
    _last: tuple[Any, NDArray[np.int32]] | None = None

    def entries(self, cells: Any, dtype: np.dtype[Any]) -> Entries:
        """Return the column of the group that each row fills, and the number."""
        rule = self.rule
        if not rule.of_numbers:
            codes, indices = self._coded(cells)
            places = rule.places[codes][indices] if rule.places.any() else 0
            of = rule.values[codes]
            return places, of[indices] if (of != 1).any() else dtype.type(1)
        found, absent = self.numbers(cells)
        column = rule.column
        if column.is_bounded:
            least, most = column.scaled([column.low, column.high])
            values = column.scaled(np.clip(found, column.low, column.high))
            # Rounding must not leave the interval that the bounds promise.
            values = np.clip((values - least) / (most - least), 0.0, 1.0)
        else:
            largest = np.finfo(dtype).max
            values = np.clip(column.scaled(found), -largest, largest)
        if not column.missing:
            return 0, values
        values[absent] = 1.0
        return absent * np.int32(column.width - 1), values

    def numbers(self, cells: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the cells as numbers, and which are missing; refuse what the rule refuses."""
        rule = self.rule
        found: FloatArray | None
        if isinstance(cells, np.ndarray):  # those of dates
            found = cells
        else:
            found = numbers(cells, rule.markers, lenient=rule.lenient)
        if found is None:
            raise rule.refusal("not a number")
        absent = np.isnan(found)
        if MISSING in rule.refused and absent.any():
            raise rule.refusal("missing")
        return found, absent

    def codes(self, cells: Any) -> NDArray[np.int32]:
        """Return the code of each cell; refuse what the rule refuses."""
        codes, indices = self._coded(cells)
        return np.asarray(codes[indices])

    def _coded(self, cells: Any) -> tuple[NDArray[np.int32], NDArray[np.integer[Any]]]:
        """Return codes of distinct cells, and the index of each cell's code among them."""
        rule = self.rule
        if isinstance(cells, np.ndarray):  # those of dates, whose levels are all known
            known = np.arange(len(rule.places) - 2)
            return np.append(known, [UNLISTED, MISSING]).astype(np.int32), cells
        with instead(OTHER_TYPE, name=rule.name):
            distinct, indices = distinct_cells(cells)
            last = self._last  # blocks often have the distinct cells of the block before
            if last is None or not distinct.equals(last[0]):
                code_of = rule.reader(str(distinct.type))
                listed = [
                    MISSING if text is None else code_of(text, number)
                    for text, number in zip(*written(distinct), strict=True)
                ]
                last = distinct, np.array(listed, dtype=np.int32)
                self._last = last
        codes = last[1]
        if indices.min(initial=0) < 0:
            codes = np.append(codes, np.int32(MISSING))  # the last place is that of null
        # a dictionary may list cells of other blocks
        if MISSING in rule.refused and MISSING in codes and (codes[indices] == MISSING).any():
            raise rule.refusal("missing")
        if UNLISTED in rule.refused and UNLISTED in codes and (codes[indices] == UNLISTED).any():
            raise rule.refusal("unlisted")
        return codes, indices


def dates(cells: Any, declared: Date, markers: Iterable[str]) -> Moments | None:
    """Return the times of a column of dates; None if a cell is not one and that is refused."""
    array = plain_array(cells)
    if arrow().types.is_dictionary(array.type):
        array = plain_array(array.cast(array.type.value_type))
    return moments(array, declared, markers)


def distinct_cells(cells: Any) -> tuple[pa.Array, NDArray[np.integer[Any]]]:
    """Return distinct cells, and the index of each cell among them; -1 for null."""
    pa = arrow()
    array = plain_array(cells)
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = array.indices
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(-1)
    return plain_array(array.dictionary), indices.to_numpy(zero_copy_only=False)


def written(distinct: pa.Array) -> tuple[list[str | None], list[float | None]]:
    """Return the text of each cell without spaces around it, and its number if it is a fraction."""
    types = arrow().types
    kind = distinct.type
    texts = trimmed(distinct) if family(kind) == "texts" else distinct.cast("string")
    is_fraction = types.is_floating(kind) or types.is_decimal(kind)
    numbers_of = distinct.cast("float64").to_pylist() if is_fraction else [None] * len(distinct)
    return texts.to_pylist(), numbers_of


def numbers(cells: Any, markers: Iterable[str], *, lenient: bool = False) -> FloatArray | None:
    """Return cells as float64, NaN where one is missing; None if any cell is not a number.

    ``markers`` mean a missing cell; so does a text that is not a number, if ``lenient``. The result
    may share memory with the cells.
    """
    pa = arrow()
    marks = list(markers)
    array = plain_array(cells)
    if pa.types.is_dictionary(array.type):
        array = plain_array(array.cast(array.type.value_type))
    held = family(array.type)
    if held == "texts":
        found = _parsed(array, marks, lenient)
    elif held == "truth values":
        found = array.cast(pa.int8()).cast(pa.float64()).to_numpy(zero_copy_only=False)
    elif held in ("numbers", "nothing"):
        found = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        found = None
    marked = [number for number in map(cell_rules.as_number, marks) if number is not None]
    if found is not None and marked:
        found = np.where(np.isin(found, marked), np.nan, found)
    return found


def _parsed(texts: pa.Array, markers: list[str], lenient: bool) -> FloatArray | None:
    """Return texts as numbers; None if a text is not a number and that is not allowed.

    Arrow converts a column as a whole or fails, and is slow to fail: so markers, and other texts if
    they are allowed, are removed first.
    """
    pa = arrow()
    compute = pa.compute
    nothing = pa.scalar(None, type=texts.type)
    texts = trimmed(texts)
    is_marker = compute.is_in(texts, value_set=pa.array(markers, type=texts.type))
    texts = compute.if_else(is_marker, nothing, texts)
    if lenient:
        texts = compute.if_else(compute.match_substring_regex(texts, NUMBER), texts, nothing)
    try:
        return np.asarray(texts.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        is_number = compute.match_substring_regex(texts, NUMBER).fill_null(True)
    if not compute.all(is_number, min_count=0).as_py():
        return None
    # Some versions of Arrow know fewer ways to write a number than the rule above.
    as_objects = texts.fill_null("nan").to_numpy(zero_copy_only=False)
    return np.asarray(as_objects.astype(np.float64))


def plain_array(cells: Any) -> pa.Array:
    """Return one array of a type that Arrow can compute with."""
    pa = arrow()
    array = cells
    if isinstance(array, pa.ChunkedArray):
        if pa.types.is_dictionary(array.type):
            array = array.unify_dictionaries()
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # versions before 25, for no chunk or many
            array = pa.concat_arrays(array.chunks) if array.chunks else pa.array([], array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if str(array.type) == "string_view":
        array = array.cast(pa.large_string())
    elif str(array.type) == "halffloat":
        array = array.cast(pa.float32())
    return array


def trimmed(texts: pa.Array) -> pa.Array:
    """Return texts without the spaces around them."""
    return arrow().compute.utf8_trim(texts, characters=SPACES)


def family(kind: Any) -> str:
    """Return what cells of an Arrow type are: numbers, texts, truth values, times, nothing, other.

    Dictionaries and extension types count as what they store.
    """
    types = arrow().types
    while types.is_dictionary(kind) or hasattr(kind, "storage_type"):
        kind = kind.value_type if types.is_dictionary(kind) else kind.storage_type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return "texts"
    if types.is_boolean(kind):
        return "truth values"
    if types.is_null(kind):
        return "nothing"
    return "times" if types.is_temporal(kind) else "other"
