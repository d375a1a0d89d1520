"""Where the jobs of a sweep are done."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Generator, Sequence
from typing import final

from fedcbs.sweeps._job import STOPPED, Job, Outcome, Progress
from fedcbs.sweeps._work import work

__all__ = ["Executor", "Here"]


class Executor(abc.ABC):
    """Does jobs, and tells how they go. A job that fails takes no other along."""

    @abc.abstractmethod
    def run(
        self, jobs: Sequence[Job], deadline: float | None = None
    ) -> Generator[Outcome | Progress, None, None]:
        """Do jobs, in their order as far as there is room.

        Parameters
        ----------
        jobs
            What to do.
        deadline
            Time of the clock at which all stop after a round, with a checkpoint; what is not begun then is not begun.
        """


@final
@dataclasses.dataclass(frozen=True)
class Here(Executor):
    """One job after another in this process: slow, simple, and what the others must agree with."""

    def run(
        self, jobs: Sequence[Job], deadline: float | None = None
    ) -> Generator[Outcome | Progress, None, None]:
        """Do jobs one after another; what they tell of themselves comes after each."""
        stopped = False
        for job in jobs:
            told: list[Progress] = []

            def tell(index: int, accuracy: float | None, job: Job = job, told: list[Progress] = told) -> None:
                told.append(Progress(job, index, accuracy))

            outcome = Outcome(job, STOPPED) if stopped else work(job, deadline, tell)
            yield from told[-1:]
            yield outcome
            stopped = stopped or outcome.status == STOPPED
