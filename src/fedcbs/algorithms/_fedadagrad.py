"""FedAdagrad: ``v <- v + D**2``. Reddi et al. 2021; see :mod:`._fedopt`."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import torch

from fedcbs.algorithms._fedopt import AdaptiveRule

__all__ = ["FedAdagrad"]


@final
@dataclasses.dataclass(frozen=True)
class FedAdagrad(AdaptiveRule):
    """Adagrad on the server; without memory of the mean update, as in the paper.

    Parameters
    ----------
    learning_rate, beta1, tau
        See :class:`AdaptiveRule`.
    """

    name: ClassVar[str] = "fedadagrad"
    summary: ClassVar[str] = "Adagrad on the server"
    paper: ClassVar[str] = "Reddi et al. 2021 (ICLR)"
    beta1: float = 0.0

    def _square(self, square: torch.Tensor, latest: torch.Tensor) -> torch.Tensor:
        return square + latest
