"""Mode ``sealed``: each client's counts in a sealed box to the selector, the classes in an order that only clients know.

The selector learns the counts up to a common order of the classes. That is what it can work out from the Gram matrix
anyway (counts are whole numbers; see ``fedcbs audit``), so next to the encrypted modes little is lost, and it costs
microseconds: no N x N matrix, millions of clients. The server learns nothing.

Inside a box: whose it is and for which keys (32 bytes), a tag of the secret order (8), and the counts.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import repeat
from multiprocessing import get_context
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError, ProtocolError
from fedcbs.private import _boxes
from fedcbs.private._keys import PublicKeys, SecretKeys
from fedcbs.private._mode import Accepted, Mode, Work
from fedcbs.private._opened import OpenedGram
from fedcbs.private._wire import Buffer, Section

__all__ = ["Sealed", "class_order"]

BINDING, TAG = 32, 8
CHUNK = 50_000


def class_order(class_secret: bytes, num_classes: int) -> NDArray[np.int64]:
    """Return the order of the classes that a secret stands for; every order is equally likely.

    >>> class_order(b"sixteen bytes!!!", 4).tolist()
    [1, 3, 0, 2]
    """
    if len(class_secret) < 16:
        raise InvalidArgumentError(
            f"class_secret has {len(class_secret)} bytes; use at least 16, made with: fedcbs private class-secret"
        )
    stream = hashlib.shake_256(b"fedcbs class order\0" + class_secret).digest(16 * num_classes)
    keys = [stream[16 * b : 16 * (b + 1)] for b in range(num_classes)]
    return np.array(sorted(range(num_classes), key=keys.__getitem__), dtype=np.int64)


@final
class Sealed(Mode):
    """Counts in an order of classes that only clients know, sealed for the selector.

    Examples
    --------
    >>> mode = Sealed(num_classes=2)
    >>> keys = mode.keygen()
    >>> uploads = {name: mode.encrypt(keys.public, row, name) for name, row in {"a": [3, 0], "b": [1, 1]}.items()}
    >>> mode.open(keys.secret, mode.gram(keys.public, uploads)).gram
    array([[9, 3],
           [3, 2]])
    """

    name: ClassVar[str] = "sealed"
    summary: ClassVar[str] = "sealed boxes to the selector, order of classes hidden; millions of clients"
    learns: ClassVar[str] = (
        "the server learns nothing; the selector learns every client's counts, in an order of classes that only clients know "
        "(if they share a class secret)"
    )
    hides_order: ClassVar[bool] = True

    @property
    def _width(self) -> int:
        return (self.max_examples.bit_length() + 7) // 8

    @property
    def _size(self) -> int:
        return BINDING + TAG + self._width * self.num_classes

    def _keygen(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        public, secret = _boxes.new_box()
        return {"box": public}, {"box": secret}

    def _encrypt(
        self, public: PublicKeys, counts: NDArray[np.int64], client: str, class_secret: bytes | None
    ) -> bytes:
        tag = bytes(TAG)
        if class_secret is not None:
            counts = counts[class_order(class_secret, self.num_classes)]
            tag = hashlib.sha256(b"fedcbs class order tag\0" + class_secret).digest()[:TAG]
        words = counts.astype("<u4").view(np.uint8).reshape(-1, 4)[:, : self._width]
        bound = _boxes.binding(public.fingerprint, client)
        return _boxes.seal(public.parts["box"], bound + tag + words.tobytes())

    def _check(self, payload: memoryview) -> None:
        if len(payload) != self._size + _boxes.OVERHEAD:
            raise ProtocolError(f"its box holds {len(payload)} bytes, not {self._size + _boxes.OVERHEAD}")

    def _gram(
        self,
        public: PublicKeys,  # noqa: ARG002
        uploads: Accepted,
        masks: Buffer | None,  # noqa: ARG002
        work: Work,
        held: ExitStack,  # noqa: ARG002
    ) -> Iterable[Section]:
        work.progress(len(uploads), len(uploads))
        return [Section((self._size + _boxes.OVERHEAD) * len(uploads), uploads.values())]

    def _open(
        self, secret: SecretKeys, clients: tuple[str, ...], sections: tuple[memoryview, ...]
    ) -> OpenedGram:
        sealed = self._size + _boxes.OVERHEAD
        if [len(part) for part in sections] != [sealed * len(clients)]:
            raise ProtocolError(f"the result does not hold one box for each of {len(clients)} clients")
        return self._opened(clients, *self._contents(secret, clients, sections[0]))

    def _contents(
        self, secret: SecretKeys, clients: tuple[str, ...], boxes: memoryview
    ) -> tuple[bytes, dict[str, str]]:
        """Open all boxes, in several processes where there are many."""
        sealed = self._size + _boxes.OVERHEAD
        starts = range(0, len(clients), CHUNK)
        names = [clients[start : start + CHUNK] for start in starts]
        parts = [bytes(boxes[start * sealed : (start + CHUNK) * sealed]) for start in starts]
        fixed = [repeat(value) for value in (secret.parts["box"], secret.fingerprint, self._size)]
        if len(parts) == 1:
            found = list(map(_open_boxes, names, parts, *fixed))
        else:
            # Spawned and not forked: a service has threads, and a fork of it may wait for ever.
            with ProcessPoolExecutor(min(len(parts), os.cpu_count() or 1), get_context("spawn")) as pool:
                found = list(pool.map(_open_boxes, names, parts, *fixed))
        return b"".join(part for part, _ in found), {k: v for _, bad in found for k, v in bad.items()}

    def _opened(self, clients: tuple[str, ...], contents: bytes, refused: dict[str, str]) -> OpenedGram:
        rows = np.frombuffer(contents, np.uint8).reshape(-1, self._size)
        words = np.zeros((len(rows), self.num_classes, 4), np.uint8)
        words[:, :, : self._width] = rows[:, BINDING + TAG :].reshape(len(rows), self.num_classes, -1)
        counts = words.view("<u4")[:, :, 0].astype(np.int64)
        tags = rows[:, BINDING : BINDING + TAG].copy().view("<u8")[:, 0]
        good = np.array([name not in refused for name in clients])
        if not good.any():
            raise ProtocolError(f"no box can be opened; the first: {next(iter(refused.values()))}")
        usual = Counter(tags[good].tolist()).most_common(1)[0][0]
        for n in np.flatnonzero(good & (tags != usual)).tolist():
            refused[clients[n]] = (
                "its classes are in another order than those of most clients; it has another class secret"
            )
        stay = good & (tags == usual)
        kept = tuple(name for name, keep in zip(clients, stay.tolist(), strict=True) if keep)
        return OpenedGram(kept, counts[stay].sum(axis=1), self.num_classes, None, counts[stay], refused)


def _open_boxes(
    clients: tuple[str, ...], boxes: bytes, secret: bytes, fingerprint: str, size: int
) -> tuple[bytes, dict[str, str]]:
    """Return the contents (zeros where a box is refused), and the reasons of refusal."""
    opener, sealed = _boxes.Opener(secret), size + _boxes.OVERHEAD
    contents, refused = [], {}
    for n, client in enumerate(clients):
        try:
            content = opener.open(boxes[n * sealed : (n + 1) * sealed])
            if content[:BINDING] != _boxes.binding(fingerprint, client):
                raise ProtocolError("its box was sealed by another client or for other keys")
        except ProtocolError as error:
            refused[client] = str(error)
            content = bytes(size)
        contents.append(content)
    return b"".join(contents), refused
