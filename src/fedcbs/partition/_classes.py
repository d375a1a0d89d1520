"""Each client holds a given number of classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import integer
from fedcbs.errors import InvalidArgumentError
from fedcbs.partition._scheme import PartitionScheme

__all__ = ["ClassesPerClient"]


@final
@dataclass(frozen=True)
class ClassesPerClient(PartitionScheme):
    """Each client holds exactly this many classes, each class as many clients as any other (up to one).

    Which classes go together is uniformly random. Without `examples_per_client` each class is divided equally among
    its holders; with it, each client draws that number, equally from its classes.

    Parameters
    ----------
    classes_per_client
        How many classes each client holds.
    examples_per_client
        Size of each client.

    Examples
    --------
    >>> counts = ClassesPerClient(2).draw_counts([30, 30, 30], 9, np.random.default_rng(0))
    >>> (counts > 0).sum(axis=1).tolist(), (counts > 0).sum(axis=0).tolist()
    ([2, 2, 2, 2, 2, 2, 2, 2, 2], [6, 6, 6])
    """

    name: ClassVar[str] = "classes"

    classes_per_client: int

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(self.classes_per_client, "classes_per_client", minimum=1)
        if self.examples_per_client is not None and self.examples_per_client < self.classes_per_client:
            raise InvalidArgumentError(
                f"examples_per_client={self.examples_per_client} is not enough for classes_per_client="
                f"{self.classes_per_client} classes; raise it"
            )

    def _pool(self, num_clients: int, num_classes: int, size: int) -> NDArray[np.int64]:
        holders = math.ceil(num_clients * self.classes_per_client / num_classes)
        return np.full(num_classes, holders * math.ceil(size / self.classes_per_client))

    def _check_enough(self, totals: NDArray[np.int64], num_clients: int) -> None:
        super()._check_enough(totals, num_clients)
        present = np.flatnonzero(totals)
        k = self.classes_per_client
        if k > present.size:
            raise InvalidArgumentError(
                f"classes_per_client={k}, but only {present.size} classes have examples; lower it"
            )
        holders = math.ceil(num_clients * k / present.size)
        each = 1 if self.examples_per_client is None else math.ceil(self.examples_per_client / k)
        scarce = present[totals[present] < holders * each]
        if scarce.size:
            remedy = (
                "deal to fewer clients"
                if each == 1
                else "lower examples_per_client, or deal to fewer clients"
            )
            raise InvalidArgumentError(
                f"class_totals[{scarce[0]}]={totals[scarce[0]]}, but up to {holders} of {num_clients} clients hold"
                f" that class and need {each} of it each; {remedy}"
            )

    def _draw_counts(
        self, totals: NDArray[np.int64], num_clients: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        present = np.flatnonzero(totals)
        held = present[_dealt_classes(num_clients, present.size, self.classes_per_client, rng)]
        counts = np.zeros((num_clients, totals.size), dtype=np.int64)
        rows = np.arange(num_clients)[:, np.newaxis]
        if self.examples_per_client is None:
            counts[rows, held] = 1
            for label in present:
                _divide(counts[:, label], int(totals[label]))
        else:
            k = self.classes_per_client
            # The columns of `held` are in random order, so no class gets the remainder more often than another.
            counts[rows, held] = self.examples_per_client // k + (np.arange(k) < self.examples_per_client % k)
        return counts[rng.permutation(num_clients)]


def _dealt_classes(
    num_clients: int, num_classes: int, each: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Deal each client its classes from shuffled decks.

    A number of clients that uses up whole decks is served from one shuffled order of the classes, repeated; the next
    clients from another order. So the classes of a client differ, and holders differ by one at most.
    """
    block = num_classes // math.gcd(num_classes, each)
    decks = rng.permuted(np.tile(np.arange(num_classes), (-(-num_clients // block), 1)), axis=1)
    client = np.arange(num_clients)[:, np.newaxis]
    place = (client % block * each + np.arange(each)) % num_classes
    dealt: NDArray[np.int64] = decks[client // block, place]
    return dealt


def _divide(held: NDArray[np.int64], total: int) -> None:
    """Divide `total` equally, in place, among the entries that are 1."""
    holders = np.flatnonzero(held)
    if holders.size:
        held[holders] = total // holders.size + (np.arange(holders.size) < total % holders.size)
