"""Mode ``plain``: counts as they are. It protects nothing, and is what the other modes must equal bit for bit.

The whole computation is one self-contained function of the uploads, so it is also what would run inside an enclave.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import ProtocolError
from fedcbs.private._keys import PublicKeys, SecretKeys
from fedcbs.private._mode import Accepted, Mode, Work
from fedcbs.private._opened import OpenedGram
from fedcbs.private._wire import Buffer, Section

__all__ = ["Plain"]

WORD = np.dtype("<i8")


@final
class Plain(Mode):
    """No protection: for tests, and for servers that may see the counts.

    Examples
    --------
    >>> mode = Plain(num_classes=2)
    >>> keys = mode.keygen()
    >>> uploads = {name: mode.encrypt(keys.public, row, name) for name, row in {"a": [3, 0], "b": [1, 1]}.items()}
    >>> mode.open(keys.secret, mode.gram(keys.public, uploads)).gram
    array([[9, 3],
           [3, 2]])
    """

    name: ClassVar[str] = "plain"
    summary: ClassVar[str] = "no protection; for tests and trusted servers"
    learns: ClassVar[str] = "the server and the selector see every client's counts"
    randomised: ClassVar[bool] = False

    def _keygen(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        return {}, {}

    def _encrypt(
        self,
        public: PublicKeys,  # noqa: ARG002  # there is nothing to encrypt with
        counts: NDArray[np.int64],
        client: str,  # noqa: ARG002
        class_secret: bytes | None,  # noqa: ARG002
    ) -> bytes:
        return counts.astype(WORD).tobytes()

    def _check(self, payload: memoryview) -> None:
        if len(payload) != WORD.itemsize * self.num_classes:
            raise ProtocolError(
                f"it holds {len(payload)} bytes, not {WORD.itemsize} for each of {self.num_classes} classes"
            )
        counts = np.frombuffer(payload, WORD)
        if (
            int(counts.min()) < 0
            or int(counts.max()) > self.max_examples
            or int(counts.sum()) > self.max_examples
        ):
            raise ProtocolError(
                f"its counts are negative, or add up to more than the cap of {self.max_examples}"
            )

    def _gram(
        self,
        public: PublicKeys,  # noqa: ARG002
        uploads: Accepted,
        masks: Buffer | None,  # noqa: ARG002
        work: Work,
        held: ExitStack,  # noqa: ARG002
    ) -> Iterable[Section]:
        counts = np.stack([np.frombuffer(payload, WORD) for payload in uploads.values()])
        matrix = (counts @ counts.T).astype(WORD)
        work.progress(1, 1)
        sizes = counts.sum(axis=1, dtype=WORD)
        return [Section(array.nbytes, [array.tobytes()]) for array in (sizes, matrix)]

    def _open(
        self,
        secret: SecretKeys,  # noqa: ARG002
        clients: tuple[str, ...],
        sections: tuple[memoryview, ...],
    ) -> OpenedGram:
        number = len(clients)
        if [len(part) for part in sections] != [WORD.itemsize * number, WORD.itemsize * number**2]:
            raise ProtocolError(f"the result does not hold the sizes and inner products of {number} clients")
        sizes, matrix = (np.frombuffer(part, WORD).astype(np.int64) for part in sections)
        return OpenedGram(clients, sizes, self.num_classes, matrix.reshape(number, number))
