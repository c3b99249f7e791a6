"""Large tables in parts, one thread each.

Kernels release the interpreter lock, so plain threads are enough. They are started for one call
and joined, which costs some tenths of a millisecond but survives fork, nested threads and worker
processes, where pools hang or crash. Small tables are not split.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["in_parts", "threads"]

Result = TypeVar("Result")

ENTRIES_WORTH_A_THREAD = 2**22
"""Entries of X (32 MB) that take long enough to be worth starting a thread for."""


def threads() -> int:
    """How many threads to use: OMP_NUM_THREADS if set (joblib sets it in workers), else all."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_parts(
    work: Callable[[int, int], Result], n_rows: int, n_entries: int, block_rows: int
) -> list[Result]:
    """Call ``work(start, stop)`` for consecutive parts of the rows; results in their order.

    Parts begin at multiples of ``block_rows``. An exception in a part is raised here, after all
    parts have ended.
    """
    count = max(1, min(threads(), n_entries // ENTRIES_WORTH_A_THREAD))
    blocks = -(-n_rows // block_rows)
    edges = [min(blocks * k // count * block_rows, n_rows) for k in range(count + 1)]
    if count == 1:
        return [work(0, n_rows)]
    results: list[Result | None] = [None] * count
    errors: list[BaseException] = []

    def run(k: int) -> None:
        try:
            results[k] = work(edges[k], edges[k + 1])
        except BaseException as error:  # handed to the caller below
            errors.append(error)

    others = [threading.Thread(target=run, args=(k,)) for k in range(1, count)]
    for thread in others:
        thread.start()
    run(0)
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
    return results  # type: ignore[return-value]
