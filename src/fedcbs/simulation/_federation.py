"""A dataset, and who holds what of it: the clients, and the few examples that the server may hold."""

from __future__ import annotations

import dataclasses
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks, _random
from fedcbs.data import Dataset, Examples, split
from fedcbs.errors import InvalidArgumentError
from fedcbs.partition import Partition

__all__ = ["MOST_AUXILIARY", "Federation", "default_auxiliary", "default_clients", "make_federation"]

MOST_AUXILIARY = 32
"""Examples of each class that a server holds by default, where a strategy needs any."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Federation:
    """Who holds which examples.

    Parameters
    ----------
    dataset
        Its train part is split; its test part is for evaluation.
    partition
        Train examples of each client.
    auxiliary
        Train examples of each class that the server holds and no client does; empty where there are none.
    """

    dataset: Dataset
    partition: Partition
    auxiliary: tuple[NDArray[np.int64], ...] = ()
    label_counts: NDArray[np.int64] = dataclasses.field(init=False)
    num_examples: NDArray[np.int64] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        counts = self.partition.label_counts(self.dataset.train.labels, self.dataset.num_classes)
        object.__setattr__(self, "label_counts", counts)
        object.__setattr__(self, "num_examples", counts.sum(axis=1))

    @property
    def num_clients(self) -> int:
        """Number of clients."""
        return len(self.partition)

    def examples(self, client: int) -> NDArray[np.int64]:
        """Indices of a client's examples."""
        offsets = self.partition.offsets
        return self.partition.indices[offsets[client] : offsets[client + 1]]


def default_auxiliary(dataset: Dataset) -> int:
    """Return how many examples of each class a server holds by default: a tenth of the rarest class, at most 32."""
    rarest = int(np.bincount(dataset.train.labels, minlength=dataset.num_classes).min())
    return max(min(MOST_AUXILIARY, rarest // 10), min(rarest, 1))


def default_clients(dataset: Dataset) -> int:
    """Return how many clients to split among where nothing says it: 200, or 100 of fewer than 10,000 examples."""
    return 200 if len(dataset.train) >= 10_000 else 100


def make_federation(
    dataset: Dataset,
    partition: str,
    *,
    num_clients: int | None = None,
    alpha: float | None = None,
    examples_per_client: int | None = None,
    min_examples: int | None = None,
    auxiliary: int = 0,
    seed: int = 0,
) -> Federation:
    """Split a dataset among clients.

    Parameters
    ----------
    dataset
        What to split.
    partition, num_clients, alpha, examples_per_client, min_examples
        How; see :func:`fedcbs.data.split`.
    auxiliary
        Examples of each class to set aside for the server, before the split.
    seed
        Fixes the split and what is set aside.
    """
    options = {"alpha": alpha, "examples_per_client": examples_per_client, "min_examples": min_examples}
    if auxiliary == 0:
        parts = split(dataset, partition, num_clients=num_clients, seed=seed, **options)  # type: ignore[arg-type]
        return Federation(dataset, parts)
    held = _set_aside(dataset, auxiliary, seed)
    kept = np.setdiff1d(np.arange(len(dataset.train)), np.concatenate(held))
    parts = split(_labels_alone(dataset, kept), partition, num_clients=num_clients, seed=seed, **options)  # type: ignore[arg-type]
    return Federation(dataset, Partition(kept[parts.indices], parts.offsets, parts.owners), held)


def _set_aside(dataset: Dataset, auxiliary: int, seed: int) -> tuple[NDArray[np.int64], ...]:
    """Draw so many examples of each class."""
    wanted = _checks.integer(auxiliary, "data.auxiliary", minimum=1)
    labels = dataset.train.labels
    totals = np.bincount(labels, minlength=dataset.num_classes)
    if totals.min() < wanted:
        rare = int(totals.argmin())
        raise InvalidArgumentError(
            f"data.auxiliary={wanted} examples of each class, but class {rare} of {dataset.name!r} has {totals[rare]};"
            " lower it"
        )
    rng = _random.generator("auxiliary", seed)
    order = rng.permutation(len(labels))
    return tuple(
        np.sort(order[labels[order] == label][:wanted]).astype(np.int64)
        for label in range(dataset.num_classes)
    )


def _labels_alone(dataset: Dataset, kept: NDArray[np.int64]) -> Dataset:
    """The dataset that splitting sees of these train examples: no copy of features is made."""
    train, test = dataset.train, dataset.test
    nothing = np.broadcast_to(np.zeros(1, np.uint8), (len(kept), 1))
    owners = None if train.owners is None else train.owners[kept]
    part = Examples(nothing, train.labels[kept], owners, train.owner_names)
    blank = Examples(np.broadcast_to(np.zeros(1, np.uint8), (len(test), 1)), test.labels)
    return Dataset(dataset.name, part, blank, dataset.num_classes)
