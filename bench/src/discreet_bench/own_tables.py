"""Eleven tables as people have them: texts, gaps and own units, from files of one folder.

The folder ``tables`` in the folder that DISCREET_DATA names has a compressed CSV file for each. The
levels of texts are public; nothing is declared of numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet_bench.tabular import folder

__all__ = ["TABLES", "Source", "encoded", "levels", "read"]


class Source(NamedTuple):
    """The target, public bounds of a target that is a number, and columns that are left out."""

    target: str | int
    bounds: tuple[float, float] | None = None
    left_out: tuple[str, ...] = ()
    has_header: bool = True


TABLES = {
    "abalone": Source(8, (0.0, 30.0), has_header=False),
    "california": Source("median_house_value", (0.0, 500_001.0)),
    "diamonds": Source("price", (0.0, 20_000.0)),
    "heart2020": Source("HeartDisease"),
    "insurance": Source("charges", (0.0, 65_000.0)),
    "kc": Source("price", (0.0, 2_000_000.0), ("id", "date", "zipcode")),
    "letter": Source("Letter"),
    "magic": Source(10, has_header=False),
    "mammography": Source(6, has_header=False),
    "pollution": Source("pm2.5", (0.0, 500.0), ("No",)),
    "telco": Source("Churn", left_out=("#", "customerID")),
}

MOST_LEVELS = 40
"""Texts of more levels than this are numbers with gaps."""


def read(name: str) -> tuple[pd.DataFrame, NDArray[Any], tuple[float, float] | None]:
    """Return the columns, the target and its bounds; rows without a target are left out."""
    source = TABLES[name]
    path = folder("tables") / f"{name}.csv.xz"
    frame = pd.read_csv(path, header=0 if source.has_header else None)
    frame = frame[frame[source.target].notna()].reset_index(drop=True)
    target = frame.pop(source.target)
    frame = frame.drop(columns=list(source.left_out))
    frame.columns = [str(column) for column in frame.columns]
    for column in frame.columns:
        if frame[column].dtype.kind in "OUT" and frame[column].nunique() > MOST_LEVELS:
            frame[column] = pd.to_numeric(frame[column], errors="coerce")
    if source.bounds is None:
        return frame, target.astype(str).to_numpy(dtype=str), None
    return frame, np.clip(target.to_numpy(dtype=np.float64), *source.bounds), source.bounds


def levels(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Return the levels of the texts of a table, which are taken to be public."""
    texts = [name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
    return {name: sorted(frame[name].dropna().unique()) for name in texts}


def encoded(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return the table as an array: an indicator per level, and 0 where a number is missing."""
    listed = levels(frame)
    parts = []
    for name in frame.columns:
        if name in listed:
            parts += [(frame[name] == level).to_numpy(np.float64) for level in listed[name]]
        else:
            parts.append(np.nan_to_num(frame[name].to_numpy(np.float64)))
    return np.column_stack(parts)
