"""Runs in several processes, each doing one after another."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import queue
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, final

from fedcbs.errors import FedCBSError, InvalidArgumentError, RunError
from fedcbs.runs._config import RunConfig
from fedcbs.simulation import RoundRecord

__all__ = ["Job", "work_off"]

Seen = Callable[[str, int], None]
PATIENCE = 0.5
"""Seconds between looks at whether all processes are alive."""


@final
@dataclasses.dataclass(frozen=True)
class Job:
    """One run to be done.

    Parameters
    ----------
    name
        What it is called in the comparison.
    path
        Its directory.
    config
        What to run.
    rounds
        How many rounds it has.
    threads
        Of the engine; None for as many as it likes.
    """

    name: str
    path: str
    config: RunConfig
    rounds: int
    threads: int | None = None


def work_off(
    jobs: Sequence[Job],
    run: Callable[[Job, Callable[[RoundRecord], None]], None],
    *,
    workers: int,
    seen: Seen,
) -> None:
    """Do all jobs in so many processes.

    An error of one ends them all, and so does Ctrl-C; every run saves its state first.

    Parameters
    ----------
    jobs
        What to do.
    run
        Does one; called in a process of its own with the job and what to call after each round.
    workers
        How many processes.
    seen
        Called with a job's path and its rounds done.
    """
    context = multiprocessing.get_context("spawn")  # a fork would inherit the threads of PyTorch, and hang
    waiting, told = context.Queue(), context.Queue()
    for job in [*jobs, *[None] * workers]:
        waiting.put(job)
    processes = [
        context.Process(target=_work, args=(run, waiting, told), daemon=True) for _ in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        _listen(processes, told, seen)
    except BaseException:
        for process in processes:
            process.terminate()  # which it treats like Ctrl-C
        raise
    finally:
        for process in processes:
            process.join()


def _listen(processes: Sequence[Any], told: Any, seen: Seen) -> None:
    """Hand on what processes tell until all are done."""
    at_work, looked = len(processes), time.monotonic()
    while at_work:
        with contextlib.suppress(queue.Empty):
            kind, *rest = told.get(timeout=PATIENCE)
            if kind == "round":
                seen(rest[0], rest[1])
            elif kind == "error":
                raise rest[0]
            else:
                at_work -= 1
        if time.monotonic() - looked > PATIENCE:
            looked = time.monotonic()
            _check_alive(processes)


def _check_alive(processes: Sequence[Any]) -> None:
    dead = [process for process in processes if process.exitcode not in (None, 0)]
    if dead:
        raise RunError(
            f"a process of the comparison ended with code {dead[0].exitcode} (out of memory?); run the same command again"
            " to go on, with fewer --jobs if memory is short"
        )


def _work(run: Callable[..., None], waiting: Any, told: Any) -> None:
    """Do jobs until there are none left."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for job in iter(waiting.get, None):

            def watch(record: RoundRecord, path: str = job.path) -> None:
                told.put(("round", path, record.round))

            run(job, watch)
        told.put(("done",))
    except KeyboardInterrupt:
        told.cancel_join_thread()  # a process that was killed may have taken the lock of the pipe with it
    except FedCBSError as error:
        told.put(("error", _portable(error)))
    except (OSError, MemoryError) as error:
        told.put(("error", RunError(str(error) or "out of memory; use fewer --jobs")))


def _portable(error: FedCBSError) -> FedCBSError:
    """An error that survives the way between processes: some are made from more than their text."""
    kind = InvalidArgumentError if isinstance(error, InvalidArgumentError) else RunError
    return kind(str(error))
