"""Reading a module as the sequence of layers that the kernel knows, or saying what it is that it does not know."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import final

from torch import nn

from fedcbs.engine._trace import UnsupportedModelError, View, chain

__all__ = ["ConvLayer", "DenseLayer", "read_sequence"]


@final
@dataclasses.dataclass
class ConvLayer:
    """A convolution of stride 1, with ReLU and max pooling after it or not. Fields as in the kernel's `Conv`, and its place in the vector."""

    channels: int
    height: int
    width: int
    outputs: int
    kernel: tuple[int, int]
    padding: tuple[int, int]
    bias: bool
    relu: bool = False
    pool: tuple[int, int] = (1, 1)
    place: int = 0

    def code(self) -> list[int]:
        """The layer as the kernel's numbers."""
        sizes = [self.channels, self.height, self.width, self.outputs, *self.kernel, *self.padding]
        return [0, self.place, *sizes, self.bias, self.relu, *self.pool]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of its output for one example."""
        sides = zip((self.height, self.width), self.kernel, self.padding, self.pool, strict=True)
        height, width = ((side + 2 * padding - kernel + 1) // pool for side, kernel, padding, pool in sides)
        return self.outputs, height, width


@final
@dataclasses.dataclass
class DenseLayer:
    """A fully connected layer, with ReLU after it or not. Fields as in the kernel's `Dense`, and its place in the vector."""

    inputs: int
    outputs: int
    bias: bool
    relu: bool = False
    place: int = 0

    def code(self) -> list[int]:
        """The layer as the kernel's numbers."""
        return [1, self.place, self.inputs, self.outputs, self.bias, self.relu, *[0] * 8]


Layer = ConvLayer | DenseLayer


def read_sequence(model: nn.Module, shape: tuple[int, ...]) -> list[Layer]:
    """Return the model's layers: convolutions, then fully connected ones, the last of them without ReLU."""
    layers: list[Layer] = []
    places = _places(model)
    seen: set[int] = set()
    for name, module in chain(model):
        before = len(layers)
        shape = _add(layers, module, shape)
        if len(layers) > before:
            layers[-1].place = places[f"{name}.weight"]
            seen |= {id(parameter) for parameter in model.get_submodule(name).parameters()}
    if not layers or not isinstance(layers[-1], DenseLayer) or layers[-1].relu or len(shape) != 1:
        raise UnsupportedModelError("its last layer is not a linear one")
    _check_parameters(model, layers, seen)
    return layers


def _places(model: nn.Module) -> dict[str, int]:
    """Where each parameter begins in the flat vector; under each of its names."""
    starts: dict[int, int] = {}
    size = 0
    for parameter in model.parameters():
        starts[id(parameter)] = size
        size += parameter.numel()
    return {name: starts[id(each)] for name, each in model.named_parameters(remove_duplicate=False)}


def _add(layers: list[Layer], module: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Append what a module does; return the shape after it. Subclasses may do anything, so exact types count."""
    last = layers[-1] if layers else None
    kind = type(module)
    if kind is nn.Identity or (kind is nn.Dropout and module.p == 0):
        return shape
    if (
        isinstance(module, nn.Flatten)
        and kind is nn.Flatten
        and (module.start_dim, module.end_dim) == (1, -1)
    ):
        return (math.prod(shape),)
    if isinstance(module, View) and module.fits(shape):
        return (math.prod(shape),)
    if isinstance(module, nn.Linear) and kind is nn.Linear and len(shape) == 1:
        layers.append(DenseLayer(module.in_features, module.out_features, module.bias is not None))
        return (module.out_features,)
    if kind is nn.ReLU and last is not None and not (isinstance(last, ConvLayer) and len(shape) == 1):
        last.relu = True
        return shape
    if isinstance(module, nn.Conv2d) and kind is nn.Conv2d:
        return _add_convolution(layers, module, shape)
    if (
        isinstance(module, nn.MaxPool2d)
        and kind is nn.MaxPool2d
        and isinstance(last, ConvLayer)
        and len(shape) == 3
    ):
        return _pool(last, module)
    raise UnsupportedModelError(f"it has a {kind.__name__}, which the kernel cannot carry there")


def _add_convolution(layers: list[Layer], module: nn.Conv2d, shape: tuple[int, ...]) -> tuple[int, ...]:
    padding = (0, 0) if module.padding == "valid" else module.padding
    plain = (module.stride, module.dilation, module.groups) == ((1, 1), (1, 1), 1)
    if isinstance(padding, str) and all(side % 2 for side in module.kernel_size):
        padding = tuple(side // 2 for side in module.kernel_size)
    if not plain or isinstance(padding, str) or module.padding_mode != "zeros" or len(shape) != 3:
        raise UnsupportedModelError(f"it has {module}; the kernel has stride 1, one group and zero padding")
    layer = ConvLayer(
        *(*shape, module.out_channels),
        kernel=(module.kernel_size[0], module.kernel_size[1]),
        padding=(int(padding[0]), int(padding[1])),
        bias=module.bias is not None,
    )
    if layers and isinstance(layers[-1], DenseLayer):
        raise UnsupportedModelError(f"it has {module} after a linear one")
    layers.append(layer)
    return layer.shape


def _pool(last: ConvLayer, module: nn.MaxPool2d) -> tuple[int, ...]:
    window, stride = _pair(module.kernel_size), _pair(module.stride)
    plain = stride == window and _pair(module.padding) == (0, 0) and _pair(module.dilation) == (1, 1)
    if (
        not plain
        or module.ceil_mode
        or module.return_indices
        or last.pool != (1, 1)
        or math.prod(window) > 250
    ):
        raise UnsupportedModelError(f"it has {module}; the kernel pools by windows side by side, once")
    last.pool = window
    return last.shape


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _check_parameters(model: nn.Module, layers: Sequence[Layer], seen: set[int]) -> None:
    parameters = list(model.parameters())
    if not all(parameter.requires_grad for parameter in parameters):
        raise UnsupportedModelError("some of its parameters are frozen")
    if {id(parameter) for parameter in parameters} != seen:
        raise UnsupportedModelError("it has parameters that belong to no layer of the chain")
    if len(parameters) != sum(1 + layer.bias for layer in layers):
        raise UnsupportedModelError("layers share parameters")
    if any(True for _ in model.buffers()):
        raise UnsupportedModelError("it has buffers")
