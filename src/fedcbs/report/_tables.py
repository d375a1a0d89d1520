"""The tables of a report: what its charts show, in numbers, and what no chart shows."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from fedcbs.report._groups import Group, differences
from fedcbs.report._measure import (
    band,
    class_shares,
    default_targets,
    mean_and_std,
    median_cohort,
    per_class_of,
    reached,
    total,
)
from fedcbs.report._run import STAGES, RunData

__all__ = ["Table", "overview", "settings", "table_of", "targets_table"]

NONE = "-"
"""Stands where there is no number."""

BASELINE = "uniform"
"""What rounds to a target are compared with, where it is among the groups; the first group otherwise."""

STEPS = 12
"""Rows of a table of a curve at most."""


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


def overview(groups: Sequence[Group]) -> Table:
    """Return one row for each group: how it ended, how well, how balanced, at what cost."""
    columns = [column for column in _OVERVIEW if any(_held(group, column.value) for group in groups)]
    values = [[_over_runs(group, column.value) for column in columns] for group in groups]
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
    if not wanted or not any(_held(group, _best_accuracy) for group in groups):
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


def table_of(chart: str, groups: Sequence[Group]) -> Table | None:
    """Return the table that says in numbers what a chart shows."""
    name = "participation" if chart.startswith("participation-") else chart
    make = _TABLES.get(name)
    return make(groups) if make is not None else None


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


def _percent(mean: float, std: float) -> str:
    spread = f" ± {100 * std:.2f}" if math.isfinite(std) else ""
    return f"{100 * mean:.2f}{spread}%" if math.isfinite(mean) else NONE


def _number(mean: float, std: float) -> str:
    spread = f" ± {std:,.2g}" if math.isfinite(std) else ""
    return f"{mean:,.4g}{spread}" if math.isfinite(mean) else NONE


def _figure(mean: float, std: float) -> str:
    del std
    return f"{mean:,.4g}" if math.isfinite(mean) else NONE


def _best_accuracy(run: RunData) -> float:
    return _extreme(run, "accuracy", np.nanmax)


def _final_accuracy(run: RunData) -> float:
    values = run.columns["accuracy"]
    held = np.flatnonzero(np.isfinite(values))
    return float(values[held[-1]]) if held.size else math.nan


def _extreme(run: RunData, column: str, of: Callable[[Any], Any]) -> float:
    values = run.columns[column]
    return float(of(values)) if np.isfinite(values).any() else math.nan


def _coverage(run: RunData) -> float:
    times = run.times_selected()
    return float((times > 0).mean()) if times.any() else math.nan


def _megabytes(run: RunData) -> float:
    return (total(run, "bytes_up") + total(run, "bytes_down")) / 1e6


_OVERVIEW = (
    _Column("Best accuracy", _best_accuracy, 1, _percent),
    _Column("Final accuracy", _final_accuracy, 1, _percent),
    _Column("Best worst class", lambda run: _extreme(run, "worst_class_accuracy", np.nanmax), 1, _percent),
    _Column("QCID, 1e-2", lambda run: 100 * _extreme(run, "qcid", np.nanmean), -1, _number),
    _Column("Coverage", _coverage, 1, _percent),
    _Column("Clients asked", lambda run: total(run, "asked") or math.nan, 0, _figure),
    _Column("Megabytes", _megabytes, -1, _figure),
    _Column("Seconds", lambda run: total(run, "total_seconds"), 0, _figure),
)


def _over_runs(group: Group, value: Callable[[RunData], float]) -> tuple[float, float]:
    return mean_and_std([value(run) for run in group.runs])


def _total_of(column: str, unit: float = 1.0) -> Callable[[RunData], float]:
    return lambda run: total(run, column) / unit


def _held(group: Group, value: Callable[[RunData], float]) -> bool:
    return any(math.isfinite(value(run)) for run in group.runs)


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


def _curve_table(column: str, shown: Callable[[float, float], str]) -> Callable[[Sequence[Group]], Table]:
    """What a curve shows at some rounds."""

    def make(groups: Sequence[Group]) -> Table:
        bands = [band(group, column) for group in groups]
        rounds = np.unique(np.concatenate([found.rounds for found in bands]))
        if len(rounds) > STEPS:
            rounds = rounds[np.unique(np.linspace(0, len(rounds) - 1, STEPS).round().astype(int))]
        rows = []
        for index in rounds.tolist():
            cells = [f"{index:,}"]
            for found in bands:
                place = int(np.searchsorted(found.rounds, index))
                there = place < len(found.rounds) and int(found.rounds[place]) == index
                std = float(found.std[place]) if there and found.seeds[place] > 1 else math.nan
                cells.append(shown(float(found.mean[place]), std) if there else NONE)
            rows.append(cells)
        return Table(["Round", *(group.label for group in groups)], rows)

    return make


def _loss_table(groups: Sequence[Group]) -> Table:
    tested = any(_held(group, lambda run: _extreme(run, "test_loss", np.nanmin)) for group in groups)
    return _curve_table("test_loss" if tested else "loss", _number)(groups)


def _qcid_table(groups: Sequence[Group]) -> Table:
    """Mean, percentiles and the lowest over all rounds of all seeds."""
    rows = []
    for group in groups:
        values = np.concatenate([100 * run.columns["qcid"] for run in group.runs])
        values = values[np.isfinite(values)]
        if values.size:
            found = [values.mean(), *np.percentile(values, [10, 50, 90]), values.min()]
        else:
            found = [math.nan] * 5
        rows.append([group.label, *(f"{value:.4g}" if math.isfinite(value) else NONE for value in found)])
    header = ["Method", "Mean QCID, 1e-2", "10th percentile", "Median", "90th percentile", "Lowest"]
    return Table(header, rows, range(len(groups)), note="Over all rounds of all seeds.")


def _participation_table(groups: Sequence[Group]) -> Table | None:
    """How often clients were selected, by the class that they have most of."""
    rows, owners = [], []
    for number, group in enumerate(groups):
        for run in group.runs[:1]:
            times = run.times_selected()
            if not times.any():
                continue
            spread = f"{times.mean():.3g} ({times.min()} to {times.max()})"
            cells = [group.label, f"{100 * (times > 0).mean():.1f}%", spread]
            if run.label_counts is not None:
                main = run.label_counts.argmax(axis=1)
                width = run.label_counts.shape[1]
                cells += [
                    f"{times[main == c].mean():.3g}" if (main == c).any() else NONE for c in range(width)
                ]
            rows.append(cells)
            owners.append(number)
    if not rows:
        return None
    width = max(map(len, rows))
    rows = [cells + [NONE] * (width - len(cells)) for cells in rows]
    header = ["Method", "Ever selected", "Times selected: mean (least to most)"]
    header += [f"most of class {c}" for c in range(width - len(header))]
    return Table(
        header, rows, owners, note="One run each. Times that a client was selected, by its main class."
    )


def _labels_table(groups: Sequence[Group]) -> Table | None:
    found = {number: class_shares(group) for number, group in enumerate(groups)}
    rows = {number: share for number, share in found.items() if share is not None}
    if not rows:
        return None
    width = max(share.shape[1] for share in rows.values())
    cells = [
        [groups[number].label, *(f"{m:.1%} ({low:.1%} to {high:.1%})" for low, m, high in share.T.tolist())]
        for number, share in rows.items()
    ]
    cells = [row + [NONE] * (1 + width - len(row)) for row in cells]
    return Table(["Method", *(f"class {c}" for c in range(width))], cells, list(rows))


def _cohort_table(groups: Sequence[Group]) -> Table | None:
    found = {number: median_cohort(group) for number, group in enumerate(groups)}
    rows = {number: cohort for number, cohort in found.items() if cohort is not None}
    if not rows:
        return None
    width = max(len(shares) for _, shares in rows.values())
    cells = [
        [groups[number].label, f"{index:,}", *(f"{share:.1%}" for share in shares.tolist())]
        for number, (index, shares) in rows.items()
    ]
    cells = [row + [NONE] * (2 + width - len(row)) for row in cells]
    return Table(["Method", "Round", *(f"class {c}" for c in range(width))], cells, list(rows))


def _per_class_table(groups: Sequence[Group]) -> Table | None:
    found = {number: per_class_of(group) for number, group in enumerate(groups)}
    rows = {number: row for number, row in found.items() if row is not None}
    if not rows:
        return None
    width = max(map(len, rows.values()))
    cells = [
        [groups[number].label, *(f"{v:.1%}" if math.isfinite(v) else NONE for v in row.tolist())]
        for number, row in rows.items()
    ]
    cells = [row + [NONE] * (1 + width - len(row)) for row in cells]
    return Table(["Method", *(f"class {c}" for c in range(width))], cells, list(rows))


def _time_table(groups: Sequence[Group]) -> Table:
    columns = (*STAGES, "total_seconds", "simulated_seconds")
    rows = [
        [
            group.label,
            *(_figure(*_over_runs(group, _total_of(column))) for column in columns),
        ]
        for group in groups
    ]
    header = ["Method", "Selecting, s", "Training, s", "Evaluating, s", "Saving, s", "All, s", "Simulated, s"]
    return Table(header, rows, range(len(groups)))


def _bytes_table(groups: Sequence[Group]) -> Table:
    rows = [
        [
            group.label,
            *(_figure(*_over_runs(group, _total_of(c, 1e6))) for c in ("bytes_up", "bytes_down")),
            _figure(*_over_runs(group, lambda run: total(run, "asked"))),
        ]
        for group in groups
    ]
    header = ["Method", "From clients, MB", "To clients, MB", "Clients asked before a choice"]
    return Table(header, rows, range(len(groups)))


_TABLES: dict[str, Callable[[Sequence[Group]], Table | None]] = {
    "accuracy": _curve_table("accuracy", _percent),
    "worst-class": _curve_table("worst_class_accuracy", _percent),
    "clients": _curve_table("client_p10", _percent),
    "loss": _loss_table,
    "qcid": _qcid_table,
    "participation": _participation_table,
    "labels": _labels_table,
    "cohort": _cohort_table,
    "per-class": _per_class_table,
    "time": _time_table,
    "bytes": _bytes_table,
}


def _value(value: object) -> str:
    if value is None:
        return NONE
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _seed(run: RunData) -> str:
    return NONE if run.seed is None else str(run.seed)
