"""The tables that say in numbers what the charts show."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fedcbs.report._groups import Group
from fedcbs.report._measure import band, class_shares, longest, median_cohort, per_class_of, total
from fedcbs.report._run import STAGES
from fedcbs.report._table import NONE, Table, extreme, figure, held, over_runs, percent, quantity, total_of

__all__ = ["table_of"]

STEPS = 12
"""Rows of a table of a curve at most."""


def table_of(chart: str, groups: Sequence[Group]) -> Table | None:
    """Return the table that says in numbers what a chart shows."""
    name = "participation" if chart.startswith("participation-") else chart
    make = _TABLES.get(name)
    return make(groups) if make is not None else None


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
    tested = any(held(group, lambda run: extreme(run, "test_loss", np.nanmin)) for group in groups)
    return _curve_table("test_loss" if tested else "loss", quantity)(groups)


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
        run = longest(group)
        times = run.times_selected()
        if not times.any():
            continue
        spread = f"{times.mean():.3g} ({times.min()} to {times.max()})"
        cells = [group.label, f"{100 * (times > 0).mean():.1f}%", spread]
        if run.label_counts is not None:
            main = run.label_counts.argmax(axis=1)
            width = run.label_counts.shape[1]
            cells += [f"{times[main == c].mean():.3g}" if (main == c).any() else NONE for c in range(width)]
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
            *(figure(*over_runs(group, total_of(column))) for column in columns),
        ]
        for group in groups
    ]
    header = ["Method", "Selecting, s", "Training, s", "Evaluating, s", "Saving, s", "All, s", "Simulated, s"]
    return Table(header, rows, range(len(groups)))


def _bytes_table(groups: Sequence[Group]) -> Table:
    rows = [
        [
            group.label,
            *(figure(*over_runs(group, total_of(c, 1e6))) for c in ("bytes_up", "bytes_down")),
            figure(*over_runs(group, lambda run: total(run, "asked"))),
        ]
        for group in groups
    ]
    header = ["Method", "From clients, MB", "To clients, MB", "Clients asked before a choice"]
    return Table(header, rows, range(len(groups)))


_TABLES: dict[str, Callable[[Sequence[Group]], Table | None]] = {
    "accuracy": _curve_table("accuracy", percent),
    "worst-class": _curve_table("worst_class_accuracy", percent),
    "clients": _curve_table("client_p10", percent),
    "loss": _loss_table,
    "qcid": _qcid_table,
    "participation": _participation_table,
    "labels": _labels_table,
    "cohort": _cohort_table,
    "per-class": _per_class_table,
    "time": _time_table,
    "bytes": _bytes_table,
}
