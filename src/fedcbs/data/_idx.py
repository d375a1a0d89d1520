"""Files in the idx format, in which MNIST and its successors are published; gzipped or not.

Four bytes of magic (0, 0, kind of number, number of axes), the length of each axis as a big-endian int32, the numbers.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import DataFileError

__all__ = ["UNREADABLE", "open_plain", "peek_idx", "read_idx"]

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_DEFLATE_AT_MOST = 1032
"""No deflate stream grows more than so many times."""

UNREADABLE = (OSError, EOFError, zlib.error)
"""What a damaged gzip file or a bad disk raises."""


def open_plain(path: Path) -> BinaryIO:
    """Open a file, through gzip if it is gzipped, whatever it is called."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path, "rb") if zipped else path.open("rb"))


def peek_idx(path: Path) -> tuple[int, ...] | None:
    """Return the shape that an idx file announces, or None if it is none."""
    try:
        with open_plain(path) as file:
            _, shape, _ = _header(file, path)
    except (DataFileError, *UNREADABLE):
        return None
    return shape


def read_idx(path: Path, *, axes: int | None = None, sha256: str | None = None) -> NDArray[np.generic]:
    """Read the array of an idx file.

    Parameters
    ----------
    path
        The file.
    axes
        How many axes the array must have.
    sha256
        What the unzipped contents must hash to.

    Raises
    ------
    DataFileError
        The file is truncated, too long, no idx file, or not the one published.
    """
    try:
        with open_plain(path) as file:
            dtype, shape, header = _header(file, path)
            if axes is not None and len(shape) != axes:
                raise DataFileError(
                    f"{str(path)!r} holds an array of {len(shape)} axes; {axes} are needed, so it is another file"
                )
            array = _body(file, path, dtype, shape)
    except UNREADABLE as error:
        raise DataFileError(f"{str(path)!r} cannot be read ({error}); get it again") from error
    if sha256 is not None:
        digest = hashlib.sha256(header)
        digest.update(array.data)
        if digest.hexdigest() != sha256:
            raise DataFileError(
                f"{str(path)!r} is not the published file: its contents have another checksum; get it again,"
                " or, for other data in this layout, say verify=no"
            )
    return (
        array.view(array.dtype.newbyteorder("="))
        if array.itemsize == 1
        else array.astype(array.dtype.newbyteorder("="))
    )


def _header(file: BinaryIO, path: Path) -> tuple[np.dtype[np.generic], tuple[int, ...], bytes]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _DTYPES or not magic[3]:
        raise DataFileError(
            f"{str(path)!r} starts with {magic.hex() or 'nothing'}, so it is no idx file; get it again"
        )
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise DataFileError(f"{str(path)!r} ends within its header; get it again")
    return np.dtype(_DTYPES[magic[2]]), struct.unpack(f">{magic[3]}I", sizes), magic + sizes


def _body(
    file: BinaryIO, path: Path, dtype: np.dtype[np.generic], shape: tuple[int, ...]
) -> NDArray[np.generic]:
    size = math.prod(shape) * dtype.itemsize
    if size > path.stat().st_size * _DEFLATE_AT_MOST:
        raise DataFileError(
            f"{str(path)!r} announces {size} bytes, more than the file can hold; get it again"
        )
    array = np.empty(shape, dtype)
    view = memoryview(array.reshape(-1).view(np.uint8)) if size else memoryview(b"")  # type: ignore[arg-type]
    filled = 0
    while filled < size:
        count = file.readinto(view[filled : filled + 2**24])  # type: ignore[attr-defined]  # both kinds of file have it
        if not count:
            raise DataFileError(
                f"{str(path)!r} is truncated: {filled} of {size} bytes are there; get it again"
            )
        filled += count
    if file.read(1):
        raise DataFileError(f"{str(path)!r} goes on after the {size} bytes that it announces; get it again")
    return array
