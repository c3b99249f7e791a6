"""The log of discreet: what was asked, spent and written, by Python's `logging`.

Every record is made of settings, budgets and names of files. None holds a value of a table, a
result, or anything that was computed from rows; a test reads what a session logs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_silent: ContextVar[bool] = ContextVar("silent", default=False)
_LOG = logging.getLogger("discreet")
_LOG.addHandler(logging.NullHandler())  # without handlers of its own, a program shows nothing
_LOG.addFilter(lambda record: not _silent.get())

note = _LOG.info
"""Log a public fact: a text and its values."""


@contextmanager
def unlogged() -> Iterator[None]:
    """Log nothing while the block runs: even the number of records would be a secret."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)
