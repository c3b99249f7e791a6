"""Threads of the linear algebra behind NumPy."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

__all__ = ["one_thread"]


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """Keep BLAS to one thread, where that can be asked for: its own wait for each other."""
    controller = _controller()
    return contextlib.nullcontext() if controller is None else _limited(controller)


def _limited(controller: Any) -> contextlib.AbstractContextManager[Any]:
    limited: contextlib.AbstractContextManager[Any] = controller.limit(limits=1, user_api="blas")
    return limited


@functools.cache  # finding the libraries reads the whole memory map of the process: 2 ms
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  brings a BLAS of its own, which is to be found, too

    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
