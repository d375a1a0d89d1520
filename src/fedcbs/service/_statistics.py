"""Opened label statistics in the selector's file, and in the order of the population."""

from __future__ import annotations

import dataclasses
import functools
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import ConflictError, RowNeededError
from fedcbs.imbalance import RowsOnDemandGram
from fedcbs.private import OpenedGram
from fedcbs.private._mode import HEADER_OF_GRAM, read_refused
from fedcbs.private._wire import unpack
from fedcbs.selectors import GramInformation, Information
from fedcbs.service import _codec as codec
from fedcbs.service._information import population_information
from fedcbs.service._store import Store

__all__ = [
    "Current",
    "Statistics",
    "opened_from_bytes",
    "opened_to_bytes",
    "told_of_refused",
    "write_statistics",
]

IMPOSSIBLE = "the selector found statistics that no label counts can have"

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
        if isinstance(opened, OpenedDiagonal):
            gram = opened.gram(population, functools.partial(self._kept_row, federation))
            return Current(population, usable, GramInformation(gram))
        return Current(population, usable, population_information(opened, population))

    def _kept_row(self, federation: str, client: str) -> NDArray[np.int64]:
        """A row that was handed in, or the wish for it."""
        found = self._store.row(
            "SELECT row FROM opened_rows WHERE federation=? AND client=?", federation, client
        )
        if found is None:
            raise RowNeededError(client)
        return np.frombuffer(found["row"], dtype="<i8")


@final
@dataclasses.dataclass(frozen=True, eq=False)
class OpenedDiagonal:
    """What is opened at once where rows come on demand.

    Parameters
    ----------
    clients, num_examples, num_classes, diagonal, refused
        As in :class:`~fedcbs.private.OpenedGram`, with the inner product of each client with itself.
    setup
        What the server sent; rows are opened with it.
    """

    clients: tuple[str, ...]
    num_examples: NDArray[np.int64]
    num_classes: int
    diagonal: NDArray[np.int64]
    refused: Mapping[str, str]
    setup: bytes

    def gram(self, population: Sequence[str], kept: Callable[[str], NDArray[np.int64]]) -> RowsOnDemandGram:
        """Return the Gram of a population; whoever has no statistics has no examples."""
        place = {name: position for position, name in enumerate(population)}
        positions = np.array([place[name] for name in self.clients], dtype=np.int64)

        def spread(values: NDArray[np.int64]) -> NDArray[np.int64]:
            everybody = np.zeros(len(population), dtype=np.int64)
            everybody[positions] = values
            return everybody

        return RowsOnDemandGram(
            lambda position: spread(kept(population[position])),
            diagonal=spread(self.diagonal),
            num_examples=spread(self.num_examples),
            num_classes=self.num_classes,
        )


def told_of_refused(refused: Mapping[str, str], message: bytes, kind: str) -> dict[str, str]:
    """Reasons for which clients are left out, as the server may know them: its own in full, the selector's without numbers.

    What the selector finds wrong with an opened matrix tells sizes and inner products; it stays with the selector.
    """
    known = read_refused(unpack(message, kind, largest_header=HEADER_OF_GRAM).header.get("refused"))
    return {name: known.get(name, IMPOSSIBLE) for name in refused}


def write_statistics(
    connection: sqlite3.Connection, federation: str, digest: str, opened: OpenedGram | OpenedDiagonal
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
    connection.execute("DELETE FROM opened_rows WHERE federation=?", (federation,))
    connection.execute(
        "INSERT OR REPLACE INTO statistics VALUES (?, ?, ?)",
        (federation, digest, opened_to_bytes(opened)),
    )


def opened_to_bytes(opened: OpenedGram | OpenedDiagonal) -> bytes:
    """What was opened, for the selector's own file."""
    arrays: dict[str, NDArray[Any]] = {
        "clients": np.array(opened.clients, dtype=np.str_),
        "num_examples": opened.num_examples,
        "num_classes": np.array(opened.num_classes),
        "refused": np.array([part for pair in opened.refused.items() for part in pair], dtype=np.str_),
    }
    kept: dict[str, NDArray[Any] | None]
    if isinstance(opened, OpenedDiagonal):
        kept = {"diagonal": opened.diagonal, "setup": np.frombuffer(opened.setup, np.uint8)}
    else:
        kept = {"matrix": opened.matrix, "label_counts": opened.label_counts}
    return codec.arrays_to_bytes(arrays | {name: value for name, value in kept.items() if value is not None})


def opened_from_bytes(data: bytes) -> OpenedGram | OpenedDiagonal:
    """What was opened, from the selector's own file."""
    arrays = codec.arrays_from_bytes(data)
    names = arrays["refused"].tolist()
    refused = dict(zip(names[::2], names[1::2], strict=True))
    clients, num_classes = tuple(arrays["clients"].tolist()), int(arrays["num_classes"])
    if "diagonal" in arrays:
        setup = arrays["setup"].tobytes()
        return OpenedDiagonal(
            clients, arrays["num_examples"], num_classes, arrays["diagonal"], refused, setup
        )
    return OpenedGram(
        clients,
        arrays["num_examples"],
        num_classes,
        arrays.get("matrix"),
        arrays.get("label_counts"),
        refused,
    )
