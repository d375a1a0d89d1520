"""What all tables of a report are made of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from fedcbs.report._groups import Group
from fedcbs.report._measure import mean_and_std, total
from fedcbs.report._run import RunData

__all__ = ["NONE", "Table", "extreme", "figure", "held", "over_runs", "percent", "quantity", "total_of"]

NONE = "-"
"""Stands where there is no number."""


@final
@dataclasses.dataclass(frozen=True)
class Table:
    """A table of texts.

    Parameters
    ----------
    header
        Titles of the columns.
    rows
        Cells, the first of each the row's own title.
    groups
        The group that each row is of, where it is of one.
    best
        Places (row, column) of the best values.
    note
        What a reader should know.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    groups: Sequence[int | None] = ()
    best: frozenset[tuple[int, int]] = frozenset()
    note: str = ""


def percent(mean: float, std: float) -> str:
    """A share as a percentage, with its spread where there is one."""
    spread = f" ± {100 * std:.2f}" if math.isfinite(std) else ""
    return f"{100 * mean:.2f}{spread}%" if math.isfinite(mean) else NONE


def quantity(mean: float, std: float) -> str:
    """A number with its spread where there is one."""
    spread = f" ± {std:,.2g}" if math.isfinite(std) else ""
    return f"{mean:,.4g}{spread}" if math.isfinite(mean) else NONE


def figure(mean: float, std: float) -> str:
    """A number without its spread.

    >>> figure(25_333.4, 0.0), figure(0.12345, 0.0)
    ('25,333', '0.1235')
    """
    del std
    if not math.isfinite(mean):
        return NONE
    return f"{mean:,.0f}" if abs(mean) >= 1000 else f"{mean:.4g}"


def over_runs(group: Group, value: Callable[[RunData], float]) -> tuple[float, float]:
    """Mean and sample standard deviation over the runs of a group."""
    return mean_and_std([value(run) for run in group.runs])


def total_of(column: str, unit: float = 1.0) -> Callable[[RunData], float]:
    """What sums a column over the rounds of a run."""
    return lambda run: total(run, column) / unit


def held(group: Group, value: Callable[[RunData], float]) -> bool:
    """Whether any run of a group has a number."""
    return any(math.isfinite(value(run)) for run in group.runs)


def extreme(run: RunData, column: str, of: Callable[[Any], Any]) -> float:
    """The most or the least of a column; NaN where no round has it."""
    values = run.columns[column]
    return float(of(values)) if np.isfinite(values).any() else math.nan
