"""A fixed share of the population, drawn anew each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import fraction
from fedcbs.availability._base import Availability, round_rng

__all__ = ["UniformFraction"]


@final
@dataclass(frozen=True)
class UniformFraction(Availability):
    """Each round, the same share of all clients, uniformly at random.

    Parameters
    ----------
    fraction
        The share. Exactly ``round(fraction * num_clients)`` clients are available, and at least one.

    Examples
    --------
    >>> UniformFraction(0.3).available(1, num_clients=200, seed=0).size
    60
    """

    name: ClassVar[str] = "uniform"

    fraction: float

    def __post_init__(self) -> None:
        fraction(self.fraction, "fraction")

    def _available(self, round_index: int, num_clients: int, seed: int) -> NDArray[np.int64]:
        size = max(1, round(self.fraction * num_clients))
        rng = round_rng(seed, self.name, round_index)
        # Reading a mask in order is much cheaper than sorting the draw.
        chosen = np.zeros(num_clients, dtype=bool)
        chosen[rng.choice(num_clients, size, replace=False, shuffle=False)] = True
        return np.flatnonzero(chosen)
