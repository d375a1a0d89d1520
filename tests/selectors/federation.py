"""A small federation that really trains: softmax regression in NumPy, on data generated from label counts.

It answers every need and gives every kind of feedback, so no selector is tested against made-up numbers. Each client holds
at most a few examples of a class, which stand for as many as its label count says: counts may be as large as they like.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs.imbalance import FactorGram, Gram
from fedcbs.selectors import Feedback, Information, Need, Selection

DIMENSION = 3
KEPT_EXAMPLES = 3
LOCAL_STEPS = 4
LEARNING_RATE = 0.5

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Examples:
    """Weighted examples; the weights of a client's add up to 1."""

    features: Array
    labels: NDArray[np.int64]
    weights: Array


class ToyFederation(Information):
    """Clients with data, durations, and a global model: classes x (features + 1).

    `train` returns the feedback of a round and the federation with the new global model; nothing changes in place.
    """

    def __init__(self, label_counts: ArrayLike, *, seed: int = 0) -> None:
        self._counts = np.array(label_counts, dtype=np.int64)
        self._seed = seed
        rng = np.random.default_rng((seed, 1))
        num_classes = self._counts.shape[1]
        self._centres = rng.normal(size=(num_classes, DIMENSION))
        self._auxiliary = [
            self._examples_of(np.eye(num_classes, dtype=int)[b], 10**6 + b) for b in range(num_classes)
        ]
        self._durations = rng.uniform(0.5, 5.0, size=(len(self._counts), 2))
        self._kept: dict[int, Examples] = {}
        self._updated: dict[int, Array] = {}
        self.model: Array = np.zeros((num_classes, DIMENSION + 1))

    @property
    def num_clients(self) -> int:
        return len(self._counts)

    def gram(self) -> Gram:
        return FactorGram(self._counts)

    def label_counts(self) -> NDArray[np.int64]:
        return self._counts.copy()

    def num_examples(self) -> NDArray[np.int64]:
        return self._counts.sum(axis=1)

    def durations(self, clients: NDArray[np.int64]) -> Array:
        return self._durations[clients]

    def losses(self, clients: NDArray[np.int64]) -> Array:
        return np.array([self._loss(self._data(n)) for n in clients])

    def batch_losses(self, clients: NDArray[np.int64]) -> Array:
        return np.array([self._loss(_first_half(self._data(n))) for n in clients])

    def updates(self, clients: NDArray[np.int64]) -> Array:
        return np.array([self._update(n).ravel() for n in clients]).reshape(len(clients), self.model.size)

    def update_norms(self, clients: NDArray[np.int64]) -> Array:
        return np.linalg.norm(self.updates(clients), axis=1)

    def train(
        self, selection: Selection[Any], *, round_index: int, failed: ArrayLike = ()
    ) -> tuple[Feedback, ToyFederation]:
        """Train the cohort and average the updates of those that did not fail."""
        failed_ids = np.asarray(failed, dtype=np.int64)
        answered = np.setdiff1d(selection.cohort, failed_ids)
        feedback = self.feedback(answered, failed=failed_ids, round_index=round_index)
        weights = np.ones(len(selection.cohort)) if selection.weights is None else selection.weights
        kept = weights[np.isin(selection.cohort, answered)]
        total = kept @ np.asarray(feedback.updates)
        whole = kept.sum()
        if selection.estimates is not None:
            total = total + selection.estimates.weights @ selection.estimates.updates
            whole += selection.estimates.weights.sum()
        step = total / whole if whole > 0 else np.zeros(self.model.size)
        return feedback, self.with_model(self.model + step.reshape(self.model.shape))

    def feedback(
        self, answered: NDArray[np.int64], *, failed: ArrayLike = (), round_index: int = 1
    ) -> Feedback:
        """What these clients tell after training from the global model."""
        jitter = np.random.default_rng((self._seed, 2, round_index)).uniform(0.8, 1.25, self.num_clients)
        return Feedback(
            answered=answered,
            failed=failed,
            losses=self.losses(answered),
            rms_losses=np.array([self._rms_loss(self._data(n)) for n in answered]),
            updates=self.updates(answered),
            durations=self._durations[answered].sum(axis=1) * jitter[answered],
            class_gradients=np.array([self._class_gradients(n) for n in answered]).reshape(
                len(answered), len(self.model)
            ),
        )

    def with_model(self, model: Array) -> ToyFederation:
        """Return the same clients with another global model."""
        other = copy.copy(self)
        other.model, other._updated = model, {}
        return other

    def _data(self, client: int) -> Examples:
        if client not in self._kept:
            self._kept[client] = self._examples_of(self._counts[client], int(client))
        return self._kept[client]

    def _examples_of(self, counts: NDArray[np.int64], stream: int) -> Examples:
        rng = np.random.default_rng((self._seed, 3, stream))
        kept = np.minimum(counts, KEPT_EXAMPLES)
        labels = np.repeat(np.arange(len(counts)), kept)
        noise = rng.normal(size=(len(labels), DIMENSION))
        features = np.concatenate([self._centres[labels] + noise, np.ones((len(labels), 1))], axis=1)
        weights = counts[labels] / kept[labels] / max(int(counts.sum()), 1)
        return Examples(features, labels, weights)

    def _losses_of(self, data: Examples) -> Array:
        logits = data.features @ self.model.T
        logits = logits - logits.max(axis=1, keepdims=True)
        true = logits[np.arange(len(logits)), data.labels]
        return np.asarray(np.log(np.exp(logits).sum(axis=1)) - true)

    def _loss(self, data: Examples) -> float:
        return float(data.weights @ self._losses_of(data))

    def _rms_loss(self, data: Examples) -> float:
        return float(np.sqrt(data.weights @ self._losses_of(data) ** 2))

    def _update(self, client: int) -> Array:
        if client not in self._updated:
            data, model = self._data(client), self.model.copy()
            for _ in range(LOCAL_STEPS):
                model -= LEARNING_RATE * _gradient(model, data)
            self._updated[client] = model - self.model
        return self._updated[client]

    def _class_gradients(self, client: int) -> Array:
        model = self.model + self._update(client)
        return np.array([np.mean(_gradient(model, data) ** 2) for data in self._auxiliary])


