"""Public data sets in the form that the studies here take: dense rows, and targets of -1 and +1.

    DISCREET_DATA=folder python -m bench.studies.datasets

prints the shapes. Where they come from, how they are encoded and where that differs from the
papers is told by ``discreet_bench.datasets.describe``. What these studies choose beyond that:

================  ===========================================================================
occupancy         the training file.
kddcup99          the continuous columns of the 10 percent file, normal against attack.
mnist             the training images, digit 0 against the rest.
================  ===========================================================================
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from discreet.tables.columns import Numeric
from discreet.tables.schema import Schema
from discreet_bench import datasets

__all__ = ["NAMES", "Data", "load"]

NAMES = (
    "bank",
    "credit-default",
    "wine-quality",
    "bike-sharing",
    "banknote",
    "occupancy",
    "kddcup99",
    "mnist",
    "adult",
)
_SOURCE = {"kddcup99": "kddcup99-continuous"}
_SPLIT = {"occupancy": "train", "mnist": "train"}


class Data(NamedTuple):
    """An encoded data set.

    Attributes
    ----------
    X, y
        Float64 table, and targets: -1 and +1, or real numbers.
    max_norm
        Public bound on the norm of every row.
    target_bounds
        Public bounds of a real target, None for a class.
    """

    X: np.ndarray
    y: np.ndarray
    max_norm: float
    target_bounds: tuple[float, float] | None = None


def load(name: str, where: Path | None = None, *, raw: bool = False, check: bool = True) -> Data:
    """Read and encode a data set.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    where : Path, optional
        The folder of the data; by default where `discreet_bench.datasets.load` looks.
    raw : bool
        Leave numbers as they are, for studies that scale rows; ``max_norm`` is then infinite.
    check : bool
        Whether to insist on the publisher's numbers of rows and labels.
    """
    if name not in NAMES:
        raise SystemExit(f"unknown data set {name!r}; known: {', '.join(NAMES)}")
    source = _SOURCE.get(name, name)
    public = datasets.schema(source)
    data = datasets.load(
        source,
        split=_SPLIT.get(name),
        schema=_unscaled(public) if raw and name != "mnist" else None,
        data_dir=where,
        sparse=False,
        dtype="float64",
        check=check,
    )
    X, y = data.X, data.y
    if name == "mnist":
        X = np.round(X * 255) if raw else X
        y = y == 0
    if data.target_bounds is None:
        y = np.where(y, 1.0, -1.0)
    return Data(X, y, np.inf if raw else float(data.max_norm), data.target_bounds)


def _unscaled(schema: Schema) -> Schema:
    """The same schema with numbers left as they are."""
    columns = {
        name: Numeric() if isinstance(column, Numeric) else column
        for name, column in schema.columns.items()
    }
    return replace(schema, columns=columns)


def main() -> None:
    """Print the shape of every data set, and what its targets are."""
    print("| data | n | d | max. norm | target |\n|---|---:|---:|---:|---|")
    for name in NAMES:
        data = load(name)
        target = f"{(data.y > 0).sum():,} positive"
        if data.target_bounds:
            target = f"real in {data.target_bounds}, sum {data.y.sum():,.0f}"
        n, d = data.X.shape
        print(f"| {name} | {n:,} | {d} | {data.max_norm:.3f} | {target} |", flush=True)


if __name__ == "__main__":
    main()
