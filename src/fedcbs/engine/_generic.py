"""Any module: several clients at once where that is faster, else one after another, tuned."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator
from typing import ClassVar, final

import numpy as np
import torch
from torch import nn

from fedcbs.data import Dataset
from fedcbs.engine._probe import Probe, ReshapingViews, probe
from fedcbs.engine._sequential import Assignment, SequentialTrainer
from fedcbs.engine._stacked import StackedTrainer
from fedcbs.engine._torch import TorchEngine
from fedcbs.engine._work import LocalRule, Plan, Trained, Weights
from fedcbs.engine._workers import Workers

__all__ = ["GenericEngine"]

CPU_STACK = 16
"""Clients that are stacked on a CPU. Fewer gain nothing over one after another; more leave no work to other threads."""
CPU_STACK_BYTES = 4 << 20
"""Their weights stay in the caches, or else stacking gains nothing either."""
GPU_STACK, GPU_STACK_BYTES = 64, 1 << 30


@final
class GenericEngine(TorchEngine):
    """Any module, on any device.

    Which way is taken follows from what the module does on a trial batch, by rules that measurements gave, and not from
    a race: the same model is trained the same way, to the same bits, every time. On a CPU, clients are stacked and
    vectorised over unless the model convolves (grouped convolutions are slow there), has buffers, or draws random
    numbers, or is large, or the clients are few; on a GPU, unless it draws. What `torch.func.vmap` refuses is trained
    one client after another.

    Parameters
    ----------
    model, dataset, threads, device
        As in :func:`make_engine`.
    """

    name: ClassVar[str] = "generic"

    def __init__(self, model: nn.Module, dataset: Dataset, *, threads: int, device: torch.device) -> None:
        super().__init__(model, dataset, threads=threads, device=device)
        self._seen = self._probe()
        self._refused = self._refusal() if self._wants_stack() else None
        self._stacks = self._wants_stack() and self._refused is None
        train = self._resident["train"]
        self._single = Workers(
            lambda: SequentialTrainer(self._model, self._layout, train, self._device, self._seen),
            self._threads,
        )
        self._stacked = Workers(
            lambda: StackedTrainer(self._model, self._layout, train, self._device), self._threads
        )

    @property
    def stacks(self) -> bool:
        """Whether clients are trained several at once, where there are enough of them."""
        return self._stacks

    @property
    def remark(self) -> str | None:
        """Why clients are not stacked although that would be faster; None where they are, or it would not be."""
        if self._refused is None:
            return None
        return f"clients are trained one after another, because vmap refuses the model ({self._refused})"

    def _train(self, start: Weights, plan: Plan, rule: LocalRule) -> Iterator[Trained]:
        on_cpu = self._device.type == "cpu"
        if self._stacks and (plan.num_clients >= CPU_STACK or not on_cpu):
            return self._stacked.map(StackedTrainer.train, _assignments(start, plan, rule, self._stack()))
        # PyTorch's generator is one for all threads, so that who draws from it works alone.
        threads = 1 if self._seen.random else None
        return self._single.map(SequentialTrainer.train, _assignments(start, plan, rule, 1), threads=threads)

    def _logits(self, module: nn.Module, features: torch.Tensor) -> torch.Tensor:
        if not self._seen.channels_last:
            return super()._logits(module, features)
        with ReshapingViews() if self._seen.views else contextlib.nullcontext():
            return super()._logits(module, features.contiguous(memory_format=torch.channels_last))

    def _stack(self) -> int:
        """How many clients are stacked."""
        if self._device.type == "cpu":
            return CPU_STACK
        return max(1, min(GPU_STACK, GPU_STACK_BYTES // (4 * self.num_parameters)))

    def _probe(self) -> Probe:
        features, labels = self._batch("train", self._few_examples())
        return probe(copy.deepcopy(self._model).to(self._device), features, labels)

    def _few_examples(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.arange(4, dtype=np.int64) % len(self._dataset.train)

    def _wants_stack(self) -> bool:
        if self._device.type != "cpu":
            return not self._seen.random
        large = 4 * self.num_parameters * CPU_STACK > CPU_STACK_BYTES
        return not (large or self._seen.random or self._seen.convolves or self._seen.mixes)

    def _refusal(self) -> str | None:
        """What vmap says against the model, if it does; an operation that it would only loop over counts, too."""
        examples = self._few_examples()
        plan = Plan(np.stack([examples, examples])[:, None, :], np.full((2, 1), len(examples)))
        work = Assignment(self.initial(), plan, LocalRule(0.0), range(2))
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message="There is a performance drop")
                StackedTrainer(self._model, self._layout, self._resident["train"], self._device).train(work)
        except Exception as error:  # whatever the module's own code raises under vmap
            return (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        return None


def _assignments(start: Weights, plan: Plan, rule: LocalRule, size: int) -> Iterator[Assignment]:
    for first in range(0, plan.num_clients, size):
        yield Assignment(start, plan, rule, range(first, min(first + size, plan.num_clients)))
