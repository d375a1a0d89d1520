"""Processes that compute for the server. What a library does there, aborting included, takes nothing else down."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, final

from fedcbs.errors import ProtocolError

__all__ = ["Pool"]

_worker: Any = None


@final
class Pool:
    """One object in each of several processes, whose methods are called with tasks.

    Parameters
    ----------
    kind, arguments
        What makes the object in each process.
    processes
        How many; with 0 the object is made here, and nothing is isolated.
    """

    def __init__(self, kind: Callable[..., Any], arguments: tuple[Any, ...], *, processes: int) -> None:
        self._kind, self._arguments = kind, arguments
        self._here: Any = None
        self._executor: ProcessPoolExecutor | None = None
        self._processes = processes
        if processes > 0:
            # Spawned and not forked: a worker holds what it is given, and nothing of the parent's memory.
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(processes, context, _start, (kind, arguments))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=kind is not None)

    def map(
        self, method: str, tasks: Mapping[Any, Callable[[], tuple[Any, ...]]]
    ) -> Iterator[tuple[Any, Any]]:
        """Call a method with the arguments of each task, made when it is its turn; gives (task, result) as they come."""
        if self._executor is None:
            yield from self._map_here(method, tasks)
            return
        running: dict[Future[Any], Any] = {}
        waiting = iter(tasks.items())
        try:
            while True:
                for task, arguments in waiting:
                    running[self._executor.submit(_call, method, arguments())] = task
                    if len(running) > self._processes:
                        break
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BrokenProcessPool:
            raise ProtocolError(
                "a computing process died (out of memory, or the library gave up); what was finished is kept. "
                "Run again; if it dies again, with fewer processes"
            ) from None

    def _map_here(
        self, method: str, tasks: Mapping[Any, Callable[[], tuple[Any, ...]]]
    ) -> Iterator[tuple[Any, Any]]:
        for task, arguments in tasks.items():
            if self._here is None:
                self._here = self._kind(*self._arguments)
            yield task, getattr(self._here, method)(*arguments())


def _start(kind: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    global _worker
    _worker = kind(*arguments)


def _call(method: str, arguments: tuple[Any, ...]) -> Any:
    return getattr(_worker, method)(*arguments)
