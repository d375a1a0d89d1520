"""What the server computes on its own examples: gradients of the last layer, for the ratio loss."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedcbs.engine import Engine, LocalRule, Plan, Weights
from fedcbs.errors import InvalidArgumentError

__all__ = ["AuxiliaryMonitor", "last_layer"]


def last_layer(model: nn.Module, num_classes: int) -> slice:
    """Return where the weights of the last layer are among all parameters: a matrix with a row for each class.

    >>> last_layer(nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 3)), num_classes=3)
    slice(10, 16, None)
    """
    found: slice | None = None
    end = 0
    for parameter in model.parameters():
        start, end = end, end + parameter.numel()
        if parameter.ndim == 2 and len(parameter) == num_classes:
            found = slice(start, end)
    if found is None:
        raise InvalidArgumentError(
            f"training.local='ratio-loss' needs a last layer with a row of weights for each of {num_classes} classes;"
            " this model has none"
        )
    return found


@final
class AuxiliaryMonitor:
    """Gradients at the current global model, on the server's examples of each class.

    The gradient of a class is what one step of SGD with learning rate 1 on its examples takes from the weights.

    Parameters
    ----------
    engine, weights
        What computes, and the global model.
    auxiliary
        The server's examples of each class.
    layer
        Where the last layer's weights are.
    """

    def __init__(
        self, engine: Engine, weights: Weights, auxiliary: tuple[NDArray[np.int64], ...], layer: slice
    ) -> None:
        self._engine, self._weights, self._auxiliary, self._layer = engine, weights, auxiliary, layer
        self._found: torch.Tensor | None = None

    def last_layer_gradients(self) -> torch.Tensor:
        """Gradients of the last layer's weights, one for each class's examples: classes x classes x features."""
        if self._found is None:
            classes = len(self._auxiliary)
            plan = Plan(
                np.stack(self._auxiliary)[:, None, :], np.array([[len(own)] for own in self._auxiliary])
            )
            start = self._weights.parameters[self._layer]
            rows = [
                start - trained.parameters[:, self._layer]
                for trained in self._engine.train(self._weights, plan, LocalRule(learning_rate=1.0))
            ]
            self._found = torch.cat(rows).reshape(classes, classes, -1)
        return self._found
