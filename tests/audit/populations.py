"""Label counts of kinds that attacks find easy, hard, or ambiguous."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["dirichlet", "equal_shares", "same"]


def dirichlet(
    clients: int, classes: int, alpha: float, *, sizes: tuple[int, int] = (50, 500), seed: int = 0
) -> NDArray[np.int64]:
    """Clients of different sizes with shares from a Dirichlet law."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(classes, alpha), clients)
    return rng.multinomial(rng.integers(*sizes, clients), shares)


def equal_shares(
    clients: int, classes: int, held: int, *, seed: int = 0, same_size: bool = False
) -> NDArray[np.int64]:
    """Clients that have equally many examples of a few classes."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((clients, classes), dtype=np.int64)
    for row in counts:
        row[rng.choice(classes, held, replace=False)] = 60 if same_size else rng.integers(20, 200)
    return counts


def same(found: NDArray[np.float64], truth: NDArray[np.int64]) -> bool:
    """Whether they are equal up to the order of the classes."""
    return sorted(map(tuple, found.T.tolist())) == sorted(map(tuple, truth.T.astype(float).tolist()))
