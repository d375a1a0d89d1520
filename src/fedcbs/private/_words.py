"""Arithmetic modulo 2**bits on arrays: what masked shares are made of."""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from fedcbs.private._seal import Words

__all__ = ["expand", "low_bits", "products", "random_words"]

LIMB = 17
"""Products of two limbs, added over 2**19 terms, are exact in float64."""


def low_bits(values: Words, bits: int) -> Words:
    """Return values modulo 2**bits.

    >>> low_bits(np.array([257], np.uint64), 8)
    array([1], dtype=uint64)
    """
    return values & np.uint64((1 << bits) - 1)


def random_words(key: bytes, count: int, bits: int) -> Words:
    """Return words that only who knows `key` can predict."""
    return low_bits(np.frombuffer(hashlib.shake_256(key).digest(8 * count), np.uint64), bits)


def expand(seed: bytes, num_classes: int, bits: int) -> Words:
    """Return the mask that a client's seed stands for."""
    return random_words(b"fedcbs mask\0" + seed, num_classes, bits)


def products(left: Words, right: Words, bits: int) -> Words:
    """Return inner products of the rows of `left` with those of `right`, modulo 2**bits, exactly.

    >>> products(np.array([[3, 2**20]], np.uint64), np.array([[5, 2**20 + 1]], np.uint64), 32)
    array([[1048591]], dtype=uint64)
    """
    count = math.ceil(bits / LIMB)
    lefts, rights = _limbs(left, count), _limbs(right, count)
    total = np.zeros((len(left), len(right)), np.uint64)
    for i in range(count):
        for j in range(count):
            if LIMB * (i + j) < bits:
                total += (lefts[i] @ rights[j].T).astype(np.uint64) << np.uint64(LIMB * (i + j))
    return low_bits(total, bits)


def _limbs(values: Words, count: int) -> list[NDArray[np.float64]]:
    mask = np.uint64((1 << LIMB) - 1)
    return [((values >> np.uint64(LIMB * i)) & mask).astype(np.float64) for i in range(count)]
