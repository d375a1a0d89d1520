"""Vectors of the model's size, at most one a client, in memory or in a file, that survive a crash in any round.

A row is never overwritten while the current state or the one saved last refers to it: a new vector goes to a free place, and
the state is the table that says which place is whose. So whoever goes on from the saved state finds its rows as they were.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Iterable
from pathlib import Path
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs.errors import FedCBSError, UnknownNameError

__all__ = ["PRECISIONS", "DiskRows", "MemoryRows", "Rows", "precision_of"]

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""What a row can be kept in."""


def precision_of(name: str) -> torch.dtype:
    """Return the type that a name stands for.

    >>> precision_of("bfloat16")
    torch.bfloat16
    """
    if name not in PRECISIONS:
        raise UnknownNameError("precision", name, PRECISIONS)
    return PRECISIONS[name]


class Rows(abc.ABC):
    """Places for vectors; a place is a whole number.

    Parameters
    ----------
    length
        Numbers in a vector.
    dtype
        What they are kept in.
    """

    def __init__(self, length: int, dtype: torch.dtype) -> None:
        self.length, self.dtype = length, dtype
        self._free: list[int] = []
        self._end = 0

    def put(self, vectors: torch.Tensor) -> NDArray[np.int64]:
        """Keep vectors, one a row, and return their places."""
        places = [self._place() for _ in range(len(vectors))]
        for place, vector in zip(places, vectors, strict=True):
            self._write(place, vector)
        return np.array(places, dtype=np.int64)

    def get(self, places: NDArray[np.int64]) -> torch.Tensor:
        """Return the vectors at these places, in float32; zeros where a place is -1."""
        out = torch.zeros(len(places), self.length)
        for row, place in enumerate(places.tolist()):
            if place >= 0:
                out[row] = self._read(place)
        return out

    def keep_only(self, tables: Iterable[NDArray[np.int64]]) -> None:
        """Free all places that none of the tables names."""
        named = {place for table in tables for place in table.tolist()}
        self._free = [place for place in range(self._end) if place not in named]
        self._free.reverse()  # low places first: files stay short
        for place in self._free:
            self._drop(place)

    def flush(self) -> None:  # noqa: B027  # memory has nothing to flush
        """Make sure that what was put is where it will be found."""

    def _place(self) -> int:
        if self._free:
            return self._free.pop()
        self._end += 1
        return self._end - 1

    @abc.abstractmethod
    def _write(self, place: int, vector: torch.Tensor) -> None: ...

    @abc.abstractmethod
    def _read(self, place: int) -> torch.Tensor: ...

    def _drop(self, place: int) -> None:  # noqa: B027  # a file keeps its place
        """Forget a vector."""


@final
class MemoryRows(Rows):
    """Vectors in memory.

    Examples
    --------
    >>> rows = MemoryRows(2, torch.float32)
    >>> rows.get(rows.put(torch.tensor([[1.0, 2.0]])))
    tensor([[1., 2.]])
    """

    def __init__(self, length: int, dtype: torch.dtype) -> None:
        super().__init__(length, dtype)
        self._vectors: dict[int, torch.Tensor] = {}

    def _write(self, place: int, vector: torch.Tensor) -> None:
        self._vectors[place] = vector.to("cpu", self.dtype, copy=True)

    def _read(self, place: int) -> torch.Tensor:
        return self._vectors[place]

    def _drop(self, place: int) -> None:
        self._vectors.pop(place, None)


@final
class DiskRows(Rows):
    """Vectors in a file, which is made if it is not there.

    Parameters
    ----------
    length, dtype
        See :class:`Rows`.
    path
        The file. It grows to as many vectors as are in use at a time.
    table
        The places in use, where the file is from an earlier process.
    """

    def __init__(
        self, length: int, dtype: torch.dtype, path: Path, table: NDArray[np.int64] | None = None
    ) -> None:
        super().__init__(length, dtype)
        self._size = length * dtype.itemsize
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if table is not None:
            self._end = int(table.max(initial=-1)) + 1
            self.keep_only([table])
            if os.fstat(self._file).st_size < self._end * self._size:
                raise FedCBSError(
                    f"{path} is shorter than the checkpoint says; it was cut or replaced, so start anew"
                )

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def flush(self) -> None:
        """Make sure that what was put is on the disk."""
        os.fsync(self._file)

    def _write(self, place: int, vector: torch.Tensor) -> None:
        data = memoryview(_as_bytes(vector.to("cpu", self.dtype)))
        offset = place * self._size
        while data:  # the system may take less than all, at the edge of a full disk
            written = os.pwrite(self._file, data, offset)
            data, offset = data[written:], offset + written

    def _read(self, place: int) -> torch.Tensor:
        data = bytearray(os.pread(self._file, self._size, place * self._size))
        if len(data) != self._size:
            raise FedCBSError(
                f"{self.path} is shorter than its table says; it was cut or replaced, so start anew"
            )
        return torch.frombuffer(data, dtype=self.dtype)


def _as_bytes(vector: torch.Tensor) -> bytes:
    raw: NDArray[np.uint8] = vector.contiguous().view(torch.uint8).numpy()
    return raw.tobytes()
