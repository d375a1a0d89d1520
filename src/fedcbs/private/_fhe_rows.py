"""Rows on demand in mode ``fhe``: a cohort of M costs M rows, and no N x N matrix is ever computed.

The server computes sizes and the diagonal once, and a row when the selector asks for it, which is when it has picked that
client; the server learns who is picked a moment earlier than it would anyway. The selector's side fits
:class:`~fedcbs.imbalance.RowsOnDemandGram`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError, ProtocolError, UploadError
from fedcbs.imbalance import RowsOnDemandGram
from fedcbs.private._fhe_compute import Computation, computing
from fedcbs.private._fhe_open import Opener, blocks, numbers, open_sizes, outside, read_head
from fedcbs.private._fhe_parameters import FheParameters
from fedcbs.private._fhe_release import released_size
from fedcbs.private._fhe_server import result_places
from fedcbs.private._keys import PublicKeys, SecretKeys
from fedcbs.private._mode import Accepted, Work, read_names, read_refused
from fedcbs.private._plausible import impossible_sizes
from fedcbs.private._wire import Buffer, Section, frame, pack, unpack

__all__ = ["OpenedRows", "RowComputation"]

LARGEST_HEADER = 1 << 26


@final
class RowComputation:
    """Server: computes what rows need, and then rows. Use it in a ``with`` statement.

    Parameters
    ----------
    parameters
        Those of the mode, for single rows.
    public
        The selector's public keys.
    uploads
        Payloads of good uploads.
    work
        How it is done.
    """

    def __init__(self, parameters: FheParameters, public: PublicKeys, uploads: Accepted, work: Work) -> None:
        self._parameters, self._uploads = parameters, uploads
        self._fingerprint = public.fingerprint
        self._held = ExitStack()
        for error in uploads.refused.values():
            work.on_refusal(error)
        self._computation: Computation = self._held.enter_context(
            computing(parameters, public, uploads, work)
        )
        self._computation.take_in()
        self._spans = self._computation.spans()
        self._computation.make_spans(self._spans)

    def __enter__(self) -> RowComputation:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients that take part, in order."""
        return tuple(self._uploads)

    @property
    def refused(self) -> dict[str, str]:
        """Clients that were left out, with the reasons."""
        return {name: error.reason for name, error in self._uploads.refused.items()}

    def setup(self) -> bytes:
        """Return sizes and diagonal, for :class:`OpenedRows`."""
        return b"".join(self.setup_pieces())

    def setup_pieces(self, rows: Iterable[str] = ()) -> Iterator[Buffer]:
        """Return sizes and diagonal, and the rows of some clients with them."""
        computation, wanted = self._computation, list(rows)
        sizes = computation.sizes()
        computation.make_sizes(sizes)
        meta = {
            "batches": computation.orders(),
            "sizes": list(sizes),
            "spans": list(self._spans),
            "rows": [self._place(client) for client in wanted],
        }
        names = "\n".join(self.clients).encode()
        size = released_size(self._parameters)
        header = {"mode": "fhe", "fingerprint": self._fingerprint, "refused": self.refused}
        sections = [
            Section(len(names), [names]),
            *computation.head(meta),
            computation.section(sizes.values()),
            Section(size * len(sizes), (computation.diagonal(group) for group in sizes)),
            Section(
                size * len(self._spans) * len(wanted), (block for one in wanted for block in self._row(one))
            ),
        ]
        yield from frame("rows", header, sections)

    def row(self, client: str) -> bytes:
        """Return the inner products of one client with all."""
        place = self._place(client)
        header = {"mode": "fhe", "fingerprint": self._fingerprint, "row": place}
        return pack("row", header, b"".join(self._row(self.clients[place])))

    def _place(self, client: str) -> int:
        try:
            return self.clients.index(client)
        except ValueError:
            raise InvalidArgumentError(f"client={client!r} has no upload that can be used") from None

    def _row(self, client: str) -> list[bytes]:
        return self._computation.row(client, list(self._spans.values()))


