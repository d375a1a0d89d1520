"""One of the processes in which the server computes in mode ``fhe``; finished blocks are what they share."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, final

from fedcbs.private._blocks import Blocks
from fedcbs.private._fhe_intake import Intake
from fedcbs.private._fhe_parameters import FheParameters
from fedcbs.private._fhe_release import Guards
from fedcbs.private._fhe_server import FheServer
from fedcbs.private._wire import Buffer, Message, unpack

__all__ = ["LARGEST_HEADER", "Part", "Worker", "read_batch"]

Part: TypeAlias = tuple[str, int]
"""A part of a batch: the batch's key, and the number of the section."""

LARGEST_HEADER = 1 << 20
MOST_SPANS = 64
"""Spans that stay in memory, of 6 MB each with 62 classes."""


def read_batch(blocks: Blocks, key: str) -> Message:
    """Return a batch that was taken in."""
    return unpack(blocks[key], "batch", largest_header=LARGEST_HEADER)


@final
class Worker:
    """Computes blocks.

    Parameters
    ----------
    parameters, public, guards
        As for :class:`~fedcbs.private._fhe_server.FheServer`.
    blocks
        Where finished blocks are.
    """

    def __init__(
        self,
        parameters: FheParameters,
        public: dict[str, bytes],
        blocks: Blocks,
        guards: Guards | None = None,
    ) -> None:
        self._server = FheServer(parameters, public, guards or Guards())
        self._intake = Intake(self._server)
        self._blocks = blocks
        self._batch = functools.lru_cache(maxsize=2)(functools.partial(read_batch, blocks))
        self._span = functools.lru_cache(maxsize=MOST_SPANS)(lambda key: self._server.read(blocks[key]))

    def batch(self, payloads: Mapping[int, Buffer]) -> bytes:
        """Take a batch of uploads in."""
        return self._intake.batch(payloads)

    def span(self, groups: Mapping[int, Part]) -> bytes:
        """Split the left groups of a span, and put them side by side."""
        return self._server.span({place: self._ciphertext(part) for place, part in groups.items()})

    def sizes(self, groups: Mapping[int, Part]) -> bytes:
        """Return the sizes of all clients of some left groups."""
        return self._server.sizes({place: self._ciphertext(part) for place, part in groups.items()})

    def products(self, right: Part | bytes, spans: Sequence[str]) -> list[bytes]:
        """Return the results of one right group (a part, or an upload's ciphertext) with spans."""
        group = self._intake.ciphertext(right) if isinstance(right, bytes) else self._ciphertext(right)
        factors = self._server.factors(group)
        return [self._server.result(self._span(key), factors) for key in spans]

    def _ciphertext(self, part: Part) -> Any:
        key, section = part
        return self._server.read(bytes(self._batch(key).sections[section]))[0]
