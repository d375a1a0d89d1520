"""Measures of class imbalance of a cohort, from label counts or from a Gram matrix.

QCID, the quadratic class-imbalance degree of Zhang et al. (Fed-CBS, ICML 2023, section 3.1), is the squared distance of
the cohort's pooled label shares from uniform: ``sum_b (share_b - 1/B)**2``. With the Gram matrix ``S`` of label counts
and the sizes ``q`` the same number is ``sum S[C, C] / sum(q[C])**2 - 1/B``, so nobody's label counts are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError
from fedcbs.imbalance._gram import Gram

__all__ = ["kl_divergence", "label_shares", "qcid", "qcid_from_gram", "qcid_of_pooled"]


def label_shares(label_counts: ArrayLike, cohort: ArrayLike | None = None) -> NDArray[np.float64]:
    """Share of each class in the pooled data of a cohort (of everybody, where none is given).

    >>> label_shares([[30, 10], [0, 40]], cohort=[0, 1])
    array([0.375, 0.625])
    """
    pooled = _pooled(label_counts, cohort)
    total = sum(pooled)
    return np.array([count / total for count in pooled])


def qcid(label_counts: ArrayLike, cohort: ArrayLike | None = None) -> float:
    """QCID of a cohort's pooled labels: 0 is balanced, ``1 - 1/B`` is one class only.

    Computed in whole numbers, so that a balanced cohort gives 0 exactly, at any count below 2**53.

    >>> figure_2 = [[5, 5, 5, 5, 5, 5], [6, 6, 6, 6, 6, 0], [0, 0, 0, 10, 10, 10], [10, 10, 10, 0, 0, 0]]
    >>> qcid(figure_2, cohort=[0, 2, 3])
    0.0
    >>> round(qcid(figure_2, cohort=[0, 1, 2]), 4)
    0.0148
    """
    return qcid_of_pooled(_pooled(label_counts, cohort))


def qcid_of_pooled(pooled: Sequence[int]) -> float:
    """QCID of pooled label counts, which are known to be whole and not all zero.

    >>> qcid_of_pooled([15, 15, 15, 15, 15, 15])
    0.0
    """
    total, num_classes = sum(pooled), len(pooled)
    distance: int = sum((num_classes * count - total) ** 2 for count in pooled)
    return float(distance / (num_classes * total) ** 2)


def qcid_from_gram(gram: Gram, cohort: ArrayLike) -> float:
    """QCID of a cohort from inner products and sizes alone.

    >>> from fedcbs.imbalance import DenseGram
    >>> counts = np.array([[30, 10], [0, 40]])
    >>> gram = DenseGram(counts @ counts.T, num_examples=counts.sum(axis=1), num_classes=2)
    >>> qcid_from_gram(gram, [0, 1]) == qcid(counts, [0, 1])
    True
    """
    members = _checks.client_ids(cohort, "cohort", num_clients=gram.num_clients)
    total = sum(int(size) for size in gram.num_examples[members])
    if total == 0:
        raise InvalidArgumentError(f"cohort={members.tolist()} holds no examples; QCID has no meaning for it")
    inner = sum(int(value) for value in gram.block(members, members).ravel())
    return max(gram.num_classes * inner - total**2, 0) / (gram.num_classes * total**2)


def kl_divergence(label_counts: ArrayLike, cohort: ArrayLike | None = None) -> float:
    """Kullback-Leibler divergence, in nats, of the pooled label shares from uniform: ``KL(shares || uniform)``.

    For comparison with QCID; unlike QCID it cannot be had from a Gram matrix.

    >>> round(kl_divergence([[40, 0], [0, 40]], cohort=[0]), 4)
    0.6931
    """
    shares = label_shares(label_counts, cohort)
    held = shares[shares > 0]
    return max(float(held @ np.log(held)) + math.log(len(shares)), 0.0)


def _pooled(label_counts: ArrayLike, cohort: ArrayLike | None) -> list[int]:
    """Pooled counts of the cohort as Python integers, which neither round nor overflow."""
    counts = _checks.counts_matrix(label_counts)
    if cohort is not None:
        counts = counts[_checks.client_ids(cohort, "cohort", num_clients=len(counts))]
    if len(counts) <= 512:  # 512 numbers up to 2**53 fit in an int64
        pooled = [int(count) for count in counts.sum(axis=0)]
    else:
        high, low = counts >> 26, counts & (2**26 - 1)
        pooled = [(int(h) << 26) + int(lo) for h, lo in zip(high.sum(axis=0), low.sum(axis=0), strict=True)]
    if not any(pooled):
        raise InvalidArgumentError("the cohort holds no examples; choose clients with examples")
    return pooled
