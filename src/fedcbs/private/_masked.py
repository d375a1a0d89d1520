"""Mode ``masked``: masked shares to the server, their masks' seeds to the selector, and linear encryption between the two.

A client sends ``x = a - r`` (mod 2**k) for the server, and the seed of r, sealed, for the selector: under 1 kB, without
homomorphic encryption. The selector encrypts all masks, the server combines them (see ``_masked_server.py``), and the
selector opens inner products. Neither alone learns a count: x is uniform, and so is r.

The selector must not see a share: with it and the seed it would read the counts. The server hands on the sealed seeds alone
(:meth:`Masked.seed`). Where files travel through hands that are not the server's, a share can be sealed for the server
besides.
"""

from __future__ import annotations

import functools
import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import ProtocolError, UploadError
from fedcbs.private import _boxes
from fedcbs.private._blocks import Blocks
from fedcbs.private._keys import PublicKeys, SecretKeys
from fedcbs.private._masked_parameters import DEGREE, Layout, MaskedParameters
from fedcbs.private._masked_server import RowServer, Shares, run_key, task_size, tasks
from fedcbs.private._mode import Accepted, Mode, Work
from fedcbs.private._opened import OpenedGram
from fedcbs.private._seal import Ring, Words, pack_residues, packed_size, unpack_residues
from fedcbs.private._wire import Buffer, Section, check_name, pack, unpack
from fedcbs.private._words import expand, low_bits, products
from fedcbs.private._workers import Pool

__all__ = ["Masked"]

BINDING, SEED, DIGEST = 32, 16, 16
BOX = BINDING + SEED + _boxes.OVERHEAD
HEADER_OF_MASKS = 1 << 26
MOST_COLUMNS = 1 << 20


