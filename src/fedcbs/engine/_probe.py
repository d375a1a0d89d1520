"""What a module does when it is trained on a batch, seen by trying it: this decides how the generic engine trains it."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, final

import torch
import torch.nn.functional as F  # noqa: N812  # PyTorch's own name for it
from torch import nn
from torch.overrides import TorchFunctionMode

__all__ = ["Probe", "ReshapingViews", "probe"]


@final
@dataclasses.dataclass(frozen=True)
class Probe:
    """What was seen.

    Parameters
    ----------
    random
        It drew from PyTorch's generator, as dropout does.
    convolves
        It called a convolution.
    channels_last
        It convolved images, and takes them with their channels innermost.
    views
        It does so only where views copy.
    mixes
        It has buffers, as BatchNorm has, which a step may change.
    """

    random: bool
    convolves: bool
    channels_last: bool
    views: bool
    mixes: bool


def probe(module: nn.Module, features: torch.Tensor, labels: torch.Tensor) -> Probe:
    """Train a copy of a module on a batch, a step in each memory format; leave the generators as they were."""
    devices = [features.device] if features.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        before = _generator_states(features.device)
        with _Calls() as calls:
            _step(copy.deepcopy(module), features, labels)
        random = any(
            not torch.equal(one, other)
            for one, other in zip(before, _generator_states(features.device), strict=True)
        )
        plainly = calls.images and _takes_channels_last(module, features, labels, contextlib.nullcontext())
        views = (
            calls.images and not plainly and _takes_channels_last(module, features, labels, ReshapingViews())
        )
    mixes = any(True for _ in module.buffers())
    return Probe(random, calls.convolutions > 0, plainly or views, views, mixes)


@final
class ReshapingViews(TorchFunctionMode):
    """`x.view(n, -1)` copies where it must, so that a model written for one memory format works in another."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Replace view by reshape; leave all else alone."""
        if func is torch.Tensor.view and args[1:] and not isinstance(args[1], torch.dtype):
            func = torch.Tensor.reshape
        return func(*args, **(kwargs or {}))


@final
class _Calls(TorchFunctionMode):
    """Counts the convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = 0
        self.images = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Count, then do."""
        name = getattr(func, "__name__", "")
        if name.startswith("conv"):
            self.convolutions += 1
            self.images = self.images or name == "conv2d"
        return func(*args, **(kwargs or {}))


def _takes_channels_last(
    module: nn.Module,
    features: torch.Tensor,
    labels: torch.Tensor,
    mode: contextlib.AbstractContextManager[Any],
) -> bool:
    if features.ndim != 4:
        return False
    try:
        with mode:
            _step(copy.deepcopy(module), features.contiguous(memory_format=torch.channels_last), labels)
    except RuntimeError:
        return False
    return True


def _step(module: nn.Module, features: torch.Tensor, labels: torch.Tensor) -> None:
    module.train()
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    torch.autograd.grad(F.cross_entropy(module(features), labels), trained, materialize_grads=True)


def _generator_states(device: torch.device) -> list[torch.Tensor]:
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return states
