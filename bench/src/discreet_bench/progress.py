"""A line for each run that ends, in a file that survives whatever happens to the process.

benchopt tells of a run when it is done, in the process that started the runs, without a word on how
many there are or how long the rest will take. Workers therefore append to one file, and whoever
waits counts its lines.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

__all__ = ["JOBS", "LOG", "Count", "note"]

LOG = "DISCREET_BENCH_LOG"
"""Environment variable with the file's name; without it nothing is written."""

JOBS = "DISCREET_BENCH_JOBS"
"""Environment variable with the number of processes that run side by side."""


def note(objective: Any) -> None:
    """Note that a run of this objective has ended."""
    path = os.environ.get(LOG)
    if not path:
        return
    context = objective._run_context
    parts = (context.dataset_name, context.objective_name, context.solver_name)
    entry = {"run": " · ".join(parts), "repeat": context.repetition, "at": time.time()}
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:  # one write: lines of several workers do not mix
        os.write(descriptor, (json.dumps(entry, ensure_ascii=False) + "\n").encode())
    finally:
        os.close(descriptor)


class Count:
    """How many runs have ended since this was made; each look reads only what is new."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = log.stat().st_size if log.exists() else 0
        self._lines = 0

    def __call__(self) -> int:
        """Look again."""
        if self._log.exists():
            with self._log.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            self._offset += len(new)
            self._lines += new.count(b"\n")
        return self._lines
