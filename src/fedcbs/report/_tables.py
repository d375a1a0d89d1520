"""The tables of a report: what its charts show, in numbers, and what no chart shows."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import final

import numpy as np

from fedcbs.report._groups import BASELINE, Group, baselines, differences
from fedcbs.report._lengths import all_have, common_round, cut, same_length
from fedcbs.report._measure import Reached, default_targets, longest, reached, total
from fedcbs.report._run import ENDED, RunData
from fedcbs.report._table import NONE, Table, extreme, figure, held, over_runs, percent, quantity

__all__ = ["overview", "overview_in_common", "settings", "targets_table"]


def overview(groups: Sequence[Group]) -> Table:
    """Return one row for each group: how it ended, how well, how balanced, at what cost.

    What is best is marked only where all runs are of the same length; see :func:`overview_in_common`.
    """
    common = common_round(groups)
    if same_length(groups):
        return _overview(groups, common, _SPREAD + _on_best(groups, common))
    note = _SPREAD
    if len(groups) > 1:
        note += " Runs are of different lengths, and each counts with all of its rounds, so no number is marked as best."
    return _overview(groups, None, note)


def overview_in_common(groups: Sequence[Group]) -> tuple[int, Table] | None:
    """Return the round up to which all can be compared, and the overview up to it; None where lengths do not differ."""
    common = common_round(groups)
    places = [place for place, group in enumerate(groups) if longest(group).rounds.size]
    if same_length(groups) or not common or len(places) < 2:
        return None
    recorded = cut([groups[place] for place in places], common)
    note = f"The last round that all have, but for runs that diverged or failed. {_SPREAD}{_on_best(recorded, common)}"
    return common, dataclasses.replace(_overview(recorded, common, note), groups=places)


_SPREAD = "Mean over seeds ± sample standard deviation; behind it, of how many runs, where not of all."


def _on_best(groups: Sequence[Group], common: int) -> str:
    rivals = sum(all_have(group, common) for group in groups)
    if not common or rivals < 2:
        return ""
    which = f", among methods whose runs all have round {common:,}" if rivals < len(groups) else ""
    return f" Bold: the best of a column{which}."


def _overview(groups: Sequence[Group], common: int | None, note: str) -> Table:
    """The overview; among groups whose runs all have the round `common`, the best is marked."""
    columns = [column for column in _OVERVIEW if any(held(group, column.value) for group in groups)]
    rows = [
        [
            group.label,
            str(len(group.runs)),
            _rounds_of(group),
            _statuses(group),
            *(_over_runs_text(group, column) for column in columns),
        ]
        for group in groups
    ]
    rivals = [place for place, group in enumerate(groups) if common and all_have(group, common)]
    best = {
        (place, _ABOUT + number)
        for number, column in enumerate(columns)
        for place in _best_of({place: groups[place] for place in rivals}, column)
    }
    header = ["Method", "Runs", "Rounds", "Status", *(column.title for column in columns)]
    return Table(header, rows, range(len(groups)), frozenset(best), note)


_ABOUT = 4
"""Columns of the overview that say what it is about."""


def _best_of(rivals: Mapping[int, Group], column: _Column) -> list[int]:
    """The places of the best; a group with a run that does not have the number is not compared."""
    values = {place: [column.value(run) for run in group.runs] for place, group in rivals.items()}
    means = {
        place: column.better * float(np.mean(found))
        for place, found in values.items()
        if np.isfinite(found).all()
    }
    if not column.better or len(means) < 2:
        return []
    return [place for place, mean in means.items() if mean == max(means.values())]


def _over_runs_text(group: Group, column: _Column) -> str:
    text = column.shown(*over_runs(group, column.value))
    having = sum(math.isfinite(column.value(run)) for run in group.runs)
    return text if having in (0, len(group.runs)) else f"{text} ({having} of {len(group.runs)})"


def targets_table(groups: Sequence[Group], targets: Sequence[float] | None = None) -> Table | None:
    """Return the rounds that each group took to reach target accuracies; None where nobody was evaluated."""
    wanted = sorted(set(targets)) if targets else default_targets(groups)
    if not wanted or not any(held(group, _best_accuracy) for group in groups):
        return None
    found = {target: [reached(group, target) for group in groups] for target in wanted}
    bases = baselines(groups)
    compared = any(base not in (None, place) for place, base in enumerate(bases))
    base_name = BASELINE if any(group.method == BASELINE for group in groups) else groups[0].method
    header, rows, best = ["Method"], [[group.label] for group in groups], set()
    for target, ones in found.items():
        best |= {(place, len(header)) for place in _soonest(groups, target)}
        header.append(f"Rounds to {100 * target:g}%")
        for row, one in zip(rows, ones, strict=True):
            row.append(_reached_text(one))
        if compared:
            header.append(f"{base_name} / this")
            for row, base, one in zip(rows, bases, ones, strict=True):
                row.append(NONE if base is None else _ratio(ones[base], one))
    note = _REACHED + _on_baseline(groups, bases, base_name)
    return Table(header, rows, range(len(groups)), frozenset(best), note)


_REACHED = (
    "First evaluated round with that accuracy, mean over the runs that reached it ± sample standard deviation; behind it,"
    " how many did, where not all. The fewest are bold, unless runs that did not reach it could, going on, need fewer."
)


def _on_baseline(groups: Sequence[Group], bases: Sequence[int | None], name: str) -> str:
    others = {base for place, base in enumerate(bases) if base is not None and base != place}
    if not others:
        none = f" No {name} here has the same settings as another method, so none is compared with it."
        return none if len(groups) > 1 else ""
    only = groups[min(others)].label if len(others) == 1 else name
    return (
        f" {name} / this says how many times fewer rounds than the baseline, {only} with settings that are the same"
        f" but for the selector. {NONE} stands where there is not exactly one such, or where not all runs of both reached the target."
    )


def _soonest(groups: Sequence[Group], target: float) -> list[int]:
    """The places of the groups that took the fewest rounds, where it is certain that no other takes fewer."""
    least = [_least_rounds(group, target) for group in groups]
    complete = [all(run.first_round_with(target) is not None for run in group.runs) for group in groups]
    return [
        place
        for place, whole in enumerate(complete)
        if whole and len(groups) > 1 and least[place] == min(least)
    ]


def _least_rounds(group: Group, target: float) -> float:
    """The fewest rounds, in the mean, that a group can take: a run that goes on may reach the target at once.

    One that cannot go on, or has not begun, stands in nobody's way.
    """
    never = [run.status in ENDED or not run.rounds.size for run in group.runs]
    rounds = [
        run.first_round_with(target) or (math.inf if out else run.last_round + 1)
        for run, out in zip(group.runs, never, strict=True)
    ]
    return float(np.mean(rounds))


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
    rows = [
        [str(run.path), group.label, _seed(run), f"{run.last_round:,}", run.status]
        for group in groups
        for run in group.runs
    ]
    tables.append(("Runs", Table(["Folder", "Method", "Seed", "Rounds", "Status"], rows)))
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
    last = [run.last_round for run in group.runs]
    return f"{min(last):,}" if min(last) == max(last) else f"{min(last):,} to {max(last):,}"


def _statuses(group: Group) -> str:
    statuses = [run.status for run in group.runs]
    kinds = dict.fromkeys(statuses)
    return statuses[0] if len(kinds) == 1 else ", ".join(f"{statuses.count(kind)} {kind}" for kind in kinds)


def _reached_text(one: Reached) -> str:
    if not one.rounds:
        return "not reached"
    text = f"{one.mean:,.0f} ± {one.std:,.0f}" if len(one.rounds) > 1 else f"{one.mean:,.0f}"
    return text if len(one.rounds) == one.runs else f"{text} ({len(one.rounds)} of {one.runs})"


def _ratio(base: Reached, one: Reached) -> str:
    complete = len(base.rounds) == base.runs and len(one.rounds) == one.runs
    return f"{base.mean / one.mean:.2f}" if complete and one.mean else NONE


def _value(value: object) -> str:
    if value is None:
        return NONE
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _seed(run: RunData) -> str:
    return NONE if run.seed is None else str(run.seed)
