"""Sealed boxes (X25519, XSalsa20, Poly1305): anybody can put something in, only the selector can open them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from fedcbs.errors import MissingExtraError, ProtocolError

if TYPE_CHECKING:
    from nacl.public import SealedBox

__all__ = ["OVERHEAD", "Opener", "binding", "new_box", "seal"]

OVERHEAD = 48
PUBLIC, SECRET = "box", "box"


def new_box() -> tuple[bytes, bytes]:
    """Return a new public and secret key."""
    from nacl.public import PrivateKey

    _need()
    key = PrivateKey.generate()
    return bytes(key.public_key), bytes(key)


def seal(public: bytes, content: bytes) -> bytes:
    """Seal `content` for whoever holds the secret key."""
    _need()
    from nacl.exceptions import CryptoError
    from nacl.public import PublicKey, SealedBox

    try:
        return bytes(SealedBox(PublicKey(public)).encrypt(content))
    except (CryptoError, ValueError, TypeError) as error:
        raise ProtocolError(f"the public key cannot seal anything ({error}); get it again") from None


class Opener:
    """Opens sealed boxes with the secret key."""

    def __init__(self, secret: bytes) -> None:
        _need()
        from nacl.exceptions import CryptoError
        from nacl.public import PrivateKey, SealedBox

        self._error = CryptoError
        self._box: SealedBox[PrivateKey] = SealedBox(PrivateKey(secret))

    def open(self, content: bytes) -> bytes:
        """Return what was sealed, or refuse."""
        try:
            return bytes(self._box.decrypt(content))
        except (self._error, ValueError, TypeError):
            raise ProtocolError("it was not sealed for this key, or was altered") from None


def binding(fingerprint: str, client: str) -> bytes:
    """Return 32 bytes that stand inside a box for whose it is and for which keys: a copy under another name shows."""
    return hashlib.sha256(f"fedcbs box\0{fingerprint}\0{client}".encode()).digest()


def _need() -> None:
    try:
        import nacl.public  # noqa: F401
    except ImportError:
        raise MissingExtraError("pynacl", extra="private", purpose="a sealed box") from None
