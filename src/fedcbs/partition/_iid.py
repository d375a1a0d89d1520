"""Every client is a small copy of the whole, up to chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError
from fedcbs.partition._scheme import PartitionScheme, check_drawable, drawn_from

__all__ = ["IID"]


@final
@dataclass(frozen=True)
class IID(PartitionScheme):
    """Shuffle all examples and cut them into stretches of equal size.

    Sizes differ by one at most. The label counts have exactly the law of shuffling (multivariate hypergeometric),
    without shuffling: the population is halved again and again, and each half's counts are drawn.

    Examples
    --------
    >>> IID().draw_counts([50, 50], 4, np.random.default_rng(0)).sum(axis=1)
    array([25, 25, 25, 25])
    """

    name: ClassVar[str] = "iid"

    def _check_enough(self, totals: NDArray[np.int64], num_clients: int) -> None:
        super()._check_enough(totals, num_clients)
        check_drawable(totals)
        if num_clients > totals.sum():
            raise InvalidArgumentError(
                f"num_clients={num_clients}, but class_totals has {int(totals.sum())} examples; deal to fewer clients"
            )

    def _draw_counts(
        self, totals: NDArray[np.int64], num_clients: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        if self.examples_per_client is None:
            sizes = int(totals.sum()) // num_clients + (
                np.arange(num_clients) < int(totals.sum()) % num_clients
            )
        else:
            sizes = np.full(num_clients, self.examples_per_client, dtype=np.int64)
        return _halved(drawn_from(totals, int(sizes.sum()), rng), sizes, rng)


def _halved(
    totals: NDArray[np.int64], sizes: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the counts of halves of the population, of quarters, and so on down to each client."""
    ends = np.concatenate(([0], np.cumsum(sizes)))
    bounds = np.array([0, sizes.size])
    counts = totals[np.newaxis]
    while bounds.size < ends.size:
        low = bounds[:-1]
        middle = (low + bounds[1:]) // 2
        left = _drawn_each(counts, ends[middle] - ends[low], rng)
        # A group of one client cannot be halved: its left half is empty and goes.
        real = np.stack([middle > low, np.ones_like(low, dtype=bool)], axis=1).ravel()
        counts = np.stack([left, counts - left], axis=1).reshape(-1, totals.size)[real]
        bounds = np.append(np.stack([low, middle], axis=1).ravel()[real], sizes.size)
    return counts


def _drawn_each(
    pools: NDArray[np.int64], wanted: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw from each pool (a row of class counts) as many as wanted of it, class after class."""
    drawn = np.empty_like(pools)
    others = pools.sum(axis=1)
    open_ = wanted.copy()
    for label in range(pools.shape[1]):
        others -= pools[:, label]
        drawn[:, label] = rng.hypergeometric(pools[:, label], others, open_)
        open_ -= drawn[:, label]
    return drawn
