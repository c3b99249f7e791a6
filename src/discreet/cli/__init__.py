"""The command line: ``discreet --help``."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command ``discreet``."""
    try:
        from discreet.cli.app import run
    except ImportError as missing:
        sys.exit(
            f'The command needs {missing.name}: pip install "discreet[cli]". '
            "The Python package works without it."
        )
    except KeyboardInterrupt:
        sys.exit(130)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ε must not stop a command
            stream.reconfigure(errors="backslashreplace")
    log = logging.getLogger("discreet.compile")  # one line, the first time on a machine
    log.setLevel(logging.ERROR if "--quiet" in sys.argv else logging.INFO)
    if "--quiet" not in sys.argv:
        log.addHandler(logging.StreamHandler(sys.stderr))
    code = run(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command is over, and so is its report
    try:
        sys.stdout.flush()
    except OSError:  # the reader has gone; without this, Python would complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
