"""Runs of different lengths: up to which round they can be compared, and which groups can be."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fedcbs.report._groups import Group
from fedcbs.report._run import ENDED

__all__ = ["all_have", "common_round", "cut", "same_length"]


def common_round(groups: Sequence[Group]) -> int:
    """Return the last round that all runs have; 0 where there is none.

    Runs that got no further, since they diverged or failed, and those without any round do not limit the others.
    """
    runs = [run for group in groups for run in group.runs if run.rounds.size and run.status not in ENDED]
    return min((run.last_round for run in runs), default=0)


def same_length(groups: Sequence[Group]) -> bool:
    """Whether no run goes beyond the round that all have."""
    common = common_round(groups)
    return all(run.last_round <= common for group in groups for run in group.runs)


def all_have(group: Group, round_index: int) -> bool:
    """Whether all runs of a group got to a round."""
    return all(run.last_round >= round_index for run in group.runs)


def cut(groups: Sequence[Group], round_index: int) -> list[Group]:
    """Return the groups without the rounds after that one."""
    return [
        dataclasses.replace(group, runs=[run.up_to(round_index) for run in group.runs]) for group in groups
    ]
