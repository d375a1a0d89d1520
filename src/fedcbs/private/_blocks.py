"""Finished parts of a long computation, kept in a folder: it can be interrupted anywhere, and done parts are used again."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, final

from fedcbs._files import write_whole
from fedcbs.errors import InvalidArgumentError

__all__ = ["Blocks"]

SUFFIX = ".block"


@final
class Blocks:
    """Bytes by key; the key says all that the bytes depend on, so what is found is never out of date.

    Parameters
    ----------
    folder
        Where to keep them, or nothing: then they stay in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._memory: dict[str, bytes] = {}
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other computations out of the folder."""
        if self._folder is None:
            yield
            return
        with (self._folder / "lock").open("ab") as file:
            _lock(file, self._folder)
            yield

    def secret(self, name: str) -> bytes:
        """Return 32 random bytes, the same each time for a folder."""
        if self._folder is None:
            return secrets.token_bytes(32)
        path = self._folder / f"{name}.secret"
        with contextlib.suppress(FileExistsError):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(32))
                file.flush()
                os.fsync(file.fileno())
        found = path.read_bytes()
        if len(found) != 32:  # a crash between the two steps above
            path.unlink()
            return self.secret(name)
        return found

    def __contains__(self, key: str) -> bool:
        return key in self._memory or (self._folder is not None and self._path(key).is_file())

    def __getitem__(self, key: str) -> bytes:
        return self._memory[key] if self._folder is None else self._path(key).read_bytes()

    def __setitem__(self, key: str, content: bytes) -> None:
        if self._folder is None:
            self._memory[key] = content
        else:

            def write(file: BinaryIO) -> None:
                file.write(content)

            write_whole(self._path(key), write)

    def keep_only(self, keys: set[str]) -> int:
        """Delete all other blocks, of clients that left or changed their counts; return how many."""
        if self._folder is None:
            gone = [key for key in self._memory if key not in keys]
            for key in gone:
                del self._memory[key]
            return len(gone)
        paths = [
            path for path in self._folder.glob(f"*{SUFFIX}") if path.name.removesuffix(SUFFIX) not in keys
        ]
        for path in paths:
            path.unlink(missing_ok=True)
        return len(paths)

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{key}{SUFFIX}"


def _lock(file: IO[Any], folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no POSIX: two computations at a time are then the user's care
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InvalidArgumentError(
            f"state={str(folder)!r} is in use by another computation; wait for it, or name another folder"
        ) from None
