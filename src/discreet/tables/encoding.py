"""Encoding of cells as numbers in [0, 1], column by column, by the schema.

Columns are coded whole by Arrow and written straight into the result; the only other memory is a
few numbers per row.

A sparse row has exactly one entry per group, with a stored 0 where a number is 0 or a text
is not encoded. So the size of the result is public too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from discreet.errors import TableError
from discreet.tables.cells import MISSING, UNLISTED, Lookup, numbers
from discreet.tables.columns import Boolean, Categorical, Hashed, Numeric, Ordinal
from discreet.tables.schema import Schema

# Entries of one group: the column that each row fills, and the number (arrays, or scalars).
Entries: TypeAlias = tuple[Any, Any]


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
        self.sparse = schema.is_wide if sparse == "auto" else bool(sparse)
        self.schema, self.dtype = schema, np.dtype(dtype)
        self._groups: list[_Group] = []
        at = 0
        for name, column in schema.used.items():
            self._groups.append(_Group(name, column, schema.file.missing, at))
            at += column.width
        target = schema.target
        if target is not None and target.classes is not None:
            labels = {label: code for code, label in enumerate(target.labels)}
            texts = [text for listed in target.texts.values() for text in listed]
            codes = [labels[name] for name, listed in target.texts.items() for _ in listed]
            other = UNLISTED if target.other is None else labels[target.other]
            # Negative codes count from the end: the last two entries are for them.
            narrow = np.int8 if len(labels) < 127 else np.int16 if len(labels) < 32767 else np.int32
            self._class_of = np.array([*codes, other, MISSING], dtype=narrow)
            self._target = Lookup(texts, schema.file.missing)

    def target_dtype(self, as_labels: bool) -> np.dtype[Any]:
        """Return the type of an encoded target: labels or their codes, or numbers."""
        target = self.schema.target
        if target is None or not target.is_classification:
            return np.dtype(np.float64)
        return np.array(target.labels).dtype if as_labels else self._class_of.dtype

    def encode(
        self, batch: Mapping[str, Any], out: NDArray[Any] | None = None
    ) -> NDArray[Any] | sp.csr_array:
        """Encode one batch of Arrow columns, by name, as rows of ``schema.width`` numbers.

        Dense rows are written to the first rows of ``out``, if it has enough of them.
        """
        absent = [repr(group.name) for group in self._groups if group.name not in batch]
        if absent:
            raise TableError(f"the table has no column {', '.join(absent)}.")
        lengths = {len(batch[group.name]) for group in self._groups}
        if len(lengths) > 1:
            raise TableError("the columns of a table must be of one length.")
        n_rows = lengths.pop()
        return self._csr(batch, n_rows) if self.sparse else self._dense(batch, n_rows, out)

    def encode_target(self, values: Any) -> NDArray[Any]:
        """Encode the target's cells: codes into ``schema.target.labels``, or clipped numbers."""
        target = self.schema.target
        if target is None:
            raise ValueError("the schema names no target; give it one with schema.with_target(…).")
        where = f"column {target.column!r}: a cell of the target is"
        found: NDArray[Any] | None
        if target.low is not None and target.high is not None:
            tolerant = target.invalid == "middle"
            found = numbers(values, self.schema.file.missing, lenient=tolerant)
            if found is None:
                raise TableError(
                    f"{where} not a number; correct such rows or leave them out, or give the "
                    "target classes in place of low and high in the schema."
                )
            absent = np.isnan(found)
            found = np.clip(found, target.low, target.high)
            found[absent] = target.low + (target.high - target.low) / 2
        else:
            tolerant = target.other is not None
            found = self._class_of[self._target.codes(values, f"column {target.column!r}")]
            absent = np.equal(found, MISSING)
            if target.other is not None:
                found[absent] = target.labels.index(target.other)
        if absent.any() and not tolerant:
            raise TableError(f"{where} missing; leave such rows out.")
        if target.classes is not None and np.any(found == UNLISTED):
            raise TableError(
                f"{where} not in any class; correct such rows or leave them out, or in the schema "
                'add their text to classes, or write other = "…", the label for all other texts.'
            )
        return found

    def _dense(
        self, columns: Mapping[str, Any], n_rows: int, out: NDArray[Any] | None
    ) -> NDArray[Any]:
        if out is None or len(out) < n_rows:
            out = np.empty((n_rows, self.schema.width), self.dtype)
        out = out[:n_rows]
        if self.schema.width > len(self._groups):  # otherwise every column is written in full
            out.fill(0)
        flat, starts = out.reshape(-1), np.arange(n_rows, dtype=np.int64) * self.schema.width
        for group in self._groups:
            places, values = group.entries(columns[group.name], self.dtype)
            if np.ndim(places) == 0:
                out[:, group.at + places] = values
            else:
                flat[starts + (places + group.at)] = values
        return out

    def _csr(self, columns: Mapping[str, Any], n_rows: int) -> sp.csr_array:
        each = len(self._groups)
        index = np.int32 if max(n_rows * each, self.schema.width) < 2**31 else np.int64
        data = np.empty((n_rows, each), dtype=self.dtype)
        indices = np.empty((n_rows, each), dtype=index)
        for i, group in enumerate(self._groups):
            places, values = group.entries(columns[group.name], self.dtype)
            np.add(places, group.at, out=indices[:, i], casting="same_kind")
            data[:, i] = values
        starts = np.arange(0, n_rows * each + 1, each, dtype=index)
        shape = (n_rows, self.schema.width)
        out = sp.csr_array((data.reshape(-1), indices.reshape(-1), starts), shape=shape)
        out.has_sorted_indices = True
        out.has_canonical_format = True
        return out


