"""Compile kernels with numba: the one place where the library does so.

Kernels are compiled when they are first called and kept on disk, beside the installed package or in
``NUMBA_CACHE_DIR`` if that is set, so later processes load them. Where no folder can be written (a
read-only container without a home), they are compiled anew in each process.

Kernels release the interpreter lock and compute in strict IEEE arithmetic: no ``fastmath``, and
division by zero gives infinity as in NumPy. Proofs rest on this (docs/proofs/summation.md).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import importlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""Options of every kernel; no wrapper for callbacks from C is compiled, as there are none."""

_log = logging.getLogger("discreet.compile")


class KernelModule:
    """A module of kernels that is imported when its first kernel is used: numba is slow to load."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        value = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


def kernel(function: Callable[..., Any]) -> Any:
    """Return ``function`` as a kernel, to be compiled for the types of its first arguments."""
    from numba import njit

    _watch()
    try:
        compiled: Any = njit(function, cache=True, **OPTIONS)
    except RuntimeError:  # numba found no folder that it can write its cache to
        return njit(function, **OPTIONS)
    # Compiled code holds constants and kernels of other files, but numba only looks at the file of
    # the function: it would load code from before a change elsewhere.
    with contextlib.suppress(AttributeError):  # of numba's, not public
        compiled._cache._cache_file._source_stamp = _sources()
    return compiled


@functools.cache
def _sources() -> str:
    """Return a digest of all files that end up in compiled code."""
    package = Path(__file__).parent.parent
    files = {*package.glob("objectives/*.py"), *package.glob("*/*kernels.py")}
    contents = [file.read_bytes() for file in (*sorted(files), package / "rows" / "bounds.py")]
    return hashlib.sha256(b"".join(contents)).hexdigest()


def subroutine(function: Callable[..., Any]) -> Any:
    """Return ``function`` for kernels to call: Python cannot, which makes it quicker to compile."""
    from numba import njit

    options = OPTIONS | {"no_cpython_wrapper": True}
    return njit(function, **options)


def inlined(function: Callable[..., Any]) -> Any:
    """Return ``function`` as a part of kernels that call it, compiled together with them."""
    from numba import njit

    return njit(function, inline="always", **OPTIONS)


@functools.cache
def _watch() -> None:
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
