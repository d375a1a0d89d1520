"""Stacked bars, one for each group: where time and bytes went."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from fedcbs.report._chart import AXIS, Chart, numbers, plain
from fedcbs.report._groups import Group
from fedcbs.report._measure import longest, mean_and_std, total
from fedcbs.report._run import STAGES, RunData

__all__ = ["bytes_sent", "seconds_spent"]


def _per_run(group: Group, value: Callable[[RunData], float]) -> float:
    return mean_and_std([value(run) for run in group.runs])[0]


def _other_seconds(run: RunData) -> float:
    known = sum(value for stage in STAGES if math.isfinite(value := total(run, stage)))
    return max(total(run, "total_seconds") - known, 0.0)


def _total_of(column: str) -> Callable[[RunData], float]:
    return lambda run: total(run, column)


def seconds_spent(groups: Sequence[Group]) -> Chart | None:
    stages = {stage: _total_of(stage) for stage in STAGES}
    return _bars(
        groups,
        {**stages, "other": _other_seconds},
        Chart(
            "time",
            "Time of a run",
            "Computing, sum over its rounds, mean over seeds. It depends on the machine.",
            [],
            {"xaxis": {**AXIS, "title": {"text": "Seconds"}}},
            height=130,
            per_row=30,
        ),
        "%{x:.4~g} s",
    )


def bytes_sent(groups: Sequence[Group]) -> Chart | None:
    return _bars(
        groups,
        {
            "from clients": lambda run: total(run, "bytes_up") / 1e6,
            "to clients": lambda run: total(run, "bytes_down") / 1e6,
        },
        Chart(
            "bytes",
            "Bytes sent by a run",
            "Sum over its rounds, mean over seeds; with what selectors asked of clients.",
            [],
            {"xaxis": {**AXIS, "title": {"text": "Megabytes"}}},
            height=130,
            per_row=30,
        ),
        "%{x:,.4~g} MB",
    )


def _bars(
    groups: Sequence[Group], parts: Mapping[str, Callable[[RunData], float]], chart: Chart, hover: str
) -> Chart | None:
    """Stacked bars, one for each group with a recorded round."""
    places = [place for place, group in enumerate(groups) if longest(group).rounds.size]
    names = [plain(groups[place].short) for place in places]
    rows = {part: [_per_run(groups[place], value) for place in places] for part, value in parts.items()}
    kept = {part: row for part, row in rows.items() if any(math.isfinite(v) and v > 0 for v in row)}
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": part,
            "y": names,
            "x": numbers(row, 6),
            "hovertemplate": f"%{{y}}<br>{part}: {hover}<extra></extra>",
            "meta": {"groups": places, "part": number},
        }
        for number, (part, row) in enumerate(kept.items())
    ]
    layout = {
        **chart.layout,
        "barmode": "stack",
        "hovermode": "closest",
        "showlegend": True,
        "yaxis": {**AXIS, "type": "category", "autorange": "reversed"},
    }
    return dataclasses.replace(chart, traces=traces, layout=layout) if traces else None
