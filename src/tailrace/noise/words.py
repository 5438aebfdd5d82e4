"""Random 64-bit words by path, from AES-256 in counter mode.

Keys are keyed hashes of a secret and a path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

Part = str | int

_TAG = {str: b"s", int: b"i"}


def encode(path: tuple[Part, ...]) -> bytes:
    """Encode a path as bytes, one to one.

    A type, a length and the content of each part, so that ("1",) and (1,) and ("1", "") differ.
    """
    encoded = b""
    for part in path:
        content = part.encode() if isinstance(part, str) else str(part).encode()
        encoded += _TAG[type(part)] + len(content).to_bytes(8, "big") + content
    return encoded


def key(secret: bytes, encoded: bytes, purpose: bytes) -> bytes:
    """The 32-byte key of one path for one purpose."""
    return hashlib.blake2b(
        encoded, key=secret, digest_size=32, person=b"tailrace" + purpose
    ).digest()


class Words:
    """The word sequence of one path.

    Ties read on in sequences of their own, so that no other word shifts.
    """

    def __init__(self, secret: bytes, encoded: bytes) -> None:
        self._secret = secret
        self._encoded = encoded
        self._cipher = _cipher(key(secret, encoded, b"words"))

    def take(self, count: int) -> np.ndarray:
        """The next `count` words."""
        return np.frombuffer(self._cipher.update(bytes(8 * count)), dtype="<u8")

    def after(self, position: int) -> Iterator[int]:
        """The endless words that continue the one at `position`."""
        cipher = _cipher(key(self._secret, self._encoded + position.to_bytes(8, "big"), b"ties"))
        while True:
            yield int.from_bytes(cipher.update(bytes(8)), "little")


def _cipher(secret: bytes):
    return Cipher(algorithms.AES(secret), modes.CTR(bytes(16))).encryptor()
