"""A test part for data that came without one: the same each time, for the same data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import real
from fedcbs._random import generator
from fedcbs.data._dataset import Examples
from fedcbs.errors import InvalidArgumentError

__all__ = ["FRACTION", "hold_out", "take"]

FRACTION = 0.2
"""Share of the examples that is held out where nothing else is said."""


def hold_out(examples: Examples, fraction: float = FRACTION) -> tuple[Examples, Examples]:
    """Split off a random `fraction` of each class (of each owner, where there are owners) for testing.

    Every class, or owner, of two examples or more keeps one at least on each side.

    >>> examples = Examples(np.zeros((10, 2), np.uint8), np.arange(10) % 2)
    >>> train, test = hold_out(examples, 0.2)
    >>> np.bincount(train.labels).tolist(), np.bincount(test.labels).tolist()
    ([4, 4], [1, 1])
    """
    share = real(fraction, "test", minimum=0, maximum=1, open_minimum=True)
    if share == 1:
        raise InvalidArgumentError("test=1.0 leaves nothing to train on; give a share below 1")
    groups = examples.labels if examples.owners is None else examples.owners
    rng = generator("hold out", len(examples))
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    held = np.zeros(len(examples), dtype=bool)
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        if size > 1:
            wanted = min(max(round(share * int(size)), 1), int(size) - 1)
            held[rng.permutation(order[end - size : end])[:wanted]] = True
    if not held.any():
        raise InvalidArgumentError(
            f"test={fraction}: no class has two examples, so none can be held out; give a test part"
        )
    return take(examples, np.flatnonzero(~held)), take(examples, np.flatnonzero(held))


def take(examples: Examples, indices: NDArray[np.int64]) -> Examples:
    """Return these examples alone.

    >>> take(Examples(np.zeros((3, 2), np.uint8), np.array([4, 5, 6])), np.array([2])).labels
    array([6])
    """
    owners = None if examples.owners is None else examples.owners[indices]
    return Examples(examples.features[indices], examples.labels[indices], owners, examples.owner_names)
