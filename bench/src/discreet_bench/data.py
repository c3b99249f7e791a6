"""Data sets of the benchmark, cut to size, in the form that its objective takes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import psutil
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.tables import Numeric, Schema
from discreet_bench import datasets, synthetic
from discreet_bench.datasets.catalogue import entry
from discreet_bench.datasets.sources import where

__all__ = [
    "GENERATED",
    "SOURCES",
    "Table",
    "available",
    "generated",
    "norms",
    "public",
    "scaled_down",
    "table_of",
    "too_large",
]

_BYTES_PER_VALUE = 20
"""Of a generated table: drawn as doubles, kept as floats, and split into training and test rows."""

DENSE_COLUMNS = 1000
"""Tables of at most this many columns are kept dense."""

GENERATED: dict[str, Callable[..., Any]] = {
    "synthetic-l": synthetic.synthetic_low,
    "synthetic-h": synthetic.synthetic_high,
    "sphere": synthetic.sphere,
    "plane": synthetic.plane,
    "industrial": synthetic.plane,
}
"""Generated data sets. ``industrial`` replaces production data that are not public: the recipe of
``plane`` with any number of rows and columns."""

SOURCES = {
    "mnist-zero": "mnist",
    "kddcup99-dos": "kddcup99",
    "kddcup99-full-dos": "kddcup99-full",
}
"""Data sets that are another one with other labels."""

DENIAL_OF_SERVICE = ("back", "land", "neptune", "pod", "smurf", "teardrop")
"""Attacks of KDD Cup 99 that its task description lists as denial of service."""

FEATURES = {"synthetic-l": 40, "synthetic-h": 5000, "sphere": 5, "plane": 20, "industrial": 23}
ROWS = {
    "synthetic-l": 10_000,
    "synthetic-h": 5000,
    "sphere": 10_000,
    "plane": 10_000,
    "industrial": 4_000_000,
}
_SEEDS = {"synthetic-l": 1000, "synthetic-h": 1}
_LARGEST = {"synthetic-l": synthetic.LOW_BOUND, "synthetic-h": synthetic.HIGH_BOUND}


@dataclass(frozen=True)
class Table:
    """A data set as the objective takes it.

    Attributes
    ----------
    name
        Its name, with its cut: ``"kddcup99 (70,000 rows)"``.
    X, y
        Rows, dense or CSR, and class codes 0, 1, … or real targets.
    n_classes
        Number of classes; 0 for a real target.
    bounds
        Public bounds of the columns, of shape (d, 2).
    max_norm
        Public bound on the norm of a row, or infinity.
    target_bounds
        Public bounds of a real target.
    drawn
        Number of columns that each repeat draws at random; None if all are taken.
    """

    name: str
    X: Any
    y: NDArray[Any]
    n_classes: int
    bounds: NDArray[np.float64]
    max_norm: float
    target_bounds: tuple[float, float] | None = None
    drawn: int | None = None


def table_of(
    name: str,
    X: Any,
    y: Any,
    *,
    bounds: Any = None,
    max_norm: float = math.inf,
    target_bounds: tuple[float, float] | None = None,
) -> Table:
    """Make a data set of arrays, for a file of a user.

    Parameters
    ----------
    name : str
        Its name.
    X, y : array
        Rows, dense or CSR, and class codes 0, 1, … or, with ``target_bounds``, real targets.
    bounds : array of shape (d, 2), optional
        Public bounds of the columns. Default: [-1, 1].
    max_norm : float
        Public bound on the norm of a row.
    target_bounds : (float, float), optional
        Public bounds of a real target.
    """
    rows = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    real = target_bounds is not None
    y = np.asarray(y, dtype=np.float64 if real else np.int64)
    if rows.ndim != 2 or y.shape != rows.shape[:1]:
        raise ValueError(f"X of shape {rows.shape} and y of shape {y.shape} do not match.")
    given = _bounds(rows.shape[1], signed=True) if bounds is None else np.asarray(bounds, float)
    classes = 0 if real else max(2, int(y.max()) + 1)
    return Table(name, rows, y, classes, given, float(max_norm), target_bounds)


def available(data: str) -> str | None:
    """Return why a data set cannot be loaded without a download, or None if it can.

    Files of users and data sets of other packages are there.
    """
    source = SOURCES.get(data, data)
    if data.endswith(".py") or source not in {*GENERATED, *datasets.names()}:
        return None
    if data in GENERATED or where(entry(source)) not in ("download", "by hand"):
        return None
    return (
        f"{data} is not on this machine: pass --data-dir (or set DISCREET_DATA), or --download to "
        "fetch it from its publisher"
    )


def too_large(data: str, grid: Mapping[str, Sequence[Any]]) -> str | None:
    """Return why a generated data set does not fit this machine's memory, or None."""
    if data not in GENERATED:
        return None
    rows = max(count or ROWS[data] for count in grid.get("rows", [None]))
    features = max(count or FEATURES[data] for count in grid.get("features", [None]))
    needed = rows * features * _BYTES_PER_VALUE / 2**30
    here = psutil.virtual_memory().total / 2**30
    if needed <= here:
        return None
    return (
        f"{data} of {rows:,} × {features:,} needs about {needed:.0f} GiB of memory; this machine "
        f"has {here:.0f}"
    )


