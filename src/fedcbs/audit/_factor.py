"""A thin factor of a Gram matrix, from a few of its columns."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from fedcbs.imbalance import Gram

__all__ = ["Factor", "factorise"]

_NOTHING_LEFT = 1e-9
"""Share of the largest diagonal entry under which a remainder counts as rounding."""


@dataclasses.dataclass(frozen=True, eq=False)
class Factor:
    """Rows that have the inner products of a Gram matrix: the clients' label counts, turned by an unknown rotation.

    Parameters
    ----------
    rows
        Clients x rank.
    pivots
        Clients whose label counts span those of all.
    columns
        Inner products of everybody with the pivots.
    """

    rows: NDArray[np.float64]
    pivots: NDArray[np.int64]
    columns: NDArray[np.float64]

    @property
    def rank(self) -> int:
        """How many directions the label counts span."""
        return len(self.pivots)


def factorise(gram: Gram, most: int) -> Factor:
    """Pivoted Cholesky: reads as many columns as the rank, at most `most`, and never the whole matrix.

    >>> from fedcbs.imbalance import FactorGram
    >>> factorise(FactorGram([[3, 0], [1, 2], [2, 4]]), most=2).pivots
    array([2, 0])
    """
    left = gram.diagonal.astype(np.float64).copy()
    top = float(left.max(initial=0.0))
    rows = np.zeros((gram.num_clients, most))
    columns = np.zeros((gram.num_clients, most))
    pivots: list[int] = []
    for rank in range(most):
        client = int(np.argmax(left)) if len(left) else 0
        if top == 0 or left[client] <= _NOTHING_LEFT * top:
            break
        columns[:, rank] = gram.column(client)
        remainder = columns[:, rank] - rows[:, :rank] @ rows[client, :rank]
        rows[:, rank] = remainder / np.sqrt(left[client])
        left -= rows[:, rank] ** 2
        left[client] = 0.0
        pivots.append(client)
    rank = len(pivots)
    return Factor(rows[:, :rank], np.array(pivots, dtype=np.int64), columns[:, :rank])
