"""A checksum of examples that does not depend on how, or in which order, they were stored."""

from __future__ import annotations

import hashlib

import numpy as np

from fedcbs.data._dataset import Examples

__all__ = ["digest"]


def digest(examples: Examples) -> str:
    """Return a hash of the features and labels of all examples, in any order.

    >>> one = Examples(np.arange(6, dtype=np.uint8).reshape(3, 2), np.array([0, 1, 2]))
    >>> other = Examples(one.features[::-1], one.labels[::-1])
    >>> digest(one) == digest(other)
    True
    """
    rows = np.ascontiguousarray(examples.features).reshape(len(examples), -1)
    hashes = sorted(
        hashlib.blake2b(row.tobytes() + int(label).to_bytes(8, "little"), digest_size=16).digest()
        for row, label in zip(rows, examples.labels, strict=True)
    )
    return hashlib.sha256(b"".join(hashes)).hexdigest()
