"""What a simulated federation remembers between rounds."""

from __future__ import annotations

import dataclasses
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._rows import ClientRows
from fedcbs.algorithms import AlgorithmState
from fedcbs.engine import Weights
from fedcbs.selectors import State

__all__ = ["SimulationState"]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class SimulationState:
    """All that a federation remembers between rounds.

    Parameters
    ----------
    round_index
        The last round that was done; 0 before the first.
    weights
        The global model.
    algorithm, selector
        What they remember.
    """

    round_index: int
    weights: Weights
    algorithm: AlgorithmState
    selector: State

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays."""
        arrays: dict[str, NDArray[Any]] = {
            "round_index": np.array(self.round_index),
            "parameters": self.weights.parameters.numpy(),
            "buffers": self.weights.buffers.numpy(),
        }
        arrays |= {f"algorithm.{name}": array for name, array in self.algorithm.to_arrays().items()}
        return arrays | {f"selector.{name}": array for name, array in self.selector.to_arrays().items()}

    def on_disk(self) -> tuple[ClientRows, ...]:
        """Return what of the state is in files; whoever holds it keeps it there."""
        return self.algorithm.local.on_disk() + self.selector.on_disk()
