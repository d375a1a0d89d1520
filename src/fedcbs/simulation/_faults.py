"""Clients that drop out, and clients that miss a deadline."""

from __future__ import annotations

import dataclasses
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks, _random
from fedcbs.errors import UnknownNameError
from fedcbs.simulation._times import Seconds

__all__ = ["LATE", "Fate", "Faults"]

LATE = ("drop", "partial")
"""What can become of a client that would miss the deadline."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Fate:
    """What became of a cohort.

    Parameters
    ----------
    answered, failed
        Clients, ascending.
    steps
        Steps that each of `answered` made.
    durations
        Seconds from request to answer, of each of `answered`; None where no times are simulated.
    seconds
        Seconds that the server waited; None where no times are simulated.
    """

    answered: NDArray[np.int64]
    failed: NDArray[np.int64]
    steps: NDArray[np.int64]
    durations: NDArray[np.float64] | None
    seconds: float | None


@final
@dataclasses.dataclass(frozen=True)
class Faults:
    """What can go wrong with a client that was selected.

    Which clients drop out in a round is a function of seed and round, whoever is selected.

    Parameters
    ----------
    dropout
        Probability that a selected client sends nothing.
    deadline
        Seconds after which the server goes on without those that have not answered; 0 for none.
    late
        What a client does that would miss the deadline: ``drop`` (it is lost), or ``partial`` (it makes as many steps as
        fit, and is lost if not even one does).
    """

    dropout: float = 0.0
    deadline: float = 0.0
    late: str = "drop"

    def __post_init__(self) -> None:
        _checks.fraction(self.dropout, "availability.dropout", allow_zero=True)
        _checks.real(self.deadline, "availability.deadline", minimum=0)
        if self.late not in LATE:
            raise UnknownNameError("availability.late", self.late, LATE)

    def fate(
        self,
        cohort: NDArray[np.int64],
        steps: NDArray[np.int64],
        seconds: Seconds | None,
        factors: NDArray[np.float64] | None,
        *,
        num_clients: int,
        seed: int,
        round_index: int,
    ) -> Fate:
        """Say what becomes of a cohort whose members would make so many steps.

        Parameters
        ----------
        cohort, steps
            Who was selected, and the steps asked of each.
        seconds, factors
            Expected seconds of every client of the population, and each one's factor of this round.
        num_clients, seed, round_index
            Fix who drops out.
        """
        alive = np.ones(len(cohort), dtype=bool)
        if self.dropout:
            coins = _random.generator("dropout", seed, round_index).random(num_clients)
            alive = coins[cohort] >= self.dropout
        if seconds is None or factors is None:
            return Fate(cohort[alive], cohort[~alive], steps[alive], None, None)
        took = (seconds.total * factors)[cohort]
        if self.deadline:
            steps, took = self._in_time(cohort, steps, took, seconds, factors)
            alive &= steps > 0
        waited = float(took[alive].max(initial=0.0))
        if self.deadline and not alive.all():
            waited = self.deadline  # it could not know that nobody else would come
        return Fate(cohort[alive], cohort[~alive], steps[alive], took[alive], waited)

    def _in_time(
        self,
        cohort: NDArray[np.int64],
        steps: NDArray[np.int64],
        took: NDArray[np.float64],
        seconds: Seconds,
        factors: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the steps made in time, 0 for who is lost, and the seconds that they took."""
        late = took > self.deadline
        if self.late == "drop":
            return np.where(late, 0, steps), took
        a_step = (seconds.training * factors)[cohort] / np.maximum(steps, 1)
        travel = took - a_step * steps
        fit = np.floor(np.maximum(self.deadline - travel, 0.0) / a_step).astype(np.int64)
        made = np.where(late, np.minimum(fit, steps), steps)
        return made, travel + a_step * made
