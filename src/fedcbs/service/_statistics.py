"""Opened label statistics in the selector's file, and in the order of the population."""

from __future__ import annotations

import functools
import sqlite3
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import ConflictError
from fedcbs.private import OpenedGram
from fedcbs.selectors import Information
from fedcbs.service import _codec as codec
from fedcbs.service._information import population_information
from fedcbs.service._store import Store

__all__ = ["Current", "Statistics", "opened_from_bytes", "opened_to_bytes", "write_statistics"]

CACHED = 4
"""Federations whose statistics stay in memory."""


class Current(NamedTuple):
    """Statistics in use: everybody ever seen, positions of those with statistics, and what is known of them."""

    population: tuple[str, ...]
    usable: dict[str, int]
    information: Information


@final
class Statistics:
    """Reads statistics, and keeps those in use in memory.

    Parameters
    ----------
    store
        Where they are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._load = functools.lru_cache(CACHED)(self._loaded)

    def current(self, federation: str) -> Current:
        """Return the statistics in use."""
        row = self._store.row(
            "SELECT digest, (SELECT count(*) FROM clients c WHERE c.federation=s.federation) AS number"
            " FROM statistics s WHERE federation=?",
            federation,
        )
        if row is None:
            raise ConflictError(
                f"there are no label statistics of {federation!r} yet; hand in a Gram, or uploads"
            )
        return self._load(federation, row["digest"], row["number"])

    def num_clients(self, federation: str) -> int:
        """How many clients have statistics."""
        row = self._store.row("SELECT 1 FROM statistics WHERE federation=?", federation)
        return 0 if row is None else len(self.current(federation).usable)

    def population(self, federation: str) -> tuple[str, ...]:
        """Everybody ever seen, in the order of their positions."""
        found = self._store.rows("SELECT name FROM clients WHERE federation=? ORDER BY position", federation)
        return tuple(row["name"] for row in found)

    def _loaded(self, federation: str, digest: str, number: int) -> Current:  # noqa: ARG002  # a key of the cache
        row = self._store.row(
            "SELECT opened FROM statistics WHERE federation=? AND digest=?", federation, digest
        )
        assert row is not None
        opened = opened_from_bytes(row["opened"])
        population = self.population(federation)
        place = {name: position for position, name in enumerate(population)}
        usable = {name: place[name] for name in opened.clients}
        return Current(population, usable, population_information(opened, population))


def write_statistics(
    connection: sqlite3.Connection, federation: str, digest: str, opened: OpenedGram
) -> None:
    """Put statistics in the place of earlier ones; clients keep their positions, new ones follow in order of name."""
    known = {
        row["name"]
        for row in connection.execute("SELECT name FROM clients WHERE federation=?", (federation,))
    }
    fresh = [name for name in opened.clients if name not in known]
    connection.executemany(
        "INSERT INTO clients VALUES (?, ?, ?)",
        [(federation, len(known) + number, name) for number, name in enumerate(fresh)],
    )
    connection.execute(
        "INSERT OR REPLACE INTO statistics VALUES (?, ?, ?)",
        (federation, digest, opened_to_bytes(opened)),
    )


def opened_to_bytes(opened: OpenedGram) -> bytes:
    """An opened Gram for the selector's own file."""
    arrays: dict[str, NDArray[Any]] = {
        "clients": np.array(opened.clients, dtype=np.str_),
        "num_examples": opened.num_examples,
        "num_classes": np.array(opened.num_classes),
        "refused": np.array([part for pair in opened.refused.items() for part in pair], dtype=np.str_),
    }
    kept = {"matrix": opened.matrix, "label_counts": opened.label_counts}
    return codec.arrays_to_bytes(arrays | {name: value for name, value in kept.items() if value is not None})


def opened_from_bytes(data: bytes) -> OpenedGram:
    """An opened Gram from the selector's own file."""
    arrays = codec.arrays_from_bytes(data)
    refused = arrays["refused"].tolist()
    return OpenedGram(
        tuple(arrays["clients"].tolist()),
        arrays["num_examples"],
        int(arrays["num_classes"]),
        arrays.get("matrix"),
        arrays.get("label_counts"),
        dict(zip(refused[::2], refused[1::2], strict=True)),
    )
