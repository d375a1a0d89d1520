"""What the adaptive server rules share.

Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2, with D the mean update::

    m <- beta1 * m + (1 - beta1) * D
    v <- as the rule says; tau**2 at first
    w <- w + learning_rate * m / (sqrt(v) + tau)

As in the paper there is no correction of the bias of m and v.
"""

from __future__ import annotations

import abc
import dataclasses

import torch

from fedcbs import _checks
from fedcbs.algorithms._base import ServerRule, ServerState
from fedcbs.errors import InvalidArgumentError

__all__ = ["AdaptiveRule", "below_one"]


@dataclasses.dataclass(frozen=True)
class AdaptiveRule(ServerRule, abc.ABC):
    """Base of FedAdam, FedYogi and FedAdagrad.

    Parameters
    ----------
    learning_rate
        Of the server.
    beta1
        How long the mean update is remembered.
    tau
        Degree of adaptivity; large values adapt little.
    """

    learning_rate: float = 0.01
    beta1: float = 0.9
    tau: float = 1e-3

    def __post_init__(self) -> None:
        _checks.real(self.learning_rate, "learning_rate", minimum=0, open_minimum=True)
        _checks.real(self.tau, "tau", minimum=0, open_minimum=True)
        below_one(self.beta1, "beta1")

    def init(self, model: torch.Tensor) -> ServerState:
        """Return the state before the first round."""
        return {
            "mean": torch.zeros_like(model),
            "square": torch.full_like(model, self.tau**2),
        }

    def step(
        self, state: ServerState, model: torch.Tensor, update: torch.Tensor
    ) -> tuple[torch.Tensor, ServerState]:
        """Return the next global model, and the state after it."""
        mean = state["mean"] * self.beta1 + update * (1 - self.beta1)
        square = self._square(state["square"], update * update)
        moved = model + self.learning_rate * mean / (square.sqrt() + self.tau)
        return moved, {"mean": mean, "square": square}

    @abc.abstractmethod
    def _square(self, square: torch.Tensor, latest: torch.Tensor) -> torch.Tensor:
        """Return v after a round, from v before it and the squared update."""


def below_one(value: float, name: str) -> None:
    """Refuse what is not from 0 to below 1."""
    if not 0 <= _checks.real(value, name) < 1:
        raise InvalidArgumentError(f"{name}={value!r} must be from 0 to below 1")
