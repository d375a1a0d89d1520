"""Astraea's greedy choice, which the Fed-CBS paper runs as Fed-CUCB+: exact label shares, one client at a time.

Duan et al., "Astraea: Self-balancing federated learning for improving classification accuracy of mobile deep learning
applications", 2019, Algorithm 3; with the exploration term of Yang et al. 2020 for the first client, as in the ablation of
Zhang et al. 2023. The first client has the highest ``1 / (ln B + KL(shares || uniform)) + exploration * sqrt(3 ln k /
(2 T_n))``; then, again and again, comes the client that makes ``KL(pooled shares || uniform)`` smallest.

Followed: the papers' text. How we differ: equal candidates are ordered at random (with one class a client, the first ids
would be picked for ever). Pooled shares weigh clients by their sizes, as in Astraea. Clients without examples are left out.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.imbalance import BLOCK
from fedcbs.selectors._base import Draw
from fedcbs.selectors._baselines import Memoryless
from fedcbs.selectors._information import Need
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._sampling import best
from fedcbs.selectors._state import State

__all__ = ["Astraea"]


@final
@dataclasses.dataclass(frozen=True)
class Astraea(Memoryless):
    """Greedy by the divergence of the exact pooled label shares (Astraea, Fed-CUCB+).

    Parameters
    ----------
    exploration
        Weight of the exploration term of the first client.
    """

    name: ClassVar[str] = "astraea"
    summary: ClassVar[str] = "greedy by the exact label shares (Fed-CUCB+)"
    paper: ClassVar[str] = "Duan et al. 2019, Astraea; Fed-CUCB+ in Zhang et al. 2023"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.LABEL_COUNTS, Need.NUM_EXAMPLES})
    skips_empty: ClassVar[bool] = True
    exploration: float = 0.2

    def __post_init__(self) -> None:
        _checks.real(self.exploration, "exploration", minimum=0)

    def _select(self, state: State, view: RoundView) -> Draw[State]:
        counts = np.ascontiguousarray(
            view.label_counts().T, dtype=np.float64
        )  # classes x clients: rows stream
        rounds = 1 + state.times_selected[view.available]
        bonus = self.exploration * np.sqrt(3 * math.log(view.round_index) / (2 * rounds))
        pooled = np.zeros(len(counts))
        scores = bonus + 1 / (math.log(len(pooled)) + divergences(counts, pooled) + np.finfo(float).tiny)
        chosen: list[int] = []
        while True:
            chosen.append(int(best(scores, 1, view.rng)[0]))
            if len(chosen) == view.cohort_size:
                return Draw(view.available[chosen], state)
            pooled += counts[:, chosen[-1]]
            scores = -divergences(counts, pooled)
            scores[chosen] = -np.inf


def divergences(counts: NDArray[np.float64], pooled: NDArray[np.float64]) -> NDArray[np.float64]:
    """KL divergence from uniform of the pooled shares with each client (a column of `counts`) added.

    With c examples of a class among Q, the sum of ``c / Q * ln(c / Q)`` is ``sum(c ln c) / Q - ln Q``: one logarithm a
    count, of whole numbers, and no division until the end.
    """
    out = np.empty(counts.shape[1])
    for start in range(0, len(out), BLOCK):
        total, entropy = 0.0, 0.0
        for row, held in zip(counts[:, start : start + BLOCK], pooled.tolist(), strict=True):
            count = row + held
            total = total + count
            entropy = entropy + count * np.log(np.maximum(count, 1.0))
        out[start : start + BLOCK] = entropy / total - np.log(total)
    return np.maximum(out + math.log(len(counts)), 0.0)
