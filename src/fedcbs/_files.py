"""Files are read with a clear refusal and written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from fedcbs.errors import InvalidArgumentError

__all__ = ["existing_file", "write_whole"]


def existing_file(path: str | os.PathLike[str], name: str) -> Path:
    """Return `path` if it is a file.

    >>> existing_file("no-such-file.csv", "path")
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: path='no-such-file.csv' is no file; check the spelling and the working directory
    """
    try:
        found = Path(path)
        is_file = found.is_file()
    except (TypeError, ValueError, OSError):  # no path at all, a null byte in it, a name too long
        found, is_file = Path(), False
    if not is_file:
        shown = os.fspath(path) if isinstance(path, os.PathLike) else path
        raise InvalidArgumentError(
            f"{name}={shown!r} is no file; check the spelling and the working directory"
        )
    return found


def write_whole(path: str | os.PathLike[str], write: Callable[[BinaryIO], None]) -> None:
    """Let `write` fill a neighbouring file, then put that in the place of `path` in one step.

    A crash at any moment leaves either the old file or the new one, never a part of it.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidArgumentError(
            f"path={str(target)!r}: there is no folder {str(target.parent)!r}; make it first"
        )
    if target.is_dir():
        raise InvalidArgumentError(f"path={str(target)!r} is a folder; name a file in it")
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        with part.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable, where the system can open folders."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
