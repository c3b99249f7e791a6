"""Time and memory of ``schema.open`` on a folder of Parquet files, against pyarrow alone.

    python -m bench.studies.sources_speed [--rows 4000000] [--folder FOLDER]

pyarrow reads the same files and converts every column to float32, row by row: numbers as they are,
texts as the codes of their dictionary. Each run is a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.tables import Categorical, Numeric, Schema, Target

FILES, BATCH = 8, 1 << 16
NUMBERS = {"numbers": 100, "mixed": 40}
TEXTS = {"numbers": 0, "mixed": 20}


def schema(kind: str) -> Schema:
    columns = {f"x{i}": Numeric(-4, 4) for i in range(NUMBERS[kind])}
    for i in range(TEXTS[kind]):
        columns[f"c{i}"] = Categorical([f"value {j}" for j in range(3 + i)], unseen="refuse")
    return Schema(columns, Target("y", ["no", "yes"]))


def write(folder: Path, kind: str, n_rows: int) -> None:
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(FILES):
        n = n_rows // FILES
        columns = {f"x{i}": pa.array(rng.normal(size=n)) for i in range(NUMBERS[kind])}
        for i in range(TEXTS[kind]):
            codes = pa.array(rng.integers(0, 3 + i, n).astype(np.int32))
            texts = pa.array([f"value {j}" for j in range(3 + i)])
            cells = pa.DictionaryArray.from_arrays(codes, texts)
            columns[f"c{i}"] = cells if i % 2 else cells.cast(pa.string())
        columns["y"] = pa.array(np.where(rng.random(n) < 0.5, "yes", "no"))
        pq.write_table(pa.table(columns), folder / f"part{number}.parquet")


def by_pyarrow(folder: Path, threads: bool) -> None:
    files = sorted(folder.iterdir())
    n_rows = sum(pq.ParquetFile(file).metadata.num_rows for file in files)
    names = [name for name in pq.ParquetFile(files[0]).schema_arrow.names if name != "y"]
    out, at = np.empty((n_rows, len(names)), dtype=np.float32), 0
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(BATCH, use_threads=threads):
            for place, name in enumerate(names):
                cells = batch.column(name)
                if pa.types.is_string(cells.type):
                    cells = cells.dictionary_encode()
                if pa.types.is_dictionary(cells.type):
                    cells = cells.indices
                out[at : at + len(cells), place] = cells.to_numpy(zero_copy_only=False)
            at += batch.num_rows


def by_discreet(data: Path, kind: str, **options: object) -> None:
    schema(kind).open(data, **options)


def anonymous() -> float:
    """Memory of this process in MB, without the pages of files."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) / 1024


def measure(results: object, folder: Path, kind: str, how: str) -> None:
    work = {
        "pyarrow": lambda: by_pyarrow(folder, False),
        "pyarrow, threads": lambda: by_pyarrow(folder, True),
        "open, in memory": lambda: by_discreet(folder, kind, memory="1TB"),
        "open, in a file": lambda: by_discreet(folder, kind, memory=0, folder=folder.parent),
    }[how]
    before, peak, done = anonymous(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start, used = time.perf_counter(), time.process_time()
    work()
    times = time.perf_counter() - start, time.process_time() - used
    done.set()
    watcher.join()
    results.put((*times, peak[0] - before))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    settings = parser.parse_args()
    hows = ("pyarrow", "pyarrow, threads", "open, in memory", "open, in a file")
    fresh = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=settings.folder) as root:
        for kind in NUMBERS:
            folder = Path(root) / kind
            write(folder, kind, settings.rows)
            best = dict.fromkeys(hows, (np.inf, np.inf, 0.0))
            for _ in range(settings.repeats):
                for how in hows:
                    results = fresh.Queue()
                    run = fresh.Process(target=measure, args=(results, folder, kind, how))
                    run.start()
                    run.join()
                    if run.exitcode:
                        raise SystemExit(f"{how} failed on {kind}.")
                    wall, used, memory = results.get()
                    old = best[how]
                    best[how] = min(old[0], wall), min(old[1], used), max(old[2], memory)
            for how, (wall, used, memory) in best.items():
                print(
                    f"{kind:8} {how:18} {wall:6.1f} s, {used:6.1f} s of processors, "
                    f"{settings.rows / wall / 1e6:5.2f} million rows/s, {memory:6.0f} MB"
                )
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
