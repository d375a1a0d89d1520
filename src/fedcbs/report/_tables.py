"""The tables of a report: what its charts show, in numbers, and what no chart shows."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from fedcbs.report._groups import Group, differences
from fedcbs.report._measure import default_targets, reached, total
from fedcbs.report._run import RunData
from fedcbs.report._table import NONE, Table, extreme, figure, held, over_runs, percent, quantity

__all__ = ["overview", "settings", "targets_table"]


BASELINE = "uniform"
"""What rounds to a target are compared with, where it is among the groups; the first group otherwise."""


def overview(groups: Sequence[Group]) -> Table:
    """Return one row for each group: how it ended, how well, how balanced, at what cost."""
    columns = [column for column in _OVERVIEW if any(held(group, column.value) for group in groups)]
    values = [[over_runs(group, column.value) for column in columns] for group in groups]
    rows = [
        [
            group.label,
            str(len(group.runs)),
            _rounds_of(group),
            _statuses(group),
            *(column.shown(*found) for column, found in zip(columns, row, strict=True)),
        ]
        for group, row in zip(groups, values, strict=True)
    ]
    best = set()
    for place, column in enumerate(columns):
        means = [column.better * row[place][0] for row in values]
        finite = [mean for mean in means if math.isfinite(mean)]
        if column.better and len(finite) > 1:
            best |= {(row, 4 + place) for row, mean in enumerate(means) if mean == max(finite)}
    header = ["Method", "Runs", "Rounds", "Status", *(column.title for column in columns)]
    note = "Mean over seeds ± sample standard deviation. The best of a column is bold."
    return Table(header, rows, range(len(groups)), frozenset(best), note)


def targets_table(groups: Sequence[Group], targets: Sequence[float] | None = None) -> Table | None:
    """Return the rounds that each group took to reach target accuracies; None where nobody was evaluated."""
    wanted = sorted(set(targets)) if targets else default_targets(groups)
    if not wanted or not any(held(group, _best_accuracy) for group in groups):
        return None
    found = [[reached(group, target) for target in wanted] for group in groups]
    methods = [group.method for group in groups]
    base = methods.index(BASELINE) if BASELINE in methods else 0
    rows, best = [], set()
    for number, (group, row) in enumerate(zip(groups, found, strict=True)):
        cells = [group.label]
        for place, one in enumerate(row):
            rivals = [other[place].mean for other in found if len(other[place].rounds) == other[place].runs]
            if len(one.rounds) == one.runs and len(rivals) > 1 and one.mean == min(rivals):
                best.add((number, 1 + 2 * place))
            cells += [_reached_text(one), _ratio(found[base][place], one)]
        rows.append(cells)
    titles = [
        text for target in wanted for text in (f"Rounds to {100 * target:g}%", f"{methods[base]} / this")
    ]
    note = (
        "First evaluated round with that accuracy, mean over the runs that reached it ± sample standard deviation;"
        f" behind it, how many did, where not all. The ratio says how many times fewer rounds than {groups[base].label}."
    )
    return Table(["Method", *titles], rows, range(len(groups)), frozenset(best), note)


def settings(groups: Sequence[Group]) -> list[tuple[str, Table]]:
    """Return tables of what differs between groups, of what is the same, and of the versions."""
    differing = differences(groups)
    tables = []
    if differing:
        rows = [
            [group.label, *(_value(values[number]) for values in differing.values())]
            for number, group in enumerate(groups)
        ]
        tables.append(("What differs", Table(["Method", *differing], rows, range(len(groups)))))
    same = {key: value for key, value in groups[0].settings.items() if key not in differing}
    if same:
        rows = [[key, _value(value)] for key, value in same.items()]
        tables.append(("What is the same for all", Table(["Setting", "Value"], rows)))
    versions = sorted({item for group in groups for run in group.runs for item in run.versions.items()})
    if versions:
        tables.append(("Versions", Table(["Software", "Version"], [list(item) for item in versions])))
    rows = [[str(run.path), group.label, _seed(run), run.status] for group in groups for run in group.runs]
    tables.append(("Runs", Table(["Folder", "Method", "Seed", "Status"], rows)))
    return tables


@final
@dataclasses.dataclass(frozen=True)
class _Column:
    """A column of the overview; `better` is 1 if more is, -1 if less is, 0 if neither."""

    title: str
    value: Callable[[RunData], float]
    better: int
    shown: Callable[[float, float], str]


def _best_accuracy(run: RunData) -> float:
    return extreme(run, "accuracy", np.nanmax)


def _final_accuracy(run: RunData) -> float:
    values = run.columns["accuracy"]
    held = np.flatnonzero(np.isfinite(values))
    return float(values[held[-1]]) if held.size else math.nan


def _coverage(run: RunData) -> float:
    times = run.times_selected()
    return float((times > 0).mean()) if times.any() else math.nan


def _megabytes(run: RunData) -> float:
    return (total(run, "bytes_up") + total(run, "bytes_down")) / 1e6


_OVERVIEW = (
    _Column("Best accuracy", _best_accuracy, 1, percent),
    _Column("Final accuracy", _final_accuracy, 1, percent),
    _Column("Best worst class", lambda run: extreme(run, "worst_class_accuracy", np.nanmax), 1, percent),
    _Column("QCID, 1e-2", lambda run: 100 * extreme(run, "qcid", np.nanmean), -1, quantity),
    _Column("Coverage", _coverage, 1, percent),
    _Column("Clients asked", lambda run: total(run, "asked") or math.nan, 0, figure),
    _Column("Megabytes", _megabytes, -1, figure),
    _Column("Seconds", lambda run: total(run, "total_seconds"), 0, figure),
)


def _rounds_of(group: Group) -> str:
    last = [int(run.rounds[-1]) if run.rounds.size else 0 for run in group.runs]
    return f"{min(last):,}" if min(last) == max(last) else f"{min(last):,} to {max(last):,}"


def _statuses(group: Group) -> str:
    statuses = [run.status for run in group.runs]
    kinds = dict.fromkeys(statuses)
    return statuses[0] if len(kinds) == 1 else ", ".join(f"{statuses.count(kind)} {kind}" for kind in kinds)


def _reached_text(one: Any) -> str:
    if not one.rounds:
        return "not reached"
    text = f"{one.mean:,.0f} ± {one.std:,.0f}" if len(one.rounds) > 1 else f"{one.mean:,.0f}"
    return text if len(one.rounds) == one.runs else f"{text} ({len(one.rounds)} of {one.runs})"


def _ratio(base: Any, one: Any) -> str:
    complete = len(base.rounds) == base.runs and len(one.rounds) == one.runs
    return f"{base.mean / one.mean:.2f}" if complete and one.mean else NONE


def _value(value: object) -> str:
    if value is None:
        return NONE
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _seed(run: RunData) -> str:
    return NONE if run.seed is None else str(run.seed)
