"""What the engines that run PyTorch share: evaluation, gradients, dropout that is a function of the batches."""

from __future__ import annotations

import collections
import contextlib
import copy
import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # PyTorch's own name for it
from numpy.typing import NDArray
from torch import nn

from fedcbs.data import Dataset
from fedcbs.engine._base import Engine, Part
from fedcbs.engine._resident import ResidentExamples
from fedcbs.engine._work import LocalRule, Plan, Weights
from fedcbs.engine._workers import Workers
from fedcbs.errors import InvalidArgumentError

__all__ = [
    "TorchEngine",
    "batch_loss",
    "class_weights_of",
    "client_seed",
    "explained",
    "last_linear",
    "recorded_input",
    "repeatable",
    "seeded",
]

CPU_BLOCK, GPU_BLOCK = 512, 4096
"""Examples that go through the model at once where nothing is trained."""


class TorchEngine(Engine):
    """Any module, on any device; how it is trained is left to the engines derived from it."""

    def __init__(self, model: nn.Module, dataset: Dataset, *, threads: int, device: torch.device) -> None:
        super().__init__(model, dataset, threads=threads if device.type == "cpu" else 1)
        self._device = device
        self._block = CPU_BLOCK if device.type == "cpu" else GPU_BLOCK
        self._evaluators = Workers(lambda: copy.deepcopy(model).to(device).eval(), self._threads)
        self._resident: dict[Part, ResidentExamples] = {
            "train": ResidentExamples(dataset, dataset.train, device),
            "test": ResidentExamples(dataset, dataset.test, device),
        }

    def _outcomes(
        self, weights: Weights, part: Part, indices: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        losses = np.empty(len(indices), np.float32)
        predictions = np.empty(len(indices), np.int64)

        def judge(module: nn.Module, start: int) -> None:
            own = slice(start, min(start + self._block, len(indices)))
            self._layout.load(module, weights.parameters, weights.buffers)
            with torch.inference_mode():
                features, labels = self._batch(part, indices[own])
                logits = self._logits(module, features)
                losses[own] = F.cross_entropy(logits, labels, reduction="none").cpu().numpy()
                predictions[own] = logits.argmax(dim=1).cpu().numpy()

        collections.deque(self._evaluators.map(judge, range(0, len(indices), self._block)), maxlen=0)
        return losses, predictions

    def _squared_gradients(
        self, parameters: torch.Tensor, buffers: torch.Tensor, groups: Sequence[NDArray[np.int64]]
    ) -> NDArray[np.float64]:
        def row(module: nn.Module, model: int) -> list[float]:
            self._layout.load(module, parameters[model], buffers[model])
            return [self._squared_gradient(module, group) for group in groups]

        return np.array(list(self._evaluators.map(row, range(len(parameters)))))

    def _squared_gradient(self, module: nn.Module, indices: NDArray[np.int64]) -> float:
        """Of the mean loss over training examples."""
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        sums = [torch.zeros_like(parameter) for parameter in trained]
        for start in range(0, len(indices), self._block):
            features, labels = self._batch("train", indices[start : start + self._block])
            loss = F.cross_entropy(module(features), labels, reduction="sum")
            found = torch.autograd.grad(loss, trained, materialize_grads=True)
            for total, gradient in zip(sums, found, strict=True):
                total += gradient
        return float(sum((total.double() / len(indices)).square().mean() for total in sums))

    def _logits(self, module: nn.Module, features: torch.Tensor) -> torch.Tensor:
        """What a module in evaluation says of some examples."""
        return module(features)  # type: ignore[no-any-return]  # what it returns was checked at the start

    def _batch(self, part: Part, indices: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        return self._resident[part].batch(torch.from_numpy(indices).to(self._device))


def batch_loss(
    logits: torch.Tensor, labels: torch.Tensor, class_weights: torch.Tensor | None
) -> torch.Tensor:
    """Mean over the batch of the cross-entropy, weighted by class where there are weights."""
    if class_weights is None:
        return F.cross_entropy(logits, labels)
    return (F.cross_entropy(logits, labels, reduction="none") * class_weights[labels]).mean()


def class_weights_of(rule: LocalRule, client: int, device: torch.device) -> torch.Tensor | None:
    """A client's class weights."""
    weights = rule.class_weights
    return weights if weights is None else (weights if weights.ndim == 1 else weights[client]).to(device)


@contextlib.contextmanager
def explained(client: int, size: int) -> Iterator[None]:
    """Say on which batch a model failed (BatchNorm takes no batch of one, for instance)."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InvalidArgumentError(
            f"the model fails on a batch of {size} of the plan's client {client}: {reason}"
        ) from error


def client_seed(plan: Plan, client: int) -> int:
    """Seed of a client's dropout: a function of its batches, so of the run's seed and the round, of nobody else."""
    steps = int(np.count_nonzero(plan.sizes[client]))
    digest = hashlib.blake2b(digest_size=8)
    for size, row in zip(plan.sizes[client, :steps], plan.indices[client, :steps], strict=True):
        digest.update(row[:size].astype("<i8").tobytes())
    return int.from_bytes(digest.digest(), "little") >> 1


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed PyTorch's generators for a while; they go on afterwards as if nothing had been drawn."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


@contextlib.contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """On a GPU, let cuDNN take algorithms that give the same bits every time, for a while."""
    if device.type != "cuda":
        yield
        return
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before


def last_linear(module: nn.Module) -> nn.Linear:
    """The linear layer registered last, whose input counts as the activations before the last layer."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise InvalidArgumentError(
            "model has no linear layer, so it has no activations before the last one; take a rule without a penalty"
        )
    return layers[-1]


@contextlib.contextmanager
def recorded_input(layer: nn.Module) -> Iterator[list[torch.Tensor]]:
    """A list that holds the layer's input of its latest call."""
    latest: list[torch.Tensor] = []

    def record(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        latest[:] = inputs[:1]

    handle = layer.register_forward_pre_hook(record)
    try:
        yield latest
    finally:
        handle.remove()
