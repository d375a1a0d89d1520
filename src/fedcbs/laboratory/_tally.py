"""What is written down while selectors run: a few numbers a round, and one histogram a seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcbs.imbalance import label_shares, qcid
from fedcbs.laboratory._participation import gini
from fedcbs.laboratory._results import SelectorResult

__all__ = ["Tally"]


class Tally:
    """The records of one selector, filled seed by seed and round by round.

    Parameters
    ----------
    num_seeds, num_rounds, num_classes
        Shapes of the records.
    """

    def __init__(self, num_seeds: int, num_rounds: int, num_classes: int) -> None:
        shape = (num_seeds, num_rounds)
        self._qcid = np.full(shape, np.nan)
        self._seconds = np.full(shape, np.nan)
        self._cohort_sizes = np.zeros(shape, dtype=np.int64)
        self._coverage, self._gini = np.zeros(num_seeds), np.zeros(num_seeds)
        self._fewest = np.zeros(num_seeds, dtype=np.int64)
        self._most = np.zeros(num_seeds, dtype=np.int64)
        self._histogram = np.zeros((num_seeds, num_rounds + 1), dtype=np.int64)
        self._shares = np.zeros((num_seeds, num_classes))

    def round(self, place: tuple[int, int], counts_of_cohort: NDArray[np.int64], seconds: float) -> None:
        """Write down a cohort, given by its members' label counts; `place` is (number of the seed, of the round)."""
        self._qcid[place] = qcid(counts_of_cohort)
        self._seconds[place] = seconds
        self._cohort_sizes[place] = len(counts_of_cohort)
        self._shares[place[0]] = label_shares(counts_of_cohort)

    def seed(self, number: int, times_selected: NDArray[np.int64]) -> None:
        """Write down how often each client with examples was selected in all rounds of a seed."""
        histogram = np.bincount(times_selected, minlength=self._histogram.shape[1])
        self._histogram[number] = histogram
        self._coverage[number] = histogram[1:].sum() / len(times_selected)
        self._gini[number] = gini(histogram)
        self._fewest[number], self._most[number] = times_selected.min(), times_selected.max()

    def result(self) -> SelectorResult:
        """Return what was written down."""
        return SelectorResult(
            qcid=self._qcid,
            cohort_sizes=self._cohort_sizes,
            seconds=self._seconds,
            coverage=self._coverage,
            gini=self._gini,
            fewest_selections=self._fewest,
            most_selections=self._most,
            histogram=self._histogram,
            label_shares=self._shares,
        )
