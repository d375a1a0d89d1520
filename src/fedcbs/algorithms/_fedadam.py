"""FedAdam: Adam on the server, ``v <- beta2 * v + (1 - beta2) * D**2``. Reddi et al. 2021; see :mod:`._fedopt`."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import torch

from fedcbs.algorithms._fedopt import AdaptiveRule, below_one

__all__ = ["FedAdam"]


@final
@dataclasses.dataclass(frozen=True)
class FedAdam(AdaptiveRule):
    """Adam on the server.

    Parameters
    ----------
    learning_rate, beta1, tau
        See :class:`AdaptiveRule`.
    beta2
        How long squared updates are remembered.
    """

    name: ClassVar[str] = "fedadam"
    summary: ClassVar[str] = "Adam on the server"
    paper: ClassVar[str] = "Reddi et al. 2021 (ICLR)"
    beta2: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        below_one(self.beta2, "beta2")

    def _square(self, square: torch.Tensor, latest: torch.Tensor) -> torch.Tensor:
        return self.beta2 * square + (1 - self.beta2) * latest
