"""What a node does for privacy: it encodes its label counts under the selector's key, and only under the pinned one.

Entries of the node's configuration (``--node-config``) that its operator sets, out of the server's reach:

``fedcbs-fingerprint``
    Fingerprint of the selector's public key, had from the selector by another way than the server's; several, separated
    by commas, where keys change. With it, label counts leave the node encrypted for that key or not at all.
``fedcbs-noise``
    Noise on the counts, ``laplace:epsilon=1`` say. It is drawn once: asked again, the node tells the same noised counts.
``fedcbs-state``
    Folder in which the noised counts are kept from one run to the next.
``fedcbs-class-secret-file``
    File with the secret order of the classes that all clients share, for modes that can hide it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from flwr.app import ConfigRecord, Context, RecordDict

from fedcbs._files import existing_file, write_whole
from fedcbs.errors import WrongKeyError
from fedcbs.flower._errors import FederationError
from fedcbs.flower._log import LOG
from fedcbs.flower._wire import blob, values
from fedcbs.private import PublicKeys, mode_of
from fedcbs.private._keys import SomeParts, digest_of_parts

__all__ = ["FINGERPRINT", "clear_counts", "key_blobs", "key_entries", "upload"]

FINGERPRINT = "fedcbs-fingerprint"
NOISE = "fedcbs-noise"
STATE = "fedcbs-state"
CLASS_SECRET = "fedcbs-class-secret-file"
KEPT = "fedcbs.noised"
KEY_PART = "key."
CLIENT_PARTS: Mapping[str, tuple[str, ...]] = {"fhe": ("encryption",), "masked": ("box",)}
"""Parts of the key that a client needs, in modes whose other parts are large."""


def clear_counts(counts: Sequence[int], context: Context) -> list[int]:
    """Label counts in the clear, unless the operator pinned a key."""
    if FINGERPRINT in context.node_config:
        raise FederationError(
            f"label counts were asked for in the clear, but {FINGERPRINT} is set in this node's configuration; "
            "the server must use the private mode, or the operator remove the entry"
        )
    return _noised(counts, context)


def upload(counts: Sequence[int], question: RecordDict, context: Context, name: str) -> bytes:
    """Encode label counts for the key that came with the question."""
    if not name:
        raise FederationError(
            "an upload is bound to its client's name, and this node has none; set fedcbs-name in its configuration"
        )
    keys = _pinned(_received(question), context)
    secret_file = context.node_config.get(CLASS_SECRET)
    secret = None if secret_file is None else existing_file(str(secret_file), CLASS_SECRET).read_bytes()
    return mode_of(keys).encrypt(keys, _noised(counts, context), name, class_secret=secret)


def key_entries(keys: PublicKeys) -> dict[str, str]:
    """Entries of a question that say what keys come with it."""
    digests = digest_of_parts(keys.parts)
    return {
        "mode": keys.mode,
        "parameters": json.dumps(dict(keys.parameters)),
        "digests": json.dumps(digests),
    }


def key_blobs(keys: PublicKeys) -> dict[str, bytes]:
    """The parts that a client encrypts with; what the server computes with is larger and stays there."""
    names = CLIENT_PARTS.get(keys.mode, tuple(keys.parts))
    return {KEY_PART + name: bytes(keys.parts[name]) for name in names}


def _received(question: RecordDict) -> PublicKeys:
    entries = values(question)
    digests = json.loads(str(entries["digests"]))
    held = CLIENT_PARTS.get(str(entries["mode"]), tuple(digests))
    parts = SomeParts({name: blob(question, KEY_PART + name) for name in held}, digests)
    return PublicKeys(str(entries["mode"]), json.loads(str(entries["parameters"])), parts)


def _pinned(keys: PublicKeys, context: Context) -> PublicKeys:
    pin = context.node_config.get(FINGERPRINT)
    if pin is None:
        LOG.warning(
            "no %s in this node's configuration: the server could put a key of its own in place of %s",
            FINGERPRINT,
            keys.fingerprint,
        )
        return keys
    pins = [one.strip() for one in str(pin).split(",")]
    for one in pins[:-1]:
        try:
            return keys.pinned(one)
        except WrongKeyError:
            continue
    return keys.pinned(pins[-1])


def _noised(counts: Sequence[int], context: Context) -> list[int]:
    """The counts with the operator's noise, drawn once for these counts."""
    spec = context.node_config.get(NOISE)
    if spec is None:
        return list(counts)
    key = hashlib.sha256(json.dumps([str(spec), list(counts)]).encode()).hexdigest()
    kept = _kept(context)
    if key not in kept:
        kept = {**kept, key: _draw(str(spec), counts)}
        _keep(context, kept)
    return kept[key]


def _draw(spec: str, counts: Sequence[int]) -> list[int]:
    from fedcbs.private import parse_noise

    return [int(count) for count in parse_noise(spec).apply(np.asarray(counts, dtype=np.int64))]


def _kept(context: Context) -> Mapping[str, list[int]]:
    path = _state_file(context)
    if path is None:
        record = context.state.get(KEPT)
        return cast(Mapping[str, list[int]], dict(record)) if isinstance(record, ConfigRecord) else {}
    return cast(Mapping[str, list[int]], json.loads(path.read_text())) if path.is_file() else {}


def _keep(context: Context, kept: Mapping[str, list[int]]) -> None:
    path = _state_file(context)
    if path is None:
        context.state[KEPT] = ConfigRecord({key: list(counts) for key, counts in kept.items()})
        return
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(file: BinaryIO) -> None:
        file.write(json.dumps(kept).encode())

    write_whole(path, write)


def _state_file(context: Context) -> Path | None:
    folder = context.node_config.get(STATE)
    return None if folder is None else Path(str(folder)).expanduser() / "noised-counts.json"
