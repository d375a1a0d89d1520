"""The last known update of each client, for selectors that compare updates: at most one a client, in float32."""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError
from fedcbs.selectors._state import State

__all__ = ["UpdateState", "check_pairs"]

MOST_PAIRED = 20_000
"""Comparing this many clients pair by pair takes 3 GB."""


def check_pairs(num_clients: int, selector: str) -> None:
    """Refuse to compare more clients pair by pair than memory holds."""
    if num_clients > MOST_PAIRED:
        raise InvalidArgumentError(
            f"available has {num_clients} clients, and {selector} compares all pairs of them, which is possible up to "
            f"{MOST_PAIRED}; offer it a random part of them"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class UpdateState(State):
    """Adds the last update of each client that sent one.

    Parameters
    ----------
    rows
        Row of each client in `updates`; -1 before it sent one.
    updates
        One flat update a row, in float32. Only clients that sent one take memory.
    """

    rows: NDArray[np.int64]
    updates: NDArray[np.float32]

    @classmethod
    def empty(cls, num_clients: int) -> Self:
        """State in which nobody has sent anything."""
        none = np.full(num_clients, -1, dtype=np.int64)
        return cls(np.zeros(num_clients, dtype=np.int64), none, np.zeros((0, 0), dtype=np.float32))

    def remember(self, clients: NDArray[np.int64], updates: NDArray[np.float64]) -> Self:
        """Return the state in which these updates took the place of older ones."""
        if len(clients) == 0:
            return self
        if len(self.updates) and updates.shape[1] != self.updates.shape[1]:
            raise InvalidArgumentError(
                f"updates has {updates.shape[1]} parameters a client; earlier rounds had {self.updates.shape[1]}"
            )
        rows = self.rows.copy()
        fresh = clients[rows[clients] < 0]
        rows[fresh] = len(self.updates) + np.arange(len(fresh))
        kept = np.empty((len(self.updates) + len(fresh), updates.shape[1]), dtype=np.float32)
        if len(self.updates):  # before the first answer it has no columns either
            kept[: len(self.updates)] = self.updates
        kept[rows[clients]] = updates
        return dataclasses.replace(self, rows=rows, updates=kept)

    def of(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Last updates of these clients; zeros for those that sent none."""
        out = np.zeros((len(clients), max(self.updates.shape[1], 1)))
        known = self.rows[clients] >= 0
        if known.any():
            out[known] = self.updates[self.rows[clients[known]]]
        return out
