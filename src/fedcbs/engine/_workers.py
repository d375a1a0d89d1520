"""Threads that each do whole pieces of work with one thread of PyTorch's, so that no sum depends on their number."""

from __future__ import annotations

import collections
import contextlib
import queue
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar, final

import torch

__all__ = ["Workers", "one_thread"]

Tool = TypeVar("Tool")
Task = TypeVar("Task")
Result = TypeVar("Result")


@final
class Workers(Generic[Tool]):
    """Up to `threads` pieces of work at a time, each with a tool of its own (a copy of the model, say).

    Parameters
    ----------
    make
        Makes a tool; called when a further one is needed.
    threads
        How many work at once.
    """

    def __init__(self, make: Callable[[], Tool], threads: int) -> None:
        self._make = make
        self._threads = threads
        self._tools: queue.SimpleQueue[Tool] = queue.SimpleQueue()

    def map(
        self, work: Callable[[Tool, Task], Result], tasks: Iterable[Task], *, threads: int | None = None
    ) -> Iterator[Result]:
        """Results in the order of the tasks; work runs ahead of what is read by a few tasks only."""
        threads = self._threads if threads is None else threads
        if threads == 1:
            for task in tasks:
                with one_thread():
                    result = self._run(work, task)
                yield result
            return
        torch.get_num_threads()  # this thread's own number is settled before others set theirs
        try:
            with ThreadPoolExecutor(threads, "fedcbs", torch.set_num_threads, (1,)) as pool:
                waiting: collections.deque[Future[Result]] = collections.deque()
                for task in tasks:
                    waiting.append(pool.submit(self._run, work, task))
                    if len(waiting) > threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
        finally:
            torch.set_num_threads(torch.get_num_threads())  # what threads started later begin with

    def _run(self, work: Callable[[Tool, Task], Result], task: Task) -> Result:
        try:
            tool = self._tools.get_nowait()
        except queue.Empty:
            tool = self._make()
        try:
            return work(tool, task)
        finally:
            self._tools.put(tool)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch work with one thread for a while."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
