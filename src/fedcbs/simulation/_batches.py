"""Which examples each client uses in which step: a function of (seed, round, client), and of nothing else.

A client goes through its examples in a new random order each epoch; the last batch of an epoch may be short. So a client's
batches do not depend on who else was selected, and a run can stop and go on anywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcbs import _random
from fedcbs.engine import Plan
from fedcbs.partition import Partition

__all__ = ["draw_plan"]


def draw_plan(
    partition: Partition,
    clients: NDArray[np.int64],
    steps: NDArray[np.int64],
    *,
    batch_size: int,
    seed: int,
    round_index: int,
) -> Plan:
    """Draw the batches of some clients for a round.

    Parameters
    ----------
    partition
        Which examples each client holds.
    clients, steps
        Who trains, and how many steps each makes. A client without examples makes none.
    batch_size
        Examples in a full batch.
    seed, round_index
        Fix the order of every client's examples.

    Examples
    --------
    >>> partition = Partition(np.array([4, 0, 2, 7]), np.array([0, 1, 4]))
    >>> plan = draw_plan(partition, np.array([1]), np.array([3]), batch_size=2, seed=0, round_index=1)
    >>> plan.sizes.tolist(), sorted(plan.indices[0, :2].ravel().tolist())
    ([[2, 1, 2]], [-1, 0, 2, 7])
    """
    held = [partition.indices[partition.offsets[n] : partition.offsets[n + 1]] for n in clients.tolist()]
    width = min(batch_size, max((len(own) for own in held), default=1) or 1)
    most = int(steps.max(initial=0))
    indices = np.full((len(clients), most, width), -1, dtype=np.int64)
    sizes = np.zeros((len(clients), most), dtype=np.int64)
    for row, (client, own, count) in enumerate(zip(clients.tolist(), held, steps.tolist(), strict=True)):
        if len(own) == 0 or count == 0:
            continue
        rng = _random.generator("batches", seed, round_index, client)
        batches = -(-len(own) // width)
        orders = np.full((-(-count // batches), batches * width), -1, dtype=np.int64)
        orders[:, : len(own)] = rng.permuted(np.broadcast_to(own, (len(orders), len(own))), axis=1)
        indices[row, :count] = orders.reshape(-1, width)[:count]
        sizes[row, :count] = width
        sizes[row, batches - 1 : count : batches] = len(own) - (batches - 1) * width
    return Plan(indices, sizes)
