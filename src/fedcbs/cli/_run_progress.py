"""Live progress of training, and an end that saves where a signal asks for one."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, final

from fedcbs.cli._console import tell

if TYPE_CHECKING:
    from fedcbs.simulation import RoundRecord

__all__ = ["INTERRUPTED", "Interrupt", "run_progress", "stops_politely", "told_how_to_go_on"]

INTERRUPTED = 130
"""The exit code of a program that SIGINT ended."""


@final
class Interrupt:
    """A handler of signals that remembers whether there was one, for those who catch what it raises."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: object) -> None:  # noqa: ARG002  # as signal handlers are called
        """Interrupt."""
        self.came = True
        raise KeyboardInterrupt


@contextlib.contextmanager
def stops_politely() -> Iterator[Interrupt]:
    """Treat a request to terminate like Ctrl-C: the state is saved first."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, interrupt)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the shell said to ignore it
        before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def told_how_to_go_on(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Stop politely, and say what to do next."""
    with stops_politely():
        try:
            yield
        except KeyboardInterrupt:
            if (Path(directory) / "config.json").exists():
                tell(f"fedcbs: stopped, the state is saved; go on with: fedcbs resume {directory}")
            raise


@contextlib.contextmanager
def run_progress(rounds: int, *, quiet: bool) -> Iterator[Callable[[RoundRecord], None] | None]:
    """Give a function that takes each round's record, and draws a bar if somebody watches the standard error."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(bar_width=12),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("rounds", total=rounds, rate="", state="")
        seen = _Seen()

        def watch(record: RoundRecord) -> None:
            speed = bar.tasks[0].speed
            rate = f"{speed:.3g}/s" if speed else ""
            bar.update(task, completed=record.round, rate=rate, state=seen.after(record))

        yield watch


class _Seen:
    """The last numbers seen; not every round has all."""

    def __init__(self) -> None:
        self._accuracy: float | None = None

    def after(self, record: RoundRecord) -> str:
        """Say how it stands after a round."""
        if record.accuracy is not None:
            self._accuracy = record.accuracy
        parts = [] if self._accuracy is None else [f"accuracy {self._accuracy:.3f}"]
        parts += [] if record.qcid is None else [f"QCID {record.qcid:.1e}"]
        parts += [] if record.loss is None else [f"loss {record.loss:.3f}"]
        return ", ".join(parts)
