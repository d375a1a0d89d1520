"""What selectors may ask in a simulated round; computed when asked, for all clients asked at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast, final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs.algorithms import Algorithm, AlgorithmState, Monitor
from fedcbs.engine import Engine, LocalRule, Plan, Weights
from fedcbs.errors import DivergedError
from fedcbs.imbalance import Gram
from fedcbs.selectors import Information, Need
from fedcbs.simulation._federation import Federation
from fedcbs.simulation._statistics import Statistics
from fedcbs.simulation._times import Seconds

__all__ = ["SimulatedInformation"]

Planner = Callable[[NDArray[np.int64]], Plan]


@final
class SimulatedInformation(Information):
    """Answers of the clients of a simulated federation, at the global model of one round.

    Parameters
    ----------
    federation, statistics, seconds
        Who holds what, what the selector may know of it, and how long clients take.
    engine, weights
        What computes, and the global model.
    algorithm, state, base, monitor
        How clients would train, for updates.
    plan
        Gives clients' batches of this round.
    """

    def __init__(
        self,
        *,
        federation: Federation,
        statistics: Statistics,
        seconds: Seconds | None,
        engine: Engine,
        weights: Weights,
        algorithm: Algorithm,
        state: AlgorithmState,
        base: LocalRule,
        monitor: Monitor | None,
        plan: Planner,
    ) -> None:
        self._federation, self._told, self._seconds = federation, statistics.information, seconds
        self._engine, self._weights = engine, weights
        self._algorithm, self._state, self._base, self._monitor = algorithm, state, base, monitor
        self._plan = plan
        self.asked: dict[Need, NDArray[np.int64]] = {}
        """Who was asked what at the current model, so far."""

    @property
    def num_clients(self) -> int:
        """Number of clients in the population."""
        return self._federation.num_clients

    def gram(self) -> Gram:
        """Inner products of label counts, and sizes, of the whole population."""
        return self._told.gram()

    def label_counts(self) -> NDArray[np.int64]:
        """Label counts of the whole population."""
        return self._told.label_counts()

    def num_examples(self) -> NDArray[np.int64]:
        """Sizes of the whole population."""
        return self._told.num_examples()

    def durations(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Expected seconds of (download and local training, upload) of each client, shape (clients, 2)."""
        if self._seconds is None:
            raise self._lacks(Need.DURATIONS)
        before = self._seconds.down[clients] + self._seconds.training[clients]
        return np.stack([before, self._seconds.up[clients]], axis=1)

    def losses(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean loss of each client at the current global model."""
        self._note(Need.LOSSES, clients)
        return self.loss_moments(clients)[:, 0]

    def loss_moments(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean loss and mean squared loss of each client at the current global model."""
        groups = [self._federation.examples(client) for client in clients.tolist()]
        return _finite(self._engine.losses(self._weights, groups), Need.LOSSES, clients)

    def batch_losses(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean loss of each client on the first batch of its round."""
        self._note(Need.BATCH_LOSSES, clients)
        plan = self._plan(clients)
        groups = [plan.indices[row, 0, : plan.sizes[row, 0]] for row in range(len(clients))]
        return _finite(self._engine.losses(self._weights, groups), Need.BATCH_LOSSES, clients)[:, 0]

    def updates(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Model update of each client, one flat row each, in float32."""
        self._note(Need.UPDATES, clients)
        rows = np.empty((len(clients), self._weights.parameters.numel()), dtype=np.float32)

        def keep(place: int, update: torch.Tensor) -> None:
            rows[place] = update.numpy()

        self._train(clients, keep)
        return _finite(rows, Need.UPDATES, clients)

    def update_norms(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Norm of each client's model update."""
        self._note(Need.UPDATE_NORMS, clients)
        norms = np.empty(len(clients))

        def measure(place: int, update: torch.Tensor) -> None:
            norms[place] = float(update.norm())

        self._train(clients, measure)
        return _finite(norms, Need.UPDATE_NORMS, clients)

    def _train(self, clients: NDArray[np.int64], take: Callable[[int, torch.Tensor], None]) -> None:
        """Let clients train as they would if selected, and look at each one's update; nothing is kept."""
        if not len(clients):
            return
        rule = self._algorithm.rule(self._base, self._state, clients, self._monitor)
        scratch = torch.empty_like(self._weights.parameters)
        for trained in self._engine.train(self._weights, self._plan(clients), rule):
            for row, place in enumerate(trained.clients):
                take(place, torch.sub(trained.parameters[row], self._weights.parameters, out=scratch))

    def _note(self, need: Need, clients: NDArray[np.int64]) -> None:
        self.asked[need] = np.union1d(self.asked.get(need, clients[:0]), clients)


def _finite(
    values: NDArray[np.float64] | NDArray[np.float32], need: Need, clients: NDArray[np.int64]
) -> NDArray[np.float64]:
    finite = np.isfinite(values.reshape(len(clients), -1)).all(axis=1)
    if not finite.all():
        raise DivergedError(
            f"{need} of client {clients[int(np.argmin(finite))]} at the global model is not a finite number"
        )
    return cast(
        "NDArray[np.float64]", values
    )  # updates stay float32, which is enough and takes half the memory
