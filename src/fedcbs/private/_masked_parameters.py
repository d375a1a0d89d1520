"""Sizes of everything in mode ``masked``: all follow from the number of classes and the cap on a client's examples."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from fedcbs.errors import InvalidArgumentError
from fedcbs.private._flood import distance_bits, flood_bits_for
from fedcbs.private._seal import Ring

__all__ = ["DEGREE", "Layout", "MaskedParameters", "is_prime"]

DEGREE = 8192
MOST_ROWS = 8
"""Rows of the result that one ciphertext holds at most."""
MOST_BITS = 218
"""Of all primes together, special one included: the standard's limit at this degree for 128 bits of security."""
ERROR = 21
"""Largest error of a fresh ciphertext: SEAL draws a centred binomial of 42 coins."""
DISTANCE = 40.0
"""Statistical distance of all that one result shows from what depends on the result alone: 2**-40."""
COEFFICIENTS = 2.0**32
"""Coefficients over which that distance is meant: four billion, a result of some 60,000 clients."""


@dataclass(frozen=True)
class MaskedParameters:
    """Moduli and noises.

    Parameters
    ----------
    num_classes, max_examples
        Those of the mode.

    Examples
    --------
    >>> found = MaskedParameters(num_classes=62, max_examples=65535)
    >>> found.word_bits, len(found.primes) - 1, found.distance(2**24) >= 40
    (32, 6, True)
    """

    num_classes: int
    max_examples: int

    @property
    def word_bits(self) -> int:
        """Masked counts and results are whole numbers modulo 2**word_bits."""
        return max(2 * self.max_examples.bit_length(), 16)

    @property
    def terms(self) -> int:
        """Products that are added up in one coefficient of a result."""
        return self.num_classes * MOST_ROWS

    @property
    def prime_bits(self) -> int:
        """Such that a sum of products of centred residues is exact in float64."""
        return min(int((53 - math.log2(self.terms)) // 2) + 1, 24)

    @property
    def log_shift(self) -> float:
        """Largest noise of a result before it is flooded, as a power of two: fresh errors times masked counts."""
        return math.log2(self.terms * 2.0 ** (self.word_bits - 1) * (ERROR + 1))

    @property
    def flood_bits(self) -> int:
        """Bits of the flood."""
        return flood_bits_for(distance=DISTANCE, log_shift=self.log_shift, coefficients=COEFFICIENTS)

    def distance(self, coefficients: float) -> float:
        """Return b such that what so many coefficients show is within 2**-b of what depends on the result alone."""
        return distance_bits(bits=self.flood_bits, log_shift=self.log_shift, coefficients=coefficients)

    @functools.cached_property
    def primes(self) -> tuple[int, ...]:
        """The data primes, and the special one at the end."""
        noise = 2.0 ** (self.flood_bits + 1) + 2.0**self.log_shift + DEGREE
        needed = self.word_bits + 1 + math.log2(noise)
        found: list[int] = []
        candidate = (1 << self.prime_bits) // (2 * DEGREE) * (2 * DEGREE) + 1
        while sum(map(math.log2, found[1:])) <= needed:
            candidate -= 2 * DEGREE
            if candidate.bit_length() < self.prime_bits:
                raise InvalidArgumentError(
                    f"max_examples={self.max_examples} with {self.num_classes} classes needs more primes than there are; lower it"
                )
            if is_prime(candidate):
                found.append(candidate)
        if sum(map(math.log2, found)) > MOST_BITS:
            raise InvalidArgumentError(
                f"max_examples={self.max_examples} with {self.num_classes} classes leaves less than 128 bits of security; lower it"
            )
        return (*found[1:][::-1], found[0])

    @property
    def data_primes(self) -> tuple[int, ...]:
        """Primes of ciphertexts."""
        return self.primes[:-1]

    @functools.cached_property
    def kept(self) -> int:
        """Primes that are left in what the server sends: as few as the noise allows."""
        modulus = math.prod(self.data_primes)
        for kept in range(1, len(self.data_primes) + 1):
            left = math.prod(self.data_primes[:kept])
            noise = (3 << self.flood_bits) // (modulus // left) + DEGREE + 2
            if left > noise << (self.word_bits + 1):
                return kept
        raise InvalidArgumentError(f"max_examples={self.max_examples} leaves no room for a result; lower it")

    def ring(self) -> Ring:
        """Return the ring; the library checks that it gives 128 bits of security."""
        return Ring("bfv", degree=DEGREE, primes=self.primes, plain=1 << self.word_bits)


@dataclass(frozen=True)
class Layout:
    """How the rows of a result for `num_clients` clients lie in ciphertexts.

    Up to 8192 clients, a ciphertext holds `rows` rows of `width` columns; with more, a row needs several ciphertexts.
    """

    num_clients: int

    @property
    def rows(self) -> int:
        """Rows in one ciphertext."""
        return max(1, min(MOST_ROWS, DEGREE // self.num_clients))

    @property
    def width(self) -> int:
        """Columns of a row in one ciphertext."""
        return DEGREE // self.rows

    @property
    def parts(self) -> int:
        """Ciphertexts that one row goes through."""
        return -(-self.num_clients // self.width)


def is_prime(number: int) -> bool:
    """Whether a number below 2**64 is prime, by the test of Miller and Rabin, which is exact with these bases.

    >>> is_prime(16381), is_prime(16383)
    (True, False)
    """
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if number < 41:
        return number in bases
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(number % base and _passes(number, base, odd, twos) for base in bases)


def _passes(number: int, base: int, odd: int, twos: int) -> bool:
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False
