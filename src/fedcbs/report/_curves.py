"""Curves over rounds, with bands over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcbs.report._chart import AXIS, Chart, numbers, plain
from fedcbs.report._groups import Group
from fedcbs.report._measure import POINTS, Band, axes_of, band, running_mean, thin

__all__ = ["curves"]

Floats = NDArray[np.float64]

_PERCENT = "%{y:.2%} ± %{customdata[0]:.2%} (seeds: %{customdata[1]})"
_NUMBER = "%{y:.4g} ± %{customdata[0]:.3g} (seeds: %{customdata[1]})"


def curves(groups: Sequence[Group]) -> list[Chart | None]:
    """Return the charts over rounds: accuracy, QCID, the worst class, the worst tenth of clients, loss."""
    loss = ("test_loss", "Test loss") if _any(groups, "test_loss") else ("loss", "Loss in local training")
    return [
        _curve(groups, "accuracy", "accuracy", "Test accuracy", ".0%"),
        _qcid(groups),
        _curve(groups, "worst-class", "worst_class_accuracy", "Accuracy of the worst class", ".0%"),
        _curve(
            groups,
            "clients",
            "client_p10",
            "Accuracy that nine of ten clients reach on their own data",
            ".0%",
        ),
        _curve(groups, "loss", *loss, "~g"),
    ]


def _any(groups: Sequence[Group], column: str) -> bool:
    return any(np.isfinite(run.columns[column]).any() for group in groups for run in group.runs)


def _curve(groups: Sequence[Group], name: str, column: str, title: str, tickformat: str) -> Chart | None:
    if not _any(groups, column):
        return None
    bands = [band(group, column) for group in groups]
    most = max(len(found.rounds) for found in bands)
    hover = _PERCENT if "%" in tickformat else _NUMBER
    traces = [
        trace
        for number, found in enumerate(bands)
        for trace in _line(number, groups[number], thin(found), hover)
    ]
    note = "Line: mean over seeds. Band: one standard deviation."
    if most > POINTS:
        note += f" {POINTS} points of {most} are drawn."
    layout = {"yaxis": {**AXIS, "title": {"text": title}, "tickformat": tickformat}}
    return Chart(name, title, note, traces, layout, over=True)


def _line(
    number: int, group: Group, found: Band, hover: str, shown: Callable[[Floats], Floats] = np.asarray
) -> list[dict[str, Any]]:
    """A line and, where there are several seeds, the band under it."""
    if not len(found.rounds):
        return []
    over = {"round": found.rounds.tolist()}
    over |= {axis: numbers(values) for axis, values in axes_of(group, found.rounds).items()}
    columns = (numbers(found.std), found.seeds.tolist(), numbers(found.mean))
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(group.short),
        "x": over["round"],
        "y": numbers(shown(found.mean)),
        "customdata": [list(row) for row in zip(*columns, strict=True)],
        "hovertemplate": hover,
        "meta": {"group": number, "over": over},
    }
    return [_area(number, found, over, shown), line] if (found.seeds > 1).any() else [line]


def _area(
    number: int, found: Band, over: dict[str, list[Any]], shown: Callable[[Floats], Floats]
) -> dict[str, Any]:
    there_and_back = {axis: [*values, *values[::-1]] for axis, values in over.items()}
    high, low = shown(found.mean + found.std), shown(found.mean - found.std)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": there_and_back["round"],
        "y": [*numbers(high), *numbers(low[::-1])],
        "fill": "toself",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "meta": {"group": number, "band": True, "over": there_and_back},
    }


def _qcid(groups: Sequence[Group]) -> Chart | None:
    if not _any(groups, "qcid"):
        return None
    longest = max(len(run.rounds) for group in groups for run in group.runs)
    window = max(1, longest // 50)
    bands = [band(group, lambda run: running_mean(100 * run.columns["qcid"], window)) for group in groups]
    means = np.concatenate([found.mean for found in bands])
    foot = _foot(means)
    traces: list[dict[str, Any]] = []
    hover = "%{customdata[2]:.3~g} ± %{customdata[0]:.2~g} (seeds: %{customdata[1]})"
    for number, (group, found) in enumerate(zip(groups, bands, strict=True)):
        traces += _line(number, group, thin(found), hover, lambda y: np.maximum(y, foot))
    layout = {"yaxis": {**AXIS, "title": {"text": "QCID, 1e-2"}, "type": "log", "dtick": 1}}
    note = (
        f"Mean of the last {window} rounds, over seeds; band: one standard deviation. "
        if window > 1
        else "Mean over seeds; band: one standard deviation. "
    )
    note += f"The scale is logarithmic, and what is below {foot:g} is drawn there; 0 is balanced."
    return Chart("qcid", "Imbalance of the cohorts (QCID)", note, traces, layout, over=True)


def _foot(means: Floats) -> float:
    """A power of ten under which nothing is told apart: four decades below the top at most."""
    found = means[np.isfinite(means) & (means > 0)]
    if not found.size:
        return 1e-4
    top = math.ceil(math.log10(float(found.max())))
    return float(10.0 ** max(math.floor(math.log10(float(found.min()))), top - 4))
