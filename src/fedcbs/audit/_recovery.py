"""Label counts that an attack took out of a Gram matrix, and whether they are right."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from fedcbs import _random
from fedcbs.imbalance import Gram

__all__ = ["Recovery", "explains"]

_CHECKED_AT_ONCE = 1024
_CHECKED_IN_ALL = 4096
"""Rows compared in full where there are more; the diagonal and the sizes are compared for everybody."""


@dataclasses.dataclass(frozen=True, eq=False)
class Recovery:
    """What an attack found. Its classes have no names: their order is arbitrary.

    Parameters
    ----------
    attack
        ``lattice`` or ``spectral``.
    label_counts
        Clients x classes: estimates, whole numbers where they are exact.
    consistent
        Whether they are whole numbers that give the Gram matrix and the sizes exactly; the attacker can check that.
    unique
        Whether it is proven that no other label counts do, up to the order of the classes. Then they are the truth.
    """

    attack: str
    label_counts: NDArray[np.float64]
    consistent: bool
    unique: bool = False


def explains(label_counts: NDArray[np.float64], gram: Gram) -> bool:
    """Whether whole numbers, none negative, have these inner products and sizes.

    >>> from fedcbs.imbalance import FactorGram
    >>> explains(np.array([[0.0, 3.0], [2.0, 1.0]]), FactorGram([[3, 0], [1, 2]]))
    True
    >>> explains(np.array([[0.0, 3.0], [1.0, 2.0]]), FactorGram([[3, 0], [1, 2]]))
    False
    """
    if (label_counts < 0).any() or (label_counts != np.rint(label_counts)).any():
        return False
    if not np.array_equal(label_counts.sum(axis=1), gram.num_examples.astype(np.float64)):
        return False
    if not np.array_equal(np.einsum("nb,nb->n", label_counts, label_counts), gram.diagonal):
        return False
    everybody = np.arange(gram.num_clients)
    if len(everybody) > _CHECKED_IN_ALL:
        rng = _random.generator("check of a recovery")
        checked = np.sort(rng.choice(everybody, _CHECKED_IN_ALL, replace=False))
    else:
        checked = everybody
    for start in range(0, len(checked), _CHECKED_AT_ONCE):
        some = checked[start : start + _CHECKED_AT_ONCE]
        if not np.array_equal(label_counts[some] @ label_counts[checked].T, gram.block(some, checked)):
            return False
    return True
