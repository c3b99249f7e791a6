"""The command line: ``discreet --help``."""

from __future__ import annotations

import atexit
import io
import logging
import os
import signal
import sys
from typing import NoReturn

from discreet.cli import session

__all__ = ["main"]


def main() -> None:
    """Run the command ``discreet``."""
    session.handle_signals()
    try:
        from discreet.cli.app import run
    except ImportError as missing:
        sys.exit(
            f'The command needs {missing.name}: pip install "discreet[cli]". '
            "The Python package works without it."
        )
    except KeyboardInterrupt:
        sys.exit(128 + (session.last_signal() or signal.SIGINT))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ε must not stop a command
            stream.reconfigure(errors="backslashreplace")
    log = logging.getLogger("discreet.compile")  # one line, the first time on a machine
    log.setLevel(logging.ERROR if "--quiet" in sys.argv else logging.INFO)
    if "--quiet" not in sys.argv:
        log.addHandler(logging.StreamHandler(sys.stderr))
    code = run(sys.argv[1:])
    session.ignore_signals()  # the command is over, and so is its report
    try:
        sys.stdout.flush()
    except OSError:  # the reader has gone; without this, Python would complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if session.last_signal() is not None:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    """End the process without freeing what a signal left in the middle of its work.

    What Python does at exit (closing logs, ending worker processes) is done; the command itself
    has cleaned up before.
    """
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(code)
