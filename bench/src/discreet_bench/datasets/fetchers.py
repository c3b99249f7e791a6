"""Data sets that scikit-learn knows how to download, brought into the publishers' form.

Each function gets the folder where scikit-learn keeps its downloads, and returns either the columns
of the publisher's files (all parts, in the catalogue's order) or rows and codes of labels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from discreet.errors import TableError
from discreet.tables.cells import arrow
from discreet.tables.columns import counted
from discreet_bench.datasets.entries import Entry

__all__ = ["FETCHERS"]

ADULT, BANK, MNIST, CREDIT_DEFAULT = 1590, 1461, 554, 42477
"""Their numbers at OpenML, where a number names one version for good."""

_ONCE: dict[str, Any] = {"n_retries": 1, "delay": 0.1}
"""Without a connection this is told at once: one more attempt is the least scikit-learn allows."""


def _openml(number: int, folder: os.PathLike[str]) -> Any:
    """A table of OpenML as a pandas frame, the target last."""
    from sklearn.datasets import fetch_openml

    return fetch_openml(data_id=number, data_home=folder, as_frame=True, **_ONCE).frame


def _columns(frame: Any, fields: Sequence[str]) -> dict[str, Any]:
    """The columns of a frame under the publisher's names; numbers as they are, the rest as text."""
    if frame.shape[1] != len(fields):
        raise TableError(f"OpenML's table must have {counted(len(fields), 'column')}.")
    pa = arrow()
    columns = {}
    for place, name in enumerate(fields):
        values = frame.iloc[:, place]
        if values.dtype.kind not in "iuf":
            values = values.astype(object).where(values.notna(), "?").astype(str)
        columns[name] = pa.array(values.to_numpy())
    return columns


def adult(known: Entry, fields: Sequence[str], folder: os.PathLike[str]) -> dict[str, Any]:
    """UCI Adult from OpenML, which has the test part first."""
    columns = _columns(_openml(ADULT, folder), fields)
    pa = arrow()
    test = known.rows["test"]
    return {
        name: pa.chunked_array([values[test:], values[:test]]).combine_chunks()
        for name, values in columns.items()
    }


def bank(known: Entry, fields: Sequence[str], folder: os.PathLike[str]) -> dict[str, Any]:
    """UCI Bank Marketing from OpenML, which writes 1 and 2 for no and yes."""
    columns = _columns(_openml(BANK, folder), fields)
    answers = {"1": "no", "2": "yes"}
    labels = [answers.get(cell, cell) for cell in columns[fields[-1]].cast("string").to_pylist()]
    return {**columns, fields[-1]: arrow().array(labels)}


def credit_default(known: Entry, fields: Sequence[str], folder: os.PathLike[str]) -> dict[str, Any]:
    """UCI Default of Credit Card Clients from OpenML, which leaves out the running number."""
    return _columns(_openml(CREDIT_DEFAULT, folder), [f for f in fields if f != "ID"])


def mnist(known: Entry, fields: Sequence[str], folder: os.PathLike[str]) -> Any:
    """MNIST from OpenML, training images first."""
    frame = _openml(MNIST, folder)
    digits = frame.iloc[:, -1].astype(str).astype(np.int8).to_numpy()
    return frame.iloc[:, :-1].to_numpy(dtype=np.uint8), digits


def covertype(known: Entry, fields: Sequence[str], folder: os.PathLike[str]) -> dict[str, Any]:
    """UCI Covertype."""
    from sklearn.datasets import fetch_covtype

    fetched = fetch_covtype(data_home=folder, **_ONCE)
    columns = [*fetched.data.T, fetched.target]
    # In the publisher's order the ten measurements come first, then the columns of 0 and 1.
    return {
        name: arrow().array(values if place < 10 else values.astype(np.int8))
        for place, (name, values) in enumerate(zip(fields, columns, strict=True))
    }


def _kddcup99(percent10: bool) -> Callable[..., dict[str, Any]]:
    def fetch(known: Entry, fields: Sequence[str], folder: os.PathLike[str]) -> dict[str, Any]:
        """KDD Cup 1999; texts come as bytes."""
        from sklearn.datasets import fetch_kddcup99

        fetched = fetch_kddcup99(data_home=folder, percent10=percent10, **_ONCE)
        columns = [*fetched.data.T, fetched.target]
        return {name: _decoded(values) for name, values in zip(fields, columns, strict=True)}

    return fetch


def _decoded(values: Any) -> Any:
    """A column of Python objects: bytes become text, numbers stay numbers."""
    pa = arrow()
    if len(values) and isinstance(values[0], bytes):
        return pa.array(values.tolist(), pa.binary()).cast(pa.string())
    return pa.array(values.astype(np.float64))


def rcv1(known: Entry, fields: Sequence[str], folder: os.PathLike[str]) -> Any:
    """RCV1, training stories first, about companies or not."""
    from sklearn.datasets import fetch_rcv1

    fetched = fetch_rcv1(data_home=folder, **_ONCE)
    place = list(fetched.target_names).index("CCAT")
    about = fetched.target[:, [place]].toarray().ravel() != 0
    return fetched.data, np.where(about, 0, 1).astype(np.int8)


FETCHERS: dict[str, Callable[[Entry, Sequence[str], os.PathLike[str]], Any]] = {
    "adult": adult,
    "bank": bank,
    "covertype": covertype,
    "credit_default": credit_default,
    "kddcup99": _kddcup99(percent10=True),
    "kddcup99_full": _kddcup99(percent10=False),
    "mnist": mnist,
    "rcv1": rcv1,
}
"""By the names in the catalogue."""
