"""Charts of the cohorts: who was selected, which labels they had; and what the model makes of each class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedcbs.report._chart import AXIS, FEW_CLASSES, Chart, class_ticks, dashed, numbers, plain
from fedcbs.report._groups import Group
from fedcbs.report._measure import (
    Participation,
    class_shares,
    longest,
    median_cohort,
    participation,
    per_class_of,
)

__all__ = ["class_ranges", "participations", "per_class", "typical_cohorts"]


def participations(groups: Sequence[Group]) -> list[Chart]:
    made = []
    for number, group in enumerate(groups):
        run = longest(group)
        found = participation(run)
        if found is None:
            continue
        seed = f"Seed {run.seed}. " if run.seed is not None else ""
        note = (
            seed
            + f"{found.coverage:.1%} of {run.num_clients} clients were ever selected; Gini {found.gini:.3f}."
        )
        made.append(
            Chart(
                f"participation-{number}",
                f"Who was selected: {group.label}",
                note,
                [_participation_trace(found, number)],
                _participation_layout(found),
                height=340,
                group=number,
            )
        )
    return made


def _participation_trace(found: Participation, number: int) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "x": numbers(found.rounds),
        "y": _row_names(found),
        "z": [numbers(row, 3) for row in found.share],
        "hovertemplate": "%{y}<br>about round %{x}: selected in %{z:.1%} of rounds<extra></extra>",
        "zmin": 0,
        "meta": {"group": number, "scale": "sequential"},
        "colorbar": {
            "title": {"text": "share of rounds", "side": "right"},
            "tickformat": ".0%",
            "thickness": 12,
        },
    }


def _row_names(found: Participation) -> list[str]:
    """What a row of the heat map stands for; no two rows have the same name."""
    spans = zip(found.clients[:-1].tolist(), (found.clients[1:] - 1).tolist(), strict=True)
    if found.main_class is None:
        return [f"client {a}" if a == b else f"clients {a} to {b}" for a, b in spans]
    return [
        f"most of class {label} (row {a})" if a == b else f"most of class {label} (rows {a} to {b})"
        for (a, b), label in zip(spans, found.main_class.tolist(), strict=True)
    ]


def _participation_layout(found: Participation) -> dict[str, Any]:
    axis: dict[str, Any] = {**AXIS, "type": "category", "autorange": "reversed", "nticks": 8}
    axis["title"] = {"text": "Clients"}
    if found.main_class is not None:
        classes, first, sizes = np.unique(found.main_class, return_index=True, return_counts=True)
        step = -(-len(classes) // FEW_CLASSES)
        axis["title"] = {"text": "Clients, by main class"}
        axis["tickvals"] = (first + (sizes - 1) / 2).tolist()[::step]
        axis["ticktext"] = [f"class {label}" for label in classes][::step]
    return {"xaxis": {**AXIS, "title": {"text": "Round"}}, "yaxis": axis, "hovermode": "closest"}


def class_ranges(groups: Sequence[Group]) -> Chart | None:
    found = {number: class_shares(group) for number, group in enumerate(groups)}
    shares = {number: share for number, share in found.items() if share is not None}
    if not shares:
        return None
    classes = max(share.shape[1] for share in shares.values())
    traces = []
    for place, (number, share) in enumerate(shares.items()):
        low, middle, high = share
        shift = 0.8 * ((place + 0.5) / len(shares) - 0.5)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plain(groups[number].short),
                "x": numbers((np.arange(share.shape[1]) + shift).tolist()),
                "y": numbers(middle),
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": numbers(high - middle),
                    "arrayminus": numbers(middle - low),
                    "thickness": 1.6,
                    "width": 0,
                },
                "customdata": [
                    [label, *numbers([a, b])] for label, (a, b) in enumerate(zip(low, high, strict=True))
                ],
                "hovertemplate": "%{fullData.name}<br>class %{customdata[0]}: %{y:.1%}"
                " (%{customdata[1]:.1%} to %{customdata[2]:.1%})<extra></extra>",
                "meta": {"group": number},
            }
        )
    layout = {
        "hovermode": "closest",
        "xaxis": {**AXIS, "title": {"text": "Class"}, "range": [-0.6, classes - 0.4], **class_ticks(classes)},
        "yaxis": {
            **AXIS,
            "title": {"text": "Share of the cohort's labels"},
            "tickformat": ".0%",
            "rangemode": "tozero",
        },
        "shapes": [dashed("h", 1 / classes)],
    }
    note = "Marker: median over all rounds and seeds. Bar: from the 10th to the 90th percentile. Dashed: balanced."
    return Chart("labels", "Label shares of the cohorts", note, traces, layout)


def typical_cohorts(groups: Sequence[Group]) -> Chart | None:
    found = {number: median_cohort(group) for number, group in enumerate(groups)}
    cohorts = {number: cohort for number, cohort in found.items() if cohort is not None}
    if not cohorts:
        return None
    classes = max(len(shares) for _, shares in cohorts.values())
    names = [plain(groups[number].short) for number in cohorts]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": f"class {label}",
            "y": names,
            "x": numbers([s[label] if label < len(s) else math.nan for _, s in cohorts.values()]),
            "customdata": [[round_] for round_, _ in cohorts.values()],
            "hovertemplate": f"%{{y}}, round %{{customdata[0]}}<br>class {label}: %{{x:.1%}}<extra></extra>",
            "meta": {"groups": list(cohorts), "class": [label, classes]},
        }
        for label in range(classes)
    ]
    layout = {
        "barmode": "stack",
        "hovermode": "closest",
        "xaxis": {**AXIS, "title": {"text": "Share of each class"}, "tickformat": ".0%", "range": [0, 1]},
        "yaxis": {**AXIS, "type": "category", "autorange": "reversed"},
        "shapes": [dashed("v", b / classes) for b in range(1, classes)] if classes <= FEW_CLASSES else [],
    }
    note = "The cohort whose imbalance is the median of its run; one colour a class."
    if classes <= FEW_CLASSES:
        note += " Dashed: where a balanced cohort's borders are."
    return Chart("cohort", "A typical cohort", note, traces, layout, height=110, per_row=34)


def per_class(groups: Sequence[Group]) -> Chart | None:
    found = {number: per_class_of(group) for number, group in enumerate(groups)}
    held = {number: row for number, row in found.items() if row is not None}
    if not held:
        return None
    classes = max(len(row) for row in held.values())
    rows = [numbers([*row, *[math.nan] * (classes - len(row))], 4) for row in held.values()]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": list(range(classes)),
        "y": [plain(groups[number].short) for number in held],
        "z": rows,
        "hovertemplate": "%{y}<br>class %{x}: %{z:.1%}<extra></extra>",
        "zmin": 0,
        "zmax": 1,
        "xgap": 2,
        "ygap": 2,
        "meta": {"groups": list(held), "scale": "sequential"},
        "colorbar": {"tickformat": ".0%", "thickness": 12},
    }
    if classes <= FEW_CLASSES:
        trace["texttemplate"] = "%{z:.0%}"
    layout = {
        "hovermode": "closest",
        "xaxis": {**AXIS, "title": {"text": "Class"}, **class_ticks(classes)},
        "yaxis": {**AXIS, "type": "category", "autorange": "reversed"},
    }
    note = "At the last evaluation, mean over seeds."
    return Chart("per-class", "Accuracy of each class", note, [trace], layout, height=110, per_row=34)
