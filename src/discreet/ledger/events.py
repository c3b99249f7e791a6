"""Events of a ledger: canonical text, chain of hashes, optional signatures.

Everything that ever happens to a ledger is an event that is appended and never changed. Its body is
JSON with sorted keys and has the hash of the event before it, so that no event can be altered,
removed or moved without breaking the chain after it.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from discreet.errors import LedgerError

GENESIS = hashlib.sha256(b"discreet ledger, format 1").hexdigest()
"""Hash before the first event."""


@dataclass(frozen=True)
class Event:
    """One event as it is stored: its number, its text, the hash of that, and a signature."""

    seq: int
    text: str
    hash: str
    signature: str | None = None

    @classmethod
    def make(cls, body: dict[str, Any], signer: Signer | None = None) -> Event:
        """Make the event of a body, which has its number and the hash of the event before."""
        if signer is not None:
            body = body | {"signer": signer.public}
        text = json.dumps(
            body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
        )
        found = _hash(text)
        return cls(body["seq"], text, found, None if signer is None else signer.sign(found))

    @property
    def body(self) -> dict[str, Any]:
        """Content of the event; raises if text and hash do not match."""
        if _hash(self.text) != self.hash:
            raise LedgerError(
                f"Event {self.seq} of this ledger was altered: its text does not match its hash. "
                "Nothing was charged. Run `discreet ledger verify`, and restore a backup."
            )
        content: dict[str, Any] = json.loads(self.text)
        return content


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("ascii", "backslashreplace")).hexdigest()


def now() -> str:
    """Return the time as ISO 8601 text, in UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


class Signer:
    """An Ed25519 key that signs the hashes of events.

    Parameters
    ----------
    path : path
        PEM file of a private key without a password, for example made by
        ``openssl genpkey -algorithm ed25519``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError as error:
            raise ImportError(_NEEDED) from error
        with open(path, "rb") as stream:
            key = serialization.load_pem_private_key(stream.read(), password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError(f"{os.fspath(path)} is not an Ed25519 key.")
        self._key = key
        self.public = key.public_key().public_bytes_raw().hex()

    def sign(self, digest: str) -> str:
        """Return the signature of a hash."""
        signature: bytes = self._key.sign(digest.encode("ascii"))
        return signature.hex()


def signed_by(event: Event, public: str) -> bool:
    """Return True if the event has a valid signature of this public key (hexadecimal)."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise ImportError(_NEEDED) from error
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(event.signature or ""), event.hash.encode("ascii"))
    except (InvalidSignature, ValueError):
        return False
    return True


_NEEDED = 'signatures need the package cryptography: pip install "discreet[sign]".'