@final
class Masked(Mode):
    """Exact inner products, with masked shares and linear homomorphic encryption.

    Examples
    --------
    >>> mode = Masked(num_classes=2)
    >>> keys = mode.keygen()
    >>> uploads = {name: mode.encrypt(keys.public, row, name) for name, row in {"a": [3, 0], "b": [1, 1]}.items()}
    >>> seeds = {name: mode.seed(upload) for name, upload in uploads.items()}  # the server hands on no more than these
    >>> gram = mode.gram(keys.public, uploads, mode.masks(keys.secret, seeds))
    >>> mode.open(keys.secret, gram).gram
    array([[9, 3],
           [3, 2]])
    """

    name: ClassVar[str] = "masked"
    summary: ClassVar[str] = "masked shares and linear encryption; exact, tiny uploads, one more exchange"
    learns: ClassVar[str] = (
        "the server learns nothing; the selector learns all inner products and sizes, and must not be given the clients' shares"
    )
    exchanges_masks: ClassVar[bool] = True
    keeps_blocks: ClassVar[bool] = True

    @functools.cached_property
    def sizes(self) -> MaskedParameters:
        """Moduli and noises."""
        return MaskedParameters(self.num_classes, self.max_examples)

    @property
    def _width(self) -> int:
        return -(-self.sizes.word_bits // 8)

    def _keygen(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        ring = self.sizes.ring()
        generator = ring.seal.KeyGenerator(ring.context)
        box, opener = _boxes.new_box()
        public = {"box": box, "encryption": ring.save_key(generator.create_public_key())}
        return public, {"box": opener, "decryption": generator.secret_key().to_string()}

    # The client.

    def _encrypt(
        self,
        public: PublicKeys,
        counts: NDArray[np.int64],
        client: str,
        class_secret: bytes | None,  # noqa: ARG002  # the base refuses one
    ) -> bytes:
        bits, seed = self.sizes.word_bits, secrets.token_bytes(SEED)
        share = low_bits(counts.astype(np.uint64) - expand(seed, self.num_classes, bits), bits)
        words = share.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : self._width]
        box = _boxes.seal(public.parts["box"], _boxes.binding(public.fingerprint, client) + seed)
        return words.tobytes() + box

    # The server.

    def _check(self, payload: memoryview) -> None:
        wanted = self._width * self.num_classes + BOX
        if len(payload) != wanted:
            raise ProtocolError(f"it holds {len(payload)} bytes, not a share and a sealed seed of {wanted}")

    @staticmethod
    def seed(upload: Buffer) -> bytes:
        """Server: return the part of an upload that the selector may see."""
        message = unpack(upload, "upload")
        if message.header.get("mode") != Masked.name or len(message.sections) != 1:
            raise ProtocolError(f"it is no upload of mode {Masked.name!r}, or of another version")
        if len(message.sections[0]) <= BOX:
            raise ProtocolError("it holds no share and sealed seed")
        header = {name: message.header.get(name) for name in ("mode", "fingerprint", "client")}
        return pack("seed", header, message.sections[0][-BOX:])

    def _gram(
        self, public: PublicKeys, uploads: Accepted, masks: Buffer | None, work: Work, held: ExitStack
    ) -> Iterable[Section]:
        assert masks is not None  # the base has asked for them
        columns, encrypted, refused = self._read_masks(public, masks)
        self._refuse_without_masks(uploads, columns, refused, work)
        bits, names = self.sizes.word_bits, list(uploads)
        payloads = [bytes(payload) for payload in uploads.values()]
        places = np.array([columns[name][0] for name in names], dtype=np.int64)
        blocks = Blocks(work.state)
        held.enter_context(blocks.locked())
        inputs = [hashlib.sha256(masks).digest(), *(uploads.digests[name] for name in names)]
        shares = Shares(
            self._shares(payloads), places, len(columns), run_key(blocks.secret("masked"), *inputs)
        )
        layout = Layout(len(columns))
        known = [
            _bytes(np.array([len(columns)])),
            _bytes(places),
            _bytes(low_bits(shares.shares.sum(axis=1), bits)),
            _bytes(shares.diagonal(bits)),
            b"".join(payload[-BOX:] for payload in payloads),
        ]
        return [
            *(Section(len(part), [part]) for part in known),
            Section(
                sum(task_size(self.sizes, layout, len(rows)) for rows in tasks(len(names))),
                self._rows(public, shares, encrypted, blocks, work),
            ),
        ]

    def _rows(
        self, public: PublicKeys, shares: Shares, masks: memoryview, blocks: Blocks, work: Work
    ) -> Iterable[bytes]:
        wanted = tasks(len(shares.shares))
        keys = [run_key(shares.key, b"rows", rows.tobytes()).hex() for rows in wanted]
        blocks.keep_only(set(keys))  # rows of other masks or other clients are of no use any more
        missing = [n for n, key in enumerate(keys) if key not in blocks]
        work.progress(len(wanted) - len(missing), len(wanted))
        start = (self.sizes, public.parts["encryption"], shares, bytes(masks))
        with Pool(RowServer, start, processes=min(work.processes, len(missing))) as pool:
            done = len(wanted) - len(missing)
            for n, found in pool.map("rows", {n: _arguments(wanted[n]) for n in missing}):
                blocks[keys[n]] = found
                done += 1
                work.progress(done, len(wanted))
        for key in keys:
            yield blocks[key]

    def _refuse_without_masks(
        self,
        uploads: Accepted,
        columns: Mapping[str, tuple[int, str]],
        refused: Mapping[str, str],
        work: Work,
    ) -> None:
        for name in list(uploads):
            place = columns.get(name)
            if place is not None and place[1] == _digest(uploads[name][-BOX:]):
                continue
            reason = "it changed after the selector made the masks; make them again to include it"
            if place is None:
                late = "it came after the selector made the masks; make them again to include it"
                reason = f"the selector says: {refused[name]}" if name in refused else late
            work.on_refusal(uploads.refuse(name, reason))
        if not uploads:
            raise ProtocolError("no upload belongs to these masks; make the masks again from these uploads")

    def _read_masks(
        self, public: PublicKeys, masks: Buffer
    ) -> tuple[dict[str, tuple[int, str]], memoryview, dict[str, str]]:
        message = unpack(masks, "masks", largest_header=HEADER_OF_MASKS)
        self._expect_header(message, public.fingerprint)
        if len(message.sections) != 2:
            raise ProtocolError("masks: it does not hold the clients and their encrypted masks")
        columns = _read_columns(message.sections[0])
        each = packed_size(self.sizes.data_primes, polynomials=2, degree=DEGREE) * self.num_classes
        wanted = each * Layout(max(len(columns), 1)).parts
        if len(message.sections[1]) != wanted:
            raise ProtocolError(f"masks: they hold {len(message.sections[1])} bytes, not {wanted}")
        return columns, message.sections[1], self.refused_seeds(masks)

    def _shares(self, payloads: list[bytes]) -> Words:
        words = np.zeros((len(payloads), self.num_classes, 8), np.uint8)
        found = np.frombuffer(b"".join(payload[:-BOX] for payload in payloads), np.uint8)
        words[:, :, : self._width] = found.reshape(len(payloads), self.num_classes, self._width)
        return low_bits(words.view("<u8")[:, :, 0].astype(np.uint64), self.sizes.word_bits)

    # The selector.

    def masks(self, secret: SecretKeys, seeds: Mapping[str, Buffer]) -> bytes:
        """Selector: make encrypted masks from sealed seeds (whole uploads are taken too, and only their seeds are read)."""
        self._expect(secret.mode, secret.parameters)
        opener = _boxes.Opener(secret.parts["box"])
        boxes: dict[str, bytes] = {}
        masks: list[Words] = []
        refused: dict[str, str] = {}
        for name in sorted(seeds):
            try:
                box = self._box(secret, seeds[name], name)
                masks.append(self._mask(opener, box, secret.fingerprint, name))
                boxes[name] = box
            except ProtocolError as error:
                refused[name] = error.reason if isinstance(error, UploadError) else str(error)
        if not boxes:
            raise ProtocolError(
                f"no seed can be opened; the first: {next(iter(refused.values()), 'there are none')}"
            )
        columns = json.dumps([[name, _digest(box)] for name, box in boxes.items()]).encode()
        header = {"mode": self.name, "fingerprint": secret.fingerprint, "refused": refused}
        return pack("masks", header, columns, self._encrypted(secret, np.stack(masks)))

    def refused_seeds(self, masks: Buffer) -> dict[str, str]:
        """Return the clients whose seeds the selector refused, with the reasons."""
        found = unpack(masks, "masks", largest_header=HEADER_OF_MASKS).header.get("refused")
        return dict(found) if isinstance(found, dict) else {}

    def _box(self, secret: SecretKeys, message: Buffer, client: str) -> bytes:
        kind = "upload" if bytes(memoryview(message)[16:22]) == b"upload" else "seed"
        found = unpack(message, kind)
        self._expect_header(found, secret.fingerprint)
        if found.header.get("client") != client:
            raise ProtocolError(f"it was made by client {str(found.header.get('client'))[:40]!r}")
        if len(found.sections) != 1 or len(found.sections[0]) < BOX:
            raise ProtocolError("it holds no sealed seed")
        return bytes(found.sections[0][-BOX:])

    def _mask(self, opener: _boxes.Opener, box: bytes, fingerprint: str, client: str) -> Words:
        content = opener.open(box)
        if len(content) != BINDING + SEED or content[:BINDING] != _boxes.binding(fingerprint, client):
            raise ProtocolError("its seed was sealed by another client or for other keys")
        return expand(content[BINDING:], self.num_classes, self.sizes.word_bits)

    def _encrypted(self, secret: SecretKeys, masks: Words) -> bytes:
        """Return a ciphertext for each part of a row and each class."""
        ring, layout = self.sizes.ring(), Layout(len(masks))
        encryptor = ring.seal.Encryptor(ring.context, ring.template_keys.create_public_key())
        encryptor.set_secret_key(ring.context.from_secret_str(secret.parts["decryption"]))
        found = []
        for start in range(0, len(masks), layout.width):
            for label in range(self.num_classes):
                column = np.ascontiguousarray(masks[start : start + layout.width, label])
                ciphertext = encryptor.encrypt_symmetric(ring.plaintext(column))
                found.append(pack_residues(ring.split(ciphertext)[1], self.sizes.data_primes))
        return b"".join(found)

    def _open(
        self, secret: SecretKeys, clients: tuple[str, ...], sections: tuple[memoryview, ...]
    ) -> OpenedGram:
        number = len(clients)
        if [len(part) for part in sections[:5]] != [8, *[8 * number] * 3, BOX * number] or len(sections) != 6:
            raise ProtocolError(f"the result does not hold what {number} clients need")
        opener = _boxes.Opener(secret.parts["box"])
        boxes = [bytes(sections[4][BOX * n : BOX * (n + 1)]) for n in range(number)]
        masks = np.stack(
            [
                self._mask(opener, box, secret.fingerprint, name)
                for box, name in zip(boxes, clients, strict=True)
            ]
        )
        places = np.frombuffer(sections[1], "<i8")
        shares, diagonal = (np.frombuffer(part, "<u8").astype(np.uint64) for part in sections[2:4])
        bits = self.sizes.word_bits
        layout = self._layout(int(np.frombuffer(sections[0], "<i8")[0]), places, len(sections[5]))
        rows = self._opened_rows(secret, places, layout, sections[5])
        total = rows + rows.T + products(masks, masks, bits)
        total[np.arange(number), np.arange(number)] += diagonal
        sizes = low_bits(shares + masks.sum(axis=1), bits).astype(np.int64)
        return OpenedGram(clients, sizes, self.num_classes, low_bits(total, bits).astype(np.int64))

    def _opened_rows(
        self, secret: SecretKeys, places: NDArray[np.int64], layout: Layout, section: memoryview
    ) -> Words:
        """Decrypt Y, clients x clients."""
        ring = self.sizes.ring()
        decryptor = ring.seal.Decryptor(
            ring.context, ring.context.from_secret_str(secret.parts["decryption"])
        )
        primes = self.sizes.data_primes[: self.sizes.kept]
        size, at = packed_size(primes, polynomials=2, degree=DEGREE), 0
        found = np.empty((len(places), len(places)), np.uint64)
        for rows in tasks(len(places)):
            outputs = -(-len(rows) // layout.rows)
            for part in range(layout.parts):
                values = [
                    _decrypt(ring, decryptor, section[at + size * n : at + size * (n + 1)], primes)
                    for n in range(outputs)
                ]
                at += size * outputs
                grid = np.stack(values).reshape(-1, layout.width)[: len(rows)]
                here = np.flatnonzero(places // layout.width == part)
                found[rows[0] : rows[-1] + 1, here] = grid[:, places[here] - part * layout.width]
        return found

    def _layout(self, columns: int, places: NDArray[np.int64], size: int) -> Layout:
        """Return how rows lie in their ciphertexts, if what the result says of it fits together."""
        if not (places[0] >= 0 and (np.diff(places) > 0).all() and places[-1] < columns <= MOST_COLUMNS):
            raise ProtocolError("the result does not say where its clients stand")
        layout = Layout(columns)
        if size != sum(task_size(self.sizes, layout, len(rows)) for rows in tasks(len(places))):
            raise ProtocolError(f"the result holds {size} bytes of rows, which does not fit its clients")
        return layout


def _decrypt(ring: Ring, decryptor: object, data: memoryview, primes: tuple[int, ...]) -> Words:
    residues = unpack_residues(data, primes, polynomials=2, degree=DEGREE)
    ciphertext = ring.join(ring.header(len(primes)), residues)
    return ring.coefficients(decryptor.decrypt(ciphertext))  # type: ignore[attr-defined]  # SEAL has no types


def _arguments(*arguments: Any) -> Callable[[], tuple[Any, ...]]:
    return lambda: arguments


def _read_columns(section: memoryview) -> dict[str, tuple[int, str]]:
    """Return each client's place among the masks, and the digest of the seed that its mask was made from."""
    try:
        pairs = json.loads(bytes(section))
        found = {check_name(name): (n, str(digest)) for n, (name, digest) in enumerate(pairs)}
    except (ValueError, TypeError, RecursionError) as error:
        raise ProtocolError(f"masks: they do not name their clients ({error})") from None
    if len(found) != len(pairs) or list(found) != sorted(found):
        raise ProtocolError("masks: they do not name their clients in order, each once")
    return found


def _bytes(array: NDArray[Any]) -> bytes:
    return array.astype("<u8").tobytes()


def _digest(box: Buffer) -> str:
    return hashlib.sha256(box).hexdigest()[: 2 * DIGEST]