class _Group:
    """One encoded column: its cells, and the position of its group."""

    def __init__(self, name: str, column: Any, markers: Iterable[str], at: int) -> None:
        self.name, self.column, self.at = name, column, at
        self._markers = tuple(markers)
        self._where = f"column {name!r}"
        self._missing_at = column.width - 1
        if isinstance(column, Categorical):
            self._lookup = Lookup(column.values, self._markers, prefix=column.prefix)
        elif isinstance(column, Hashed):
            self._lookup = Lookup((), self._markers, prefix=column.prefix, buckets=column.buckets)
        elif isinstance(column, Boolean):
            texts = (*column.false, *column.true)
            self._lookup = Lookup(texts, self._markers, markers_first=True, any_case=True)
            self._numbers = np.repeat([0.0, 1.0], [len(column.false), len(column.true)])
        elif isinstance(column, Ordinal):
            self._lookup = Lookup(column.values, self._markers, markers_first=True)
            self._numbers = np.arange(len(column.values)) / (len(column.values) - 1)
        elif isinstance(column, Numeric) and column.is_bounded:
            self._least, self._most = column.scaled([column.low, column.high])

    def entries(self, cells: Any, dtype: np.dtype[Any]) -> Entries:
        """Return the column of the group that each row fills, and the number."""
        if isinstance(self.column, Numeric):
            return self._numeric(cells, dtype)
        codes = self._lookup.codes(cells, self._where)
        complete = codes.min(initial=0) >= 0
        absent = codes == MISSING
        self._check_missing(absent)
        if isinstance(self.column, Categorical):
            return self._categorical(codes, dtype)
        if isinstance(self.column, Hashed):
            return np.where(absent, np.int32(self._missing_at), codes), dtype.type(1)
        if not complete and np.any(codes == UNLISTED):
            raise TableError(
                f'{self._where}: a cell is not one of the listed texts (kind = "{self.column.kind}"'
                "); correct such cells, or list every text that can occur in the schema."
            )
        if complete:
            return 0, self._numbers[codes]
        # The last two entries are those of the negative codes.
        values = np.append(self._numbers, [0.0, 1.0])[codes]
        return absent * np.int32(self._missing_at), values

    def _categorical(self, codes: NDArray[Any], dtype: np.dtype[Any]) -> Entries:
        column, unlisted = self.column, codes == UNLISTED
        values: Any = dtype.type(1)
        if unlisted.any():
            if column.unseen == "refuse":
                raise TableError(
                    f"{self._where}: a cell is not one of the listed values; correct such cells, "
                    'or in the schema list every value that can occur, or write unseen = "other".'
                )
            if column.unseen == "zeros":
                values = (~unlisted).astype(dtype)
        place_of = np.arange(len(column.values) + 2, dtype=np.int32)
        place_of[UNLISTED] = len(column.values) if column.unseen == "other" else 0
        place_of[MISSING] = self._missing_at
        return place_of[codes], values

    def _numeric(self, cells: Any, dtype: np.dtype[Any]) -> Entries:
        column = self.column
        found = numbers(cells, self._markers, lenient=column.invalid == "missing")
        if found is None:
            raise TableError(
                f'{self._where}: a cell is not a number (kind = "numeric"). Correct such cells, or '
                "change the schema: if they stand for missing cells, add their text to missing in "
                '[file]; if texts are mistakes, write missing = true and invalid = "missing"; else '
                "declare the column as another kind."
            )
        # A minimum is NaN if a number is: one quick pass in place of a mask where none is missing.
        absent = np.isnan(found) if np.isnan(found.min(initial=0.0)) else None
        if absent is not None:
            self._check_missing(absent)
        if column.is_bounded:
            values = column.scaled(np.clip(found, column.low, column.high))
            values -= self._least
            values /= self._most - self._least
            # Rounding must not leave the interval that the bounds promise.
            np.clip(values, 0.0, 1.0, out=values)
        else:
            largest = np.finfo(dtype).max
            values = np.clip(column.scaled(found), -largest, largest)
        if absent is None:
            return 0, values
        values[absent] = 1.0
        return absent * np.int32(self._missing_at), values

    def _check_missing(self, absent: NDArray[np.bool_]) -> None:
        if absent.any() and not self.column.missing:
            raise TableError(
                f"{self._where}: a cell is missing; fill such cells in or leave those rows out, or "
                "allow it in the schema with missing = true, which adds a column that marks them."
            )
