"""Oort: useful and quick clients, with exploration and a pacer.

Lai et al., "Oort: Efficient Federated Learning via Guided Participant Selection", OSDI 2021. A client's statistical utility
is ``n * root of the mean squared loss``, as of its last round. Each round, among those explored: utilities are clipped at a
quantile, scaled to [0, 1], and given ``sqrt(0.1 ln k / last round)`` for staleness; a client slower than the preferred
duration is multiplied by ``(preferred / duration) ** penalty``. The exploited part of the cohort is drawn in proportion to
utility from those within `cut_off` of the last one that would make it; the rest are unexplored clients, in proportion to
their sizes and the same speed factor. The share of exploration decays. The pacer relaxes the preferred duration, a
percentile of the durations known, when utility gathered falls.

Followed: FedScale's code for the order of steps and the constants, the paper for the cut-off (95% of the last one; the code
multiplies by its 0.05) and the pacer (the code relaxes where utility is flat, and tightens where it jumps). How we differ: no
client is barred for having been selected often; unexplored clients are drawn from all of them, where the code looks at
the five times as many of highest weight; exploration decays after a round, not before it; the preferred duration is of
those available, and durations of clients not yet measured are the expected ones; a client that fails keeps its utility,
and counts as explored.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.selectors._base import Draw, Selector
from fedcbs.selectors._feedback import Feedback
from fedcbs.selectors._information import Need
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._sampling import weighted_without_replacement
from fedcbs.selectors._state import State

__all__ = ["Oort", "OortState"]


@dataclasses.dataclass(frozen=True, eq=False)
class OortState(State):
    """Adds what is known of each client, the share of exploration, and the pacer's memory."""

    num_examples: NDArray[np.int64]
    rms_losses: NDArray[np.float64]
    durations: NDArray[np.float64]
    last_rounds: NDArray[np.int64]
    round_index: NDArray[np.int64]
    exploration: NDArray[np.float64]
    percentile: NDArray[np.float64]
    gathered: NDArray[np.float64]


