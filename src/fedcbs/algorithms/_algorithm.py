"""A local method and a server rule together, and one round of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs.algorithms._base import LocalMethod, LocalState, Monitor, ServerRule, ServerState
from fedcbs.engine import Engine, LocalRule, Plan, Trained, Weights
from fedcbs.errors import InvalidArgumentError
from fedcbs.selectors import Estimates

__all__ = ["Algorithm", "AlgorithmState", "Outcome", "Work"]

Watcher = Callable[[Trained, torch.Tensor], None]
"""Called with each chunk of trained clients and the weights that they started from."""


@dataclasses.dataclass(frozen=True, eq=False)
class AlgorithmState:
    """What both halves remember."""

    local: LocalState
    server: ServerState

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays."""
        arrays = {f"local.{name}": array for name, array in self.local.to_arrays().items()}
        return arrays | {f"server.{name}": tensor.cpu().numpy() for name, tensor in self.server.items()}


@dataclasses.dataclass(frozen=True, eq=False)
class Work:
    """Who trains in a round, on what, and how much each counts.

    Parameters
    ----------
    clients
        Those that will answer, ascending.
    plan
        Their batches, one row each.
    weights
        Their weights in the average, and so many of each of `estimates`; only the proportions matter.
    estimates
        Updates that count although nobody sends them.
    estimated_steps
        How many steps those would have made.
    """

    clients: NDArray[np.int64]
    plan: Plan
    weights: NDArray[np.float64]
    estimates: Estimates | None = None
    estimated_steps: NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """What a round gave.

    Parameters
    ----------
    weights
        The next global model.
    state
        The state after the round.
    losses
        Mean training loss of each client of the work.
    """

    weights: Weights
    state: AlgorithmState
    losses: NDArray[np.float64]


@final
@dataclasses.dataclass(frozen=True)
class Algorithm:
    """How a federation trains: how its clients do, and how its server moves.

    Parameters
    ----------
    local, server
        The halves; any local method goes with any server rule.

    Examples
    --------
    >>> from fedcbs.algorithms import FedAdam, FedProx
    >>> str(Algorithm(FedProx(mu=0.1), FedAdam()))
    'fedprox+fedadam'
    """

    local: LocalMethod
    server: ServerRule

    def __str__(self) -> str:
        return f"{self.local.name}+{self.server.name}"

    def check(self, base: LocalRule) -> None:
        """Refuse numbers that the local method cannot carry."""
        if base.momentum and not self.local.carries_momentum:
            raise InvalidArgumentError(
                f"momentum={base.momentum:g} on clients does not go with {self.local.name}, whose control variates are mean"
                " gradients; set training.momentum=0, or take momentum to the server with server.rule=fedavgm"
            )

    def init(self, num_clients: int, start: Weights, folder: Path | None = None) -> AlgorithmState:
        """Return the state before the first round; `folder` is where files may be kept."""
        local = self.local.init(num_clients, start.parameters.numel(), folder)
        return AlgorithmState(local, self.server.init(start.parameters))

    def restore(self, fresh: AlgorithmState, arrays: Mapping[str, NDArray[Any]]) -> AlgorithmState:
        """Return the state that :meth:`AlgorithmState.to_arrays` saved; `fresh` is what :meth:`init` gave."""
        parts: dict[str, dict[str, NDArray[Any]]] = {"local": {}, "server": {}}
        for name, array in arrays.items():
            half, _, rest = name.partition(".")
            parts[half][rest] = array
        if parts["server"].keys() != fresh.server.keys():
            raise InvalidArgumentError(
                f"the saved state has {sorted(parts['server'])}, but {self.server.name} remembers {sorted(fresh.server)};"
                " was it saved by another server rule?"
            )
        server = {
            name: torch.from_numpy(array.copy()).to(fresh.server[name].device)
            for name, array in parts["server"].items()
        }
        return AlgorithmState(self.local.restore(fresh.local, parts["local"]), server)

    def rule(
        self, base: LocalRule, state: AlgorithmState, clients: NDArray[np.int64], monitor: Monitor | None
    ) -> LocalRule:
        """Return the rule by which these clients train now."""
        return self.local.rule(base, state.local, clients, monitor)

    def round(
        self,
        engine: Engine,
        state: AlgorithmState,
        start: Weights,
        work: Work,
        rule: LocalRule,
        watch: Watcher | None = None,
    ) -> Outcome:
        """Let clients train from the global model, and move it."""
        mean = _Mean(self.server, start, work, rule)
        follower = self.local.follow(state.local, rule, work.clients, work.plan.steps)
        for trained in engine.train(start, work.plan, rule) if len(work.clients) else ():
            mean.add(trained)
            follower.see(trained, start.parameters)
            if watch is not None:
                watch(trained, start.parameters)
        model, server = self.server.step(state.server, start.parameters, mean.update)
        return Outcome(Weights(model, mean.buffers()), AlgorithmState(follower.state(), server), mean.losses)


class _Mean:
    """The mean update, gathered client by client, so that it does not depend on how clients come in chunks."""

    def __init__(self, server: ServerRule, start: Weights, work: Work, rule: LocalRule) -> None:
        estimates = work.estimates
        shares, steps = work.weights, work.plan.steps
        if estimates is not None:
            shares, steps = (
                np.concatenate([shares, estimates.weights]),
                np.concatenate([steps, work.estimated_steps]),
            )
        total = float(shares.sum())
        self._shares = shares / total if total > 0 else shares
        self._factors = server.coefficients(self._shares, rule, steps) if len(shares) else shares
        self._start = start
        self._scratch = torch.empty_like(start.parameters)
        self._moved_buffers = torch.zeros_like(start.buffers)
        self.update = torch.zeros_like(start.parameters)
        self.losses = np.full(len(work.clients), np.nan)
        if estimates is not None:
            factors = self._factors[len(work.clients) :] @ estimates.updates
            self.update += torch.from_numpy(factors).to(self.update)

    def add(self, trained: Trained) -> None:
        """Add some clients."""
        self.losses[trained.clients.start : trained.clients.stop] = trained.losses
        for row, place in enumerate(trained.clients):
            torch.sub(trained.parameters[row], self._start.parameters, out=self._scratch)
            self.update.add_(self._scratch, alpha=float(self._factors[place]))
            if len(self._moved_buffers):
                moved = trained.buffers[row] - self._start.buffers
                self._moved_buffers.add_(moved, alpha=float(self._shares[place]))

    def buffers(self) -> torch.Tensor:
        """Return the weighted mean of the clients' buffers."""
        return self._start.buffers + self._moved_buffers
