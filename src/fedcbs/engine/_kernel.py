"""The compiled path: whole local training in C++, for sequences of the layers that most models are made of."""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedcbs.data import Dataset, Examples
from fedcbs.engine._base import Engine, Part
from fedcbs.engine._compile import compile_kernel
from fedcbs.engine._resident import normalisation
from fedcbs.engine._sequence import ConvLayer, read_sequence
from fedcbs.engine._work import LocalRule, Plan, Trained, Weights

__all__ = ["KernelEngine"]

CHUNK_BYTES = 256 << 20
"""Trained weights of a chunk of clients take at most about this much."""
POINTER = ctypes.c_void_p


class _Examples(ctypes.Structure):
    _fields_: ClassVar = [
        ("features", POINTER),
        ("labels", POINTER),
        ("scale", POINTER),
        ("shift", POINTER),
        ("channel_size", ctypes.c_long),
        ("bytes", ctypes.c_int),
    ]


class _Job(ctypes.Structure):
    _fields_: ClassVar = [
        ("examples", _Examples),
        ("threads", ctypes.c_int64),
        ("batch", ctypes.c_int64),
        ("stop", POINTER),
    ]


class _Training(ctypes.Structure):
    _fields_: ClassVar = [
        *((name, ctypes.c_int64) for name in ("clients", "steps", "width")),
        *((name, POINTER) for name in ("indices", "sizes", "order", "start")),
        *((name, ctypes.c_float) for name in ("learning_rate", "weight_decay", "momentum", "proximal")),
        ("corrections", POINTER),
        ("class_weights", POINTER),
        ("class_weights_pitch", ctypes.c_int64),
        ("parameters", POINTER),
        ("losses", POINTER),
    ]


