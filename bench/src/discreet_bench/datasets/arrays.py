"""Files of arrays instead of tables: images, unnamed numbers, words of texts."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.errors import TableError
from discreet_bench.datasets.catalogue import Entry
from discreet_bench.datasets.sources import Found, open_found

__all__ = ["ArrayPart", "gisette", "idx", "numbers", "rcv1", "svmlight"]

ArrayPart = tuple[Any, NDArray[np.int8]]
"""Rows of one part as the publisher wrote them, and codes of their labels."""


def idx(known: Entry, files: Sequence[Found]) -> ArrayPart:
    """Read a part of MNIST: the file of images, then the file of labels."""
    images, digits = (_read_idx(found) for found in files)
    features = 0 if known.features is None else known.features.count
    if images.ndim < 2 or images[0].size != features or digits.shape != images.shape[:1]:
        raise TableError(
            f"{files[0].path} and {files[1].path} must hold images of {features} pixels, and one "
            "label for each."
        )
    return images.reshape(len(images), -1), digits.astype(np.int8)


def _read_idx(found: Found) -> NDArray[np.uint8]:
    """Read bytes in the IDX format: 0, 0, 8, the number of dimensions, each of them, the bytes."""
    with open_found(found) as stream:
        data = stream.read()
    n_dimensions = data[3] if len(data) >= 4 and data[:3] == b"\0\0\x08" else 0
    start = 4 + 4 * n_dimensions
    if n_dimensions and len(data) >= start:
        shape = struct.unpack(f">{n_dimensions}I", data[4:start])
        if len(data) - start == np.prod(shape, dtype=np.int64):
            return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
    raise TableError(f"{found.path} is not a whole IDX file of bytes; get it again.")


def gisette(known: Entry, files: Sequence[Found]) -> ArrayPart:
    """Read a part of Gisette: lines of numbers, then a file of labels."""
    rows = _numbers(files[0], np.uint16)
    labels = _numbers(files[1], np.int64).ravel()
    features = 0 if known.features is None else known.features.count
    if rows.shape[1] != features or len(labels) != len(rows):
        raise TableError(
            f"{files[0].path} must have {features} numbers in a line, and {files[1].path} one "
            "label for each line."
        )
    return rows, _codes(known, labels, files[1])


def numbers(known: Entry, files: Sequence[Found]) -> ArrayPart:
    """Read lines of numbers, the label last, scaled to [0, 1] by the public bounds of columns."""
    lines = _numbers(files[0], np.int64)
    if lines.shape[1] != len(known.highs) + 1:
        raise TableError(
            f"{files[0].path} must have {len(known.highs) + 1} numbers in a line, the label last."
        )
    rows = np.clip(lines[:, :-1] / np.array(known.highs), 0.0, 1.0)
    return rows, _codes(known, lines[:, -1], files[0])


def _numbers(found: Found, dtype: Any) -> NDArray[Any]:
    with open_found(found) as stream:
        try:
            return np.loadtxt(stream, dtype=dtype, ndmin=2)
        except ValueError:  # its text quotes cells
            raise TableError(
                f"{found.path} must hold whole numbers, as many in each line."
            ) from None


def svmlight(known: Entry, files: Sequence[Found]) -> ArrayPart:
    """Read a part in the format of SVMlight, columns counted from 1."""
    parts = [_svmlight(known, found) for found in files]
    codes = [_codes(known, marks, found) for (_, marks), found in zip(parts, files, strict=True)]
    return _stacked([rows for rows, _ in parts]), np.concatenate(codes)


def rcv1(known: Entry, files: Sequence[Found]) -> ArrayPart:
    """Read a part of RCV1: files of vectors that begin with a document's number, and topics."""
    parts = [_svmlight(known, found) for found in files[:-1]]
    with open_found(files[-1]) as stream:
        about = {line.split()[1] for line in stream if line.startswith(b"CCAT ")}
    companies = np.array(sorted(int(number) for number in about), dtype=np.int64)
    documents = np.concatenate([marks for _, marks in parts]).astype(np.int64)
    codes = np.where(np.isin(documents, companies), 0, 1).astype(np.int8)
    return _stacked([rows for rows, _ in parts]), codes


def _svmlight(known: Entry, found: Found) -> tuple[sp.csr_array, NDArray[np.float64]]:
    """Read rows and the number before each."""
    from sklearn.datasets import load_svmlight_file

    features = None if known.features is None else known.features.count
    with open_found(found) as stream:
        try:
            rows, marks = load_svmlight_file(
                stream, n_features=features, dtype=np.float32, zero_based=False
            )
        except TableError:
            raise
        except ValueError:  # its text quotes cells
            raise TableError(
                f"{found.path} must be in the format of SVMlight, with columns from 1 to "
                f"{features:,}."
            ) from None
    return sp.csr_array(rows), marks


def _stacked(parts: Sequence[sp.csr_array]) -> sp.csr_array:
    return parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")


def _codes(known: Entry, marks: NDArray[Any], found: Found) -> NDArray[np.int8]:
    """Return the positions of labels in the public list."""
    listed = np.array([int(label) for label in known.labels])
    places = np.searchsorted(listed, marks).clip(max=len(listed) - 1)
    if not np.array_equal(listed[places], marks):
        raise TableError(f"{found.path}: every label must be one of {', '.join(known.labels)}.")
    return places.astype(np.int8)
