"""What every mode of the private protocol shares: who does what, with which bytes, and what is refused.

Three parties, bytes between them. A client has its counts and the public keys; the server has uploads and the public keys;
the selector has the secret keys and what the server computed. Each method says whose it is and takes only what that party
may hold. What is public is written here once; a mode writes the methods with an underscore.
"""

from __future__ import annotations

import abc
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError, ProtocolError, UploadError, WrongKeyError
from fedcbs.private._keys import Keys, PublicKeys, SecretKeys
from fedcbs.private._opened import OpenedGram
from fedcbs.private._wire import DIGEST, Buffer, Message, Section, check_name, frame, pack, unpack

__all__ = ["DEFAULT_MAX_EXAMPLES", "Accepted", "Mode", "Work", "read_names", "read_refused"]

DEFAULT_MAX_EXAMPLES = 2**16 - 1
MOST_CLASSES, MOST_EXAMPLES = 1024, 2**24 - 1
COMPARED = 64
KEPT = 4096
"""Payloads up to here stay in memory after they are checked; larger ones are read again where they are needed."""
HEADER_OF_GRAM = 1 << 26


def _ignore(*told: object) -> None:
    """Stand for somebody who need not be told."""


@dataclass(frozen=True, eq=False)
class Work:
    """How the server's long computation is done.

    Parameters
    ----------
    processes
        Processes that compute at the same time; with 0 it is done in this one, which is as safe and starts at once.
    state
        Folder for finished blocks: an interrupted computation goes on from there, and one with new clients reuses them.
    progress
        Told how much of how much is done.
    on_refusal
        Told of each upload that is refused.
    """

    processes: int = 0
    state: Path | None = None
    progress: Callable[[int, int], None] = _ignore
    on_refusal: Callable[[UploadError], None] = _ignore


