"""Conversion of Arrow cells to numbers, or to indices in a public list of texts.

Arrow's own errors quote a cell. Here a `TableError` names the column and the rule instead.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import TableError
from discreet.tables.columns import SPACES
from discreet.validate import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

MISSING, UNLISTED = -1, -2  # codes of cells that are missing or not listed
Made = TypeVar("Made")
_NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)$"


def arrow() -> Any:
    """Import pyarrow with its compute functions; only tables need it."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise ImportError(
            'Reading tables needs pyarrow, which is not installed: pip install "discreet[tables]".'
        ) from None
    return pyarrow


def guarded(call: Callable[[], Made], problem: str = "") -> Made:
    """Call a library; the text of its own error could quote a cell."""
    failed = ""
    try:
        return call()
    except (TableError, MemoryError):
        raise
    except Exception as error:
        failed = type(error).__name__
    raise TableError(
        problem
        or f"cannot be read: the library that holds it failed ({failed}; its text is withheld, "
        "because it may quote a cell). Save the table as Parquet, and open that."
    )


def numbers(cells: Any, markers: Iterable[str], *, lenient: bool = False) -> FloatArray | None:
    """Return cells as float64, NaN where one is missing; None if any cell is not a number.

    ``markers`` mean a missing cell; so does a text that is not a number, if ``lenient``. The result
    may share memory with the cells.
    """
    pa = arrow()
    markers = list(markers)
    array = plain_array(cells)
    if pa.types.is_dictionary(array.type):
        array = plain_array(array.cast(array.type.value_type))
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if _is_text(array.type):
        found = _parsed(array, markers, lenient)
    elif _is_number(array.type) or pa.types.is_null(array.type):
        found = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        return None
    as_numbers = [number for number in map(as_number, markers) if number is not None]
    if found is not None and as_numbers:
        found = np.where(np.isin(found, as_numbers), np.nan, found)
    return found


def lenient_numbers(cells: Any) -> FloatArray:
    """Return cells as numbers; NaN where a cell is missing or holds other text."""
    found = numbers(cells, (), lenient=True)
    assert found is not None  # columns of other types are left out
    return found


def number_margin(cells: Any) -> int:
    """Count the cells that read as numbers, minus those that hold other text."""
    count = int(np.count_nonzero(~np.isnan(lenient_numbers(cells))))
    return 2 * count - (len(cells) - int(cells.null_count))


def whole_margin(cells: Any) -> int:
    """Count the cells that read as whole numbers, minus those that read as other numbers."""
    found = lenient_numbers(cells)
    found = found[np.isfinite(found)]
    return 2 * int(np.count_nonzero(found % 1 == 0)) - found.size


