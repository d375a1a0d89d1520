"""All vectors of a lattice up to a length, by depth-first search (Fincke and Pohst 1985)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["short_vectors"]

MOST_FOUND = 4000
"""Where there are more, the lattice is too fine for them to say anything."""


def short_vectors(
    gram: NDArray[np.float64], norm: float, *, most_steps: int
) -> tuple[list[NDArray[np.int64]], bool]:
    """Coefficients of all vectors of squared length up to `norm`, one of each pair v and -v, and whether they are all.

    Parameters
    ----------
    gram
        Inner products of a basis, which should be reduced.
    norm
        Largest squared length.
    most_steps
        After so many steps, or 4000 vectors, the search gives up, and returns what it has.

    Examples
    --------
    >>> found, complete = short_vectors(np.array([[1.0, 0.0], [0.0, 2.0]]), 2.0, most_steps=100)
    >>> [vector.tolist() for vector in found], complete
    ([[1, 0], [0, 1]], True)
    """
    try:
        upper = np.asarray(np.linalg.cholesky(gram).T, dtype=np.float64)
    except np.linalg.LinAlgError:
        return [], False
    return _Search(upper, norm * (1 + 1e-6) + 1e-9, most_steps).run()


class _Search:
    """The state of one search: the coefficient at each depth, from the last one to the first."""

    def __init__(self, upper: NDArray[np.float64], bound: float, most_steps: int) -> None:
        self._size = len(upper)
        self._squares = upper.diagonal() ** 2
        self._ratios = upper / upper.diagonal()[:, None]
        self._bound, self._left = bound, most_steps
        self._found: list[NDArray[np.int64]] = []

    def run(self) -> tuple[list[NDArray[np.int64]], bool]:
        """Search, without recursion: levels are up to a hundred deep and visited often."""
        size = self._size
        chosen = np.zeros(size)
        centres, spent, ends = np.zeros(size), np.zeros(size + 1), np.zeros(size)
        level = size - 1
        self._open(level, chosen, centres, spent, ends)
        while level < size:
            self._left -= 1
            if self._left < 0 or len(self._found) > MOST_FOUND:
                return self._found, False
            if chosen[level] > ends[level]:
                level += 1
                if level < size:
                    chosen[level] += 1
                continue
            spent[level] = spent[level + 1] + self._squares[level] * (chosen[level] - centres[level]) ** 2
            if level > 0:
                level -= 1
                self._open(level, chosen, centres, spent, ends)
                continue
            self._keep(chosen)
            chosen[level] += 1
        return self._found, True

    def _open(
        self,
        level: int,
        chosen: NDArray[np.float64],
        centres: NDArray[np.float64],
        spent: NDArray[np.float64],
        ends: NDArray[np.float64],
    ) -> None:
        """Set the interval of a level from the coefficients above it."""
        centres[level] = -float(self._ratios[level, level + 1 :] @ chosen[level + 1 :])
        reach = math.sqrt(max(self._bound - spent[level + 1], 0.0) / self._squares[level])
        chosen[level] = math.ceil(centres[level] - reach)
        ends[level] = math.floor(centres[level] + reach)
        if not chosen[level + 1 :].any():  # one of v and -v is enough: the last coefficient is not negative
            chosen[level] = max(chosen[level], 0.0)

    def _keep(self, chosen: NDArray[np.float64]) -> None:
        if chosen.any():
            self._found.append(chosen.astype(np.int64))
