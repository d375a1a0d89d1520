"""Which client holds which train examples of a dataset."""

from __future__ import annotations

import numpy as np

from fedcbs._checks import integer
from fedcbs._random import generator
from fedcbs.data._dataset import Dataset
from fedcbs.errors import InvalidArgumentError
from fedcbs.partition import Partition, PartitionScheme, by_owner, parse_partition

__all__ = ["OWNER", "split"]

OWNER = "owner"
"""Name of the partition by the dataset's own owners."""


def split(
    dataset: Dataset,
    partition: str | PartitionScheme,
    *,
    num_clients: int | None = None,
    alpha: float | None = None,
    examples_per_client: int | None = None,
    min_examples: int | None = None,
    allow_empty: bool = True,
    seed: int = 0,
) -> Partition:
    """Split the train examples among clients.

    Parameters
    ----------
    dataset
        What to split.
    partition
        A scheme, or a spelling of :func:`fedcbs.partition.list_partitions`, or ``owner`` for the dataset's own.
    num_clients
        How many clients; may be left out where the scheme or the owners say. Of more owners, a random choice.
    alpha, examples_per_client
        Options of a scheme that is given by name.
    min_examples
        Size of the smallest client, for a scheme that makes sizes vary; owners with fewer are left out.
    allow_empty
        Whether a client may get no examples.
    seed
        Seed of the split.

    Examples
    --------
    >>> from fedcbs.data import from_arrays
    >>> dataset = from_arrays(np.zeros((40, 4), np.float32), np.arange(40) % 2, name="zeros")
    >>> parts = split(dataset, "iid", num_clients=4, seed=0)
    >>> parts.num_examples
    array([8, 8, 8, 8])
    """
    number = integer(seed, "seed", minimum=0)
    clients = None if num_clients is None else integer(num_clients, "num_clients", minimum=1)
    options = {"alpha": alpha, "examples_per_client": examples_per_client, "min_examples": min_examples}
    if partition == OWNER:
        found = _by_owner(dataset, clients, options, number)
    else:
        scheme = _scheme(partition, options)
        wanted = _number_of_clients(scheme, clients, dataset)
        rng = generator("partition", number)
        found = scheme.split(dataset.train.labels, wanted, rng, num_classes=dataset.num_classes)
    if not allow_empty:
        _refuse_empty(found)
    return found


def _scheme(partition: str | PartitionScheme, options: dict[str, float | None]) -> PartitionScheme:
    if isinstance(partition, str):
        return parse_partition(partition, **options)  # type: ignore[arg-type]  # whole numbers where they must be
    if not isinstance(partition, PartitionScheme):
        raise InvalidArgumentError(
            f"partition={partition!r} must be a PartitionScheme, the name of one, or {OWNER!r}"
        )
    for name, value in options.items():
        if value is not None:
            raise InvalidArgumentError(f"{name}={value}, but the scheme given has its options; leave it out")
    return partition


def _number_of_clients(scheme: PartitionScheme, wanted: int | None, dataset: Dataset) -> int:
    clients = scheme.fixed_num_clients(dataset.num_classes) if wanted is None else wanted
    if clients is None:
        raise InvalidArgumentError(f"num_clients=None, but {scheme.name!r} makes any number; say how many")
    if clients > len(dataset.train):
        raise InvalidArgumentError(
            f"num_clients={clients}, but {dataset.name!r} has {len(dataset.train)} train examples;"
            f" lower it to {len(dataset.train)} at most"
        )
    return clients


def _by_owner(dataset: Dataset, wanted: int | None, options: dict[str, float | None], seed: int) -> Partition:
    owners = dataset.train.owners
    if owners is None:
        raise InvalidArgumentError(
            f"partition='owner', but {dataset.name!r} has no owners; choose a scheme such as 'dirichlet-hsu'"
        )
    least = options.pop("min_examples")
    for name, value in options.items():
        if value is not None:
            raise InvalidArgumentError(f"{name}={value} is no option of 'owner'; leave it out")
    found = by_owner(owners, min_examples=1 if least is None else least)  # type: ignore[arg-type]
    if wanted is not None and wanted > len(found):
        few = "" if least is None else f" of at least {least} examples"
        raise InvalidArgumentError(
            f"num_clients={wanted}, but {dataset.name!r} has {len(found)} owners{few}; lower it to {len(found)} at most"
        )
    if wanted is not None and wanted < len(found):
        found = found.take(np.sort(generator("owners", seed).choice(len(found), wanted, replace=False)))
    if dataset.train.owner_names and found.owners is not None:
        names = np.array(dataset.train.owner_names)[found.owners]
        found = Partition(found.indices, found.offsets, names)
    return found


def _refuse_empty(partition: Partition) -> None:
    empty = np.flatnonzero(partition.num_examples == 0)
    if empty.size:
        raise InvalidArgumentError(
            f"client {empty[0]} ({empty.size} of {len(partition)}) has no examples; lower num_clients, give"
            " min_examples where the partition takes it, or allow empty clients"
        )
