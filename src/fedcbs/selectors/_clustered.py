"""Clustered sampling: one client from each of M bins, so that the average is unbiased and varies less.

Fraboni et al., "Clustered Sampling: Low-Variance and Improved Representativity for Clients Selection in Federated
Learning", ICML 2021. Client i has mass ``M p_i``, ``p_i`` its share of the examples. The masses are poured into M bins of
capacity 1; one client is drawn from each bin in proportion to its mass there, and the draws are averaged uniformly. Since
``sum over bins of r[k, i] = M p_i``, the average is unbiased.

- ``clustered-size`` (Algorithm 1): poured in the order of sizes, the largest first.
- ``clustered-similarity`` (Algorithm 2): clients with similar last updates share a bin. A Ward tree on the distances
  between last updates is cut so that no group outweighs a bin; the M heaviest groups seed the bins, the others are poured
  into the room that is left.

Followed: the authors' code, except that its Ward linkage is given a square matrix where condensed distances belong. How
we differ: bins are made anew each round from the available clients alone, so the average is unbiased for the data
available in the round. A client drawn several times appears in the cohort once, with its multiplicity in the weights; so a
cohort may be smaller than asked for. A client of mass over 1 has bins of its own. In `angle`, a client that never sent an
update is at a right angle to those that did (the code has them at distance 0).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Iterable
from typing import ClassVar, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import MissingExtraError, UnknownNameError
from fedcbs.selectors._base import Draw, Selector
from fedcbs.selectors._feedback import Feedback
from fedcbs.selectors._information import Need
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._sampling import categorical
from fedcbs.selectors._state import State
from fedcbs.selectors._update_memory import RemembersUpdates, UpdateState, check_pairs

__all__ = ["ClusteredBySimilarity", "ClusteredBySize", "bins_by_similarity", "bins_by_size"]

StateT = TypeVar("StateT", bound=State)
DISTANCES = ("angle", "l1", "l2")


def bins_by_size(num_examples: NDArray[np.int64], num_bins: int) -> NDArray[np.float64]:
    """Mass of each client in each bin (bins x clients), poured in the order of sizes.

    >>> bins_by_size(np.array([1, 2, 1]), 2)
    array([[0. , 1. , 0. ],
           [0.5, 0. , 0.5]])
    """
    mass = _masses(num_examples, num_bins)
    order = np.argsort(-num_examples, kind="stable")
    bins = np.zeros((num_bins, len(mass)))
    _pour(order, mass, bins)
    return bins


def bins_by_similarity(
    num_examples: NDArray[np.int64], num_bins: int, distances: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Mass of each client in each bin (bins x clients); similar clients share a bin.

    `distances` are condensed: the upper triangle of the square matrix, row by row.
    """
    mass = _masses(num_examples, num_bins)
    bins = np.zeros((num_bins, len(mass)))
    whole = np.floor(mass + 1e-12).astype(np.int64)
    own = np.repeat(np.arange(len(mass)), whole)  # bins of one client's own
    bins[np.arange(len(own)), own] = 1.0
    mass = mass - whole
    mass[mass < 1e-12] = 0.0
    groups = _light_groups(distances, mass)
    groups.sort(key=lambda group: (-float(mass[group].sum()), int(group[0])))
    free = num_bins - len(own)
    for seed, group in enumerate(groups[:free]):
        bins[len(own) + seed, group] = mass[group]
    rest = np.concatenate([np.zeros(0, dtype=np.int64), *groups[free:]])
    _pour(rest, mass, bins)
    return bins


class _Clustered(Selector[StateT], abc.ABC):
    """What both algorithms share: one draw a bin, and multiplicities as weights."""

    paper: ClassVar[str] = "Fraboni et al. 2021 (ICML), clustered sampling"
    skips_empty: ClassVar[bool] = True
    fixed_size: ClassVar[bool] = False

    def _draw(self, bins: NDArray[np.float64], state: StateT, view: RoundView) -> Draw[StateT]:
        drawn = [
            categorical(row, u) for row, u in zip(bins, view.rng.random(len(bins)).tolist(), strict=True)
        ]
        places, times = np.unique(drawn, return_counts=True)
        return Draw(view.available[places], state, weights=times / len(bins))


@final
@dataclasses.dataclass(frozen=True)
class ClusteredBySize(_Clustered[State]):
    """Clustered sampling, Algorithm 1: bins filled in the order of sizes."""

    name: ClassVar[str] = "clustered-size"
    summary: ClassVar[str] = "one client from each of M bins, made by size; unbiased"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.NUM_EXAMPLES})

    def _init(self, num_clients: int) -> State:
        return State(times_selected=np.zeros(num_clients, dtype=np.int64))

    def _select(self, state: State, view: RoundView) -> Draw[State]:
        # One draw a bin needs no bins: lay the masses end to end and look where the draws fall.
        num_examples = view.num_examples()
        order = np.argsort(-num_examples, kind="stable")
        ends = np.cumsum(_masses(num_examples, view.cohort_size)[order])
        points = np.arange(view.cohort_size) + view.rng.random(view.cohort_size)
        drawn = order[np.minimum(np.searchsorted(ends, points, side="right"), len(ends) - 1)]
        places, times = np.unique(drawn, return_counts=True)
        return Draw(view.available[places], state, weights=times / view.cohort_size)


