"""The selector's memory: one SQLite file, in which every request is one transaction.

A crash at any moment leaves the file as it was before the request or as it was after it. The file holds secret keys and opened
statistics, so only its owner can read it; so can only they read what SQLite puts beside it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedcbs.errors import InvalidArgumentError, ServiceError

__all__ = ["IN_MEMORY", "Store"]

IN_MEMORY = ":memory:"
FORMAT = 1
BUSY_SECONDS = 60.0

SCHEMA = """
CREATE TABLE federations (
    name TEXT PRIMARY KEY, owner TEXT NOT NULL, options TEXT NOT NULL, seed TEXT NOT NULL,
    public BLOB NOT NULL, secret BLOB NOT NULL, state BLOB, stale INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE clients (
    federation TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (federation, name)
) STRICT;
CREATE TABLE statistics (
    federation TEXT PRIMARY KEY, digest TEXT NOT NULL, opened BLOB NOT NULL
) STRICT;
CREATE TABLE opened_rows (
    federation TEXT NOT NULL, client TEXT NOT NULL, row BLOB NOT NULL, PRIMARY KEY (federation, client)
) STRICT;
CREATE TABLE uploads (
    federation TEXT NOT NULL, client TEXT NOT NULL, upload BLOB NOT NULL, PRIMARY KEY (federation, client)
) STRICT;
CREATE TABLE rounds (
    federation TEXT NOT NULL, round_index INTEGER NOT NULL, digest TEXT NOT NULL, answer BLOB NOT NULL,
    before BLOB, observed TEXT, observed_after INTEGER, PRIMARY KEY (federation, round_index)
) STRICT;
"""


class Store:
    """A database of federations; threads may share it.

    Parameters
    ----------
    path
        File, which is made where there is none; ``":memory:"`` for none.
    """

    def __init__(self, path: str | os.PathLike[str] = IN_MEMORY) -> None:
        self.path = os.fspath(path)
        if self.path != IN_MEMORY:
            _make_private(Path(self.path))
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise InvalidArgumentError(
                f"state={self.path!r} is no state of a selector ({error}); restore it from a backup, or name a new file"
            ) from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Do everything inside, or nothing; no other process writes meanwhile."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                raise ServiceError(f"the state {self.path!r} cannot be written to: {error}") from error
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:  # the disk is full, for instance
                self._connection.execute("ROLLBACK")
                raise ServiceError(f"the state {self.path!r} cannot be written to: {error}") from error

    def row(self, query: str, *values: Any) -> sqlite3.Row | None:
        """Return the first row of a query."""
        with self._lock:
            found: sqlite3.Row | None = self._connection.execute(query, values).fetchone()
            return found

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """Return all rows of a query."""
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    def copy_to(self, target: sqlite3.Connection) -> None:
        """Copy everything into another database, as it is at one moment."""
        with self._lock:
            self._connection.backup(target)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        run = self._connection.execute
        self._connection.row_factory = sqlite3.Row
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=FULL")  # what was answered is on the disk
        run("PRAGMA secure_delete=ON")  # an upload that is removed is gone from the file
        run("BEGIN IMMEDIATE")
        (version,) = run("PRAGMA user_version").fetchone()
        if version == 0 and not run("SELECT name FROM sqlite_master").fetchall():
            for statement in filter(str.strip, SCHEMA.split(";")):
                run(statement)
            run(f"PRAGMA user_version={FORMAT}")
        elif version != FORMAT:
            run("ROLLBACK")
            raise InvalidArgumentError(
                f"state={self.path!r} has format {version}; this version reads format {FORMAT}. Name a new file"
            )
        run("COMMIT")


def _make_private(path: Path) -> None:
    """Make the file, so that it is never readable for others, and refuse one that is."""
    if not path.parent.is_dir():
        raise InvalidArgumentError(
            f"state={str(path)!r}: there is no folder {str(path.parent)!r}; make it first"
        )
    if path.is_dir():
        raise InvalidArgumentError(f"state={str(path)!r} is a folder; name a file in it")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise InvalidArgumentError(
                f"state={str(path)!r} holds secret keys, and others can read it; run: chmod 600 {path}"
            ) from None
