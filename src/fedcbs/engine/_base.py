"""What every engine offers, and the checks that come before its work, written once."""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedcbs.data import Dataset, Examples
from fedcbs.engine._evaluation import Evaluation
from fedcbs.engine._layout import Layout
from fedcbs.engine._work import LocalRule, Plan, Trained, Weights
from fedcbs.errors import InvalidArgumentError

__all__ = ["Engine", "Part"]

Part = Literal["train", "test"]


class Engine(abc.ABC):
    """Trains and evaluates one model on one dataset. All vectors, in and out, are on the CPU.

    Make one with :func:`make_engine`. Engines differ in speed, and in what they can carry; on the same plan they give
    the same weights up to rounding. One engine gives the same bits every time, with any number of threads.
    """

    name: ClassVar[str]

    def __init__(self, model: nn.Module, dataset: Dataset, *, threads: int) -> None:
        self._model = model
        self._dataset = dataset
        self._layout = Layout.of(model)
        self._threads = threads

    @property
    def threads(self) -> int:
        """Number of threads it works with."""
        return self._threads

    @property
    def num_parameters(self) -> int:
        """Length of a vector of parameters."""
        return self._layout.num_parameters

    @final
    def initial(self) -> Weights:
        """The weights that the model came with."""
        return self._layout.weights(self._model)

    @final
    def train(self, start: Weights, plan: Plan, rule: LocalRule) -> Iterator[Trained]:
        """Train the clients of a plan, each from `start`, over examples of the training part.

        Results come in chunks of clients, in the plan's order. A client without steps keeps `start`; its loss is NaN.
        Models with dropout draw it from a generator that is a function of the client's batches alone.
        """
        self._check_weights(start)
        self._check_plan(plan)
        self._check_rule(rule, plan)
        return self._train(start, plan, rule)

    @final
    def evaluate(
        self, weights: Weights, part: Part = "test", indices: NDArray[np.int64] | None = None
    ) -> Evaluation:
        """Loss and accuracy over a part of the dataset, or over the examples of it that `indices` names."""
        self._check_weights(weights)
        examples = self._examples(part)
        indices = np.arange(len(examples)) if indices is None else self._indices(indices, "indices", part)
        losses, predictions = self._outcomes(weights, part, indices)
        return Evaluation.of(
            losses, predictions, examples.labels[indices], num_classes=self._dataset.num_classes
        )

    @final
    def losses(self, weights: Weights, clients: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
        """Mean loss and mean squared loss over each client's training examples: clients x 2, NaN without examples."""
        self._check_weights(weights)
        groups = [self._indices(each, f"clients[{row}]", "train") for row, each in enumerate(clients)]
        result = np.full((len(groups), 2), np.nan)
        losses, _ = self._outcomes(weights, "train", np.concatenate([np.empty(0, np.int64), *groups]))
        start = 0
        for row, group in enumerate(groups):
            own = losses[start : start + len(group)].astype(np.float64)
            if len(group):
                result[row] = own.mean(), np.square(own).mean()
            start += len(group)
        return result

    @final
    def class_gradients(
        self, parameters: torch.Tensor, buffers: torch.Tensor, examples: Sequence[NDArray[np.int64]]
    ) -> NDArray[np.float64]:
        """How strongly each class's examples pull at each model: models x classes, what Fed-CUCB goes by.

        With d the gradient of the mean cross-entropy over a class's examples, the value is the sum over the model's
        parameter tensors of the mean of d squared. The models are evaluated, not trained: BatchNorm uses its buffers.

        Parameters
        ----------
        parameters, buffers
            One row a model.
        examples
            Training examples of each class, as indices; each class has some.
        """
        if parameters.ndim != 2 or buffers.ndim != 2 or len(parameters) != len(buffers):
            raise InvalidArgumentError(
                f"parameters has shape {tuple(parameters.shape)} and buffers {tuple(buffers.shape)}; each must have one"
                " row a model"
            )
        groups = [self._indices(each, f"examples[{row}]", "train") for row, each in enumerate(examples)]
        for label, group in enumerate(groups):
            if not len(group):
                raise InvalidArgumentError(
                    f"examples[{label}] is empty; the auxiliary set needs examples of each class"
                )
        if not len(parameters) or not groups:
            return np.empty((len(parameters), len(groups)))
        self._check_weights(Weights(parameters[0], buffers[0]))
        return self._squared_gradients(parameters, buffers, groups)

    @final
    def state_dict(self, weights: Weights) -> dict[str, torch.Tensor]:
        """Weights under the model's own names, as `load_state_dict` and safetensors take them."""
        self._check_weights(weights)
        module = copy.deepcopy(self._model)
        self._layout.load(module, weights.parameters, weights.buffers)
        return {
            name: tensor.detach().to("cpu", copy=True).contiguous()
            for name, tensor in module.state_dict().items()
        }

    @abc.abstractmethod
    def _train(self, start: Weights, plan: Plan, rule: LocalRule) -> Iterator[Trained]:
        """Train; all arguments are checked."""

    @abc.abstractmethod
    def _outcomes(
        self, weights: Weights, part: Part, indices: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Loss and predicted class of each example."""

    @abc.abstractmethod
    def _squared_gradients(
        self, parameters: torch.Tensor, buffers: torch.Tensor, groups: Sequence[NDArray[np.int64]]
    ) -> NDArray[np.float64]:
        """The values of `class_gradients`, for at least one model and one group."""

    def _examples(self, part: Part) -> Examples:
        if part not in ("train", "test"):
            raise InvalidArgumentError(f"part={part!r} must be 'train' or 'test'")
        return self._dataset.train if part == "train" else self._dataset.test

    def _indices(self, values: NDArray[np.int64], name: str, part: Part) -> NDArray[np.int64]:
        indices = np.ascontiguousarray(values, dtype=np.int64)
        size = len(self._examples(part))
        if indices.ndim != 1:
            raise InvalidArgumentError(f"{name} has {indices.ndim} dimensions; it must have 1")
        if indices.size and not (indices.min() >= 0 and indices.max() < size):
            wrong = indices[(indices < 0) | (indices >= size)][0]
            raise InvalidArgumentError(
                f"{name} holds {wrong}; the {part} part has examples from 0 to {size - 1}"
            )
        return indices

    def _check_weights(self, weights: Weights) -> None:
        expected = self._layout.num_parameters, self._layout.num_buffers
        for name, size in zip(("parameters", "buffers"), expected, strict=True):
            vector = getattr(weights, name)
            if vector.shape != (size,) or vector.dtype != torch.float32:
                raise InvalidArgumentError(
                    f"{name} has shape {tuple(vector.shape)} and dtype {vector.dtype}; this model needs {size} of float32"
                )

    def _check_plan(self, plan: Plan) -> None:
        width = plan.indices.shape[2]
        if plan.sizes.size and (plan.sizes.min() < 0 or plan.sizes.max() > width):
            raise InvalidArgumentError(
                f"plan.sizes holds {plan.sizes.max()}; a batch has from 0 to {width} examples here"
            )
        used = plan.indices[np.arange(width) < plan.sizes[:, :, None]]
        self._indices(used, "plan.indices", "train")

    def _check_rule(self, rule: LocalRule, plan: Plan) -> None:
        for name in ("learning_rate", "weight_decay", "momentum", "proximal"):
            if not np.isfinite(getattr(rule, name)):
                raise InvalidArgumentError(f"{name}={getattr(rule, name)} must be a finite number")
        if rule.corrections is not None:
            _check_shape(rule.corrections, "corrections", [(plan.num_clients, self.num_parameters)])
        if rule.class_weights is not None:
            classes = self._dataset.num_classes
            _check_shape(rule.class_weights, "class_weights", [(classes,), (plan.num_clients, classes)])


def _check_shape(tensor: torch.Tensor, name: str, shapes: list[tuple[int, ...]]) -> None:
    if tuple(tensor.shape) not in shapes:
        raise InvalidArgumentError(
            f"{name} has shape {tuple(tensor.shape)}; it must have {' or '.join(map(str, shapes))}"
        )
    if tensor.dtype != torch.float32:
        raise InvalidArgumentError(f"{name} has dtype {tensor.dtype}; it must be torch.float32")
