"""Models as Flower carries them, and as flat vectors."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedcbs.flower._errors import WrongAnswerError

__all__ = ["difference", "flat", "is_finite", "moved", "same_form"]


def flat(arrays: ArrayRecord) -> NDArray[np.float64]:
    """All floating-point arrays one after another.

    >>> flat(ArrayRecord([np.ones((2, 1)), np.array([3.0])]))
    array([1., 1., 3.])
    """
    parts = [array.numpy().ravel() for array in arrays.values()]
    floats = [part.astype(np.float64) for part in parts if part.dtype.kind == "f"]
    return np.concatenate(floats) if floats else np.zeros(0)


def difference(trained: ArrayRecord, start: ArrayRecord) -> NDArray[np.float64]:
    """Update from `start` to `trained`, as one flat vector."""
    if not same_form(trained, start):
        raise WrongAnswerError("the trained arrays have other names or shapes than those sent")
    update = flat(trained) - flat(start)
    if not update.size:
        raise WrongAnswerError("the model has no floating-point arrays, so there is no update to compare")
    return update


def moved(start: ArrayRecord, update: NDArray[np.float64]) -> ArrayRecord:
    """Add a flat update to a model.

    >>> moved(ArrayRecord([np.array([1.0, 2.0])]), np.array([0.5, 0.0])).to_numpy_ndarrays()
    [array([1.5, 2. ])]
    """
    arrays, at = {}, 0
    for name, array in start.items():
        value = array.numpy()
        if value.dtype.kind == "f":
            step = update[at : at + value.size].reshape(value.shape)
            value = (value + step).astype(value.dtype)
            at += value.size
        arrays[name] = Array(value)
    return ArrayRecord(arrays)


def same_form(one: ArrayRecord, other: ArrayRecord) -> bool:
    """Whether two models have the same names and shapes, in the same order."""
    return [(name, tuple(array.shape)) for name, array in one.items()] == [
        (name, tuple(array.shape)) for name, array in other.items()
    ]


def is_finite(arrays: ArrayRecord) -> bool:
    """Whether no entry is infinite or not a number."""
    values = (array.numpy() for array in arrays.values())
    return all(bool(np.isfinite(value).all()) for value in values if value.dtype.kind == "f")
