"""Ratio loss: classes that the server's monitor sees neglected weigh more in the clients' cross-entropy.

Wang et al., "Addressing Class Imbalance in Federated Learning", AAAI 2021 (preprint 2020). The server holds a few examples
of each class. Each round it computes, at the global model, the gradient ``G_q`` of the last layer's weights on the
examples of each class q. In the row of output p, examples of p pull one way and those of other classes the other way; how
strong the first is beside the second tells how rare p is in what the model was trained on, because the gradient of a
class that was seen often has become small::

    R_p = sum_i |G_p[p, i]|  /  sum_i |mean over q != p of G_q[p, i]|
    loss = (alpha + beta * R_y) * cross-entropy                        y = the example's class

Followed: the paper's scheme, with its ``alpha=1`` and ``beta=0.1``. How we differ: the paper takes the mean over weights i of a
ratio of two numbers, of which some are near 0, and filters those; we take the ratio of their sums, which needs no filter.
The paper starts after it has acknowledged an imbalance; here the loss acts from the first round on, and is nearly an
even one where nothing is neglected. R is capped at `most`.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.algorithms._base import LocalMethod, LocalState, Monitor
from fedcbs.engine import LocalRule
from fedcbs.errors import InvalidArgumentError

__all__ = ["RatioLoss", "neglect"]


def neglect(gradients: torch.Tensor) -> torch.Tensor:
    """Return R of each class from last-layer gradients: classes x classes x features.

    >>> neglect(torch.tensor([[[4.0], [1.0]], [[2.0], [3.0]]]))
    tensor([2., 3.])
    """
    num_classes = len(gradients)
    own = gradients.diagonal(dim1=0, dim2=1).T  # row p: the gradient of p's own examples in output p
    others = (gradients.sum(dim=0) - own) / max(num_classes - 1, 1)
    return own.abs().sum(dim=1) / others.abs().sum(dim=1).clamp_min(torch.finfo(own.dtype).tiny)


@final
@dataclasses.dataclass(frozen=True)
class RatioLoss(LocalMethod):
    """SGD on a cross-entropy that weighs neglected classes more.

    Parameters
    ----------
    alpha, beta
        The factor of a class is ``alpha + beta * R``.
    most
        R is capped here.
    """

    name: ClassVar[str] = "ratio-loss"
    summary: ClassVar[str] = "SGD with more weight on classes that were neglected"
    paper: ClassVar[str] = "Wang et al. 2020 (AAAI 2021), ratio loss"
    monitors: ClassVar[bool] = True
    alpha: float = 1.0
    beta: float = 0.1
    most: float = 100.0

    def __post_init__(self) -> None:
        _checks.real(self.alpha, "alpha", minimum=0)
        _checks.real(self.beta, "beta", minimum=0)
        _checks.real(self.most, "most", minimum=0, open_minimum=True)
        if self.alpha == 0 and self.beta == 0:
            raise InvalidArgumentError(
                "alpha=0 and beta=0 leave no loss to train on; make one of them positive"
            )

    def rule(
        self,
        base: LocalRule,
        state: LocalState,  # noqa: ARG002
        clients: NDArray[np.int64],  # noqa: ARG002
        monitor: Monitor | None,
    ) -> LocalRule:
        """Return `base` with the factors of the classes as the monitor sees them now."""
        if monitor is None:
            raise InvalidArgumentError(
                "ratio-loss needs a few examples of each class on the server; set data.auxiliary above 0"
            )
        ratios = neglect(monitor.last_layer_gradients()).clamp_max(self.most)
        return dataclasses.replace(base, class_weights=self.alpha + self.beta * ratios)
