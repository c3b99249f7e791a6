"""The command line: ``discreet --help``.

The process belongs to the command: `main` handles its signals, from before the first import that
takes time until the command has reported.
"""

from __future__ import annotations

import atexit
import io
import logging
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

__all__ = ["handle_signals", "last_signal", "main"]

_signal: int | None = None  # the last signal that interrupted the process
_interrupted: FrameType | None = None  # the frame that it interrupted: see `handle_signals`


def main() -> None:
    """Run the command ``discreet``."""
    handle_signals()
    try:
        from discreet.cli.app import run
    except ImportError as missing:
        sys.exit(
            f'The command needs {missing.name}: pip install "discreet[cli]". '
            "The Python package works without it."
        )
    except KeyboardInterrupt:
        sys.exit(128 + (last_signal() or signal.SIGINT))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ε must not stop a command
            stream.reconfigure(errors="backslashreplace")
    log = logging.getLogger("discreet.compile")  # one line, the first time on a machine
    log.setLevel(logging.ERROR if "--quiet" in sys.argv else logging.INFO)
    if "--quiet" not in sys.argv:
        log.addHandler(logging.StreamHandler(sys.stderr))
    code = run(sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM):  # ignored from here on: the command has reported
        signal.signal(number, signal.SIG_IGN)
    try:
        sys.stdout.flush()
    except OSError:  # the reader has gone; without this, Python would complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if last_signal() is not None:
        _leave(code)
    sys.exit(code)


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
        _signal = number
        _interrupted = frame
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


def last_signal() -> int | None:
    """Return the number of the signal that interrupted this process, if one did."""
    return _signal


def _leave(code: int) -> NoReturn:
    """End the process without freeing what a signal left in the middle of its work.

    What Python does at exit (closing logs, ending worker processes) is done; the command itself
    has cleaned up before.
    """
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(code)
