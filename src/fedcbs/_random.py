"""Random generators that are a function of a purpose, a seed and indices, so that a run can stop and resume anywhere."""

from __future__ import annotations

import zlib

import numpy as np

__all__ = ["generator"]


def generator(purpose: str, *indices: int) -> np.random.Generator:
    """Return the generator of one purpose; other purposes and other indices give independent streams.

    >>> float(generator("selection", 3, 1).random()) == float(generator("selection", 3, 1).random())
    True
    >>> float(generator("selection", 3, 1).random()) == float(generator("availability", 3, 1).random())
    False
    """
    return np.random.default_rng(np.random.SeedSequence((zlib.crc32(purpose.encode()), *indices)))
