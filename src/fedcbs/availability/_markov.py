"""Clients that come and go, and stay for a while."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import fraction
from fedcbs.availability._base import Availability, round_rng

__all__ = ["Markov"]

_Mask = NDArray[np.bool_]


@final
@dataclass(frozen=True)
class Markov(Availability):
    """Each client is on or off, and changes at random between rounds, independently of the others.

    Round 0 is stationary: a client is on with probability ``p_on / (p_on + p_off)``, then and in every round.

    A later round is a function of the coins of all rounds before it, yet is not replayed from round 0. A client's
    coin often decides its state whatever the state before, so looking back until each client meets such a coin is
    enough (the idea of coupling from the past). The last answer is remembered and continued where that is
    shorter; all ways lead to the same answer.

    Parameters
    ----------
    p_on
        Probability that a client that is off is on in the next round.
    p_off
        Probability that a client that is on is off in the next round.

    Examples
    --------
    >>> Markov(p_on=0.1, p_off=0.0).available(1000, num_clients=3, seed=0)
    array([0, 1, 2])
    """

    name: ClassVar[str] = "markov"

    p_on: float
    p_off: float
    _latest: dict[tuple[int, int], tuple[int, _Mask]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        fraction(self.p_on, "p_on")
        fraction(self.p_off, "p_off", allow_zero=True)

    def _available(self, round_index: int, num_clients: int, seed: int) -> NDArray[np.int64]:
        key = (num_clients, seed)
        known, state = self._latest.get(key, (-1, None))
        if state is None or not 0 <= round_index - known <= self._typical_look_back(num_clients):
            state = self._looked_back(round_index, num_clients, seed)
        else:
            for later in range(known + 1, round_index + 1):
                state = self._step(state, _coins(seed, later, num_clients))
        # One population is remembered. Whole pairs are exchanged, so that threads cannot mix two answers.
        if key not in self._latest:
            self._latest.clear()
        self._latest[key] = (round_index, state)
        return np.flatnonzero(state)

    def _step(self, state: _Mask, coins: NDArray[np.float64]) -> _Mask:
        return coins < np.where(state, 1.0 - self.p_off, self.p_on)

    def _looked_back(self, round_index: int, num_clients: int, seed: int) -> _Mask:
        """Say who is on, from the coins of this round and of as many before it as it takes."""
        stay, come = 1.0 - self.p_off, self.p_on
        low, high = min(stay, come), max(stay, come)
        if low <= 0.0 and high >= 1.0:
            # No coin decides anything: each client alternates from its start.
            start = _coins(seed, 0, num_clients) < come / (come + self.p_off)
            return start ^ bool(round_index % 2)
        state = np.zeros(num_clients, dtype=bool)
        undecided = np.arange(num_clients)
        turned = False
        for earlier in range(round_index, 0, -1):
            coins = _coins(seed, earlier, num_clients)[undecided]
            # Below both thresholds the client is on, above both it is off, whatever it was before.
            state[undecided[coins < low]] = not turned
            state[undecided[coins >= high]] = turned
            undecided = undecided[(coins >= low) & (coins < high)]
            if undecided.size == 0:
                return state
            # Between them it is what it was, or the opposite where coming is likelier than staying.
            turned ^= come > stay
        start = _coins(seed, 0, num_clients)[undecided] < come / (come + self.p_off)
        state[undecided] = start ^ turned
        return state

    def _typical_look_back(self, num_clients: int) -> float:
        """In how many rounds about one client of all is left undecided."""
        undecided = abs(1.0 - self.p_on - self.p_off)
        if undecided in (0.0, 1.0):
            return 1.0 if undecided == 0.0 else math.inf
        return 1.0 + math.log(num_clients + 1) / -math.log(undecided)


def _coins(seed: int, round_index: int, num_clients: int) -> NDArray[np.float64]:
    return round_rng(seed, "markov", round_index).random(num_clients)
