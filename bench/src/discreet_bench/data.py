"""Data sets of the benchmark, cut to size, in the form that its objective takes."""

from __future__ import annotations

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
    "Table",
    "available",
    "generated",
    "norms",
    "public",
    "scaled_down",
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
    "industrial": synthetic.synthetic_low,
}
"""Generated data sets. ``industrial`` replaces production data that are not public: the recipe of
Synthetic-L with any number of rows and columns."""

_SOURCES = {"mnist-zero": "mnist"}
FEATURES = {"synthetic-l": 20, "synthetic-h": 5000, "sphere": 5, "industrial": 23}
ROWS = {"synthetic-l": 10_000, "synthetic-h": 5000, "sphere": 10_000, "industrial": 4_000_000}


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
    """

    name: str
    X: Any
    y: NDArray[Any]
    n_classes: int
    bounds: NDArray[np.float64]
    max_norm: float
    target_bounds: tuple[float, float] | None = None


def available(data: str) -> str | None:
    """Return why a data set cannot be loaded without a download, or None if it can."""
    source = _SOURCES.get(data, data)
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
        A name of `discreet_bench.datasets`, or ``"mnist-zero"``: the digit 0 against the rest.
    rows : int or None
        Keep this many, picked at random once and for all.
    columns : int or None
        Keep this many, likewise.
    unit : bool
        Take numbers as they are and divide every row by its norm, instead of the public scaling.
    """
    source = _SOURCES.get(data, data)
    schema = datasets.schema(source)
    # Pixels have no schema: their public scaling is one number, which dividing by a norm undoes.
    raw = _unscaled(schema) if unit and source != "mnist" and schema is not None else None
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
    if columns is not None and columns < X.shape[1]:
        X = np.ascontiguousarray(X[:, np.sort(rng.permutation(X.shape[1])[:columns])])
        name = _noted(name, f"{columns} columns")
    real = loaded.target_bounds is not None
    return Table(
        name=name,
        X=X,
        y=np.asarray(y, dtype=np.float64 if real else np.int64),
        n_classes=0 if real else max(2, int(y.max()) + 1),
        bounds=_bounds(X.shape[1], signed=unit or schema is None),
        max_norm=max_norm,
        target_bounds=loaded.target_bounds,
    )


@lru_cache(maxsize=1)
def generated(data: str, rows: int | None, features: int | None, seed: int) -> Table:
    """Generate a data set, the same for the same seed."""
    n, d = rows or ROWS[data], features or FEATURES[data]
    X, y = GENERATED[data](n, d, seed=seed)
    X = X.astype(np.float32)
    default = (n, d) == (ROWS[data], FEATURES[data])
    name = data if default else f"{data} ({n:,} rows, {d:,} columns)"
    name = _noted(name, f"seed {seed}") if seed else name
    return Table(
        name, X, y, 2, _bounds(d, signed=True), 1.0 if data == "sphere" else float(np.sqrt(d))
    )


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


def _unscaled(schema: Schema) -> Schema:
    """Return the schema with numbers left as they are."""
    columns = {
        name: Numeric() if isinstance(column, Numeric) else column
        for name, column in schema.columns.items()
    }
    return replace(schema, columns=columns)
