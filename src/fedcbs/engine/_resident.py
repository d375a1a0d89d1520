"""A dataset's examples as tensors that stay where the work is, normalised batch by batch."""

from __future__ import annotations

import warnings
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs.data import Dataset, Examples
from fedcbs.errors import InvalidArgumentError

__all__ = ["ResidentExamples", "normalisation"]


@final
class ResidentExamples:
    """Examples of one part, sharing the dataset's memory on the CPU, copied once to another device.

    Parameters
    ----------
    dataset
        Whose mean and std apply.
    examples
        Its part.
    device
        Where the tensors stay.
    """

    def __init__(self, dataset: Dataset, examples: Examples, device: torch.device) -> None:
        scale, shift = normalisation(dataset)
        self._features = _shared(examples.features).to(device)
        self._labels = _shared(examples.labels).to(device)
        self._shape = examples.shape
        broadcast = (-1,) + (1,) * (len(self._shape) - 1) if len(scale) > 1 else (1,)
        self._scale = torch.from_numpy(scale).view(broadcast).to(device)
        self._shift = torch.from_numpy(shift).view(broadcast).to(device)
        self._as_is = bool((scale == 1).all() and (shift == 0).all())

    def batch(self, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalised features and labels of some examples; `indices` may have any shape."""
        flat = indices.reshape(-1)
        features = self._features.index_select(0, flat).view(*indices.shape, *self._shape)
        labels = self._labels.index_select(0, flat).view(indices.shape)
        if self._as_is and features.dtype == torch.float32:
            return features, labels
        return torch.addcmul(self._shift, features.float(), self._scale), labels


def normalisation(dataset: Dataset) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scale and shift a channel, such that the model sees ``scale * stored + shift``."""
    mean, std = np.asarray(dataset.mean, np.float64), np.asarray(dataset.std, np.float64)
    channels = dataset.train.shape[0] if len(dataset.train.shape) == 3 else 1
    if mean.shape != std.shape or mean.shape not in ((1,), (channels,)):
        raise InvalidArgumentError(
            f"mean has {mean.size} numbers and std {std.size}; each must have 1 or {channels}, one a channel"
        )
    if not (std > 0).all():
        raise InvalidArgumentError(f"std={dataset.std} must be above 0")
    unit = 255.0 if dataset.train.features.dtype == np.uint8 else 1.0
    return (1 / (unit * std)).astype(np.float32), (-mean / std).astype(np.float32)


def _shared(array: NDArray[np.generic]) -> torch.Tensor:
    """A tensor on the array's memory; nothing here writes to it, so a read-only array is as good."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        return torch.from_numpy(np.ascontiguousarray(array))
