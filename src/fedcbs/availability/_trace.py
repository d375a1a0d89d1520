"""Availability as it was recorded.

A trace is a text file of JSON lines, one for each round, in order and without gaps::

    {"round": 1, "clients": [0, 4, 7]}
    {"round": 2, "clients": []}
    {"round": 3, "clients": [2, 4]}

The first round may have any number from 0. Each line names the clients available in its round, in any order, each
once; empty lines are skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs._checks import client_ids, integer
from fedcbs._files import existing_file, write_whole
from fedcbs.availability._base import Availability
from fedcbs.errors import InvalidArgumentError

__all__ = ["Trace"]

_MOST_CLIENTS = 2**31


@final
@dataclass(frozen=True, eq=False)
class Trace(Availability):
    """What was recorded; it repeats, or it ends.

    Make one with :meth:`load`, :meth:`from_rounds` or :meth:`record`.

    Parameters
    ----------
    rounds
        The available clients of each recorded round, in ascending order.
    first_round
        The index of the first recorded round.
    repeat
        Whether rounds outside of the recording are read from it as if it went round and round. If not, asking for
        them is an error.

    Examples
    --------
    >>> trace = Trace.from_rounds([[0, 1], [2]], first_round=1)
    >>> [trace.available(r, num_clients=3, seed=0).tolist() for r in (1, 2, 3)]
    [[0, 1], [2], [0, 1]]
    """

    name: ClassVar[str] = "trace"

    rounds: tuple[NDArray[np.int64], ...] = field(repr=False)
    first_round: int = 0
    repeat: bool = True
    _widest: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        integer(self.first_round, "first_round", minimum=0)
        if not self.rounds:
            raise InvalidArgumentError("rounds is empty; a trace needs one round at least")
        rounds = tuple(
            client_ids(clients, f"rounds[{position}]", num_clients=_MOST_CLIENTS)
            for position, clients in enumerate(self.rounds)
        )
        object.__setattr__(self, "rounds", rounds)
        # The largest client of each round is its last; found once, for the check in each round.
        highest = [int(clients[-1]) if clients.size else -1 for clients in rounds]
        object.__setattr__(self, "_widest", int(np.argmax(highest)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        mine, theirs = (
            (self.first_round, self.repeat, len(self)),
            (other.first_round, other.repeat, len(other)),
        )
        return mine == theirs and all(map(np.array_equal, self.rounds, other.rounds))

    __hash__ = None  # type: ignore[assignment]  # arrays inside, compared by value

    def __len__(self) -> int:
        return len(self.rounds)

    @classmethod
    def from_rounds(cls, rounds: Iterable[ArrayLike], *, first_round: int = 0, repeat: bool = True) -> Trace:
        """Make a trace of lists of clients.

        >>> len(Trace.from_rounds([[2, 0], []]))
        2
        """
        return cls(tuple(np.asarray(clients) for clients in rounds), first_round, repeat)

    @classmethod
    def record(
        cls, availability: Availability, rounds: Iterable[int], *, num_clients: int, seed: int
    ) -> Trace:
        """Record another rule over consecutive rounds.

        >>> from fedcbs.availability import UniformFraction
        >>> trace = Trace.record(UniformFraction(0.5), range(1, 4), num_clients=6, seed=0)
        >>> trace.first_round, len(trace)
        (1, 3)
        """
        numbers = [integer(number, "rounds", minimum=0) for number in rounds]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers)) if numbers else []):
            raise InvalidArgumentError(f"rounds={numbers} must count up by one; give range(first, last + 1)")
        recorded = (availability.available(number, num_clients=num_clients, seed=seed) for number in numbers)
        return cls.from_rounds(recorded, first_round=numbers[0] if numbers else 0)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, repeat: bool = True) -> Trace:
        """Read a trace file; what is malformed is refused with its line number."""
        file = existing_file(path, "path")
        rounds: list[NDArray[np.int64]] = []
        first: int | None = None
        try:
            with file.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        where = f"path={str(file)!r} line {number}"
                        index, clients = _read_line(line, where)
                        first = index if first is None else first
                        _check_order(index, first + len(rounds), where)
                        rounds.append(clients)
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(
                f"path={str(file)!r} is no text ({error}); write it as UTF-8"
            ) from error
        if first is None:
            raise InvalidArgumentError(f"path={str(file)!r} has no rounds; write a line for each")
        return cls(tuple(rounds), first, repeat)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a file that :meth:`load` reads, whole or not at all."""

        def write(file: BinaryIO) -> None:
            for index, clients in enumerate(self.rounds, start=self.first_round):
                file.write(json.dumps({"round": index, "clients": clients.tolist()}).encode() + b"\n")

        write_whole(Path(path), write)

    def _check_population(self, num_clients: int) -> None:
        clients = self.rounds[self._widest]
        if clients.size and clients[-1] >= num_clients:
            raise InvalidArgumentError(
                f"num_clients={num_clients}, but the trace names client {clients[-1]} in round"
                f" {self.first_round + self._widest}; use the population that was recorded"
            )

    def _available(self, round_index: int, num_clients: int, seed: int) -> NDArray[np.int64]:  # noqa: ARG002
        position = round_index - self.first_round
        if not self.repeat and not 0 <= position < len(self):
            raise InvalidArgumentError(
                f"round_index={round_index}, but the trace holds rounds {self.first_round} to"
                f" {self.first_round + len(self) - 1}; let it repeat, or run within it"
            )
        return self.rounds[position % len(self)].copy()


def _read_line(line: str, where: str) -> tuple[int, NDArray[np.int64]]:
    """Return the round and its clients, sorted."""
    try:
        entry = json.loads(line, object_pairs_hook=_distinct_keys)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f'{where} is not a line such as {{"round": 1, "clients": [0, 4]}} ({error})'
        ) from error
    if not isinstance(entry, dict) or set(entry) != {"round", "clients"}:
        raise InvalidArgumentError(
            f'{where} must have "round" and "clients" and nothing else, as in {{"round": 1, "clients": [0, 4]}}'
        )
    index = integer(entry["round"], f"{where}: round", minimum=0, maximum=2**53)
    clients = entry["clients"]
    if not isinstance(clients, list) or not all(type(client) is int for client in clients):
        raise InvalidArgumentError(f"{where}: clients must be a list of whole numbers")
    return index, client_ids(clients, f"{where}: clients", num_clients=_MOST_CLIENTS)


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry = dict(pairs)
    if len(entry) != len(pairs):
        raise ValueError("a key stands twice")
    return entry


def _check_order(index: int, expected: int, where: str) -> None:
    if index != expected:
        raise InvalidArgumentError(
            f"{where}: round {index} stands where round {expected} must; put the rounds in order, without gaps"
        )
