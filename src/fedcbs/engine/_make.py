"""Choosing an engine: the fastest that can carry the model, with a line on why where it is not the fastest."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # PyTorch's own name for it
from torch import nn

from fedcbs import _checks
from fedcbs.data import Dataset
from fedcbs.engine._base import Engine
from fedcbs.engine._compile import CompileError
from fedcbs.engine._generic import GenericEngine
from fedcbs.engine._kernel import KernelEngine
from fedcbs.engine._loop import LoopEngine
from fedcbs.engine._resident import ResidentExamples
from fedcbs.engine._trace import UnsupportedModelError
from fedcbs.errors import InvalidArgumentError, UnknownNameError

__all__ = ["make_engine"]

ENGINES = ("auto", "kernel", "generic", "loop")


def make_engine(
    model: nn.Module,
    dataset: Dataset,
    *,
    engine: str = "auto",
    threads: int | None = None,
    device: str = "cpu",
    note: Callable[[str], None] | None = None,
) -> Engine:
    """Make an engine for a model and a dataset.

    Parameters
    ----------
    model
        Any module that turns a batch of examples into one number a class; it is copied.
    dataset
        What it is trained and evaluated on.
    engine
        ``kernel`` (compiled), ``generic`` (any module), ``loop`` (the reference), or ``auto``, the first of them that
        can carry the model.
    threads
        How many threads work; by default as many as PyTorch uses, at most one a core.
    device
        ``cpu``, ``cuda``, ``cuda:1``, ..., or ``auto``: a GPU if there is one.
    note
        Takes one line where the choice is not the fastest engine; by default it is logged.

    Examples
    --------
    >>> import numpy as np
    >>> from fedcbs.data import Dataset, Examples
    >>> from fedcbs.models import make_model
    >>> examples = Examples(np.zeros((6, 4), np.float32), np.arange(6) % 3)
    >>> model = make_model("linear", shape=(4,), num_classes=3, seed=0)
    >>> engine = make_engine(model, Dataset("zeros", examples, examples, num_classes=3), engine="loop")
    >>> engine.evaluate(engine.initial()).accuracy
    0.333...
    """
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    threads = _default_threads() if threads is None else _checks.integer(threads, "threads", minimum=1)
    where = _device(device)
    note = note or logging.getLogger("fedcbs").warning
    model = copy.deepcopy(model).cpu()
    _check_model(model, dataset)
    if engine == "loop":
        return LoopEngine(model, dataset, threads=threads, device=where)

    def generic(reason: str = "") -> GenericEngine:
        found = GenericEngine(model, dataset, threads=threads, device=where)
        if line := "; ".join(part for part in (reason, found.remark) if part):
            note(line)
        return found

    if engine == "generic" or (engine == "auto" and where.type != "cpu"):
        return generic()
    try:
        if where.type != "cpu":
            raise UnsupportedModelError(f"it works on the CPU alone, and device={device!r}")
        kernel = KernelEngine(model, dataset, threads=threads, otherwise=generic)
        _check_agreement(kernel, model, dataset)
        return kernel
    except (UnsupportedModelError, CompileError) as error:
        if engine == "kernel":
            raise InvalidArgumentError(
                f"engine='kernel' cannot carry the model: {error}; take 'auto' or 'generic'"
            ) from error
        return generic(f"training with PyTorch and not with the compiled kernel: {error}")


def _default_threads() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, torch.get_num_threads()))


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise InvalidArgumentError(f"device={name!r} is not a device; take 'cpu', 'cuda' or 'auto'") from None
    if device.type not in ("cpu", "cuda"):
        raise InvalidArgumentError(f"device={name!r} is not supported; take 'cpu', 'cuda' or 'auto'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InvalidArgumentError(
            f"device={name!r}: PyTorch sees {torch.cuda.device_count()} GPUs; take 'cpu' or 'auto'"
        )
    return device


def _check_agreement(kernel: KernelEngine, model: nn.Module, dataset: Dataset) -> None:
    """Compare the kernel's losses of a few examples with those of the module itself, in case tracing missed something."""
    few = np.arange(min(8, len(dataset.train)))
    features, labels = ResidentExamples(dataset, dataset.train, torch.device("cpu")).batch(
        torch.from_numpy(few)
    )
    with torch.inference_mode():
        expected = F.cross_entropy(copy.deepcopy(model).train()(features), labels, reduction="none")
    found = kernel.losses(kernel.initial(), [few[at : at + 1] for at in range(len(few))])[:, 0]
    if not np.allclose(found, expected.numpy(), rtol=1e-3, atol=1e-4, equal_nan=True):
        raise UnsupportedModelError("its outputs are not those of the layers that tracing shows")


def _check_model(model: nn.Module, dataset: Dataset) -> None:
    """Send two examples through, so that a model that does not fit is refused before any long work."""
    if not len(dataset.train):
        raise InvalidArgumentError("dataset.train has no examples; there is nothing to train on")
    resident = ResidentExamples(dataset, dataset.train, torch.device("cpu"))
    features, _ = resident.batch(torch.tensor([0, len(dataset.train) - 1]))
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        for training in (False, True):
            try:
                outputs = copy.deepcopy(model).train(training)(features)
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise InvalidArgumentError(
                    f"model cannot take a batch of examples of shape {dataset.train.shape}: {reason}"
                ) from error
            _check_outputs(outputs, dataset.num_classes)


def _check_outputs(outputs: object, num_classes: int) -> None:
    wanted = (2, num_classes)
    if not isinstance(outputs, torch.Tensor) or tuple(outputs.shape) != wanted:
        found = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise InvalidArgumentError(
            f"model turns 2 examples into {found}; it must give shape {wanted}, one number for each of"
            f" {num_classes} classes"
        )