class OnlyDeclared(Information):
    """Answers what a selector declared to need, and raises at the first question beyond that."""

    def __init__(self, federation: Information, needs: frozenset[Need]) -> None:
        self._federation, self._needs = federation, needs

    @property
    def num_clients(self) -> int:
        return self._federation.num_clients

    def gram(self) -> Gram:
        return self._declared(Need.GRAM).gram()

    def label_counts(self) -> NDArray[np.int64]:
        return self._declared(Need.LABEL_COUNTS).label_counts()

    def num_examples(self) -> NDArray[np.int64]:
        return self._declared(Need.NUM_EXAMPLES).num_examples()

    def durations(self, clients: NDArray[np.int64]) -> Array:
        return self._declared(Need.DURATIONS).durations(clients)

    def losses(self, clients: NDArray[np.int64]) -> Array:
        return self._declared(Need.LOSSES).losses(clients)

    def batch_losses(self, clients: NDArray[np.int64]) -> Array:
        return self._declared(Need.BATCH_LOSSES).batch_losses(clients)

    def updates(self, clients: NDArray[np.int64]) -> Array:
        return self._declared(Need.UPDATES).updates(clients)

    def update_norms(self, clients: NDArray[np.int64]) -> Array:
        return self._declared(Need.UPDATE_NORMS).update_norms(clients)

    def _declared(self, need: Need) -> Information:
        if need not in self._needs:
            raise AssertionError(f"{need} was asked for, which is not among {sorted(self._needs)}")
        return self._federation


def _first_half(data: Examples) -> Examples:
    part = slice(0, (len(data.labels) + 1) // 2)
    weights = data.weights[part]
    return Examples(data.features[part], data.labels[part], weights / (weights.sum() or 1.0))


def _gradient(model: Array, data: Examples) -> Array:
    logits = data.features @ model.T
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(len(shares)), data.labels] -= 1.0
    return np.asarray((shares * data.weights[:, None]).T @ data.features)
