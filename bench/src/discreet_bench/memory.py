"""How much memory a piece of work takes at its peak."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Peak", "peak_memory"]

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """Filled in when the work is done: growth of the process at its peak, in MiB, or NaN."""

    mebibytes: float = float("nan")


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure by how much this process grows at most. Linux only; elsewhere the answer is NaN."""
    peak = Peak()
    try:
        _RESET.write_text("5")  # sets the highest mark back to what is used now
        before = _kibibytes("VmRSS")
    except OSError:
        yield peak
        return
    yield peak
    peak.mebibytes = max(0.0, _kibibytes("VmHWM") - before) / 1024


def _kibibytes(name: str) -> float:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return float(found[1]) if found else float("nan")
