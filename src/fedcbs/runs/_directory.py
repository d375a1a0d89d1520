"""The directory of a run: what is in it, and how it stays whole whatever happens.

::

    config.json             the settled configuration, and the versions it was started with
    population.npz          label counts and sizes of the clients
    rounds.jsonl            one line a round, appended and flushed
    checkpoint.npz          the state after some round; written whole or not at all
    checkpoint.previous.npz the one before it, in case a disk damages the newest
    statistics.npz          what the selector opened, in privacy modes that encrypt
    control-variates.bin    of SCAFFOLD, where they are kept on disk
    updates.bin             that the selector remembers, where they are kept on disk
    model.safetensors       the final model, once there is one
    summary.json            what came of it
    run.lock                held by the process that works here

A checkpoint is written after the lines of its rounds are on the disk, so a line may be newer than the newest checkpoint, never
older. Going on from a checkpoint cuts off the lines of later rounds; they will come again, the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._files import write_whole
from fedcbs.errors import InvalidArgumentError, RunError
from fedcbs.simulation import RoundRecord

__all__ = ["FORMAT", "RunDirectory"]

FORMAT = 1
CONFIG, POPULATION, ROUNDS, SUMMARY = "config.json", "population.npz", "rounds.jsonl", "summary.json"
CHECKPOINT, PREVIOUS, MODEL, LOCK = (
    "checkpoint.npz",
    "checkpoint.previous.npz",
    "model.safetensors",
    "run.lock",
)
KEPT_BY_OTHERS = ("statistics.npz", "statistics-traffic.json", "control-variates.bin", "updates.bin")
LINE = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    RuntimeError,
)


@final
@dataclasses.dataclass(eq=False)
class RunDirectory:
    """A run directory that this process works in; use it in a ``with`` statement.

    Parameters
    ----------
    path
        Where it is.
    """

    path: Path
    _lock: int | None = None
    _rounds: int | None = None

    @contextlib.contextmanager
    def locked(self) -> Iterator[RunDirectory]:
        """Work here alone: a second process is refused. The lock goes when the process does, however it ends."""
        with self.full_disk_explained():
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(self._lock, self.path)
            yield self
        finally:
            if self._rounds is not None:
                os.close(self._rounds)
                self._rounds = None
            os.close(self._lock)
            self._lock = None

    @classmethod
    def make(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """Make a directory for a new run; one that holds a run already is refused."""
        folder = Path(path)
        cls(folder).refuse_a_run()
        if folder.exists() and not folder.is_dir():
            raise InvalidArgumentError(f"out={str(folder)!r} is a file; name a directory")
        if folder.is_dir() and not all(_is_leftover(entry) for entry in folder.iterdir()):
            raise InvalidArgumentError(
                f"out={str(folder)!r} holds other files; name a directory that is empty or new"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgumentError(f"out={str(folder)!r} cannot be made: {error}") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InvalidArgumentError(f"out={str(folder)!r} cannot be written to; name another directory")
        return cls(folder)

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """Return the directory of a run that was started."""
        folder = Path(path)
        if not (folder / CONFIG).is_file():
            raise InvalidArgumentError(
                f"{str(folder)!r} holds no run; name a directory that `fedcbs run --out` made"
            )
        return cls(folder)

    def refuse_a_run(self) -> None:
        """Refuse a directory in which a run began."""
        if (self.path / CONFIG).exists():
            raise RunError(
                f"{str(self.path)!r} holds a run already; go on with it by `fedcbs resume {self.path}`, or name another"
                " directory"
            )

    def clear(self) -> None:
        """Remove what a process left that was killed before its run began; the lock is held."""
        self.refuse_a_run()
        for entry in list(self.path.iterdir()):
            if entry.name != LOCK and _is_leftover(entry):
                entry.unlink()

    def leave_nothing(self, *, keep_folder: bool) -> None:
        """Take back a directory in which no run began."""
        for entry in list(self.path.iterdir()):
            entry.unlink()
        if not keep_folder:
            self.path.rmdir()

    def write_json(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a JSON file, whole or not at all."""
        content = (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()
        self.write_bytes(name, content)

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""

        def write(file: BinaryIO) -> None:
            file.write(content)

        with self.full_disk_explained():
            write_whole(self.path / name, write)

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON file of the run."""
        try:
            document = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / name} cannot be read ({error}); the run is damaged") from error
        if not isinstance(document, dict):
            raise RunError(f"{self.path / name} holds no object; the run is damaged")
        return document

    def write_arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write arrays to a file, whole or not at all."""
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]  # the stub fears for allow_pickle
        self.write_bytes(name, buffer.getvalue())

    def append(self, record: RoundRecord) -> None:
        """Append the line of a round; the system has it before this returns."""
        line = LINE.encode(record.to_json()) + "\n"
        with self.full_disk_explained():
            data = memoryview(line.encode())
            while data:
                data = data[os.write(self._rounds_file(), data) :]

    def records(self) -> Iterator[RoundRecord]:
        """Read the rounds; a last line that is cut off does not count."""
        path = self.path / ROUNDS
        if not path.exists():
            return
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                yield _record(line, number, path)

    def cut(self, rounds: int) -> None:
        """Keep the lines of so many rounds, and cut off the rest."""
        path = self.path / ROUNDS
        handle = self._rounds_file()
        end = number = 0
        with path.open("rb") as file:
            while number < rounds:
                line = file.readline()
                number += 1
                if not line.endswith(b"\n"):
                    raise RunError(
                        f"{path} ends before round {number}, but the checkpoint is of round {rounds}; the run is damaged,"
                        " start anew"
                    )
                _record(line, number, path)
                end += len(line)
        with self.full_disk_explained():
            os.ftruncate(handle, end)

    def checkpoint(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Save the state; the one before it is kept."""
        with self.full_disk_explained():
            os.fsync(self._rounds_file())
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]  # the stub fears for allow_pickle
        newest = self.path / CHECKPOINT
        if newest.exists():
            newest.replace(self.path / PREVIOUS)
        self.write_bytes(CHECKPOINT, buffer.getvalue())

    def checkpoints(self) -> Iterator[tuple[str, dict[str, NDArray[Any]] | Exception]]:
        """Yield the saved states, newest first, by the name of the file; or why one cannot be read."""
        for name in (CHECKPOINT, PREVIOUS):
            path = self.path / name
            if not path.exists():
                continue
            if not zipfile.is_zipfile(path):
                yield name, ValueError("it is cut short, or no .npz file at all")
                continue
            try:
                with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                    yield name, {key: archive[key] for key in archive.files}
            except DAMAGED as error:
                yield name, error

    @contextlib.contextmanager
    def full_disk_explained(self) -> Iterator[None]:
        """Say what to do where the disk is full."""
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise RunError(
                f"no space left for {str(self.path)!r} ({error.strerror}); the run stands as of its last checkpoint: make"
                f" room, then `fedcbs resume {self.path}`"
            ) from error

    def _rounds_file(self) -> int:
        if self._rounds is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self._rounds = os.open(self.path / ROUNDS, flags, 0o644)
        return self._rounds


def _is_leftover(entry: Path) -> bool:
    """Whether a file may be from a run that was killed before it began."""
    return entry.name in (LOCK, POPULATION, *KEPT_BY_OTHERS) or entry.name.endswith(".part")


def _record(line: bytes, number: int, path: Path) -> RoundRecord:
    try:
        record = RoundRecord.from_json(json.loads(line))
    except (ValueError, AttributeError) as error:
        raise RunError(f"{path} line {number} is no record of a round; the run is damaged") from error
    if record.round != number:
        raise RunError(f"{path} line {number} is of round {record.round}; the run is damaged")
    return record


def _lock(handle: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not a POSIX system; two processes are then the user's affair
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunError(
            f"another process is working in {str(path)!r}; wait for it, or name another directory"
        ) from None
