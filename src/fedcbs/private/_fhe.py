"""Mode ``fhe``: the paper's protocol. Clients encrypt their counts for the selector, the server multiplies ciphertexts.

The scheme is BGV over Microsoft SEAL, at least 128 bits of security, one multiplication deep. A client sends one ciphertext. The
server computes encrypted inner products (``_fhe_server.py``), takes away everything else that they would show
(``_fhe_release.py``), and the selector opens them (``_fhe_open.py``).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import ProtocolError
from fedcbs.private._fhe_compute import computing
from fedcbs.private._fhe_intake import read_upload
from fedcbs.private._fhe_open import Matrix, Opener, blocks, numbers, open_sizes, outside, read_head
from fedcbs.private._fhe_parameters import DEGREE, FheParameters
from fedcbs.private._fhe_rows import OpenedRows, RowComputation
from fedcbs.private._keys import PublicKeys, SecretKeys
from fedcbs.private._mode import Accepted, Mode, Work
from fedcbs.private._opened import OpenedGram
from fedcbs.private._seal import Ring, pack_residues, packed_size
from fedcbs.private._wire import Buffer, Section

__all__ = ["Fhe"]


@final
class Fhe(Mode):
    """Exact inner products by homomorphic encryption, ciphertext times ciphertext.

    Examples
    --------
    >>> mode = Fhe(num_classes=2)
    >>> keys = mode.keygen()
    >>> uploads = {name: mode.encrypt(keys.public, row, name) for name, row in {"a": [3, 0], "b": [1, 1]}.items()}
    >>> mode.open(keys.secret, mode.gram(keys.public, uploads)).gram
    array([[9, 3],
           [3, 2]])
    """

    name: ClassVar[str] = "fhe"
    summary: ClassVar[str] = (
        "the paper's protocol: homomorphic encryption, ciphertext times ciphertext; exact"
    )
    learns: ClassVar[str] = (
        "the server learns nothing; the selector learns all inner products and sizes, and nothing else"
    )

    keeps_blocks: ClassVar[bool] = True

    @functools.cached_property
    def sizes(self) -> FheParameters:
        """Moduli, packing and noises."""
        found = FheParameters(self.num_classes, self.max_examples)
        found.check()
        return found

    @functools.cached_property
    def _ring(self) -> Ring:
        return self.sizes.ring()

    def _keygen(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        ring = self._ring
        generator = ring.seal.KeyGenerator(ring.context)
        public = {
            "encryption": ring.save_key(generator.create_public_key()),
            "relinearisation": ring.save_key(generator.create_relin_keys()),
            "splitting": ring.save_key(self.sizes.galois_keys(generator)),
        }
        return public, {"decryption": generator.secret_key().to_string()}

    def _encrypt(
        self,
        public: PublicKeys,
        counts: NDArray[np.int64],
        client: str,  # noqa: ARG002  # it stands in the frame
        class_secret: bytes | None,  # noqa: ARG002  # the base refuses one
    ) -> bytes:
        ring = self._ring
        coefficients = np.zeros(self.sizes.window, np.uint64)
        coefficients[self.sizes.own] = counts
        ciphertext = self._encryptor(public).encrypt(ring.plaintext(coefficients))
        return pack_residues(ring.split(ciphertext)[1], self.sizes.data_primes)

    def _encryptor(self, public: PublicKeys) -> Any:
        """The encryptor of the keys used last: to make one takes as long as to use it."""
        if public.fingerprint not in self._encryptors:
            key = self._ring.public_key(public.parts["encryption"])
            self._encryptors = {public.fingerprint: self._ring.seal.Encryptor(self._ring.context, key)}
        return self._encryptors[public.fingerprint]

    @functools.cached_property
    def _encryptors(self) -> dict[str, Any]:
        return {}

    def rows(
        self, public: PublicKeys, uploads: Mapping[str, Buffer], *, work: Work | None = None
    ) -> RowComputation:
        """Server: prepare for single rows instead of the whole matrix; use the result in a ``with`` statement."""
        self._expect(public.mode, public.parameters)
        accepted = Accepted(self, public, uploads)
        return RowComputation(dataclasses.replace(self.sizes, single=True), public, accepted, work or Work())

    def open_rows(self, secret: SecretKeys, setup: Buffer) -> OpenedRows:
        """Selector: open sizes and diagonal, and rows as they come."""
        self._expect(secret.mode, secret.parameters)
        return OpenedRows(dataclasses.replace(self.sizes, single=True), secret, setup, self.max_examples)

    def _glance(self, payload: memoryview) -> None:
        wanted = packed_size(self.sizes.data_primes, polynomials=2, degree=DEGREE)
        if len(payload) != wanted:
            raise ProtocolError(f"its ciphertext has {len(payload)} bytes; these parameters need {wanted}")

    def _check(self, payload: memoryview) -> None:
        read_upload(payload, self.sizes)

    def _gram(
        self,
        public: PublicKeys,
        uploads: Accepted,
        masks: Buffer | None,  # noqa: ARG002
        work: Work,
        held: ExitStack,
    ) -> Iterable[Section]:
        computation = held.enter_context(computing(self.sizes, public, uploads, work))
        computation.take_in()
        return computation.gram()

    def _open(
        self, secret: SecretKeys, clients: tuple[str, ...], sections: tuple[memoryview, ...]
    ) -> OpenedGram:
        head = read_head(sections, len(clients), ("batches", "sizes", "pairs"))
        if len(sections) != 5:
            raise ProtocolError(f"the result has {len(sections)} sections, not 5")
        opener = Opener(self.sizes, secret.parts["decryption"])
        refused = outside(head, clients, self.sizes, opener)
        groups = numbers(head.meta["sizes"], 1 << 32)
        sizes = open_sizes(sections[3], groups, head.slots, self.sizes, opener)
        matrix = Matrix(self.sizes, head.slots)
        pairs = [numbers(pair, 1 << 32) for pair in head.meta["pairs"]]
        for pair, block in zip(pairs, blocks(sections[4], self.sizes, len(pairs)), strict=True):
            if len(pair) != 2:
                raise ProtocolError("the result does not say what it holds")
            matrix.put(block, pair[0], pair[1], opener)
        found = OpenedGram(clients, sizes, self.num_classes, matrix.complete())
        return found.without(refused)
