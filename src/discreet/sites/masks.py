"""Secure aggregation: masks that cancel in the sum over all sites and in nothing else.

Each pair of sites agrees on a key (X25519, then HKDF-SHA256). For each answer both expand it to the
same stream of random words (ChaCha20); one adds it to its numbers modulo 2^64 and the other
subtracts it. Whoever lacks the key of a pair of sites learns nothing but the sum of both. All
primitives are those of the package cryptography.

The keys of an answer depend on a digest of all that was asked so far. If sites were asked different
things, their masks do not cancel, and the sum is uniformly random.

Proof: docs/proofs/sites.md, part 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from discreet.errors import PrivacyError

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class SignedKey:
    """A public key for one fit, signed by the site's identity."""

    key: bytes
    signature: bytes


@dataclass(frozen=True, repr=False)
class Identity:
    """The lasting key of a site, by which the others know it: they hold its ``public`` bytes."""

    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def public(self) -> bytes:
        """Public half, which the other sites are given beforehand."""
        public: bytes = self.key.public_key().public_bytes_raw()
        return public


class PairKeys:
    """A site's keys with all others, for one fit.

    ``context`` is public and the same at all sites: a digest of the terms.
    """

    def __init__(self, name: str, identity: Identity, context: bytes) -> None:
        self._name = name
        self._context = context
        self._own = X25519PrivateKey.generate()
        public = self._own.public_key().public_bytes_raw()
        self.signed = SignedKey(public, identity.key.sign(_claim(name, context, public)))
        self._keys: dict[str, bytes] = {}

    def agree(self, keys: Mapping[str, SignedKey], peers: Mapping[str, bytes]) -> None:
        """Make a key with each other site, whose signature must be of a known identity.

        *Privacy.* Without the check a coordinator could send keys of its own and read every pair's
        masks.
        """
        if keys.get(self._name) != self.signed:
            raise PrivacyError(f"The keys of this fit have another key for site {self._name!r}.")
        for name, signed in keys.items():
            if name == self._name:
                continue
            if name not in peers:
                raise PrivacyError(f"Site {self._name!r} has not been told the key of {name!r}.")
            try:
                known = Ed25519PublicKey.from_public_bytes(peers[name])
                known.verify(signed.signature, _claim(name, self._context, signed.key))
                secret = self._own.exchange(X25519PublicKey.from_public_bytes(signed.key))
            except (InvalidSignature, ValueError):
                raise PrivacyError(
                    f"The key of site {name!r} is not signed by the identity that site "
                    f"{self._name!r} knows it by. Nothing was sent."
                ) from None
            pair = "|".join(sorted((name, self._name))).encode()
            self._keys[name] = _derived(secret, self._context, b"discreet pair|" + pair)

    def masked(self, values: NDArray[np.int64], label: bytes) -> Words:
        """Return numbers modulo 2^64 with the masks of all pairs; ``label`` is used once."""
        if not self._keys:
            raise PrivacyError("No keys were agreed on, so nothing can be masked.")
        words: Words = values.view(np.uint64).copy()
        for name, key in self._keys.items():
            mask = _stream(_derived(key, label, b"discreet mask"), words.size)
            words = words + mask if self._name < name else words - mask
        return words


def _claim(name: str, context: bytes, key: bytes) -> bytes:
    """Return the bytes that a site signs: its name, the fit and its key."""
    return b"discreet key|" + context + b"|" + name.encode() + b"|" + key


def _derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
    derived: bytes = HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(secret)
    return derived


def _stream(key: bytes, count: int) -> Words:
    """Return words of the ChaCha20 stream of a key that is used for nothing else."""
    cipher = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)