@final
class OpenedRows:
    """Selector: opens sizes, diagonal, and rows when they come.

    Parameters
    ----------
    parameters
        Those of the mode, for single rows.
    secret
        The selector's secret keys.
    setup
        What the server computed first.
    max_examples
        The cap on a client's examples.
    """

    def __init__(
        self, parameters: FheParameters, secret: SecretKeys, setup: Buffer, max_examples: int
    ) -> None:
        message = unpack(setup, "rows", largest_header=LARGEST_HEADER)
        if message.header.get("fingerprint") != secret.fingerprint or len(message.sections) != 7:
            raise ProtocolError("it holds no rows made for these keys")
        self._parameters, self._secret = parameters, secret
        self._opener = opener = Opener(parameters, secret.parts["decryption"])
        names = read_names(message.sections[0])
        head = read_head(message.sections[1:4], len(names), ("batches", "sizes", "spans", "rows"))
        groups = numbers(head.meta["sizes"], 1 << 32)
        sizes = open_sizes(message.sections[4], groups, head.slots, parameters, opener)
        diagonal = open_sizes(message.sections[5], groups, head.slots, parameters, opener)
        self._spans = numbers(head.meta["spans"], 1 << 32)
        self._slots, self._all = head.slots, names
        found = impossible_sizes(diagonal, sizes, parameters.num_classes, max_examples)
        reasons = {names[n]: why for n, why in found.items()} | outside(head, names, parameters, opener)
        self.refused = read_refused(message.header.get("refused")) | reasons
        self._stay = np.array([n for n, name in enumerate(names) if name not in reasons], np.int64)
        self.clients = tuple(names[n] for n in self._stay)
        self.num_examples: NDArray[np.int64] = sizes[self._stay]
        self.diagonal: NDArray[np.int64] = diagonal[self._stay]
        self.rows: dict[str, NDArray[np.int64]] = {}
        asked = [names[n] for n in numbers(head.meta["rows"], len(names) - 1)]
        parts = list(blocks(message.sections[6], parameters, len(asked) * len(self._spans)))
        for n, name in enumerate(asked):
            if name in self.clients:
                self.rows[name] = self._opened(parts[n * len(self._spans) : (n + 1) * len(self._spans)], name)

    def row(self, client: str, message: Buffer) -> NDArray[np.int64]:
        """Return a client's inner products with all, from what the server computed for it."""
        found = unpack(message, "row")
        place = self._all.index(client)
        if found.header.get("fingerprint") != self._secret.fingerprint or found.header.get("row") != place:
            raise ProtocolError(f"it is not the row of client {client!r} for these keys")
        if len(found.sections) != 1:
            raise ProtocolError("it holds no row")
        return self._opened(list(blocks(found.sections[0], self._parameters, len(self._spans))), client)

    def gram(self, fetch: Callable[[str], Buffer]) -> RowsOnDemandGram:
        """Return the Gram that selection reads; `fetch` asks the server for the row of a client."""

        def row(n: int) -> NDArray[np.int64]:
            name = self.clients[n]
            if name not in self.rows:
                self.rows[name] = self.row(name, fetch(name))
            return self.rows[name]

        return RowsOnDemandGram(
            row,
            diagonal=self.diagonal,
            num_examples=self.num_examples,
            num_classes=self._parameters.num_classes,
        )

    @functools.cached_property
    def _places(self) -> NDArray[np.int64]:
        return result_places(self._parameters).ravel()

    def _opened(self, parts: list[memoryview], client: str) -> NDArray[np.int64]:
        span = self._parameters.span
        found = np.full((max(self._spans, default=0) + 1) * span, -1, np.int64)
        for number, part in zip(self._spans, parts, strict=True):
            found[number * span : (number + 1) * span] = self._opener.values(part, self._places, split=True)
        slots = self._slots[self._stay]
        row = found[slots] if slots.max(initial=0) < len(found) else np.full(len(slots), -1, np.int64)
        own = self.num_examples[self.clients.index(client)]
        wrong = np.flatnonzero((row < 0) | (row > own * self.num_examples))
        if wrong.size:
            other = self.clients[int(wrong[0])]
            raise UploadError(
                client, f"its inner product with {other!r} is {row[wrong[0]]}, which no label counts give"
            )
        return row
