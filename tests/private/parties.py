"""A federation for tests: keys, counts, uploads, and what a test does to them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcbs.private import Keys, Mode, OpenedGram, Work, make_mode
from fedcbs.private._masked import Masked
from fedcbs.private._wire import PREFIX, frame, pack, unpack

MODES = ("plain", "sealed", "masked", "fhe")
ENCRYPTED = ("sealed", "masked", "fhe")


def label_counts(num_clients: int, num_classes: int, seed: int = 1) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(num_classes, 0.2), num_clients)
    return rng.multinomial(rng.integers(20, 500, num_clients), shares)


@dataclasses.dataclass
class Federation:
    mode: Mode
    keys: Keys
    counts: NDArray[np.int64]
    uploads: dict[str, bytes]

    @property
    def names(self) -> list[str]:
        return sorted(self.uploads)

    def masks(self) -> bytes | None:
        if not isinstance(self.mode, Masked):
            return None
        seeds = {}
        for name, upload in self.uploads.items():
            try:
                seeds[name] = self.mode.seed(upload)
            except ValueError:  # the server hands on what it can take apart
                seeds[name] = upload
        return self.mode.masks(self.keys.secret, seeds)

    def opened(self, **work: Any) -> OpenedGram:
        gram = self.mode.gram(self.keys.public, self.uploads, self.masks(), work=Work(**work))
        return self.mode.open(self.keys.secret, gram)

    def copy(self) -> Federation:
        return dataclasses.replace(self, uploads=dict(self.uploads))

    def encrypt(self, counts: Any, name: str) -> bytes:
        return self.mode.encrypt(self.keys.public, counts, name)


@functools.cache
def mode_and_keys(name: str, num_classes: int, max_examples: int = 65535) -> tuple[Mode, Keys]:
    mode = make_mode(name, num_classes=num_classes, max_examples=max_examples)
    return mode, mode.keygen()


@functools.cache
def _federation(name: str, num_clients: int, num_classes: int) -> Federation:
    mode, keys = mode_and_keys(name, num_classes)
    counts = label_counts(num_clients, num_classes)
    names = [f"client-{n:03d}" for n in range(num_clients)]
    uploads = {who: mode.encrypt(keys.public, row, who) for who, row in zip(names, counts, strict=True)}
    return Federation(mode, keys, counts, uploads)


def federation(name: str, num_clients: int = 6, num_classes: int = 4) -> Federation:
    return _federation(name, num_clients, num_classes).copy()


def reframed(upload: bytes, *, payload: bytes | None = None, **header: Any) -> bytes:
    """An upload with another payload or header, and a digest that fits: what a forger would send."""
    message = unpack(upload, "upload")
    kept = {key: value for key, value in message.header.items() if key != "sizes"}
    return pack("upload", kept | header, bytes(message.sections[0]) if payload is None else payload)


def payload_of(upload: bytes) -> bytes:
    return bytes(unpack(upload, "upload").sections[0])


__all__ = [
    "ENCRYPTED",
    "MODES",
    "PREFIX",
    "Federation",
    "federation",
    "frame",
    "label_counts",
    "mode_and_keys",
    "pack",
    "payload_of",
    "reframed",
]
