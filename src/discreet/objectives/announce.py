"""Announcement of the first kernel that is compiled in a process, which takes a few seconds."""

from __future__ import annotations

import functools
import gc
import importlib
import logging
from typing import Any

_log = logging.getLogger("discreet.compile")


@functools.cache
def watch() -> None:
    """Announce the first kernel that is compiled in this process (not one that is loaded).

    While kernels are compiled, no garbage is collected: numba makes millions of objects, and to go
    through them again and again would take a seventh of the time.
    """
    event: Any = importlib.import_module("numba.core.event")

    class Listener(event.Listener):  # type: ignore[misc]
        """Kernels compile one at a time, under a lock of numba's, and within each other."""

        announced = False
        depth = 0
        collects = False

        def on_start(self, started: Any) -> None:
            if not _is_own(started):
                return
            if not self.announced:
                self.announced = True
                _announce(
                    "Compiling numerical code for its first use. This takes a few seconds and "
                    "happens once: later processes load the result, if its folder "
                    "(NUMBA_CACHE_DIR) can be written."
                )
            if self.depth == 0:
                self.collects = gc.isenabled()
                gc.disable()
            self.depth += 1

        def on_end(self, ended: Any) -> None:
            if not _is_own(ended):
                return
            self.depth -= 1
            if self.depth == 0 and self.collects:
                gc.enable()

    event.register("numba:compile", Listener())


def _is_own(event: Any) -> bool:
    """Return whether an event is about a function of this package."""
    dispatcher = (event.data or {}).get("dispatcher")
    module = getattr(getattr(dispatcher, "py_func", None), "__module__", None)
    return str(module).partition(".")[0] == __package__.partition(".")[0]


def _announce(text: str) -> None:
    """Log a warning, or write it to standard error if the program has set up no logging.

    A higher level for the logger ``discreet.compile``, or for ``discreet``, silences it.
    """
    logger: logging.Logger | None = _log
    while logger is not None:
        if any(not isinstance(each, logging.NullHandler) for each in logger.handlers):
            _log.warning(text)
            return
        logger = logger.parent if logger.propagate else None
    shown = logging.StreamHandler()
    shown.setFormatter(logging.Formatter("discreet: %(message)s"))
    _log.addHandler(shown)
    _log.warning(text)
    _log.removeHandler(shown)
