"""A step of local training on flat vectors, for one client or a stack of them."""

from __future__ import annotations

from typing import final

import torch

from fedcbs.engine._work import LocalRule

__all__ = ["LocalSteps"]


@final
class LocalSteps:
    """The rule's update of weights w, in place; rows of a matrix are clients.

    Parameters
    ----------
    rule
        Whose numbers apply.
    received
        The weights as they were at the start.
    corrections
        Of the same shape as w, or None.
    """

    def __init__(self, rule: LocalRule, received: torch.Tensor, corrections: torch.Tensor | None) -> None:
        self._rule = rule
        self._received = received
        self._corrections = corrections
        self._velocity: torch.Tensor | None = None

    def update(self, weights: torch.Tensor, gradient: torch.Tensor, rows: torch.Tensor | None = None) -> None:
        """Make a step; the gradient is used up. With `rows`, both are of these rows of the whole alone."""
        rule = self._rule
        plain = not rule.momentum and not rule.proximal and self._corrections is None
        if plain:
            weights.mul_(1 - rule.learning_rate * rule.weight_decay).sub_(gradient, alpha=rule.learning_rate)
            return
        if rule.weight_decay:
            gradient.add_(weights, alpha=rule.weight_decay)
        if rule.proximal:
            gradient.add_(weights - _some(self._received, rows), alpha=rule.proximal)
        if self._corrections is not None:
            gradient.add_(_some(self._corrections, rows))
        if rule.momentum:
            gradient = self._push(gradient, rows)
        weights.sub_(gradient, alpha=rule.learning_rate)

    def _push(self, gradient: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
        """Velocity after a push by the gradient."""
        if self._velocity is None:
            self._velocity = torch.zeros_like(self._received)
        if rows is None:
            return self._velocity.mul_(self._rule.momentum).add_(gradient)
        pushed = self._velocity[rows].mul_(self._rule.momentum).add_(gradient)
        self._velocity[rows] = pushed
        return pushed


def _some(tensor: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
    return tensor if rows is None else tensor[rows]
