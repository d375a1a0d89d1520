"""RBCS-F: quick clients by a contextual bandit, with a floor under how often each is selected.

Huang et al., "An Efficiency-Boosting Client Selection Scheme for Federated Learning With Fairness Guarantee", IEEE TPDS
2021. Client n's duration is modelled as ``c_n . theta_n`` with the context ``c_n`` = (training seconds expected, whether it
took part in the last round, upload seconds expected); ``theta_n = H_n^-1 b_n`` is learnt by ridge regression from measured
durations, and judged optimistically: ``time_n = max(0, c_n . theta_n - optimism * sqrt(c_n . H_n^-1 c_n))``. A queue
``z_n <- max(0, z_n + fairness - x_n)`` grows while n waits (x_n is 1 when selected). The cohort minimises
``delay_weight * max of time_n  -  sum of z_n`` exactly: for each client that could be the slowest, the longest queues among
those no slower.

Followed: the paper's text. How we differ: `optimism` is a constant; queues grow for clients that are not available, too;
equal cohorts are ordered at random. A client that failed teaches nothing about its duration.
"""

from __future__ import annotations

import dataclasses
import heapq
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.selectors._base import Draw, Selector
from fedcbs.selectors._feedback import Feedback
from fedcbs.selectors._information import Need
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._state import State

__all__ = ["RBCSF", "RBCSFState", "quick_and_waiting"]


@dataclasses.dataclass(frozen=True, eq=False)
class RBCSFState(State):
    """Adds queues, each client's regression, the contexts of the last selection and who was in it."""

    queues: NDArray[np.float64]
    covariances: NDArray[np.float64]
    responses: NDArray[np.float64]
    contexts: NDArray[np.float64]
    took_part: NDArray[np.bool_]


def quick_and_waiting(
    times: NDArray[np.float64], queues: NDArray[np.float64], size: int, delay_weight: float
) -> NDArray[np.int64]:
    """The `size` clients that minimise ``delay_weight * slowest time - sum of queues``, exactly, in O(N log M).

    >>> quick_and_waiting(np.array([1.0, 2.0, 9.0]), np.array([0.0, 1.0, 3.0]), 2, delay_weight=1.0)
    array([1, 0])
    """
    order = np.argsort(times, kind="stable")
    longest: list[tuple[float, int]] = []  # the longest queues among those no slower
    waiting = 0.0
    lowest, cut = np.inf, size
    for place, client in enumerate(order.tolist()):
        entry = (float(queues[client]), -place)
        waiting += entry[0]
        if len(longest) < size:
            heapq.heappush(longest, entry)
        else:
            waiting -= heapq.heappushpop(longest, entry)[0]
        cost = delay_weight * float(times[client]) - waiting
        if len(longest) == size and cost < lowest:
            lowest, cut = cost, place + 1
    among = order[:cut]
    return among[np.lexsort((np.arange(cut), -queues[among]))[:size]]


@final
@dataclasses.dataclass(frozen=True)
class RBCSF(Selector[RBCSFState]):
    """RBCS-F.

    Parameters
    ----------
    fairness
        Rounds' share in which each client should be selected, the paper's floor; 0 stands for half of M/N.
    delay_weight
        Weight of the slowest client's time against the queues.
    optimism
        How many standard deviations a time is judged below its estimate.
    ridge
        Strength of the regression's prior.
    """

    name: ClassVar[str] = "rbcs-f"
    summary: ClassVar[str] = "quick clients by a bandit on durations, none left waiting for ever"
    paper: ClassVar[str] = "Huang et al. 2021 (TPDS), RBCS-F"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.DURATIONS})
    learns: ClassVar[frozenset[Need]] = frozenset({Need.DURATIONS})
    fairness: float = 0.0
    delay_weight: float = 1.0
    optimism: float = 0.1
    ridge: float = 1.0

    def __post_init__(self) -> None:
        _checks.fraction(self.fairness, "fairness", allow_zero=True)
        _checks.real(self.delay_weight, "delay_weight", minimum=0)
        _checks.real(self.optimism, "optimism", minimum=0)
        _checks.real(self.ridge, "ridge", minimum=0, open_minimum=True)

    def _init(self, num_clients: int) -> RBCSFState:
        return RBCSFState(
            times_selected=np.zeros(num_clients, dtype=np.int64),
            queues=np.zeros(num_clients),
            covariances=np.tile(self.ridge * np.eye(3), (num_clients, 1, 1)),
            responses=np.zeros((num_clients, 3)),
            contexts=np.zeros((num_clients, 3)),
            took_part=np.zeros(num_clients, dtype=np.bool_),
        )

    def _select(self, state: RBCSFState, view: RoundView) -> Draw[RBCSFState]:
        order = view.rng.permutation(len(view.available))
        clients = view.available[order]
        training, upload = view.durations()[order].T
        contexts = np.stack([training, state.took_part[clients].astype(np.float64), upload], axis=1)
        times = self._optimistic_times(state, clients, contexts)
        cohort = clients[quick_and_waiting(times, state.queues[clients], view.cohort_size, self.delay_weight)]
        took_part = np.zeros(view.num_clients, dtype=np.bool_)
        took_part[cohort] = True
        kept = state.contexts.copy()
        kept[clients] = contexts
        share = self.fairness or view.cohort_size / (2 * view.num_clients)
        queues = np.maximum(state.queues + share - took_part, 0.0)
        return Draw(cohort, dataclasses.replace(state, queues=queues, contexts=kept, took_part=took_part))

    def _optimistic_times(
        self, state: RBCSFState, clients: NDArray[np.int64], contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        right = np.stack([state.responses[clients], contexts], axis=2)
        solved = np.linalg.solve(state.covariances[clients], right)
        expected = np.einsum("nd,nd->n", contexts, solved[:, :, 0])
        spread = np.sqrt(np.einsum("nd,nd->n", contexts, solved[:, :, 1]))
        return np.asarray(np.maximum(expected - self.optimism * spread, 0.0))

    def _observe(self, state: RBCSFState, feedback: Feedback) -> RBCSFState:
        clients = feedback.answered_ids
        durations, contexts = feedback.of(Need.DURATIONS, self.name), state.contexts[clients]
        covariances, responses = state.covariances.copy(), state.responses.copy()
        covariances[clients] += contexts[:, :, None] * contexts[:, None, :]
        responses[clients] += durations[:, None] * contexts
        return dataclasses.replace(state, covariances=covariances, responses=responses)
