"""Long vectors, at most one a client, in memory or in a file, that survive a crash in any round.

A vector is never overwritten while anything in this process refers to it: a new one goes to a free place, and a place is free
once the last state that knows it is gone. So old states stay valid, a new state copies no vector, and whoever keeps the state
of a checkpoint keeps what that checkpoint says of the file true.
"""

from __future__ import annotations

import heapq
import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedcbs.errors import FedCBSError

__all__ = ["ClientRows", "FileRow", "RowFile"]


@final
class FileRow:
    """A vector in a file; its place is free again when nothing refers to it."""

    def __init__(self, file: RowFile, place: int) -> None:
        self.file, self.place = file, place

    def __del__(self) -> None:
        self.file.release(self.place)

    def __getitem__(self, columns: slice) -> NDArray[Any]:
        return self.file.read(self.place, columns)


@final
class RowFile:
    """A file of vectors of one length; it is made, or opened, when it is first needed.

    Parameters
    ----------
    path
        The file. It grows to as many vectors as are referred to at a time.
    dtype
        Of a number in a vector.
    """

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.path, self.dtype = path, np.dtype(dtype)
        self.length = 0
        self._handle = -1
        self._live: weakref.WeakValueDictionary[int, FileRow] = weakref.WeakValueDictionary()
        self._free: list[int] = []  # a heap: low places first, so that the file stays short
        self._end = 0

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)

    def put(self, vector: NDArray[Any]) -> FileRow:
        """Write a vector to a free place."""
        self._open(len(vector))
        place = self._place()
        row = self._live[place] = FileRow(self, place)
        data = memoryview(np.ascontiguousarray(vector, dtype=self.dtype).tobytes())
        offset = place * self._size
        while data:  # the system may take less than all, at the edge of a full disk
            written = os.pwrite(self._handle, data, offset)
            data, offset = data[written:], offset + written
        return row

    def at(self, place: int, length: int) -> FileRow:
        """Return what an earlier process put at a place."""
        self._open(length)
        if os.fstat(self._handle).st_size < (place + 1) * self._size:
            raise FedCBSError(
                f"{self.path} is shorter than the checkpoint says; it was cut or replaced, so start anew"
            )
        for between in range(self._end, place):
            heapq.heappush(self._free, between)
        self._end = max(self._end, place + 1)
        row = self._live.get(place)
        if row is None:
            row = self._live[place] = FileRow(self, place)
        return row

    def read(self, place: int, columns: slice) -> NDArray[Any]:
        """Read a vector, or a stretch of it."""
        begin, end, _ = columns.indices(self.length)
        itemsize = self.dtype.itemsize
        data = bytearray(max(end - begin, 0) * itemsize)
        done = 0
        while done < len(data):
            got = os.preadv(
                self._handle, [memoryview(data)[done:]], place * self._size + begin * itemsize + done
            )
            if not got:
                raise FedCBSError(
                    f"{self.path} is shorter than its table says; it was cut or replaced, so start anew"
                )
            done += got
        return np.frombuffer(data, dtype=self.dtype)

    def release(self, place: int) -> None:
        """Note that nothing refers to a place any more."""
        heapq.heappush(self._free, place)

    def flush(self) -> None:
        """Make sure that what was put is on the disk."""
        if self._handle >= 0:
            os.fsync(self._handle)

    @property
    def _size(self) -> int:
        return self.length * self.dtype.itemsize

    def _open(self, length: int) -> None:
        if self._handle < 0:
            self.length = length
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)

    def _place(self) -> int:
        while self._free:
            place = heapq.heappop(self._free)
            if place not in self._live:  # claimed again since it was released
                return place
        self._end += 1
        return self._end - 1


@final
class ClientRows:
    """The vectors of some clients; immutable.

    Parameters
    ----------
    num_clients
        Size of the population.
    dtype
        What numbers are kept in.
    path
        The file they are kept in; in memory without one.

    Examples
    --------
    >>> rows = ClientRows(3, np.float16)
    >>> later = rows.with_vectors(np.array([2]), np.array([[0.5, 1.5]]))
    >>> later.get(np.array([0, 2])), rows.length
    (array([[0. , 0. ],
           [0.5, 1.5]], dtype=float16), 0)
    """

    def __init__(self, num_clients: int, dtype: DTypeLike, path: Path | None = None) -> None:
        self.num_clients, self.dtype = num_clients, np.dtype(dtype)
        self.length = 0
        self._file = None if path is None else RowFile(path, dtype)
        self._rows: Mapping[int, NDArray[Any] | FileRow] = {}

    @property
    def on_disk(self) -> bool:
        """Whether the vectors are in a file."""
        return self._file is not None

    def __len__(self) -> int:
        return len(self._rows)

    def known(self, clients: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which of these clients have a vector."""
        return np.array([client in self._rows for client in clients.tolist()], dtype=bool)

    def get(self, clients: NDArray[np.int64], columns: slice = slice(None)) -> NDArray[Any]:
        """Return the vectors of these clients, or a stretch of them; zeros for those that have none."""
        out = np.zeros((len(clients), self.length), self.dtype) if columns == slice(None) else None
        if out is None:
            out = np.zeros((len(clients), len(range(*columns.indices(self.length)))), self.dtype)
        for place, client in enumerate(clients.tolist()):
            row = self._rows.get(client)
            if row is not None:
                out[place] = row[columns]
        return out

    def keep(self, vector: NDArray[Any]) -> NDArray[Any] | FileRow:
        """Keep a vector, as yet nobody's."""
        if self._file is not None:
            return self._file.put(vector)
        return np.array(vector, dtype=self.dtype)

    def with_vectors(self, clients: NDArray[np.int64], vectors: NDArray[Any]) -> ClientRows:
        """Return the rows in which these clients have these vectors."""
        return self.with_kept(
            {client: self.keep(vector) for client, vector in zip(clients.tolist(), vectors, strict=True)},
            vectors.shape[1],
        )

    def with_kept(self, kept: Mapping[int, NDArray[Any] | FileRow], length: int) -> ClientRows:
        """Return the rows in which clients have vectors of this length that :meth:`keep` kept."""
        other = ClientRows.__new__(ClientRows)
        other.num_clients, other.dtype, other.length = self.num_clients, self.dtype, length
        other._file, other._rows = self._file, {**self._rows, **kept}
        return other

    def to_arrays(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return each client's row (-1: none) and the rows; of vectors on disk, their places and no row."""
        table = np.full(self.num_clients, -1, dtype=np.int64)
        if self._file is None:
            clients = np.array(sorted(self._rows), dtype=np.int64)
            table[clients] = np.arange(len(clients))
            return table, self.get(clients)
        self._file.flush()
        for client, row in self._rows.items():
            table[client] = row.place if isinstance(row, FileRow) else -1
        return table, np.zeros((0, self.length), self.dtype)

    def from_arrays(self, table: NDArray[np.int64], vectors: NDArray[Any]) -> ClientRows:
        """Return the rows that :meth:`to_arrays` saved, kept where these are."""
        clients = np.flatnonzero(table >= 0)
        length = vectors.shape[1]
        if len(vectors) > int(table.max(initial=-1)):  # what was saved holds them itself
            kept = {int(client): self.keep(vectors[table[client]]) for client in clients}
        elif self._file is not None and not len(vectors):
            kept = {int(client): self._file.at(int(table[client]), length) for client in clients}
        else:
            raise FedCBSError(
                f"the state names {len(clients)} vectors but holds {len(vectors)}; they were kept on disk, so give the"
                " run's directory and on_disk=true"
            )
        return self.with_kept(kept, length)