class Lookup:
    """Search for cells in a public list of texts; ``markers`` mean a missing cell.

    Numbers and truth values are compared by their text (3 and 3.0 with "3"), so that a table means
    the same whether it was stored with types or without. A text that is both listed and a marker
    is missing if ``markers_first``; upper and lower case are the same if ``any_case``. With
    ``prefix`` only this many letters of a cell are compared, by their text alone; with ``buckets``
    there is no list, and the code of a cell is the hash of its text.
    """

    def __init__(
        self,
        texts: Iterable[str],
        markers: Iterable[str],
        *,
        markers_first: bool = False,
        any_case: bool = False,
        prefix: int | None = None,
        buckets: int | None = None,
    ) -> None:
        self._prefix, self._buckets = prefix, buckets
        listed = [(text, code) for code, text in enumerate(texts)]
        missing = [(text, MISSING) for text in markers]
        pairs = missing + listed if markers_first else listed + missing  # the first match decides
        self._keys = [text for text, _ in pairs]
        self._codes = np.array([code for _, code in pairs], np.int32)
        self._any_case = any_case
        self._last: tuple[Any, NDArray[np.int32]] | None = None

    def codes(self, cells: Any, where: str) -> NDArray[np.int32]:
        """Return the index of each cell in the list, or `MISSING` or `UNLISTED`."""
        pa = arrow()
        array = plain_array(cells)
        if pa.types.is_null(array.type):
            return np.full(len(array), MISSING, dtype=np.int32)
        try:
            if not pa.types.is_dictionary(array.type):
                array = array.dictionary_encode()
            distinct = plain_array(array.dictionary)
            last = self._last  # blocks often have the dictionary of the block before
            if last is None or not distinct.equals(last[0]):
                last = distinct, np.append(self._codes_of(distinct), np.int32(MISSING))
                self._last = last
            found = last[1]
        except pa.ArrowException:  # whose text may quote a cell
            raise TableError(
                f"{where}: its cells are neither texts nor numbers; convert the column to either."
            ) from None
        indices = array.indices
        if indices.null_count:
            indices = indices.cast(pa.int64()).fill_null(len(distinct))
        return np.asarray(found[indices.to_numpy(zero_copy_only=False)])

    def _codes_of(self, distinct: pa.Array) -> NDArray[np.int32]:
        """Return the codes of distinct cells, by their text first.

        Then by text in lower case, or by value, so that 3 finds "3.0" unless "3" is listed.
        """
        pa = arrow()
        if self._prefix is not None or self._buckets is not None:
            return self._codes_of_parts(distinct)
        kind, absent = distinct.type, distinct.is_null().to_numpy(zero_copy_only=False)
        texts = _trimmed(distinct) if _is_text(kind) else distinct.cast(pa.string())
        found = self._match(texts, self._keys)
        values, keys = texts, None
        if _is_text(kind) and self._any_case:
            lower = pa.compute.utf8_lower
            values, keys = lower(texts), lower(pa.array(self._keys, pa.string())).to_pylist()
        elif pa.types.is_boolean(kind):
            keys = [key.lower() for key in self._keys]
        elif pa.types.is_integer(kind):
            keys = [_whole_text(key) for key in self._keys]
        elif _is_number(kind):
            if pa.types.is_decimal(kind):
                distinct = distinct.cast(pa.float64())
            numeric = distinct.to_numpy(zero_copy_only=False)
            absent = absent | np.isnan(numeric)
            as_numbers = np.array([as_number(key) for key in self._keys], np.float64)  # None: NaN
            with np.errstate(over="ignore"):
                # 0.1 stored in single precision is the number nearest to 0.1 there.
                rounded = as_numbers.astype(numeric.dtype).astype(np.float64)
            values = pa.array(numeric.astype(np.float64))
            keys = [key if np.isfinite(key) else None for key in rounded.tolist()]
        if keys is not None:
            found = np.where(found == UNLISTED, self._match(values, keys), found)
        return np.where(absent, np.int32(MISSING), found)

    def _codes_of_parts(self, distinct: pa.Array) -> NDArray[np.int32]:
        pa = arrow()
        texts = whole_as_integers(distinct)
        found = self._match(texts, self._keys)
        parts = texts
        if self._prefix is not None:
            parts = _trimmed(pa.compute.utf8_slice_codeunits(texts, 0, self._prefix))
        if self._buckets is None:
            codes = self._match(parts, self._keys)
        else:
            hashed = [bucket(part or "", self._buckets) for part in parts.to_pylist()]
            codes = np.array(hashed, dtype=np.int32)
        absent = texts.is_null().to_numpy(zero_copy_only=False) | (found == MISSING)
        return np.where(absent, np.int32(MISSING), codes)

    def _match(self, values: pa.Array, keys: Sequence[Any]) -> NDArray[np.int32]:
        """Return the codes of values by keys of their type; a key that is None matches nothing."""
        pa = arrow()
        usable = [index for index, key in enumerate(keys) if key is not None]
        value_set = pa.array([keys[index] for index in usable], type=values.type)
        found = pa.compute.index_in(values, value_set=value_set).fill_null(len(usable))
        codes = np.append(self._codes[usable], np.int32(UNLISTED))
        return np.asarray(codes[found.to_numpy(zero_copy_only=False)])


