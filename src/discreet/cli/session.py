"""The running command: files that it writes, what it is charged, and the signal that ends it.

Whoever repeats a command that was told to have failed spends its budget twice, so every report of
a failure says what was written and what is spent. The state is that of the process: a process
runs one command at a time.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any


@dataclass
class Session:
    """State of one run of the command.

    Attributes
    ----------
    outputs : dict
        Output files, each with its identity before it was written.
    spends : bool
        The command releases something about rows, for ``epsilon`` and ``delta``.
    charges : list
        Pairs of a data set of a ledger and the entry that was reserved in it.
    ledger : bool
        A ledger counts what the command spends.
    released : bool
        The result was computed, so its budget is spent.
    """

    outputs: dict[Path, tuple[int, ...] | None] = field(default_factory=dict)
    spends: bool = False
    epsilon: float = 0.0
    delta: float = 0.0
    charges: list[tuple[Any, int]] = field(default_factory=list)
    ledger: bool = False
    released: bool = False


_session = Session()
_signal: int | None = None  # the last signal that interrupted the process
_interrupted: FrameType | None = None  # what it interrupted: see `handle_signals`


def begin() -> None:
    """Forget the command that ran before."""
    global _session
    _session = Session()


def current() -> Session:
    """Return the state of the running command."""
    return _session


def watch_outputs(*paths: Path) -> None:
    """Remember output files as they are now."""
    _session.outputs.update({path: _identity(path) for path in paths})


def written() -> list[str]:
    """Return the output files that were written since `watch_outputs`."""
    return [str(path) for path, before in _session.outputs.items() if _identity(path) != before]


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def will_spend(epsilon: float, delta: float, *, ledger: bool) -> None:
    """Note the budget of the command, and whether a ledger counts it."""
    _session.spends, _session.ledger = True, ledger
    _session.epsilon, _session.delta = epsilon, delta


def spent() -> str:
    """Return a sentence on what the command has spent, to end the report of a failure."""
    if not _session.spends:
        return ""
    budget = f"ε = {_session.epsilon:g}, δ = {_session.delta:g}"
    if _session.charges:
        return " ".join(_settled(dataset, entry, budget) for dataset, entry in _session.charges)
    if _session.ledger:
        return "Nothing was charged to the ledger."
    if _session.released:
        return f"{budget} is spent."
    return "Nothing was released, so nothing is spent."


def _settled(dataset: Any, entry: int, budget: str) -> str:
    """Return what the ledger says about an entry."""
    where = f"Entry {entry} of the ledger, data set {dataset.name!r},"
    try:
        status = {row["entry"]: row["status"] for row in dataset.records()}.get(entry)
    except Exception:  # without memory or disk, what is certain is that it was reserved
        status = None
    if status == "returned":
        return f"{where} was returned: nothing is spent."
    return f"{where} counts {budget}, which is spent."


def handle_signals() -> None:
    """Let SIGTERM interrupt a command as Ctrl-C does: it cleans up, reports, and ends.

    The interrupted frame is kept with all it refers to. Threads of a library that was interrupted
    may still run, and freeing their objects would abort the process.
    """
    owner = os.getpid()

    def interrupt(number: int, frame: FrameType | None) -> None:
        global _signal, _interrupted
        if os.getpid() != owner:  # a forked worker is ended at once, as by default
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        _signal, _interrupted = number, frame
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


def last_signal() -> int | None:
    """Return the number of the signal that interrupted this process, if one did."""
    return _signal


def ignore_signals() -> None:
    """Let nothing interrupt the end of a command that has reported."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
