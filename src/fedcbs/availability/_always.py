"""Everybody, every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.availability._base import Availability

__all__ = ["Always"]


@final
@dataclass(frozen=True)
class Always(Availability):
    """Every client is available in every round.

    >>> Always().available(0, num_clients=3, seed=0)
    array([0, 1, 2])
    """

    name: ClassVar[str] = "always"

    def _available(self, round_index: int, num_clients: int, seed: int) -> NDArray[np.int64]:  # noqa: ARG002
        return np.arange(num_clients)
