"""QCID of a growing cohort, for every candidate at once, in O(N) a step.

With ``B`` classes, cohort ``C`` and candidate ``n``, and all of it whole numbers::

    B * (total + 2 * r[n] + S[n, n]) - (Q + q[n])**2                 total = sum S[C, C]
    ------------------------------------------------  =  QCID        r     = sum of S[:, C]
                  B * (Q + q[n])**2                                  Q     = sum of q[C]

The numerator is exact while it stays below 2**53, so a balanced cohort gives 0 and not 1e-17: the sampler raises QCID to
large negative powers, where that difference decides. Fed-CBS's own form, ``ratio - 1/B``, loses it.
"""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.imbalance._gram import Gram

__all__ = ["BLOCK", "CohortBuilder", "qcid_resolution"]

BLOCK = 2**13
"""Candidates handled at a time: what a step needs of them stays in the processor's cache."""

ROUNDED_RESOLUTION = 2.0**-46
"""QCIDs below this are equal where the numerator outgrows 2**53 and is rounded."""


def qcid_resolution(gram: Gram, largest_cohort: int) -> float:
    """QCIDs of cohorts up to this size that float64 cannot tell from 0; 0 where all arithmetic is exact.

    >>> from fedcbs.imbalance import FactorGram
    >>> qcid_resolution(FactorGram([[250, 0], [0, 250]]), 2)
    0.0
    >>> qcid_resolution(FactorGram([[10**15, 0], [0, 10**15]]), 2) == 2**-46
    True
    """
    top = gram.num_examples.astype(np.float64)
    if largest_cohort < len(top):
        top = np.partition(top, -largest_cohort)[-largest_cohort:]
    largest, single = float(top.sum()), float(top.max(initial=0.0))
    scores = 2 * single * largest + single**2  # of a client beside the largest cohort; removing reads them
    exact = gram.num_classes * max(largest**2, scores) <= _checks.EXACT
    return 0.0 if exact else ROUNDED_RESOLUTION


@final
class CohortBuilder:
    """A cohort that grows and shrinks, and the QCID that each candidate would give it.

    Parameters
    ----------
    gram
        Inner products of the candidates (restrict a larger one first).
    largest_cohort
        How many clients the cohort will hold at most; decides whether the arithmetic is exact.

    Examples
    --------
    >>> from fedcbs.imbalance import FactorGram
    >>> builder = CohortBuilder(FactorGram([[4, 0], [0, 4], [2, 2]]), largest_cohort=2)
    >>> builder.qcid_with_each()
    array([0.5, 0.5, 0. ])
    >>> builder.add(0)
    >>> builder.qcid_with_each()[1:], builder.qcid
    (array([0.   , 0.125]), 0.5)
    """

    def __init__(self, gram: Gram, *, largest_cohort: int) -> None:
        self._gram = gram
        self._num_classes = float(gram.num_classes)
        self._sizes = gram.num_examples.astype(np.float64)
        self._scores = gram.diagonal * self._num_classes  # B * (2 r + diagonal), kept up to date
        self._all_filled = bool(self._sizes.all())
        self._total = 0.0  # B * sum of S over the cohort with itself
        self._size = 0.0
        self.cohort: list[int] = []
        self.resolution = qcid_resolution(gram, largest_cohort)

    @property
    def num_candidates(self) -> int:
        """Number of candidates, members of the cohort included."""
        return len(self._sizes)

    @property
    def qcid(self) -> float:
        """QCID of the cohort as it stands (1 - 1/B while it is empty)."""
        if self._size == 0:
            return 1.0 - 1.0 / self._num_classes
        square = self._size**2
        return max(self._total - square, 0.0) / (self._num_classes * square)

    def add(self, client: int) -> None:
        """Take a candidate into the cohort."""
        self._total += float(self._scores[client])
        self._size += float(self._sizes[client])
        self._add_column(client, 2.0 * self._num_classes)
        self.cohort.append(client)

    def remove(self, client: int) -> None:
        """Put a member back among the candidates."""
        self.cohort.remove(client)
        self._add_column(client, -2.0 * self._num_classes)
        self._total -= float(self._scores[client])
        self._size -= float(self._sizes[client])

    def qcid_with_each(self, start: int = 0, stop: int | None = None) -> NDArray[np.float64]:
        """QCID of the cohort with each candidate of a range added (meaningless for those already in it).

        A cohort without a single example counts as one class only.
        """
        scores, sizes = self._scores[start:stop], self._sizes[start:stop]
        squares = sizes + self._size
        squares *= squares
        qcid = scores + self._total
        qcid -= squares
        squares *= self._num_classes
        if self._size > 0 or self._all_filled:
            qcid /= squares
        else:
            with np.errstate(invalid="ignore"):
                qcid /= squares
            qcid[sizes == 0] = 1.0 - 1.0 / self._num_classes
        if self.resolution:
            np.maximum(qcid, self.resolution, out=qcid)
        return qcid

    def _add_column(self, client: int, scale: float) -> None:
        for start in range(0, len(self._scores), BLOCK):
            self._gram.add_column(client, self._scores[start : start + BLOCK], start=start, scale=scale)
