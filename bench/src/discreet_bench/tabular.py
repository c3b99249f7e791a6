"""Tables of the evaluation of the default, as arrays: encoded by public bounds and lists alone.

Most come from the catalogue of data sets. The others are files of the folder that DISCREET_DATA
names: folktables (one-hot), hospital-visits (one-hot and scaled counts) and uci-regression (columns
as they are).
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.tables import Categorical, Numeric
from discreet_bench.datasets import load
from discreet_bench.datasets.catalogue import schema

__all__ = ["TABLES", "Tabular", "folder", "tabular"]

UCI = {
    "airfoil": "airfoil.txt.xz",
    "concrete": "Concrete.txt.xz",
    "elevators": "elevators_train.txt.xz",
    "parkinsons": "parkinsons.txt.xz",
    "pol": "pol_train.txt.xz",
    "protein": "protein_train.txt.xz",
    "pumadyn32nm": "pumadyn32nm_train.txt.xz",
}

COUNTS = {
    "time_in_hospital": 14,
    "num_lab_procedures": 130,
    "num_procedures": 6,
    "num_medications": 80,
    "number_outpatient": 10,
    "number_emergency": 10,
    "number_inpatient": 10,
    "number_diagnoses": 16,
}
"""Numeric columns of hospital-visits, and their public upper bounds."""

SKIPPED = ("encounter_id", "patient_nbr", "weight", "diag_1", "diag_2", "diag_3", "readmitted")

CHAPTERS = (
    140,
    240,
    250,
    251,
    280,
    290,
    320,
    390,
    460,
    520,
    580,
    630,
    680,
    710,
    740,
    760,
    780,
    800,
)
"""First codes of the chapters of ICD-9; 250 is diabetes."""


@dataclass(frozen=True)
class Tabular:
    """A table with its target, and the published split where there is one.

    ``bounds`` are public bounds of a numeric target; ``test`` is the number of last rows that the
    publisher keeps for testing, 0 if rows are split at random. ``numeric`` has the numeric columns
    that have public bounds, as estimators take them. ``groups`` are the first and last encoded
    column (exclusive) of each list of categories: a row fills at most one of them with 1.
    """

    name: str
    X: Any
    y: NDArray[Any]
    bounds: tuple[float, float] | None = None
    test: int = 0
    numeric: Mapping[int, Any] | None = None
    groups: tuple[tuple[int, int], ...] = ()

    @property
    def max_norm(self) -> float:
        """Public bound on the norm of a row, where every column is between 0 and 1."""
        spare = sum(stop - start - 1 for start, stop in self.groups)
        return float(np.sqrt(self.X.shape[1] - spare))


def folder(name: str) -> Path:
    """Return a folder of the data that DISCREET_DATA names."""
    given = os.environ.get("DISCREET_DATA")
    if given is None:
        raise SystemExit("Set DISCREET_DATA to the folder of the data sets.")
    return Path(given) / name


def _csv(path: Path) -> tuple[list[str], list[list[str]]]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split(",") for line in file]
    return lines[0], lines[1:]


def _one_hot(codes: NDArray[Any], levels: int) -> NDArray[np.float32]:
    """Return indicators of all levels but those that a single level would need."""
    return np.eye(levels, dtype=np.float32)[codes]


def _spans(columns: Sequence[NDArray[Any]]) -> tuple[tuple[int, int], ...]:
    """Return first and last column of each array of several columns, side by side."""
    ends = np.cumsum([column.shape[1] for column in columns]).tolist()
    pairs = zip([0, *ends[:-1]], ends, strict=True)
    return tuple((start, stop) for start, stop in pairs if stop - start > 1)


def _folktables(name: str, target: str) -> Tabular:
    own = folder("folktables")
    levels = json.loads((own / f"{name}.json").read_text(encoding="utf-8"))
    parts = [_csv(own / f"{name}_{part}.csv.xz") for part in ("train", "test")]
    names = parts[0][0]
    cells = np.array([row for _, rows in parts for row in rows], dtype=np.int64)
    columns = [_one_hot(cells[:, j], levels[c]) for j, c in enumerate(names) if c != target]
    y = cells[:, names.index(target)]
    numeric = levels[target] > 2
    bounds = (0.0, levels[target] - 1.0) if numeric else None
    groups = _spans(columns)
    return Tabular(name, np.hstack(columns), y, bounds, test=len(parts[1][1]), groups=groups)


def _chapter(code: str) -> int:
    """Return the chapter of an ICD-9 code: 0 if missing, then V, E, then by number."""
    if code == "?":
        return 0
    if code[0] in "VE":
        return 1 if code[0] == "V" else 2
    return 3 + int(np.searchsorted(CHAPTERS, float(code), side="right"))


def _hospital() -> Tabular:
    names, rows = _csv(folder("hospital-visits") / "diabetic_data.csv.xz")
    cells = {name: [row[j] for row in rows] for j, name in enumerate(names)}
    columns: list[NDArray[np.float32]] = []
    numeric = {}
    for name, values in cells.items():
        if name in COUNTS:
            numeric[sum(column.shape[1] for column in columns)] = (0.0, 1.0)
            numbers = np.minimum(np.array(values, dtype=np.float32), COUNTS[name]) / COUNTS[name]
            columns.append(numbers[:, None])
        elif name not in SKIPPED:
            levels, codes = np.unique(np.array(values), return_inverse=True)
            columns.append(_one_hot(codes, len(levels)))
    for name in ("diag_1", "diag_2", "diag_3"):
        codes = np.array([_chapter(code) for code in cells[name]])
        columns.append(_one_hot(codes, len(CHAPTERS) + 4))
    y = (np.array(cells["readmitted"]) != "NO").astype(np.int64)
    X = np.hstack(columns).astype(np.float32)
    return Tabular("hospital-visits", X, y, numeric=numeric, groups=_spans(columns))


def _uci(name: str) -> Tabular:
    with lzma.open(folder("uci-regression") / UCI[name], "rt", encoding="utf-8") as file:
        numbers = np.array(file.read().replace(",", " ").split(), dtype=np.float64)
    width = {
        "airfoil": 6, "concrete": 9, "elevators": 19, "parkinsons": 22, "pol": 27, "protein": 10,
        "pumadyn32nm": 33,
    }[name]  # fmt: skip
    table = numbers.reshape(-1, width)
    y = table[:, -1]
    return Tabular(name, np.ascontiguousarray(table[:, :-1]), y, (float(y.min()), float(y.max())))


def _catalogue(name: str, rows: int | None = None) -> Tabular:
    data = load(name)
    X, y = data.X, data.y
    if rows is not None and rows < len(y):
        chosen = np.random.default_rng(0).permutation(len(y))[:rows]
        X, y = X[chosen], y[chosen]
    known = schema(name)
    if known is None:
        return Tabular(name, X, y, data.target_bounds)
    ends = list(accumulate((column.width for column in known.used.values()), initial=0))
    groups = tuple(
        (start, stop)
        for start, stop, column in zip(ends, ends[1:], known.used.values(), strict=False)
        if isinstance(column, Categorical) and stop - start > 1
    )
    return Tabular(name, X, y, data.target_bounds, numeric=known.numeric, groups=groups)


SCALES: dict[str, tuple[Any, Any]] = {
    "linear": (lambda v: v, lambda u: u),
    "sqrt": (lambda v: np.sign(v) * np.sqrt(np.abs(v)), lambda u: np.sign(u) * u**2),
    "log": (lambda v: np.sign(v) * np.log1p(np.abs(v)), lambda u: np.sign(u) * np.expm1(np.abs(u))),
}
"""Scales of numeric columns, and back."""


def _raw(name: str) -> Tabular:
    """Return a table with its numbers in their own units, as if nothing was known of them."""
    table, known = _catalogue(name), schema(name)
    assert known is not None
    dense = table.X.toarray() if sp.issparse(table.X) else table.X
    X, at = np.array(dense, dtype=np.float64), 0
    for column in known.used.values():
        if isinstance(column, Numeric) and column.low is not None and column.high is not None:
            to, back = SCALES[column.scale]
            low, high = to(np.array([column.low, column.high]))
            X[:, at] = np.round(back(low + X[:, at] * (high - low)), 3)
        at += column.width
    return Tabular(f"{name}-raw", X, table.y, table.bounds)


TABLES: dict[str, Callable[[], Tabular]] = {
    **{
        name: lambda name=name: _catalogue(name)  # type: ignore[misc]
        for name in ("adult", "bank", "credit-default", "covertype", "banknote", "occupancy",
                     "plane", "synthetic-h", "reuters", "wine-quality", "bike-sharing")
    },
    "kddcup99": lambda: _catalogue("kddcup99", 70_000),
    "mnist": lambda: _catalogue("mnist"),
    "mobility": lambda: _folktables("ACSmobility", "MIG"),
    "income": lambda: _folktables("ACSincome-LIN", "PINCP"),
    "hospital-visits": _hospital,
    **{name: lambda name=name: _uci(name) for name in UCI},  # type: ignore[misc]
}  # fmt: skip


def tabular(name: str) -> Tabular:
    """Return a table by name; its files are in the folder that DISCREET_DATA names.

    With "-raw" after the name of one with a schema, numbers are in their own units and have no
    public bounds.
    """
    plain = name.removesuffix("-raw")
    return TABLES[name]() if plain == name else _raw(plain)
