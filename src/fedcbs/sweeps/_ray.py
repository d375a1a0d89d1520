"""Jobs on a Ray cluster; needs the extra ``ray``, and a folder that all its machines share."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
from collections.abc import Generator, Sequence
from typing import Any, final

from fedcbs.errors import InvalidArgumentError, MissingExtraError
from fedcbs.sweeps._executor import Executor
from fedcbs.sweeps._job import FAILED, Job, Outcome, Progress
from fedcbs.sweeps._work import work

__all__ = ["RayCluster"]


@final
@dataclasses.dataclass(frozen=True)
class RayCluster(Executor):
    """Jobs as Ray tasks.

    Parameters
    ----------
    address
        Of the cluster, such as ``ray://head:10001`` or ``auto``; ``local`` starts one on this machine.
    cores
        Cores that each job reserves; its engine uses as many threads.
    """

    address: str
    cores: int = 1

    def __post_init__(self) -> None:
        if not self.address:
            raise InvalidArgumentError("ray='' is no address; give one such as 'auto' or 'ray://head:10001'")
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("ray", extra="ray", purpose="--ray")

    def run(
        self, jobs: Sequence[Job], deadline: float | None = None
    ) -> Generator[Outcome | Progress, None, None]:
        """Do jobs, as many at a time as the cluster has room for."""
        import ray

        ray.init(address=self.address, log_to_driver=False, include_dashboard=None)
        try:
            task = ray.remote(num_cpus=self.cores, max_retries=2)(work)
            running: dict[Any, Job] = {
                task.remote(dataclasses.replace(job, threads=job.threads or self.cores), deadline): job
                for job in jobs
            }
            try:
                while running:
                    for reference in ray.wait(list(running))[0]:
                        yield _outcome(ray, reference, running.pop(reference))
            finally:
                for reference in running:  # each takes it as Ctrl-C: it saves a checkpoint and leaves
                    with contextlib.suppress(Exception):
                        ray.cancel(reference)
        finally:
            ray.shutdown()


def _outcome(ray: Any, reference: Any, job: Job) -> Outcome:
    try:
        found = ray.get(reference)
    except Exception as error:  # a machine that is lost, a worker that was killed
        return Outcome(job, FAILED, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
    return Outcome(job, found.status, found.message)
