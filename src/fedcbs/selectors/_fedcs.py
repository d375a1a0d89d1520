"""FedCS: as many clients as fit into a deadline, the quickest to add first.

Nishio and Yonetani, "Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge", ICC 2019,
Algorithm 3. Clients train at the same time but upload one after another. With the time ``elapsed`` so far, adding client n
takes ``upload_n + max(0, train_n - elapsed)``. Take the client that adds least, again and again, while ``overhead +
elapsed`` stays below the deadline; one that does not fit is passed over.

Followed: the paper's text, and the code of SelecEval for the order of the steps. How we differ: without a deadline
(`deadline=0`) the cohort has the size asked for; with one, that size is an upper limit. Equal clients are ordered at random.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import numpy as np

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError
from fedcbs.selectors._base import Draw
from fedcbs.selectors._baselines import Memoryless
from fedcbs.selectors._information import Need
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._sampling import best
from fedcbs.selectors._state import State

__all__ = ["FedCS"]


@final
@dataclasses.dataclass(frozen=True)
class FedCS(Memoryless):
    """FedCS.

    Parameters
    ----------
    deadline
        Seconds that a round may take; 0 for none, and then a cohort has the size asked for.
    overhead
        Seconds of a round that no client accounts for: selection, distribution, aggregation.
    """

    name: ClassVar[str] = "fedcs"
    summary: ClassVar[str] = "the quickest clients, as many as fit into a deadline"
    paper: ClassVar[str] = "Nishio and Yonetani 2019 (ICC), FedCS"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.DURATIONS})
    fixed_size: ClassVar[bool] = False
    deadline: float = 0.0
    overhead: float = 0.0

    def __post_init__(self) -> None:
        _checks.real(self.deadline, "deadline", minimum=0)
        _checks.real(self.overhead, "overhead", minimum=0)

    def _select(self, state: State, view: RoundView) -> Draw[State]:
        training, upload = view.durations().T
        out_of_play = np.zeros(len(training))
        elapsed = 0.0
        chosen: list[int] = []
        while len(chosen) < view.cohort_size and not np.isinf(out_of_play).all():
            added = upload + np.maximum(training - elapsed, 0.0)
            candidate = int(best(-(added + out_of_play), 1, view.rng)[0])
            out_of_play[candidate] = np.inf
            if not self.deadline or self.overhead + elapsed + added[candidate] < self.deadline:
                elapsed += float(added[candidate])
                chosen.append(candidate)
            elif not chosen:
                break  # the quickest does not fit, so nobody does
        if not chosen:
            quickest = self.overhead + float((training + upload).min())
            raise InvalidArgumentError(
                f"deadline={self.deadline:g} but the quickest client needs {quickest:g} s; raise it"
            )
        return Draw(view.available[chosen], state)
