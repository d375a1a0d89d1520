"""Jobs in processes of this machine. A process that dies takes its job along, and no other."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import time
from collections.abc import Generator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import final

from fedcbs import _checks
from fedcbs.sweeps._executor import Executor
from fedcbs.sweeps._job import FAILED, STOPPED, Job, Outcome, Progress
from fedcbs.sweeps._work import work

__all__ = ["Processes"]

GRACE = 120.0
"""Seconds that a process gets to save a checkpoint when the user stops the sweep."""


@final
@dataclasses.dataclass(frozen=True)
class Processes(Executor):
    """Jobs in processes that each do one after another.

    Parameters
    ----------
    number
        How many at a time.
    """

    number: int

    def __post_init__(self) -> None:
        _checks.integer(self.number, "jobs", minimum=1)

    def run(
        self, jobs: Sequence[Job], deadline: float | None = None
    ) -> Generator[Outcome | Progress, None, None]:
        """Do jobs, as many at a time as there are processes."""
        waiting = list(reversed(jobs))
        workers: dict[Connection, _Worker] = {}
        try:
            while waiting or workers:
                while waiting and len(workers) < self.number:
                    worker = _Worker.started()
                    worker.give(waiting.pop(), deadline)
                    workers[worker.pipe] = worker
                for pipe in wait(list(workers), timeout=1.0):
                    assert isinstance(pipe, Connection)
                    worker = workers[pipe]
                    told = worker.hear()
                    yield told
                    if isinstance(told, Progress):
                        continue
                    if worker.alive and waiting:
                        worker.give(waiting.pop(), deadline)
                    else:
                        workers.pop(pipe).close()
        finally:
            for worker in workers.values():
                worker.stop()
            end = time.monotonic() + GRACE
            for worker in workers.values():
                worker.close(end)


@dataclasses.dataclass(eq=False)
class _Worker:
    """A process, as its parent sees it."""

    process: SpawnProcess
    pipe: Connection
    job: Job | None = None
    alive: bool = True

    @classmethod
    def started(cls) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, job: Job, deadline: float | None) -> None:
        self.job = job
        with contextlib.suppress(OSError):  # it died; hearing from it says so
            self.pipe.send((job, deadline))

    def hear(self) -> Outcome | Progress:
        assert self.job is not None
        try:
            told = self.pipe.recv()
        except (EOFError, OSError):
            self.alive = False
            self.process.join(10)
            return Outcome(self.job, FAILED, _last_words(self.process.exitcode))
        assert isinstance(told, Outcome | Progress)
        return told

    def stop(self) -> None:
        """Let it save a checkpoint and leave, as if the user had stopped it there."""
        if self.process.is_alive() and self.process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGINT)

    def close(self, end: float | None = None) -> None:
        with contextlib.suppress(OSError):
            self.pipe.send(None)
        self.process.join(10 if end is None else max(end - time.monotonic(), 1))
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()
        self.process.close()


def _last_words(code: int | None) -> str:
    """What to say of a process that ended without a word.

    >>> _last_words(-9)
    'its process was killed by SIGKILL; out of memory, perhaps: run fewer jobs at a time'
    """
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = "; out of memory, perhaps: run fewer jobs at a time" if name == "SIGKILL" else ""
        return f"its process was killed by {name}{hint}"
    return f"its process ended with code {code}"


def _serve(pipe: Connection) -> None:
    """Do jobs until there are no more, or nobody is there to give them."""
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # a shell's background jobs inherit that they ignore Ctrl-C
        signal.signal(number, signal.default_int_handler)
    while True:
        try:
            told = pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        if told is None:
            return
        job, deadline = told
        last = 0.0

        def tell(index: int, accuracy: float | None, job: Job = job) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < 0.2 and index < job.rounds:
                return
            last = now
            try:
                pipe.send(Progress(job, index, accuracy))
            except OSError:
                raise KeyboardInterrupt from None  # whoever listened is gone: save a checkpoint and leave

        outcome = work(job, deadline, tell)
        try:
            pipe.send(outcome)
        except OSError:
            return
        if outcome.status == STOPPED and (deadline is None or time.time() < deadline):
            return
