"""What an engine is asked to do, and what it returns: the contract between training algorithms and engines.

An algorithm says which batches each client of a cohort goes through and by which rule its weights move; an engine does it.
Models are flat vectors here: all parameters one after another, in the order of ``model.parameters()``, and likewise the
floating-point buffers. Results come in chunks of clients, so that a cohort's models never need to be in memory at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError

__all__ = ["LocalRule", "Plan", "Trained", "Weights"]


@dataclasses.dataclass(frozen=True, eq=False)
class Weights:
    """A model as vectors.

    Parameters
    ----------
    parameters
        All parameters, flat, float32.
    buffers
        All floating-point buffers (running means of BatchNorm, say), flat; empty where there are none.
    """

    parameters: torch.Tensor
    buffers: torch.Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """Which examples each client of a cohort uses in which step.

    Parameters
    ----------
    indices
        Indices of examples: clients x most steps x batch size. What lies beyond a batch's size is ignored (-1).
    sizes
        Examples in each batch: clients x most steps; 0 where a client has no such step. A client's steps come first.

    Examples
    --------
    >>> plan = Plan(np.array([[[3, 1], [2, -1]], [[5, 4], [-1, -1]]]), np.array([[2, 1], [2, 0]]))
    >>> plan.num_clients, plan.steps
    (2, array([2, 1]))
    """

    indices: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.indices.ndim != 3 or self.sizes.shape != self.indices.shape[:2]:
            raise InvalidArgumentError(
                f"indices has shape {self.indices.shape} and sizes {self.sizes.shape}; they must be clients x steps x"
                " batch size, and clients x steps"
            )
        if self.sizes.size and not (self.sizes[:, :-1] >= np.minimum(self.sizes[:, 1:], 1)).all():
            raise InvalidArgumentError(
                "sizes has an empty batch before a full one; put a client's steps first"
            )

    @property
    def num_clients(self) -> int:
        """Number of clients."""
        return len(self.sizes)

    @property
    def steps(self) -> NDArray[np.int64]:
        """Number of steps of each client."""
        return np.asarray(np.count_nonzero(self.sizes > 0, axis=1), dtype=np.int64)


Penalty = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(logits, labels, activations before the last layer) -> a term to add to the batch's mean loss."""


@dataclasses.dataclass(frozen=True, eq=False)
class LocalRule:
    """How a client's weights move in a step.

    With w the weights, w0 those it received, and the loss the mean over the batch of (weighted) cross-entropy::

        d = gradient + weight_decay * w + proximal * (w - w0) + correction
        v = momentum * v + d               (v = d in the first step, as in torch.optim.SGD)
        w = w - learning_rate * v

    Parameters
    ----------
    learning_rate, weight_decay, momentum, proximal
        Numbers, as above.
    corrections
        One row a client, clients x parameters, in the plan's order; added to every gradient (SCAFFOLD).
    class_weights
        Factor on the loss of each class's examples: of shape (classes,), or clients x classes. The batch's loss is
        their sum divided by the batch's size, not by the sum of the factors.
    penalty
        A further term of the loss, which only the generic engine can carry.
    """

    learning_rate: float
    weight_decay: float = 0.0
    momentum: float = 0.0
    proximal: float = 0.0
    corrections: torch.Tensor | None = None
    class_weights: torch.Tensor | None = None
    penalty: Penalty | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
    """Some clients of a plan after their local training. Tensors may be reused for the next chunk: use or copy them.

    Parameters
    ----------
    clients
        Rows of the plan that these are: a range, ascending from chunk to chunk.
    parameters, buffers
        Final weights, one row a client.
    losses
        Mean over a client's steps of the batch's loss, as it was before each step.
    """

    clients: range
    parameters: torch.Tensor
    buffers: torch.Tensor
    losses: NDArray[np.float64]
