"""FedMax: local training with activations of high entropy, so that clients' features drift apart less.

Chen, Bhardwaj and Marculescu, "FedMAX: Mitigating Activation Divergence for Accurate and Communication-Efficient Federated
Learning", ECML PKDD 2020. With ``a`` the activations before the last layer and U the uniform distribution over them::

    loss = cross-entropy + beta * mean over the batch of KL(softmax(a) || U)

Followed: the paper's text (equation 3 there). The authors' code has the divergence the other way round. The engine's fast
path cannot carry this term; such a run trains on the generic one.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.algorithms._base import LocalMethod, LocalState, Monitor
from fedcbs.engine import LocalRule

__all__ = ["FedMax", "activation_divergence"]


def activation_divergence(activations: torch.Tensor) -> torch.Tensor:
    """Mean over rows of ``KL(softmax(row) || uniform)``.

    >>> activation_divergence(torch.zeros(3, 4)).item()
    0.0
    """
    log_shares = torch.log_softmax(activations.flatten(1), dim=1)
    negative_entropy = (log_shares.exp() * log_shares).sum(dim=1)
    return (negative_entropy + math.log(log_shares.shape[1])).mean()


@final
@dataclasses.dataclass(frozen=True)
class FedMax(LocalMethod):
    """SGD that also raises the entropy of the activations before the last layer.

    Parameters
    ----------
    beta
        Strength of the term. The paper uses up to 1500 with sums; with means, as here, start near 1.
    """

    name: ClassVar[str] = "fedmax"
    summary: ClassVar[str] = "SGD with activations of high entropy"
    paper: ClassVar[str] = "Chen et al. 2020 (ECML PKDD), FedMAX"
    beta: float = 1.0

    def __post_init__(self) -> None:
        _checks.real(self.beta, "beta", minimum=0)

    def rule(
        self,
        base: LocalRule,
        state: LocalState,  # noqa: ARG002
        clients: NDArray[np.int64],  # noqa: ARG002
        monitor: Monitor | None,  # noqa: ARG002
    ) -> LocalRule:
        """Return `base` with the term."""
        return dataclasses.replace(base, penalty=self._penalty) if self.beta else base

    def _penalty(
        self,
        logits: torch.Tensor,  # noqa: ARG002
        labels: torch.Tensor,  # noqa: ARG002
        activations: torch.Tensor,
    ) -> torch.Tensor:
        return self.beta * activation_divergence(activations)