@final
@dataclasses.dataclass(frozen=True)
class ClusteredBySimilarity(_Clustered[UpdateState], RemembersUpdates[UpdateState]):
    """Clustered sampling, Algorithm 2: bins of clients with similar updates.

    Parameters
    ----------
    distance
        Between updates: ``angle``, ``l1`` or ``l2``.
    precision
        What updates are kept in: ``float32`` or ``float16``.
    on_disk
        Whether they are kept in a file of the run's folder instead of in memory.
    """

    name: ClassVar[str] = "clustered-similarity"
    summary: ClassVar[str] = "one client from each of M bins of similar updates; unbiased"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.NUM_EXAMPLES})
    learns: ClassVar[frozenset[Need]] = frozenset({Need.UPDATES})
    distance: str = "angle"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distance not in DISTANCES:
            raise UnknownNameError("distance", self.distance, DISTANCES)

    def _init(self, num_clients: int) -> UpdateState:
        return UpdateState.empty(num_clients)

    def _select(self, state: UpdateState, view: RoundView) -> Draw[UpdateState]:
        check_pairs(len(view.available), self.name)
        order = view.rng.permutation(len(view.available))  # the tree breaks ties by position
        distances = condensed_distances(state.stretches(view.available[order]), self.distance)
        bins = np.zeros((view.cohort_size, len(order)))
        bins[:, order] = bins_by_similarity(view.num_examples()[order], view.cohort_size, distances)
        return self._draw(bins, state, view)

    def _observe(self, state: UpdateState, feedback: Feedback) -> UpdateState:
        return state.remember(feedback.answered_ids, feedback.of(Need.UPDATES, self.name))


def condensed_distances(stretches: Iterable[NDArray[np.float64]], distance: str) -> NDArray[np.float64]:
    """Distances between all pairs of updates, as the upper triangle row by row; they come in stretches of columns."""
    if distance == "l1":
        return functools.reduce(np.add, map(_taxi_distances, stretches))
    inner = functools.reduce(np.add, (updates @ updates.T for updates in stretches))
    rows, columns = np.triu_indices(len(inner), k=1)
    squares = inner.diagonal()
    if distance == "l2":
        table = np.sqrt(np.maximum(squares[:, None] + squares - 2 * inner, 0.0))
        return np.asarray(table[rows, columns])
    lengths = np.sqrt(squares)
    known = lengths > 0
    cosines = inner / np.where(known, lengths, 1.0)[:, None] / np.where(known, lengths, 1.0)
    cosines[np.ix_(~known, ~known)] = 1.0  # nothing tells those without an update apart
    return np.asarray(np.arccos(np.clip(cosines, -1.0, 1.0))[rows, columns])


def _taxi_distances(updates: NDArray[np.float64]) -> NDArray[np.float64]:
    parts = [np.abs(updates[i + 1 :] - updates[i]).sum(axis=1) for i in range(len(updates) - 1)]
    return np.concatenate([np.zeros(0), *parts])


def _masses(num_examples: NDArray[np.int64], num_bins: int) -> NDArray[np.float64]:
    sizes = num_examples.astype(np.float64)
    return np.asarray(num_bins * (sizes / sizes.sum()))


def _pour(order: NDArray[np.int64], mass: NDArray[np.float64], bins: NDArray[np.float64]) -> None:
    """Pour clients one after another into the bins' free room, in place."""
    room = 1.0 - bins.sum(axis=1)
    open_bins = [k for k in range(len(bins)) if room[k] > 1e-12]
    place = 0
    for client in order:
        left = float(mass[client])
        while left > 1e-12 and place < len(open_bins):
            k = open_bins[place]
            poured = min(left, float(room[k]))
            bins[k, client] += poured
            room[k] -= poured
            left -= poured
            if room[k] <= 1e-12:
                place += 1


def _light_groups(distances: NDArray[np.float64], mass: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Cut a Ward tree so coarsely as it can be while no group outweighs a bin."""
    if len(mass) == 1:
        return [np.array([0])]
    try:
        from scipy.cluster.hierarchy import fcluster, linkage
    except ImportError as error:
        raise MissingExtraError("scipy", extra="cluster", purpose="clustered-similarity") from error
    tree = linkage(distances, method="ward")
    for num_groups in range(1, len(mass) + 1):
        labels = fcluster(tree, num_groups, criterion="maxclust")
        if np.bincount(labels, weights=mass).max() <= 1 + 1e-9:
            break
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]
