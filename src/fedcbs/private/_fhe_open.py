"""Selector in mode ``fhe``: opens results and puts them where they belong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import ProtocolError
from fedcbs.private._fhe_intake import SYNDROMES, writers_outside
from fedcbs.private._fhe_parameters import DEGREE, FheParameters
from fedcbs.private._fhe_release import released_size
from fedcbs.private._fhe_server import result_places
from fedcbs.private._flood import times
from fedcbs.private._seal import unpack_residues
from fedcbs.private._wire import Buffer

__all__ = ["Head", "Matrix", "Opener", "blocks", "numbers", "open_sizes", "outside", "read_head"]

Slots = NDArray[np.int64]


@final
class Opener:
    """Decrypts results: the selector's part.

    Parameters
    ----------
    parameters
        Those of the mode.
    secret
        The selector's secret key, as SEAL writes it.
    """

    def __init__(self, parameters: FheParameters, secret: bytes) -> None:
        self._parameters = parameters
        self._ring = ring = parameters.ring()
        self._decryptor = ring.seal.Decryptor(ring.context, ring.context.from_secret_str(secret))
        fresh = ring.join(ring.header(3), ring.split(ring.throwaway.encrypt_zero())[1])
        ring.evaluator.mod_switch_to_inplace(fresh, ring.levels[1])
        self._header = ring.split(fresh)[0]  # switching down leaves its trace in it, always the same
        self._inverse = pow(parameters.columns, -2, parameters.plain)

    def values(self, result: Buffer, where: NDArray[np.int64], *, split: bool = False) -> NDArray[np.int64]:
        """Return the coefficients `where` of a result, less the factor that splitting both operands has left."""
        primes = self._parameters.data_primes[:1]
        residues = unpack_residues(result, primes, polynomials=2, degree=DEGREE)
        plaintext = self._decryptor.decrypt(self._ring.join(self._header, residues))
        found = self._ring.coefficients(plaintext)[where]
        factor = self._inverse if split else 1
        return times(found, factor, self._parameters.plain).view(np.int64)


@dataclass(frozen=True, eq=False)
class Head:
    """What every message of the server begins with.

    Parameters
    ----------
    slots
        Of the clients, in the order of their names.
    meta
        What follows.
    checks
        The checks of the batches.
    """

    slots: Slots
    meta: dict[str, Any]
    checks: memoryview


def read_head(sections: tuple[memoryview, ...], number: int, expected: tuple[str, ...]) -> Head:
    """Return the head, if its parts fit together."""
    if len(sections) < 3 or len(sections[0]) != 8 * number:
        raise ProtocolError(f"the result does not give the places of {number} clients")
    slots = np.frombuffer(sections[0], "<i8").astype(np.int64)
    if slots.min() < 0 or slots.max() >= 1 << 32 or len(np.unique(slots)) != number:
        raise ProtocolError("the result gives two clients one place")
    try:
        meta = json.loads(bytes(sections[1]))
        fine = isinstance(meta, dict) and all(isinstance(meta[name], list) for name in expected)
    except (ValueError, KeyError, RecursionError):
        fine = False
    if not fine:
        raise ProtocolError("the result does not say what it holds")
    return Head(slots, meta, sections[2])


def blocks(section: memoryview, parameters: FheParameters, count: int) -> Iterator[memoryview]:
    """Give the results in a section, if there are as many as there should be."""
    size = released_size(parameters)
    if len(section) != size * count:
        raise ProtocolError(f"the result holds {len(section)} bytes where {count} ciphertexts should be")
    for start in range(0, len(section), size):
        yield section[start : start + size]


def numbers(values: object, largest: int) -> list[int]:
    """Return a list of whole numbers, if it is one."""
    if isinstance(values, list) and all(type(value) is int and 0 <= value <= largest for value in values):
        return list(values)
    raise ProtocolError("the result does not say what it holds")


def outside(
    head: Head, clients: tuple[str, ...], parameters: FheParameters, opener: Opener
) -> dict[str, str]:
    """Return who wrote outside their own coefficients, and who shares ciphertexts with them, with the reasons."""
    names = dict(zip(head.slots.tolist(), clients, strict=True))
    orders = [_order(entry, parameters) for entry in head.meta["batches"]]
    found = blocks(head.checks, parameters, SYNDROMES * len(orders))
    checked = {number for number, _ in orders}
    if not {slot // parameters.batch for slot in names} <= checked:
        raise ProtocolError("the result lacks the checks of some clients")
    refused: dict[str, str] = {}
    for number, order in orders:
        values = [int(opener.values(next(found), np.zeros(1, np.int64))[0]) for _ in range(SYNDROMES)]
        places = writers_outside(values, order, parameters.plain)
        refused |= _reasons(places, number * parameters.batch, names, parameters)
    list(found)
    return refused


def _order(entry: object, parameters: FheParameters) -> tuple[int, list[int]]:
    if isinstance(entry, list) and len(entry) == 2:
        (number,) = numbers(entry[:1], 1 << 32)
        return number, numbers(entry[1], parameters.batch - 1)
    raise ProtocolError("the result does not say what it holds")


def _reasons(
    places: list[int], first: int, names: dict[int, str], parameters: FheParameters
) -> dict[str, str]:
    """Name the writers, or all of a batch, and their neighbours."""
    writers = [first + place for place in places]
    if len(writers) > 2:
        reason = "it or others of its batch wrote outside their own coefficients, too many to tell who; have them encrypt again"
        return {names[slot]: reason for slot in writers if slot in names}
    found: dict[str, str] = {}
    for writer in writers:
        group = writer // parameters.left
        for slot in range(group * parameters.left, (group + 1) * parameters.left):
            if slot in names and slot not in writers:
                found[names[slot]] = (
                    f"it shares ciphertexts with {names.get(writer, 'somebody')!r}, who wrote into them; "
                    "remove that upload and compute again, and it is back"
                )
    return found | {
        names[writer]: "it wrote outside its own coefficients" for writer in writers if writer in names
    }


@final
class Matrix:
    """The Gram matrix by slots, filled result by result.

    Parameters
    ----------
    parameters
        Those of the mode.
    slots
        Of the clients.
    """

    def __init__(self, parameters: FheParameters, slots: Slots) -> None:
        self._parameters = parameters
        self._places = result_places(parameters).ravel()
        size = -(-(int(slots.max()) + 1) // parameters.span) * parameters.span
        self._rows = np.full(size, -1, np.int64)
        self._rows[slots] = np.arange(len(slots))
        self.values = np.full((len(slots), len(slots)), -1, np.int64)

    def put(self, result: memoryview, span: int, right: int, opener: Opener) -> None:
        """Open the result of a span and a right group."""
        parameters = self._parameters
        found = opener.values(result, self._places, split=True).reshape(parameters.span, parameters.right)
        if (span + 1) * parameters.span > len(self._rows) or (right + 1) * parameters.right > len(self._rows):
            raise ProtocolError("the result speaks of places that no client has")
        rows = self._rows[span * parameters.span : (span + 1) * parameters.span]
        columns = self._rows[right * parameters.right : (right + 1) * parameters.right]
        here, there = np.flatnonzero(rows >= 0), np.flatnonzero(columns >= 0)
        block = found[np.ix_(here, there)]
        self.values[np.ix_(rows[here], columns[there])] = block
        self.values[np.ix_(columns[there], rows[here])] = block.T

    def complete(self) -> NDArray[np.int64]:
        """Return the matrix, if nothing is missing."""
        if (self.values < 0).any():
            raise ProtocolError("the result lacks inner products of some clients")
        return self.values


def open_sizes(
    section: memoryview, groups: list[int], slots: Slots, parameters: FheParameters, opener: Opener
) -> NDArray[np.int64]:
    """Return the sizes of the clients."""
    width = parameters.left * parameters.right
    found: dict[int, NDArray[np.int64]] = {}
    # Left groups lie side by side: client i of group g of the stretch at window * (g + right * i).
    places = parameters.window * (
        np.arange(parameters.right)[:, None] + parameters.right * np.arange(parameters.left)
    )
    for group, block in zip(groups, blocks(section, parameters, len(groups)), strict=True):
        found[group] = opener.values(block, places.ravel())
    if not {int(slot) // width for slot in slots} <= found.keys():
        raise ProtocolError("the result lacks the sizes of some clients")
    return np.array([found[int(slot) // width][int(slot) % width] for slot in slots], np.int64)
