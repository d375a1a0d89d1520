"""Decoded arrays of datasets that are slow to decode, kept under a hash of the files that they came from."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedcbs._files import write_whole
from fedcbs.data._archive import DAMAGED
from fedcbs.data._dataset import Examples
from fedcbs.data._layout import Files, Parts
from fedcbs.errors import FedCBSError

__all__ = ["VARIABLE", "cache_folder", "cached"]

VARIABLE = "FEDCBS_CACHE"
"""Environment variable that names the folder of the cache, or is ``off``."""

_FORMAT = 1
_WORTH = 2**22
"""Files of fewer bytes are decoded anew each time."""
_LOG = logging.getLogger(__name__)


def cache_folder() -> Path | None:
    """Return the folder of the cache, which need not be there yet; None where it is switched off."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named.strip().lower() in ("", "off", "no", "0") else Path(named).expanduser()
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "fedcbs"


def cached(files: Files, recipe: str, read: Callable[[], Parts], *, use: bool = True) -> Parts:
    """Return what `read` decodes, from the cache where it is there.

    Parameters
    ----------
    files
        What it is decoded from; the key is a hash of their names and contents.
    recipe
        How it is decoded, in words; part of the key.
    read
        Decodes.
    use
        Whether to look at the cache at all.
    """
    folder = cache_folder() if use else None
    if (
        folder is None
        or sum(path.stat().st_size for paths in files.paths.values() for path in paths) < _WORTH
    ):
        return read()
    path = folder / "decoded" / f"{_fingerprint(files, recipe)}.npz"
    try:
        return _load(path)
    except FileNotFoundError:
        pass
    except DAMAGED as error:
        _LOG.warning("%s is damaged (%s); decoding anew", path, error)
    parts = read()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda file: _save(parts, file))
    except (OSError, FedCBSError) as error:  # no space, or no right to write there: it works without
        _LOG.warning(
            "decoded data is not kept in %s (%s); name another folder in %s", folder, error, VARIABLE
        )
    return parts


def _fingerprint(files: Files, recipe: str) -> str:
    total = hashlib.sha256(f"{_FORMAT} {recipe}".encode())
    for part, paths in sorted(files.paths.items()):
        for path in paths:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            total.update(f"\0{part}\0{os.path.relpath(path, files.folder)}\0{digest}".encode())
    return total.hexdigest()


def _save(parts: Parts, file: BinaryIO) -> None:
    arrays: dict[str, NDArray[Any]] = {"class_names": np.array(parts.class_names, dtype=np.str_)}
    for name, part in (("train", parts.train), ("test", parts.test)):
        if part is not None:
            arrays |= {f"{name}_features": part.features, f"{name}_labels": part.labels}
            arrays[f"{name}_owner_names"] = np.array(part.owner_names, dtype=np.str_)
            if part.owners is not None:
                arrays[f"{name}_owners"] = part.owners
    np.savez(file, **arrays)  # type: ignore[arg-type]  # the stub fears for an argument that no array is named after


def _load(path: Path) -> Parts:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        parts = {}
        for name in ("train", "test"):
            if f"{name}_labels" in archive:
                owners = archive.get(f"{name}_owners", None)
                names = tuple(archive[f"{name}_owner_names"].tolist())
                parts[name] = Examples(archive[f"{name}_features"], archive[f"{name}_labels"], owners, names)
        return Parts(parts["train"], parts.get("test"), tuple(archive["class_names"].tolist()))
