"""FedAvg: clients run SGD, the server takes the weighted mean of their models.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017, Algorithm 1::

    w <- w + learning_rate * sum_n p_n (w_n - w)          p_n = q_n / sum of q over those that answered

With ``learning_rate=1``, the paper's algorithm, the new model is the weighted mean of the clients' models.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.algorithms._base import LocalMethod, LocalState, Monitor, ServerRule, ServerState
from fedcbs.engine import LocalRule

__all__ = ["FedAvg", "Plain"]


@final
@dataclasses.dataclass(frozen=True)
class Plain(LocalMethod):
    """SGD on the client's cross-entropy, as it is."""

    name: ClassVar[str] = "plain"
    summary: ClassVar[str] = "SGD, as it is"
    paper: ClassVar[str] = "McMahan et al. 2017 (AISTATS)"

    def rule(
        self,
        base: LocalRule,
        state: LocalState,  # noqa: ARG002
        clients: NDArray[np.int64],  # noqa: ARG002
        monitor: Monitor | None,  # noqa: ARG002
    ) -> LocalRule:
        """Return `base`."""
        return base


@final
@dataclasses.dataclass(frozen=True)
class FedAvg(ServerRule):
    """Weighted mean of the clients' models.

    Parameters
    ----------
    learning_rate
        Of the server: how much of the mean update to take.

    Examples
    --------
    >>> model, _ = FedAvg().step({}, torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.0]))
    >>> model
    tensor([1.5000, 2.0000])
    """

    name: ClassVar[str] = "fedavg"
    summary: ClassVar[str] = "the weighted mean of the clients' models"
    paper: ClassVar[str] = "McMahan et al. 2017 (AISTATS)"
    learning_rate: float = 1.0

    def __post_init__(self) -> None:
        _checks.real(self.learning_rate, "learning_rate", minimum=0, open_minimum=True)

    def step(
        self, state: ServerState, model: torch.Tensor, update: torch.Tensor
    ) -> tuple[torch.Tensor, ServerState]:
        """Return the next global model, and the state after it."""
        return torch.add(model, update, alpha=self.learning_rate), state