@final
class KernelEngine(Engine):
    """Linear and convolutional layers, ReLU, max pooling and dropout of zero, in sequence, ending in a linear layer.

    Parameters
    ----------
    model, dataset, threads
        As in :func:`make_engine`.
    otherwise
        Makes the engine that takes rules with a penalty.
    target
        For which CPU it is compiled, as a compiler's flag.
    """

    name: ClassVar[str] = "kernel"

    def __init__(
        self,
        model: nn.Module,
        dataset: Dataset,
        *,
        threads: int,
        otherwise: Callable[[], Engine],
        target: str | None = None,
    ) -> None:
        super().__init__(model, dataset, threads=threads)
        layers = read_sequence(model, dataset.train.shape)
        self._library = compile_kernel() if target is None else compile_kernel(target)
        code = np.array([layer.code() for layer in layers], np.int64)
        self._library.fedcbs_open.restype = POINTER
        self._handle = POINTER(self._library.fedcbs_open(_at(code), ctypes.c_int64(len(code))))
        if not self._handle:
            raise MemoryError("no memory for the kernel")
        weakref.finalize(self, self._library.fedcbs_close, self._handle)
        self._batch = 128 if isinstance(layers[0], ConvLayer) else 512
        self._scale, self._shift = normalisation(dataset)
        if isinstance(layers[0], ConvLayer):  # which reads one of each a channel
            channels = dataset.train.shape[0]
            self._scale, self._shift = (np.resize(one, channels) for one in (self._scale, self._shift))
        self._parts = {part: _Resident(self._examples(part)) for part in ("train", "test")}
        self._lock = threading.Lock()
        self._stop = np.zeros(1, np.int32)
        self._otherwise = functools.cache(otherwise)

    def _train(self, start: Weights, plan: Plan, rule: LocalRule) -> Iterator[Trained]:
        if rule.penalty is not None:
            yield from self._otherwise().train(start, plan, rule)
            return
        chunk = max(self._threads, CHUNK_BYTES // (4 * self.num_parameters) // self._threads * self._threads)
        for first in range(0, plan.num_clients, chunk):
            clients = range(first, min(first + chunk, plan.num_clients))
            parameters = torch.empty(len(clients), self.num_parameters)
            losses = np.empty(len(clients))
            self._train_chunk(start, plan, rule, clients, parameters, losses)
            yield Trained(clients, parameters, torch.empty(len(clients), 0), losses)

    def _train_chunk(
        self,
        start: Weights,
        plan: Plan,
        rule: LocalRule,
        clients: range,
        parameters: torch.Tensor,
        losses: NDArray[np.float64],
    ) -> None:
        rows = slice(clients.start, clients.stop)
        sizes = np.ascontiguousarray(plan.sizes[rows], dtype=np.int64)
        indices = np.ascontiguousarray(plan.indices[rows], dtype=np.int64)
        order = np.argsort(-sizes.sum(axis=1), kind="stable").astype(np.int64)
        corrections = None if rule.corrections is None else rule.corrections[rows].contiguous()
        weights = rule.class_weights
        if weights is not None:
            weights = (weights if weights.ndim == 1 else weights[rows]).contiguous()
        given = start.parameters.contiguous()
        training = _Training(
            len(clients), *indices.shape[1:], _at(indices), _at(sizes), _at(order), _at(given),
            rule.learning_rate, rule.weight_decay, rule.momentum, rule.proximal,
            _at(corrections), _at(weights), 0 if weights is None or weights.ndim == 1 else weights.shape[1],
            _at(parameters), _at(losses),
        )  # fmt: skip
        self._call("fedcbs_train", self._job("train", indices.shape[2]), ctypes.byref(training))

    def _outcomes(
        self, weights: Weights, part: Part, indices: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        indices = np.ascontiguousarray(indices)
        losses, predictions = np.empty(len(indices), np.float32), np.empty(len(indices), np.int64)
        given = weights.parameters.contiguous()
        count = ctypes.c_int64(len(indices))
        self._call(
            "fedcbs_outcomes",
            self._job(part, 64),
            _at(given),
            _at(indices),
            count,
            _at(losses),
            _at(predictions),
        )
        return losses, predictions

    def _squared_gradients(
        self,
        parameters: torch.Tensor,
        buffers: torch.Tensor,  # noqa: ARG002  # models of the kernel have none
        groups: Sequence[NDArray[np.int64]],
    ) -> NDArray[np.float64]:
        indices = np.concatenate(groups)
        bounds = np.cumsum([0, *map(len, groups)], dtype=np.int64)
        given, squares = parameters.contiguous(), np.empty((len(parameters), len(groups)))
        models, count = ctypes.c_int64(len(given)), ctypes.c_int64(len(groups))
        job = self._job("train", max(map(len, groups)))
        self._call("fedcbs_squares", job, _at(given), models, _at(indices), _at(bounds), count, _at(squares))
        return squares

    def _job(self, part: Part, width: int) -> _Job:
        resident = self._parts[part]
        examples = _Examples(
            _at(resident.features),
            _at(resident.labels),
            _at(self._scale),
            _at(self._shift),
            0,
            resident.is_bytes,
        )
        examples.channel_size = resident.size // len(self._scale)
        return _Job(examples, self._threads, max(1, min(width, self._batch)), _at(self._stop))

    def _call(self, name: str, job: _Job, *arguments: Any) -> None:
        """Call the kernel in a thread of its own, so that Ctrl-C reaches this one and stops it between two steps."""
        failed: list[int] = []
        finished = threading.Event()

        def call() -> None:
            try:
                failed.append(getattr(self._library, name)(self._handle, ctypes.byref(job), *arguments))
            finally:
                finished.set()

        with self._lock:
            self._stop[0] = 0
            threading.Thread(target=call, name="fedcbs-kernel").start()
            interruption: BaseException | None = None
            while not finished.is_set():
                try:
                    finished.wait()
                except BaseException as error:  # the memory that the kernel writes to must outlast it
                    self._stop[0], interruption = 1, error
        if interruption is not None:
            raise interruption
        if failed != [0]:
            raise MemoryError(f"no memory for a batch of {job.batch} examples on {job.threads} threads")


@final
class _Resident:
    """Examples of a part, contiguous, on the dataset's own memory where it is."""

    def __init__(self, examples: Examples) -> None:
        self.features = np.ascontiguousarray(examples.features)
        self.labels = np.ascontiguousarray(examples.labels, dtype=np.int64)
        self.size = int(np.prod(examples.shape))
        self.is_bytes = self.features.dtype == np.uint8


def _at(array: NDArray[Any] | torch.Tensor | None) -> Any:
    """Address of an array's memory. The caller keeps the array alive."""
    if array is None:
        return POINTER(None)
    return POINTER(array.data_ptr() if isinstance(array, torch.Tensor) else array.ctypes.data)
