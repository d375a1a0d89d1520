"""Ornstein-Uhlenbeck selection: only significant updates are sent; the others are estimated and still counted.

Ribero and Vikalo, "Communication-Efficient Federated Learning via Optimal Client Sampling", 2020. The clients' weights are
modelled as an Ornstein-Uhlenbeck process. Every available client trains; those whose update is significant, its norm over
a threshold, send it; for each other client the server uses the process's expectation of its update.

Followed: the paper's idea; no code that can be relied on is known. What is ours:

- Clients tell the norm of their update (one number); the server takes those of at least `significance` times the running
  mean of all norms told so far, the largest first, at least one and at most the cohort size.
- A client that does not send is estimated by the last update it sent, shrunk by ``decay`` for each round since: the mean
  of a process that reverts to zero. Who never sent anything is left out.
- ``decay`` is learnt from pairs of consecutive updates of one client: with u sent g rounds after v, ``<u, v> / <v, v>``
  estimates ``decay ** g``. Until there is a pair, and where `decay` is given, it is that option.
- Sent and estimated updates are weighed in proportion to the clients' sizes.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.selectors._base import Draw, Estimates
from fedcbs.selectors._feedback import Feedback
from fedcbs.selectors._information import Need
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._sampling import best
from fedcbs.selectors._update_memory import RemembersUpdates, UpdateState

__all__ = ["OrnsteinUhlenbeck", "OrnsteinUhlenbeckState"]


@dataclasses.dataclass(frozen=True, eq=False)
class OrnsteinUhlenbeckState(UpdateState):
    """Adds when each client last sent, the running mean of norms, and the sums that `decay` is learnt from."""

    last_rounds: NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    round_index: NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.array(0))
    norms: NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.zeros(2))  # sum, number
    pairs: NDArray[np.float64] = dataclasses.field(
        default_factory=lambda: np.zeros(3)
    )  # <u,v>, <v,v>, <v,v> g


@final
@dataclasses.dataclass(frozen=True)
class OrnsteinUhlenbeck(RemembersUpdates[OrnsteinUhlenbeckState]):
    """Ornstein-Uhlenbeck selection.

    Parameters
    ----------
    significance
        An update is significant from this many times the mean norm.
    decay
        What is left of a client's expected update after one round; learnt from the second update of a client on.
    learn_decay
        Whether it is.
    precision
        What updates are kept in: ``float32`` or ``float16``.
    on_disk
        Whether they are kept in a file of the run's folder instead of in memory. Those of the available clients that do
        not send are read, in float64, to be averaged.
    """

    name: ClassVar[str] = "ou"
    summary: ClassVar[str] = "significant updates only; the others are estimated and still counted"
    paper: ClassVar[str] = "Ribero and Vikalo 2020, Ornstein-Uhlenbeck sampling"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.UPDATE_NORMS, Need.NUM_EXAMPLES})
    learns: ClassVar[frozenset[Need]] = frozenset({Need.UPDATES})
    skips_empty: ClassVar[bool] = True
    fixed_size: ClassVar[bool] = False
    significance: float = 1.0
    decay: float = 0.5
    learn_decay: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.real(self.significance, "significance", minimum=0)
        _checks.fraction(self.decay, "decay", allow_zero=True)
        _checks.boolean(self.learn_decay, "learn_decay")

    def _init(self, num_clients: int) -> OrnsteinUhlenbeckState:
        state = OrnsteinUhlenbeckState.empty(num_clients)
        return dataclasses.replace(state, last_rounds=np.zeros(num_clients, dtype=np.int64))

    def _select(self, state: OrnsteinUhlenbeckState, view: RoundView) -> Draw[OrnsteinUhlenbeckState]:
        norms = view.update_norms(view.available)
        total, number = state.norms + np.array([norms.sum(), len(norms)])
        significant = int((norms >= self.significance * total / number).sum())
        places = best(norms, min(max(significant, 1), view.cohort_size), view.rng)
        sizes = view.num_examples().astype(np.float64)
        silent = np.setdiff1d(np.arange(len(norms)), places)
        silent = silent[state.updates.known(view.available[silent])]
        whole = sizes[places].sum() + sizes[silent].sum()
        state = dataclasses.replace(
            state, round_index=np.array(view.round_index), norms=np.array([total, number])
        )
        estimates = None
        if len(silent):
            clients = view.available[silent]
            estimates = Estimates(clients, self._expected(state, clients), sizes[silent] / whole)
        return Draw(view.available[places], state, sizes[places] / whole, estimates)

    def _expected(self, state: OrnsteinUhlenbeckState, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """The process's expectation of each client's update in the state's round."""
        rounds = state.round_index - state.last_rounds[clients]
        return state.of(clients) * (self.current_decay(state) ** rounds)[:, None]

    def current_decay(self, state: OrnsteinUhlenbeckState) -> float:
        """What is left of an expected update after one round, as learnt so far."""
        inner, squares, gaps = state.pairs
        if not self.learn_decay or squares == 0:
            return self.decay
        return float(np.clip(inner / squares, 0.0, 1.0) ** (squares / gaps))  # the mean gap is gaps / squares

    def _observe(self, state: OrnsteinUhlenbeckState, feedback: Feedback) -> OrnsteinUhlenbeckState:
        clients, updates = feedback.answered_ids, feedback.of(Need.UPDATES, self.name)
        again = state.updates.known(clients)
        before = state.of(clients[again])
        squares = np.einsum("nd,nd->n", before, before)
        gaps = (state.round_index - state.last_rounds[clients[again]]).astype(np.float64)
        inner = np.einsum("nd,nd->", before, updates[again]) if again.any() else 0.0
        last_rounds = state.last_rounds.copy()
        last_rounds[clients] = state.round_index
        pairs = state.pairs + np.array([inner, squares.sum(), (squares * gaps).sum()])
        return dataclasses.replace(state.remember(clients, updates), last_rounds=last_rounds, pairs=pairs)