def bucket(text: str, count: int) -> int:
    """Return the bucket of a text: the first 8 bytes of its BLAKE2b hash, modulo ``count``."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % count


def whole_as_integers(cells: pa.Array) -> pa.Array:
    """Return cells as texts without spaces around them; 3.0 is "3", and NaN is null."""
    pa = arrow()
    compute = pa.compute
    if _is_text(cells.type):
        return _trimmed(cells)
    if not pa.types.is_floating(cells.type):
        return cells.cast(pa.string())
    finite = compute.if_else(compute.is_finite(cells), cells, pa.scalar(None, cells.type))
    # Cell by cell, so that no cell depends on another.
    return compute.replace_substring_regex(finite.cast(pa.string()), r"^(-?\d+)\.0$", r"\1")


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


def family(kind: Any) -> str:
    """Return what cells of an Arrow type are: numbers, texts, truth values, times, nothing, other.

    Dictionaries and extension types count as what they store.
    """
    types = arrow().types
    while types.is_dictionary(kind) or hasattr(kind, "storage_type"):
        kind = kind.value_type if types.is_dictionary(kind) else kind.storage_type
    if _is_number(kind):
        return "numbers"
    if _is_text(kind) or str(kind) == "string_view":
        return "texts"
    if types.is_boolean(kind):
        return "truth values"
    if types.is_null(kind):
        return "nothing"
    return "times" if types.is_temporal(kind) else "other"


def _is_text(kind: Any) -> bool:
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_number(kind: Any) -> bool:
    types = arrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _trimmed(texts: pa.Array) -> pa.Array:
    return arrow().compute.utf8_trim(texts, characters=SPACES)


def _parsed(texts: pa.Array, markers: list[str], lenient: bool) -> FloatArray | None:
    """Return texts as numbers; None if a text is not a number and that is not allowed.

    Arrow converts a column as a whole or fails, and is slow to fail: so markers, and other texts if
    they are allowed, are removed first.
    """
    pa = arrow()
    compute = pa.compute
    nothing = pa.scalar(None, type=texts.type)
    texts = _trimmed(texts)
    is_marker = compute.is_in(texts, value_set=pa.array(markers, type=texts.type))
    texts = compute.if_else(is_marker, nothing, texts)
    if lenient:
        texts = compute.if_else(compute.match_substring_regex(texts, _NUMBER), texts, nothing)
    try:
        return np.asarray(texts.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:  # whose text quotes a cell
        is_number = compute.match_substring_regex(texts, _NUMBER).fill_null(True)
    if not compute.all(is_number, min_count=0).as_py():
        return None
    # Some versions of Arrow know fewer ways to write a number than the rule above.
    as_objects = texts.fill_null("nan").to_numpy(zero_copy_only=False)
    return np.asarray(as_objects.astype(np.float64))


def as_number(text: str) -> float | None:
    """Return the number that a text is, or None."""
    return float(text) if re.fullmatch(_NUMBER, text, re.ASCII) else None


def _whole_text(text: str) -> str | None:
    """Return the usual text of a whole number ("3" for "3.0" or "03"), or None."""
    number = as_number(text)
    if number is None or not number.is_integer():
        return None
    # Large numbers lose digits as floats.
    return str(int(text)) if re.fullmatch(r"[+-]?\d+", text) else str(int(number))


def without_markers(cells: Any, markers: Iterable[str], quote: str, where: str) -> Any:
    """Strip the spaces around texts, and make those that mean a missing cell null."""
    pa = arrow()
    compute = pa.compute
    coded = pa.types.is_dictionary(cells.type)
    texts = cells.dictionary if coded else cells
    if not _is_text(texts.type):
        return cells
    trimmed = _trimmed(texts)
    if coded and quote:
        spaced = compute.and_(compute.starts_with(trimmed, quote), compute.starts_with(texts, " "))
        if compute.any(spaced).as_py():
            raise TableError(
                f"{where} has spaces before a quote, so that the quote becomes part of the cell. "
                "Remove the spaces between delimiter and quote."
            )
    value_set = pa.array(list(markers), type=trimmed.type)
    absent = compute.is_in(trimmed, value_set=value_set, skip_nulls=True)
    if not coded:
        return compute.if_else(absent, pa.scalar(None, type=trimmed.type), trimmed)
    indices = cells.indices
    if compute.any(absent).as_py():
        nothing = pa.scalar(None, type=indices.type)
        indices = compute.if_else(compute.take(absent, indices), nothing, indices)
    return pa.DictionaryArray.from_arrays(indices, trimmed)
