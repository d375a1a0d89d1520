"""Server in mode ``masked``: rows of masked inner products, computed on the selector's encrypted masks.

With ``x = a - r`` (mod t) for each client, the server holds X and, under the selector's key, the columns of R. A row of
``Y = X R^T + K`` is a combination of those ciphertexts with plain whole numbers, so all rows are one product of matrices modulo
each prime, done exactly in float64. K is random, with ``K[i, j] + K[j, i] = <x_i, x_j>``: each entry of Y alone is uniform, and
``Y + Y^T + R R^T`` is the Gram matrix. Every row gets a fresh encryption of zero and a flood before it leaves: without the
first, its second polynomial is a linear system in X; without the second, its noise is.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcbs.private._flood import flood
from fedcbs.private._masked_parameters import DEGREE, Layout, MaskedParameters
from fedcbs.private._seal import Words, pack_residues, packed_size, unpack_residues
from fedcbs.private._wire import Buffer
from fedcbs.private._words import low_bits, products, random_words

__all__ = ["TILE", "Guards", "RowServer", "Shares", "run_key", "task_size", "tasks"]

TILE = 128
"""Rows of a task: what is computed, kept and resumed as one."""
BATCH = 64
"""Ciphertexts whose residues are in memory at a time."""


@dataclass(frozen=True)
class Guards:
    """What hides the server's operands in a result. Tests take one away and show what then leaks."""

    rerandomise: bool = True
    flood: bool = True


@dataclass(frozen=True, eq=False)
class Shares:
    """What the server holds of the clients.

    Parameters
    ----------
    shares
        Masked counts, clients x classes.
    columns
        Where each client's mask stands in the selector's ciphertexts.
    num_columns
        Clients that the selector made masks for; there may be more of them than shares.
    key
        Random bytes that stand for K: secret, and never used for two sets of shares or masks.
    """

    shares: Words = field(repr=False)
    columns: NDArray[np.int64]
    num_columns: int
    key: bytes = field(repr=False)

    def blinds(self, rows: NDArray[np.int64], bits: int) -> Words:
        """Return K for these rows and all clients."""
        number = len(self.shares)
        tiles = [
            self._tile(rows, np.arange(start, min(start + TILE, number)), bits)
            for start in range(0, number, TILE)
        ]
        return np.concatenate(tiles, axis=1)

    def _tile(self, rows: NDArray[np.int64], columns: NDArray[np.int64], bits: int) -> Words:
        """K for one tile: random above the diagonal, and below it what is left of the inner products."""
        above = rows[0] <= columns[0]
        first, second = (rows, columns) if above else (columns, rows)
        key = self.key + b"tile" + int(first[0]).to_bytes(4, "little") + int(second[0]).to_bytes(4, "little")
        drawn = random_words(key, len(first) * len(second), bits).reshape(len(first), len(second))
        if rows[0] != columns[0]:
            return drawn if above else low_bits(self._inner(rows, columns, bits) - drawn.T, bits)
        lower = low_bits(self._inner(rows, columns, bits) - drawn.T, bits)
        return np.where(np.tri(len(rows), k=-1, dtype=bool), lower, drawn)

    def _inner(self, rows: NDArray[np.int64], columns: NDArray[np.int64], bits: int) -> Words:
        return products(self.shares[rows], self.shares[columns], bits)

    def diagonal(self, bits: int) -> Words:
        """Return <x_i, x_i> - 2 K[i, i], which the selector needs for the diagonal and which says no more."""
        found = np.empty(len(self.shares), np.uint64)
        for start in range(0, len(self.shares), TILE):
            rows = np.arange(start, min(start + TILE, len(self.shares)))
            tile = self._tile(rows, rows, bits)
            inner = (self.shares[rows] * self.shares[rows]).sum(axis=1)  # wraps, and the low bits are right
            found[rows] = low_bits(inner - np.uint64(2) * tile.diagonal(), bits)
        return found


def tasks(num_clients: int) -> list[NDArray[np.int64]]:
    """Return the rows of each task."""
    return [np.arange(start, min(start + TILE, num_clients)) for start in range(0, num_clients, TILE)]


