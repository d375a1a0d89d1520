"""Several clients at once: their weights stacked, one vectorised step for all of them."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from fedcbs.engine._layout import Layout
from fedcbs.engine._local import LocalSteps
from fedcbs.engine._recorded import Recorded
from fedcbs.engine._resident import ResidentExamples
from fedcbs.engine._sequential import Assignment
from fedcbs.engine._torch import batch_loss, last_linear, recorded_input, repeatable
from fedcbs.engine._work import LocalRule, Trained

__all__ = ["StackedTrainer"]

RECORDINGS = 8
"""Numbers of clients and batch sizes that a GPU keeps a recording of; others go through Python step by step."""


@final
class StackedTrainer:
    """Trains a chunk of clients in step, by `torch.func.vmap` over them.

    In each step, clients with batches of one size go together; nothing is padded, so that a model whose examples
    influence each other (BatchNorm) sees its own alone. On a GPU, a step is recorded once and replayed, to the same bits.
    """

    def __init__(
        self, model: nn.Module, layout: Layout, train: ResidentExamples, device: torch.device
    ) -> None:
        self._layout, self._resident, self._device = layout, train, device
        self._module = copy.deepcopy(model).to(device).train()
        self._integers = {
            name: buffer for name, buffer in self._module.named_buffers() if not buffer.is_floating_point()
        }
        self._recordings: dict[tuple[int, int, bool], Recorded | None] = {}

    def train(self, work: Assignment) -> Trained:
        """Train the clients of an assignment."""
        stack = _Stack(self, work)
        sizes = work.plan.sizes[work.clients.start : work.clients.stop]
        for number in range(int(np.count_nonzero(sizes, axis=1).max(initial=0))):
            for size, rows in _groups(sizes[:, number]):
                everyone = len(rows) == len(sizes)
                own = None if everyone else torch.from_numpy(rows).to(self._device)
                with repeatable(self._device):
                    stack.advance(number, size, own)
        made = np.count_nonzero(sizes, axis=1)
        losses = np.divide(stack.losses.cpu().numpy(), made, out=np.full(len(sizes), np.nan), where=made > 0)
        return Trained(work.clients, stack.weights.cpu(), stack.buffers.cpu(), losses)

    def gradients(self, rule: LocalRule, batch: _Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of each client's loss, as rows, and the losses; changes the buffers."""
        recording = self._recording(rule, batch)
        if recording is None:
            found, losses, *after = self._gradients(rule, batch.class_weights is not None)(*batch.tensors())
        else:
            found, losses, *after = recording(*batch.tensors())
        buffers = self._layout.split_buffers(batch.buffers) | batch.integers
        for buffer, each in zip(buffers.values(), after, strict=True):
            buffer.copy_(each)
        return found, losses

    def _recording(self, rule: LocalRule, batch: _Batch) -> Recorded | None:
        """Of this step, on a GPU; None for a penalty, whose Python may say something else tomorrow."""
        if self._device.type != "cuda" or rule.penalty is not None:
            return None
        key = (*batch.labels.shape, batch.class_weights is not None)
        if key not in self._recordings and len(self._recordings) < RECORDINGS:
            function = self._gradients(rule, batch.class_weights is not None)
            try:
                self._recordings[key] = Recorded(function, batch.tensors())
            except RuntimeError:  # the module waits for the GPU somewhere, which cannot be recorded
                self._recordings[key] = None
        return self._recordings.get(key)

    def _gradients(self, rule: LocalRule, weighted: bool) -> Callable[..., tuple[torch.Tensor, ...]]:
        """A function of a batch's tensors alone: gradients, losses, and the buffers afterwards."""
        dimensions = (0, 0, 0, 0, 0, 0 if weighted else None)
        vectorised = vmap(
            grad_and_value(self._loss(rule), has_aux=True), in_dims=dimensions, randomness="error"
        )

        def gradients(
            weights: torch.Tensor,
            features: torch.Tensor,
            labels: torch.Tensor,
            buffers: torch.Tensor,
            *rest: torch.Tensor,
        ) -> tuple[torch.Tensor, ...]:
            class_weights, integers = (rest[-1], rest[:-1]) if weighted else (None, rest)
            parameters = self._layout.split_parameters(weights)
            trained = {name: view for name, view in parameters.items() if name in self._layout.trainable}
            frozen = {name: view for name, view in parameters.items() if name not in trained}
            named = self._layout.split_buffers(buffers) | dict(zip(self._integers, integers, strict=True))
            before = {name: each.clone() for name, each in named.items()}
            found, (losses, after) = vectorised(trained, frozen, before, features, labels, class_weights)
            rows = [
                (found[name] if name in found else torch.zeros_like(view)).reshape(len(weights), -1)
                for name, view in parameters.items()
            ]
            return torch.cat(rows, dim=1), losses.detach(), *(after[name] for name in named)

        return gradients

    def _loss(self, rule: LocalRule) -> Callable[..., tuple[torch.Tensor, dict[str, torch.Tensor]]]:
        """One client's loss as a function of its weights and batch, with the buffers that it leaves behind."""
        watched = last_linear(self._module) if rule.penalty is not None else None

        def loss(
            trained: dict[str, torch.Tensor],
            frozen: dict[str, torch.Tensor],
            buffers: dict[str, torch.Tensor],
            features: torch.Tensor,
            labels: torch.Tensor,
            class_weights: torch.Tensor | None,
        ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
            with contextlib.ExitStack() as stack:
                activations = [] if watched is None else stack.enter_context(recorded_input(watched))
                logits = functional_call(self._module, {**trained, **frozen, **buffers}, (features,))
            value = batch_loss(logits, labels, class_weights)
            if rule.penalty is not None:
                value = value + rule.penalty(logits, labels, activations[0])
            return value, buffers

        return loss


@final
@dataclasses.dataclass(frozen=True, eq=False)
class _Batch:
    """A step of some clients: their weights, what they learn from, and how much each class counts."""

    weights: torch.Tensor
    buffers: torch.Tensor
    integers: dict[str, torch.Tensor]
    features: torch.Tensor
    labels: torch.Tensor
    class_weights: torch.Tensor | None

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All of it, in the order of the trainer's functions."""
        weighted = () if self.class_weights is None else (self.class_weights,)
        return (
            self.weights,
            self.features,
            self.labels,
            self.buffers,
            *self.integers.values(),
            *weighted,
        )


@final
class _Stack:
    """The clients of a chunk in the middle of their training."""

    def __init__(self, trainer: StackedTrainer, work: Assignment) -> None:
        count, rows = len(work.clients), slice(work.clients.start, work.clients.stop)
        device, rule = trainer._device, work.rule
        self._trainer, self._rule = trainer, rule
        self._resident = trainer._resident
        self.weights = work.start.parameters.to(device).repeat(count, 1)
        self.buffers = work.start.buffers.to(device).repeat(count, 1)
        self._integers = {
            name: buffer.expand(count, *buffer.shape).clone() for name, buffer in trainer._integers.items()
        }
        self.losses = torch.zeros(count, dtype=torch.float64, device=device)
        self._received = self.weights.clone()
        mask = trainer._layout.trained_mask()
        self._fixed = None if mask is None else ~mask.to(device)
        corrections = None if rule.corrections is None else rule.corrections[rows].to(device)
        self._steps = LocalSteps(rule, self._received, corrections)
        self._indices = torch.from_numpy(np.ascontiguousarray(work.plan.indices[rows])).to(device)
        self._class_weights = _class_weights(rule, rows, count, device)

    def advance(self, number: int, size: int, rows: torch.Tensor | None) -> None:
        """Let some clients, or all, make their step of a number, with batches of one size."""
        weights, buffers = _some(self.weights, rows), _some(self.buffers, rows)
        integers = {name: _some(each, rows) for name, each in self._integers.items()}
        features, labels = self._resident.batch(_some(self._indices, rows)[:, number, :size])
        batch = _Batch(weights, buffers, integers, features, labels, _some(self._class_weights, rows))
        found, losses = self._trainer.gradients(self._rule, batch)
        self._steps.update(weights, found, rows)
        if self._fixed is not None:
            weights[:, self._fixed] = self._received[0, self._fixed]
        if rows is None:
            self.losses += losses
            return
        self.losses[rows] += losses
        self.weights[rows], self.buffers[rows] = weights, buffers
        for name, each in integers.items():
            self._integers[name][rows] = each


def _groups(sizes: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
    """Rows that have a batch, together where its size is the same."""
    return [(int(size), np.flatnonzero(sizes == size)) for size in np.unique(sizes) if size]


def _some(tensor: Any, rows: torch.Tensor | None) -> Any:
    return tensor if rows is None or tensor is None else tensor[rows]


def _class_weights(rule: LocalRule, rows: slice, count: int, device: torch.device) -> torch.Tensor | None:
    if rule.class_weights is None:
        return None
    if rule.class_weights.ndim == 1:
        return rule.class_weights.to(device).expand(count, -1)
    return rule.class_weights[rows].to(device)
