"""Whole numbers near real ones, with the same column sums and no row too small."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["rounded_columns", "top_up"]


def rounded_columns(
    real: NDArray[np.float64], totals: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Round each column to whole numbers that add up to its total (largest remainders; ties at random).

    >>> rounded_columns(np.array([[1.4, 0.2], [1.6, 1.8]]), np.array([3, 2]), np.random.default_rng(0)).tolist()
    [[1, 0], [2, 2]]
    """
    counts: NDArray[np.int64] = np.floor(real).astype(np.int64)
    for label, total in enumerate(totals):
        missing = int(total - counts[:, label].sum())
        # A clean column misses between 0 and its length; rounding errors in `real` may push it past an end.
        remainder = real[:, label] - counts[:, label] + rng.random(len(real)) * 1e-9
        while missing > 0:
            some = min(missing, len(real))
            counts[np.argpartition(-remainder, some - 1)[:some], label] += 1
            missing -= some
        while missing < 0:
            holders = np.flatnonzero(counts[:, label])
            some = min(-missing, holders.size)
            lowest = np.argpartition(remainder[holders], some - 1)[:some]
            counts[holders[lowest], label] -= 1
            missing += some
    return counts


def top_up(counts: NDArray[np.int64], real: NDArray[np.float64], least: int) -> bool:
    """Move examples, in place, from larger to too small rows within columns; say whether all rows reach `least`.

    A row is given what rounding took most of from it, by rows that rounding gave most to.

    >>> counts = np.array([[0, 0], [2, 1]])
    >>> top_up(counts, np.array([[0.4, 0.6], [1.6, 0.4]]), least=1), counts.tolist()
    (True, [[0, 1], [2, 0]])
    """
    sizes = counts.sum(axis=1)
    idle = 0
    while idle < counts.shape[1] and (sizes < least).any():
        short = np.flatnonzero(sizes < least)
        wanted = np.argsort(counts[short] - real[short], axis=1, kind="stable")[:, idle]
        moved = sum(
            _move(counts, real, sizes, label, short[wanted == label], least) for label in np.unique(wanted)
        )
        # Where nobody could give what is wanted most, what is wanted next is tried.
        idle = 0 if moved else idle + 1
    return not (sizes < least).any()


def _move(
    counts: NDArray[np.int64],
    real: NDArray[np.float64],
    sizes: NDArray[np.int64],
    label: int,
    takers: NDArray[np.int64],
    least: int,
) -> int:
    """Move one example of a class to each taker, as far as rows that can spare one reach; say how many moved."""
    givers = np.flatnonzero((counts[:, label] > 0) & (sizes > least))
    moved = min(takers.size, givers.size)
    if moved == 0:
        return 0
    excess = counts[givers, label] - real[givers, label]
    givers = givers[np.argpartition(-excess, moved - 1)[:moved]]
    takers = takers[:moved]
    counts[givers, label] -= 1
    sizes[givers] -= 1
    counts[takers, label] += 1
    sizes[takers] += 1
    return moved
