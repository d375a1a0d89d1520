"""What the laboratory found."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import UnknownNameError

__all__ = ["BalanceResult", "SelectorResult"]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class SelectorResult:
    """One selector over all seeds and rounds. A round in which nobody was available holds NaN, or 0 clients.

    Parameters
    ----------
    qcid
        QCID of each cohort, seeds x rounds.
    cohort_sizes
        Clients in each cohort, seeds x rounds.
    seconds
        Time that each selection took, seeds x rounds.
    coverage
        Share of the clients with examples that were ever selected, for each seed.
    gini
        Gini coefficient of the clients' times selected, for each seed.
    fewest_selections, most_selections
        Times that the least and the most selected client was selected, for each seed.
    histogram
        At [s, k], how many clients were selected k times with seed s.
    label_shares
        Share of each class in the pooled data of the last cohort, seeds x classes.
    """

    qcid: NDArray[np.float64]
    cohort_sizes: NDArray[np.int64]
    seconds: NDArray[np.float64]
    coverage: NDArray[np.float64]
    gini: NDArray[np.float64]
    fewest_selections: NDArray[np.int64]
    most_selections: NDArray[np.int64]
    histogram: NDArray[np.int64]
    label_shares: NDArray[np.float64]

    @property
    def qcid_of_seeds(self) -> NDArray[np.float64]:
        """Mean QCID over the rounds, for each seed."""
        means: NDArray[np.float64] = np.nanmean(self.qcid, axis=1)
        return means

    @property
    def qcid_mean(self) -> float:
        """Mean QCID: over rounds, then over seeds."""
        return float(self.qcid_of_seeds.mean())

    @property
    def qcid_std(self) -> float:
        """Sample standard deviation, over seeds, of the mean over rounds; 0 where there is one seed."""
        return _std(self.qcid_of_seeds)

    @property
    def qcid_min(self) -> float:
        """Lowest QCID of all cohorts."""
        return float(np.nanmin(self.qcid))

    @property
    def seconds_per_selection(self) -> float:
        """Median time of a selection."""
        return float(np.nanmedian(self.seconds))

    def summary(self) -> dict[str, Any]:
        """Return all of it in plain numbers and short lists. What starts with "seconds" differs from run to run."""
        return {
            "qcid_mean": self.qcid_mean,
            "qcid_std": self.qcid_std,
            "qcid_min": self.qcid_min,
            "coverage": float(self.coverage.mean()),
            "coverage_std": _std(self.coverage),
            "gini": float(self.gini.mean()),
            "times_selected_min": float(self.fewest_selections.mean()),
            "times_selected_max": float(self.most_selections.mean()),
            "cohort_size_mean": float(self.cohort_sizes[self.cohort_sizes > 0].mean()),
            "seconds_per_selection": self.seconds_per_selection,
            "seconds_per_selection_mean": float(np.nanmean(self.seconds)),
            "label_shares_of_last_cohort": self.label_shares.tolist(),
            "times_selected_histogram": np.trim_zeros(self.histogram.sum(axis=0), "b").tolist(),
        }


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BalanceResult(Mapping[str, SelectorResult]):
    """All selectors on the same populations and the same rounds of availability: a mapping from their names.

    Parameters
    ----------
    selectors
        Results by the name that each selector was given.
    seeds
        The seeds, in the order of all arrays.
    num_clients
        Size of the population.
    available
        Clients available in each round, seeds x rounds; those without examples do not count.
    target_sizes
        Cohort size asked for in each round, seeds x rounds: fewer than wanted where fewer were available, 0 where
        nobody was and the round was skipped.
    cohort_size
        Cohort size wanted.
    empty_clients
        Clients without examples, for each seed. They have nothing to train on, and are left out of every round.
    reachable
        Share of the clients with examples that were ever available, for each seed: no coverage can be higher.
    """

    selectors: Mapping[str, SelectorResult]
    seeds: tuple[int, ...]
    num_clients: int
    available: NDArray[np.int64]
    target_sizes: NDArray[np.int64]
    cohort_size: int
    empty_clients: NDArray[np.int64]
    reachable: NDArray[np.float64]

    def __getitem__(self, name: str) -> SelectorResult:
        if name not in self.selectors:
            raise UnknownNameError("selector", name, self.selectors)
        return self.selectors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.selectors)

    def __len__(self) -> int:
        return len(self.selectors)

    @property
    def short_rounds(self) -> int:
        """Rounds, over all seeds, in which fewer clients were available than the cohort was to have."""
        return int(((self.target_sizes > 0) & (self.target_sizes < self.cohort_size)).sum())

    @property
    def skipped_rounds(self) -> int:
        """Rounds, over all seeds, in which nobody was available."""
        return int((self.target_sizes == 0).sum())

    @property
    def lowest_qcid(self) -> NDArray[np.float64]:
        """Lowest QCID that any selector reached with a cohort of the size asked for, seeds x rounds.

        NaN where none gave such a cohort. What is possible is at or below it.
        """
        lowest = np.full(self.target_sizes.shape, np.inf)
        for result in self.selectors.values():
            asked = (result.cohort_sizes == self.target_sizes) & (self.target_sizes > 0)
            np.minimum(lowest, np.where(asked, result.qcid, np.inf), out=lowest)
        return np.where(np.isinf(lowest), np.nan, lowest)

    def summary(self) -> dict[str, Any]:
        """Return all of it in plain numbers and short lists, ready for JSON."""
        lowest = self.lowest_qcid
        found = lowest[~np.isnan(lowest)]
        return {
            "population": {
                "num_clients": self.num_clients,
                "empty_clients": self.empty_clients.tolist(),
                "reachable": self.reachable.tolist(),
            },
            "rounds": {
                "selected_in": int((self.target_sizes > 0).sum()),
                "short": self.short_rounds,
                "skipped": self.skipped_rounds,
                "available_mean": float(self.available.mean()),
            },
            "lowest": {
                "qcid_mean": float(found.mean()) if found.size else None,
                "qcid_min": float(found.min()) if found.size else None,
            },
            "selectors": {name: result.summary() for name, result in self.selectors.items()},
        }


def _std(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0
