"""Noise that drowns what a result's own noise says, and how well it does so.

A decryption shows the noise of a ciphertext, and that depends on what went into it. Before a result leaves the server, each
coefficient gets a sum of three uniform whole numbers below 2**bits. Its density f has a finite Fisher information I, so for
noises that differ by at most d in each of m coefficients the squared Hellinger distance is at most m d**2 I / 8, and
with it the statistical distance between what the selector sees and noise that depends on nothing::

    TV <= d sqrt(m I) / 2            I <= 4.6 / 4**bits

The distance grows with the root of m; with one uniform number it would grow with m. (The sum of three
uniform numbers on [0, 1) has I = 4.562; the bound leaves room for the steps of whole numbers.)
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np

from fedcbs.private._seal import Words

__all__ = ["FISHER", "LARGEST_BITS", "distance_bits", "flood", "flood_bits_for", "times", "uniform_below"]

FISHER = 4.6
LARGEST_BITS = 122
"""Three numbers of 61 bits add up within 64."""
_LOW = 61


def distance_bits(*, bits: int, log_shift: float, coefficients: float) -> float:
    """Return b such that the statistical distance over all coefficients is at most 2**-b.

    >>> round(distance_bits(bits=100, log_shift=45, coefficients=2**24), 1)
    42.9
    """
    return bits - log_shift + 1 - (math.log2(coefficients) + math.log2(FISHER)) / 2


def flood_bits_for(*, distance: float, log_shift: float, coefficients: float) -> int:
    """Return the fewest bits that give a statistical distance of at most 2**-distance."""
    return math.ceil(distance - distance_bits(bits=0, log_shift=log_shift, coefficients=coefficients))


def flood(bits: int, degree: int, primes: Sequence[int]) -> Words:
    """Return a sum of three uniform numbers below 2**bits, less its mean, for each coefficient: primes x degree residues."""
    low_bits, high_bits = min(bits, _LOW), max(bits - _LOW, 0)
    shared = 3 * high_bits <= 64  # then one word holds the high bits of all three
    words = np.frombuffer(os.urandom(8 * degree * (4 if shared else 6)), np.uint64).reshape(-1, degree)
    highs = [words[3] >> np.uint64(high_bits * term) for term in range(3)] if shared else list(words[3:])
    low = (words[:3] & np.uint64((1 << low_bits) - 1)).sum(axis=0)
    high = np.sum([high & np.uint64((1 << high_bits) - 1) for high in highs], axis=0)
    mean = 3 * (1 << bits) // 2
    found = np.empty((len(primes), degree), np.uint64)
    for row, prime in zip(found, primes, strict=True):
        modulus = np.uint64(prime)
        carried = times(high % modulus, pow(2, _LOW, prime), prime)
        row[:] = (carried + low % modulus + np.uint64(-mean % prime)) % modulus
    return found


def uniform_below(bound: int, count: int) -> Words:
    """Return exactly uniform numbers below `bound`, of at most 2**62.

    >>> int(uniform_below(5, 1000).max())
    4
    """
    limit = np.uint64((1 << 64) // bound * bound - 1)
    words = np.frombuffer(os.urandom(8 * count), np.uint64)
    kept = words[words <= limit]
    while len(kept) < count:
        more = np.frombuffer(os.urandom(8 * count), np.uint64)
        kept = np.concatenate([kept, more[more <= limit]])
    return kept[:count] % np.uint64(bound)


def times(values: Words, factor: int, prime: int) -> Words:
    """Return values * factor mod prime; the quotient in float64 is off by a few, which the last step repairs."""
    quotient = (values.astype(np.float64) * (factor / prime)).astype(np.uint64)
    rest = values * np.uint64(factor) - quotient * np.uint64(prime)  # wraps; the true value is small
    return (rest.view(np.int64) % np.int64(prime)).view(np.uint64)
