"""A line for each run that ends, in a file that survives whatever happens to the process.

benchopt tells of a run when it is done, in the process that started the runs, without a word on how
many there are or how long the rest will take. Workers therefore append to one file, and whoever
waits reads it: `noted` writes, `Watcher` reads.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["LOG", "noted", "read_log"]

LOG = "DISCREET_BENCH_LOG"
"""Environment variable with the file's name; without it nothing is written."""


@contextmanager
def noted(objective: Any) -> Iterator[None]:
    """Note that a run of this objective has ended, and whether its judgement failed."""
    failure = ""
    try:
        yield
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
        raise
    finally:
        path = os.environ.get(LOG)
        if path:
            _append(Path(path), {"run": _key(objective), "at": time.time(), "failure": failure})


def _key(objective: Any) -> str:
    context = objective._run_context
    return " · ".join(
        [context.dataset_name, context.objective_name, context.solver_name, str(context.repetition)]
    )


def _append(path: Path, entry: dict[str, Any]) -> None:
    line = (json.dumps(entry, ensure_ascii=False) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line)  # one write: lines of several workers do not mix
    finally:
        os.close(descriptor)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines so far; one that is still being written is left for later."""
    if not path.exists():
        return []
    complete = path.read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in complete.splitlines()]
