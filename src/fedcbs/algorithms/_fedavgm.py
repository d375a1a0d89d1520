"""FedAvgM: momentum on the server.

Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification", 2019, with
D the mean update: ``v <- momentum * v + D`` and ``w <- w + learning_rate * v``.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import torch

from fedcbs import _checks
from fedcbs.algorithms._base import ServerRule, ServerState
from fedcbs.algorithms._fedopt import below_one

__all__ = ["FedAvgM"]


@final
@dataclasses.dataclass(frozen=True)
class FedAvgM(ServerRule):
    """Momentum on the server. With ``momentum=0`` it is FedAvg.

    Parameters
    ----------
    learning_rate
        Of the server.
    momentum
        What is left of the velocity from round to round.
    """

    name: ClassVar[str] = "fedavgm"
    summary: ClassVar[str] = "momentum on the server"
    paper: ClassVar[str] = "Hsu et al. 2019, FedAvgM"
    learning_rate: float = 1.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _checks.real(self.learning_rate, "learning_rate", minimum=0, open_minimum=True)
        below_one(self.momentum, "momentum")

    def init(self, model: torch.Tensor) -> ServerState:
        """Return the state before the first round."""
        return {"velocity": torch.zeros_like(model)}

    def step(
        self, state: ServerState, model: torch.Tensor, update: torch.Tensor
    ) -> tuple[torch.Tensor, ServerState]:
        """Return the next global model, and the state after it."""
        velocity = torch.add(update, state["velocity"], alpha=self.momentum)
        return torch.add(model, velocity, alpha=self.learning_rate), {"velocity": velocity}
