"""Figures of runs: accuracy, imbalance and participation over rounds, for one selector or several over seeds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcbs.laboratory import lorenz_curve
from fedcbs.plotting._save import check_figure_path, require_matplotlib, save_figure
from fedcbs.plotting._style import FAINT, RC, bare, colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedcbs.runs import Run

__all__ = ["figure_of_runs", "plot_runs"]

FOOT = 1e-5
"""QCIDs below are drawn here."""


def plot_runs(runs: Mapping[str, Sequence[Run]], path: str | os.PathLike[str]) -> None:
    """Draw the figure of runs into a .png, .pdf or .svg file."""
    check_figure_path(path)
    save_figure(figure_of_runs(runs), path)


def figure_of_runs(runs: Mapping[str, Sequence[Run]]) -> Figure:
    """Draw runs: a figure that belongs to no window and to no pyplot state.

    Parameters
    ----------
    runs
        By the name of what differs, such as the selector; several runs of a name are its seeds.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(RC):
        figure = Figure(figsize=(11.0, 6.4), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(1.5, 1.0))
        accuracy, loss = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
        balance, participation = figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[1, 1])
        colours = colours_of(runs)
        _draw_accuracy(accuracy, runs, colours)
        _draw_classes(loss, runs, colours)
        _draw_qcid(balance, runs, colours)
        _draw_participation(participation, runs, colours)
        handles, labels = accuracy.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(runs), 6), handlelength=1.6)
    return figure


def _draw_accuracy(axes: Axes, runs: Mapping[str, Sequence[Run]], colours: Mapping[str, str]) -> None:
    """Mean over seeds, with the band from the lowest to the highest."""
    for name, seeds in runs.items():
        rounds, values = _aligned(
            [{r.round: r.accuracy for r in run.records if r.accuracy is not None} for run in seeds]
        )
        _line(axes, rounds, values, colours[name], label=name)
    axes.set_title("Test accuracy of the global model")
    axes.set_xlabel("round")
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.margins(x=0.01)
    bare(axes, grid="y")


def _draw_classes(axes: Axes, runs: Mapping[str, Sequence[Run]], colours: Mapping[str, str]) -> None:
    """Accuracy of each class at the end, worst first: mean over seeds of the sorted accuracies."""
    for name, seeds in runs.items():
        ends = [_last_per_class(run) for run in seeds]
        ends = [sorted(end) for end in ends if end]
        if not ends:
            continue
        fewest = min(map(len, ends))
        mean = np.mean([end[:fewest] for end in ends], axis=0)
        axes.plot(np.arange(1, fewest + 1), mean, "o-", color=colours[name], markersize=3.5, linewidth=1.2)
    axes.set_title("Accuracy of each class, worst first")
    axes.set_xlabel("rank of the class, at the last evaluation")
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_ylim(-0.02, 1.02)
    bare(axes, grid="y")


def _draw_qcid(axes: Axes, runs: Mapping[str, Sequence[Run]], colours: Mapping[str, str]) -> None:
    windows = set()
    for name, seeds in runs.items():
        rounds, values = _aligned(
            [{r.round: r.qcid for r in run.records if r.qcid is not None} for run in seeds]
        )
        window = max(1, len(rounds) // 10)
        if len(rounds) == 0:
            continue
        windows.add(window)
        kernel = np.ones(window) / window
        smooth = np.array([np.convolve(row, kernel, mode="valid") for row in values])
        _line(axes, rounds[window - 1 :], np.maximum(smooth, FOOT), colours[name])
    axes.set_yscale("log")
    axes.set_title(f"Imbalance of the cohorts: QCID (lower is better; under {FOOT:g} drawn there)")
    axes.set_xlabel("round" + (f" (mean of the last {max(windows)})" if max(windows, default=1) > 1 else ""))
    axes.margins(x=0.01)
    bare(axes, grid="y")


def _draw_participation(axes: Axes, runs: Mapping[str, Sequence[Run]], colours: Mapping[str, str]) -> None:
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1.0, linestyle=(0, (4, 3)))
    for name, seeds in runs.items():
        times = np.concatenate([_times_selected(run) for run in seeds])
        clients, selections = lorenz_curve(np.bincount(times))
        axes.plot(clients, selections, color=colours[name])
    axes.set_title("Participation (dashed: all alike)")
    axes.set_xlabel("share of clients, least selected first")
    axes.set_ylabel("share of all selections")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:.0%}")
    bare(axes, grid="both")


def _line(
    axes: Axes,
    rounds: NDArray[np.int64],
    values: NDArray[np.float64],
    colour: str,
    label: str | None = None,
) -> None:
    if len(rounds) == 0:
        axes.plot([], [], color=colour, label=label)
        return
    if len(values) > 1:
        axes.fill_between(
            rounds, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.16, linewidth=0
        )
    axes.plot(rounds, values.mean(axis=0), "o" if len(rounds) == 1 else "-", color=colour, label=label)


def _aligned(series: Sequence[Mapping[int, float]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rounds that all seeds have, and their values: seeds x rounds."""
    common = sorted(set.intersection(*(set(one) for one in series))) if series else []
    values = np.array([[one[number] for number in common] for one in series], dtype=np.float64)
    return np.array(common, dtype=np.int64), values


def _last_per_class(run: Run) -> list[float]:
    for record in reversed(run.records):
        if record.per_class_accuracy is not None:
            return [value for value in record.per_class_accuracy if value is not None]
    return []


def _times_selected(run: Run) -> NDArray[np.int64]:
    clients = int(run.config["partition"]["clients"])
    chosen = [client for record in run.records for client in record.cohort]
    return np.bincount(np.array(chosen, dtype=np.int64), minlength=clients)
