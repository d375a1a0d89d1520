"""What training algorithms are made of: a local method (how clients train) and a server rule (how the server moves).

State is explicit: `init` makes it, a round returns the next one, `to_arrays` and `restore` keep it between processes.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs._rows import ClientRows
from fedcbs.engine import LocalRule, Trained

__all__ = ["Follower", "LocalMethod", "LocalState", "Monitor", "ServerRule", "ServerState"]

ServerState = dict[str, torch.Tensor]
"""What a server rule remembers: vectors of the model's size, by name. Never changed in place."""


class Monitor(Protocol):
    """What a server sees of its own auxiliary examples at the current global model."""

    def last_layer_gradients(self) -> torch.Tensor:
        """Gradients of the last layer's weights, one for each class's examples: classes x classes x features."""


@dataclasses.dataclass(frozen=True, eq=False)
class LocalState:
    """What a local method remembers between rounds; most remember nothing."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays."""
        return {}

    def on_disk(self) -> tuple[ClientRows, ...]:
        """Return what of the state is in a file; whoever holds it keeps it there."""
        return ()


class Follower:
    """Looks at clients as they finish, and gives the state after the round. This one does not look."""

    def __init__(self, state: LocalState) -> None:
        self._state = state

    def see(self, trained: Trained, start: torch.Tensor) -> None:
        """Look at some clients after their training from `start`."""

    def state(self) -> LocalState:
        """Return the state after the round."""
        return self._state


@dataclasses.dataclass(frozen=True)
class LocalMethod(abc.ABC):
    """How clients train. A subclass is a frozen dataclass whose fields are its options."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    vectors: ClassVar[int] = 1
    """How many vectors of the model's size travel each way."""
    monitors: ClassVar[bool] = False
    """Whether it needs a :class:`Monitor`, and so an auxiliary set on the server."""
    carries_momentum: ClassVar[bool] = True
    """Whether clients may use momentum with it."""

    def init(self, num_clients: int, num_parameters: int, folder: Path | None = None) -> LocalState:  # noqa: ARG002
        """Return the state before the first round; `folder` is where files may be kept."""
        return LocalState()

    def restore(self, fresh: LocalState, arrays: Mapping[str, NDArray[Any]]) -> LocalState:  # noqa: ARG002
        """Return the state that :meth:`LocalState.to_arrays` saved; `fresh` is what :meth:`init` gave."""
        return fresh

    @abc.abstractmethod
    def rule(
        self, base: LocalRule, state: LocalState, clients: NDArray[np.int64], monitor: Monitor | None
    ) -> LocalRule:
        """Return the rule by which these clients train; `base` has learning rate, momentum and weight decay."""

    def follow(
        self,
        state: LocalState,
        rule: LocalRule,  # noqa: ARG002
        clients: NDArray[np.int64],  # noqa: ARG002
        steps: NDArray[np.int64],  # noqa: ARG002
    ) -> Follower:
        """Return who looks at the clients of a round as they finish."""
        return Follower(state)


@dataclasses.dataclass(frozen=True)
class ServerRule(abc.ABC):
    """How the server moves, given the mean update. A subclass is a frozen dataclass whose fields are its options."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]

    def init(self, model: torch.Tensor) -> ServerState:  # noqa: ARG002
        """Return the state before the first round."""
        return {}

    def coefficients(
        self,
        weights: NDArray[np.float64],
        rule: LocalRule,  # noqa: ARG002
        steps: NDArray[np.int64],  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Return the factors of the clients' updates in the mean update; `weights` add up to 1."""
        return weights

    @abc.abstractmethod
    def step(
        self, state: ServerState, model: torch.Tensor, update: torch.Tensor
    ) -> tuple[torch.Tensor, ServerState]:
        """Return the next global model, and the state after it; neither argument is changed."""
