"""Bytes that a round moves, counted as a deployment would see them without compression or protocol headers.

- Down: the global model to everyone who is asked for losses or updates or selected, once; SCAFFOLD's control variate with it to
  those selected.
- Up: an update from everyone who answers, with SCAFFOLD's; 16 bytes beside it (number of examples, loss); 8 bytes a
  number asked. An update that was asked for before the choice is not sent again.
- Label statistics: once, in the first round. Who fails has received the model, and sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedcbs.selectors import Need

__all__ = ["BESIDE_UPDATE", "traffic"]

BESIDE_UPDATE, NUMBER = 16, 8
_NUMBERS = (Need.LOSSES, Need.BATCH_LOSSES, Need.UPDATE_NORMS)


def traffic(
    cohort: NDArray[np.int64],
    answered: NDArray[np.int64],
    asked: Mapping[Need, NDArray[np.int64]],
    *,
    model_bytes: int,
    vectors: int = 1,
) -> tuple[int, int]:
    """Return bytes from clients and bytes to them, in a round.

    Parameters
    ----------
    cohort, answered
        Who was selected, and who answered.
    asked
        Who was asked what at the current model before the choice.
    model_bytes
        Of the model.
    vectors
        How many vectors of that size travel with a selected client each way.

    Examples
    --------
    >>> traffic(np.array([1, 2]), np.array([1]), {Need.LOSSES: np.array([1, 2, 3])}, model_bytes=1000)
    (1040, 3000)
    """
    if not asked:
        return (vectors * model_bytes + BESIDE_UPDATE) * len(answered), vectors * model_bytes * len(cohort)
    holders = cohort
    up = 0
    for need, clients in asked.items():
        holders = np.union1d(holders, clients)
        up += NUMBER * len(clients) if need in _NUMBERS else 0
    sent = asked.get(Need.UPDATES, cohort[:0])
    up += model_bytes * len(sent) + BESIDE_UPDATE * len(answered)
    up += model_bytes * len(np.setdiff1d(answered, sent)) + (vectors - 1) * model_bytes * len(answered)
    down = model_bytes * len(holders) + (vectors - 1) * model_bytes * len(cohort)
    return up, down
