"""Natural owners: a client is who wrote, spoke or photographed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedcbs._checks import integer, integers
from fedcbs.errors import InvalidArgumentError
from fedcbs.partition._partition import Partition

__all__ = ["by_owner"]


def by_owner(owners: ArrayLike, *, min_examples: int = 1) -> Partition:
    """Give every example to its owner; clients are the owners in ascending order.

    Parameters
    ----------
    owners
        The owner of each example: whole numbers or texts.
    min_examples
        Owners with fewer examples become no client.

    Returns
    -------
    Partition
        Its `owners` says who each client is.

    Examples
    --------
    >>> partition = by_owner(["eve", "bob", "eve", "ann"])
    >>> partition.owners.tolist(), partition[2]
    (['ann', 'bob', 'eve'], array([0, 2]))
    >>> by_owner(["eve", "bob", "eve", "ann"], min_examples=2).owners.tolist()
    ['eve']
    """
    least = integer(min_examples, "min_examples", minimum=1)
    who = np.asarray(owners)
    if who.dtype.kind != "U":
        who = integers(owners, "owners", minimum=-(2**53))
    if who.ndim != 1 or who.size == 0:
        raise InvalidArgumentError(f"owners has shape {who.shape}; it must name the owner of each example")
    names, client, sizes = np.unique(who, return_inverse=True, return_counts=True)
    if not (sizes >= least).any():
        raise InvalidArgumentError(
            f"min_examples={least}, but no owner has more than {int(sizes.max())} examples; lower it"
        )
    by_client = np.argsort(client, kind="stable")
    kept = by_client[(sizes >= least)[client[by_client]]]
    offsets = np.concatenate(([0], np.cumsum(sizes[sizes >= least])))
    return Partition(kept, offsets, names[sizes >= least])
