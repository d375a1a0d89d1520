"""What a report holds and what it leaves out, in sentences: on the page, and for whoever runs the command."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import final

from fedcbs.report._groups import Group
from fedcbs.report._run import RunData

__all__ = ["Remarks", "remarks_on"]

NAMED = 3
"""Runs that a remark names at most."""

_WHERE = {
    "html": "no chart shows {them}",
    "csv": "the table has no row of {them}",
    "pdf": "the figure does not show {them}",
}


@final
@dataclasses.dataclass(frozen=True)
class Remarks:
    """What there is to say about a report.

    Parameters
    ----------
    holds
        How many runs, of what, and how they ended.
    lacks
        Which of them it leaves out, and why; empty where it shows all.
    """

    holds: str
    lacks: str


def remarks_on(groups: Sequence[Group], kind: str = "html") -> Remarks:
    """Return what there is to say about a report of a kind, such as ``html``."""
    runs = [run for group in groups for run in group.runs]
    return Remarks(_holds(runs, len(groups)), _lacks([run for run in runs if not run.rounds.size], kind))


def _holds(runs: Sequence[RunData], configurations: int) -> str:
    rounds = sum(len(run.rounds) for run in runs)
    counted = f"{_number(len(runs), 'run')} of {_number(configurations, 'configuration')}"
    text = f"{counted}, {_number(rounds, 'round')}."
    other = [run for run in runs if run.status != "finished"]
    return f"{text} Not all finished: {_statuses(other)}." if other else text


def _lacks(runs: Sequence[RunData], kind: str) -> str:
    if not runs:
        return ""
    names = [str(run.path) for run in runs[:NAMED]]
    if len(runs) > NAMED:
        names.append(f"and {len(runs) - NAMED} more")
    where = _WHERE.get(kind, _WHERE["pdf"]).format(them="it" if len(runs) == 1 else "them")
    return (
        f"{_number(len(runs), 'run')} recorded no round ({_statuses(runs)}), so {where}: {'; '.join(names)}"
    )


def _statuses(runs: Sequence[RunData]) -> str:
    statuses = [run.status for run in runs]
    return ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))


def _number(count: int, noun: str) -> str:
    """Return how many of something.

    >>> _number(1, "run"), _number(1200, "round")
    ('1 run', '1,200 rounds')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"
