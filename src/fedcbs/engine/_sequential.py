"""One client after another, tuned: weights in one vector, gradients without accumulation, steps in place.

Images go through channels innermost where the model takes them so, which is how convolutions, pooling and BatchNorm are
fastest on a CPU.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Iterator
from typing import final

import numpy as np
import torch
from torch import nn

from fedcbs.engine._layout import Layout
from fedcbs.engine._local import LocalSteps
from fedcbs.engine._probe import Probe, ReshapingViews
from fedcbs.engine._resident import ResidentExamples
from fedcbs.engine._torch import (
    batch_loss,
    class_weights_of,
    client_seed,
    explained,
    last_linear,
    recorded_input,
    repeatable,
    seeded,
)
from fedcbs.engine._work import LocalRule, Plan, Trained, Weights

__all__ = ["Assignment", "SequentialTrainer"]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Assignment:
    """Some clients of a plan, to be trained by one worker."""

    start: Weights
    plan: Plan
    rule: LocalRule
    clients: range


@final
class SequentialTrainer:
    """Trains one client at a time on a copy of the model whose parameters are views of one vector."""

    def __init__(
        self, model: nn.Module, layout: Layout, train: ResidentExamples, device: torch.device, seen: Probe
    ) -> None:
        self._layout, self._resident, self._device, self._seen = layout, train, device, seen
        self._module = copy.deepcopy(model).to(device).train()
        self._initial_buffers = [buffer.clone() for buffer in self._module.buffers()]
        self._trained = [parameter for parameter in self._module.parameters() if parameter.requires_grad]
        self._weights = torch.cat([parameter.detach().reshape(-1) for parameter in self._trained])
        start = 0
        for parameter in self._trained:
            parameter.data = self._weights[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()

    def train(self, work: Assignment) -> Trained:
        """Train the clients of an assignment."""
        rows, losses = [], np.empty(len(work.clients))
        for row, client in enumerate(work.clients):
            with repeatable(self._device), self._drawing(work.plan, client):
                losses[row] = self._train_client(work, client)
            rows.append(self._layout.weights(self._module))
        return Trained(
            work.clients,
            torch.stack([weights.parameters for weights in rows]),
            torch.stack([weights.buffers for weights in rows]),
            losses,
        )

    def _train_client(self, work: Assignment, client: int) -> float:
        self._restore(work.start)
        rule, corrections = work.rule, None
        if rule.corrections is not None:
            corrections = self._layout.trained_part(rule.corrections[client]).to(self._device)
        steps = LocalSteps(rule, self._weights.clone(), corrections)
        losses: list[torch.Tensor] = []
        indices = torch.from_numpy(np.ascontiguousarray(work.plan.indices[client])).to(self._device)
        with self._watched(rule) as activations:
            for size, own in zip(work.plan.sizes[client].tolist(), indices, strict=True):
                if size == 0:
                    break
                with explained(client, size):
                    loss = self._loss(own[:size], rule, client, activations)
                found = torch.autograd.grad(loss, self._trained, materialize_grads=True)
                steps.update(self._weights, torch.cat([gradient.reshape(-1) for gradient in found]))
                losses.append(loss.detach())
        return float(torch.stack(losses).double().mean()) if losses else np.nan

    def _restore(self, start: Weights) -> None:
        for buffer, initial in zip(self._module.buffers(), self._initial_buffers, strict=True):
            buffer.copy_(initial)
        self._layout.load(self._module, start.parameters, start.buffers)

    def _loss(
        self, indices: torch.Tensor, rule: LocalRule, client: int, activations: list[torch.Tensor]
    ) -> torch.Tensor:
        """A batch's loss, penalty included."""
        features, labels = self._resident.batch(indices)
        if self._seen.channels_last:
            features = features.contiguous(memory_format=torch.channels_last)
        logits = self._module(features)
        loss = batch_loss(logits, labels, class_weights_of(rule, client, self._device))
        return loss if rule.penalty is None else loss + rule.penalty(logits, labels, activations[0])

    @contextlib.contextmanager
    def _watched(self, rule: LocalRule) -> Iterator[list[torch.Tensor]]:
        """The activations before the last layer where the rule's penalty needs them; views that copy, where needed."""
        with contextlib.ExitStack() as stack:
            if self._seen.views:
                stack.enter_context(ReshapingViews())
            watched = rule.penalty is not None
            yield stack.enter_context(recorded_input(last_linear(self._module))) if watched else []

    def _drawing(self, plan: Plan, client: int) -> contextlib.AbstractContextManager[None]:
        if not self._seen.random:
            return contextlib.nullcontext()
        return seeded(client_seed(plan, client), self._device)
