"""What every loader returns: examples decoded once, resident in memory, as plain arrays."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError

__all__ = ["Dataset", "Examples"]


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Features and labels of examples, and who owns each where the dataset has natural owners.

    Parameters
    ----------
    features
        One row an example, of any shape; bytes (images as they were stored) or float32.
    labels
        Class of each example.
    owners
        Natural owner of each example as an index into `owner_names`; None where there are none.
    owner_names
        What the dataset calls its owners.

    Examples
    --------
    >>> examples = Examples(np.zeros((2, 1, 8, 8), np.uint8), np.array([0, 3]))
    >>> len(examples), examples.shape
    (2, (1, 8, 8))
    """

    features: NDArray[np.uint8] | NDArray[np.float32]
    labels: NDArray[np.int64]
    owners: NDArray[np.int64] | None = None
    owner_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.features.dtype not in (np.dtype(np.uint8), np.dtype(np.float32)):
            raise InvalidArgumentError(
                f"features has dtype {self.features.dtype}; it must be uint8 or float32"
            )
        for name in ("labels", "owners"):
            values = getattr(self, name)
            if values is not None and values.shape != (len(self.features),):
                raise InvalidArgumentError(
                    f"{name} has shape {values.shape}; it must have one entry for each of {len(self.features)} examples"
                )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return self.features.shape[1:]

    @property
    def nbytes(self) -> int:
        """Bytes that the features take."""
        return len(self.features) * math.prod(self.shape) * self.features.itemsize


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset to split among clients, and to test on.

    A model sees ``(features - mean) / std`` with one mean and std a channel (the first axis of an example of three
    axes, else all of it); bytes count as numbers from 0 to 1 there.

    Parameters
    ----------
    name
        What it is called in results.
    train, test
        Examples to split among clients, and to evaluate on.
    num_classes
        Number of classes; labels are below it.
    mean, std
        Normalisation, one number a channel.
    class_names
        What the classes are called; may be empty.
    """

    name: str
    train: Examples
    test: Examples
    num_classes: int
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.train.shape != self.test.shape:
            raise InvalidArgumentError(
                f"train has examples of shape {self.train.shape}, test of {self.test.shape}; they must agree"
            )
        for name in ("train", "test"):
            labels = getattr(self, name).labels
            wrong = np.flatnonzero((labels < 0) | (labels >= self.num_classes))
            if wrong.size:
                raise InvalidArgumentError(
                    f"{name}.labels[{wrong[0]}]={labels[wrong[0]]} must be a class from 0 to {self.num_classes - 1}"
                )
