"""Which clients' entries in an opened Gram matrix no label counts can give.

Label counts are whole, not negative, and add up to a size of at most the cap. Hence, for all clients n, m and B classes::

    0 <= q[n] <= cap      q[n]**2 / B <= S[n, n] <= q[n]**2
    0 <= S[n, m] <= q[n] q[m]      S[n, m]**2 <= S[n, n] S[m, m]      S is positive semidefinite of rank at most B

The first line names its client. A pair blames two; who takes part in most such pairs is left out first, until none is
left. A matrix of too high a rank, or with a negative direction, is compared with what most of its clients agree on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["impossible_clients", "impossible_counts", "impossible_sizes"]

TOLERANCE = 1e-7
"""Relative to the larger of the two; float64 leaves 1e-12 or so, and a wrong whole number far more."""
ATTEMPTS = 40


def impossible_counts(label_counts: NDArray[np.int64], max_examples: int) -> dict[int, str]:
    """Return who claims more examples than the cap, or negative ones, with the reason.

    >>> impossible_counts(np.array([[1, 2], [900, 0]]), 500)
    {1: 'it claims 900 examples; the cap is 500'}
    """
    sizes = label_counts.sum(axis=1)
    wrong = np.flatnonzero((sizes > max_examples) | (label_counts < 0).any(axis=1))
    return {int(n): _claim(int(sizes[n]), max_examples) for n in wrong}


def impossible_clients(
    gram: NDArray[np.int64], num_examples: NDArray[np.int64], num_classes: int, max_examples: int
) -> dict[int, str]:
    """Return the clients whose entries are impossible, with the reason.

    >>> counts = np.array([[3, 0], [1, 2], [4, 4]])
    >>> gram = counts @ counts.T
    >>> impossible_clients(gram, counts.sum(axis=1), 2, 100)
    {}
    >>> gram[1, 1] = 99
    >>> impossible_clients(gram, counts.sum(axis=1), 2, 100)
    {1: 'its inner product with itself is 99, which 3 examples in 2 classes cannot give'}
    """
    found = impossible_sizes(gram.diagonal(), num_examples, num_classes, max_examples)
    _by_pairs(gram, num_examples, found)
    stay = np.array([n for n in range(len(gram)) if n not in found], dtype=np.int64)
    for n in _by_rank(gram[np.ix_(stay, stay)].astype(np.float64), num_classes):
        found[int(stay[n])] = "its inner products do not fit those of the others to any label counts"
    return dict(sorted(found.items()))


def _claim(size: int, max_examples: int) -> str:
    if size > max_examples:
        return f"it claims {size} examples; the cap is {max_examples}"
    return "it claims a negative number of examples of a class"


def impossible_sizes(
    diagonal: NDArray[np.int64], sizes: NDArray[np.int64], num_classes: int, max_examples: int
) -> dict[int, str]:
    """Return the clients whose size, or inner product with itself, is impossible, with the reason."""
    found: dict[int, str] = {}
    capped = np.clip(sizes, 0, max_examples)  # squares of what is far outside would overflow
    wrong = (diagonal > capped**2) | (diagonal < 0) | (diagonal < -(-(capped**2) // num_classes))
    for n in np.flatnonzero((sizes != capped) | wrong).tolist():
        if sizes[n] != capped[n]:
            found[n] = _claim(int(sizes[n]), max_examples)
        else:
            found[n] = (
                f"its inner product with itself is {diagonal[n]}, which {sizes[n]} examples in {num_classes} classes cannot give"
            )
    return found


def _by_pairs(gram: NDArray[np.int64], sizes: NDArray[np.int64], found: dict[int, str]) -> None:
    """Blame whoever takes part in most impossible pairs, until no pair is left."""
    stay = np.ones(len(gram), dtype=bool)
    stay[list(found)] = False
    good = np.where(stay, sizes, 0).astype(np.float64)
    root = np.sqrt(np.where(stay, gram.diagonal(), 0).astype(np.float64))
    wrong = gram < 0
    wrong |= gram > np.outer(good, good)
    wrong |= gram > np.outer(root, root) * (1 + TOLERANCE) + TOLERANCE
    wrong |= gram != gram.T
    wrong[~stay] = False
    wrong[:, ~stay] = False
    blame = wrong.sum(axis=1)
    while blame.max(initial=0) > 0:
        n = int(blame.argmax())
        found[n] = f"{blame[n]} of its inner products with others are impossible"
        blame = blame - wrong[n]
        wrong[n] = False
        wrong[:, n] = False
        blame[n] = 0


def _by_rank(gram: NDArray[np.float64], num_classes: int) -> list[int]:
    """Return who does not fit a positive semidefinite matrix of rank at most `num_classes`."""
    if len(gram) == 0 or _misfits(gram, np.arange(len(gram)), num_classes).size == 0:
        return []
    rng = np.random.default_rng(0)
    best: NDArray[np.intp] = np.arange(len(gram))
    for _ in range(ATTEMPTS):
        size = min(len(gram), int(rng.integers(num_classes, 2 * num_classes + 2)))
        sample = rng.choice(len(gram), size, replace=False)
        misfits = _misfits(gram, sample, num_classes)
        if len(misfits) < len(best):
            best = misfits
    return [int(n) for n in best]


def _misfits(gram: NDArray[np.float64], sample: NDArray[np.int64], num_classes: int) -> NDArray[np.intp]:
    """Clients whose rows do not follow from those of the sample, by a Cholesky factorisation with pivots in it."""
    rest = gram.diagonal().copy()
    factor = np.zeros((len(gram), num_classes))
    scale = float(rest.max(initial=1.0))
    for step in range(num_classes):
        pivot = int(sample[rest[sample].argmax()])
        if rest[pivot] <= TOLERANCE * scale:
            break
        column = gram[:, pivot] - factor[:, :step] @ factor[pivot, :step]
        factor[:, step] = column / np.sqrt(rest[pivot])
        rest = rest - factor[:, step] ** 2
    wrong = np.abs(gram - factor @ factor.T) > TOLERANCE * 10 * scale
    blamed: list[int] = []
    blame = wrong.sum(axis=1)
    while blame.max(initial=0) > 0:
        n = int(blame.argmax())
        blamed.append(n)
        blame = blame - wrong[:, n]
        wrong[n] = False
        wrong[:, n] = False
        blame[n] = 0
    return np.array(blamed, dtype=np.intp)
