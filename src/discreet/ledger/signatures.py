"""Signatures of events, by which a verification can tell who wrote them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        needed = 'signatures need the package cryptography: pip install "discreet[sign]".'
        raise ImportError(needed) from error
    return ed25519


class Signer:
    """An Ed25519 key that signs the hashes of events, from a PEM file without a password.

    For example one made by ``openssl genpkey -algorithm ed25519``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        ed25519 = _ed25519()
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = load_pem_private_key(Path(path).read_bytes(), password=None)
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise ValueError(f"{os.fspath(path)} is not an Ed25519 key.")
        self._key = key
        self.public = key.public_key().public_bytes_raw().hex()

    def sign(self, digest: str) -> str:
        """Return the signature of a hash."""
        signature: bytes = self._key.sign(digest.encode("ascii"))
        return signature.hex()


def is_signed(digest: str, signature: str | None, public: str) -> bool:
    """Return True if a hash has a valid signature of this public key (hexadecimal)."""
    ed25519 = _ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature or ""), digest.encode("ascii"))
    except (InvalidSignature, ValueError):
        return False
    return True