@lru_cache(maxsize=1)  # a worker's runs come data set by data set
def public(data: str, rows: int | None, columns: int | None, unit: bool) -> Table:
    """Load a public data set.

    Parameters
    ----------
    data : str
        A name of `discreet_bench.datasets`, or of `SOURCES`: the digit 0 against the rest, or
        denial-of-service attacks against all other connections.
    rows : int or None
        Keep this many, picked at random once and for all.
    columns : int or None
        Keep this many, drawn anew for each repeat.
    unit : bool
        Take numbers as they are and divide every row by its norm, instead of the public scaling.
    """
    source = SOURCES.get(data, data)
    schema = datasets.schema(source)
    # Pixels have no schema: their public scaling is one number, which dividing by a norm undoes.
    raw = _unscaled(schema) if unit and source != "mnist" and schema is not None else None
    if data.endswith("-dos") and schema is not None:
        raw = _of_attacks(raw or schema)
    loaded = datasets.load(
        source, schema=raw, download=os.environ.get("DISCREET_DOWNLOAD") == "1", dtype="float32"
    )
    X, y = loaded.X, loaded.y
    if data == "mnist-zero":
        kept = loaded.splits["train"]
        X, y = X[kept], (y[kept] == 0).astype(np.int64)
    rng, name = np.random.default_rng(0), data
    if rows is not None and rows < len(y):
        chosen = rng.permutation(len(y))[:rows]
        X, y, name = X[chosen], y[chosen], f"{data} ({rows:,} rows)"
    if sp.issparse(X) and X.shape[1] <= DENSE_COLUMNS:
        X = X.toarray()
    max_norm = float(loaded.max_norm or np.inf)
    if unit:
        X, max_norm, name = _unit_rows(X), 1.0, _noted(name, "rows of norm 1")
    drawn = columns if columns is not None and columns < X.shape[1] else None
    if drawn is not None:
        name = _noted(name, f"{drawn} columns")
    real = loaded.target_bounds is not None
    return Table(
        name=name,
        X=X,
        y=np.asarray(y, dtype=np.float64 if real else np.int64),
        n_classes=0 if real else max(2, int(y.max()) + 1),
        bounds=_bounds(X.shape[1], signed=unit or schema is None),
        max_norm=max_norm,
        target_bounds=loaded.target_bounds,
        drawn=drawn,
    )


@lru_cache(maxsize=1)
def generated(data: str, rows: int | None, features: int | None, seed: int) -> Table:
    """Generate a data set, the same for the same seed; 0 is the recipe's own seed."""
    n, d = rows or ROWS[data], features or FEATURES[data]
    X, y = GENERATED[data](n, d, seed=_SEEDS.get(data, 0) + seed)
    X = X.astype(np.float32)
    default = (n, d) == (ROWS[data], FEATURES[data])
    name = data if default else f"{data} ({n:,} rows, {d:,} columns)"
    name = _noted(name, f"seed {seed}") if seed else name
    largest = _LARGEST.get(data, 1.0)
    bounds = largest * _bounds(d, signed=True)
    norm = 1.0 if data == "sphere" else largest * float(np.sqrt(d))
    return Table(name, X, y, 2, bounds, norm)


def _noted(name: str, note: str) -> str:
    return f"{name[:-1]}, {note})" if name.endswith(")") else f"{name} ({note})"


def norms(X: Any) -> NDArray[Any]:
    """Return the Euclidean norm of each row, dense or CSR."""
    if sp.issparse(X):
        return np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return np.linalg.norm(X, axis=1)


def scaled_down(X: Any, norm: float) -> Any:
    """Scale rows of larger norm down to ``norm``."""
    scale = norm / np.maximum(norms(X), norm)
    return sp.csr_array(sp.diags_array(scale) @ X) if sp.issparse(X) else X * scale[:, None]


def _unit_rows(X: Any) -> Any:
    scale = np.maximum(norms(X), 1e-30)
    return sp.csr_array(sp.diags_array(1 / scale) @ X) if sp.issparse(X) else X / scale[:, None]


def _bounds(columns: int, *, signed: bool) -> NDArray[np.float64]:
    """Return bounds: [0, 1] for schemas, [-1, 1] for generated data and data without a schema."""
    return np.tile([-1.0 if signed else 0.0, 1.0], (columns, 1))


def _of_attacks(schema: Schema) -> Schema:
    """Return the schema of KDD Cup 99 with denial-of-service attacks against the rest."""
    names = [text for name in DENIAL_OF_SERVICE for text in (name, f"{name}.")]
    assert schema.target is not None
    target = replace(schema.target, classes={"denial of service": tuple(names)}, other="other")
    return replace(schema, target=target)


def _unscaled(schema: Schema) -> Schema:
    """Return the schema with numbers left as they are."""
    columns = {
        name: Numeric() if isinstance(column, Numeric) else column
        for name, column in schema.columns.items()
    }
    return replace(schema, columns=columns)
