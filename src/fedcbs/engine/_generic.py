"""Any module: several clients at once where that is faster, else one after another, tuned."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import ClassVar, Protocol, final

import numpy as np
import torch
from torch import nn

from fedcbs.data import Dataset
from fedcbs.engine._probe import Probe, probe
from fedcbs.engine._sequential import Assignment, SequentialTrainer
from fedcbs.engine._stacked import StackedTrainer
from fedcbs.engine._torch import TorchEngine
from fedcbs.engine._work import LocalRule, Plan, Trained, Weights
from fedcbs.engine._workers import Workers

__all__ = ["GenericEngine"]

CHUNK_BYTES = {"cpu": 4 << 20, "cuda": 1 << 30}
"""Weights of clients that are stacked: on a CPU what stays in its caches, on a GPU what keeps it busy."""


class _Trainer(Protocol):
    def train(self, work: Assignment) -> Trained: ...


@final
class GenericEngine(TorchEngine):
    """Any module, on any device.

    Which way is taken follows from what the module does on a trial batch, by rules that measurements gave, and not from
    a race: the same model is trained the same way, to the same bits, every time. On a CPU, clients are stacked and
    vectorised over unless the model convolves (grouped convolutions are slow there), has buffers, or draws random
    numbers; on a GPU, unless it draws. What `torch.func.vmap` refuses is trained one client after another.

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
        self._workers: Workers[_Trainer] = Workers(self._trainer, self._threads)

    @property
    def stacks(self) -> bool:
        """Whether clients are trained several at once, rather than one after another."""
        return self._stacks

    @property
    def remark(self) -> str | None:
        """Why clients are not stacked although that would be faster; None where they are, or it would not be."""
        if self._refused is None:
            return None
        return f"clients are trained one after another, because vmap refuses the model ({self._refused})"

    def _train(self, start: Weights, plan: Plan, rule: LocalRule) -> Iterator[Trained]:
        chunk = self._chunk() if self._stacks else 1
        work = (
            Assignment(start, plan, rule, range(first, min(first + chunk, plan.num_clients)))
            for first in range(0, plan.num_clients, chunk)
        )
        # PyTorch's generator is one for all threads, so that who draws from it works alone.
        threads = 1 if self._seen.random else None
        return self._workers.map(lambda trainer, own: trainer.train(own), work, threads=threads)

    def _chunk(self) -> int:
        return max(1, min(64, CHUNK_BYTES[self._device.type] // (4 * self.num_parameters)))

    def _trainer(self) -> _Trainer:
        train = self._resident["train"]
        if self._stacks:
            return StackedTrainer(self._model, self._layout, train, self._device)
        return SequentialTrainer(self._model, self._layout, train, self._device, self._seen)

    def _probe(self) -> Probe:
        features, labels = self._batch("train", self._few_examples())
        return probe(copy.deepcopy(self._model).to(self._device), features, labels)

    def _few_examples(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.arange(4, dtype=np.int64) % len(self._dataset.train)

    def _wants_stack(self) -> bool:
        seen, on_cpu = self._seen, self._device.type == "cpu"
        return not (seen.random or (on_cpu and (seen.convolves or seen.mixes)))

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
