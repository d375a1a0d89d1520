"""Server in mode ``fhe``: from uploads to encrypted inner products, ciphertext times ciphertext.

With y = x^C and D the depth (see ``_fhe_parameters.py``), for clients i on the left and j on the right::

    left group    sum_i p_i y^(i D k)        k = clients on the right     split into L_c, c < C
    right group   sum_j p_j y^(-j D), x to 1/x afterwards                 split into R_c
    left span     C left groups r side by side: sum_r x^r L_c^(r)
    result        sum_c L_c R_c: coefficient r + C D (i k + j) is C^2 <a_(r, i), a_j>

Everything here works on ciphertexts and public keys only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.private._fhe_parameters import DEGREE, FheParameters
from fedcbs.private._fhe_release import Guards, Releaser

__all__ = ["FheServer", "result_places"]


def result_places(parameters: FheParameters) -> NDArray[np.int64]:
    """Return where the results stand in a product: group of the left span x left x right."""
    group = np.arange(parameters.columns)[:, None]
    pair = np.arange(parameters.left * parameters.right)[None]
    places = group + parameters.window * pair
    return places.reshape(parameters.columns, parameters.left, parameters.right)


@final
class FheServer:
    """The server's arithmetic, in one process.

    Parameters
    ----------
    parameters
        Those of the mode.
    public
        The selector's public parts.
    guards
        What hides the operands in results.
    """

    def __init__(
        self,
        parameters: FheParameters,
        public: dict[str, bytes],
        guards: Guards,
    ) -> None:
        self.parameters = parameters
        self.ring = ring = parameters.ring()
        self.evaluator = ring.evaluator
        encryptor = ring.seal.Encryptor(ring.context, ring.public_key(public["encryption"]))
        switching = ring.load_key(public["relinearisation"], ring.template_keys.create_relin_keys())
        self._galois = ring.load_key(public["splitting"], parameters.galois_keys(ring.template_keys))
        self.releaser = Releaser(parameters, ring, encryptor, switching, guards)
        self._header = ring.header(3)
        self._monomials: dict[int, Any] = {}
        self._results = result_places(parameters).ravel()

    # Ciphertexts inside the server.

    def read(self, stored: bytes) -> list[Any]:
        """Return ciphertexts that :meth:`write` wrote."""
        residues = np.frombuffer(stored, np.uint64).reshape(-1, 2, 3, DEGREE)
        return [self.ring.join(self._header, found) for found in residues]

    def write(self, ciphertexts: Sequence[Any]) -> bytes:
        """Return ciphertexts as bytes, for the server's other processes."""
        return b"".join(self.ring.split(found)[1].tobytes() for found in ciphertexts)

    def shift(self, ciphertext: Any, exponent: int) -> Any:
        """Return a ciphertext times x**exponent."""
        exponent %= 2 * DEGREE
        if exponent == 0:
            return ciphertext
        if exponent not in self._monomials:
            coefficients = np.zeros(DEGREE, np.uint64)
            sign = 1 if exponent < DEGREE else self.parameters.plain - 1
            coefficients[exponent % DEGREE] = sign
            level = self.ring.levels[3]
            self._monomials[exponent] = self.evaluator.transform_to_ntt(
                self.ring.plaintext(coefficients), level
            )
        return self.evaluator.multiply_plain(ciphertext, self._monomials[exponent])

    def total(self, ciphertexts: Sequence[Any]) -> Any:
        """Return their sum."""
        found = ciphertexts[0]
        for ciphertext in ciphertexts[1:]:
            found = self.evaluator.add(found, ciphertext)
        return found

    def split(self, ciphertext: Any, sign: int) -> list[Any]:
        """Return C ciphertexts, one for each residue of exponents modulo C, each times C."""
        found = [ciphertext]
        for step, element in enumerate(self.parameters.splits):
            evens, odds = [], []
            for part in found:
                turned = self.evaluator.apply_galois(part, element, self._galois)
                evens.append(self.evaluator.add(part, turned))
                odds.append(self.shift(self.evaluator.sub(part, turned), sign * (1 << step)))
            found = evens + odds
        return found

    def turned(self, ciphertext: Any) -> Any:
        """Return a ciphertext with x replaced by 1/x."""
        return self.evaluator.apply_galois(ciphertext, 2 * DEGREE - 1, self._galois)

    # Tasks.

    def left_group(self, clients: dict[int, Any]) -> Any:
        """Return the left group of some clients, by their place in it."""
        stride = self.parameters.window * self.parameters.right
        return self.total([self.shift(found, place * stride) for place, found in clients.items()])

    def right_group(self, clients: dict[int, Any]) -> Any:
        """Return the right group of some clients, by their place in it, before it is turned."""
        return self.total(
            [self.shift(found, -place * self.parameters.window) for place, found in clients.items()]
        )

    def span(self, groups: Mapping[int, Any]) -> bytes:
        """Split the left groups of a span, and put them side by side."""
        found: list[Any] = []
        for place, group in groups.items():
            parts = [self.shift(part, place) for part in self.split(group, -1)]
            found = [self.evaluator.add(*pair) for pair in zip(found, parts, strict=True)] if found else parts
        return self.write(found)

    def factors(self, right: Any) -> list[Any]:
        """Return a right group as products need it."""
        return self.split(self.turned(right), +1)

    def result(self, span: Sequence[Any], factors: Sequence[Any]) -> bytes:
        """Return the result of a left span and a right group."""
        return self.releaser.release(self.product(span, factors), self._results)

    def product(self, left: Sequence[Any], right: Sequence[Any]) -> Any:
        """Return the sum of products, in three polynomials."""
        found = self.evaluator.multiply(left[0], right[0])
        for pair in zip(left[1:], right[1:], strict=True):
            self.evaluator.add_inplace(found, self.evaluator.multiply(*pair))
        return found

    def diagonal(self, clients: dict[int, Any]) -> bytes:
        """Return the products of clients with themselves, each at its own window; for one client on the right."""
        found: Any = None
        for place, client in clients.items():
            square = self.evaluator.multiply(
                self.shift(client, place * self.parameters.window), self.turned(client)
            )
            found = square if found is None else self.evaluator.add(found, square)
        places = np.arange(self.parameters.left) * self.parameters.window
        return self.releaser.release(found, places)

    def sizes(self, groups: Mapping[int, Any]) -> bytes:
        """Return the sizes of all clients of some left groups: at window * (group's place + right * client's place)."""
        window = self.parameters.window
        total = self.total([self.shift(group, place * window) for place, group in groups.items()])
        ones = np.zeros(DEGREE, np.uint64)
        ones[0] = 1
        ones[DEGREE - window + 1 :] = self.parameters.plain - 1  # x**-k is -x**(degree - k)
        plain = self.evaluator.transform_to_ntt(self.ring.plaintext(ones), self.ring.levels[3])
        places = np.arange(self.parameters.left * self.parameters.right) * window
        return self.releaser.release(self.evaluator.multiply_plain(total, plain), places)
