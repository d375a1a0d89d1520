"""A sweep: jobs through an executor, and what came of each."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence

from fedcbs import _checks
from fedcbs.sweeps._executor import Executor, Here
from fedcbs.sweeps._job import STOPPED, Job, Outcome, Progress
from fedcbs.sweeps._processes import Processes
from fedcbs.sweeps._work import ended

__all__ = ["local", "run_jobs"]

Watch = Callable[[Outcome | Progress], None]


def local(jobs: int | None = None) -> Executor:
    """Return what does that many jobs at a time on this machine; by default one a core.

    >>> local(1)
    Here()
    """
    number = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number = number if jobs is None else _checks.integer(jobs, "jobs", minimum=1)
    return Here() if number == 1 else Processes(number)


def run_jobs(
    jobs: Sequence[Job],
    executor: Executor,
    *,
    max_minutes: float | None = None,
    watch: Watch | None = None,
) -> list[Outcome]:
    """Do jobs, and return how each ended, in their order. What is done already is not done again.

    Parameters
    ----------
    jobs
        The runs. Those whose folder holds a part of them go on from there.
    executor
        Where they are done.
    max_minutes
        Time after which all stop, each with a checkpoint.
    watch
        Called with what is heard of each.
    """
    deadline = None
    if max_minutes is not None:
        deadline = time.time() + 60 * _checks.real(max_minutes, "max_minutes", minimum=0, open_minimum=True)
    found: dict[str, Outcome] = {}
    for job in jobs:
        known = ended(job)
        if known is not None:
            found[str(job.folder)] = known
            if watch is not None:
                watch(known)
    left = [job for job in jobs if str(job.folder) not in found]
    if left:
        # An interrupt between two jobs comes here; a job that it finds at work stops by itself.
        with (
            contextlib.suppress(KeyboardInterrupt),
            contextlib.closing(executor.run(left, deadline)) as heard,
        ):
            for told in heard:
                if isinstance(told, Outcome):
                    found[str(told.job.folder)] = told
                if watch is not None:
                    watch(told)
    return [found.get(str(job.folder), Outcome(job, STOPPED)) for job in jobs]
