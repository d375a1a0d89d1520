"""The paper's models, and a linear one: plain sequences of layers, so that every engine can carry them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from torch import nn

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError

__all__ = ["BUILTIN", "SUMMARIES"]

Shape = tuple[int, ...]


def linear(shape: Shape, num_classes: int) -> nn.Module:
    """Softmax regression."""
    return _stack({"flatten": nn.Flatten(), "output": nn.Linear(math.prod(shape), num_classes)})


def mlp(shape: Shape, num_classes: int, *, hidden: int | Sequence[int] = 64) -> nn.Module:
    """Fully connected layers with ReLU between; one hidden layer of 64 in the paper."""
    layers: dict[str, nn.Module] = {"flatten": nn.Flatten()}
    _dense(layers, math.prod(shape), _sizes(hidden, "hidden"), num_classes)
    return _stack(layers)


def cnn(
    shape: Shape,
    num_classes: int,
    *,
    channels: int | Sequence[int] = (6, 16),
    hidden: int | Sequence[int] = (120, 84),
    kernel: int = 5,
) -> nn.Module:
    """LeNet-5 with ReLU and max pooling, the paper's model for CIFAR-10."""
    return _convolutional("cnn", shape, num_classes, channels, hidden, kernel, padding=0)


def leaf_cnn(
    shape: Shape,
    num_classes: int,
    *,
    channels: int | Sequence[int] = (32, 64),
    hidden: int | Sequence[int] = 2048,
    kernel: int = 5,
) -> nn.Module:
    """LEAF's model for FEMNIST (6.6 million parameters): convolutions that keep the size, and a wide layer."""
    kernel = _checks.integer(kernel, "kernel", minimum=1)
    if kernel % 2 == 0:
        raise InvalidArgumentError(f"kernel={kernel} must be odd in 'leaf-cnn', whose padding keeps the size")
    return _convolutional("leaf-cnn", shape, num_classes, channels, hidden, kernel, padding=kernel // 2)


def _convolutional(
    name: str,
    shape: Shape,
    num_classes: int,
    channels: int | Sequence[int],
    hidden: int | Sequence[int],
    kernel: int,
    *,
    padding: int,
) -> nn.Module:
    """Blocks of convolution, ReLU and 2 x 2 pooling, then fully connected layers."""
    if len(shape) != 3:
        raise InvalidArgumentError(
            f"shape={shape} is no image of channels x height x width, which {name!r} needs; take 'mlp'"
        )
    kernel = _checks.integer(kernel, "kernel", minimum=1)
    inputs, height, width = shape
    layers: dict[str, nn.Module] = {}
    for number, outputs in enumerate(_sizes(channels, "channels"), start=1):
        height, width = ((side + 2 * padding - kernel + 1) // 2 for side in (height, width))
        if min(height, width) < 1:
            raise InvalidArgumentError(f"shape={shape} is too small for {name!r}; take 'mlp'")
        layers[f"conv{number}"] = nn.Conv2d(inputs, outputs, kernel, padding=padding)
        layers[f"relu{number}"] = nn.ReLU()
        layers[f"pool{number}"] = nn.MaxPool2d(2)
        inputs = outputs
    layers["flatten"] = nn.Flatten()
    _dense(layers, inputs * height * width, _sizes(hidden, "hidden"), num_classes)
    return _stack(layers)


def _dense(layers: dict[str, nn.Module], inputs: int, hidden: Sequence[int], num_classes: int) -> None:
    for number, outputs in enumerate(hidden, start=1):
        layers[f"hidden{number}"] = nn.Linear(inputs, outputs)
        layers[f"hidden{number}_relu"] = nn.ReLU()
        inputs = outputs
    layers["output"] = nn.Linear(inputs, num_classes)


def _sizes(value: int | Sequence[int], name: str) -> tuple[int, ...]:
    values = value if isinstance(value, Sequence) else (value,)
    return tuple(_checks.integer(size, name, minimum=1) for size in values)


def _stack(layers: Mapping[str, nn.Module]) -> nn.Module:
    return nn.Sequential(OrderedDict(layers))


BUILTIN: Mapping[str, Callable[..., nn.Module]] = {
    "linear": linear,
    "mlp": mlp,
    "cnn": cnn,
    "leaf-cnn": leaf_cnn,
}

SUMMARIES: Mapping[str, str] = {
    "linear": "softmax regression",
    "mlp": "one hidden layer of 64 with ReLU (option hidden)",
    "cnn": "two 5 x 5 convolutions with pooling, 6 and 16 channels, then 120 - 84 - classes; the paper's for CIFAR-10",
    "leaf-cnn": "LEAF's for FEMNIST: 32 and 64 channels, then 2048 - classes; 6.6 million parameters",
}
