"""Processes that open rows, one for each federation that is being asked."""

from __future__ import annotations

import hashlib
import threading
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import ProtocolError
from fedcbs.private import SecretKeys
from fedcbs.service._isolated import RowOpener
from fedcbs.service._statistics import OpenedDiagonal

__all__ = ["RowOpeners"]

KEPT = 2
"""Processes that stay; each holds a secret key and a few hundred MB."""


@final
class RowOpeners:
    """Starts processes when they are needed, and ends those used least lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._openers: dict[bytes, RowOpener] = {}

    def open(self, secret: SecretKeys, setup: bytes) -> OpenedDiagonal:
        """Open sizes and diagonal."""
        with self._lock:
            opener = self._of(secret, setup)
            return OpenedDiagonal(
                opener.clients,
                opener.num_examples,
                int(secret.parameters["num_classes"]),
                opener.diagonal,
                opener.refused,
                setup,
            )

    def row(self, secret: SecretKeys, setup: bytes, client: str, message: bytes) -> NDArray[np.int64]:
        """Open a row."""
        with self._lock:
            opener = self._of(secret, setup)
            try:
                return opener.row(client, message)
            except ProtocolError:
                self._forget(opener)  # its process may have died of these bytes
                raise

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            for opener in list(self._openers.values()):
                self._forget(opener)

    def _of(self, secret: SecretKeys, setup: bytes) -> RowOpener:
        key = hashlib.sha256(secret.fingerprint.encode() + setup).digest()
        opener = self._openers.pop(key, None) or RowOpener(secret, setup)
        self._openers[key] = opener
        while len(self._openers) > KEPT:
            self._forget(next(iter(self._openers.values())))
        return opener

    def _forget(self, opener: RowOpener) -> None:
        self._openers = {key: one for key, one in self._openers.items() if one is not opener}
        opener.close()
