r"""The frame around everything that parties send each other, and the rules for names.

A message is a fixed prefix, a header in JSON, sections of bytes, and a SHA-256 of all of it::

    "fedcbs-private\0\1" | kind (8) | size of header (u32) | header | sections ... | SHA-256 (32)

The digest finds damage, not forgery: whoever forges bytes can compute it. What the bytes say is checked by who reads them.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from fedcbs.errors import InvalidArgumentError, ProtocolError

__all__ = ["DIGEST", "Buffer", "Message", "Section", "check_name", "frame", "pack", "unpack"]

Buffer: TypeAlias = "bytes | bytearray | memoryview"

MAGIC = b"fedcbs-private\0\1"
PREFIX = struct.Struct("<16s8sI")
DIGEST = 32
LONGEST_NAME = 128


@dataclass(frozen=True, eq=False)
class Section:
    """Bytes of a known size that may be made piece by piece."""

    size: int
    pieces: Iterable[Buffer]


@dataclass(frozen=True, eq=False)
class Message:
    """A message that was taken apart; its sections are views into the bytes that came."""

    header: Mapping[str, Any]
    sections: tuple[memoryview, ...]


def check_name(client: object) -> str:
    """Return the name of a client if it can be one: it is shown to people and is part of the names of files.

    >>> check_name("hospital-7")
    'hospital-7'
    >>> check_name("../etc")
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: client='../etc' is no name of a client; use 1 to 128 printable characters without slashes, and no dot in front
    """
    if (
        isinstance(client, str)
        and 0 < len(client) <= LONGEST_NAME
        and client.isprintable()
        and client == client.strip()
        and not client.startswith(".")
        and not set(client) & set("/\\")
    ):
        return client
    shown = repr(client)[: LONGEST_NAME + 20]
    raise InvalidArgumentError(
        f"client={shown} is no name of a client; use 1 to {LONGEST_NAME} printable characters without slashes, "
        "and no dot in front"
    )


def frame(kind: str, header: Mapping[str, Any], sections: Iterable[Section]) -> Iterator[Buffer]:
    """Give a message piece by piece, for files larger than one wants in memory."""
    parts = list(sections)
    text = json.dumps({**header, "sizes": [part.size for part in parts]}, sort_keys=True).encode()
    digest = hashlib.sha256()
    prefix = PREFIX.pack(MAGIC, kind.encode(), len(text)) + text
    digest.update(prefix)
    yield prefix
    for part in parts:
        written = 0
        for piece in part.pieces:
            digest.update(piece)
            written += len(piece)
            yield piece
        if written != part.size:
            raise ProtocolError(f"a section of {part.size} bytes was given {written}; it is not written")
    yield digest.digest()


def pack(kind: str, header: Mapping[str, Any], *sections: Buffer) -> bytes:
    """Return a message as bytes.

    >>> unpack(pack("upload", {"mode": "plain"}, b"abc"), "upload").header["mode"]
    'plain'
    """
    return b"".join(frame(kind, header, [Section(len(part), [part]) for part in sections]))


def unpack(data: Buffer, kind: str, *, largest_header: int = 4096) -> Message:
    """Take a message apart.

    >>> unpack(b"something else", "upload")
    Traceback (most recent call last):
    ...
    fedcbs.errors.ProtocolError: it is no upload of fedcbs, or is cut short (14 bytes)
    """
    view = memoryview(data).cast("B")
    if len(view) < PREFIX.size + DIGEST or bytes(view[: len(MAGIC)]) != MAGIC:
        raise ProtocolError(f"it is no {kind} of fedcbs, or is cut short ({len(view)} bytes)")
    _, found, length = PREFIX.unpack_from(view)
    if found.rstrip(b"\0") != kind.encode():
        raise ProtocolError(f"it is no {kind} but a {found.rstrip(bytes(1)).decode('ascii', 'replace')!r}")
    if length > min(largest_header, len(view) - PREFIX.size - DIGEST):
        raise ProtocolError(f"its header claims {length} bytes; it is cut short or forged")
    body = view[PREFIX.size + length : -DIGEST]
    header = _header(bytes(view[PREFIX.size : PREFIX.size + length]))
    sizes = header["sizes"]
    if sum(sizes) != len(body):
        raise ProtocolError(
            f"it should hold {sum(sizes)} bytes and holds {len(body)}; it is cut short or padded"
        )
    if hashlib.sha256(view[:-DIGEST]).digest() != bytes(view[-DIGEST:]):
        raise ProtocolError("its digest does not fit its bytes; it was damaged on the way")
    sections, start = [], 0
    for size in sizes:
        sections.append(body[start : start + size])
        start += size
    return Message(header, tuple(sections))


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
        sizes = header["sizes"] if isinstance(header, dict) else None
    except (ValueError, KeyError, RecursionError):
        raise ProtocolError("its header is no JSON object with sizes") from None
    if not (isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes)):
        raise ProtocolError("its header gives no sizes of sections")
    return dict(header)
