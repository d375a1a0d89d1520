"""Where each parameter and buffer of a module lies in the flat vectors that algorithms work on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import final

import torch
from torch import nn

from fedcbs.engine._work import Weights
from fedcbs.errors import InvalidArgumentError

__all__ = ["Layout"]


@final
@dataclasses.dataclass(frozen=True)
class Layout:
    """Names and shapes of a module's parameters and floating-point buffers, in the order of their vectors.

    Integer buffers (BatchNorm's count of batches) are in no vector: each client starts from the module's own.

    Parameters
    ----------
    parameters, buffers
        Shapes by name.
    trainable
        Names of the parameters that require a gradient; the others never move.
    """

    parameters: Mapping[str, torch.Size]
    buffers: Mapping[str, torch.Size]
    trainable: frozenset[str]

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """The layout of a module, refused where it has nothing to train or is not in float32."""
        parameters = dict(module.named_parameters())
        for name, parameter in parameters.items():
            if parameter.dtype != torch.float32:
                raise InvalidArgumentError(
                    f"model: parameter {name!r} has dtype {parameter.dtype}; convert the model with model.float()"
                )
        trainable = frozenset(name for name, parameter in parameters.items() if parameter.requires_grad)
        if not trainable:
            raise InvalidArgumentError(
                "model has no parameters that require a gradient; there is nothing to train"
            )
        buffers = {name: buffer.shape for name, buffer in _float_buffers(module).items()}
        return cls({name: parameter.shape for name, parameter in parameters.items()}, buffers, trainable)

    @property
    def num_parameters(self) -> int:
        """Length of the vector of parameters."""
        return sum(math.prod(shape) for shape in self.parameters.values())

    @property
    def num_buffers(self) -> int:
        """Length of the vector of buffers."""
        return sum(math.prod(shape) for shape in self.buffers.values())

    def weights(self, module: nn.Module) -> Weights:
        """A copy of a module's weights, on the CPU."""
        parameters = [parameter.detach() for parameter in module.parameters()]
        return Weights(_flat(parameters), _flat(list(_float_buffers(module).values())))

    def load(self, module: nn.Module, parameters: torch.Tensor, buffers: torch.Tensor) -> None:
        """Copy vectors into a module in place."""
        with torch.no_grad():
            for parameter, value in zip(
                module.parameters(), self.split_parameters(parameters).values(), strict=True
            ):
                parameter.copy_(value)
            for buffer, value in zip(
                _float_buffers(module).values(), self.split_buffers(buffers).values(), strict=True
            ):
                buffer.copy_(value)

    def split_parameters(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        """Views of the parameters in vectors: of their shapes, after whatever dimensions come before the last."""
        return _split(vectors, self.parameters)

    def split_buffers(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        """Views of the buffers in vectors."""
        return _split(vectors, self.buffers)

    def trained_mask(self) -> torch.Tensor | None:
        """Mask over the vector of parameters, false at those that never move; None where all do."""
        if len(self.trainable) == len(self.parameters):
            return None
        mask = torch.zeros(self.num_parameters, dtype=torch.bool)
        for name, view in self.split_parameters(mask).items():
            view.fill_(name in self.trainable)
        return mask

    def trained_part(self, vector: torch.Tensor) -> torch.Tensor:
        """Those entries of a vector over all parameters that can move."""
        mask = self.trained_mask()
        return vector if mask is None else vector[mask]


def _float_buffers(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: buffer for name, buffer in module.named_buffers() if buffer.is_floating_point()}


def _flat(tensors: list[torch.Tensor]) -> torch.Tensor:
    if not tensors:
        return torch.empty(0)
    return torch.cat([tensor.detach().reshape(-1).to("cpu", torch.float32) for tensor in tensors])


def _split(vectors: torch.Tensor, shapes: Mapping[str, torch.Size]) -> dict[str, torch.Tensor]:
    leading, start, views = vectors.shape[:-1], 0, {}
    for name, shape in shapes.items():
        size = math.prod(shape)
        views[name] = vectors[..., start : start + size].view(*leading, *shape)
        start += size
    return views
