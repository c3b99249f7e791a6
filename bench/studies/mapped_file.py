"""Time per stage and memory of a default fit on a memory-mapped file larger than usual memory.

    python -m bench.studies.mapped_file [--rows 18000000] [--columns 294] [--folder FOLDER]

The file has float32 entries, row by row: 21 GB by default. It is removed at the end. The reference
is one pass of ``X @ v`` and ``X.T @ r``, a block at a time, over the same file.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench.studies.sources_speed import anonymous
from discreet import LogisticRegression

BLOCK = 1 << 15


def write(path: Path, n: int, d: int) -> np.ndarray:
    """Write uniform entries; return labels that depend on them."""
    rng, weights = np.random.default_rng(0), np.random.default_rng(1).normal(size=d)
    mapped = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    y = np.empty(n, dtype=np.int8)
    for start in range(0, n, BLOCK):
        block = rng.random((min(BLOCK, n - start), d), dtype=np.float32) - 0.5
        mapped[start : start + len(block)] = block
        y[start : start + len(block)] = block @ weights + rng.normal(size=len(block)) > 0
    mapped.flush()
    return y


def reference(X: np.ndarray) -> None:
    """Multiply by a vector on either side, once."""
    v, total = np.ones(X.shape[1], dtype=X.dtype), np.zeros(X.shape[1])
    for start in range(0, len(X), BLOCK):
        block = X[start : start + BLOCK]
        total += block.T @ (block @ v)


@contextmanager
def peak() -> Iterator[list[float]]:
    """Watch the largest anonymous memory of this process, in MB."""
    largest, done = [anonymous()], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            largest[0] = max(largest[0], anonymous())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield largest
    finally:
        done.set()
        thread.join()


def main() -> None:
    """Write the file, fit the default, and print a line per stage."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=18_000_000)
    parser.add_argument("--columns", type=int, default=294)
    parser.add_argument("--folder", type=Path, help="where the file is written")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "rows.npy"
        start = time.perf_counter()
        y = write(path, given.rows, given.columns)
        print(f"write {path.stat().st_size / 1e9:.1f} GB: {time.perf_counter() - start:.0f} s")
        X = np.load(path, mmap_mode="r")
        start = time.perf_counter()
        reference(X)
        a_pass = time.perf_counter() - start
        print(f"X @ v and X.T @ r: {a_pass:.1f} s", flush=True)
        stamps = []
        model = LogisticRegression(
            1.0, 1e-9, classes=[0, 1], progress=lambda at: stamps.append(time.perf_counter())
        )
        model.fit(X[:5_000], y[:5_000])  # compiles
        stamps.clear()
        start = time.perf_counter()
        with peak() as memory:
            model.fit(X, y)
        whole, prepared = time.perf_counter() - start, stamps[0] - start
        print(f"check, preparation and first iteration: {prepared:.0f} s")
        print(f"{len(stamps) - 1} further iterations: {stamps[-1] - stamps[0]:.0f} s")
        print(f"whole fit: {whole:.0f} s, {whole / a_pass:.1f} times the pass above")
        print(f"anonymous memory: {memory[0]:.0f} MB")
        print(f"accuracy on the first rows: {model.score(X[:200_000], y[:200_000]):.4f}")


if __name__ == "__main__":
    main()
