"""The last known update of each client, for selectors that compare updates: at most one a client, in a stated precision."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs._rows import ClientRows
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.selectors._base import Selector
from fedcbs.selectors._state import State

__all__ = ["RemembersUpdates", "UpdateState", "check_pairs"]

MOST_PAIRED = 20_000
"""Comparing this many clients pair by pair takes 3 GB."""

MOST_AT_ONCE = 2**27
"""Numbers of updates that are compared in one piece (1 GB); more are gone through in stretches of columns."""

PRECISIONS = ("float32", "float16")
FILE = "updates.bin"


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
    updates
        Only clients that sent one have one.
    """

    updates: ClientRows

    @classmethod
    def empty(cls, num_clients: int) -> Self:
        """State in which nobody has sent anything; kept in memory, in float32."""
        return cls(np.zeros(num_clients, dtype=np.int64), ClientRows(num_clients, np.float32))

    def remember(self, clients: NDArray[np.int64], updates: NDArray[np.float64]) -> Self:
        """Return the state in which these updates took the place of older ones; no other is copied."""
        if len(clients) == 0:
            return self
        length = self.updates.length
        if length and updates.shape[1] != length:
            raise InvalidArgumentError(
                f"updates has {updates.shape[1]} parameters a client; earlier rounds had {length}"
            )
        limit = float(np.finfo(self.updates.dtype).max)
        if self.updates.dtype == np.float16 and max(-float(updates.min()), float(updates.max())) > limit:
            raise InvalidArgumentError(
                f"updates has numbers beyond {limit:g}, the largest in float16; use precision=float32"
            )
        return dataclasses.replace(self, updates=self.updates.with_vectors(clients, updates))

    def of(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Last updates of these clients; zeros for those that sent none."""
        return next(self.stretches(clients, most=len(clients) * max(self.updates.length, 1)))

    def stretches(self, clients: NDArray[np.int64], most: int | None = None) -> Iterator[NDArray[np.float64]]:
        """Yield what :meth:`of` returns, column by column, in as few pieces as `most` numbers in each allow."""
        length = max(self.updates.length, 1)
        width = max((most or MOST_AT_ONCE) // max(len(clients), 1), 1)
        known = self.updates.known(clients)
        for begin in range(0, length, width):
            columns = slice(begin, min(begin + width, length))
            out = np.zeros((len(clients), columns.stop - begin))
            for place in np.flatnonzero(known).tolist():
                out[place] = self.updates.get(clients[place : place + 1], columns)[0]
            yield out

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays; of updates on disk, only their places."""
        arrays: dict[str, NDArray[Any]] = {}
        for field in dataclasses.fields(self):
            if field.name == "updates":
                arrays["rows"], arrays["updates"] = self.updates.to_arrays()
            else:
                arrays[field.name] = np.asarray(getattr(self, field.name))
        return arrays

    def on_disk(self) -> tuple[ClientRows, ...]:
        """Return what of the state is in a file."""
        return (self.updates,) if self.updates.on_disk else ()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Restore a state from what :meth:`to_arrays` returned, in memory and in float32."""
        fresh = cls.empty(len(arrays["times_selected"]))
        fresh.check(arrays)
        return fresh.with_arrays(arrays)

    def with_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return a state that keeps updates where this one does, from what :meth:`to_arrays` returned."""
        plain = {name: np.asarray(array) for name, array in arrays.items() if name not in ("rows", "updates")}
        updates = self.updates.from_arrays(arrays["rows"], arrays["updates"])
        return dataclasses.replace(self, **plain, updates=updates)


StateT = TypeVar("StateT", bound=UpdateState)


@dataclasses.dataclass(frozen=True)
class RemembersUpdates(Selector[StateT], abc.ABC):
    """Base of selectors that keep the last update of each client.

    Parameters
    ----------
    precision
        What updates are kept in: ``float32`` or ``float16``.
    on_disk
        Whether they are kept in a file of the run's folder instead of in memory.
    """

    precision: str = dataclasses.field(default="float32", kw_only=True)
    on_disk: bool = dataclasses.field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UnknownNameError("precision", self.precision, PRECISIONS)
        _checks.boolean(self.on_disk, "on_disk")

    def _placed(self, state: StateT, folder: Path | None) -> StateT:
        path = None
        if self.on_disk:
            if folder is None:
                raise InvalidArgumentError(
                    "on_disk=true needs a folder to keep updates in; give the run a directory, or selector.init a folder"
                )
            path = Path(folder) / FILE
        return dataclasses.replace(state, updates=ClientRows(state.num_clients, self.precision, path))
