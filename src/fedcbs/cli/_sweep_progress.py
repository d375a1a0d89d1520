"""How a sweep goes: a bar where somebody watches, and a line where nobody does."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from fedcbs.cli._console import tell

if TYPE_CHECKING:
    from fedcbs.sweeps import Job, Outcome, Progress

__all__ = ["exit_code", "say_outcomes", "sweep_progress"]


@contextlib.contextmanager
def sweep_progress(
    jobs: Sequence[Job], *, quiet: bool
) -> Iterator[Callable[[Outcome | Progress], None] | None]:
    """Give a function that takes what is heard of each job."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield _Lines(len(jobs)).watch
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    total = sum(job.rounds for job in jobs)
    rounds: dict[str, int] = {}
    columns = (
        TextColumn("{task.fields[runs]}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("sweep", total=total, runs=f"0 of {len(jobs)} runs", last="")
        ended: set[str] = set()

        def watch(told: Outcome | Progress) -> None:
            place = str(told.job.folder)
            status = getattr(told, "status", None)
            if status is None:
                rounds[place] = told.round  # type: ignore[union-attr]  # no outcome, so progress
            else:
                ended.add(place)
                rounds[place] = rounds.get(place, 0) if status == "stopped" else told.job.rounds
            runs = f"{len(ended)} of {len(jobs)} runs"
            bar.update(task, completed=sum(rounds.values()), runs=runs, last=told.job.name)

        yield watch


class _Lines:
    """One line for each run that ends."""

    def __init__(self, number: int) -> None:
        self._number, self._ended = number, 0

    def watch(self, told: Outcome | Progress) -> None:
        status = getattr(told, "status", None)
        if status is not None:
            self._ended += 1
            why = f": {told.message}" if status == "failed" else ""  # type: ignore[union-attr]  # it has ended
            tell(f"{self._ended} of {self._number}: {told.job.name}: {status}{why}")


def say_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Say how the runs of a sweep ended, and what to do about those that did not."""
    counted = Counter(outcome.status for outcome in outcomes)
    runs = "run" if len(outcomes) == 1 else "runs"
    tell(f"{len(outcomes)} {runs}: {', '.join(f'{number} {status}' for status, number in counted.items())}")
    told: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        if outcome.message:
            told.setdefault((outcome.status, outcome.message), []).append(outcome.job.name)
    for (status, message), (first, *others) in told.items():
        more = f", and {len(others)} more like it" if others else ""
        tell(f"{first}{more}: {status}: {message}")
    if counted["stopped"]:
        tell("the same command goes on where this one stopped")


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """Return 1 if any run failed; one that diverged, or goes on next time, is no failure."""
    return int(any(outcome.status == "failed" for outcome in outcomes))
