"""A node of Flower: its app hands messages to the site there, and sees no row.

Flower runs the coordinator's code at each node, in a new process for each message. That code gets a
socket of the site and nothing else. To start soon, it imports Flower and the standard library.
"""

from __future__ import annotations

from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from discreet.sites.sockets import exchanged

RECORD = "discreet"
"""Name of the one record that a message of Flower has; its one entry is ``message``."""


def packed(message: bytes) -> RecordDict:
    """Return a message of a fit as the content of one of Flower's."""
    return RecordDict({RECORD: ConfigRecord({"message": message})})


def unpacked(content: RecordDict) -> bytes:
    """Return the message of a fit that a message of Flower has."""
    found: bytes = content[RECORD]["message"]
    return found


def socket_of(context: Context) -> Path:
    """Return the socket of the site at a node.

    It is ``socket`` in the configuration of the node. A simulation has no such configuration: there
    the run has a folder, ``sockets``, with one socket for each node, 0.sock and so on.
    """
    if "socket" in context.node_config:
        return Path(str(context.node_config["socket"]))
    folder = Path(str(context.run_config["sockets"]))
    return folder / f"{context.node_config['partition-id']}.sock"


def forward(message: Message, context: Context) -> Message:
    """Hand a message to the site at a node, and return its reply."""
    reply = exchanged(socket_of(context), unpacked(message.content))
    return Message(packed(reply), reply_to=message)


def client_app() -> ClientApp:
    """Return a ClientApp that hands messages to the site at its node."""
    app = ClientApp()
    app.query()(forward)
    return app
