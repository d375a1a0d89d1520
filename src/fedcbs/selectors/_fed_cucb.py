"""Fed-CUCB: a combinatorial bandit on estimated label shares.

Yang et al., "Federated Learning with Class Imbalance Reduction", 2020. The server holds a small balanced auxiliary set.
From the trained model of client n it computes the mean squared gradient ``g_b`` on the examples of class b; the client's
label shares are estimated as ``R_b = (1 / g_b) / sum (1 / g)`` (`estimator="inverse"`, the authors' code) or as a softmax
of ``sharpness / g_b`` (`estimator="softmax"`, the paper's text). Its reward is ``1 / H(uniform, R)`` with the cross entropy
``H(uniform, R) = KL(uniform || R) + ln B``. Rewards and shares are averaged over a client's rounds with weights that
shrink by `forgetting` each round. Everybody is visited once; then the first client is the one with the highest
``reward + exploration * sqrt(3 ln k / (2 T_n))``, and each further one makes ``H(uniform, mean R of the cohort)`` smallest.

Followed: the authors' code for the estimator and the order of the choice; exploration 0.2 and forgetting 0.99 as Zhang et
al. 2023 say they used (the code has 0.8 and no forgetting). How we differ: with partial availability, those available who
were never selected come first, at random, and the choice goes on among the others; a client whose every visit failed has
no estimate and is taken only where too few others are there. The mean of the shares over the cohort is unweighted in the
authors' code, and so we weigh the cohort's updates alike (the code weighs them by their share of all examples, and leaves
the rest of the weight with the old model).
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.selectors._base import Draw, Selector
from fedcbs.selectors._feedback import Feedback
from fedcbs.selectors._information import Need
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._sampling import best
from fedcbs.selectors._state import State

__all__ = ["FedCUCB", "FedCUCBState"]

ESTIMATORS = ("inverse", "softmax")
TINY = 1e-30
"""Squared gradients and shares below this count as it."""


@dataclasses.dataclass(frozen=True, eq=False)
class FedCUCBState(State):
    """Adds each client's discounted sums of rewards and estimated shares, and when they were last added to.

    `share_sums` has no columns until the first answer tells the number of classes.
    """

    reward_sums: NDArray[np.float64]
    share_sums: NDArray[np.float64]
    sum_weights: NDArray[np.float64]
    last_rounds: NDArray[np.int64]
    round_index: NDArray[np.int64]


@final
@dataclasses.dataclass(frozen=True)
class FedCUCB(Selector[FedCUCBState]):
    """Fed-CUCB.

    Parameters
    ----------
    exploration
        Weight of the exploration term of the first client.
    forgetting
        Factor by which an observation's weight shrinks each round.
    estimator
        ``inverse`` or ``softmax``: how gradients become label shares.
    sharpness
        Of the softmax.
    """

    name: ClassVar[str] = "fed-cucb"
    summary: ClassVar[str] = "bandit on label shares estimated from gradients"
    paper: ClassVar[str] = "Yang et al. 2020, Fed-CUCB"
    learns: ClassVar[frozenset[Need]] = frozenset({Need.CLASS_GRADIENTS})
    exploration: float = 0.2
    forgetting: float = 0.99
    estimator: str = "inverse"
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        _checks.real(self.exploration, "exploration", minimum=0)
        _checks.fraction(self.forgetting, "forgetting")
        _checks.real(self.sharpness, "sharpness", minimum=0, open_minimum=True)
        if self.estimator not in ESTIMATORS:
            raise UnknownNameError("estimator", self.estimator, ESTIMATORS)

    def estimate_shares(self, class_gradients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Estimated label shares, clients x classes, from mean squared gradients on each class."""
        gradients = np.maximum(class_gradients, TINY)
        logits = -np.log(gradients) if self.estimator == "inverse" else self.sharpness / gradients
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares = np.maximum(shares, TINY)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _init(self, num_clients: int) -> FedCUCBState:
        return FedCUCBState(
            times_selected=np.zeros(num_clients, dtype=np.int64),
            reward_sums=np.zeros(num_clients),
            share_sums=np.zeros((num_clients, 0)),
            sum_weights=np.zeros(num_clients),
            last_rounds=np.zeros(num_clients, dtype=np.int64),
            round_index=np.array(0),
        )

    def _select(self, state: FedCUCBState, view: RoundView) -> Draw[FedCUCBState]:
        state = dataclasses.replace(state, round_index=np.array(view.round_index))
        available, size, rng = view.available, view.cohort_size, view.rng
        fresh = available[state.times_selected[available] == 0]
        cohort = rng.permutation(fresh)[:size]
        known = available[(state.sum_weights[available] > 0) & (state.times_selected[available] > 0)]
        if len(cohort) < size and len(known):
            greedy = self._greedy(state, known, min(size - len(cohort), len(known)), view)
            cohort = np.concatenate([cohort, greedy])
        if len(cohort) < size:  # those whose every visit failed
            rest = np.setdiff1d(available, cohort)
            cohort = np.concatenate([cohort, rng.permutation(rest)[: size - len(cohort)]])
        return Draw(cohort, state, weights=np.full(size, 1 / size))

    def _greedy(
        self, state: FedCUCBState, known: NDArray[np.int64], size: int, view: RoundView
    ) -> NDArray[np.int64]:
        shares = state.share_sums[known] / state.sum_weights[known, None]
        rewards = state.reward_sums[known] / state.sum_weights[known]
        times = state.times_selected[known]
        scores = rewards + self.exploration * np.sqrt(3 * math.log(view.round_index) / (2 * times))
        pooled = np.zeros(shares.shape[1])
        chosen: list[int] = []
        while True:
            chosen.append(int(best(scores, 1, view.rng)[0]))
            if len(chosen) == size:
                return known[chosen]
            pooled += shares[chosen[-1]]
            scores = -_cross_entropy((shares + pooled) / (len(chosen) + 1))
            scores[chosen] = -np.inf

    def _observe(self, state: FedCUCBState, feedback: Feedback) -> FedCUCBState:
        clients = feedback.answered_ids
        if len(clients) == 0:
            return state
        shares = self.estimate_shares(feedback.of(Need.CLASS_GRADIENTS, self.name))
        share_sums = state.share_sums.copy()
        if share_sums.shape[1] == 0:
            share_sums = np.zeros((state.num_clients, shares.shape[1]))
        if shares.shape[1] != share_sums.shape[1]:
            raise InvalidArgumentError(
                f"class_gradients has {shares.shape[1]} classes; earlier rounds had {share_sums.shape[1]}"
            )
        reward_sums, sum_weights, last = (
            state.reward_sums.copy(),
            state.sum_weights.copy(),
            state.last_rounds.copy(),
        )
        fade = self.forgetting ** (state.round_index - last[clients]).astype(np.float64)
        reward_sums[clients] = fade * reward_sums[clients] + 1 / _cross_entropy(shares)
        share_sums[clients] = fade[:, None] * share_sums[clients] + shares
        sum_weights[clients] = fade * sum_weights[clients] + 1
        last[clients] = state.round_index
        return dataclasses.replace(
            state, reward_sums=reward_sums, share_sums=share_sums, sum_weights=sum_weights, last_rounds=last
        )


def _cross_entropy(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cross entropy of uniform against each row: KL(uniform || row) + ln B."""
    return np.asarray(np.maximum(-np.log(shares).mean(axis=1), TINY))  # one class only: 0