@final
@dataclasses.dataclass(frozen=True)
class Oort(Selector[OortState]):
    """Oort.

    Parameters
    ----------
    exploration, exploration_decay, least_exploration
        Share of the cohort that is unexplored clients: at first, its factor a round, and its lower limit.
    cut_off
        How far below the last one to make it a client may be and still be drawn.
    clip_quantile
        Utilities above this quantile are clipped.
    penalty
        Power of the factor for slow clients; 0 ignores durations.
    percentile, pacer_step, pacer_delta
        Percentile of durations that is preferred; every `pacer_step` rounds it grows by `pacer_delta` if utility fell.
    """

    name: ClassVar[str] = "oort"
    summary: ClassVar[str] = "useful and quick clients, with exploration"
    paper: ClassVar[str] = "Lai et al. 2021 (OSDI), Oort"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.NUM_EXAMPLES, Need.DURATIONS})
    learns: ClassVar[frozenset[Need]] = frozenset({Need.RMS_LOSSES, Need.DURATIONS})
    skips_empty: ClassVar[bool] = True
    exploration: float = 0.9
    exploration_decay: float = 0.98
    least_exploration: float = 0.3
    cut_off: float = 0.05
    clip_quantile: float = 0.9
    penalty: float = 2.0
    percentile: float = 30.0
    pacer_step: int = 20
    pacer_delta: float = 5.0

    def __post_init__(self) -> None:
        for name in ("exploration", "exploration_decay", "least_exploration", "cut_off", "clip_quantile"):
            _checks.fraction(getattr(self, name), name, allow_zero=True)
        _checks.real(self.penalty, "penalty", minimum=0)
        _checks.real(self.percentile, "percentile", minimum=0, maximum=100)
        _checks.integer(self.pacer_step, "pacer_step", minimum=1)
        _checks.real(self.pacer_delta, "pacer_delta", minimum=0, maximum=100)

    def _init(self, num_clients: int) -> OortState:
        return OortState(
            times_selected=np.zeros(num_clients, dtype=np.int64),
            num_examples=np.zeros(num_clients, dtype=np.int64),
            rms_losses=np.zeros(num_clients),
            durations=np.zeros(num_clients),
            last_rounds=np.zeros(num_clients, dtype=np.int64),
            round_index=np.array(0),
            exploration=np.array(self.exploration),
            percentile=np.array(self.percentile),
            gathered=np.zeros(0),
        )

    def _select(self, state: OortState, view: RoundView) -> Draw[OortState]:
        state = self._paced(dataclasses.replace(state, round_index=np.array(view.round_index)))
        clients, sizes = view.available, view.num_examples().astype(np.float64)
        speed = self._speed_factors(state, clients, view.durations().sum(axis=1))
        explored = np.flatnonzero(state.times_selected[clients] > 0)
        fresh = np.flatnonzero(state.times_selected[clients] == 0)
        exploring = math.floor(float(state.exploration) * view.cohort_size)
        wanted = min(view.cohort_size - exploring, len(explored))
        wanted = max(wanted, view.cohort_size - len(fresh))
        utilities = (
            self._utilities(state, clients[explored], sizes[explored], view.round_index) * speed[explored]
        )
        exploited = explored[self._exploit(utilities, wanted, view.rng)]
        weights = sizes[fresh] * speed[fresh]
        novel = fresh[weighted_without_replacement(weights, view.cohort_size - wanted, view.rng)]
        exploration = max(float(state.exploration) * self.exploration_decay, self.least_exploration)
        num_examples = state.num_examples.copy()
        num_examples[clients] = view.num_examples()
        state = dataclasses.replace(state, exploration=np.array(exploration), num_examples=num_examples)
        return Draw(clients[np.concatenate([exploited, novel])], state)

    def _utilities(
        self, state: OortState, clients: NDArray[np.int64], sizes: NDArray[np.float64], round_index: int
    ) -> NDArray[np.float64]:
        if len(clients) == 0:
            return np.zeros(0)
        raw = sizes * state.rms_losses[clients]
        raw = np.minimum(raw, np.quantile(raw, self.clip_quantile))
        spread = float(raw.max() - raw.min())
        scaled = (raw - raw.min()) / (spread if spread > 0 else 1.0)
        return np.asarray(
            scaled + np.sqrt(0.1 * math.log(round_index) / np.maximum(state.last_rounds[clients], 1))
        )

    def _exploit(
        self, utilities: NDArray[np.float64], wanted: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        if wanted == 0:
            return np.zeros(0, dtype=np.int64)
        last = np.partition(utilities, -wanted)[-wanted]
        weights = np.where(utilities >= (1 - self.cut_off) * last, utilities, 0.0)
        return weighted_without_replacement(weights, wanted, rng)

    def _speed_factors(
        self, state: OortState, clients: NDArray[np.int64], expected: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        measured = state.durations[clients]
        durations = np.where(measured > 0, measured, expected)
        preferred = float(np.percentile(durations, float(state.percentile)))
        return np.asarray(np.minimum(preferred / durations, 1.0) ** self.penalty)

    def _paced(self, state: OortState) -> OortState:
        step = self.pacer_step
        gathered = state.gathered
        if len(gathered) < 2 * step or len(gathered) % step:
            return state
        if gathered[-step:].sum() < gathered[-2 * step : -step].sum():
            return dataclasses.replace(
                state, percentile=np.minimum(state.percentile + self.pacer_delta, 100.0)
            )
        return state

    def _observe(self, state: OortState, feedback: Feedback) -> OortState:
        clients = feedback.answered_ids
        rms_losses, durations = state.rms_losses.copy(), state.durations.copy()
        last_rounds = state.last_rounds.copy()
        rms_losses[clients] = feedback.of(Need.RMS_LOSSES, self.name)
        durations[clients] = feedback.of(Need.DURATIONS, self.name)
        last_rounds[clients] = state.round_index
        gathered = np.append(state.gathered, state.num_examples[clients] @ rms_losses[clients])
        return dataclasses.replace(
            state, rms_losses=rms_losses, durations=durations, last_rounds=last_rounds, gathered=gathered
        )
