"""Sizes of everything in mode ``fhe``: all follow from the number of classes and the cap on a client's examples.

A client's polynomial is ``sum a[c, d] x^(c + C d)`` over its classes b = (c, d), c < C = `columns`, d < D = `depth`. The server splits
residues of exponents modulo C into C ciphertexts; a result then holds ``degree / D`` inner products. Larger C means fewer results and
more switching of keys; :func:`best_columns` weighs the two by their cost.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError
from fedcbs.private._flood import distance_bits
from fedcbs.private._seal import Ring, library

__all__ = ["DEGREE", "FheParameters", "best_columns"]

DEGREE = 8192
PRIME_BITS = (54, 54, 55, 55)
"""218 bits together, the standard's limit at this degree for 128 bits of security. The last prime is special."""
FRESH = 64.0
"""Bound on the standard deviation of a fresh ciphertext's noise, in units of the plain modulus (it is about 43)."""
TAIL = 8.0
"""Standard deviations that a bound on a noise allows for."""
LEAST_DISTANCE, COEFFICIENTS = 32.0, 2.0**25
"""What a result for 3,500 clients (30 million coefficients) must reach: a statistical distance of at most 2**-32."""
BATCH = 64
"""Clients in a batch, or in the largest group; the noise of a check grows with its power of 3.5."""
TYPICAL_CLIENTS = 2500
COST_SWITCH, COST_PRODUCT, COST_RESULT = 2.0, 0.32, 5.5
"""Milliseconds; only their ratios matter."""


@dataclass(frozen=True)
class FheParameters:
    """Moduli, packing and noises.

    Parameters
    ----------
    num_classes, max_examples
        Those of the mode.
    single
        Whether there is one client on the right of a product (for a row at a time) and not a group.

    Examples
    --------
    >>> found = FheParameters(num_classes=62, max_examples=65535)
    >>> found.columns, found.depth, found.left, found.right, found.distance(2**25) > 40
    (16, 4, 16, 8, True)
    """

    num_classes: int
    max_examples: int
    single: bool = False

    @functools.cached_property
    def columns(self) -> int:
        """Residues of exponents, C."""
        return best_columns(self.num_classes)

    @property
    def depth(self) -> int:
        """Classes that stay in one polynomial, D."""
        return -(-self.num_classes // self.columns)

    @property
    def window(self) -> int:
        """Coefficients that a client may write to."""
        return self.columns * self.depth

    @property
    def right(self) -> int:
        """Clients in a group on the right of a product."""
        return self._sides[1]

    @property
    def left(self) -> int:
        """Clients in a group on the left of a product: a multiple of `right`."""
        return self._sides[0]

    @functools.cached_property
    def _sides(self) -> tuple[int, int]:
        pairs = DEGREE // self.columns // self.depth
        if self.single:
            return min(pairs, 2 * BATCH), 1
        choices = []
        for ratio in (1, 2):
            right = max(min(math.isqrt(pairs // ratio), BATCH // ratio), 1)
            choices.append((ratio * right, right))
        return max(
            (side for side in choices if side[0] * side[1] <= pairs), key=lambda side: side[0] * side[1]
        )

    @property
    def span(self) -> int:
        """Clients on the left of a product, in all its groups."""
        return self.columns * self.left

    @property
    def batch(self) -> int:
        """Clients that are taken in together, and whose coefficients are checked together."""
        return self.left * max(1, BATCH // self.left)

    @property
    def own(self) -> NDArray[np.int64]:
        """The coefficients that a client may write to, in the order of the classes."""
        column, power = np.divmod(np.arange(self.num_classes), self.depth)
        return np.asarray(column + self.columns * power)

    @functools.cached_property
    def primes(self) -> tuple[int, ...]:
        """The data primes, and the special one at the end."""
        return tuple(prime.value() for prime in library().CoeffModulus.Create(DEGREE, list(PRIME_BITS)))

    @property
    def data_primes(self) -> tuple[int, ...]:
        """Primes of uploads."""
        return self.primes[:-1]

    @functools.cached_property
    def plain(self) -> int:
        """Modulus of messages: a prime above the largest inner product."""
        bits = 2 * self.max_examples.bit_length() + 1
        return int(library().PlainModulus.Batching(DEGREE, max(bits, 17)).value())

    @property
    def log_shift(self) -> float:
        """Bound on the noise of a result before it is flooded, as a power of two, in units of the plain modulus."""
        left = FRESH * self.columns * math.sqrt((self.left + 1) * self.columns)
        right = FRESH * self.columns * math.sqrt(self.right + 1)
        product = self.plain * left * right * math.sqrt(DEGREE * self.columns) * TAIL
        rounding = TAIL * DEGREE  # of three polynomials, times 1, s and s**2
        check = FRESH * self.batch**3.5 * self.plain * math.sqrt(DEGREE) * TAIL  # see _fhe_intake.py
        return math.log2(max(product, check) / self.data_primes[-1] + rounding)

    @property
    def flood_bits(self) -> int:
        """As many as two primes have room for."""
        room = math.log2(math.prod(self.data_primes[:2])) - 2
        return math.floor(room - math.log2(self.plain) - math.log2(1.6))

    def distance(self, coefficients: float) -> float:
        """Return b such that what so many coefficients show is within 2**-b of what depends on the results alone."""
        return distance_bits(bits=self.flood_bits, log_shift=self.log_shift, coefficients=coefficients)

    def check(self) -> None:
        """Refuse a cap on examples that leaves too little room for hiding."""
        if self.distance(COEFFICIENTS) < LEAST_DISTANCE:
            raise InvalidArgumentError(
                f"max_examples={self.max_examples} is too large for mode 'fhe' with {self.num_classes} classes: results would be "
                f"hidden to 2**-{max(self.distance(COEFFICIENTS), 0):.0f} only; lower it, or use mode 'masked'"
            )

    def ring(self) -> Ring:
        """Return the ring; the library checks that it gives 128 bits of security."""
        self.check()
        return Ring("bgv", degree=DEGREE, primes=self.primes, plain=self.plain)

    @property
    def splits(self) -> list[int]:
        """Galois elements that split residues of exponents, from the first step on."""
        return [(DEGREE >> step) + 1 for step in range(self.columns.bit_length() - 1)]

    def galois_keys(self, generator: Any) -> Any:
        """Make the keys for splitting, and for turning x into 1/x."""
        powers, value = {}, 1
        for exponent in range(DEGREE // 2):
            powers[value] = exponent
            value = value * 3 % (2 * DEGREE)
        keys = library().GaloisKeys()
        generator.create_galois_keys([0, *(powers[element] for element in self.splits)], keys)
        return keys


@functools.cache
def best_columns(num_classes: int) -> int:
    """Return the C that makes a Gram matrix of a typical federation cheapest.

    >>> best_columns(62), best_columns(10), best_columns(1)
    (16, 4, 1)
    """
    return min((1, 2, 4, 8, 16, 32), key=lambda columns: _cost(num_classes, columns))


def _cost(num_classes: int, columns: int) -> float:
    depth = -(-num_classes // columns)
    sides = math.sqrt(max(DEGREE / columns / depth, 1.0))
    switches = TYPICAL_CLIENTS * 2 / sides * columns
    results = TYPICAL_CLIENTS**2 / 2 / (DEGREE / depth)
    return switches * COST_SWITCH + results * (columns * COST_PRODUCT + COST_RESULT)
