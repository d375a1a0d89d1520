"""The schemes as their papers tell them, one example at a time: slow, and the measure of the fast ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcbs.partition._dirichlet import log_gammas, proportions

__all__ = ["hsu_by_example", "iid_by_shuffling", "shards_by_sorting"]


def hsu_by_example(
    totals: NDArray[np.int64], num_clients: int, size: int, alpha: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw `dirichlet-hsu` counts, example by example, client after client.

    >>> hsu_by_example(np.array([3, 3]), 2, 3, 1.0, np.random.default_rng(0)).sum(axis=1)
    array([3, 3])
    """
    left = totals.copy()
    counts = np.zeros((num_clients, totals.size), dtype=np.int64)
    for client in range(num_clients):
        logs = log_gammas(np.full(totals.size, alpha / totals.size), (totals.size,), rng)
        for _ in range(size):
            active = np.flatnonzero(left)
            label = rng.choice(active, p=proportions(logs[active]))
            counts[client, label] += 1
            left[label] -= 1
    return counts


def iid_by_shuffling(
    totals: NDArray[np.int64], num_clients: int, size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw `iid` counts of equal sizes: shuffle all labels and cut them into stretches.

    >>> iid_by_shuffling(np.array([3, 3]), 2, 3, np.random.default_rng(0)).sum(axis=0)
    array([3, 3])
    """
    labels = rng.permutation(np.repeat(np.arange(totals.size), totals))
    stretches = labels[: num_clients * size].reshape(num_clients, size)
    return np.array([np.bincount(stretch, minlength=totals.size) for stretch in stretches])


def shards_by_sorting(
    totals: NDArray[np.int64], num_clients: int, shards_per_client: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw `shards` counts: sort all labels, cut them into shards, and deal these like cards.

    >>> shards_by_sorting(np.array([4, 4]), 2, 1, np.random.default_rng(0)).max(axis=1)
    array([4, 4])
    """
    labels = np.repeat(np.arange(totals.size), totals)
    pieces = num_clients * shards_per_client
    cuts = [labels.size * i // pieces for i in range(pieces + 1)]
    counts = np.zeros((num_clients, totals.size), dtype=np.int64)
    for position, shard in enumerate(rng.permutation(pieces)):
        stretch = labels[cuts[shard] : cuts[shard + 1]]
        counts[position // shards_per_client] += np.bincount(stretch, minlength=totals.size)
    return counts