class Mode(abc.ABC):
    """One way to get inner products of label counts to the selector.

    Parameters
    ----------
    num_classes
        Classes that counts have.
    max_examples
        Most examples that a client may claim: bounds how much any one client weighs.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for lists."""
    learns: ClassVar[str]
    """Who learns what, in one sentence."""
    exchanges_masks: ClassVar[bool] = False
    """Whether the selector sends masks before the server can compute."""
    keeps_blocks: ClassVar[bool] = False
    """Whether the server's computation is long, and keeps finished blocks."""
    hides_order: ClassVar[bool] = False
    """Whether clients may share a secret that hides the order of the classes."""
    randomised: ClassVar[bool] = True
    """Whether equal counts give different uploads, so that equal uploads are copies."""

    def __init__(self, *, num_classes: int, max_examples: int = DEFAULT_MAX_EXAMPLES) -> None:
        self.num_classes = _checks.integer(num_classes, "num_classes", minimum=1, maximum=MOST_CLASSES)
        self.max_examples = _checks.integer(max_examples, "max_examples", minimum=1, maximum=MOST_EXAMPLES)

    @property
    def parameters(self) -> dict[str, int]:
        """Whole numbers that all parties agree on; they are part of the fingerprint."""
        return {"num_classes": self.num_classes, "max_examples": self.max_examples}

    @final
    def keygen(self) -> Keys:
        """Selector: make a new pair of keys."""
        public, secret = self._keygen()
        return Keys.of(self.name, self.parameters, public=public, secret=secret)

    @final
    def encrypt(
        self, public: PublicKeys, counts: ArrayLike, client: str, *, class_secret: bytes | None = None
    ) -> bytes:
        """Client: make the upload of its counts.

        Parameters
        ----------
        public
            The selector's public keys, loaded with the pinned fingerprint.
        counts
            Examples of each class.
        client
            The client's name; it is bound to the upload.
        class_secret
            Where the mode hides the order of the classes: at least 16 bytes that all clients share and nobody else has.
        """
        self._expect(public.mode, public.parameters)
        check_name(client)
        if class_secret is not None and not self.hides_order:
            raise InvalidArgumentError(
                f"class_secret is of no use in mode {self.name!r}, whose result does not depend on the order of classes; leave it out"
            )
        row = self._checked_counts(counts)
        payload = self._encrypt(public, row, client, class_secret)
        return pack("upload", self._header(public) | {"client": client}, payload)

    @final
    def check(self, public: PublicKeys, upload: Buffer, client: str) -> None:
        """Server: raise :class:`~fedcbs.errors.UploadError` if this is no upload of this client for these keys."""
        self._payload(public, public.fingerprint, upload, client)

    @final
    def gram(
        self,
        public: PublicKeys,
        uploads: Mapping[str, Buffer],
        masks: Buffer | None = None,
        *,
        work: Work | None = None,
    ) -> bytes:
        """Server: compute what the selector opens. Uploads that are refused are left out, and named in the result."""
        return b"".join(self.gram_pieces(public, uploads, masks, work=work))

    @final
    def gram_pieces(
        self,
        public: PublicKeys,
        uploads: Mapping[str, Buffer],
        masks: Buffer | None = None,
        *,
        work: Work | None = None,
    ) -> Iterator[Buffer]:
        """Server: as :meth:`gram`, piece by piece, so that the result need not fit into memory."""
        self._expect(public.mode, public.parameters)
        if (masks is None) == self.exchanges_masks:
            remedy = (
                "needs the selector's masks; give them" if masks is None else "takes no masks; leave them out"
            )
            raise InvalidArgumentError(f"masks: mode {self.name!r} {remedy}")
        work = work or Work()
        accepted = Accepted(self, public, uploads)
        for error in accepted.refused.values():
            work.on_refusal(error)
        if not accepted:
            raise ProtocolError("no upload can be used; see the reasons for which each was refused")
        with contextlib.ExitStack() as held:
            sections = self._gram(public, accepted, masks, work, held)
            names = "\n".join(accepted).encode()
            refused = {name: error.reason for name, error in accepted.refused.items()}
            header = self._header(public) | {"refused": refused}
            yield from frame("gram", header, [Section(len(names), [names]), *sections])

    def masks(self, secret: SecretKeys, seeds: Mapping[str, Buffer]) -> bytes:
        """Selector, where the mode exchanges masks: make them from the clients' sealed seeds."""
        raise InvalidArgumentError(
            f"mode {self.name!r} exchanges no masks (secret of {secret.mode!r}, {len(seeds)} seeds); go on with gram"
        )

    @final
    def open(self, secret: SecretKeys, gram: Buffer) -> OpenedGram:
        """Selector: open what the server computed, check it, and leave out whoever's entries are impossible."""
        self._expect(secret.mode, secret.parameters)
        message = unpack(gram, "gram", largest_header=HEADER_OF_GRAM)
        self._expect_header(message, secret.fingerprint)
        if not message.sections:
            raise ProtocolError("the result names no clients")
        clients = read_names(message.sections[0])
        refused = read_refused(message.header.get("refused"))
        return self._open(secret, clients, message.sections[1:]).without_impossible(
            self.max_examples, refused
        )

    # What a mode writes.

    @abc.abstractmethod
    def _keygen(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Return public and secret parts."""

    @abc.abstractmethod
    def _encrypt(
        self, public: PublicKeys, counts: NDArray[np.int64], client: str, class_secret: bytes | None
    ) -> bytes:
        """Return the payload of an upload."""

    @abc.abstractmethod
    def _check(self, payload: memoryview) -> None:
        """Raise :class:`~fedcbs.errors.ProtocolError` if this cannot be the payload of an upload."""

    @abc.abstractmethod
    def _gram(
        self, public: PublicKeys, uploads: Accepted, masks: Buffer | None, work: Work, held: ExitStack
    ) -> Iterable[Section]:
        """Return the sections of the result; `held` is closed after they are written."""

    @abc.abstractmethod
    def _open(
        self, secret: SecretKeys, clients: tuple[str, ...], sections: tuple[memoryview, ...]
    ) -> OpenedGram:
        """Return the Gram of these clients, in their order."""

    # What all share.

    def _header(self, keys: PublicKeys) -> dict[str, object]:
        return {"mode": self.name, "fingerprint": keys.fingerprint}

    def _expect(self, mode: str, parameters: Mapping[str, int]) -> None:
        if mode != self.name or dict(parameters) != self.parameters:
            raise WrongKeyError(
                f"the keys are of mode {mode!r} with {dict(parameters)}; this is {self.name!r} with {self.parameters}"
            )

    def _expect_header(self, message: Message, fingerprint: str) -> None:
        mode, found = message.header.get("mode"), message.header.get("fingerprint")
        if mode != self.name:
            raise ProtocolError(f"it is of mode {str(mode)[:40]!r}, not {self.name!r}")
        if found != fingerprint:
            raise WrongKeyError(
                f"it was made for the key {str(found)[:16]}, not for {fingerprint[:16]}; use the keys that belong together"
            )

    def _checked_counts(self, counts: ArrayLike) -> NDArray[np.int64]:
        row = _checks.integers(counts, "counts")
        if len(row) != self.num_classes:
            raise InvalidArgumentError(
                f"counts has {len(row)} classes, the keys are for {self.num_classes}; give one count for each class"
            )
        if int(row.max(initial=0)) > self.max_examples or int(row.sum()) > self.max_examples:
            raise InvalidArgumentError(
                f"counts add up to more than max_examples={self.max_examples} of these keys; "
                "ask for keys made with a larger --max-examples"
            )
        return row

    def _glance(self, payload: memoryview) -> None:
        """Check what is quickly checked, where the rest is checked when the payload is used."""
        self._check(payload)

    def _payload(
        self, public: PublicKeys, fingerprint: str, upload: Buffer, client: str, *, glance: bool = False
    ) -> memoryview:
        """Return the payload of a good upload; `fingerprint` is that of `public`."""
        try:
            check_name(client)
            message = unpack(upload, "upload")
            self._expect_upload(message, fingerprint, public.retired)
            if message.header.get("client") != client:
                raise ProtocolError(f"it was made by client {str(message.header.get('client'))[:40]!r}")
            if len(message.sections) != 1:
                raise ProtocolError(f"it has {len(message.sections)} sections, not 1")
            (self._glance if glance else self._check)(message.sections[0])
        except (ProtocolError, InvalidArgumentError) as error:
            raise UploadError(client, str(error)) from None
        return message.sections[0]

    def _expect_upload(self, message: Message, fingerprint: str, retired: tuple[str, ...]) -> None:
        found = message.header.get("fingerprint")
        if found != fingerprint and found in retired:
            raise WrongKeyError(
                f"it was made for the key {str(found)[:16]}, which is retired; encrypt again with the key in use, {fingerprint[:16]}"
            )
        self._expect_header(message, fingerprint)


class Accepted(Mapping[str, memoryview]):
    """The payloads of the uploads that passed the checks, in the order of the clients' names."""

    def __init__(self, mode: Mode, public: PublicKeys, uploads: Mapping[str, Buffer]) -> None:
        self._mode, self._public, self._uploads = mode, public, uploads
        self._fingerprint = public.fingerprint
        self._kept: dict[str, memoryview] = {}
        in_memory = isinstance(uploads, dict)
        self.digests: dict[str, bytes] = {}
        self.refused: dict[str, UploadError] = {}
        copies: dict[bytes, list[str]] = {}
        for client in sorted(uploads):
            try:
                payload, digest = self._read(client)
            except UploadError as error:
                self.refused[client] = error
                continue
            self.digests[client] = digest
            copies.setdefault(bytes(payload[:COMPARED]), []).append(client)
            if len(payload) <= KEPT:
                self._kept[client] = memoryview(bytes(payload))
            elif in_memory:
                self._kept[client] = payload
        if mode.randomised:
            for clients in copies.values():
                self._refuse_copies(clients)

    def __getitem__(self, client: str) -> memoryview:
        if client in self._kept:
            return self._kept[client]
        payload, digest = self._read(client)
        if digest != self.digests[client]:
            raise UploadError(client, "it changed while it was being used; run again")
        return payload

    def __iter__(self) -> Iterator[str]:
        return iter(self.digests)

    def __len__(self) -> int:
        return len(self.digests)

    def refuse(self, client: str, reason: str) -> UploadError:
        """Leave out an upload that turned out to be of no use."""
        self.refused[client] = error = UploadError(client, reason)
        self.digests.pop(client, None)
        self._kept.pop(client, None)
        return error

    def _read(self, client: str) -> tuple[memoryview, bytes]:
        upload = self._uploads[client]
        payload = self._mode._payload(self._public, self._fingerprint, upload, client, glance=True)
        return payload, bytes(memoryview(upload)[-DIGEST:])

    def _refuse_copies(self, clients: list[str]) -> None:
        """Encryption is random: of uploads that begin alike all but one are copies, and nobody can tell which."""
        for client in clients if len(clients) > 1 else []:
            other = clients[0] if client != clients[0] else clients[1]
            self.refuse(
                client,
                f"it holds the same bytes as that of client {other!r}; one is a copy, and both must encrypt again",
            )


def read_names(section: memoryview) -> tuple[str, ...]:
    """Return the names of clients in a message."""
    try:
        names = tuple(check_name(name) for name in bytes(section).decode().split("\n"))
    except (UnicodeDecodeError, InvalidArgumentError) as error:
        raise ProtocolError(f"the result names a client that cannot be one ({error})") from None
    if any(one >= two for one, two in itertools.pairwise(names)):
        raise ProtocolError("the result does not name its clients in order, each once")
    return names


def read_refused(found: object) -> dict[str, str]:
    """Return who was refused, from the header of a message."""
    if not (
        isinstance(found, dict)
        and all(isinstance(name, str) and isinstance(reason, str) for name, reason in found.items())
    ):
        raise ProtocolError("the result does not say which uploads were refused")
    return dict(found)
