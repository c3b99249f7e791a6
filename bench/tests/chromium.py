"""A real browser without a window, driven over a pipe: no package is needed for it.

Chromium reads commands of its DevTools protocol from file descriptor 3 and answers on 4, as JSON
texts that end in a zero byte.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")


def binary() -> str:
    """The browser; a test that needs it is skipped without it, but fails where CI is "true"."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        words = f"no browser: none of {', '.join(NAMES)} is installed."
        if os.environ.get("CI") == "true":
            pytest.fail(words)
        pytest.skip(words)
    return found


class Page:
    """A tab of the browser, and all that it has reported."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest = b""
        self._last = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def attach(self) -> None:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Give a command and wait for its answer."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            told = self._read()
            if told.get("id") == self._last:
                assert "error" not in told, f"{method}: {told['error']}"
                return told["result"]

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file in a window of that size and wait until it is loaded."""
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._read()
        self.settle()

    def resize(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip

    def settle(self) -> None:
        """Wait until the browser has laid out and painted twice."""
        self.run("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))")

    def run(self, script: str) -> Any:
        """The value of an expression."""
        told = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.settle()

    def choose(self, selector: str, value: str) -> None:
        """Pick an option of a list, as a reader would."""
        self.run(
            f"(s => {{ s.value = {json.dumps(value)}; "
            f"s.dispatchEvent(new Event('change', {{bubbles: true}})) }})"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        self.settle()

    def move(self, x: float, y: float) -> None:
        """Move the mouse to a place in the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            code = {"Tab": 9, "ArrowRight": 39, "ArrowUp": 38, "Escape": 27}[key]
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )
        self.settle()

    def screenshot(self, path: Path, *, full: bool = False) -> bytes:
        """Write a picture of the window, or of the whole page, as PNG."""
        told = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        picture = base64.b64decode(told["data"])
        path.write_bytes(picture)
        return picture

    def complaints(self) -> list[Any]:
        """What the console was told, exceptions, and what the browser itself has logged."""
        self.settle()
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in kinds]

    def requests(self) -> list[str]:
        """The addresses of all that was asked for."""
        sent = [e for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def _read(self, seconds: float = 30.0) -> dict[str, Any]:
        """The next message; events are kept."""
        until = time.monotonic() + seconds
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the browser has not answered for {seconds:g} seconds."
            more = os.read(self._answers, 1 << 16)
            assert more, "the browser has gone."
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        told = json.loads(message)
        if "id" not in told:
            self.events.append(told)
        return told


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A page of a fresh browser, whose profile lives in ``folder``."""
    command = [binary(), *FLAGS, f"--user-data-dir={folder}"]
    (heard, commands), (answers, said) = _pipe(), _pipe()
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    pipes = [(os.POSIX_SPAWN_DUP2, heard, 3), (os.POSIX_SPAWN_DUP2, said, 4)]
    process = os.posix_spawn(command[0], command, os.environ, file_actions=[*nowhere, *pipes])
    os.close(heard)
    os.close(said)
    page = Page(commands, answers)
    try:
        page.attach()
        yield page
    finally:
        os.close(commands)  # Chromium ends when nobody can command it any more
        _end(process)
        os.close(answers)


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are not 3 or 4, which are to be overwritten."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def _end(process: int, seconds: float = 10.0) -> None:
    """Wait for the browser to end, and make it if it does not."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitpid(process, os.WNOHANG)[0]:
            return
        time.sleep(0.02)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
