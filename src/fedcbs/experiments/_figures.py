"""Figures of experiments; they need the extra ``plot``."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedcbs.experiments._definition import Experiment, Scale, Setting
from fedcbs.experiments._found import Found
from fedcbs.experiments._measures import MEASURES
from fedcbs.plotting import _style as house
from fedcbs.plotting import save_figure
from fedcbs.report._groups import Group
from fedcbs.report._measure import Band, axes_of, band, running_mean, thin
from fedcbs.report._style import Look, looks_of_names

__all__ = ["draw"]

_DPI = 110


def draw(
    experiment: Experiment, scale: Scale, document: Mapping[str, Any], found: Found | None, folder: Path
) -> dict[str, str]:
    """Draw the figures of an experiment into a folder, and return their names, each with a line on how to read it."""
    said = ""
    if experiment.kind == "estimated-labels":
        made = {"shares.png": _shares(document)}
    elif experiment.kind == "labels":
        made = {"qcid.png": _beside(document)}
    elif experiment.figure == "over-settings" and experiment.kind == "training":
        made = {"figure.png": _over_settings(experiment, document)}
    elif found is not None and found.runs:
        over = {"costs": ("round", "megabytes", "simulated_seconds")}.get(experiment.figure, ("round",))
        said = _smoothing(experiment, scale, found)
        made = {"curves.png": _curves(experiment, scale, found, over, said)}
    else:
        made = {}
    for name, figure in made.items():
        if figure is not None:
            save_figure(figure, folder / name, dpi=_DPI)
    return {name: said for name, figure in made.items() if figure is not None}


def _smoothing(experiment: Experiment, scale: Scale, found: Found) -> str:
    """What curves show, and why a table may have a target reached before they do."""
    windows = [
        window * step
        for setting in experiment.settings_at(scale)
        for window, step in [_window(_bands(experiment, scale, found, setting))]
        if window > 1
    ]
    text = "Each curve is the mean over a method's runs"
    if windows:
        low, high = min(windows), max(windows)
        text += (
            f", and over the last {low:,} rounds"
            if low == high
            else f", and over the last {low:,} to {high:,} rounds"
        )
    text += "; the band around it is one standard deviation" + (", smoothed likewise." if windows else ".")
    if any(setting.target is not None for setting in experiment.settings_at(scale)):
        text += " Grey dashes: the target."
        if windows and any(MEASURES[measure].of_target for measure in experiment.measures):
            text += " The table counts the first single round that reaches it, which is earlier."
    return text


def _axes(
    number: int, columns: int, titles: Sequence[str], width: float = 3.5, height: float = 2.7
) -> tuple[Any, list[Any]]:
    """A figure with so many axes, and room for a legend above them."""
    from matplotlib.figure import Figure

    rows = -(-number // columns)
    legend = 0.25 + 0.2 * -(-len(titles) // _across(titles, columns))
    figure = Figure(figsize=(width * columns, height * rows + legend), layout="constrained")
    return figure, [figure.add_subplot(rows, columns, place + 1) for place in range(number)]


def _curves(experiment: Experiment, scale: Scale, found: Found, over: Sequence[str], said: str) -> Any:
    """Accuracy of every method in every setting."""
    from matplotlib import rc_context

    labels = {
        "round": "Round",
        "megabytes": "Megabytes sent",
        "simulated_seconds": "Simulated hours",
    }
    methods = experiment.methods_at(scale)
    looks = dict(zip([m.name for m in methods], looks_of_names([m.name for m in methods]), strict=True))
    drawn = [m for m in methods if any(method == m.name for _, method in found.runs)]
    settings = [
        s for s in experiment.settings_at(scale) if any((s.name, m.name) in found.runs for m in methods)
    ]
    with rc_context(house.RC):
        columns = len(over) if len(over) > 1 else min(len(settings), 4 if len(settings) == 4 else 3)
        titles = [method.title for method in drawn]
        figure, axes = _axes(len(settings) * len(over), columns, titles)
        for place, (setting, axis) in enumerate((s, a) for s in settings for a in over):
            own = axes[place]
            bands = _bands(experiment, scale, found, setting)
            window, _ = _window(bands)
            for name, accuracy in bands.items():
                group = Group(name, {}, found.runs[setting.name, name])
                _line(own, group, _smooth(accuracy, window), looks[name], axis)
            own.set(
                title=setting.title,
                xlabel=labels[axis],
                ylabel="Test accuracy (%)" if place % columns == 0 else "",
            )
            _leave_out_the_start(own)
            if setting.target is not None:
                own.axhline(100 * setting.target, color=house.FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
            house.bare(own, grid="y")
        _legend(figure, titles, [looks[method.name] for method in drawn], columns)
        figure.supxlabel(textwrap.fill(said, int(columns * 62)), fontsize=7.5, color="#666666")
    return figure


def _bands(experiment: Experiment, scale: Scale, found: Found, setting: Setting) -> dict[str, Band]:
    """Accuracy over rounds of every method that was evaluated in a setting."""
    runs = {m.name: found.runs.get((setting.name, m.name)) for m in experiment.methods_at(scale)}
    bands = {name: band(Group(name, {}, own), "accuracy") for name, own in runs.items() if own}
    return {name: own for name, own in bands.items() if len(own.rounds)}


def _line(axes: Any, group: Group, accuracy: Band, look: Look, over: str) -> None:
    shown = thin(accuracy, 150)
    x = shown.rounds if over == "round" else axes_of(group, shown.rounds).get(over)
    if x is None:
        return
    x = x / 3600 if over == "simulated_seconds" else x
    low, high = 100 * (shown.mean - shown.std), 100 * (shown.mean + shown.std)
    if (shown.seeds > 1).any():
        axes.fill_between(x, low, high, color=look.light, alpha=0.12, linewidth=0)
    every = max(1, len(shown.rounds) // 6)
    axes.plot(
        x, 100 * shown.mean, color=look.light, linestyle=look.mpl_dash, linewidth=1.2,
        marker=look.mpl_marker, markersize=3.4, markevery=every,
    )  # fmt: skip


def _leave_out_the_start(axes: Any) -> None:
    """Show the upper part, where methods differ; all curves start at the bottom."""
    tops = [float(np.max(line.get_ydata())) for line in axes.get_lines() if len(line.get_ydata())]
    if tops:
        axes.set_ylim(bottom=max(max(tops) - 32, 0))


def _window(bands: Mapping[str, Band]) -> tuple[int, int]:
    """How many evaluations a curve is smoothed over, a fiftieth of the most there are; and the rounds between two."""
    longest = max((own.rounds for own in bands.values()), key=len, default=np.zeros(0, dtype=np.int64))
    step = int(np.median(np.diff(longest))) if len(longest) > 1 else 1
    return max(1, len(longest) // 50), step


def _smooth(found: Band, window: int) -> Band:
    """Means over the last evaluations, so that lines can be told apart."""
    return Band(found.rounds, running_mean(found.mean, window), running_mean(found.std, window), found.seeds)


def _legend(figure: Any, titles: Sequence[str], looks: Sequence[Look], columns: int) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=k.light, linestyle=k.mpl_dash, marker=k.mpl_marker, markersize=4, label=title)
        for title, k in zip(titles, looks, strict=True)
    ]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=_across(titles, columns), handlelength=2.8
    )


def _across(titles: Sequence[str], columns: int) -> int:
    """How many entries of a legend stand beside each other."""
    return max(1, min(len(titles), columns * 40 // (max(map(len, titles)) + 8)))


def _over_settings(experiment: Experiment, document: Mapping[str, Any]) -> Any:
    """What was measured, over a number that settings differ in."""
    from matplotlib import rc_context

    tables = [table for table in document["tables"] if table["measure"] in ("accuracy", "qcid", "rounds")]
    cells = tables[0]["rows"][0]["cells"]
    looks = looks_of_names([cell["method"] for cell in cells])
    columns = [[row["cells"][place] for t in tables for row in t["rows"]] for place in range(len(cells))]
    drawn = [place for place, own in enumerate(columns) if any(cell["ours"] is not None for cell in own)]
    if not drawn:
        return None
    titles = [cells[place]["title"] for place in drawn]
    with rc_context(house.RC):
        figure, axes = _axes(len(tables), len(tables), titles)
        for own, table in zip(axes, tables, strict=True):
            measure = MEASURES[table["measure"]]
            for place in drawn:
                look = looks[place]
                points = [
                    (row["x"], row["cells"][place]["ours"], row["cells"][place]["std"])
                    for row in table["rows"]
                    if row["cells"][place]["ours"] is not None
                ]
                if points:
                    x, y, spread = np.array(points, dtype=float).T
                    own.errorbar(
                        x, y, spread, color=look.light, linestyle=look.mpl_dash, marker=look.mpl_marker,
                        markersize=4.5, linewidth=1.3, capsize=2,
                    )  # fmt: skip
            own.set(title=measure.title, xlabel=experiment.axis, ylabel=measure.unit)
            if table["measure"] == "qcid":
                own.set_yscale("symlog", linthresh=0.01)
            if any(row["x"] for row in table["rows"]) and max(row["x"] for row in table["rows"]) >= 100:
                own.set_xscale("symlog", linthresh=0.1)
            if experiment.rule.get("measure") == table["measure"]:
                own.axhline(experiment.rule["value"], color="#b34700", linewidth=1.0, linestyle=(0, (4, 3)))
                own.annotate(
                    experiment.rule["text"], (0.98, experiment.rule["value"]), xycoords=("axes fraction", "data"),
                    ha="right", va="bottom", color="#b34700",
                )  # fmt: skip
            house.bare(own, grid="y")
        _legend(figure, titles, [looks[place] for place in drawn], len(tables))
    return figure


def _beside(document: Mapping[str, Any]) -> Any:
    """Mean QCID of every method in every setting, and the paper's as hollow marks."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    table = next((found for found in document["tables"] if found["measure"] == "qcid"), None)
    if table is None or not any(cell["runs"] for row in table["rows"] for cell in row["cells"]):
        return None
    titles = [cell["title"] for cell in table["rows"][0]["cells"]]
    looks = looks_of_names([cell["method"] for cell in table["rows"][0]["cells"]])
    foot = 1e-3
    with rc_context(house.RC):
        figure = Figure(figsize=(9.5, 0.55 * len(table["rows"]) + 1.1), layout="constrained")
        own = figure.add_subplot()
        for place, row in enumerate(table["rows"]):
            for number, (cell, look) in enumerate(zip(row["cells"], looks, strict=True)):
                y = place + 0.7 * ((number + 0.5) / len(looks) - 0.5)
                if cell["ours"] is not None:
                    own.plot(max(cell["ours"], foot), y, look.mpl_marker, color=look.light, markersize=6)
                if "paper" in cell:
                    own.plot(
                        max(cell["paper"], foot), y, look.mpl_marker, color=look.light, markersize=9,
                        fillstyle="none",
                    )  # fmt: skip
        own.set_xscale("log")
        own.set(xlabel=f"mean QCID, 1e-2 (filled: ours, hollow: the paper's; {foot:g} stands for all below)")
        own.xaxis.set_major_formatter("{x:g}")
        own.set_yticks(
            range(len(table["rows"])),
            [
                row["title"].partition(",")[0] if len(row["title"]) > 50 else row["title"]
                for row in table["rows"]
            ],
        )
        own.invert_yaxis()
        house.bare(own, grid="x")
        drawn = [
            place
            for place in range(len(looks))
            if any(
                row["cells"][place]["ours"] is not None or "paper" in row["cells"][place]
                for row in table["rows"]
            )
        ]
        marks = [dataclasses.replace(looks[place], mpl_dash="") for place in drawn]
        _legend(figure, [titles[place] for place in drawn], marks, 2)
    return figure


def _shares(document: Mapping[str, Any]) -> Any:
    """True and estimated label shares of the first clients."""
    from matplotlib import rc_context

    details = [entry for table in document["custom"] for entry in table.get("shares", ())]
    if not details:
        return None
    clients = len(details[0]["true"])
    with rc_context(house.RC):
        figure, axes = _axes(len(details) * clients, clients, ["true", "estimated"], 2.2, 1.7)
        for row, entry in enumerate(details):
            for client in range(clients):
                own = axes[row * clients + client]
                for shift, kind, colour in ((-0.2, "true", "#222222"), (0.2, "estimated", "#CC79A7")):
                    shares = np.array(entry[kind][client])
                    own.bar(np.arange(len(shares)) + shift, shares, width=0.4, color=colour, label=kind)
                own.set(
                    ylim=(0, 1),
                    title=f"{entry['setting']}, client {client + 1}"
                    if client == 0
                    else f"client {client + 1}",
                )
                house.bare(own, grid="y")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure
