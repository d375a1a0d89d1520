"""What an attacker with the secret key does to ciphertexts: exact arithmetic on their residues."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcbs.private._seal import Ring

Integers = NDArray[Any]


def secret_values(ring: Ring, secret: bytes) -> NDArray[np.uint64]:
    """The secret key's values (in the transformed form), data primes x degree."""
    words = np.frombuffer(secret, np.uint64, offset=len(secret) - 8 * len(ring.primes) * ring.degree)
    return words.reshape(len(ring.primes), ring.degree)[:-1]


def multiply(one: Integers, two: Integers, primes: tuple[int, ...]) -> NDArray[np.uint64]:
    """Product of values, primes x degree, by Python's whole numbers."""
    moduli = np.array(primes, dtype=object)[:, None]
    return (one.astype(object) * two.astype(object) % moduli).astype(np.uint64)


def inverse(values: Integers, primes: tuple[int, ...]) -> NDArray[np.uint64]:
    rows = [[pow(int(v), -1, p) for v in row] for row, p in zip(values, primes, strict=True)]
    return np.array(rows, np.uint64)


def phase(ring: Ring, residues: NDArray[np.uint64], secret: bytes) -> list[int]:
    """Coefficients of c0 + c1 s over the data primes, for a ciphertext of a scheme that keeps coefficients."""
    primes = ring.primes[:-1]
    ciphertext = ring.join(ring.header(len(primes)), residues)
    ring.evaluator.transform_to_ntt_inplace(ciphertext)
    header, values = ring.split(ciphertext)
    total = values[0].astype(object) + multiply(values[1], secret_values(ring, secret), primes).astype(object)
    moduli = np.array(primes, dtype=object)[:, None]
    found = np.stack([(total % moduli).astype(np.uint64), values[1]])
    back = ring.join(header, found)
    ring.evaluator.transform_from_ntt_inplace(back)
    return combined(ring.split(back)[1][0], primes)


def combined(residues: NDArray[np.uint64], primes: tuple[int, ...]) -> list[int]:
    """Whole numbers from residues, centred."""
    modulus = math.prod(primes)
    total: Integers = np.zeros(residues.shape[1], dtype=object)
    for row, prime in zip(residues, primes, strict=True):
        rest = modulus // prime
        total = total + row.astype(object) * (rest * pow(rest, -1, prime))
    return [int(v) - modulus if v > modulus // 2 else int(v) for v in total % modulus]


def solve(matrix: NDArray[np.int64], values: NDArray[np.int64], prime: int) -> NDArray[np.int64] | None:
    """Solve matrix @ x = values modulo a prime below 2**31, or say that there is no solution."""
    rows = np.concatenate([matrix, values[:, None]], axis=1) % prime
    unknowns = matrix.shape[1]
    for column in range(unknowns):
        pivot = column + int(np.flatnonzero(rows[column:, column])[0])
        rows[[column, pivot]] = rows[[pivot, column]]
        rows[column] = rows[column] * pow(int(rows[column, column]), -1, prime) % prime
        others = np.arange(len(rows)) != column
        rows[others] = (rows[others] - rows[others, column][:, None] * rows[column]) % prime
    return None if rows[unknowns:, -1].any() else rows[:unknowns, -1]
