"""Sort by label, cut into shards, deal the shards (McMahan et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import integer
from fedcbs.errors import InvalidArgumentError
from fedcbs.partition._scheme import PartitionScheme

__all__ = ["Shards"]


@final
@dataclass(frozen=True)
class Shards(PartitionScheme):
    """Sort the examples by label, cut them into equal shards, give each client the same number at random.

    Source: H. B. McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017,
    section 3, with 2 shards each. Where the examples do not divide, shards differ by one example; none is thrown
    away.

    Parameters
    ----------
    shards_per_client
        How many shards each client gets, and so the most classes it has if shards are smaller than classes.
    examples_per_client
        Mean size; all examples are dealt out when left out.

    Examples
    --------
    >>> Shards(1).draw_counts([4, 4], 4, np.random.default_rng(0)).max(axis=1)
    array([2, 2, 2, 2])
    """

    name: ClassVar[str] = "shards"

    shards_per_client: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(self.shards_per_client, "shards_per_client", minimum=1)

    def _check_enough(self, totals: NDArray[np.int64], num_clients: int) -> None:
        super()._check_enough(totals, num_clients)
        shards = num_clients * self.shards_per_client
        usable = num_clients * self.examples_per_client if self.examples_per_client else int(totals.sum())
        if shards > usable:
            raise InvalidArgumentError(
                f"shards_per_client={self.shards_per_client} for {num_clients} clients makes {shards} shards of"
                f" {usable} examples; lower it, or deal to fewer clients"
            )

    def _draw_counts(
        self, totals: NDArray[np.int64], num_clients: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        used = self._thinned(totals, num_clients, rng)
        pieces = num_clients * self.shards_per_client
        cuts = _cuts(int(used.sum()), pieces)
        shard = rng.permutation(pieces).reshape(num_clients, self.shards_per_client)
        counts = np.empty((num_clients, totals.size), dtype=np.int64)
        high = np.cumsum(used)
        for label in range(totals.size):
            # How much of each shard lies within the class's stretch of the sorted examples.
            inside = np.diff(np.clip(cuts, high[label] - used[label], high[label]))
            counts[:, label] = inside[shard].sum(axis=1)
        return counts


def _cuts(total: int, pieces: int) -> NDArray[np.int64]:
    """Where to cut `total` into equal pieces, ``floor(total * i / pieces)``, without overflow."""
    i = np.arange(pieces + 1)
    return total // pieces * i + total % pieces * i // pieces
