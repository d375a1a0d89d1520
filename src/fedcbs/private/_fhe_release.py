"""What a result goes through before it leaves the server in mode ``fhe``.

A product as it comes would show more than inner products: a third polynomial, which exposes its factors to who holds the secret
key; cross products of counts in the coefficients between the results; the factors again in its second polynomial; and the counts
in its noise. So, in this order: relinearise; put exactly uniform values where no result stands; add a fresh encryption of
zero; flood the noise; and switch down to one prime, which also makes it small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.private._fhe_parameters import DEGREE, FheParameters
from fedcbs.private._flood import flood, times, uniform_below
from fedcbs.private._seal import Ring, Words, pack_residues, packed_size

__all__ = ["Guards", "Releaser", "released_size"]


@dataclass(frozen=True)
class Guards:
    """What hides the server's operands in a result. Tests take one away and show what then leaks."""

    fill: bool = True
    rerandomise: bool = True
    flood: bool = True


def released_size(parameters: FheParameters) -> int:
    """Bytes of a result."""
    return packed_size(parameters.data_primes[:1], polynomials=2, degree=DEGREE)


@final
class Releaser:
    """Makes results fit to leave the server.

    Parameters
    ----------
    parameters, ring
        Those of the mode.
    encryptor
        Under the selector's public key.
    switching
        The selector's keys for relinearising.
    guards
        What hides the operands.
    """

    def __init__(
        self, parameters: FheParameters, ring: Ring, encryptor: Any, switching: Any, guards: Guards
    ) -> None:
        self._parameters, self._ring, self._guards = parameters, ring, guards
        self._encryptor, self._switching = encryptor, switching
        # The same ring in a scheme that keeps coefficients: SEAL transforms them into the values that BGV works with.
        self._coefficients = Ring("bfv", degree=DEGREE, primes=parameters.primes, plain=65537)
        self._primes = parameters.data_primes[:2]
        self._moduli = np.array(self._primes, np.uint64)[:, None]

    def release(self, product: Any, results: NDArray[np.int64]) -> bytes:
        """Return a product of ciphertexts, of which only the coefficients `results` may be seen."""
        ring = self._ring
        ring.evaluator.mod_switch_to_inplace(product, ring.levels[2])
        if product.size() > 2:
            ring.evaluator.relinearize_inplace(product, self._switching)
        header, residues = ring.split(product)
        if self._guards.rerandomise:  # on residues: SEAL would scale both to one correction factor first
            zero = ring.split(self._encryptor.encrypt_zero(ring.levels[2]))[1]
            residues = _reduced(residues + zero, self._moduli)
        else:
            residues = residues.copy()
        residues[0] = _reduced(residues[0] + self._noise(results), self._moduli)
        found = ring.join(header, residues)
        ring.evaluator.mod_switch_to_inplace(found, ring.levels[1])
        return pack_residues(ring.split(found)[1], self._primes[:1])

    def _noise(self, results: NDArray[np.int64]) -> Words:
        """Values of a polynomial: uniform modulo the plain modulus where no result stands, plus a flood of multiples of it."""
        found = np.zeros((2, DEGREE), np.uint64)
        if self._guards.flood:
            drawn = flood(self._parameters.flood_bits, DEGREE, self._primes)
            for row, values, prime in zip(found, drawn, self._primes, strict=True):
                row[:] = times(values, self._parameters.plain, prime)
        if self._guards.fill:
            filling = uniform_below(self._parameters.plain, DEGREE)
            filling[results] = 0
            found = _reduced(found + filling, self._moduli)
        return self._values(found)

    def _values(self, coefficients: Words) -> Words:
        ring = self._coefficients
        one = np.zeros((2, DEGREE), np.uint64)
        one[:, 0] = 1  # SEAL refuses a ciphertext whose second polynomial is zero
        found = ring.join(ring.header(2), np.stack([coefficients, one]))
        ring.evaluator.transform_to_ntt_inplace(found)
        values: Words = ring.split(found)[1][0]
        return values


def _reduced(values: Words, moduli: Words) -> Words:
    """Return values below twice their modulus, below it."""
    return np.where(values >= moduli, values - moduli, values)
