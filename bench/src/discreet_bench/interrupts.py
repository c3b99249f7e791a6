"""Ctrl-C that is heard the first time.

Python raises KeyboardInterrupt wherever the program happens to be. Inside a callback from compiled
code, or in a finaliser, it is printed and forgotten, and the work goes on.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["insistent_interrupts"]

_AGAIN_AFTER = 1.0


@contextmanager
def insistent_interrupts() -> Iterator[None]:
    """Repeat an interrupt every second until the block has ended. Does nothing in other threads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked, over = threading.Event(), threading.Event()

    def heard(*_: Any) -> None:
        asked.set()
        raise KeyboardInterrupt

    def repeat() -> None:
        while not over.is_set():
            if asked.wait(0.2) and not over.wait(_AGAIN_AFTER):
                _thread.interrupt_main()

    before = signal.signal(signal.SIGINT, heard)
    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        signal.signal(signal.SIGINT, before)
        thread.join()
