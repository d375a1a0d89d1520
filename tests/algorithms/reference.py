"""Training algorithms written as slowly and as plainly as can be, one client, step and tensor at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from fedcbs.data import Dataset, Examples
from fedcbs.engine import Plan

Batches = Sequence[NDArray[np.int64]]


def tiny_dataset(seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=60)
    features = (rng.normal(size=(60, 6)) + 2 * labels[:, None]).astype(np.float32)
    train, test = Examples(features, labels), Examples(features[:20], labels[:20])
    return Dataset("tiny", train, test, num_classes=3)


class TinyModel(nn.Module):
    """Two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)
        generator = torch.Generator().manual_seed(3)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.last(torch.relu(self.first(inputs)))
        return logits


def tiny_plan(round_index: int, steps: Sequence[int]) -> Plan:
    rng = np.random.default_rng([7, round_index])
    indices = np.full((len(steps), max(steps), 4), -1)
    sizes = np.zeros((len(steps), max(steps)), dtype=np.int64)
    for client, count in enumerate(steps):
        for step in range(count):
            size = 4 if step % 2 == 0 else 3
            indices[client, step, :size] = rng.integers(60, size=size)
            sizes[client, step] = size
    return Plan(indices, sizes)


def batches_of(plan: Plan, client: int) -> Batches:
    return [plan.indices[client, step, : plan.sizes[client, step]] for step in range(int(plan.steps[client]))]


class SlowFederation:
    """All clients answer in every round; `local` and `server` are names with their numbers."""

    def __init__(
        self,
        local: str,
        server: str,
        numbers: Mapping[str, float],
        num_clients: int,
        weights: Sequence[float],
    ) -> None:
        self.local, self.server, self.numbers = local, server, numbers
        self.dataset, self.model = tiny_dataset(), TinyModel()
        self.w = parameters_to_vector(self.model.parameters()).detach().double().numpy()
        self.c = np.zeros_like(self.w)
        self.own = [np.zeros_like(self.w) for _ in range(num_clients)]
        self.m = np.zeros_like(self.w)
        self.v = np.full_like(self.w, numbers.get("tau", 0.0) ** 2)
        self.shares = np.array(weights) / sum(weights)

    def round(
        self, plan: Plan, *, lr: float, wd: float, momentum: float, auxiliary: Sequence[NDArray[np.int64]]
    ) -> None:
        factors = self._class_factors(auxiliary) if self.local == "ratio-loss" else np.ones(3)
        moved, norms, fresh = [], [], []
        for client in range(len(self.own)):
            batches = batches_of(plan, client)
            correction = self.c - self.own[client] if self.local == "scaffold" else np.zeros_like(self.w)
            end = self._client(batches, lr, wd, momentum, correction, factors)
            moved.append(end - self.w)
            norms.append(self._carried(len(batches), lr, momentum))
            fresh.append(self.own[client] - self.c + (self.w - end) / (len(batches) * lr))
        update = self._mean(moved, norms)
        if self.local == "scaffold":
            for client, new in enumerate(fresh):
                self.c = self.c + (new - self.own[client]) / len(self.own)
            self.own = fresh
        self._move(update)

    def gradient(
        self, at: NDArray[np.float64], batch: NDArray[np.int64], factors: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        model = TinyModel().double()
        vector_to_parameters(torch.from_numpy(at), model.parameters())
        inputs = torch.from_numpy(self.dataset.train.features[batch]).double()
        labels = torch.from_numpy(self.dataset.train.labels[batch])
        hidden = torch.relu(model.first(inputs))
        logits = model.last(hidden)
        losses = nn.functional.cross_entropy(logits, labels, reduction="none")
        loss = (losses * torch.from_numpy(factors)[labels]).mean()
        if self.local == "fedmax":
            shares = torch.softmax(hidden, dim=1)
            entropy = -(shares * torch.log(shares)).sum(dim=1)
            loss = loss + self.numbers["beta"] * (math.log(5) - entropy).mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        return torch.cat([part.flatten() for part in gradients]).numpy()

    def _client(
        self,
        batches: Batches,
        lr: float,
        wd: float,
        momentum: float,
        correction: NDArray[np.float64],
        factors: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        w, velocity = self.w.copy(), np.zeros_like(self.w)
        mu = self.numbers.get("mu", 0.0) if self.local == "fedprox" else 0.0
        for batch in batches:
            step = self.gradient(w, batch, factors) + wd * w + mu * (w - self.w) + correction
            velocity = momentum * velocity + step
            w = w - lr * velocity
        return w

    def _carried(self, steps: int, lr: float, momentum: float) -> float:
        """Sum of the paper's vector a, from its closed forms."""
        mu = self.numbers.get("mu", 0.0) if self.local == "fedprox" else 0.0
        if momentum and mu:
            return math.nan  # has no closed form; only FedNova would read it
        if momentum:
            return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)
        if mu:
            return (1 - (1 - lr * mu) ** steps) / (lr * mu)
        return float(steps)

    def _mean(self, moved: Sequence[NDArray[np.float64]], norms: Sequence[float]) -> NDArray[np.float64]:
        if self.server == "fednova":
            effective = float(self.shares @ np.array(norms))
            scaled = [one / norm for one, norm in zip(moved, norms, strict=True)]
            return effective * np.einsum("n,nd->d", self.shares, np.array(scaled))
        return np.einsum("n,nd->d", self.shares, np.array(moved))

    def _move(self, update: NDArray[np.float64]) -> None:
        rate = self.numbers.get("learning_rate", 1.0)
        if self.server in ("fedavg", "fednova"):
            self.w = self.w + rate * update
        elif self.server == "fedavgm":
            self.m = self.numbers["momentum"] * self.m + update
            self.w = self.w + rate * self.m
        else:
            beta1, beta2 = self.numbers["beta1"], self.numbers.get("beta2", 0.0)
            self.m = beta1 * self.m + (1 - beta1) * update
            square = update**2
            if self.server == "fedadam":
                self.v = beta2 * self.v + (1 - beta2) * square
            elif self.server == "fedyogi":
                self.v = self.v - (1 - beta2) * square * np.sign(self.v - square)
            else:
                self.v = self.v + square
            self.w = self.w + rate * self.m / (np.sqrt(self.v) + self.numbers["tau"])

    def _class_factors(self, auxiliary: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
        last = slice(6 * 5 + 5, 6 * 5 + 5 + 15)
        rows = [self.gradient(self.w, examples, np.ones(3))[last].reshape(3, 5) for examples in auxiliary]
        ratios = []
        for label in range(3):
            others = np.mean([rows[other][label] for other in range(3) if other != label], axis=0)
            ratios.append(np.abs(rows[label][label]).sum() / np.abs(others).sum())
        return self.numbers["alpha"] + self.numbers["beta"] * np.array(ratios)
