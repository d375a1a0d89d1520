"""FedNova: updates are divided by how far each client's own steps carried it, so that many steps do not count twice.

Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization", NeurIPS 2020::

    w <- w + learning_rate * tau_eff * sum_n p_n (w_n - w) / |a_n|          tau_eff = sum_n p_n |a_n|

where ``a_n`` says how much each of the client's gradients enters its update (divided by the local learning rate), and
``|a_n|`` is the sum of its absolute entries: the number of steps for SGD; ``(tau - m (1 - m**tau) / (1 - m)) / (1 - m)`` with
momentum m; ``(1 - (1 - c)**tau) / c`` with the proximal term of FedProx, ``c = learning rate * mu`` (the paper's Section 4).

Followed: the paper. How we differ: the vector is computed from the recursion of the local rule itself, which gives the
paper's closed forms and also covers momentum and the proximal term together. Weight decay does not enter, as in the
authors' code. With equal numbers of steps this is FedAvg.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.algorithms._base import ServerRule, ServerState
from fedcbs.engine import LocalRule

__all__ = ["FedNova", "accumulation"]


def accumulation(rule: LocalRule, steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ``|a|`` for clients that make so many steps by a rule.

    >>> accumulation(LocalRule(learning_rate=0.1), np.array([1, 5]))
    array([1., 5.])
    >>> accumulation(LocalRule(learning_rate=0.1, momentum=0.5), np.array([1, 2]))
    array([1. , 2.5])
    """
    response = np.zeros(int(steps.max(initial=0)) + 1)  # of the weights, to one gradient, so many steps later
    moved = velocity = 0.0
    for later in range(1, len(response)):
        gradient = 1.0 if later == 1 else 0.0
        velocity = rule.momentum * velocity + gradient - rule.learning_rate * rule.proximal * moved
        moved += velocity
        response[later] = moved
    return np.cumsum(np.abs(response))[steps]


@final
@dataclasses.dataclass(frozen=True)
class FedNova(ServerRule):
    """Normalised averaging: for clients that make unequal numbers of steps.

    Parameters
    ----------
    learning_rate
        Of the server: how much of the normalised mean update to take.
    """

    name: ClassVar[str] = "fednova"
    summary: ClassVar[str] = "updates normalised by the clients' numbers of steps"
    paper: ClassVar[str] = "Wang et al. 2020 (NeurIPS), FedNova"
    learning_rate: float = 1.0

    def __post_init__(self) -> None:
        _checks.real(self.learning_rate, "learning_rate", minimum=0, open_minimum=True)

    def coefficients(
        self, weights: NDArray[np.float64], rule: LocalRule, steps: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the factors of the clients' updates in the mean update; `weights` add up to 1."""
        carried = np.maximum(accumulation(rule, steps), np.finfo(np.float64).tiny)  # a client without a step
        return np.asarray(weights * float(weights @ carried) / carried)

    def step(
        self, state: ServerState, model: torch.Tensor, update: torch.Tensor
    ) -> tuple[torch.Tensor, ServerState]:
        """Return the next global model, and the state after it."""
        return torch.add(model, update, alpha=self.learning_rate), state