def task_size(parameters: MaskedParameters, layout: Layout, num_rows: int) -> int:
    """Bytes that a task gives."""
    outputs = -(-num_rows // layout.rows) * layout.parts
    return outputs * packed_size(parameters.data_primes[: parameters.kept], polynomials=2, degree=DEGREE)


@final
class RowServer:
    """Computes rows, in one process.

    Parameters
    ----------
    parameters
        Those of the mode.
    public
        The selector's public key, as residues.
    shares
        What the server holds.
    masks
        The selector's encrypted masks: for each part of a row, a ciphertext for each class.
    guards
        What hides the operands.
    """

    def __init__(
        self,
        parameters: MaskedParameters,
        public: Buffer,
        shares: Shares,
        masks: Buffer,
        guards: Guards | None = None,
    ) -> None:
        self._parameters, self._shares = parameters, shares
        self._guards = guards or Guards()
        self._layout = Layout(shares.num_columns)
        self._ring = parameters.ring()
        self._encryptor = self._ring.seal.Encryptor(self._ring.context, self._ring.public_key(public))
        self._header = self._ring.header(len(parameters.data_primes))
        self._last = self._ring.levels[parameters.kept]
        self._masks = memoryview(masks)
        self._operands: dict[int, list[NDArray[np.float64]]] = {}  # of one part at a time

    def rows(self, rows: NDArray[np.int64]) -> bytes:
        """Return the ciphertexts of some rows."""
        blinds = self._shares.blinds(rows, self._parameters.word_bits)
        return b"".join(
            piece for part in range(self._layout.parts) for piece in self._part(rows, blinds, part)
        )

    def _part(self, rows: NDArray[np.int64], blinds: Words, part: int) -> Iterator[bytes]:
        layout, bits = self._layout, self._parameters.word_bits
        outputs = -(-len(rows) // layout.rows)
        half = np.uint64(1 << (bits - 1))
        centred = (low_bits(self._shares.shares[rows] + half, bits) - half).view(np.int64)
        factors = np.zeros((outputs * layout.rows, centred.shape[1]), np.int64)
        factors[: len(rows)] = centred
        plain = self._plain(blinds, part, outputs)
        for start in range(0, outputs, BATCH):
            stop = min(start + BATCH, outputs)
            some = factors.reshape(outputs, -1)[
                start:stop
            ]  # for each output its rows' shares, one after another
            residues = self._combine(some, part)
            for output, coefficients in zip(residues, plain[start:stop], strict=True):
                yield self._release(output, coefficients)

    def _plain(self, blinds: Words, part: int, outputs: int) -> Words:
        """K where a result stands, and uniform numbers everywhere else."""
        layout, bits = self._layout, self._parameters.word_bits
        first = part * layout.width
        here = (self._shares.columns >= first) & (self._shares.columns < first + layout.width)
        drawn = np.frombuffer(os.urandom(8 * outputs * DEGREE), np.uint64)
        plain = low_bits(drawn, bits).reshape(outputs * layout.rows, layout.width)
        plain[: len(blinds), self._shares.columns[here] - first] = blinds[:, here]
        return plain.reshape(outputs, DEGREE)

    def _operand(self, part: int) -> list[NDArray[np.float64]]:
        """Per prime, the masks' ciphertexts shifted to where each row stands: (rows x classes) x 2 polynomials."""
        if part in self._operands:
            return self._operands[part]
        layout, primes = self._layout, self._parameters.data_primes
        classes = self._parameters.num_classes
        size = packed_size(primes, polynomials=2, degree=DEGREE)
        found = [np.empty((layout.rows, classes, 2, DEGREE)) for _ in primes]
        for label in range(classes):
            start = (part * classes + label) * size
            residues = unpack_residues(
                self._masks[start : start + size], primes, polynomials=2, degree=DEGREE
            )
            for which, prime in enumerate(primes):
                centred = _centred(residues[:, which].astype(np.float64), prime)
                for row in range(layout.rows):
                    shift = row * layout.width  # times x**shift, and x**degree is -1
                    found[which][row, label, :, shift:] = centred[:, : DEGREE - shift]
                    found[which][row, label, :, :shift] = -centred[:, DEGREE - shift :]
        self._operands = {part: [array.reshape(-1, 2 * DEGREE) for array in found]}
        return self._operands[part]

    def _combine(self, factors: NDArray[np.int64], part: int) -> Words:
        primes = self._parameters.data_primes
        found = np.empty((len(factors), 2, len(primes), DEGREE), np.uint64)
        for which, (prime, operand) in enumerate(zip(primes, self._operand(part), strict=True)):
            scalars = _centred((factors % prime).astype(np.float64), prime)
            sums = (scalars @ operand).astype(np.int64) % prime
            found[:, :, which] = sums.reshape(len(factors), 2, DEGREE)
        return found

    def _release(self, residues: Words, plain: Words) -> bytes:
        primes, ring = self._parameters.data_primes, self._ring
        if self._guards.flood:
            residues[0] += flood(self._parameters.flood_bits, DEGREE, primes)
            residues[0] %= np.array(primes, np.uint64)[:, None]
        ciphertext = ring.join(self._header, residues)
        if self._guards.rerandomise:
            ring.evaluator.add_inplace(ciphertext, self._encryptor.encrypt_zero())
        ring.evaluator.add_plain_inplace(ciphertext, ring.plaintext(plain))
        ring.evaluator.mod_switch_to_inplace(ciphertext, self._last)
        return pack_residues(ring.split(ciphertext)[1], primes[: self._parameters.kept])


def run_key(server_secret: bytes, *inputs: bytes) -> bytes:
    """Return the key of K for one set of inputs: the same again after a crash, and another for anything else."""
    digest = hashlib.blake2b(key=server_secret, digest_size=32)
    for part in inputs:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _centred(residues: NDArray[np.float64], prime: int) -> NDArray[np.float64]:
    return np.where(residues > prime // 2, residues - prime, residues)
