"""Taking uploads in: every number is checked, clients are put into groups, and nobody may write outside their own coefficients.

A client that fills other coefficients than its own would add counts to its neighbours in a group. The server cannot see that, so
it lets the selector see it, and nothing else: for a batch of clients, in a secret order n = 1, 2, ..., and secret uniform
weights w of all coefficients that are nobody's::

    syndrome j = sum_n n^j <w, what client n wrote outside>,  j = 0, 1, 2, 3

All are zero if everybody is honest. Otherwise they name up to two clients, as in a Reed-Solomon code, and show that there
are more; only with probability 1/t does somebody slip through.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, final

import numpy as np

from fedcbs.errors import ProtocolError
from fedcbs.private._fhe_parameters import DEGREE, FheParameters
from fedcbs.private._fhe_server import FheServer
from fedcbs.private._flood import uniform_below
from fedcbs.private._seal import Words, unpack_residues
from fedcbs.private._wire import Buffer, pack

__all__ = ["SYNDROMES", "Intake", "read_upload", "writers_outside"]

SYNDROMES = 4


def read_upload(payload: Buffer, parameters: FheParameters) -> Words:
    """Return the residues of an upload's ciphertext; refuses what cannot be a fresh encryption."""
    residues = unpack_residues(payload, parameters.data_primes, polynomials=2, degree=DEGREE)
    if not residues.any(axis=2).all():
        raise ProtocolError("its ciphertext is transparent: it holds a message that is not encrypted")
    return residues


@final
class Intake:
    """Takes batches of uploads in.

    Parameters
    ----------
    server
        The server's arithmetic.
    """

    def __init__(self, server: FheServer) -> None:
        self._parameters, self._server = server.parameters, server

    def ciphertext(self, payload: Buffer) -> Any:
        """Return the ciphertext of one upload."""
        return self._server.ring.join(self._server.ring.header(3), read_upload(payload, self._parameters))

    def batch(self, payloads: Mapping[int, Buffer]) -> bytes:
        """Return groups and checks of a batch of uploads, given by their places in it, and who is refused."""
        accepted: dict[int, Any] = {}
        refused: dict[str, str] = {}
        check = _Check(self._parameters, list(payloads))
        header = self._server.ring.header(3)
        for place, payload in payloads.items():
            try:
                residues = read_upload(payload, self._parameters)
            except ProtocolError as error:
                refused[str(place)] = str(error)
                continue
            accepted[place] = self._server.ring.join(header, residues)
            check.add(place, residues)
        left, right, diagonals = self._groups(accepted)
        found = {"refused": refused, "order": check.order, "left": list(left), "right": list(right)}
        weights = self._weights()
        checks = [self._syndrome(total, weights) for total in check.totals] if accepted else []
        return pack("batch", found, *left.values(), *right.values(), *diagonals, *checks)

    def _groups(self, clients: dict[int, Any]) -> tuple[dict[int, bytes], dict[int, bytes], list[bytes]]:
        """Left groups, right groups, and for single rows in their place the diagonal of each left group."""
        server, parameters = self._server, self._parameters
        left = _by_group(clients, parameters.left)
        found = {group: server.write([server.left_group(members)]) for group, members in left.items()}
        if parameters.single:
            return found, {}, [server.diagonal(members) for members in left.values()]
        right = _by_group(clients, parameters.right)
        turned = {group: server.write([server.right_group(members)]) for group, members in right.items()}
        return found, turned, []

    def _weights(self) -> Any:
        """Uniform weights of the coefficients that are nobody's: coefficient 0 of a product with them adds up."""
        weights = uniform_below(self._parameters.plain, DEGREE)
        weights[-self._parameters.own % DEGREE] = 0  # coefficient k is multiplied by that of x**-k
        ring = self._server.ring
        return self._server.evaluator.transform_to_ntt(ring.plaintext(weights), ring.levels[3])

    def _syndrome(self, total: Words, weights: Any) -> bytes:
        server = self._server
        product = server.evaluator.multiply_plain(server.ring.join(server.ring.header(3), total), weights)
        return server.releaser.release(product, np.zeros(1, np.int64))


class _Check:
    """Sums of ciphertexts, weighted by powers of their places in a secret order."""

    def __init__(self, parameters: FheParameters, places: list[int]) -> None:
        self.order = list(places)
        secrets.SystemRandom().shuffle(self.order)
        self._numbers = {place: number for number, place in enumerate(self.order, 1)}
        self._moduli = np.array(parameters.data_primes, np.uint64)[:, None]
        self._inverses = (1 - 2.0**-50) / self._moduli.astype(
            np.float64
        )  # never a quotient that is too large
        self._totals = np.zeros((SYNDROMES, 2, len(parameters.data_primes), DEGREE), np.uint64)

    def add(self, place: int, residues: Words) -> None:
        """Add a ciphertext to the sums. They stay below 2**63, for 128 clients and moduli of 55 bits."""
        number = np.uint64(self._numbers[place])
        for power, total in enumerate(self._totals):
            if power:
                residues = residues * number
                residues -= (residues * self._inverses).astype(
                    np.uint64
                ) * self._moduli  # below twice the modulus
            total += residues

    @property
    def totals(self) -> Words:
        """The sums."""
        return self._totals % self._moduli


def writers_outside(syndromes: Sequence[int], order: Sequence[int], plain: int) -> list[int]:
    """Return the places of those who wrote outside their coefficients; all places, if there are too many to tell.

    >>> writers_outside([0, 0, 0, 0], [5, 3, 8], 97)
    []
    >>> writers_outside([7, 14, 28, 56], [5, 3, 8], 97)
    [3]
    """
    if not any(syndromes):
        return []
    for count in (1, 2):
        for numbers in combinations(range(1, len(order) + 1), count):
            if _explains(numbers, syndromes, plain):
                return [order[number - 1] for number in numbers]
    return list(order)


def _explains(numbers: tuple[int, ...], syndromes: Sequence[int], plain: int) -> bool:
    """Whether the syndromes follow the recurrence of these numbers."""
    if len(numbers) == 1:
        steps = pairwise(syndromes)
        return all((numbers[0] * one - two) % plain == 0 for one, two in steps)
    total, product = sum(numbers), numbers[0] * numbers[1]
    return all(
        (syndromes[n + 2] - total * syndromes[n + 1] + product * syndromes[n]) % plain == 0
        for n in range(len(syndromes) - 2)
    )


def _by_group(clients: dict[int, Any], size: int) -> dict[int, dict[int, Any]]:
    found: dict[int, dict[int, Any]] = {}
    for place, client in clients.items():
        found.setdefault(place // size, {})[place % size] = client
    return found
