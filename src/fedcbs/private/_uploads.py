"""A folder of uploads, one file for each client, read when asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from fedcbs.errors import InvalidArgumentError, UploadError

__all__ = ["UploadFolder"]

LARGEST = 4 << 20
"""No upload of any mode is larger; a larger file is refused without being read."""


class UploadFolder(Mapping[str, bytes]):
    """Uploads in a folder: the file ``NAME.upload`` is that of client NAME. Other files are left alone.

    Parameters
    ----------
    folder
        The folder.
    suffix
        What follows the name of a client.
    """

    def __init__(self, folder: str | os.PathLike[str], *, suffix: str = ".upload") -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InvalidArgumentError(
                f"uploads={str(folder)!r} is no folder; put the clients' uploads into one"
            )
        self._suffix = suffix
        with os.scandir(self.folder) as entries:
            names = sorted(entry.name for entry in entries)
        self._names = {
            name.removesuffix(suffix): None for name in names if name.endswith(suffix) and name != suffix
        }

    def __getitem__(self, client: str) -> bytes:
        if client not in self._names:
            raise KeyError(client)
        path = self.path(client)
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise UploadError(client, f"{path.name!r} is no plain file")
            if found.st_size > LARGEST:
                raise UploadError(client, f"it has {found.st_size} bytes; no upload has more than {LARGEST}")
            return path.read_bytes()
        except OSError as error:
            raise UploadError(client, f"it cannot be read ({error.strerror})") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def path(self, client: str) -> Path:
        """Return the file of a client."""
        return self.folder / f"{client}{self._suffix}"

    def remove(self, client: str) -> None:
        """Delete the upload of a client that leaves."""
        if client not in self._names:
            raise InvalidArgumentError(f"client={client!r} has no upload in {str(self.folder)!r}")
        self.path(client).unlink()
        del self._names[client]
