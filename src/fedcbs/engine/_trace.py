"""A module's forward as a chain of standard layers, whatever style it is written in, found by tracing it.

A class with layers in attributes and functions between them, as in PyTorch's tutorial, is the same chain as a
`Sequential` of those layers; tracing with `torch.fx` shows it. What is no chain is refused with the reason.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # PyTorch's own name for it
from torch import fx, nn

__all__ = ["UnsupportedModelError", "chain"]

RELUS = {F.relu, torch.relu, torch.relu_, F.relu_, "relu", "relu_"}
FLATTENS = {torch.flatten, "flatten"}
VIEWS = {"view", "reshape", torch.reshape}
POOLS = {F.max_pool2d, torch.max_pool2d}
SIZES = {"size", getattr, operator.getitem}


class UnsupportedModelError(Exception):
    """The kernel cannot carry a model; says which part of it."""


def chain(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers that a batch goes through one after another, each with its name in the model ('' for functions)."""
    for module in model.modules():
        if _hooked(module):
            raise UnsupportedModelError(f"a hook is registered on its {type(module).__name__}")
    layers = _traced(model, training=True)
    if [_described(each) for each in layers] != [_described(each) for each in _traced(model, training=False)]:
        raise UnsupportedModelError("its forward does one thing in training and another in evaluation")
    return layers


def _hooked(module: nn.Module) -> bool:
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name, None) for name in names)


def _described(layer: tuple[str, nn.Module]) -> str:
    return f"{layer[0]} {layer[1]}"


def _traced(model: nn.Module, *, training: bool) -> list[tuple[str, nn.Module]]:
    model = copy.deepcopy(model).train(training)
    try:
        traced = fx.symbolic_trace(model)
    except Exception as error:  # whatever the module's own code does with a stand-in for its input
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UnsupportedModelError(f"its forward cannot be traced ({reason})") from error
    return list(_layers(traced))


def _layers(traced: fx.GraphModule) -> Iterator[tuple[str, nn.Module]]:
    modules = dict(traced.named_modules())
    current: fx.Node | None = None
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            if current is not None:
                raise UnsupportedModelError("its forward takes more than one argument")
            current = node
        elif node.op == "output":
            if node.args != (current,):
                raise UnsupportedModelError("its forward returns something else than its last layer's output")
        elif node.target in SIZES:
            continue  # the batch's size, which a view may use
        else:
            if not node.args or node.args[0] is not current or current in node.args[1:]:
                raise UnsupportedModelError(f"its layers are no chain ({node.name} joins in)")
            yield _layer(node, modules)
            current = node


def _layer(node: fx.Node, modules: dict[str, Any]) -> tuple[str, nn.Module]:
    """The layer that a node of the graph is."""
    if node.op == "call_module" and len(node.args) == 1 and not node.kwargs:
        return str(node.target), modules[str(node.target)]
    target, arguments = node.target, node.args[1:]
    if target in RELUS:
        return "", nn.ReLU()
    if target in POOLS:
        return "", nn.MaxPool2d(*arguments, **node.kwargs)  # type: ignore[arg-type]
    if target in FLATTENS and not node.kwargs:
        return "", nn.Flatten(*(arguments or (0,)))  # type: ignore[arg-type]
    if target in VIEWS and not node.kwargs:
        return "", View(arguments)
    if target is F.dropout:
        return "", nn.Dropout(_dropped(node))
    raise UnsupportedModelError(f"it calls {node.name}, which the kernel does not know")


def _dropped(node: fx.Node) -> float:
    """Rate of a call of F.dropout."""
    given = dict(zip(("p", "training"), node.args[1:], strict=False)) | node.kwargs
    rate = given.get("p", 0.5)
    if not isinstance(rate, int | float):
        raise UnsupportedModelError("its dropout's rate is computed")
    return float(rate) if given.get("training", True) else 0.0


class View(nn.Module):
    """A view as rows, one an example; `fits` says whether it is one."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        super().__init__()
        sizes = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], tuple | list) else arguments
        self.sizes = tuple(sizes)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether examples of a shape become one row each."""
        if len(self.sizes) != 2:
            return False
        first, second = self.sizes
        rows = first == -1 or (isinstance(first, fx.Node) and _is_batch_size(first))
        return rows and (second == math.prod(shape) or (second == -1 and first != -1))

    def extra_repr(self) -> str:
        """Its sizes."""
        return str(self.sizes)


def _is_batch_size(node: fx.Node) -> bool:
    """Whether a node is x.size(0) or x.shape[0]."""
    if node.op == "call_method" and node.target == "size":
        return node.args[1:] == (0,) or node.kwargs == {"dim": 0}
    if node.target is operator.getitem and node.args[1] == 0 and isinstance(node.args[0], fx.Node):
        source = node.args[0]
        return source.target == "size" or (source.target is getattr and source.args[1] == "shape")
    return False
