"""Time and memory of reading a file and fitting a model, as ratios measured in one run.

    python -m bench.studies.tables_speed [--rows 5000000]

* Time: reading and encoding UCI Adult from CSV, and the fit, against ``pandas.read_csv`` (which
  encodes nothing) and the same fit on a table that is in memory already. The real file is used if
  ``DISCREET_DATA`` names its folder, generated records of the same shape if not.
* Memory: how far the process grows while it reads a generated CSV of ``--rows`` records in the
  shape of Adult and fits, against the encoded table (dense or CSR, whichever is smaller).

Each measurement runs in a process of its own. Exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from discreet import LogisticRegression
from discreet.tables.columns import Categorical
from discreet.tables.reading import read
from discreet.tables.schema import FileFormat, Schema
from discreet_bench import datasets

TARGET, CLASSES = "income", ("<=50K", ">50K")
ADULT_ROWS = 32_561
TIME_BAR, MEMORY_BAR = 3.0, 1.5
REPEATS = 5
CHUNK = 100_000


def schema() -> Schema:
    """What is public about Adult; the file has a header."""
    return replace(datasets.schema("adult"), file=FileFormat())


def generate(path: Path, n_rows: int) -> None:
    """Write records in the shape of Adult, a chunk at a time."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    columns = {**schema().columns, TARGET: Categorical(CLASSES)}
    writer = None
    for start in range(0, n_rows, CHUNK):
        size = min(CHUNK, n_rows - start)
        cells = {}
        for name, column in columns.items():
            if isinstance(column, Categorical):
                texts = pa.array(column.values)
                cells[name] = texts.take(pa.array(rng.integers(0, len(texts), size)))
            else:
                cells[name] = pa.array(rng.integers(int(column.low), int(column.high) + 1, size))
        table = pa.table(cells)
        if writer is None:
            options = csv.WriteOptions(quoting_style="none")
            writer = csv.CSVWriter(path, table.schema, write_options=options)
        writer.write(table)
    if writer is not None:
        writer.close()


def write_adult(path: Path) -> str:
    """Write Adult's training file with a header; returns what it is."""
    folder = os.environ.get("DISCREET_DATA")
    if not folder:
        generate(path, ADULT_ROWS)
        return "generated"
    with path.open("wb") as file:
        file.write((",".join(schema().file_names) + "\n").encode())
        with lzma.open(Path(folder) / "adult" / "adult.data.xz") as packed:
            shutil.copyfileobj(packed, file)
    return "UCI"


def fit(X: Any, y: Any) -> None:
    """The fit whose time and memory count: that of ``discreet fit`` without further options."""
    LogisticRegression(epsilon=1.0, delta=1e-9, classes=np.arange(len(CLASSES))).fit(X, y)


def warm_up(path: Path) -> None:
    """Import and compile everything, on a few rows of the file."""
    short = path.with_name("short.csv")
    with path.open("rb") as file:
        short.write_bytes(b"".join(line for line, _ in zip(file, range(201), strict=False)))
    fit(*read(short, schema()))


def seconds(path: Path, how: str) -> dict[str, float]:
    """Median seconds of reading and of fitting."""
    import pandas as pd

    warm_up(path)
    X, y = read(path, schema())
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        if how == "discreet":
            X, y = read(path, schema())
        else:
            pd.read_csv(path)
        middle = time.perf_counter()
        fit(X, y)
        times.append((middle - start, time.perf_counter() - middle))
    reading, fitting = np.median(times[1:], axis=0)
    return {"read": float(reading), "fit": float(fitting)}


def memory(path: Path) -> dict[str, float]:
    """Growth of the process, in bytes, up to the end of reading and of the fit."""
    warm_up(path)
    before = _peak()
    start = time.perf_counter()
    X, y = read(path, schema())
    read_seconds, read_peak = time.perf_counter() - start, _peak() - before
    start = time.perf_counter()
    fit(X, y)
    n_rows, wide = X.shape[0], schema()
    size = n_rows * min(4 * wide.width, 8 * wide.groups + 4)
    return {
        "rows": n_rows,
        "size": size,
        "read": read_peak / size,
        "fit": (_peak() - before) / size,
        "read_seconds": read_seconds,
        "fit_seconds": time.perf_counter() - start,
    }


def _peak() -> int:
    """The most memory this process has held so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _apart(*arguments: str) -> dict[str, float]:
    """The result of one measurement in a process of its own."""
    command = [sys.executable, "-m", "bench.studies.tables_speed", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def main() -> int:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="records for the memory bar")
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        warnings.simplefilter("ignore")
        what, file = options.measure
        found = memory(Path(file)) if what == "memory" else seconds(Path(file), what)
        print(json.dumps(found))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "adult.csv"
        kind = write_adult(path)
        ours = _apart("--measure", "discreet", str(path))
        pandas = _apart("--measure", "pandas", str(path))
        ratio = sum(ours.values()) / sum(pandas.values())
        print(
            f"Adult ({kind}), read + fit / (pandas.read_csv + fit in memory): {ratio:.2f} "
            f"(bar {TIME_BAR:g})\n"
            f"  discreet {ours['read']:.3f} s + {ours['fit']:.3f} s, "
            f"pandas {pandas['read']:.3f} s + {pandas['fit']:.3f} s"
        )
        path = Path(folder) / "large.csv"
        generate(path, options.rows)
        grown = _apart("--measure", "memory", str(path))
        print(
            f"{grown['rows']:,} rows of {grown['size'] / 2**20:.0f} MB encoded, from "
            f"{path.stat().st_size / 2**20:.0f} MB of CSV: growth of the process / encoded table: "
            f"{grown['fit']:.2f} (bar {MEMORY_BAR:g})\n"
            f"  {grown['read']:.2f} after reading ({grown['read_seconds']:.1f} s), the fit took "
            f"{grown['fit_seconds']:.1f} s"
        )
    return 0 if ratio <= TIME_BAR and grown["fit"] <= MEMORY_BAR else 1


if __name__ == "__main__":
    sys.exit(main())
