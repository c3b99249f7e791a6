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
import hashlib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from discreet.objectives.announce import watch

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""Options of every kernel; no wrapper for callbacks from C is compiled, as there are none."""


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

    watch()
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
