"""Sites behind the nodes of Flower: its messages carry those of a fit, and nothing else.

A ServerApp opens a `Federation` over the nodes of its run (`federation_of`). A ClientApp hands each
message to the site at its node and returns the reply (`discreet.sites.flower_node`). The site is a
process of its own, with its table, schema, ledger and limit, and it trusts neither app.

Masks are those of `discreet.sites.masks`. Flower's own SecAgg+ adds up 32-bit words, and its server
hands out keys that nobody signs; shares of noise have 64 bits, and a coordinator is not trusted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from flwr.app import Message

from discreet.sites import wire
from discreet.sites.federation import Federation
from discreet.sites.flower_node import packed, unpacked
from discreet.sites.sockets import WAIT
from discreet.sites.terms import SiteError

PAUSE = 0.02
"""Seconds between two looks for a reply: Flower's own ``send_and_receive`` waits 3."""

START = 120.0
"""Seconds to wait until all nodes of a run have come."""


@dataclass(frozen=True)
class Node:
    """A site behind a node of Flower.

    ``grid`` is that of a ServerApp, which threads use one at a time.
    """

    name: str
    grid: Any
    number: int
    lock: Any

    def send(self, message: bytes) -> bytes:
        """Send a message, once, and return the reply."""
        try:
            reply = self._exchanged(message)
        except Exception as error:
            raise self._lost(type(error).__name__) from None
        if reply.has_error():
            raise self._lost(f"Flower's error {reply.error.code}")
        return unpacked(reply.content)

    def _exchanged(self, message: bytes) -> Message:
        content = packed(message)
        with self.lock:
            sent = Message(content, dst_node_id=self.number, message_type="query", ttl=WAIT)
            key = list(self.grid.push_messages([sent]))
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            with self.lock:
                found: list[Message] = list(self.grid.pull_messages(key))
            if found:
                return found[0]
            time.sleep(PAUSE)
        raise TimeoutError

    def _lost(self, why: str) -> SiteError:
        return SiteError(
            f"Site {self.name!r} at Flower's node {self.number} gave no answer ({why}). What it "
            "charged stays spent."
        )


def nodes_of(grid: Any, count: int, *, wait: float = START) -> list[Node]:
    """Return the sites of a run, in the order of their names, once ``count`` nodes have come."""
    end = time.monotonic() + wait
    while len(numbers := sorted(grid.get_node_ids())) < count:
        if time.monotonic() > end:
            raise SiteError(f"{len(numbers)} of {count} nodes have come. Nothing was asked.")
        time.sleep(PAUSE)
    lock = Lock()
    question = wire.encode({"do": "describe"})
    found = []
    for number in numbers:
        node = Node("of unknown name", grid, number, lock)
        found.append(replace(node, name=wire.decode(node.send(question))["site"]))
    return sorted(found, key=lambda node: node.name)


def federation_of(
    grid: Any, *, sites: int, trust: str = "secure", colluding: int = 1
) -> Federation:
    """Return the federation of the nodes of a run, for the ``fit`` of an estimator.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        The grid that Flower gave to a ServerApp.
    sites : int
        Number of sites to wait for.
    trust, colluding
        As in `Federation`.
    """
    nodes: Sequence[Any] = nodes_of(grid, sites)
    return Federation(nodes, trust=trust, colluding=colluding)
