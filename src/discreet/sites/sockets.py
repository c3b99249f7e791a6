"""Sites at sockets of their own machine, for an engine that carries messages between machines.

A site is one process from the first message of a fit to the last: it holds the keys, the filter and
what it charged. Engines run the code of an app at each node, often in a new process for each
message. That code gets no row: it hands messages to the socket, whose file mode says who may.
"""

from __future__ import annotations

import os
import socket
import socketserver
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.log import note

if TYPE_CHECKING:
    from discreet.sites.site import Site

LARGEST_MESSAGE = 2**28
"""Bytes of a message that a site or a coordinator reads: a matrix of 5,000 columns fits."""

WAIT = 600.0
"""Seconds to wait for an answer: one reading of a large table."""

MODE = 0o660
"""Mode of a socket: the site's own user, and a group that the operator chooses, may send to it."""

_LENGTH = 8
"""Bytes of the length before each message."""


class SocketServer(socketserver.ThreadingUnixStreamServer):
    """A site that answers messages at a socket in a folder of its machine.

    Parameters
    ----------
    site : Site
        The site.
    path : path
        Socket to make. Its owner and group may send messages.
    """

    daemon_threads = True

    def __init__(self, site: Site, path: str | os.PathLike[str]) -> None:
        if Path(path).exists():
            raise ValueError(f"{path} exists; if no site serves it, remove it or choose another.")
        before = os.umask(0o777 & ~MODE)
        try:
            super().__init__(os.fspath(path), _Handler)
        finally:
            os.umask(before)
        self.site = site
        self.path = Path(path)

    def server_close(self) -> None:
        """Close the socket and remove it."""
        super().server_close()
        self.path.unlink(missing_ok=True)

    def handle_error(self, request: object, client_address: object) -> None:
        """Note a connection that broke; its text is withheld."""
        note("Site %s lost a connection.", self.site.name)


class _Handler(socketserver.StreamRequestHandler):
    """Messages, each after its length, on one connection."""

    server: SocketServer

    def handle(self) -> None:
        """Answer messages until the connection is closed."""
        while len(header := self.rfile.read(_LENGTH)) == _LENGTH:
            size = int.from_bytes(header, "big")
            if size > LARGEST_MESSAGE:
                return
            message = self.rfile.read(size)
            if len(message) < size:
                return
            reply = self.server.site.handle(message)
            self.wfile.write(len(reply).to_bytes(_LENGTH, "big") + reply)


def exchanged(path: str | os.PathLike[str], message: bytes) -> bytes:
    """Send a message to the site at a socket, once, and return the reply; or raise `OSError`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as near:
        near.settimeout(WAIT)
        near.connect(os.fspath(path))
        near.sendall(len(message).to_bytes(_LENGTH, "big") + message)
        with near.makefile("rb") as stream:
            size = int.from_bytes(_all_of(stream.read(_LENGTH), _LENGTH), "big")
            return _all_of(stream.read(min(size, LARGEST_MESSAGE)), size)


def _all_of(found: bytes, size: int) -> bytes:
    """Return what was read, or raise if the connection ended before."""
    if len(found) < size:
        raise ConnectionError("the connection ended")
    return found
