"""Active federated learning: clients by the value of their last loss, with a share drawn at random.

Goetz et al., "Active Federated Learning", 2019. A client's value is ``v = sqrt(n) * mean loss`` (the summed loss over
``sqrt(n)``), refreshed only when it takes part. Each round: drop the ``floor(drop * N)`` lowest values; draw
``(1 - random_share) * M`` clients in proportion to ``exp(sharpness * v)``; draw the rest uniformly from those not chosen.

Followed: the paper's text, with its (0.75, 0.01, 0.1). How we differ: N counts the available clients; fewer are dropped
where too few would be left to draw from; a client that never took part has the largest value known, where the paper
leaves open what it has.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, final

import numpy as np

from fedcbs import _checks
from fedcbs.selectors._base import Draw
from fedcbs.selectors._information import Need
from fedcbs.selectors._power_of_choice import LossState, RemembersLosses
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._sampling import weighted_without_replacement

__all__ = ["ActiveFL"]


@final
@dataclasses.dataclass(frozen=True)
class ActiveFL(RemembersLosses):
    """Active federated learning.

    Parameters
    ----------
    drop
        Share of the available clients that is dropped, those of lowest value.
    sharpness
        How strongly the value decides.
    random_share
        Share of the cohort that is drawn uniformly.
    """

    name: ClassVar[str] = "active-fl"
    summary: ClassVar[str] = "clients by the value of their last loss, some at random"
    paper: ClassVar[str] = "Goetz et al. 2019, active federated learning"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.NUM_EXAMPLES})
    skips_empty: ClassVar[bool] = True
    drop: float = 0.75
    sharpness: float = 0.01
    random_share: float = 0.1

    def __post_init__(self) -> None:
        _checks.fraction(self.drop, "drop", allow_zero=True)
        _checks.real(self.sharpness, "sharpness", minimum=0)
        _checks.fraction(self.random_share, "random_share", allow_zero=True)

    def _select(self, state: LossState, view: RoundView) -> Draw[LossState]:
        values = np.sqrt(view.num_examples()) * state.last_losses[view.available]
        known = np.isfinite(values)
        values[~known] = values[known].max(initial=0.0)
        by_value = view.cohort_size - math.floor(self.random_share * view.cohort_size)
        dropped = min(math.floor(self.drop * len(values)), len(values) - by_value)
        order = np.lexsort((view.rng.random(len(values)), values))
        kept = order[dropped:]
        weights = np.exp(self.sharpness * (values[kept] - values.max()))
        chosen = kept[weighted_without_replacement(weights, by_value, view.rng)]
        rest = np.setdiff1d(np.arange(len(values)), chosen)
        extra = view.rng.choice(rest, view.cohort_size - by_value, replace=False)
        return Draw(view.available[np.concatenate([chosen, extra])], state)
