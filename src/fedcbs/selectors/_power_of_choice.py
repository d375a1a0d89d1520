"""Power-of-choice: of a few random candidates, those with the highest loss.

Cho, Wang and Joshi, "Client Selection in Federated Learning: Convergence Analysis and Power-of-Choice Selection
Strategies", 2020. Draw d candidates among the available, without replacement and in proportion to their sizes; ask for
their loss at the current global model; take the highest. ``cpow-d`` asks for the loss on one batch only; ``rpow-d`` asks
nobody and goes by the loss each client reported when it last took part.

Followed: the paper's text. How we differ: candidates are drawn among the clients available in the round; equal losses
are ordered at random. In ``rpow-d`` a client that never reported counts as having an infinite loss, so that everybody is
tried. Clients without examples are left out.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError
from fedcbs.selectors._base import Draw, Selector
from fedcbs.selectors._baselines import Memoryless
from fedcbs.selectors._feedback import Feedback
from fedcbs.selectors._information import Need
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._sampling import best, weighted_without_replacement
from fedcbs.selectors._state import State

__all__ = ["BatchPowerOfChoice", "PowerOfChoice", "StalePowerOfChoice"]

_PAPER = "Cho et al. 2020, power-of-choice"


def draw_candidates(view: RoundView, num_candidates: int) -> NDArray[np.int64]:
    """Candidates among the available, without replacement, in proportion to their sizes; 0 stands for twice the cohort."""
    wanted = num_candidates or 2 * view.cohort_size
    if wanted < view.cohort_size:
        raise InvalidArgumentError(
            f"num_candidates={wanted} is below cohort_size={view.cohort_size}; raise it, or leave it at 0"
        )
    sizes = view.num_examples().astype(np.float64)
    size = min(wanted, len(view.available))
    return view.available[weighted_without_replacement(sizes, size, view.rng)]


@final
@dataclasses.dataclass(frozen=True)
class PowerOfChoice(Memoryless):
    """Power-of-choice (pow-d).

    Parameters
    ----------
    num_candidates
        How many clients are asked for their loss; 0 stands for twice the cohort size (20 for the paper's 10).
    """

    name: ClassVar[str] = "pow-d"
    summary: ClassVar[str] = "of d random candidates, those with the highest loss"
    paper: ClassVar[str] = _PAPER
    needs: ClassVar[frozenset[Need]] = frozenset({Need.NUM_EXAMPLES, Need.LOSSES})
    skips_empty: ClassVar[bool] = True
    num_candidates: int = 0

    def __post_init__(self) -> None:
        _checks.integer(self.num_candidates, "num_candidates", minimum=0)

    def _select(self, state: State, view: RoundView) -> Draw[State]:
        candidates = draw_candidates(view, self.num_candidates)
        return Draw(candidates[best(view.losses(candidates), view.cohort_size, view.rng)], state)


@final
@dataclasses.dataclass(frozen=True)
class BatchPowerOfChoice(Memoryless):
    """Power-of-choice with the loss on one batch (cpow-d): cheaper for clients.

    Parameters
    ----------
    num_candidates
        How many clients are asked for their loss; 0 stands for twice the cohort size.
    """

    name: ClassVar[str] = "cpow-d"
    summary: ClassVar[str] = "power-of-choice with the loss on one batch"
    paper: ClassVar[str] = _PAPER
    needs: ClassVar[frozenset[Need]] = frozenset({Need.NUM_EXAMPLES, Need.BATCH_LOSSES})
    skips_empty: ClassVar[bool] = True
    num_candidates: int = 0

    def __post_init__(self) -> None:
        _checks.integer(self.num_candidates, "num_candidates", minimum=0)

    def _select(self, state: State, view: RoundView) -> Draw[State]:
        candidates = draw_candidates(view, self.num_candidates)
        return Draw(candidates[best(view.batch_losses(candidates), view.cohort_size, view.rng)], state)


@dataclasses.dataclass(frozen=True, eq=False)
class LossState(State):
    """Adds the loss that each client last reported; infinite before it did."""

    last_losses: NDArray[np.float64]


class RemembersLosses(Selector[LossState], abc.ABC):
    """Base of selectors that go by the losses participants reported."""

    learns: ClassVar[frozenset[Need]] = frozenset({Need.LOSSES})

    def _init(self, num_clients: int) -> LossState:
        return LossState(np.zeros(num_clients, dtype=np.int64), np.full(num_clients, np.inf))

    def _observe(self, state: LossState, feedback: Feedback) -> LossState:
        last_losses = state.last_losses.copy()
        last_losses[feedback.answered_ids] = feedback.of(Need.LOSSES, self.name)
        return dataclasses.replace(state, last_losses=last_losses)


@final
@dataclasses.dataclass(frozen=True)
class StalePowerOfChoice(RemembersLosses):
    """Power-of-choice with the last known losses (rpow-d): nobody is asked.

    Parameters
    ----------
    num_candidates
        How many clients are considered; 0 stands for twice the cohort size.
    """

    name: ClassVar[str] = "rpow-d"
    summary: ClassVar[str] = "power-of-choice with the losses last reported; asks nobody"
    paper: ClassVar[str] = _PAPER
    needs: ClassVar[frozenset[Need]] = frozenset({Need.NUM_EXAMPLES})
    skips_empty: ClassVar[bool] = True
    num_candidates: int = 0

    def __post_init__(self) -> None:
        _checks.integer(self.num_candidates, "num_candidates", minimum=0)

    def _select(self, state: LossState, view: RoundView) -> Draw[LossState]:
        candidates = draw_candidates(view, self.num_candidates)
        return Draw(candidates[best(state.last_losses[candidates], view.cohort_size, view.rng)], state)
