"""FedYogi: ``v <- v - (1 - beta2) * D**2 * sign(v - D**2)``. Reddi et al. 2021; see :mod:`._fedopt`."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import torch

from fedcbs.algorithms._fedopt import AdaptiveRule, below_one

__all__ = ["FedYogi"]


@final
@dataclasses.dataclass(frozen=True)
class FedYogi(AdaptiveRule):
    """Yogi on the server: Adam whose memory of squares shrinks slowly.

    Parameters
    ----------
    learning_rate, beta1, tau
        See :class:`AdaptiveRule`.
    beta2
        How fast the memory of squares follows.
    """

    name: ClassVar[str] = "fedyogi"
    summary: ClassVar[str] = "Yogi on the server"
    paper: ClassVar[str] = "Reddi et al. 2021 (ICLR)"
    beta2: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        below_one(self.beta2, "beta2")

    def _square(self, square: torch.Tensor, latest: torch.Tensor) -> torch.Tensor:
        return square - (1 - self.beta2) * latest * torch.sign(square - latest)
