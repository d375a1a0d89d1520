"""The reference: one client after another, as a PyTorch training loop is written."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import ClassVar, final

import numpy as np
import torch

from fedcbs.engine._torch import (
    TorchEngine,
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
from fedcbs.engine._workers import one_thread

__all__ = ["LoopEngine"]


@final
class LoopEngine(TorchEngine):
    """One client after another with `torch.optim.SGD`: slow, short, and what the other engines are tested against."""

    name: ClassVar[str] = "loop"

    def _train(self, start: Weights, plan: Plan, rule: LocalRule) -> Iterator[Trained]:
        for client in range(plan.num_clients):
            with one_thread(), repeatable(self._device), seeded(client_seed(plan, client), self._device):
                module = copy.deepcopy(self._model).to(self._device).train()
                self._layout.load(module, start.parameters, start.buffers)
                loss = self._train_client(module, plan, rule, client)
            weights = self._layout.weights(module)
            yield Trained(
                range(client, client + 1), weights.parameters[None], weights.buffers[None], np.array([loss])
            )

    def _train_client(self, module: torch.nn.Module, plan: Plan, rule: LocalRule, client: int) -> float:
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        received = [parameter.detach().clone() for parameter in parameters]
        corrections = self._corrections(rule, client)
        optimiser = torch.optim.SGD(
            parameters, lr=rule.learning_rate, momentum=rule.momentum, weight_decay=rule.weight_decay
        )
        losses: list[float] = []
        with contextlib.ExitStack() as stack:
            activations = None
            if rule.penalty is not None:
                activations = stack.enter_context(recorded_input(last_linear(module)))
            for size, row in zip(plan.sizes[client], plan.indices[client], strict=True):
                if size == 0:
                    break
                features, labels = self._batch("train", row[:size])
                with explained(client, size):
                    logits = module(features)
                loss = batch_loss(logits, labels, class_weights_of(rule, client, self._device))
                if rule.penalty is not None and activations is not None:
                    loss = loss + rule.penalty(logits, labels, activations[0])
                gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
                for number, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
                    parameter.grad = gradient + rule.proximal * (parameter.detach() - received[number])
                    if corrections is not None:
                        parameter.grad += corrections[number]
                optimiser.step()
                losses.append(loss.item())
        return float(np.mean(losses)) if losses else np.nan

    def _corrections(self, rule: LocalRule, client: int) -> list[torch.Tensor] | None:
        if rule.corrections is None:
            return None
        views = self._layout.split_parameters(rule.corrections[client].to(self._device))
        return [view for name, view in views.items() if name in self._layout.trainable]
