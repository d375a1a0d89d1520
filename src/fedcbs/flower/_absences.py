"""Who did not answer, and for how long it is left alone.

A dead node may stay in Flower's list for a while, and would be selected again and again. A client that did not answer is
left out for some rounds, twice as many after each further miss; one answer, and it is trusted as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["Absences"]

LONGEST = 64
"""Rounds; nobody is given up for good."""


class Absences:
    """Misses in a row of each client, and the round from which it may be selected again.

    Parameters
    ----------
    pause
        Rounds that a client is left out after its first miss.

    Examples
    --------
    >>> absences = Absences(pause=2)
    >>> absences.missed(["a"], round_index=3)
    >>> [round_index for round_index in range(4, 8) if absences.excused("a", round_index)]
    [4, 5]
    """

    def __init__(self, pause: int) -> None:
        self._pause = pause
        self._misses: dict[str, int] = {}
        self._until: dict[str, int] = {}

    def missed(self, names: Iterable[str], round_index: int) -> None:
        """Note who did not answer in a round."""
        for name in names:
            self._misses[name] = self._misses.get(name, 0) + 1
            rounds = min(self._pause * 2 ** min(self._misses[name] - 1, 16), LONGEST)
            self._until[name] = round_index + rounds

    def answered(self, names: Iterable[str]) -> None:
        """Note who did."""
        for name in names:
            self._misses.pop(name, None)
            self._until.pop(name, None)

    def excused(self, name: str, round_index: int) -> bool:
        """Whether a client is left out of a round."""
        return self._until.get(name, 0) >= round_index > 0 and self._misses.get(name, 0) > 0

    def soonest(self, names: Iterable[str], count: int) -> list[str]:
        """Of the clients left out, those `count` that would be back first."""
        return sorted(names, key=lambda name: (self._until.get(name, 0), name))[:count]

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the state as named arrays."""
        names = sorted(self._until)
        return {
            "names": np.array(names, dtype=np.str_),
            "misses": np.array([self._misses.get(name, 0) for name in names], dtype=np.int64),
            "until": np.array([self._until[name] for name in names], dtype=np.int64),
        }

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take the state that :meth:`to_arrays` returned."""
        names = [str(name) for name in arrays["names"]]
        self._misses = dict(zip(names, arrays["misses"].astype(int).tolist(), strict=True))
        self._until = dict(zip(names, arrays["until"].astype(int).tolist(), strict=True))
