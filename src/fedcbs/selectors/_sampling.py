"""Drawing from weights, written once: exact, in logarithms where weights overflow, and never short of a sum of 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["best", "categorical", "weighted_without_replacement"]


def categorical(weights: NDArray[np.floating[Any]], uniform: float) -> int:
    """Index drawn in proportion to `weights`, given one uniform number in [0, 1).

    >>> categorical(np.array([0.0, 3.0, 1.0]), 0.5)
    1
    """
    cumulative = weights.cumsum()
    total = cumulative[-1]
    place = int(cumulative.searchsorted(uniform * total, side="right"))
    if place < len(weights):
        return place
    return int(
        cumulative.searchsorted(total)
    )  # the product rounded up to the total: the last one with weight


def weighted_without_replacement(
    weights: NDArray[np.float64], size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Distinct indices, drawn one after another in proportion to the weights of those left.

    Exponential races (Efraimidis and Spirakis 2006): the smallest of ``E / weight`` win. Indices of weight zero come
    last, uniformly, so that `size` indices are found whatever the weights.

    >>> weighted_without_replacement(np.array([0.0, 1.0, 2.0]), 2, np.random.default_rng(0)).tolist()
    [1, 2]
    """
    race = rng.standard_exponential(len(weights))
    finish = np.full(len(weights), np.inf)
    with np.errstate(over="ignore"):  # by the tiniest of weights: after all others, before those of zero
        np.divide(race, weights, out=finish, where=weights > 0)
    if size < len(weights):
        enough = np.count_nonzero(finish < np.inf) >= size
        order = np.argpartition(finish, size) if enough else np.lexsort((race, weights == 0, finish))
        return np.sort(order[:size])
    return np.arange(len(weights))


def best(values: NDArray[np.float64], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices of the `size` largest values, ties broken at random.

    >>> best(np.array([0.5, 2.0, 1.0]), 2, np.random.default_rng(0)).tolist()
    [1, 2]
    """
    if size == 1:
        top = np.flatnonzero(values == values.max())
        return top if len(top) == 1 else top[[rng.integers(len(top))]]
    order = np.lexsort((rng.random(len(values)), -values))
    return np.sort(order[:size])
