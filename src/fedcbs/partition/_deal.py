"""From counts to examples: who gets which."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs._checks import counts_matrix, integers
from fedcbs.errors import InvalidArgumentError
from fedcbs.partition._partition import Partition

__all__ = ["check_rng", "deal"]

_SHUFFLED_AT_ONCE = 2**20


def deal(labels: ArrayLike, label_counts: ArrayLike, rng: np.random.Generator) -> Partition:
    """Hand out examples so that every client gets exactly its label counts.

    Which examples of a class a client gets is uniformly random, and so is the order in which a client holds its
    examples: the first part of them is a fair hold-out.

    Parameters
    ----------
    labels
        The class of every example.
    label_counts
        How many examples of each class each client gets.
    rng
        Source of randomness.

    Examples
    --------
    >>> labels = np.array([0, 1, 0, 1, 1])
    >>> partition = deal(labels, [[1, 0], [1, 2]], np.random.default_rng(0))
    >>> partition.label_counts(labels)
    array([[1, 0], [1, 2]])
    """
    check_rng(rng)
    counts = counts_matrix(label_counts)
    classes = integers(labels, "labels", maximum=2**31)
    _check_supply(classes, counts)
    offsets = np.concatenate(([0], np.cumsum(counts.sum(axis=1))))
    # Within a client, class b starts after the client's examples of the classes before b.
    starts = offsets[:-1].copy()
    indices = np.empty(int(offsets[-1]), dtype=np.int64)
    by_class = np.argsort(classes, kind="stable")
    ends = np.cumsum(np.bincount(classes, minlength=counts.shape[1]))
    for label in range(counts.shape[1]):
        wanted = counts[:, label]
        first = int(ends[label - 1]) if label else 0
        examples = rng.permutation(by_class[first : ends[label]])[: wanted.sum()]
        before = np.cumsum(wanted) - wanted
        indices[np.repeat(starts - before, wanted) + np.arange(examples.size)] = examples
        starts += wanted
    _shuffle_within(indices, offsets, rng)
    return Partition(indices, offsets)


def check_rng(rng: object) -> None:
    """Refuse anything but a generator.

    >>> check_rng(0)
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: rng=0 must be a generator; make one with np.random.default_rng(seed)
    """
    if not isinstance(rng, np.random.Generator):
        raise InvalidArgumentError(
            f"rng={rng!r} must be a generator; make one with np.random.default_rng(seed)"
        )


def _check_supply(classes: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    supply = np.bincount(classes, minlength=counts.shape[1])[: counts.shape[1]]
    demand = counts.sum(axis=0, dtype=np.float64)
    short = np.flatnonzero(demand > supply)
    if short.size:
        label = int(short[0])
        raise InvalidArgumentError(
            f"label_counts asks for {demand[label]:.0f} examples of class {label}, but labels has {supply[label]};"
            " draw the counts from the class totals of these labels"
        )


def _shuffle_within(indices: NDArray[np.int64], offsets: NDArray[np.int64], rng: np.random.Generator) -> None:
    """Shuffle each client's stretch, a block of clients at a time to bound the memory."""
    first = 0
    while first < offsets.size - 1:
        reach = np.searchsorted(offsets, offsets[first] + _SHUFFLED_AT_ONCE, side="right") - 1
        last = max(int(reach), first + 1)
        block = indices[offsets[first] : offsets[last]]
        client = np.repeat(np.arange(last - first), np.diff(offsets[first : last + 1]))
        block[:] = block[np.argsort(client + rng.random(block.size), kind="stable")]
        first = last
