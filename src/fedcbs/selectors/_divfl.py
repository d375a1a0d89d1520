"""DivFL: a cohort whose updates stand for everybody's (facility location).

Balakrishnan et al., "Diverse Client Selection for Federated Learning via Submodular Maximization", 2021 (ICLR 2022).
Minimise ``G(C) = sum over available k of min over i in C of |g_k - g_i|`` greedily. Three ways to the same end: `greedy`
looks at every candidate at each step; `lazy` (Minoux 1978) re-evaluates a candidate only while an old bound lets it lead,
and finds what greedy finds; `stochastic` (Mirzasoleiman et al. 2015) looks at a random ``max(M, N/10)`` of them.

Followed: the authors' code: everybody's update is asked for once, afterwards only participants' are refreshed, and the
cohort's updates are averaged as usual; `weigh_by_represented` instead weighs each by the share of clients that it stands
for, as the paper's bound has it. How we differ: only the available stand to be represented; equal gains go to the
candidate first in a random order; updates are kept in `precision`.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
from collections.abc import Iterable
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.errors import UnknownNameError
from fedcbs.selectors._base import Draw
from fedcbs.selectors._feedback import Feedback
from fedcbs.selectors._information import Need
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._update_memory import RemembersUpdates, UpdateState, check_pairs

__all__ = ["DivFL", "greedy_facilities", "lazy_facilities", "stochastic_facilities"]


def greedy_facilities(distances: NDArray[np.float64], size: int) -> list[int]:
    """Facilities one after another, each the one that shrinks the sum of distances to the nearest most."""
    nearest = np.full(len(distances), np.inf)
    chosen: list[int] = []
    for _ in range(size):
        costs = np.minimum(distances, nearest[:, None]).sum(axis=0)
        costs[chosen] = np.inf
        chosen.append(int(costs.argmin()))
        nearest = np.minimum(nearest, distances[:, chosen[-1]])
    return chosen


def lazy_facilities(distances: NDArray[np.float64], size: int) -> list[int]:
    """What :func:`greedy_facilities` finds, with fewer evaluations: gains only shrink as the cohort grows."""
    costs = distances.sum(axis=0)
    chosen = [int(costs.argmin())]
    nearest = distances[:, chosen[0]].copy()
    queue = [(-np.inf, i) for i in range(len(distances)) if i != chosen[0]]
    while len(chosen) < size:
        fresh: set[int] = set()
        while True:
            _, candidate = heapq.heappop(queue)
            if candidate in fresh:
                break
            cost = float(np.minimum(distances[:, candidate], nearest).sum())
            heapq.heappush(queue, (cost - float(nearest.sum()), candidate))
            fresh.add(candidate)
        chosen.append(candidate)
        nearest = np.minimum(nearest, distances[:, candidate])
    return chosen


def stochastic_facilities(distances: NDArray[np.float64], size: int, rng: np.random.Generator) -> list[int]:
    """Greedy, but each step looks at a random ``max(size, N/10)`` of the candidates left."""
    nearest = np.full(len(distances), np.inf)
    chosen: list[int] = []
    for _ in range(size):
        left = np.setdiff1d(np.arange(len(distances)), chosen)
        looked_at = rng.choice(left, min(max(size, len(distances) // 10), len(left)), replace=False)
        costs = np.minimum(distances[:, looked_at], nearest[:, None]).sum(axis=0)
        chosen.append(int(looked_at[costs.argmin()]))
        nearest = np.minimum(nearest, distances[:, chosen[-1]])
    return chosen


@final
@dataclasses.dataclass(frozen=True)
class DivFL(RemembersUpdates[UpdateState]):
    """DivFL.

    Parameters
    ----------
    method
        ``greedy``, ``lazy`` or ``stochastic``.
    weigh_by_represented
        Weigh each client of the cohort by the share of the available that it stands for.
    precision
        What updates are kept in: ``float32`` or ``float16``.
    on_disk
        Whether they are kept in a file of the run's folder instead of in memory.
    """

    name: ClassVar[str] = "divfl"
    summary: ClassVar[str] = "a cohort whose updates stand for everybody's"
    paper: ClassVar[str] = "Balakrishnan et al. 2021, DivFL"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.UPDATES})
    learns: ClassVar[frozenset[Need]] = frozenset({Need.UPDATES})
    method: str = "greedy"
    weigh_by_represented: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in ("greedy", "lazy", "stochastic"):
            raise UnknownNameError("method", self.method, ("greedy", "lazy", "stochastic"))
        _checks.boolean(self.weigh_by_represented, "weigh_by_represented")

    def _init(self, num_clients: int) -> UpdateState:
        return UpdateState.empty(num_clients)

    def _select(self, state: UpdateState, view: RoundView) -> Draw[UpdateState]:
        check_pairs(len(view.available), self.name)
        unknown = view.available[~state.updates.known(view.available)]
        if len(unknown):
            state = state.remember(unknown, view.updates(unknown))
        order = view.rng.permutation(view.available)  # equal gains go to the first
        distances = _distances(state.stretches(order))
        if self.method == "stochastic":
            places = stochastic_facilities(distances, view.cohort_size, view.rng)
        else:
            find = greedy_facilities if self.method == "greedy" else lazy_facilities
            places = find(distances, view.cohort_size)
        weights = None
        if self.weigh_by_represented:
            stands_for = distances[:, places].argmin(axis=1)
            weights = np.bincount(stands_for, minlength=len(places)) / len(order)
        return Draw(order[places], state, weights)

    def _observe(self, state: UpdateState, feedback: Feedback) -> UpdateState:
        return state.remember(feedback.answered_ids, feedback.of(Need.UPDATES, self.name))


def _distances(stretches: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Euclidean distances between all pairs of rows, which come in stretches of columns."""
    parts = ((np.einsum("nd,nd->n", points, points), points @ points.T) for points in stretches)
    squares, inner = functools.reduce(lambda one, two: (one[0] + two[0], one[1] + two[1]), parts)
    table = squares[:, None] + squares - 2.0 * inner
    np.fill_diagonal(table, 0.0)
    return np.asarray(np.sqrt(np.maximum(table, 0.0)))
