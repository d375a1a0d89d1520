"""Key material in memory and in folders. Nothing here prints or logs what is inside a part.

A pair of keys has a fingerprint: the SHA-256 of everything public, parameters included. Clients pin it, because the public
key reaches them through the server, which could put its own in its place.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedcbs._files import existing_file
from fedcbs.errors import InvalidArgumentError, ProtocolError, WrongKeyError

__all__ = ["Keys", "PublicKeys", "SecretKeys", "SomeParts", "digest_of_parts", "public_fingerprint"]

FORMAT = 1
KEY_FILE, RETIRED_FILE = "key.json", "retired.json"
LARGEST_JSON = 1 << 20


def digest_of_parts(parts: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each part."""
    return {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}


def public_fingerprint(mode: str, parameters: Mapping[str, int], digests: Mapping[str, str]) -> str:
    """Return the fingerprint of a public key."""
    text = json.dumps([FORMAT, mode, dict(parameters), dict(digests)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(b"fedcbs public key\0" + text.encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class PublicKeys:
    """What the selector hands out: to clients, and through them or directly to the server.

    Parameters
    ----------
    mode
        Name of the mode.
    parameters
        Whole numbers that all parties agree on: classes, the cap on a client's examples, sizes of the scheme.
    parts
        Named bytes; a party reads the ones that it needs.
    retired
        Fingerprints of keys that were in use before; an upload made for one is refused with that reason.
    """

    mode: str
    parameters: Mapping[str, int]
    parts: Mapping[str, bytes] = field(repr=False)
    retired: tuple[str, ...] = ()

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of everything public; clients pin it."""
        digests = self.parts.digests if isinstance(self.parts, SomeParts) else digest_of_parts(self.parts)
        return public_fingerprint(self.mode, self.parameters, digests)

    def pinned(self, fingerprint: str | None) -> PublicKeys:
        """Return these keys if the fingerprint is theirs; at least its first 16 digits must be given."""
        if fingerprint is None:
            return self
        wanted = fingerprint.replace(":", "").replace(" ", "").lower()
        if len(wanted) < 16 or set(wanted) - set("0123456789abcdef"):
            raise InvalidArgumentError(
                f"fingerprint={fingerprint!r} must be at least 16 hexadecimal digits of the selector's fingerprint"
            )
        if not self.fingerprint.startswith(wanted):
            raise WrongKeyError(
                f"the public key has fingerprint {self.fingerprint}, not the pinned {wanted}: somebody may have put their "
                "own key in its place. Nothing is encrypted; ask the selector, by another way than the server's"
            )
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the keys into a new folder."""
        target = _new_folder(folder, 0o755)
        document = {
            "format": FORMAT,
            "mode": self.mode,
            "parameters": dict(self.parameters),
            "parts": digest_of_parts(dict(self.parts)),
            "fingerprint": self.fingerprint,
        }
        for name, part in self.parts.items():
            _write(target / f"{name}.bin", part, 0o644)
        _write(target / KEY_FILE, _as_json(document), 0o644)
        if self.retired:
            _write(target / RETIRED_FILE, _as_json(list(self.retired)), 0o644)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, fingerprint: str | None = None) -> PublicKeys:
        """Read what :meth:`save` wrote, and check it against a pinned fingerprint."""
        document = _document(folder, "public")
        parts = _Folder(Path(folder), document["parts"])
        keys = cls(document["mode"], document["parameters"], parts, _retired(Path(folder)))
        if document.get("fingerprint") != keys.fingerprint:
            raise WrongKeyError(
                f"public={str(folder)!r}: the fingerprint written in it is not that of its content"
            )
        return keys.pinned(fingerprint)


@dataclass(frozen=True, eq=False)
class SecretKeys:
    """What the selector keeps to itself.

    Parameters
    ----------
    mode, parameters
        Those of the public keys.
    fingerprint
        That of the public keys that belong to these.
    parts
        Named secret bytes; never shown.
    """

    mode: str
    parameters: Mapping[str, int]
    fingerprint: str
    parts: Mapping[str, bytes] = field(repr=False)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the keys into a new folder that only its owner can enter (0700), as files that only they can read (0600)."""
        target = _new_folder(folder, 0o700)
        document = {
            "format": FORMAT,
            "mode": self.mode,
            "parameters": dict(self.parameters),
            "parts": digest_of_parts(self.parts),
            "fingerprint": self.fingerprint,
        }
        for name, part in self.parts.items():
            _write(target / f"{name}.bin", part, 0o600)
        _write(target / KEY_FILE, _as_json(document), 0o600)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> SecretKeys:
        """Read what :meth:`save` wrote."""
        document = _document(folder, "secret")
        files = _Folder(Path(folder), document["parts"])
        parts = {name: files[name] for name in files}
        fingerprint = document.get("fingerprint")
        if not (isinstance(fingerprint, str) and len(fingerprint) == 64):
            raise ProtocolError(f"secret={str(folder)!r} names no public key that it belongs to")
        if parts and fingerprint == public_fingerprint(
            document["mode"], document["parameters"], files.digests
        ):
            raise WrongKeyError(
                f"secret={str(folder)!r} holds the public keys; name the folder of the secret ones"
            )
        return cls(document["mode"], document["parameters"], fingerprint, parts)

    @staticmethod
    def exposed(folder: str | os.PathLike[str]) -> list[str]:
        """Return the files of a secret folder that others than its owner can read."""
        files = [Path(folder), *Path(folder).iterdir()]
        return [str(file) for file in files if stat.S_IMODE(file.stat().st_mode) & 0o077]


@dataclass(frozen=True, eq=False)
class Keys:
    """A new pair of keys: the selector keeps `secret` and hands out `public`."""

    public: PublicKeys
    secret: SecretKeys

    @classmethod
    def of(
        cls,
        mode: str,
        parameters: Mapping[str, int],
        *,
        public: Mapping[str, bytes],
        secret: Mapping[str, bytes],
    ) -> Keys:
        """Put a pair together."""
        keys = PublicKeys(mode, parameters, public)
        return cls(keys, SecretKeys(mode, parameters, keys.fingerprint, secret))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``public/``, to hand out, and ``secret/`` into a folder, which is made; both or neither."""
        target = Path(folder)
        for name in ("public", "secret"):
            if (target / name).exists():
                raise InvalidArgumentError(
                    f"out={str(target)!r} holds keys already; name another folder, or rotate them: fedcbs private rotate"
                )
        target.mkdir(parents=True, exist_ok=True)
        try:
            self.secret.save(target / "secret")
            self.public.save(target / "public")
        except BaseException:
            for name in ("public", "secret"):
                shutil.rmtree(target / name, ignore_errors=True)
            raise


class SomeParts(Mapping[str, bytes]):
    """Parts of which some need not be at hand: the fingerprint is that of the digests of all.

    Parameters
    ----------
    parts
        Those at hand.
    digests
        Digests of the others.
    """

    def __init__(self, parts: Mapping[str, bytes], digests: Mapping[str, str]) -> None:
        self._parts = dict(parts)
        self.digests = {**digests, **digest_of_parts(parts)}

    def __getitem__(self, name: str) -> bytes:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.digests)

    def __len__(self) -> int:
        return len(self.digests)


class _Folder(SomeParts):
    """The parts in a folder, read when asked for and checked against their digests."""

    def __init__(self, folder: Path, digests: Mapping[str, str]) -> None:
        super().__init__({}, digests)
        self._folder = folder

    def __getitem__(self, name: str) -> bytes:
        digest = self.digests[name]
        content = existing_file(self._folder / f"{name}.bin", "part of the key").read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise WrongKeyError(
                f"{str(self._folder / name)!r}.bin is not the part that {KEY_FILE} describes; get the key again"
            )
        return content


def _document(folder: str | os.PathLike[str], argument: str) -> dict[str, Any]:
    file = existing_file(Path(folder) / KEY_FILE, argument)
    if file.stat().st_size > LARGEST_JSON:
        raise ProtocolError(f"{argument}={str(file)!r} is too large to describe a key")
    try:
        document = json.loads(file.read_bytes())
        good = (
            document["format"] == FORMAT
            and isinstance(document["mode"], str)
            and all(type(value) is int for value in document["parameters"].values())
            and all(_is_part(name, digest) for name, digest in document["parts"].items())
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        good = False
    if not good:
        raise ProtocolError(
            f"{argument}={str(file)!r} describes no key of this version; make one with keygen"
        )
    return dict(document)


def _is_part(name: object, digest: object) -> bool:
    return (
        isinstance(name, str)
        and name.isidentifier()
        and isinstance(digest, str)
        and len(digest) == 64
        and not set(digest) - set("0123456789abcdef")
    )


def _retired(folder: Path) -> tuple[str, ...]:
    file = folder / RETIRED_FILE
    if not file.is_file() or file.stat().st_size > LARGEST_JSON:
        return ()
    try:
        found = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return ()
    return tuple(item for item in found if isinstance(item, str)) if isinstance(found, list) else ()


def _new_folder(folder: str | os.PathLike[str], mode: int) -> Path:
    target = Path(folder)
    if target.exists():
        raise InvalidArgumentError(f"out={str(target)!r} exists; name a new folder")
    target.mkdir(mode=mode, parents=True)
    target.chmod(mode)  # whatever the umask says
    return target


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file that has its permissions from the first moment on."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _as_json(document: object) -> bytes:
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()
